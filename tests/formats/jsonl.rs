//! JSON Lines: against what Python's json and NumPy read, and damaged in every way.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::records::{place, tensors, values};
use proptest::prelude::*;
use ringfeed::csv::{Longer, Missing};
use ringfeed::field::{Class, Field, Numbers, Text, Tokens};
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{BlankLines, Container, FieldInfo, FieldKind, FieldReader, JsonLines, LineOptions, RecordReader};
use ringfeed::storage::Files;
use ringfeed::{DType, ErrorKind, Loader, LoaderConfig, Result};
use serde_json::{Value as Json, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/jsonl").join(name)
}

fn expected() -> Json {
    serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap()
}

fn open(path: &Path) -> Result<JsonLines> {
    JsonLines::open(&Files::local(), path, &LineOptions::default(), &MemoryBudget::unlimited())
}

/// Lines in a file that goes when it drops.
fn lines(text: impl AsRef<[u8]>) -> (tempfile::NamedTempFile, JsonLines) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_ref()).unwrap();
    let lines = open(file.path()).unwrap();
    (file, lines)
}

#[test]
fn numbers_are_those_of_python_and_numpy_or_an_error() {
    let expected = expected();
    let expected = expected["numbers"].as_array().unwrap();
    for (kind, dtype) in [("f64", DType::F64), ("f32", DType::F32), ("i64", DType::I64)] {
        let rows = tensors(open(&fixture("numbers.jsonl")).unwrap(), &[("x".to_owned(), Numbers::of(dtype).into())]);
        assert_eq!(rows.len(), expected.len());
        for (nth, (row, expected)) in rows.iter().zip(expected).enumerate() {
            let read = row.as_ref().map(|tensors| match dtype {
                DType::F64 => format!("{:016x}", u64::from_ne_bytes(tensors[0].as_slice().try_into().unwrap())),
                DType::F32 => format!("{:08x}", u32::from_ne_bytes(tensors[0].as_slice().try_into().unwrap())),
                _ => i64::from_ne_bytes(tensors[0].as_slice().try_into().unwrap()).to_string(),
            });
            assert_eq!(read.as_deref(), expected[kind].as_str(), "line {}: {kind}", nth + 1);
        }
    }
}

#[test]
fn numbers_with_an_exponent_are_exact_or_rounded_once() {
    let zeros = "0".repeat(655_359);
    let text =
        format!("{{\"x\": 0.{zeros}1e655360}}\n{{\"x\": 1{zeros}e-655359}}\n{{\"x\": 1.23456789012345678e17}}\n");
    let (_file, container) = lines(text);
    let fields = [("x".to_owned(), Numbers::i64().into()), ("f".to_owned(), Numbers::f32().from("/x"))];
    let rows = tensors(container, &fields);
    let read: Vec<_> = rows.iter().flatten().map(|row| bytemuck::pod_collect_to_vec::<u8, i64>(&row[0])[0]).collect();
    assert_eq!(read, [1, 1, 123_456_789_012_345_678]);
    let read: Vec<_> = rows.iter().flatten().map(|row| bytemuck::pod_collect_to_vec::<u8, f32>(&row[1])[0]).collect();
    assert_eq!(read, [1.0, 1.0, 123_456_789_012_345_678.0]);
    let (_file, container) =
        lines("{\"x\": 18446744073709551615e0}\n{\"x\": 1.8446744073709551615E19}\n{\"x\": 18446744073709551616e0}\n");
    let rows = tensors(container, &[("x".to_owned(), Numbers::of(DType::U64).into())]);
    let read: Vec<_> =
        rows.iter().map(|row| Some(bytemuck::pod_collect_to_vec::<u8, u64>(&row.as_ref()?[0])[0])).collect();
    assert_eq!(read, [Some(u64::MAX), Some(u64::MAX), None]);
}

#[test]
fn records_are_those_of_python_however_they_are_written() {
    let mut lines = open(&fixture("records.jsonl")).unwrap();
    let read = values(&mut lines, &["text", "/list", "/deep/flag", "/deep/a~1b/0/~0", "n"]);
    let expected = expected();
    let expected = expected["records"].as_array().unwrap();
    assert_eq!(read.len(), expected.len());
    for (read, expected) in read.into_iter().zip(expected) {
        let keys = ["text", "list", "flag", "tilde", "n"];
        let read: Json = keys.iter().zip(read.unwrap()).map(|(key, value)| ((*key).to_owned(), value)).collect();
        // A number that is written with a fraction and one without are the same.
        let same = |one: &Json, other: &Json| one == other || (one.is_number() && one.as_f64() == other.as_f64());
        for key in keys {
            let both = (&read[key], &expected[key]);
            let is_same = match both {
                (Json::Array(one), Json::Array(other)) => {
                    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
                }
                (one, other) => same(one, other),
            };
            assert!(is_same, "{key}: {both:?}");
        }
    }
}

#[test]
fn fields_are_what_the_records_hold() {
    let (_file, lines) = lines(
        "{\"a\": 1, \"b\": {\"c\": [1.5, 2], \"d\": \"x\"}, \"ragged\": [[1], []]}\n\
         {\"b\": {\"c\": [3, 4]}, \"ragged\": [], \"late\": true}\nno JSON\n",
    );
    let numbers = |name: &str, dtype, shape: &[usize]| FieldInfo::new(name, FieldKind::Numbers(dtype)).shape(shape);
    let expected = [
        numbers("a", DType::I64, &[]),
        numbers("/b/c", DType::F64, &[2]),
        FieldInfo::new("/b/d", FieldKind::Text),
        numbers("ragged", DType::I64, &[0, 0]),
        numbers("late", DType::U8, &[]),
    ];
    assert_eq!(lines.fields(), expected);
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_field_that_no_record_has_is_an_error_and_one_that_a_late_record_has_is_found() {
    let mut text = "{\"label\": 1, \"deep\": {\"x\": 1}}\n".repeat(3000);
    text.push_str("{\"rare\": [1, 2]}\n");
    let (_file, mut lines) = lines(text);
    let error = lines.find(&"lable".into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("did you mean \"label\"?"), "{error}");
    let error = lines.find(&"/deep/y".into()).unwrap_err();
    assert!(error.message().contains("\"/deep/x\""), "{error}");
    let error = lines.find(&"deep".into()).unwrap_err();
    assert!(error.message().contains("is an object") && error.message().contains("\"/deep/x\""), "{error}");
    assert_eq!(lines.find(&1.into()).unwrap(), 1);
    assert_eq!(lines.fields()[1].name, "/deep/x");
    let rare = lines.find(&"rare".into()).unwrap();
    assert_eq!(lines.fields()[rare], FieldInfo::new("rare", FieldKind::Numbers(DType::I64)).shape(&[2]));
    lines.forget();
    assert_eq!(lines.fields().len(), 2);
}

#[test]
fn what_is_wrong_names_record_line_byte_and_key() {
    let text = b"\xef\xbb\xbf{\"x\": 1}\r\n\r\n\n{\"x\": 2}\n{\"x\": NaN}\n{\"x\": \"\xff\"}\n{\"x\": {\"y\": 1}}\n \n{\"x\": 1}{}\n{\"x\": \"\\ud800\"}\n{\"x\": 5";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    let read = values(&mut open(file.path()).unwrap(), &["x"]);
    let at = |wanted: &[u8]| text.windows(wanted.len()).position(|window| window == wanted).map(|at| at as u64);
    let shown: Vec<_> = read.iter().map(|row| row.as_ref().map_err(|error| (place(error.location()), error))).collect();
    assert_eq!(shown.len(), 8);
    for (nth, value) in [(0, 1), (1, 2)] {
        assert_eq!(shown[nth].as_ref().unwrap(), &&vec![json!(value)]);
    }
    for (nth, line, column, byte, message) in [
        (2, 5, None, at(b"NaN"), "write null"),
        (3, 6, None, at(b"\xff"), "0xff: the line is not UTF-8"),
        (4, 7, Some("x"), at(b"{\"y"), "found an object"),
        (5, 9, None, at(b"{}"), "each record is on a line of its own"),
        (6, 10, Some("x"), at(b"\"\\ud800"), "half of a surrogate pair"),
        (7, 11, None, Some(text.len() as u64), "expected a comma or }, found the end"),
    ] {
        let (found, error) = shown[nth].as_ref().unwrap_err();
        assert_eq!(*found, (Some(nth as u64), Some(line), column, byte), "{error}");
        assert!(error.message().contains(message), "{error}");
        assert_eq!((error.kind(), error.path()), (ErrorKind::Data, Some(file.path())));
    }
}

#[test]
fn lists_become_tensors_of_one_shape_or_padded_ones_with_masks() {
    let text = "{\"pair\": [1, -2.5], \"tokens\": [7, 8, 9], \"grid\": [[1, 2], [3, 4]], \"kind\": \"b\", \"text\": \"a\\nb\"}\n\
                {\"pair\": [0, 3], \"tokens\": [], \"grid\": [[5, 6], [7, 8]], \"kind\": \"a\"}\n";
    let (_file, lines) = lines(text);
    let fields: [(String, Field); 5] = [
        ("pair".into(), Numbers::f32().into()),
        ("tokens".into(), Tokens::new(4).pad(-1.0).into()),
        ("grid".into(), Numbers::of(DType::U8).into()),
        ("kind".into(), Class.into()),
        ("text".into(), Text::new(4).into()),
    ];
    let reader = FieldReader::new(open(_file.path()).unwrap(), &fields, &MemoryBudget::unlimited()).unwrap();
    let shapes: Vec<_> = reader.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape.len())).collect();
    assert_eq!(shapes[0..4], [("pair".into(), 1), ("tokens".into(), 1), ("tokens_mask".into(), 1), ("grid".into(), 2)]);
    let rows = tensors(lines, &fields);
    let f32s = |numbers: [f32; 2]| numbers.map(f32::to_ne_bytes).concat();
    let i64s = |numbers: &[i64]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
    let first = [
        f32s([1.0, -2.5]),
        i64s(&[7, 8, 9, -1]),
        vec![1, 1, 1, 0],
        vec![1, 2, 3, 4],
        i64s(&[1]),
        b"a\nb\0".into(),
        i64s(&[3]),
    ];
    assert_eq!(rows[0].as_deref(), Some(first.as_slice()));
    let second = [f32s([0.0, 3.0]), i64s(&[-1; 4]), vec![0; 4], vec![5, 6, 7, 8], i64s(&[0]), vec![0; 4], i64s(&[0])];
    assert_eq!(rows[1].as_deref(), Some(second.as_slice()));
}

#[test]
fn a_null_in_a_list_is_one_of_its_numbers_whatever_else_is_in_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    std::fs::write(&path, "{\"x\": [1, null, 3]}\n{\"x\": [4, 5]}\n{\"x\": null}\n{\"x\": [null, null, null, null]}\n")
        .unwrap();
    let expected = [(vec![1.0, -7.0, 3.0], 3), (vec![4.0, 5.0], 2), (vec![], 0), (vec![-7.0; 4], 4)];
    for longer in [Longer::Error, Longer::Cut] {
        for batch_size in 1..=4 {
            let mut numbers = Numbers::f32().missing(Missing::Value(-7.0)).pad(9.0);
            if longer == Longer::Cut {
                numbers = numbers.cut();
            }
            let loader = Loader::open(&path).unwrap().field("x", numbers).batch_size(batch_size);
            let mut record = 0;
            for batch in loader.build().unwrap() {
                let batch = batch.unwrap();
                let (x, mask) = (batch.tensor("x").unwrap(), batch.tensor("x_mask").unwrap());
                let width = x.shape()[1];
                for row in 0..batch.len() {
                    let (list, len) = &expected[record];
                    let own = &x.as_slice::<f32>().unwrap()[row * width..][..width];
                    assert_eq!((&own[..*len], &own[*len..]), (&list[..], &vec![9.0; width - len][..]), "{batch_size}");
                    assert!(
                        mask.bytes()[row * width..][..width]
                            .iter()
                            .enumerate()
                            .all(|(at, one)| (at < *len) == (*one == 1))
                    );
                    record += 1;
                }
            }
            assert_eq!(record, expected.len());
        }
    }
}

#[test]
fn what_stands_in_place_of_a_list_makes_a_bad_record() {
    let (null, number) = ("a list is missing among lists", "a number and a list side by side");
    for (record, fault) in [
        ("[[1, 2], [3, 4]]", None),
        ("[[1], [], [2, 3]]", None),
        ("[[1, null], [3]]", None),
        ("[1, null]", None),
        ("[]", None),
        ("null", None),
        ("[[1, 2], null, [3, 4]]", Some(null)),
        ("[null, [5]]", Some(null)),
        ("[[[1], null], [[2]]]", Some(null)),
        ("[[1, 2], 3]", Some(number)),
        ("[3, [1, 2]]", Some(number)),
        ("[[], 3]", Some(number)),
    ] {
        let missing = || Numbers::f32().missing(Missing::Value(-7.0));
        for field in [missing().max_len(8), missing().ragged()] {
            match (fault, last_of(&format!("{{\"x\": {record}}}\n"), field)) {
                (None, read) => read.unwrap(),
                (Some(fault), read) => assert!(read.unwrap_err().message().contains(fault), "{record}"),
            }
        }
    }
}

/// What other records hold tells what a null stands for, whichever comes first.
#[test]
fn a_list_of_nulls_among_lists_of_lists_makes_a_bad_record() {
    let missing = || Numbers::f32().missing(Missing::Value(-7.0));
    let nulls = "{\"x\": [null]}\n";
    for lists in ["{\"x\": [[1, 2], [3, 4]]}\n", "{\"x\": [[1], [3]]}\n"] {
        for field in [missing().max_len(8), missing().ragged()] {
            for text in [lists.to_owned() + nulls, nulls.to_owned() + lists] {
                let error = last_of(&text, field.clone()).unwrap_err();
                assert!(error.message().contains("a list is missing among lists"), "{error}");
            }
            last_of(&format!("{{\"x\": [1]}}\n{nulls}"), field).unwrap();
        }
    }
}

/// Whether the last of the records in a text can be read.
#[test]
fn a_field_behind_the_bytes_that_are_looked_at_is_found_in_few_long_lines() {
    let filler = "x".repeat(100_000);
    let line = |nth: usize| match nth {
        100 => format!("{{\"text\": \"{filler}\", \"mask\": 1}}\n"),
        _ => format!("{{\"text\": \"{filler}\"}}\n"),
    };
    let (_file, mut lines) = lines((0..110).map(line).collect::<String>());
    assert_eq!(lines.fields().len(), 1);
    let mask = lines.find(&"mask".into()).unwrap();
    assert_eq!(lines.fields()[mask].kind, FieldKind::Numbers(DType::I64));
    assert_eq!(lines.find(&"mast".into()).unwrap_err().kind(), ErrorKind::NotFound);
}

fn last_of(text: &str, field: Numbers) -> Result<()> {
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let batches = Loader::open(file.path()).unwrap().field("x", field).batch_size(1).build().unwrap();
    batches.last().unwrap().map(|_| ())
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn settings_open_lines_that_name_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let photos = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos");
    for photo in ["coffee.png", "rocket.jpg"] {
        std::fs::copy(photos.join(photo), folder.path().join(photo)).unwrap();
    }
    let clips = "{\"path\": \"rocket.jpg\", \"label\": \"yes\", \"x\": 1.5}\n\
                 {\"path\": \"coffee.png\", \"label\": \"no\", \"x\": -2}\n";
    // Told by its content, too.
    for name in ["clips.jsonl", "clips"] {
        std::fs::write(folder.path().join(name), clips).unwrap();
        let settings = format!(
            "batch_size = 2\n[source]\npath = {name:?}\n[fields]\n\
             image = {{ from = \"/path\", file = {{ image = [8, 6] }} }}\n\
             label = {{ from = \"/label\", class = [\"no\", \"yes\"] }}\nx = {{ numbers = \"f32\" }}\n"
        );
        let file = folder.path().join("loader.toml");
        std::fs::write(&file, settings).unwrap();
        let config = LoaderConfig::load(&file).unwrap();
        let batch = Loader::from(config.clone()).build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.tensor("image").unwrap().shape(), [2, 3, 8, 6]);
        assert_eq!(batch.tensor("label").unwrap().as_slice::<i64>().unwrap(), [1, 0]);
        assert_eq!(batch.tensor("x").unwrap().as_slice::<f32>().unwrap(), [1.5, -2.0]);
        let error = Loader::open(folder.path().join(name)).unwrap().field("y", Numbers::f32()).build().err().unwrap();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(folder.path().join(name).as_path())));
    }
}

#[test]
fn any_value_may_be_a_record() {
    let (_file, mut list) = lines("[1, [2, \"a\"]]\n[3, []]\n");
    assert_eq!(
        values(&mut list, &["/0", "/1/1"]).into_iter().map(Result::unwrap).collect::<Vec<_>>(),
        [vec![json!(1), json!("a")], vec![json!(3), Json::Null]]
    );
    let (_file, mut numbers) = lines("1\n2.5\n");
    assert_eq!(numbers.fields()[0], FieldInfo::new("", FieldKind::Numbers(DType::F64)));
    assert_eq!(values(&mut numbers, &[""]).len(), 2);
    let (_file, mut none) = lines("\n\n");
    assert_eq!((none.len(), none.find(&"x".into()).unwrap()), (0, 0));
}

#[test]
fn none_of_too_many_fields_is_left_out_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.jsonl");
    let keys: Vec<String> = (0..5000).map(|key| format!("\"k{key}\": {key}")).collect();
    std::fs::write(&path, format!("{{{}}}\n", keys.join(", "))).unwrap();
    let error = Loader::open(&path).and_then(|loader| loader.build()).err().unwrap();
    assert!(error.message().contains("name those to read"), "{error}");
    let mut loader = Loader::open(&path).unwrap().field("k4999", Numbers::i64()).build().unwrap();
    assert_eq!(loader.next().unwrap().unwrap().tensor("k4999").unwrap().as_slice::<i64>().unwrap(), [4999]);
}

#[test]
fn lines_of_blanks_are_no_records() {
    let (_file, mut spaced) = lines(" \n{\"x\": 1}\n\n \t\r\n\r\n  {\"x\": 2} \n   \nno JSON\n \t");
    let read = values(&mut spaced, &["x"]);
    assert_eq!((spaced.len(), read.len()), (3, 3));
    assert_eq!([&read[0], &read[1]].map(|values| values.as_ref().unwrap()[0].clone()), [json!(1), json!(2)]);
    let error = read[2].as_ref().unwrap_err();
    assert_eq!((error.location().record, error.location().line), (Some(2), Some(8)), "{error}");
    // Lines of JSON may be long: the text has the byte, too.
    assert!(error.to_string().contains(":8: record 2: byte 34: "), "{error}");
}

#[test]
fn a_file_cut_anywhere_loses_its_last_record_alone() {
    let whole = "{\"x\": [1, 2.5e3], \"t\": \"é\\u0041\"}\n{\"t\": \"b\", \"x\": []}\n{\"x\": null, \"t\": \"c\"}\n";
    for cut in 0..=whole.len() {
        let (_file, mut lines) = lines(&whole.as_bytes()[..cut]);
        let complete = whole.as_bytes()[..cut].iter().filter(|byte| **byte == b'\n').count();
        if cut == 0 || lines.find(&"t".into()).is_err() {
            continue;
        }
        let read = values(&mut lines, &["t"]);
        assert!(read.iter().take(complete).all(Result::is_ok), "{cut}");
        let rest = &whole[whole.as_bytes()[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)..];
        let is_whole = rest.find('\n').is_some_and(|end| whole.len() - rest.len() + end == cut);
        assert_eq!(read.get(complete).is_none_or(Result::is_ok), is_whole || read.len() == complete, "{cut}");
    }
}

fn document() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e300..1e300).prop_map(Into::into),
        "[a-c/~\"é\\\\\n]{0,3}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 30, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::hash_map("[ab/~\"é]{0,2}", inner, 0..4)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// serde_json and its pointers are the judge.
    #[test]
    fn values_are_those_of_serde_json(documents in prop::collection::vec(document(), 1..6), steps in prop::collection::vec("[ab01/~\"é]{0,2}", 0..4)) {
        let pointer: String = steps.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
        let text: String = documents.iter().map(|document| format!("{document}\n")).collect();
        let (_file, mut lines) = lines(text);
        let found: Vec<_> = documents.iter().map(|document| document.pointer(&pointer)).collect();
        match lines.find(&pointer.as_str().into()) {
            Err(error) => {
                let is_value = |found: &&Json| !found.is_object() && !found.is_null();
                prop_assert!(!found.iter().flatten().any(is_value), "{error}");
                let is_no_value = found.iter().flatten().all(|found| found.is_null());
                prop_assert!(!is_no_value || found.iter().all(Option::is_none), "{error}");
            }
            Ok(_) => {
                fn has_object(value: &Json) -> bool {
                    value.is_object() || value.as_array().is_some_and(|list| list.iter().any(has_object))
                }
                if found.iter().flatten().any(|value| has_object(value)) {
                    return Ok(());
                }
                for (read, found) in values(&mut lines, &[&pointer]).into_iter().zip(found) {
                    prop_assert_eq!(&read.unwrap()[0], found.unwrap_or(&Json::Null));
                }
            }
        }
    }

    /// Whatever stands there, there is an answer.
    #[test]
    fn damaged_lines_are_values_or_errors(at in 0usize..70, byte in any::<u8>(), inserted in any::<bool>()) {
        let mut text = b"{\"x\": [1, [2.5e3, null]], \"t\": \"\xc3\xa9\\u0041\\n\", \"y\": {\"z\": true}}\n{\"x\": [], \"t\": 1}\n".to_vec();
        let at = at.min(text.len() - 1);
        if inserted { text.insert(at, byte) } else { text[at] = byte }
        let (_file, mut lines) = lines(&text);
        for field in ["x", "/x/1", "t", "/y/z", ""] {
            if lines.find(&field.into()).is_ok() {
                let mut scratch = ringfeed::read::Scratch::default();
                let records: Vec<u64> = (0..lines.len()).collect();
                for nth in 0..records.len() {
                    lines.fetch(&records, nth, &mut scratch).unwrap();
                    let line = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).nth(nth);
                    let judge = line.map(|line| serde_json::from_slice::<Json>(line.strip_suffix(b"\r").unwrap_or(line)));
                    let read = lines.read(nth as u64, nth, &mut scratch, &mut |_, value| {
                        let _ = value.describe();
                        Ok(())
                    });
                    if let (Err(_), true) = (&judge.unwrap(), read.is_ok()) {
                        // What serde_json reads to its end is JSON for it.
                        prop_assert!(false, "read as JSON: {:?}", String::from_utf8_lossy(&text));
                    }
                }
            }
        }
    }
}

#[test]
fn objects_among_the_values_are_neither_bad_nor_in_the_way() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    std::fs::write(&path, "{\"a\": 1, \"o\": {\"b\": 2}}\n{\"a\": 3, \"o\": {\"b\": 4}}\n{\"a\": 5, \"o\": {\n")
        .unwrap();
    let report = ringfeed::inspect::verify(&path, 2, |_| {})?;
    assert_eq!((report.samples, report.bad_samples), (3, 1));
    assert_eq!(report.bad[0].location().line, Some(3));
    std::fs::write(&path, "{\"a\": 1, \"o\": {\"b\": 2}}\n{\"a\": 3, \"o\": {\"b\": 4}}\n").unwrap();
    let inspection = ringfeed::formats::Formats::new().inspect(&path)?;
    let fields: Vec<_> = inspection.fields.iter().map(|field| (field.name.as_str(), field.sum)).collect();
    assert_eq!((inspection.records, fields[0]), (2, ("a", Some(4.into()))));
    Ok(())
}

#[test]
fn a_file_without_records_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("e.jsonl", ""), ("blank.jsonl", "\n\r\n \t\n"), ("mark.jsonl", "\u{feff}"), ("e.tfrecord", "")]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = Loader::open(&path).unwrap().build().map(drop).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(name) && said.contains("there are no records"), "{said}");
        // Who names fields has an epoch without batches.
        let named = Loader::open(&path).unwrap().field("x", Numbers::f32());
        assert!(named.build().unwrap().next().is_none());
    }
    let path = folder.path().join("bare.jsonl");
    std::fs::write(&path, "{}\n{}\n").unwrap();
    let error = Loader::open(&path).unwrap().build().map(drop).unwrap_err();
    assert!(error.to_string().contains("bare.jsonl") && error.to_string().contains("have no fields"), "{error}");
    // What is wrong with all that was looked at is said, and not that a field is missing.
    let path = folder.path().join("pretty.jsonl");
    std::fs::write(&path, "{\n  \"x\": 1\n}\n").unwrap();
    let open = || Loader::open(&path).unwrap();
    for loader in [open(), open().field("x", Numbers::f32())] {
        let said = loader.build().map(drop).unwrap_err().to_string();
        assert!(said.contains("pretty.jsonl:1") && said.contains("not JSON"), "{said}");
    }
}

#[test]
fn an_integer_in_a_list_is_rounded_alike_among_integers_and_beside_a_fraction() {
    use ringfeed::Normaliser;
    use ringfeed::tensor::{bf16, f16};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    // No f32 holds the first number; what is left of it after the transform tells how it was rounded.
    std::fs::write(&path, "{\"x\": [16777217, 16777219, 16777215]}\n{\"x\": [16777217, 16777216.5, 16777215]}\n")
        .unwrap();
    // 16 bits are rounded after the transform, which is one of f32.
    for (dtype, expected) in [(DType::F16, 0.0), (DType::Bf16, 0.0), (DType::F32, 0.0), (DType::F64, 1.0)] {
        let near = Normaliser::Linear { scale: 1.0, bias: -16_777_216.0 };
        let loader = Loader::open(&path).unwrap().field("x", Numbers::of(dtype).shape(&[3])).normalise("x", near);
        let batch = loader.batch_size(2).build().unwrap().next().unwrap().unwrap();
        let tensor = batch.tensor("x").unwrap();
        let firsts: Vec<f64> = match dtype {
            DType::F16 => tensor.as_slice::<f16>().unwrap().iter().map(|x| x.to_f64()).collect(),
            DType::Bf16 => tensor.as_slice::<bf16>().unwrap().iter().map(|x| x.to_f64()).collect(),
            DType::F32 => tensor.as_slice::<f32>().unwrap().iter().map(|x| f64::from(*x)).collect(),
            _ => tensor.as_slice::<f64>().unwrap().to_vec(),
        };
        assert_eq!([firsts[0], firsts[3]], [expected; 2], "{dtype:?}");
    }
}

#[test]
fn lines_that_belong_together_keep_their_empty_lines() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.txt", "a1\r\na2\r\n\r\na4\r\n"), ("b.txt", "b1\n\nb3\nb4")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let loader = |keep: &str| {
        let source = |name: &str| {
            let path = folder.path().join(name);
            format!(
                r#"{{"format": "text", "path": {path:?}, "options": {{{keep}}},
                    "fields": {{"{}": {{"from": "line", "text": 4}}}}}}"#,
                &name[..1]
            )
        };
        let settings = format!(r#"{{"sources": [{}, {}]}}"#, source("a.txt"), source("b.txt"));
        let batch = Loader::from(LoaderConfig::from_json(&settings).unwrap()).build().unwrap().next().unwrap().unwrap();
        let texts = |name: &str| {
            let bytes = batch.tensor(name).unwrap().as_slice::<u8>().unwrap().to_vec();
            bytes.chunks(4).map(|text| String::from_utf8_lossy(text).replace('\0', "")).collect::<Vec<_>>()
        };
        [texts("a"), texts("b")]
    };
    assert_eq!(loader(""), [["a1", "a2", "a4"], ["b1", "b3", "b4"]]);
    assert_eq!(loader(r#""blank_lines": "keep""#), [["a1", "a2", "", "a4"], ["b1", "", "b3", "b4"]]);
    let path = folder.path().join("c.jsonl");
    std::fs::write(&path, "{}\n\n{}\n").unwrap();
    let options = LineOptions { blank_lines: BlankLines::Keep, ..LineOptions::default() };
    let error = JsonLines::open(&Files::local(), &path, &options, &MemoryBudget::unlimited()).err().unwrap();
    assert!(error.to_string().contains("an empty line is not JSON"), "{error}");
}
