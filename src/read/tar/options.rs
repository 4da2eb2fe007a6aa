use serde::{Deserialize, Serialize};

use crate::read::SavedIndex;
use crate::storage::Access;

/// How tar archives are read: plain data, with defaults for all of it. What becomes of their members is said by
/// [fields](crate::field).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TarOptions {
    /// Most bytes of a member, checked before it is read.
    pub max_file_bytes: u64,
    /// Where the index of all archives together is kept for the next run: that of a folder beside the folder, that of a
    /// list beside its first archive.
    pub saved_index: SavedIndex,
    /// How the archives are reached.
    pub access: Access,
}

impl Default for TarOptions {
    fn default() -> Self {
        Self { max_file_bytes: 256 << 20, saved_index: SavedIndex::Off, access: Access::Read }
    }
}
