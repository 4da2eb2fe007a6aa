//! Records of fixed size: NPY and raw files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::Write;

use crate::common::{MAPPED, fixture, see_all, workspace};
use proptest::prelude::*;
use ringfeed::arrays::{Endian, IdxOptions, IdxReader, NpyOptions, NpyReader, RawOptions, RawReader, StoredType};
use ringfeed::field::{Array, Class, Field, Numbers};
use ringfeed::formats::Raw;
use ringfeed::inspect::verify;
use ringfeed::read::RecordReader;
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::storage::Access;
use ringfeed::tensor::{bf16, f16};
use ringfeed::tokens::TokenOptions;
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSet, DataSetIterator, Error, ErrorKind, Loader,
    LoaderConfig, Result,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// What NumPy says that its files hold.
fn expected() -> BTreeMap<String, Expected> {
    serde_json::from_str(&std::fs::read_to_string(fixture("npy/expected.json")).unwrap()).unwrap()
}

/// All values of a tensor of a batch.
fn numbers(batch: &DataSet, name: &str) -> Vec<f64> {
    let tensor = batch.tensor(name).unwrap();
    macro_rules! all {
        ($type:ty) => {
            tensor.as_slice::<$type>().unwrap().iter().map(|value| *value as f64).collect()
        };
    }
    match tensor.dtype() {
        DType::U8 => all!(u8),
        DType::I8 => all!(i8),
        DType::U16 => all!(u16),
        DType::I16 => all!(i16),
        DType::U32 => all!(u32),
        DType::I32 => all!(i32),
        DType::U64 => all!(u64),
        DType::I64 => all!(i64),
        DType::F32 => all!(f32),
        DType::F64 => all!(f64),
        other => panic!("{other}"),
    }
}

/// One batch of all records, in order.
fn all_of(reader: impl RecordReader + 'static) -> DataSet {
    let records = reader.len() as usize;
    let source = ReaderSource::new(reader).batch_size(records);
    AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap().next().unwrap().unwrap()
}

fn bytes_of(value: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(value.as_ref()).unwrap();
    file
}

#[test]
fn numpy_s_files_hold_what_numpy_says() {
    let mut types = Vec::new();
    for (name, expected) in expected() {
        for access in [Access::Read, MAPPED] {
            let path = fixture(&format!("npy/{name}.npy"));
            let reader = NpyReader::open(&path, &NpyOptions { access }).unwrap();
            types.push(reader.stored_type());
            assert_eq!(reader.len(), expected.shape[0] as u64, "{name}");
            if reader.is_empty() {
                continue;
            }
            let batch = all_of(reader);
            assert_eq!(batch.tensor("features").unwrap().shape(), expected.shape, "{name}");
            assert_eq!(numbers(&batch, "features"), expected.values, "{name}");
        }
        let path = fixture(&format!("npy/{name}.npy"));
        let reader = NpyReader::open_as(path, "features", Numbers::f64(), &NpyOptions::default()).unwrap();
        if !reader.is_empty() {
            assert_eq!(numbers(&all_of(reader), "features"), expected.values, "{name} as f64");
        }
    }
    let in_numpy = StoredType::ALL.into_iter().filter(|kind| *kind != StoredType::Bf16);
    assert!(in_numpy.clone().all(|kind| types.contains(&kind)), "each type was among them");
}

#[test]
fn what_an_array_of_numbers_is_not_is_refused_with_advice() {
    let refused = |name: &str| NpyReader::open(fixture(&format!("npy/bad-{name}.npy")), &NpyOptions::default());
    for (name, part) in [
        ("single", "a single number"),
        ("structured", "each field as an array of its own"),
        ("structured-unicode", "each field as an array of its own"),
        ("text", "holds text (\"<U3\")"),
        ("bytes", "holds text (\"|S3\")"),
        ("void", "raw bytes"),
        ("object", "Python objects"),
        ("complex", "complex numbers"),
        ("time", "dates or times"),
    ] {
        let error = refused(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.path().is_some() && error.location().byte.is_some(), "{error}");
    }
    let error = refused("rank-7").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.message().contains("6 dimensions"), "{error}");
}

#[test]
fn a_number_that_i64_does_not_hold_is_a_bad_record_with_its_byte() {
    let path = fixture("npy/bad-u8.npy");
    for access in [Access::Read, MAPPED] {
        let reader = NpyReader::open(&path, &NpyOptions { access }).unwrap();
        let source = ReaderSource::new(reader).bad_records(BadRecords::Skip(BadLimits::default()));
        let mut batches = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
        assert_eq!(numbers(&batches.next().unwrap().unwrap(), "features"), [1.0, 3.0]);
    }
    let report = verify(&path, 2, |_| {}).unwrap();
    assert_eq!((report.samples, report.bad_samples), (3, 1));
    let error = &report.bad[0];
    let start = std::fs::metadata(&path).unwrap().len() - 3 * 8;
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)));
    assert_eq!(error.location().byte, Some(start + 8));
    assert!(error.message().contains("9223372036854775808"), "{error}");
}

#[test]
fn an_error_in_fortran_order_names_the_byte_in_the_file() {
    let header = "{'descr': '<u8', 'fortran_order': True, 'shape': (3, 2), }\n";
    let columns = [[1, 3, 5], [2, 1 << 63, 6u64]];
    let numbers: Vec<u8> = columns.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
    let bytes = [with_header(header, 0), numbers].concat();
    let start = (bytes.len() - 6 * 8) as u64;
    let file = tempfile::Builder::new().suffix(".npy").tempfile().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let report = verify(file.path(), 2, |_| {}).unwrap();
    let place = report.bad[0].location();
    assert_eq!((report.bad.len(), place.record, place.byte), (1, Some(1), Some(start + 4 * 8)));
    assert_eq!(npy(&bytes).unwrap().place(2).byte, Some(start + 2 * 8));
}

/// A reader of NPY bytes, or why there is none.
fn npy(bytes: &[u8]) -> Result<NpyReader> {
    NpyReader::open(bytes_of(bytes).path(), &NpyOptions::default())
}

/// An NPY file of version 1 with this header and so many zeros behind it.
fn with_header(text: &str, data_bytes: usize) -> Vec<u8> {
    let len = u16::try_from(text.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\0", &len[..], text.as_bytes(), &vec![0; data_bytes]].concat()
}

#[test]
fn headers_of_npy_files_are_lies_until_checked() {
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
    assert_eq!(npy(&with_header(good, 24)).unwrap().len(), 2);
    let ways = "{ \"shape\" :(2,3L),\"fortran_order\":False,'descr':'f4'}";
    assert_eq!(npy(&with_header(ways, 24)).unwrap().len(), 2);
    let edited = |from: &str, to: &str| npy(&with_header(&good.replace(from, to), 24)).unwrap_err().to_string();
    for (from, to, part) in [
        ("(2, 3)", "(2, 4)", "promises 102 bytes, the file has 94"),
        ("(2, 3)", "(1, 3)", "promises 82 bytes, the file has 94"),
        ("(2, 3)", "(9223372036854775807, 3)", "more bytes than a file can hold"),
        ("(2, 3)", "(99999999999999999999, 3)", "a length below 2^64"),
        ("(2, 3)", "(-2, 3)", "a length below 2^64"),
        ("(2, 3)", "(2, 0)", "dimension 1 is 0"),
        ("(2, 3)", "(2 3)", "expected `,` or `)`"),
        ("(2, 3)", "2", "expected `(`"),
        ("<f4", "<f16", "does not know"),
        ("'<f4'", "3", "expected text in quotes"),
        ("False", "0", "expected `True` or `False`"),
        ("fortran_order", "f", "no entry \"f\""),
        ("'descr'", "'shape': (1,), 'descr'", "twice"),
        ("'shape': (2, 3), ", "", "has `descr`, `fortran_order` and `shape`"),
        ("}", "", "expected"),
        ("}\n", "} x", "something follows"),
        ("{", "", "expected `{`"),
    ] {
        assert!(edited(from, to).contains(part), "{from} as {to}: {}", edited(from, to));
    }
    let error = |bytes: &[u8]| npy(bytes).unwrap_err().to_string();
    assert!(error(b"").contains("ends inside its NPY header"));
    assert!(error(b"\x93NUMPY\x01").contains("ends inside its NPY header"));
    assert!(error(b"\x93NUMPY\x01\0\xff\xffabc").contains("ends inside its NPY header"));
    assert!(error(b"\x93NUMPY\x02\0\xff\xff\xff\xffabc").contains("an NPY header of 4294967295 bytes"));
    assert!(error(b"\x93NUMPY\x04\0\0\0\0\0\0").contains("version 4.0"));
    assert!(error(b"\x89PNG\r\n\x1a\n....").contains("not an NPY file"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_npy_files_are_errors_or_arrays(
        damage in proptest::collection::vec((0usize..152, any::<u8>()), 1..6),
        cut in proptest::option::of(0usize..152),
    ) {
        let mut bytes = std::fs::read(fixture("npy/i4-little.npy")).unwrap();
        for (at, value) in damage {
            bytes[at] = value;
        }
        bytes.truncate(cut.unwrap_or(bytes.len()));
        if let Ok(reader) = npy(&bytes) {
            prop_assert!(reader.len() <= bytes.len() as u64);
        }
    }
}

#[test]
fn every_truncation_of_an_npy_file_is_an_error_that_names_it() {
    let bytes = std::fs::read(fixture("npy/i4-little.npy")).unwrap();
    for len in 0..bytes.len() {
        let error = npy(&bytes[..len]).unwrap_err();
        assert_eq!((error.kind(), error.path().is_some()), (ErrorKind::Format, true), "{len} bytes: {error}");
    }
}

#[test]
fn raw_files_of_every_type_hold_what_was_written() {
    let values = [0u8, 1, 2, 100];
    for kind in StoredType::ALL {
        for endian in [Endian::Little, Endian::Big] {
            let data: Vec<u8> = values
                .iter()
                .flat_map(|value| {
                    let bits = match kind {
                        StoredType::F16 => f16::from_f32((*value).into()).to_bits().into(),
                        StoredType::Bf16 => bf16::from_f32((*value).into()).to_bits().into(),
                        StoredType::F32 => f32::from(*value).to_bits().into(),
                        StoredType::F64 => f64::from(*value).to_bits(),
                        _ => u64::from(*value),
                    };
                    match endian {
                        Endian::Little => bits.to_le_bytes()[..kind.bytes()].to_vec(),
                        Endian::Big => bits.to_be_bytes()[8 - kind.bytes()..].to_vec(),
                    }
                })
                .collect();
            // One byte of header, so that no element lies at a multiple of its size.
            for header in [&b""[..], b"!"] {
                let file = bytes_of([header, &data].concat());
                for access in [Access::Read, MAPPED] {
                    let options = RawOptions {
                        header_bytes: header.len() as u64,
                        endian,
                        access,
                        ..RawOptions::features(kind, &[2])
                    };
                    let batch = all_of(RawReader::open(file.path(), &options).unwrap());
                    assert_eq!(batch.tensor("features").unwrap().dtype(), kind.dtype());
                    assert_eq!(numbers(&batch, "features"), values.map(f64::from), "{kind} {endian:?} {access:?}");
                }
            }
        }
    }
}

#[test]
fn a_raw_file_of_no_whole_records_is_refused() {
    let error = |bytes: usize, options: &RawOptions| -> Error {
        RawReader::open(bytes_of(vec![0; bytes]).path(), options).unwrap_err()
    };
    let options = RawOptions { header_bytes: 10, ..RawOptions::features(StoredType::F32, &[3]) };
    let short = error(9, &options);
    assert!(short.kind() == ErrorKind::Format && short.message().contains("header_bytes are 10"), "{short}");
    let rest = error(10 + 12 + 5, &options);
    assert!(rest.location().byte == Some(22) && rest.message().contains("remainder 5"), "{rest}");
    assert!(error(8, &RawOptions::features(StoredType::U8, &[2, 0])).message().contains("dimension 2 is 0"));
    let huge = RawOptions::features(StoredType::F64, &[usize::MAX, 2]);
    assert!(error(8, &huge).message().contains("more bytes than a file can hold"));
    let (file, halves) = (bytes_of([0; 8]), RawOptions::features(StoredType::F16, &[1]));
    let narrow = RawReader::open_as(file.path(), "x", Numbers::of(DType::U8), &halves).unwrap_err();
    assert_eq!((narrow.kind(), narrow.location().column.as_deref()), (ErrorKind::Schema, Some("x")));
    let class = RawReader::open_as(file.path(), "x", Class, &halves).unwrap_err();
    assert!(class.message().contains("it holds f16 of shape [1]"), "{class}");
    let named = RawReader::open_as(file.path(), "x", Class::of(["a"]), &halves).unwrap_err();
    assert!(named.kind() == ErrorKind::Config && named.message().contains("a Loader makes more"), "{named}");
    assert_eq!(RawReader::open(bytes_of([]).path(), &options.clone()).unwrap_err().kind(), ErrorKind::Format);
    let empty = RawReader::open(bytes_of([0; 10]).path(), &options).unwrap();
    assert!(empty.is_empty());
}

/// Two files: records of five u16 that count up, and a label for each.
fn counting_files() -> (tempfile::NamedTempFile, tempfile::NamedTempFile) {
    let features: Vec<u8> = (0..5000u16).flat_map(u16::to_le_bytes).collect();
    let labels: Vec<u8> = (0..1000u32).map(|record| (record % 10) as u8).collect();
    (bytes_of(features), bytes_of(labels))
}

#[test]
fn batches_are_the_same_however_records_are_read_and_by_whom() {
    let (features, labels) = counting_files();
    let source = |access| {
        let options = RawOptions { access, ..RawOptions::features(StoredType::U16, &[5]) };
        let features = RawReader::open_as(features.path(), "features", Numbers::f32(), &options).unwrap();
        let options = RawOptions { access, ..RawOptions::default() };
        let classes = RawReader::open_as(labels.path(), "labels", Class, &options);
        ReaderSource::new(features).and(classes.unwrap()).shuffle(3).batch_size(33)
    };
    let mut shielded = AsyncShieldDataSetIterator::new(source(Access::Read), &workspace(1, 1)).unwrap();
    let naive = see_all(&mut shielded);
    let firsts: Vec<u64> = naive.iter().flat_map(|batch| batch.samples.clone()).collect();
    let values: Vec<f32> = naive.iter().flat_map(|batch| bytemuck::pod_collect_to_vec(&batch.tensors[0])).collect();
    let classes: Vec<i64> = naive.iter().flat_map(|batch| bytemuck::pod_collect_to_vec(&batch.tensors[1])).collect();
    for (nth, sample) in firsts.iter().enumerate() {
        assert_eq!(values[5 * nth..][..5], std::array::from_fn::<f32, 5, _>(|i| (sample * 5 + i as u64) as f32));
        assert_eq!(classes[nth], (sample % 10) as i64);
    }
    for (access, workers) in [(Access::Read, 2), (MAPPED, 1), (MAPPED, 3)] {
        let mut ahead = AsyncDataSetIterator::new(source(access), &workspace(workers, 2)).unwrap();
        assert_eq!(see_all(&mut ahead), naive, "{access:?} with {workers} workers");
    }
}

#[test]
fn records_that_become_nothing_else_are_those_of_the_file() {
    for (bytes, records) in [(1, 1000), (64, 700), (700, 300), (5000, 90)] {
        let numbers: Vec<u8> =
            (0..bytes * records).map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a) as u8).collect();
        let file = bytes_of(numbers.clone());
        for (access, workers) in [(Access::Read, 2), (MAPPED, 1), (MAPPED, 3)] {
            let options = RawOptions { access, ..RawOptions::features(StoredType::U8, &[bytes]) };
            let source = ReaderSource::new(RawReader::open(file.path(), &options).unwrap()).batch_size(61).shuffle(5);
            let seen = see_all(&mut AsyncDataSetIterator::new(source, &workspace(workers, 2)).unwrap());
            let samples: Vec<usize> = seen.iter().flat_map(|batch| &batch.samples).map(|id| *id as usize).collect();
            let expected: Vec<u8> = samples.iter().flat_map(|id| &numbers[id * bytes..][..bytes]).copied().collect();
            assert_eq!(samples.len(), records);
            assert!(seen.iter().flat_map(|batch| &batch.tensors[0]).eq(&expected), "{bytes} bytes, {access:?}");
        }
    }
}

#[test]
fn settings_name_raw_and_npy_files() {
    let (features, labels) = counting_files();
    let text = format!(
        r#"
        batch_size = 1000
        [[sources]]
        format = "raw"
        path = {:?}
        options = {{ stored = "u16", shape = [5] }}
        [[sources]]
        format = "raw"
        path = {:?}
        options = {{ stored = "u8", access = "read" }}
        fields = {{ labels = {{ array = [], role = "label" }} }}
        [[sources]]
        format = "npy"
        path = {:?}
        fields = {{ weights = "array" }}
        "#,
        features.path(),
        labels.path(),
        fixture("npy/row.npy"),
    );
    let mut config: LoaderConfig = toml::from_str(&text).unwrap();
    config.shorter = true;
    let plan = Loader::from(config.clone()).plan().unwrap();
    assert_eq!((plan.samples, plan.unknown.len()), (Some(5), 0));
    let batch = Loader::from(config.clone()).build().unwrap().next().unwrap().unwrap();
    assert_eq!(numbers(&batch, "features")[..6], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(numbers(&batch, "labels"), [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(numbers(&batch, "weights"), [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert!(Loader::from(config.clone()).verify(|_| {}).unwrap().is_ok());
    config.sources.truncate(1);
    assert_eq!(config.sources[0].format(), "raw");
    assert_eq!(config.sources[0].options::<Raw>().unwrap(), &RawOptions::features(StoredType::U16, &[5]));
    let detected = LoaderConfig::for_path(fixture("npy/row.npy")).unwrap();
    assert_eq!(detected.sources[0].format(), "npy");
}

#[test]
fn idx_files_give_the_same_mapped_and_read() {
    let mut file = vec![0, 0, 0x0b, 2, 0, 0, 0, 100, 0, 0, 0, 7];
    file.extend((0..700i16).flat_map(i16::to_be_bytes));
    let file = bytes_of(file);
    let values = [Access::Read, MAPPED].map(|access| {
        let reader = IdxReader::open(file.path(), &IdxOptions { access }).unwrap();
        numbers(&all_of(reader), "features")
    });
    assert_eq!(values[0], (0..700).map(f64::from).collect::<Vec<_>>());
    assert_eq!(values[0], values[1]);
}

#[test]
fn a_summary_of_arrays_sums_integers_exactly_and_has_infinities() {
    let summary = |stored, bytes: &[u8]| {
        let file = bytes_of(bytes);
        RawReader::open(file.path(), &RawOptions::features(stored, &[1])).unwrap().summarise().unwrap()
    };
    let bytes: Vec<u8> = [i64::MIN, i64::MAX, -5].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(summary(StoredType::I64, &bytes).field.sum, Some((-6).into()));
    let bytes: Vec<u8> = [(1u64 << 53) + 1, 1, u64::MAX].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(summary(StoredType::U64, &bytes).field.sum, Some(((1 << 64) + (1 << 53) + 1).into()));
    let bytes: Vec<u8> = [f32::NEG_INFINITY, 1.0, f32::NAN].iter().flat_map(|number| number.to_le_bytes()).collect();
    let json = serde_json::to_value(summary(StoredType::F32, &bytes)).unwrap();
    assert_eq!(json["field"]["min"], "-inf");
    assert_eq!((&json["first"][0], &json["last"][0]), (&"-inf".into(), &"nan".into()));
}

#[test]
fn nothing_is_mapped_without_a_promise() {
    // Truncated while it is open: an error if it is read, a signal that ends the process if it is mapped.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[1; 1 << 20]).unwrap();
    let options = RawOptions::features(StoredType::U8, &[16]);
    assert_eq!((options.access, NpyOptions::default().access), (Access::Read, Access::Read));
    assert_eq!((IdxOptions::default().access, TokenOptions::default().access), (Access::Read, Access::Read));
    let loader = Loader::raw(file.path(), options.clone()).batch_size(1).workers(1);
    let mut batches = loader.build().unwrap();
    assert_eq!(numbers(&batches.next().unwrap().unwrap(), "features"), [1.0; 16]);
    file.as_file().set_len(0).unwrap();
    assert!(batches.any(|batch| batch.is_err_and(|error| error.kind() == ErrorKind::Io)));

    let asked = serde_json::from_str(r#""map""#).unwrap();
    let asked =
        Loader::raw(fixture("npy/row.npy"), RawOptions { access: asked, ..RawOptions::features(StoredType::U8, &[4]) });
    for error in [asked.build().err().unwrap(), asked.plan().unwrap_err(), asked.verify(|_| {}).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("row.npy: access = \"map\" promises"), "{error}");
    }
    let Access::Map(promise) = MAPPED else { unreachable!() };
    asked.mapping(promise).build().unwrap();
}

/// Records that are longer than what is gathered are read straight into their rows.
#[test]
fn long_records_are_the_same_however_they_are_reached_and_converted() {
    let numbers: Vec<u8> =
        (0..40 * 3000u32).flat_map(|at| (at.wrapping_mul(2_654_435_761) as u16).to_be_bytes()).collect();
    let file = bytes_of(numbers);
    for (endian, dtype) in [(Endian::Little, None), (Endian::Big, None), (Endian::Little, Some(DType::F32))] {
        let source = |access| {
            let options = RawOptions { endian, access, ..RawOptions::features(StoredType::U16, &[3000]) };
            let field: Field = dtype.map_or(Array::new().into(), |dtype| Numbers::of(dtype).into());
            let reader = RawReader::open_as(file.path(), "features", field, &options).unwrap();
            let source = ReaderSource::new(reader).batch_size(7).shuffle(5);
            let halve =
                ringfeed::Normaliser::Channels { axis: None, mean: vec![1.0; 3000], deviation: vec![2.0; 3000] };
            let list = dtype.map(|_| ringfeed::transform::normalise("features", halve));
            ringfeed::source::Transformed::new(source, list.into_iter().collect())
        };
        let seen = |access, workspace: &ringfeed::Workspace| {
            see_all(&mut AsyncDataSetIterator::new(source(access), workspace).unwrap())
        };
        let expected = seen(MAPPED, &workspace(2, 2));
        assert_eq!(seen(Access::Read, &workspace(2, 2)), expected);
        let limit = ringfeed::workspace::FetchLimit { time_ms: 60_000, replacements: 0 };
        let limited = ringfeed::Workspace::builder().workers(2).fetch_limit(limit).build().unwrap();
        assert_eq!(seen(Access::Read, &limited), expected);
        let mut shielded = AsyncShieldDataSetIterator::new(source(Access::Read), &workspace(1, 1)).unwrap();
        assert_eq!(see_all(&mut shielded), expected);
        let stats = shielded.stats();
        let read = stats.stages.iter().find(|stage| stage.name == "read").unwrap();
        assert!(read.busy_seconds > 0.0);
    }
}

#[test]
fn long_records_that_are_gone_are_bad_by_themselves() {
    let file = bytes_of(vec![7; 20 * 6000]);
    let options = RawOptions::features(StoredType::U8, &[6000]);
    let source = ReaderSource::new(RawReader::open(file.path(), &options).unwrap()).batch_size(4);
    let source = source.bad_records(BadRecords::Skip(BadLimits::default()));
    file.as_file().set_len(17 * 6000 + 100).unwrap();
    let mut batches = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
    let ids: Vec<u64> = batches.by_ref().flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect();
    assert_eq!(ids, (0..17).collect::<Vec<_>>());
    let bad = batches.bad_records();
    assert_eq!(bad.iter().map(|bad| bad.sample).collect::<Vec<_>>(), [17, 18, 19]);
    assert!(bad[0].error.contains("byte 102000: the file ends here"), "{}", bad[0].error);
}

/// Every kind of field that one array can be, of each format of arrays.
#[test]
fn fields_say_what_becomes_of_an_array_whatever_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let numbers: Vec<u8> = (0..12u8).map(|number| number % 3).collect();
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (12,)}";
    let npy =
        [b"\x93NUMPY\x01\0".as_slice(), &(header.len() as u16).to_le_bytes(), header.as_bytes(), &numbers].concat();
    std::fs::write(at("y.npy"), npy).unwrap();
    std::fs::write(at("y.raw"), &numbers).unwrap();
    std::fs::write(at("y.idx"), [&[0, 0, 8, 1, 0, 0, 0, 12][..], &numbers].concat()).unwrap();
    for format in ["npy", "raw", "idx"] {
        let options = if format == "raw" { "options = { stored = \"u8\" }" } else { "" };
        let path = at(&format!("y.{format}"));
        let load = |fields: &str| {
            let text = format!("batch_size = 12\n[source]\nformat = {format:?}\npath = {path:?}\n{options}\n{fields}");
            Loader::from(toml::from_str::<LoaderConfig>(&text).unwrap())
        };
        let of = |fields: &str| load(&format!("[fields]\n{fields}\n")).build().unwrap().next().unwrap().unwrap();
        let by_itself = load("").build().unwrap().next().unwrap().unwrap();
        assert_eq!(by_itself.tensor("features").unwrap().as_slice::<u8>().unwrap(), numbers, "{format}");
        assert_eq!(of("x = \"array\"").tensor("x").unwrap().as_slice::<u8>().unwrap(), numbers);
        let floats: Vec<f32> = numbers.iter().map(|number| f32::from(*number)).collect();
        assert_eq!(of("x = \"f32\"").tensor("x").unwrap().as_slice::<f32>().unwrap(), floats);
        let indices: Vec<i64> = numbers.iter().map(|number| i64::from(*number)).collect();
        let label = of("y = { array = [], role = \"label\" }");
        assert_eq!(label.labels().unwrap().as_slice::<i64>().unwrap(), indices, "a label is an index");
        let class = of("y = { class = [\"a\", \"b\", \"c\"] }");
        assert_eq!(class.labels().unwrap().as_slice::<i64>().unwrap(), indices);
        assert_eq!(class.schema().tensors()[0].classes.as_deref().unwrap(), ["a", "b", "c"]);
        let mixed = of("y = { from = \"n\", class = [\"a\", \"b\", \"c\"] }\nx = { from = \"n\", array = [] }");
        assert_eq!(mixed.tensor("x").unwrap().as_slice::<u8>().unwrap(), numbers, "beside a class");
        let both = of("y = { from = \"n\", class = [], one_hot = true }\nx = { from = \"n\", numbers = \"i32\" }");
        assert_eq!(both.tensor("y").unwrap().shape(), [12, 3]);
        assert_eq!(both.tensor("x").unwrap().as_slice::<i32>().unwrap()[..4], [0, 1, 2, 0]);
        // An index that is none of the classes is a bad record, and a shape that is not the records' an error.
        let error = load("[fields]\ny = { class = [\"a\", \"b\"] }").build().unwrap().find_map(Result::err).unwrap();
        assert!(
            error.kind() == ErrorKind::Data && error.message().contains("the class is 2, but there are 2"),
            "{error}"
        );
        let error = load("[fields]\nx = { array = [3] }").build().err().unwrap();
        assert!(error.message().contains("the shape [], not [3]"), "{error}");
        // The words of earlier versions are told those of today.
        for (options, fields) in [
            ("name = \"x\", dtype = \"f32\"", "x = { numbers = \"f32\" }"),
            ("name = \"x\"", "x = { array = [] }"),
            ("role = \"label\"", "labels = { role = \"label\", array = [] }"),
            ("role = \"label\", classes = [\"a\"], dtype = \"u8\"", "labels = { class = [\"a\"], dtype = \"u8\" }"),
        ] {
            let text = format!("[source]\nformat = {format:?}\npath = \"x\"\noptions = {{ {options} }}\n");
            let error = toml::from_str::<LoaderConfig>(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("write beside the path: fields = {{ {fields} }}")), "{error}");
        }
    }
}

#[test]
fn raw_bytes_in_any_container_are_what_numpy_reads_from_them() {
    let expected: BTreeMap<String, Vec<Vec<String>>> =
        serde_json::from_str(&std::fs::read_to_string(fixture("raw/expected.json")).unwrap()).unwrap();
    assert_eq!(expected.len(), 2 * StoredType::ALL.len());
    let files = ["raw/raw.tfrecord", "raw/raw.tar", "raw/raw.parquet"];
    for file in files.into_iter().filter(|file| cfg!(feature = "parquet") || !file.ends_with("parquet")) {
        for (name, rows) in &expected {
            if file.ends_with("tar") && !["f32-big", "u8-little"].contains(&name.as_str()) {
                continue;
            }
            let (kind, order) = name.split_once('-').unwrap();
            let endian = if order == "big" { Endian::Big } else { Endian::Little };
            let field = Array::raw(kind.parse().unwrap(), &[2, 3]).endian(endian).from(name.as_str());
            let mut batches = Loader::open(fixture(file)).unwrap().field("x", field).batch_size(3).build().unwrap();
            let batch = batches.next().unwrap().unwrap();
            let tensor = batch.tensor("x").unwrap();
            assert_eq!(tensor.shape(), [3, 2, 3], "{file}: {name}");
            let rows: Vec<&str> = rows.iter().flatten().map(String::as_str).collect();
            if let Ok(found) = tensor.as_slice::<i64>() {
                let found: Vec<String> = found.iter().map(i64::to_string).collect();
                assert_eq!(found, rows, "{file}: {name}");
            } else {
                let bits: Vec<u64> = rows.iter().map(|text| text.parse::<f64>().unwrap().to_bits()).collect();
                let found: Vec<u64> = numbers(&batch, "x").into_iter().map(f64::to_bits).collect();
                assert_eq!(found, bits, "{file}: {name}");
            }
        }
    }
}

#[test]
fn raw_bytes_of_another_length_are_an_error_that_says_where_and_how_many_there_are() {
    let open = |file: &str| Loader::open(fixture(file)).unwrap();
    let long = Array::raw(StoredType::F32, &[7]).from("f32-big");
    let error = open("raw/raw.tfrecord").field("x", long).build().and_then(|mut all| all.next().unwrap()).unwrap_err();
    let said = error.to_string();
    for part in ["raw.tfrecord", "record 0", "\"x\"", "expected 28 bytes, an array of shape [7] of f32, found 24 bytes"]
    {
        assert!(said.contains(part), "{said}");
    }
    let wide = Array::raw(StoredType::F32, &[6]).dtype(DType::F64).endian(Endian::Big).from("f32-big");
    let mut batches = open("raw/raw.tar").field("x", wide).batch_size(3).build().unwrap();
    assert_eq!(batches.next().unwrap().unwrap().tensor("x").unwrap().dtype(), DType::F64);
    let one = Array::raw(StoredType::U16, &[]).from("u8-little");
    assert!(open("raw/raw.tar").field("x", one).build().unwrap().next().unwrap().is_err());

    let refused = |file: &str, field: Field| open(file).field("x", field).build().map(drop).unwrap_err();
    let error = refused("raw/raw.tar", Array::raw(StoredType::F32, &[6]).dtype(DType::I64).from("f32-big"));
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("i64 can't hold"), "{error}");
    for file in ["tfrecord/train-00000-of-00002", "npy/f4-little.npy"] {
        let error = refused(file, Array::raw(StoredType::F32, &[2]).from("size"));
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    let field = |text: &str| serde_json::from_str::<Field>(text).map_err(|error| error.to_string());
    assert!(field(r#"{"array": [2], "endian": "big"}"#).unwrap_err().contains("endian belongs to stored"));
    assert!(field(r#"{"numbers": "f32", "stored": "u8"}"#).unwrap_err().contains("stored does not belong to numbers"));
    for made in [Array::raw(StoredType::Bf16, &[]), Array::raw(StoredType::F32, &[2, 3]).endian(Endian::Big)] {
        let made: Field = made.into();
        assert_eq!(field(&serde_json::to_string(&made).unwrap()).unwrap(), made);
    }
}
