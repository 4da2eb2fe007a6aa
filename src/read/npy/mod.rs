mod header;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::memory::MemoryBudget;

use super::arrays::of_one;
use super::container::Container;
use super::fields::Field;
use super::fixed::{ArraySummary, FixedRecords, StoredType, Wanted, in_c_order, open_only, read_fixed_records, wanted};
use super::format::{Format, Inspection, Open, Opened, format_has, open_parts};
use crate::storage::{Access, Files, Spool};

pub(super) use header::{ArrayIn, MOST_BYTES, array_in, begins_as_npy, header_in, header_of, header_within};

/// How an NPY file is read. A field says how its records are decoded: by default they are the tensor `features`,
/// unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NpyOptions {
    /// How the file is read. It may be mapped, which is faster but needs a promise: see
    /// [`Mapping::promise`](crate::storage::Mapping::promise).
    pub access: Access,
}

/// The format of NPY files.
#[derive(Clone, Copy, Debug)]
pub struct Npy;

impl Format for Npy {
    const NAME: &'static str = "npy";
    type Options = NpyOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        begins_as_npy(head)
    }

    fn has_name(&self, name: &str) -> bool {
        name.ends_with(".npy")
    }

    fn title(&self) -> Option<&'static str> {
        Some("NPY files")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed NPY file; decompress it first")
    }

    format_has!(small_samples, one_array, access);

    fn open(&self, options: &NpyOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        open_only(at, |wanted| NpyReader::open_wanted(at.files, at.path, options, wanted, at.budget))
    }

    /// Numbers stay what they are in the file.
    fn open_values(&self, options: &NpyOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let open = |at: &Open<'_>| Ok(of_one(NpyReader::open_within(at.files, at.path, options, at.budget)?.records));
        open_parts(&open, paths, at)?.into_values().map_err(|error| error.at_path(at.path))
    }

    fn inspect(&self, options: &NpyOptions, at: &Open<'_>) -> Result<Inspection> {
        Ok(Inspection::of_array(
            Self::NAME,
            NpyReader::open_within(at.files, at.path, options, at.budget)?.summarise()?,
        ))
    }
}

/// Records of an NPY file, NumPy's format: the first dimension counts records, the others are a record's shape.
///
/// Versions 1 to 3; integers, floating point and booleans (which become `u8`) in C order, little or big endian. Format:
/// "numpy.lib.format" in NumPy's reference.
#[derive(Debug)]
pub struct NpyReader {
    records: FixedRecords,
}

read_fixed_records!(NpyReader);

impl NpyReader {
    /// Opens an NPY file and checks its header against its length, before anything is allocated.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) with the nearest name; [`Format`](crate::ErrorKind::Format) for a wrong
    /// or truncated header, missing or trailing bytes; [`Unsupported`](crate::ErrorKind::Unsupported) for elements that
    /// are no numbers; [`Schema`](crate::ErrorKind::Schema) for a type that can't hold the file's.
    pub fn open(path: impl AsRef<Path>, options: &NpyOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, options)
    }

    /// As [`NpyReader::open`], with a tensor called `name` as this field says: numbers of one type, or the records
    /// unchanged.
    ///
    /// ```
    /// use ringfeed::arrays::{NpyOptions, NpyReader};
    /// use ringfeed::field::Numbers;
    /// use ringfeed::read::RecordReader;
    ///
    /// let rows = NpyReader::open_as("fixtures/npy/u1-little.npy", "x", Numbers::f32(), &NpyOptions::default())?;
    /// assert_eq!((&*rows.tensors()[0].name, rows.tensors()[0].dtype), ("x", ringfeed::DType::F32));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`NpyReader::open`], and [`Config`](crate::ErrorKind::Config) for any other field.
    pub fn open_as(path: impl AsRef<Path>, name: &str, field: impl Into<Field>, options: &NpyOptions) -> Result<Self> {
        let (path, field) = (path.as_ref(), field.into());
        let wanted = wanted(name, &field).map_err(|error| error.at_path(path))?;
        Self::open_wanted(&Files::local(), path, options, &wanted, &MemoryBudget::unlimited())
    }

    /// As [`NpyReader::open`], for one of these files.
    ///
    /// # Errors
    ///
    /// As [`NpyReader::open`].
    pub fn open_in(files: &Files, path: impl AsRef<Path>, options: &NpyOptions) -> Result<Self> {
        Self::open_within(files, path, options, &MemoryBudget::unlimited())
    }

    /// As [`NpyReader::open_in`]; the memory for an array in Fortran order counts against `budget`.
    ///
    /// # Errors
    ///
    /// As [`NpyReader::open`], and [`Budget`](crate::ErrorKind::Budget).
    pub fn open_within(
        files: &Files,
        path: impl AsRef<Path>,
        options: &NpyOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        Self::open_wanted(files, path.as_ref(), options, &Wanted::default(), budget)
    }

    fn open_wanted(
        files: &Files,
        path: &Path,
        options: &NpyOptions,
        wanted: &Wanted<'_>,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let input = files.open(path, options.access)?;
        let header = header_of(&input).map_err(|error| error.at_path(path))?;
        let spool = Spool { budget: budget.clone(), ..Spool::default() };
        let (input, header) = in_c_order(input, header, &spool).map_err(|error| error.at_path(path))?;
        let records = FixedRecords::new(input, &header, wanted).map_err(|error| error.at_path(path))?;
        Ok(Self { records })
    }

    /// Element type in the file.
    pub fn stored_type(&self) -> StoredType {
        self.records.stored_type()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.records.path()
    }

    /// Reads the whole file for the report of `inspect`.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn summarise(&self) -> Result<ArraySummary> {
        self.records.summarise()
    }
}
