//! Looks up what is at a path.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::paths::Paths;
use crate::storage::Files;

use super::detect;
use super::inspection::Inspection;
use super::source::SourceConfig;
use super::table::Formats;

impl Formats {
    /// Detects the data at `path` on this machine: its format, and how it would be read. In a folder of IDX files,
    /// these are the features with the most records and their labels.
    ///
    /// The format is decided by the content of a file, otherwise by its name. Other text is CSV if its name says so, or
    /// if it looks like a table: most of its first records have the same number of fields, and a column holds numbers.
    /// HTML and other known formats that can't be read are refused, whatever their names. A folder is a folder of
    /// images if a subfolder holds any. Otherwise it has the format of most of its files, by their names.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name, or for a folder without files of any
    /// format; [`ErrorKind::Format`](crate::ErrorKind::Format) for a file of another format, with its name if it is
    /// known, and what to do with it.
    pub fn detect(&self, path: impl AsRef<Path>) -> Result<Vec<SourceConfig>> {
        self.detect_in(&Files::local(), path)
    }

    /// As [`detect`](Self::detect), among these files. In a storage, every path that can be listed is a folder.
    ///
    /// # Errors
    ///
    /// As [`detect`](Self::detect), and those of the storage.
    pub fn detect_in(&self, files: &Files, path: impl AsRef<Path>) -> Result<Vec<SourceConfig>> {
        let path = path.as_ref();
        let format = detect::detect(self.all(), files, path)?;
        let sources = format.sources(files, path)?;
        let source = |(path, fields): (PathBuf, _)| {
            let mut source = SourceConfig::of(self, format.clone(), path.into(), format.default_options());
            source.fields = fields;
            source
        };
        Ok(sources.into_iter().map(source).collect())
    }

    /// Detects the data at these paths. Several paths are one source, in the format of the first.
    ///
    /// # Errors
    ///
    /// As [`detect`](Self::detect).
    pub fn detect_all(&self, paths: &Paths) -> Result<Vec<SourceConfig>> {
        self.detect_all_in(&Files::local(), paths)
    }

    /// As [`detect_all`](Self::detect_all), among these files.
    ///
    /// # Errors
    ///
    /// As [`detect_in`](Self::detect_in).
    pub fn detect_all_in(&self, files: &Files, paths: &Paths) -> Result<Vec<SourceConfig>> {
        if paths.iter().len() == 1 {
            return self.detect_in(files, paths.first());
        }
        let format = detect::detect(self.all(), files, paths.first())?;
        let options = format.default_options();
        Ok(vec![SourceConfig::of(self, format, paths.clone(), options)])
    }

    /// Describes the file or folder at `path`. Reads all of its records.
    ///
    /// ```
    /// let inspection = ringfeed::formats::Formats::new().inspect("fixtures/iris.csv")?;
    /// assert_eq!((inspection.records, inspection.fields.len()), (150, 5));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`detect`](Self::detect), and of reading.
    pub fn inspect(&self, path: impl AsRef<Path>) -> Result<Inspection> {
        self.whole(path)?.inspect(&Files::local(), &MemoryBudget::unlimited())
    }

    /// The file or folder at `path` as a single source, even if [`detect`](Self::detect) makes several sources of it.
    ///
    /// # Errors
    ///
    /// Those of [`detect`](Self::detect).
    pub fn whole(&self, path: impl AsRef<Path>) -> Result<SourceConfig> {
        let path = path.as_ref();
        let format = detect::detect(self.all(), &Files::local(), path)?;
        let options = format.default_options();
        Ok(SourceConfig::of(self, format, path.into(), options))
    }
}
