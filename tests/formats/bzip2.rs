//! Files that bzip2 compressed as a whole: as Python's `bz2` writes them, and damaged.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use ringfeed::csv::{CsvOptions, CsvReader};
use ringfeed::field::{Numbers, Text};
use ringfeed::formats::Formats;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, LineOptions, Lines};
use ringfeed::storage::Files;
use ringfeed::{DataSet, ErrorKind, Loader, Result};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The first batch.
fn batch(loader: Loader) -> DataSet {
    loader.build().unwrap().next().unwrap().unwrap()
}

fn open(path: &Path, budget: &MemoryBudget) -> Result<Lines> {
    Lines::open(&Files::local(), path, &LineOptions::default(), budget)
}

#[test]
fn tables_of_several_streams_are_read_at_random_and_as_a_stream() {
    let loader = || Loader::open(fixture("bzip2/table.csv.bz2")).unwrap().batch_size(200);
    assert_eq!(Formats::new().detect(fixture("bzip2/table.csv.bz2")).unwrap()[0].format(), "csv");
    for shuffled in [false, true] {
        let loader = loader().field("x", Numbers::f64()).field("y", Numbers::i64());
        let batch = batch(if shuffled { loader.shuffle(1) } else { loader });
        let (x, y) = (batch.tensor("x").unwrap(), batch.tensor("y").unwrap());
        let (x, y) = (x.as_slice::<f64>().unwrap(), y.as_slice::<i64>().unwrap());
        assert_eq!(batch.len(), 200);
        for (row, id) in batch.sample_ids().iter().enumerate() {
            assert_eq!((x[row], y[row]), (*id as f64 / 4.0, (id * id) as i64));
        }
    }
}

#[test]
fn files_are_told_by_what_they_hold() {
    let loader = Loader::open(fixture("bzip2/lines")).unwrap();
    let lines = batch(loader.field("text", Text::new(10)).field("id", Numbers::i64()).batch_size(100));
    assert_eq!(lines.tensor("id").unwrap().as_slice::<i64>().unwrap(), (0..100).collect::<Vec<i64>>());
    assert_eq!(lines.tensor("text").unwrap().bytes()[..10], *"café 0\0\0\0".as_bytes());
    // As data sets of libsvm are published.
    assert_eq!(Formats::new().detect(fixture("bzip2/rows.bz2")).unwrap()[0].format(), "libsvm");
    let rows = batch(Loader::open(fixture("bzip2/rows.bz2")).unwrap().batch_size(50));
    let labels = rows.tensor("label").unwrap().as_slice::<f64>().unwrap().to_vec();
    assert_eq!(labels, (0..50).map(|n| if n % 2 == 1 { 1.0 } else { -1.0 }).collect::<Vec<_>>());
}

#[test]
fn a_file_that_is_cut_off_or_damaged_is_an_error_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixture("bzip2/lines")).unwrap();
    let read = |bytes: &[u8]| {
        let path = folder.path().join("lines.jsonl.bz2");
        std::fs::write(&path, bytes).unwrap();
        open(&path, &MemoryBudget::unlimited()).map(|lines| lines.len())
    };
    assert_eq!(read(&whole).unwrap(), 100);
    for cut in 10..whole.len() {
        let error = read(&whole[..cut]).unwrap_err();
        assert!(error.kind() == ErrorKind::Format && error.message().contains("truncated"), "{cut}: {error}");
        assert!(error.path().is_some_and(|path| path.ends_with("lines.jsonl.bz2")), "{error}");
    }
    // The checksums find whatever does not matter to the decoder.
    for at in 10..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        match read(&damaged) {
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Format | ErrorKind::Limit), "{at}: {error}"),
            Ok(lines) => assert_eq!((lines, at), (100, whole.len() - 1), "but for the bits that fill the last byte"),
        }
    }
    let error = read(&[&whole[..], b"rubbish"].concat()).unwrap_err();
    assert!(error.kind() == ErrorKind::Format && error.message().contains("not another one"), "{error}");
}

#[test]
fn what_unpacks_beyond_a_limit_is_refused() {
    let path = fixture("bzip2/table.csv.bz2");
    let options = CsvOptions { max_unpacked_bytes: 1 << 10, ..CsvOptions::default() };
    let error = CsvReader::open(&path, &options).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let budget = MemoryBudget::new(1 << 20);
    let error = open(&fixture("bzip2/lines"), &budget).map(drop).unwrap_err();
    assert!(error.kind() == ErrorKind::Budget && error.message().contains("bzip2"), "{error}");
}
