//! Record readers: the traits that a reader of your own implements, and readers that combine others. Each format is one
//! file or folder here, with a module of its own at the library's root.
//!
//! A [`RecordReader`] gives any record by its index; a [`RecordStream`] only the next one. Both decode a record into
//! the tensors of a sample by writing into a [`RowMut`], and do not know whose memory that is.

#[cfg(feature = "formats")]
pub(crate) mod arrays;
#[cfg(feature = "parquet")]
pub(crate) mod arrow;
#[cfg(feature = "formats")]
pub(crate) mod audio;
mod codec;
#[cfg(feature = "parquet")]
pub(crate) mod columns;
mod concat;
mod container;
mod copied;
pub(crate) mod csv;
mod date_unit;
mod dealt;
mod field_reader;
pub(crate) mod fields;
#[cfg(feature = "formats")]
pub(crate) mod fixed;
#[cfg(feature = "formats")]
mod folder;
mod foreign;
pub(crate) mod format;
#[cfg(feature = "formats")]
mod hashes;
#[cfg(feature = "formats")]
pub(crate) mod idx;
#[cfg(feature = "formats")]
pub(crate) mod ignored;
#[cfg(feature = "formats")]
pub(crate) mod images;
mod job;
mod json;
#[cfg(feature = "formats")]
pub(crate) mod jsonl;
#[cfg(feature = "formats")]
pub(crate) mod libsvm;
mod lines;
#[cfg(feature = "formats")]
mod listed;
#[cfg(feature = "formats")]
pub(crate) mod litdata;
mod many;
#[cfg(feature = "formats")]
pub(crate) mod mds;
mod memory;
mod names;
#[cfg(feature = "formats")]
mod ndarray;
#[cfg(feature = "formats")]
pub(crate) mod npy;
#[cfg(feature = "formats")]
pub(crate) mod npz;
mod one;
mod outside;
#[cfg(feature = "formats")]
mod packed;
pub(crate) mod parallel;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod paths;
#[cfg(feature = "formats")]
pub(crate) mod raw;
mod record_rows;
mod records;
mod rolling;
#[cfg(feature = "formats")]
pub(crate) mod safetensors;
mod samples;
pub(crate) mod saved;
#[cfg(feature = "formats")]
pub(crate) mod sequence;
mod shaped;
#[cfg(feature = "formats")]
pub(crate) mod sharded;
#[cfg(feature = "formats")]
mod shards;
mod splits;
mod staged;
pub(crate) mod summary;
#[cfg(feature = "formats")]
pub(crate) mod tar;
mod tensor_values;
#[cfg(feature = "formats")]
pub(crate) mod text_files;
#[cfg(feature = "formats")]
pub(crate) mod tfrecord;
#[cfg(feature = "formats")]
pub(crate) mod tokens;
mod windowed;
mod windows;

use std::any::{Any, TypeId};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::counters::{DamageTally, Damages};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::random::RandomKey;
pub use crate::row::{RowMut, RowsMut, TensorMut};
use crate::schema::{Extents, Role, TensorSpec};
use crate::storage::Needs;

pub use concat::Concat;
pub use container::{Container, FieldInfo, FieldKind, List, Meaning, Value, Visit, VisitColumn, find_field};
pub(crate) use csv::{ColumnRef, Csv, CsvOptions, Longer, Missing, csv_cells};
pub use date_unit::DateUnit;
pub(crate) use date_unit::in_second;
pub use field_reader::FieldReader;
pub(crate) use field_reader::GivenFields;
pub(crate) use fields::{connect_sources, field_faults, named_geometries};
#[cfg(feature = "formats")]
pub(crate) use fixed::ArraySummary;
pub(crate) use format::SourceConfig;
pub use format::{Check, Checks, Foretold, Format, FormatOptions, Formats, Open, Opened, Streamed};
#[cfg(feature = "formats")]
pub(crate) use idx::{Idx, IdxOptions};
#[cfg(feature = "formats")]
pub(crate) use ignored::IgnoredFiles;
#[cfg(feature = "formats")]
pub(crate) use images::{ClassCount, FolderOptions, FormatCount, Images, usual_fields};
pub use job::Job;
pub(crate) use job::{caught_each, decode_each};
#[cfg(feature = "formats")]
pub use jsonl::JsonLines;
#[cfg(feature = "formats")]
pub use libsvm::{LibsvmOptions, SparseLines};
pub use lines::{BlankLines, LineOptions, Lines, TextLines};
pub use memory::MemoryReader;
#[cfg(feature = "formats")]
pub(crate) use npy::{Npy, NpyOptions};
pub(crate) use one::{CsvMemory, JsonMemory, OneJson, StructMemory};
pub(crate) use outside::{Outside, OutsideCodec};
pub(crate) use paths::{Paths, is_at, is_below, is_pattern, places};
#[cfg(feature = "formats")]
pub(crate) use raw::{Raw, RawOptions};
pub(crate) use rolling::Rolling;
pub use samples::{Array, SampleStream};
pub(crate) use saved::SavedIndex;
#[cfg(feature = "formats")]
pub(crate) use sequence::{CsvSequences, SequenceOptions};
pub use shaped::Shaped;
pub(crate) use staged::Staged;
pub(crate) use summary::FieldSummary;
#[cfg(feature = "formats")]
pub(crate) use tar::{MemberCount, Tar, TarOptions};
#[cfg(feature = "formats")]
pub use tfrecord::{TfRecordOptions, TfRecords};
#[cfg(feature = "formats")]
pub(crate) use tokens::{TokenFiles, TokenOptions};
pub(crate) use windowed::Windowed;
pub(crate) use windows::NO_GAPS;
pub use windows::Windows;

/// The memory of decoded records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedBytes {
    /// Approximate bytes of all records.
    pub all: u64,
    /// Maximum number of bytes that are kept.
    pub kept: u64,
}

/// # Errors
///
/// [`ErrorKind::NotFound`] for a record that a reader of `len` records does not have.
fn check_record(sample: u64, len: u64) -> Result<()> {
    if sample < len {
        return Ok(());
    }
    let message = format!("there is no such record; there are {len}");
    Err(Error::new(ErrorKind::NotFound, message).at_record(sample))
}

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

/// Records that can only be read one after another.
///
/// One thread reads; others decode the records with its [`RecordDecoder`].
pub trait RecordStream: Send {
    /// Reads the next record into `record`, reusing its memory; `false` at the end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] makes only this record bad: the next call reads the record after it. Any other kind ends the
    /// epoch.
    fn read(&mut self, record: &mut Record) -> Result<bool>;

    /// Begins again at the first record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the source can be read for a single epoch only.
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

    /// As [`RecordReader::measure`].
    ///
    /// # Errors
    ///
    /// Those of the format, with the location.
    fn measure(&self, record: &Record, scratch: &mut Scratch) -> Result<Extents> {
        let _ = (record, scratch);
        Ok(Extents::default())
    }

    /// As [`RecordReader::decode`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`], with the location.
    fn decode(&self, sample: Sample, record: &Record, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()>;

    /// As [`RecordReader::decode_all`], for `records` in the order of the job.
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

/// The sample that is decoded, and the key of its random numbers: the same for any worker and order, and after a
/// restart.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Index of the record in its source.
    pub id: u64,
    /// Key of (seed, epoch, sample), and of the draw if an epoch draws a sample several times.
    pub key: RandomKey,
}

/// Identifies a source, so that another or a changed one is noticed, however it is read: the same file has the same
/// fingerprint for a reader and for a stream, in every build and on every system. In JSON, hashes are hexadecimal text,
/// because not every JSON reader keeps numbers of 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a fingerprint: count, names and sizes")]
pub struct Fingerprint {
    /// Number of records; unknown for a stream, which matches any number.
    pub count: Option<u64>,
    /// Hash of the records' or files' names.
    #[serde(with = "hex")]
    pub names: u64,
    /// Hash of their sizes.
    #[serde(with = "hex")]
    pub sizes: u64,
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{hash:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

impl Fingerprint {
    /// The fingerprint of samples that are made of records of both sources.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count.zip(other.count).map(|(count, other)| count.min(other)),
            names: RandomKey::new(self.names).with(other.names).bits(0),
            sizes: RandomKey::new(self.sizes).with(other.sizes).bits(0),
        }
    }

    /// Checks that `now` is the source with which a state was made.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] that says which of count, names and sizes changed.
    pub fn check(&self, now: &Self) -> Result<()> {
        let changed: Vec<String> = [
            self.count
                .zip(now.count)
                .filter(|(then, now)| then != now)
                .map(|(then, now)| format!("the count of records (from {then} to {now})")),
            (self.names != now.names).then(|| "names".to_owned()),
            (self.sizes != now.sizes).then(|| "sizes".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the source has changed since the state was made: {}; start again, or accept the state, if positions still \
             mean the same (`State::for_changed_source`, in Python `load_state_dict(state, changed_source=True)`)",
            changed.join(", ")
        );
        Err(Error::new(ErrorKind::Config, message))
    }
}

/// A worker's reusable buffers, of any type that a reader needs: created at first use, kept from job to job.
#[derive(Default)]
pub struct Scratch {
    buffers: Option<(TypeId, Box<dyn Any + Send>)>,
    /// The record's values, for each codec that needs all of them at once.
    staged: Vec<Staged>,
    /// Damaged images that were loaded since the last call of `take_damage`.
    damage: DamageTally,
    /// Number of spilled arrays of scopes since the last call of `take_spilled`.
    spilled: u64,
    /// Time worked since the processor time was last read.
    worked: Duration,
}

/// Working time of a thread between two readings of its processor time. The readings of a job cost less than 1 us.
const CPU_LOOK: Duration = Duration::from_micros(200);

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("is_used", &self.buffers.is_some()).finish_non_exhaustive()
    }
}

impl Scratch {
    /// The buffers of type `T`; created again if the last user kept another type here.
    pub fn of<T: Default + Send + 'static>(&mut self) -> &mut T {
        let own = TypeId::of::<T>();
        if self.buffers.as_ref().is_none_or(|(kind, _)| *kind != own) {
            self.buffers = Some((own, Box::<T>::default()));
        }
        self.buffers.as_mut().and_then(|(_, kept)| kept.downcast_mut()).expect("the type was checked or set above")
    }

    /// Takes out what is kept of a record. [Give it back](Self::keep_staged) when the record is read.
    fn take_staged(&mut self) -> Vec<Staged> {
        std::mem::take(&mut self.staged)
    }

    fn keep_staged(&mut self, staged: Vec<Staged>) {
        self.staged = staged;
    }

    /// Records the damage of a loaded image.
    pub(crate) fn note(&mut self, damages: Damages) {
        self.damage.add(damages);
    }

    /// Adds the damage recorded in another scratch.
    pub(crate) fn note_all(&mut self, tally: DamageTally) {
        self.damage.add_all(tally);
    }

    /// Counts arrays of scopes that had to spill.
    pub(crate) fn note_spilled(&mut self, arrays: u64) {
        self.spilled += arrays;
    }

    /// Number of arrays that were noted since the last call.
    pub(crate) fn take_spilled(&mut self) -> u64 {
        std::mem::take(&mut self.spilled)
    }

    /// Whether it is time to read the processor time again.
    pub(crate) fn is_cpu_due(&self) -> bool {
        self.worked >= CPU_LOOK
    }

    /// The same, if the caller then reads it; the next reading is then due only later.
    pub(crate) fn looks_at_cpu(&mut self) -> bool {
        let looks = self.is_cpu_due();
        if looks {
            self.worked = Duration::ZERO;
        }
        looks
    }

    /// Adds time that was worked.
    pub(crate) fn worked(&mut self, time: Duration) {
        self.worked += time;
    }

    /// Drops the damage recorded for a sample whose decoding panicked. Called before a sample is decoded alone.
    pub(crate) fn forget_damage(&mut self) {
        self.damage = DamageTally::default();
    }

    /// The damage that was noted since the last call.
    pub(crate) fn take_damage(&mut self) -> DamageTally {
        std::mem::take(&mut self.damage)
    }
}

impl<R: RecordReader + ?Sized> RecordReader for std::sync::Arc<R> {
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
