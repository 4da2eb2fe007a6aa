use serde::{Deserialize, Serialize};

use crate::read::SavedIndex;

/// How a folder of sounds is listed. What becomes of the sounds, and of their classes, fields say: by default each is as long as it
/// is, at the rate of the first file, and its class its index among the folders' names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AudioFolderOptions {
    /// Where the listing of the folder is kept for the next run.
    pub saved_index: SavedIndex,
}
