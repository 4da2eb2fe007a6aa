//! One batch.

use std::fmt::Write;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyIterator, PyList, PyTuple};
use ringfeed::{Error, ErrorKind};

use crate::errors::{exception, raise};
use crate::json::json;
use crate::shared::Shared;
use crate::tensor::{Framework, Tensor};

/// A batch: its tensors by name, in the order of the fields.
///
/// A batch is a mapping of names to :class:`Tensor`, so a loop over it yields names. Unpacking it as ``x, y = batch``
/// raises an error, because that would give names as well; ``yields="tuple"``, or a loop over ``loader.torch()``, gives
/// tuples. The memory is the loader's own. It stays unchanged as long as the batch, a tensor of it, or an array made
/// from one lives. You may write to it.
#[pyclass(frozen, mapping, weakref, module = "ringfeed._ringfeed")]
pub(crate) struct Batch {
    shared: Arc<Shared>,
}

impl Batch {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.shared.tensors().iter().map(|spec| spec.name.as_str()))
    }

    fn tensor(&self, index: usize) -> Tensor {
        Tensor::new(self.shared.clone(), index)
    }

    fn all(&self) -> impl Iterator<Item = (&str, Tensor)> {
        self.shared.tensors().iter().enumerate().map(|(index, spec)| (spec.name.as_str(), self.tensor(index)))
    }
}

#[pymethods]
impl Batch {
    /// Some trainers build mappings anew.
    #[new]
    #[pyo3(signature = (*_values, **_named))]
    fn new_from(_values: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let message = "only a loader makes a batch: if a trainer collates batches again, give it loader.torch(), or \
                       loader.torch(\"dict\")";
        Err(PyTypeError::new_err(message))
    }

    fn __len__(&self) -> usize {
        self.shared.tensors().len()
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.shared.tensors().iter().any(|spec| spec.name == name))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        static REFUSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let names = self.names(py)?;
        REFUSE.import(py, "ringfeed._unpacking", "refuse")?.call1((&names,))?;
        names.try_iter()
    }

    fn __getitem__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let Ok(name) = name.extract::<&str>() else {
            let names: Vec<&str> = self.shared.tensors().iter().map(|spec| spec.name.as_str()).collect();
            let first = names.first().copied().unwrap_or_default();
            return Err(PyTypeError::new_err(format!(
                "a batch has tensors by name, {names:?}, and a tensor has samples: write batch[{first:?}][0]"
            )));
        };
        let index = self.shared.index_of(name).map_err(|error| {
            let raised = exception(py, &error);
            // What a mapping raises, so that `get` and `in` of other libraries work.
            let key = pyo3::exceptions::PyKeyError::new_err(error.message().to_owned());
            key.set_cause(py, Some(raised));
            key
        })?;
        Ok(self.tensor(index))
    }

    /// The names of the tensors.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.names(py)
    }

    /// The tensors.
    fn values(&self) -> Vec<Tensor> {
        self.all().map(|(_, tensor)| tensor).collect()
    }

    /// Names and tensors.
    fn items(&self) -> Vec<(&str, Tensor)> {
        self.all().collect()
    }

    /// The tensor of this name, or `default`.
    #[pyo3(signature = (name, default=None, /))]
    fn get(&self, py: Python<'_>, name: &str, default: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        match self.shared.tensors().iter().position(|spec| spec.name == name) {
            Some(index) => Ok(Py::new(py, self.tensor(index))?.into_any()),
            None => Ok(default.unwrap_or_else(|| py.None())),
        }
    }

    /// Number of samples: the first dimension of every tensor that is not ragged.
    #[getter]
    fn size(&self) -> usize {
        self.shared.facts(|facts| facts.positions.len())
    }

    /// The epoch, from 0.
    #[getter]
    fn epoch(&self) -> u64 {
        self.shared.facts(|facts| facts.epoch)
    }

    /// The batch's number in its epoch, from 0.
    #[getter]
    fn index(&self) -> u64 {
        self.shared.facts(|facts| facts.index)
    }

    /// For each sample, the index of its record in the source.
    #[getter]
    fn sample_ids(&self) -> Vec<u64> {
        self.shared.facts(|facts| facts.sample_ids.to_vec())
    }

    /// For each sample, its position in the epoch's order, which is one order for all ranks.
    #[getter]
    fn positions(&self) -> Vec<u64> {
        self.shared.facts(|facts| facts.positions.to_vec())
    }

    /// How many samples at the end only fill the batch up.
    #[getter]
    fn padding(&self) -> usize {
        self.shared.facts(|facts| facts.padding)
    }

    /// How many bad records were left out of this batch, or replaced.
    #[getter]
    fn bad_records(&self) -> usize {
        self.shared.facts(|facts| facts.bad_records)
    }

    /// The loader's position after this batch, like that of `Loader.state_dict`: for code that reads batches ahead.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = self.shared.facts(|facts| facts.after);
        json(py, &state)
    }

    /// A copy in ordinary memory, which you may keep as long as you like.
    fn detach(&self, py: Python<'_>) -> PyResult<Self> {
        let copy = py.detach(|| self.shared.data()?.copy()).map_err(|error| exception(py, &error))?;
        Ok(Self::new(Arc::new(Shared::on_host(copy, None, None))))
    }

    /// NumPy arrays by name, on the same memory.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, &self.shared, Framework::Numpy)
    }

    /// PyTorch tensors by name, on the same memory.
    fn torch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, &self.shared, Framework::Torch)
    }

    /// JAX arrays by name, on the same memory.
    fn jax<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, &self.shared, Framework::Jax)
    }

    /// The texts of a tensor of bytes, by the tensor of their lengths, in lists as its shape has them.
    fn text<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let texts = || {
            let data = self.shared.data()?;
            let bytes = data.tensor(name)?;
            let Ok(lengths) = data.tensor(&format!("{name}_len")) else {
                let message =
                    format!("{name:?} holds no text, as a field `Text` gives it; `batch[{name:?}].classes` has names");
                return Err(Error::new(ErrorKind::Schema, message).at_column(name));
            };
            // The last dimension is that of the bytes.
            let (shape, width) = (lengths.shape().to_vec(), bytes.shape().last().copied().unwrap_or(0));
            let (bytes, lengths) = (bytes.as_slice::<u8>()?, lengths.numbers());
            let text = |nth: usize| {
                let padded = bytes.get(nth * width..(nth + 1) * width).unwrap_or_default();
                let length = (lengths.at(nth) as usize).min(padded.len());
                String::from_utf8_lossy(&padded[..length]).into_owned()
            };
            Ok(((0..lengths.len()).map(text).collect::<Vec<_>>(), shape))
        };
        let (texts, shape) = texts().map_err(|error| exception(py, &error))?;
        nested(py, &texts, shape.get(1..).unwrap_or_default())
    }

    fn __repr__(&self) -> String {
        let (epoch, index) = self.shared.facts(|facts| (facts.epoch, facts.index));
        let mut text = format!("Batch(epoch {epoch}, number {index}, {} samples: ", self.size());
        for (nth, spec) in self.shared.tensors().iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            let place = self.shared.place(nth);
            let _ = write!(text, "{comma}{} {} {:?}", spec.name, place.dtype, &place.shape[..place.rank]);
        }
        text + ")"
    }

    fn _repr_html_(slf: Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Ok(slf.py().import("ringfeed._html")?.call_method1("batch", (slf,))?.unbind())
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<()> {
        let message = "a batch is memory of its loader, and can't be sent: send arrays, such as \
             batch[\"x\"].numpy().copy()";
        Err(raise(py, ErrorKind::Unsupported, message))
    }
}

/// Texts, row-major, as a list; its items are lists of this shape.
fn nested<'py>(py: Python<'py>, texts: &[String], inner: &[usize]) -> PyResult<Bound<'py, PyList>> {
    let Some((_, within)) = inner.split_first() else { return PyList::new(py, texts) };
    let lists = texts.chunks(inner.iter().product::<usize>().max(1)).map(|texts| nested(py, texts, within));
    PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)
}

/// The tensors of a batch as a framework's arrays, by name.
pub(crate) fn by_name<'py>(
    py: Python<'py>,
    shared: &Arc<Shared>,
    framework: Framework,
) -> PyResult<Bound<'py, PyDict>> {
    let arrays = PyDict::new(py);
    for (index, spec) in shared.tensors().iter().enumerate() {
        let tensor = Bound::new(py, Tensor::new(shared.clone(), index))?;
        arrays.set_item(&spec.name, framework.take(&tensor)?)?;
    }
    Ok(arrays)
}
