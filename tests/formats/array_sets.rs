//! NPZ archives and safetensors files: against what NumPy reads, and damaged in every way.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use ringfeed::arrays::ArraySetOptions;
use ringfeed::field::{Class, Field, Numbers};
use ringfeed::formats::{Format, Npz, Open, Safetensors};
use ringfeed::memory::MemoryBudget;
use ringfeed::settings::{BadLimits, BadRecords, SourceConfig};
use ringfeed::storage::Files;
use ringfeed::{DType, DataSet, ErrorKind, Loader, Result};
use serde_json::Value as Json;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn expected() -> serde_json::Map<String, Json> {
    let all: Json = serde_json::from_slice(&std::fs::read(fixture("npz/expected.json")).unwrap()).unwrap();
    all.as_object().unwrap().clone()
}

/// The first batch.
fn batch(loader: Loader) -> DataSet {
    loader.batch_size(10).build().unwrap().next().unwrap().unwrap()
}

fn numbers(batch: &DataSet, name: &str) -> Vec<f64> {
    let numbers = batch.tensor(name).unwrap().numbers();
    (0..numbers.len()).map(|at| numbers.at(at)).collect()
}

fn values(of: &Json) -> Vec<f64> {
    of["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

const FILES: [&str; 3] = ["npz/stored.npz", "npz/packed.npz", "safetensors/arrays.safetensors"];

#[test]
fn rows_of_all_arrays_are_those_of_numpy() {
    for file in FILES {
        let batch = batch(Loader::open(fixture(file)).unwrap());
        assert_eq!(batch.tensors().len(), expected().len(), "{file}");
        for (name, array) in expected() {
            let shape: Vec<usize> = serde_json::from_value(array["shape"].clone()).unwrap();
            assert_eq!(batch.tensor(&name).unwrap().shape(), shape, "{file}: {name}");
            assert_eq!(numbers(&batch, &name), values(&array), "{file}: {name}");
        }
    }
}

#[test]
fn rows_go_through_any_codec_in_any_order() {
    for file in FILES {
        let loader = Loader::open(fixture(file)).unwrap().field("class", Class.from("label"));
        let loader = loader.field("x", Numbers::of(DType::F64).from("wide")).field("big", Numbers::f32());
        let batch = batch(loader.field("long", Numbers::i64()).shuffle(3));
        let expected = expected();
        let ids = batch.sample_ids().to_vec();
        for (tensor, array) in [("class", "label"), ("x", "wide"), ("big", "big"), ("long", "long")] {
            let (found, all) = (numbers(&batch, tensor), values(&expected[array]));
            let row = all.len() / ids.len();
            for (nth, id) in ids.iter().enumerate() {
                let at = *id as usize * row;
                assert_eq!(found[nth * row..(nth + 1) * row], all[at..at + row], "{file}: {tensor} of {id}");
            }
        }
    }
}

#[test]
fn parts_of_different_lengths_are_chosen_by_a_word_or_by_their_names() {
    let options = |part: &str| ArraySetOptions { part: Some(part.to_owned()), ..ArraySetOptions::default() };
    let of = |file: &str, options: ArraySetOptions| match file.ends_with("npz") {
        true => SourceConfig::new(Npz, fixture(file), options),
        false => SourceConfig::new(Safetensors, fixture(file), options),
    };
    for file in ["npz/parts.npz", "safetensors/parts.safetensors"] {
        for (part, count) in [("train", 5), ("test", 2)] {
            let batch = batch(Loader::new(of(file, options(part))));
            let names: Vec<&str> = batch.tensors().map(|tensor| tensor.name()).collect();
            assert_eq!((names, batch.len()), (vec!["x", "y"], count));
            assert_eq!(numbers(&batch, "y"), values(&expected()["label"])[..count]);
        }
        let by_name = Loader::open(fixture(file)).unwrap().field("y", Numbers::i64().from("y_test"));
        assert_eq!(batch(by_name).len(), 2);
        let error = Loader::open(fixture(file)).unwrap().build().map(|_| ()).unwrap_err();
        let told = ["x_test (2 rows)", "y_train (5 rows)", "options = { part = \"train\" }", "in `fields`"];
        assert!(error.kind() == ErrorKind::Config && told.iter().all(|part| error.message().contains(part)), "{error}");
        assert_eq!(error.path(), Some(&*fixture(file)));
        let error = Loader::new(of(file, options("valid"))).build().map(|_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.message().contains("no array has \"valid\""), "{error}");
    }
    let settings = format!(
        "batch_size = 2\n[[sources]]\npath = {:?}\nformat = \"npz\"\noptions = {{ part = \"test\" }}",
        fixture("npz/parts.npz")
    );
    let loader = Loader::from(toml::from_str::<ringfeed::LoaderConfig>(&settings).unwrap());
    assert_eq!(loader.build().unwrap().next().unwrap().unwrap().len(), 2);
}

#[test]
fn what_is_no_array_of_numbers_is_left_out_or_refused_by_name() {
    let open = || Loader::open(fixture("npz/others.npz")).unwrap();
    let names: Vec<String> = batch(open()).tensors().map(|tensor| tensor.name().to_owned()).collect();
    assert_eq!(names, ["x"]);
    for (name, part) in [("words", "holds text"), ("objects", "Python objects"), ("one", "a single number")] {
        let error = open().field("f", Numbers::f32().from(name)).build().map(|_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.message().contains(part), "{error}");
        assert!(error.message().contains(name) && error.location().column.as_deref() == Some("f"), "{error}");
    }
    let error = open().field("f", Numbers::f32().from("wrods")).build().map(|_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("did you mean \"words\"?"), "{error}");
    let error = Loader::open(fixture("npz/bzip2.npz")).unwrap().field("x", Numbers::i64()).build().map(|_| ());
    assert!(error.as_ref().unwrap_err().message().contains("savez_compressed"), "{error:?}");
}

/// Opens a file with these bytes and reads all of it, within a budget.
fn read(name: &str, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let budget = MemoryBudget::new(64 << 20);
    let source = match name.ends_with("npz") {
        true => SourceConfig::new(Npz, &path, ArraySetOptions::default()),
        false => SourceConfig::new(Safetensors, &path, ArraySetOptions::default()),
    };
    let readers = source.open(&Files::local(), &budget)?;
    let batch = Loader::new(source).batch_size(10).build()?.next();
    let batch = batch.transpose()?;
    drop(readers);
    assert_eq!(budget.used(), 0);
    Ok(batch.map(|batch| batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect()).unwrap_or_default())
}

#[test]
fn a_file_that_is_cut_off_is_an_error_at_every_byte() {
    for file in ["npz/parts.npz", "npz/packed.npz", "safetensors/arrays.safetensors"] {
        let whole = std::fs::read(fixture(file)).unwrap();
        for cut in (0..whole.len()).step_by(3) {
            let error = read(file.rsplit('/').next().unwrap(), &whole[..cut]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Format | ErrorKind::Config), "{file} at {cut}: {error}");
            assert!(error.path().is_some(), "{error}");
        }
    }
}

#[test]
fn bytes_of_compressed_arrays_that_change_are_errors() {
    let whole = std::fs::read(fixture("npz/packed.npz")).unwrap();
    let good = read("packed.npz", &whole).unwrap();
    for at in (0..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        // Zip archives have fields that mean nothing, such as times.
        if let Ok(read) = read("packed.npz", &damaged) {
            assert!(read.len() < good.len() || read == good, "byte {at}");
        }
    }
}

/// A safetensors file with this header and so many bytes behind it.
fn tensors(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![1; data]].concat()
}

#[test]
fn headers_of_safetensors_files_are_lies_until_checked() {
    let good = r#"{"__metadata__":{"a":"b"},"x":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]},"y":{"dtype":"I16","shape":[2],"data_offsets":[6,10]}}"#;
    assert_eq!(read("good.safetensors", &tensors(good, 10)).unwrap().len(), 2);
    for (from, to, data, part) in [
        ("[0,6]", "[0,7]", 10, "a shape of [2, 3] of u8, and 7 bytes"),
        ("[6,10]", "[5,9]", 10, "but the tensors before it end at 6"),
        ("[6,10]", "[7,11]", 11, "but the tensors before it end at 6"),
        ("[6,10]", "[6,10]", 11, "1 bytes follow the last tensor"),
        ("[6,10]", "[6,10]", 9, "but the tensors before it end at 6"),
        ("[6,10]", "[6,5]", 10, "but the tensors before it end at 6"),
        ("[2,3]", "[18446744073709551615,18446744073709551615]", 10, "a shape of"),
        ("\"y\"", "\"x\"", 10, "\"x\" is in the header twice"),
        ("\"shape\":[2],", "", 10, "missing field `shape`"),
        ("[2,3]", "[2,-3]", 10, "tensor \"x\" in the header"),
        ("}}", "}", 10, "not the JSON of a safetensors file"),
    ] {
        let header = good.replacen(from, to, 1);
        let error = read("lie.safetensors", &tensors(&header, data)).unwrap_err();
        assert!(error.kind() == ErrorKind::Format && error.message().contains(part), "{from} -> {to}: {error}");
        assert!(error.location().byte.is_some(), "{error}");
    }
    for len in [0u64, 7, 100_000_001, u64::MAX, 1 << 63] {
        let mut bytes = tensors(good, 10);
        bytes[..8].copy_from_slice(&len.to_le_bytes());
        assert_eq!(read("lie.safetensors", &bytes).unwrap_err().kind(), ErrorKind::Format, "{len}");
    }
    let strange = good.replacen("I16", "F8_E4M3", 1);
    assert_eq!(read("strange.safetensors", &tensors(&strange, 10)).unwrap().len(), 1, "others are read");
    let empty = r#"{"x":{"dtype":"U8","shape":[4000000000000000000,0],"data_offsets":[0,0]}}"#;
    assert_eq!(read("empty.safetensors", &tensors(empty, 0)).unwrap_err().kind(), ErrorKind::Format);
}

#[test]
fn a_header_takes_counted_memory_for_the_tensors_that_it_names_and_none_for_what_else_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.safetensors");
    let open = |header: &str, budget: u64| {
        std::fs::write(&path, tensors(header, 6)).unwrap();
        let (files, budget) = (Files::local(), MemoryBudget::new(budget));
        let opened = Safetensors.open(&Default::default(), &Open::new(&path, &files, &budget)).map(|_| ());
        assert_eq!(budget.used(), 0);
        opened
    };
    let x = |more: &str| format!("{{\"x\":{{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]{more}}}}}");
    let much = "[0,{\"a\":null}],".repeat(50_000);
    for more in [format!(",\"note\":[{much}0]"), format!("}},\"__metadata__\":{{\"a\":[{much}0]")] {
        open(&x(&more), 16 << 20).unwrap();
        let error = open(&x(&more), 1 << 20).unwrap_err();
        assert!(error.kind() == ErrorKind::Budget && error.message().contains("the header of"), "{error}");
    }
    let deep = x("").replace("[2,3]", &format!("[{}6]", "1,".repeat(64)));
    let error = open(&deep, 16 << 20).unwrap_err();
    assert!(error.kind() == ErrorKind::Format && error.message().contains("more than 64 dimensions"), "{error}");
}

#[test]
fn a_number_that_i64_does_not_hold_is_a_bad_record_with_its_byte() {
    let header = r#"{"x":{"dtype":"U64","shape":[3],"data_offsets":[0,24]}}"#;
    let mut bytes = tensors(header, 24);
    bytes[8 + header.len() + 15] = 0x80;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    std::fs::write(&path, &bytes).unwrap();
    let fields: [Field; 2] = [Numbers::i64().into(), Class.into()];
    for field in fields {
        let error = Loader::open(&path).unwrap().field("x", field).batch_size(3).build();
        let error = error.and_then(|mut batches| batches.next().unwrap().map(|_| ())).unwrap_err();
        assert!(error.message().contains("more than i64 holds"), "{error}");
        assert_eq!((error.location().record, error.path()), (Some(1), Some(&*path)));
        assert_eq!(error.location().byte, Some((8 + header.len() + 8) as u64), "{error}");
    }
}

#[test]
fn a_checksum_that_is_wrong_is_found_by_verify() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stored.npz");
    let mut bytes = std::fs::read(fixture("npz/stored.npz")).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let report = ringfeed::inspect::verify(&path, 2, |_| {}).unwrap();
    assert_eq!(report.bad_samples, 0);
    // The last byte of the last array, in front of the archive's list.
    let list = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[list - 1] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let report = ringfeed::inspect::verify(&path, 2, |_| {}).unwrap();
    assert_eq!(report.bad_samples, 1);
    let said = report.bad[0].to_string();
    assert!(said.contains("stored.npz") && said.contains("the checksum or the length of the array"), "{said}");
}

/// An NPZ archive of one array.
fn npz_of(name: &str, npy: &[u8], is_packed: bool) -> Vec<u8> {
    use std::io::Write;

    let mut data = npy.to_vec();
    if is_packed {
        let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(npy).unwrap();
        data = packed.finish().unwrap();
    }
    let (method, len) = (if is_packed { 8u16 } else { 0 }, name.len() as u16);
    let about =
        [&20u16.to_le_bytes()[..], &[0; 2], &method.to_le_bytes(), &[0; 4], &crc32fast::hash(npy).to_le_bytes()];
    let sizes = [data.len() as u32, npy.len() as u32].map(u32::to_le_bytes).concat();
    let about = [about.concat(), sizes, len.to_le_bytes().to_vec(), vec![0; 2]].concat();
    let member = [b"PK\x03\x04", &about[..], name.as_bytes(), &data].concat();
    let list = [b"PK\x01\x02\x14\0", &about[..], &[0; 14], name.as_bytes()].concat();
    let places = [list.len() as u32, member.len() as u32].map(u32::to_le_bytes).concat();
    let end = [b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &places[..], &[0; 2]].concat();
    [member, list, end].concat()
}

#[test]
fn a_bad_record_is_told_by_its_array_and_its_byte_if_the_file_has_it() {
    let header = "{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }\n";
    let numbers = [1, 1 << 63, 2u64].map(u64::to_le_bytes).concat();
    let len = (header.len() as u16).to_le_bytes();
    let npy = [b"\x93NUMPY\x01\0", &len[..], header.as_bytes(), &numbers].concat();
    let folder = tempfile::tempdir().unwrap();
    for is_packed in [false, true] {
        let path = folder.path().join("one.npz");
        let archive = npz_of("x.npy", &npy, is_packed);
        std::fs::write(&path, &archive).unwrap();
        let error = Loader::open(&path).unwrap().build().unwrap().find_map(Result::err).unwrap();
        let place = error.location();
        assert_eq!((place.record, place.column.as_deref()), (Some(1), Some("x")), "{error}");
        let byte = archive.windows(8).position(|window| window == (1u64 << 63).to_le_bytes());
        assert_eq!(place.byte, if is_packed { None } else { byte.map(|byte| byte as u64) });
    }
}

/// A record of one array that can't be read leaves those behind it with the values of their own record in all arrays.
#[test]
fn a_part_that_is_cut_off_after_opening_moves_no_other_values() {
    const COUNT: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.safetensors");
    let header = r#"{"x":{"dtype":"I64","shape":[200],"data_offsets":[1600,3200]},"y":{"dtype":"I64","shape":[200],"data_offsets":[0,1600]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    (0..2).for_each(|_| (0..COUNT).for_each(|at| bytes.extend_from_slice(&at.to_le_bytes())));
    let mut most = 0;
    for seed in 0..20 {
        std::fs::write(&path, &bytes).unwrap();
        let loader = Loader::open(&path).unwrap().field("x", Numbers::i64()).field("y", Class);
        let loader = loader.batch_size(8).shuffle(seed).workers(1);
        let loader = loader.bad_records(BadRecords::Skip(BadLimits::default()));
        let mut iterator = loader.build().unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(bytes.len() as u64 - COUNT / 2 * 8).unwrap();
        let mut rows = 0;
        for batch in iterator.by_ref() {
            let batch = batch.unwrap();
            assert_eq!(numbers(&batch, "x"), numbers(&batch, "y"));
            rows += batch.len();
        }
        most = most.max(rows);
    }
    assert!((100..200).contains(&most), "{most}");
}
