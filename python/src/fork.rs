//! Identifies this process: threads, and what they hold, do not exist in a forked child.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use pyo3::prelude::*;

/// Number of forks between the process that loaded the module and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Whether the process forks, or a thread does what no fork may interrupt.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether a fork waits for such a thread: before Python 3.12. Later ones order forks themselves, and hold the lock of
/// their list of threads from before a fork to its end, so that both would wait for each other.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

extern "C" fn take() {
    while IS_TAKEN.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        thread::yield_now();
    }
}

extern "C" fn release() {
    IS_TAKEN.store(false, Ordering::Release);
}

/// Does short work which must not be half done in a child: Python 3.11 takes the lock of its list of threads in the
/// child before it renews this lock, so that a fork while a thread enters the list leaves a child that waits forever.
/// The work must not wait for the interpreter's lock, which a thread that forks may hold.
pub(crate) fn not_meanwhile<R>(work: impl FnOnce() -> R) -> R {
    if !IS_NEEDED.load(Ordering::Relaxed) {
        return work();
    }
    take();
    let done = work();
    release();
    done
}

#[cfg(unix)]
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    release();
}

/// Starts to count forks.
pub(crate) fn watch(py: Python<'_>) {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let is_needed = py.version_info() < (3, 12);
        IS_NEEDED.store(is_needed, Ordering::Relaxed);
        #[cfg(unix)]
        {
            type Handler = unsafe extern "C" fn();
            let [before, behind]: [Option<Handler>; 2] =
                if is_needed { [Some(take), Some(release)] } else { [None; 2] };
            // SAFETY: the handlers touch atomic numbers only, which any moment between fork and exec allows.
            let _ = unsafe { libc::pthread_atfork(before, behind, Some(in_child)) };
        }
    });
}

/// Calls a function in each forked child. It may only touch atomic numbers, as any moment between fork and exec allows.
#[cfg(unix)]
pub(crate) fn in_each_child(forget: extern "C" fn()) {
    // SAFETY: functions live as long as the process, and this one does nothing but what is asked of it.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(forget)) };
}

/// A number for this process that none of its children has.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}
