use serde::{Deserialize, Serialize};

use crate::decode::{AudioCrop, AudioOptions};
use crate::dtype::DType;
use crate::read::SavedIndex;

/// How the sounds of a folder are read where no fields say it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AudioFolderOptions {
    /// Frames a second: a sound of another rate is resampled. By default that of the first file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Frames of the tensor; without it, a sound is as long as it is, and padded to the longest of its batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// Which part of a sound is taken that is longer than `length`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<AudioCrop>,
    /// So many channels, in place of their mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<usize>,
    /// Element type.
    pub dtype: DType,
    /// The class names in index order: one list for training and test data. By default those that are found, sorted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// Where the listing of the folder is kept for the next run.
    pub saved_index: SavedIndex,
}

impl Default for AudioFolderOptions {
    fn default() -> Self {
        let AudioOptions { rate, length, crop, channels, dtype, .. } = AudioOptions::default();
        Self { rate, length, crop, channels, dtype, classes: None, saved_index: SavedIndex::Off }
    }
}

impl AudioFolderOptions {
    pub(super) fn audio(&self) -> AudioOptions {
        let Self { rate, length, crop, channels, dtype, .. } = self.clone();
        AudioOptions { rate, length, crop, channels, dtype, geometry: None }
    }
}
