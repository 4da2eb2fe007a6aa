use std::fs::File;

use memmap2::MmapRaw;

/// A mapping that is never looked into.
#[derive(Debug)]
pub(crate) struct Window(pub(super) MmapRaw);

impl Window {
    /// `None` where the system can't copy out of it; the file must then be read piece by piece.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(file: &File) -> Option<Self> {
        let map = memmap2::MmapOptions::new().map_raw_read_only(file).ok().filter(|map| map.len() > 0)?;
        // Pieces lie apart: what is around one that has to come from the disk is not wanted.
        map.advise(memmap2::Advice::Random).ok()?;
        Some(Self(map))
    }

    /// None: the system can't copy out of it.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(_: &File) -> Option<Self> {
        None
    }
}
