//! The upload stage on a CUDA device: what `device.rs` and `device_convert.rs` show on the host, and what only a GPU
//! has.
//!
//! Without a GPU the tests run on a simulated driver, which checks every call that is made (`cuda_driver/lib.rs`). With
//! `RINGFEED_REQUIRE_GPU` set they run on a GPU or fail.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/given.rs"]
mod given;
#[path = "common/simulated.rs"]
mod simulated;
#[cfg(target_os = "linux")]
#[path = "common/until.rs"]
mod until;

use std::ffi::c_void;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::{Flaky, Seen, Trouble, Waves, see_all};
use cudarc::driver::sys::{self, CUmemorytype, CUpointer_attribute, CUresult};
use given::Given;
use ringfeed::device::{CudaDevice, CudaStream, Device, DeviceDataSet, HostDevice, Upload};
use ringfeed::images::PixelOrder;
use ringfeed::memory::PageSource;
use ringfeed::order::RandomKey;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{Operation, cast, normalise};
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, ErrorKind, Normaliser, Workspace};
use simulated::simulated;

/// The device, for one test at a time, until all its memory is freed: if one test closes a [`Gate`] while another one's
/// memory is being freed, the driver lets that wait for the gate, and holds up whoever would open it.
struct Mine {
    device: CudaDevice,
    _turn: Turn,
}

impl std::ops::Deref for Mine {
    type Target = CudaDevice;

    fn deref(&self) -> &CudaDevice {
        &self.device
    }
}

struct Turn;

static IS_TAKEN: Mutex<bool> = Mutex::new(false);
static GIVEN_BACK: Condvar = Condvar::new();

impl Turn {
    fn take() -> Self {
        let is_taken = IS_TAKEN.lock().unwrap();
        *GIVEN_BACK.wait_while(is_taken, |is_taken| *is_taken).unwrap() = true;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Threads that were left alone may still have the device.
        #[cfg(target_os = "linux")]
        until::until("all threads have ended", || {
            let mut names =
                std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path().join("comm"));
            !names.any(|name| std::fs::read_to_string(name).is_ok_and(|name| name.starts_with("ringfeed-")))
        });
        *IS_TAKEN.lock().unwrap() = false;
        GIVEN_BACK.notify_one();
    }
}

fn device() -> Option<Mine> {
    simulated();
    let turn = Turn::take();
    match CudaDevice::open(0) {
        Ok(device) => Some(Mine { device, _turn: turn }),
        Err(error) if std::env::var_os("RINGFEED_REQUIRE_GPU").is_some() => panic!("{error}"),
        Err(error) => {
            println!("skipped: no device ({error})");
            None
        }
    }
}

fn workspace(device: &CudaDevice) -> Workspace {
    Workspace::builder().workers(2).prefetch(2).poison(0xa5).pages(device.pages()).build().unwrap()
}

fn loaded(source: ReaderSource, device: &CudaDevice) -> AsyncDataSetIterator {
    AsyncDataSetIterator::new(source, &workspace(device)).unwrap()
}

fn see<D: Device>(batch: &DeviceDataSet<D>) -> Seen {
    let stream = batch.device().stream().unwrap();
    let on = batch.on(&stream).unwrap();
    Seen {
        epoch: batch.epoch(),
        index: batch.index(),
        positions: batch.positions().to_vec(),
        samples: batch.sample_ids().to_vec(),
        padding: batch.padding(),
        shapes: on.tensors().map(|tensor| tensor.shape().to_vec()).collect(),
        tensors: on.tensors().map(|tensor| tensor.to_host().unwrap()).collect(),
    }
}

/// Makes calls of the driver in the device's context, and leaves the thread's as it was.
fn in_context<R>(device: &CudaDevice, calls: impl FnOnce() -> R) -> R {
    // SAFETY: the device holds the context.
    let pushed = unsafe { sys::cuCtxPushCurrent_v2(device.context().cast()) };
    assert_eq!(pushed, CUresult::CUDA_SUCCESS);
    let result = calls();
    let mut context = null_mut();
    // SAFETY: takes back what was put there above.
    let popped = unsafe { sys::cuCtxPopCurrent_v2(&raw mut context) };
    assert_eq!(popped, CUresult::CUDA_SUCCESS);
    result
}

/// Lets a stream copy eight bytes to page-locked memory.
fn copy_out(device: &CudaDevice, stream: &CudaStream, from: u64, to: &mut [u8]) {
    let (to, stream) = (to[..8].as_mut_ptr().cast(), stream.as_raw().cast());
    // SAFETY: who calls this keeps the target until the stream is synchronised.
    let copied = in_context(device, || unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, 8, stream) });
    assert_eq!(copied, CUresult::CUDA_SUCCESS);
}

fn first_number(bytes: &[u8]) -> i64 {
    i64::from_ne_bytes(*bytes.first_chunk().unwrap())
}

fn numbers(len: u64) -> ReaderSource {
    ReaderSource::new(Flaky::new(len, &[], Trouble::Stall)).batch_size(10)
}

fn current_context() -> usize {
    let mut context = null_mut();
    // SAFETY: writes one handle.
    let result = unsafe { sys::cuCtxGetCurrent(&raw mut context) };
    assert_eq!(result, CUresult::CUDA_SUCCESS);
    context.addr()
}

/// Work of a stream waits here until the test opens it.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn close_on(self: &Arc<Self>, device: &CudaDevice, stream: &CudaStream) {
        unsafe extern "C" fn wait(gate: *mut c_void) {
            // SAFETY: one count of the gate was given away for this call.
            let gate = unsafe { Arc::from_raw(gate.cast_const().cast::<Gate>()) };
            let mut open = gate.open.lock().unwrap();
            while !*open {
                open = gate.changed.wait(open).unwrap();
            }
        }
        let gate = Arc::into_raw(self.clone()).cast_mut().cast();
        let stream = stream.as_raw().cast();
        // SAFETY: the stream lives until its work is done; `wait` calls nothing of CUDA.
        let result = in_context(device, || unsafe { sys::cuLaunchHostFunc(stream, Some(wait), gate) });
        assert_eq!(result, CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn a_device_that_is_not_there_is_an_ordinary_error() {
    let error = CudaDevice::open(9999).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    let text = error.to_string();
    assert!(text.contains("libcuda.so.1") || text.contains("no CUDA device 9999") || text.contains("cuInit"), "{text}");
}

#[test]
fn batches_on_the_device_are_those_of_the_iterator_inside() {
    let Some(device) = device() else { return };
    for (slots, queued) in [(1, 1), (3, 2), (4, 3)] {
        let source = || ReaderSource::new(Waves::new(300, 40)).batch_size(7).shuffle(3);
        let mut host = loaded(source(), &device);
        let upload = Upload::to(device.clone()).slots(slots).queued(queued);
        let mut uploaded = upload.start(loaded(source(), &device)).unwrap();
        for _ in 0..3 {
            let seen: Vec<Seen> = uploaded.by_ref().map(|batch| see(&batch.unwrap())).collect();
            assert!(seen == see_all(&mut host));
            uploaded.reset().unwrap();
            host.reset().unwrap();
        }
    }
}

#[test]
fn a_slot_is_not_written_before_every_stream_has_read_it() {
    for streams in 1..4 {
        let Some(device) = device() else { return };
        let gates: Vec<Arc<Gate>> = (0..streams).map(|_| Arc::default()).collect();
        let steps: Vec<CudaStream> = (0..streams).map(|_| device.stream().unwrap()).collect();
        let source = numbers(1000);
        let mut uploaded = Upload::to(device.clone()).slots(2).start(loaded(source, &device)).unwrap();
        let mut read = vec![[0i64; 10]; streams];
        let first = uploaded.next().unwrap().unwrap();
        let mut pinned: Vec<_> = (0..streams).map(|_| device.pages().allocate(80).unwrap()).collect();
        for ((step, gate), target) in steps.iter().zip(&gates).zip(&mut pinned) {
            let on = first.on(step).unwrap();
            gate.close_on(&device, step);
            let target = target.as_mut_slice()[..80].as_mut_ptr().cast();
            let (from, stream) = (on.features().unwrap().address(), step.as_raw().cast());
            // SAFETY: the target is page-locked and lives until the stream is synchronised below.
            let result = in_context(&device, || unsafe { sys::cuMemcpyDtoHAsync_v2(target, from, 80, stream) });
            assert_eq!(result, CUresult::CUDA_SUCCESS);
        }
        drop(first);
        // The other slot goes on; then the next copy to the first one is queued.
        for index in 1..3 {
            let batch = uploaded.next().unwrap().unwrap();
            assert_eq!(batch.index(), index);
        }
        // If that is not ordered after these reads, the simulated driver ends the program, in whatever order they come.
        for ((gate, step), (pinned, read)) in gates.iter().zip(&steps).zip(pinned.iter().zip(&mut read)) {
            gate.open();
            step.synchronize().unwrap();
            for (number, bytes) in read.iter_mut().zip(pinned.as_slice().as_chunks::<8>().0) {
                *number = i64::from_ne_bytes(*bytes);
            }
            assert_eq!(*read, std::array::from_fn(|index| index as i64));
        }
        let rest: Vec<_> = uploaded.map(|batch| batch.unwrap().index()).collect();
        assert_eq!(rest, (3..100).collect::<Vec<_>>());
    }
}

#[test]
fn a_slot_is_not_written_while_streams_that_it_knows_nothing_of_may_read_it() {
    let Some(device) = device() else { return };
    let (unknown, gate) = (device.stream().unwrap(), Arc::<Gate>::default());
    let mut uploaded = Upload::to(device.clone()).slots(2).start(loaded(numbers(60), &device)).unwrap();
    let first = uploaded.next().unwrap().unwrap();
    first.wait().unwrap();
    let mut target = device.pages().allocate(8).unwrap();
    gate.close_on(&device, &unknown);
    let (_, address, ..) = first.places().next().unwrap();
    copy_out(&device, &unknown, address + 8, target.as_mut_slice());
    first.used_elsewhere();
    drop(first);
    assert_eq!(uploaded.next().unwrap().unwrap().index(), 1);
    // What comes next has its place in the first one's slot. If it is not ordered after that read, the simulated driver
    // ends the program.
    assert!(!uploaded.ready_within(Duration::from_millis(20)));
    gate.open();
    let rest: Vec<_> = uploaded.map(|batch| batch.unwrap().index()).collect();
    assert_eq!(rest, [2, 3, 4, 5]);
    unknown.synchronize().unwrap();
    assert_eq!(first_number(target.as_slice()), 1);
}

/// What the host device gives is checked against a naive loop in `device_convert.rs`.
#[test]
fn conversions_give_the_bits_of_the_host_device() {
    let Some(cuda) = device() else { return };
    if simulated().is_some_and(|simulated| !simulated.has_kernels) {
        return;
    }
    let bytes = |seed: u64, count: usize| -> Vec<u8> {
        (0..count as u64).map(|index| RandomKey::new(seed).bits(index) as u8).collect()
    };
    let both = |given: &Given, list: Vec<Operation>| {
        fn run<D: Device>(device: &D, given: &Given, list: &[Operation]) -> Seen {
            let workspace = Workspace::builder().workers(1).pages(device.pages()).build().unwrap();
            let source = ReaderSource::new(given.clone()).batch_size(given.rows.len());
            let upload = list.iter().cloned().fold(Upload::to(device.clone()), Upload::transform);
            let mut uploaded = upload.start(AsyncDataSetIterator::new(source, &workspace).unwrap()).unwrap();
            see(&uploaded.next().unwrap().unwrap())
        }
        let expected = run(&HostDevice::new(), given, &list);
        assert!(run(&*cuda, given, &list) == expected, "{list:?}");
    };
    for to in [DType::F32, DType::F16, DType::Bf16] {
        for (channels, height, width) in [(1, 5, 7), (2, 6, 8), (3, 224, 224), (3, 33, 31), (4, 9, 12)] {
            for (from, order) in [
                (PixelOrder::Nchw, PixelOrder::Nchw),
                (PixelOrder::Nchw, PixelOrder::Nhwc),
                (PixelOrder::Nhwc, PixelOrder::Nchw),
                (PixelOrder::Nhwc, PixelOrder::Nhwc),
            ] {
                let shape = match from {
                    PixelOrder::Nchw => [channels, height, width],
                    PixelOrder::Nhwc => [height, width, channels],
                };
                let rows = (0..5).map(|row| vec![bytes(row, channels * height * width), vec![row as u8 % 2]]).collect();
                let given = Given {
                    tensors: vec![
                        TensorSpec::new("x", Role::Feature, DType::U8, &shape),
                        TensorSpec::new("flip", Role::Mask, DType::U8, &[]),
                    ],
                    rows: Arc::new(rows),
                };
                let mean = vec![0.485; channels];
                let deviation = vec![0.229; channels];
                let axis = Some(if order == PixelOrder::Nchw { 0 } else { 2 });
                let normaliser = Normaliser::Channels { axis, mean, deviation };
                let plain = vec![cast("x", to), Operation::Layout { tensor: "x".to_owned(), order, from: Some(from) }];
                both(&given, plain.clone());
                let flip = Operation::Flip { tensor: "x".to_owned(), by: "flip".to_owned(), order: Some(order) };
                both(&given, [plain, vec![normalise("x", normaliser), flip]].concat());
            }
        }
        for dtype in [DType::U8, DType::I8, DType::U16, DType::I16] {
            let given = Given {
                tensors: vec![TensorSpec::new("x", Role::Feature, dtype, &[1001])],
                rows: Arc::new((0..3).map(|row| vec![bytes(row, 1001 * dtype.bytes())]).collect()),
            };
            let linear = normalise("x", Normaliser::Linear { scale: 1.0 / 257.0, bias: -3.7 });
            both(&given, vec![cast("x", DType::F32), linear, cast("x", to)]);
        }
        for dtype in [DType::U8, DType::I8, DType::U16, DType::I16, DType::U32, DType::I32, DType::U64, DType::I64] {
            let label = |row: u64| {
                let mut bytes = ((row as i64) - 3).to_le_bytes().to_vec();
                bytes.truncate(dtype.bytes());
                bytes
            };
            let given = Given {
                tensors: vec![TensorSpec::new("x", Role::Label, dtype, &[])],
                rows: Arc::new((0..40).map(|row| vec![label(row)]).collect()),
            };
            both(&given, vec![Operation::OneHot { tensor: "x".to_owned(), classes: Some(30), dtype: to }]);
        }
        let entries = 300u32;
        let row = |row: u32| {
            let values = (0..entries).flat_map(|entry| (entry as f32 * 1.7 - row as f32).to_ne_bytes()).collect();
            let columns = (0..entries).flat_map(|entry| (entry as i32 * 7 - 14).to_ne_bytes()).collect();
            let mask = (0..entries).map(|entry| u8::from(entry % 3 != row % 3)).collect();
            vec![values, columns, mask]
        };
        let given = Given {
            tensors: vec![
                TensorSpec::new("x", Role::Feature, DType::F32, &[entries as usize]),
                TensorSpec::new("at", Role::Feature, DType::I32, &[entries as usize]),
                TensorSpec::new("mask", Role::Mask, DType::U8, &[entries as usize]),
            ],
            rows: Arc::new((0..9).map(row).collect()),
        };
        for mask in [None, Some("mask".to_owned())] {
            let (tensor, indices) = ("x".to_owned(), "at".to_owned());
            both(&given, vec![Operation::Dense { tensor, indices, columns: 2000, mask, dtype: to }]);
        }
    }
}

#[test]
fn a_thread_keeps_its_current_context_whatever_is_called_or_dropped_on_it() {
    let Some(device) = device() else { return };
    let before = current_context();
    let source = ReaderSource::new(Waves::new(60, 40)).batch_size(7);
    let mut uploaded = Upload::to(device.clone()).start(loaded(source, &device)).unwrap();
    let step = device.stream().unwrap();
    let batch = uploaded.next().unwrap().unwrap();
    batch.on(&step).unwrap().tensors().for_each(|tensor| drop(tensor.to_host().unwrap()));
    assert_eq!(current_context(), before);
    std::thread::spawn(move || {
        assert_eq!(current_context(), 0);
        drop((batch, uploaded, step));
        assert_eq!(current_context(), 0);
        drop(device);
        assert_eq!(current_context(), 0);
    })
    .join()
    .unwrap();
    assert_eq!(current_context(), before);
}

#[test]
fn ring_slots_are_page_locked() {
    let Some(device) = device() else { return };
    for (pages, is_allocated) in
        [(device.pages(), true), (device.registered_pages(), false), (device.write_combined_pages(), true)]
    {
        let mut block = pages.allocate(5 << 20).unwrap();
        assert!(!pages.was_refused());
        assert!(block.as_slice().iter().all(|byte| *byte == 0));
        block.as_mut_slice()[4096] = 7;
        let address = block.as_mut_slice().as_mut_ptr();
        let (mut kind, mut flags) = (0u32, 0);
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: writes one number.
        let asked = in_context(&device, || unsafe {
            sys::cuPointerGetAttribute((&raw mut kind).cast(), attribute, address.expose_provenance() as u64)
        });
        assert_eq!((asked, kind), (CUresult::CUDA_SUCCESS, CUmemorytype::CU_MEMORYTYPE_HOST as u32));
        if is_allocated {
            // SAFETY: writes one number.
            let asked = in_context(&device, || unsafe { sys::cuMemHostGetFlags(&raw mut flags, address.cast()) });
            assert_eq!(asked, CUresult::CUDA_SUCCESS);
            assert_ne!(flags & sys::CU_MEMHOSTALLOC_PORTABLE, 0);
        }
    }
}

#[test]
fn device_memory_is_taken_once_for_each_slot() {
    let Some(device) = device() else { return };
    let source = numbers(1000);
    let mut uploaded = Upload::to(device.clone()).start(loaded(source, &device)).unwrap();
    for _ in 0..3 {
        assert_eq!(uploaded.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 1000);
        uploaded.reset().unwrap();
    }
    assert!(uploaded.upload_stats().grown <= 3);
}

#[test]
fn everything_can_be_dropped_in_every_state() {
    for taken in 0..4 {
        let Some(device) = device() else { return };
        let (gate, step) = (Arc::<Gate>::default(), device.stream().unwrap());
        let source = numbers(1000);
        let upload = Upload::to(device.clone()).close_wait(Duration::ZERO);
        let mut uploaded = upload.start(loaded(source, &device)).unwrap();
        gate.close_on(&device, &step);
        for _ in 0..taken {
            uploaded.next().unwrap().unwrap().on(&step).unwrap();
        }
        drop((uploaded, upload));
        gate.open();
        step.synchronize().unwrap();
    }
}

/// The driver waits for the device's work before it frees or unlocks memory, and nobody can record an event, copy or
/// make a stream until then.
#[test]
fn memory_that_is_freed_while_a_stream_is_busy_holds_nobody_up() {
    for round in 0..4 {
        let Some(device) = device() else { return };
        let (gate, busy, step) = (Arc::<Gate>::default(), device.stream().unwrap(), device.stream().unwrap());
        let mut uploaded = Upload::to(device.clone()).start(loaded(numbers(1000), &device)).unwrap();
        let blocks: Vec<_> = (0..8)
            .map(|nth| match nth % 3 {
                0 => device.pages().allocate(4096).unwrap(),
                1 => device.registered_pages().allocate(4096).unwrap(),
                _ => device.write_combined_pages().allocate(4096).unwrap(),
            })
            .collect();
        gate.close_on(&device, &busy);
        let mut blocks = blocks.into_iter();
        for (index, batch) in uploaded.by_ref().enumerate() {
            let batch = batch.unwrap();
            batch.on(&step).unwrap();
            if index % 5 == round {
                drop(blocks.next());
            }
        }
        step.synchronize().unwrap();
        gate.open();
        busy.synchronize().unwrap();
    }
}

/// On real hardware, those that there are.
#[test]
fn devices_take_turns_and_keep_to_their_own_streams() {
    let Some(first) = device() else { return };
    let count = CudaDevice::count().unwrap();
    let devices: Vec<CudaDevice> = (0..count.min(2)).map(|ordinal| CudaDevice::open(ordinal).unwrap()).collect();
    let steps: Vec<CudaStream> = devices.iter().map(|device| device.stream().unwrap()).collect();
    let mut uploaded = Upload::to_each(devices.clone()).start(loaded(numbers(1000), &first)).unwrap();
    for epoch in 0..2 {
        for (index, batch) in uploaded.by_ref().enumerate() {
            let batch = batch.unwrap();
            let own = index % devices.len();
            assert_eq!((batch.device().ordinal(), batch.index(), batch.epoch()), (own, index as u64, epoch));
            let on = batch.on(&steps[own]).unwrap();
            assert_eq!(first_number(&on.features().unwrap().to_host().unwrap()), 10 * index as i64);
            if let Some(other) = steps.get(1 - own) {
                let error = batch.on(other).map(drop).unwrap_err();
                assert!(error.to_string().contains(&format!("can't use what lies on cuda:{own}")), "{error}");
            }
        }
        uploaded.reset().unwrap();
    }
}

#[test]
fn streams_of_other_libraries_are_ordered_like_our_own() {
    let Some(device) = device() else { return };
    let mut raw = null_mut();
    // SAFETY: writes one handle. With no flags it is ordered with the default stream.
    let created = in_context(&device, || unsafe { sys::cuStreamCreate(&raw mut raw, 0) });
    assert_eq!(created, CUresult::CUDA_SUCCESS);
    // SAFETY: destroyed below, when no batch is left.
    let streams = [null_mut(), raw.cast()].map(|raw| unsafe { device.borrow_stream(raw) });
    let mut uploaded = Upload::to(device.clone()).slots(2).start(loaded(numbers(1000), &device)).unwrap();
    let mut seen = device.pages().allocate(100 * 4096).unwrap();
    for (index, (batch, to)) in uploaded.by_ref().zip(seen.as_mut_slice().chunks_mut(4096)).enumerate() {
        let batch = batch.unwrap();
        for (stream, to) in streams.iter().zip(to.chunks_mut(8)).skip(index % 3) {
            copy_out(&device, stream, batch.on(stream).unwrap().features().unwrap().address(), to);
        }
    }
    drop(uploaded);
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    for (index, bytes) in seen.as_slice().chunks(4096).take(100).enumerate() {
        for bytes in bytes.chunks(8).take(2).skip(index % 3) {
            assert_eq!(first_number(bytes), 10 * index as i64);
        }
    }
    // SAFETY: created above, used no more.
    let destroyed = in_context(&device, || unsafe { sys::cuStreamDestroy_v2(raw) });
    assert_eq!(destroyed, CUresult::CUDA_SUCCESS);
}

#[test]
fn threads_that_use_a_batch_on_one_stream_all_come_after_the_copy() {
    let Some(device) = device() else { return };
    let step = device.stream().unwrap();
    let mut uploaded = Upload::to(device.clone()).start(loaded(numbers(1000), &device)).unwrap();
    let mut seen = [(); 3].map(|()| device.pages().allocate(100 * 8).unwrap());
    for (index, batch) in uploaded.by_ref().enumerate() {
        let batch = batch.unwrap();
        std::thread::scope(|scope| {
            for to in &mut seen {
                let (device, step, batch, to) = (&device, &step, &batch, &mut to.as_mut_slice()[index * 8..]);
                scope.spawn(move || {
                    copy_out(device, step, batch.on(step).unwrap().features().unwrap().address(), to);
                });
            }
        });
    }
    step.synchronize().unwrap();
    for (index, seen) in seen.iter().flat_map(|seen| seen.as_slice().chunks(8).take(100).enumerate()) {
        assert_eq!(first_number(seen), 10 * index as i64);
    }
}

/// The beginning and the end of DLPack's `DLManagedTensor`.
#[repr(C)]
struct Managed {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    between: [u64; 5],
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// A tensor in the hands of another library.
struct Taken(*mut Managed);

// SAFETY: nobody else has the tensor, which may go to another thread.
unsafe impl Send for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: the tensor was not deleted yet.
        let deleter = unsafe { (*self.0).deleter }.unwrap();
        // SAFETY: as above; it is not used any more.
        unsafe { deleter(self.0) };
    }
}

#[test]
fn a_batch_is_taken_over_for_a_stream_and_its_slot_waits_for_that_stream() {
    let Some(device) = device() else { return };
    let (gate, step) = (Arc::<Gate>::default(), device.stream().unwrap());
    let mut uploaded = Upload::to(device.clone()).slots(1).start(loaded(numbers(100), &device)).unwrap();
    let mut take = |stream: Option<&CudaStream>| {
        let mut tensors = uploaded.next().unwrap().unwrap().into_dlpack(stream).unwrap();
        Taken(tensors.remove(0).into_raw().cast())
    };
    let taken = take(Some(&step));
    // SAFETY: the tensor was not deleted yet.
    let managed = unsafe { &*taken.0 };
    let (address, place) = (managed.data.addr() as u64, (managed.device_type, managed.device_id));
    assert_eq!(place, (2, 0));
    gate.close_on(&device, &step);
    let mut seen = device.pages().allocate(8).unwrap();
    copy_out(&device, &step, address, seen.as_mut_slice());
    // Deleted on a thread without a context, while the stream has not come to its work; then the only slot is in use
    // again.
    std::thread::spawn(move || {
        drop(taken);
        assert_eq!(current_context(), 0);
    })
    .join()
    .unwrap();
    // Without a stream the next copy is waited for, which waits for the gate.
    let opener = std::thread::spawn(move || gate.open());
    let next = take(None);
    opener.join().unwrap();
    step.synchronize().unwrap();
    assert_eq!(first_number(seen.as_slice()), 0);
    drop(uploaded);
    // SAFETY: the tensor was not deleted yet.
    let managed = unsafe { &*next.0 };
    copy_out(&device, &step, managed.data.addr() as u64, seen.as_mut_slice());
    step.synchronize().unwrap();
    assert_eq!(first_number(seen.as_slice()), 10);
}

/// Memory that is not taken in the order of streams, one device, and other delays: in processes of their own.
#[test]
fn all_of_it_holds_on_other_simulated_devices() {
    const THIS: &str = "all_of_it_holds_on_other_simulated_devices";
    let (Some(simulated), None) = (simulated(), std::env::var_os("SIMULATED_CUDA")) else { return };
    for settings in
        ["pools=0 seed=2", "devices=1 late_us=3000 seed=3", "late_us=0 seed=4", "pools=0 late_us=1000 seed=5"]
    {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--skip", THIS, "--skip", "conversions_give"])
            .env("SIMULATED_CUDA", settings)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{settings} on {}: {:?}\n{}\n{}",
            simulated.folder.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
