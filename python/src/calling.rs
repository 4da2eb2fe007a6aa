//! Which threads of the loaders run the user's code, and for which loader.

use std::cell::{OnceCell, RefCell};
use std::ffi::c_long;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::{exceptions, ffi};

use crate::ending::{AtWork, ends};
use crate::fork;

/// Maximum number of threads that are recorded at the same time; the interpreter's end does not wait for others.
const MOST: usize = 1024;

/// Python's numbers of these threads; 0 for an unused entry. Atomic, because a forked child could inherit a lock that
/// is locked forever.
static CALLING: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

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
        AWAITING.try_with(|owners| owners.borrow().contains(&self)).unwrap_or(false)
    }
}

thread_local! {
    /// The loaders that wait for what this thread runs, the innermost last. When the thread ends, what the user's code
    /// kept in a `threading.local` is dropped after it.
    static AWAITING: RefCell<Vec<Owner>> = const { RefCell::new(Vec::new()) };
}

/// While this exists, a loader waits for the Python code that this thread runs, so that this code can't wait for the
/// loader.
pub(crate) struct Awaited(());

impl Awaited {
    pub(crate) fn by(owner: Owner) -> Self {
        let _ = AWAITING.try_with(|owners| owners.borrow_mut().push(owner));
        Self(())
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let _ = AWAITING.try_with(|owners| owners.borrow_mut().pop());
    }
}

/// The interpreter that loaded the module.
static INTERPRETER: AtomicPtr<ffi::PyInterpreterState> = AtomicPtr::new(ptr::null_mut());

/// Notes the interpreter in which the user's code will run.
pub(crate) fn watch(_attached: Python<'_>) {
    // SAFETY: attached.
    INTERPRETER.store(unsafe { ffi::PyInterpreterState_Get() }, Ordering::Release);
    #[cfg(unix)]
    fork::in_each_child(forget);
}

/// Python's state of one of our threads, from its first call of the user's code to its end: what this code keeps in a
/// `threading.local` lasts as long as the thread.
struct Known(());

thread_local! {
    static KNOWN: OnceCell<Known> = const { OnceCell::new() };
}

impl Known {
    /// Whether this thread is one of ours, which Python knows by us or not at all.
    fn is_ours() -> bool {
        // SAFETY: any thread may ask; it touches nothing but what is the thread's own.
        let is_unknown = || unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
        KNOWN.try_with(|here| here.get().is_some() || is_unknown()).unwrap_or(false)
    }

    /// Makes one of our threads known to Python.
    fn introduce() {
        let _ = KNOWN.try_with(|here| {
            if here.get().is_none() && Self::is_ours() {
                let interpreter = INTERPRETER.load(Ordering::Acquire);
                // SAFETY: the interpreter loaded this module. Its end waits for this thread, which is recorded.
                let state = fork::not_meanwhile(|| unsafe { ffi::PyThreadState_New(interpreter) });
                if !state.is_null() {
                    let _ = here.set(Self(()));
                }
            }
        });
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _at_work = AtWork::begin();
        // The end of the interpreter frees the states that are left.
        if !ends() {
            // SAFETY: attached by a count of its own, the state has one more, of its making; without it, it goes.
            Python::try_attach(|_| unsafe { ffi::PyGILState_Release(ffi::PyGILState_STATE::PyGILState_LOCKED) });
        }
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
        let thread = unsafe { ffi::PyThread_get_thread_ident() } as u64;
        // The user's own threads are not recorded, nor is one twice.
        let is_first = Known::is_ours() && AWAITING.try_with(|owners| owners.borrow().is_empty()).unwrap_or(false);
        let places = if is_first { CALLING.as_slice() } else { &[] };
        let take = |place: &&AtomicU64| place.compare_exchange(0, thread, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        Self { thread, place: places.iter().find(take) }
    }
}

impl Calling {
    /// Before the user's code is called, and after it was seen that the interpreter does not end.
    pub(crate) fn introduce(&self) {
        Known::introduce();
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

/// Forgets all of them in a forked child, which has none of these threads.
#[cfg(unix)]
extern "C" fn forget() {
    CALLING.iter().for_each(|place| place.store(0, Ordering::SeqCst));
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
