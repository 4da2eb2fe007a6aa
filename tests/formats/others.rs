//! `"*"` in every container: fields of single numbers that no other tensor is made of; and what fields say of records
//! that they can't use.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use ringfeed::csv::Missing;
use ringfeed::field::{Array, Boxes, Field, Image, Keypoints, Numbers};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::{DType, ErrorKind, Loader, LoaderConfig, Result};

fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
    std::fs::write(folder.join(name), text).unwrap();
    folder.join(name)
}

/// The first record of a tensor.
fn first(loader: Loader, tensor: &str) -> Result<Vec<f64>> {
    let batch = loader.build()?.next().unwrap()?;
    let numbers = batch.tensor(tensor)?.numbers();
    let of_record: usize = batch.tensor(tensor)?.shape()[1..].iter().product();
    Ok((0..of_record).map(|at| numbers.at(at)).collect())
}

fn others() -> Field {
    Numbers::f32().from("*")
}

/// A line with a picture's path, too.
fn with_photo(mut record: serde_json::Value) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/flower.jpg");
    record["photo"] = path.to_str().unwrap().into();
    format!("{record}\n")
}

fn photo() -> Field {
    Image::rgb(8, 8).geometry("scene").from("photo").file()
}

#[test]
fn a_pointer_and_a_key_are_one_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.jsonl", "{\"a\": 1, \"label\": 3, \"id\": 7, \"in\": {\"b\": 2}}\n");
    put(folder.path(), "y.jsonl", "{\"a\": 1, \"label\": 3, \"id\": 7, \"in\": {\"b\": 2}}\n");
    for path in [path, folder.path().join("*.jsonl")] {
        let loader = |except: &str| {
            Loader::open(&path).unwrap().field("y", Numbers::i64().from("/label")).field("x", others().except([except]))
        };
        assert_eq!(first(loader("/id"), "x").unwrap(), [1.0, 2.0]);
        assert_eq!(first(loader("id"), "x").unwrap(), [1.0, 2.0]);
        assert_eq!(first(loader("/in/b"), "x").unwrap(), [1.0, 7.0]);
        let error = first(loader("idd"), "x").unwrap_err();
        assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("idd"), "{error}");
    }
}

#[test]
fn sides_of_a_picture_that_boxes_name_are_no_features() {
    let folder = tempfile::tempdir().unwrap();
    let text = with_photo(serde_json::json!({ "boxes": [[0, 0, 1, 1]], "w": 10, "h": 20, "x": 5 }));
    let loader = Loader::open(put(folder.path(), "x.jsonl", &text)).unwrap().field("photo", photo());
    let boxes = Boxes::new(2).geometry("scene").size_from("w", "h");
    assert_eq!(first(loader.field("boxes", boxes).field("f", others()), "f").unwrap(), [5.0]);
}

#[test]
fn an_empty_list_among_boxes_or_points_makes_a_bad_record() {
    let folder = tempfile::tempdir().unwrap();
    let open = |text: &str| {
        let places: serde_json::Value = serde_json::from_str(text).unwrap();
        let text = with_photo(serde_json::json!({ "places": places, "w": 8, "h": 8 }));
        Loader::open(put(folder.path(), "x.jsonl", &text)).unwrap().field("photo", photo())
    };
    let boxes = |text: &str| {
        let boxes = Boxes::new(3).geometry("scene").size_from("w", "h").from("places");
        first(open(text).field("boxes", boxes), "boxes")
    };
    let points = |text: &str| {
        let points = Keypoints::new(3).geometry("scene").size_from("w", "h").from("places");
        first(open(text).field("points", points), "points")
    };
    assert_eq!(boxes("[[0, 0, 2, 2], [1, 1, 5, 5]]").unwrap()[..8], [0., 0., 2., 2., 1., 1., 5., 5.]);
    for none in ["[]", "[[]]"] {
        assert_eq!(boxes(none).unwrap(), [0.0; 12]);
    }
    for shifted in ["[[0, 0, 2, 2], [], [1, 1, 5, 5]]", "[[], [1, 1, 5, 5]]", "[[], []]"] {
        let error = boxes(shifted).unwrap_err();
        assert!(error.kind() == ErrorKind::Data && error.message().contains("empty list among others"), "{error}");
    }
    assert!(points("[[1, 2], [3, 4]]").is_ok());
    assert!(points("[[1, 2], [], [3, 4]]").unwrap_err().message().contains("empty list among others"));
}

#[test]
fn a_record_that_names_no_file_is_blamed_in_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", "");
    let lines = "{\"path\": \"a.npy\"}\n{\"path\": null}\n{\"path\": \n";
    let path = put(folder.path(), "list.jsonl", lines);
    let field = || Array::new().dtype(DType::F32).shape(&[2]).from("path").file();
    let loader = Loader::open(&path).unwrap().field("x", field()).batch_size(1);
    let mut bad = loader.bad_records(BadRecords::Skip(BadLimits::default())).build().unwrap();
    let errors: Vec<_> = bad.by_ref().filter_map(Result::err).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let found = bad.bad_records();
    assert_eq!(found.len(), 3, "{found:?}");
    for (record, line, byte, words) in [(1, None, Some(18), "the record names no file"), (2, Some(3), Some(42), "JSON")]
    {
        let bad = &found[record];
        assert!(bad.error.contains(words), "{bad:?}");
        let place = (bad.place.path.as_deref(), bad.place.line, bad.place.byte);
        assert_eq!(place, (Some(path.as_path()), line, byte), "{bad:?}");
    }
}

#[test]
fn arrays_of_another_type_than_the_first_are_bad_unless_a_type_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let npy = |name: &str, descr: &str, bytes: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}");
        let header = format!("{header:<117}\n");
        let file = [&b"\x93NUMPY\x01\x00"[..], &118u16.to_le_bytes(), header.as_bytes(), bytes].concat();
        std::fs::write(folder.path().join(name), file).unwrap();
    };
    npy("a.npy", "<f4", &1f32.to_le_bytes());
    npy("b.npy", "<i8", &16_777_217i64.to_le_bytes());
    let path = put(folder.path(), "list.jsonl", "{\"path\": \"a.npy\"}\n{\"path\": \"b.npy\"}\n");
    let read = |field: Array| -> Result<Vec<f64>> {
        let loader = Loader::open(&path).unwrap().field("x", field.from("path").file());
        let batch = loader.build()?.next().unwrap()?;
        let numbers = batch.tensor("x")?.numbers();
        Ok((0..2).map(|at| numbers.at(at)).collect())
    };
    let error = read(Array::new()).unwrap_err();
    assert!(error.message().contains("an array of i64 where the first one is of f32; set `dtype`"), "{error}");
    assert_eq!(read(Array::new().dtype(DType::F64)).unwrap(), [1.0, 16_777_217.0]);
}

#[test]
fn numbers_that_json_does_not_have_are_words_in_settings() {
    let of = |text: &str| toml::from_str::<LoaderConfig>(&format!("source = \"x.csv\"\nfields.x = {{ {text} }}\n"));
    for (number, word) in [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("\"-inf\"", "-inf")] {
        let config = of(&format!("numbers = \"f32\", max_len = 8, pad = {number}, missing = {number}")).unwrap();
        let json = serde_json::to_value(&config).unwrap();
        assert_eq!((&json["fields"]["x"]["pad"], &json["fields"]["x"]["missing"]), (&word.into(), &word.into()));
        let again: LoaderConfig = serde_json::from_value(json).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&config).unwrap());
    }
    let nan = of("numbers = \"f32\", missing = nan").unwrap();
    assert_eq!(nan.fields, [("x".to_owned(), Numbers::f32().missing(Missing::Nan).into())]);
    let error = of("numbers = \"i64\", missing = 9007199254740993").unwrap_err().to_string();
    assert!(error.contains("9007199254740993 is not among the numbers of f64"), "{error}");
    assert!(of("numbers = \"i64\", missing = 9007199254740992").is_ok());
    let of_json = |missing: u64| {
        let field = serde_json::json!({ "numbers": "u64", "missing": missing });
        serde_json::from_value::<LoaderConfig>(serde_json::json!({ "source": "x.csv", "fields": { "x": field } }))
    };
    let error = of_json(u64::MAX).unwrap_err().to_string();
    assert!(error.contains("18446744073709551615 is not among the numbers of f64"), "{error}");
    assert!(of_json(1 << 63).is_ok());
}
