use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

use super::detect::Format;
use super::idx::IdxFile;
use super::sequence::is_csv_name;
use super::tar::is_tar_name;

/// How many ignored files are named.
const NAMED: usize = 10;

/// What lies in a folder beside the files that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFiles {
    /// How many files and folders.
    pub count: u64,
    /// The first ten of them by name, below the folder.
    pub first: Vec<PathBuf>,
}

impl IgnoredFiles {
    /// What is ignored in `folder` where it is one of sequences, of IDX files or of archives; nothing where `folder` is none,
    /// or of another format. (Of image folders, whose subfolders are read, [`FolderSummary`](crate::inspect::FolderSummary) says it.)
    /// Hidden files are not meant.
    ///
    /// # Errors
    ///
    /// If the folder can't be listed.
    pub fn beside(format: Format, folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let arrays = match format {
            Format::IdxFolder => IdxFile::paths_in(folder)?,
            Format::CsvSequences | Format::Tar if folder.is_dir() => Vec::new(),
            _ => return Ok(Self::default()),
        };
        let mut ignored = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))? {
            let path = entry.map_err(|error| Error::io(folder, error))?.path();
            let name = PathBuf::from(path.file_name().unwrap_or_default());
            let is_read = match format {
                Format::Tar => is_tar_name(&path),
                Format::CsvSequences => is_csv_name(&name.to_string_lossy()) && !path.is_dir(),
                _ => arrays.binary_search(&path).is_ok(),
            };
            if !is_read && !name.as_os_str().as_encoded_bytes().starts_with(b".") {
                ignored.push(name);
            }
        }
        let count = ignored.len() as u64;
        ignored.sort();
        ignored.truncate(NAMED);
        Ok(Self { count, first: ignored })
    }
}
