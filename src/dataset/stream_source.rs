use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::caught::caught;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::read::{Job, Record, RecordDecoder, RecordStream, SampleStream, Scratch};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, Schema};
use crate::stats::Planning;
use crate::storage::{Limited, OwnedRead, ReadLimit};

use super::contract::{BatchPlan, Filler, LastBatch, OpenedSource, Planner, Source};
use super::policy::{BadRecords, DEFAULT_BATCH_SIZE};
use super::state::State;

/// Batches from records that can only be read one after another: pipes, compressed text, an iterator of your own.
///
/// The planning thread reads ahead, and workers decode. A stream can't be shuffled, and seeking reads everything up to
/// the position again.
pub struct StreamSource {
    stream: Box<dyn RecordStream>,
    decoder: Arc<dyn RecordDecoder>,
    planning: Planning,
    batch_size: usize,
    seed: u64,
    last_batch: LastBatch,
    bad_records: BadRecords,
    repeatable: bool,
}

impl fmt::Debug for StreamSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSource")
            .field("batch_size", &self.batch_size)
            .field("seed", &self.seed)
            .field("repeatable", &self.repeatable)
            .finish_non_exhaustive()
    }
}

impl StreamSource {
    /// Batches of 32 from `stream`.
    pub fn new(stream: impl RecordStream + 'static, decoder: impl RecordDecoder + 'static) -> Self {
        Self {
            repeatable: stream.repeatable(),
            stream: Box::new(stream),
            decoder: Arc::new(decoder),
            planning: Planning::Stream,
            batch_size: DEFAULT_BATCH_SIZE,
            seed: 0,
            last_batch: LastBatch::default(),
            bad_records: BadRecords::default(),
        }
    }

    /// Batches of 32 from an iterator of your own.
    pub fn from_samples(stream: SampleStream) -> Self {
        let decoder = stream.decoder();
        Self { planning: Planning::Iterator, ..Self::new(stream, decoder) }
    }

    /// Number of samples per batch.
    #[must_use]
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.batch_size = samples;
        self
    }

    /// The seed of all random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What to do with an incomplete last batch; [`LastBatch::Pad`] needs random access and is an error.
    #[must_use]
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.last_batch = last_batch;
        self
    }

    /// What to do with bad records.
    #[must_use]
    pub fn bad_records(mut self, policy: BadRecords) -> Self {
        self.bad_records = policy;
        self
    }
}

impl Source for StreamSource {
    fn open(self: Box<Self>) -> Result<OpenedSource> {
        if self.batch_size == 0 {
            return Err(Error::new(ErrorKind::Config, "a batch has at least one sample; batch_size is 0"));
        }
        if self.last_batch == LastBatch::Pad {
            let message = "a stream can't go back to its first samples to pad the last batch; keep or drop it";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let tensors = self.decoder.tensors().to_vec();
        if matches!(self.bad_records, BadRecords::Replace { .. }) {
            let message = "a stream can't go back for a replacement; fail or skip bad records";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let samples = self.stream.known_len();
        Ok(OpenedSource {
            filler: Arc::new(StreamFiller { schema: Arc::new(Schema::new(tensors)?), decoder: self.decoder }),
            bad_records: self.bad_records,
            samples,
            batches: samples.map(|samples| match self.last_batch {
                LastBatch::Drop => samples / self.batch_size as u64,
                _ => samples.div_ceil(self.batch_size as u64),
            }),
            repeatable: self.repeatable,
            seed: self.seed,
            fingerprint: self.stream.fingerprint(),
            runs_on: false,
            planner: Box::new(StreamPlanner {
                stream: Some(self.stream),
                limited: None,
                planning: self.planning,
                epoch: 0,
                position: 0,
                batch: 0,
                batch_size: self.batch_size,
                last_batch: self.last_batch,
                ended: false,
                failed: None,
            }),
        })
    }
}

/// Reads the records of each batch into its plan.
struct StreamPlanner {
    /// `None` while it is read within a time limit, and permanently after a read has passed the limit.
    stream: Option<Box<dyn RecordStream>>,
    limited: Option<Limited<OneRecord>>,
    planning: Planning,
    epoch: u64,
    position: u64,
    batch: u64,
    batch_size: usize,
    last_batch: LastBatch,
    ended: bool,
    failed: Option<Error>,
}

/// One operation on a stream, on a thread that may be left behind.
struct OneRecord {
    stream: Box<dyn RecordStream>,
    /// `None` if the stream begins again.
    record: Option<Record>,
    found: bool,
}

impl OwnedRead for OneRecord {
    fn read(&mut self) -> Result<()> {
        let Self { stream, record, found } = self;
        caught(|| {
            *found = match record {
                Some(record) => stream.read(record)?,
                None => stream.rewind().map(|()| true)?,
            };
            Ok(())
        })
    }
}

/// Reads the next record of a stream, within the limit if there is one; without a record, begins the stream again.
fn read(
    stream: &mut Option<Box<dyn RecordStream>>,
    limited: Option<&Limited<OneRecord>>,
    record: Option<&mut Record>,
) -> Result<bool> {
    // A stream is lent only to a thread that is there.
    limited.map_or(Ok(()), Limited::prepare)?;
    let Some(mut own) = stream.take() else {
        let message = "a read of the stream exceeded its time limit, so the stream was left behind; open it again";
        return Err(Error::new(ErrorKind::TimedOut, message));
    };
    let Some(limited) = limited else {
        let found = caught(|| match record {
            Some(record) => own.read(record),
            None => own.rewind().map(|()| true),
        });
        *stream = Some(own);
        return found;
    };
    let mut record = record;
    let taken = record.as_deref_mut().map(std::mem::take);
    let (one, found) = limited.read(|| OneRecord { stream: own, record: taken, found: false })?;
    if let (Some(record), Some(read)) = (record, one.record) {
        *record = read;
    }
    *stream = Some(one.stream);
    found.map(|()| one.found)
}

impl Planner for StreamPlanner {
    fn limit_reads(&mut self, limit: &ReadLimit) {
        self.limited = Some(Limited::new(limit.clone()));
    }

    fn plan(&mut self, into: &mut BatchPlan) -> Result<bool> {
        into.clear();
        into.epoch = self.epoch;
        into.index = self.batch;
        while !self.ended && self.failed.is_none() && into.rows() < self.batch_size {
            let row = into.rows();
            if let Err(error) = into.reserve(row + 1) {
                self.failed = Some(error);
                break;
            }
            if into.records.len() == row {
                into.records.push(Record::default());
            }
            let record = &mut into.records[row];
            match read(&mut self.stream, self.limited.as_ref(), Some(record)) {
                Ok(false) => {
                    self.ended = true;
                    break;
                }
                Ok(true) => {}
                Err(error) if error.kind() == ErrorKind::Data => {
                    into.records[row].index = self.position;
                    into.fault(row, error.at_record(self.position));
                }
                Err(error) => {
                    // Records that were read before are good and are delivered; the error takes the next batch's place.
                    self.failed = Some(error);
                    break;
                }
            }
            into.positions.push(self.position);
            into.samples.push(self.position);
            self.position += 1;
        }
        let rows = into.rows();
        let dropped = rows == 0 || (self.last_batch == LastBatch::Drop && rows < self.batch_size);
        if let Some(error) = self.failed.take_if(|_| dropped) {
            self.ended = true;
            return Err(error);
        }
        if dropped {
            return Ok(false);
        }
        into.end = self.position;
        self.batch += 1;
        Ok(true)
    }

    fn begin_epoch(&mut self, epoch: u64) -> Result<()> {
        read(&mut self.stream, self.limited.as_ref(), None)?;
        self.epoch = epoch;
        self.position = 0;
        self.batch = 0;
        self.ended = false;
        self.failed = None;
        Ok(())
    }

    fn planning(&self) -> Planning {
        self.planning
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.begin_epoch(state.epoch)?;
        let mut passed = Record::default();
        while self.position < state.position {
            match read(&mut self.stream, self.limited.as_ref(), Some(&mut passed)) {
                Ok(true) => {}
                Err(error) if error.kind() == ErrorKind::Data => {}
                Ok(false) => return Err(state.is_beyond(self.position)),
                Err(error) => return Err(error),
            }
            self.position += 1;
        }
        self.batch = state.position / self.batch_size as u64;
        Ok(())
    }
}

struct StreamFiller {
    schema: Arc<Schema>,
    decoder: Arc<dyn RecordDecoder>,
}

impl Filler for StreamFiller {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn measure(&self, plan: &BatchPlan, row: usize, scratch: &mut Scratch) -> Result<Extents> {
        self.decoder.measure(&plan.records[row], scratch)
    }

    fn fetch(&self, _: &BatchPlan, _: Range<usize>, _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn decode(
        &self,
        plan: &BatchPlan,
        row: usize,
        _: usize,
        scratch: &mut Scratch,
        out: &mut RowMut<'_>,
    ) -> Result<()> {
        self.decoder.decode(plan.sample(row), &plan.records[row], scratch, out)
    }

    fn fetch_all(&self, _: &BatchPlan, _: Range<usize>, _: &mut Job<'_>, _: &mut Scratch) {}

    fn decode_all(
        &self,
        plan: &BatchPlan,
        rows: Range<usize>,
        job: &mut Job<'_>,
        scratch: &mut Scratch,
        out: &mut RowsMut<'_>,
    ) {
        self.decoder.decode_all(&plan.records[rows], job, scratch, out);
    }

    fn place(&self, plan: &BatchPlan, row: usize) -> Location {
        // Statistics ask for samples whose records are gone.
        plan.records.get(row).map_or_else(Location::default, |record| self.decoder.place(record))
    }
}
