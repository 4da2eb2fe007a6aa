//! Which records are read to find all bad ones.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, Location, Result};
use crate::read::container::{Container, find_all};
use crate::read::value::Value;
use crate::read::{Fingerprint, RecordReader, Sample, Scratch};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::opened::Opened;
use super::streamed::Streamed;

/// Number of samples that a worker takes at a time, if they are small: enough to make taking them cheap.
const SMALL: usize = 256;

/// The same for images and sequences: few enough to keep all workers busy to the end.
const LARGE: usize = 8;

/// Which records are read to find all bad ones, part by part.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Checks {
    /// The parts.
    pub parts: Vec<Check>,
    /// Errors that are known already and have no record number.
    pub refused: Vec<Error>,
}

/// A part of [`Checks`].
#[non_exhaustive]
pub struct Check {
    pub(crate) records: Checked,
    /// Records that are known to be bad, by number.
    pub known: BTreeMap<u64, Error>,
    pub(crate) batch_size: usize,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("known", &self.known).finish_non_exhaustive()
    }
}

pub(crate) enum Checked {
    Reader(Arc<dyn RecordReader>),
    Stream(Streamed),
}

/// How many samples a worker should take at a time.
pub(crate) fn batch_size(has_small_samples: bool) -> usize {
    if has_small_samples { SMALL } else { LARGE }
}

impl Check {
    /// All samples of a reader.
    pub fn reader(reader: impl RecordReader + 'static, has_small_samples: bool) -> Self {
        let records = Checked::Reader(Arc::new(reader));
        Self { records, known: BTreeMap::new(), batch_size: batch_size(has_small_samples) }
    }

    /// All records of a stream.
    pub fn stream(streamed: Streamed) -> Self {
        Self { records: Checked::Stream(streamed), known: BTreeMap::new(), batch_size: SMALL }
    }
}

impl From<Check> for Checks {
    fn from(check: Check) -> Self {
        Self { parts: vec![check], refused: Vec::new() }
    }
}

impl Checks {
    /// All fields of all records of what [`Format::open`](super::Format::open) gave.
    ///
    /// # Errors
    ///
    /// Those of finding the fields.
    pub fn of_opened(opened: Opened, has_small_samples: bool) -> Result<Self> {
        let check = |reader| Check {
            records: Checked::Reader(reader),
            known: BTreeMap::new(),
            batch_size: batch_size(has_small_samples),
        };
        let parts = match opened {
            Opened::Reader(reader) => vec![check(reader)],
            Opened::Readers(readers) => readers.into_iter().map(check).collect(),
            Opened::Container(container) => vec![check(Arc::new(Whole::new(container)?))],
        };
        Ok(Self { parts, refused: Vec::new() })
    }
}

/// Reads all fields of each record, and keeps none of them.
struct Whole {
    container: Box<dyn Container>,
    tensors: [TensorSpec; 1],
}

impl Whole {
    fn new(mut container: Box<dyn Container>) -> Result<Self> {
        find_all(&mut *container)?;
        Ok(Self { container, tensors: [TensorSpec::new("read", Role::Feature, DType::U8, &[])] })
    }
}

fn read_all(value: Value<'_>) -> Result<()> {
    if let Value::List(list) = value { list.each(&mut read_all) } else { Ok(()) }
}

impl RecordReader for Whole {
    fn len(&self) -> u64 {
        self.container.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.container.fetch(samples, nth, scratch).map_err(|error| error.at(self.place(samples[nth])))
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        row.zero();
        let read = self.container.read(sample.id, nth, scratch, &mut |_, value| read_all(value));
        read.map_err(|error| error.at(self.place(sample.id)))
    }

    fn place(&self, sample: u64) -> Location {
        self.container.place(sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.container.fingerprint()
    }
}
