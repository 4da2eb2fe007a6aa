use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::Result;
use crate::schema::Role;

use super::fields::Field;
use super::fixed::{
    ArrayHeader, ArraySummary, Endian, FixedRecords, Stored, StoredType, Wanted, only_field, read_fixed_records,
    with_only_field,
};
use super::format::{Format, Inspection, Open, Opened, format_has};
use crate::storage::{Access, Files};

/// How a raw file is read: what a header would say, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawOptions {
    /// Element type in the file.
    pub stored: StoredType,
    /// Shape of a record; `[]` for a number each.
    pub shape: Vec<usize>,
    /// Bytes before the first record.
    pub header_bytes: u64,
    /// Which byte of an element comes first.
    pub endian: Endian,
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

impl Default for RawOptions {
    fn default() -> Self {
        Self {
            stored: StoredType::default(),
            shape: Vec::new(),
            header_bytes: 0,
            endian: Endian::default(),
            name: None,
            role: Role::Feature,
            dtype: None,
            classes: None,
            access: Access::Read,
        }
    }
}

impl RawOptions {
    /// Features of this element type and shape, one record after another.
    pub fn features(stored: StoredType, shape: &[usize]) -> Self {
        Self { stored, shape: shape.to_vec(), ..Self::default() }
    }

    /// Labels of this element type, one number a record.
    pub fn labels(stored: StoredType) -> Self {
        Self { stored, role: Role::Label, ..Self::default() }
    }

    fn wanted(&self) -> Wanted<'_> {
        let Self { name, role, dtype, classes, .. } = self;
        Wanted { name: name.as_deref(), role: *role, dtype: *dtype, classes: classes.as_deref() }
    }
}

/// The format of numbers without a header: what they are, the options must say.
#[derive(Clone, Copy, Debug)]
pub struct Raw;

impl Format for Raw {
    const NAME: &'static str = "raw";
    type Options = RawOptions;

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn title(&self) -> Option<&'static str> {
        None
    }

    fn needs_options(&self) -> bool {
        true
    }

    format_has!(small_samples, access);

    fn field_faults(&self, _: &RawOptions, fields: &[(String, Field)]) -> Result<()> {
        only_field(Self::NAME, fields).map(|_| ())
    }

    fn open(&self, options: &RawOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        let options = with_only_field!(options, at, Self::NAME);
        Ok(Opened::Readers(vec![Arc::new(RawReader::open_in(at.files, at.path, &options)?)]))
    }

    fn inspect(&self, options: &RawOptions, at: &Open<'_>) -> Result<Inspection> {
        Ok(Inspection::of_array(Self::NAME, RawReader::open(at.path, options)?.summarise()?))
    }
}

/// Records of a file without a header that says what it holds: numbers of one type, as many for each record.
///
/// ```
/// use ringfeed::ReaderSource;
/// use ringfeed::arrays::{RawOptions, RawReader, StoredType};
/// use ringfeed::read::RecordReader;
///
/// # let folder = tempfile::tempdir()?;
/// # let (features, labels) = (folder.path().join("x.bin"), folder.path().join("y.bin"));
/// # std::fs::write(&features, vec![7; 10 * 3 * 8 * 8])?;
/// # std::fs::write(&labels, vec![1; 10])?;
/// let images = RawReader::open(features, &RawOptions::features(StoredType::U8, &[3, 8, 8]))?;
/// let classes = RawReader::open(labels, &RawOptions::labels(StoredType::U8))?;
/// assert_eq!(images.len(), 10);
/// let source = ReaderSource::new(images).and(classes).shuffle(42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RawReader {
    records: FixedRecords,
}

read_fixed_records!(RawReader);

impl RawReader {
    /// Opens a file of such records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name,
    /// [`ErrorKind::Format`](crate::ErrorKind::Format) for a file that does not hold whole records,
    /// [`ErrorKind::Schema`](crate::ErrorKind::Schema) for a type that can't hold the file's.
    pub fn open(path: impl AsRef<Path>, options: &RawOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, options)
    }

    /// As [`RawReader::open`], one of these files.
    ///
    /// # Errors
    ///
    /// As [`RawReader::open`].
    pub fn open_in(files: &Files, path: impl AsRef<Path>, options: &RawOptions) -> Result<Self> {
        let path = path.as_ref();
        let input = files.open(path, options.access)?;
        let stored = Stored { kind: options.stored, endian: options.endian };
        let header = ArrayHeader::of_raw(stored, options.shape.clone(), options.header_bytes, input.len())
            .map_err(|error| error.at_path(path))?;
        let records = FixedRecords::new(input, &header, &options.wanted()).map_err(|error| error.at_path(path))?;
        Ok(Self { records })
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
