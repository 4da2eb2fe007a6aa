use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How many ignored files are named.
const NAMED: usize = 10;

/// What lies in a folder beside the files that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoredFiles {
    /// How many files and folders.
    pub(crate) count: u64,
    /// The first ten of them by name, below the folder.
    pub(crate) first: Vec<PathBuf>,
}

impl IgnoredFiles {
    /// What lies in `folder` and is not read; nothing where it is no folder. Hidden files are not meant.
    ///
    /// # Errors
    ///
    /// If the folder can't be listed.
    pub(crate) fn beside(folder: &Path, is_read: impl Fn(&Path) -> bool) -> Result<Self> {
        if !folder.is_dir() {
            return Ok(Self::default());
        }
        let mut ignored = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))? {
            let path = entry.map_err(|error| Error::io(folder, error))?.path();
            let name = PathBuf::from(path.file_name().unwrap_or_default());
            if !is_read(&path) && !name.as_os_str().as_encoded_bytes().starts_with(b".") {
                ignored.push(name);
            }
        }
        let count = ignored.len() as u64;
        ignored.sort();
        ignored.truncate(NAMED);
        Ok(Self { count, first: ignored })
    }
}
