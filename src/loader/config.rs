use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::dataset::{BadLimits, BadRecords, Buckets, Folds, LastBatch, Split};
use crate::device::DeviceName;
use crate::error::{Error, ErrorKind, Result, missing_path};
use crate::files;
use crate::filter::Filter;
use crate::normalise::NormaliserConfig;
use crate::order::{Remainder, Shard};
use crate::prefetch::{Amount, LEAST_PREFETCH, Manners};
use crate::prepare::{PreparedConfig, Recipe};
use crate::read::fields::Field;
use crate::read::format::with_formats;
use crate::read::{Formats, Paths, SourceConfig, Windows, is_pattern};
use crate::ring::Overflow;
use crate::stats::{MetricsAddress, Stats};
use crate::storage::{FetchLimit, Files, NO_PROMISE};
use crate::transform::{NumberAugment, Operation};
use crate::tree::{Node, Told, under};

use super::own::Own;
use super::settings::{self, Language};

/// Most bytes of a file of settings: enough for lists of some hundred thousand names.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

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

    fn manners(&self) -> Manners {
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

    /// Writes these settings as TOML, or as JSON where the name ends so, with every path as it is from the root.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut config = self.clone();
        for own in config.paths_mut() {
            *own = std::path::absolute(&*own).map_err(|error| Error::io(&*own, error))?;
        }
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let text = match is_json {
            true => serde_json::to_string_pretty(&config).map_err(|error| error.to_string()),
            false => toml::to_string(&config).map_err(|error| error.to_string()),
        };
        let text = text.map_err(|error| {
            Error::new(ErrorKind::Config, format!("these settings can't be written: {error}")).at_path(path)
        })?;
        files::write_whole(path, &[text.as_bytes()]).map_err(|error| Error::io(path, error))
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

    /// Reads settings from a `.json` or `.toml` file. Relative paths in it are taken from the file's own folder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name; [`ErrorKind::Config`](crate::ErrorKind::Config), with the line, for what is no such setting.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &Formats::new())
    }

    /// As [`load`](Self::load); sources may be of these formats.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_with(path: impl AsRef<Path>, formats: &Formats) -> Result<Self> {
        let path = path.as_ref();
        let text = files::read_text(path, "a file of settings", MAX_SETTINGS_BYTES)?;
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let language = if is_json { Language::Json } else { Language::Toml };
        let mut config: Self =
            with_formats(formats, || settings::parse(&text, language)).map_err(|error| error.at_path(path))?;
        if let Some(folder) = path.parent() {
            config.paths_mut().for_each(|path| *path = folder.join(&*path));
        }
        Ok(config)
    }

    /// The settings that a text of JSON says, in the same language as a file: what stands short there may stand short here.
    /// Relative paths are taken from the current folder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for what is no such setting, with the key, what is allowed there, and the line.
    pub fn from_json(text: &str) -> Result<Self> {
        settings::parse(text, Language::Json)
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = self.normalise.values_mut().filter_map(|normaliser| match normaliser {
            NormaliserConfig::File(path) => Some(path),
            NormaliserConfig::Inline(_) => None,
        });
        let files = files.chain(self.trace.as_mut());
        let files = files.chain(self.transforms.iter_mut().filter_map(Operation::path_mut));
        let files = files.chain(self.fields.iter_mut().filter_map(|(_, field)| field.path_mut()));
        let files = files.chain(self.prepared.as_mut().and_then(PreparedConfig::path_mut));
        let files = files.chain(self.prepare.iter_mut().flat_map(Recipe::paths_mut));
        let (path, named) = match &mut self.source {
            Some(OnlySource::Path(source)) => (Some(&mut source.path), None),
            Some(OnlySource::Named(source)) => (None, Some(source)),
            None => (None, None),
        };
        let sources = self.sources.iter_mut().chain(named);
        sources.flat_map(SourceConfig::paths_mut).chain(path.into_iter().flat_map(Paths::iter_mut)).chain(files)
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

    /// What can't be asked of data of the user's own.
    fn fault_of_own(&self, own: &Own) -> Option<&'static str> {
        match own {
            Own::Container(_) if self.fields.is_empty() && self.prepared.is_none() => {
                Some("fields: say what tensors are made of; a container gives values alone")
            }
            Own::Samples(_) if !self.fields.is_empty() || self.prepared.is_some() => {
                Some("fields: the samples of an iterator are tensors already")
            }
            Own::Samples(_) if !self.is_in_order() || self.class_balanced => Some(
                "shuffle, split, folds, class_balanced, bucket, filter, windows, samples_per_epoch, shard, last_batch = \"pad\" and bad_records = \
                 \"replace\" need samples that are read at random: an iterator gives them in its own order alone",
            ),
            _ => None,
        }
    }

    /// As `faults`, but for those of fields. `is_only` tells that the only one of the sources is `source`.
    pub(super) fn faults_but_fields(&self, is_only: bool, files: &Files, own: Option<&Own>) -> Vec<String> {
        let mut faults = Vec::new();
        match (&self.source, self.sources.as_slice()) {
            (None, []) if own.is_some() => faults.extend(own.and_then(|own| self.fault_of_own(own)).map(str::to_owned)),
            _ if own.is_some() => faults.push("sources: the samples are the user's own already".to_owned()),
            (None, []) => faults.push("sources: the list is empty; name at least one".to_owned()),
            (Some(_), []) => {}
            (Some(_), _) => faults.push("source: there are sources already; name all of them there".to_owned()),
            (None, [_, _, ..]) if !self.fields.is_empty() && self.mix.is_empty() => {
                faults.push("fields: they are those of one source; there are several".to_owned());
            }
            _ => {}
        }
        faults.extend(self.mix_fault());
        for (at, source) in self.sources.iter().enumerate() {
            let path = if is_only { "source".to_owned() } else { format!("sources[{at}]") };
            source_faults(source, &path, files, &mut faults);
        }
        if self.batch_size == 0 {
            faults.push("batch_size: a batch has at least one sample".to_owned());
        }
        faults.extend(under("shard", self.shard.faults()));
        faults.extend(self.split.iter().flat_map(|split| under("split", split.faults())));
        faults.extend(self.folds.iter().flat_map(|folds| under("folds", folds.faults())));
        faults.extend(self.bucket.iter().flat_map(|bucket| under("bucket", bucket.faults())));
        if self.bucket.is_some() && (self.class_balanced || self.samples_per_epoch.is_some()) {
            faults.push("bucket: each sample comes once; leave out class_balanced and samples_per_epoch".to_owned());
        }
        if let Some(windows) = &self.windows {
            faults.extend(under("windows", windows.faults()));
            if self.split.is_some() || self.folds.is_some() {
                let advice = "windows: neighbours have records in common, so that a split by chance would not part them; say by \
                              windows.part which records of each series are meant";
                faults.push(advice.to_owned());
            }
            if self.filter.is_some() {
                faults.push("windows: they are of neighbouring records; with a filter there would be gaps".to_owned());
            }
            if self.bucket.is_some() || self.class_balanced {
                faults
                    .push("windows: they have one length and no class; leave out bucket and class_balanced".to_owned());
            }
        }
        if let Some(filter) = &self.filter
            && let Err(error) = Filter::parse(filter)
        {
            faults.push(format!("filter: {}", error.message()));
        }
        for (name, field) in [("stratify", &self.stratify), ("group", &self.group)] {
            if field.is_some() && self.split.is_none() && self.folds.is_none() {
                faults.push(format!("{name}: parts and folds go by it; there is neither split nor folds"));
            }
        }
        match self.shuffle_blocks {
            Some(0) => faults.push("shuffle_blocks: one chunk at least is shuffled".to_owned()),
            Some(_) if self.shuffle.is_none() => {
                faults.push("shuffle_blocks: blocks are shuffled; give shuffle a seed".to_owned());
            }
            Some(_) if self.class_balanced || self.samples_per_epoch.is_some() || self.bucket.is_some() => {
                let message = "shuffle_blocks: does not go together with class_balanced, samples_per_epoch or bucket";
                faults.push(message.to_owned());
            }
            _ => {}
        }
        if self.class_balanced && self.shuffle.is_none() {
            faults.push("class_balanced: samples are drawn at random; give shuffle a seed".to_owned());
        }
        if self.shuffle.is_none() && self.sources.iter().any(SourceConfig::needs_shuffle) {
            faults.push("cut = \"random\": windows are drawn at random; give shuffle a seed".to_owned());
        }
        if let Some(workers) = self.workers.and_then(Amount::number).filter(|workers| !(1..=4096).contains(workers)) {
            faults.push(format!("workers: {workers}; there are 1 to 4096 (shield makes batches without any)"));
        }
        faults.extend(self.manners().faults());
        faults.extend(self.fetch_limit.into_iter().flat_map(|limit| under("fetch_limit", limit.faults())));
        if let Some(prefetch) = self.prefetch.and_then(Amount::number).filter(|prefetch| *prefetch > 4096) {
            faults.push(format!("prefetch: {prefetch}; at most 4096 batches may wait"));
        }
        if let Some(BadLimits { share: Some(share), .. }) = self.bad_records.limits()
            && !(0.0..=1.0).contains(&share)
        {
            faults.push(format!("bad_records: a share of {share}; it is between 0 and 1"));
        }
        if self.memory.budget_bytes == Some(0) {
            faults.push("memory.budget_bytes: nothing fits into 0 bytes".to_owned());
        }
        if let MemoryKind::TempFile { folder: Some(folder), .. } = &self.memory.kind
            && !folder.is_dir()
        {
            faults.push(format!("memory.kind.temp_file.folder: {} is no folder", folder.display()));
        }
        for (tensor, normaliser) in &self.normalise {
            faults.extend(under(format_args!("normalise.{tensor}"), normaliser.faults()));
        }
        match (&self.prepared, &self.prepare) {
            (Some(PreparedConfig::File(path)), _) if !path.exists() => {
                let advice = if self.prepare.is_some() { "; `ringfeed fit` writes it" } else { "" };
                faults.push(format!("prepared: {}{advice}", missing_path(path)));
            }
            (None, Some(_)) => {
                faults.push("prepare: say by `prepared` which file it is saved in once it is fitted".to_owned());
            }
            _ => {}
        }
        faults.extend(self.prepare.iter().flat_map(|recipe| under("prepare", recipe.faults())));
        for (tensor, operations) in &self.augment {
            let found = operations.iter().flat_map(NumberAugment::faults);
            faults.extend(under(format_args!("augment.{tensor}"), found));
        }
        for (at, operation) in self.transforms.iter().enumerate() {
            let missing = operation.path().filter(|path| !path.exists()).map(|path| missing_path(path).to_string());
            faults.extend(under(format_args!("transforms[{at}]"), operation.faults().into_iter().chain(missing)));
        }
        faults
    }
}

fn source_faults(source: &SourceConfig, key: &str, files: &Files, faults: &mut Vec<String>) {
    if files.are_local() && source.access().lacks_promise() {
        faults.push(format!("{}: {NO_PROMISE}", source.path().display()));
    }
    if files.are_local() {
        let mut source = source.clone();
        faults.extend(source.paths_mut().into_iter().filter_map(|path| match path.metadata() {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(metadata) => files::check_ordinary(path, &metadata).err().map(|error| error.to_string()),
            Err(_) if is_pattern(files, path) => None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(missing_path(path).to_string()),
            Err(error) => Some(Error::io(&*path, error).to_string()),
        }));
    }
    faults.extend(source.plain_faults(key));
}
