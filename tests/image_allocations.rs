//! What reading and decoding images allocates, once buffers have grown: a binary of its own, for its counting
//! allocator.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::path::Path;

use ringfeed::field::Image;
use ringfeed::formats::Images;
use ringfeed::images::{
    ImageAugment, ImageFolder, ImageLabels, ImageOptions, PixelOrder, aug_mix, gaussian_blur, rand_augment,
    random_crop, random_erasing, random_resized_crop,
};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::RandomKey;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch, Value};
use ringfeed::settings::SourceConfig;
use ringfeed::storage::Files;
use ringfeed::tensor::{Extents, Layout, Schema};
use ringfeed::transform::clip;
use ringfeed::{DType, Loader, Normaliser};

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
    for (name, most) in [("photos/china.jpg", 0), ("photos/chelsea.png", 60), ("images/orientation-6.jpg", 24)] {
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

fn assert_allocates_nothing_after_warm_up(reader: &impl RecordReader) {
    let schema = Schema::new(reader.tensors().to_vec()).expect("the tensors go together");
    let mut layout = Layout::default();
    layout.compute(&schema, 1, Extents::default()).expect("the sizes are small");
    let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
    let mut scratch = Scratch::default();
    for round in 0..3 {
        let counted = allocations(|| {
            reader.fetch(&[0], 0, &mut scratch).expect("the file is there");
            let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
            reader
                .decode(Sample { id: 0, key: RandomKey::new(0) }, 0, &mut scratch, &mut row)
                .expect("the picture is whole");
        });
        assert!(round == 0 || counted == (0, 0), "round {round}: {} allocations", counted.0);
    }
}

#[test]
fn a_baseline_jpeg_allocates_nothing_after_warm_up() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/china.jpg");
    // Its own size, so that nothing is resized.
    let options = ImageOptions { size: Some((427, 640)), order: PixelOrder::Nhwc, ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([path], ImageLabels::None, &options).unwrap();
    assert_allocates_nothing_after_warm_up(&reader);
}

#[test]
fn a_baseline_jpeg_is_served_without_an_allocation_after_warm_up() {
    let file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/china.jpg")).unwrap();
    let image = Image::rgb(427, 640).dtype(DType::F32).order(PixelOrder::Nhwc);
    let loader = Loader::images("nowhere").field("image", image).normalise("image", Normaliser::imagenet());
    let served = loader.transform(clip("image", -1.0, 1.0)).serve().unwrap();
    let mut row = served.row();
    for round in 0..3 {
        let counted = allocations(|| served.apply([("image", Value::Bytes(&file))], &mut row).unwrap());
        assert!(round == 0 || counted == (0, 0), "round {round}: {} allocations", counted.0);
    }
}

#[test]
fn two_views_of_a_baseline_jpeg_allocate_nothing_after_warm_up() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/china.jpg");
    let view = || Image::rgb(427, 640).dtype(DType::U8).order(PixelOrder::Nhwc);
    let turned = [ImageAugment::Rotation { degrees: 30.0, interpolation: ringfeed::images::Interpolation::Bilinear }];
    let mut source = SourceConfig::new(Images, path, Default::default());
    source.fields = vec![("one".into(), view().into()), ("other".into(), view().augment(turned).into())];
    let budget = MemoryBudget::unlimited();
    let reader = source.open(&Files::local(), &budget).unwrap().remove(0);
    assert_allocates_nothing_after_warm_up(&reader);
}

#[test]
fn augmentation_allocates_nothing_of_its_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/chelsea.png");
    let augment = [
        random_resized_crop(),
        ImageAugment::HorizontalFlip { probability: 1.0 },
        ImageAugment::ColourJitter { brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1, probability: 1.0 },
        ImageAugment::Rotation { degrees: 15.0, interpolation: ringfeed::images::Interpolation::Bilinear },
        random_erasing(),
        random_crop(9),
        gaussian_blur(),
        ImageAugment::Sharpness { factor: 2.0, probability: 1.0 },
        ImageAugment::Equalise { probability: 1.0 },
        ImageAugment::Autocontrast { probability: 1.0 },
        rand_augment(),
        aug_mix(),
    ];
    // The operations after the crop allocate nothing on top of decoding and resizing, which the crop alone does too.
    let count = |augment: &[ImageAugment]| {
        let augment = augment.to_vec();
        let options = ImageOptions { size: Some((224, 224)), augment, dtype: DType::F32, ..ImageOptions::default() };
        let reader = ImageFolder::from_paths([&path], ImageLabels::None, &options).unwrap();
        let schema = Schema::new(reader.tensors().to_vec()).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 1, Extents::default()).unwrap();
        let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
        let mut scratch = Scratch::default();
        let mut decode = |sample: u64| {
            reader.fetch(&[0], 0, &mut scratch).unwrap();
            let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
            let sample = Sample { id: 0, key: RandomKey::new(sample) };
            allocations(|| reader.decode(sample, 0, &mut scratch, &mut row).unwrap())
        };
        for sample in 0..20 {
            decode(sample);
        }
        (0..20).map(decode).map(|(count, _)| count).collect::<Vec<_>>()
    };
    assert_eq!(count(&augment), count(&augment[..1]));
}
