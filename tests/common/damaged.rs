//! A sample of a format whose bytes are changed: what is read of it, and whether errors say where.
#![expect(unreachable_pub, clippy::unwrap_used, reason = "several programs share it")]

use std::path::{Path, PathBuf};

use crate::samples::Sample;
use ringfeed::{DataSetIterator, Error, ErrorKind, Loader, LoaderConfig};

/// What a file of some hundred bytes may make us take, at most.
const BUDGET: u64 = 64 << 20;

/// More records than any sample has.
const MOST_RECORDS: usize = 100;

/// Where a sample lies.
pub struct Bench {
    pub folder: tempfile::TempDir,
    damaged: PathBuf,
    config: LoaderConfig,
}

/// The bytes of each record's tensors up to the first error, if there is one.
pub type Found = (Vec<Vec<u8>>, Option<Error>);

impl Bench {
    pub fn new(sample: &Sample) -> Self {
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
    pub fn read(&self, bytes: &[u8]) -> Found {
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
pub fn check(error: &Error, what: &dyn Fn() -> String, folder: &Path) {
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
