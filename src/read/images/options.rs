use serde::{Deserialize, Serialize};

use crate::decode::ImageOptions;
use crate::read::SavedIndex;

/// How folders of images are read: plain data, with a default for every part. [Fields](crate::field) say how the
/// pictures are decoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FolderOptions {
    /// Where the listing of the folder is saved for the next run.
    pub saved_index: SavedIndex,
    /// Maximum number of bytes of a file, checked before it is read.
    pub max_file_bytes: u64,
}

impl Default for FolderOptions {
    fn default() -> Self {
        Self { saved_index: SavedIndex::Off, max_file_bytes: ImageOptions::default().max_file_bytes }
    }
}
