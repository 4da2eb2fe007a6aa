//! One list of transforms: on the host, or as much of it on a device as can be, with the same results.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use ringfeed::arrays::{RawOptions, StoredType};
use ringfeed::device::{Device, DeviceDataSetIterator, HostDevice, Upload};
use ringfeed::field::{Array, Field, Numbers};
use ringfeed::formats::Raw;
use ringfeed::images::PixelOrder;
use ringfeed::settings::{BadLimits, BadRecords, SourceConfig};
use ringfeed::tensor::{Dim, Role, TensorSpec};
use ringfeed::transform::{Operation, bins, cast, clip, flip, layout, log1p, normalise, remove};
use ringfeed::{DType, Loader, LoaderConfig, Normaliser};

const ROWS: usize = 10;
const SIZE: usize = 3 * 5 * 6;

fn raw(folder: &Path, name: &str, bytes: Vec<u8>, options: RawOptions, field: impl Into<Field>) -> SourceConfig {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    SourceConfig::new(Raw, path, options).field(name, field)
}

/// Ten images of bytes, a flag and a number for each, and a class, of which there are three; one sample has none of
/// them.
fn loader(folder: &Path) -> Loader {
    let image = (0..ROWS * SIZE).map(|i| (i * 37 % 251) as u8).collect();
    let class = (0..ROWS).map(|i| if i == 6 { 3 } else { (i % 3) as u8 }).collect();
    let number = (0..ROWS).flat_map(|i| (i as f32 / 4.0).to_le_bytes()).collect();
    let shaped = |shape: &[usize]| RawOptions { shape: shape.to_vec(), ..RawOptions::default() };
    let label = Numbers::of(DType::U8).from("class").role(Role::Label);
    let f32s = RawOptions { stored: StoredType::F32, ..RawOptions::default() };
    Loader::new(raw(folder, "image", image, shaped(&[3, 5, 6]), Array::new()))
        .and(raw(folder, "flag", (0..ROWS).map(|i| (i % 2) as u8).collect(), RawOptions::default(), Array::new()))
        .and(raw(folder, "number", number, f32s, Array::new()))
        .and(raw(folder, "class", class, RawOptions::default(), label))
        .batch_size(4)
        .shuffle(3)
        .bad_records(BadRecords::Skip(BadLimits::default()))
}

fn with(loader: Loader, list: impl IntoIterator<Item = Operation>) -> Loader {
    list.into_iter().fold(loader, Loader::transform)
}

/// Name, type, shape and bytes of every tensor of every batch, with the names of its samples.
type Seen = Vec<(Vec<u64>, Vec<(DType, Vec<usize>, Vec<u8>)>)>;

fn on_host(loader: &Loader) -> Seen {
    let batches = loader.build().unwrap().map(|batch| {
        let batch = batch.unwrap();
        let tensors = batch.tensors().map(|tensor| (tensor.dtype(), tensor.shape().to_vec(), tensor.bytes().to_vec()));
        (batch.sample_ids().to_vec(), tensors.collect())
    });
    batches.collect()
}

fn on_device(uploaded: &mut DeviceDataSetIterator<HostDevice>) -> Seen {
    let batches = uploaded.map(|batch| {
        let batch = batch.unwrap();
        let on = batch.on(&batch.device().stream().unwrap()).unwrap();
        let tensors = on.tensors().map(|tensor| (tensor.dtype(), tensor.shape().to_vec(), tensor.to_host().unwrap()));
        (batch.sample_ids().to_vec(), tensors.collect())
    });
    batches.collect()
}

/// Checks that the list does the same wherever it is done, and gives the types in which tensors travel.
fn travels(loader: &Loader) -> Vec<String> {
    let expected = on_host(loader);
    let mut uploaded = loader.upload(HostDevice::new()).unwrap();
    let types = uploaded.schema().tensors().iter().map(|spec| format!("{} {}", spec.name, spec.dtype)).collect();
    assert!(on_device(&mut uploaded) == expected);
    let samples: usize = expected.iter().map(|(samples, _)| samples.len()).sum();
    assert_eq!(samples + uploaded.bad_records().len(), ROWS);
    types
}

fn classes(dtype: DType) -> Operation {
    Operation::OneHot { tensor: "class".to_owned(), classes: Some(3), dtype }
}

fn imagenet() -> Operation {
    normalise("image", Normaliser::imagenet())
}

#[test]
fn the_end_of_the_list_runs_on_the_device_and_bad_samples_are_found_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let list = [
        log1p("number"),
        cast("image", DType::F16),
        flip("image", "flag"),
        layout("image", PixelOrder::Nhwc),
        imagenet(),
        classes(DType::Bf16),
        clip("number", 0.0, 1.0),
    ];
    let loader = with(loader(folder.path()), list);
    assert_eq!(travels(&loader), ["image u8", "flag u8", "number f32", "class u8"]);
    let seen = on_host(&loader);
    assert_eq!(seen.iter().map(|(samples, _)| samples.len()).sum::<usize>(), 9, "one has no class");
    assert_eq!(seen[0].1[0].1[1..], [5, 6, 3]);
}

#[test]
fn what_the_device_can_not_do_stays_on_the_host_with_all_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let loader = || loader(folder.path());
    let to_f32 = || cast("image", DType::F32);
    let features = vec!["image".to_owned()];
    let mix = Operation::Mixup { alpha: 0.2, probability: 1.0, features, labels: Vec::new() };
    // The list, and how the image and the class travel.
    let linear = || normalise("image", Normaliser::Linear { scale: 0.5, bias: -1.0 });
    let cases: [(Vec<Operation>, [&str; 2]); 8] = [
        (vec![], ["u8", "u8"]),
        // Only once is normalised there.
        (vec![to_f32(), imagenet(), linear(), cast("image", DType::F16)], ["f16", "u8"]),
        (vec![to_f32(), clip("image", 1.0, 200.0), imagenet()], ["f32", "u8"]),
        (vec![to_f32(), imagenet(), clip("image", 0.0, 1.0)], ["f32", "u8"]),
        // It would be read after it was removed, or changed.
        (vec![to_f32(), flip("image", "flag"), remove("flag")], ["f32", "u8"]),
        (vec![to_f32(), flip("image", "flag"), cast("flag", DType::F32)], ["f32", "u8"]),
        // All that may look at any tensor.
        (vec![classes(DType::F32), to_f32(), imagenet(), mix], ["f32", "f32"]),
        (vec![classes(DType::F32), clip("class", 0.0, 0.5), to_f32(), bins("number", [1.0])], ["u8", "f32"]),
    ];
    for (list, expected) in cases {
        let found = travels(&with(loader(), list.clone()));
        let type_of = |name: &str| found.iter().find_map(|found| found.strip_prefix(&format!("{name} "))).unwrap();
        assert_eq!([type_of("image"), type_of("class")], expected, "{list:?}");
    }
    let own = with(loader(), [to_f32()]).map(TensorSpec::f32("first", []), |row, out, _| {
        out.f32()?[0] = row.f32("image")?[0];
        Ok(())
    });
    let own = with(own, [imagenet(), remove("first"), classes(DType::F32)]);
    assert_eq!(travels(&own), ["image f32", "flag u8", "number f32", "class u8"]);
}

#[test]
fn padded_lists_travel_as_they_are_and_samples_without_columns_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let line = |v: &str, at: &str| format!("{{\"v\": [{v}], \"at\": [{at}]}}\n");
    let lines = [line("7, 8", "0, 2"), line("5, 6", "1"), line("9", "4"), line("", "")];
    std::fs::write(&path, lines.concat()).unwrap();
    let settings = format!(
        r#"{{"source": {{"path": {path:?}}}, "batch_size": 4, "bad_records": "skip",
            "fields": {{"v": {{"numbers": "f32", "max_len": 3}}, "at": {{"numbers": "i64", "max_len": 3}}}}}}"#
    );
    let loader = Loader::from(LoaderConfig::from_json(&settings).unwrap());
    let (tensor, indices, mask) = ("v".to_owned(), "at".to_owned(), Some("v_mask".to_owned()));
    let dense = Operation::Dense { tensor, indices, columns: 1000, mask, dtype: DType::F32 };
    let listed = loader.clone().transform(dense.clone());
    let expected = on_host(&listed);
    assert_eq!(expected[0].0, [0, 2, 3]);
    let on = HostDevice::new;
    for mut uploaded in [listed.upload(on()).unwrap(), loader.upload(Upload::to(on()).transform(dense)).unwrap()] {
        assert_eq!(uploaded.schema().tensors()[0].shape, [Dim::Fixed(3)], "the rows travel, and not 1000 columns");
        assert!(on_device(&mut uploaded) == expected);
        assert_eq!(uploaded.bad_records().len(), 1);
    }
}

#[test]
fn an_upload_that_says_what_the_device_does_leaves_the_list_to_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let loader = with(loader(folder.path()), [classes(DType::F32)]);
    let upload = Upload::to(HostDevice::new()).transform(cast("image", DType::F32)).transform(imagenet());
    let mut uploaded = loader.upload(upload).unwrap();
    assert_eq!(uploaded.schema().tensors()[3].dtype, DType::F32);
    let expected = on_host(&with(loader.clone(), [cast("image", DType::F32), imagenet()]));
    assert!(on_device(&mut uploaded) == expected);
}

#[test]
fn settings_say_the_same_as_the_builder() {
    let folder = tempfile::tempdir().unwrap();
    let settings = r#"[
        { "kind": "layout", "tensor": "image", "order": "nhwc", "from": "nchw" },
        { "kind": "flip", "tensor": "image", "by": "flag", "order": "nhwc" },
        { "kind": "cast", "tensor": "image", "dtype": "f32" },
        { "kind": "normalise", "tensor": "image", "normaliser": { "kind": "linear", "scale": 0.25, "bias": -2.0 } },
        { "kind": "dense", "tensor": "x", "indices": "at", "columns": 7, "mask": "there", "dtype": "f16" }
    ]"#;
    let list: Vec<Operation> = serde_json::from_str(settings).unwrap();
    let (tensor, indices, mask) = ("x".to_owned(), "at".to_owned(), Some("there".to_owned()));
    let dense = Operation::Dense { tensor, indices, columns: 7, mask, dtype: DType::F16 };
    assert_eq!(list[4], dense);
    let built = [
        layout("image", PixelOrder::Nhwc),
        flip("image", "flag"),
        cast("image", DType::F32),
        normalise("image", Normaliser::Linear { scale: 0.25, bias: -2.0 }),
    ];
    let (settled, built) = (with(loader(folder.path()), list[..4].to_vec()), with(loader(folder.path()), built));
    assert_eq!(on_host(&settled), on_host(&built));
    assert_eq!(travels(&settled)[0], "image u8");
    let faults = |operation: Operation| {
        let source = SourceConfig::new(Raw, folder.path().join("image"), RawOptions::default());
        Loader::from(LoaderConfig { transforms: vec![operation], ..LoaderConfig::new(source) }).faults()
    };
    let none = Operation::Dense { tensor: "x".into(), indices: "at".into(), columns: 0, mask: None, dtype: DType::F64 };
    let found = faults(none);
    assert_eq!(
        found,
        ["transforms[0].columns: 0; there are 1 to 16777216", "transforms[0].dtype: f64; rows are f32, f16 or bf16"]
    );
}

#[test]
fn images_that_can_not_be_laid_out_or_flipped_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (vec![layout("number", PixelOrder::Nhwc)], "three dimensions"),
        (vec![flip("image", "number")], "may hold u8"),
        (vec![flip("image", "nothing")], "no tensor \"nothing\""),
        (
            vec![Operation::Layout {
                tensor: "image".to_owned(),
                order: PixelOrder::Nchw,
                from: Some(PixelOrder::Nhwc),
            }],
            "no dimension is 1 to 4 channels",
        ),
        (vec![normalise("number", Normaliser::Linear { scale: 0.0, bias: 1.0 })], "a scale of 0"),
    ];
    for (list, part) in cases {
        let loader = with(loader(folder.path()), list);
        for error in [loader.build().err().unwrap(), loader.upload(HostDevice::new()).err().unwrap()] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
