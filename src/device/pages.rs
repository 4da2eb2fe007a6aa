use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;
use crate::memory::{AnonymousPages, Block, PageSource};

/// Something that can lock pages of memory.
pub trait Locker: Send + Sync + 'static {
    /// A locked block of at least `bytes` bytes.
    fn lock(&self, bytes: usize) -> Result<Block>;
}

/// Page-locked host memory, from which a device copies fastest and without an intermediate copy.
///
/// It is locked when a slot of the ring is first used, and again when the slot grows. If the system refuses to lock
/// pages, ordinary pages are used, with one warning: everything works, but slower.
pub struct LockedPages<L> {
    locker: L,
    was_refused: Arc<AtomicBool>,
}

impl<L> LockedPages<L> {
    pub(super) fn new(locker: L) -> Self {
        Self { locker, was_refused: Arc::default() }
    }

    /// Whether locking was refused for any block so far.
    pub fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Relaxed)
    }
}

impl<L: Clone> Clone for LockedPages<L> {
    fn clone(&self) -> Self {
        Self { locker: self.locker.clone(), was_refused: self.was_refused.clone() }
    }
}

impl<L: Locker> PageSource for LockedPages<L> {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        self.locker.lock(bytes).or_else(|error| {
            if !self.was_refused.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    %error,
                    bytes,
                    "memory can't be page-locked, so that copies to the device are slower; ordinary pages are used \
                     (a limit on locked memory may be too low: `ulimit -l`)"
                );
            }
            AnonymousPages.allocate(bytes)
        })
    }
}

impl<L> fmt::Debug for LockedPages<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockedPages(refused: {})", self.was_refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use std::sync::atomic::AtomicUsize;

    struct Limited(AtomicUsize);

    impl Locker for Limited {
        fn lock(&self, bytes: usize) -> Result<Block> {
            if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
                self.0.store(0, Ordering::Relaxed);
                return Err(Error::new(ErrorKind::Device, "no more"));
            }
            AnonymousPages.allocate(bytes)
        }
    }

    #[test]
    fn refused_pages_are_ordinary_ones() {
        let pages = LockedPages::new(Limited(AtomicUsize::new(1)));
        assert!(pages.allocate(5000).unwrap().len() >= 5000 && !pages.was_refused());
        assert!(pages.allocate(5000).unwrap().len() >= 5000 && pages.was_refused());
    }
}
