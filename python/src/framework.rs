//! Array libraries that receive tensors.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use ringfeed::{DType, ErrorKind};

use crate::device::HOST;
use crate::dlpack::export;
use crate::errors::raise;
use crate::tensor::Tensor;

/// An array library that receives tensors.
#[derive(Clone, Copy)]
pub(crate) enum Framework {
    Numpy,
    Torch,
    Jax,
}

impl Framework {
    pub(crate) fn named(name: &str) -> PyResult<Self> {
        match name {
            "numpy" => Ok(Self::Numpy),
            "torch" => Ok(Self::Torch),
            "jax" => Ok(Self::Jax),
            other => Err(PyValueError::new_err(format!("no framework {other:?}: there are numpy, torch and jax"))),
        }
    }

    /// The framework's array on the tensor's memory.
    pub(crate) fn take<'py>(self, tensor: &Bound<'py, Tensor>) -> PyResult<Bound<'py, PyAny>> {
        static NUMPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static TORCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static JAX: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = tensor.py();
        match self {
            Self::Numpy if tensor.get().dtype() == DType::Bf16 => {
                tensor.get().on_host(py)?;
                bf16_in_numpy(tensor)
            }
            Self::Numpy => {
                tensor.get().on_host(py)?;
                NUMPY.import(py, "numpy", "asarray")?.call1((tensor,))
            }
            // PyTorch takes a capsule, too, and asks the tensor for one in some ten steps of Python.
            Self::Torch if tensor.get().dlpack() == HOST => {
                tensor.get().on_host(py)?;
                let capsule = export(py, tensor.get(), false, false)?;
                TORCH.import(py, "torch", "from_dlpack")?.call1((capsule,))
            }
            Self::Torch => TORCH.import(py, "torch", "from_dlpack")?.call1((tensor,)),
            Self::Jax => JAX.import(py, "jax.dlpack", "from_dlpack")?.call1((tensor,)),
        }
    }
}

/// NumPy has no such type of its own; the package `ml_dtypes`, which is installed with JAX, adds it.
fn bf16_in_numpy<'py>(tensor: &Bound<'py, Tensor>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let Ok(ml_dtypes) = py.import("ml_dtypes") else {
        let message = "NumPy has no bf16: install ml_dtypes, or take the bits as view(\"u16\")";
        return Err(raise(py, ErrorKind::Unsupported, message));
    };
    let bits = Bound::new(py, tensor.get().view(py, "u16")?)?;
    Framework::Numpy.take(&bits)?.call_method1("view", (ml_dtypes.getattr("bfloat16")?,))
}
