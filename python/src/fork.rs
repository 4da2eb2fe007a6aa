//! Identifies this process: threads, and what they hold, do not exist in a forked child.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(unix)]
use crate::calling;

/// Number of forks between the process that loaded the module and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

#[cfg(unix)]
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    calling::forget();
}

/// Starts to count forks.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler touches atomic numbers only, which any moment between fork and exec allows.
        #[cfg(unix)]
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// A number for this process that none of its children has.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}
