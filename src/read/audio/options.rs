use serde::{Deserialize, Serialize};

use crate::read::SavedIndex;

/// How a folder of sounds is listed. Fields say how the sounds and their classes are decoded: by default sounds keep
/// their lengths and have the rate of the first file, and the class is the index of the folder's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AudioFolderOptions {
    /// Where the listing of the folder is saved for the next run.
    pub saved_index: SavedIndex,
}
