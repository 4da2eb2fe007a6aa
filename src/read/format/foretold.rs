use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::read::{Composed, RecordReader, Sample, Scratch};
use crate::row::RowMut;
use crate::schema::TensorSpec;

use super::opened::{Open, Opened};

/// What is known of a source before it is read.
#[non_exhaustive]
#[derive(Default)]
pub struct Foretold {
    /// Number of records.
    pub records: Option<u64>,
    /// Their tensors.
    pub tensors: Option<Vec<TensorSpec>>,
    /// Bytes that it holds in memory once it is open.
    pub held_bytes: Option<u64>,
    /// What is not known, and why.
    pub unknown: Option<String>,
    /// Number of files that are read as one; 0 if the path is a single file, or if the format takes several files
    /// itself.
    pub files: u64,
    /// Files beside them that are not read.
    pub passed_over: Vec<PathBuf>,
    /// Number of files in the folder that are not read, if the format takes the folder itself.
    pub ignored: u64,
    /// The reader that knows the records' names.
    pub reader: Option<Arc<dyn RecordReader>>,
}

impl fmt::Debug for Foretold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, tensors, held_bytes, unknown, .. } = self;
        let mut shown = f.debug_struct("Foretold");
        shown.field("records", records).field("tensors", tensors).field("held_bytes", held_bytes);
        shown.field("unknown", unknown).finish_non_exhaustive()
    }
}

impl Foretold {
    /// What an open source knows.
    pub(crate) fn of_opened(opened: Opened, at: &Open<'_>) -> Result<Self> {
        let readers = opened.readers(at)?;
        let names: Vec<String> = at.fields.iter().map(|(name, _)| name.clone()).collect();
        let tensors = Composed::new(readers.iter().map(|reader| reader.tensors()), &names, false)?.tensors;
        let records = readers.iter().map(RecordReader::len).min();
        Ok(Self {
            records,
            tensors: Some(tensors),
            held_bytes: Some(at.budget.used()),
            reader: readers.into_iter().next(),
            ..Self::default()
        })
    }

    /// What an open reader knows.
    pub(crate) fn of_reader(reader: Arc<dyn RecordReader>, held_bytes: u64) -> Self {
        Self {
            records: Some(reader.len()),
            tensors: Some(reader.tensors().to_vec()),
            held_bytes: Some(held_bytes),
            reader: Some(reader),
            ..Self::default()
        }
    }

    /// Records that are known by their numbers alone, and do not need to be opened.
    pub(crate) fn numbered(records: u64, tensors: Vec<TensorSpec>, held_bytes: u64) -> Self {
        let reader: Arc<dyn RecordReader> = Arc::new(Numbered { records, tensors: tensors.clone() });
        Self {
            records: Some(records),
            tensors: Some(tensors),
            held_bytes: Some(held_bytes),
            reader: Some(reader),
            ..Self::default()
        }
    }

    /// What is only known after reading.
    pub(crate) fn unknown(tensors: Option<Vec<TensorSpec>>, why: String) -> Self {
        Self { tensors, unknown: Some(why), ..Self::default() }
    }
}

/// Replaces a reader that does not need to be opened: its records are known by their numbers.
struct Numbered {
    records: u64,
    tensors: Vec<TensorSpec>,
}

impl RecordReader for Numbered {
    fn len(&self) -> u64 {
        self.records
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, _: &mut RowMut<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "is planned, not read"))
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}
