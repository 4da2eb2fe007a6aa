use std::cell::Cell;
use std::time::Duration;

use super::clock::{Tick, now};

/// Time within the decoding of samples that is counted separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Resizing pictures and changing them at random.
    pub(crate) resizing: Duration,
    /// Waiting for memory of the budget that other threads hold.
    pub(crate) memory_wait: Duration,
}

thread_local! {
    /// For the calling thread: decoders do not know for whom they work.
    static INSIDE: Cell<Inside> = const { Cell::new(Inside { resizing: Duration::ZERO, memory_wait: Duration::ZERO }) };
}

impl Inside {
    /// The times that the calling thread has counted since the last [`take`](Self::take).
    #[inline]
    pub(crate) fn so_far() -> Self {
        INSIDE.get()
    }

    #[inline]
    pub(crate) fn take() -> Self {
        INSIDE.take()
    }

    /// Counts the time since `since`, in which the calling thread waited for memory.
    pub(crate) fn waited_for_memory(since: Tick) {
        let before = INSIDE.get();
        INSIDE.set(Self { memory_wait: before.memory_wait + now().since(since), ..before });
    }
}

/// Runs `work`, whose resizing counts for another stage than that of reading images.
#[cfg(feature = "images")]
pub(crate) fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    /// Also if `work` panics.
    struct Restored(Duration);
    impl Drop for Restored {
        fn drop(&mut self) {
            INSIDE.set(Inside { resizing: self.0, ..INSIDE.get() });
        }
    }
    let _restored = Restored(INSIDE.get().resizing);
    work()
}

/// Counts the time until it drops as resizing.
#[cfg(feature = "images")]
#[derive(Debug)]
#[must_use]
pub(crate) struct Resizing(Tick);

#[cfg(feature = "images")]
impl Resizing {
    pub(crate) fn begin() -> Self {
        Self(now())
    }
}

#[cfg(feature = "images")]
impl Drop for Resizing {
    fn drop(&mut self) {
        let before = INSIDE.get();
        INSIDE.set(Inside { resizing: before.resizing + now().since(self.0), ..before });
    }
}
