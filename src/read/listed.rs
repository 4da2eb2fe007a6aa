//! Files named in a list, one per record, whose bytes go to a codec.

use std::path::{Path, PathBuf};

use crate::decode::AudioOptions;
use crate::error::{Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::schema::Role;
use crate::storage::{Files, Needs};

use super::audio::AudioFiles;
use super::container::{Container, FieldInfo, FieldKind, Table, Visit};
use super::folder::PathList;
use super::listed_by::{ListedBy, no_name};
use super::{ColumnRef, Fingerprint, Scratch, Value};

/// Longer files are refused.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// One file per record, whose bytes are its only field.
pub(super) struct ListedFiles {
    files: Files,
    /// The number that a storage gave to the first of these files.
    first: u64,
    paths: PathList,
    fields: [FieldInfo; 1],
    reservation: Reservation,
    listed_by: ListedBy,
}

/// A worker's buffers: one for each record of its job.
#[derive(Default)]
struct Worker {
    files: Vec<Vec<u8>>,
    path: PathBuf,
}

impl ListedFiles {
    /// Files below `root`.
    pub(super) fn new(files: &Files, root: &Path, budget: &MemoryBudget) -> Result<Self> {
        let mut paths = PathList::default();
        paths.set_root(root);
        Ok(Self {
            files: files.clone(),
            first: 0,
            paths,
            fields: [FieldInfo::new("bytes", FieldKind::Bytes)],
            reservation: budget.reserve(0, "the names of the files")?,
            listed_by: ListedBy::default(),
        })
    }

    /// The same, with a field of this name.
    pub(super) fn called(mut self, name: &str, kind: FieldKind) -> Self {
        self.fields = [FieldInfo::new(name, kind)];
        self
    }

    /// Adds the file of `record`, which must be the next one.
    pub(super) fn push(&mut self, record: u64, path: &Path) -> Result<()> {
        self.push_as(record, path, PathList::push)
    }

    /// The same for a file that is not below the root.
    pub(super) fn push_elsewhere(&mut self, record: u64, path: &Path) -> Result<()> {
        self.push_as(record, path, PathList::push_elsewhere)
    }

    fn push_as(&mut self, record: u64, path: &Path, push: fn(&mut PathList, &Path) -> Result<()>) -> Result<()> {
        let next = self.paths.len() as u64;
        if record != next {
            return Err(no_name(next));
        }
        push(&mut self.paths, path)?;
        self.reservation.grow_to(self.paths.held_bytes(), "the names of the files")
    }

    /// Says that a `field` of `container`, which will be the `table`, names these files. Finds out what is wrong with
    /// records that name no file.
    pub(super) fn is_listed_by(&mut self, table: &Table, container: &dyn Container, field: &str) {
        let is_nameless = |record: &u64| self.paths.relative(*record as usize).as_os_str().is_empty();
        self.listed_by = ListedBy::of(table, container, field, (0..self.len()).filter(is_nameless));
    }

    /// Whether every record has a file.
    pub(super) fn check(&mut self, records: u64) -> Result<()> {
        let next = self.paths.len() as u64;
        if next != records {
            return Err(no_name(next));
        }
        self.first = self.files.number_files(records);
        Ok(())
    }

    /// Makes a reader that reads the same files as sounds.
    pub(super) fn into_sounds(
        self,
        options: &AudioOptions,
        tensor: (&str, Role),
        budget: &MemoryBudget,
    ) -> Result<AudioFiles> {
        let Self { files, paths, reservation, listed_by, .. } = self;
        drop(reservation);
        AudioFiles::of_list(paths, listed_by, &files, options, tensor, budget)
            .map_err(|error| error.at_column(tensor.0))
    }

    fn path(&self, record: u64) -> PathBuf {
        let mut path = PathBuf::new();
        self.paths.write(record, &mut path);
        path
    }
}

impl Container for ListedFiles {
    fn len(&self) -> u64 {
        self.paths.len() as u64
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn find(&mut self, _: &ColumnRef) -> Result<usize> {
        Ok(0)
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        if !self.files.are_local() {
            let is_named =
                |record: u64| record < self.len() && !self.paths.relative(record as usize).as_os_str().is_empty();
            let named = records.iter().filter(|record| is_named(**record));
            named.for_each(|record| {
                self.files.need_file(self.first + record, &self.path(*record), MAX_FILE_BYTES, needs)
            });
        }
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        super::check_record(records[nth], self.len())?;
        let Worker { files, path } = scratch.of();
        if files.len() <= nth {
            files.resize_with(nth + 1, Vec::new);
        }
        if self.paths.relative(records[nth] as usize).as_os_str().is_empty() {
            return Err(self.listed_by.error(records[nth]));
        }
        self.paths.write(records[nth], path);
        let number = self.first + records[nth];
        let read = self.files.read_file(number, path, &mut files[nth], MAX_FILE_BYTES, u64::MAX);
        read.map(|_| ()).map_err(|error| error.at_path(&*path))
    }

    fn read(&self, _: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        visit(0, Value::Bytes(&scratch.of::<Worker>().files[nth]))
    }

    fn place(&self, record: u64) -> Location {
        let path = || (record < self.len()).then(|| self.path(record));
        let own = || Location { path: path(), record: Some(record), ..Location::default() };
        self.listed_by.place(record).unwrap_or_else(own)
    }

    fn source_file(&self, record: u64) -> Option<PathBuf> {
        self.listed_by.table()?.source_file(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        if let Some(table) = self.listed_by.table() {
            table.name(record, name);
        } else if record < self.len() {
            name.extend_from_slice(self.paths.relative(record as usize).as_os_str().as_encoded_bytes());
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.len()), names: self.paths.hash(), sizes: 0 }
    }
}
