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
use ringfeed::{DType, Error, ErrorKind, Loader};

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

/// Decodes one file in one row, in the memory of `budget`. The most bytes that decoding alone held.
fn decode(path: &Path, options: &ImageOptions, budget: &MemoryBudget, key: u64) -> Result<u64, Error> {
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
    let sample = Sample { id: 0, key: RandomKey::new(key) };
    let before = HELD.get().1;
    let (decoded, taken) = peak(|| reader.decode(sample, 0, &mut scratch, &mut row));
    // Who measures all of this goes on from what it was.
    HELD.set((HELD.get().0, HELD.get().1.max(before)));
    decoded.map(|()| taken)
}

/// Number, type and value of a tag.
type Tag = (u16, u16, u32);

/// How the samples of a TIFF are stored.
#[derive(Clone, Copy)]
enum Code {
    Plain,
    Deflate,
    /// Fax compression of white rows.
    White,
    /// With these factors of sampling.
    Jpeg(Subsampling, bool),
}

/// A TIFF of `side` x `side` pixels with these bits, samples and kind of colours, in strips or tiles of this size, and in
/// planes if there are more than one.
#[derive(Clone, Copy)]
struct Tiff {
    bits: u32,
    samples: u32,
    photometric: u32,
    planes: u32,
    part: (u32, u32),
    is_tiled: bool,
    code: Code,
    more: &'static [Tag],
}

impl Tiff {
    fn bytes(&self, side: u32) -> Vec<u8> {
        let (width, height) = self.part;
        let (across, down) = (side.div_ceil(width), side.div_ceil(height));
        let samples = self.samples / self.planes;
        let mut file = b"II*\0\0\0\0\0".to_vec();
        let (mut starts, mut lengths) = (Vec::new(), Vec::new());
        for nth in 0..across * down * self.planes {
            let top = nth % (across * down) / across * height;
            let rows = if self.is_tiled { height } else { height.min(side - top) };
            let row = (width * samples * self.bits).div_ceil(8) as usize;
            let pixel = |at: usize| (at % row / 5 + at / row) as u8 ^ RandomKey::new(3).bits(at as u64) as u8 & 7;
            let plain: Vec<u8> = (0..row * rows as usize).map(pixel).collect();
            let part = match self.code {
                Code::Plain => plain,
                Code::Deflate => {
                    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                    std::io::Write::write_all(&mut encoder, &plain).unwrap();
                    encoder.finish().unwrap()
                }
                // A bit for each row, and the end of the block.
                Code::White => {
                    let ones = vec![0xff; (rows as usize).div_ceil(8)];
                    [&ones[..], &[0x00, 0x10, 0x01]].concat()
                }
                Code::Jpeg(subsampling, progressive) => {
                    let format = match samples {
                        1 => PixelFormat::Grayscale,
                        3 => PixelFormat::Rgb,
                        _ => PixelFormat::Cmyk,
                    };
                    let encoder = Encoder::new(&plain, width as usize, rows as usize, format);
                    encoder.subsampling(subsampling).progressive(progressive).encode().unwrap()
                }
            };
            starts.push(file.len() as u32);
            lengths.push(part.len() as u32);
            file.extend(part);
        }
        let compression = match self.code {
            Code::Plain => 1,
            Code::Deflate => 8,
            Code::White => 4,
            Code::Jpeg(..) => 7,
        };
        let mut tags: Vec<(u16, u16, Vec<u32>)> = vec![
            (256, 4, vec![side]),
            (257, 4, vec![side]),
            (258, 3, vec![self.bits; self.samples as usize]),
            (259, 3, vec![compression]),
            (262, 3, vec![self.photometric]),
            (277, 3, vec![self.samples]),
            (284, 3, vec![if self.planes > 1 { 2 } else { 1 }]),
        ];
        match self.is_tiled {
            false => tags.extend([(273, 4, starts), (278, 4, vec![height]), (279, 4, lengths)]),
            true => {
                tags.extend([(322, 4, vec![width]), (323, 4, vec![height]), (324, 4, starts), (325, 4, lengths)]);
            }
        }
        if self.photometric == 3 {
            tags.push((320, 3, (0..3 << self.bits).map(|at| (at * 60) & 0xffff).collect()));
        }
        tags.extend(self.more.iter().map(|(tag, kind, value)| (*tag, *kind, vec![*value])));
        tags.sort();
        let mut entries = Vec::new();
        for (tag, kind, values) in tags {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|value| value.to_le_bytes().into_iter().take(if kind == 3 { 2 } else { 4 }))
                .collect();
            entries.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
            entries.extend((values.len() as u32).to_le_bytes());
            if bytes.len() > 4 {
                entries.extend((file.len() as u32).to_le_bytes());
                file.extend(bytes);
            } else {
                entries.extend(bytes.into_iter().chain([0; 4]).take(4));
            }
        }
        let start = (file.len() as u32).to_le_bytes();
        file[4..8].copy_from_slice(&start);
        file.extend((entries.len() as u16 / 12).to_le_bytes());
        file.extend(entries);
        file.extend([0; 4]);
        file
    }
}

/// TIFF files of many kinds.
fn tiffs(side: u32) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let whole = (side, side);
    let plain = Tiff {
        bits: 8,
        samples: 1,
        photometric: 1,
        planes: 1,
        part: (side, 16),
        is_tiled: false,
        code: Code::Plain,
        more: &[],
    };
    let kinds: [(&str, u32, u32, u32, &[Tag]); 11] = [
        ("bit", 1, 1, 1, &[]),
        ("grey-4", 4, 1, 1, &[]),
        ("grey", 8, 1, 1, &[]),
        ("grey-16", 16, 1, 1, &[]),
        ("lowest-first", 8, 1, 1, &[(266, 3, 2)]),
        ("palette", 8, 1, 3, &[]),
        ("rgb", 8, 3, 2, &[]),
        ("rgb-16", 16, 3, 2, &[]),
        ("rgba", 8, 4, 2, &[(338, 3, 2)]),
        ("cmyk", 8, 4, 5, &[]),
        ("cmyk-16", 16, 4, 5, &[]),
    ];
    for (name, bits, samples, photometric, more) in kinds {
        let kind = Tiff { bits, samples, photometric, more, ..plain };
        files.push((format!("{name}-strips.tiff"), kind.bytes(side)));
        // Whose bytes are turned round before they are unpacked.
        if name != "lowest-first" {
            files.push((format!("{name}-deflate.tiff"), Tiff { code: Code::Deflate, part: whole, ..kind }.bytes(side)));
        }
        if bits > 4 {
            files.push((format!("{name}-tiles.tiff"), Tiff { part: (128, 128), is_tiled: true, ..kind }.bytes(side)));
        }
        if samples == 3 {
            files.push((format!("{name}-planes.tiff"), Tiff { planes: 3, ..kind }.bytes(side)));
        }
    }
    files.push(("fax.tiff".to_owned(), Tiff { bits: 1, photometric: 0, code: Code::White, ..plain }.bytes(side)));
    let (full, quarter) = (Subsampling::S444, Subsampling::S420);
    let jpeg = Tiff { code: Code::Jpeg(full, false), ..plain };
    for (shape, part, is_tiled) in [("strips", (side, 16), false), ("one", whole, false), ("tiles", (64, 64), true)] {
        let jpeg = Tiff { part, is_tiled, ..jpeg };
        let colours = Tiff { samples: 3, photometric: 6, ..jpeg };
        let kinds = [
            ("grey", jpeg),
            ("palette", Tiff { photometric: 3, ..jpeg }),
            ("planes", Tiff { samples: 3, photometric: 2, planes: 3, ..jpeg }),
            ("444", colours),
            ("420", Tiff { code: Code::Jpeg(quarter, false), ..colours }),
            ("progressive", Tiff { code: Code::Jpeg(quarter, true), ..colours }),
            ("cmyk", Tiff { samples: 4, photometric: 5, ..jpeg }),
        ];
        files.extend(kinds.map(|(name, kind)| (format!("jpeg-{name}-{shape}.tiff"), kind.bytes(side))));
    }
    files
}

#[test]
fn what_is_counted_for_a_tiff_is_what_it_takes() {
    let side = 500;
    let native = ImageOptions::default();
    let small = ImageOptions { size: Some((64, 80)), ..ImageOptions::default() };
    let crop = ImageOptions { augment: vec![random_resized_crop()], ..small.clone() };
    let rotation = ImageAugment::Rotation { degrees: 9.0, interpolation: Default::default() };
    let turned = ImageOptions { augment: vec![rotation], ..native.clone() };
    let map = ImageOptions { colour: ImageColour::Index, dtype: DType::U16, ..small.clone() };
    let folder = tempfile::tempdir().unwrap();
    let (mut pictures, mut maps) = (0, 0);
    for (name, bytes) in tiffs(side) {
        let path = folder.path().join("one").join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &bytes).unwrap();
        let ways = [("native", &native), ("small", &small), ("crop", &crop), ("turned", &turned), ("map", &map)];
        for (way, options) in ways {
            let budget = MemoryBudget::unlimited();
            let taken = match decode(&path, options, &budget, 1) {
                Ok(taken) => taken,
                Err(error) if way == "map" && error.to_string().contains("a map of indices has one") => continue,
                Err(error) => panic!("{name}, {way}: {error}"),
            };
            // Tables of decompressors, and a few rows.
            let (counted, tables) = (budget.used(), 150 << 10);
            assert!(taken <= counted + tables, "{name}, {way}: held {taken} bytes, counted {counted}");
            assert!(2 * counted <= 3 * taken, "{name}, {way}: counted {counted} bytes, held {taken}");
            if way == "map" { maps += 1 } else { pictures += 1 }
        }
        // From its header alone, a file is refused that needs more than there is.
        let pixels = u64::from(side * side);
        let (refused, peak) = peak(|| decode(&path, &small, &MemoryBudget::new(3 * pixels), 1));
        let beside = bytes.len() as u64 + (100 << 10);
        assert!(refused.unwrap_err().kind() == ErrorKind::Budget && peak < beside, "{name}: {peak} bytes");
        fs::remove_file(&path).unwrap();
    }
    assert!(pictures > 200 && maps > 20, "{pictures} pictures, {maps} maps");
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
                let taken = decode(&path, options, &budget, key).unwrap();
                // Beside what is counted, there are the tables of decoders.
                let (counted, tables) = (budget.used(), 400 << 10);
                assert!(taken <= counted + tables, "{name}, {way}: held {taken} bytes, counted {counted}");
                // The fast decoder of JPEG files, which takes parts and grey as such, may leave a file to the other one.
                let is_fast = name.ends_with("false.jpg") && matches!(way, "crop" | "grey");
                let most = if is_fast { 4 } else { 2 } * taken;
                assert!(counted <= most, "{name}, {way}: counted {counted} bytes, held {taken}");
            }
        }
    }
}

#[test]
fn what_is_counted_for_a_narrow_or_a_flat_jpeg_is_what_it_takes() {
    let (folder, options) = (tempfile::tempdir().unwrap(), ImageOptions::default());
    for (width, height) in [(8usize, 20_000usize), (20_000, 8), (1, 30_000), (30_000, 1)] {
        let pixels: Vec<u8> = (0..4 * width * height).map(|at| (at / 8) as u8).collect();
        for (format, subsampling) in [
            (PixelFormat::Grayscale, Subsampling::S444),
            (PixelFormat::Rgb, Subsampling::S444),
            (PixelFormat::Rgb, Subsampling::S420),
            (PixelFormat::Rgb, Subsampling::S411),
            (PixelFormat::Rgb, Subsampling::S440),
            (PixelFormat::Cmyk, Subsampling::S444),
        ] {
            let kinds: &[bool] = if format == PixelFormat::Cmyk { &[false] } else { &[false, true] };
            for progressive in kinds {
                let pixels = &pixels[..width * height * format.bytes_per_pixel()];
                let encoder = Encoder::new(pixels, width, height, format).subsampling(subsampling);
                let path = folder.path().join("a.jpg");
                fs::write(&path, encoder.progressive(*progressive).encode().unwrap()).unwrap();
                let budget = MemoryBudget::unlimited();
                let taken = decode(&path, &options, &budget, 0).unwrap();
                let (counted, tables) = (budget.used(), 200 << 10);
                let kind = format!("{width} x {height}, {format:?}, {subsampling:?}, {progressive}");
                assert!(taken <= counted + tables, "{kind}: held {taken} bytes, counted {counted}");
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
