//! Errors of the library as exceptions of the package's own classes, which are in `ringfeed/_errors.py`.

use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use ringfeed::{Error, ErrorKind, Result};

/// The exception for `error`. An exception from the user's own code is its cause, or is raised unchanged if it is not
/// an `Exception`, such as `KeyboardInterrupt`.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    if let Some(raised) = raised_inside(error).filter(|raised| !raised.is_instance_of::<PyException>(py)) {
        return raised.clone_ref(py);
    }
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let place = error.location();
    let path = place.path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let made = MAKE.import(py, "ringfeed._errors", "make").and_then(|make| {
        make.call1((
            error.kind().as_str(),
            error.to_string(),
            error.message(),
            path,
            place.record,
            place.line,
            place.member.as_deref(),
            place.column.as_deref(),
            place.byte,
        ))
    });
    match made {
        Ok(made) => {
            let raised = PyErr::from_value(made);
            if let Some(cause) = raised_inside(error) {
                raised.set_cause(py, Some(cause.clone_ref(py)));
            }
            raised
        }
        Err(other) => other,
    }
}

/// The exception that Python code raised, if the error comes from there.
fn raised_inside(error: &Error) -> Option<&PyErr> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(raised) = error.downcast_ref::<PyErr>() {
            return Some(raised);
        }
        source = error.source();
    }
    None
}

/// The exception of this kind and message.
pub(crate) fn raise(py: Python<'_>, kind: ErrorKind, message: impl Into<String>) -> PyErr {
    exception(py, &Error::new(kind, message.into()))
}

/// Runs code that may panic by a bug, and turns the panic into an error that `except Exception` catches.
pub(crate) fn caught<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::new(ErrorKind::Panicked, format!("panicked: {text}; please report it together with the data")))
    })
}
