use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::ptr::NonNull;

use memmap2::MmapMut;

use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::system::check_file_limit;

/// Blocks are aligned to this, and their sizes are multiples of it.
pub(crate) const PAGE_BYTES: usize = 4096;

/// A page-aligned piece of memory with one owner. All of its pages were touched, so writing to it causes no page fault.
pub struct Block {
    start: NonNull<u8>,
    bytes: usize,
    /// The process that allocated it, unless the system gives each forked child a copy.
    shared_by: Option<u32>,
    _owner: Box<dyn Any + Send>,
}

// SAFETY: a block is the only way to its memory (contract of `from_raw_parts`), and the owner that frees it is `Send`.
unsafe impl Send for Block {}
// SAFETY: a shared block only gives its bytes to be read: its owner is reached by nobody before it drops, and code
// that writes through `start` answers for it.
unsafe impl Sync for Block {}

impl Block {
    /// Wraps memory that `owner` frees when it drops. A forked child regards it as its parent's memory: in the child, a
    /// ring does not write there, but asks for a new block.
    ///
    /// # Safety
    ///
    /// `start` must point to `bytes` initialised bytes, aligned to 4096, that are reachable through nothing else until
    /// `owner` drops, and from any thread.
    pub unsafe fn from_raw_parts(start: NonNull<u8>, bytes: usize, owner: Box<dyn Any + Send>) -> Self {
        debug_assert!(start.addr().get().is_multiple_of(PAGE_BYTES));
        Self { start, bytes, shared_by: Some(std::process::id()), _owner: owner }
    }

    fn from_map(mut map: MmapMut) -> Self {
        // One write per page, so that the system provides the pages now and not while a batch is filled.
        map.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 0);
        let start = NonNull::from(&mut map[..]).cast();
        let bytes = map.len();
        // SAFETY: the mapping is page-aligned, initialised by the operating system, exclusively ours (anonymous and
        // private), and stays in place when the `MmapMut` value moves.
        let block = unsafe { Self::from_raw_parts(start, bytes, Box::new(map)) };
        Self { shared_by: None, ..block }
    }

    /// The same block, which keeps `other` alive as long as it lives.
    pub(crate) fn keeping(self, other: impl Any + Send) -> Self {
        Self { _owner: Box::new((self._owner, other)), ..self }
    }

    /// Whether this process may write to it. It may not if it shares the block with the parent from which it was
    /// forked.
    pub(crate) fn is_ours(&self) -> bool {
        self.shared_by.is_none_or(|process| process == std::process::id())
    }

    /// Ordinary anonymous pages without a limit, for batches that spill.
    pub(crate) fn unbounded(bytes: usize) -> Result<Self> {
        AnonymousPages.allocate(bytes)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The memory.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `from_raw_parts` promises initialised, exclusive memory of this length; `&self` forbids writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The memory, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes this the only borrow.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.bytes)
    }
}

/// A source of memory for a ring.
pub trait PageSource: Send + Sync + fmt::Debug {
    /// A block of at least `bytes` bytes, rounded up to whole pages, every page touched.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`] when the source's own bound is reached, [`ErrorKind::Io`] when the operating system
    /// refuses.
    fn allocate(&self, bytes: usize) -> Result<Block>;
}

impl<P: PageSource + ?Sized> PageSource for Box<P> {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        (**self).allocate(bytes)
    }
}

/// Rounds up to whole pages, at least one. If the result does not fit into a number, it is larger than any memory.
pub(crate) fn whole_pages(bytes: usize) -> usize {
    bytes.max(1).checked_next_multiple_of(PAGE_BYTES).unwrap_or(usize::MAX - (PAGE_BYTES - 1))
}

/// Anonymous pages of the process: ordinary memory. A forked child has a copy of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnonymousPages;

impl PageSource for AnonymousPages {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        let bytes = whole_pages(bytes);
        let map = MmapMut::map_anon(bytes).map_err(|error| {
            let message = format!("the operating system refused {bytes} bytes of memory: {error}");
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        #[cfg(target_os = "linux")]
        if bytes >= 2 << 20 {
            // Needs fewer page-table entries; a kernel that does not know the advice ignores it.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Block::from_map(map))
    }
}

/// Pages of unlinked temporary files: batch memory that the operating system may write back to disk.
///
/// They have their own limit, in addition to the memory budget. A forked child shares the files that were made before.
/// It fills its own batches elsewhere, but a batch that it got from its parent changes when the parent fills that slot
/// again; and if the child writes into such a batch, the parent's batch changes.
#[derive(Debug)]
pub struct TempFilePages {
    folder: Option<PathBuf>,
    limit: u64,
    used: Arc<AtomicU64>,
}

impl TempFilePages {
    /// Files of at most `limit` bytes together, in `folder` or the system's temporary folder.
    pub fn new(folder: Option<PathBuf>, limit: u64) -> Self {
        Self { folder, limit, used: Arc::new(AtomicU64::new(0)) }
    }
}

struct TempFileMap {
    _map: MmapMut,
    bytes: u64,
    used: Arc<AtomicU64>,
}

impl Drop for TempFileMap {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl PageSource for TempFilePages {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        let len = whole_pages(bytes);
        let bytes = len as u64;
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let add = |used: u64| used.checked_add(bytes).filter(|total| *total <= self.limit);
        let account = |map| TempFileMap { _map: map, bytes, used: self.used.clone() };
        let give_back = || self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Err(used) = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            let message = format!(
                "a slot needs {bytes} bytes of temporary file, but {used} of the {} allowed are taken; raise the limit",
                self.limit
            );
            return Err(Error::new(ErrorKind::Budget, message).at_path(folder));
        }
        let map = (|| {
            check_file_limit(bytes)?;
            let file = files::unnamed(Some(&folder))?;
            file.set_len(bytes)?;
            reserve_disk(&file, bytes)?;
            // SAFETY: the file was created a moment ago without a name: no other process can open, write or truncate
            // it.
            unsafe { MmapMut::map_mut(&file) }
        })();
        let mut map = map.map_err(|error| {
            give_back();
            Error::io(&folder, error)
        })?;
        map.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 0);
        let start = NonNull::from(&mut map[..]).cast();
        // SAFETY: as in `Block::from_map`: page-aligned, initialised with zeros, exclusive, stable; the owner unmaps
        // it.
        Ok(unsafe { Block::from_raw_parts(start, len, Box::new(account(map))) })
    }
}

/// Writes to every block of the file, so that a full disk is an error now and not a SIGBUS later.
fn reserve_disk(mut file: &std::fs::File, bytes: u64) -> std::io::Result<()> {
    use std::io::Write;
    let zeros = [0u8; 16 * PAGE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(zeros.len() as u64);
        file.write_all(&zeros[..step as usize])?;
        left -= step;
    }
    Ok(())
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_aligned_zeroed_pages() {
        for source in [&AnonymousPages as &dyn PageSource, &TempFilePages::new(None, 1 << 20)] {
            let mut block = source.allocate(5000).unwrap();
            assert_eq!(block.len(), 8192);
            assert!(block.start().addr().get().is_multiple_of(PAGE_BYTES));
            assert!(block.as_slice().iter().all(|byte| *byte == 0));
            block.as_mut_slice()[8191] = 7;
            assert_eq!(block.as_slice()[8191], 7);
        }
    }

    #[test]
    fn temporary_files_keep_their_own_bound() {
        let source = TempFilePages::new(None, 8192);
        let first = source.allocate(8192).unwrap();
        assert_eq!(source.allocate(1).unwrap_err().kind(), ErrorKind::Budget);
        drop(first);
        source.allocate(1).unwrap();
    }

    #[test]
    fn more_than_any_memory_is_an_error() {
        for bytes in [usize::MAX, usize::MAX - PAGE_BYTES, 1 << 62] {
            assert_eq!(AnonymousPages.allocate(bytes).unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(TempFilePages::new(None, 1 << 40).allocate(bytes).unwrap_err().kind(), ErrorKind::Budget);
        }
    }
}
