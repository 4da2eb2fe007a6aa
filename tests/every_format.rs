//! Every format of the table: a small sample of each is cut off at every byte, and each of its bytes is changed. There is no
//! panic, no hang and no more memory than was allowed; what is not the same is an error that names the file.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::{fixture, watchdog};
use ringfeed::formats::Formats;
use ringfeed::{DataSetIterator, Error, ErrorKind, Loader, LoaderConfig};

/// What a file of some hundred bytes may make us take, at most.
const BUDGET: u64 = 64 << 20;

/// More records than any sample has.
const MOST_RECORDS: usize = 100;

/// A small data set of a format.
struct Sample {
    format: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
    /// The file that is damaged.
    damaged: &'static str,
    /// The rest of the source's settings, and those beside it.
    source: String,
    rest: String,
    told: Told,
    /// Whether this build reads it.
    is_read: bool,
}

/// What of a file tells that it was changed.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// Every byte, by checksums: what is read is right.
    All,
    /// Where it ends: by a header, an index or a mark.
    Length,
    /// Neither: a shorter file is one of fewer records.
    Nothing,
}

impl Sample {
    fn new(format: &'static str, name: &'static str, bytes: impl Into<Vec<u8>>, told: Told) -> Self {
        Self {
            format,
            files: vec![(name, bytes.into())],
            damaged: name,
            source: format!("\"path\": {name:?}"),
            rest: String::new(),
            told,
            is_read: true,
        }
    }

    fn beside(mut self, name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name, bytes.into()));
        self
    }

    /// The source's path, where that is not the damaged file.
    fn at(mut self, path: &str) -> Self {
        self.source = format!("\"path\": {path:?}");
        self
    }

    fn options(mut self, options: &str) -> Self {
        self.source += &format!(", \"options\": {options}");
        self
    }

    fn fields(mut self, fields: &str) -> Self {
        self.rest = format!(", \"fields\": {fields}");
        self
    }

    fn read_if(mut self, is_read: bool) -> Self {
        self.is_read = is_read;
        self
    }

    fn whole(&self) -> &[u8] {
        &self.files.iter().find(|(name, _)| *name == self.damaged).unwrap().1
    }
}

fn small(name: &str) -> Vec<u8> {
    std::fs::read(fixture("small").join(name)).unwrap()
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// A record as TFRecord frames it.
fn framed(record: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let len = (record.len() as u64).to_le_bytes();
    [&len[..], &masked(&len), record, &masked(record)].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// A sample of every format; of some several.
fn samples() -> Vec<Sample> {
    // Two examples {"x": [n]}.
    let example = |n: f32| [&b"\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04"[..], &n.to_le_bytes()].concat();
    let examples = [framed(&example(1.5)), framed(&example(-2.0))].concat();
    let tensors = {
        let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}  "#;
        [&(header.len() as u64).to_le_bytes()[..], header, &[5, 6, 7]].concat()
    };
    let x = r#"{"x": "i64"}"#;
    let n = r#"{"n": "i64"}"#;
    let mds = || {
        Sample::new("mds", "shard.00000.mds", read("mds/pickled/shard.00000.mds"), Told::Length)
            .beside("index.json", read("mds/pickled/index.json"))
            .at("")
            .fields(n)
    };
    let litdata = || {
        Sample::new("litdata", "chunk-0-0.bin", read("litdata/pair/chunk-0-0.bin"), Told::Length)
            .beside("chunk-0-1.bin", read("litdata/pair/chunk-0-1.bin"))
            .beside("index.json", read("litdata/pair/index.json"))
            .at("")
    };
    let tokenizer = serde_json::to_string(&fixture("tokenizers/wordpiece.json")).unwrap();
    let mut samples = vec![
        Sample::new("images", "photo.png", read("images/rgb.png"), Told::All).read_if(cfg!(feature = "images")),
        Sample::new("audio", "sound.wav", small("sound.wav"), Told::Length).options(r#"{"rate": null}"#),
        Sample::new("tar", "samples.tar", small("samples.tar"), Told::Length)
            .fields(r#"{"n": {"from": "cls", "numbers": "i64"}}"#),
        Sample::new("csv_sequences", "waves/b.csv", "x,y\n1,2\n3,4\n", Told::Nothing)
            .beside("waves/a.csv", "x,y\n5,6\n")
            .at("waves")
            .fields(r#"{"x": {"from": ["x", "y"], "numbers": "f32"}}"#),
        Sample::new("idx", "labels", [&[0, 0, 8, 1, 0, 0, 0, 3][..], &[1, 2, 3]].concat(), Told::Length),
        Sample::new("npy", "array.npy", small("array.npy"), Told::Length),
        Sample::new("npz", "stored.npz", small("stored.npz"), Told::Length),
        Sample::new("npz", "packed.npz", small("packed.npz"), Told::Length),
        Sample::new("safetensors", "arrays.safetensors", tensors, Told::Length),
        Sample::new("tfrecord", "train-00000-of-00001", examples.clone(), Told::Nothing).fields(r#"{"x": "f32"}"#),
        Sample::new("tfrecord", "train.tfrecord.gz", gzip(&examples), Told::Length).fields(r#"{"x": "f32"}"#),
        mds(),
        Sample { damaged: "index.json", ..mds() },
        litdata(),
        Sample { damaged: "index.json", ..litdata() },
        Sample::new("jsonl", "lines.jsonl", "{\"x\": 1, \"y\": [1.5, \"a\"]}\n{\"x\": 22}\n", Told::Nothing).fields(x),
        Sample::new("libsvm", "rows.svm", "1 qid:3 1:0.5 7:2\n-1 qid:3 2:1e3 # no\n", Told::Nothing)
            .fields(r#"{"label": "f64", "indices": {"numbers": "i64", "ragged": true}, "values": {"numbers": "f64", "ragged": true}}"#),
        Sample::new("csv", "table.csv", "x,y\n1,2.5\n\"30\",4\n", Told::Nothing).fields(x),
        Sample::new("csv", "table.csv.gz", gzip(b"x,y\n1,2.5\n30,4\n"), Told::Length).fields(x),
        Sample::new("raw", "numbers.raw", (1..=12).collect::<Vec<u8>>(), Told::Nothing)
            .options(r#"{"stored": "u16", "shape": [2]}"#),
        Sample::new("tokens", "tokens.bin", (1..=24).collect::<Vec<u8>>(), Told::Nothing)
            .options(r#"{"stored": "u16", "window": 3, "cut": {"contiguous": {}}, "targets": "none"}"#),
        Sample::new("text", "lines.txt", "one\nzwei ä\n", Told::Nothing).fields(r#"{"line": {"text": 20}}"#),
        Sample::new("text_files", "page.txt", "one\nzwei ä", Told::Nothing).fields(r#"{"text": {"text": 20}}"#),
        Sample::new("text_tokens", "page.txt", "the quick fox", Told::Nothing)
            .options(&format!(r#"{{"tokenizer": {tokenizer}, "format": "text", "window": 2, "end": "[SEP]"}}"#))
            .read_if(cfg!(feature = "tokenizers")),
    ];
    if cfg!(feature = "parquet") {
        samples.push(Sample::new("parquet", "table.parquet", small("table.parquet"), Told::Length));
        samples.push(Sample::new("arrow", "table.arrow", small("table.arrow"), Told::Length));
        samples.push(Sample::new("arrow", "stream.arrow", small("stream.arrow"), Told::Length));
    }
    samples
}

/// Where a sample lies.
struct Bench {
    folder: tempfile::TempDir,
    damaged: PathBuf,
    config: LoaderConfig,
}

/// The bytes of each record's tensors up to the first error, if there is one.
type Found = (Vec<Vec<u8>>, Option<Error>);

impl Bench {
    fn new(sample: &Sample) -> Self {
        watchdog::watch();
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in &sample.files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let damaged = folder.path().join(sample.damaged);
        let Sample { format, source, rest, .. } = sample;
        let settings = format!(
            r#"{{"source": {{"format": "{format}", {source}}}, "batch_size": 1, "shield": true, "memory": {{"budget_bytes": {BUDGET}}}{rest}}}"#
        );
        let path = folder.path().join("loader.json");
        std::fs::write(&path, settings).unwrap();
        let config = LoaderConfig::load(&path).unwrap();
        Self { folder, damaged, config }
    }

    /// What is read where the damaged file holds `bytes`.
    fn read(&self, bytes: &[u8]) -> Found {
        std::fs::write(&self.damaged, bytes).unwrap();
        match Loader::from(self.config.clone()).build() {
            Ok(mut batches) => records(&mut *batches),
            Err(error) => (Vec::new(), Some(error)),
        }
    }
}

fn records(batches: &mut dyn DataSetIterator) -> Found {
    let mut records = Vec::new();
    for batch in batches.take(MOST_RECORDS) {
        match batch {
            Ok(batch) => records.push(batch.tensors().flat_map(|tensor| tensor.bytes().to_vec()).collect()),
            Err(error) => return (records, Some(error)),
        }
    }
    (records, None)
}

/// Whether an error says where, and is one of the data.
fn check(error: &Error, what: &dyn Fn() -> String, folder: &Path) {
    let known = [
        ErrorKind::Data,
        ErrorKind::Format,
        ErrorKind::Limit,
        ErrorKind::Budget,
        ErrorKind::Unsupported,
        ErrorKind::NotFound,
        ErrorKind::Config,
        ErrorKind::Schema,
        ErrorKind::Io,
    ];
    assert!(known.contains(&error.kind()), "{}: {error:?}", what());
    assert!(error.path().is_some_and(|path| path.starts_with(folder)), "{}: no place: {error}", what());
}

#[test]
fn there_is_a_sample_of_every_format() {
    let known: BTreeSet<&str> = Formats::new().names().into_iter().collect();
    let sampled: BTreeSet<&str> = samples().iter().map(|sample| sample.format).collect();
    assert_eq!(sampled, known, "a format that is added needs a sample here");
    for sample in samples() {
        let bench = Bench::new(&sample);
        let (records, error) = bench.read(sample.whole());
        match sample.is_read {
            true => assert!(!records.is_empty() && error.is_none(), "{}: {error:?}", sample.format),
            false => assert_eq!(error.unwrap().kind(), ErrorKind::Unsupported, "{}", sample.format),
        }
        assert!(sample.whole().len() < 4000, "{}: a sample is small", sample.format);
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_an_error_or_one_of_fewer_records() {
    for sample in samples().into_iter().filter(|sample| sample.is_read) {
        let bench = Bench::new(&sample);
        let (whole, _) = bench.read(sample.whole());
        for len in 0..sample.whole().len() {
            let what = || format!("{} {} cut to {len} bytes", sample.format, sample.damaged);
            let (found, error) = bench.read(&sample.whole()[..len]);
            if let Some(error) = &error {
                check(error, &what, bench.folder.path());
            }
            // The last one may be what is left of a line.
            let sure = if error.is_none() { found.len().saturating_sub(1) } else { found.len() };
            assert!(found.len() <= whole.len() && found[..sure] == whole[..sure], "{}: other records", what());
            // Without a header, an empty file is one of no records, however the others are compressed.
            let is_silent = error.is_none() && found != whole && len > 0;
            assert!(!is_silent || sample.told == Told::Nothing, "{}: records are lost in silence", what());
        }
    }
}

#[test]
fn a_byte_that_is_changed_anywhere_is_an_error_or_another_value() {
    for sample in samples().into_iter().filter(|sample| sample.is_read) {
        let bench = Bench::new(&sample);
        let (whole, _) = bench.read(sample.whole());
        for at in 0..sample.whole().len() {
            for byte in [0x00, 0x7f, 0xff] {
                let mut changed = sample.whole().to_vec();
                if std::mem::replace(&mut changed[at], byte) == byte {
                    continue;
                }
                let what = || format!("{} {} with byte {at} as {byte:#04x}", sample.format, sample.damaged);
                let (found, error) = bench.read(&changed);
                match &error {
                    Some(error) => check(error, &what, bench.folder.path()),
                    None => assert!(
                        sample.told != Told::All || found == whole,
                        "{}: a wrong value that a checksum tells",
                        what()
                    ),
                }
            }
        }
    }
}

/// As `cat one.gz other.gz` and programs that write to a pipe leave it: the length at its end is that of the last part.
#[test]
fn what_was_appended_to_a_gzip_file_is_read() {
    for sample in samples() {
        let is_unpacked = ["csv", "jsonl", "libsvm", "text", "tfrecord", "idx"].contains(&sample.format);
        if !is_unpacked || sample.whole().starts_with(&[0x1f, 0x8b]) {
            continue;
        }
        let bench = Bench::new(&sample);
        let (whole, _) = bench.read(sample.whole());
        for cut in [1, sample.whole().len() / 2, sample.whole().len() - 1] {
            let (one, other) = sample.whole().split_at(cut);
            let (found, error) = bench.read(&[gzip(one), gzip(&[]), gzip(other), vec![0; 512]].concat());
            assert!(error.is_none() && found == whole, "{} in parts of {cut}: {error:?}", sample.format);
        }
    }
}
