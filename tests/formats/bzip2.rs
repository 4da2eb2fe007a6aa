//! Files that bzip2 compressed as a whole: as Python's `bz2` writes them, and damaged.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::io::Write;
use std::path::Path;

use bzip2::{Compression, write::BzEncoder};
use ringfeed::csv::{CsvOptions, CsvReader};
use ringfeed::formats::Formats;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, LineOptions, Lines};
use ringfeed::storage::Files;
use ringfeed::{ErrorKind, Loader, Result};

use crate::compressed::{batch, check_idx, check_lines, check_table, check_tfrecord, fixture, written};

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn open(path: &Path, budget: &MemoryBudget) -> Result<Lines> {
    Lines::open(&Files::local(), path, &LineOptions::default(), budget)
}

#[test]
fn files_are_told_and_read_by_what_they_hold() {
    check_table(&fixture("bzip2/table.csv.bz2"));
    check_lines(&fixture("bzip2/lines"));
    check_tfrecord(compressed);
    let folder = tempfile::tempdir().unwrap();
    let idx = [&[0, 0, 8, 1, 0, 0, 0x13, 0x88][..], &[0; 5000]].concat();
    check_idx(&written(&folder, "zeros-idx1-ubyte.bz2", &compressed(&idx)));
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
        let path = written(&folder, "lines.jsonl.bz2", bytes);
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
