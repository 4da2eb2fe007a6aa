//! A format of a user's own has the rights of ours: settings, fields, `inspect`, `verify`, `plan`, shards, splits,
//! resume.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::pairs::{PairFormat, PairOptions};
use ringfeed::error::Location;
use ringfeed::field::{Class, Numbers, Text};
use ringfeed::formats::{Csv, Format, Formats, Open, Opened, Streamed};
use ringfeed::inspect::{Figure, InspectedRecord, verify_with};
use ringfeed::order::Shard;
use ringfeed::read::{Lines, MemoryReader, Record, RecordDecoder, RecordStream, RowMut, Sample, Scratch};
use ringfeed::settings::SourceConfig;
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::{DType, DataSet, ErrorKind, Loader, LoaderConfig, Result};

/// Lines that are shouted.
pub(crate) struct Shouting;
#[rustfmt::skip] // as short as it may be written
impl Format for Shouting {
    const NAME: &'static str = "shouting";
    type Options = ();
    fn sniff(&self, head: &[u8], _: &Path) -> bool { head.starts_with(b"SHOUT") }
    fn open(&self, _: &(), at: &Open<'_>) -> Result<impl Into<Opened>> { Lines::index(at, |line| line.to_ascii_uppercase()) }
}

/// Pairs that are read one after another, in which case there is one tensor: how long each line is.
struct Streaming;

struct LineLengths {
    lines: Vec<String>,
    read: u64,
    tensors: [TensorSpec; 1],
}

impl Format for Streaming {
    const NAME: &'static str = "streaming";
    type Options = ();

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn open(&self, _: &(), at: &Open<'_>) -> Result<impl Into<Opened>> {
        let options = PairOptions::default();
        let opened: Opened = PairFormat.open(&options, at)?.into();
        Ok(opened)
    }

    fn stream(&self, _: &(), at: &Open<'_>, _: bool) -> Result<Option<Streamed>> {
        let lines: Vec<_> = std::fs::read_to_string(at.path).unwrap().lines().map(str::to_owned).collect();
        let lengths = || LineLengths {
            lines: lines.clone(),
            read: 0,
            tensors: [TensorSpec::new("length", Role::Feature, DType::I64, &[])],
        };
        Ok(Some(Streamed { stream: Box::new(lengths()), decoder: Box::new(lengths()) }))
    }
}

impl RecordStream for LineLengths {
    fn read(&mut self, record: &mut Record) -> Result<bool> {
        let Some(line) = self.lines.get(self.read as usize) else { return Ok(false) };
        record.parts.clear();
        record.parts.push(line.clone().into());
        self.read += 1;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<()> {
        self.read = 0;
        Ok(())
    }
}

impl RecordDecoder for LineLengths {
    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, _: Sample, record: &Record, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        row.tensor(0).i64()?[0] = record.parts[0].len() as i64;
        Ok(())
    }

    fn place(&self, _: &Record) -> Location {
        Location::default()
    }
}

/// A file that names another file, whose records are its own.
struct Citing;

impl Format for Citing {
    const NAME: &'static str = "citing";
    type Options = ();

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        head.starts_with(b"cite ")
    }

    fn open(&self, (): &(), at: &Open<'_>) -> Result<impl Into<Opened>> {
        let mut text = String::new();
        at.files.stream(at.path)?.read_to_string(&mut text)?;
        let other = at.path.with_file_name(text["cite ".len()..].trim_end());
        Ok(Opened::Container(at.open_other(None, &[other], at.fields)?))
    }
}

/// Numbers that a reader makes by itself.
struct Counting;

impl Format for Counting {
    const NAME: &'static str = "counting";
    type Options = ();

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        head.starts_with(b"count")
    }

    fn open(&self, (): &(), _: &Open<'_>) -> Result<impl Into<Opened>> {
        Ok(Opened::reader(MemoryReader::new("pair", Role::Feature, &[2], (0..20i32).collect::<Vec<_>>())?))
    }
}

fn formats() -> Formats {
    Formats::new().with(Shouting).with(PairFormat).with(Streaming).with(Citing).with(Counting)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pairs: String = (0..60).map(|i| format!("{}={:x}\n", ["ant", "bee", "cat"][i % 3], 7 * i)).collect();
    std::fs::write(folder.path().join("train.pairs"), pairs).unwrap();
    std::fs::write(folder.path().join("words.txt"), "SHOUT\r\nhear\n\nhear").unwrap();
    folder
}

fn settings(folder: &Path, text: &str) -> Result<LoaderConfig> {
    let file = folder.join("loader.toml");
    std::fs::write(&file, text).unwrap();
    LoaderConfig::load_with(file, &formats())
}

fn values(batches: impl Iterator<Item = Result<DataSet>>) -> Vec<i64> {
    batches.flat_map(|batch| batch.unwrap().tensor("value").unwrap().as_slice::<i64>().unwrap().to_vec()).collect()
}

#[test]
fn a_file_is_recognised_by_what_it_holds_or_by_its_name() -> Result<()> {
    let folder = folder();
    let loader =
        Loader::open_with(folder.path().join("words.txt"), &formats())?.field("words", Text::new(8).from("line"));
    assert_eq!(loader.config().sources[0].format(), "shouting");
    let batch = loader.build()?.next().unwrap()?;
    assert_eq!(batch.tensor("words")?.bytes(), b"SHOUT\0\0\0HEAR\0\0\0\0HEAR\0\0\0\0");
    assert_eq!(formats().detect(folder.path().join("train.pairs"))?[0].format(), "pairs");
    // Without it, this is text that is no table.
    assert_eq!(Loader::open(folder.path().join("words.txt")).err().unwrap().kind(), ErrorKind::Format);
    assert!(formats().detect("fixtures/iris.csv")?[0].is::<Csv>());
    Ok(())
}

#[test]
fn settings_name_it_and_its_options_and_say_what_is_wrong_with_them() -> Result<()> {
    let folder = folder();
    let text = "batch_size = 7\nshuffle = 3\n[[sources]]\nformat = \"pairs\"\npath = \"train.pairs\"\n\
                options = { base = 16 }\n[fields]\nvalue = { numbers = \"i64\" }\nname = \"class\"";
    let config = settings(folder.path(), text)?;
    let own = SourceConfig::new(PairFormat, folder.path().join("train.pairs"), PairOptions { base: 16 });
    let loader = Loader::new(own.clone()).field("value", Numbers::i64()).field("name", Class).batch_size(7).shuffle(3);
    assert_eq!(config.sources, [own]);
    let expected = values(loader.build()?);
    assert_eq!(values(Loader::from(config.clone()).build()?), expected);
    let mut sorted = expected.clone();
    sorted.sort();
    assert_eq!(sorted, (0..60).map(|i| 7 * i).collect::<Vec<_>>());
    // What is written is read again, with the same formats.
    let written = folder.path().join("written.toml");
    std::fs::write(&written, toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(LoaderConfig::load_with(&written, &formats())?, config);
    let fault = |text: &str| settings(folder.path(), text).unwrap_err().to_string();
    let found = fault("[[sources]]\nformat = \"pair\"\npath = \"x\"");
    assert!(found.contains("did you mean \"pairs\"?") && found.contains("\"shouting\""), "{found}");
    let found = fault("[source]\npath = \"x\"\nformat = \"pairs\"\n\noptions.bse = 3");
    assert!(found.contains(":5: source.options.bse") && found.contains("did you mean \"base\"?"), "{found}");
    let found = fault("source = { pth = \"x\" }");
    assert!(found.contains(":1: source.pth") && found.contains("did you mean \"path\"?"), "{found}");
    let found = fault("[[sources]]\nformat = \"pairs\"\npath = \"x\"\noptions = {\n  bse = 3 }");
    assert!(found.contains(":5: sources[0].options.bse") && found.contains("did you mean \"base\"?"), "{found}");
    let found = fault("[[sources]]\nformat = \"pairs\"\npath = \"x\"\nbase = 3");
    assert!(found.contains(":4: ") && found.contains("write options = { base = ... }"), "{found}");
    let found = Loader::new(SourceConfig::new(PairFormat, folder.path(), PairOptions { base: 1 })).faults();
    assert_eq!(found, ["sources[0].options.base: 1; there are 2 to 36"]);
    // Outside, nobody knows it.
    assert!(LoaderConfig::load(&written).unwrap_err().to_string().contains("\"pairs\" is not allowed"));
    Ok(())
}

#[test]
fn it_is_planned_inspected_and_verified() -> Result<()> {
    let folder = folder();
    let path = folder.path().join("train.pairs");
    let hexadecimal = || SourceConfig::new(PairFormat, &path, PairOptions { base: 16 });
    let plan = Loader::new(hexadecimal()).batch_size(8).plan()?;
    assert_eq!((plan.samples, plan.batches_per_epoch, plan.sources[0].format), (Some(60), Some(8), "pairs"));
    // By itself, it gives its numbers.
    let names: Vec<String> = plan.tensors.unwrap().into_iter().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["value"]);
    let inspection = hexadecimal().inspect(&Default::default(), &ringfeed::memory::MemoryBudget::unlimited())?;
    assert_eq!((inspection.format, inspection.records), ("pairs", 60));
    assert_eq!(serde_json::to_value(&inspection).unwrap()["details"]["base"], "16");
    let value = &inspection.fields[1];
    assert_eq!((value.dtype.as_str(), value.count), ("i64", 60));
    assert_eq!((value.min, value.max), (Some(Figure::Whole(0)), Some(Figure::Whole(413))));
    assert_eq!(value.sum, Some(Figure::Whole(7 * 59 * 60 / 2)));
    let columns = |value: &str, name: &str| {
        Some(InspectedRecord::Columns(vec![
            ("name".to_owned(), name.to_owned()),
            ("value".to_owned(), value.to_owned()),
        ]))
    };
    assert_eq!((inspection.first, inspection.last), (columns("0", "ant"), columns("413", "cat")));
    // In base 10, some are no numbers: each is named with its line.
    let report = verify_with(&path, &formats(), 2, |_| {})?;
    let bad = (0..60).filter(|i| format!("{:x}", 7 * i).contains(|c: char| c.is_alphabetic())).count();
    assert_eq!((report.samples, report.bad_samples), (60, bad as u64));
    let first = report.bad[0].location();
    assert_eq!((first.path.as_deref(), first.record, first.line), (Some(&*path), Some(2), Some(3)));
    Ok(())
}

#[test]
fn tensors_that_it_makes_by_itself_are_fields_too() -> Result<()> {
    let folder = folder();
    let path = folder.path().join("numbers");
    std::fs::write(&path, "count").unwrap();
    let open = || Loader::open_with(&path, &formats());
    assert_eq!(open()?.build()?.next().unwrap()?.tensor("pair")?.as_slice::<i32>()?[..4], [0, 1, 2, 3]);
    let loader = open()?.field("x", Numbers::f32().from("pair")).filter("label != 1");
    assert!(loader.build().is_err(), "there is no field to filter by");
    let batch = open()?.field("x", Numbers::f32().from("pair")).build()?.next().unwrap()?;
    assert_eq!(
        (batch.tensor("x")?.shape(), &batch.tensor("x")?.as_slice::<f32>()?[..3]),
        (&[10, 2][..], &[0.0, 1.0, 2.0][..])
    );
    // Several files are one source, as ever, and samples are chosen by the tensors.
    std::fs::write(folder.path().join("numbers-2"), "count").unwrap();
    let both = || Loader::new(SourceConfig::new(Counting, folder.path().join("numbers*"), ()));
    let batch = both().field("x", Numbers::f32().from("pair")).build()?.next().unwrap()?;
    assert_eq!((batch.tensor("x")?.shape(), batch.tensor("x")?.as_slice::<f32>()?[20]), (&[20, 2][..], 0.0));
    assert!(batch.tensor("pair").is_err());
    let inspection = formats().inspect(&path)?;
    assert_eq!((inspection.records, inspection.fields[0].max), (10, Some(Figure::Whole(19))));
    Ok(())
}

#[test]
fn it_may_be_made_of_records_of_other_formats() -> Result<()> {
    let folder = folder();
    std::fs::write(folder.path().join("rows.csv"), "x,y\n1,2\n3,4\n").unwrap();
    let cite = |name: &str| {
        let path = folder.path().join("cited");
        std::fs::write(&path, format!("cite {name}\n")).unwrap();
        path
    };
    let of_csv = Loader::open_with(cite("rows.csv"), &formats())?.field("sum", Numbers::i64().from(["y", "x"]));
    assert_eq!(of_csv.build()?.next().unwrap()?.tensor("sum")?.as_slice::<i64>()?, [2, 1, 4, 3]);
    let of_own = Loader::open_with(cite("words.txt"), &formats())?.field("line", Text::new(5));
    assert_eq!(of_own.build()?.next().unwrap()?.tensor("line")?.bytes(), b"SHOUTHEAR\0HEAR\0");
    let error = verify_with(cite("none.csv"), &formats(), 1, |_| {}).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.path() == Some(&*folder.path().join("none.csv")), "{error}");
    // Two files are one, and one that is its own other file ends.
    std::fs::write(folder.path().join("rows-2.csv"), "x,y\n5,6\n").unwrap();
    let of_two = Loader::open_with(cite("rows*.csv"), &formats())?.field("x", Numbers::i64());
    assert_eq!(of_two.build()?.next().unwrap()?.tensor("x")?.as_slice::<i64>()?, [5, 1, 3]);
    let error = verify_with(cite("cited"), &formats(), 1, |_| {}).unwrap_err();
    assert!(error.kind() == ErrorKind::Format && error.message().contains("without end"), "{error}");
    Ok(())
}

#[test]
fn every_field_that_is_wrong_by_itself_is_told() {
    let table = || SourceConfig::new(Csv, "fixtures/iris.csv", Default::default());
    let source = table().field("a", ringfeed::field::Array::new()).field("x", Numbers::f32());
    let source = source.field("b", ringfeed::field::Image::rgb(8, 8).from(1));
    let faults = Loader::new(source).faults();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(
        faults[0].contains("a: a column holds no array") && faults[1].contains("b: a column holds no image"),
        "{faults:?}"
    );
}

#[test]
fn a_bad_record_is_left_out_of_the_names_and_found_when_it_is_read() -> Result<()> {
    let folder = folder();
    let path = folder.path().join("some.pairs");
    std::fs::write(&path, "ant=1\nno pair\nbee=2\nant=x\n").unwrap();
    let loader = Loader::new(SourceConfig::new(PairFormat, &path, PairOptions::default()))
        .field("value", Numbers::i64())
        .field("name", Class)
        .bad_records(ringfeed::settings::BadRecords::Skip(Default::default()));
    let mut batches = loader.build()?;
    let batch = batches.next().unwrap()?;
    assert_eq!(batch.tensor("value")?.as_slice::<i64>()?, [1, 2]);
    assert_eq!(batch.schema().tensors()[1].classes.as_deref().unwrap(), ["ant", "bee"]);
    let bad: Vec<_> = batches.bad_records().iter().map(|record| record.error.clone()).collect();
    assert!(bad[0].contains("expected name=number") && bad[1].contains("invalid digit"), "{bad:?}");
    Ok(())
}

#[test]
fn lines_of_text_are_records_where_settings_say_so() -> Result<()> {
    let folder = folder();
    std::fs::write(folder.path().join("notes.txt"), "one, two\n\n three \r\nfour").unwrap();
    let text = "[[sources]]\nformat = \"text\"\npath = \"notes.txt\"\n[fields]\nline = { text = 9 }";
    let batch = Loader::from(settings(folder.path(), text)?).build()?.next().unwrap()?;
    assert_eq!(batch.tensor("line")?.bytes(), b"one, two\0 three \0\0four\0\0\0\0\0");
    assert_eq!(batch.tensor("line_len")?.as_slice::<i64>()?, [8, 7, 4]);
    Ok(())
}

#[test]
fn a_stream_is_taken_only_if_it_gives_what_is_asked_for() -> Result<()> {
    let folder = folder();
    std::fs::write(folder.path().join("few"), "a=1\nbee=22\n").unwrap();
    let source = "source = { path = \"few\", format = \"streaming\" }\n";
    let all = |text: &str, tensor: &str| -> Result<Vec<i64>> {
        let batch = Loader::from(settings(folder.path(), text)?).build()?.next().unwrap()?;
        Ok(batch.tensor(tensor)?.as_slice::<i64>()?.to_vec())
    };
    assert_eq!(all(source, "length")?, [3, 6]);
    let pairs = settings(folder.path(), "source = { path = \"none\", format = \"pairs\" }")?;
    assert!(Loader::from(pairs).faults()[0].contains("none"));
    assert_eq!(all(&format!("{source}fields = {{ value = {{ numbers = \"i64\" }} }}\n"), "value")?, [1, 22]);
    Ok(())
}

#[test]
fn it_resumes_splits_and_shards_as_every_other() -> Result<()> {
    let folder = folder();
    let path: PathBuf = folder.path().join("train.pairs");
    let loader =
        || Loader::new(SourceConfig::new(PairFormat, &path, PairOptions { base: 16 })).batch_size(4).shuffle(9);
    let whole = values(loader().build()?);
    assert_eq!(values(loader().shield().build()?), whole);
    let mut begun = loader().build()?;
    let mut seen = values(begun.by_ref().take(5));
    let state = begun.state();
    let mut again = loader().workers(1).build()?;
    again.seek(&state)?;
    seen.extend(values(again));
    assert_eq!(seen, whole);
    let mut parts: Vec<i64> = Vec::new();
    for index in 0..3 {
        parts.extend(values(loader().shard(Shard::new(index, 3)?).build()?));
    }
    parts.sort();
    assert_eq!(parts, (0..60).map(|i| 7 * i).collect::<Vec<_>>());
    Ok(())
}
