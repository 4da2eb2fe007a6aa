use std::fmt;
use std::sync::Arc;

use crate::caught::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::positions::{Deal, EpochOrder, FURTHEST, Order, Picks, Remainder, Shard};
use crate::random::RandomKey;
use crate::read::{Composed, Fingerprint, PartOfSample, RecordReader};
use crate::schema::Schema;
use crate::tree::no_faults;

use super::buckets::{BucketLength, BucketPlanner, Buckets};
use super::contract::{BatchPlan, LastBatch, OpenedSource, Planner, Positions, Source, batches};
use super::policy::{BadRecords, DEFAULT_BATCH_SIZE};
use super::reader_filler::{Component, Part, ReaderFiller};
use super::sampling::Sampling;
use super::state::State;

/// Batches from one or several [`RecordReader`]s: reader, order and decoding in one [`Source`].
///
/// Several readers give several inputs and outputs in one batch: sample `i` is made of record `i` of each reader.
///
/// ```
/// use ringfeed::read::MemoryReader;
/// use ringfeed::source::ReaderSource;
/// use ringfeed::tensor::Role;
/// use ringfeed::{AsyncDataSetIterator, Workspace};
///
/// let images = MemoryReader::new("image", Role::Feature, &[2], vec![0.0f32, 0.1, 1.0, 1.1, 2.0, 2.1])?;
/// let digits = MemoryReader::new("digit", Role::Label, &[], vec![0i64, 1, 2])?;
/// let source = ReaderSource::new(images).and(digits).batch_size(2);
/// let mut batches = AsyncDataSetIterator::new(source, &Workspace::default())?;
/// let first = batches.next().expect("there are samples")?;
/// assert_eq!(first.features()?.as_slice::<f32>()?, [0.0, 0.1, 1.0, 1.1]);
/// assert_eq!(first.labels()?.as_slice::<i64>()?, [0, 1]);
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[doc(alias = "RecordReaderDataSetIterator")]
#[doc(alias = "RecordReaderMultiDataSetIterator")]
pub struct ReaderSource {
    readers: Vec<Arc<dyn RecordReader>>,
    batch_size: usize,
    shuffled: bool,
    seed: u64,
    last_batch: LastBatch,
    bad_records: BadRecords,
    shorter: bool,
    shard: Shard,
    remainder: Remainder,
    pub(super) sampling: Sampling,
    buckets: Option<Buckets>,
    names: Vec<String>,
    /// Whether all lengths that vary are the same one.
    one_length: bool,
}

impl fmt::Debug for ReaderSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderSource")
            .field("readers", &self.readers.len())
            .field("batch_size", &self.batch_size)
            .field("shuffled", &self.shuffled)
            .field("seed", &self.seed)
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

impl ReaderSource {
    /// Batches of 32 from `reader`, in its own order.
    pub fn new(reader: impl RecordReader + 'static) -> Self {
        Self {
            readers: vec![Arc::new(reader)],
            batch_size: DEFAULT_BATCH_SIZE,
            shuffled: false,
            seed: 0,
            last_batch: LastBatch::default(),
            bad_records: BadRecords::default(),
            shorter: false,
            shard: Shard::default(),
            remainder: Remainder::default(),
            sampling: Sampling::default(),
            buckets: None,
            names: Vec::new(),
            one_length: false,
        }
    }

    /// Orders the tensors by these names; see [`Composed`].
    #[must_use]
    pub(crate) fn in_order_of(mut self, names: Vec<String>) -> Self {
        self.names = names;
        self
    }

    /// All lengths that vary are the same one.
    pub(crate) fn of_one_length(mut self) -> Self {
        self.one_length = true;
        self
    }

    /// Adds the tensors of a further reader to each sample.
    #[must_use]
    pub fn and(mut self, reader: impl RecordReader + 'static) -> Self {
        self.readers.push(Arc::new(reader));
        self
    }

    /// Number of samples per batch.
    #[must_use]
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.batch_size = samples;
        self
    }

    /// Shuffles with this seed, in a different order in each epoch.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.shuffled = true;
        self.seed = seed;
        self
    }

    /// Shuffles the order of chunks, and then the samples of this many neighbouring chunks together. A chunk is a unit
    /// that a file stores, such as a row group, or a run of 1024 records; see [`RecordReader::chunks`]. For data that
    /// is much larger than memory. Needs [`shuffle`](Self::shuffle).
    #[must_use]
    pub fn shuffle_blocks(mut self, chunks: u64) -> Self {
        self.sampling.blocks = Some(chunks);
        self
    }

    /// The seed of all random numbers except the order, which stays that of the readers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Groups samples of similar length into batches; see [`Buckets`].
    #[must_use]
    pub fn bucket(mut self, buckets: Buckets) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// Takes only this process's share of the samples. Every share has the same number of batches.
    #[must_use]
    pub fn shard(mut self, shard: Shard) -> Self {
        self.shard = shard;
        self
    }

    /// What to do with the last samples if they cannot be divided evenly among the shards.
    #[must_use]
    pub fn remainder(mut self, remainder: Remainder) -> Self {
        self.remainder = remainder;
        self
    }

    /// What to do with an incomplete last batch.
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

    /// Ends with the shortest reader instead of refusing readers of unequal length.
    #[must_use]
    pub fn shorter(mut self) -> Self {
        self.shorter = true;
        self
    }

    /// Names, roles, types and shapes of the tensors of a sample.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if two readers have a tensor of the same name, or have too many varying lengths together.
    pub fn schema(&self) -> Result<Schema> {
        Ok(self.compose()?.0)
    }

    fn compose(&self) -> Result<(Schema, Vec<Component>)> {
        let composed = Composed::new(self.readers.iter().map(|reader| reader.tensors()), &self.names, self.one_length)?;
        let components = self.readers.iter().zip(&composed.parts).enumerate().map(|(nth, (reader, part))| {
            let PartOfSample { places, first_extent, extents } = part;
            let (part, first_extent, extents) = (Part::of(places), *first_extent, *extents);
            Component { nth, reader: reader.clone(), part, first_extent, extents }
        });
        let components = components.collect();
        Ok((Schema::new(composed.tensors)?, components))
    }

    fn len(&self) -> Result<u64> {
        let lens: Vec<u64> = self.readers.iter().map(|reader| reader.len()).collect();
        let shortest = lens.iter().copied().min().unwrap_or(0);
        if !self.shorter && lens.iter().any(|len| *len != shortest) {
            let message = format!(
                "the readers have {lens:?} records; give readers of equal length, or ask for the shorter with `shorter`"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(shortest)
    }
}

impl Source for ReaderSource {
    fn open(self: Box<Self>) -> Result<OpenedSource> {
        if self.batch_size == 0 {
            return Err(Error::new(ErrorKind::Config, "a batch has at least one sample; batch_size is 0"));
        }
        no_faults(self.shard.faults())?;
        let (schema, components) = self.compose()?;
        let order = self.sampling.order(self.len()?, self.seed, self.shuffled, &self.readers)?;
        if order.len > FURTHEST {
            let message = format!("an epoch of {} samples; it has at most {FURTHEST} (`samples_per_epoch`)", order.len);
            return Err(Error::new(ErrorKind::Config, message));
        }
        let deal = Deal::new(self.shard, order.len, 0, self.remainder);
        let fingerprints = self.readers.iter().map(|reader| reader.fingerprint());
        let mut fingerprint = fingerprints.reduce(Fingerprint::and).unwrap_or_default();
        if let Some(choice) = self.sampling.hash(&order) {
            fingerprint.names = RandomKey::new(fingerprint.names).with(choice).bits(0);
        }
        // The seed, which a state holds, is usually 0 without a shuffle alone.
        match (self.shuffled, self.seed) {
            (true, 0) => fingerprint.names = RandomKey::new(fingerprint.names).bits(1),
            (false, 1..) => fingerprint.names = RandomKey::new(fingerprint.names).bits(2),
            _ => {}
        }
        let mut filler =
            ReaderFiller { schema: Arc::new(schema), components, order: order.clone(), length: None, buckets: None };
        if let Some(buckets) = &self.buckets {
            let Picks::Once(subset) = &order.picks else {
                let message = "bucket: each sample comes once; leave out weights, balance, mixes and samples_per_epoch";
                return Err(Error::new(ErrorKind::Config, message));
            };
            if order.blocks.is_some() {
                let message = "bucket: batches are of one length, not of one block; leave out shuffle's blocks";
                return Err(Error::new(ErrorKind::Config, message));
            }
            let mut length = BucketLength::find(buckets, &self.readers)?;
            if self.one_length {
                // That of any reader is measured by one of them.
                let measuring = filler.components.iter().position(|component| component.extents > 0);
                length.reader = measuring.unwrap_or(length.reader);
            }
            let bucketed =
                caught(|| length.deal(&*self.readers[length.reader], subset, self.batch_size, self.last_batch))?;
            let len = bucketed.batches().saturating_mul(bucketed.most_rows());
            if len > FURTHEST {
                let message = format!("an epoch of {len} positions; it has at most {FURTHEST}");
                return Err(Error::new(ErrorKind::Config, message));
            }
            fingerprint.names = RandomKey::new(fingerprint.names).with(bucketed.hash()).bits(0);
            let kept = bucketed.all();
            filler.order = Order { len: kept.len(), picks: Picks::Once(kept), ..order };
            // Shards have batches of different buckets, so that each has only about its part.
            let samples = Some(bucketed.samples().div_ceil(self.shard.count.into()));
            let seed = self.shuffled.then_some(self.seed);
            let bucketed = Arc::new(bucketed);
            filler.length = Some(length);
            filler.buckets = Some((bucketed.clone(), seed));
            let planner = BucketPlanner::new(bucketed, seed, self.shard, self.remainder, self.last_batch);
            return Ok(OpenedSource {
                batches: Some(planner.batches()),
                planner: Box::new(planner),
                filler: Arc::new(filler),
                bad_records: self.bad_records,
                samples,
                repeatable: true,
                seed: self.seed,
                fingerprint,
                runs_on: true,
            });
        }
        let planner = IndexPlanner {
            of_epoch: order.epoch(0),
            order,
            shard: self.shard,
            remainder: self.remainder,
            batch_size: self.batch_size,
            last_batch: self.last_batch,
            epoch: 0,
            deal,
            dealt: 0,
        };
        Ok(OpenedSource {
            planner: Box::new(planner),
            filler: Arc::new(filler),
            bad_records: self.bad_records,
            samples: Some(deal.count()),
            batches: Some(batches(deal.count(), self.batch_size, self.last_batch)),
            repeatable: true,
            seed: self.seed,
            fingerprint,
            runs_on: true,
        })
    }
}

/// Plans positions only. The worker that fills the batch reads the records.
struct IndexPlanner {
    order: Order,
    shard: Shard,
    remainder: Remainder,
    batch_size: usize,
    last_batch: LastBatch,
    epoch: u64,
    of_epoch: EpochOrder,
    /// What is left of the epoch, counted from its beginning or from the state where it was resumed.
    deal: Deal,
    /// How many of these positions were planned.
    dealt: u64,
}

impl IndexPlanner {
    fn go_to(&mut self, epoch: u64, position: u64) {
        self.epoch = epoch;
        self.of_epoch.begin(epoch);
        self.deal = Deal::new(self.shard, self.order.len, position, self.remainder);
        self.dealt = 0;
    }

    /// The position of the `nth` row that fills the last batch up, behind those of all shards.
    fn padding(&self, nth: u64) -> u64 {
        match self.remainder {
            Remainder::Pad => self.deal.position(self.deal.count() + nth),
            Remainder::Drop => {
                let round = nth.saturating_mul(self.shard.count.into()).saturating_add(self.shard.index.into());
                self.order.len.saturating_add(round)
            }
        }
    }
}

impl Planner for IndexPlanner {
    fn plan(&mut self, into: &mut BatchPlan) -> Result<bool> {
        let batch_size = self.batch_size as u64;
        let rows = (self.deal.count() - self.dealt).min(batch_size);
        if rows == 0 || (self.last_batch == LastBatch::Drop && rows < batch_size) {
            return Ok(false);
        }
        into.clear();
        into.epoch = self.epoch;
        into.index = self.deal.covered(self.dealt) / batch_size.saturating_mul(self.shard.count.into());
        let full = if self.last_batch == LastBatch::Pad { batch_size } else { rows };
        into.reserve(usize::try_from(full).unwrap_or(usize::MAX))?;
        let len = self.order.len;
        into.positions.extend((self.dealt..self.dealt + rows).map(|nth| self.deal.position(nth)));
        into.positions.extend((0..full - rows).map(|nth| self.padding(nth)));
        into.samples.extend_from_slice(&into.positions);
        // Positions ascend.
        let own = into.positions.partition_point(|position| *position < len);
        into.samples[own..].iter_mut().for_each(|position| *position %= len);
        into.padding = into.positions.len() - own;
        self.of_epoch.replace(&mut into.samples, &mut into.draws);
        self.dealt += rows;
        into.end = self.deal.covered(self.dealt);
        Ok(true)
    }

    fn begin_epoch(&mut self, epoch: u64) -> Result<()> {
        self.go_to(epoch, 0);
        Ok(())
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.positions().check(state)?;
        self.go_to(state.epoch, state.position);
        Ok(())
    }

    fn positions(&self) -> Positions {
        Positions { end: Some(self.order.len), step: 1, shards: self.shard.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::positions::Subset;

    fn plans(len: u64, batch_size: usize, last_batch: LastBatch) -> Vec<(Vec<u64>, usize)> {
        let order = Order { len, seed: 0, shuffled: false, picks: Picks::Once(Subset::all(len)), blocks: None };
        let (shard, remainder) = (Shard::default(), Remainder::Pad);
        let (of_epoch, deal) = (order.epoch(0), Deal::new(shard, len, 0, remainder));
        let mut planner =
            IndexPlanner { order, shard, remainder, batch_size, last_batch, epoch: 0, of_epoch, deal, dealt: 0 };
        let mut plan = BatchPlan::default();
        let mut all = Vec::new();
        while planner.plan(&mut plan).unwrap() {
            all.push((plan.samples.clone(), plan.padding));
        }
        assert_eq!(all.len() as u64, batches(len, batch_size, last_batch));
        all
    }

    #[test]
    fn the_last_batch_is_kept_dropped_or_padded() {
        assert_eq!(plans(5, 2, LastBatch::Keep)[2..], [(vec![4], 0)]);
        assert_eq!(plans(5, 2, LastBatch::Drop).len(), 2);
        assert_eq!(plans(5, 2, LastBatch::Pad)[2..], [(vec![4, 0], 1)]);
        assert_eq!(plans(1, 4, LastBatch::Pad), [(vec![0, 0, 0, 0], 3)]);
        assert!(plans(0, 4, LastBatch::Pad).is_empty());
    }

    #[test]
    fn going_on_near_the_end_of_a_billion_asks_the_permutation_no_more_than_starting_does() {
        let calls = |position: u64| {
            let len = 1_000_000_000;
            let order = Order { len, seed: 7, shuffled: true, picks: Picks::Once(Subset::all(len)), blocks: None };
            let (shard, remainder) = (Shard { index: 1, count: 3 }, Remainder::Pad);
            let (of_epoch, deal) = (order.epoch(0), Deal::new(shard, len, 0, remainder));
            let (batch_size, last_batch) = (100, LastBatch::Keep);
            let mut planner =
                IndexPlanner { order, shard, remainder, batch_size, last_batch, epoch: 0, of_epoch, deal, dealt: 0 };
            let count = || crate::positions::permutation::CALLS.with(std::cell::Cell::get);
            let before = count();
            planner.seek(&State { position, ..State::new(7) }).unwrap();
            assert!(planner.plan(&mut BatchPlan::default()).unwrap());
            count() - before
        };
        assert_eq!((calls(0), calls(900_000_000)), (100, 100));
    }
}
