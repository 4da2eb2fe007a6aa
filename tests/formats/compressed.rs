//! What files that are compressed as a whole must give, whatever compressed them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use ringfeed::field::{Numbers, Text};
use ringfeed::formats::Formats;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, TfRecordOptions, TfRecords};
use ringfeed::storage::Files;
use ringfeed::{DataSet, Loader};

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

pub(crate) fn written(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The first batch.
pub(crate) fn batch(loader: Loader) -> DataSet {
    loader.build().unwrap().next().unwrap().unwrap()
}

/// A table of 200 rows is read at random and as a stream.
pub(crate) fn check_table(path: &Path) {
    assert_eq!(Formats::new().detect(path).unwrap()[0].format(), "csv");
    for shuffled in [false, true] {
        let loader = Loader::open(path).unwrap().batch_size(200);
        let loader = loader.field("x", Numbers::f64()).field("y", Numbers::i64());
        let batch = batch(if shuffled { loader.shuffle(1) } else { loader });
        let (x, y) = (batch.tensor("x").unwrap(), batch.tensor("y").unwrap());
        let (x, y) = (x.as_slice::<f64>().unwrap(), y.as_slice::<i64>().unwrap());
        assert_eq!(batch.len(), 200);
        for (row, id) in batch.sample_ids().iter().enumerate() {
            assert_eq!((x[row], y[row]), (*id as f64 / 4.0, (id * id) as i64));
        }
    }
}

/// 100 lines of JSON under a name that tells nothing.
pub(crate) fn check_lines(path: &Path) {
    let loader = Loader::open(path).unwrap();
    let batch = batch(loader.field("text", Text::new(10)).field("id", Numbers::i64()).batch_size(100));
    assert_eq!(batch.tensor("id").unwrap().as_slice::<i64>().unwrap(), (0..100).collect::<Vec<i64>>());
    assert_eq!(batch.tensor("text").unwrap().bytes()[..10], *"café 0\0\0\0".as_bytes());
}

/// Records of TensorFlow are found in a compressed file whose name tells nothing.
pub(crate) fn check_tfrecord(compress: impl Fn(&[u8]) -> Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixture("tfrecord/kinds.tfrecord")).unwrap();
    let path = written(&folder, "train-00000-of-00001", &compress(&whole));
    assert_eq!(Formats::new().detect(&path).unwrap()[0].format(), "tfrecord");
    let records = TfRecords::open(&Files::local(), &path, &TfRecordOptions::default(), &MemoryBudget::unlimited());
    assert_eq!(records.unwrap().len(), 7);
}

/// An IDX file of 5000 zeros.
pub(crate) fn check_idx(path: &Path) {
    assert_eq!(batch(Loader::open(path).unwrap().batch_size(5000)).len(), 5000);
}
