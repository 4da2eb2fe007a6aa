//! Single records in memory, processed by the fields and transforms of a loader.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyByteArray;
use ringfeed::read::Value;
use ringfeed::serve::{ServedRow, ServedWindow};
use ringfeed::{Loader, LoaderConfig};

use crate::calling::Owner;
use crate::errors::{caught, exception, raise};
use crate::json::json;
use crate::reader::Owned;
use crate::transform;

/// Turns single records into tensors, with rows that are reused by the threads that apply it.
#[pyclass(frozen, module = "ringfeed._ringfeed")]
pub(crate) struct Served {
    served: ringfeed::serve::Served,
    rows: Mutex<Vec<ServedRow>>,
}

/// Serves records by these settings, a JSON text, and the user's own functions.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, settings: &str, transforms: Vec<Py<PyAny>>) -> PyResult<Served> {
    let config = LoaderConfig::from_json(settings).map_err(|error| raise(py, error.kind(), error.message()))?;
    of_loader(py, &transform::add(py, Loader::from(config), &transforms, Owner::default())?)
}

pub(crate) fn of_loader(py: Python<'_>, loader: &Loader) -> PyResult<Served> {
    let served = py.detach(|| caught(|| loader.serve())).map_err(|error| exception(py, &error))?;
    Ok(Served { served, rows: Mutex::default() })
}

/// A tensor: its name, element type, shape and bytes.
type Made<'py> = (String, &'static str, Vec<usize>, Bound<'py, PyByteArray>);

fn made<'py>(py: Python<'py>, row: &ServedRow) -> Vec<Made<'py>> {
    let made = row.tensors().map(|tensor| {
        let bytes = PyByteArray::new(py, tensor.bytes());
        (tensor.name().to_owned(), tensor.dtype().as_str(), tensor.shape().to_vec(), bytes)
    });
    made.collect()
}

#[pymethods]
impl Served {
    /// The tensors of a record with these values.
    fn apply<'py>(&self, py: Python<'py>, record: Vec<(String, Bound<'py, PyAny>)>) -> PyResult<Vec<Made<'py>>> {
        let owned = record.into_iter().map(|(name, value)| Ok((name, Owned::new(&value)?)));
        let owned = owned.collect::<PyResult<Vec<_>>>()?;
        let kept = self.rows.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let applied = py.detach(|| {
            caught(|| {
                let values: Vec<(&str, Value<'_>)> =
                    owned.iter().map(|(name, value)| (name.as_str(), value.value())).collect();
                let mut row = kept.unwrap_or_else(|| self.served.row());
                self.served.apply(values.iter().copied(), &mut row)?;
                Ok(row)
            })
        });
        let row = applied.map_err(|error| exception(py, &error))?;
        let made = made(py, &row);
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        Ok(made)
    }

    /// An empty window for the records of one series.
    fn window(&self, py: Python<'_>) -> PyResult<Window> {
        let window = self.served.window().map_err(|error| exception(py, &error))?;
        Ok(Window(Mutex::new(window)))
    }

    /// A table for each tensor: its name and element type.
    fn tensors(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let table = |spec: &ringfeed::tensor::TensorSpec| serde_json::json!({"name": spec.name, "dtype": spec.dtype});
        json(py, &self.served.tensors().iter().map(table).collect::<Vec<_>>())
    }

    fn field_names(&self) -> Vec<String> {
        self.served.field_names().map(str::to_owned).collect()
    }
}

/// The last records of one series, as one sample.
#[pyclass(frozen, module = "ringfeed._ringfeed")]
pub(crate) struct Window(Mutex<ServedWindow>);

impl Window {
    /// Another thread may need the interpreter, for the user's own functions, before it releases the window.
    fn lock<'w>(&'w self, py: Python<'_>) -> MutexGuard<'w, ServedWindow> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Window {
    /// Adds a record with these values; returns whether the window is full.
    fn push(&self, py: Python<'_>, record: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<bool> {
        let owned = record.into_iter().map(|(name, value)| Ok((name, Owned::new(&value)?)));
        let owned = owned.collect::<PyResult<Vec<_>>>()?;
        let values: Vec<_> = owned.iter().map(|(name, value)| (name.as_str(), value.value())).collect();
        let mut window = self.lock(py);
        caught(|| window.push(values)).map_err(|error| exception(py, &error))
    }

    /// The tensors of the latest window.
    fn latest<'py>(&self, py: Python<'py>) -> PyResult<Vec<Made<'py>>> {
        let mut window = self.lock(py);
        let row = caught(|| window.latest()).map_err(|error| exception(py, &error))?;
        Ok(made(py, row))
    }

    fn clear(&self, py: Python<'_>) {
        self.lock(py).clear();
    }

    fn is_full(&self, py: Python<'_>) -> bool {
        self.lock(py).is_full()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.lock(py).len()
    }
}
