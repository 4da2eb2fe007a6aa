use serde::{Deserialize, Serialize};

use crate::read::SavedIndex;
use crate::storage::Access;

/// How tar archives are read: plain data, with a default for every part. [Fields](crate::field) say how their members
/// are decoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TarOptions {
    /// Maximum number of bytes of a member, checked before it is read.
    pub max_file_bytes: u64,
    /// Where the index of all archives is saved for the next run: for a folder, beside the folder; for a list, beside
    /// its first archive.
    pub saved_index: SavedIndex,
    /// How the archives are read.
    pub access: Access,
}

impl Default for TarOptions {
    fn default() -> Self {
        Self { max_file_bytes: 256 << 20, saved_index: SavedIndex::Off, access: Access::Read }
    }
}

impl TarOptions {
    /// Maximum number of bytes of a member: an index holds sizes of 32 bits, whose largest value means this or more.
    pub(super) fn most_bytes(&self) -> u64 {
        self.max_file_bytes.min(u64::from(u32::MAX) - 1)
    }
}
