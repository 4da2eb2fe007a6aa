//! What reading and decoding images allocates, once buffers have grown: a binary of its own, for its counting allocator.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::path::Path;

use ringfeed::{
    DType, Extents, ImageFolder, ImageLabels, ImageOptions, Layout, PixelOrder, RandomKey, RecordReader, RowMut,
    Sample, Schema, Scratch,
};

thread_local! {
    static ALLOCATIONS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        ALLOCATIONS.set((ALLOCATIONS.get().0 + 1, ALLOCATIONS.get().1.max(memory.size())));
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, address: *mut u8, memory: Memory) {
        // SAFETY: the address came from the system's allocator with this layout.
        unsafe { System.dealloc(address, memory) }
    }

    unsafe fn realloc(&self, address: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        ALLOCATIONS.set((ALLOCATIONS.get().0 + 1, ALLOCATIONS.get().1.max(size)));
        // SAFETY: the address came from the system's allocator with this layout.
        unsafe { System.realloc(address, memory, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Number and largest size of the allocations of `work`.
fn allocations(work: impl FnOnce()) -> (usize, usize) {
    ALLOCATIONS.set((0, 0));
    work();
    ALLOCATIONS.get()
}

#[test]
fn only_the_libraries_allocate_after_warm_up() {
    let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    for (name, most) in [("photos/china.jpg", 20), ("photos/chelsea.png", 60), ("images/orientation-6.jpg", 24)] {
        for (order, dtype) in [(PixelOrder::Nchw, DType::F32), (PixelOrder::Nhwc, DType::U8)] {
            let options = ImageOptions { size: Some((224, 224)), order, dtype, ..ImageOptions::default() };
            let reader = ImageFolder::from_paths([fixture(name)], ImageLabels::None, &options).unwrap();
            let schema = Schema::new(reader.tensors().to_vec()).unwrap();
            let mut layout = Layout::default();
            layout.compute(&schema, 1, Extents::default()).unwrap();
            let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
            let mut scratch = Scratch::default();
            let mut fetched = (0, 0);
            let mut decoded = (0, 0);
            for _ in 0..3 {
                fetched = allocations(|| reader.fetch(&[0], 0, &mut scratch).unwrap());
                let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
                let sample = Sample { id: 0, key: RandomKey::new(0) };
                decoded = allocations(|| reader.decode(sample, 0, &mut scratch, &mut row).unwrap());
            }
            assert_eq!(fetched, (0, 0), "{name}: reading a file allocates");
            // fast_image_resize keeps the weights of each row and column of the result in a vector of its own.
            let resize = 224 + 224 + 16;
            assert!(decoded.0 <= most + resize, "{name}: {} allocations in the libraries", decoded.0);
            // Whole images are decoded and resized in buffers that stay: 640 x 427 and 451 x 300 pixels would show.
            assert!(decoded.1 < 300 << 10, "{name}: an allocation of {} bytes", decoded.1);
        }
    }
}
