//! How much memory decoding takes: what small files that promise large pictures may allocate, and that no decoder takes
//! more than was counted. A binary of its own, for its counting allocator.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they unwrap")]

#[path = "common/watchdog.rs"]
mod watchdog;

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use image::{ExtendedColorType, ImageEncoder};
use libjpeg_turbo_rs::{Encoder, PixelFormat, Subsampling};
use ringfeed::field::Image;
use ringfeed::formats::{FolderOptions, Images};
use ringfeed::images::{
    ImageAugment, ImageColour, ImageFolder, ImageLabels, ImageOptions, aug_mix, gaussian_blur, random_resized_crop,
};
use ringfeed::inspect::summarise_image;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::RandomKey;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::settings::{Paths, SavedIndex, SourceConfig};
use ringfeed::tensor::Schema;
use ringfeed::{Error, ErrorKind, Loader};

thread_local! {
    /// Bytes that this thread holds now, and the most that it held.
    static HELD: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(bytes: i64) {
    let (now, most) = HELD.get();
    HELD.set((now + bytes, most.max(now + bytes)));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        count(memory.size() as i64);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(memory) }
    }

    unsafe fn alloc_zeroed(&self, memory: Memory) -> *mut u8 {
        count(memory.size() as i64);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc_zeroed(memory) }
    }

    unsafe fn dealloc(&self, address: *mut u8, memory: Memory) {
        count(-(memory.size() as i64));
        // SAFETY: the address came from the system's allocator with this layout.
        unsafe { System.dealloc(address, memory) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that `work` held at a time, beside what was there before.
fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let (now, _) = HELD.get();
    HELD.set((now, now));
    let result = work();
    (result, (HELD.get().1 - now) as u64)
}

fn fixture(name: &str) -> PathBuf {
    watchdog::watch();
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A GIF of 35 bytes: one pixel on a large screen.
fn gif(side: u16) -> Vec<u8> {
    let [low, high] = side.to_le_bytes();
    let mut bytes = b"GIF89a".to_vec();
    bytes.extend([low, high, low, high, 0x80, 0, 0, 255, 255, 255, 0, 0, 0]);
    bytes.extend([0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0]);
    bytes.extend([2, 2, 0x44, 1, 0, 0x3b]);
    bytes
}

/// A small progressive JPEG whose header promises more.
fn jpeg(side: u16) -> Vec<u8> {
    let mut bytes = fs::read(fixture("images/progressive.jpg")).unwrap();
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc2]).unwrap();
    for at in [frame + 5, frame + 7] {
        bytes[at..at + 2].copy_from_slice(&side.to_be_bytes());
    }
    bytes
}

/// Nothing at all, in 16 bits and with alpha.
fn png(side: u16) -> Vec<u8> {
    use std::io::Write;

    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side.into(), side.into());
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Sixteen);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().unwrap();
    let mut stream = writer.stream_writer_with_size(1 << 20).unwrap();
    let row = vec![0; 8 * usize::from(side)];
    (0..side).for_each(|_| stream.write_all(&row).unwrap());
    stream.finish().unwrap();
    drop(writer);
    bytes
}

/// A lossless WebP of these colours.
fn webp_of(pixels: &[u8], side: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = image::codecs::webp::WebPEncoder::new_lossless(&mut bytes);
    encoder.write_image(pixels, side.into(), side.into(), ExtendedColorType::Rgb8).unwrap();
    bytes
}

/// A lossless WebP of one colour, whose header promises more.
fn webp(side: u16) -> Vec<u8> {
    let mut bytes = webp_of(&[9; 16 * 16 * 3], 16);
    // Behind the signature: 14 bits of width less 1, and as many of height.
    let at = bytes.windows(4).position(|name| name == b"VP8L").unwrap() + 9;
    let sides = u32::from(side - 1) | u32::from(side - 1) << 14;
    let old = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    bytes[at..at + 4].copy_from_slice(&(old & !0xfff_ffff | sides).to_le_bytes());
    bytes
}

/// Decodes one file in one row, in the memory of `budget`.
fn decode(path: &Path, options: &ImageOptions, budget: &MemoryBudget, key: u64) -> Result<(), Error> {
    let folder = path.parent().unwrap();
    let reader = ImageFolder::open_within(folder, ImageLabels::None, options, &SavedIndex::Off, budget)?;
    let mut scratch = Scratch::default();
    let schema = Schema::new(reader.tensors().to_vec())?;
    let extents = if schema.is_variable() { reader.measure(0, &mut scratch)? } else { Default::default() };
    let mut layout = ringfeed::tensor::Layout::default();
    layout.compute(&schema, 1, extents)?;
    let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
    reader.fetch(&[0], 0, &mut scratch)?;
    let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
    reader.decode(Sample { id: 0, key: RandomKey::new(key) }, 0, &mut scratch, &mut row)
}

#[test]
fn a_small_file_that_promises_a_large_picture_is_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let small = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let maps = ImageOptions { colour: ImageColour::Index, ..small.clone() };
    for (name, bomb) in [("a.gif", gif as fn(u16) -> Vec<u8>), ("a.jpg", jpeg), ("a.webp", webp)] {
        let path = folder.path().join(name);
        // The limit that holds without any settings.
        fs::write(&path, bomb(16_383)).unwrap();
        for options in [&small, &maps] {
            let (result, peak) = peak(|| decode(&path, options, &MemoryBudget::unlimited(), 0));
            let error = result.unwrap_err();
            assert!(error.kind() == ErrorKind::Limit && error.to_string().contains("max_pixels"), "{name}: {error}");
            assert!(peak < 1 << 20, "{name}: {peak} bytes");
        }
        let (result, peak_inspected) = peak(|| summarise_image(&path));
        assert!(result.unwrap_err().kind() == ErrorKind::Limit && peak_inspected < 1 << 20, "{name}");
        // What is within the limit counts against the budget.
        fs::write(&path, bomb(10_000)).unwrap();
        let (result, peak) = peak(|| decode(&path, &small, &MemoryBudget::new(100 << 20), 0));
        let error = result.unwrap_err();
        assert!(error.kind() == ErrorKind::Budget && error.to_string().contains(name), "{name}: {error}");
        assert!(peak < 1 << 20, "{name}: {peak} bytes");
        fs::remove_file(path).unwrap();
    }
    // A PNG that promises more than it holds would be another fault, and one that holds it takes minutes to make.
    let path = folder.path().join("a.png");
    fs::write(&path, png(1500)).unwrap();
    let options = ImageOptions { max_pixels: 2_000_000, ..small.clone() };
    let (result, peak_refused) = peak(|| decode(&path, &options, &MemoryBudget::unlimited(), 0));
    assert!(result.unwrap_err().kind() == ErrorKind::Limit && peak_refused < 1 << 20, "{peak_refused} bytes");
    // 3 bytes a pixel, not 21.
    let (result, peak) = peak(|| decode(&path, &small, &MemoryBudget::unlimited(), 0));
    result.unwrap();
    assert!(peak < 3 * 1500 * 1500 + (1 << 20), "{peak} bytes");
}

#[test]
fn a_photograph_of_a_hundred_megapixels_is_within_the_limits() {
    let pixels = 11_656 * 8_742;
    assert!(pixels > 100_000_000 && ImageOptions::default().max_pixels >= pixels);
}

#[test]
fn no_decoder_takes_more_than_is_counted() {
    let (width, height) = (517usize, 389usize);
    let pixel =
        |at: usize| (at % (3 * width) / 5 + at / (2 * width)) as u8 ^ RandomKey::new(3).bits(at as u64) as u8 & 31;
    let pixels: Vec<u8> = (0..4 * width * height).map(pixel).collect();
    let (rgb, rgba) = (&pixels[..3 * width * height], &pixels[..]);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for subsampling in [Subsampling::S444, Subsampling::S422, Subsampling::S420, Subsampling::S440, Subsampling::S411] {
        for progressive in [false, true] {
            let encoder = Encoder::new(rgb, width, height, PixelFormat::Rgb).subsampling(subsampling);
            let bytes = encoder.progressive(progressive).encode().unwrap();
            files.push((format!("{subsampling:?}-{progressive}.jpg"), bytes));
        }
    }
    for progressive in [false, true] {
        let encoder = Encoder::new(&pixels[..width * height], width, height, PixelFormat::Grayscale);
        files.push((format!("grey-{progressive}.jpg"), encoder.progressive(progressive).encode().unwrap()));
    }
    let mut encoded = |name: &str, encode: &dyn Fn(&mut std::io::Cursor<Vec<u8>>) -> image::ImageResult<()>| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        encode(&mut bytes).unwrap();
        files.push((name.to_owned(), bytes.into_inner()));
    };
    let (w, h) = (width as u32, height as u32);
    encoded("rgb.webp", &|into| {
        image::codecs::webp::WebPEncoder::new_lossless(into).write_image(rgb, w, h, ExtendedColorType::Rgb8)
    });
    encoded("rgba.webp", &|into| {
        image::codecs::webp::WebPEncoder::new_lossless(into).write_image(rgba, w, h, ExtendedColorType::Rgba8)
    });
    encoded("rgb.bmp", &|into| {
        image::codecs::bmp::BmpEncoder::new(into).write_image(rgb, w, h, ExtendedColorType::Rgb8)
    });
    encoded("rgba.bmp", &|into| {
        image::codecs::bmp::BmpEncoder::new(into).write_image(rgba, w, h, ExtendedColorType::Rgba8)
    });
    encoded("rgb.png", &|into| {
        image::codecs::png::PngEncoder::new(into).write_image(rgb, w, h, ExtendedColorType::Rgb8)
    });
    encoded("rgba.png", &|into| {
        image::codecs::png::PngEncoder::new(into).write_image(rgba, w, h, ExtendedColorType::Rgba8)
    });
    encoded("rgb.gif", &|into| {
        image::codecs::gif::GifEncoder::new_with_speed(into, 30).encode(rgb, w, h, ExtendedColorType::Rgb8)
    });
    encoded("rgb.tiff", &|into| {
        image::codecs::tiff::TiffEncoder::new(into).write_image(rgb, w, h, ExtendedColorType::Rgb8)
    });
    encoded("rgba16.tiff", &|into| {
        let bytes: Vec<u8> = rgba.iter().flat_map(|value| [*value, *value]).collect();
        image::codecs::tiff::TiffEncoder::new(into).write_image(&bytes, w, h, ExtendedColorType::Rgba16)
    });
    let native = ImageOptions::default();
    let small = ImageOptions { size: Some((64, 80)), ..ImageOptions::default() };
    let rotation = ImageAugment::Rotation { degrees: 9.0, interpolation: Default::default() };
    let blur = gaussian_blur();
    let crop = ImageOptions { augment: vec![random_resized_crop(), rotation.clone(), blur], ..small.clone() };
    let mix = ImageOptions { augment: vec![aug_mix()], ..native.clone() };
    let grey = ImageOptions { colour: ImageColour::Grey, augment: vec![rotation], ..native.clone() };
    for (name, bytes) in &files {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        for (way, options) in [("native", &native), ("small", &small), ("crop", &crop), ("mix", &mix), ("grey", &grey)]
        {
            for key in 0..if way == "crop" { 3 } else { 1 } {
                let budget = MemoryBudget::unlimited();
                let (result, peak) = peak(|| decode(&path, options, &budget, key));
                result.unwrap();
                // Beside decoding: the file, the row and the tables of decoders.
                let row = options.size.map_or(width * height, |(height, width)| (width * height) as usize) * 4;
                let beside = (bytes.len() + row + (400 << 10)) as u64;
                assert!(
                    peak <= budget.used() + beside,
                    "{name}, {way}: held {peak} bytes, counted {} and {beside}",
                    budget.used()
                );
                let most = (18 + 3 + 9 + 15) * (width * height) as u64 + (1 << 20);
                assert!(budget.used() <= most || name.ends_with("tiff"), "{name}: {}", budget.used());
            }
        }
    }
}

#[test]
fn what_follows_a_picture_is_counted_or_not_copied() {
    let encoder = |pixels: &[u8]| Encoder::new(pixels, 8, 8, PixelFormat::Grayscale).encode().unwrap();
    let picture = encoder(&[77; 64]);
    let (data, end) = picture.split_at(picture.len() - 2);
    let more = vec![0u8; 10 << 20];
    let options = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jpg");
    // Behind the picture, and inside of its data.
    for (file, is_copied) in [([&picture[..], &more].concat(), false), ([data, &more, end].concat(), true)] {
        fs::write(&path, &file).unwrap();
        let budget = MemoryBudget::unlimited();
        let (result, peak) = peak(|| decode(&path, &options, &budget, 0));
        result.unwrap();
        let beside = file.len() as u64 + (400 << 10);
        let counted = if is_copied { budget.used() } else { 0 };
        assert!(peak <= beside + counted, "held {peak} bytes, counted {} and {beside}", budget.used());
    }
}

#[test]
fn what_decoders_keep_is_counted_whatever_they_decoded() {
    let side = 1000u16;
    let pixels: Vec<u8> = (0..3 * 1000 * 1000).map(|at| (at / 3000 + at % 3000 / 12) as u8).collect();
    let folder = tempfile::tempdir().unwrap();
    let native = ImageOptions::default();
    let mix = ImageOptions { augment: vec![aug_mix()], ..native.clone() };
    let map = ImageOptions { colour: ImageColour::Index, ..native.clone() };
    let large = ImageOptions { size: Some((1000, 1000)), ..native.clone() };
    let mut grey = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut grey);
    encoder.write_image(&pixels[..1_000_000], 1000, 1000, ExtendedColorType::L8).unwrap();
    let progressive =
        Encoder::new(&pixels, 1000, 1000, PixelFormat::Rgb).subsampling(Subsampling::S444).progressive(true);
    let files = [
        ("a.webp", webp_of(&pixels, side), &native),
        ("a.jpg", progressive.encode().unwrap(), &native),
        ("b.png", grey.clone(), &mix),
        ("c.png", grey, &map),
        ("d.webp", webp_of(&[9; 16 * 16 * 3], 16), &large),
    ];
    let budget = MemoryBudget::unlimited();
    let (before, _) = HELD.get();
    for (name, bytes, options) in &files {
        let path = folder.path().join("one").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        decode(&path, options, &budget, 0).unwrap();
        fs::remove_file(&path).unwrap();
        let held = (HELD.get().0 - before) as u64;
        assert!(held <= budget.used() + (400 << 10), "{name}: {held} bytes are kept, counted {}", budget.used());
    }
    assert!(budget.used() > 36_000_000, "{}", budget.used());
}

#[test]
fn workers_take_turns_where_the_budget_holds_one_picture_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let options = ImageOptions { size: Some((32, 32)), ..ImageOptions::default() };
    for nth in 0..24 {
        fs::copy(fixture("photos/coffee.png"), folder.path().join(format!("{nth}.png"))).unwrap();
    }
    // 600 x 400 pixels of 3 bytes, and a little for what is resized; the ring has 3 slots.
    let loader =
        Loader::images(folder.path()).field("image", Image::with(options)).batch_size(4).workers(3).prefetch(2);
    let run = |budget: u64| -> Result<u64, Error> {
        let mut records = 0;
        for batch in &mut loader.clone().budget(budget).build()? {
            records += batch?.len() as u64;
        }
        Ok(records)
    };
    assert_eq!(run(1_200_000).unwrap(), 24);
    let error = run(700_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Budget);
    assert!(error.to_string().contains("decoding an image"), "{error}");
}

#[test]
fn images_that_are_named_one_by_one_count_against_the_budget_as_those_of_a_folder_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.jpg");
    fs::write(&path, jpeg(10_000)).unwrap();
    let options = ImageOptions { size: Some((32, 32)), ..ImageOptions::default() };
    let list = Loader::new(SourceConfig::new(Images, Paths::from_iter([&path, &path]), FolderOptions::default()));
    for loader in [Loader::images(folder.path()), Loader::images(&path), list] {
        let loader = loader.field("image", Image::with(options.clone())).batch_size(1).workers(1).budget(4 << 20);
        let error = loader.build().and_then(|mut batches| batches.try_for_each(|batch| batch.map(|_| ()))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget, "{error}");
        assert!(error.to_string().contains("decoding an image"), "{error}");
    }
}
