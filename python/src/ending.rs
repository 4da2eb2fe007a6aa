//! The interpreter's end, and what it waits for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::fork;

/// The interpreter is about to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Number of working threads: our own, beside those of a loader, and the user's threads that create a loader or use its
/// iterator.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Makes the interpreter's end wait, for a while: before Python 3.14, if the interpreter stops a thread inside Rust,
/// the process ends.
pub(crate) struct AtWork {
    generation: u64,
}

impl AtWork {
    /// After this call, check whether the [interpreter ends](ends).
    pub(crate) fn begin() -> Self {
        AT_WORK.fetch_add(1, Ordering::SeqCst);
        Self { generation: fork::generation() }
    }

    /// Whether any thread is at work.
    pub(crate) fn is_any() -> bool {
        AT_WORK.load(Ordering::SeqCst) > 0
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        // What was counted in the parent is forgotten in a forked child.
        if self.generation == fork::generation() {
            AT_WORK.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(unix)]
extern "C" fn forget() {
    AT_WORK.store(0, Ordering::SeqCst);
}

/// Forgets the parent's threads in a forked child.
pub(crate) fn watch() {
    #[cfg(unix)]
    fork::in_each_child(forget);
}

/// Whether the interpreter is about to end.
pub(crate) fn ends() -> bool {
    ENDS.load(Ordering::SeqCst)
}

/// From now on it is.
pub(crate) fn begin() {
    ENDS.store(true, Ordering::SeqCst);
}
