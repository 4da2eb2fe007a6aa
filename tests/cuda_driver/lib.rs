//! A simulated CUDA driver: `libcuda.so.1` for machines without a GPU, which checks how it is called.
//!
//! It has the calls that Ringfeed and its tests make, and no more. It is the driver at its least friendly: work is done
//! late, in any order that streams and events leave open, and host memory is read when a copy is done, not when it is
//! asked for. It ends the process with a message at the first call that the driver's manual does not allow, or that it
//! leaves open:
//!
//! - a call before `cuInit`, without a current context, with a handle of another context, a destroyed one or none, or in a
//!   function that a stream calls; a thread that ends with a context on its stack;
//! - device memory that is used after it was freed, beside its bounds, by the host, or by work of two streams of which one
//!   writes and that no event orders (whether or not they met this time: each piece of work has a vector clock);
//! - page-locked memory that is changed, unlocked or freed before the copy that reads it; copies to the device from memory
//!   that is not page-locked for the context;
//! - a module that is unloaded before its kernels have run, a context that ends with work or things in it, and anything
//!   that is still alive ten seconds after `main`.
//!
//! Whoever frees or unlocks memory waits for the context's work, and holds up other threads' calls meanwhile.
//!
//! Calls can be let fail (`simulated_fail`): those that make or use something do nothing then, those that end something
//! do it and fail. A failure with 700 or 719 breaks the context for good, as on a GPU.
//!
//! Unsafe code trusts the pointers that a call is given, as the driver does.
//!
//! Not simulated: time, bandwidth, how much work fits into a stream, peer access, graphs, and the compilation of PTX
//! (its text is searched for the kernels' names and sizes; what runs is `kernels.cu`, compiled for the processor by
//! `kernels.cpp`).
//!
//! `tests/common/simulated.rs` builds it. Read `queues.rs` and `memory.rs` for what is kept, `driver.rs` for what
//! happens. `SIMULATED_CUDA` holds settings, such as `devices=2 pools=0 seed=7 late_us=300 end=strict
//! fail=cuMemAllocAsync:3:2`.

mod driver;
mod kernels;
mod memory;
mod queues;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use driver::{Context, Driver, Event, Function, Module, call, free_in, lock, wait_for};
use memory::{Allocation, Locked, Pages, is_device_address};
use queues::{Clock, Mark, Source, Work};

pub type Code = c_int;
pub type Done = Result<(), Code>;

const INVALID_VALUE: Code = 1;
const NO_DEVICE: Code = 100;
const INVALID_DEVICE: Code = 101;
const INVALID_IMAGE: Code = 200;
const INVALID_HANDLE: Code = 400;
const NOT_FOUND: Code = 500;
const ALREADY_REGISTERED: Code = 712;
const NOT_REGISTERED: Code = 713;

/// Names the fault and ends the process.
pub fn violation(text: &str) -> ! {
    let thread = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    eprintln!("simulated CUDA driver: {text} (thread {:?})", thread.trim_end());
    if std::env::var_os("RUST_BACKTRACE").is_some() {
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
    }
    std::process::abort()
}

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
    fn _exit(code: c_int) -> !;
}

/// What is alive when the program ends has ten seconds to end, or no time where the setting `end=strict` says so.
extern "C" fn ending() {
    let steps = if lock().settings.ends_strictly { 1 } else { 10_000 };
    for _ in 0..steps {
        if lock().alive().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    eprintln!("simulated CUDA driver: still alive at the end: {}", lock().alive().join(", "));
    unsafe { _exit(86) }
}

// For tests.

/// Changes settings; some before `cuInit` alone, all before a device is opened.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_configure(text: *const c_char) {
    lock().configure(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
}

/// Lets the `nth` call of this name from now on fail with `code`; with 0 none.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_fail(name: *const c_char, nth: u64, code: Code) {
    lock().fail(&unsafe { CStr::from_ptr(name) }.to_string_lossy(), nth, code);
}

/// Whether that call has failed.
#[unsafe(no_mangle)]
extern "C" fn simulated_has_failed() -> bool {
    lock().has_failed()
}

/// How many things are alive.
#[unsafe(no_mangle)]
extern "C" fn simulated_alive() -> usize {
    let driver = lock();
    let memory = driver.memory.values().filter(|memory| !memory.is_freed).count();
    driver.contexts.len()
        + driver.streams.len()
        + driver.events.len()
        + driver.modules.len()
        + driver.locked.len()
        + memory
}

/// Declares calls. `makes` something or uses it: does nothing where it is to fail. `ends` something: does it all the
/// same.
macro_rules! calls {
    ($($kind:ident fn $name:ident($($arg:ident: $type:ty),*) |$($driver:ident)+| $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) -> Code {
            call(stringify!($name), stringify!($kind) == "ends", move |$($driver)+| {
                CALL.set(stringify!($name));
                $body;
                Ok(())
            })
        }
    )*};
}

thread_local! {
    /// The call that is being made, for messages.
    static CALL: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
}

fn device(driver: &Driver, number: c_int) -> Result<c_int, Code> {
    if (0..driver.settings.devices).contains(&number) { Ok(number) } else { Err(INVALID_DEVICE) }
}

/// The current context, in health.
fn current(driver: &Driver) -> Result<usize, Code> {
    let context = driver.current(CALL.get());
    driver.health(context).map(|()| context)
}

/// The queue of a stream of the current context, in health.
fn queue(driver: &Driver, stream: usize) -> Result<usize, Code> {
    let queue = driver.queue_of(stream, CALL.get());
    driver.health(driver.queues[queue].context).map(|()| queue)
}

fn event(driver: &Driver, event: usize) -> &Event {
    driver.current(CALL.get());
    driver
        .events
        .get(&event)
        .unwrap_or_else(|| violation(&format!("{} of what is no event, or was destroyed", CALL.get())))
}

/// The event, which must be one of the current context.
fn own_event(driver: &Driver, handle: usize) -> &Event {
    let event = event(driver, handle);
    if event.context != driver.current(CALL.get()) {
        violation(&format!("{} of an event of another context than the current one", CALL.get()));
    }
    event
}

calls! {
    makes fn cuInit(_flags: c_uint) |mut driver| {
        if !driver.is_initialised {
            if let Ok(settings) = std::env::var("SIMULATED_CUDA") {
                driver.configure(&settings);
            }
            if driver.settings.devices == 0 {
                return Err(NO_DEVICE);
            }
            driver.is_initialised = true;
            for device in 0..driver.settings.devices {
                std::thread::spawn(move || driver::work(device));
            }
            unsafe { atexit(ending) };
        }
    }

    makes fn cuDeviceGetCount(count: *mut c_int) |driver| { unsafe { *count = driver.settings.devices } }

    makes fn cuDeviceGet(to: *mut c_int, ordinal: c_int) |driver| { unsafe { *to = device(&driver, ordinal)? } }

    makes fn cuDeviceGetAttribute(to: *mut c_int, attribute: c_uint, number: c_int) |driver| {
        const HAS_POOLS: c_uint = 115;
        device(&driver, number)?;
        if attribute != HAS_POOLS {
            return Err(INVALID_VALUE);
        }
        unsafe { *to = c_int::from(driver.settings.has_pools) }
    }

    makes fn cuDevicePrimaryCtxRetain(to: *mut usize, number: c_int) |mut driver| {
        let device = device(&driver, number)?;
        let there = driver.contexts.iter_mut().find(|(_, context)| context.device == device);
        let handle = match there {
            Some((handle, context)) => {
                context.retained += 1;
                *handle
            }
            None => {
                let handle = driver.handle();
                let default_queue = driver.queue(handle, true);
                driver.contexts.insert(handle, Context { device, retained: 1, stacked: 0, broken: None, left: Clock::new(), default_queue });
                handle
            }
        };
        driver.health(handle)?;
        unsafe { *to = handle }
    }

    ends fn cuDevicePrimaryCtxRelease_v2(number: c_int) |mut driver| {
        let device = device(&driver, number)?;
        let there = driver.contexts.iter_mut().find(|(_, context)| context.device == device);
        let Some((handle, context)) = there else { violation("a primary context is released that nobody retains") };
        let handle = *handle;
        context.retained -= 1;
        if context.retained == 0 {
            end_context(&mut driver, handle);
        }
    }

    makes fn cuCtxPushCurrent_v2(context: usize) |mut driver| { driver.push(context) }

    ends fn cuCtxPopCurrent_v2(to: *mut usize) |mut driver| { unsafe { *to = driver.pop() } }

    makes fn cuCtxGetCurrent(to: *mut usize) |_driver| { unsafe { *to = Driver::top() } }

    makes fn cuCtxSynchronize() |mut driver| {
        let context = current(&driver)?;
        let ends: Vec<(Mark, Clock)> = (0..driver.queues.len())
            .filter(|queue| driver.queues[*queue].context == context)
            .map(|queue| driver.end(queue))
            .collect();
        let left = driver.contexts[&context].left.clone();
        driver.settled.join(&left);
        for (mark, clock) in ends {
            driver = wait_for(driver, mark, &clock);
            driver.settled.join(&clock);
        }
        driver.health(context)?
    }

    makes fn cuModuleLoadData(to: *mut usize, text: *const c_char) |mut driver| {
        let context = current(&driver)?;
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        if ![".version ", ".target ", ".address_size 64"].iter().all(|part| text.contains(part)) {
            return Err(INVALID_IMAGE);
        }
        let handle = driver.handle();
        driver.modules.insert(handle, Module { context, text, under_way: 0 });
        unsafe { *to = handle }
    }

    makes fn cuModuleGetFunction(to: *mut usize, module: usize, kernel: *const c_char) |mut driver| {
        let context = current(&driver)?;
        let kernel = unsafe { CStr::from_ptr(kernel) }.to_string_lossy().into_owned();
        let Some(found) = driver.modules.get(&module) else { violation("cuModuleGetFunction of what is no module") };
        if found.context != context {
            violation("cuModuleGetFunction of a module of another context");
        }
        // One parameter, whose size the text declares.
        let declared = format!("{kernel}_param_0[");
        let bytes = found.text.split_once(&format!(".entry {kernel}(")).and_then(|(_, text)| {
            let (size, _) = text.split_once(&declared)?.1.split_once(']')?;
            size.parse::<usize>().ok()
        });
        let Some(param_bytes) = bytes else { return Err(NOT_FOUND) };
        let Some((kernel, compiled)) = kernels::find(&kernel) else { return Err(NOT_FOUND) };
        if compiled.is_some_and(|compiled| compiled != param_bytes) {
            violation("a kernel's parameter has another size in its source than in its PTX");
        }
        let handle = driver.handle();
        driver.functions.insert(handle, Function { module, kernel, param_bytes });
        unsafe { *to = handle }
    }

    ends fn cuModuleUnload(module: usize) |mut driver| {
        let context = driver.current("cuModuleUnload");
        let Some(ended) = driver.modules.remove(&module) else { violation("cuModuleUnload of what is no module") };
        if ended.under_way > 0 {
            violation("a module is unloaded before its kernels have run");
        }
        driver.functions.retain(|_, function| function.module != module);
        driver.health(context)?
    }

    makes fn cuStreamCreate(to: *mut usize, flags: c_uint) |mut driver| {
        const NON_BLOCKING: c_uint = 1;
        let context = current(&driver)?;
        let (handle, queue) = (driver.handle(), driver.queue(context, flags & NON_BLOCKING == 0));
        driver.streams.insert(handle, queue);
        unsafe { *to = handle }
    }

    ends fn cuStreamDestroy_v2(stream: usize) |mut driver| {
        let queue = driver.queue_of(stream, "cuStreamDestroy");
        driver.streams.remove(&stream);
        driver.queues[queue].is_destroyed = true;
        let context = driver.queues[queue].context;
        driver.leave(queue);
        driver.health(context)?
    }

    makes fn cuStreamSynchronize(stream: usize) |mut driver| {
        let queue = queue(&driver, stream)?;
        let context = driver.queues[queue].context;
        let (mark, clock) = driver.end(queue);
        driver = wait_for(driver, mark, &clock);
        driver.health(context)?
    }

    makes fn cuStreamWaitEvent(stream: usize, handle: usize, _flags: c_uint) |mut driver| {
        let queue = queue(&driver, stream)?;
        let event = event(&driver, handle);
        driver.health(event.context)?;
        let (mark, clock) = (event.mark, event.clock.clone());
        driver.queues[queue].clock.join(&clock);
        driver.give(queue, "cuStreamWaitEvent", Work::Await(mark));
    }

    makes fn cuEventCreate(to: *mut usize, _flags: c_uint) |mut driver| {
        let context = current(&driver)?;
        let handle = driver.handle();
        driver.events.insert(handle, Event { context, mark: Mark::default(), clock: Clock::new() });
        unsafe { *to = handle }
    }

    ends fn cuEventDestroy_v2(handle: usize) |mut driver| {
        let context = own_event(&driver, handle).context;
        driver.events.remove(&handle);
        driver.health(context)?
    }

    makes fn cuEventRecord(handle: usize, stream: usize) |mut driver| {
        let queue = queue(&driver, stream)?;
        if event(&driver, handle).context != driver.queues[queue].context {
            return Err(INVALID_HANDLE);
        }
        let (mark, clock) = driver.end(queue);
        if let Some(event) = driver.events.get_mut(&handle) {
            (event.mark, event.clock) = (mark, clock);
        }
    }

    makes fn cuEventSynchronize(handle: usize) |mut driver| {
        let event = own_event(&driver, handle);
        let context = event.context;
        driver.health(context)?;
        let (mark, clock) = (event.mark, event.clock.clone());
        driver = wait_for(driver, mark, &clock);
        driver.health(context)?
    }

    makes fn cuMemAlloc_v2(to: *mut u64, bytes: usize) |mut driver| {
        let context = current(&driver)?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let memory = Allocation::new(context, bytes, false);
        unsafe { *to = memory.address() };
        driver.memory.insert(memory.address(), memory);
    }

    ends fn cuMemFree_v2(address: u64) |mut driver| {
        let context = driver.current("cuMemFree");
        let memory = driver.memory_around(address, 0, "cuMemFree");
        if memory.address() != address {
            violation("cuMemFree of what is not the beginning of device memory");
        }
        memory.is_freed = true;
        let (is_pooled, mut users) = (memory.is_pooled, memory.users().into_iter());
        if is_pooled && users.any(|user| !driver.is_past(user)) {
            violation("cuMemFree of pooled memory that work uses, for which it does not wait");
        }
        // For its own memory it waits for the device, as the manual lets one understand.
        driver = free_in(driver, context);
        if let Some(memory) = driver.memory.remove(&address) {
            memory.check();
        }
        driver.health(context)?
    }

    makes fn cuMemAllocAsync(to: *mut u64, bytes: usize, stream: usize) |mut driver| {
        let context = current(&driver)?;
        let queue = queue(&driver, stream)?;
        if bytes == 0 || !driver.settings.has_pools {
            return Err(INVALID_VALUE);
        }
        let memory = Allocation::new(context, bytes, true);
        let start = memory.address();
        driver.memory.insert(start, memory);
        // Nobody may use it before this place in the order of the stream.
        driver.give(queue, "cuMemAllocAsync", Work::Await(Mark::default()));
        touch(&mut driver, queue, start, None, true, "cuMemAllocAsync");
        unsafe { *to = start }
    }

    ends fn cuMemFreeAsync(address: u64, stream: usize) |mut driver| {
        let queue = driver.queue_of(stream, "cuMemFreeAsync");
        let memory = driver.memory_around(address, 0, "cuMemFreeAsync");
        if memory.address() != address || !memory.is_pooled {
            violation("cuMemFreeAsync of what cuMemAllocAsync did not give");
        }
        let context = memory.context;
        let health = driver.health(context);
        if health.is_ok() {
            driver.give(queue, "cuMemFreeAsync", Work::Free(address));
            touch(&mut driver, queue, address, None, true, "cuMemFreeAsync");
        }
        if let Some(memory) = driver.memory.get_mut(&address) {
            memory.is_freed = true;
        }
        health?
    }

    makes fn cuMemHostAlloc(to: *mut usize, bytes: usize, flags: c_uint) |mut driver| {
        let context = current(&driver)?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let pages = Pages::new(bytes);
        let start = pages.start();
        driver.locked.insert(start, Locked { context, bytes, flags, pages: Some(pages), under_way: 0 });
        unsafe { *to = start }
    }

    ends fn cuMemFreeHost(address: usize) |mut driver| {
        let done = unlock(&mut driver, address, true);
        let context = driver.current("cuMemFreeHost");
        drop(free_in(driver, context));
        done?
    }

    makes fn cuMemHostRegister_v2(address: usize, bytes: usize, flags: c_uint) |mut driver| {
        let context = current(&driver)?;
        if bytes == 0 || address == 0 {
            return Err(INVALID_VALUE);
        }
        let before = driver.locked.range(..address + bytes).next_back();
        if before.is_some_and(|(start, locked)| start + locked.bytes > address) {
            return Err(ALREADY_REGISTERED);
        }
        driver.locked.insert(address, Locked { context, bytes, flags, pages: None, under_way: 0 });
    }

    ends fn cuMemHostUnregister(address: usize) |mut driver| {
        let done = unlock(&mut driver, address, false);
        let context = driver.current("cuMemHostUnregister");
        drop(free_in(driver, context));
        done?
    }

    makes fn cuMemHostGetFlags(to: *mut c_uint, address: usize) |driver| {
        current(&driver)?;
        // By the manual, of memory that the driver allocated alone.
        let locked = driver.locked.get(&address).filter(|locked| locked.pages.is_some());
        unsafe { *to = locked.ok_or(INVALID_VALUE)?.flags }
    }

    makes fn cuPointerGetAttribute(to: *mut c_uint, attribute: c_uint, address: u64) |mut driver| {
        const MEMORY_TYPE: c_uint = 2;
        const HOST: c_uint = 1;
        const DEVICE: c_uint = 2;
        current(&driver)?;
        if attribute != MEMORY_TYPE {
            return Err(INVALID_VALUE);
        }
        let kind = match () {
            () if is_device_address(address) => DEVICE,
            () if driver.locked_around(address as usize, 1).is_some() => HOST,
            () => return Err(INVALID_VALUE),
        };
        unsafe { *to = kind }
    }

    makes fn cuMemcpyHtoDAsync_v2(to: u64, from: usize, bytes: usize, stream: usize) |mut driver| {
        let queue = queue(&driver, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let takes_pageable = driver.settings.takes_pageable || driver.was_refused;
        let then = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(from), bytes) }.to_vec();
        let from = match driver.locked_around(from, bytes) {
            Some(locked) => {
                locked.under_way += 1;
                Source::Locked { from, then }
            }
            None if takes_pageable => Source::Staged(then),
            None => violation("a copy to the device reads memory that is not page-locked for its context"),
        };
        let _keep = driver.memory_around(to, bytes, "cuMemcpyHtoDAsync").pages();
        driver.give(queue, "cuMemcpyHtoDAsync_v2", Work::CopyIn { to, from, _keep });
        touch(&mut driver, queue, to, Some(bytes), true, "cuMemcpyHtoDAsync");
    }

    makes fn cuMemcpyDtoHAsync_v2(to: usize, from: u64, bytes: usize, stream: usize) |mut driver| {
        let queue = queue(&driver, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let context = driver.queues[queue].context;
        let is_locked = driver.locked_around(to, bytes).map(|locked| locked.under_way += 1).is_some();
        let _keep = driver.memory_around(from, bytes, "cuMemcpyDtoHAsync").pages();
        driver.give(queue, "cuMemcpyDtoHAsync_v2", Work::CopyOut { to, from, bytes, _keep });
        touch(&mut driver, queue, from, Some(bytes), false, "cuMemcpyDtoHAsync");
        if !is_locked {
            let (mark, clock) = driver.end(queue);
            driver = wait_for(driver, mark, &clock);
        }
        driver.health(context)?
    }

    makes fn cuLaunchKernel(
        function: usize, blocks: c_uint, blocks_y: c_uint, blocks_z: c_uint, threads: c_uint, threads_y: c_uint,
        threads_z: c_uint, shared: c_uint, stream: usize, params: *const *const u64, extra: *const c_void
    ) |mut driver| {
        let queue = queue(&driver, stream)?;
        let context = driver.queues[queue].context;
        let Some(&Function { module, kernel, param_bytes }) = driver.functions.get(&function) else {
            violation("cuLaunchKernel of what is no kernel, or was unloaded")
        };
        if driver.modules.get(&module).is_none_or(|module| module.context != context) {
            violation("cuLaunchKernel of a kernel of another context");
        }
        if blocks == 0 || blocks > i32::MAX as u32 || !(1..=1024).contains(&threads) {
            return Err(INVALID_VALUE);
        }
        if (blocks_y, blocks_z, threads_y, threads_z, shared) != (1, 1, 1, 1, 0) || !extra.is_null() {
            violation("cuLaunchKernel with more than one dimension, or with options, is not simulated");
        }
        let mut words = vec![0u64; param_bytes.div_ceil(8)];
        unsafe { std::ptr::copy_nonoverlapping((*params).cast::<u8>(), words.as_mut_ptr().cast(), param_bytes) };
        let found: Vec<u64> = words.iter().copied().filter(|word| is_device_address(*word)).collect();
        let _keep = found.iter().map(|address| driver.memory_around(*address, 1, "cuLaunchKernel").pages()).collect();
        let params = words.iter().map(|word| if is_device_address(*word) { memory::host_of(*word) as u64 } else { *word });
        let work = Work::Launch { kernel, blocks, threads, params: params.collect(), module, _keep };
        driver.give(queue, "cuLaunchKernel", work);
        // What it is pointed to, it may read and write all of.
        for address in found {
            touch(&mut driver, queue, address, None, true, "cuLaunchKernel");
        }
        if let Some(module) = driver.modules.get_mut(&module) {
            module.under_way += 1;
        }
    }

    makes fn cuLaunchHostFunc(stream: usize, function: unsafe extern "C" fn(*mut c_void), given: usize) |mut driver| {
        let queue = queue(&driver, stream)?;
        driver.give(queue, "cuLaunchHostFunc", Work::Call { function, given });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: Code, to: *mut *const c_char) -> Code {
    let name = match code {
        0 => c"CUDA_SUCCESS",
        1 => c"CUDA_ERROR_INVALID_VALUE",
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        100 => c"CUDA_ERROR_NO_DEVICE",
        101 => c"CUDA_ERROR_INVALID_DEVICE",
        400 => c"CUDA_ERROR_INVALID_HANDLE",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        712 => c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        999 => c"CUDA_ERROR_UNKNOWN",
        _ => {
            unsafe { *to = std::ptr::null() };
            return INVALID_VALUE;
        }
    };
    unsafe { *to = name.as_ptr() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(_: Code, to: *mut *const c_char) -> Code {
    unsafe { *to = c"simulated".as_ptr() };
    0
}

/// Notes that the latest work of a queue touches device memory from `address` on: so many bytes, or the whole piece.
fn touch(driver: &mut Driver, queue: usize, address: u64, bytes: Option<usize>, writes: bool, call: &'static str) {
    let (mark, clock) = driver.end(queue);
    let memory = driver.memory_around(address, bytes.unwrap_or(1), call);
    let start = memory.address();
    let (start, end) = bytes.map_or((start, start + memory.bytes as u64), |bytes| (address, address + bytes as u64));
    memory.touch(start, end, writes, mark, &clock, call);
}

fn unlock(driver: &mut Driver, address: usize, is_ours: bool) -> Done {
    let context = driver.current(CALL.get());
    let Some(locked) = driver.locked.remove(&address) else {
        if is_ours {
            violation("cuMemFreeHost of what is not there, or was freed");
        }
        return Err(NOT_REGISTERED);
    };
    if locked.pages.is_some() != is_ours {
        violation(&format!("{} of memory that was locked in another way", CALL.get()));
    }
    if locked.under_way > 0 {
        violation(&format!("{} before the copies that use the memory are done", CALL.get()));
    }
    driver.health(context)
}

fn end_context(driver: &mut Driver, handle: usize) {
    let Some(context) = driver.contexts.remove(&handle) else { return };
    let is_broken = context.broken.is_some();
    if context.stacked > 0 {
        violation("a context ends that is current on a thread");
    }
    let of_streams = driver.streams.values().filter(|queue| driver.queues[**queue].context == handle).count();
    let of_events = driver.events.values().filter(|event| event.context == handle).count();
    let of_modules = driver.modules.values().filter(|module| module.context == handle).count();
    let is_alive = |memory: &&Allocation| memory.context == handle && !memory.is_freed;
    let of_memory = driver.memory.values().filter(is_alive).count();
    let of_locked = driver.locked.values().filter(|locked| locked.context == handle).count();
    let left = [of_streams, of_events, of_modules, of_memory, of_locked];
    if !is_broken && left != [0; 5] {
        violation(&format!("a context ends with streams, events, modules, memory and locked memory in it: {left:?}"));
    }
    if !is_broken && driver.queues.iter().any(|queue| queue.context == handle && !queue.is_idle()) {
        violation("a context ends with work under way");
    }
    let queues: Vec<bool> = driver.queues.iter().map(|queue| queue.context == handle).collect();
    driver.streams.retain(|_, queue| !queues[*queue]);
    driver.events.retain(|_, event| event.context != handle);
    driver.modules.retain(|_, module| module.context != handle);
    driver.memory.retain(|_, memory| memory.context != handle);
    driver.locked.retain(|_, locked| locked.context != handle);
    for queue in &mut driver.queues {
        if queue.context == handle {
            queue.context = 0;
        }
    }
}
