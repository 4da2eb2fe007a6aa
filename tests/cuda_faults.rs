//! The CUDA device on a driver that fails: each call in turn, one time, and for good. A test binary of its own, because
//! a fault is one of the whole process. On the simulated driver alone: a real one does not fail to order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/given.rs"]
mod given;
#[path = "common/simulated.rs"]
#[expect(dead_code, reason = "one of several test files that use it")]
mod simulated;
#[path = "common/until.rs"]
mod until;

use std::ffi::{CString, c_char, c_void};
use std::mem::ManuallyDrop;
use std::process::Command;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use cudarc::driver::sys;
use given::Given;
use ringfeed::device::{CudaDevice, Device, Upload};
use ringfeed::images::PixelOrder;
use ringfeed::memory::PageSource;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{Operation, cast, layout};
use ringfeed::{AsyncDataSetIterator, DType, Error, ErrorKind, Result, Workspace};
use simulated::{Simulated, simulated};
use until::until;

const OUT_OF_MEMORY: i32 = 2;
const UNKNOWN: i32 = 999;
/// Breaks the context for good.
const ILLEGAL_ADDRESS: i32 = 700;

const BATCHES: usize = 8;
const PIXELS: usize = 4 * 6;
const CLASSES: usize = 5;

/// The simulated driver, to one test at a time.
fn driver() -> Option<(&'static Simulated, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::new(());
    let simulated = simulated()?;
    Some((simulated, ONE.lock().unwrap()))
}

/// Lets the `nth` call of this name from now on fail with `code`; with 0 none.
fn fail(simulated: &Simulated, call: &str, nth: u64, code: i32) {
    let call = CString::new(call).unwrap();
    // SAFETY: declared so there.
    let fail = unsafe { simulated.library.get::<unsafe extern "C" fn(*const c_char, u64, i32)>("simulated_fail") };
    // SAFETY: a text that ends in a zero.
    unsafe { fail.unwrap()(call.as_ptr(), nth, code) };
}

/// Whether that call has failed.
fn has_failed(simulated: &Simulated) -> bool {
    // SAFETY: declared so there.
    let has_failed = unsafe { simulated.library.get::<extern "C" fn() -> bool>("simulated_has_failed") };
    has_failed.unwrap()()
}

/// How many things of the driver's are alive.
fn alive(simulated: &Simulated) -> usize {
    // SAFETY: declared so there.
    let alive = unsafe { simulated.library.get::<extern "C" fn() -> usize>("simulated_alive") };
    alive.unwrap()()
}

fn source() -> ReaderSource {
    let row = |row: usize| vec![vec![row as u8; PIXELS], vec![(row % CLASSES) as u8]];
    let tensors = vec![
        TensorSpec::new("image", Role::Feature, DType::U8, &[1, 4, 6]),
        TensorSpec::new("class", Role::Label, DType::U8, &[]),
    ];
    let rows = Arc::new((0..4 * BATCHES).map(row).collect());
    ReaderSource::new(Given { tensors, rows }).batch_size(4)
}

/// What comes to the device in two epochs: sample ids, or an error. Every batch that comes is checked.
fn run(registered: bool, checked: bool) -> Result<Vec<Result<Vec<u64>>>> {
    let device = CudaDevice::open(0)?;
    let pages = if registered { device.registered_pages() } else { device.pages() };
    let workspace = Workspace::builder().workers(1).prefetch(2).pages(pages).build()?;
    let classes = Operation::OneHot { tensor: "class".to_owned(), classes: Some(CLASSES), dtype: DType::F32 };
    let upload = Upload::to(device.clone())
        .slots(2)
        .transform(cast("image", DType::F32))
        .transform(layout("image", PixelOrder::Nchw))
        .transform(classes);
    let mut uploaded = upload.start(AsyncDataSetIterator::new(source(), &workspace)?)?;
    let step = device.stream()?;
    let mut items = Vec::new();
    for _ in 0..2 {
        for item in uploaded.by_ref() {
            items.push(item.and_then(|batch| {
                let on = batch.on(&step)?;
                let [image, class] = ["image", "class"].map(|name| on.tensor(name)?.to_host());
                let (image, class, ids) = (image?, class?, batch.sample_ids().to_vec());
                if checked {
                    let pixels = ids.iter().flat_map(|id| vec![*id as f32; PIXELS]);
                    assert!(image == pixels.flat_map(f32::to_ne_bytes).collect::<Vec<_>>(), "image of {ids:?}");
                    let hot = |id: &u64| (0..CLASSES).map(|class| f32::from(class == *id as usize % CLASSES)).collect();
                    let classes = ids.iter().flat_map(|id| -> Vec<f32> { hot(id) });
                    assert!(class == classes.flat_map(f32::to_ne_bytes).collect::<Vec<_>>(), "class of {ids:?}");
                }
                Ok(ids)
            }));
        }
        uploaded.reset()?;
    }
    drop(uploaded);
    // Each slot of the ring came home.
    until("each slot of the ring is at home", || workspace.ring().leased == 0);
    Ok(items)
}

/// `run`, which must come to an end, and leave nothing behind.
fn ended(simulated: &Simulated, what: &str, registered: bool) -> Result<Vec<Result<Vec<u64>>>> {
    let checked = simulated.has_kernels;
    let (send, result) = mpsc::channel();
    let thread = std::thread::spawn(move || send.send(run(registered, checked)).unwrap());
    let result = result.recv_timeout(Duration::from_secs(200)).unwrap_or_else(|error| panic!("{what}: {error}"));
    thread.join().unwrap();
    until(&format!("{what} leaves nothing behind"), || alive(simulated) == 0);
    result
}

/// Errors that came, wherever they did.
fn errors(result: &Result<Vec<Result<Vec<u64>>>>) -> Vec<&Error> {
    match result {
        Ok(items) => items.iter().filter_map(|item| item.as_ref().err()).collect(),
        Err(error) => vec![error],
    }
}

/// Numbers to fail by: each at first, then fewer.
fn numbers() -> impl Iterator<Item = u64> {
    (1..20).chain((0..).map(|step| 20 + step * step * 3))
}

#[test]
fn a_call_that_fails_once_is_an_error_in_its_place_at_most() {
    let Some((simulated, _one)) = driver() else { return };
    // Not among them: making a retained context current, and waiting for a whole context, which is what is done when
    // something else has failed. They fail on a broken device alone; see below.
    let calls = [
        ("cuInit", true),
        ("cuDeviceGetCount", true),
        ("cuDeviceGet", true),
        ("cuDeviceGetAttribute", false),
        ("cuDevicePrimaryCtxRetain", true),
        ("cuDevicePrimaryCtxRelease_v2", false),
        ("cuModuleLoadData", true),
        ("cuModuleGetFunction", true),
        ("cuModuleUnload", false),
        ("cuStreamCreate", true),
        ("cuStreamDestroy_v2", false),
        ("cuStreamSynchronize", true),
        ("cuStreamWaitEvent", true),
        ("cuEventCreate", true),
        ("cuEventDestroy_v2", false),
        ("cuEventRecord", false),
        ("cuEventSynchronize", false),
        ("cuMemAllocAsync", true),
        ("cuMemFreeAsync", false),
        ("cuMemAlloc_v2", false),
        ("cuMemFree_v2", false),
        ("cuMemHostAlloc", false),
        ("cuMemFreeHost", false),
        ("cuMemHostRegister_v2", false),
        ("cuMemHostUnregister", false),
        ("cuMemcpyHtoDAsync_v2", true),
        ("cuMemcpyDtoHAsync_v2", true),
        ("cuLaunchKernel", true),
    ];
    for (call, is_seen) in calls {
        let is_without_pools = ["cuMemAlloc_v2", "cuMemFree_v2"].contains(&call);
        simulated.configure(if is_without_pools { "pools=0" } else { "pools=1" });
        let mut failed = 0;
        for nth in numbers() {
            let code = if call.contains("Alloc") { OUT_OF_MEMORY } else { UNKNOWN };
            fail(simulated, call, nth, code);
            let result =
                ended(simulated, &format!("{call} {nth}"), call.contains("Register") || call.contains("Unreg"));
            if !has_failed(simulated) {
                break;
            }
            failed += 1;
            let errors = errors(&result);
            assert!(errors.len() <= 1, "{call} {nth}: {errors:?}");
            assert!(!is_seen || !errors.is_empty() || call == "cuStreamWaitEvent", "{call} {nth}");
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Device, "{call} {nth}: {error}");
                let name = call.trim_end_matches(|c: char| c == '_' || c.is_ascii_digit());
                assert!(error.to_string().contains(name.trim_end_matches("_v")), "{call} {nth}: {error}");
            }
            // One item stands for each batch, in order.
            if let Ok(items) = result {
                assert_eq!(items.len(), 2 * BATCHES, "{call} {nth}");
                for (index, ids) in items.iter().enumerate() {
                    let first = (index % BATCHES * 4) as u64;
                    assert!(ids.as_ref().is_ok_and(|ids| ids[0] == first) || ids.is_err(), "{call} {nth}: {ids:?}");
                }
            }
        }
        assert!(failed > 0, "{call} was not made");
    }
    fail(simulated, "", 0, 0);
    simulated.configure("pools=1");
}

#[test]
fn a_device_that_breaks_ends_every_wait_and_leaves_nothing() {
    let Some((simulated, _one)) = driver() else { return };
    let calls = [
        "running cuMemcpyHtoDAsync_v2",
        "running cuLaunchKernel",
        "cuStreamSynchronize",
        "cuStreamWaitEvent",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuMemAllocAsync",
        "cuMemAlloc_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuLaunchKernel",
        "cuCtxPushCurrent_v2",
    ];
    for (call, pools) in calls.iter().flat_map(|call| [(call, "pools=1"), (call, "pools=0")]) {
        simulated.configure(pools);
        for nth in numbers().take_while(|nth| *nth < 400) {
            fail(simulated, call, nth, ILLEGAL_ADDRESS);
            let result = ended(simulated, &format!("{call} {nth}"), false);
            if !has_failed(simulated) {
                break;
            }
            let errors = errors(&result);
            assert!(errors.iter().all(|error| error.kind() == ErrorKind::Device), "{call} {nth}: {errors:?}");
        }
    }
    fail(simulated, "", 0, 0);
}

#[test]
fn what_is_kept_for_later_makes_room_where_the_driver_has_no_more() {
    let Some((simulated, _one)) = driver() else { return };
    simulated.configure("pools=0");
    let device = CudaDevice::open(0).unwrap();
    for call in ["cuMemHostAlloc", "cuMemHostRegister_v2"] {
        drop(device.pages().allocate(4096).unwrap());
        // It is kept as soon as another thread has taken it back. Until then, a refusal is one.
        until(&format!("{call} is tried again"), || {
            let pages = if call == "cuMemHostAlloc" { device.pages() } else { device.registered_pages() };
            fail(simulated, call, 1, OUT_OF_MEMORY);
            drop(pages.allocate(1 << 20).unwrap());
            assert!(has_failed(simulated), "{call} was asked");
            !pages.was_refused()
        });
    }
    fail(simulated, "", 0, 0);
    drop(device);
    until("nothing is left", || alive(simulated) == 0);
}

/// Breaks a rule of CUDA, by the words that the simulated driver has for it.
#[expect(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block, reason = "it is wrong on purpose")]
fn misuse(rule: &str) {
    /// Behind it, the copies are done that come after the rule was broken.
    static IS_BROKEN: AtomicBool = AtomicBool::new(false);
    extern "C" fn wait(_: *mut c_void) {
        until("the rule is broken", || IS_BROKEN.load(Ordering::SeqCst));
    }

    let device = CudaDevice::open(0).unwrap();
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let [first, second] = streams.each_ref().map(|stream| stream.as_raw().cast());
    let mut locked = device.pages().allocate(4096).unwrap();
    let host: *mut c_void = locked.as_mut_slice().as_mut_ptr().cast();
    let (mut address, mut event, mut context) = (0, null_mut(), null_mut());
    unsafe {
        sys::cuCtxPushCurrent_v2(device.context().cast());
        sys::cuMemAllocAsync(&raw mut address, 64, first);
        match rule {
            "without a current context" => drop(sys::cuCtxPopCurrent_v2(&raw mut context)),
            "that was freed" => drop(sys::cuMemFreeAsync(address, first)),
            "is not ordered after cuMemAllocAsync" => drop(sys::cuMemcpyHtoDAsync_v2(address, host, 64, second)),
            "65 bytes at 0 of 64" => drop(sys::cuMemcpyHtoDAsync_v2(address, host, 65, first)),
            "not page-locked" => drop(sys::cuMemcpyHtoDAsync_v2(address, [0u8; 64].as_ptr().cast(), 64, first)),
            "a context on its stack" => drop(
                std::thread::spawn({
                    let context = device.context().expose_provenance();
                    move || sys::cuCtxPushCurrent_v2(with_exposed_provenance_mut(context))
                })
                .join(),
            ),
            "destroyed" => {
                let stream = ManuallyDrop::new(device.stream().unwrap());
                sys::cuStreamDestroy_v2(stream.as_raw().cast());
                let _ = stream.synchronize();
            }
            "host memory was changed" => {
                sys::cuLaunchHostFunc(first, Some(wait), null_mut());
                sys::cuMemcpyHtoDAsync_v2(address, host, 64, first);
                host.cast::<u8>().write(1);
            }
            "before the copies that use the memory" => {
                sys::cuLaunchHostFunc(first, Some(wait), null_mut());
                sys::cuMemcpyHtoDAsync_v2(address, host, 64, first);
                sys::cuMemFreeHost(host);
            }
            "still alive at the end: 1 contexts, 1 events" => {
                sys::cuMemFreeAsync(address, first);
                sys::cuEventCreate(&raw mut event, 0);
                drop((locked, streams));
                std::mem::forget(device);
                sys::cuCtxPopCurrent_v2(&raw mut context);
                return;
            }
            // A device's address on the host.
            _ => println!("{}", with_exposed_provenance::<u8>(address as usize).read()),
        }
        IS_BROKEN.store(true, Ordering::SeqCst);
        // For those that something must follow.
        sys::cuMemcpyHtoDAsync_v2(address, host, 8, first);
        sys::cuStreamSynchronize(first);
    }
}

#[test]
fn a_program_that_breaks_a_rule_ends_with_its_name() {
    const THIS: &str = "a_program_that_breaks_a_rule_ends_with_its_name";
    if simulated().is_none() {
        return;
    }
    if let Ok(rule) = std::env::var("BROKEN_RULE") {
        return misuse(&rule);
    }
    for rule in [
        "without a current context",
        "that was freed",
        "is not ordered after cuMemAllocAsync",
        "65 bytes at 0 of 64",
        "not page-locked",
        "a context on its stack",
        "destroyed",
        "host memory was changed",
        "before the copies that use the memory",
        "still alive at the end: 1 contexts, 1 events",
        "",
    ] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", THIS, "--nocapture"]).env("BROKEN_RULE", rule).env("SIMULATED_CUDA", "end=strict");
        let output = command.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.contains(rule), "{rule}: {:?}\n{words}", output.status);
        // What has no name is a fault of the processor's.
        assert_eq!(words.contains("simulated CUDA driver: "), !rule.is_empty(), "{rule}: {words}");
    }
}
