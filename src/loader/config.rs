use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::dataset::{BadRecords, Buckets, Folds, LastBatch, Split};
use crate::device::DeviceName;
use crate::error::Result;
use crate::normalise::NormaliserConfig;
use crate::order::{Remainder, Shard};
use crate::prefetch::{Amount, LEAST_PREFETCH, Manners};
use crate::prepare::{PreparedConfig, Recipe};
use crate::read::fields::Field;
use crate::read::{Formats, Paths, SourceConfig, Windows};
use crate::ring::Overflow;
use crate::stats::{MetricsAddress, Stats};
use crate::storage::FetchLimit;
use crate::transform::{NumberAugment, Operation};
use crate::tree::{Node, Told};

/// All settings of a [`Loader`](crate::Loader), as plain data: TOML or JSON. What is left out has its default; a name
/// that does not exist is an error.
///
/// A file of settings may be shorter: a name alone stands for a choice whose parts have defaults (`bad_records = "skip"`,
/// `cut = "contiguous"`), or for an operation (`augment = ["horizontal_flip"]`), and `"imagenet"` for that normaliser.
/// [`LoaderConfig::load`] says of every fault which key it is, in which line, and what is allowed there.
///
/// ```
/// let config: ringfeed::LoaderConfig = toml::from_str(r#"
///     batch_size = 64
///     shuffle = 42
///     bad_records = { skip = { share = 0.001 } }
///
///     [[sources]]
///     path = "photos"
///     format = "images"
///     fields = { image = { image = [224, 224] }, label = "class" }
///
///     [normalise]
///     image = { kind = "channels", mean = [0.485, 0.456, 0.406], deviation = [0.229, 0.224, 0.225] }
///
///     [memory]
///     budget_bytes = 1_000_000_000
/// "#).expect("the example is valid");
/// assert_eq!((config.batch_size, config.workers), (64, None));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderConfig {
    /// What is read: one source, or several that each give some tensors of every sample. A file may leave them to
    /// whoever loads it.
    #[serde(default)]
    pub sources: Vec<SourceConfig>,
    /// What is read, where there is one source: by its path alone, in which case the format is detected, or as one of `sources`
    /// is written. Instead of `sources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<OnlySource>,
    /// The tensors of a sample by name, and what each is made of. Without any, what the source gives by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::read::fields::by_name")]
    pub fields: Vec<(String, Field)>,
    /// A fitted recipe whose tensors samples have beside those of `fields`: a file that [`Prepared::save`](crate::prepare::Prepared::save)
    /// wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedConfig>,
    /// What `ringfeed fit` fits to these samples and saves as `prepared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Recipe>,
    /// How often samples of each of the sources are drawn, in proportion to these weights, instead of reading the sources side by
    /// side. Those sources give the same tensors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<f64>,
    /// Number of samples per batch.
    #[serde(default = "default_batch_size")]
    pub batch_size: usize,
    /// Seed of the shuffle; without one, the source's own order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// How many chunks (what a file holds together, such as a row group, or runs of 1024 records) are shuffled together, the chunks
    /// themselves being shuffled, too; without it, all samples are. In files of settings also `shuffle = { seed, blocks }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle_blocks: Option<u64>,
    /// One part of a split into train, validation and test data by the names of the first source's samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// One of several folds for cross-validation, or all others; of the part, if there is a split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folds: Option<Folds>,
    /// Windows over the records of the sources, as samples in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
    /// Which samples are taken, by comparisons on fields of the first source: `label != 3 and kind in ['cat', 'dog']`. Split and
    /// folds are of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The field of which each part of the split, and each fold, has the same share of every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stratify: Option<String>,
    /// The field whose samples of the same value are in one part of the split, or in one fold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether samples are drawn with replacement, so that each class is drawn equally often.
    #[serde(default)]
    pub class_balanced: bool,
    /// Batches of samples of about one length each, so that little of them is padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Buckets>,
    /// How many samples an epoch has, if not as many as there are to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_epoch: Option<u64>,
    /// This process's part of the samples.
    #[serde(default)]
    pub shard: Shard,
    /// What to do with the last samples if they cannot be divided evenly among the shards.
    #[serde(default)]
    pub remainder: Remainder,
    /// What to do with an incomplete last batch.
    #[serde(default)]
    pub last_batch: LastBatch,
    /// What to do with bad records.
    #[serde(default)]
    pub bad_records: BadRecords,
    /// Whether several sources of unequal length end with the shortest; otherwise they are an error.
    #[serde(default)]
    pub shorter: bool,
    /// Normalisers by tensor name: a file that [`Normaliser::save`](crate::Normaliser::save) wrote, or the parameters themselves.
    #[serde(default)]
    pub normalise: BTreeMap<String, NormaliserConfig>,
    /// Random operations by tensor name, after normalisation. There is no switch: leave them out for evaluation. (Those
    /// on images belong to their field.)
    #[serde(default)]
    pub augment: BTreeMap<String, Vec<NumberAugment>>,
    /// What becomes of tensors once they are decoded, normalised and augmented: one list, applied in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<Operation>,
    /// Threads that fill batches; by default one for each core that they may use. `"auto"` finds the number while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Amount>,
    /// The cores that workers run on, by the system's numbers; by default all that the process may use. See
    /// [`WorkspaceBuilder::worker_cores`](crate::workspace::WorkspaceBuilder::worker_cores).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worker_cores: Vec<usize>,
    /// How nice workers are, from 0, as any other thread, to 19. See
    /// [`WorkspaceBuilder::worker_nice`](crate::workspace::WorkspaceBuilder::worker_nice).
    #[serde(default)]
    pub worker_nice: u8,
    /// Most of the cores' time that workers take together, from 0 to 1; without it, no bound. See
    /// [`WorkspaceBuilder::worker_share`](crate::workspace::WorkspaceBuilder::worker_share).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_share: Option<f64>,
    /// How many finished batches may wait for the trainer; by default 2, and more where small batches would leave workers
    /// without a sample (see [`LoaderConfig::prefetch_batches`]). `"auto"` finds the number while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Amount>,
    /// Whether prefetch runs on into the next epoch when one is planned to its end.
    #[serde(default = "default_across_epochs")]
    pub across_epochs: bool,
    /// Longest time that reading one sample's bytes may take; without one, no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_limit: Option<FetchLimit>,
    /// Whether batches are made without prefetch, on the caller's thread.
    #[serde(default)]
    pub shield: bool,
    /// A file for a [`Trace`](crate::stats::Trace) of what every thread does when, written when iterator and workspace drop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Where the figures of the run are served over HTTP, in Prometheus' text format, while the iterator lives: a port of this machine
    /// alone, or an address. With the feature `metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsAddress>,
    /// Batch memory.
    #[serde(default)]
    pub memory: MemoryConfig,
}

fn default_batch_size() -> usize {
    32
}

fn default_across_epochs() -> bool {
    true
}

/// A source that there is no other beside.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum OnlySource {
    /// Its format is detected.
    Path(SourcePath),
    /// With its format and options.
    Named(SourceConfig),
}

impl<'de> Deserialize<'de> for OnlySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(deserializer)?;
        let source = match &node {
            Node::Table(entries) if entries.iter().any(|(key, _)| key == "format" || key == "options") => {
                SourceConfig::deserialize(&node).map(Self::Named)
            }
            _ => SourcePath::deserialize(&node).map(Self::Path),
        };
        source.map_err(|fault| D::Error::custom(Told(&fault)))
    }
}

/// A source by its path, or paths, alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePath {
    /// A file, a folder, a pattern, or a list of those.
    pub path: Paths,
}

/// Batch memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Most bytes for the ring, row indexes and unpacked files together; without one, unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// What happens to a batch that no slot may hold.
    pub overflow: Overflow,
    /// What kind of memory slots are.
    pub kind: MemoryKind,
    /// How long `next` waits when every slot is in the caller's hands.
    pub lease_wait_ms: u64,
    /// How long `reset` and dropping wait for work in progress.
    pub close_wait_ms: u64,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            budget_bytes: None,
            overflow: Overflow::Fail,
            kind: MemoryKind::Anonymous,
            lease_wait_ms: 10_000,
            close_wait_ms: 10_000,
        }
    }
}

/// What kind of memory slots are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Anonymous pages.
    #[default]
    Anonymous,
    /// Mapped temporary files.
    TempFile {
        /// Most bytes of files.
        limit_bytes: u64,
        /// Where they are made; by default in the system's temporary folder.
        #[serde(default)]
        folder: Option<PathBuf>,
    },
    /// Page-locked pages, from which this device copies fastest; of the `host`, which copies from any pages, ordinary ones.
    /// Where the system refuses to lock, ordinary pages are used, with one warning. The device is opened when the
    /// workspace is built; without it, or in a Ringfeed that was built without CUDA, that is an error.
    PageLocked {
        /// The device.
        device: DeviceName,
    },
}

impl Default for LoaderConfig {
    /// No source yet, and every other setting at its default.
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            source: None,
            fields: Vec::new(),
            prepared: None,
            prepare: None,
            mix: Vec::new(),
            batch_size: default_batch_size(),
            shuffle: None,
            shuffle_blocks: None,
            split: None,
            folds: None,
            windows: None,
            filter: None,
            stratify: None,
            group: None,
            class_balanced: false,
            bucket: None,
            samples_per_epoch: None,
            shard: Shard::default(),
            remainder: Remainder::default(),
            last_batch: LastBatch::default(),
            bad_records: BadRecords::default(),
            shorter: false,
            normalise: BTreeMap::new(),
            augment: BTreeMap::new(),
            transforms: Vec::new(),
            workers: None,
            worker_cores: Vec::new(),
            worker_nice: 0,
            worker_share: None,
            prefetch: None,
            across_epochs: default_across_epochs(),
            fetch_limit: None,
            shield: false,
            trace: None,
            metrics: None,
            memory: MemoryConfig::default(),
        }
    }
}

impl LoaderConfig {
    /// Threads that fill batches: as many as asked for, or one for each core that they may use, also to begin with where the number
    /// is found.
    pub fn worker_threads(&self) -> usize {
        self.workers.and_then(Amount::number).unwrap_or_else(|| self.manners().workers())
    }

    pub(super) fn manners(&self) -> Manners {
        Manners { cores: self.worker_cores.clone(), nice: self.worker_nice, share: self.worker_share }
    }

    /// How many finished batches may wait for the trainer: as many as asked for, or so many that there are two samples
    /// for each worker, and 2 at least; 2 to begin with where the number is found.
    pub fn prefetch_batches(&self) -> usize {
        let samples = 2 * self.worker_threads();
        match self.prefetch {
            Some(Amount::Exactly(batches)) => batches,
            Some(Amount::Auto) => LEAST_PREFETCH,
            None => samples.div_ceil(self.batch_size.max(1)).clamp(LEAST_PREFETCH, 4096),
        }
    }

    /// The same settings with the numbers that a run of them has found, by its figures, in place of `"auto"`.
    ///
    /// ```
    /// use ringfeed::workspace::Amount;
    /// use ringfeed::{DataSetIterator, Loader};
    ///
    /// let loader = Loader::csv("fixtures/iris.csv").workers(Amount::Auto).prefetch(Amount::Auto);
    /// let mut train = loader.build()?;
    /// for epoch in train.epochs(3) {
    ///     epoch?.for_each(drop);
    /// }
    /// let tuned = loader.config().tuned(&train.stats());
    /// assert!(tuned.workers.and_then(Amount::number).is_some_and(|workers| workers > 0));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn tuned(&self, stats: &Stats) -> Self {
        let found = |setting: Option<Amount>, number| match setting {
            Some(Amount::Auto) => Some(Amount::Exactly(number)),
            given => given,
        };
        Self {
            workers: found(self.workers, stats.workers.threads.max(1)),
            prefetch: found(self.prefetch, stats.queue.prefetch),
            ..self.clone()
        }
    }

    /// The settings of one source, all others at their defaults.
    pub fn new(source: SourceConfig) -> Self {
        Self { sources: vec![source], ..Self::default() }
    }

    /// The settings for whatever lies at `path`: its format is detected ([`Formats::detect`]), everything else has its default.
    /// Of a folder of IDX files, those are the features with most records and their labels.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name; [`ErrorKind::Format`](crate::ErrorKind::Format) if it is nothing that Ringfeed reads.
    pub fn for_path(path: impl AsRef<Path>) -> Result<Self> {
        Self::for_path_with(path, &Formats::new())
    }

    /// As [`for_path`](Self::for_path), of one of these formats.
    ///
    /// # Errors
    ///
    /// As [`for_path`](Self::for_path).
    pub fn for_path_with(path: impl AsRef<Path>, formats: &Formats) -> Result<Self> {
        Ok(Self { sources: formats.detect(path)?, ..Self::default() })
    }

    /// The field that says by itself which samples there are, of the first source.
    pub(super) fn chosen_by(&self) -> Option<Field> {
        let fields = self.sources.first().map_or(&self.fields, |source| &source.fields);
        fields.iter().find_map(|(_, field)| field.choice())
    }

    /// Whether samples come as a source has them: all of them, in its order.
    pub(super) fn is_in_order(&self) -> bool {
        self.shuffle.is_none()
            && self.mix.is_empty()
            && !(self.split.is_some() || self.folds.is_some() || self.samples_per_epoch.is_some())
            && self.bucket.is_none()
            && self.filter.is_none()
            && self.windows.is_none()
            && self.chosen_by().is_none()
            && self.shard.count == 1
            && self.last_batch != LastBatch::Pad
            && !matches!(self.bad_records, BadRecords::Replace(_))
    }
}
