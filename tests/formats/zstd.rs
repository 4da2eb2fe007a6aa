//! Files that Zstandard compressed as a whole: as the python package `zstandard` writes them, and damaged.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use ringfeed::csv::{CsvOptions, CsvReader};
use ringfeed::formats::Formats;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, LineOptions, Lines, RecordReader, Scratch, Value};
use ringfeed::storage::Files;
use ringfeed::{ErrorKind, Result};

use crate::compressed::{check_idx, check_lines, check_table, check_tfrecord, fixture, written};

fn all(lines: &Lines) -> String {
    let (mut scratch, mut text) = (Scratch::default(), String::new());
    for record in 0..lines.len() {
        lines.fetch(&[record], 0, &mut scratch).unwrap();
        let read = lines.read(record, 0, &mut scratch, &mut |_, value| {
            if let Value::Text(line) = value {
                text.push_str(line);
                text.push('\n');
            }
            Ok(())
        });
        read.unwrap();
    }
    text
}

#[test]
fn files_are_told_and_read_by_what_they_hold() {
    check_table(&fixture("zstd/table.csv.zst"));
    check_lines(&fixture("zstd/lines"));
    // 5000 zeros in some 30 bytes are no lie here, as they would be in gzip.
    check_idx(&fixture("zstd/zeros-idx1-ubyte.zst"));
    check_tfrecord(|whole| zstd::encode_all(whole, 3).unwrap());
}

#[test]
fn a_format_that_is_read_at_random_says_that_it_must_be_decompressed() {
    let folder = tempfile::tempdir().unwrap();
    let array = std::fs::read(fixture("npy/bool.npy")).unwrap();
    let path = written(&folder, "array.npy.zst", &zstd::encode_all(&array[..], 3).unwrap());
    let error = Formats::new().detect(&path).unwrap_err();
    assert!(error.kind() == ErrorKind::Format && error.message().contains("compressed NPY file"), "{error}");
}

#[test]
fn a_file_that_is_cut_off_or_damaged_is_an_error_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixture("zstd/lines")).unwrap();
    let open = |bytes: &[u8]| -> Result<Lines> {
        let path = written(&folder, "lines.jsonl.zst", bytes);
        Lines::open(&Files::local(), &path, &LineOptions::default(), &MemoryBudget::unlimited())
    };
    assert!(open(&whole).is_ok());
    for cut in 4..whole.len() {
        let error = open(&whole[..cut]).unwrap_err();
        assert!(error.kind() == ErrorKind::Format && error.message().contains("truncated"), "{cut}: {error}");
        assert!(error.path().is_some_and(|path| path.ends_with("lines.jsonl.zst")), "{error}");
    }
    let good = all(&open(&whole).unwrap());
    for at in (4..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        match open(&damaged) {
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Format | ErrorKind::Limit), "{at}: {error}"),
            // Another place to copy the same text from: the checksum is right, as is what is read.
            Ok(lines) => assert!(all(&lines) == good, "{at}"),
        }
    }
    let error = open(&[&whole[..], b"rubbish"].concat()).unwrap_err();
    assert!(error.kind() == ErrorKind::Format && error.message().contains("corrupt"), "{error}");
}

#[test]
fn what_unpacks_beyond_a_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bomb = zstd::encode_all(&*b"1,2\n".repeat(25 << 20), 1).unwrap();
    assert!(bomb.len() < 100 << 10);
    let path = written(&folder, "bomb.csv.zst", &bomb);
    let options = CsvOptions { max_unpacked_bytes: 1 << 20, ..CsvOptions::default() };
    let error = CsvReader::open(&path, &options).map(|reader| reader.len()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Limit, Some(&*path)), "{error}");
}
