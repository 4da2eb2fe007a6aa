use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Location, Result};
use crate::layout::Layout;
use crate::positions::sample_key;
use crate::random::RandomKey;
use crate::read::{Fingerprint, Job, Record, Sample, Scratch};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, Schema};
use crate::stats::Planning;
use crate::storage::{Needs, ReadLimit, Requested};
use crate::transform::BatchMut;

use super::policy::BadRecords;
use super::row_limit::RowLimit;
use super::state::State;

/// A source of batches for [`AsyncDataSetIterator`](crate::AsyncDataSetIterator) and
/// [`AsyncShieldDataSetIterator`](crate::AsyncShieldDataSetIterator).
pub trait Source {
    /// Splits into the sequential and the shared half.
    ///
    /// # Errors
    ///
    /// Errors of the configuration or of the readers.
    fn open(self: Box<Self>) -> Result<OpenedSource>;

    /// Whether batches may be made ahead, on other threads; `false` for a shielded source.
    fn async_supported(&self) -> bool {
        true
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn open(self: Box<Self>) -> Result<OpenedSource> {
        (*self).open()
    }

    fn async_supported(&self) -> bool {
        (**self).async_supported()
    }
}

/// The result of opening a source: its two halves, and what is known of it.
pub struct OpenedSource {
    /// The sequential half.
    pub planner: Box<dyn Planner>,
    /// The shared half.
    pub filler: Arc<dyn Filler>,
    /// What to do with bad records.
    pub bad_records: BadRecords,
    /// Number of samples per epoch and shard, if it is known before reading them.
    pub samples: Option<u64>,
    /// Number of batches per epoch and shard, if it is known before reading them.
    pub batches: Option<u64>,
    /// Whether there is a second epoch.
    pub repeatable: bool,
    /// Seed of order and randomness.
    pub seed: u64,
    /// Identifies the source, so that a changed one is noticed.
    pub fingerprint: Fingerprint,
    /// Whether the next epoch may begin before the caller asks for it, because its order is known and beginning has no
    /// visible effect.
    pub runs_on: bool,
}

impl fmt::Debug for OpenedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedSource")
            .field("schema", &self.filler.schema())
            .field("samples", &self.samples)
            .field("batches", &self.batches)
            .field("seed", &self.seed)
            .field("bad_records", &self.bad_records)
            .finish_non_exhaustive()
    }
}

/// What a planner knows of the positions that states have.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    /// The last one, if it is known: the end of an epoch.
    pub end: Option<u64>,
    /// Each is a multiple of this number, which is 1 at least.
    pub step: u64,
    /// Number of shards that take batches of the same order.
    pub shards: u32,
}

impl Default for Positions {
    fn default() -> Self {
        Self { end: None, step: 1, shards: 1 }
    }
}

impl Positions {
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a state at another position.
    pub(crate) fn check(self, state: &State) -> Result<()> {
        let (position, step) = (state.position, self.step.max(1));
        if let Some(end) = self.end.filter(|end| position > *end) {
            return Err(state.is_beyond(end));
        }
        if position.is_multiple_of(step) {
            return Ok(());
        }
        let message = format!(
            "the state's position {position} is within a batch; a state of these buckets has a multiple of {step}"
        );
        Err(Error::new(ErrorKind::Config, message))
    }
}

/// The sequential half of a source, used by one thread at a time. Only this half has sequential state, user iterators
/// and streamed reading.
pub trait Planner: Send {
    /// The next batch of the epoch, written into a recycled plan: positions, sample ids, and records if streamed.
    /// `false` ends the epoch.
    ///
    /// # Errors
    ///
    /// An error that makes it impossible to continue; it arrives in the batch's place and ends the epoch. Report a
    /// single bad record with [`BatchPlan::fault`] instead.
    fn plan(&mut self, into: &mut BatchPlan) -> Result<bool>;

    /// Begins `epoch`, at its first batch.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the source serves a single epoch.
    fn begin_epoch(&mut self, epoch: u64) -> Result<()>;

    /// Resumes at the position in `state`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the source can't resume.
    fn seek(&mut self, state: &State) -> Result<()>;

    /// Sets the time limit for everything that the planner reads. Called before anything is planned. By default the
    /// planner reads nothing.
    fn limit_reads(&mut self, limit: &ReadLimit) {
        let _ = limit;
    }

    /// What is known of the positions of an epoch, so that a state that can't be one of this planner is refused at once.
    /// By default nothing.
    fn positions(&self) -> Positions {
        Positions::default()
    }

    /// The main work of the planner, under which statistics count its time. By default, choosing samples.
    fn planning(&self) -> Planning {
        Planning::Order
    }
}

/// The shared half of a source: any worker can call it, for any row, in any order.
pub trait Filler: Send + Sync {
    /// The tensors of a sample.
    fn schema(&self) -> &Arc<Schema>;

    /// Whether rows have lengths that must be measured before a batch can be laid out. By default, whether the schema
    /// has any. (Tensors whose lengths vary may also be used up before delivery.)
    fn is_measured(&self) -> bool {
        self.schema().is_variable()
    }

    /// Bytes per row that are outside of the slot while it is filled, and take space in the processor's cache, too. By
    /// default none.
    fn bytes_aside(&self) -> usize {
        0
    }

    /// Names the bytes that filling the batch will read, if they can be requested ahead. By default none.
    fn need(&self, plan: &BatchPlan, needs: &mut Needs) {
        let _ = (plan, needs);
    }

    /// The varying lengths of row `row`. Called only if rows are [measured](Self::is_measured).
    ///
    /// # Errors
    ///
    /// A bad record, with its place.
    fn measure(&self, plan: &BatchPlan, row: usize, scratch: &mut Scratch) -> Result<Extents>;

    /// Reads the bytes of row `rows[nth]` into `scratch`. Does I/O only.
    ///
    /// # Errors
    ///
    /// A record that can't be read, with its place.
    fn fetch(&self, plan: &BatchPlan, rows: Range<usize>, nth: usize, scratch: &mut Scratch) -> Result<()>;

    /// Decodes the bytes that `fetch` read as the job's `nth` row into `out`, and writes every byte of it. Does no I/O.
    ///
    /// # Errors
    ///
    /// A bad record, with its place.
    fn decode(
        &self,
        plan: &BatchPlan,
        row: usize,
        nth: usize,
        scratch: &mut Scratch,
        out: &mut RowMut<'_>,
    ) -> Result<()>;

    /// Reads `rows`, which are all rows of a job, one after another with `fetch`. Workers call this.
    fn fetch_all(&self, plan: &BatchPlan, rows: Range<usize>, job: &mut Job<'_>, scratch: &mut Scratch) {
        while let Some(nth) = job.advance() {
            job.report(self.fetch(plan, rows.clone(), nth, scratch));
        }
    }

    /// Decodes `rows`, which are all rows of a job, into `out`, one after another with `decode`. Workers call this. A
    /// row that the job does not [pass](Job::advance) is a bad record.
    fn decode_all(
        &self,
        plan: &BatchPlan,
        rows: Range<usize>,
        job: &mut Job<'_>,
        scratch: &mut Scratch,
        out: &mut RowsMut<'_>,
    ) {
        while let Some(nth) = job.advance() {
            job.report(self.decode(plan, rows.start + nth, nth, scratch, &mut out.row(nth)));
        }
    }

    /// Whether a list of transforms is already applied to its samples; a second list is not possible. By default
    /// `false`.
    fn is_transformed(&self) -> bool {
        false
    }

    /// Checks that its samples can become as long as `pad` makes them. By default they can.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if not.
    fn check_padding(&self, pad: &dyn Fn(Extents) -> Result<Extents>) -> Result<()> {
        let _ = pad;
        Ok(())
    }

    /// Whether [`finish`](Self::finish) does anything. By default `false`.
    fn finishes(&self) -> bool {
        false
    }

    /// Works on a whole batch after its bad rows were removed or replaced. Called once for each batch that is not
    /// empty, if this [`finishes`](Self::finishes) batches.
    ///
    /// # Errors
    ///
    /// An error that makes it impossible to deliver the batch. It arrives in the batch's place and ends the epoch.
    fn finish(&self, batch: &mut BatchMut<'_>, scratch: &mut Scratch) -> Result<()> {
        let _ = (batch, scratch);
        Ok(())
    }

    /// Any sample that a plan may contain, chosen by random bits, to replace a bad one. `None` if samples can only be
    /// read in order.
    fn any_sample(&self, bits: u64) -> Option<u64> {
        let _ = bits;
        None
    }

    /// A sample to replace that of row `row`, which is bad, chosen by random bits. It should suit the batch, unless
    /// earlier ones were bad, too (`is_urgent`). By default [any sample](Self::any_sample).
    fn replacement(&self, plan: &BatchPlan, row: usize, bits: u64, is_urgent: bool) -> Option<u64> {
        let _ = (plan, row, is_urgent);
        self.any_sample(bits)
    }

    /// The place of row `row` in the data.
    fn place(&self, plan: &BatchPlan, row: usize) -> Location;
}

/// The plan of a batch. Plans are recycled: planning allocates nothing once the vectors have their size.
#[derive(Debug, Default)]
pub struct BatchPlan {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The batch's number in the epoch, from 0.
    pub index: u64,
    /// Key of everything random in the epoch.
    pub(crate) key: Option<RandomKey>,
    /// For each row, its position in the epoch's order. Rows that pad the last batch have positions beyond the last.
    pub positions: Vec<u64>,
    /// For each row, the index of its record in the source.
    pub samples: Vec<u64>,
    /// For each row, the draw of its sample, if samples occur several times in an epoch: any number that differs
    /// between two draws of one sample. Empty if each sample occurs once.
    pub draws: Vec<u64>,
    /// For each row of a streamed source, its record. Records beyond the number of rows are spare.
    pub records: Vec<Record>,
    /// Number of rows at the end that are only padding: of the last batch, or of a shard that has too few samples.
    pub padding: usize,
    /// Global position after this batch on all shards, at which the epoch continues.
    pub end: u64,
    pub(crate) faults: Vec<(usize, Error)>,
    /// Bytes that were requested ahead, held until the batch is filled.
    pub(crate) requested: Option<Requested>,
    /// The longest extents of its rows, once they are measured. A batch that is filled again gets the same layout, even
    /// if rows turned out to be bad meanwhile.
    pub(crate) measured: Option<Extents>,
    /// The extents of each row, if tensors are ragged.
    pub(crate) lengths: Vec<Extents>,
    /// `None` if there is no limit.
    pub(crate) most_rows: Option<RowLimit>,
}

/// Takes the error of interrupted user code, which is not a fault of a row.
pub(crate) fn take_interruption(faults: &mut Vec<(usize, Error)>) -> Option<Error> {
    faults.extract_if(.., |(_, error)| error.kind() == ErrorKind::Interrupted).map(|(_, error)| error).next()
}

impl BatchPlan {
    /// Takes the error that interrupted measuring, which then begins again.
    pub(crate) fn take_interruption(&mut self) -> Option<Error> {
        let error = take_interruption(&mut self.faults)?;
        self.measured = None;
        Some(error)
    }

    /// Number of rows planned.
    pub fn rows(&self) -> usize {
        self.samples.len()
    }

    /// Empties the plan, keeping its memory.
    pub fn clear(&mut self) {
        self.positions.clear();
        self.samples.clear();
        self.draws.clear();
        self.faults.clear();
        self.requested = None;
        self.padding = 0;
        self.measured = None;
        self.lengths.clear();
        self.release_records();
    }

    /// Makes room for `rows` rows in total. A planner calls this before it plans the requested number of rows, so that
    /// the number is checked before it takes memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`] if a batch of so many rows can't fit the workspace's memory budget, [`ErrorKind::Limit`]
    /// if it can't fit this machine's memory.
    pub fn reserve(&mut self, rows: usize) -> Result<()> {
        if let Some(most) = self.most_rows {
            most.check(rows)?;
        }
        let reserved = [&mut self.positions, &mut self.samples, &mut self.draws]
            .into_iter()
            .try_for_each(|column| column.try_reserve(rows.saturating_sub(column.len())));
        reserved.map_err(|error| {
            let message = format!("no memory to plan a batch of {rows} samples; lower the batch size");
            Error::new(ErrorKind::Limit, message).with_source(error)
        })
    }

    /// Releases the records' bytes, because the batch will not be filled again.
    pub(crate) fn release_records(&mut self) {
        for record in &mut self.records {
            record.parts.clear();
        }
    }

    /// Reports row `row` as a bad record before it is decoded.
    pub fn fault(&mut self, row: usize, error: Error) {
        self.faults.push((row, error));
    }

    /// A plan of row `row` only, without its record.
    pub(crate) fn one_row(&self, row: usize) -> Self {
        Self {
            epoch: self.epoch,
            index: self.index,
            key: self.key,
            positions: vec![self.positions[row]],
            samples: vec![self.samples[row]],
            draws: self.draws.get(row).copied().into_iter().collect(),
            ..Self::default()
        }
    }

    /// Computes the layout of the batch, whose rows were measured.
    ///
    /// # Errors
    ///
    /// As [`Layout::compute`].
    pub(crate) fn lay_out(&self, layout: &mut Layout, schema: &Schema, extents: Extents) -> Result<()> {
        layout.compute_each(schema, self.rows(), extents, &self.lengths)
    }

    /// Checks that the plan can be filled. Planners may be the user's own, and later steps rely on this.
    pub(crate) fn check(&self) -> Result<()> {
        let rows = self.rows();
        let problem = if rows == 0 {
            "no samples"
        } else if self.positions.len() != rows {
            "not one position for each sample"
        } else if !(self.draws.is_empty() || self.draws.len() == rows) {
            "not one draw for each sample"
        } else if self.padding > rows {
            "more padding than samples"
        } else if self.faults.iter().any(|(row, _)| *row >= rows) {
            "a bad record in a row that it does not have"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, format!("the planner planned batch {} with {problem}", self.index)))
    }

    /// Key of all random numbers in the epoch, from the source's seed and [`epoch`](Self::epoch). It is set for every
    /// plan, also for those of your own planner.
    pub fn key(&self) -> RandomKey {
        self.key.unwrap_or(RandomKey::new(0))
    }

    /// The sample of row `row`, with the key of its random numbers: `key().with(id)`, and another key for each further
    /// [draw](Self::draws).
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn sample(&self, row: usize) -> Sample {
        let id = self.samples[row];
        Sample { id, key: sample_key(self.key(), id, self.draws.get(row).copied().unwrap_or(0)) }
    }

    /// The job of these rows.
    pub(crate) fn job(&self, rows: Range<usize>) -> Job<'_> {
        Job::new(&self.samples[rows.clone()], self.key()).drawn(self.draws.get(rows).unwrap_or(&[]))
    }
}

/// What to do with the last batch of an epoch if there are not enough samples to fill it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "it is delivered, left out or filled")]
pub enum LastBatch {
    /// It is delivered with fewer samples. The default.
    #[default]
    Keep,
    /// It is left out.
    Drop,
    /// It is padded with the first samples of the epoch's order; [`DataSet::padding`](crate::DataSet::padding) says how
    /// many.
    Pad,
}

/// Number of batches of `samples` samples.
pub(crate) fn batches(samples: u64, batch_size: usize, last_batch: LastBatch) -> u64 {
    match last_batch {
        LastBatch::Drop => samples / batch_size as u64,
        LastBatch::Keep | LastBatch::Pad => samples.div_ceil(batch_size as u64),
    }
}
