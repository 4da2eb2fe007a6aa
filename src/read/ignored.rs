use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::storage::Files;

/// Number of ignored files that are named.
const NAMED: usize = 10;

/// Files in a folder that are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoredFiles {
    /// Number of files and folders.
    pub(crate) count: u64,
    /// The first ten of them by name, with their paths below the folder.
    pub(crate) first: Vec<PathBuf>,
}

impl IgnoredFiles {
    /// Files in `folder` that are not read; none if it is not a folder. Hidden files are not included.
    ///
    /// # Errors
    ///
    /// If the folder can't be listed.
    pub(crate) fn beside(files: &Files, folder: &Path, is_read: impl Fn(&Path) -> bool) -> Result<Self> {
        if !files.is_folder(folder) {
            return Ok(Self::default());
        }
        let listed = files.list(folder)?.into_iter().filter(|entry| !entry.is_hidden());
        let ignored = listed.map(|entry| PathBuf::from(entry.name)).filter(|name| !is_read(&folder.join(name)));
        let mut ignored: Vec<PathBuf> = ignored.collect();
        let count = ignored.len() as u64;
        ignored.sort();
        ignored.truncate(NAMED);
        Ok(Self { count, first: ignored })
    }
}
