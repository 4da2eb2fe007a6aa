//! Tensors in the form in which array libraries pass memory to each other:
//! [DLPack](https://dmlc.github.io/dlpack/latest/), in both of its versions.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use ringfeed::DType;
use ringfeed::memory::{AnonymousPages, Block, PageSource};

use crate::device::HOST;
use crate::errors::exception;
use crate::shared::{MAX_DIMS, Shared};
use crate::view::View;

/// The version of the structures below.
const VERSION: Version = Version { major: 1, minor: 0 };

/// `DLPACK_FLAG_BITMASK_IS_COPIED`.
const IS_COPIED: u64 = 2;

/// `DLDataType`.
#[repr(C)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Plain {
    data: *mut c_void,
    device: (i32, i32),
    rank: i32,
    dtype: Type,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLPackVersion`.
#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Unversioned {
    tensor: Plain,
    context: *mut c_void,
    deleter: unsafe extern "C" fn(*mut Self),
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: unsafe extern "C" fn(*mut Self),
    flags: u64,
    tensor: Plain,
}

/// One of the two forms.
trait Managed: Sized {
    const NAME: &'static CStr;

    fn new(tensor: Plain, is_copied: bool) -> Self;

    fn tensor_mut(&mut self) -> &mut Plain;
}

impl Managed for Unversioned {
    const NAME: &'static CStr = c"dltensor";

    fn new(tensor: Plain, _: bool) -> Self {
        Self { tensor, context: std::ptr::null_mut(), deleter: delete::<Self> }
    }

    fn tensor_mut(&mut self) -> &mut Plain {
        &mut self.tensor
    }
}

impl Managed for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";

    fn new(tensor: Plain, is_copied: bool) -> Self {
        let flags = if is_copied { IS_COPIED } else { 0 };
        Self { version: VERSION, context: std::ptr::null_mut(), deleter: delete::<Self>, flags, tensor }
    }

    fn tensor_mut(&mut self) -> &mut Plain {
        &mut self.tensor
    }
}

/// What keeps a consumer's tensor alive. `managed` comes first, and points into the rest.
#[repr(C)]
struct Manager<M> {
    managed: M,
    shape: [i64; MAX_DIMS],
    strides: [i64; MAX_DIMS],
    _memory: Memory,
}

enum Memory {
    Shared { _shared: Arc<Shared> },
    Own { _block: Block },
}

/// # Safety
///
/// `managed` must be that of a manager that [`capsule`] made, and not be used any more. It may be called on any thread.
unsafe extern "C" fn delete<M>(managed: *mut M) {
    // SAFETY: a manager begins with its `managed`, and was made by `Box`; the caller gives it up.
    drop(unsafe { Box::from_raw(managed.cast::<Manager<M>>()) });
}

/// Frees a capsule whose tensor was never taken. A consumer that takes the tensor renames the capsule.
unsafe extern "C" fn destroy<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, attached.
    if unsafe { ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) } == 1 {
        // SAFETY: as above, and its name was just looked at.
        let managed = unsafe { ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()) };
        // SAFETY: it is what `capsule` put in, and still there.
        unsafe { delete::<M>(managed.cast()) };
    }
}

fn type_of(dtype: DType) -> PyResult<Type> {
    const INT: u8 = 0;
    const UINT: u8 = 1;
    const FLOAT: u8 = 2;
    const BFLOAT: u8 = 4;
    let code = match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => UINT,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => INT,
        DType::F16 | DType::F32 | DType::F64 => FLOAT,
        DType::Bf16 => BFLOAT,
        other => return Err(PyBufferError::new_err(format!("{other} has no name in DLPack"))),
    };
    Ok(Type { code, bits: 8 * dtype.bytes() as u8, lanes: 1 })
}

/// A capsule with the tensor, or with a copy of it.
pub(crate) fn export(py: Python<'_>, tensor: &View, is_versioned: bool, is_copied: bool) -> PyResult<Py<PyAny>> {
    let (data, memory) = if is_copied {
        let far = tensor.far_bytes(py)?;
        let copy = || {
            let bytes = tensor.bytes();
            let mut block = AnonymousPages.allocate(bytes.max(1))?;
            let from = far.as_ref().map_or(tensor.data().cast_const(), |far| far.as_ptr());
            // SAFETY: both have so many bytes, and the block is new.
            unsafe { std::ptr::copy_nonoverlapping(from, block.as_mut_slice().as_mut_ptr(), bytes) };
            Ok(block)
        };
        let mut block: Block = copy().map_err(|error| exception(py, &error))?;
        (block.as_mut_slice().as_mut_ptr(), Memory::Own { _block: block })
    } else {
        (tensor.data(), Memory::Shared { _shared: tensor.shared().clone() })
    };
    if is_versioned {
        capsule::<Versioned>(py, tensor, data, memory, is_copied)
    } else {
        capsule::<Unversioned>(py, tensor, data, memory, is_copied)
    }
}

fn capsule<M: Managed>(
    py: Python<'_>,
    tensor: &View,
    data: *mut u8,
    memory: Memory,
    is_copied: bool,
) -> PyResult<Py<PyAny>> {
    let plain = Plain {
        data: data.cast(),
        device: if is_copied { HOST } else { tensor.dlpack() },
        rank: tensor.shape().len() as i32,
        dtype: type_of(tensor.dtype())?,
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let mut manager = Box::new(Manager {
        managed: M::new(plain, is_copied),
        shape: [0; MAX_DIMS],
        strides: [0; MAX_DIMS],
        _memory: memory,
    });
    let item = tensor.dtype().bytes() as i64;
    for (at, (len, stride)) in tensor.shape().iter().zip(tensor.strides()).enumerate() {
        (manager.shape[at], manager.strides[at]) = (*len as i64, *stride as i64 / item);
    }
    let manager = Box::into_raw(manager);
    // SAFETY: it was just made, and nobody else has it.
    let parts = unsafe { &mut *manager };
    let (shape, strides) = (parts.shape.as_mut_ptr(), parts.strides.as_mut_ptr());
    let plain = parts.managed.tensor_mut();
    (plain.shape, plain.strides) = (shape, strides);
    // SAFETY: the name lives for ever, and the destructor is for what is put in.
    let capsule = unsafe { ffi::PyCapsule_New(manager.cast(), M::NAME.as_ptr(), Some(destroy::<M>)) };
    if capsule.is_null() {
        // SAFETY: no capsule has it.
        unsafe { delete::<M>(manager.cast()) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: a new reference, given to us.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) }.unbind())
}
