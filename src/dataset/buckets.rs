//! Batches of samples of similar length.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::caught::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::positions::{Bucket, BucketBatch, Bucketed, Deal, EpochBuckets, Remainder, Shard, Subset};
use crate::read::{RecordReader, Scratch, parallel};
use crate::schema::{Extents, Rows, TensorSpec};
use crate::tree::{no_faults, under};

use super::contract::{BatchPlan, LastBatch, Planner, Positions, batches};
use super::state::State;

/// Number of samples that a thread takes at a time to measure them.
const MEASURED_AT_ONCE: u64 = 1024;

/// Batches of samples of similar length, so that they need little padding. Plain data.
///
/// A sample belongs to the first bucket whose bound it does not exceed. A batch holds samples of one bucket and is
/// padded to its bound; the batches of all buckets are mixed. The last batch of each bucket may be incomplete:
/// `last_batch` says what to do with it. Lengths come from an index or a header if the reader has one; otherwise all
/// records are read once, when the source is opened.
///
/// A position in the epoch's order is the index of a batch times the largest number of samples of any batch, plus the
/// row. So resuming needs no scan, with any number of shards. Shards take batches in turn: they have the same number of
/// batches, but not always the same number of samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buckets {
    /// The tensor by whose length samples are grouped.
    pub by: String,
    /// The largest length in each bucket, ascending.
    pub bounds: Vec<u32>,
    /// Maximum sum of the lengths of a batch, padding included, instead of a number of samples. A length is that of one
    /// dimension: of token lists or of a sound with one channel, it is the number of elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_batch: Option<u64>,
    /// What to do with samples that are longer than the last bound.
    #[serde(default)]
    pub longer: Beyond,
}

/// What to do with samples that are longer than the last bucket's bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Beyond {
    /// The first longer sample is an error when the source is opened.
    #[default]
    Error,
    /// They are left out.
    LeaveOut,
}

impl Buckets {
    /// The tensor among these whose length decides, and the index of that length among its sample's lengths.
    pub(crate) fn measured<'a>(
        &self,
        tensors: impl Iterator<Item = &'a TensorSpec> + Clone,
    ) -> Result<(&'a TensorSpec, usize)> {
        let config = |message: String| Error::new(ErrorKind::Config, message);
        let Some(spec) = tensors.clone().find(|spec| spec.name == self.by) else {
            let names: Vec<&String> = tensors.map(|spec| &spec.name).collect();
            return Err(config(format!("bucket: there is no tensor {:?}; there are {names:?}", self.by)));
        };
        let Some(extent) = spec.extent() else {
            let message = "has the same length in every sample; leave out its max_len or shape";
            return Err(config(format!("bucket: tensor {:?} {message}", self.by)));
        };
        Ok((spec, extent))
    }

    /// Buckets by the length of this tensor, up to these bounds.
    pub fn new(by: impl Into<String>, bounds: impl IntoIterator<Item = u32>) -> Self {
        let bounds = bounds.into_iter().collect();
        Self { by: by.into(), bounds, tokens_per_batch: None, longer: Beyond::Error }
    }

    /// Sets the maximum sum of the lengths of a batch, padding included, instead of a number of samples.
    #[must_use]
    pub fn tokens_per_batch(self, tokens: u64) -> Self {
        Self { tokens_per_batch: Some(tokens), ..self }
    }

    /// Leaves out samples that are longer than the last bound.
    #[must_use]
    pub fn leave_out_longer(self) -> Self {
        Self { longer: Beyond::LeaveOut, ..self }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let Some(longest) = self.bounds.last() else {
            return vec!["bounds: the list is empty; give at least one".to_owned()];
        };
        let mut faults = Vec::new();
        if self.bounds[0] == 0 || !self.bounds.is_sorted_by(|one, next| one < next) {
            faults.push(format!("bounds: {:?}; give numbers of 1 or more, in ascending order", self.bounds));
        }
        if let Some(tokens) = self.tokens_per_batch.filter(|tokens| *tokens < u64::from(*longest)) {
            faults.push(format!("tokens_per_batch: {tokens} is less than the last bound, {longest}; raise it"));
        }
        faults
    }

    /// The bound of the bucket for a sample of this length.
    fn bound(&self, length: u32) -> Option<usize> {
        Some(self.bounds.partition_point(|bound| *bound < length)).filter(|bucket| *bucket < self.bounds.len())
    }

    /// Checks that transforms that change this length, as `pad` does, have room for every bucket.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if not.
    pub(crate) fn check_padding(&self, extent: usize, pad: &dyn Fn(Extents) -> Result<Extents>) -> Result<()> {
        let config = |message: String| Err(Error::new(ErrorKind::Config, message).at_column(&self.by));
        for bound in &self.bounds {
            let mut extents = Extents::default();
            extents.0[extent] = *bound;
            let Ok(Extents(padded)) = pad(extents) else {
                return config(format!(
                    "bucket: samples are padded to {bound}, which is more than the transform `pad` allows; leave `pad` out, \
                     or lower the bound"
                ));
            };
            if self.tokens_per_batch.is_some() && padded[extent] != *bound {
                return config(format!(
                    "bucket: the transform `pad` makes {} of the bound {bound}, so that tokens_per_batch would not hold; \
                     choose bounds that it does not change",
                    padded[extent]
                ));
            }
        }
        Ok(())
    }

    /// Pads a sample of these tensors to the bound of its bucket, as in a batch.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a sample that is in no bucket.
    pub(crate) fn pad(&self, tensors: &[TensorSpec], extents: &mut Extents) -> Result<()> {
        let Some(spec) = tensors.iter().find(|spec| spec.name == self.by) else { return Ok(()) };
        let Some(extent) = spec.extent() else { return Ok(()) };
        let length = extents.0[extent];
        let Some(bucket) = self.bound(length) else {
            let last = self.bounds.last().copied().unwrap_or_default();
            let message = format!("its length is {length}, beyond the last bucket, which ends at {last}");
            return Err(Error::new(ErrorKind::Data, message).at_column(&self.by));
        };
        if spec.rows == Rows::Even {
            extents.0[extent] = self.bounds[bucket];
        }
        Ok(())
    }
}

/// The reader and the length that decide the bucket.
#[derive(Clone, Debug)]
pub(super) struct BucketLength {
    pub(super) reader: usize,
    extent: usize,
    /// Whether its samples are not padded.
    is_ragged: bool,
    buckets: Buckets,
}

impl BucketLength {
    /// Finds the reader of the tensor, among these readers.
    pub(super) fn find(buckets: &Buckets, readers: &[Arc<dyn RecordReader>]) -> Result<Self> {
        no_faults(under("bucket", buckets.faults()).collect())?;
        let (spec, extent) = buckets.measured(readers.iter().flat_map(|reader| reader.tensors()))?;
        let is_its = |reader: &Arc<dyn RecordReader>| reader.tensors().iter().any(|own| own.name == spec.name);
        let reader = readers.iter().position(is_its).unwrap_or(0);
        Ok(Self { reader, extent, is_ragged: spec.rows != Rows::Even, buckets: buckets.clone() })
    }

    /// As [`Buckets::check_padding`], for a sample whose lengths from `first` on are those of the reader.
    pub(super) fn check_padding(&self, first: usize, pad: &dyn Fn(Extents) -> Result<Extents>) -> Result<()> {
        if self.is_ragged { Ok(()) } else { self.buckets.check_padding(first + self.extent, pad) }
    }

    /// Changes a length to its bucket's bound, unless samples are not padded.
    pub(super) fn pad(&self, lengths: &mut [u32]) {
        if !self.is_ragged
            && let Some(length) = lengths.get_mut(self.extent)
            && let Some(bucket) = self.buckets.bound(*length)
        {
            *length = self.buckets.bounds[bucket];
        }
    }

    /// Puts each sample into its bucket.
    pub(super) fn deal(
        &self,
        reader: &dyn RecordReader,
        subset: &Subset,
        batch_size: usize,
        last_batch: LastBatch,
    ) -> Result<Bucketed> {
        let mut samples: Vec<Vec<u64>> = vec![Vec::new(); self.buckets.bounds.len()];
        let measure = |scratch: &mut Scratch, job: u64| {
            let range = job * MEASURED_AT_ONCE..subset.len().min((job + 1) * MEASURED_AT_ONCE);
            range.map(|index| self.measure(reader, subset.at(index), scratch)).collect::<Result<Vec<_>>>()
        };
        let threads = parallel::thread_count(None);
        parallel::in_order(threads, subset.len().div_ceil(MEASURED_AT_ONCE), measure, |measured| {
            for (sample, bucket) in measured {
                if let Some(bucket) = bucket {
                    samples[bucket].push(sample);
                }
            }
            Ok(())
        })?;
        let bucket = |(samples, bound): (Vec<u64>, &u32)| {
            let rows = self.buckets.tokens_per_batch.map_or(batch_size as u64, |tokens| tokens / u64::from(*bound));
            let samples = Subset::listed(samples);
            let batches = batches(samples.len(), usize::try_from(rows).unwrap_or(usize::MAX), last_batch);
            Bucket { samples, rows, batches }
        };
        Ok(Bucketed::new(samples.into_iter().zip(&self.buckets.bounds).map(bucket).collect()))
    }

    /// A sample and its bucket. A sample that can't be measured goes into the first bucket, and is found to be bad when
    /// it is read.
    fn measure(&self, reader: &dyn RecordReader, sample: u64, scratch: &mut Scratch) -> Result<(u64, Option<usize>)> {
        let length = match caught(|| reader.measure(sample, scratch)) {
            Ok(extents) => extents.0[self.extent],
            Err(error) if error.kind().is_of_bytes() || error.kind() == ErrorKind::NotFound => {
                return Ok((sample, Some(0)));
            }
            Err(error) => return Err(error),
        };
        let bucket = self.buckets.bound(length);
        if bucket.is_none() && self.buckets.longer == Beyond::Error {
            let message = format!(
                "the length of {:?} is {length}, beyond the last bucket; raise its bound, or set `longer` to \"leave_out\"",
                self.buckets.by
            );
            let place = reader.place(sample);
            return Err(Error::new(ErrorKind::Config, message).at(place).at_record(sample));
        }
        Ok((sample, bucket))
    }
}

/// Plans batches, each of them from one bucket.
pub(super) struct BucketPlanner {
    pub(super) order: Arc<Bucketed>,
    pub(super) seed: Option<u64>,
    pub(super) shard: Shard,
    pub(super) remainder: Remainder,
    pub(super) last_batch: LastBatch,
    epoch: u64,
    of_epoch: EpochBuckets,
    /// The remaining batches of the epoch.
    deal: Deal,
    dealt: u64,
}

impl BucketPlanner {
    pub(super) fn new(
        order: Arc<Bucketed>,
        seed: Option<u64>,
        shard: Shard,
        remainder: Remainder,
        last_batch: LastBatch,
    ) -> Self {
        let of_epoch = order.epoch(seed, 0);
        let deal = Deal::new(shard, order.batches(), 0, remainder);
        Self { order, seed, shard, remainder, last_batch, epoch: 0, of_epoch, deal, dealt: 0 }
    }

    /// Number of batches per epoch and shard.
    pub(super) fn batches(&self) -> u64 {
        Deal::new(self.shard, self.order.batches(), 0, self.remainder).count()
    }

    fn go_to(&mut self, epoch: u64, batch: u64) {
        self.epoch = epoch;
        self.of_epoch = self.order.epoch(self.seed, epoch);
        self.deal = Deal::new(self.shard, self.order.batches(), batch, self.remainder);
        self.dealt = 0;
    }
}

impl Planner for BucketPlanner {
    fn plan(&mut self, into: &mut BatchPlan) -> Result<bool> {
        if self.dealt == self.deal.count() {
            return Ok(false);
        }
        let (batches, width) = (self.order.batches(), self.order.most_rows());
        let number = self.deal.position(self.dealt);
        let BucketBatch { bucket, first, rows } = self.order.batch(&self.of_epoch, number % batches);
        let full = if self.last_batch == LastBatch::Pad { self.order.rows(bucket) } else { rows };
        into.clear();
        into.epoch = self.epoch;
        into.index = self.deal.covered(self.dealt) / u64::from(self.shard.count);
        into.reserve(usize::try_from(full).unwrap_or(usize::MAX))?;
        let Range { start, end } = number * width..number * width + full;
        into.positions.extend(start..end);
        into.samples.extend((first..first + full).map(|nth| self.order.sample(&self.of_epoch, bucket, nth)));
        // A shard with fewer batches repeats some of the epoch's first ones.
        into.padding = if number >= batches { into.samples.len() } else { (full - rows) as usize };
        self.dealt += 1;
        into.end = self.deal.covered(self.dealt) * width;
        Ok(true)
    }

    fn begin_epoch(&mut self, epoch: u64) -> Result<()> {
        self.go_to(epoch, 0);
        Ok(())
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.positions().check(state)?;
        self.go_to(state.epoch, state.position / self.order.most_rows());
        Ok(())
    }

    fn positions(&self) -> Positions {
        let step = self.order.most_rows();
        Positions { end: Some(self.order.batches() * step), step, shards: self.shard.count }
    }
}
