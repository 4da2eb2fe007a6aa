//! Which threads of the loaders run the user's code, for which loader, and how many are working.

use std::cell::RefCell;
use std::ffi::c_long;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::{exceptions, ffi};

/// Maximum number of threads that are recorded at the same time; the interpreter's end does not wait for others.
const MOST: usize = 1024;

/// Python's numbers of these threads; 0 for an unused entry. Atomic, because a forked child could inherit a lock that
/// is locked forever.
static CALLING: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// Number of working threads: our own, beside those of a loader, and the user's threads that create a loader or use its
/// iterator.
pub(crate) static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Tells loaders apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Default for Owner {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Owner {
    /// Whether this loader waits for the code that this thread runs.
    pub(crate) fn is_awaiting(self) -> bool {
        AWAITING.with_borrow(|owners| owners.contains(&self))
    }
}

thread_local! {
    /// The loaders that wait for what this thread runs, the innermost last.
    static AWAITING: RefCell<Vec<Owner>> = const { RefCell::new(Vec::new()) };
}

/// While this exists, a loader waits for the Python code that this thread runs, so that this code can't wait for the
/// loader.
pub(crate) struct Awaited(());

impl Awaited {
    pub(crate) fn by(owner: Owner) -> Self {
        AWAITING.with_borrow_mut(|owners| owners.push(owner));
        Self(())
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        AWAITING.with_borrow_mut(Vec::pop);
    }
}

/// Records that this thread runs the user's code.
pub(crate) struct Calling {
    thread: u64,
    place: Option<&'static AtomicU64>,
}

impl Calling {
    pub(crate) fn begin() -> Self {
        // SAFETY: any thread may ask; it touches nothing but what is the thread's own.
        let known = unsafe { ffi::PyGILState_GetThisThreadState() };
        // SAFETY: as above.
        let thread = unsafe { ffi::PyThread_get_thread_ident() } as u64;
        // A thread that Python knows is the user's own, or noted already.
        let places = if known.is_null() { CALLING.as_slice() } else { &[] };
        let take = |place: &&AtomicU64| place.compare_exchange(0, thread, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        Self { thread, place: places.iter().find(take) }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        // In a forked child it may be another thread's by now.
        if let Some(place) = self.place {
            let _ = place.compare_exchange(self.thread, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }
}

/// Forgets all of them in a forked child, which has none of these threads. Touches only atomic numbers.
#[cfg(unix)]
pub(crate) fn forget() {
    CALLING.iter().for_each(|place| place.store(0, Ordering::SeqCst));
    AT_WORK.store(0, Ordering::SeqCst);
}

/// Makes them raise `SystemExit` until none of them runs such code. A thread that still runs Python when the
/// interpreter ends is stopped in the middle, and the process may crash. Gives up at `deadline`, as code may be stuck.
pub(crate) fn stop(py: Python<'_>, deadline: Instant) -> PyResult<()> {
    let calling = || CALLING.iter().map(|place| place.load(Ordering::SeqCst)).filter(|thread| *thread != 0);
    while calling().next().is_some() && Instant::now() < deadline {
        let exit = py.get_type::<exceptions::PySystemExit>();
        for thread in calling() {
            // SAFETY: attached; a number that no thread has any more is passed over.
            unsafe { ffi::PyThreadState_SetAsyncExc(thread as c_long, exit.as_ptr()) };
        }
        py.detach(|| thread::sleep(Duration::from_millis(10)));
        py.check_signals()?;
    }
    Ok(())
}
