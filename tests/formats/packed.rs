//! What packing keeps of its source, and what it refuses: nesting, types, the files of others, and shards that are
//! damaged.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfeed::csv::CsvOptions;
use ringfeed::formats::{Csv, Formats, Jsonl};
use ringfeed::pack::{Manifest, Pack, PackInto};
use ringfeed::settings::{Paths, SourceConfig};
use ringfeed::{Error, ErrorKind};
use serde_json::{Value as Json, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn source(path: impl AsRef<Path>) -> SourceConfig {
    Formats::new().whole(path).unwrap()
}

fn to_tar(path: impl AsRef<Path>, out: &Path) -> Manifest {
    Pack::new(source(path), PackInto::Tar).run(out).unwrap()
}

/// The members of all samples of a folder of archives, by their names.
fn members(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut members = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "tar") {
            for member in tar::Archive::new(fs::File::open(entry).unwrap()).entries().unwrap() {
                let mut member = member.unwrap();
                let name = member.path().unwrap().to_string_lossy().into_owned();
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut member, &mut bytes).unwrap();
                assert!(members.insert(name, bytes).is_none());
            }
        }
    }
    members
}

/// The JSON of each sample.
fn samples(folder: &Path) -> Vec<Json> {
    let json =
        |(name, bytes): (String, Vec<u8>)| name.ends_with(".json").then(|| serde_json::from_slice(&bytes).unwrap());
    members(folder).into_iter().filter_map(json).collect()
}

#[test]
fn steps_of_a_sequence_stay_lists_in_lists() {
    let folder = tempfile::tempdir().unwrap();
    to_tar(fixture("tfrecord/sequences.tfrecord"), folder.path());
    let found: Vec<(Json, Json)> =
        samples(folder.path()).into_iter().map(|sample| (sample["steps"].clone(), sample["words"].clone())).collect();
    let expected: Json = serde_json::from_slice(&fs::read(fixture("tfrecord/expected.json")).unwrap()).unwrap();
    let value = |value: &Json| match value {
        Json::Object(list) if list.contains_key("floats") => {
            let bits =
                list["floats"].as_array().unwrap().iter().map(|bits| f32::from_bits(bits.as_u64().unwrap() as u32));
            Json::from(bits.collect::<Vec<_>>())
        }
        list => {
            let text = |hex: &Json| char::from(u8::from_str_radix(hex.as_str().unwrap(), 16).unwrap()).to_string();
            list["bytes"].as_array().unwrap().iter().map(text).collect::<Vec<_>>().into()
        }
    };
    let list =
        |list: &Json| list.as_array().map_or(Json::Null, |steps| steps.iter().map(value).collect::<Vec<_>>().into());
    let records = expected["sequences.tfrecord"].as_array().unwrap().iter();
    let wanted: Vec<(Json, Json)> =
        records.map(|record| (list(&record["lists"]["steps"]), list(&record["lists"]["words"]))).collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_field_has_the_same_form_in_all_samples() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("kinds");
    // Lists of one, of three and of none, and texts as single ones.
    let kinds = Pack::new(source(fixture("tfrecord/kinds.tfrecord")), PackInto::Tar).fields(["f", "i", "l", "s"]);
    kinds.run(&out).unwrap();
    let members = members(&out);
    let shape = |name: &str| {
        let header = String::from_utf8_lossy(&members[name][..128]).into_owned();
        header[header.find("'shape'").unwrap() + 9..].split(')').next().unwrap().to_owned()
    };
    assert_eq!((shape("000000000.l.npy"), shape("000000000.i.npy")), ("(3,".to_owned(), "(1,".to_owned()));
    assert_eq!((shape("000000005.i.npy"), shape("000000000.f.npy")), ("(1,".to_owned(), "(1,".to_owned()));
    let samples = samples(&out);
    assert!(samples.iter().all(|sample| ["f", "i", "l"].iter().all(|name| sample[name].is_null())), "{samples:?}");
    assert_eq!((&samples[0]["s"], &samples[1]["s"]), (&json!(["one"]), &json!(["a", "", "c"])));
}

/// The files of a folder, by their names.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// A table of which three shards are made.
fn table_in(folder: &Path) -> (PathBuf, Pack) {
    let path = folder.join("table.csv");
    fs::write(&path, "x\n".to_owned() + &(0..50).map(|n| format!("{n}\n")).collect::<String>()).unwrap();
    let pack = Pack::new(source(&path), PackInto::Tar).shard_bytes(20 * 1024);
    (path, pack)
}

/// Stops at once, so that nothing but the journal and the first shards are there.
fn stopped(pack: &Pack, out: &Path) -> Error {
    pack.run_with(out, |_| ControlFlow::Break(())).unwrap_err()
}

/// Changes bytes of a file, neither its length nor anything else but its time.
fn change(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    let later = fs::metadata(path).unwrap().modified().unwrap() + Duration::from_secs(2);
    fs::write(path, text.replacen(from, to, 1)).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
}

#[test]
fn a_source_that_was_changed_is_not_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let (path, pack) = table_in(folder.path());
    for is_finished in [false, true] {
        let out = folder.path().join(format!("out-{is_finished}"));
        if is_finished {
            pack.run(&out).unwrap();
        } else {
            assert_eq!(stopped(&pack, &out).kind(), ErrorKind::Interrupted);
        }
        let before = files(&out);
        change(&path, "7\n", "8\n");
        let error = pack.run(&out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.message().contains("changed since") && error.message().contains("--restart"), "{error}");
        assert!(files(&out) == before);
        // What to do is said, and helps.
        let manifest = pack.clone().restart().run(&out).unwrap();
        assert_eq!((manifest.records, manifest.shards.len()), (50, 3));
        let anew = folder.path().join(format!("anew-{is_finished}"));
        pack.run(&anew).unwrap();
        assert!(files(&anew) == files(&out));
        assert_eq!(pack.run(&out).unwrap(), manifest);
    }
}

#[test]
fn files_that_no_pack_has_made_are_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let (_, pack) = table_in(folder.path());
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let precious = out.join("shard-000002.tar");
    fs::write(&precious, "precious").unwrap();
    for pack in [pack.clone(), pack.clone().restart()] {
        let error = pack.run(&out).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Config, Some(&*precious)), "{error}");
    }
    assert_eq!(files(&out).len(), 1);
    fs::remove_file(&precious).unwrap();
    fs::write(out.join("notes.tar"), "mine").unwrap();
    pack.run(&out).unwrap();
    pack.clone().shard_bytes(30 * 1024).restart().run(&out).unwrap();
    assert_eq!(fs::read(out.join("notes.tar")).unwrap(), b"mine");
}

#[test]
fn starting_over_removes_only_shards_that_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, pack) = table_in(folder.path());
    let out = folder.path().join("out");
    let restart = || pack.clone().shard_bytes(30 * 1024).restart();
    let refused = |precious: &str| {
        fs::write(out.join(precious), "precious").unwrap();
        let before = files(&out);
        let error = restart().run(&out).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Config, Some(&*out.join(precious))), "{error}");
        assert!(files(&out) == before, "something was removed");
        fs::remove_file(out.join(precious)).unwrap();
    };
    pack.run(&out).unwrap();
    refused("shard-000007.tar");
    refused("shard-000000.parquet");
    restart().run(&out).unwrap();
    assert_eq!(files(&out).len(), 3);

    stopped(&pack.clone().restart(), &out);
    assert!(out.join(".ringfeed-pack").exists() && out.join("shard-000001.tar").exists());
    refused("shard-000009.tar");
    fs::write(out.join(".shard-000002.tar.part"), "begun").unwrap();
    restart().run(&out).unwrap();
    assert_eq!(files(&out).len(), 3, "{:?}", files(&out).keys());

    // All shards that are written again were listed, also if that run is stopped.
    pack.clone().restart().run(&out).unwrap();
    change(&out.join("shard-000000.tar"), "ustar", "USTAR");
    stopped(&pack, &out);
    restart().run(&out).unwrap();
    assert_eq!(files(&out).len(), 3);
    stopped(&pack.clone().restart(), &out);
    change(&out.join("shard-000000.tar"), "ustar", "USTAR");
    stopped(&pack, &out);
    restart().run(&out).unwrap();
    assert_eq!(files(&out).len(), 3);
    assert!(path.exists());
}

#[test]
fn shards_do_not_go_among_what_they_are_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    fs::create_dir(&tables).unwrap();
    for name in ["a.csv", "b.csv"] {
        fs::write(tables.join(name), "x\n1\n").unwrap();
    }
    for path in [tables.clone(), tables.join("*.csv"), folder.path().join("tables/../tables")] {
        let whole = SourceConfig::new(Csv, &*path, CsvOptions::default());
        let error = Pack::new(whole, PackInto::Tar).run(&tables).unwrap_err();
        assert!(error.message().contains("among the files"), "{error}");
    }
    let inside = tables.join("inside/deep");
    let error = Pack::new(source(&tables), PackInto::Tar).run(&inside).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && !inside.exists(), "{error}");
    assert_eq!(files(&tables).len(), 2);
    Pack::new(source(tables.join("a.csv")), PackInto::Tar).run(&tables).unwrap();
    let shard = Pack::new(source(tables.join("shard-000000.tar")), PackInto::Tar).restart();
    assert!(shard.run(&tables).unwrap_err().message().contains("among the files"));
    assert!(tables.join("shard-000000.tar").exists());
}

#[test]
fn damaged_and_missing_shards_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (_, pack) = table_in(folder.path());
    let out = folder.path().join("out");
    let manifest = pack.run(&out).unwrap();
    let wanted = files(&out);
    for (name, is_missing) in [("shard-000001.tar", true), ("shard-000000.tar", false), ("shard-000002.tar", false)] {
        let path = out.join(name);
        if is_missing {
            fs::remove_file(&path).unwrap();
        } else {
            let mut bytes = wanted[name].clone();
            bytes[700] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
        assert_eq!(pack.run(&out).unwrap(), manifest);
        assert!(files(&out) == wanted, "{name}");
    }
    // Those of a run that was stopped, too.
    let begun = folder.path().join("begun");
    let mut steps = 0;
    let _ = pack.clone().threads(1).run_with(&begun, |progress| {
        steps += 1;
        if progress.shards == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(steps > 0);
    if let Some(bytes) = files(&begun).get("shard-000000.tar") {
        let mut bytes = bytes.clone();
        bytes[700] ^= 1;
        fs::write(begun.join("shard-000000.tar"), bytes).unwrap();
    }
    pack.run(&begun).unwrap();
    assert!(files(&begun) == wanted);
}

#[test]
fn a_shard_has_no_more_bytes_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let (_, pack) = table_in(folder.path());
    // Ten records of two blocks each, and the two blocks at the end.
    for (bytes, records) in [(11 * 1024, 10), (11 * 1024 - 1, 9)] {
        let manifest = pack.clone().shard_bytes(bytes).run(folder.path().join(bytes.to_string())).unwrap();
        assert!(manifest.shards.iter().all(|shard| shard.bytes <= bytes), "{manifest:?}");
        assert_eq!(manifest.shards[0].records, records);
    }
}

#[cfg(unix)]
#[test]
fn one_run_at_a_time_works_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (_, pack) = table_in(folder.path());
    let out = folder.path().join("out");
    let mut refused = 0;
    let run = pack.run_with(&out, |_| {
        let error = pack.clone().restart().run(&out).unwrap_err();
        assert!(error.message().contains("another run"), "{error}");
        refused += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((run.unwrap().records, refused > 0), (50, true));
    pack.run(&out).unwrap();
}

#[test]
fn fields_that_only_later_records_have_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.jsonl");
    let line = |n: usize| match n {
        1100 => json!({ "id": n, "deep": { "late": 5 } }),
        1101 => json!({ "id": n, "later": null }),
        _ => json!({ "id": n }),
    };
    fs::write(&path, (0..1200).map(|n| line(n).to_string() + "\n").collect::<String>()).unwrap();
    let pack = Pack::new(source(&path), PackInto::Tar);
    let out = |name: &str| folder.path().join(name);
    let error = pack.run(out("1")).unwrap_err();
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Unsupported, Some(1100)), "{error}");
    assert!(error.to_string().contains("/deep/late") && error.message().contains("--skip-fields"), "{error}");
    pack.clone().fields(["id", "/deep/late"]).run(out("2")).unwrap();
    assert_eq!(samples(&out("2"))[1100], json!({ "id": 1100, "deep": { "late": 5 } }));
    pack.clone().skip_fields(["/deep/late"]).run(out("3")).unwrap();
    assert_eq!(samples(&out("3"))[1100], json!({ "id": 1100 }));
    // Another file of the same data set may list it.
    let other = folder.path().join("other.jsonl");
    fs::write(&other, "{\"id\": 0, \"deep\": {\"late\": 7}}\n").unwrap();
    let both = SourceConfig::new(Jsonl, [path, other].into_iter().collect::<Paths>(), Default::default());
    Pack::new(both, PackInto::Tar).run(out("4")).unwrap();
    assert_eq!(samples(&out("4"))[1200], json!({ "id": 0, "deep": { "late": 7 } }));
}

#[test]
fn more_fields_than_are_listed_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.jsonl");
    let wide: serde_json::Map<String, Json> = (0..4098).map(|n| (format!("k{n:05}"), n.into())).collect();
    fs::write(&path, Json::from(wide).to_string() + "\n").unwrap();
    let error = Pack::new(source(&path), PackInto::Tar).run(folder.path().join("out")).unwrap_err();
    assert!(error.to_string().contains("k04097"), "{error}");
}

#[test]
fn arrays_that_are_no_numbers_are_named_and_damaged_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // Beside `x`, it holds texts and objects.
    let others = Pack::new(source(fixture("npz/others.npz")), PackInto::Tar);
    let error = others.run(at("1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("--skip-fields"), "{error}");
    let manifest = others.clone().skip_fields(["words", "objects", "one"]).run(at("2")).unwrap();
    assert_eq!(manifest.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), ["x"]);
    let mut bytes = fs::read(fixture("npz/stored.npz")).unwrap();
    let place = memchr::memmem::find(&bytes, b"\x93NUMPY").unwrap();
    bytes[place + 130] ^= 1;
    fs::write(at("damaged.npz"), bytes).unwrap();
    let error = Pack::new(source(at("damaged.npz")), PackInto::Tar).run(at("3")).unwrap_err();
    assert!(error.message().contains("damaged"), "{error}");
}

#[test]
fn codes_and_telephone_numbers_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.csv");
    let text = "zip,phone,n,x,z,price\n00501,+4930,1,1.50,0,5\n10115,4930,-2,-0.5,-0,0.25\n2,3,40,0,7,1e3\n";
    fs::write(&path, text).unwrap();
    let kinds = |pack: &Pack, name: &str| {
        let manifest = pack.run(folder.path().join(name)).unwrap();
        manifest.fields.into_iter().map(|field| field.kind).collect::<Vec<_>>()
    };
    let pack = Pack::new(source(&path), PackInto::Tar);
    assert_eq!(kinds(&pack, "1"), ["text", "text", "i64", "f64", "f64", "f64"]);
    assert_eq!(samples(&folder.path().join("1"))[0]["zip"], json!("00501"));
    assert_eq!(kinds(&pack.clone().text(["n", "price"]), "2"), ["text", "text", "text", "f64", "f64", "text"]);
    assert_eq!(samples(&folder.path().join("2"))[0]["n"], json!("1"));
    let error = pack.text(["nn"]).run(folder.path().join("3")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn texts_are_packed_as_they_are_written_and_only_numbers_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name,code,n,z\nNA,nan,1,-0\nNone,N/A,NA,1.5\n,x,null,-0.0\n null,,3,0\n";
    fs::create_dir(folder.path().join("two")).unwrap();
    for name in ["table.csv", "two/a.csv", "two/b.csv"] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let out = folder.path().join("out");
    let manifest = Pack::new(source(folder.path().join("table.csv")), PackInto::Tar).text(["z"]).run(&out).unwrap();
    let kinds: Vec<&str> = manifest.fields.iter().map(|field| field.kind.as_str()).collect();
    assert_eq!(kinds, ["text", "text", "i64", "text"]);
    let wanted = [
        json!({ "name": "NA", "code": "nan", "n": 1, "z": "-0" }),
        json!({ "name": "None", "code": "N/A", "z": "1.5" }),
        json!({ "code": "x", "z": "-0.0" }),
        json!({ "name": " null", "n": 3, "z": "0" }),
    ];
    assert_eq!(samples(&out), wanted);

    let table = SourceConfig::new(Csv, Paths::from(folder.path().join("two/*.csv")), CsvOptions::default());
    let out = folder.path().join("of two");
    Pack::new(table, PackInto::Tar).run(&out).unwrap();
    let numbers: Vec<String> = members(&out).into_values().map(|json| String::from_utf8(json).unwrap()).collect();
    assert_eq!(numbers.len(), 8);
    for (nth, wanted) in
        [("-0.0", "\"NA\""), ("1.5", "\"N/A\""), ("-0.0", "\"x\""), ("0", "\" null\"")].iter().enumerate()
    {
        for sample in [&numbers[nth], &numbers[nth + 4]] {
            assert!(sample.contains(&format!("\"z\":{}", wanted.0)) && sample.contains(wanted.1), "{sample}");
        }
    }
}

#[test]
fn only_records_that_can_not_be_read_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.jsonl");
    let long = "1234567890123456789012345";
    let kinds = [PackInto::Tar, PackInto::Parquet];
    for into in kinds.into_iter().filter(|into| cfg!(feature = "parquet") || *into == PackInto::Tar) {
        let out = |name: &str| folder.path().join(format!("{name} {into:?}"));
        for (nth, (unfit, record, why)) in
            [(long, 1, long), ("true", 1, "true or false"), ("[1]", 0, "in lists of depth 1")].into_iter().enumerate()
        {
            fs::write(&path, format!("{{\"a\": 0.5}}\n{{\"a\": {unfit}}}\n")).unwrap();
            let error = Pack::new(source(&path), into).skip_bad().run(out(&nth.to_string())).unwrap_err();
            let place = (error.location().record, error.location().column.as_deref());
            assert_eq!((error.kind(), place), (ErrorKind::Data, (Some(record), Some("a"))), "{error}");
            assert!(error.message().contains(why), "{error}");
        }
        fs::write(&path, "{\"a\": 0.5}\n{\"a\": }\n{\"a\": 2}\n{\n").unwrap();
        let mut skipped = Vec::new();
        let pack = Pack::new(source(&path), into).skip_bad();
        let show = |_| ControlFlow::Continue(());
        let manifest = pack.run_naming(out("bad"), show, |error| skipped.push(error.location().record)).unwrap();
        assert_eq!((manifest.records, manifest.skipped), (2, 2));
        assert_eq!(skipped, [Some(1), Some(3)]);
    }
}

#[cfg(unix)]
#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_link_to_nothing_is_a_bad_record() {
    let folder = tempfile::tempdir().unwrap();
    let photos = folder.path().join("photos");
    fs::create_dir_all(photos.join("a")).unwrap();
    fs::copy(fixture("photos/rocket.jpg"), photos.join("a/1.jpg")).unwrap();
    std::os::unix::fs::symlink("/nonexistent/2.jpg", photos.join("a/2.jpg")).unwrap();
    fs::copy(fixture("photos/rocket.jpg"), photos.join("a/3.jpg")).unwrap();
    let pack = Pack::new(source(&photos), PackInto::Tar);
    assert_eq!(pack.run(folder.path().join("1")).unwrap_err().kind(), ErrorKind::NotFound);
    let manifest = pack.clone().skip_bad().run(folder.path().join("2")).unwrap();
    assert_eq!((manifest.records, manifest.skipped), (2, 1));
}

#[cfg(feature = "parquet")]
mod columns {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Int64Type};
    use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray, RecordBatch, UInt64Array};
    use arrow_buffer::{NullBuffer, OffsetBuffer};
    use arrow_schema::Field;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    pub(super) fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
                .unwrap();
        let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    pub(super) fn table(path: &Path) -> RecordBatch {
        let file = fs::File::open(path).unwrap();
        let mut batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        batches.next().unwrap().unwrap()
    }

    fn list(values: ArrayRef, lens: &[usize], valid: Option<Vec<bool>>) -> ArrayRef {
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lens.iter().copied());
        Arc::new(ListArray::new(item, offsets, values, valid.map(NullBuffer::from)))
    }

    #[test]
    fn lists_in_lists_are_packed_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let numbers = [Some(vec![Some(1), None]), Some(vec![Some(3)]), Some(vec![]), None, Some(vec![Some(4)])];
        let uneven = list(
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(numbers)),
            &[2, 0, 2, 1],
            Some(vec![true, false, true, true]),
        );
        let pairs = (0..5u8).map(|nth| Some([nth, nth + 1].map(|x| Some(f32::from(x)))));
        let pairs = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(pairs, 2);
        let pairs = list(Arc::new(pairs), &[1, 2, 0, 2], None);
        let gappy = [Some(vec![Some(1), None]), Some(vec![Some(7)]), None, Some(vec![])];
        let gappy: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(gappy));
        write(&at("lists.parquet"), vec![("uneven", uneven), ("pairs", pairs), ("gappy", gappy)]);
        Pack::new(source(at("lists.parquet")), PackInto::Parquet).run(at("columns")).unwrap();
        assert_eq!(table(&at("columns").join("shard-000000.parquet")).columns(), table(&at("lists.parquet")).columns());
        to_tar(at("lists.parquet"), &at("samples"));
        let found = samples(&at("samples"));
        let wanted = [
            json!({ "uneven": [[1, null], [3]], "gappy": [1, null] }),
            json!({ "gappy": [7] }),
            json!({ "uneven": [[], null] }),
            json!({ "uneven": [[4]], "gappy": [] }),
        ];
        assert_eq!(found, wanted);
        assert_eq!(members(&at("samples")).keys().filter(|name| name.ends_with(".pairs.npy")).count(), 4);
    }

    #[test]
    fn text_is_no_number_of_a_column_of_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        for (nth, (number, text)) in [("10115", "01067"), ("0.5", "nan"), ("0.5", "inf"), ("1", "1")].iter().enumerate()
        {
            let numbers = format!("{{\"x\": {number}}}\n").repeat(1000);
            fs::write(&path, format!("{numbers}{{\"x\": \"{text}\"}}\n")).unwrap();
            let error =
                Pack::new(source(&path), PackInto::Parquet).run(folder.path().join(format!("{nth}"))).unwrap_err();
            let place = (error.location().record, error.location().column.as_deref());
            assert_eq!((error.kind(), place), (ErrorKind::Data, (Some(1000), Some("x"))), "{error}");
            assert!(error.message().contains("tar archives hold it"), "{error}");
        }
    }

    #[test]
    fn integers_of_64_bits_of_json_are_a_column_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.jsonl");
        let packed = |lines: &[&str], name: &str| {
            fs::write(&path, lines.join("\n")).unwrap();
            let manifest = Pack::new(source(&path), PackInto::Parquet).run(folder.path().join(name))?;
            let table = table(&folder.path().join(name).join("shard-000000.parquet"));
            Ok::<_, Error>((manifest.fields[0].kind.clone(), table.column(0).clone()))
        };
        let large = r#"{"id": 18446744073709551615}"#;
        let (kind, ids) =
            packed(&[r#"{"id": 0}"#, large, r#"{"id": null}"#, r#"{"id": 9223372036854775808}"#], "1").unwrap();
        let wanted = UInt64Array::from(vec![Some(0), Some(u64::MAX), None, Some(1 << 63)]);
        assert_eq!((kind.as_str(), ids.as_primitive()), ("u64", &wanted));
        assert_eq!(packed(&[r#"{"id": [18446744073709551615, 1]}"#, r#"{"id": []}"#], "2").unwrap().1.len(), 2);
        for (nth, other) in ["-1", "0.5"].iter().enumerate() {
            let error = packed(&[large, &format!("{{\"id\": {other}}}")], &format!("mixed {nth}")).unwrap_err();
            assert!(error.message().contains("tar archives hold it"), "{error}");
            Pack::new(source(&path), PackInto::Tar).run(folder.path().join(format!("tar {nth}"))).unwrap();
        }
    }

    /// What `table` reads of a file that was packed into another one.
    fn packed(pack: &Pack) -> RecordBatch {
        let folder = tempfile::tempdir().unwrap();
        pack.run(folder.path().join("out")).unwrap();
        table(&folder.path().join("out/shard-000000.parquet"))
    }

    #[test]
    fn columns_keep_their_types_and_values() {
        let path = fixture("parquet/types.parquet");
        let names = [
            "bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "full", "f16", "f32", "f64", "d9", "d18",
            "d38", "d76", "date", "time_ms", "time_us", "stamp_ms", "stamp_us", "stamp_ns", "text", "bytes",
        ];
        let all = names.into_iter().chain(["image.bytes", "image.path"]);
        let packed = packed(&Pack::new(source(&path), PackInto::Parquet).fields(all));
        let stored = table(&path);
        // A struct that is missing is missing.
        for name in names.into_iter().chain(["image"]) {
            assert_eq!(packed.column_by_name(name).unwrap(), stored.column_by_name(name).unwrap(), "{name}");
        }
    }

    #[test]
    fn types_that_parquet_has_not_become_others_of_the_same_meaning() {
        use arrow_schema::{DataType, TimeUnit};

        let names = ["time_s", "time_ns", "date64", "took", "d32", "d64", "date"];
        let packed = packed(&Pack::new(source(fixture("arrow/types.arrow")), PackInto::Parquet).fields(names));
        let kinds: Vec<DataType> = packed.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        let wanted = [
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Date32,
            DataType::Duration(TimeUnit::Millisecond),
            DataType::Decimal128(5, 3),
            DataType::Decimal128(17, 0),
            DataType::Date32,
        ];
        assert_eq!(kinds, wanted);
    }

    #[test]
    fn a_point_in_a_name_makes_no_struct() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.parquet");
        let numbers = |first: i64| -> ArrayRef { Arc::new(arrow_array::Int64Array::from(vec![first, first + 1])) };
        write(&path, vec![("a.b", numbers(1)), ("a", numbers(3))]);
        assert_eq!(packed(&Pack::new(source(&path), PackInto::Parquet)).columns(), table(&path).columns());
        to_tar(&path, &folder.path().join("tar"));
        assert_eq!(samples(&folder.path().join("tar"))[0], json!({ "a.b": 1, "a": 3 }));
    }

    #[test]
    fn numbers_that_a_column_does_not_hold_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        for (text, is_packed) in [
            ("{\"x\": true}\n{\"x\": false}\n{}\n", true),
            ("{\"x\": 0.5}\n{\"x\": 1e400}\n", false),
            ("{\"x\": 0.5}\n{\"x\": 9007199254740993}\n", false),
        ] {
            fs::write(&path, text).unwrap();
            let pack = Pack::new(source(&path), PackInto::Parquet);
            if is_packed {
                let flags = arrow_array::BooleanArray::from(vec![Some(true), Some(false), None]);
                assert_eq!(packed(&pack).column(0), &(Arc::new(flags) as ArrayRef));
            } else {
                let error = pack.run(folder.path().join("out").join(text.len().to_string())).unwrap_err();
                assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)), "{error}");
            }
        }
    }

    #[test]
    fn a_column_that_can_not_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let pack = Pack::new(source(fixture("arrow/runs.arrow")), PackInto::Tar);
        let error = pack.run(folder.path().join("1")).unwrap_err();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Unsupported, Some("r")), "{error}");
        let manifest = pack.clone().skip_fields(["r"]).run(folder.path().join("2")).unwrap();
        assert_eq!(manifest.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), ["x"]);
        pack.clone().fields(["x"]).run(folder.path().join("3")).unwrap();
    }

    #[test]
    fn a_list_that_is_no_array_among_arrays_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("late.parquet");
        let row = |nth: i64| Some(vec![Some(nth), (nth != 1100).then_some(nth)]);
        let late = ListArray::from_iter_primitive::<Int64Type, _, _>((0..1200).map(row));
        write(&path, vec![("late", Arc::new(late))]);
        let error = Pack::new(source(&path), PackInto::Tar).run(folder.path().join("out")).unwrap_err();
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1100)), "{error}");
        assert!(error.to_string().contains("late") && error.message().contains("missing values"), "{error}");
    }
}
