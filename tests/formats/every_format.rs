//! Every format of the table: a small sample of each is cut off at every byte, and each of its bytes is changed. There is no
//! panic, no hang and no more memory than was allowed; what is not the same is an error that names the file.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::common::watchdog;
use crate::samples::{Sample, Told, gzip, samples};
use ringfeed::formats::Formats;
use ringfeed::{DataSetIterator, Error, ErrorKind, Loader, LoaderConfig};

/// What a file of some hundred bytes may make us take, at most.
const BUDGET: u64 = 64 << 20;

/// More records than any sample has.
const MOST_RECORDS: usize = 100;

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
        let (source, fields) = (sample.source(&sample.path), &sample.fields);
        let settings = format!(
            r#"{{"source": {source}, "batch_size": 1, "shield": true, "memory": {{"budget_bytes": {BUDGET}}}{fields}}}"#
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
            false => {
                let error = error.unwrap();
                assert!(
                    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Config),
                    "{}: {error}",
                    sample.format
                );
                assert!(error.message().contains("build with the feature"), "{}: {error}", sample.format);
            }
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
