//! Members of tar archives as values: what JSON may hold, what is kept of archives, and archives that are replaced.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ringfeed::csv::Missing;
use ringfeed::field::{Class, Field, Numbers, Text};
use ringfeed::formats::Formats;
use ringfeed::memory::MemoryBudget;
use ringfeed::pack::{Pack, PackInto};
use ringfeed::read::{RecordReader, Scratch};
use ringfeed::settings::SavedIndex;
use ringfeed::storage::{Files, Needs, Storage};
use ringfeed::tar::{TarOptions, TarReader};
use ringfeed::{DType, DataSet, ErrorKind, Loader, Result};

/// An archive of these members.
fn archive(path: &Path, members: &[(&str, &[u8])]) {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    fs::write(path, builder.into_inner().unwrap()).unwrap();
}

fn set_modified(path: &Path, seconds_ago: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds_ago);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn all(loader: Loader) -> Result<DataSet> {
    loader.batch_size(100).workers(1).build()?.next().unwrap()
}

fn f32s(batch: &DataSet, name: &str) -> Vec<f32> {
    batch.tensor(name).unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn values_of_json_may_be_true_or_false_and_where_that_is_said_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.tar");
    let members: [(&str, &[u8]); 5] = [
        ("0.json", b"{\"x\": 1.5, \"flag\": true}"),
        ("1.json", b"{\"x\": null, \"flag\": false}"),
        ("2.json", b"{\"flag\": 1}"),
        ("3.txt", b"no JSON at all"),
        ("4.json", b"{\"x\": true, \"flag\": 0.0}"),
    ];
    archive(&path, &members);
    let x = |missing| Numbers::f32().missing(missing).from("json:/x");
    let batch = all(Loader::open(&path).unwrap().field("x", x(Missing::Nan))).unwrap();
    let found: Vec<Option<f32>> = f32s(&batch, "x").into_iter().map(|x| Some(x).filter(|x| !x.is_nan())).collect();
    assert_eq!(found, [Some(1.5), None, None, None, Some(1.0)]);
    let batch = all(Loader::open(&path).unwrap().field("x", x(Missing::Value(-1.0)))).unwrap();
    assert_eq!(f32s(&batch, "x"), [1.5, -1.0, -1.0, -1.0, 1.0]);
    let error = all(Loader::open(&path).unwrap().field("x", x(Missing::Error))).unwrap_err();
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)), "{error}");
    // As a class, as a number that is decoded beside it, and as one of another type.
    let path = folder.path().join("flags.tar");
    let flags: Vec<_> = members.into_iter().filter(|(name, _)| *name != "3.txt").collect();
    archive(&path, &flags);
    let loader = Loader::open(&path).unwrap().field("class", Class.from("json:/flag"));
    let loader =
        loader.field("own", Numbers::f32().from("json:/flag")).field("byte", Numbers::of(DType::U8).from("json:/flag"));
    let batch = all(loader).unwrap();
    assert_eq!(batch.tensor("class").unwrap().as_slice::<i64>().unwrap(), [1, 0, 1, 0]);
    assert_eq!(batch.tensor("byte").unwrap().as_slice::<u8>().unwrap(), [1, 0, 1, 0]);
    assert_eq!(f32s(&batch, "own"), [1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn what_is_packed_of_lines_of_json_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines.jsonl");
    let records = [
        r#"{"x": 1.5, "flag": true, "tags": [1, 2]}"#,
        r#"{"x": null, "flag": false, "tags": [3, 4]}"#,
        r#"{"flag": true, "tags": [5, null]}"#,
        r#"{"x": 3}"#,
        r#"{"x": null}"#,
    ];
    fs::write(&lines, records.join("\n")).unwrap();
    let out = folder.path().join("packed");
    Pack::new(Formats::new().whole(&lines).unwrap(), PackInto::Tar).run(&out).unwrap();
    let read = |path: &Path, of: fn(&str) -> String| {
        let number = |name: &str| Numbers::f32().missing(Missing::Value(-1.0)).from(of(name).as_str());
        let tags = Numbers::f32().missing(Missing::Value(-1.0)).max_len(2).from(of("tags").as_str());
        let loader = Loader::open(path).unwrap().field("x", number("x")).field("flag", number("flag"));
        let batch = all(loader.field("tags", tags)).unwrap();
        ["x", "flag", "tags"].map(|name| f32s(&batch, name))
    };
    let wanted = read(&lines, str::to_owned);
    assert_eq!(wanted[..2], [[1.5, -1.0, -1.0, 3.0, -1.0], [1.0, 0.0, 1.0, -1.0, -1.0]]);
    assert_eq!(read(&out, |name| format!("json:/{name}")), wanted);
}

#[test]
fn an_archive_that_was_replaced_is_an_error_however_many_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..300).map(|nth| folder.path().join(format!("{nth:03}.tar"))).collect();
    paths.iter().for_each(|path| archive(path, &[("k.txt", b"old")]));
    let fields: [(String, Field); 1] = [("txt".to_owned(), Text::new(9).into())];
    let reader = TarReader::from_paths(&paths, &fields, &TarOptions::default()).unwrap();
    // All are replaced; of some the old file is still open.
    for path in &paths {
        let new = folder.path().join("new");
        archive(&new, &[("k.txt", b"new")]);
        fs::rename(&new, path).unwrap();
    }
    let mut scratch = Scratch::default();
    let refused: Vec<_> = (0..300).filter_map(|sample| reader.fetch(&[sample], 0, &mut scratch).err()).collect();
    assert!(refused.len() >= 300 - 256, "{}", refused.len());
    for error in refused {
        assert!(error.to_string().contains("another file has taken its place"), "{error}");
    }
}

#[test]
fn a_class_in_a_large_member_is_read_within_the_limit_and_beyond_it_the_limit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.tar");
    let large = format!("{{\"class\": \"cat\", \"more\": {:?}}}", "x".repeat(2 << 20));
    archive(&path, &[("0.json", large.as_bytes()), ("1.json", b"{\"class\": \"dog\"}")]);
    let fields = [("label".to_owned(), Class.from("json:/class"))];
    let open = |max_file_bytes| {
        TarReader::with_fields(&path, &fields, &TarOptions { max_file_bytes, ..TarOptions::default() }).unwrap()
    };
    let reader = open(TarOptions::default().max_file_bytes);
    assert_eq!(
        (reader.label(0), reader.label(1), reader.classes()),
        (Some(0), Some(1), &["cat", "dog"].map(str::to_owned)[..])
    );
    let error = open(1 << 20).fetch(&[0], 0, &mut Scratch::default()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Limit
            && error.message().contains("limit of 1048576; if the format has the option `max_file_bytes`"),
        "{error}"
    );
}

/// Another machine's file.
struct Elsewhere(Vec<u8>);

impl Storage for Elsewhere {
    fn file_len(&self, _: &Path) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        into.clear();
        into.extend_from_slice(&self.0[range.start as usize..(range.end as usize).min(self.0.len())]);
        Ok(self.0.len() as u64)
    }
}

#[test]
fn what_is_too_long_to_be_read_is_not_requested() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.tar");
    archive(&path, &[("0.txt", &[b'x'; 2000]), ("1.txt", b"short")]);
    let files = Files::of(Arc::new(Elsewhere(fs::read(&path).unwrap())), &MemoryBudget::unlimited());
    let fields: [(String, Field); 1] = [("txt".to_owned(), Text::new(9).into())];
    let options = TarOptions { max_file_bytes: 1999, ..TarOptions::default() };
    let reader = TarReader::open_in(&files, "set.tar", &fields, &options, &MemoryBudget::unlimited()).unwrap();
    let is_requested = |sample| {
        let mut needs = Needs::default();
        reader.need(&[sample], &mut needs);
        !needs.is_empty()
    };
    assert!(!is_requested(0) && is_requested(1));
    assert_eq!(reader.fetch(&[0], 0, &mut Scratch::default()).unwrap_err().kind(), ErrorKind::Limit);
}

/// What is kept beside the data: names, and when they were written.
fn kept(folder: &Path) -> Vec<(String, SystemTime)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().modified().unwrap()));
    let mut kept: Vec<_> = named.filter(|(name, _)| name.ends_with(".ringfeed")).collect();
    kept.sort();
    kept
}

#[test]
fn every_reader_of_an_archive_finds_its_own_index_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.tar");
    archive(&path, &[("0.json", b"{\"x\": 1}"), ("0.txt", b"a"), ("1.json", b"{\"x\": 5}"), ("1.txt", b"b")]);
    let loader = || {
        let loader = Loader::open(&path).unwrap().saved_index(SavedIndex::Beside);
        let x = Numbers::f32().missing(Missing::Nan).from("json:/x");
        loader.field("text", Text::new(4).from("txt")).field("x", x).filter("`json:/x` > 3")
    };
    assert_eq!(f32s(&all(loader()).unwrap(), "x"), [5.0]);
    assert_eq!(kept(folder.path()), [], "the archive may still be changing");
    set_modified(&path, 100);
    assert_eq!(f32s(&all(loader()).unwrap(), "x"), [5.0]);
    let first = kept(folder.path());
    assert!(first.len() > 1 && first.iter().any(|(name, _)| name == "set.tar.ringfeed"), "{first:?}");
    assert_eq!(f32s(&all(loader()).unwrap(), "x"), [5.0]);
    assert_eq!(kept(folder.path()), first, "none is written again");
}

#[test]
fn lists_of_numbers_in_json_are_found_and_have_their_shape_or_a_mask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.tar");
    let members: [(&str, &[u8]); 4] = [
        ("0.json", b"{\"box\": [1, 2.5, 3, 4], \"ids\": [7], \"n\": 5, \"grid\": [[1, 2], [3, 4]]}"),
        ("1.json", b"{\"box\": [5, 6, 7, 8], \"ids\": [8, 9, 10], \"n\": 6, \"grid\": [[5, 6], [7, 8]]}"),
        ("2.json", b"{\"box\": [9, 10, 11, 12], \"ids\": [], \"n\": 7, \"grid\": [[9, 0], [0, 9]]}"),
        ("3.json", b"{\"box\": [13, 14, 15, 16], \"ids\": [11, 12], \"n\": 8, \"grid\": [[0, 0], [0, 0]]}"),
    ];
    archive(&path, &members);
    let open = || Loader::open(&path).unwrap().field("n", Numbers::f32().from("json:/n"));
    let loader = open().field("box", Numbers::f32().from("json:/box")).field("ids", Numbers::i64().from("json:/ids"));
    let batch = all(loader.field("grid", Numbers::of(DType::F16).from("json:/grid"))).unwrap();
    assert_eq!(f32s(&batch, "n"), [5.0, 6.0, 7.0, 8.0]);
    assert_eq!(batch.tensor("box").unwrap().shape(), [4, 4]);
    assert_eq!(f32s(&batch, "box")[..5], [1.0, 2.5, 3.0, 4.0, 5.0]);
    assert_eq!(batch.tensor("grid").unwrap().shape(), [4, 2, 2]);
    assert_eq!(batch.tensor("ids").unwrap().as_slice::<i64>().unwrap(), [7, 0, 0, 8, 9, 10, 0, 0, 0, 11, 12, 0]);
    assert_eq!(batch.tensor("ids_mask").unwrap().as_slice::<u8>().unwrap(), [1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0]);
    // The same of lines of JSON.
    let lines = folder.path().join("set.jsonl");
    fs::write(&lines, members.map(|(_, bytes)| [bytes, b"\n"].concat()).concat()).unwrap();
    let loader = Loader::open(&lines).unwrap().field("n", Numbers::f32()).field("box", Numbers::f32());
    let of_lines = all(loader.field("ids", Numbers::i64()).field("grid", Numbers::of(DType::F16))).unwrap();
    for name in ["n", "box", "ids", "ids_mask", "grid"] {
        let [one, other] = [&batch, &of_lines].map(|batch| batch.tensor(name).unwrap());
        assert_eq!((one.shape(), one.bytes()), (other.shape(), other.bytes()), "{name}");
    }
    // What the first samples do not show, or only one of them, is told by the error.
    let late = folder.path().join("late.tar");
    let early = folder.path().join("early.tar");
    archive(&early, &[("0.json", b"{\"x\": 1}"), ("1.json", b"{\"x\": [1, 2]}"), ("2.json", b"{\"x\": 3}")]);
    for dtype in [DType::F32, DType::F16] {
        let field = Numbers::of(dtype).from("json:/x");
        let error = all(Loader::open(&early).unwrap().field("x", field)).unwrap_err();
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)), "{error}");
        assert!(error.message().contains("`list"), "{error}");
    }
    let texts: Vec<(String, String)> = (0..50)
        .map(|at| {
            let (first, second) = if at == 40 { ("[1]", "[1, 2, 3]") } else { ("1", "[1, 2]") };
            (format!("{at:02}.json"), format!("{{\"x\": {first}, \"y\": {second}}}"))
        })
        .collect();
    archive(&late, &texts.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect::<Vec<_>>());
    for (name, dtype) in [("x", DType::F32), ("x", DType::F16), ("y", DType::F32)] {
        let field = Numbers::of(dtype).from(format!("json:/{name}").as_str());
        let error = all(Loader::open(&late).unwrap().field(name, field)).unwrap_err();
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(40)), "{error}");
        assert!(error.message().contains("`list"), "{error}");
        let field = Numbers::of(dtype).list().from(format!("json:/{name}").as_str());
        let batch = all(Loader::open(&late).unwrap().field(name, field)).unwrap();
        assert_eq!(batch.tensor(name).unwrap().shape(), [50, if name == "x" { 1 } else { 3 }]);
    }
}
