//! One tensor in a batch's memory.

use std::sync::Arc;

use pyo3::prelude::*;
use ringfeed::tensor::TensorSpec;
use ringfeed::{DType, Error, ErrorKind, Result};

use crate::device::{Consumer, HOST, OnDevice};
use crate::errors::{exception, raise};
use crate::shared::{MAX_DIMS, Place, Shared};

/// What a tensor of a batch is, and where it is.
pub(crate) struct View {
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

impl View {
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

    /// Its device; `None` for the host.
    pub(crate) fn device(&self) -> Option<&dyn OnDevice> {
        self.shared.device()
    }

    /// The device in DLPack's numbers.
    pub(crate) fn dlpack(&self) -> (i32, i32) {
        self.device().map_or(HOST, |device| device.dlpack())
    }

    /// An error unless the host can read the tensor. After this call, it can.
    pub(crate) fn on_host(&self, py: Python<'_>) -> PyResult<()> {
        let Some(device) = self.device() else { return Ok(()) };
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
        let Some(device) = self.device().filter(|device| device.dlpack() != HOST) else { return Ok(None) };
        py.detach(|| device.to_host(self.index)).map(Some).map_err(|error| exception(py, &error))
    }

    pub(crate) fn spec(&self) -> &TensorSpec {
        &self.shared.tensors()[self.index]
    }

    /// The same memory as elements of another type of the same size.
    pub(crate) fn of_type(&self, dtype: DType) -> Result<Self> {
        if dtype.bytes() != self.dtype.bytes() {
            let (here, bytes) = (self.dtype, self.dtype.bytes());
            let message = format!("{here} has {bytes} bytes, and {dtype} has {}", dtype.bytes());
            return Err(Error::new(ErrorKind::Schema, message).at_column(&self.spec().name));
        }
        let Self { ref shared, index, offset, rank, shape, strides, .. } = *self;
        Ok(Self { shared: shared.clone(), index, offset, dtype, rank, shape, strides })
    }
}

/// Lends a tensor on a device to a consumer; see [`OnDevice::lend`].
pub(crate) fn lend(py: Python<'_>, device: &dyn OnDevice, to: &Consumer) -> PyResult<()> {
    py.detach(|| device.lend(to)).map_err(|error| exception(py, &error))
}
