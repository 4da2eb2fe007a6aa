//! The user's own functions of samples: run one job at a time under the interpreter lock, with arrays as input and
//! output.

use std::ffi::CString;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyDict, PyList};
use ringfeed::read::Value;
use ringfeed::source::Chosen;
use ringfeed::tensor::{Role, Rows, TensorSpec};
use ringfeed::transform::{Outputs, Row, Scope, Tensors, Transform};
use ringfeed::{Error, ErrorKind, Loader, Result};

use crate::calling::Owner;
use crate::wait::{attach, interrupted};

/// Adds the functions of `list` (objects of `ringfeed._transform.Map`) to the loader of this owner.
pub(crate) fn add(py: Python<'_>, mut loader: Loader, list: &[Py<PyAny>], owner: Owner) -> PyResult<Loader> {
    for item in list {
        let item = item.bind(py);
        let fields: Option<Vec<String>> = item.getattr("keeps")?.extract()?;
        let removed: Option<String> = item.getattr("remove")?.extract()?;
        loader = match (fields, removed) {
            (Some(fields), _) => {
                let keep = item.getattr("fn")?.unbind();
                loader.try_filter_by(fields.clone(), move |chosen| is_kept(&keep, &fields, chosen, owner))
            }
            (None, Some(name)) => loader.remove(name),
            (None, None) => loader.transform_by(Function::new(item, owner)?),
        };
    }
    Ok(loader)
}

/// Whether a function of a dict of these fields selects a record.
fn is_kept(keep: &Py<PyAny>, fields: &[String], chosen: &Chosen<'_>, owner: Owner) -> Result<bool> {
    let called = attach(owner, |py| {
        let call = || {
            let row = PyDict::new(py);
            for field in fields {
                match chosen.value(field) {
                    Value::Bool(flag) => row.set_item(field, flag)?,
                    Value::I64(integer) => row.set_item(field, integer)?,
                    Value::U64(integer) => row.set_item(field, integer)?,
                    Value::F64(number) => row.set_item(field, number)?,
                    Value::Text(text) => row.set_item(field, text)?,
                    _ => row.set_item(field, py.None())?,
                }
            }
            keep.bind(py).call1((row,))?.is_truthy()
        };
        call().map_err(|raised| raised_by_user(py, raised))
    });
    called.unwrap_or_else(|| Err(interrupted()))
}

/// A function that writes one tensor, or changes all of them.
struct Function {
    item: Py<PyAny>,
    written: Written,
    takes_rng: bool,
    owner: Owner,
}

enum Written {
    /// All existing tensors, with their shapes and types.
    All,
    /// The tensor of this name as it is.
    Same(String),
    /// A new tensor.
    New(TensorSpec),
}

impl Function {
    fn new(item: &Bound<'_, PyAny>, owner: Owner) -> PyResult<Self> {
        let name: Option<String> = item.getattr("name")?.extract()?;
        let shape: Option<Vec<usize>> = item.getattr("shape")?.extract()?;
        let written = match (name, shape) {
            (None, _) => Written::All,
            (Some(name), None) => Written::Same(name),
            (Some(name), Some(shape)) => {
                let dtype: String = item.getattr("dtype")?.extract()?;
                let role: String = item.getattr("role")?.extract()?;
                let dtype = dtype.parse().map_err(|error| crate::errors::exception(item.py(), &error))?;
                let role = match role.as_str() {
                    "label" => Role::Label,
                    "mask" => Role::Mask,
                    _ => Role::Feature,
                };
                Written::New(TensorSpec::new(name, role, dtype, &shape))
            }
        };
        let takes_rng = item.getattr("takes_rng")?.extract()?;
        Ok(Self { item: item.clone().unbind(), written, takes_rng, owner })
    }

    /// The sample's tensors by name: those that are read, and those that are changed.
    fn sample<'py>(&self, py: Python<'py>, row: &Row<'_>, out: &mut Outputs<'_>) -> PyResult<Bound<'py, PyDict>> {
        let sample = PyDict::new(py);
        let add = |name: &str, dtype: &str, shape: &[usize], bytes: &[u8]| {
            sample.set_item(name, (dtype, PyList::new(py, shape)?, PyByteArray::new(py, bytes)))
        };
        for tensor in row.tensors() {
            add(tensor.name(), tensor.dtype().as_str(), tensor.shape(), tensor.bytes())?;
        }
        if matches!(self.written, Written::All) {
            for nth in 0..out.len() {
                let mut tensor = out.tensor(nth);
                let (spec, shape) = (tensor.spec(), tensor.shape().to_vec());
                add(&spec.name, spec.dtype.as_str(), &shape, tensor.bytes_mut())?;
            }
        }
        Ok(sample)
    }

    fn call(&self, py: Python<'_>, row: &Row<'_>, out: &mut Outputs<'_>) -> PyResult<()> {
        static CALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let sample = self.sample(py, row, out)?;
        let wanted = PyList::empty(py);
        for nth in 0..out.len() {
            let tensor = out.tensor(nth);
            let shape = PyList::new(py, tensor.shape())?;
            wanted.append((&tensor.spec().name, tensor.dtype().as_str(), shape))?;
        }
        let key = (row.key().bits(0), row.key().bits(1));
        let made = CALL.import(py, "ringfeed._transform", "call")?.call1((&self.item, sample, wanted, key))?;
        for (nth, made) in made.try_iter()?.enumerate() {
            let bytes = PyBuffer::<u8>::get(&made?)?;
            bytes.copy_to_slice(py, out.tensor(nth).bytes_mut())?;
        }
        Ok(())
    }
}

impl Transform for Function {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        match &self.written {
            Written::All => {
                // Where the samples of ragged tensors begin can't be changed, and is not the function's business.
                let changeable = tensors.specs().filter(|spec| spec.rows != Rows::Offsets);
                let names: Vec<String> = changeable.map(|spec| spec.name.clone()).collect();
                names.iter().try_for_each(|name| tensors.change(name))
            }
            Written::Same(name) => {
                tensors.read_all();
                let unknown = |error: Error| {
                    Error::new(error.kind(), format!("{}; a new tensor needs its `shape` in map()", error.message()))
                };
                let spec = tensors.get(name).map_err(unknown)?.clone();
                tensors.write(spec)
            }
            Written::New(spec) => {
                tensors.read_all();
                tensors.write(spec.clone())
            }
        }
    }

    fn is_augmentation(&self) -> bool {
        self.takes_rng
    }

    fn tensor(&self) -> Option<&str> {
        match &self.written {
            Written::All => None,
            Written::Same(name) => Some(name),
            Written::New(spec) => Some(&spec.name),
        }
    }

    fn around(&self, work: &mut dyn FnMut()) {
        // Not while the interpreter ends: the samples are then bad records that nobody asks for.
        let _ = attach(self.owner, |_| work());
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let called = attach(self.owner, |py| self.call(py, row, out).map_err(|raised| raised_by_user(py, raised)));
        called.unwrap_or_else(|| Err(interrupted()))
    }
}

/// The error for an exception from the user's code, which becomes its source. What is not an `Exception`, such as
/// `KeyboardInterrupt`, does not make a bad record.
pub(crate) fn raised_by_user(py: Python<'_>, raised: PyErr) -> Error {
    let kind = if raised.is_instance_of::<PyException>(py) { ErrorKind::Data } else { ErrorKind::Interrupted };
    let name = raised.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    let text = raised.value(py).str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    Error::new(kind, format!("raised {name}: {text}")).with_source(raised)
}

/// A message for Python's warnings.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}
