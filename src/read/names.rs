//! What the names and the beginnings of files say.

use std::path::Path;

/// How much of a file decides what it is.
pub(super) const HEAD_BYTES: u64 = 64 << 10;

/// The lower-case name without `.gz`.
pub(super) fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.strip_suffix(".gz").map(str::to_owned).unwrap_or(name)
}

pub(super) fn is_idx_name(path: &Path) -> bool {
    let name = plain_name(path);
    name.ends_with("-ubyte") || name.ends_with(".idx")
}
