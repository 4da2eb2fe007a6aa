//! One tensor of a batch, as a buffer, through DLPack, and as an array of other libraries.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyIterator, PyTuple};
use pyo3::{ffi, intern};
use ringfeed::device::DeviceName;
use ringfeed::{DType, ErrorKind};

use crate::device::{Consumer, HOST};
use crate::dlpack::export;
use crate::errors::{exception, raise};
use crate::shared::Shared;
use crate::view::{View, lend};

/// One tensor of a batch. Array libraries use it without a copy: ``numpy.asarray(t)``, ``torch.from_dlpack(t)``,
/// ``jax.dlpack.from_dlpack(t)``, ``memoryview(t)``, or ``t.numpy()``, ``t.torch()``, ``t.jax()``.
///
/// It has no arithmetic of its own. To look at its values, use ``t[0]``, ``t[:, 1]``, loops over it, comparisons,
/// ``float(t)`` and ``t.item()``, which work like those of its NumPy array, if NumPy is installed.
#[pyclass(frozen, weakref, module = "ringfeed._ringfeed")]
pub(crate) struct Tensor {
    view: View,
}

impl Tensor {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self { view: View::new(shared, index) }
    }

    /// The tensor as a NumPy array, which does the work.
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if slf.py().import("numpy").is_err() {
            let message = "a tensor is indexed, compared and converted by NumPy, which is not installed: take it as torch() or \
                           jax(), as memoryview(tensor), or as lists by tolist()";
            return Err(raise(slf.py(), ErrorKind::Unsupported, message));
        }
        Framework::Numpy.take(slf)
    }
}

/// The element type in the notation of `struct`, as buffers have it.
fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::U8 => c"B",
        DType::I8 => c"b",
        DType::U16 => c"H",
        DType::I16 => c"h",
        DType::U32 => c"I",
        DType::I32 => c"i",
        // NumPy's own name for 64 bits is the type that C calls long, where that has so many.
        DType::U64 if size_of::<std::ffi::c_ulong>() == 8 => c"L",
        DType::U64 => c"Q",
        DType::I64 if size_of::<std::ffi::c_long>() == 8 => c"l",
        DType::I64 => c"q",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        _ => return None,
    })
}

#[pymethods]
impl Tensor {
    /// Its name in the batch.
    #[getter]
    fn name(&self) -> &str {
        &self.view.spec().name
    }

    /// ``"feature"``, ``"label"`` or ``"mask"``.
    #[getter]
    fn role(&self) -> &'static str {
        match self.view.spec().role {
            ringfeed::tensor::Role::Feature => "feature",
            ringfeed::tensor::Role::Label => "label",
            ringfeed::tensor::Role::Mask => "mask",
        }
    }

    /// The names of the classes that its numbers stand for, if it holds any.
    #[getter]
    fn classes(&self) -> Option<Vec<&str>> {
        self.view.spec().classes.as_deref().map(|names| names.iter().map(String::as_str).collect())
    }

    /// Element type: ``"f32"``, ``"i64"``, ``"u8"``, ``"bf16"`` and so on.
    #[getter(dtype)]
    fn dtype_name(&self) -> &'static str {
        self.view.dtype().as_str()
    }

    /// Dimensions; the first is the number of samples.
    #[getter(shape)]
    fn shape_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view.shape())
    }

    /// Its device: ``"host"``, or ``"cuda:0"`` and so on.
    #[getter]
    fn device(&self) -> String {
        self.view.device().map_or_else(|| DeviceName::Host.to_string(), |device| device.name())
    }

    /// Number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.view.shape().len()
    }

    /// Number of bytes of its elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.view.bytes()
    }

    /// The address of the first element.
    #[getter]
    fn data_ptr(&self) -> usize {
        self.view.data().addr()
    }

    fn __len__(&self) -> usize {
        self.view.shape()[0] as usize
    }

    fn __getitem__<'py>(slf: Bound<'py, Self>, at: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(&slf)?.get_item(at)
    }

    fn __setitem__(slf: Bound<'_, Self>, at: Bound<'_, PyAny>, value: Bound<'_, PyAny>) -> PyResult<()> {
        Self::array(&slf)?.set_item(at, value)
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyIterator>> {
        Self::array(&slf)?.try_iter()
    }

    fn __richcmp__<'py>(slf: Bound<'py, Self>, other: Bound<'py, PyAny>, op: CompareOp) -> PyResult<Bound<'py, PyAny>> {
        Self::array(&slf)?.rich_compare(other, op)
    }

    fn __hash__(slf: Bound<'_, Self>) -> usize {
        slf.as_ptr().addr()
    }

    fn __bool__(slf: Bound<'_, Self>) -> PyResult<bool> {
        Self::array(&slf)?.is_truthy()
    }

    fn __int__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Self::item(slf.clone())?.call_method0(intern!(slf.py(), "__int__"))
    }

    fn __float__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Self::item(slf.clone())?.call_method0(intern!(slf.py(), "__float__"))
    }

    /// Its only element as a Python number.
    fn item(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Self::array(&slf)?.call_method0(intern!(slf.py(), "item"))
    }

    fn __getattr__(&self, name: &str) -> PyResult<()> {
        Err(PyAttributeError::new_err(format!(
            "a Tensor only holds memory of a batch and can't compute, so it has no {name:?}: convert it by .numpy(), \
             .torch() or .jax() first"
        )))
    }

    /// The same memory as elements of another type of the same size, such as ``"u16"`` for the bits of ``"bf16"``.
    fn view(&self, py: Python<'_>, dtype: &str) -> PyResult<Self> {
        let view = dtype.parse().and_then(|dtype| self.view.of_type(dtype)).map_err(|error| exception(py, &error))?;
        Ok(Self { view })
    }

    /// A NumPy array on the same memory.
    fn numpy(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Framework::Numpy.take(&slf)
    }

    /// A PyTorch tensor on the same memory.
    fn torch(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Framework::Torch.take(&slf)
    }

    /// A JAX array on the same memory.
    fn jax(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Framework::Jax.take(&slf)
    }

    /// Its elements as (lists of) Python numbers.
    fn tolist(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let py = slf.py();
        let tensor = &slf.get().view;
        tensor.on_host(py)?;
        if tensor.dtype() == DType::F16 || format(tensor.dtype()).is_none() || tensor.bytes() == 0 {
            return Framework::Numpy.take(&slf)?.call_method0(intern!(py, "tolist"));
        }
        let view = py.import("builtins")?.call_method1(intern!(py, "memoryview"), (slf,))?;
        view.call_method0(intern!(py, "tolist"))
    }

    fn __repr__(&self) -> String {
        format!("Tensor({:?}, {} {:?})", self.view.spec().name, self.view.dtype(), self.view.shape())
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let array = Framework::Numpy.take(&slf)?;
        let dtype = match dtype {
            Some(dtype) => py.import("numpy")?.call_method1("dtype", (dtype,))?,
            None => array.getattr("dtype")?,
        };
        let is_same = array.getattr("dtype")?.eq(&dtype)?;
        match copy {
            Some(true) => array.call_method1("astype", (dtype,)),
            _ if is_same => Ok(array),
            Some(false) => {
                Err(PyValueError::new_err(format!("another element type than {} needs a copy", slf.get().view.dtype())))
            }
            None => array.call_method1("astype", (dtype,)),
        }
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None, **_more))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
        _more: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let here = self.view.dlpack();
        let wanted = dl_device.unwrap_or(here);
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let mut is_copied = copy == Some(true);
        if wanted == HOST && here != HOST && copy != Some(false) {
            is_copied = true;
        } else if wanted != here || (is_copied && here != HOST) {
            let place = self.view.device().map_or_else(|| "the host".to_owned(), |device| device.name());
            let message = format!("it lies on {place}, DLPack's device {here:?}, and can't be copied to {wanted:?}");
            return Err(PyBufferError::new_err(message));
        } else if let Some(device) = self.view.device() {
            // Host memory has no stream, whatever is asked for.
            let to = if here == HOST { Consumer::Unordered } else { Consumer::new(stream.as_ref(), is_versioned)? };
            lend(py, device, &to)?;
        }
        export(py, &self.view, is_versioned, is_copied)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.view.dlpack()
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let tensor = &slf.get().view;
        // The error by which Python knows that an object has no buffer.
        tensor.on_host(slf.py()).map_err(|error| PyBufferError::new_err(error.value(slf.py()).to_string()))?;
        let Some(format) = format(tensor.dtype()) else {
            let message = format!("buffers have no name for {}: take the bits as view(\"u16\")", tensor.dtype());
            return Err(PyBufferError::new_err(message));
        };
        let asks = |flag: c_int| flags & flag == flag;
        if !asks(ffi::PyBUF_ND) {
            // As `torch.asarray` does, which then makes numbers of another type of them.
            let message = "this asks for bytes without a shape and without a type: take the tensor as .torch() or \
                 .numpy(), or its bytes as memoryview(tensor)";
            return Err(PyBufferError::new_err(message));
        }
        if asks(ffi::PyBUF_F_CONTIGUOUS) && tensor.shape().iter().filter(|dim| **dim > 1).count() > 1 {
            return Err(PyBufferError::new_err("the rows lie one after another, and not the columns"));
        }
        let buffer = ffi::Py_buffer {
            buf: tensor.data().cast::<c_void>(),
            len: tensor.bytes() as isize,
            itemsize: tensor.dtype().bytes() as isize,
            readonly: 0,
            ndim: tensor.shape().len() as c_int,
            format: if asks(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() },
            // Python promises not to write them, and the tensor outlives the view.
            shape: tensor.shape().as_ptr().cast_mut(),
            strides: if asks(ffi::PyBUF_STRIDES) { tensor.strides().as_ptr().cast_mut() } else { std::ptr::null_mut() },
            suboffsets: std::ptr::null_mut(),
            internal: std::ptr::null_mut(),
            obj: slf.into_any().into_ptr(),
        };
        // SAFETY: Python gives a place for a view.
        unsafe { view.write(buffer) };
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}

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
        let view = &tensor.get().view;
        match self {
            Self::Numpy if view.dtype() == DType::Bf16 => {
                view.on_host(py)?;
                bf16_in_numpy(tensor)
            }
            Self::Numpy => {
                view.on_host(py)?;
                NUMPY.import(py, "numpy", "asarray")?.call1((tensor,))
            }
            // PyTorch takes a capsule, too, and asks the tensor for one in some ten steps of Python.
            Self::Torch if view.dlpack() == HOST => {
                view.on_host(py)?;
                let capsule = export(py, view, false, false)?;
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
