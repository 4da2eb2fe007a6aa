//! Folders of shards with an index: the common part of MDS and LitData besides the shards.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::storage::Files;

use super::names::HEAD_BYTES;

/// How folders of shards are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShardedOptions {
    /// Maximum number of bytes of decompressed shards that are kept, in addition to those in use. A shuffle over more
    /// data than this decompresses shards again and again; a shuffle in blocks does not.
    pub cache_bytes: u64,
}

impl Default for ShardedOptions {
    fn default() -> Self {
        Self { cache_bytes: 256 << 20 }
    }
}

/// File name of the index.
const INDEX: &str = "index.json";

/// A longer file is hardly an index: that of a million shards has some 300 MB.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// The folder, from a path that names it or its index.
pub(super) fn root_of(path: &Path) -> PathBuf {
    let is_index = path.file_name().is_some_and(|name| name == INDEX);
    let root = if is_index { path.parent() } else { None };
    root.unwrap_or(path).to_owned()
}

/// Whether a folder has an index that seems valid.
pub(super) fn is_index_of(files: &Files, folder: &Path, looks: impl Fn(&[u8]) -> bool) -> Result<bool> {
    let path = folder.join(INDEX);
    let is_there = match files.are_local() {
        true => path.is_file(),
        false => files.list(folder).is_ok_and(|entries| entries.iter().any(|entry| *entry.name == *INDEX)),
    };
    if !is_there {
        return Ok(false);
    }
    let mut head = Vec::new();
    let read = files.stream(&path)?.take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|error| Error::io(&path, error)).map(|_| looks(&head))
}

/// Memory for each byte of an index, including the parsed data.
const BYTES_OF_BYTE: u64 = 4;

/// The index of a folder, and its path.
pub(super) fn read_index<T: DeserializeOwned>(
    files: &Files,
    root: &Path,
    budget: &MemoryBudget,
) -> Result<(T, PathBuf)> {
    let path = root.join(INDEX);
    let len = files.len(&path)?.min(MAX_INDEX_BYTES);
    let _reservation = budget.reserve(len * BYTES_OF_BYTE, "the index of shards")?;
    let mut text = Vec::new();
    let bytes = files.stream(&path)?;
    bytes.take(MAX_INDEX_BYTES + 1).read_to_end(&mut text).map_err(|error| Error::io(&path, error))?;
    if text.len() as u64 > MAX_INDEX_BYTES {
        let message = format!("an index of more than {MAX_INDEX_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, message).at_path(path));
    }
    let read = serde_json::from_slice(&text).map_err(|error| {
        let message = format!("no index of shards: {error}");
        Error::new(ErrorKind::Format, message).with_source(error).at_path(&path)
    });
    read.map(|index| (index, path))
}

/// A file that an index names, which must be below the folder.
pub(super) fn file_in(root: &Path, name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_))) && !name.is_empty();
    match is_below {
        true => Ok(root.join(path)),
        false => {
            Err(Error::new(ErrorKind::Format, format!("the index names {name:?}, which is not a file in its folder")))
        }
    }
}
