//! Which threads of the loaders run code of the user's, and how many are at work.

use std::ffi::c_long;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::{exceptions, ffi};

/// Most threads that are noted at once; the interpreter's end does not wait for further ones.
const MOST: usize = 1024;

/// The numbers that Python has for these threads; 0 where there is none. No lock, which a process that forks could have left
/// locked for ever in its child.
static CALLING: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// Threads that are at work: our own, beside a loader's, and those of the user's that make a loader or take its iterator.
pub(crate) static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Notes that this thread runs code of the user's.
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

/// Forgets all of them, in a forked child, where none of them is. Touches atomic numbers only.
#[cfg(unix)]
pub(crate) fn forget() {
    CALLING.iter().for_each(|place| place.store(0, Ordering::SeqCst));
    AT_WORK.store(0, Ordering::SeqCst);
}

/// Has them raise `SystemExit` until none of them runs such code any more: a thread that runs Python when the interpreter
/// ends is stopped in the middle of it, and the process may crash. Only until `deadline`, as code may be stuck.
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
