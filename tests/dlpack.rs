//! Batches in other libraries' hands, as those see them: through the structures of DLPack's specification alone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "every pointer is of a tensor that was not deleted yet; the allocator is the system's"
)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::mpsc;

use common::{Flaky, Trouble, Waves, workspace};
use ringfeed::device::{Device, DlpackTensor, HostDevice, Upload};
use ringfeed::source::ReaderSource;
use ringfeed::transform::cast;
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, Workspace};

struct Counting;

thread_local! {
    /// What this thread has allocated and not freed.
    static ALIVE: Cell<i64> = const { Cell::new(0) };
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALIVE.set(ALIVE.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALIVE.set(ALIVE.get() - 1);
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `DLManagedTensor`, written down from the specification.
#[repr(C)]
struct Managed {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// A tensor in the hands of another library.
struct Taken(*mut Managed);

unsafe impl Send for Taken {}

impl Taken {
    fn new(tensor: DlpackTensor) -> Self {
        Self(tensor.into_raw().cast())
    }

    fn dtype(&self) -> (u8, u8, u16) {
        let managed = unsafe { &*self.0 };
        (managed.code, managed.bits, managed.lanes)
    }

    fn device(&self) -> (i32, i32) {
        let managed = unsafe { &*self.0 };
        (managed.device_type, managed.device_id)
    }

    fn dims(&self) -> (Vec<i64>, Vec<i64>) {
        let managed = unsafe { &*self.0 };
        let rank = managed.ndim as usize;
        let read = |numbers| unsafe { std::slice::from_raw_parts(numbers, rank) }.to_vec();
        (read(managed.shape), read(managed.strides))
    }

    fn bytes(&self) -> Vec<u8> {
        let managed = unsafe { &*self.0 };
        let elements: i64 = self.dims().0.iter().product();
        let bytes = elements as usize * usize::from(managed.bits) / 8;
        let start = unsafe { managed.data.cast::<u8>().add(managed.byte_offset as usize) };
        unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let deleter = unsafe { (*self.0).deleter }.unwrap();
        unsafe { deleter(self.0) };
    }
}

fn waves(workspace: &Workspace) -> AsyncDataSetIterator {
    AsyncDataSetIterator::new(ReaderSource::new(Waves::new(100, 9)).batch_size(4), workspace).unwrap()
}

fn numbers(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|value| i64::from_ne_bytes(*value)).collect()
}

#[test]
fn a_host_batch_is_taken_over_without_a_copy() {
    let workspace = workspace(1, 1);
    let mut iterator = waves(&workspace);
    let batch = iterator.next().unwrap().unwrap();
    let expected: Vec<_> = batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect();
    let start = batch.tensors().next().unwrap().bytes().as_ptr().addr();
    let shapes: Vec<Vec<i64>> =
        batch.tensors().map(|tensor| tensor.shape().iter().map(|dim| *dim as i64).collect()).collect();
    let tensors = batch.into_dlpack();
    assert_eq!(tensors.iter().map(DlpackTensor::name).collect::<Vec<_>>(), ["wave", "mask", "id"]);
    let taken: Vec<_> = tensors.into_iter().map(Taken::new).collect();
    assert_eq!(unsafe { (*taken[0].0).data }.addr(), start);
    // Floats, unsigned and signed integers.
    assert_eq!(taken.iter().map(Taken::dtype).collect::<Vec<_>>(), [(2, 32, 1), (1, 8, 1), (0, 64, 1)]);
    assert_eq!(taken.iter().map(|tensor| tensor.dims().0).collect::<Vec<_>>(), shapes);
    assert_eq!(taken[0].dims().1, [shapes[0][1] * 3, 3, 1]);
    assert!(taken.iter().all(|tensor| tensor.device() == (1, 0)));
    // The memory outlives iterator and workspace, and the slot is leased until the last tensor is deleted.
    drop(iterator);
    assert_eq!(workspace.ring().leased, 1);
    let mut taken = taken.into_iter().zip(expected);
    let (last, bytes) = taken.next_back().unwrap();
    std::thread::spawn(move || taken.for_each(|(tensor, bytes)| assert_eq!(tensor.bytes(), bytes))).join().unwrap();
    assert_eq!(workspace.ring().leased, 1);
    assert_eq!(last.bytes(), bytes);
    drop(last);
    assert_eq!(workspace.ring().leased, 0);
}

#[test]
fn a_consumer_may_write_what_it_took_over() {
    for detach in [false, true] {
        let workspace = workspace(1, 0);
        let mut iterator = waves(&workspace);
        let batch = iterator.next().unwrap().unwrap();
        let batch = if detach { batch.detach().unwrap() } else { batch };
        let taken: Vec<_> = batch.into_dlpack().into_iter().map(Taken::new).collect();
        for tensor in &taken {
            let data = unsafe { (*tensor.0).data }.cast::<u8>();
            unsafe { data.write_bytes(7, tensor.bytes().len()) };
        }
        assert!(taken.iter().all(|tensor| tensor.bytes().iter().all(|byte| *byte == 7)));
        drop(taken);
        let next = iterator.next().unwrap().unwrap();
        let bytes: Vec<_> = next.tensors().map(|tensor| tensor.bytes().to_vec()).collect();
        assert_eq!(bytes, Waves::new(100, 9).naive(next.sample_ids()));
    }
}

#[test]
fn tensors_that_nobody_takes_give_their_slot_back() {
    let workspace = workspace(1, 1);
    let batch = waves(&workspace).next().unwrap().unwrap();
    drop(batch.into_dlpack());
    assert_eq!(workspace.ring().leased, 0);
}

#[test]
fn tensors_that_were_taken_over_leave_nothing_behind() {
    const BATCHES: i64 = 12;
    let source = ReaderSource::new(Waves::new(100, 9)).batch_size(4);
    // All of its work is done on this thread.
    let mut iterator = AsyncShieldDataSetIterator::new(source, &workspace(1, 1)).unwrap();
    let mut alive_after = || {
        for _ in 0..BATCHES {
            let tensors = iterator.next().unwrap().unwrap().into_dlpack();
            tensors.into_iter().for_each(|tensor| drop(Taken::new(tensor)));
        }
        ALIVE.get()
    };
    let before = alive_after();
    let more = alive_after() - before;
    assert!(more < BATCHES, "{more} for {BATCHES} batches");
}

#[test]
fn a_device_batch_is_taken_over_for_a_stream_and_its_slot_waits_for_that_stream() {
    let device = HostDevice::new();
    let step = device.stream().unwrap();
    let source = ReaderSource::new(Flaky::new(100, &[], Trouble::Stall)).batch_size(10);
    let inside = AsyncDataSetIterator::new(source, &workspace(1, 2)).unwrap();
    let mut uploaded = Upload::to(device).slots(1).start(inside).unwrap();
    let batch = uploaded.next().unwrap().unwrap();
    let taken = Taken::new(batch.into_dlpack(Some(&step)).unwrap().pop().unwrap());
    let (open, gate) = mpsc::channel::<()>();
    let (send, seen) = mpsc::channel();
    let address = unsafe { (*taken.0).data }.expose_provenance();
    step.run(move || {
        gate.recv().unwrap();
        let start = std::ptr::with_exposed_provenance::<u8>(address);
        send.send(numbers(unsafe { std::slice::from_raw_parts(start, 80) })).unwrap();
    })
    .unwrap();
    // Deleted on another thread, while the stream has not come to its work; then the only slot is in use again.
    std::thread::spawn(move || drop(taken)).join().unwrap();
    let next = uploaded.next().unwrap().unwrap();
    open.send(()).unwrap();
    assert_eq!(seen.recv().unwrap(), (0..10).collect::<Vec<_>>());
    let next = Taken::new(next.into_dlpack(None).unwrap().pop().unwrap());
    drop(uploaded);
    assert_eq!(numbers(&next.bytes()), (10..20).collect::<Vec<_>>());
}

#[test]
fn converted_tensors_have_their_own_types() {
    for (to, code) in [(DType::F16, 2), (DType::Bf16, 4)] {
        let reader =
            ringfeed::read::MemoryReader::new("x", ringfeed::tensor::Role::Feature, &[1, 5, 5], vec![7u8; 100])
                .unwrap();
        let inside = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(4), &workspace(1, 1)).unwrap();
        let upload = Upload::to(HostDevice::new()).transform(cast("x", to));
        let batch = upload.start(inside).unwrap().next().unwrap().unwrap();
        let taken = Taken::new(batch.into_dlpack(None).unwrap().pop().unwrap());
        assert_eq!(taken.dtype(), (code, 16, 1));
        assert_eq!(taken.dims(), (vec![4, 1, 5, 5], vec![25, 25, 5, 1]));

        let reader =
            ringfeed::read::MemoryReader::new("x", ringfeed::tensor::Role::Feature, &[2], vec![7u8; 6]).unwrap();
        let source = ReaderSource::new(reader.dtype(to).unwrap());
        let batch = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap().next().unwrap().unwrap();
        let taken = Taken::new(batch.into_dlpack().pop().unwrap());
        assert_eq!((taken.dtype(), taken.device()), ((code, 16, 1), (1, 0)));
    }
}
