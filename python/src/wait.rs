//! Waits for slow work: it runs on a separate thread, and signals are checked meanwhile.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use ringfeed::{Error, ErrorKind, Result};

use crate::calling::{Awaited, Calling, Owner};
use crate::ending::{AtWork, ends};
use crate::errors::{caught, exception, raise};

/// Time between two checks for signals.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(50);

/// How long dropping a loader waits for the current work of its threads, which then continues without it.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// Runs `work` on a separate thread, and checks for signals until it ends. If a signal raises an exception, `work`
/// continues, but nothing waits for it.
pub(crate) fn patiently<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> PyResult<R> {
    patiently_with(py, |_| Ok(()), work)
}

/// Like [`patiently`]; calls `meanwhile` each time that signals are checked, and once at the end.
pub(crate) fn patiently_with<R: Send + 'static>(
    py: Python<'_>,
    mut meanwhile: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> PyResult<R> {
    let receive = begin(work).map_err(|error| exception(py, &error))?;
    // A receiver alone is not to be shared, and so not to be had while the interpreter's lock is given up.
    let receive = Mutex::new(receive);
    let ended = |_| Error::new(ErrorKind::Panicked, "a thread ended early");
    loop {
        let received =
            py.detach(|| match receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK_UP) {
                Ok(result) => Some(result),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(error) => Some(Err(ended(error))),
            });
        meanwhile(py)?;
        match received {
            Some(result) => return result.map_err(|error| exception(py, &error)),
            None => py.check_signals()?,
        }
    }
}

/// Drops a value on a separate thread and waits for that, but not for long, because the user's code may be stuck in it.
/// The waiting thread is not attached to the interpreter, which that code may need.
pub(crate) fn drop_in_time<T: Send + 'static>(value: T) {
    let dropped = begin(move || {
        drop(value);
        Ok(())
    });
    // Without a thread it was dropped here.
    if let Ok(dropped) = dropped {
        let _ = dropped.recv_timeout(DROP_WAIT);
    }
}

/// Drops a value on a separate thread; only the interpreter's end waits for it.
pub(crate) fn drop_aside<T: Send + 'static>(value: T) {
    let _ = begin(move || {
        drop(value);
        Ok(())
    });
}

/// Starts work on a separate thread.
fn begin<R: Send + 'static>(work: impl FnOnce() -> Result<R> + Send + 'static) -> Result<mpsc::Receiver<Result<R>>> {
    let (send, receive) = mpsc::sync_channel(1);
    let at_work = AtWork::begin();
    let spawned = thread::Builder::new().name("ringfeed-call".to_owned()).spawn(move || {
        let _at_work = at_work;
        drop(send.send(caught(work)));
    });
    spawned.map(|_| receive).map_err(|error| Error::new(ErrorKind::Io, format!("no thread: {error}")))
}

/// Runs the user's code for a loader, attached to the interpreter. `None` if the interpreter ends: code that starts
/// then could keep it from ending, or be stopped in the middle.
pub(crate) fn attach<R>(owner: Owner, work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let calling = Calling::begin();
    let _awaited = Awaited::by(owner);
    // Asked only now: the interpreter's end looks at who calls after it has begun.
    if ends() {
        return None;
    }
    calling.introduce();
    Python::try_attach(work)
}

/// The error for work that was not done because the interpreter ends.
pub(crate) fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "the interpreter ends")
}

/// The exception for using a closed loader. In a daemon thread whose loader the interpreter's end has closed, it is the
/// exception that ends a thread silently: Python would stop the thread a moment later anyway, perhaps in the middle of
/// a traceback.
pub(crate) fn closed(py: Python<'_>) -> PyErr {
    let is_main = || -> PyResult<bool> {
        let threading = py.import("threading")?;
        Ok(threading.call_method0("current_thread")?.is(&threading.call_method0("main_thread")?))
    };
    if ends() && matches!(is_main(), Ok(false)) {
        return PySystemExit::new_err(());
    }
    raise(py, ErrorKind::Ended, "the loader is closed")
}
