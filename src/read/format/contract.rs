//! What a format implements.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::read::Container;
use crate::read::fields::Field;
use crate::read::saved::SavedIndex;
use crate::storage::{Access, Files};

use super::check::Checks;
use super::foretold::Foretold;
use super::inspection::Inspection;
use super::many;
use super::opened::{Open, Opened};
use super::streamed::Streamed;

/// A format of files. One implementation adds it to settings, fields, `inspect`, `verify`, `plan` and `bench`.
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
///         Lines::index(at, |line| line.to_ascii_uppercase())
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
    /// Its name in settings, in lower case.
    const NAME: &'static str;

    /// Options of reading: plain data, with a default for every part.
    type Options: FormatOptions;

    /// Whether the file at `path`, which begins with `head` (up to 64 KiB, decompressed), is of this format. Decide by
    /// content; for names there is [`has_name`](Self::has_name).
    fn sniff(&self, head: &[u8], path: &Path) -> bool;

    /// Whether the name of a file is that of a file of this format; asked if its content does not decide. `name` is in
    /// lower case, without `.gz`, `.zst` and `.bz2`.
    fn has_name(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Opens the file or folder at a path.
    ///
    /// # Errors
    ///
    /// Those of the format, with path and location.
    fn open(&self, options: &Self::Options, at: &Open<'_>) -> Result<impl Into<Opened>>;

    /// Opens several files as one data set, with their records one after another. By default opens each file by itself,
    /// several at a time: containers must have the same fields, and readers must give the same tensors.
    ///
    /// # Errors
    ///
    /// Those of the format, and [`ErrorKind::Format`](crate::ErrorKind::Format) or
    /// [`ErrorKind::Schema`](crate::ErrorKind::Schema) for a file that differs from the first.
    fn open_many(&self, options: &Self::Options, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        many::open(&|at| self.open(options, at).map(Into::into), paths, at)
    }

    /// Opens files as records of values, to pack or tokenise them, even if [`open_many`](Self::open_many) has a faster
    /// way to tensors. If `at` asks for fields, only those need be found. By default tensors are fields of numbers.
    ///
    /// # Errors
    ///
    /// As [`open_many`](Self::open_many), and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for tensors
    /// whose lengths differ from record to record.
    fn open_values(&self, options: &Self::Options, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let opened: Opened = self.open_many(options, paths, &Open { fields: &[], ..*at })?.into();
        opened.into_values().map_err(|error| error.at_path(at.path))
    }

    /// Whether [`open`](Self::open) takes this path unchanged even if it is a folder or a pattern, such as a folder of
    /// images in classes. By default only a folder that [is one data set](Self::is_folder): any other folder stands for
    /// its files, and a pattern for the files that match.
    fn takes_whole(&self, files: &Files, path: &Path) -> bool {
        self.is_folder(files, path).unwrap_or(false)
    }

    /// The kind of file or folder, as `inspect` and `verify` call it; by default the format's name.
    fn kind(&self, path: &Path) -> &'static str {
        let _ = path;
        Self::NAME
    }

    /// The name of its files in messages, in the plural; `None` if they can't be recognised.
    fn title(&self) -> Option<&'static str> {
        Some(Self::NAME)
    }

    /// Why a file that is compressed as a whole (by gzip, Zstandard or bzip2) can't be read, and what to do; `None` if it can
    /// be read.
    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed file of a format that is read uncompressed; decompress it first")
    }

    /// Whether its values are text whose types are inferred, as in tables of text. Almost any text might be one: such a
    /// format is asked after all others whether a file is its own, `verify` checks the form of its records, and `pack`
    /// infers the types of columns.
    fn infers_types(&self) -> bool {
        false
    }

    /// Whether a folder is a data set of this format, by its layout. `false` if it is not a folder.
    ///
    /// # Errors
    ///
    /// Errors of listing the folder.
    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool> {
        let _ = (files, path);
        Ok(false)
    }

    /// Whether a folder of such files is one data set, and this file is one of them: by its name, or, if no format
    /// recognises the name, by its first 64 KiB.
    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        let _ = (path, head);
        false
    }

    /// Whether of a folder that it [takes whole](Self::takes_whole), it reads only the files whose names say that they
    /// [belong to it](Self::is_in_folder). By default it may read any.
    fn reads_by_name(&self) -> bool {
        false
    }

    /// Whether a record is a single array without a name, as in NPY files: a field of any name is that array.
    fn has_one_array(&self) -> bool {
        false
    }

    /// Whether a record is a group of files, and the names of its fields are their extensions, as in tar archives. `pack`
    /// keeps these names.
    fn has_members(&self) -> bool {
        false
    }

    /// Whether samples are so small that many should be read at a time.
    fn has_small_samples(&self) -> bool {
        false
    }

    /// What is wrong with the options, independently of their use.
    fn faults(&self, options: &Self::Options) -> Vec<String> {
        let _ = options;
        Vec::new()
    }

    /// What is wrong with the requested fields, as far as it is known without the data: `name: what is wrong`.
    fn field_faults(&self, options: &Self::Options, fields: &[(String, Field)]) -> Vec<String> {
        let _ = (options, fields);
        Vec::new()
    }

    /// The fields that are equivalent to the usual tensors, if there are such fields, as for pictures and their
    /// classes. By default none.
    ///
    /// # Errors
    ///
    /// Errors of reading the data, as far as that is necessary.
    fn usual_fields(&self, options: &Self::Options, at: &Open<'_>) -> Result<Vec<(String, Field)>> {
        let _ = (options, at);
        Ok(Vec::new())
    }

    /// The option that says how files are read, if there is one.
    fn access<'o>(&self, options: &'o mut Self::Options) -> Option<&'o mut Access> {
        let _ = options;
        None
    }

    /// The option that says where the result of opening is saved, if there is one.
    fn saved_index<'o>(&self, options: &'o mut Self::Options) -> Option<&'o mut SavedIndex> {
        let _ = options;
        None
    }

    /// Paths among the options.
    fn paths<'o>(&self, options: &'o mut Self::Options) -> Vec<&'o mut PathBuf> {
        let _ = options;
        Vec::new()
    }

    /// Whether samples have only a random order.
    fn needs_shuffle(&self, options: &Self::Options) -> bool {
        let _ = options;
        false
    }

    /// Whether samples share bytes with their neighbours, as windows that overlap do: a random split would not separate
    /// them, and is refused. By default `false`.
    fn overlaps(&self, options: &Self::Options) -> bool {
        let _ = options;
        false
    }

    /// Number of samples per epoch out of `choice` samples, if not all of them.
    fn samples_per_epoch(&self, options: &Self::Options, choice: u64) -> Option<u64> {
        let _ = (options, choice);
        None
    }

    /// Removes options that change samples at random or leave some of them out.
    fn make_plain(&self, options: &mut Self::Options) {
        let _ = options;
    }

    /// A stream of the records, if reading them in order is better when nothing else is needed; with `always`, whenever
    /// it is possible. By default `None`. A stream whose decoder does not give all tensors that `at` asks for is not
    /// used.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn stream(&self, options: &Self::Options, at: &Open<'_>, always: bool) -> Result<Option<Streamed>> {
        let _ = (options, at, always);
        Ok(None)
    }

    /// What is known without reading the data. By default opens the source and asks it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn foretell(&self, options: &Self::Options, at: &Open<'_>) -> Result<Foretold> {
        Foretold::of_opened(self.open(options, at)?.into(), at)
    }

    /// What is read to find all bad records. By default all fields of all records.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn checks(&self, options: &Self::Options, at: &Open<'_>) -> Result<Checks> {
        Checks::of_opened(self.open(options, at)?.into(), self.has_small_samples())
    }

    /// Describes the contents of a path. By default the fields of all records, and the first and the last record.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn inspect(&self, options: &Self::Options, at: &Open<'_>) -> Result<Inspection> {
        Inspection::of_opened(Self::NAME, self.open(options, at)?.into(), at)
    }

    /// Describes the contents of files that are read as one. By default as for one file.
    ///
    /// # Errors
    ///
    /// As [`open_many`](Self::open_many).
    fn inspect_many(&self, options: &Self::Options, paths: &[PathBuf], at: &Open<'_>) -> Result<Inspection> {
        Inspection::of_opened(Self::NAME, self.open_many(options, paths, at)?.into(), at)
    }

    /// The sources that a path stands for, each with its fields, and with default options. By default one, without
    /// fields.
    ///
    /// # Errors
    ///
    /// Errors of reading the path.
    fn sources(&self, files: &Files, path: &Path) -> Result<Vec<(PathBuf, Fields)>> {
        let _ = files;
        Ok(vec![(path.to_owned(), Vec::new())])
    }

    /// Whether settings must have options, because nothing can be read without them.
    fn needs_options(&self) -> bool {
        false
    }
}

/// Common methods of several formats: many samples are taken at a time, a record is a single array, only files with the
/// right names are read in a folder, options of the same names say how files are
/// accessed and where the result of opening is saved, and one file is opened as a list of one.
macro_rules! format_has {
    (small_samples) => {
        fn has_small_samples(&self) -> bool {
            true
        }
    };
    (one_array) => {
        fn has_one_array(&self) -> bool {
            true
        }
    };
    (reading_by_name) => {
        fn reads_by_name(&self) -> bool {
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

/// Options of a format: plain data with defaults.
pub trait FormatOptions:
    Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<T> FormatOptions for T where
    T: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}
