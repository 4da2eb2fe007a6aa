//! Records that can only be read one after another.

use bytes::Bytes;

use crate::error::{Location, Result};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, TensorSpec};

use super::fingerprint::Fingerprint;
use super::job::Job;
use super::sample::Sample;
use super::scratch::Scratch;

/// Records that can only be read one after another.
///
/// One thread reads; others decode the records with its [`RecordDecoder`].
pub trait RecordStream: Send {
    /// Reads the next record into `record`, reusing its memory; `false` at the end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`](crate::ErrorKind::Data) makes only this record bad: the next call reads the record after it.
    /// Any other kind ends the epoch.
    fn read(&mut self, record: &mut Record) -> Result<bool>;

    /// Begins again at the first record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the source can be read for a single epoch only.
    fn rewind(&mut self) -> Result<()>;

    /// Whether it can begin again. If not, it can be read for a single epoch only.
    fn repeatable(&self) -> bool {
        true
    }

    /// Number of records, if it is known without reading them.
    fn known_len(&self) -> Option<u64> {
        None
    }

    /// Identifies this source, so that another or a changed one is noticed.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: self.known_len(), names: 0, sizes: 0 }
    }
}

/// The decoding half of a [`RecordStream`]: called from several threads at once.
pub trait RecordDecoder: Send + Sync {
    /// The tensors of a sample.
    fn tensors(&self) -> &[TensorSpec];

    /// As [`RecordReader::measure`](super::RecordReader::measure).
    ///
    /// # Errors
    ///
    /// Those of the format, with the location.
    fn measure(&self, record: &Record, scratch: &mut Scratch) -> Result<Extents> {
        let _ = (record, scratch);
        Ok(Extents::default())
    }

    /// As [`RecordReader::decode`](super::RecordReader::decode).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`](crate::ErrorKind::Data), with the location.
    fn decode(&self, sample: Sample, record: &Record, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()>;

    /// As [`RecordReader::decode_all`](super::RecordReader::decode_all), for `records` in the order of the job.
    fn decode_all(&self, records: &[Record], job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        while let Some(nth) = job.advance() {
            job.report(self.decode(job.sample(nth), &records[nth], scratch, &mut rows.row(nth)));
        }
    }

    /// The location of `record`.
    fn place(&self, record: &Record) -> Location;
}

/// One raw record of a stream: its bytes and its location. Reused from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The bytes, in any number of parts (one for a row of text, one per tensor for a sample of finished tensors).
    pub parts: Vec<Bytes>,
    /// The lengths that vary from record to record, if the source knows them.
    pub extents: Extents,
    /// Index in the stream, from 0.
    pub index: u64,
    /// Line in the file, from 1; 0 if it has no lines.
    pub line: u64,
    /// Byte offset in the file.
    pub byte: u64,
}

impl<S: RecordStream + ?Sized> RecordStream for Box<S> {
    fn read(&mut self, record: &mut Record) -> Result<bool> {
        (**self).read(record)
    }

    fn rewind(&mut self) -> Result<()> {
        (**self).rewind()
    }

    fn repeatable(&self) -> bool {
        (**self).repeatable()
    }

    fn known_len(&self) -> Option<u64> {
        (**self).known_len()
    }

    fn fingerprint(&self) -> Fingerprint {
        (**self).fingerprint()
    }
}

impl<D: RecordDecoder + ?Sized> RecordDecoder for Box<D> {
    fn tensors(&self) -> &[TensorSpec] {
        (**self).tensors()
    }

    fn measure(&self, record: &Record, scratch: &mut Scratch) -> Result<Extents> {
        (**self).measure(record, scratch)
    }

    fn decode(&self, sample: Sample, record: &Record, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        (**self).decode(sample, record, scratch, row)
    }

    fn decode_all(&self, records: &[Record], job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        (**self).decode_all(records, job, scratch, rows);
    }

    fn place(&self, record: &Record) -> Location {
        (**self).place(record)
    }
}
