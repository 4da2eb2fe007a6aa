mod header;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::schema::Role;

use super::fields::Field;
use super::fixed::{
    ArraySummary, FixedRecords, StoredType, Wanted, in_c_order, only_field, read_fixed_records, with_only_field,
};
use super::format::{Format, Inspection, Open, Opened, format_has};
use crate::storage::{Access, Files, Spool};

pub(super) use header::{ArrayIn, MOST_BYTES, array_in, begins_as_npy, header_in, header_of, header_within};

/// How an NPY file is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NpyOptions {
    /// Name of the tensor; by default `features`, or `labels` for a label.
    pub name: Option<String>,
    /// What the tensor is to the trainer.
    pub role: Role,
    /// Element type in the batch. By default the file's own; for labels of one number each, `i64`. A number that is too large
    /// for it makes its record a bad one.
    pub dtype: Option<DType>,
    /// Names of the classes that a label's numbers stand for.
    pub classes: Option<Vec<String>>,
    /// How the file is reached. It may be mapped, which is faster and a promise: see [`Mapping::promise`](crate::storage::Mapping::promise).
    pub access: Access,
}

impl Default for NpyOptions {
    fn default() -> Self {
        Self { name: None, role: Role::Feature, dtype: None, classes: None, access: Access::Read }
    }
}

impl NpyOptions {
    /// The options of a file of labels.
    pub fn labels() -> Self {
        Self { role: Role::Label, ..Self::default() }
    }

    fn wanted(&self) -> Wanted<'_> {
        let Self { name, role, dtype, classes, .. } = self;
        Wanted { name: name.as_deref(), role: *role, dtype: *dtype, classes: classes.as_deref() }
    }
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

    format_has!(small_samples, access);

    fn field_faults(&self, _: &NpyOptions, fields: &[(String, Field)]) -> Result<()> {
        only_field(Self::NAME, fields).map(|_| ())
    }

    fn open(&self, options: &NpyOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        let options = with_only_field!(options, at, Self::NAME);
        Ok(Opened::Readers(vec![Arc::new(NpyReader::open_within(at.files, at.path, &options, at.budget)?)]))
    }

    fn inspect(&self, options: &NpyOptions, at: &Open<'_>) -> Result<Inspection> {
        Ok(Inspection::of_array(Self::NAME, NpyReader::open(at.path, options)?.summarise()?))
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
    /// [`NotFound`](crate::ErrorKind::NotFound) with the nearest name; [`Format`](crate::ErrorKind::Format) for a wrong or
    /// truncated header, missing or trailing bytes; [`Unsupported`](crate::ErrorKind::Unsupported) for elements that are
    /// no numbers; [`Schema`](crate::ErrorKind::Schema) for a type that can't hold the file's.
    pub fn open(path: impl AsRef<Path>, options: &NpyOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, options)
    }

    /// As [`NpyReader::open`], one of these files.
    ///
    /// # Errors
    ///
    /// As [`NpyReader::open`].
    pub fn open_in(files: &Files, path: impl AsRef<Path>, options: &NpyOptions) -> Result<Self> {
        Self::open_within(files, path, options, &MemoryBudget::unlimited())
    }

    /// As [`NpyReader::open_in`]; what is held of an array in Fortran order counts against `budget`.
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
        let path = path.as_ref();
        let input = files.open(path, options.access)?;
        let header = header_of(&input).map_err(|error| error.at_path(path))?;
        let spool = Spool { budget: budget.clone(), ..Spool::default() };
        let (input, header) = in_c_order(input, header, &spool).map_err(|error| error.at_path(path))?;
        let records = FixedRecords::new(input, &header, &options.wanted()).map_err(|error| error.at_path(path))?;
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

    /// Reads all of it for what `inspect` says.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn summarise(&self) -> Result<ArraySummary> {
        self.records.summarise()
    }
}
