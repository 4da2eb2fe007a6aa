//! One tensor of a batch, as a buffer, through DLPack, and as an array of other libraries.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyTuple};
use pyo3::{ffi, intern};
use ringfeed::device::DeviceName;
use ringfeed::{DType, Error, ErrorKind, Result};

use crate::device::{Consumer, HOST, OnDevice};
use crate::dlpack::export;
use crate::errors::{exception, raise};
use crate::framework::Framework;
use crate::shared::{MAX_DIMS, Place, Shared};

/// One tensor of a batch. Array libraries use it without a copy: ``numpy.asarray(t)``, ``torch.from_dlpack(t)``,
/// ``jax.dlpack.from_dlpack(t)``, ``memoryview(t)``, or ``t.numpy()``, ``t.torch()``, ``t.jax()``.
///
/// It has no arithmetic of its own. To look at its values, use ``t[0]``, ``t[:, 1]``, loops over it, comparisons,
/// ``float(t)`` and ``t.item()``, which work like those of its NumPy array, if NumPy is installed.
#[pyclass(frozen, weakref, module = "ringfeed._ringfeed")]
pub(crate) struct Tensor {
    shared: Arc<Shared>,
    index: usize,
    /// See [`Place`].
    offset: usize,
    dtype: DType,
    rank: usize,
    shape: [isize; MAX_DIMS],
    /// In bytes.
    strides: [isize; MAX_DIMS],
}

impl Tensor {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        let Place { offset, dtype, rank, shape } = shared.place(index);
        let mut strides = [0; MAX_DIMS];
        let mut step = dtype.bytes() as isize;
        for dim in (0..rank).rev() {
            strides[dim] = step;
            step *= shape[dim].max(1);
        }
        Self { shared, index, offset, dtype, rank, shape, strides }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The first byte. A receiver keeps the memory alive by [`shared`](Self::shared).
    pub(crate) fn data(&self) -> *mut u8 {
        self.shared.at(self.offset)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn shape(&self) -> &[isize] {
        &self.shape[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides[..self.rank]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shape().iter().product::<isize>() as usize * self.dtype.bytes()
    }

    /// The device in DLPack's numbers.
    pub(crate) fn dlpack(&self) -> (i32, i32) {
        self.shared.device().map_or(HOST, |device| device.dlpack())
    }

    /// An error unless the host can read the tensor. After this call, it can.
    pub(crate) fn on_host(&self, py: Python<'_>) -> PyResult<()> {
        let Some(device) = self.shared.device() else { return Ok(()) };
        if device.dlpack() == HOST {
            return lend(py, device, &Consumer::Unordered);
        }
        let message = format!(
            "the tensor {:?} lies on {}: take it as torch() or jax(), or copy it to the host by \
             numpy.from_dlpack(tensor, device=\"cpu\")",
            self.spec().name,
            device.name(),
        );
        Err(raise(py, ErrorKind::Unsupported, message))
    }

    /// A copy in ordinary memory, if the tensor is on a device that the host can't read.
    pub(crate) fn far_bytes(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        let Some(device) = self.shared.device().filter(|device| device.dlpack() != HOST) else { return Ok(None) };
        py.detach(|| device.to_host(self.index)).map(Some).map_err(|error| exception(py, &error))
    }

    fn spec(&self) -> &ringfeed::tensor::TensorSpec {
        &self.shared.tensors()[self.index]
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

fn lend(py: Python<'_>, device: &dyn OnDevice, to: &Consumer) -> PyResult<()> {
    py.detach(|| device.lend(to)).map_err(|error| exception(py, &error))
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
        &self.spec().name
    }

    /// ``"feature"``, ``"label"`` or ``"mask"``.
    #[getter]
    fn role(&self) -> &'static str {
        match self.spec().role {
            ringfeed::tensor::Role::Feature => "feature",
            ringfeed::tensor::Role::Label => "label",
            ringfeed::tensor::Role::Mask => "mask",
        }
    }

    /// The names of the classes that its numbers stand for, if it holds any.
    #[getter]
    fn classes(&self) -> Option<Vec<&str>> {
        self.spec().classes.as_deref().map(|names| names.iter().map(String::as_str).collect())
    }

    /// Element type: ``"f32"``, ``"i64"``, ``"u8"``, ``"bf16"`` and so on.
    #[getter(dtype)]
    fn dtype_name(&self) -> &'static str {
        self.dtype.as_str()
    }

    /// Dimensions; the first is the number of samples.
    #[getter(shape)]
    fn shape_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape())
    }

    /// Its device: ``"host"``, or ``"cuda:0"`` and so on.
    #[getter]
    fn device(&self) -> String {
        self.shared.device().map_or_else(|| DeviceName::Host.to_string(), |device| device.name())
    }

    /// Number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.rank
    }

    /// Number of bytes of its elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes()
    }

    /// The address of the first element.
    #[getter]
    fn data_ptr(&self) -> usize {
        self.data().addr()
    }

    fn __len__(&self) -> usize {
        self.shape[0] as usize
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
            "a Tensor is a batch's memory and computes nothing, so that it has no {name:?}: take it as .numpy(), .torch() or \
             .jax() first"
        )))
    }

    /// The same memory as elements of another type of the same size, such as ``"u16"`` for the bits of ``"bf16"``.
    pub(crate) fn view(&self, py: Python<'_>, dtype: &str) -> PyResult<Self> {
        let of = || -> Result<DType> {
            let of: DType = dtype.parse()?;
            if of.bytes() != self.dtype.bytes() {
                let message = format!("{} has {} bytes, and {of} has {}", self.dtype, self.dtype.bytes(), of.bytes());
                return Err(Error::new(ErrorKind::Schema, message).at_column(&self.spec().name));
            }
            Ok(of)
        };
        let dtype = of().map_err(|error| exception(py, &error))?;
        let Self { ref shared, index, offset, rank, shape, strides, .. } = *self;
        Ok(Self { shared: shared.clone(), index, offset, dtype, rank, shape, strides })
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
        slf.get().on_host(py)?;
        if slf.get().dtype == DType::F16 || format(slf.get().dtype).is_none() || slf.get().bytes() == 0 {
            return Framework::Numpy.take(&slf)?.call_method0(intern!(py, "tolist"));
        }
        let view = py.import("builtins")?.call_method1(intern!(py, "memoryview"), (slf,))?;
        view.call_method0(intern!(py, "tolist"))
    }

    fn __repr__(&self) -> String {
        format!("Tensor({:?}, {} {:?})", self.spec().name, self.dtype, self.shape())
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
                Err(PyValueError::new_err(format!("another element type than {} needs a copy", slf.get().dtype)))
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
        let here = self.dlpack();
        let wanted = dl_device.unwrap_or(here);
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let mut is_copied = copy == Some(true);
        if wanted == HOST && here != HOST && copy != Some(false) {
            is_copied = true;
        } else if wanted != here || (is_copied && here != HOST) {
            let place = self.shared.device().map_or_else(|| "the host".to_owned(), |device| device.name());
            let message = format!("it lies on {place}, DLPack's device {here:?}, and can't be copied to {wanted:?}");
            return Err(PyBufferError::new_err(message));
        } else if let Some(device) = self.shared.device() {
            // Host memory has no stream, whatever is asked for.
            let to = if here == HOST { Consumer::Unordered } else { Consumer::new(stream.as_ref(), is_versioned)? };
            lend(py, device, &to)?;
        }
        export(py, self, is_versioned, is_copied)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.dlpack()
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let tensor = slf.get();
        // The error by which Python knows that an object has no buffer.
        tensor.on_host(slf.py()).map_err(|error| PyBufferError::new_err(error.value(slf.py()).to_string()))?;
        let Some(format) = format(tensor.dtype) else {
            let message = format!("buffers have no name for {}: take the bits as view(\"u16\")", tensor.dtype);
            return Err(PyBufferError::new_err(message));
        };
        let asks = |flag: c_int| flags & flag == flag;
        if !asks(ffi::PyBUF_ND) {
            // As `torch.asarray` does, which then makes numbers of another type of them.
            let message = "bytes without a shape are asked for, which lose what they are: take the tensor as .torch() or .numpy(), \
                           or its bytes as memoryview(tensor)";
            return Err(PyBufferError::new_err(message));
        }
        if asks(ffi::PyBUF_F_CONTIGUOUS) && tensor.shape().iter().filter(|dim| **dim > 1).count() > 1 {
            return Err(PyBufferError::new_err("the rows lie one after another, and not the columns"));
        }
        let buffer = ffi::Py_buffer {
            buf: tensor.data().cast::<c_void>(),
            len: tensor.bytes() as isize,
            itemsize: tensor.dtype.bytes() as isize,
            readonly: 0,
            ndim: tensor.rank as c_int,
            format: if asks(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() },
            // Python promises not to write them, and the tensor outlives the view.
            shape: tensor.shape.as_ptr().cast_mut(),
            strides: if asks(ffi::PyBUF_STRIDES) { tensor.strides.as_ptr().cast_mut() } else { std::ptr::null_mut() },
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
