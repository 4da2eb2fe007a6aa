//! Batches on a device: what array libraries are told about them, and in which order the device works on them.

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use ringfeed::device::{CudaDevice, Device, DeviceDataSet, HostDevice};
use ringfeed::order::State;
use ringfeed::{DType, Error, ErrorKind, Result};

/// `kDLCPU`: also used for page-locked host memory, because consumers refuse devices that they do not know.
pub(crate) const HOST: (i32, i32) = (1, 0);

/// What a batch tells about itself, on the host or on a device.
pub(crate) struct Facts<'a> {
    pub(crate) epoch: u64,
    pub(crate) index: u64,
    pub(crate) sample_ids: &'a [u64],
    pub(crate) positions: &'a [u64],
    pub(crate) padding: usize,
    pub(crate) bad_records: usize,
    pub(crate) after: State,
}

/// A batch on any device.
pub(crate) trait OnDevice: Send + Sync {
    fn facts(&self) -> Facts<'_>;

    /// Address, element type and shape of a tensor.
    fn place(&self, nth: usize) -> (u64, DType, &[usize]);

    /// `host`, or `cuda:` and a number.
    fn name(&self) -> String;

    /// Type and number of the device in DLPack.
    fn dlpack(&self) -> (i32, i32);

    /// Lends the tensors to a consumer: its work is ordered after their copy, and the next copy into this memory after
    /// its work.
    fn lend(&self, to: &Consumer) -> Result<()>;

    /// Copies a tensor to the host, and waits for it.
    fn to_host(&self, nth: usize) -> Result<Vec<u8>>;

    /// Number of bytes of its buffer.
    fn bytes(&self) -> usize;

    /// Gives the upload another buffer in place of this one, which from now on belongs to the batch alone.
    fn detach(&mut self) -> Result<()>;
}

/// The receiver of a tensor.
pub(crate) enum Consumer {
    /// Uses the tensor on this stream, a handle of the driver's (0 is the default one), alone or also elsewhere.
    Streams { first: usize, and_others: bool },
    /// Orders nothing, as it declares.
    Unordered,
}

impl Consumer {
    /// The consumer by the argument `stream` of `__dlpack__`, as the standard defines it. PyTorch, and every library
    /// that passes its version, names the stream on which it works. JAX only names one that its own streams then wait
    /// for.
    pub(crate) fn new(stream: Option<&Bound<'_, PyAny>>, is_versioned: bool) -> PyResult<Self> {
        let default = Self::Streams { first: 0, and_others: !is_versioned };
        let Some(stream) = stream else { return Ok(default) };
        match stream.extract::<i128>()? {
            -1 => Ok(Self::Unordered),
            0 => Err(PyValueError::new_err("stream: 0 may mean two things; say 1 for the default stream")),
            1 => Ok(default),
            2 => Err(PyBufferError::new_err(
                "stream: 2 is another stream in each thread, so a tensor that is released on another thread can't be \
                 ordered after it; use another stream",
            )),
            handle => match usize::try_from(handle) {
                Ok(first) => Ok(Self::Streams { first, and_others: !is_versioned }),
                Err(_) => Err(PyValueError::new_err(format!("stream: {handle} is no stream"))),
            },
        }
    }
}

/// The differences between devices.
pub(crate) trait Lends: Device {
    fn dlpack(&self) -> (i32, i32);

    fn lend(batch: &DeviceDataSet<Self>, to: &Consumer) -> Result<()>;
}

impl Lends for HostDevice {
    fn dlpack(&self) -> (i32, i32) {
        HOST
    }

    /// Array libraries on the host have no streams: they may use a tensor from the end of its copy until they delete
    /// it.
    fn lend(batch: &DeviceDataSet<Self>, _: &Consumer) -> Result<()> {
        batch.wait()
    }
}

impl Lends for CudaDevice {
    fn dlpack(&self) -> (i32, i32) {
        const CUDA: i32 = 2;
        (CUDA, i32::try_from(self.ordinal()).unwrap_or(i32::MAX))
    }

    fn lend(batch: &DeviceDataSet<Self>, to: &Consumer) -> Result<()> {
        match *to {
            Consumer::Streams { first, and_others } => {
                if and_others {
                    batch.used_elsewhere();
                }
                let stream = std::ptr::with_exposed_provenance_mut(first);
                // SAFETY: by the protocol, a consumer names a stream of the tensor's device, which lives as long as it
                // works with the tensor; PyTorch and JAX never destroy theirs.
                let stream = unsafe { batch.device().borrow_stream(stream) };
                batch.on(&stream).map(drop)
            }
            Consumer::Unordered => {
                batch.used_elsewhere();
                batch.wait()
            }
        }
    }
}

impl<D: Lends> OnDevice for DeviceDataSet<D> {
    fn facts(&self) -> Facts<'_> {
        Facts {
            epoch: self.epoch(),
            index: self.index(),
            sample_ids: self.sample_ids(),
            positions: self.positions(),
            padding: self.padding(),
            bad_records: self.bad_records(),
            after: self.state_after(),
        }
    }

    fn place(&self, nth: usize) -> (u64, DType, &[usize]) {
        let (_, address, dtype, shape) = self.places().nth(nth).expect("the plan has all tensors of the schema");
        (address, dtype, shape)
    }

    fn name(&self) -> String {
        self.device().name()
    }

    fn dlpack(&self) -> (i32, i32) {
        self.device().dlpack()
    }

    fn lend(&self, to: &Consumer) -> Result<()> {
        D::lend(self, to)
    }

    fn to_host(&self, nth: usize) -> Result<Vec<u8>> {
        let on = self.on(&self.device().stream()?)?;
        let missing = || Error::new(ErrorKind::Schema, format!("no tensor {nth}"));
        on.tensors().nth(nth).ok_or_else(missing)?.to_host()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn detach(&mut self) -> Result<()> {
        self.detach()
    }
}
