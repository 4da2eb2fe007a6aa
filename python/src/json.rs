//! Values as Python objects, by way of JSON.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use ringfeed::ErrorKind;
use serde::Serialize;

use crate::errors::raise;

/// The content of a JSON text.
fn loads(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Ok(LOADS.import(py, "json", "loads")?.call1((text,))?.unbind())
}

/// A value, as JSON has it.
pub(crate) fn json<T: Serialize>(py: Python<'_>, value: &T) -> PyResult<Py<PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| raise(py, ErrorKind::Format, error.to_string()))?;
    loads(py, &text)
}
