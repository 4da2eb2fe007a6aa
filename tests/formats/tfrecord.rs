//! TFRecord files: against what TensorFlow reads, and damaged in every way.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfeed::field::{Class, Image, Numbers, Text, Tokens};
use ringfeed::formats::Formats;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, FieldInfo, FieldKind, Scratch, TfRecordOptions, TfRecords, Value};
use ringfeed::settings::SavedIndex;
use ringfeed::storage::Files;
use ringfeed::tensor::NumberSlice;
use ringfeed::{DType, ErrorKind, Loader, Result};
use serde_json::{Value as Json, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tfrecord").join(name)
}

fn expected(name: &str) -> Vec<Json> {
    let all: Json = serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap();
    all[name].as_array().unwrap().clone()
}

fn open(path: &Path) -> Result<TfRecords> {
    TfRecords::open(&Files::local(), path, &TfRecordOptions::default(), &MemoryBudget::unlimited())
}

/// A file with these bytes.
fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn framed(record: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let len = (record.len() as u64).to_le_bytes();
    [&len[..], &masked(&len), record, &masked(record)].concat()
}

/// Adds a value to a list of all that a feature holds, as `fixtures/tfrecord/make.py` writes them down.
fn add(value: Value<'_>, into: &mut Vec<Json>) {
    match value {
        Value::I64(number) => into.push(json!({"ints": [number.to_string()]})),
        Value::F64(number) => into.push(json!({"floats": [(number as f32).to_bits()]})),
        Value::Bytes(bytes) => into.push(json!({"bytes": [hex(bytes)]})),
        Value::Numbers(NumberSlice::I64(numbers)) => {
            into.push(json!({"ints": numbers.iter().map(i64::to_string).collect::<Vec<_>>()}));
        }
        Value::Numbers(NumberSlice::F32(numbers)) => {
            into.push(json!({"floats": numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>()}));
        }
        Value::List(list) => list
            .each(&mut |value| {
                add(value, into);
                Ok(())
            })
            .unwrap(),
        other => panic!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The values of a field in each record, one behind the other; null where there is nothing.
fn flat(parts: &[Json]) -> Json {
    let mut kinds: Vec<(&String, Vec<Json>)> = Vec::new();
    for part in parts.iter().filter_map(Json::as_object) {
        for (kind, values) in part {
            let values = values.as_array().unwrap().iter().cloned();
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, all)) => all.extend(values),
                None => kinds.push((kind, values.collect())),
            }
        }
    }
    match kinds.into_iter().find(|(_, values)| !values.is_empty()) {
        Some((kind, values)) => json!({ kind: values }),
        None => Json::Null,
    }
}

/// A field of every record, or what is wrong with it.
fn values(records: &mut TfRecords, field: &str) -> Vec<Result<Json>> {
    records.forget();
    let number = records.find(&field.into()).unwrap();
    let ids: Vec<u64> = (0..records.len()).collect();
    let mut scratch = Scratch::default();
    let mut read = |nth: usize| {
        records.fetch(&ids, nth, &mut scratch)?;
        let mut found = Vec::new();
        records.read(ids[nth], nth, &mut scratch, &mut |field, value| {
            assert_eq!(field, number);
            add(value, &mut found);
            Ok(())
        })?;
        Ok(flat(&found))
    };
    (0..ids.len()).map(&mut read).collect()
}

#[test]
fn features_are_those_that_tensorflow_reads() {
    for name in ["train-00000-of-00002", "train-00001-of-00002", "kinds.tfrecord", "zlib-00000-of-00001"] {
        let mut records = open(&fixture(name)).unwrap();
        let expected = expected(name);
        assert_eq!(records.len(), expected.len() as u64);
        let fields: Vec<String> = records.fields().iter().map(|field| field.name.clone()).collect();
        assert!(fields.is_sorted() && fields.len() >= 5, "{fields:?}");
        assert!(expected.iter().flat_map(|record| record.as_object().unwrap().keys()).all(|key| fields.contains(key)));
        for field in fields {
            for (nth, (read, expected)) in values(&mut records, &field).into_iter().zip(&expected).enumerate() {
                let expected = expected.get(&field).map_or(Json::Null, |value| flat(std::slice::from_ref(value)));
                assert_eq!(read.unwrap(), expected, "{name}: record {nth}: {field}");
            }
        }
    }
}

#[test]
fn sequence_examples_have_their_context_and_their_lists_step_behind_step() {
    let mut records = open(&fixture("sequences.tfrecord")).unwrap();
    let names: Vec<&str> = records.fields().iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["context/both", "feature_lists/both", "id", "steps", "words"]);
    for (field, part, key) in [
        ("context/both", "context", "both"),
        ("feature_lists/both", "lists", "both"),
        ("id", "context", "id"),
        ("context/id", "context", "id"),
        ("steps", "lists", "steps"),
        ("words", "lists", "words"),
    ] {
        for (read, expected) in values(&mut records, field).into_iter().zip(expected("sequences.tfrecord")) {
            let expected = match &expected[part][key] {
                Json::Array(steps) => flat(steps),
                value => flat(std::slice::from_ref(value)),
            };
            assert_eq!(read.unwrap(), expected, "{field}");
        }
    }
}

#[test]
fn fields_are_what_the_records_hold() {
    let records = open(&fixture("kinds.tfrecord")).unwrap();
    let numbers = |name: &str, dtype| FieldInfo::new(name, FieldKind::Numbers(dtype)).shape(&[0]);
    let expected = [
        numbers("f", DType::F32),
        numbers("i", DType::I64),
        numbers("l", DType::I64),
        FieldInfo::new("none", FieldKind::Other),
        FieldInfo::new("rare", FieldKind::Numbers(DType::I64)),
        FieldInfo::new("s", FieldKind::Bytes).shape(&[0]),
    ];
    assert_eq!(records.fields(), expected);
    let train = open(&fixture("train-00000-of-00002")).unwrap();
    let size = train.fields().iter().find(|field| field.name == "size").unwrap();
    assert_eq!(*size, FieldInfo::new("size", FieldKind::Numbers(DType::I64)).shape(&[2]));
}

#[test]
fn images_classes_and_padded_lists_come_from_a_file_without_an_ending() {
    let loader = |name: &str| {
        Loader::open(fixture(name))
            .unwrap()
            .field("image", Image::rgb(16, 24).from("image/encoded"))
            .field("class", Class.from("image/class/text"))
            .field("index", Class.from("image/class/label"))
            .field("name", Text::new(8).from("image/class/text"))
            .field("xmin", Numbers::f32().max_len(2).from("image/object/bbox/xmin"))
            .batch_size(6)
    };
    let batch = loader("train-00000-of-00002").build().unwrap().next().unwrap().unwrap();
    let at = |name: &str| batch.tensor(name).unwrap().bytes().to_vec();
    let photos = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/images");
    let pixels = at("image");
    for (nth, name) in ["rgb.png", "rgb.jpg", "rgb-lossless.webp"].iter().enumerate() {
        let list = tempfile::tempdir().unwrap();
        std::fs::copy(photos.join(name), list.path().join(name)).unwrap();
        let alone = Loader::images(list.path()).batch_size(1).build().unwrap().next().unwrap().unwrap();
        let bytes = pixels.len() / 6;
        let alone = alone.features().unwrap().bytes().iter().flat_map(|level| f32::from(*level).to_ne_bytes());
        assert!(pixels[nth * bytes..(nth + 1) * bytes].iter().copied().eq(alone), "{name}");
    }
    assert_eq!(batch.tensor("class").unwrap().as_slice::<i64>().unwrap(), [0, 2, 1, 0, 2, 1]);
    assert_eq!(batch.tensor("index").unwrap().as_slice::<i64>().unwrap(), [0, 1, 2, 0, 1, 2]);
    assert_eq!(batch.tensor("name_len").unwrap().as_slice::<i64>().unwrap(), [2, 3, 7, 2, 3, 7]);
    assert_eq!(at("xmin_mask"), [0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1]);
    assert_eq!(batch.tensor("xmin").unwrap().as_slice::<f32>().unwrap()[4..6], [0.25, 0.25 + 1.0 / 64.0]);
    let packed = loader("train-00001-of-00002").build().unwrap().next().unwrap().unwrap();
    assert_eq!(packed.len(), 2);
    assert_eq!(packed.tensor("image").unwrap().bytes(), &pixels[..pixels.len() / 3]);
}

#[test]
fn numbers_become_tensors_where_nobody_says_what_should() {
    let batch = Loader::open(fixture("train-00000-of-00002")).unwrap().batch_size(6).build().unwrap().next();
    let batch = batch.unwrap().unwrap();
    let names: Vec<&str> = batch.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["image/class/label", "image/object/bbox/xmin", "image/object/bbox/xmin_mask", "size", "weight"]);
    assert_eq!(batch.tensor("weight").unwrap().as_slice::<f32>().unwrap()[..3], [1.0, 0.5, 1.0 / 3.0]);
}

#[test]
fn what_no_record_has_is_looked_for_in_all_and_a_name_nearby_is_told() {
    let mut bytes = framed(b"").repeat(3000);
    // {"late": int64_list {5}}
    bytes.extend(framed(b"\x0a\x0f\x0a\x0d\x0a\x04late\x12\x05\x1a\x03\x0a\x01\x05"));
    let file = file(&bytes);
    let mut records = open(file.path()).unwrap();
    assert!(records.fields().is_empty());
    assert_eq!(values(&mut records, "late")[3000].as_ref().unwrap(), &json!({"ints": ["5"]}));
    let error = open(&fixture("kinds.tfrecord")).unwrap().find(&"rar".into()).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("did you mean \"rare\"?"), "{error}");
}

#[test]
fn a_file_that_is_cut_off_has_one_bad_record_that_says_so() {
    let whole = std::fs::read(fixture("kinds.tfrecord")).unwrap();
    let begins: Vec<usize> = {
        let mut at = 0;
        let next = || {
            let begin = at;
            at += 16 + u64::from_le_bytes(whole.get(at..at + 8)?.try_into().unwrap()) as usize;
            Some(begin)
        };
        std::iter::from_fn(next).collect()
    };
    assert_eq!(begins.len(), 7);
    for cut in 0..whole.len() {
        let file = file(&whole[..cut]);
        let mut records = open(file.path()).unwrap();
        let good = begins.iter().skip(1).filter(|begin| **begin <= cut).count();
        let is_between = begins.contains(&cut);
        assert_eq!(records.len(), (good + usize::from(!is_between)) as u64, "{cut}");
        if good == 0 {
            continue;
        }
        let read = values(&mut records, "i");
        assert!(read[..good].iter().all(Result::is_ok), "{cut}");
        if let Some(Err(error)) = read.get(good) {
            assert_eq!((error.kind(), error.path()), (ErrorKind::Data, Some(file.path())));
            assert_eq!(
                (error.location().record, error.location().byte),
                (Some(good as u64), Some(begins[good] as u64))
            );
            assert!(error.message().contains("truncated"), "{error}");
        } else {
            assert!(is_between, "{cut}");
        }
    }
}

#[test]
fn files_compressed_by_zlib_are_told_by_what_they_unpack_to() {
    let whole = std::fs::read(fixture("zlib-00000-of-00001")).unwrap();
    let format = |path: &Path| Formats::new().detect(path).map(|found| found[0].format());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    assert_eq!(format(&write("kept without a word", &whole)).unwrap(), "tfrecord");
    // A text may begin with the two bytes that zlib's data begins with.
    assert_eq!(format(&write("squares", b"x^2,x\n1,1\n4,2\n")).unwrap(), "csv");
    let path = folder.path().join("cut");
    for cut in 1..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        // Of the first byte or of an unfinished header, nobody knows that it is compressed.
        match open(&path) {
            Err(error) => assert!(error.kind() == ErrorKind::Format && error.path() == Some(&path), "{cut}: {error}"),
            Ok(records) => assert!(records.len() == 1 && cut < 12, "{cut}"),
        }
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        match open(&path) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Format, "{at}: {error}"),
            // Bits that fill up the last byte say nothing.
            Ok(mut records) => {
                let good: Vec<Json> = values(&mut records, "i").into_iter().map(Result::unwrap).collect();
                let mut whole = open(&fixture("kinds.tfrecord")).unwrap();
                let wanted = values(&mut whole, "i").into_iter().map(Result::unwrap);
                assert_eq!(good, wanted.collect::<Vec<_>>(), "{at}");
            }
        }
    }
    std::fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
    let error = open(&path).unwrap_err();
    assert!(error.message().contains("after the end of the compressed data"), "{error}");
}

#[test]
fn every_byte_that_changes_is_an_error() {
    let whole = std::fs::read(fixture("kinds.tfrecord")).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let file = file(&damaged);
        match open(file.path()) {
            Err(error) => {
                assert_eq!((error.kind(), error.path()), (ErrorKind::Format, Some(file.path())), "{error}");
                assert!(error.message().contains("checksum") && error.location().byte.is_some(), "{error}");
            }
            Ok(mut records) => {
                let read = values(&mut records, "i");
                let bad: Vec<_> = read.iter().filter_map(|value| value.as_ref().err()).collect();
                assert!(bad.len() == 1 && bad[0].message().contains("damaged"), "byte {at}: {bad:?}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_an_example_names_file_record_byte_and_feature() {
    // int64_list of feature "x" with a number that does not end.
    let record = b"\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x80";
    let good = b"\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x05";
    let file = file(&[framed(good), framed(record)].concat());
    let mut records = open(file.path()).unwrap();
    let error = values(&mut records, "x").remove(1).unwrap_err();
    assert_eq!(
        (error.kind(), error.path(), error.location().column.as_deref()),
        (ErrorKind::Data, Some(file.path()), Some("x"))
    );
    assert_eq!((error.location().record, error.location().byte), (Some(1), Some(16 + 14 + 12 + 13)));
    assert!(error.message().contains("the end inside a number"), "{error}");
    // A fault before any feature is found spoils the record, too.
    let others: [(&[u8], &str); 4] = [
        (b"\x0a\x7f", "longer than its message"),
        (b"\x0a\x08\x0a\x06\x0a\x01x\x12\x01\x1a", "the end inside"),
        (b"\x0a\x09\x0a\x07\x0a\x01x\x12\x00\x48\x01", "something beside its feature"),
        (b"\x0a\x0b\x0a\x09\x0a\x01x\x12\x04\x1a\x00\x12\x00", "two lists of values"),
    ];
    for (record, message) in others {
        let file = self::file(&[framed(good), framed(record)].concat());
        let error = values(&mut open(file.path()).unwrap(), "x").remove(1).unwrap_err();
        assert!(error.message().contains(message) && error.location().record == Some(1), "{error}");
    }
}

#[test]
fn records_beyond_the_limits_are_refused_with_their_place() {
    let file = file(&[framed(b""), framed(&[0; 100])].concat());
    let with = |options: &TfRecordOptions, path: &Path| {
        TfRecords::open(&Files::local(), path, options, &MemoryBudget::unlimited()).unwrap_err()
    };
    let error = with(&TfRecordOptions { max_record_bytes: 99, ..TfRecordOptions::default() }, file.path());
    assert_eq!((error.kind(), error.location().record, error.location().byte), (ErrorKind::Limit, Some(1), Some(16)));
    let options = TfRecordOptions { max_unpacked_bytes: 100, ..TfRecordOptions::default() };
    assert_eq!(with(&options, &fixture("train-00001-of-00002")).kind(), ErrorKind::Limit);
    // A length that no file has is the end of the file.
    let len = u64::MAX.to_le_bytes();
    let masked = crc32c::crc32c(&len).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let file = self::file(&[&len[..], &masked, b"bytes"].concat());
    let mut records = open(file.path()).unwrap();
    assert!(records.find(&"x".into()).is_err());
    let mut scratch = Scratch::default();
    records.fetch(&[0], 0, &mut scratch).unwrap();
    let error = records.read(0, 0, &mut scratch, &mut |_, _| Ok(()));
    assert!(error.unwrap_err().message().contains("truncated"));
}

/// TensorFlow's own parsers do not tell the two apart either.
#[test]
fn a_feature_without_values_is_missing_and_has_no_length() {
    let two = framed(b"\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a\x02\x05\x06");
    let none = framed(b"\x0a\x09\x0a\x07\x0a\x01x\x12\x02\x1a\x00");
    let file = file(&[two, none, framed(b"")].concat());
    for (filter, kept) in [("len(x) == 2", 1), ("len(x) == missing", 2)] {
        let loader = Loader::open(file.path()).unwrap().field("x", Numbers::i64().max_len(2)).filter(filter);
        assert_eq!(loader.plan().unwrap().samples, Some(kept), "{filter}");
    }
}

/// A field of a message in protobuf, whose bytes are these.
fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// A sequence example whose list of features `x` has these steps of byte strings.
fn steps(steps: &[&[&str]]) -> Vec<u8> {
    let strings = |step: &&[&str]| step.iter().flat_map(|text| part(1, text.as_bytes())).collect::<Vec<u8>>();
    let list: Vec<u8> = steps.iter().flat_map(|step| part(1, &part(1, &strings(step)))).collect();
    framed(&part(2, &part(1, &[part(1, b"x"), part(2, &list)].concat())))
}

#[test]
fn a_step_without_byte_strings_stays_among_those_that_have_one() {
    let full = steps(&[&["a"], &["b"]]).repeat(1000);
    let file = file(&[full, steps(&[&["a"], &[], &["b"]])].concat());
    let mut records = open(file.path()).unwrap();
    records.find(&"x".into()).unwrap();
    let mut scratch = Scratch::default();
    records.fetch(&[1000], 0, &mut scratch).unwrap();
    let mut found = Vec::new();
    let mut visit = |_, value: Value<'_>| match value {
        Value::List(list) => list.each(&mut |step| {
            found.push(step.describe());
            Ok(())
        }),
        other => panic!("{other:?}"),
    };
    records.read(1000, 0, &mut scratch, &mut visit).unwrap();
    assert_eq!(found, ["\"a\"", "a list", "\"b\""]);
}

#[test]
fn a_feature_that_is_asked_for_by_two_names_goes_to_both() {
    // {"x": int64_list {5}}
    let file = file(&framed(b"\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x05"));
    for names in [["x", "context/x"], ["context/x", "x"]] {
        let [one, other] = names.map(|name| Numbers::i64().from(name));
        let loader = Loader::open(file.path()).unwrap().field("one", one).field("other", other).batch_size(1);
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        let number = |name: &str| batch.tensor(name).unwrap().as_slice::<i64>().unwrap()[0];
        assert_eq!((number("one"), number("other")), (5, 5), "{names:?}");
    }
}

#[test]
fn where_records_begin_is_kept_for_the_next_run_and_never_trusted_with_their_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.tfrecord");
    std::fs::copy(fixture("kinds.tfrecord"), &path).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let options = TfRecordOptions { saved_index: SavedIndex::Beside, ..TfRecordOptions::default() };
    let open = || TfRecords::open(&Files::local(), &path, &options, &MemoryBudget::unlimited()).unwrap();
    let first = values(&mut open(), "i");
    let kept = folder.path().join("data.tfrecord.ringfeed");
    let saved = std::fs::read(&kept).unwrap();
    let again = values(&mut open(), "i");
    assert_eq!(first.len(), again.len());
    assert!(first.iter().zip(&again).all(|(one, other)| one.as_ref().unwrap() == other.as_ref().unwrap()));
    assert_eq!(std::fs::read(&kept).unwrap(), saved);
    // What changed is read anew.
    std::fs::write(&path, framed(b"")).unwrap();
    assert_eq!(open().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever a record with a right checksum holds: values or an error, never a panic.
    #[test]
    fn any_bytes_are_values_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64), flips in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let kinds = std::fs::read(fixture("sequences.tfrecord")).unwrap();
        let len = u64::from_le_bytes(kinds[..8].try_into().unwrap()) as usize;
        let mut changed = kinds[12..12 + len].to_vec();
        for (at, value) in flips {
            changed[at % len] = value;
        }
        let file = file(&[framed(&bytes), framed(&changed)].concat());
        let mut records = open(file.path()).unwrap();
        let fields: Vec<String> = records.fields().iter().map(|field| field.name.clone()).collect();
        for field in fields {
            records.forget();
            records.find(&field.as_str().into()).unwrap();
            let mut scratch = Scratch::default();
            for record in 0..2 {
                records.fetch(&[record], 0, &mut scratch).unwrap();
                let _ = records.read(record, 0, &mut scratch, &mut |_, value| match value {
                    Value::List(list) => list.each(&mut |_| Ok(())),
                    _ => Ok(()),
                });
            }
        }
    }
}

#[test]
fn lists_without_a_bound_are_as_long_as_the_longest_of_the_batch() {
    let loader = Loader::open(fixture("sequences.tfrecord")).unwrap().field("x", Numbers::f32().from("steps"));
    let batch = loader.field("ids", Tokens::new(3).from("feature_lists/both")).batch_size(3).build().unwrap().next();
    let batch = batch.unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().shape(), [3, 4]);
    assert_eq!(
        batch.tensor("x").unwrap().as_slice::<f32>().unwrap(),
        [1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 5.0, 6.0, 7.0, 8.0]
    );
    assert_eq!(batch.tensor("ids").unwrap().shape(), [3, 3]);
}

#[test]
fn the_shards_of_a_folder_are_one_data_set() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["train-00000-of-00002", "train-00001-of-00002"] {
        std::fs::copy(fixture(name), folder.path().join(name)).unwrap();
    }
    for path in [folder.path().to_owned(), folder.path().join("train-*")] {
        let loader = Loader::open(path).unwrap().field("index", Class.from("image/class/label")).batch_size(8);
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.tensor("index").unwrap().as_slice::<i64>().unwrap(), [0, 1, 2, 0, 1, 2, 0, 1]);
    }
}

/// The parts of a message in the format of protocol buffers: fields of bytes, by their numbers.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, field) in fields {
        bytes.push(number << 3 | 2);
        let mut len = field.len();
        while len > 127 {
            bytes.push(len as u8 | 128);
            len >>= 7;
        }
        bytes.push(len as u8);
        bytes.extend_from_slice(field);
    }
    bytes
}

/// An example with a feature of bytes.
fn example_of(name: &str, bytes: &[u8]) -> Vec<u8> {
    let feature = message(&[(1, &message(&[(1, bytes)]))]);
    message(&[(1, &message(&[(1, &message(&[(1, name.as_bytes()), (2, &feature)]))]))])
}

#[test]
fn a_record_whose_length_begins_like_a_compressed_file_is_read() {
    // The first bytes of such a length are those of gzip, with its method.
    const GZIP: usize = 0x08_8b1f;
    let frame = example_of("t", &[b'x'; GZIP]).len() - GZIP;
    let record = framed(&example_of("t", &vec![b'x'; GZIP - frame]));
    assert_eq!(record[..3], [0x1f, 0x8b, 8]);
    let file = file(&record);
    let records =
        TfRecords::open(&Files::local(), file.path(), &TfRecordOptions::default(), &MemoryBudget::unlimited());
    assert_eq!(records.unwrap().len(), 1);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn the_byte_of_a_fault_in_a_value_is_said_to_be_one_of_the_value() {
    let jpeg = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/images/orientation-6.jpg")).unwrap();
    let first = framed(&example_of("i", &jpeg));
    let file = file(&[&first[..], &framed(&example_of("i", &jpeg[..jpeg.len() / 2]))].concat());
    let source =
        ringfeed::settings::SourceConfig::new(ringfeed::formats::TfRecord, file.path(), TfRecordOptions::default());
    let loader = Loader::new(source).field("i", Image::rgb(8, 8)).batch_size(1);
    let error = loader.build().unwrap().nth(1).unwrap().unwrap_err();
    let location = error.location();
    assert_eq!((location.record, location.column.as_deref()), (Some(1), Some("i")), "{error}");
    assert_eq!(location.byte, Some(first.len() as u64), "the record's: {error}");
    assert!(error.message().contains(" of the value)"), "{error}");
}
