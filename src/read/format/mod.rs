//! Formats: what each is called, how it is recognised, opened and described. [`table`] lists ours; users add their own.

mod any;
mod check;
mod default_fields;
mod detect;
mod inspection;
mod lookup;
mod many;
mod old;
mod opened;
mod source;
mod table;

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::row::RowMut;
use crate::schema::TensorSpec;
use crate::storage::{Access, Files};

use super::fields::Field;
use super::saved::SavedIndex;
use super::{Container, RecordDecoder, RecordReader, RecordStream, Sample, Scratch};

pub use check::{Check, Checks};
pub(crate) use check::{Checked, batch_size};
pub use inspection::{ArrayFile, Details, Entry, Inspection, NamedCount};
pub(in crate::read) use opened::OpenOthers;
pub use opened::{Open, Opened};
pub use source::SourceConfig;
pub use table::Formats;

pub(in crate::read) use default_fields::default_fields;
pub(in crate::read) use many::open as open_parts;
pub(crate) use source::with_formats;

/// A format of files: one implementation makes it known to settings, fields, `inspect`, `verify`, `plan` and `bench`.
///
/// ```
/// use std::path::Path;
/// use ringfeed::{Loader, Result, field::Text};
/// use ringfeed::formats::{Format, Formats, Open, Opened};
/// use ringfeed::read::Lines;
///
/// /// Lines behind a first word that is shouted.
/// struct Shouting;
///
/// impl Format for Shouting {
///     const NAME: &'static str = "shouting";
///     type Options = ();
///
///     fn sniff(&self, head: &[u8], _: &Path) -> bool {
///         head.starts_with(b"SHOUT")
///     }
///
///     fn open(&self, _: &(), at: &Open<'_>) -> Result<impl Into<Opened>> {
///         Ok(Lines::index(at.files, at.path, at.budget)?.map(|line| line.to_ascii_uppercase()))
///     }
/// }
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("words.txt");
/// # std::fs::write(&path, "SHOUT\nhear\n").expect("a file");
/// let formats = Formats::new().with(Shouting);
/// let loader = Loader::open_with(path, &formats)?.field("words", Text::new(20).from("line"));
/// assert_eq!(loader.build()?.next().expect("a batch")?.len(), 2);
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub trait Format: Send + Sync + 'static {
    /// What settings call it, in lower case.
    const NAME: &'static str;

    /// How it is read: plain data, every part of it with a default.
    type Options: FormatOptions;

    /// Whether a file is of this format that begins with `head` (up to 64 KiB, decompressed if it is compressed) and lies at `path`.
    /// Go by what it holds; for names there is [`has_name`](Self::has_name).
    fn sniff(&self, head: &[u8], path: &Path) -> bool;

    /// Whether a file is called like one of this format: asked where no content tells. `name` is in lower case and without
    /// `.gz` and `.zst`.
    fn has_name(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Opens what lies at a path.
    ///
    /// # Errors
    ///
    /// Those of the format, with path and place.
    fn open(&self, options: &Self::Options, at: &Open<'_>) -> Result<impl Into<Opened>>;

    /// Opens several files as one data set, their records one after another. By default each by itself, several at a time:
    /// containers must have the same fields, and readers give the same tensors.
    ///
    /// # Errors
    ///
    /// Those of the format, and [`ErrorKind::Format`] or [`ErrorKind::Schema`] for a file that does not go with the first.
    fn open_many(&self, options: &Self::Options, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        many::open(&|at| self.open(options, at).map(Into::into), paths, at)
    }

    /// Opens files as records of values, also where [`open_many`](Self::open_many) has a faster way to tensors: what is read to be
    /// packed or tokenised. Where `at` asks for fields, only those need be found. By default tensors are fields of numbers.
    ///
    /// # Errors
    ///
    /// As [`open_many`](Self::open_many), and [`ErrorKind::Unsupported`] for tensors whose lengths differ from record to record.
    fn open_values(&self, options: &Self::Options, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let opened: Opened = self.open_many(options, paths, &Open { fields: &[], ..*at })?.into();
        opened.into_values().map_err(|error| error.at_path(at.path))
    }

    /// Whether [`open`](Self::open) takes this path as it is, though it may be a folder or a pattern, as a folder of images in
    /// classes. By default only a folder that [is one data set](Self::is_folder): any other stands for its files, and a pattern for
    /// those that match.
    fn takes_whole(&self, files: &Files, path: &Path) -> bool {
        self.is_folder(files, path).unwrap_or(false)
    }

    /// What `inspect` and `verify` call what lies at a path: by default the format's name.
    fn kind(&self, path: &Path) -> &'static str {
        let _ = path;
        Self::NAME
    }

    /// What its files are called in messages, in the plural; `None` if nobody could recognise them.
    fn title(&self) -> Option<&'static str> {
        Some(Self::NAME)
    }

    /// Why a file that is compressed as a whole (by gzip or Zstandard) can't be read, and what to do; `None` if it can.
    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed file of a format that is read uncompressed; decompress it first")
    }

    /// Whether a folder is a data set of this format by how it is laid out. What is no folder is none.
    ///
    /// # Errors
    ///
    /// Those of looking at it.
    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool> {
        let _ = (files, path);
        Ok(false)
    }

    /// Whether a folder of such files is one data set, and this file is one of them: by its name, or if that tells nothing to
    /// any format, by the first 64 KiB of what it holds.
    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        let _ = (path, head);
        false
    }

    /// Whether samples are so small that many should be taken at a time.
    fn has_small_samples(&self) -> bool {
        false
    }

    /// What is wrong with the options, whatever they are used for.
    fn faults(&self, options: &Self::Options) -> Vec<String> {
        let _ = options;
        Vec::new()
    }

    /// What is wrong with fields that are asked for, as far as it can be told without the data.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`].
    fn field_faults(&self, options: &Self::Options, fields: &[(String, Field)]) -> Result<()> {
        let _ = (options, fields);
        Ok(())
    }

    /// The fields that stand for what samples are by themselves, where these can be told: pictures and their classes. None by
    /// default.
    ///
    /// # Errors
    ///
    /// Those of looking at the data, as far as that is needed.
    fn usual_fields(&self, options: &Self::Options, at: &Open<'_>) -> Result<Vec<(String, Field)>> {
        let _ = (options, at);
        Ok(Vec::new())
    }

    /// How files are reached, where that is an option.
    fn access<'o>(&self, options: &'o mut Self::Options) -> Option<&'o mut Access> {
        let _ = options;
        None
    }

    /// Where what opening finds out is kept, where that is an option.
    fn saved_index<'o>(&self, options: &'o mut Self::Options) -> Option<&'o mut SavedIndex> {
        let _ = options;
        None
    }

    /// Paths among the options.
    fn paths<'o>(&self, options: &'o mut Self::Options) -> Vec<&'o mut PathBuf> {
        let _ = options;
        Vec::new()
    }

    /// Whether there is no order but one that is drawn.
    fn needs_shuffle(&self, options: &Self::Options) -> bool {
        let _ = options;
        false
    }

    /// How many of `choice` samples make an epoch, if not all.
    fn samples_per_epoch(&self, options: &Self::Options, choice: u64) -> Option<u64> {
        let _ = (options, choice);
        None
    }

    /// Takes out of the options what changes samples at random or leaves some of them out.
    fn make_plain(&self, options: &mut Self::Options) {
        let _ = options;
    }

    /// The records one after another, where they are better read so if that is all that is wanted; `always` if they are read so
    /// wherever that is possible. By default never. A stream whose decoder does not give all tensors that `at` asks for is
    /// not used.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn stream(&self, options: &Self::Options, at: &Open<'_>, always: bool) -> Result<Option<Streamed>> {
        let _ = (options, at, always);
        Ok(None)
    }

    /// What can be said without reading the data. By default what an open source tells.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn foretell(&self, options: &Self::Options, at: &Open<'_>) -> Result<Foretold> {
        Foretold::of_opened(self.open(options, at)?.into(), at)
    }

    /// What is read to find everything that is bad. By default all fields of all records.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn checks(&self, options: &Self::Options, at: &Open<'_>) -> Result<Checks> {
        Checks::of_opened(self.open(options, at)?.into(), self.has_small_samples())
    }

    /// What lies at a path. By default the fields of all records, and the first and the last.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn inspect(&self, options: &Self::Options, at: &Open<'_>) -> Result<Inspection> {
        Inspection::of_opened(Self::NAME, self.open(options, at)?.into(), at)
    }

    /// The sources that a path alone stands for, each with its fields, and options at their defaults. By default one, without fields.
    ///
    /// # Errors
    ///
    /// Those of looking at what lies there.
    fn sources(&self, files: &Files, path: &Path) -> Result<Vec<(PathBuf, Fields)>> {
        let _ = files;
        Ok(vec![(path.to_owned(), Vec::new())])
    }

    /// Whether nothing can be read without options, so that settings must have them.
    fn needs_options(&self) -> bool {
        false
    }
}

/// What several formats say in the same words: that many samples should be taken at a time, that options of the same names
/// say how files are reached and where what opening finds out is kept, and that one file is opened as a list of one.
macro_rules! format_has {
    (small_samples) => {
        fn has_small_samples(&self) -> bool {
            true
        }
    };
    (access) => {
        fn access<'o>(&self, options: &'o mut Self::Options) -> Option<&'o mut crate::storage::Access> {
            Some(&mut options.access)
        }
    };
    (saved_index) => {
        fn saved_index<'o>(&self, options: &'o mut Self::Options) -> Option<&'o mut crate::read::SavedIndex> {
            Some(&mut options.saved_index)
        }
    };
    (one_of_many) => {
        fn open(
            &self,
            options: &Self::Options,
            at: &crate::read::format::Open<'_>,
        ) -> Result<impl Into<crate::read::format::Opened>> {
            let opened: crate::read::format::Opened = self.open_many(options, &[at.path.to_owned()], at)?.into();
            Ok(opened)
        }
    };
    ($first:ident, $($other:ident),+) => {
        format_has!($first);
        format_has!($($other),+);
    };
}
pub(in crate::read) use format_has;

/// Tensors by their names, and what each is made of.
pub type Fields = Vec<(String, Field)>;

/// What options of a format are: plain data with defaults.
pub trait FormatOptions:
    Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<T> FormatOptions for T where
    T: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("tensors", &self.decoder.tensors()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Foretold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, tensors, held_bytes, unknown, .. } = self;
        let mut shown = f.debug_struct("Foretold");
        shown.field("records", records).field("tensors", tensors).field("held_bytes", held_bytes);
        shown.field("unknown", unknown).finish_non_exhaustive()
    }
}

/// Records one after another, and their decoding.
pub struct Streamed {
    /// The records.
    pub stream: Box<dyn RecordStream>,
    /// Their tensors.
    pub decoder: Box<dyn RecordDecoder>,
}

/// What a source tells before it is read.
#[non_exhaustive]
#[derive(Default)]
pub struct Foretold {
    /// How many records there are.
    pub records: Option<u64>,
    /// Their tensors.
    pub tensors: Option<Vec<TensorSpec>>,
    /// Bytes that are held in memory once it is open.
    pub held_bytes: Option<u64>,
    /// What can't be known, and why.
    pub unknown: Option<String>,
    /// How many files are read as one; 0 where the path is a single file, or the format's own affair.
    pub files: u64,
    /// What lies beside them and is not read.
    pub passed_over: Vec<PathBuf>,
    /// Who knows the records' names.
    pub reader: Option<Arc<dyn RecordReader>>,
}

impl Foretold {
    /// What an open source tells.
    pub(crate) fn of_opened(opened: Opened, at: &Open<'_>) -> Result<Self> {
        let readers = opened.readers("the format", at)?;
        let tensors = readers.iter().flat_map(|reader| reader.tensors().iter().cloned()).collect();
        let records = readers.iter().map(RecordReader::len).min();
        Ok(Self {
            records,
            tensors: Some(tensors),
            held_bytes: Some(at.budget.used()),
            reader: readers.into_iter().next(),
            ..Self::default()
        })
    }

    /// What an open reader tells.
    pub(crate) fn of_reader(reader: Arc<dyn RecordReader>, held_bytes: u64) -> Self {
        Self {
            records: Some(reader.len()),
            tensors: Some(reader.tensors().to_vec()),
            held_bytes: Some(held_bytes),
            reader: Some(reader),
            ..Self::default()
        }
    }

    /// Records that are known by their numbers alone, and need not be opened.
    pub(crate) fn numbered(records: u64, tensors: Vec<TensorSpec>, held_bytes: u64) -> Self {
        let reader: Arc<dyn RecordReader> = Arc::new(Numbered { records, tensors: tensors.clone() });
        Self {
            records: Some(records),
            tensors: Some(tensors),
            held_bytes: Some(held_bytes),
            reader: Some(reader),
            ..Self::default()
        }
    }

    /// What only reading tells.
    pub(crate) fn unknown(tensors: Option<Vec<TensorSpec>>, why: String) -> Self {
        Self { tensors, unknown: Some(why), ..Self::default() }
    }
}

/// Stands for a reader that need not be opened: its records are known by their numbers.
struct Numbered {
    records: u64,
    tensors: Vec<TensorSpec>,
}

impl RecordReader for Numbered {
    fn len(&self) -> u64 {
        self.records
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, _: &mut RowMut<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "is planned, not read"))
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}
