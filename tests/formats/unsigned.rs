//! Integers of 64 bits without a sign: exact from every format where `u64` is asked for, rounded once or refused where
//! not.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use ringfeed::arrays::{Endian, RawOptions, StoredType};
use ringfeed::field::{Category, Class, Field, Numbers};
use ringfeed::tensor::{bf16, f16};
use ringfeed::transform::cast;
use ringfeed::{DType, DataSet, Error, ErrorKind, Loader};

const LARGEST: u64 = u64::MAX;
/// Around each power of two that some type ends at, and between numbers that f64, f32 and bf16 hold.
const EDGES: [u64; 22] = [
    0,
    1,
    255,
    65_504,
    (1 << 24) + 1,
    (1 << 53) - 1,
    (1 << 53) + 1,
    (1 << 53) + (1 << 45) + 1,
    (1 << 62) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    (1 << 63) + (1 << 10),
    (1 << 63) + (1 << 10) + 1,
    (1 << 63) + (1 << 39),
    (1 << 63) + (1 << 39) + 1,
    (1 << 63) + (1 << 55),
    (1 << 63) + (1 << 55) + 1,
    (1 << 63) + 3 * (1 << 55),
    (1 << 63) + 3 * (1 << 55) - 1,
    LARGEST - 1,
    LARGEST,
];

fn only(loader: Loader) -> Result<DataSet, Error> {
    loader.batch_size(1000).workers(1).build()?.next().expect("a batch")
}

fn npy(numbers: &[u64], endian: char) -> Vec<u8> {
    let header = format!("{{'descr': '{endian}u8', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
    let padded = format!("{header:<117}\n");
    let bytes =
        numbers.iter().flat_map(|number| if endian == '<' { number.to_le_bytes() } else { number.to_be_bytes() });
    [&b"\x93NUMPY\x01\x00"[..], &(padded.len() as u16).to_le_bytes(), padded.as_bytes(), &bytes.collect::<Vec<_>>()]
        .concat()
}

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A loader of these numbers as tensor `x` of this type, from every format that holds them.
fn loaders(folder: &Path, numbers: &[u64], dtype: DType) -> Vec<(&'static str, Loader)> {
    let raw = |endian| RawOptions { endian, ..RawOptions::features(StoredType::U64, &[]) };
    let bytes = |to: fn(u64) -> [u8; 8]| numbers.iter().flat_map(|number| to(*number)).collect::<Vec<u8>>();
    let json =
        format!(r#"{{"x":{{"dtype":"U64","shape":[{}],"data_offsets":[0,{}]}}}}"#, numbers.len(), 8 * numbers.len());
    let tensors = [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &bytes(u64::to_le_bytes)].concat();
    let lines = |one: fn(&u64) -> String| numbers.iter().map(one).collect::<String>();
    let files = [
        ("csv", write(folder, "x.csv", format!("x\n{}", lines(|number| format!("{number}\n"))))),
        (
            "csv, with a sign and zeros",
            write(folder, "y.csv", format!("x\n{}", lines(|number| format!("+00{number}\n")))),
        ),
        ("json", write(folder, "x.jsonl", lines(|number| format!("{{\"x\": {number}}}\n")))),
        ("json, with a point", write(folder, "y.jsonl", lines(|number| format!("{{\"x\": {number}.0}}\n")))),
        ("npy", write(folder, "x.npy", npy(numbers, '<'))),
        ("npy, other end first", write(folder, "y.npy", npy(numbers, '>'))),
        ("safetensors", write(folder, "x.safetensors", tensors)),
    ];
    let raws = [
        ("raw", write(folder, "x.raw", bytes(u64::to_le_bytes)), Endian::Little),
        ("raw, other end first", write(folder, "y.raw", bytes(u64::to_be_bytes)), Endian::Big),
    ];
    let files = files.map(|(name, path)| (name, Loader::open(path).unwrap()));
    let raws = raws.map(|(name, path, endian)| (name, Loader::raw(path, raw(endian))));
    files.into_iter().chain(raws).map(|(name, loader)| (name, loader.field("x", Numbers::of(dtype)))).collect()
}

/// The nearest number with so many bits, of two the even one.
fn rounded(number: u64, bits: u32) -> u128 {
    let number = u128::from(number);
    let spare = (128 - number.leading_zeros()).saturating_sub(bits);
    let (kept, rest) = (number >> spare << spare, number & ((1 << spare) - 1));
    let half = if spare == 0 { 1 } else { 1 << (spare - 1) };
    let is_odd = kept >> spare & 1 == 1;
    if rest > half || rest == half && is_odd { kept + (1 << spare) } else { kept }
}

#[test]
fn u64_is_exact_from_every_format() {
    let folder = tempfile::tempdir().unwrap();
    for (name, loader) in loaders(folder.path(), &EDGES, DType::U64) {
        let batch = only(loader).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(batch.tensor("x").unwrap().as_slice::<u64>().unwrap(), EDGES, "{name}");
    }
}

#[test]
fn a_float_is_the_nearest_one() {
    let folder = tempfile::tempdir().unwrap();
    for (name, loader) in loaders(folder.path(), &EDGES, DType::F64) {
        let batch = only(loader).unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = EDGES.map(|number| rounded(number, 53) as f64);
        assert_eq!(batch.tensor("x").unwrap().as_slice::<f64>().unwrap(), wanted, "{name}");
    }
    for (name, loader) in loaders(folder.path(), &EDGES, DType::F32) {
        let batch = only(loader).unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = EDGES.map(|number| rounded(number, 24) as f32);
        assert_eq!(batch.tensor("x").unwrap().as_slice::<f32>().unwrap(), wanted, "{name}");
    }
    for (name, loader) in loaders(folder.path(), &EDGES, DType::Bf16) {
        let batch = only(loader).unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = EDGES.map(|number| bf16::from_f32(rounded(number, 8) as f32));
        assert_eq!(batch.tensor("x").unwrap().as_slice::<bf16>().unwrap(), wanted, "{name}");
    }
    for (name, loader) in loaders(folder.path(), &EDGES[..4], DType::F16) {
        let batch = only(loader).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(batch.tensor("x").unwrap().as_slice::<f16>().unwrap()[3].to_bits(), 0x7bff, "{name}");
    }
    for (name, loader) in loaders(folder.path(), &[LARGEST], DType::F16) {
        let error = only(loader).expect_err(name);
        assert!(error.to_string().contains("too large"), "{name}: {error}");
    }
}

#[test]
fn what_a_type_does_not_hold_is_a_bad_record() {
    let folder = tempfile::tempdir().unwrap();
    for dtype in [DType::I64, DType::U32, DType::I8] {
        let most = dtype.int_range().unwrap().1;
        for number in [u64::try_from(most).unwrap() + 1, 1 << 63, LARGEST] {
            for (name, loader) in loaders(folder.path(), &[1, number], dtype) {
                // The whole file is refused where its header says the type.
                let Err(error) = only(loader) else { panic!("{name}: {number} as {dtype}") };
                assert!(matches!(error.kind(), ErrorKind::Data | ErrorKind::Schema), "{name}: {error}");
                let says = |what: &str| error.to_string().contains(what);
                assert!(says(&number.to_string()) || says("u64"), "{name}: {number} as {dtype}: {error}");
            }
        }
    }
    let one = |name: &str, text: &str| {
        let path = write(folder.path(), name, text);
        only(Loader::open(path).unwrap().field("x", Numbers::of(DType::U64)))
    };
    for text in ["-1", "18446744073709551616", "1.5", "1e20", "-0.5"] {
        let error = one("bad.csv", &format!("x\n1\n{text}\n")).expect_err(text);
        assert_eq!((error.kind(), error.location().line), (ErrorKind::Data, Some(3)), "{text}: {error}");
    }
    for text in ["-1", "18446744073709551616", "1.5", "1e20", "-0.5"] {
        let error = one("bad.jsonl", &format!("{{\"x\": 1}}\n{{\"x\": {text}}}\n")).expect_err(text);
        assert_eq!((error.kind(), error.location().line), (ErrorKind::Data, Some(2)), "{text}: {error}");
    }
}

#[test]
fn files_of_u64_become_i64_unless_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "x.npy", npy(&[1, i64::MAX as u64], '<'));
    let batch = only(Loader::open(path).unwrap()).unwrap();
    assert_eq!(batch.features().unwrap().as_slice::<i64>().unwrap(), [1, i64::MAX]);
    let path = write(folder.path(), "x.npy", npy(&[1, 1 << 63], '<'));
    let error = only(Loader::open(path).unwrap()).unwrap_err();
    assert!(error.to_string().contains("set dtype to \"u64\""), "{error}");
    assert_eq!(error.location().byte, Some(128 + 8));
}

#[test]
fn casts_are_exact_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cast_to = |numbers: &[u64], to| {
        let path = write(folder.path(), "x.npy", npy(numbers, '<'));
        only(Loader::open(path).unwrap().field("x", Numbers::of(DType::U64)).transform(cast("x", to)))
    };
    let batch = cast_to(&EDGES[..10], DType::I64).unwrap();
    assert_eq!(
        batch.tensor("x").unwrap().as_slice::<i64>().unwrap(),
        EDGES[..10].iter().map(|x| *x as i64).collect::<Vec<_>>()
    );
    for number in [1u64 << 63, LARGEST] {
        let error = cast_to(&[number], DType::I64).unwrap_err();
        assert!(error.to_string().contains(&number.to_string()), "{error}");
    }
    let batch = cast_to(&EDGES, DType::F64).unwrap();
    assert_eq!(batch.tensor("x").unwrap().as_slice::<f64>().unwrap(), EDGES.map(|number| rounded(number, 53) as f64));
    let path = write(folder.path(), "x.csv", "x\n9223372036854775807\n0\n");
    let loader = || Loader::csv(&path).field("x", Numbers::i64()).transform(cast("x", DType::U64));
    assert_eq!(only(loader()).unwrap().tensor("x").unwrap().as_slice::<u64>().unwrap(), [i64::MAX as u64, 0]);
    write(folder.path(), "x.csv", "x\n-1\n");
    assert!(only(loader()).unwrap_err().to_string().contains("-1"));
}

#[test]
fn large_numbers_are_no_classes() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "x.jsonl", format!("{{\"x\": {LARGEST}}}\n{{\"x\": 1}}\n"));
    let of = |field: Field| only(Loader::open(&path).unwrap().field("x", field)).unwrap_err();
    for error in [of(Class.into()), of(Category::new().into())] {
        assert!(error.kind() == ErrorKind::Data && error.to_string().contains(&LARGEST.to_string()), "{error}");
    }
}
