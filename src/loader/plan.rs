use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::dataset::{BadRecords, Buckets, LastBatch, batches, nothing_to_draw};
use crate::device::{DeviceName, split, uploaded};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::{MemoryBudget, whole_pages};
use crate::positions::{Deal, Remainder, Shard};
use crate::prefetch::{Amount, default_prefetch};
use crate::read::{Composed, Concat, DecodedBytes, Foretold, RecordReader, Sequences, SourceConfig, Windows};
use crate::schema::{Dim, Extents, Role, Rows, Schema, TensorSpec};
use crate::storage::FetchLimit;
use crate::transform::Operation;

use super::Loader;
use super::mix::{parts_of, samples_of_mix};
use super::own::Own;
use super::values::Sides;

/// The plan of a run of a [`Loader`], as far as it is known without decoding data. Unknown values are `None`, and
/// `unknown` says why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunPlan {
    /// The sources.
    pub sources: Vec<PlannedSource>,
    /// Number of samples per epoch, of all shards together.
    pub samples: Option<u64>,
    /// The shard that is planned; every other shard has the same numbers.
    pub shard: Shard,
    /// What to do with the last samples if they can't be divided evenly among the shards.
    pub remainder: Remainder,
    /// Number of samples per epoch and shard, without the padding of the last batch.
    pub samples_per_shard: Option<u64>,
    /// Number of samples per batch.
    pub batch_size: usize,
    /// What to do with an incomplete last batch.
    pub last_batch: LastBatch,
    /// Number of batches per epoch and shard.
    pub batches_per_epoch: Option<u64>,
    /// How samples are grouped by length, if they are.
    pub bucket: Option<Buckets>,
    /// The windows, if samples are windows instead of single records: those of the settings or of the fitted recipe.
    pub windows: Option<Windows>,
    /// The sequences, if samples are sequences of records.
    pub sequences: Option<Sequences>,
    /// The condition that samples must fulfil. `samples` counts only those that do.
    pub filter: Option<String>,
    /// Whether samples are drawn with replacement, so that each class is drawn equally often.
    pub class_balanced: bool,
    /// The field whose numbers are weights, if samples are drawn with replacement in proportion to them.
    pub weight_by: Option<String>,
    /// Whether each epoch has a different order.
    pub shuffled: bool,
    /// The seed of those orders.
    pub seed: Option<u64>,
    /// Number of chunks whose samples are shuffled together, if not all samples are.
    pub shuffle_blocks: Option<u64>,
    /// What to do with bad records.
    pub bad_records: BadRecords,
    /// The device that batches are uploaded to, if any.
    pub device: Option<DeviceName>,
    /// The tensors of a full batch, on the device if there is one.
    pub tensors: Option<Vec<PlannedTensor>>,
    /// Number of threads that fill batches; 0 with a shield.
    pub workers: usize,
    /// Number of finished batches that may wait for the trainer.
    pub prefetch: usize,
    /// Whether prefetch continues into the next epoch.
    pub across_epochs: bool,
    /// Maximum time for reading one sample's bytes.
    pub fetch_limit: Option<FetchLimit>,
    /// Whether batches are made on the caller's thread.
    pub shield: bool,
    /// Number of slots of the ring: for batches that wait, one that is filled, one in use by the trainer, and those
    /// that it may [hold](Self::holding).
    pub ring_slots: usize,
    /// Bytes per slot: those of a full batch (before the upload, if there is a device), in whole pages.
    pub slot_bytes: Option<u64>,
    /// Bytes of all slots together.
    pub ring_bytes: Option<u64>,
    /// Bytes that sources hold in addition to the ring, as far as they count against the budget: row indexes and
    /// unpacked files.
    pub held_bytes: Option<u64>,
    /// The budget: the maximum number of bytes for all of these.
    pub budget_bytes: Option<u64>,
    /// Whether they fit the budget. This is about the first batch: larger batches may still not fit.
    pub fits: Option<bool>,
    /// What is not known without reading the data, and why.
    pub unknown: Vec<String>,
    /// Settings that cost time without need, and what to set instead.
    pub advice: Vec<String>,
}

impl RunPlan {
    /// The plan for a trainer that may keep this many batches in addition to the one in use.
    #[must_use]
    pub fn holding(mut self, batches: usize) -> Self {
        self.ring_slots = self.ring_slots.saturating_add(batches);
        self.summed()
    }

    /// The plan for batches that are made in the workspace of another loader: by its threads, and in its ring. The
    /// ring's slots fit the larger batches of the two loaders. The budget is that of the workspace, and the sources of
    /// both loaders count against it.
    ///
    /// ```
    /// let train = ringfeed::Loader::csv("fixtures/iris.csv").batch_size(50).prefetch(4).workers(1).plan()?.holding(1);
    /// let valid = ringfeed::Loader::csv("fixtures/iris.csv").batch_size(10).prefetch(9).workers(2).plan()?;
    /// let valid = valid.in_workspace_of(&train);
    /// assert_eq!((valid.batch_size, valid.workers, valid.prefetch, valid.ring_slots), (10, 1, 4, 4 + 2 + 1));
    /// assert_eq!((valid.slot_bytes, valid.ring_bytes), (train.slot_bytes, train.ring_bytes));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn in_workspace_of(mut self, other: &Self) -> Self {
        self.workers = if self.shield { 0 } else { other.workers };
        self.prefetch = other.prefetch;
        self.across_epochs = other.across_epochs;
        self.fetch_limit = other.fetch_limit;
        self.ring_slots = other.ring_slots;
        if self.slot_bytes.is_some() && other.slot_bytes.is_none() {
            self.unknown.push(
                "bytes of the ring: those of the other loader's batches are not known before they are read".into(),
            );
        }
        self.slot_bytes = self.slot_bytes.zip(other.slot_bytes).map(|(own, others)| own.max(others));
        self.held_bytes = self.held_bytes.zip(other.held_bytes).map(|(own, others)| own.saturating_add(others));
        self.budget_bytes = other.budget_bytes;
        self.summed()
    }

    fn summed(mut self) -> Self {
        self.ring_bytes = self.slot_bytes.map(|bytes| bytes.saturating_mul(self.ring_slots as u64));
        self.fits = self.budget_bytes.and_then(|budget| match (self.ring_bytes, self.held_bytes) {
            (Some(ring), Some(held)) => Some(u64::saturating_add(ring, held) <= budget),
            // Each of them may be too much by itself.
            (ring, held) => (ring.or(held).is_some_and(|bytes| bytes > budget)).then_some(false),
        });
        self
    }
}

/// One source of a [`RunPlan`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlannedSource {
    /// Name of its format in settings.
    pub format: &'static str,
    /// Its path.
    #[serde(serialize_with = "crate::files::lossy")]
    pub path: PathBuf,
    /// Number of records.
    pub records: Option<u64>,
    /// Number of files that are read as one; 0 for a single file, and for formats that take several files themselves.
    pub files: u64,
    /// Files beside them that are not read.
    #[serde(serialize_with = "all_lossy")]
    pub passed_over: Vec<PathBuf>,
    /// Number of files in its folder that are not read, for formats that take the folder themselves, such as images. A
    /// hidden folder counts as one. [`SourceConfig::inspect`] names the first of them.
    pub ignored: u64,
}

fn all_lossy<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// One tensor of a [`RunPlan`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlannedTensor {
    /// Its name.
    pub name: String,
    /// Its purpose in training.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Shape in a full batch, `[samples, ...]`; `None` for dimensions that differ from batch to batch.
    pub shape: Vec<Option<usize>>,
}

impl Loader {
    /// The plan of a run, from listings, headers and saved indexes. No batch is made. A CSV file without a saved index
    /// is opened as in a run, which reads it once to count its records. A file that would have to be unpacked is not
    /// opened. The fields of a filter are read, and those by which a split is stratified or grouped.
    ///
    /// ```
    /// let plan = ringfeed::Loader::csv("fixtures/iris.csv").batch_size(10).plan()?;
    /// assert_eq!((plan.samples, plan.batches_per_epoch, plan.ring_slots), (Some(150), Some(15), 10));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), as far as they are found without reading the data.
    pub fn plan(&self) -> Result<RunPlan> {
        self.planned(None)
    }

    /// Like [`plan`](Self::plan), for a run whose batches are uploaded to a device that does these operations.
    pub(super) fn planned(&self, to: Option<(DeviceName, &[Operation])>) -> Result<RunPlan> {
        self.plan_of(to).map_err(|error| self.config.with_key(error))
    }

    fn plan_of(&self, to: Option<(DeviceName, &[Operation])>) -> Result<RunPlan> {
        self.check()?;
        if let Cow::Owned(resolved) = self.resolved()? {
            return resolved.plan_of(to);
        }
        let config = &self.config;
        let outlines = match &self.own {
            _ if config.consists_of_several() => {
                let budget = MemoryBudget::unlimited();
                let opened = self.readers(&budget)?;
                let readers = self.windowed(opened.all, &opened.sources, &budget)?;
                of_readers(readers, &budget)
            }
            None => config.sources.iter().map(|source| source.foretell(&self.files)).collect::<Result<Vec<_>>>()?,
            Some(Own::Samples(_)) => {
                let why = "samples and tensors: only the iterator knows them";
                vec![Foretold::unknown(None, why.to_owned())]
            }
            Some(Own::Container(_)) => {
                let budget = MemoryBudget::unlimited();
                of_readers(self.readers(&budget)?.all, &budget)
            }
        };
        let samples = self.planned_samples(&outlines)?;
        let tensors: Option<Vec<&[TensorSpec]>> = outlines.iter().map(|outline| outline.tensors.as_deref()).collect();
        let compose = |mut tensors: Vec<&[TensorSpec]>| {
            // Mixed sources have the same tensors.
            tensors.truncate(if config.mix.is_empty() { tensors.len() } else { 1 });
            Composed::new(tensors.into_iter(), &config.names_in_order(), config.sequences.is_some())
                .map(|composed| composed.tensors)
        };
        let tensors = tensors.map(compose).transpose()?;
        if let (Some(bucket), Some(tensors)) = (&config.bucket, &tensors) {
            bucket.measured(tensors.iter())?;
        }
        let operations = to.map(|(_, operations)| operations);
        let (schema, given) = tensors.map(|tensors| self.planned_schemas(tensors, operations)).transpose()?.unzip();
        let samples_per_shard = samples
            .filter(|_| config.bucket.is_none())
            .map(|samples| Deal::new(config.shard, samples, 0, config.remainder).count());
        let batches_per_epoch = samples_per_shard.map(|samples| batches(samples, config.batch_size, config.last_batch));
        let batches_per_epoch = batches_per_epoch.filter(|_| config.bucket.is_none());
        let mut unknown: Vec<String> = outlines.iter().filter_map(|outline| outline.unknown.clone()).collect();
        unknown.extend(self.unknown_choice().filter(|_| samples.is_none()).map(str::to_owned));
        if config.bucket.is_some() {
            unknown.push("batches: the number of samples per bucket depends on their lengths".into());
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
        let prefetch = match (config.prefetch, &schema, slot_bytes) {
            (None | Some(Amount::Auto), Some(schema), Some(bytes)) => {
                let budget = config.memory.budget_bytes.unwrap_or(u64::MAX);
                default_prefetch(config.prefetch_batches(), schema, bytes, budget)
            }
            _ => config.prefetch_batches(),
        };
        let planned = |(source, outline): (&SourceConfig, &Foretold)| PlannedSource {
            format: source.format(),
            path: source.path().to_owned(),
            records: outline.records,
            files: outline.files,
            passed_over: outline.passed_over.clone(),
            ignored: outline.ignored,
        };
        let plan = RunPlan {
            sources: config.sources.iter().zip(&outlines).map(planned).collect(),
            samples,
            shard: config.shard,
            remainder: config.remainder,
            samples_per_shard,
            batch_size: config.batch_size,
            last_batch: config.last_batch,
            batches_per_epoch,
            bucket: config.bucket.clone(),
            windows: config.windows.clone(),
            sequences: config.sequences.clone(),
            filter: config.filter.clone(),
            class_balanced: config.class_balanced,
            weight_by: config.weight_by.clone(),
            shuffled: config.shuffle.is_some(),
            seed: config.shuffle,
            shuffle_blocks: config.shuffle_blocks,
            bad_records: config.bad_records,
            device: to.map(|(device, _)| device),
            tensors: given.map(|given| given.tensors().iter().map(|spec| self.planned_tensor(spec)).collect()),
            workers: if config.shield { 0 } else { config.worker_threads() },
            prefetch,
            across_epochs: config.across_epochs,
            fetch_limit: config.fetch_limit,
            shield: config.shield,
            ring_slots: prefetch + 2,
            slot_bytes,
            ring_bytes: None,
            held_bytes: outlines.iter().map(|outline| outline.held_bytes).sum(),
            budget_bytes: config.memory.budget_bytes,
            fits: None,
            unknown,
            advice: outlines.iter().filter_map(|outline| self.shuffle_advice(outline.reader.as_ref()?)).collect(),
        };
        Ok(plan.summed())
    }

    /// The advice if samples are drawn from more chunks than are kept decoded.
    fn shuffle_advice(&self, reader: &Arc<dyn RecordReader>) -> Option<String> {
        let config = &self.config;
        config.shuffle?;
        let DecodedBytes { all, kept } = reader.decoded_bytes()?;
        let kept = config.memory.budget_bytes.map_or(kept, |budget| kept.min(budget / 4));
        let each = (all / (reader.chunks().len() as u64).max(1)).max(1);
        let drawn = config.shuffle_blocks.map_or(all, |blocks| all.min(blocks.saturating_mul(each)));
        if drawn <= kept {
            return None;
        }
        // Batches at the end of one block are filled while the next block has begun.
        let blocks = (kept / 2 / each).max(1);
        let seed = config.shuffle.unwrap_or_default();
        Some(format!(
            "shuffle: samples are drawn from about {drawn} bytes of decoded records, of which {kept} are kept, so that they are \
             decoded again and again; shuffle in blocks (shuffle = {{ seed = {seed}, blocks = {blocks} }}), or raise cache_bytes, \
             of which at most a quarter of the memory budget is used"
        ))
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
        let readers: Vec<_> = outlines.iter().map_while(|outline| outline.reader.clone()).collect();
        let choice = match shortest {
            Some(shortest)
                if !readers.is_empty()
                    && (self.selects() || self.config.weight_by.is_some())
                    && !self.chooses_elsewhere(&readers, outlines)? =>
            {
                let sources: Vec<usize> = (0..readers.len()).collect();
                let budget = MemoryBudget::unlimited();
                let sides = Sides { readers: &readers, sources: &sources, budget: &budget };
                let chosen = self.subset(sides, shortest)?;
                self.weights_of(sides, shortest, chosen.as_ref())?;
                Some(chosen.map_or(shortest, |chosen| chosen.len()))
            }
            shortest => shortest.filter(|_| !self.selects()),
        };
        match choice {
            Some(choice) => self.samples_of(choice).map(Some),
            None => Ok(self.config.samples_per_epoch),
        }
    }

    /// Number of samples per epoch of as many to choose from.
    fn samples_of(&self, choice: u64) -> Result<u64> {
        match self.config.samples_per_epoch {
            Some(samples) if choice == 0 && samples > 0 => Err(nothing_to_draw(samples)),
            _ => Ok(self.samples_per_epoch_of(choice).unwrap_or(choice)),
        }
    }

    /// The reason why the chosen samples are not known, if only some samples are chosen.
    fn unknown_choice(&self) -> Option<&'static str> {
        match () {
            () if self.config.split.is_some() || self.config.folds.is_some() => {
                Some("samples: a split needs the names of the samples, which are found only by reading them")
            }
            () if self.selects() => Some("samples: which of them are taken is found only by reading them"),
            () => None,
        }
    }

    /// Whether samples are chosen by a tensor that none of these readers gives, one of each source, but another one may.
    fn chooses_elsewhere(&self, readers: &[Arc<dyn RecordReader>], outlines: &[Foretold]) -> Result<bool> {
        let gives = |specs: &[TensorSpec], name: &str| specs.iter().any(|spec| spec.name == name);
        let may_give = |(source, outline): (usize, &Foretold), name: &str| match &outline.tensors {
            Some(specs) => gives(specs, name) && !(source == 0 && self.reads_by_name(name)),
            None => source > 0,
        };
        Ok(self.names_of_choice()?.iter().any(|name| {
            !readers.iter().any(|reader| gives(reader.tensors(), name))
                && outlines.iter().enumerate().any(|outline| may_give(outline, name))
        }))
    }

    /// Whether only some of the samples are chosen.
    fn selects(&self) -> bool {
        let config = &self.config;
        let is_filtered = config.filter.is_some() || config.chosen_by().is_some() || !self.keeps.is_empty();
        is_filtered || config.split.is_some() || config.folds.is_some()
    }

    /// Number of samples per epoch of mixed sources.
    fn planned_mix(&self, outlines: &[Foretold], records: &[u64]) -> Result<Option<u64>> {
        let parts = parts_of(records.iter().copied());
        let readers: Option<Vec<_>> = outlines.iter().map(|outline| outline.reader.clone()).collect();
        let mut readers = readers.unwrap_or_default().into_iter();
        // Their numbers must mean the same, too.
        let all = readers.next().map(|first| readers.try_fold(Concat::new(first), Concat::and)).transpose()?;
        let chosen = match all {
            _ if !self.selects() => None,
            Some(all) => {
                let count = all.len();
                let all: Arc<dyn RecordReader> = Arc::new(all);
                let budget = MemoryBudget::unlimited();
                self.subset(Sides { readers: &[all], sources: &[0], budget: &budget }, count)?
            }
            None => return Ok(self.config.samples_per_epoch),
        };
        let mixed = self.mixed(&parts, chosen.as_ref())?;
        self.samples_of(samples_of_mix(&mixed)).map(Some)
    }

    /// The tensors of a batch in the ring, and of a delivered batch. They differ only if a device does some of the
    /// work.
    fn planned_schemas(
        &self,
        tensors: Vec<TensorSpec>,
        operations: Option<&[Operation]>,
    ) -> Result<(Arc<Schema>, Arc<Schema>)> {
        let source = Schema::new(tensors)?;
        let (on_host, on_device) = match operations {
            None => (self.list(), Vec::new()),
            Some([]) => split(self.list(), &source)?,
            Some(operations) => (self.list(), operations.to_vec()),
        };
        let travels = on_host.schema(&source)?;
        let given = uploaded(&travels, &on_device)?;
        Ok((Arc::new(travels), given))
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

/// What open readers know, of which the first holds all that they took from `budget`.
fn of_readers(readers: Vec<Arc<dyn RecordReader>>, budget: &MemoryBudget) -> Vec<Foretold> {
    let held = std::iter::once(budget.used()).chain(std::iter::repeat(0));
    readers.into_iter().zip(held).map(|(reader, held)| Foretold::of_reader(reader, held)).collect()
}
