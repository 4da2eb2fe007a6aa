//! The settings of a loader, one method each.

use std::path::PathBuf;

use crate::dataset::{BadRecords, Buckets, Folds, LastBatch, Split};
use crate::decode::ImageAugment;
use crate::dtype::DType;
use crate::order::Shard;
use crate::prefetch::Amount;
use crate::read::fields::{Class, Field, Image, Numbers};
use crate::read::{ColumnRef, Formats, Images, SavedIndex, SourceConfig, Windows, usual_fields};
use crate::schema::Role;
use crate::stats::MetricsAddress;
use crate::storage::{Access, Files, Mapping};

use super::Loader;
use super::config::MemoryKind;

impl Loader {
    /// The formats among which that of a path in settings is looked for. Default: those of Ringfeed.
    #[must_use]
    pub fn formats(mut self, formats: Formats) -> Self {
        self.formats = formats;
        self
    }

    /// Adds a tensor of this name, made of a field of the source. Without any, samples have the tensors that the source gives
    /// by itself.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        let name = name.into();
        if self.config.fields.iter().any(|(other, _)| *other == name) {
            self.faults.push(format!("fields.{name}: there are two fields of this name"));
        }
        self.config.fields.push((name, field.into()));
        self
    }

    /// Adds the tensors of a further source to each sample.
    #[must_use]
    pub fn and(mut self, source: SourceConfig) -> Self {
        self.config.sources.push(source);
        self
    }

    /// Adds a folder of segmentation maps to the folder of images before it, with its options so far (so say these
    /// first): as the label tensor `map`, `u8` of `[height, width]`, resized, cropped and turned like the images. See
    /// [`ImageOptions`](crate::images::ImageOptions). For another name or type, add the source with [`and`](Self::and).
    ///
    /// ```no_run
    /// use ringfeed::Loader;
    /// use ringfeed::images::ImageAugment;
    ///
    /// let augment = [ImageAugment::random_resized_crop(), ImageAugment::horizontal_flip()];
    /// let loader = Loader::images("photos").size(512, 512).augment(augment).maps("annotations").shuffle(42);
    /// for batch in &mut loader.build()? {
    ///     let batch = batch?;
    ///     let (photos, maps) = (batch.features()?, batch.labels()?);
    ///     assert_eq!((photos.shape()[2], photos.shape()[3]), (maps.shape()[1], maps.shape()[2]));
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn maps(mut self, path: impl Into<PathBuf>) -> Self {
        let images = self.config.sources.last().filter(|source| source.is::<Images>());
        match images.and_then(|source| Some((source, source.options::<Images>()?.clone()))) {
            Some((source, options)) => {
                let fields = if source.fields.is_empty() { usual_fields() } else { source.fields.clone() };
                let mut maps = SourceConfig::new(Images, path, options);
                let picture = fields.into_iter().find_map(|(_, mut field)| field.image_mut().cloned());
                maps.fields =
                    picture.map(|picture| ("map".to_owned(), picture.into_map(DType::U8).into())).into_iter().collect();
                self.config.sources.push(maps);
            }
            None => self.faults.push("maps: they belong to a folder of images, which comes first".to_owned()),
        }
        self
    }

    /// Short for two fields of a table: these columns, by name or position, as `labels`, and all other columns of numbers as
    /// `features`. A single column tells a class; several hold numbers.
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

    /// The size in pixels that images are resized to. For a folder of images without fields.
    #[must_use]
    pub fn size(mut self, height: u32, width: u32) -> Self {
        let advice = "only images in a folder; those of other sources say it in their field";
        self.change_picture("size", advice, |image| image.size(height, width));
        self
    }

    /// Random operations on the images, in this order. For a folder of images without fields; leave it out for evaluation.
    /// Default: none.
    #[must_use]
    pub fn augment(mut self, operations: impl IntoIterator<Item = ImageAugment>) -> Self {
        let advice =
            "only images in a folder; other images say it in their field, and for numbers there is augment_numbers";
        self.change_picture("augment", advice, |image| image.augment(operations));
        self
    }

    /// Where what opening finds out is kept for the next run: the rows of a CSV file, the listing of a folder of images, the
    /// index of tar archives. Default: nowhere.
    #[must_use]
    pub fn saved_index(mut self, saved: SavedIndex) -> Self {
        match self.config.sources.last_mut().and_then(SourceConfig::saved_index_mut) {
            Some(own) => *own = saved,
            None => self.faults.push("saved_index: only CSV files, images and tar archives have an index".to_owned()),
        }
        self
    }

    /// Samples a batch. Default: 32.
    #[must_use]
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.config.batch_size = samples;
        self
    }

    /// Shuffles with this seed, anew in every epoch. Default: the source's own order.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.config.shuffle = Some(seed);
        self
    }

    /// Shuffles chunks, and the samples of so many neighbouring ones among each other, instead of all samples; see
    /// [`LoaderConfig::shuffle_blocks`]. With [`shuffle`](Self::shuffle).
    #[must_use]
    pub fn shuffle_blocks(mut self, chunks: u64) -> Self {
        self.config.shuffle_blocks = Some(chunks);
        self
    }

    /// Takes one part of a split into train, validation and test data. Default: all samples.
    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.config.split = Some(split);
        self
    }

    /// Takes one of several folds, or all others; of the part, if there is a split. Default: all samples.
    #[must_use]
    pub fn folds(mut self, folds: Folds) -> Self {
        self.config.folds = Some(folds);
        self
    }

    /// Has batches of samples of about one length each, by that of this tensor, padded to these bounds; see
    /// [`Buckets`](crate::Buckets). Default: any samples together, padded to the longest of their batch.
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

    /// Has so many elements of the tensor in a batch, padding included, instead of a number of samples. For
    /// [`bucket`](Self::bucket).
    #[must_use]
    pub fn tokens_per_batch(mut self, tokens: u64) -> Self {
        match &mut self.config.bucket {
            Some(bucket) => bucket.tokens_per_batch = Some(tokens),
            None => self.faults.push("tokens_per_batch: say first by which tensor batches are made: bucket".to_owned()),
        }
        self
    }

    /// Takes only samples whose fields fulfil a condition; of these, splits and folds. Names are those of the first source's fields,
    /// or of tensors that are made of one; values are numbers, texts in quotes, or `missing`, which is neither equal to anything nor
    /// different. The fields that it names are read once, when the loader is opened; a bad one is an error whatever the policy.
    /// Default: all samples. For a function of your own, there is [`filter_by`](Self::filter_by).
    ///
    /// ```
    /// use ringfeed::Loader;
    ///
    /// let some = Loader::csv("fixtures/iris-species.csv").filter("species in ['setosa', 'virginica'] and petal_length >= 1.5");
    /// assert_eq!(some.plan()?.samples, Some(76));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn filter(mut self, condition: impl Into<String>) -> Self {
        self.config.filter = Some(condition.into());
        self
    }

    /// Has windows over the records as samples, in place of single ones: for forecasting. See [`Windows`](crate::read::Windows).
    #[must_use]
    pub fn windows(mut self, windows: Windows) -> Self {
        self.config.windows = Some(windows);
        self
    }

    /// Gives each part of a split, and each fold, the same share of every value of this field; see [`Strata`](crate::Strata).
    /// Default: parts go by the names of the samples alone.
    #[must_use]
    pub fn stratify(mut self, field: impl Into<String>) -> Self {
        self.config.stratify = Some(field.into());
        self
    }

    /// Has all samples with the same value of this field in one part of a split, or in one fold; see [`Strata`](crate::Strata).
    /// Default: parts go by the names of the samples alone.
    #[must_use]
    pub fn group(mut self, field: impl Into<String>) -> Self {
        self.config.group = Some(field.into());
        self
    }

    /// Draws samples with replacement, so that each class is drawn equally often; needs [`shuffle`](Self::shuffle) for its
    /// seed. Default: each sample once.
    #[must_use]
    pub fn class_balanced(mut self) -> Self {
        self.config.class_balanced = true;
        self
    }

    /// How many samples an epoch has. Default: as many as there are to choose from.
    #[must_use]
    pub fn samples_per_epoch(mut self, samples: u64) -> Self {
        self.config.samples_per_epoch = Some(samples);
        self
    }

    /// Takes only this process's part of the samples; every part has the same number of batches. Default: all.
    #[must_use]
    pub fn shard(mut self, shard: Shard) -> Self {
        self.config.shard = shard;
        self
    }

    /// What becomes of a last batch that is not full. Default: it is kept.
    #[must_use]
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.config.last_batch = last_batch;
        self
    }

    /// What becomes of bad records. Default: the first ends the epoch with its error.
    #[must_use]
    pub fn bad_records(mut self, policy: BadRecords) -> Self {
        self.config.bad_records = policy;
        self
    }

    /// Threads that fill batches, or [`Amount::Auto`], which finds their number while it runs. Default: one for each core that they
    /// may use.
    #[must_use]
    pub fn workers(mut self, threads: impl Into<Amount>) -> Self {
        self.config.workers = Some(threads.into());
        self
    }

    /// The cores that workers run on; see [`worker_cores`](crate::workspace::WorkspaceBuilder::worker_cores). Default: all
    /// that the process may use.
    #[must_use]
    pub fn worker_cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.config.worker_cores = cores.into_iter().collect();
        self
    }

    /// How nice workers are, from 0 to 19; see [`worker_nice`](crate::workspace::WorkspaceBuilder::worker_nice).
    /// Default: 0.
    #[must_use]
    pub fn worker_nice(mut self, nice: u8) -> Self {
        self.config.worker_nice = nice;
        self
    }

    /// Most of the cores' time that workers take together, from 0 to 1; see
    /// [`worker_share`](crate::workspace::WorkspaceBuilder::worker_share). Default: no bound.
    #[must_use]
    pub fn worker_share(mut self, share: f64) -> Self {
        self.config.worker_share = Some(share);
        self
    }

    /// How many finished batches may wait for the trainer, or [`Amount::Auto`], which finds that while it runs. Default: 2.
    #[must_use]
    pub fn prefetch(mut self, batches: impl Into<Amount>) -> Self {
        self.config.prefetch = Some(batches.into());
        self
    }

    /// Makes batches without prefetch, on the caller's thread.
    #[must_use]
    pub fn shield(mut self) -> Self {
        self.config.shield = true;
        self
    }

    /// Writes a [`Trace`](crate::stats::Trace) of what every thread does when to this file, once iterator and workspace drop.
    /// Default: no.
    #[must_use]
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.trace = Some(path.into());
        self
    }

    /// Serves the figures of the run over HTTP, in Prometheus' text format, while the iterator lives: at a port of this machine alone,
    /// or at an address. With the feature `metrics`. Default: no.
    #[must_use]
    pub fn metrics(mut self, address: impl Into<MetricsAddress>) -> Self {
        self.config.metrics = Some(address.into());
        self
    }

    /// Most bytes of memory for the ring, row indexes and unpacked files together. Default: unlimited.
    #[must_use]
    pub fn budget(mut self, bytes: u64) -> Self {
        self.config.memory.budget_bytes = Some(bytes);
        self
    }

    /// What kind of memory slots are. Default: anonymous pages.
    #[must_use]
    pub fn memory(mut self, kind: MemoryKind) -> Self {
        self.config.memory.kind = kind;
        self
    }

    /// The files that the sources are among. Default: those of this machine.
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

    /// Maps the files for which settings ask for it by `access = "map"`, by a promise that only code can make. For the sources
    /// that the loader has now.
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
        let wishes = self.config.sources.iter_mut().filter_map(SourceConfig::access_mut);
        wishes.filter(|access| access.lacks_promise()).for_each(|access| *access = Access::Map(promise));
        self
    }

    /// Changes the picture that the last source gives, if it is a folder of images: that of its usual fields.
    fn change_picture(&mut self, what: &str, advice: &str, change: impl FnOnce(Image) -> Image) {
        let fault = match self.config.sources.last_mut().filter(|source| source.is::<Images>()) {
            None => advice,
            Some(_) if !self.config.fields.is_empty() => "the field of the image says it",
            Some(source) => {
                if source.fields.is_empty() {
                    source.fields = usual_fields();
                }
                match source.fields.iter_mut().find_map(|(_, field)| field.image_mut()) {
                    Some(image) => return *image = change(image.clone()),
                    None => "there is no field of an image",
                }
            }
        };
        self.faults.push(format!("{what}: {fault}"));
    }
}
