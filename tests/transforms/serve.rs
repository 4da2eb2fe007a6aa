//! Single records in memory, by the fields and transforms of a loader: the bytes that the loader gives.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use ringfeed::csv::Missing;
use ringfeed::field::{Audio, Category, Class, Field, Image, Numbers, Text, Tokens};
use ringfeed::formats::Images;
use ringfeed::images::{CropFit, PixelOrder, ResizeFilter, horizontal_flip};
use ringfeed::prepare::{Mean, Recipe, category, number};
use ringfeed::read::{TensorMut, Value};
use ringfeed::serve::{Served, ServedRow};
use ringfeed::settings::SourceConfig;
use ringfeed::tensor::{Role, Rows, TensorSpec, TensorView};
use ringfeed::transform::{
    Outputs, Row, Scope, Tensors, Transform, cast, clip, layout, mixup, noise, one_hot, pad_to, pad_to_multiple,
};
use ringfeed::{DType, ErrorKind, Loader, LoaderConfig, Normaliser, Result};

const FILES: [&str; 4] = ["china.jpg", "chelsea.png", "coffee.png", "astronaut.png"];

/// A folder of two classes with photographs of both formats, one of them turned by its header.
fn photos() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    for (nth, name) in FILES.into_iter().enumerate() {
        let class = folder.path().join(["cat", "dog"][nth % 2]);
        std::fs::create_dir_all(&class).unwrap();
        std::fs::copy(Path::new("fixtures/photos").join(name), class.join(name)).unwrap();
    }
    std::fs::copy("fixtures/images/orientation-6.jpg", folder.path().join("dog/turned.jpg")).unwrap();
    let mut paths = Vec::new();
    for class in ["cat", "dog"] {
        let files = std::fs::read_dir(folder.path().join(class)).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = files.collect();
        files.sort_unstable();
        paths.extend(files);
    }
    (folder, paths)
}

/// The name, shape and bytes of each tensor.
type Made = Vec<(String, Vec<usize>, Vec<u8>)>;

fn tensors(row: &ServedRow) -> Made {
    row.tensors().map(|tensor| (tensor.name().to_owned(), tensor.shape().to_vec(), tensor.bytes().to_vec())).collect()
}

/// The same of each sample of a loader, in a batch of its own, features and their masks alone.
fn loaded(loader: &Loader, labels: &[&str]) -> Vec<Made> {
    let batches = loader.clone().batch_size(1).build().unwrap();
    let of = |batch: ringfeed::Result<ringfeed::DataSet>| {
        let batch = batch.unwrap();
        let features = batch.tensors().filter(|tensor| !labels.contains(&tensor.name()));
        let of_batch = |tensor: &TensorView<'_>| usize::from(tensor.spec().rows == Rows::Even);
        let features = features.map(|tensor| {
            (tensor.name().to_owned(), tensor.shape()[of_batch(&tensor)..].to_vec(), tensor.bytes().to_vec())
        });
        (batch.sample_ids()[0], features.collect())
    };
    let mut samples: Vec<(u64, Made)> = batches.map(of).collect();
    samples.sort_by_key(|(id, _)| *id);
    samples.into_iter().map(|(_, tensors)| tensors).collect()
}

fn serve_all(served: &Served, paths: &[PathBuf], field: &str) -> Vec<Made> {
    let mut row = served.row();
    let of = |path: &PathBuf| {
        served.apply([(field, Value::Bytes(&std::fs::read(path).unwrap()))], &mut row).unwrap();
        tensors(&row)
    };
    paths.iter().map(of).collect()
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn the_bytes_of_an_image_file_give_what_a_validation_loader_gives() {
    let (folder, paths) = photos();
    let crop = Image::rgb(96, 128).fit(CropFit::CenterCrop { shorter: 140 }).resize(ResizeFilter::Bicubic);
    let images: [(Image, Loader); 5] = [
        (Image::rgb(96, 128), Loader::images(folder.path()).normalise("image", Normaliser::imagenet())),
        (crop.clone().dtype(DType::F16), Loader::images(folder.path()).normalise("image", Normaliser::imagenet())),
        (
            Image::grey(40, 30).dtype(DType::F32).order(PixelOrder::Nhwc),
            Loader::images(folder.path())
                .transform(clip("image", 20.0, 200.0))
                .normalise("image", Normaliser::image_scale())
                .transform(cast("image", DType::Bf16))
                .transform(layout("image", PixelOrder::Nchw))
                .transform(one_hot("label")),
        ),
        (Image::of_any_size().dtype(DType::U8), Loader::images(folder.path())),
        (
            crop,
            Loader::images(folder.path())
                .map(TensorSpec::new("mean", Role::Feature, DType::F32, &[]), |row, out, scope| {
                    let pixels = row.f32("image")?;
                    let halves = scope.zeros::<f32>([pixels.len()]);
                    halves.iter_mut().zip(pixels).for_each(|(half, pixel)| *half = pixel / 2.0);
                    out.f32()?[0] = halves.iter().sum::<f32>() / pixels.len() as f32;
                    Ok(())
                })
                .remove("image"),
        ),
    ];
    for (nth, (image, loader)) in images.into_iter().enumerate() {
        let loader = loader.field("image", image).field("label", Class);
        let expected = loaded(&loader, &["label"]);
        assert_eq!(expected.len(), 5);
        let served = loader.serve().unwrap();
        assert_eq!(served.field_names().collect::<Vec<_>>(), ["image"]);
        assert!(serve_all(&served, &paths, "image") == expected, "images {nth}");
        // From several threads, each with a row of its own.
        std::thread::scope(|scope| {
            for turn in 0..if nth < 2 { 3 } else { 0 } {
                let (served, expected, paths) = (served.clone(), &expected, &paths);
                scope.spawn(move || {
                    let mut order: Vec<usize> = (0..paths.len()).collect();
                    order.rotate_left(turn);
                    let paths: Vec<PathBuf> = order.iter().map(|nth| paths[*nth].clone()).collect();
                    let all = serve_all(&served, &paths, "image");
                    order.iter().zip(all).for_each(|(nth, tensors)| assert!(tensors == expected[*nth]));
                });
            }
        });
    }
    // The usual fields of a folder, and those of settings whose data is elsewhere.
    let usual = Loader::images(folder.path());
    assert!(serve_all(&usual.serve().unwrap(), &paths, "image") == loaded(&usual, &["label"]));
    let settings = r#"{
        "source": { "path": "PATH" },
        "fields": { "image": { "image": [32, 32] }, "label": "class" },
        "normalise": { "image": "imagenet" }
    }"#;
    let of = |path: &str| Loader::from(LoaderConfig::from_json(&settings.replace("PATH", path)).unwrap());
    let here = of(folder.path().to_str().unwrap());
    assert!(serve_all(&of("/nowhere/at/all").serve().unwrap(), &paths, "image") == loaded(&here, &["label"]));
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_record_of_several_fields_is_served_whole() {
    let (folder, paths) = photos();
    let table = folder.path().join("table.jsonl");
    let row = |(nth, path): (usize, &PathBuf)| {
        let city = ["Oslo", "Bonn"][nth % 2];
        format!(
            "{{\"photo\": {path:?}, \"age\": {nth}, \"city\": \"{city}\", \"note\": \"n{nth}\", \"ids\": [{nth}, 7]}}\n"
        )
    };
    std::fs::write(&table, paths.iter().enumerate().map(row).collect::<String>()).unwrap();
    let recipe = Recipe::new().column("age", number().impute(Mean).standardise()).column("city", category().unknown());
    let rows = Loader::open(&table).unwrap();
    let prepared = recipe.fit(&rows).unwrap();
    let file: fn(u32) -> Field = |side| Image::rgb(side, side).from("photo").file();
    let loader = rows
        .prepare(&prepared)
        .field("small", file(24))
        .field("large", file(48))
        .field("note", Text::new(8))
        .field("ids", Numbers::i64().shape(&[2]))
        .field("age", Numbers::f32().from("age").role(Role::Label));
    let expected = loaded(&loader, &["age"]);
    let served = loader.serve().unwrap();
    let mut row = served.row();
    for (nth, path) in paths.iter().enumerate() {
        let (file, note) = (std::fs::read(path).unwrap(), format!("n{nth}"));
        let ids = [nth as i64, 7];
        let values = [
            ("photo", Value::Bytes(&file)),
            ("age", Value::I64(nth as i64)),
            ("city", Value::Text(["Oslo", "Bonn"][nth % 2])),
            ("note", Value::Text(&note)),
            ("ids", Value::Numbers(ringfeed::tensor::NumberSlice::I64(&ids))),
        ];
        served.apply(values, &mut row).unwrap();
        assert!(tensors(&row) == expected[nth], "record {nth}");
    }
    // What is not given is missing.
    let error = served.apply([("note", Value::Text("n"))], &mut row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
    assert!(error.location().column.is_some(), "{error}");
}

/// Adds one, if it lets the work on a record be done: as often as that is called for.
struct AddOne {
    calls: usize,
}

impl Transform for AddOne {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.change("x")
    }

    fn around(&self, work: &mut dyn FnMut()) {
        (0..self.calls).for_each(|_| work());
    }

    fn apply(&self, _: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        out.tensor(0).as_mut_slice::<f32>()?[0] += 1.0;
        Ok(())
    }
}

#[test]
fn a_record_on_which_a_transform_does_not_work_is_a_bad_one_and_none_is_worked_on_twice() {
    let served = |calls| {
        let loader = Loader::csv("nowhere.csv").field("x", Numbers::f32()).transform_by(AddOne { calls });
        let served = loader.serve().unwrap();
        let mut row = served.row();
        served.apply([("x", Value::F64(4.0))], &mut row).map(|()| row.f32("x").unwrap()[0])
    };
    let error = served(0).unwrap_err();
    assert!(error.kind() == ErrorKind::Data && error.message().contains("did not let"), "{error}");
    assert_eq!((served(1).unwrap(), served(2).unwrap()), (5.0, 5.0));
}

#[test]
fn a_sound_is_served_as_it_is_loaded() {
    let sound = PathBuf::from("fixtures/small/sound.wav");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::copy(&sound, folder.path().join("a/a.wav")).unwrap();
    let loader = Loader::open(folder.path()).unwrap().field("audio", Audio::new(8000));
    let padded = |transform| loader.clone().transform(transform);
    for loader in [&loader, &padded(pad_to("audio", 1000)), &padded(pad_to_multiple("audio", 64))] {
        let expected = loaded(loader, &["label"]);
        assert!(serve_all(&loader.serve().unwrap(), std::slice::from_ref(&sound), "audio") == expected);
    }
}

/// Lists of different lengths: none, an empty one, one number, several, and lists of lists.
const LISTS: [&str; 6] = [
    r#"{"ids": [7, -8, 9223372036854775807], "x": [0.5], "n": 1}"#,
    r#"{"ids": [], "x": [1.5, 2.25, 1e6, 7], "n": 2}"#,
    r#"{"ids": [5], "n": 3, "x": []}"#,
    r#"{"x": [3], "n": 4}"#,
    r#"{"n": 5, "other": {"ids": [1]}, "ids": [[1, 2], [3, 4]], "x": null}"#,
    r#"{"ids": [1, 2, 3, 4, 5, 6], "x": [-1, -2, -3], "n": 6}"#,
];

#[test]
fn lists_are_served_as_in_a_batch_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    std::fs::write(&path, LISTS.join("\n")).unwrap();
    let ids = || Numbers::i64().from("/ids");
    let lists = || Loader::open(&path).unwrap().field("n", Numbers::i64());
    let ragged = || {
        lists()
            .field("ids", Numbers::i64().ragged().from("/ids"))
            .field("x", Numbers::f32().ragged().max_len(3).cut().from("/x"))
    };
    let sums = |row: &Row<'_>, out: &mut TensorMut<'_>| {
        out.i64()?[0] = row.i64("ids")?.iter().fold(0, |sum: i64, id| sum.wrapping_add(*id));
        Ok(())
    };
    let sum = || TensorSpec::i64("sum", []);
    for (nth, loader) in [
        ragged(),
        ragged().transform(clip("x", -1.5, 1.0)),
        ragged().map(sum(), move |row, out, _| sums(row, out)),
        lists().field("ids", ids()).bucket("ids", [1, 4, 8]),
        lists().field("ids", Tokens::from("/ids")).bucket("ids", [6]).transform(pad_to_multiple("ids", 4)),
        lists().field("ids", Numbers::i64().pad(-1.0).from("/ids")).transform(pad_to_multiple("ids_mask", 1)),
        lists().field("ids", ids()).transform(pad_to("ids", 7)).map(sum(), move |row, out, _| sums(row, out)),
        lists().field("ids", Numbers::i64().max_len(6).from("/ids")),
        lists().field("ids", Tokens::from("/ids")),
        lists().field("ids", Numbers::i64().list().pad(-1.0).from("/ids")).field("x", Numbers::f32().list().from("/x")),
        lists().field("ids", Numbers::i64().ragged().from("/ids")).bucket("ids", [2, 6]),
    ]
    .into_iter()
    .enumerate()
    {
        let expected = loaded(&loader, &[]);
        assert_eq!(expected.len(), LISTS.len());
        let served = loader.serve().unwrap();
        let mut row = served.row();
        // Long ones before short ones, and the other way round.
        for record in (0..LISTS.len()).chain((0..LISTS.len()).rev()) {
            served.apply_json(LISTS[record], &mut row).unwrap();
            assert_eq!(tensors(&row), expected[record], "loader {nth}, record {record}");
        }
    }
    let served = ragged().serve().unwrap();
    let mut row = served.row();
    assert_eq!((row.get::<i64>("ids").unwrap(), row.get::<i64>("ids_offsets").unwrap()), (&[][..], &[0, 0][..]));
    let (ids, x) = ([7, -8, i64::MAX], [0.5f32]);
    let values = [
        ("/x", Value::Numbers(ringfeed::tensor::NumberSlice::F32(&x))),
        ("/ids", Value::Numbers(ringfeed::tensor::NumberSlice::I64(&ids))),
        ("n", Value::I64(1)),
    ];
    served.apply(values, &mut row).unwrap();
    assert_eq!(tensors(&row), loaded(&ragged(), &[])[0]);
    assert_eq!((row.get::<i64>("ids").unwrap(), row.get::<i64>("ids_offsets").unwrap()), (&ids[..], &[0, 3][..]));
}

#[test]
fn a_line_of_csv_and_a_struct_are_served_as_the_table_is_loaded() {
    #[derive(serde::Serialize)]
    struct House<'h> {
        size: Option<f64>,
        rooms: Option<i64>,
        city: Option<&'h str>,
        note: &'h str,
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("houses.csv");
    let header = "city;size;note;rooms";
    let houses = [
        (
            "Oslo;0.1;\"a \"\"b\"\"; c\";3",
            House { size: Some(0.1), rooms: Some(3), city: Some("Oslo"), note: "a \"b\"; c" },
        ),
        (
            "Bonn;-1e3;æ;9007199254740993",
            House { size: Some(-1e3), rooms: Some((1 << 53) + 1), city: Some("Bonn"), note: "æ" },
        ),
        ("Oslo; 2.50 ;x;", House { size: Some(2.5), rooms: None, city: Some("Oslo"), note: "x" }),
        (";;y;0", House { size: None, rooms: Some(0), city: None, note: "y" }),
    ];
    let lines: String = houses.iter().map(|(line, _)| format!("{line}\n")).collect();
    std::fs::write(&path, format!("{header}\n{lines}")).unwrap();
    let rows = Loader::open(&path).unwrap();
    let recipe =
        Recipe::new().column("size", number().impute(Mean).mask()).column("city", category().unknown().impute("Rom"));
    let loader = rows
        .clone()
        .prepare(&recipe.fit(&rows).unwrap())
        .field("rooms", Numbers::i64().missing(Missing::Value(-1.0)))
        .field("metres", Numbers::f32().missing(Missing::Nan).from("size"))
        .field("note", Text::new(8));
    let expected = loaded(&loader, &[]);
    let served = loader.serve().unwrap();
    let mut row = served.row();
    for ((line, house), expected) in houses.iter().zip(&expected) {
        served.apply_csv(header, line, &mut row).unwrap();
        assert_eq!(tensors(&row), *expected, "{line}");
        served.apply_struct(house, &mut row).unwrap();
        assert_eq!(tensors(&row), *expected, "{line}");
    }
    // Other columns in another order.
    served.apply_csv("rooms,price,city,note,size", "3,7,Oslo,\"a \"\"b\"\"; c\",0.1", &mut row).unwrap();
    assert_eq!(tensors(&row), expected[0]);
    let error = served.apply_csv("rooms,city,notes,size", "3,Oslo,x,1", &mut row).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("did you mean \"notes\"?"), "{error}");
    let error = served.apply_csv(header, "Oslo;1;x", &mut row).unwrap_err();
    assert!(error.kind() == ErrorKind::Data && error.message().contains("3 fields; the header has 4"), "{error}");
    let error = served.apply_csv(header, "Oslo;1;x;many", &mut row).unwrap_err();
    assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Data, Some("rooms")), "{error}");
    let error = served.apply_struct(&std::collections::HashMap::from([((1, 2), 3)]), &mut row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
}

#[test]
fn a_word_for_a_missing_value_is_served_as_text_where_the_table_has_it_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.csv");
    let lines = ["None,1", "x,2", "NA,3", " null ,NA", ",5"];
    std::fs::write(&path, format!("note,n\n{}\n", lines.join("\n"))).unwrap();
    let loader = Loader::open(&path)
        .unwrap()
        .field("note", Text::new(8))
        .field("kind", Category::new().names([vec!["x".into()]]).missing(-1).from("note"))
        .field("n", Numbers::f32().missing(Missing::Nan))
        .field("number", Text::new(4).from("n"));
    let served = loader.serve().unwrap();
    let mut row = served.row();
    for (line, expected) in lines.iter().zip(loaded(&loader, &[])) {
        served.apply_csv("note,n", line, &mut row).unwrap();
        assert_eq!(tensors(&row), expected, "{line}");
    }
    served.apply_json(r#"{"note": "x", "n": null}"#, &mut row).unwrap();
    assert_eq!((row.get::<i64>("note_len").unwrap(), row.get::<i64>("number_len").unwrap()), (&[1][..], &[0][..]));
}

/// Whatever the data show: lists of one length, single numbers, nothing.
#[test]
fn a_field_that_says_it_holds_lists_is_loaded_and_served_so() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        r#"{ "source": { "path": "PATH" }, "fields": { "x": { "numbers": "f32", "list": true, "pad": -1 } } }"#;
    for records in [["[1, 2]", "[3, 4]"], ["5", "6"], ["null", "null"]] {
        let path = folder.path().join("lists.jsonl");
        std::fs::write(&path, records.map(|x| format!("{{\"x\": {x}}}\n")).concat()).unwrap();
        let loader = LoaderConfig::from_json(&settings.replace("PATH", path.to_str().unwrap())).unwrap();
        assert_eq!(LoaderConfig::from_json(&serde_json::to_string(&loader).unwrap()).unwrap(), loader);
        let loader = Loader::from(loader);
        let served = loader.serve().unwrap();
        let mut row = served.row();
        for (record, expected) in records.into_iter().zip(loaded(&loader, &[])) {
            served.apply_json(&format!("{{\"x\": {record}}}"), &mut row).unwrap();
            assert_eq!(tensors(&row), expected);
            assert_eq!(expected.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["x", "x_mask"]);
        }
        served.apply_json("{\"x\": [7, 8, 9]}", &mut row).unwrap();
        assert_eq!((row.f32("x").unwrap(), row.get::<u8>("x_mask").unwrap()), (&[7.0, 8.0, 9.0][..], &[1; 3][..]));
    }
    let shaped = Loader::csv("nowhere.csv").field("x", Numbers::f32().list().shape(&[2]));
    let error = shaped.serve().unwrap_err();
    assert!(error.message().contains("either a shape or list"), "{error}");
}

#[test]
fn what_nothing_says_of_lists_is_asked_for_and_bad_lists_are_bad_records() {
    let lists = || Loader::csv("nowhere.csv").field("ids", Numbers::i64());
    let refused = |loader: Loader, record: &str, part: &str| {
        let served = loader.serve().unwrap();
        let error = served.apply_json(record, &mut served.row()).unwrap_err();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Data, Some("ids")), "{error}");
        assert!(error.message().contains(part), "{error}");
    };
    for record in [r#"{"ids": [1, 2]}"#, r#"{"ids": []}"#] {
        refused(lists(), record, "give it `list`, `ragged`, `max_len` or `shape`");
    }
    let served = lists().serve().unwrap();
    let mut row = served.row();
    served.apply_json(r#"{"ids": 3}"#, &mut row).unwrap();
    assert_eq!(row.get::<i64>("ids").unwrap(), [3]);
    let buckets = || lists().bucket("ids", [1, 2]);
    refused(buckets(), r#"{"ids": [1, 2, 3]}"#, "its length is 3, beyond the last bucket, which ends at 2");
    refused(buckets(), r#"{"ids": [1, 0.5]}"#, "0.5");
    refused(lists().transform(pad_to("ids", 2)), r#"{"ids": [1, "x"]}"#, "\"x\"");
    let error = served.apply_json(r#"{"ids": 3,}"#, &mut row).unwrap_err();
    assert_eq!((error.kind(), error.location().byte), (ErrorKind::Data, Some(10)), "{error}");
}

#[test]
fn what_changes_only_labels_is_left_out() {
    let loader = Loader::csv("nowhere.csv")
        .field("x", Numbers::f32().from("x"))
        .field("y", Numbers::f32().from("y").role(Role::Label))
        .change("y", |_, y, _| {
            y.f32()?[0] *= 2.0;
            Ok(())
        })
        .map(TensorSpec::new("y", Role::Label, DType::F32, &[]), |row, y, _| {
            y.f32()?[0] = row.f32("y")?[0].ln();
            Ok(())
        })
        .change("x", |_, x, _| {
            x.f32()?[0] += 1.0;
            Ok(())
        });
    let served = loader.serve().unwrap();
    let mut row = served.row();
    served.apply([("x", Value::F64(2.0))], &mut row).unwrap();
    assert_eq!(row.f32("x").unwrap(), [3.0]);
    // One that needs the label for a feature can't be served.
    let needs = loader.map(TensorSpec::new("z", Role::Feature, DType::F32, &[]), |row, z, _| {
        z.f32()?[0] = row.f32("y")?[0];
        Ok(())
    });
    let served = needs.serve().unwrap();
    let mut row = served.row();
    assert_eq!(served.apply([("x", Value::F64(2.0))], &mut row).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn what_cannot_serve_is_refused_by_name() {
    let images = || Loader::images("nowhere");
    let flipped = Image::rgb(8, 8).augment([horizontal_flip()]);
    let image = || images().field("image", Image::rgb(8, 8));
    let mut two = SourceConfig::new(Images, "nowhere", Default::default());
    two.fields = vec![("image".to_owned(), Image::rgb(8, 8).into())];
    let refused: [(Loader, &str); 7] = [
        (images().field("image", flipped), "random operations are for training"),
        (image().transform(mixup(0.2)), "for training alone"),
        (image().transform(noise("image", 0.1)), "one of image is for training alone"),
        (image().map_batch(|_, _| Ok(())), "whole batches"),
        (Loader::csv("nowhere.csv").field("city", Category::new()), "list them"),
        (Loader::csv("nowhere.csv").field("x", Numbers::f32().from([0, 1])), "name the field"),
        (Loader::csv("nowhere.csv"), "fields: "),
    ];
    for (loader, message) in refused {
        let error = loader.serve().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let served = Loader::new(two).serve().unwrap();
    let (mut row, mut other) = (served.row(), image().serve().unwrap().row());
    let file = std::fs::read("fixtures/photos/china.jpg").unwrap();
    assert_eq!(served.apply([("image", Value::Bytes(&file))], &mut other).unwrap_err().kind(), ErrorKind::Schema);
    let error = served.apply([("imag", Value::Bytes(&file))], &mut row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("did you mean \"image\"?"), "{error}");
    for bytes in [&b"no image"[..], &file[..2000], b""] {
        let error = served.apply([("image", Value::Bytes(bytes))], &mut row).unwrap_err();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Format, Some("image")), "{error}");
    }
    let error = served.apply([], &mut row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
    // A bad record leaves nothing behind.
    served.apply([("image", Value::Bytes(&file))], &mut row).unwrap();
    let again = tensors(&row);
    served.apply([("image", Value::Bytes(&file))], &mut row).unwrap();
    assert!(tensors(&row) == again);
}

#[test]
fn a_struct_keeps_the_value_of_its_f32() {
    #[derive(serde::Serialize)]
    struct Record {
        x: f32,
        y: Option<f64>,
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    std::fs::write(&path, "x,y\n1,2\n").unwrap();
    let numbers = Numbers::f64().missing(Missing::Value(-1.0));
    let served = Loader::open(&path).unwrap().field("x", Numbers::f64()).field("y", numbers).serve().unwrap();
    let mut row = served.row();
    served.apply_struct(&Record { x: 0.1, y: None }, &mut row).unwrap();
    assert_eq!(row.tensor("x").unwrap().as_slice::<f64>().unwrap(), [f64::from(0.1f32)]);
    assert_eq!(row.tensor("y").unwrap().as_slice::<f64>().unwrap(), [-1.0]);
}
