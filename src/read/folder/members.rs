use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Location, Result};
use crate::random::mix;
use crate::read::Fingerprint;
use crate::storage::{Files, LocalFile, Needs};

use super::listing::{Found, PathList};

/// The files of a listing as records, with their classes.
pub(in crate::read) struct Members {
    paths: PathList,
    storage: Files,
    /// The number of the first file in the storage.
    first: u64,
    /// For each file, the index of its class; empty without classes.
    pub(in crate::read) labels: Vec<u32>,
    pub(in crate::read) classes: Arc<[String]>,
    /// Files that were left out.
    pub(in crate::read) ignored: u64,
    /// The first of them.
    pub(in crate::read) ignored_files: Vec<PathBuf>,
    /// Hash of the files' lengths, as they were listed.
    lengths: u64,
}

impl Members {
    /// The files of a listing, whose labels are indices of `classes`; `lengths` is a hash of the files' lengths.
    pub(in crate::read) fn new(found: Found, classes: Arc<[String]>, lengths: u64, storage: Files) -> Self {
        let Found { files: paths, labels, ignored, ignored_names, .. } = found;
        let (first, ignored_files) = (storage.number_files(paths.len() as u64), ignored_names.0.into_iter().collect());
        Self { paths, storage, first, labels, classes, ignored, ignored_files, lengths }
    }

    /// The same files among those of a storage.
    pub(in crate::read) fn among(self, storage: &Files) -> Self {
        Self { first: storage.number_files(self.len()), storage: storage.clone(), ..self }
    }

    pub(in crate::read) fn len(&self) -> u64 {
        self.paths.len() as u64
    }

    pub(in crate::read) fn are_local(&self) -> bool {
        self.storage.are_local()
    }

    pub(in crate::read) fn held_bytes(&self) -> u64 {
        self.paths.held_bytes() + 4 * self.labels.capacity() as u64
    }

    /// The path below the root.
    pub(in crate::read) fn relative(&self, record: u64) -> &Path {
        self.paths.relative(record as usize)
    }

    pub(in crate::read) fn path(&self, record: u64) -> PathBuf {
        let mut path = PathBuf::new();
        self.write_path(record, &mut path);
        path
    }

    /// Writes the path into `path`, reusing its memory.
    pub(in crate::read) fn write_path(&self, record: u64, path: &mut PathBuf) {
        self.paths.write(record, path);
    }

    /// The class index; `None` without classes.
    pub(in crate::read) fn label(&self, record: u64) -> Option<u32> {
        self.labels.get(usize::try_from(record).ok()?).copied()
    }

    /// Reads at least the first `wanted` bytes of the file at `path` into `into`; returns the file's length, at most
    /// `most`.
    pub(in crate::read) fn read(
        &self,
        record: u64,
        path: &Path,
        into: &mut Vec<u8>,
        most: u64,
        wanted: u64,
    ) -> Result<u64> {
        self.storage.read_file(self.first + record, path, into, most, wanted)
    }

    /// Opens the file at `path` to read a few parts of it; `None` in a storage.
    pub(in crate::read) fn open_parts(&self, path: &Path) -> Result<Option<LocalFile>> {
        self.storage.open_parts(path)
    }

    /// Announces that these files will be needed, as far as they have at most `most` bytes.
    pub(in crate::read) fn need(&self, records: &[u64], most: u64, needs: &mut Needs) {
        if self.are_local() {
            return;
        }
        let is_named = |record: u64| record < self.len() && !self.relative(record).as_os_str().is_empty();
        for record in records.iter().filter(|record| is_named(**record)) {
            self.storage.need_file(self.first + record, &self.path(*record), most, needs);
        }
    }

    pub(in crate::read) fn located(&self, error: Error, record: u64) -> Error {
        let error = error.at_record(record);
        if record < self.len() { error.at_path(self.path(record)) } else { error }
    }

    pub(in crate::read) fn place(&self, record: u64) -> Location {
        let path = (record < self.len()).then(|| self.path(record));
        Location { path, record: Some(record), ..Location::default() }
    }

    pub(in crate::read) fn name(&self, record: u64, name: &mut Vec<u8>) {
        if record < self.len() {
            name.extend_from_slice(self.relative(record).as_os_str().as_encoded_bytes());
        }
    }

    pub(in crate::read) fn fingerprint(&self) -> Fingerprint {
        let labels = self.labels.iter().fold(0, |hash, label| mix(hash ^ u64::from(*label)));
        Fingerprint { count: Some(self.len()), names: mix(self.paths.hash() ^ labels), sizes: self.lengths }
    }
}
