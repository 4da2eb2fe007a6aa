//! What the names and first bytes of files tell.

use std::path::Path;

/// How many bytes of a file are read to recognise it.
pub(super) const HEAD_BYTES: u64 = 64 << 10;

/// The lower-case name without `.gz`, `.zst` and `.bz2`.
pub(super) fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    without_packing(&name).to_owned()
}

/// Endings of the names of compressed files.
pub(super) const PACKED: [&str; 3] = [".gz", ".zst", ".bz2"];

/// A lower-case name without the ending of a compressed file.
pub(super) fn without_packing(name: &str) -> &str {
    PACKED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

pub(super) fn is_idx_name(path: &Path) -> bool {
    let name = plain_name(path);
    name.ends_with("-ubyte") || name.ends_with(".idx")
}

/// Whether a file of this name counts as CSV among others.
pub(super) fn is_csv_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let stem = without_packing(&name);
    !name.starts_with('.') && [".csv", ".tsv", ".tab"].iter().any(|end| stem.ends_with(end))
}
