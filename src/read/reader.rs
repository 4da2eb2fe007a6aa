//! Records that can be read in any order.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, Role, TensorSpec};
use crate::storage::Needs;

use super::decoded_bytes::DecodedBytes;
use super::fingerprint::Fingerprint;
use super::job::Job;
use super::sample::Sample;
use super::scratch::Scratch;

/// Random access to records, and their decoding.
///
/// Called from several threads at once, in any order, each with its own [`Scratch`]. A batch is filled in jobs of a few
/// samples; a [`Job`] calls `fetch` for each of its samples, then `decode` for each that was fetched.
pub trait RecordReader: Send + Sync {
    /// Number of records.
    fn len(&self) -> u64;

    /// Whether there are no records.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensors that this reader contributes to a sample.
    fn tensors(&self) -> &[TensorSpec];

    /// Names the bytes that `samples` will be read from, if they can be requested before they are needed. By default
    /// none; the bytes are then read when they are needed. The planning thread calls this once for each batch, long
    /// before its samples are read.
    fn need(&self, samples: &[u64], needs: &mut Needs) {
        let _ = (samples, needs);
    }

    /// The lengths of record `sample` that vary from record to record. Called only if a tensor has such a dimension,
    /// from several threads. Take the lengths from an index or a header.
    ///
    /// # Errors
    ///
    /// Those of the format, with the location.
    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        let _ = (sample, scratch);
        Ok(Extents::default())
    }

    /// Reads the bytes of record `samples[nth]` into `scratch`. Does I/O only. Every job calls it first with `nth` 0,
    /// then for the others that are not known to be bad, in order; it may read ahead for the rest of `samples`. A
    /// reader whose records are in memory does nothing here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] and the format's limits, with the location.
    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let _ = (samples, nth, scratch);
        Ok(())
    }

    /// Decodes the record that `fetch` read as the job's `nth` into `row`, and writes every byte of it, padding
    /// included. Does no I/O.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] if the record holds what the schema does not allow, with path,
    /// record, line, column or byte.
    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()>;

    /// Reads all records of a job, one after another with `fetch`. Workers call this. A reader that wraps another one
    /// should call that one's method.
    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        while let Some(nth) = job.advance() {
            job.report(self.fetch(job.samples(), nth, scratch));
        }
    }

    /// Decodes all records of a job into their `rows`, one after another with `decode`. Workers call this. A reader
    /// that wraps another one should call that one's method. A record that the job does not [pass](Job::advance) is
    /// bad.
    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        while let Some(nth) = job.advance() {
            job.report(self.decode(job.sample(nth), nth, scratch, &mut rows.row(nth)));
        }
    }

    /// Whether the result of `decode` also depends on the sample's key. By default `true`: overlapping windows then
    /// decode a record again for each window. If a reader returns `false`, they decode it once per job.
    fn is_random(&self) -> bool {
        true
    }

    /// The first record of each chunk, which is read or decoded as a unit, ascending from 0: a shuffle in blocks keeps
    /// chunks together. It must depend only on the data, not on memory or settings. By default there are none, and runs
    /// of 1024 records are used as chunks.
    fn chunks(&self) -> Vec<u64> {
        Vec::new()
    }

    /// How much memory all decoded records take, if [chunks](Self::chunks) are expensive to decode and are kept as long
    /// as there is room: plans then warn of orders that draw from more than is kept. By default unknown.
    fn decoded_bytes(&self) -> Option<DecodedBytes> {
        None
    }

    /// The location of record `sample`, as in statistics and logs.
    fn place(&self, sample: u64) -> Location;

    /// The file that record `sample` comes from: if a table names other files, the table's. By default that of its
    /// [location](Self::place).
    fn source_file(&self, sample: u64) -> Option<PathBuf> {
        self.place(sample).path
    }

    /// Appends the name of record `sample` to `name`: a name that stays the same if other records are added or removed,
    /// such as the path of its file below the source's folder. By default its number. Splits and folds use it.
    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        name.extend_from_slice(&sample.to_le_bytes());
    }

    /// The class of record `sample`, if it is known without reading the record.
    fn label(&self, sample: u64) -> Option<u32> {
        let _ = sample;
        None
    }

    /// The index of the tensor that holds what [`label`](Self::label) gives. By default the only one with
    /// [`Role::Label`].
    fn label_tensor(&self) -> Option<usize> {
        let is_label = |spec: &TensorSpec| spec.role == Role::Label;
        let index = self.tensors().iter().position(is_label)?;
        (!self.tensors()[index + 1..].iter().any(is_label)).then_some(index)
    }

    /// Identifies this source, so that another or a changed one is noticed.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.len()), names: 0, sizes: 0 }
    }
}

impl<R: RecordReader + ?Sized> RecordReader for Arc<R> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        (**self).tensors()
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        (**self).need(samples, needs);
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        (**self).measure(sample, scratch)
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        (**self).fetch(samples, nth, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        (**self).decode(sample, nth, scratch, row)
    }

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        (**self).fetch_all(job, scratch);
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        (**self).decode_all(job, scratch, rows);
    }

    fn is_random(&self) -> bool {
        (**self).is_random()
    }

    fn chunks(&self) -> Vec<u64> {
        (**self).chunks()
    }

    fn decoded_bytes(&self) -> Option<DecodedBytes> {
        (**self).decoded_bytes()
    }

    fn place(&self, sample: u64) -> Location {
        (**self).place(sample)
    }

    fn source_file(&self, sample: u64) -> Option<PathBuf> {
        (**self).source_file(sample)
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        (**self).name(sample, name);
    }

    fn label(&self, sample: u64) -> Option<u32> {
        (**self).label(sample)
    }

    fn label_tensor(&self) -> Option<usize> {
        (**self).label_tensor()
    }

    fn fingerprint(&self) -> Fingerprint {
        (**self).fingerprint()
    }
}

/// # Errors
///
/// [`ErrorKind::NotFound`] for a record that a reader of `len` records does not have.
pub(in crate::read) fn check_record(sample: u64, len: u64) -> Result<()> {
    if sample < len {
        return Ok(());
    }
    let message = format!("there is no such record; there are {len}");
    Err(Error::new(ErrorKind::NotFound, message).at_record(sample))
}
