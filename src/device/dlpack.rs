use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::dataset::DataSet;
use crate::dtype::DType;
use crate::error::Result;
use crate::sync::Mutex;

use super::Device;
use super::batch::DeviceDataSet;
use super::engine::{Engine, KEY};

/// `DLDevice` of DLPack.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    device_type: i32,
    device_id: i32,
}

/// `DLDataType`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Place,
    rank: i32,
    dtype: Type,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// The owner of everything that a consumer's tensor uses. `managed` points into it.
#[repr(C)]
struct Manager {
    managed: Managed,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// The batch, shared by its tensors. Its slot is free after the last of them has dropped, on any thread.
    _batch: Arc<dyn Send + Sync>,
}

/// One tensor of a batch in the form that NumPy, PyTorch, JAX and others take over without a copy: a `DLManagedTensor`
/// of [DLPack](https://dmlc.github.io/dlpack/latest/).
///
/// It keeps the batch, its memory and its device alive, until it drops or its deleter is called, on any thread. After
/// the last tensor of a batch, the slot is free again. The consumer may write to the tensor, because nothing else uses
/// the batch any more.
pub struct DlpackTensor {
    name: String,
    manager: NonNull<Manager>,
}

// SAFETY: it is the only way to its manager, whose parts may go to other threads: numbers, and a batch that is `Send +
// Sync`.
unsafe impl Send for DlpackTensor {}

impl DlpackTensor {
    /// The tensor's name in the batch.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The `DLManagedTensor`, now owned by the caller, who must call its deleter once. For Python, put it into a
    /// capsule called `dltensor`.
    pub fn into_raw(self) -> *mut c_void {
        let mut given = ManuallyDrop::new(self);
        given.name = String::new();
        given.manager.as_ptr().cast()
    }
}

impl Drop for DlpackTensor {
    fn drop(&mut self) {
        // SAFETY: nobody else has it, so that the deleter was not called.
        unsafe { delete(self.manager.as_ptr().cast()) };
    }
}

impl fmt::Debug for DlpackTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DlpackTensor({:?})", self.name)
    }
}

/// # Safety
///
/// `managed` must be that of a manager that [`manage`] made, and not be used any more.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: a manager begins with its `managed`, and was made by `Box`; the caller gives it up.
    drop(unsafe { Box::from_raw(managed.cast::<Manager>()) });
}

fn type_of(dtype: DType) -> Type {
    const INT: u8 = 0;
    const UINT: u8 = 1;
    const FLOAT: u8 = 2;
    const BFLOAT: u8 = 4;
    let code = match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => UINT,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => INT,
        DType::F16 | DType::F32 | DType::F64 => FLOAT,
        DType::Bf16 => BFLOAT,
    };
    Type { code, bits: 8 * dtype.bytes() as u8, lanes: 1 }
}

fn manage(
    name: &str,
    (device_type, device_id): (i32, i32),
    data: *mut c_void,
    dtype: DType,
    shape: &[usize],
    batch: Arc<dyn Send + Sync>,
) -> DlpackTensor {
    let mut step = 1;
    let mut strides = vec![1; shape.len()];
    for (stride, dim) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= *dim as i64;
    }
    let mut manager = Box::new(Manager {
        managed: Managed {
            tensor: Tensor {
                data,
                device: Place { device_type, device_id },
                rank: shape.len() as i32,
                dtype: type_of(dtype),
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
            context: std::ptr::null_mut(),
            deleter: Some(delete),
        },
        shape: shape.iter().map(|dim| *dim as i64).collect(),
        strides,
        _batch: batch,
    });
    manager.managed.tensor.shape = manager.shape.as_mut_ptr();
    manager.managed.tensor.strides = manager.strides.as_mut_ptr();
    DlpackTensor { name: name.to_owned(), manager: NonNull::from(Box::leak(manager)) }
}

impl DataSet {
    /// The batch's tensors as DLPack tensors on the host, in the schema's order. No copy; a few small allocations per
    /// tensor.
    pub fn into_dlpack(mut self) -> Vec<DlpackTensor> {
        const CPU: (i32, i32) = (1, 0);
        // Not through a tensor's view: a shared borrow gives no right to write.
        let start = self.start().as_ptr();
        let tensors: Vec<_> = self
            .tensors()
            .zip(self.layout().tensors())
            .map(|(tensor, place)| {
                let data = start.wrapping_add(place.offset()).cast::<c_void>();
                (tensor.name().to_owned(), data, tensor.dtype(), tensor.shape().to_vec())
            })
            .collect();
        // The lock is never taken; it makes a `Send` batch `Sync`.
        let batch: Arc<dyn Send + Sync> = Arc::new(Mutex::new(self));
        let managed = |(name, data, dtype, shape): (String, _, DType, Vec<usize>)| {
            manage(&name, CPU, data, dtype, &shape, batch.clone())
        };
        tensors.into_iter().map(managed).collect()
    }
}

impl<D: Device> DeviceDataSet<D> {
    /// The batch's tensors as DLPack tensors on its device, in the schema's order, for work on `stream`, which is
    /// ordered after the copy. When the last of them is deleted, the slot is reused after the work that `stream` was
    /// given until then.
    ///
    /// Without a stream, this call waits for the copy, and the consumer must have finished its work on a tensor when it
    /// deletes it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device is broken.
    pub fn into_dlpack(self, stream: Option<&D::Stream>) -> Result<Vec<DlpackTensor>> {
        match stream {
            Some(stream) => drop(self.on(stream)?),
            None => self.wait()?,
        }
        let device = self.device().engine(KEY).dlpack_device();
        let tensors: Vec<_> = self
            .places()
            .map(|(name, address, dtype, shape)| (name.to_owned(), address, dtype, shape.to_vec()))
            .collect();
        let batch: Arc<dyn Send + Sync> = Arc::new(Mutex::new(self));
        let managed = |(name, address, dtype, shape): (String, u64, _, Vec<usize>)| {
            let data = std::ptr::with_exposed_provenance_mut(address as usize);
            manage(&name, device, data, dtype, &shape, batch.clone())
        };
        Ok(tensors.into_iter().map(managed).collect())
    }
}
