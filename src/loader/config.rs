use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::dataset::{BadRecords, Buckets, DEFAULT_BATCH_SIZE, Folds, LastBatch, Split};
use crate::device::DeviceName;
use crate::error::Result;
use crate::normalise::NormaliserConfig;
use crate::positions::{Remainder, Shard};
use crate::prefetch::{Amount, LEAST_PREFETCH, Manners, is_tuned};
use crate::prepare::{PreparedConfig, Recipe};
use crate::read::fields::Field;
use crate::read::format::no_such_key;
use crate::read::{Formats, Paths, Sequences, SourceConfig, Windows};
use crate::ring::Overflow;
use crate::stats::{MetricsAddress, Stats};
use crate::storage::FetchLimit;
use crate::transform::{NumberAugment, Operation};
use crate::tree::{Node, Told};

use super::weights::Mix;

/// All settings of a [`Loader`](crate::Loader), as plain data: TOML or JSON. A setting that is left out has its
/// default; a name that does not exist is an error.
///
/// Settings files have short forms: a name alone stands for a choice whose parts have defaults (`bad_records = "skip"`,
/// `cut = "contiguous"`), or for an operation (`augment = ["horizontal_flip"]`), and `"imagenet"` for that normaliser.
/// For every fault, [`LoaderConfig::load`] names the key, the line, and what is allowed there.
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
    /// The sources: one, or several that each give some tensors of every sample. A settings file may leave them out if
    /// the program that loads it adds them.
    #[serde(default)]
    pub sources: Vec<SourceConfig>,
    /// The only source, instead of `sources`: its path, in which case the format is detected, or a table like one of
    /// `sources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<OnlySource>,
    /// The tensors of a sample by name, and the field that each is made of. If empty, the default tensors of the
    /// source.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::read::fields::by_name")]
    pub fields: Vec<(String, Field)>,
    /// A fitted recipe, whose tensors are added to those of `fields`: a file that
    /// [`Prepared::save`](crate::prepare::Prepared::save) wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedConfig>,
    /// The recipe that `ringfeed fit` fits to these samples and saves as `prepared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Recipe>,
    /// Draws samples from the sources in proportion to these weights, instead of reading the sources side by side: a
    /// weight for each of `sources`, or a table of paths with their weights instead of `sources`. All sources must give
    /// the same tensors.
    #[serde(default, skip_serializing_if = "Mix::is_empty")]
    pub mix: Mix,
    /// Number of samples per batch.
    #[serde(default = "default_batch_size")]
    pub batch_size: usize,
    /// Seed of the shuffle. Without one, samples keep the source's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// Number of neighbouring chunks whose samples are shuffled together, after the order of the chunks was shuffled. A
    /// chunk is a unit that a file stores, such as a row group, or a run of 1024 records. Without this number, all
    /// samples are shuffled together. In settings files also `shuffle = { seed, blocks }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle_blocks: Option<u64>,
    /// One part of a split into train, validation and test data, by the names of the first source's samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// One of several folds for cross-validation, or all others. If there is a split, folds of its part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folds: Option<Folds>,
    /// Windows of consecutive records as samples, instead of single records; by default those of `prepared`, if it has
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
    /// Sequences of records as samples, instead of single records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<Sequences>,
    /// The condition that samples must fulfil, on tensors of any source, on fields of the first one, or on their lengths:
    /// `label != 3 and (kind in ['cat', 'dog'] or len(tokens) > 5)`. Split and folds are made of these samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The field to stratify by: each part of the split, and each fold, has the same share of every value of this
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stratify: Option<String>,
    /// The field to group by: samples with equal values stay together, in one part of the split or in one fold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether samples are drawn with replacement, so that each class is drawn equally often.
    #[serde(default)]
    pub class_balanced: bool,
    /// The tensor of any source, or the field of the first one, whose numbers are weights: samples are drawn with replacement, in proportion to
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_by: Option<String>,
    /// Groups samples of similar length into batches, so that they need little padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Buckets>,
    /// Number of samples per epoch, if it is not the number of samples in the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_epoch: Option<u64>,
    /// This process's share of the samples.
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
    /// Whether several sources of unequal length end with the shortest one. Otherwise unequal lengths are an error.
    #[serde(default)]
    pub shorter: bool,
    /// Normalisers by tensor name: a file that [`Normaliser::save`](crate::Normaliser::save) wrote, or the parameters
    /// themselves.
    #[serde(default)]
    pub normalise: BTreeMap<String, NormaliserConfig>,
    /// Random operations by tensor name, after normalisation. Leave them out for evaluation. (Operations on images
    /// belong to their field.)
    #[serde(default)]
    pub augment: BTreeMap<String, Vec<NumberAugment>>,
    /// Transforms of tensors after they are decoded, normalised and augmented, applied in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<Operation>,
    /// Number of threads that fill batches; by default one for each core that they may use. `"auto"` tunes it during
    /// the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Amount>,
    /// The cores that workers run on, by the system's numbers; by default all that the process may use. See
    /// [`WorkspaceBuilder::worker_cores`](crate::workspace::WorkspaceBuilder::worker_cores).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worker_cores: Vec<usize>,
    /// Niceness of workers, from 0 (like other threads) to 19. See
    /// [`WorkspaceBuilder::worker_nice`](crate::workspace::WorkspaceBuilder::worker_nice).
    #[serde(default)]
    pub worker_nice: u8,
    /// Maximum share of the cores' time that workers use together, from 0 to 1; without it, no limit. See
    /// [`WorkspaceBuilder::worker_share`](crate::workspace::WorkspaceBuilder::worker_share).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_share: Option<f64>,
    /// Number of finished batches that may wait for the trainer; by default 2, and more if batches are small (see
    /// [`LoaderConfig::prefetch_batches`]). `"auto"` tunes it during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Amount>,
    /// Whether prefetch continues into the next epoch when all batches of an epoch are planned.
    #[serde(default = "default_across_epochs")]
    pub across_epochs: bool,
    /// Maximum time for reading one sample's bytes; without it, no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_limit: Option<FetchLimit>,
    /// Whether batches are made on the caller's thread, without prefetch.
    #[serde(default)]
    pub shield: bool,
    /// A file for a [`Trace`](crate::stats::Trace) of all threads, written when iterator and workspace drop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Where statistics of the run are served over HTTP, in Prometheus' text format, while the iterator lives: a port
    /// that only this machine can reach, or an address. Needs the feature `metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsAddress>,
    /// Batch memory.
    #[serde(default)]
    pub memory: MemoryConfig,
}

fn default_batch_size() -> usize {
    DEFAULT_BATCH_SIZE
}

fn default_across_epochs() -> bool {
    true
}

/// The only source of a loader.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum OnlySource {
    /// By its path; the format is detected.
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
            Node::Table(entries) => match entries.iter().find(|(key, _)| key != "path") {
                Some((key, _)) => Err(no_such_key(key)),
                None => SourcePath::deserialize(&node).map(Self::Path),
            },
            // The path alone.
            _ => Paths::deserialize(&node).map(|path| Self::Path(SourcePath { path })),
        };
        source.map_err(|fault| D::Error::custom(Told(&fault)))
    }
}

/// A source by its path, or by several paths.
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
    /// Maximum number of bytes for the ring, row indexes and unpacked files together; without it, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// What to do with a batch for which there is no slot, or not enough memory.
    pub overflow: Overflow,
    /// The kind of memory that slots use.
    pub kind: MemoryKind,
    /// How long `next` waits when the caller holds every slot, in milliseconds.
    pub lease_wait_ms: u64,
    /// How long `reset` and dropping wait for work in progress, in milliseconds.
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

/// The kind of memory that slots use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Anonymous pages.
    #[default]
    Anonymous,
    /// Mapped temporary files, which a forked child shares: what it writes into a batch that it got from its parent
    /// changes the parent's, and the other way round. See [`TempFilePages`](crate::memory::TempFilePages).
    TempFile {
        /// Maximum number of bytes of all files.
        limit_bytes: u64,
        /// The folder for them; by default the system's temporary folder.
        #[serde(default)]
        folder: Option<PathBuf>,
    },
    /// Page-locked memory, from which this device copies fastest; for the `host`, ordinary memory. If the system
    /// refuses to lock pages, ordinary pages are used, with one warning. The device is opened when the workspace is
    /// built. It is an error if there is no such device, or if Ringfeed was built without CUDA.
    PageLocked {
        /// The device.
        device: DeviceName,
    },
}

impl Default for LoaderConfig {
    /// No source, and every other setting at its default.
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            source: None,
            fields: Vec::new(),
            prepared: None,
            prepare: None,
            mix: Mix::default(),
            batch_size: default_batch_size(),
            shuffle: None,
            shuffle_blocks: None,
            split: None,
            folds: None,
            windows: None,
            sequences: None,
            filter: None,
            stratify: None,
            group: None,
            class_balanced: false,
            weight_by: None,
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
    /// Number of threads that fill batches: the number that is set, otherwise one for each core that they may use.
    /// `"auto"` begins with the latter.
    pub fn worker_threads(&self) -> usize {
        self.workers.and_then(Amount::number).unwrap_or_else(|| self.manners().workers())
    }

    pub(super) fn manners(&self) -> Manners {
        Manners { cores: self.worker_cores.clone(), nice: self.worker_nice, share: self.worker_share }
    }

    /// Number of finished batches that may wait for the trainer: the number that is set, otherwise enough for two
    /// samples per worker, and at least 2. If batches are small, there are more, as their bytes allow
    /// ([`WorkspaceBuilder::prefetch`](crate::workspace::WorkspaceBuilder::prefetch)). `"auto"` begins with the same
    /// numbers.
    pub fn prefetch_batches(&self) -> usize {
        let samples = 2 * self.worker_threads();
        match self.prefetch {
            Some(Amount::Exactly(batches)) => batches,
            None | Some(Amount::Auto) => samples.div_ceil(self.batch_size.max(1)).clamp(LEAST_PREFETCH, 4096),
        }
    }

    /// These settings with the numbers that a run has found (from its statistics) in place of `"auto"`.
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
        let found = |setting, number| if is_tuned(setting) { Some(Amount::Exactly(number)) } else { setting };
        Self {
            workers: found(self.workers, stats.workers.threads.max(1)),
            prefetch: found(self.prefetch, stats.queue.prefetch),
            ..self.clone()
        }
    }

    /// The settings for one source, with all other settings at their defaults.
    pub fn new(source: SourceConfig) -> Self {
        Self { sources: vec![source], ..Self::default() }
    }

    /// The settings for the file or folder at `path`: its format is detected ([`Formats::detect`]), everything else has
    /// its default. In a folder of IDX files, these are the features with the most records and their labels.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name;
    /// [`ErrorKind::Format`](crate::ErrorKind::Format) if Ringfeed does not read it.
    pub fn for_path(path: impl AsRef<Path>) -> Result<Self> {
        Self::for_path_with(path, &Formats::new())
    }

    /// As [`for_path`](Self::for_path), with these formats.
    ///
    /// # Errors
    ///
    /// As [`for_path`](Self::for_path).
    pub fn for_path_with(path: impl AsRef<Path>, formats: &Formats) -> Result<Self> {
        Ok(Self { sources: formats.detect(path)?, ..Self::default() })
    }

    /// The field of the first source that selects samples without further settings.
    pub(super) fn chosen_by(&self) -> Option<Field> {
        let fields = self.sources.first().map_or(&self.fields, |source| &source.fields);
        fields.iter().find_map(|(_, field)| field.choice())
    }

    /// Whether samples are chosen, ordered or put together by fields of theirs.
    pub(super) fn chooses_by_fields(&self) -> bool {
        [&self.filter, &self.weight_by, &self.stratify, &self.group].into_iter().any(Option::is_some)
            || self.class_balanced
            || self.bucket.is_some()
            || self.consists_of_several()
    }

    /// The names of all fields, in the order of their tensors.
    pub(super) fn names_in_order(&self) -> Vec<String> {
        self.sources.iter().flat_map(|source| &source.fields).map(|(name, _)| name.clone()).collect()
    }

    /// Whether a sample consists of several records.
    pub(super) fn consists_of_several(&self) -> bool {
        self.windows.is_some() || self.sequences.is_some()
    }

    /// Whether all samples come in the source's order.
    pub(super) fn is_in_order(&self) -> bool {
        self.shuffle.is_none()
            && self.mix.is_empty()
            && !(self.split.is_some() || self.folds.is_some() || self.samples_per_epoch.is_some())
            && self.bucket.is_none()
            && self.filter.is_none()
            && !self.consists_of_several()
            && self.chosen_by().is_none()
            && self.shard.count == 1
            && self.last_batch != LastBatch::Pad
            && !matches!(self.bad_records, BadRecords::Replace(_))
    }
}
