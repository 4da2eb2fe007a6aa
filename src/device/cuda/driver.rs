//! The driver's calls, each in the device's own context, with errors in place of codes. All other code of the device is
//! free of the driver's pointers.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::panic::catch_unwind;
use std::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use std::sync::Arc;

use crossbeam_channel::{Sender, bounded};
use cudarc::driver::sys::{self, CUdevice_attribute, CUevent_flags, CUresult, CUstream_flags};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AnonymousPages, Block, PageSource, whole_pages};
use crate::sync::Mutex;

/// The driver's library, by the names that it has.
const LIBRARIES: [&str; 3] = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"];

/// Blocks of page-locked memory that may wait to be given back.
const UNLOCKED_LATER: usize = 64;

/// Makes sure that the driver is there and answers.
///
/// The bindings panic where a library or a function is missing, so that it is looked for here first.
fn initialise() -> Result<()> {
    // SAFETY: the driver's library has no conditions for being loaded; the bindings load the same one.
    let is_there = |name: &&str| unsafe { libloading::Library::new(*name) }.is_ok();
    if !LIBRARIES.iter().any(is_there) {
        let message = format!("no CUDA driver: none of {} could be loaded", LIBRARIES.join(", "));
        return Err(Error::new(ErrorKind::Device, message));
    }
    let initialised = catch_unwind(|| {
        // SAFETY: may be called at any time, any number of times.
        unsafe { sys::cuInit(0) }
    });
    match initialised {
        Ok(result) => check(result, "cuInit"),
        Err(panic) => {
            let reason = Error::from_panic(&*panic);
            Err(Error::new(ErrorKind::Device, format!("the CUDA driver lacks cuInit: {}", reason.message())))
        }
    }
}

#[cold]
fn failure(result: CUresult, call: &str) -> Error {
    let mut name = std::ptr::null();
    let mut text = std::ptr::null();
    // SAFETY: writes the address of a text that lives for ever, or null.
    let _ = unsafe { sys::cuGetErrorName(result, &raw mut name) };
    // SAFETY: as above.
    let _ = unsafe { sys::cuGetErrorString(result, &raw mut text) };
    let words = |text: *const std::ffi::c_char| {
        let text = NonNull::new(text.cast_mut())?;
        // SAFETY: the driver's texts end in a zero and live for ever.
        Some(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
    };
    let name = words(name).unwrap_or_else(|| format!("{result:?}"));
    let text = words(text).unwrap_or_default();
    Error::new(ErrorKind::Device, format!("{call}: {name}: {text}"))
}

fn check(result: CUresult, call: &str) -> Result<()> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failure(result, call)) }
}

/// Number of devices.
pub(super) fn count() -> Result<usize> {
    initialise()?;
    let mut count = 0;
    // SAFETY: the driver is initialised; writes one number.
    check(unsafe { sys::cuDeviceGetCount(&raw mut count) }, "cuDeviceGetCount")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The way to the thread that gives page-locked memory back.
type Unlocking = Sender<(Arc<Context>, Locked)>;

/// A device's primary context, which it shares with every other library of the process, and our kernels in it.
pub(super) struct Context {
    pub(super) ordinal: usize,
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Null until it is loaded.
    module: sys::CUmodule,
    kernels: Vec<sys::CUfunction>,
    /// Whether memory can be taken and given in the order of a stream.
    has_pools: bool,
    /// To the thread that gives page-locked memory back, once there is one.
    unlocking: Mutex<Option<Unlocking>>,
}

// SAFETY: handles of the driver may be used from any thread, by its manual; nothing here changes after `open`.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// While it lives, the calling thread's current context is the device's; then it is what it was.
struct Current;

impl Drop for Current {
    fn drop(&mut self) {
        let mut ours = null_mut();
        // SAFETY: takes back what `Context::enter` put on this thread's stack of contexts.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut ours) };
    }
}

impl Context {
    pub(super) fn open(ordinal: usize, ptx: &CStr, kernels: &[&CStr]) -> Result<Arc<Self>> {
        initialise()?;
        let count = count()?;
        if ordinal >= count {
            let message = format!("no CUDA device {ordinal}: there are {count}, numbered from 0");
            return Err(Error::new(ErrorKind::Device, message));
        }
        let mut device = 0;
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        // SAFETY: the driver is initialised; writes one number.
        check(unsafe { sys::cuDeviceGet(&raw mut device, number) }, "cuDeviceGet")?;
        let mut has_pools = 0;
        let pools = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        // SAFETY: writes one number.
        check(unsafe { sys::cuDeviceGetAttribute(&raw mut has_pools, pools, device) }, "cuDeviceGetAttribute")?;
        let mut context = null_mut();
        // SAFETY: writes one handle, which `drop` releases once.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) }, "cuDevicePrimaryCtxRetain")?;
        let mut this = Self {
            ordinal,
            device,
            context,
            module: null_mut(),
            kernels: Vec::with_capacity(kernels.len()),
            has_pools: has_pools != 0,
            unlocking: Mutex::new(None),
        };
        this.load(ptx, kernels)?;
        Ok(Arc::new(this))
    }

    fn load(&mut self, ptx: &CStr, kernels: &[&CStr]) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the text ends in a zero; writes one handle, which `drop` unloads once.
        check(unsafe { sys::cuModuleLoadData(&raw mut self.module, ptx.as_ptr().cast()) }, "cuModuleLoadData")?;
        for name in kernels {
            let mut kernel = null_mut();
            // SAFETY: the module is loaded, the name ends in a zero; writes one handle, valid as long as the module.
            let found = unsafe { sys::cuModuleGetFunction(&raw mut kernel, self.module, name.as_ptr()) };
            check(found, "cuModuleGetFunction")?;
            self.kernels.push(kernel);
        }
        Ok(())
    }

    fn enter(&self) -> Result<Current> {
        // SAFETY: the context is retained until `drop`.
        check(unsafe { sys::cuCtxPushCurrent_v2(self.context) }, "cuCtxPushCurrent")?;
        Ok(Current)
    }

    /// The context's handle.
    pub(super) fn raw(&self) -> *mut c_void {
        self.context.cast()
    }

    pub(super) fn settle(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: waits for the current context, which is ours.
        check(unsafe { sys::cuCtxSynchronize() }, "cuCtxSynchronize")
    }

    /// Lets `stream` run kernel `index` with the one parameter `params`.
    ///
    /// # Safety
    ///
    /// `params` must be laid out as the kernel's parameter, and what it points to must be the kernel's to use until it has
    /// run.
    pub(super) unsafe fn launch<P: Copy>(
        &self,
        index: usize,
        blocks: u32,
        threads: u32,
        params: &P,
        stream: &Stream,
    ) -> Result<()> {
        let _current = self.enter()?;
        let mut params: [*mut c_void; 1] = [(&raw const *params).cast_mut().cast()];
        let (kernel, params) = (self.kernels[index], params.as_mut_ptr());
        // SAFETY: kernel and stream belong to the current context; the driver copies the parameter before it returns; the
        // rest is the caller's contract.
        let launched =
            unsafe { sys::cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream.raw, params, null_mut()) };
        check(launched, "cuLaunchKernel")
    }

    pub(super) fn allocate(self: &Arc<Self>, bytes: usize, stream: &Stream) -> Result<Memory> {
        let _current = self.enter()?;
        let mut address = 0;
        let (taken, call) = if self.has_pools {
            // SAFETY: the stream belongs to the current context; writes one address.
            (unsafe { sys::cuMemAllocAsync(&raw mut address, bytes, stream.raw) }, "cuMemAllocAsync")
        } else {
            // SAFETY: writes one address.
            (unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) }, "cuMemAlloc")
        };
        check(taken, call).map_err(|error| {
            let message = format!("{bytes} bytes on cuda:{}: {}", self.ordinal, error.message());
            Error::new(ErrorKind::Device, message).with_source(error)
        })?;
        Ok(Memory { address, bytes })
    }

    /// Waits for the device where it has no memory pools.
    pub(super) fn free(&self, memory: &Memory, stream: &Stream) {
        let Ok(_current) = self.enter() else { return };
        let (given, call) = if self.has_pools {
            // SAFETY: the memory came from `allocate`, is freed once (its only holder gave it away), and all its work is
            // before this place of the stream.
            (unsafe { sys::cuMemFreeAsync(memory.address, stream.raw) }, "cuMemFreeAsync")
        } else {
            // SAFETY: as above; the driver itself waits for work that is under way.
            (unsafe { sys::cuMemFree_v2(memory.address) }, "cuMemFree")
        };
        if let Err(error) = check(given, call) {
            tracing::debug!(%error, "device memory was not freed");
        }
    }

    /// Page-locked memory of our own, for all contexts.
    pub(super) fn allocate_host(self: &Arc<Self>, bytes: usize, write_combined: bool) -> Result<Block> {
        let _current = self.enter()?;
        let bytes = whole_pages(bytes);
        let combined = if write_combined { sys::CU_MEMHOSTALLOC_WRITECOMBINED } else { 0 };
        let mut start: *mut c_void = null_mut();
        // SAFETY: writes one address.
        let taken = unsafe { sys::cuMemHostAlloc(&raw mut start, bytes, sys::CU_MEMHOSTALLOC_PORTABLE | combined) };
        check(taken, "cuMemHostAlloc")?;
        let locked = Some(Locked::Allocated(start.expose_provenance()));
        let owner = Locking { context: self.clone(), locked };
        let start = NonNull::new(start.cast::<u8>()).filter(|start| start.addr().get().is_multiple_of(4096));
        let Some(start) = start else {
            return Err(Error::new(ErrorKind::Device, "page-locked memory does not begin with a page"));
        };
        // SAFETY: the driver gave `bytes` bytes, nobody else has them.
        unsafe { start.write_bytes(0, bytes) };
        // SAFETY: page-aligned, initialised above, reachable through nothing else until the owner frees it.
        Ok(unsafe { Block::from_raw_parts(start, bytes, Box::new(owner)) })
    }

    /// Ordinary pages, locked for all contexts.
    pub(super) fn register_host(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        let block = AnonymousPages.allocate(bytes)?;
        let (start, bytes) = (block.start(), block.len());
        let _current = self.enter()?;
        // SAFETY: the range is whole pages of ours, which the owner below unlocks before it frees them.
        let locked =
            unsafe { sys::cuMemHostRegister_v2(start.as_ptr().cast(), bytes, sys::CU_MEMHOSTREGISTER_PORTABLE) };
        check(locked, "cuMemHostRegister")?;
        let address = start.as_ptr().expose_provenance();
        let owner = Locking { context: self.clone(), locked: Some(Locked::Registered(address, block)) };
        // SAFETY: the block's own memory, aligned and initialised; the block itself is out of reach in the owner.
        Ok(unsafe { Block::from_raw_parts(start, bytes, Box::new(owner)) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Ok(_current) = self.enter()
            && !self.module.is_null()
        {
            // SAFETY: loaded once, unloaded once; streams and events hold the context, so that nothing of it is in use.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
        // SAFETY: retained once, released once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A piece of device memory. Whoever has it gives it back with [`Context::free`].
pub struct Memory {
    pub(super) address: sys::CUdeviceptr,
    pub(super) bytes: usize,
}

/// Page-locked memory that is to be given back.
enum Locked {
    Allocated(usize),
    Registered(usize, Block),
}

impl Context {
    /// Gives page-locked memory back, on a thread of its own: the driver may wait for all work of the device, and who drops a
    /// batch or a ring does not.
    fn unlock_later(self: &Arc<Self>, locked: Locked) {
        let mut unlocking = self.unlocking.lock();
        if unlocking.is_none() {
            let (give, queue) = bounded::<(Arc<Self>, Locked)>(UNLOCKED_LATER);
            let thread = std::thread::Builder::new().name("ringfeed-unlock".to_owned()).spawn(move || {
                // Ends with the context, whose last handle may be one of these.
                queue.into_iter().for_each(|(context, locked)| context.unlock(locked));
            });
            *unlocking = thread.is_ok().then_some(give);
        }
        let queue = unlocking.clone();
        drop(unlocking);
        let full = match queue {
            Some(queue) => queue.try_send((self.clone(), locked)).err().map(|error| error.into_inner().1),
            None => Some(locked),
        };
        if let Some(locked) = full {
            self.unlock(locked);
        }
    }

    fn unlock(&self, locked: Locked) {
        let Ok(_current) = self.enter() else { return };
        match locked {
            // SAFETY: allocated once, freed once.
            Locked::Allocated(address) => drop(unsafe { sys::cuMemFreeHost(with_exposed_provenance_mut(address)) }),
            Locked::Registered(address, block) => {
                // SAFETY: registered once, unregistered once, before the pages are freed.
                let _ = unsafe { sys::cuMemHostUnregister(with_exposed_provenance_mut(address)) };
                drop(block);
            }
        }
    }
}

/// What a block of page-locked memory stands on.
struct Locking {
    context: Arc<Context>,
    locked: Option<Locked>,
}

impl Drop for Locking {
    fn drop(&mut self) {
        if let Some(locked) = self.locked.take() {
            self.context.unlock_later(locked);
        }
    }
}

/// A stream, ours or borrowed.
pub(super) struct Stream {
    raw: sys::CUstream,
    context: Arc<Context>,
    is_ours: bool,
}

// SAFETY: a stream may be used from any thread, also from several at once, by the driver's manual.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let _current = context.enter()?;
        let mut raw = null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle, which `drop` destroys once.
        check(unsafe { sys::cuStreamCreate(&raw mut raw, flags) }, "cuStreamCreate")?;
        Ok(Self { raw, context: context.clone(), is_ours: true })
    }

    /// A stream that somebody else destroys.
    pub(super) fn borrowed(context: &Arc<Context>, raw: *mut c_void) -> Self {
        Self { raw: raw.cast(), context: context.clone(), is_ours: false }
    }

    pub(super) fn raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.raw == other.raw && self.context.ordinal == other.context.ordinal
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the stream lives.
        check(unsafe { sys::cuStreamSynchronize(self.raw) }, "cuStreamSynchronize")
    }

    pub(super) fn wait_for(&self, event: &Event) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: stream and event live.
        check(unsafe { sys::cuStreamWaitEvent(self.raw, event.raw, 0) }, "cuStreamWaitEvent")
    }

    /// Copies `from` to the device at `to`, after the stream's work; returns at once if `from` is page-locked.
    ///
    /// # Safety
    ///
    /// There are as many bytes at `to`; both must stay until the stream has done it, `from` unchanged.
    pub(super) unsafe fn copy_in(&self, from: &[u8], to: sys::CUdeviceptr) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the caller's contract.
        let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), self.raw) };
        check(copied, "cuMemcpyHtoDAsync")
    }

    /// Copies to the host, after the stream's work, and waits for it.
    ///
    /// # Safety
    ///
    /// There must be as many bytes at `from`.
    pub(super) unsafe fn copy_out(&self, from: sys::CUdeviceptr, to: &mut [u8]) -> Result<()> {
        {
            let _current = self.context.enter()?;
            // SAFETY: the caller's contract; `to` is borrowed until the stream has been waited for.
            let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, to.len(), self.raw) };
            check(copied, "cuMemcpyDtoHAsync")?;
        }
        self.synchronize()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_ours
            && let Ok(_current) = self.context.enter()
        {
            // SAFETY: created once, destroyed once; the driver finishes the stream's work first, without making us wait.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// An event without time, whose waiters sleep.
pub struct Event {
    raw: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: an event may be used from any thread, by the driver's manual.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let _current = context.enter()?;
        let mut raw = null_mut();
        let flags = CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32 | CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes one handle, which `drop` destroys once.
        check(unsafe { sys::cuEventCreate(&raw mut raw, flags) }, "cuEventCreate")?;
        Ok(Self { raw, context: context.clone() })
    }

    pub(super) fn record(&self, stream: &Stream) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: event and stream live.
        check(unsafe { sys::cuEventRecord(self.raw, stream.raw) }, "cuEventRecord")
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the event lives.
        check(unsafe { sys::cuEventSynchronize(self.raw) }, "cuEventSynchronize")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: created once, destroyed once; the driver keeps what work still needs of it.
        let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes at {:#x})", self.bytes, self.address)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.raw)
    }
}
