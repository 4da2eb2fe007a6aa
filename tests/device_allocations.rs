//! An upload allocates nothing per batch after warm-up. A test binary of its own, because it counts what the whole
//! process allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfeed::device::{Device, HostDevice, Upload};
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::transform::{cast, normalise};
use ringfeed::{AsyncDataSetIterator, DType, Normaliser, Workspace};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same as `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same as `System`'s.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same as `System`'s.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn uploads_allocate_nothing_per_batch_neither_here_nor_on_the_device() {
    let values: Arc<[u8]> = (0..3 * 8 * 8 * 100_000u32).map(|i| i as u8).collect();
    let reader = MemoryReader::new("image", Role::Feature, &[3, 8, 8], values).unwrap();
    let source = ReaderSource::new(reader).batch_size(16).shuffle(1);
    let workspace = Workspace::builder().workers(2).build().unwrap();
    let inside = AsyncDataSetIterator::new(source, &workspace).unwrap();
    let devices = [HostDevice::new(), HostDevice::new()];
    let steps = devices.each_ref().map(|device| device.stream().unwrap());
    let upload = Upload::to_each(devices)
        .transform(cast("image", DType::F16))
        .transform(normalise("image", Normaliser::imagenet()));
    let mut uploaded = upload.start(inside).unwrap();
    // How much was allocated meanwhile, and how often a slot had grown until then.
    let mut run = |batches| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for (batch, step) in uploaded.by_ref().take(batches).zip(steps.iter().cycle()) {
            // Used on a stream of its device, so that there are events of its use, too.
            drop(batch.unwrap().on(step).unwrap());
        }
        (ALLOCATIONS.load(Ordering::Relaxed) - before, uploaded.upload_stats().grown)
    };
    // Within one epoch: beginning another starts a thread.
    let (_, grown) = run(300);
    let at_rest = (0..10).any(|_| {
        let (allocated, now) = run(300);
        assert_eq!(now, grown);
        allocated == 0
    });
    assert!(at_rest);
}
