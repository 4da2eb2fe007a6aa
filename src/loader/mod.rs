//! One builder for everything, over settings as plain data. The setters are in `builder` and the files beside it,
//! opening is in `open`.

mod builder;
mod choice;
mod config;
mod container;
mod each;
mod faults;
mod file;
mod keep;
mod length;
#[cfg(feature = "formats")]
mod maps;
mod mix;
mod number;
#[cfg(feature = "formats")]
mod of_formats;
mod open;
mod own;
mod plan;
#[cfg_attr(not(feature = "prepare"), path = "no_prepare.rs")]
mod prepare;
mod resolve;
mod serve;
mod settings;
mod text;
mod transforms;
mod upload;
mod values;
mod verify;
mod weights;
mod window;

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::read::fields::Field;
use crate::read::{Csv, CsvOptions, Formats, SourceConfig};
use crate::storage::Files;
use crate::transform::Transforms;
use crate::tree::no_faults;

use keep::Keep;
use own::Own;

pub use config::{LoaderConfig, MemoryConfig, MemoryKind, OnlySource, SourcePath};
pub use keep::Chosen;
pub use plan::{PlannedSource, PlannedTensor, RunPlan};
pub use serve::{Served, ServedRow};
pub use verify::{verify, verify_with};
pub use weights::Mix;
pub use window::ServedWindow;

/// Makes batches from a path: checks all settings together, opens the readers, and makes the iterator.
///
/// A thin builder over [`LoaderConfig`], which holds the same settings as plain data. Setters read nothing and never
/// fail: [`build`](Self::build) reports all faults at once. It opens the files, on the caller's thread and on threads
/// that end when it returns. The cost of opening depends on the format (a CSV file without a saved index is read once).
/// A loader can be built any number of times, and a clone is cheap. For readers or iterators of your own, use
/// [`ReaderSource`](crate::source::ReaderSource) or [`StreamSource`](crate::source::StreamSource) with
/// [`AsyncDataSetIterator`](crate::AsyncDataSetIterator).
///
/// ```
/// use ringfeed::Loader;
///
/// let mut train = Loader::csv("fixtures/iris-species.csv").labels(["species"]).batch_size(16).shuffle(42).build()?;
/// for epoch in train.epochs(3) {
///     for batch in epoch? {
///         let batch = batch?;
///         let (measures, species) = (batch.features()?.as_slice::<f32>()?, batch.labels()?.as_slice::<i64>()?);
///         assert_eq!(measures.len(), 4 * species.len());
///     }
/// } // each epoch has a different order
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Loader {
    config: LoaderConfig,
    files: Files,
    formats: Formats,
    own: Option<Own>,
    transforms: Transforms,
    /// The user's own functions that decide which samples are used.
    keeps: Vec<Keep>,
    /// Fields by whose names samples are chosen, if other fields are read.
    named: Vec<(String, Field)>,
    faults: Vec<String>,
}

impl From<LoaderConfig> for Loader {
    fn from(config: LoaderConfig) -> Self {
        Self {
            config,
            files: Files::local(),
            formats: Formats::new(),
            own: None,
            transforms: Transforms::new(),
            keeps: Vec::new(),
            named: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl Loader {
    /// Batches of one source, with every setting at its default.
    pub fn new(source: SourceConfig) -> Self {
        LoaderConfig::new(source).into()
    }

    /// Loads the file or folder at `path`, and detects its format; see [`LoaderConfig::for_path`]. Use
    /// [`field`](Self::field) to choose the tensors.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::field::{Class, Numbers};
    ///
    /// let train = Loader::open("fixtures/iris.csv")?
    ///     .field("flower", Numbers::f32().from([0, 1, 2, 3]))
    ///     .field("species", Class.from(4))
    ///     .batch_size(50)
    ///     .shuffle(42)
    ///     .build()?;
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name;
    /// [`ErrorKind::Format`](crate::ErrorKind::Format) if Ringfeed does not read it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Formats::new())
    }

    /// As [`open`](Self::open), with these formats.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, formats: &Formats) -> Result<Self> {
        Ok(Self::from(LoaderConfig::for_path_with(path, formats)?).formats(formats.clone()))
    }

    /// As [`open`](Self::open), among these files.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and those of the storage.
    pub fn open_in(files: &Files, path: impl AsRef<Path>) -> Result<Self> {
        Self::open_in_with(files, path, &Formats::new())
    }

    /// As [`open_in`](Self::open_in), with these formats.
    ///
    /// # Errors
    ///
    /// As [`open_in`](Self::open_in).
    pub fn open_in_with(files: &Files, path: impl AsRef<Path>, formats: &Formats) -> Result<Self> {
        let config = LoaderConfig { sources: formats.detect_in(files, path)?, ..LoaderConfig::default() };
        Ok(Self::from(config).formats(formats.clone()).files(files.clone()))
    }

    /// A CSV file. Without [fields](Self::field), its columns of numbers become `features`, and a column with a usual
    /// name becomes `labels`; [`CsvOptions`] lists these names.
    pub fn csv(path: impl Into<PathBuf>) -> Self {
        Self::csv_with(path, CsvOptions::default())
    }

    /// A CSV file, with options.
    pub fn csv_with(path: impl Into<PathBuf>, options: CsvOptions) -> Self {
        Self::new(SourceConfig::new(Csv, path, options))
    }

    /// The settings.
    pub fn config(&self) -> &LoaderConfig {
        &self.config
    }

    /// Everything that is wrong with the settings, found without opening a file's contents.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = [self.faults.clone(), self.config.faults_among(&self.files, self.own.as_ref())].concat();
        if matches!(self.own, Some(Own::Samples(_))) && !self.keeps.is_empty() {
            faults.push(
                "filter_by: samples of an iterator come one after another; leave out samples in the iterator itself"
                    .to_owned(),
            );
        }
        faults
    }

    fn check(&self) -> Result<()> {
        no_faults(self.faults())
    }
}
