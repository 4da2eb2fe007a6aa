use std::fs::File;

use memmap2::MmapRaw;

/// A mapping whose bytes are never read through it.
#[derive(Debug)]
pub(crate) struct Window(pub(super) MmapRaw);

impl Window {
    /// `None` if the system can't copy from it; the file must then be read piece by piece.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(file: &File) -> Option<Self> {
        let map = memmap2::MmapOptions::new().map_raw_read_only(file).ok().filter(|map| map.len() > 0)?;
        // Pieces lie apart, so if one must be read from disk, its surroundings are not wanted.
        map.advise(memmap2::Advice::Random).ok()?;
        Some(Self(map))
    }

    /// `None`: this system can't copy from a mapping.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(_: &File) -> Option<Self> {
        None
    }
}
