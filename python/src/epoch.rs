//! A loop over the batches of an epoch, in the requested form.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::batch::{Batch, by_name};
use crate::engine::Engine;
use crate::shared::Shared;
use crate::tensor::{Framework, Tensor};

/// What a loop yields for each batch.
struct Form {
    yields: Yields,
    framework: Option<Framework>,
}

enum Yields {
    Dict,
    Tuple,
    Callable(Py<PyAny>),
}

impl Form {
    fn new(yields: &Bound<'_, PyAny>, framework: Option<&str>) -> PyResult<Self> {
        let is_type = |of: Bound<'_, PyType>| yields.is(of);
        let py = yields.py();
        let yields = match yields.cast::<PyString>() {
            Ok(name) if name == "dict" => Yields::Dict,
            Ok(name) if name == "tuple" => Yields::Tuple,
            // As functions of a batch they would make something of its names.
            Err(_) if is_type(py.get_type::<PyDict>()) => Yields::Dict,
            Err(_) if is_type(py.get_type::<PyTuple>()) => Yields::Tuple,
            Err(_) if yields.is_callable() => Yields::Callable(yields.clone().unbind()),
            _ => {
                let message =
                    format!("yields: {}; it is \"dict\", \"tuple\", or a function of a batch", yields.repr()?);
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(Self { yields, framework: framework.map(Framework::named).transpose()? })
    }

    fn of(&self, py: Python<'_>, shared: Arc<Shared>) -> PyResult<Py<PyAny>> {
        match (&self.yields, self.framework) {
            (Yields::Dict, None) => Ok(Py::new(py, Batch::new(shared))?.into_any()),
            (Yields::Callable(function), None) => function.call1(py, (Batch::new(shared),)),
            (Yields::Callable(function), Some(framework)) => function.call1(py, (by_name(py, &shared, framework)?,)),
            (Yields::Tuple, framework) => {
                let tensors = (0..shared.tensors().len()).map(|index| {
                    let tensor = Bound::new(py, Tensor::new(shared.clone(), index))?;
                    match framework {
                        None => Ok(tensor.into_any()),
                        Some(framework) => framework.take(&tensor),
                    }
                });
                let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
                Ok(PyTuple::new(py, tensors)?.into_any().unbind())
            }
            (Yields::Dict, Some(framework)) => Ok(by_name(py, &shared, framework)?.into_any().unbind()),
        }
    }
}

/// An error if loops can't have this form.
#[pyfunction]
pub(crate) fn check_yields(yields: Bound<'_, PyAny>) -> PyResult<()> {
    Form::new(&yields, None).map(drop)
}

/// An iterator over the batches of one epoch.
#[pyclass(frozen, module = "ringfeed._ringfeed")]
pub(crate) struct Epoch {
    engine: Py<Engine>,
    serial: u64,
    form: Form,
}

#[pymethods]
impl Epoch {
    /// A loop over the batches of the current epoch if it has not begun, otherwise of the next epoch.
    #[new]
    #[pyo3(signature = (engine, yields, framework=None))]
    fn new(engine: Bound<'_, Engine>, yields: Bound<'_, PyAny>, framework: Option<&str>) -> PyResult<Self> {
        let form = Form::new(&yields, framework)?;
        Ok(Self { serial: engine.get().next_serial(), engine: engine.unbind(), form })
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let next = self.engine.get().next(py, self.serial)?;
        let made = next.map(|shared| self.form.of(py, shared)).transpose();
        made.map_err(|raised| match raised.is_instance_of::<PyStopIteration>(py) {
            // It would end the epoch silently, as it would in a generator (PEP 479).
            true => {
                let error = PyRuntimeError::new_err("the function of a batch raised StopIteration");
                error.set_cause(py, Some(raised));
                error
            }
            false => raised,
        })
    }
}
