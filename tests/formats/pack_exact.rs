//! What packing must not change, overwrite or hold in memory: numbers, the files of others, and records of any size.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use ringfeed::ErrorKind;
use ringfeed::formats::Formats;
use ringfeed::pack::{Manifest, Pack, PackInto};
use serde_json::{Value as Json, json};

/// A pack of a file with this text.
fn pack_of(path: &Path, text: &str, into: PackInto) -> Pack {
    fs::write(path, text).unwrap();
    Pack::new(Formats::new().whole(path).unwrap(), into)
}

fn kinds(manifest: &Manifest) -> Vec<&str> {
    manifest.fields.iter().map(|field| field.kind.as_str()).collect()
}

/// The members of an archive, by their names.
fn members(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(fs::File::open(path).unwrap());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        (entry.path().unwrap().to_string_lossy().into_owned(), bytes)
    });
    entries.collect()
}

/// The JSON of each sample of the first archive.
fn samples(out: &Path) -> Vec<Json> {
    let members = members(&out.join("shard-000000.tar")).into_iter();
    members
        .filter(|(name, _)| name.ends_with(".json"))
        .map(|(_, json)| serde_json::from_slice(&json).unwrap())
        .collect()
}

#[test]
fn codes_with_an_exponent_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.csv");
    let text = "code,y,large\n123456789012345671e1,1e3,1e23\n123456789012345672e1,2,1.234567890123456768e+18\n";
    let manifest = pack_of(&path, text, PackInto::Tar).run(folder.path().join("out")).unwrap();
    assert_eq!(kinds(&manifest), ["text", "f64", "f64"]);
    let codes: Vec<Json> =
        samples(&folder.path().join("out")).into_iter().map(|sample| sample["code"].clone()).collect();
    assert_eq!(codes, ["123456789012345671e1", "123456789012345672e1"]);
    // In JSON they are numbers, and bad ones.
    let path = folder.path().join("codes.jsonl");
    let error = pack_of(&path, "{\"n\": 0.5}\n{\"n\": 123456789012345671e1}\n", PackInto::Tar);
    let error = error.run(folder.path().join("lines")).unwrap_err();
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)), "{error}");
}

#[test]
fn a_pack_that_goes_on_writes_over_no_file_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let lines = (0..50).map(|n| format!("{{\"n\": {n}}}\n")).collect::<String>();
    let pack = pack_of(&folder.path().join("lines.jsonl"), &lines, PackInto::Tar).shard_bytes(20 * 1024);
    for (nth, is_finished) in [false, true].into_iter().enumerate() {
        let out = folder.path().join(nth.to_string());
        match is_finished {
            true => drop(pack.run(&out).unwrap()),
            false => drop(pack.run_with(&out, |_| ControlFlow::Break(())).unwrap_err()),
        }
        // Also those behind the last shard, which would be read as shards.
        for name in ["shard-000002.tar", "shard-000099.tar", "shard-000000.parquet"] {
            let precious = out.join(name);
            if precious.exists() {
                continue;
            }
            fs::write(&precious, "precious").unwrap();
            let error = pack.run(&out).unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::Config, Some(&*precious)), "{error}");
            assert!(error.message().contains("move or remove it"), "{error}");
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
            fs::remove_file(precious).unwrap();
        }
        assert_eq!(pack.run(&out).unwrap().records, 50);
    }
    // One that comes while shards are written.
    let out = folder.path().join("meanwhile");
    let precious = out.join("shard-000002.tar");
    let run = pack.run_with(&out, |_| {
        fs::write(&precious, "precious").unwrap();
        ControlFlow::Continue(())
    });
    assert_eq!(run.unwrap_err().path(), Some(&*precious));
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    fs::remove_file(&precious).unwrap();
    assert_eq!(pack.run(&out).unwrap().shards.len(), 3);
}

#[test]
fn few_large_records_are_held_at_once_whatever_the_first_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let large = "x".repeat(1 << 20);
    let lines = (0..30).map(|n| format!("{{\"text\": {:?}}}\n", if n == 0 || n > 25 { "y" } else { &large }));
    let kinds = [PackInto::Tar, PackInto::Parquet];
    let pack = pack_of(&folder.path().join("lines.jsonl"), &lines.collect::<String>(), PackInto::Tar);
    for into in kinds.into_iter().filter(|into| cfg!(feature = "parquet") || *into == PackInto::Tar) {
        let source = Formats::new().whole(folder.path().join("lines.jsonl")).unwrap();
        let mut ends = vec![0];
        let out = folder.path().join(format!("{into:?}"));
        let manifest = Pack::new(source, into).threads(2).run_with(&out, |progress| {
            ends.push(progress.records);
            ControlFlow::Continue(())
        });
        assert_eq!(manifest.unwrap().records, 30);
        let most = ends.windows(2).filter(|pair| pair[0] < 20).map(|pair| pair[1] - pair[0]).max();
        assert!(most <= Some(2), "{ends:?}");
    }
    assert_eq!(pack.run(folder.path().join("Tar")).unwrap().records, 30);
}

#[test]
fn an_object_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("lines")).unwrap();
    fs::write(at("lines/1.jsonl"), "{\"a\": null, \"y\": 1}\n{\"a\": {\"b\": null}, \"y\": 2}\n").unwrap();
    fs::write(at("lines/2.jsonl"), "{\"a\": {\"b\": {\"c\": [1]}}, \"y\": 3}\n{\"y\": 4}\n").unwrap();
    let lines: String = ["lines/1.jsonl", "lines/2.jsonl"].map(|name| fs::read_to_string(at(name)).unwrap()).concat();
    let one = pack_of(&at("one.jsonl"), &lines, PackInto::Tar);
    let several = Pack::new(Formats::new().whole(at("lines")).unwrap(), PackInto::Tar);
    for (name, pack) in [("one", &one), ("several", &several)] {
        let manifest = pack.run(at(name)).unwrap();
        let mut names: Vec<&str> = manifest.fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a.b.c", "y"]);
        let wanted =
            [json!({ "y": 1 }), json!({ "y": 2 }), json!({ "a": { "b": { "c": [1] } }, "y": 3 }), json!({ "y": 4 })];
        assert_eq!(samples(&at(name)), wanted, "{name}");
    }
    // A field that has no value at all, or other values, too, is named.
    for (nth, other) in ["{\"a\": null}\n", "{\"a\": 5}\n{\"a\": {\"b\": 1}}\n{\"a\": null}\n"].into_iter().enumerate()
    {
        let error = pack_of(&at("other.jsonl"), other, PackInto::Tar).run(at(&nth.to_string())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

/// An NPY file of numbers of this type, as NumPy describes it, with these bytes.
fn npy(descr: &str, count: usize, bytes: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}");
    let header = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), bytes].concat()
}

#[test]
fn numbers_of_arrays_keep_the_type_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let large = [u64::MAX, 3].map(u64::to_le_bytes).concat();
    let halves = [0x3e00u16, 0x4000].map(u16::to_le_bytes).concat();
    fs::write(at("u.npy"), npy("<u8", 2, &large)).unwrap();
    fs::write(at("h.npy"), npy("<f2", 2, &halves)).unwrap();
    let header = json!({
        "u": { "dtype": "U64", "shape": [2], "data_offsets": [0, 16] },
        "h": { "dtype": "F16", "shape": [2], "data_offsets": [16, 20] },
    });
    let header = header.to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &large, &halves].concat();
    fs::write(at("both.safetensors"), bytes).unwrap();
    for (name, wanted) in [("u.npy", &["u64"][..]), ("h.npy", &["f16"]), ("both.safetensors", &["f16", "u64"])] {
        let pack = |into| Pack::new(Formats::new().whole(at(name)).unwrap(), into);
        let manifest = pack(PackInto::Tar).run(at(&format!("{name}.tar"))).unwrap();
        let mut found = kinds(&manifest);
        found.sort_unstable();
        assert_eq!(found, wanted, "{name}");
        let members = members(&at(&format!("{name}.tar")).join("shard-000000.tar"));
        for (name, array) in members.iter().filter(|(name, _)| name.starts_with("000000000")) {
            let bytes = if name.ends_with("h.npy") || wanted == ["f16"] { &halves[..2] } else { &large[..8] };
            assert!(array.ends_with(bytes), "{name}");
        }
        #[cfg(feature = "parquet")]
        {
            use arrow_array::Array as _;

            let out = at(&format!("{name}.parquet"));
            assert_eq!(kinds(&pack(PackInto::Parquet).run(&out).unwrap()).len(), wanted.len());
            let table = columns::table(&out);
            let mut types: Vec<String> = table.columns().iter().map(|column| column.data_type().to_string()).collect();
            types.sort_unstable();
            let wanted: Vec<&str> =
                wanted.iter().map(|kind| if *kind == "f16" { "Float16" } else { "UInt64" }).collect();
            assert_eq!(types, wanted, "{name}");
        }
    }
}

#[cfg(feature = "parquet")]
mod columns {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Int64Type};
    use arrow_array::{Array, ArrayRef, FixedSizeListArray, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    /// The rows of the first file of a pack.
    pub(super) fn table(out: &Path) -> RecordBatch {
        let file = fs::File::open(out.join("shard-000000.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().with_batch_size(1 << 20).build().unwrap();
        let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        let [batch] = batches.as_slice() else { panic!("{} batches", batches.len()) };
        batch.clone()
    }

    fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn names_that_a_member_can_not_have_are_written_otherwise_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pair = |first: f32| -> ArrayRef {
            let pair = [Some([Some(first), Some(2.0)])];
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(pair, 2))
        };
        let pack = |names: &[&str], number: usize| {
            let path = folder.path().join(format!("{number}.parquet"));
            write(&path, names.iter().map(|name| (*name, pair(1.0))).collect());
            let out = folder.path().join(number.to_string());
            let packed = Pack::new(Formats::new().whole(&path).unwrap(), PackInto::Tar).run(&out);
            packed.map(|_| members(&out.join("shard-000000.tar")).into_keys().collect::<Vec<_>>())
        };
        let found = pack(&["x\0y", "a*b", "c\nd"], 0).unwrap();
        assert_eq!(found, ["000000000.a_b.npy", "000000000.c_d.npy", "000000000.x_y.npy"]);
        for name in ["a_b.npy", "c_d.npy", "x_y.npy"] {
            let loader = ringfeed::Loader::open(folder.path().join("0")).unwrap();
            let mut batches = loader.field("x", ringfeed::field::Array::new().from(name)).build().unwrap();
            assert_eq!(batches.next().unwrap().unwrap().len(), 1);
        }
        for (nth, names) in [&["x\0y", "x_y"][..], &[""], &["x", ""]].into_iter().enumerate() {
            let error = pack(names, nth + 1).unwrap_err();
            assert_eq!((error.kind(), error.location().column.is_some()), (ErrorKind::Unsupported, true), "{error}");
            assert!(error.message().contains("pack into Parquet"), "{error}");
            assert!(!folder.path().join((nth + 1).to_string()).exists());
        }
    }

    #[test]
    fn missing_lists_of_a_fixed_length_count_as_much_as_they_take() {
        const LEN: usize = 1 << 14;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lists.jsonl");
        let lines = format!("{{\"list\": {:?}}}\n", vec![0.5; LEN]) + &"{\"list\": null}\n".repeat(299);
        let out = folder.path().join("out");
        pack_of(&path, &lines, PackInto::Parquet).run(&out).unwrap();
        let file = fs::File::open(out.join("shard-000000.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let rows: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        // 32 MiB of f64, to the last row that began before.
        assert!(rows.len() == 2 && rows[0] as usize <= (32 << 20) / (8 * LEN) + 1, "{rows:?}");
    }

    #[test]
    fn an_object_that_is_missing_is_a_missing_struct() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let lines = "{\"a\": {\"b\": [1]}, \"y\": 1}\n{\"a\": null, \"y\": 2}\n";
        pack_of(&folder.path().join("lines.jsonl"), lines, PackInto::Parquet).run(&out).unwrap();
        let table = table(&out);
        let a = table.column_by_name("a").unwrap();
        assert!(a.is_valid(0) && a.is_null(1) && table.num_columns() == 2, "{table:?}");
    }

    #[test]
    fn a_timestamp_keeps_its_zone() {
        use arrow_array::{
            TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
        };
        use arrow_schema::{DataType, Field, TimeUnit};
        use parquet::arrow::arrow_writer::ArrowWriterOptions;
        use parquet::file::metadata::KeyValue;
        use parquet::file::properties::WriterProperties;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.parquet");
        let zone = "Europe/Berlin";
        // pyarrow stores seconds as milliseconds, and notes that they were seconds.
        let stored = |unit| {
            let times: ArrayRef = match unit {
                TimeUnit::Second => Arc::new(TimestampSecondArray::from(vec![1]).with_timezone(zone)),
                _ => Arc::new(TimestampMillisecondArray::from(vec![1000]).with_timezone(zone)),
            };
            let inner = Arc::new(Field::new("t", times.data_type().clone(), true));
            let inside: ArrayRef = Arc::new(arrow_array::StructArray::from(vec![(inner, times.clone())]));
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("s", times),
                ("ms", Arc::new(TimestampMillisecondArray::from(vec![1]).with_timezone(zone))),
                ("us", Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone(zone))),
                ("ns", Arc::new(TimestampNanosecondArray::from(vec![1]).with_timezone(zone))),
                ("local", Arc::new(TimestampMillisecondArray::from(vec![1]))),
                ("in", inside),
            ];
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
                .unwrap()
        };
        let noted = parquet::arrow::encode_arrow_schema(&stored(TimeUnit::Second).schema());
        let notes = vec![KeyValue::new("ARROW:schema".to_owned(), noted)];
        let properties = WriterProperties::builder().set_key_value_metadata(Some(notes)).build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let batch = stored(TimeUnit::Millisecond);
        let file = fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let out = folder.path().join("out");
        Pack::new(Formats::new().whole(&path).unwrap(), PackInto::Parquet).run(&out).unwrap();
        let table = table(&out);
        let found: Vec<DataType> = table.columns().iter().map(|column| column.data_type().clone()).collect();
        let of = |unit| DataType::Timestamp(unit, Some(zone.into()));
        let inside = vec![Field::new("t", of(TimeUnit::Millisecond), true)];
        let wanted = [
            of(TimeUnit::Millisecond),
            of(TimeUnit::Millisecond),
            of(TimeUnit::Microsecond),
            of(TimeUnit::Nanosecond),
            DataType::Timestamp(TimeUnit::Millisecond, None),
            DataType::Struct(inside.into()),
        ];
        assert_eq!(found, wanted);
        let values = table.column(0).as_primitive::<arrow_array::types::TimestampMillisecondType>();
        assert_eq!(values.value(0), 1000);
    }

    #[test]
    fn a_list_of_another_length_than_the_first_ones_is_named_with_a_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lists.jsonl");
        for (nth, (later, found)) in [("[]", "0 values"), ("[1, 2, 3]", "3 values")].into_iter().enumerate() {
            let lines = "{\"l\": [1, 2]}\n".repeat(1200) + &format!("{{\"l\": {later}}}\n");
            let error = pack_of(&path, &lines, PackInto::Parquet).run(folder.path().join(nth.to_string())).unwrap_err();
            assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1200)), "{error}");
            assert!(error.message().contains(found) && error.message().contains("pack into tar"), "{error}");
            let out = folder.path().join(format!("tar {nth}"));
            assert_eq!(pack_of(&path, &lines, PackInto::Tar).run(&out).unwrap().records, 1201);
        }
    }

    #[test]
    fn an_integer_is_packed_exactly_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.jsonl");
        let before = (0..1200).map(|n| format!("{{\"id\": {n}}}\n")).collect::<String>();
        let out = folder.path().join("out");
        let held = "{\"id\": 123456789012345678.0}\n{\"id\": -1.23456789012345678e17}\n";
        pack_of(&path, &(before.clone() + held), PackInto::Parquet).run(&out).unwrap();
        let table = table(&out);
        let ids = table.column(0).as_primitive::<Int64Type>();
        assert_eq!((ids.value(1200), ids.value(1201)), (123_456_789_012_345_678, -123_456_789_012_345_678));
        for (nth, lost) in ["9007199254740993.5", "1.0000000000000000001", "1e19"].into_iter().enumerate() {
            let pack = pack_of(&path, &format!("{before}{{\"id\": {lost}}}\n"), PackInto::Parquet);
            let error = pack.run(folder.path().join(nth.to_string())).unwrap_err();
            let place = (error.location().record, error.location().column.as_deref());
            assert_eq!((error.kind(), place), (ErrorKind::Data, (Some(1200), Some("id"))), "{error}");
            assert!(error.message().contains(lost), "{error}");
        }
    }
}
