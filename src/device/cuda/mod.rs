//! NVIDIA GPUs, through their driver alone, loaded at run time.
//!
//! `driver.rs` holds the driver's calls, `kernels.rs` the parameters of our kernels. `kernels.cu` is the kernels'
//! source, and `kernels.ptx` is their compiled form that ships.

mod driver;
mod kept;
mod kernels;

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Block;

use super::Device;
use super::convert::Work;
use super::engine::{Engine, Key};
use super::pages::{LockedPages, Locker};

use driver::{Context, Event, Memory, Stream};
use kernels::Params;

/// A CUDA device in its primary context, which candle, burn, PyTorch and the CUDA runtime use, too.
///
/// Clones are handles to the same device. No call or drop changes the current context of a thread. Dropping the last
/// handle, after all streams, batches and page-locked memory, waits for the device's work, for at most ten seconds: a
/// program should not end while the driver is being called. Until then, up to 256 MiB of returned page-locked memory
/// (and of device memory, if the device has no memory pools) are kept for the next ring.
#[derive(Clone)]
pub struct CudaDevice(Arc<Context>);

/// A queue of work on a [`CudaDevice`]. Clones are handles to the same one.
#[derive(Clone)]
pub struct CudaStream(Arc<Stream>);

impl CudaDevice {
    /// Device `ordinal`, counted from 0 as the driver does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if there is no driver (the message lists the names that were tried), no such device, or a
    /// driver that is too old for the kernels.
    pub fn open(ordinal: usize) -> Result<Self> {
        Context::open(ordinal, kernels::PTX, &kernels::NAMES).map(Self)
    }

    /// Number of devices.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if there is no driver; the message lists the names that were tried.
    pub fn count() -> Result<usize> {
        driver::count()
    }

    /// The number with which it was opened.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// The primary context's handle, a `CUcontext`; valid as long as this device.
    pub fn context(&self) -> *mut c_void {
        self.0.raw()
    }

    /// A stream of another library, a `CUstream` of this device's primary context; null is the default stream. Not the
    /// per-thread default stream (`CU_STREAM_PER_THREAD`), which is a different stream on every thread.
    ///
    /// # Safety
    ///
    /// The stream must live until every handle of the result, and every batch that was used on it, is dropped.
    pub unsafe fn borrow_stream(&self, stream: *mut c_void) -> CudaStream {
        CudaStream(Arc::new(Stream::borrowed(&self.0, stream)))
    }

    /// Ordinary pages that are locked after they were allocated, instead of memory that the driver allocates.
    pub fn registered_pages(&self) -> LockedPages<HostPages> {
        LockedPages::new(HostPages { device: self.clone(), kind: Kind::Registered })
    }

    /// Page-locked memory that the host can write fast but read only very slowly. For rings that only the device reads,
    /// without `moved_rows` and `detach`.
    pub fn write_combined_pages(&self) -> LockedPages<HostPages> {
        LockedPages::new(HostPages { device: self.clone(), kind: Kind::WriteCombined })
    }
}

impl CudaStream {
    /// The stream's handle, a `CUstream`; valid as long as this.
    pub fn as_raw(&self) -> *mut c_void {
        self.0.raw()
    }

    /// Sleeps or spins (as the context is configured) until all current work of the stream is done.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }
}

/// How a [`CudaDevice`] locks pages of host memory.
#[derive(Clone, Debug)]
pub struct HostPages {
    device: CudaDevice,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Allocated,
    Registered,
    WriteCombined,
}

impl Locker for HostPages {
    fn lock(&self, bytes: usize) -> Result<Block> {
        let context = &self.device.0;
        match self.kind {
            Kind::Allocated => context.allocate_host(bytes, false),
            Kind::WriteCombined => context.allocate_host(bytes, true),
            Kind::Registered => context.register_host(bytes),
        }
    }
}

impl Device for CudaDevice {
    type Stream = CudaStream;
    type Pages = LockedPages<HostPages>;
    type Engine = Arc<Context>;

    fn engine(&self, _: Key) -> &Arc<Context> {
        &self.0
    }

    fn pages(&self) -> LockedPages<HostPages> {
        LockedPages::new(HostPages { device: self.clone(), kind: Kind::Allocated })
    }
}

impl Engine for Arc<Context> {
    type Memory = Memory;
    type Stream = CudaStream;
    type Event = Event;

    fn label(&self) -> String {
        format!("cuda:{}", self.ordinal)
    }

    fn dlpack_device(&self) -> (i32, i32) {
        const CUDA: i32 = 2;
        (CUDA, i32::try_from(self.ordinal).unwrap_or(i32::MAX))
    }

    fn new_stream(&self) -> Result<CudaStream> {
        Ok(CudaStream(Arc::new(Stream::new(self)?)))
    }

    fn allocate(&self, bytes: usize, stream: &CudaStream) -> Result<Memory> {
        Context::allocate(self, bytes, &stream.0)
    }

    fn free(&self, memory: Memory, stream: &CudaStream) {
        Context::free(self, memory, &stream.0);
    }

    fn abandon(&self, memory: Memory) {
        self.free_at_last(memory);
    }

    fn address(&self, memory: &Memory) -> u64 {
        memory.address
    }

    fn event(&self) -> Result<Event> {
        Event::new(self)
    }

    fn record(&self, event: &Event, stream: &CudaStream) -> Result<()> {
        event.record(&stream.0)
    }

    fn order_after(&self, event: &Event, stream: &CudaStream) -> Result<()> {
        if stream.0.ordinal() != self.ordinal {
            let message = format!("a stream of cuda:{} can't use what lies on {}", stream.0.ordinal(), self.label());
            return Err(Error::new(ErrorKind::Device, message));
        }
        stream.0.wait_for(event)
    }

    fn block_on(&self, event: &Event) -> Result<()> {
        event.synchronize()
    }

    fn settle(&self) -> Result<()> {
        Context::settle(self)
    }

    unsafe fn copy_in(&self, from: &[u8], to: &Memory, stream: &CudaStream) -> Result<()> {
        assert!(from.len() <= to.bytes, "{} bytes do not fit into {}", from.len(), to.bytes);
        // SAFETY: there is room, as was just checked; the rest is the caller's contract.
        unsafe { stream.0.copy_in(from, to.address) }
    }

    unsafe fn convert(&self, work: &Work, memory: &Memory, stream: &CudaStream) -> Result<()> {
        let Some((kernel, blocks, params)) = kernels::launch(work, memory.address)? else { return Ok(()) };
        let threads = kernels::THREADS;
        // `launch` gives the kernel its own parameter, which points to memory that the caller is responsible for.
        match &params {
            // SAFETY: as above.
            Params::Image(params) => unsafe { self.launch(kernel, blocks, threads, params, &stream.0) },
            // SAFETY: as above.
            Params::Scale(params) => unsafe { self.launch(kernel, blocks, threads, params, &stream.0) },
            // SAFETY: as above.
            Params::OneHot(params) => unsafe { self.launch(kernel, blocks, threads, params, &stream.0) },
            // SAFETY: as above.
            Params::Dense(params) => unsafe { self.launch(kernel, blocks, threads, params, &stream.0) },
        }
    }

    fn copy_out(&self, from: &Memory, offset: usize, to: &mut [u8], stream: &CudaStream) -> Result<()> {
        if offset.checked_add(to.len()).is_none_or(|end| end > from.bytes) {
            return Err(Error::new(ErrorKind::Device, format!("{} bytes at {offset} of {}", to.len(), from.bytes)));
        }
        // SAFETY: the bytes are there, as was just checked.
        unsafe { stream.0.copy_out(from.address + offset as u64, to) }
    }
}

impl PartialEq for CudaStream {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaStream({:?})", self.as_raw())
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaDevice({})", self.0.ordinal)
    }
}
