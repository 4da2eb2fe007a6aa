//! The settings of a loader, one method each.

use std::path::PathBuf;

use crate::dataset::{BadRecords, Buckets, Folds, LastBatch, Split};
use crate::positions::Shard;
use crate::prefetch::Amount;
use crate::read::fields::{Class, Field, Numbers};
use crate::read::{ColumnRef, Formats, SavedIndex, Sequences, SourceConfig, Windows};
use crate::schema::Role;
use crate::stats::MetricsAddress;
use crate::storage::{Access, Files, Mapping};

use super::Loader;
use super::config::MemoryKind;

impl Loader {
    /// The formats that a path in settings can have. Default: the formats of Ringfeed. Sources that are made in code know
    /// others [by themselves](SourceConfig::with_formats).
    #[must_use]
    pub fn formats(mut self, formats: Formats) -> Self {
        self.formats = formats;
        self
    }

    /// Adds a tensor with this name, made from a field of the source. Without fields, samples have the default tensors
    /// of the source.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        let name = name.into();
        if self.config.fields.iter().any(|(other, _)| *other == name) {
            self.faults.push(format!("fields.{name}: there are two fields of this name"));
        }
        self.config.fields.push((name, field.into()));
        self
    }

    /// Adds the tensors of another source to each sample.
    #[must_use]
    pub fn and(mut self, source: SourceConfig) -> Self {
        self.config.sources.push(source);
        self
    }

    /// Shorthand for two fields of a table: these columns, by name or position, become `labels`, and all other columns
    /// of numbers become `features`. A single column is a class; several columns are numbers.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::field::{Class, Numbers};
    ///
    /// let short = Loader::csv("fixtures/iris-species.csv").labels(["species"]);
    /// let long = Loader::csv("fixtures/iris-species.csv")
    ///     .field("features", Numbers::f32().from("*"))
    ///     .field("labels", Class.from("species"));
    /// assert_eq!(short.config(), long.config());
    /// ```
    #[must_use]
    pub fn labels<C: Into<ColumnRef>>(self, columns: impl IntoIterator<Item = C>) -> Self {
        let columns: Vec<ColumnRef> = columns.into_iter().map(Into::into).collect();
        let labels = match columns.as_slice() {
            [only] => Class.from(only.clone()),
            _ => Numbers::f32().from(columns).role(Role::Label),
        };
        self.field("features", Numbers::f32().from("*")).field("labels", labels)
    }

    /// Where to save the results of opening for the next run. These are the positions of the records of CSV, JSON
    /// Lines, libsvm, text and TFRecord files, the listing of a folder of images or sounds, and the index of tar
    /// archives. Default: nothing is saved.
    #[must_use]
    pub fn saved_index(mut self, saved: SavedIndex) -> Self {
        match self.config.sources.last_mut().and_then(SourceConfig::saved_index_mut) {
            Some(own) => *own = saved,
            None => self.faults.push("saved_index: sources of this format have no index to save".to_owned()),
        }
        self
    }

    /// Number of samples per batch. Default: 32.
    #[must_use]
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.config.batch_size = samples;
        self
    }

    /// Shuffles with this seed, in a different order in each epoch. Default: the order of the source.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.config.shuffle = Some(seed);
        self
    }

    /// Shuffles the order of chunks, and then the samples of this many neighbouring chunks together, instead of all
    /// samples; see [`LoaderConfig::shuffle_blocks`](crate::LoaderConfig::shuffle_blocks). With
    /// [`shuffle`](Self::shuffle).
    #[must_use]
    pub fn shuffle_blocks(mut self, chunks: u64) -> Self {
        self.config.shuffle_blocks = Some(chunks);
        self
    }

    /// Uses one part of a split into train, validation and test data. Default: all samples.
    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.config.split = Some(split);
        self
    }

    /// Uses one of several folds, or all others. With a split, the folds are folds of its part. Default: all samples.
    #[must_use]
    pub fn folds(mut self, folds: Folds) -> Self {
        self.config.folds = Some(folds);
        self
    }

    /// Groups samples of similar length into batches, by the length of this tensor, and pads them to these bounds; see
    /// [`Buckets`](crate::order::Buckets). Default: samples of any length together, padded to the longest of their
    /// batch.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::field::Tokens;
    ///
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let path = folder.path().join("texts.jsonl");
    /// # std::fs::write(&path, "{\"ids\": [5, 6, 7]}\n{\"ids\": [8]}\n").expect("a file");
    /// let texts = Loader::open(path)?.field("ids", Tokens::from("/ids")).bucket("ids", [2, 4]).tokens_per_batch(8);
    /// let shapes: Vec<_> = texts.build()?.flatten().map(|batch| batch.features().unwrap().shape().to_vec()).collect();
    /// assert_eq!(shapes, [[1, 2], [1, 4]]);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn bucket(mut self, tensor: impl Into<String>, bounds: impl IntoIterator<Item = u32>) -> Self {
        self.config.bucket = Some(Buckets::new(tensor, bounds));
        self
    }

    /// Maximum sum of the lengths of a batch, padding included, instead of a number of samples. For
    /// [`bucket`](Self::bucket).
    #[must_use]
    pub fn tokens_per_batch(mut self, tokens: u64) -> Self {
        match &mut self.config.bucket {
            Some(bucket) => bucket.tokens_per_batch = Some(tokens),
            None => self.faults.push("tokens_per_batch: call bucket first, which names the tensor".to_owned()),
        }
        self
    }

    /// Uses only samples whose fields fulfil a condition. Splits and folds are made of these samples. Names are tensors
    /// of any source that are made of one field, or else fields of the first source. Values are numbers, `inf` and `-inf`, texts in
    /// quotes, or `missing`. A field is `missing` if it has no value, or is null, NaN or blank text. In a CSV file, the
    /// `missing_tokens` are `missing`, too (`NA` is one by default). This does not depend on what tensors are made of
    /// the field. A missing field is neither equal nor unequal to any value. `len(name)` is a length: the number of
    /// values in a list, of characters in a text (in a CSV file everything is text), or of steps in a sequence, a sound
    /// or tokenized text. Numbers are compared exactly, as they are stored: 0.9 that is stored as f32 is 0.89999998,
    /// and so less than 0.9. In text, integers of up to 106 bits are exact, also if they end in `.0`. All other numbers
    /// in text are rounded to the nearest f64. The named fields are read once, when the loader is opened; a bad value
    /// is an error under every policy. Default: all samples. To use a function of your own, call
    /// [`filter_by`](Self::filter_by).
    ///
    /// ```
    /// use ringfeed::Loader;
    ///
    /// let some = Loader::csv("fixtures/iris-species.csv").filter("species in ['setosa', 'virginica'] and petal_length >= 1.5");
    /// assert_eq!(some.plan()?.samples, Some(76));
    /// let long = Loader::csv("fixtures/iris-species.csv").filter("len(species) > 9");
    /// assert_eq!(long.plan()?.samples, Some(50));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn filter(mut self, condition: impl Into<String>) -> Self {
        self.config.filter = Some(condition.into());
        self
    }

    /// Makes each sample a window of consecutive records, for forecasting. See [`Windows`](crate::read::Windows).
    /// Default: the windows of the [fitted recipe](Self::prepare), if it has any.
    #[must_use]
    pub fn windows(mut self, windows: Windows) -> Self {
        self.config.windows = Some(windows);
        self
    }

    /// Makes each sample a sequence of records, for models that take any number of steps. See
    /// [`Sequences`](crate::read::Sequences). Default: samples are single records.
    #[must_use]
    pub fn sequences(mut self, sequences: Sequences) -> Self {
        self.config.sequences = Some(sequences);
        self
    }

    /// Gives each part of a split, and each fold, the same share of every value of this field; see
    /// [`Strata`](crate::order::Strata). Default: only the names of the samples decide.
    #[must_use]
    pub fn stratify(mut self, field: impl Into<String>) -> Self {
        self.config.stratify = Some(field.into());
        self
    }

    /// Keeps all samples with the same value of this field in one part of a split, or in one fold; see
    /// [`Strata`](crate::order::Strata). A sample without a value is an error. Default: only the names of the samples
    /// decide.
    #[must_use]
    pub fn group(mut self, field: impl Into<String>) -> Self {
        self.config.group = Some(field.into());
        self
    }

    /// Draws samples with replacement, so that each class is drawn equally often: the first label with names of classes,
    /// otherwise the first one of integers. Needs the seed of [`shuffle`](Self::shuffle). Default: each sample once.
    #[must_use]
    pub fn class_balanced(mut self) -> Self {
        self.config.class_balanced = true;
        self
    }

    /// Draws samples with replacement, in proportion to weights: the numbers of this tensor of any source, or of this
    /// field of the first one. A sample with weight 0 is never drawn; a missing or negative weight is an error.
    /// The field is read once, when the loader is opened. Needs the seed of [`shuffle`](Self::shuffle). Default: each
    /// sample once.
    ///
    /// ```
    /// use ringfeed::Loader;
    ///
    /// let flowers = Loader::csv("fixtures/iris-species.csv").weight_by("petal_width").samples_per_epoch(3000).shuffle(42);
    /// let mut drawn = [0; 3];
    /// for batch in flowers.build()? {
    ///     batch?.sample_ids().iter().for_each(|flower| drawn[*flower as usize / 50] += 1);
    /// }
    /// // Petals of the three species are 0.25, 1.33 and 2.03 cm wide on average.
    /// assert!((150..270).contains(&drawn[0]) && (1000..1220).contains(&drawn[1]));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn weight_by(mut self, field: impl Into<String>) -> Self {
        self.config.weight_by = Some(field.into());
        self
    }

    /// Number of samples per epoch. Default: the number of samples in the data.
    #[must_use]
    pub fn samples_per_epoch(mut self, samples: u64) -> Self {
        self.config.samples_per_epoch = Some(samples);
        self
    }

    /// Uses only this process's share of the samples. Every share has the same number of batches. Default: all samples.
    #[must_use]
    pub fn shard(mut self, shard: Shard) -> Self {
        self.config.shard = shard;
        self
    }

    /// What to do with an incomplete last batch. Default: keep it.
    #[must_use]
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.config.last_batch = last_batch;
        self
    }

    /// What to do with bad records. Default: the first one ends the epoch with its error.
    #[must_use]
    pub fn bad_records(mut self, policy: BadRecords) -> Self {
        self.config.bad_records = policy;
        self
    }

    /// Number of threads that fill batches, or [`Amount::Auto`] to tune it during the run. Default: one for each core
    /// that they may use.
    #[must_use]
    pub fn workers(mut self, threads: impl Into<Amount>) -> Self {
        self.config.workers = Some(threads.into());
        self
    }

    /// The cores that workers run on; see [`worker_cores`](crate::workspace::WorkspaceBuilder::worker_cores). Default:
    /// all that the process may use.
    #[must_use]
    pub fn worker_cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.config.worker_cores = cores.into_iter().collect();
        self
    }

    /// Niceness of workers, from 0 to 19; see [`worker_nice`](crate::workspace::WorkspaceBuilder::worker_nice).
    /// Default: 0.
    #[must_use]
    pub fn worker_nice(mut self, nice: u8) -> Self {
        self.config.worker_nice = nice;
        self
    }

    /// Maximum share of the cores' time that workers use together, from 0 to 1; see
    /// [`worker_share`](crate::workspace::WorkspaceBuilder::worker_share). Default: no limit.
    #[must_use]
    pub fn worker_share(mut self, share: f64) -> Self {
        self.config.worker_share = Some(share);
        self
    }

    /// Number of finished batches that may wait for the trainer, or [`Amount::Auto`] to tune it during the run.
    /// Default: 2, and more if batches are small; see [`prefetch`](crate::workspace::WorkspaceBuilder::prefetch).
    #[must_use]
    pub fn prefetch(mut self, batches: impl Into<Amount>) -> Self {
        self.config.prefetch = Some(batches.into());
        self
    }

    /// Makes batches on the caller's thread, without prefetch.
    #[must_use]
    pub fn shield(mut self) -> Self {
        self.config.shield = true;
        self
    }

    /// Writes a [`Trace`](crate::stats::Trace) of all threads to this file, when iterator and workspace are dropped.
    /// Default: no trace.
    #[must_use]
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.trace = Some(path.into());
        self
    }

    /// Serves statistics of the run over HTTP, in Prometheus' text format, while the iterator lives: at a port that
    /// only this machine can reach, or at an address. Needs the feature `metrics`. Default: no.
    #[must_use]
    pub fn metrics(mut self, address: impl Into<MetricsAddress>) -> Self {
        self.config.metrics = Some(address.into());
        self
    }

    /// Maximum number of bytes of memory for the ring, row indexes and unpacked files together. Default: no limit.
    #[must_use]
    pub fn budget(mut self, bytes: u64) -> Self {
        self.config.memory.budget_bytes = Some(bytes);
        self
    }

    /// The kind of memory that slots use. Default: anonymous pages.
    #[must_use]
    pub fn memory(mut self, kind: MemoryKind) -> Self {
        self.config.memory.kind = kind;
        self
    }

    /// The storage that holds the files of the sources. Default: the files of this machine.
    ///
    /// ```
    /// # use std::{ops::Range, path::Path, sync::Arc};
    /// use ringfeed::Loader;
    /// use ringfeed::arrays::NpyOptions;
    /// use ringfeed::memory::MemoryBudget;
    /// use ringfeed::storage::Files;
    /// # struct Bucket;
    /// # impl ringfeed::storage::Storage for Bucket {
    /// #     fn file_len(&self, path: &Path) -> ringfeed::Result<u64> {
    /// #         Ok(std::fs::metadata(path).map_err(|error| ringfeed::Error::io(path, error))?.len())
    /// #     }
    /// #     fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> ringfeed::Result<u64> {
    /// #         let bytes = std::fs::read(path).map_err(|error| ringfeed::Error::io(path, error))?;
    /// #         into.clear();
    /// #         into.extend_from_slice(&bytes[range.start as usize..(range.end as usize).min(bytes.len())]);
    /// #         Ok(bytes.len() as u64)
    /// #     }
    /// # }
    ///
    /// let files = Files::of(Arc::new(Bucket), &MemoryBudget::new(1 << 30)); // `Bucket` implements `Storage`
    /// let train = Loader::csv("fixtures/iris.csv").files(files.clone()).shuffle(42).build()?;
    /// assert_eq!(train.flatten().map(|batch| batch.len()).sum::<usize>(), 150);
    /// println!("{:?}", files.stats());
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn files(mut self, files: Files) -> Self {
        self.files = files;
        self
    }

    /// Maps the files whose settings say `access = "map"`. This needs a promise that only code can make. It applies to
    /// the sources that the loader has now.
    ///
    /// ```
    /// use ringfeed::{Loader, LoaderConfig};
    /// use ringfeed::storage::Mapping;
    ///
    /// let settings = r#"{ "sources": [{ "format": "csv", "path": "fixtures/iris.csv", "options": { "access": "map" } }] }"#;
    /// let config: LoaderConfig = serde_json::from_str(settings).expect("the example is valid");
    /// assert!(Loader::from(config.clone()).build().is_err());
    /// // SAFETY: the files are never written again.
    /// let promise = unsafe { Mapping::promise() };
    /// let batches = Loader::from(config).mapping(promise).build()?;
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn mapping(mut self, promise: Mapping) -> Self {
        let wishes = self.config.sources_mut().filter_map(SourceConfig::access_mut);
        wishes.filter(|access| access.lacks_promise()).for_each(|access| *access = Access::Map(promise));
        self
    }
}
