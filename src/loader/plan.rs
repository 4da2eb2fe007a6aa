use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;

use crate::dataset::{BadRecords, Buckets, LastBatch, batches};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::{MemoryBudget, whole_pages};
use crate::order::{Deal, Remainder, Shard};
use crate::read::{Concat, Foretold, RecordReader, SourceConfig};
use crate::schema::{Dim, Extents, Role, Rows, Schema, TensorSpec};
use crate::storage::FetchLimit;

use super::Loader;
use super::mix::parts_of;
use super::own::Own;

/// What a run of a [`Loader`] will do, as far as it can be told without decoding data. `None` is what can't; `unknown` says
/// why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunPlan {
    /// What is read.
    pub sources: Vec<PlannedSource>,
    /// Samples of an epoch, on all shards together.
    pub samples: Option<u64>,
    /// The part that is planned; every other one has the same numbers.
    pub shard: Shard,
    /// What becomes of samples that the shards can't have as many each of.
    pub remainder: Remainder,
    /// Samples of an epoch and shard, without those that only fill up its last batch.
    pub samples_per_shard: Option<u64>,
    /// Samples of a batch.
    pub batch_size: usize,
    /// What to do with an incomplete last batch.
    pub last_batch: LastBatch,
    /// Batches of an epoch and shard.
    pub batches_per_epoch: Option<u64>,
    /// How samples of about one length come together, if they do.
    pub bucket: Option<Buckets>,
    /// The condition that samples must fulfil: `samples` counts those that do.
    pub filter: Option<String>,
    /// Whether each epoch has an order of its own.
    pub shuffled: bool,
    /// The seed of those orders.
    pub seed: Option<u64>,
    /// How many chunks are shuffled together, if not all samples are.
    pub shuffle_blocks: Option<u64>,
    /// What to do with bad records.
    pub bad_records: BadRecords,
    /// The tensors of a full batch.
    pub tensors: Option<Vec<PlannedTensor>>,
    /// Threads that fill batches; none behind a shield.
    pub workers: usize,
    /// Batches that may wait for the trainer.
    pub prefetch: usize,
    /// Whether prefetch runs on into the next epoch.
    pub across_epochs: bool,
    /// Longest time that reading one sample's bytes may take.
    pub fetch_limit: Option<FetchLimit>,
    /// Whether batches are made on the caller's thread.
    pub shield: bool,
    /// Slots of the ring: those that wait, one that is filled and one in the trainer's hand.
    pub ring_slots: usize,
    /// Bytes of a slot: those of a full batch, in whole pages.
    pub slot_bytes: Option<u64>,
    /// Bytes of all slots.
    pub ring_bytes: Option<u64>,
    /// Bytes that sources hold beside the ring, as far as they count against the budget: row indexes and unpacked files.
    pub held_bytes: Option<u64>,
    /// Most bytes for all of those.
    pub budget_bytes: Option<u64>,
    /// Whether they fit. The first batch decides, so what grows later may still not.
    pub fits: Option<bool>,
    /// What can't be known without reading the data, and why.
    pub unknown: Vec<String>,
}

/// One source of a [`RunPlan`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedSource {
    /// Its format, as settings name it.
    pub format: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Its records.
    pub records: Option<u64>,
    /// How many files are read as one; 0 where that is the format's own affair, as of a single file.
    pub files: u64,
    /// What lies beside them and is not read.
    pub passed_over: Vec<PathBuf>,
}

/// One tensor of a [`RunPlan`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedTensor {
    /// Its name.
    pub name: String,
    /// What it is to the trainer.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Shape in a full batch, whose samples come first; `None` where batches differ.
    pub shape: Vec<Option<usize>>,
}

impl Loader {
    /// What a run will do: from listings, headers and saved indexes. No data is decoded. A CSV file without a saved index is
    /// opened as a run would open it, which reads it once, to count its records; one that would have to be unpacked is not. The fields of
    /// a filter, and those that a split is stratified or grouped by, are read.
    ///
    /// ```
    /// let plan = ringfeed::Loader::csv("fixtures/iris.csv").batch_size(10).plan()?;
    /// assert_eq!((plan.samples, plan.batches_per_epoch, plan.ring_slots), (Some(150), Some(15), 4));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), as far as it can be told.
    pub fn plan(&self) -> Result<RunPlan> {
        self.check()?;
        if let Cow::Owned(resolved) = self.resolved()? {
            return resolved.plan();
        }
        let config = &self.config;
        let outlines = match &self.own {
            _ if config.windows.is_some() => {
                let budget = MemoryBudget::unlimited();
                let readers = self.windowed(self.readers(&budget)?.all, &budget)?;
                readers.into_iter().map(|reader| Foretold::of_reader(reader, 0)).collect()
            }
            None => config.sources.iter().map(|source| source.foretell(&self.files)).collect::<Result<Vec<_>>>()?,
            Some(Own::Samples(_)) => {
                let why = "samples and tensors: only the iterator that gives them tells";
                vec![Foretold::unknown(None, why.to_owned())]
            }
            Some(Own::Container(_)) => {
                let readers = self.readers(&MemoryBudget::unlimited())?.all;
                readers.into_iter().map(|reader| Foretold::of_reader(reader, 0)).collect()
            }
        };
        let samples = self.planned_samples(&outlines)?;
        let tensors: Option<Vec<Vec<TensorSpec>>> = outlines.iter().map(|outline| outline.tensors.clone()).collect();
        let tensors = tensors.map(|mut tensors| {
            // Those of sources that are mixed are the same.
            tensors.truncate(if config.mix.is_empty() { tensors.len() } else { 1 });
            tensors.concat()
        });
        let schema = tensors.map(|tensors| self.planned_schema(tensors)).transpose()?;
        let samples_per_shard = samples
            .filter(|_| config.bucket.is_none())
            .map(|samples| Deal::new(config.shard, samples, 0, config.remainder).count());
        let batches_per_epoch = samples_per_shard.map(|samples| batches(samples, config.batch_size, config.last_batch));
        let batches_per_epoch = batches_per_epoch.filter(|_| config.bucket.is_none());
        let mut unknown: Vec<String> = outlines.iter().filter_map(|outline| outline.unknown.clone()).collect();
        if samples.is_none() && (config.split.is_some() || config.folds.is_some() || config.filter.is_some()) {
            unknown.push("samples: a split goes by the names of the samples, which only reading tells".into());
        }
        if config.bucket.is_some() {
            unknown.push("batches: how many samples each bucket has, only their lengths tell".into());
        }
        let slot_bytes = match &schema {
            Some(schema) if !schema.is_variable() => {
                let full = config.last_batch != LastBatch::Keep;
                let rows = samples_per_shard.filter(|_| !full).map_or(config.batch_size, |samples| {
                    usize::try_from(samples).unwrap_or(usize::MAX).min(config.batch_size)
                });
                let mut layout = Layout::default();
                layout.compute(schema, rows, Extents::default())?;
                Some(whole_pages(layout.bytes()) as u64)
            }
            Some(_) => {
                unknown.push(
                    "bytes of the ring: samples differ in size, and each batch is as large as its largest".into(),
                );
                None
            }
            None => None,
        };
        let ring_slots = config.prefetch_batches() + 2;
        let ring_bytes = slot_bytes.map(|bytes| bytes.saturating_mul(ring_slots as u64));
        let held_bytes = outlines.iter().map(|outline| outline.held_bytes).sum();
        let fits = config.memory.budget_bytes.and_then(|budget| match (ring_bytes, held_bytes) {
            (Some(ring), Some(held)) => Some(u64::saturating_add(ring, held) <= budget),
            // Either alone may be too much already.
            (ring, held) => (ring.or(held).is_some_and(|bytes| bytes > budget)).then_some(false),
        });
        let planned = |(source, outline): (&SourceConfig, &Foretold)| PlannedSource {
            format: source.format(),
            path: source.path().to_owned(),
            records: outline.records,
            files: outline.files,
            passed_over: outline.passed_over.clone(),
        };
        Ok(RunPlan {
            sources: config.sources.iter().zip(&outlines).map(planned).collect(),
            samples,
            shard: config.shard,
            remainder: config.remainder,
            samples_per_shard,
            batch_size: config.batch_size,
            last_batch: config.last_batch,
            batches_per_epoch,
            bucket: config.bucket.clone(),
            filter: config.filter.clone(),
            shuffled: config.shuffle.is_some(),
            seed: config.shuffle,
            shuffle_blocks: config.shuffle_blocks,
            bad_records: config.bad_records,
            tensors: schema.map(|schema| schema.tensors().iter().map(|spec| self.planned_tensor(spec)).collect()),
            workers: if config.shield { 0 } else { config.worker_threads() },
            prefetch: config.prefetch_batches(),
            across_epochs: config.across_epochs,
            fetch_limit: config.fetch_limit,
            shield: config.shield,
            ring_slots,
            slot_bytes,
            ring_bytes,
            held_bytes,
            budget_bytes: config.memory.budget_bytes,
            fits,
            unknown,
        })
    }

    fn planned_samples(&self, outlines: &[Foretold]) -> Result<Option<u64>> {
        let records: Option<Vec<u64>> = outlines.iter().map(|outline| outline.records).collect();
        let Some(records) = records else { return Ok(self.config.samples_per_epoch) };
        if !self.config.mix.is_empty() {
            return self.planned_mix(outlines, &records);
        }
        let shortest = records.iter().copied().min();
        if !self.config.shorter && records.iter().any(|records| Some(*records) != shortest) {
            let message = format!("the sources have {records:?} records; name equal ones, or set `shorter`");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let config = &self.config;
        let is_filtered = config.filter.is_some() || config.chosen_by().is_some() || !self.keeps.is_empty();
        let selects = is_filtered || config.split.is_some() || config.folds.is_some();
        let choice = match (shortest, outlines.first().and_then(|outline| outline.reader.as_ref())) {
            (shortest, _) if !selects => shortest,
            (Some(shortest), Some(reader)) => self.subset(reader, shortest)?.map(|subset| subset.len()),
            _ => None,
        };
        Ok(choice.map_or(self.config.samples_per_epoch, |choice| self.samples_per_epoch_of(choice).or(Some(choice))))
    }

    /// How many samples an epoch of sources that are mixed has.
    fn planned_mix(&self, outlines: &[Foretold], records: &[u64]) -> Result<Option<u64>> {
        let parts = parts_of(records.iter().copied());
        let readers: Option<Vec<_>> = outlines.iter().map(|outline| outline.reader.clone()).collect();
        let selects = self.config.split.is_some() || self.config.folds.is_some() || self.config.filter.is_some();
        let chosen = match readers.map(Vec::into_iter) {
            _ if !selects => None,
            Some(mut readers) => {
                let first = readers.next().map(Concat::new);
                let all = first.map(|first| readers.try_fold(first, Concat::and)).transpose()?;
                all.map(|all| self.subset(&all, all.len())).transpose()?.flatten()
            }
            None => return Ok(self.config.samples_per_epoch),
        };
        let mixed = self.mixed(&parts, chosen.as_ref());
        let choice = mixed.iter().filter(|(_, weight)| *weight > 0.0).map(|(part, _)| part.len()).sum();
        Ok(self.samples_per_epoch_of(choice).or(Some(choice)))
    }

    /// The tensors of all sources, if what is said of them by name fits.
    fn planned_schema(&self, tensors: Vec<TensorSpec>) -> Result<Schema> {
        self.transformed_schema(&Schema::new(tensors)?)
    }

    fn planned_tensor(&self, spec: &TensorSpec) -> PlannedTensor {
        let dims = spec.shape.iter().map(|dim| match dim {
            Dim::Fixed(len) => Some(*len),
            Dim::Extent(_) => None,
        });
        let batch_size = self.config.batch_size;
        let shape = match spec.rows {
            Rows::Even => std::iter::once(Some(batch_size)).chain(dims).collect(),
            Rows::Ragged => vec![None],
            Rows::Offsets => vec![batch_size.checked_add(1)],
        };
        PlannedTensor { name: spec.name.clone(), role: spec.role, dtype: spec.dtype, shape }
    }
}
