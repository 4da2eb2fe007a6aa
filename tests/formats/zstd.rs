//! Files that Zstandard compressed as a whole: as the python package `zstandard` writes them, and damaged.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use ringfeed::csv::{CsvOptions, CsvReader};
use ringfeed::field::{Numbers, Text};
use ringfeed::formats::Formats;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, LineOptions, Lines, RecordReader, Scratch, TfRecordOptions, TfRecords, Value};
use ringfeed::storage::Files;
use ringfeed::{DataSet, ErrorKind, Loader, Result};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The first batch.
fn batch(loader: Loader) -> DataSet {
    loader.build().unwrap().next().unwrap().unwrap()
}

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

fn written(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn tables_of_several_frames_are_read_at_random_and_as_a_stream() {
    let loader = || Loader::open(fixture("zstd/table.csv.zst")).unwrap().batch_size(200);
    assert_eq!(Formats::new().detect(fixture("zstd/table.csv.zst")).unwrap()[0].format(), "csv");
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
fn lines_and_arrays_are_told_by_what_they_hold() {
    let loader = Loader::open(fixture("zstd/lines")).unwrap();
    let batch = batch(loader.field("text", Text::new(10)).field("id", Numbers::i64()).batch_size(100));
    assert_eq!(batch.tensor("id").unwrap().as_slice::<i64>().unwrap(), (0..100).collect::<Vec<i64>>());
    assert_eq!(batch.tensor("text").unwrap().bytes()[..10], *"café 0\0\0\0".as_bytes());
    // 5000 zeros in some 30 bytes are no lie here, as they would be in gzip.
    let zeros = Loader::open(fixture("zstd/zeros-idx1-ubyte.zst")).unwrap().batch_size(5000);
    assert_eq!(self::batch(zeros).len(), 5000);
}

#[test]
fn records_of_tensorflow_are_found_in_compressed_files() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixture("tfrecord/kinds.tfrecord")).unwrap();
    let path = written(&folder, "train-00000-of-00001", &zstd::encode_all(&whole[..], 3).unwrap());
    assert_eq!(Formats::new().detect(&path).unwrap()[0].format(), "tfrecord");
    let records = TfRecords::open(&Files::local(), &path, &TfRecordOptions::default(), &MemoryBudget::unlimited());
    assert_eq!(records.unwrap().len(), 7);
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
