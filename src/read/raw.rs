use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;

use super::arrays::of_one;
use super::container::Container;
use super::fields::Field;
use super::fixed::{
    ArrayHeader, ArraySummary, Endian, FixedRecords, Stored, StoredType, Wanted, open_only, read_fixed_records, wanted,
};
use super::format::{Format, Inspection, Open, Opened, format_has, open_parts};
use crate::storage::{Access, Files};

/// How a raw file is read: what a header would say. A field says how its records are decoded: by default they are the
/// tensor `features`, unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawOptions {
    /// Element type in the file.
    pub stored: StoredType,
    /// Shape of a record; `[]` for one number per record.
    pub shape: Vec<usize>,
    /// Bytes before the first record.
    pub header_bytes: u64,
    /// Which byte of an element comes first.
    pub endian: Endian,
    /// How the file is read. It may be mapped, which is faster but needs a promise: see
    /// [`Mapping::promise`](crate::storage::Mapping::promise).
    pub access: Access,
}

impl Default for RawOptions {
    fn default() -> Self {
        Self {
            stored: StoredType::default(),
            shape: Vec::new(),
            header_bytes: 0,
            endian: Endian::default(),
            access: Access::Read,
        }
    }
}

impl RawOptions {
    /// Records of this element type and shape, one after another.
    pub fn features(stored: StoredType, shape: &[usize]) -> Self {
        Self { stored, shape: shape.to_vec(), ..Self::default() }
    }
}

/// The format of numbers without a header. The options must say what they are.
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

    format_has!(small_samples, one_array, access);

    fn open(&self, options: &RawOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        open_only(at, |wanted| RawReader::open_wanted(at.files, at.path, options, wanted))
    }

    /// Numbers stay what they are in the file.
    fn open_values(&self, options: &RawOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let open = |at: &Open<'_>| Ok(of_one(RawReader::open_in(at.files, at.path, options)?.records));
        open_parts(&open, paths, at)?.into_values().map_err(|error| error.at_path(at.path))
    }

    fn inspect(&self, options: &RawOptions, at: &Open<'_>) -> Result<Inspection> {
        Ok(Inspection::of_array(Self::NAME, RawReader::open_in(at.files, at.path, options)?.summarise()?))
    }
}

/// Records of a file without a header that describes it: numbers of one type, equally many in each record.
///
/// ```
/// use ringfeed::arrays::{RawOptions, RawReader, StoredType};
/// use ringfeed::field::Class;
/// use ringfeed::read::RecordReader;
/// use ringfeed::source::ReaderSource;
///
/// # let folder = tempfile::tempdir()?;
/// # let (features, labels) = (folder.path().join("x.bin"), folder.path().join("y.bin"));
/// # std::fs::write(&features, vec![7; 10 * 3 * 8 * 8])?;
/// # std::fs::write(&labels, vec![1; 10])?;
/// let images = RawReader::open(features, &RawOptions::features(StoredType::U8, &[3, 8, 8]))?;
/// let classes = RawReader::open_as(labels, "labels", Class, &RawOptions::features(StoredType::U8, &[]))?;
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

    /// As [`RawReader::open`], with a tensor called `name` as this field says: numbers of one type, the records
    /// unchanged, or classes by their indices.
    ///
    /// # Errors
    ///
    /// As [`RawReader::open`], and [`ErrorKind::Config`](crate::ErrorKind::Config) for any other field.
    pub fn open_as(path: impl AsRef<Path>, name: &str, field: impl Into<Field>, options: &RawOptions) -> Result<Self> {
        let (path, field) = (path.as_ref(), field.into());
        let wanted = wanted(name, &field).map_err(|error| error.at_path(path))?;
        Self::open_wanted(&Files::local(), path, options, &wanted)
    }

    /// As [`RawReader::open`], for one of these files.
    ///
    /// # Errors
    ///
    /// As [`RawReader::open`].
    pub fn open_in(files: &Files, path: impl AsRef<Path>, options: &RawOptions) -> Result<Self> {
        Self::open_wanted(files, path.as_ref(), options, &Wanted::default())
    }

    fn open_wanted(files: &Files, path: &Path, options: &RawOptions, wanted: &Wanted<'_>) -> Result<Self> {
        let input = files.open(path, options.access)?;
        let stored = Stored { kind: options.stored, endian: options.endian };
        let header = ArrayHeader::of_raw(stored, options.shape.clone(), options.header_bytes, input.len())
            .map_err(|error| error.at_path(path))?;
        let records = FixedRecords::new(input, &header, wanted).map_err(|error| error.at_path(path))?;
        Ok(Self { records })
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
