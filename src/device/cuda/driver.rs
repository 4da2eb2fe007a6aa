//! The driver's calls, each in the device's own context, with errors instead of codes. No other code of the device uses
//! the driver's pointers.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use cudarc::driver::sys::{self, CUdevice_attribute, CUevent_flags, CUresult, CUstream_flags};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AnonymousPages, Block, PageSource, whole_pages};

use super::kept::{Kept, Piece};

/// Names of the driver's library, in the order in which the bindings try them.
const LIBRARIES: [&str; 3] = ["libcuda.so", "libcuda.so.1", "nvcuda.dll"];

/// All driver functions that are called here.
const CALLS: [&str; 33] = [
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Maximum amount of memory that is kept for later.
const KEPT: usize = 256 << 20;

/// How long dropping a device's last handle waits for the device.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Checks that the driver exists and answers.
///
/// The bindings panic if a library or a function is missing, so this looks for each of them first.
fn initialise() -> Result<()> {
    // SAFETY: the driver's library has no conditions for being loaded; the bindings load the same one.
    let load = |name: &&str| unsafe { libloading::Library::new(*name) }.ok();
    let Some(library) = LIBRARIES.iter().find_map(load) else {
        let message = format!("no CUDA driver: none of {} could be loaded", LIBRARIES.join(", "));
        return Err(Error::new(ErrorKind::Device, message));
    };
    // SAFETY: what is found is not called, but only known to be there.
    let is_there = |name: &&&str| unsafe { library.get::<unsafe extern "C" fn()>(**name) }.is_ok();
    if let Some(missing) = CALLS.iter().find(|name| !is_there(name)) {
        let message =
            format!("the CUDA driver lacks {missing}: it is too old, and one of CUDA 12.0 or later is needed");
        return Err(Error::new(ErrorKind::Device, message));
    }
    // SAFETY: may be called at any time, any number of times.
    check(unsafe { sys::cuInit(0) }, "cuInit")
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

/// A device's primary context, which it shares with every other library of the process, and our kernels in it.
pub struct Context {
    pub(super) ordinal: usize,
    primary: Primary,
    kernels: Vec<sys::CUfunction>,
    /// Whether memory can be allocated and freed in the order of a stream.
    has_pools: bool,
    /// Sends objects to the thread that gives back what the driver may wait for, and finally the context. `None` while
    /// it drops.
    loans: Option<Sender<Loan>>,
    /// The memory that this thread keeps.
    kept: Arc<Kept<Loan>>,
    /// Disconnected when that thread has ended.
    ended: Receiver<()>,
}

/// The state of the thread that gives objects back; it ends with the context.
#[derive(Clone, Copy)]
struct Primary {
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Null until it is loaded.
    module: sys::CUmodule,
}

// SAFETY: handles of the driver may be used from any thread, by its manual; nothing here changes after `open`.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}
// SAFETY: as above.
unsafe impl Send for Primary {}

/// While it lives, the device's context is the calling thread's current one; afterwards the previous one is.
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
        // SAFETY: writes one number. A driver that does not know the question has no pools.
        let _ = unsafe { sys::cuDeviceGetAttribute(&raw mut has_pools, pools, device) };
        let mut context = null_mut();
        // SAFETY: writes one handle, which `Primary::end` releases once.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) }, "cuDevicePrimaryCtxRetain")?;
        let mut primary = Primary { device, context, module: null_mut() };
        let kernels = primary.load(ptx, kernels).inspect_err(|_| primary.end())?;
        let (loans, returned) = unbounded();
        let (alive, ended) = bounded(0);
        let kept = Arc::new(Kept::new(KEPT));
        let shared = kept.clone();
        let thread = std::thread::Builder::new().name("ringfeed-return".to_owned()).spawn(move || {
            returned.into_iter().for_each(|loan| primary.take_back(loan, &kept));
            kept.take_all().into_iter().for_each(|loan| primary.free(loan));
            primary.end();
            drop::<Sender<()>>(alive);
        });
        if let Err(error) = thread {
            primary.end();
            return Err(Error::new(ErrorKind::Device, format!("no thread for cuda:{ordinal}: {error}")));
        }
        let has_pools = has_pools != 0;
        Ok(Arc::new(Self { ordinal, primary, kernels, has_pools, loans: Some(loans), kept: shared, ended }))
    }

    fn enter(&self) -> Result<Current> {
        self.primary.enter()
    }

    /// The context's handle.
    pub(super) fn raw(&self) -> *mut c_void {
        self.primary.context.cast()
    }

    pub(super) fn settle(&self) -> Result<()> {
        self.primary.settle()
    }

    /// Lets `stream` run kernel `index` with the one parameter `params`.
    ///
    /// # Safety
    ///
    /// `params` must be laid out as the kernel's parameter, and the memory that it points to must belong to the kernel
    /// until it has run.
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
        // SAFETY: kernel and stream belong to the current context; the driver copies the parameter before it returns;
        // the rest is the caller's contract.
        let launched =
            unsafe { sys::cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream.raw, params, null_mut()) };
        check(launched, "cuLaunchKernel")
    }

    pub(super) fn allocate(self: &Arc<Self>, bytes: usize, stream: &Stream) -> Result<Memory> {
        let _current = self.enter()?;
        // The driver can't allocate zero bytes.
        let bytes = bytes.max(1);
        if let Some(Loan::Device(memory)) = self.kept.take(Kind::Device, bytes) {
            return Ok(memory);
        }
        let allocated = self.with_room(|| {
            let mut address = 0;
            let (taken, call) = if self.has_pools {
                // SAFETY: the stream belongs to the current context; writes one address.
                (unsafe { sys::cuMemAllocAsync(&raw mut address, bytes, stream.raw) }, "cuMemAllocAsync")
            } else {
                // SAFETY: writes one address.
                (unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) }, "cuMemAlloc")
            };
            check(taken, call).map(|()| Memory { address, bytes })
        });
        allocated.map_err(|error| {
            let message = format!("{bytes} bytes on cuda:{}: {}", self.ordinal, error.message());
            Error::new(ErrorKind::Device, message).with_source(error)
        })
    }

    /// Asks the driver for memory; if it refuses, asks again after freeing the memory that is kept for later.
    fn with_room<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        ask().or_else(|refused| {
            let kept = self.kept.take_all();
            if kept.is_empty() {
                return Err(refused);
            }
            kept.into_iter().for_each(|loan| self.primary.free(loan));
            ask()
        })
    }

    /// Frees the memory after the stream's work, or without memory pools after all work of the device. Does not wait.
    pub(super) fn free(&self, memory: Memory, stream: &Stream) {
        if !self.has_pools {
            self.give_back(Loan::Device(memory));
            return;
        }
        let Ok(_current) = self.enter() else { return };
        // SAFETY: the memory came from `allocate`, is freed once (its only holder gave it away), and all its work is
        // before this place of the stream.
        let given = unsafe { sys::cuMemFreeAsync(memory.address, stream.raw) };
        if let Err(error) = check(given, "cuMemFreeAsync") {
            tracing::debug!(%error, "device memory was not freed");
        }
    }

    /// Frees the memory after all work of the device. Does not wait.
    pub(super) fn free_at_last(&self, memory: Memory) {
        self.give_back(if self.has_pools { Loan::Pooled(memory) } else { Loan::Device(memory) });
    }

    /// Gives an object back on a separate thread, so that dropping a batch or a ring does not wait for the device.
    fn give_back(&self, loan: Loan) {
        let left = match &self.loans {
            Some(loans) => loans.send(loan).err().map(|unsent| unsent.0),
            None => Some(loan),
        };
        if let Some(loan) = left {
            self.primary.take_back(loan, &self.kept);
        }
    }

    /// Page-locked memory of our own, for all contexts.
    pub(super) fn allocate_host(self: &Arc<Self>, bytes: usize, write_combined: bool) -> Result<Block> {
        let bytes = whole_pages(bytes);
        let (start, loan) = match self.kept.take(Kind::Locked { write_combined }, bytes) {
            Some(Loan::Locked(locked)) => (with_exposed_provenance_mut(locked.address), Loan::Locked(locked)),
            _ => {
                let _current = self.enter()?;
                let combined = if write_combined { sys::CU_MEMHOSTALLOC_WRITECOMBINED } else { 0 };
                let flags = sys::CU_MEMHOSTALLOC_PORTABLE | combined;
                let start = self.with_room(|| {
                    let mut start: *mut c_void = null_mut();
                    // SAFETY: writes one address.
                    check(unsafe { sys::cuMemHostAlloc(&raw mut start, bytes, flags) }, "cuMemHostAlloc")?;
                    Ok(start)
                })?;
                (start, Loan::Locked(Locked { address: start.expose_provenance(), bytes, write_combined }))
            }
        };
        let owner = Owner { context: self.clone(), loan: Some(loan) };
        let start = NonNull::new(start.cast::<u8>()).filter(|start| start.addr().get().is_multiple_of(4096));
        let Some(start) = start else {
            return Err(Error::new(ErrorKind::Device, "page-locked memory does not begin with a page"));
        };
        // SAFETY: the driver gave `bytes` bytes or more, nobody else has them.
        unsafe { start.write_bytes(0, bytes) };
        // SAFETY: page-aligned, initialised above, reachable through nothing else until the owner frees it.
        Ok(unsafe { Block::from_raw_parts(start, bytes, Box::new(owner)) })
    }

    /// Ordinary pages that are locked for all contexts.
    pub(super) fn register_host(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        if let Some(Loan::Registered(mut block)) = self.kept.take(Kind::Registered, bytes) {
            block.as_mut_slice().fill(0);
            return Ok(self.registered(block, whole_pages(bytes)));
        }
        let block = AnonymousPages.allocate(bytes)?;
        let (start, bytes) = (block.start(), block.len());
        let _current = self.enter()?;
        self.with_room(|| {
            // SAFETY: the range is whole pages of ours, which `registered` unlocks before it frees them.
            let locked =
                unsafe { sys::cuMemHostRegister_v2(start.as_ptr().cast(), bytes, sys::CU_MEMHOSTREGISTER_PORTABLE) };
            check(locked, "cuMemHostRegister")
        })?;
        Ok(self.registered(block, bytes))
    }

    /// The first `bytes` of registered pages, as a block that gives all of them back.
    fn registered(self: &Arc<Self>, block: Block, bytes: usize) -> Block {
        let (start, bytes) = (block.start(), bytes.min(block.len()));
        let owner = Owner { context: self.clone(), loan: Some(Loan::Registered(block)) };
        // SAFETY: the block's own memory, aligned and initialised; the block itself is out of reach in the owner.
        unsafe { Block::from_raw_parts(start, bytes, Box::new(owner)) }
    }
}

impl Drop for Context {
    /// Waits for all work of the device, for a limited time, so that a program does not exit while it runs.
    fn drop(&mut self) {
        self.loans = None;
        if self.ended.recv_timeout(CLOSE_WAIT).is_err_and(|error| error.is_timeout()) {
            tracing::warn!(ordinal = self.ordinal, "a device is given up when its work is done, which takes long");
        }
    }
}

impl Primary {
    fn enter(&self) -> Result<Current> {
        // SAFETY: the context is retained until `end`.
        check(unsafe { sys::cuCtxPushCurrent_v2(self.context) }, "cuCtxPushCurrent")?;
        Ok(Current)
    }

    fn load(&mut self, ptx: &CStr, names: &[&CStr]) -> Result<Vec<sys::CUfunction>> {
        let _current = self.enter()?;
        // SAFETY: the text ends in a zero; writes one handle, which `end` unloads once.
        let loaded = unsafe { sys::cuModuleLoadData(&raw mut self.module, ptx.as_ptr().cast()) };
        check(loaded, "cuModuleLoadData")?;
        let find = |name: &&CStr| {
            let mut kernel = null_mut();
            // SAFETY: the module is loaded, the name ends in a zero; writes one handle, valid as long as the module.
            let found = unsafe { sys::cuModuleGetFunction(&raw mut kernel, self.module, name.as_ptr()) };
            check(found, "cuModuleGetFunction").map(|()| kernel)
        };
        names.iter().map(find).collect()
    }

    /// Keeps returned memory for the next request of a similar size, or frees it; both when all work of the device is
    /// done.
    fn take_back(&self, loan: Loan, kept: &Kept<Loan>) {
        let freed = match self.settle() {
            Ok(()) if matches!(loan, Loan::Pooled(_)) => Some(loan),
            Ok(()) => kept.keep(loan),
            // Pages can be unlocked all the same; the device may still use its own memory.
            Err(_) if matches!(loan, Loan::Locked(_) | Loan::Registered(_)) => Some(loan),
            Err(error) => {
                tracing::warn!(%error, "memory was not given back to the device's driver");
                None
            }
        };
        if let Some(loan) = freed {
            self.free(loan);
        }
    }

    fn settle(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: waits for the current context, which is ours.
        check(unsafe { sys::cuCtxSynchronize() }, "cuCtxSynchronize")
    }

    /// Frees memory that no work uses any more. Except for pooled memory, the driver first waits for all work of the
    /// device. Meanwhile, every thread that makes an event or a copy waits, too.
    fn free(&self, loan: Loan) {
        let given = self.enter().and_then(|_current| match &loan {
            // SAFETY: allocated once, freed once; its user gave it away, and that work is done.
            Loan::Device(memory) => check(unsafe { sys::cuMemFree_v2(memory.address) }, "cuMemFree"),
            Loan::Pooled(memory) => {
                // SAFETY: as above.
                check(unsafe { sys::cuMemFreeAsync(memory.address, null_mut()) }, "cuMemFreeAsync")
            }
            Loan::Locked(locked) => {
                // SAFETY: allocated once, freed once.
                check(unsafe { sys::cuMemFreeHost(with_exposed_provenance_mut(locked.address)) }, "cuMemFreeHost")
            }
            Loan::Registered(block) => {
                // SAFETY: registered once, unregistered once, before the pages are freed.
                check(unsafe { sys::cuMemHostUnregister(block.start().as_ptr().cast()) }, "cuMemHostUnregister")
            }
        });
        if let Err(error) = given {
            tracing::warn!(%error, "memory was not given back to the device's driver");
            // The driver may still treat these pages as locked, so they must not be reused.
            std::mem::forget(loan);
        }
    }

    fn end(&self) {
        // Streams and events hold the context, but their work may outlive them.
        let _ = self.settle();
        if let Ok(_current) = self.enter()
            && !self.module.is_null()
        {
            // SAFETY: loaded once, unloaded once; none of its kernels is under way, and nobody can launch one any more.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
        // SAFETY: retained once, released once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A piece of device memory. Its holder returns it with [`Context::free`].
pub struct Memory {
    pub(super) address: sys::CUdeviceptr,
    pub(super) bytes: usize,
}

/// Memory that is taken back only after all work of the device.
enum Loan {
    /// Of the device, not pooled.
    Device(Memory),
    Pooled(Memory),
    Locked(Locked),
    Registered(Block),
}

/// Page-locked memory that the driver allocated.
struct Locked {
    address: usize,
    bytes: usize,
    write_combined: bool,
}

#[derive(PartialEq)]
enum Kind {
    Device,
    Pooled,
    Locked { write_combined: bool },
    Registered,
}

impl Piece for Loan {
    type Kind = Kind;

    fn kind(&self) -> Kind {
        match self {
            Self::Device(_) => Kind::Device,
            Self::Pooled(_) => Kind::Pooled,
            Self::Locked(locked) => Kind::Locked { write_combined: locked.write_combined },
            Self::Registered(_) => Kind::Registered,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Device(memory) | Self::Pooled(memory) => memory.bytes,
            Self::Locked(locked) => locked.bytes,
            Self::Registered(block) => block.len(),
        }
    }
}

/// What a block of page-locked memory belongs to.
struct Owner {
    context: Arc<Context>,
    loan: Option<Loan>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(loan) = self.loan.take() {
            self.context.give_back(loan);
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

    /// A stream that belongs to other code.
    pub(super) fn borrowed(context: &Arc<Context>, raw: *mut c_void) -> Self {
        Self { raw: raw.cast(), context: context.clone(), is_ours: false }
    }

    pub(super) fn raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.raw == other.raw && self.context.ordinal == other.context.ordinal
    }

    /// The number of its device.
    pub(super) fn ordinal(&self) -> usize {
        self.context.ordinal
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
    /// There must be as many bytes at `to`. Both must stay in place until the stream has copied them, `from` unchanged.
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
        self.synchronize().inspect_err(|_| {
            // The copy may still be under way, unless the device is broken.
            let _ = self.context.settle();
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_ours
            && let Ok(_current) = self.context.enter()
        {
            // SAFETY: created once, destroyed once; the driver finishes the stream's work first, without making us
            // wait.
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

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.ordinal)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_made_is_looked_for() {
        let code = include_str!("driver.rs");
        let mut made: Vec<&str> = code
            .split("sys::cu")
            .skip(1)
            .filter_map(|rest| rest.split_once('('))
            .map(|(name, _)| name)
            .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        made.sort_unstable();
        made.dedup();
        let listed: Vec<&str> = CALLS.iter().map(|name| &name[2..]).collect();
        assert_eq!(made, listed);
    }
}
