//! Records of one size and element type, one after another in a file: what IDX, NPY and raw files share.

mod entry;
mod fetched;
mod fortran;
pub(super) mod old;
mod origin;
mod stored;
mod summary;

use std::ops::Range;
use std::path::Path;

use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::row::{RowMut, RowsMut, TensorMut};
use crate::schema::{MAX_RANK, Role, TensorSpec};

use crate::storage::{Input, Needs};

use super::copied::copy_rows;
use super::{Fingerprint, Job, Sample, Scratch, check_record};

pub(super) use entry::{open_only, plain, wanted};
pub(crate) use fetched::Fetched;
pub(crate) use fortran::{in_c_order, in_row};
pub(crate) use origin::Origin;
use stored::too_large;
pub use stored::{Endian, StoredType};
pub(crate) use stored::{FileNumber, Stored};
pub use summary::ArraySummary;

/// An open file of such records.
#[derive(Debug)]
pub(crate) struct FixedRecords {
    input: Input,
    /// First byte of the first record.
    start: u64,
    count: u64,
    record_bytes: usize,
    stored: Stored,
    tensors: [TensorSpec; 1],
    origin: Origin,
    /// The name of the array, in a file of several.
    column: Option<String>,
}

/// The description of an array file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArrayHeader {
    pub(crate) stored: Stored,
    pub(crate) records: u64,
    /// Shape of a record.
    pub(crate) shape: Vec<usize>,
    /// First byte of the first record.
    pub(crate) start: u64,
    /// Whether the first dimension changes fastest, so that a record's elements do not lie together.
    pub(crate) is_fortran: bool,
    pub(crate) origin: Origin,
}

impl ArrayHeader {
    /// The header for a file without one: as many records after `start` as fit in `file_bytes`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`].
    pub(crate) fn of_raw(stored: Stored, shape: Vec<usize>, start: u64, file_bytes: u64) -> Result<Self> {
        let format = |message: String| Error::new(ErrorKind::Format, message);
        let mut header = Self { stored, records: 0, shape, start, is_fortran: false, origin: Origin::File };
        let (record_bytes, _) = header.sizes()?;
        let Some(data_bytes) = file_bytes.checked_sub(start) else {
            return Err(format(format!("header_bytes are {start}, the file has {file_bytes}")).at_byte(file_bytes));
        };
        let (records, rest) = (data_bytes / record_bytes as u64, data_bytes % record_bytes as u64);
        if rest > 0 {
            let message = format!(
                "{data_bytes} bytes are not whole records of {record_bytes} bytes (remainder {rest}); correct stored, \
                 shape and header_bytes, or replace the file if it is truncated"
            );
            return Err(format(message).at_byte(file_bytes - rest));
        }
        header.records = records;
        Ok(header)
    }

    /// Bytes of a record and of the whole file, or what is wrong with the dimensions.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`].
    pub(crate) fn sizes(&self) -> Result<(usize, u64)> {
        let format = |message: String| Error::new(ErrorKind::Format, message);
        if self.shape.len() > MAX_RANK {
            let message = format!("records of {} dimensions; at most {MAX_RANK} are allowed", self.shape.len());
            return Err(format(message));
        }
        if let Some(index) = self.shape.iter().position(|dim| *dim == 0) {
            return Err(format(format!("dimension {} is 0, so records would be empty", index + 1)));
        }
        let record_bytes = self.shape.iter().try_fold(self.stored.kind.bytes(), |bytes, dim| bytes.checked_mul(*dim));
        let sizes = record_bytes.and_then(|record| {
            let file = (record as u64).checked_mul(self.records)?.checked_add(self.start)?;
            Some((record, file)).filter(|_| file < isize::MAX as u64 && record < isize::MAX as usize)
        });
        sizes.ok_or_else(|| {
            let Self { records, shape, .. } = self;
            format(format!("{records} records of shape {shape:?} have more bytes than a file can hold"))
        })
    }
}

/// What is requested of an array's tensor: by default its records without changes, under the name `features`.
pub(crate) struct Wanted<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) role: Role,
    /// By default the file's own type; for labels of one whole number each, `i64`.
    pub(crate) dtype: Option<DType>,
    pub(crate) shape: Option<&'a [usize]>,
    /// Whether they are indices of classes.
    pub(crate) of_class: bool,
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self { name: None, role: Role::Feature, dtype: None, shape: None, of_class: false }
    }
}

impl Wanted<'_> {
    /// The tensor of a record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] for a type that can't hold the file's.
    pub(crate) fn tensor(&self, stored: StoredType, shape: &[usize]) -> Result<TensorSpec> {
        let name = self.name.unwrap_or("features").to_owned();
        let refused = |message: String| Err(Error::new(ErrorKind::Schema, message).at_column(&name));
        if let Some(asked) = self.shape.filter(|asked| *asked != shape) {
            return refused(format!("the file's records have the shape {shape:?}, not {asked:?}"));
        }
        if self.of_class && !(shape.is_empty() && matches!(stored.dtype(), DType::U8 | DType::U16 | DType::U32)) {
            let message = "a class is its index where the file holds one u8, u16 or u32 for each; it holds";
            return refused(format!("{message} {stored} of shape {shape:?}"));
        }
        let index_label = self.role == Role::Label && shape.is_empty() && !stored.dtype().is_float();
        let dtype = self.dtype.unwrap_or(if index_label { DType::I64 } else { stored.dtype() });
        if !stored.fits(dtype) {
            return refused(format!("the file holds {stored}, which does not fit {dtype}"));
        }
        Ok(TensorSpec::new(name, self.role, dtype, shape))
    }
}

/// Records longer than this are read straight into their rows.
const LATE_BYTES: usize = 4 << 10;

impl FixedRecords {
    /// The records of `input`, whose length has been compared with the header.
    pub(crate) fn new(input: Input, header: &ArrayHeader, wanted: &Wanted<'_>) -> Result<Self> {
        let (record_bytes, _) = header.sizes()?;
        let tensors = [wanted.tensor(header.stored.kind, &header.shape)?];
        let ArrayHeader { start, records: count, stored, ref origin, .. } = *header;
        Ok(Self { input, start, count, record_bytes, stored, tensors, origin: origin.clone(), column: None })
    }

    /// The records of the array with this name, in a file of several.
    pub(crate) fn of_array(self, name: &str) -> Self {
        Self { column: Some(name.to_owned()), ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        self.input.path()
    }

    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    pub(crate) fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    pub(crate) fn stored_type(&self) -> StoredType {
        self.stored.kind
    }

    fn offset(&self, sample: u64) -> u64 {
        self.start.saturating_add(sample.saturating_mul(self.record_bytes as u64))
    }

    fn bytes_of(&self, sample: u64) -> Range<u64> {
        let start = self.offset(sample);
        start..start.saturating_add(self.record_bytes as u64)
    }

    /// The byte of the file that is the byte at `offset` of what is read.
    fn in_file(&self, offset: u64) -> Option<u64> {
        self.origin.in_file(offset, self.stored.kind.bytes(), self.record_bytes, self.count)
    }

    /// Adds the byte in the file, if it has one there, and the array to an error in a record. A sample may consist of
    /// records of several arrays, so that the place of the sample alone does not say where this one is.
    #[cold]
    fn located(&self, error: Error, sample: u64) -> Error {
        let error = error.at_byte(self.offset(sample)).with_byte(|byte| self.in_file(byte));
        match &self.column {
            Some(column) => error.at_column(column),
            None => error,
        }
    }

    pub(crate) fn need(&self, samples: &[u64], needs: &mut Needs) {
        samples.iter().for_each(|sample| self.input.need(self.bytes_of(*sample), needs));
    }

    /// Reads the records of a job; longer ones only later, straight into their rows. Records in memory are not read.
    pub(crate) fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        if self.input.slice().is_some() && job.samples().iter().all(|sample| *sample < self.count) {
            return;
        }
        if !self.reads_late() {
            while let Some(nth) = job.advance() {
                job.report(self.fetch(job.samples(), nth, scratch));
            }
            return;
        }
        scratch.of::<Fetched>().read_late();
        while let Some(nth) = job.advance() {
            let known = check_record(job.samples()[nth], self.count);
            job.report(known.map_err(|error| error.at_path(self.path())));
        }
    }

    pub(crate) fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        if self.copy_all(job, rows) {
            return;
        }
        let begin = job.lap();
        let fetched = scratch.of::<Fetched>();
        let held = self.input.slice();
        if let Some(held) = held {
            fetched.hold(held, self.record_bytes, job.samples(), |sample| self.bytes_of(sample));
        }
        while let Some(nth) = job.advance() {
            job.report(self.write(fetched, job.samples()[nth], nth, &mut rows.row(nth).tensor(0)));
        }
        if fetched.is_late() {
            job.read_since(begin);
        }
        job.came_straight(fetched.is_late() || held.is_some());
    }

    /// Copies the records of a job from memory, if nothing else has to be done with them.
    fn copy_all(&self, job: &mut Job<'_>, rows: &mut RowsMut<'_>) -> bool {
        let Some(held) = self.input.slice().filter(|_| !rows.is_empty()) else { return false };
        self.stored.is_plain(&rows.row(0).tensor(0))
            && copy_rows(job, rows, held, self.record_bytes, |sample| self.bytes_of(sample))
    }

    /// Whether a record is read when its row is written, which saves a copy. Smaller records are gathered, many with
    /// one call.
    fn reads_late(&self) -> bool {
        self.record_bytes > LATE_BYTES && self.input.is_read()
    }

    pub(crate) fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(samples[nth], self.count).map_err(|error| error.at_path(self.path()))?;
        scratch.of::<Fetched>().fetch(&self.input, self.record_bytes, samples, nth, |sample| self.bytes_of(sample))
    }

    /// Like [`fetch`](Self::fetch), for callers that keep the records of several files.
    pub(crate) fn fetch_into(&self, fetched: &mut Fetched, samples: &[u64], nth: usize) -> Result<()> {
        check_record(samples[nth], self.count).map_err(|error| error.at_path(self.path()))?;
        fetched.fetch(&self.input, self.record_bytes, samples, nth, |sample| self.bytes_of(sample))
    }

    /// The numbers of a record that was [fetched](Self::fetch_into); they are copied to `room` if they can't be used in
    /// place.
    pub(crate) fn numbers<'a>(
        &self,
        fetched: &mut Fetched,
        sample: u64,
        nth: usize,
        room: &'a mut Vec<u64>,
    ) -> NumberSlice<'a> {
        let bytes = fetched.bytes(&self.input, self.record_bytes, sample, nth, |sample| self.bytes_of(sample));
        self.stored.numbers(bytes, room)
    }

    /// The error for numbers of a record that a tensor does not hold: it names the first one that i64 does not hold,
    /// with its byte.
    #[cold]
    pub(crate) fn explained(&self, error: Error, numbers: NumberSlice<'_>, sample: u64) -> Error {
        let NumberSlice::U64(values) = numbers else { return error };
        match values.iter().position(|value| i64::try_from(*value).is_err()) {
            Some(nth) => self.located(too_large(values[nth], self.offset(sample), nth), sample),
            None => error,
        }
    }

    /// Writes the record's values to the row's only tensor.
    pub(crate) fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.write(scratch.of::<Fetched>(), sample.id, nth, &mut row.tensor(0))
    }

    #[inline]
    fn write(&self, fetched: &mut Fetched, sample: u64, nth: usize, tensor: &mut TensorMut<'_>) -> Result<()> {
        self.write_stored(fetched, sample, nth, tensor).map_err(|error| self.located(error, sample))
    }

    #[inline]
    fn write_stored(&self, fetched: &mut Fetched, sample: u64, nth: usize, tensor: &mut TensorMut<'_>) -> Result<()> {
        if fetched.is_late() {
            if self.stored.is_plain(tensor) {
                return self.input.read_at(self.offset(sample), tensor.bytes_mut());
            }
            let bytes = fetched.read_one(&self.input, self.bytes_of(sample))?;
            return self.stored.write(bytes, self.offset(sample), tensor);
        }
        let bytes = fetched.bytes(&self.input, self.record_bytes, sample, nth, |sample| self.bytes_of(sample));
        self.stored.write(bytes, self.offset(sample), tensor)
    }

    pub(crate) fn place(&self, sample: u64) -> Location {
        Location {
            path: Some(self.path().to_owned()),
            record: Some(sample),
            byte: self.in_file(self.offset(sample)),
            ..Location::default()
        }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.count), names: 0, sizes: self.input.len() }
    }
}

/// Makes a type a [`RecordReader`](crate::read::RecordReader) whose records are in its field `records`.
macro_rules! read_fixed_records {
    ($($reader:ty),*) => {$(
        impl crate::read::RecordReader for $reader {
            fn len(&self) -> u64 {
                self.records.len()
            }

            fn tensors(&self) -> &[crate::schema::TensorSpec] {
                self.records.tensors()
            }

            fn need(&self, samples: &[u64], needs: &mut crate::storage::Needs) {
                self.records.need(samples, needs);
            }

            fn fetch_all(&self, job: &mut crate::read::Job<'_>, scratch: &mut crate::read::Scratch) {
                self.records.fetch_all(job, scratch);
            }

            fn decode_all(
                &self,
                job: &mut crate::read::Job<'_>,
                scratch: &mut crate::read::Scratch,
                rows: &mut crate::row::RowsMut<'_>,
            ) {
                self.records.decode_all(job, scratch, rows);
            }

            fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut crate::read::Scratch) -> crate::error::Result<()> {
                self.records.fetch(samples, nth, scratch)
            }

            fn decode(
                &self,
                sample: crate::read::Sample,
                nth: usize,
                scratch: &mut crate::read::Scratch,
                row: &mut crate::row::RowMut<'_>,
            ) -> crate::error::Result<()> {
                self.records.decode(sample, nth, scratch, row)
            }

            fn is_random(&self) -> bool {
                false
            }

            fn place(&self, sample: u64) -> crate::error::Location {
                self.records.place(sample)
            }

            fn fingerprint(&self) -> crate::read::Fingerprint {
                self.records.fingerprint()
            }
        }
    )*};
}
pub(crate) use read_fixed_records;
