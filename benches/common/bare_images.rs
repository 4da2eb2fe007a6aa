//! The bare loop: threads that read, decode and resize images and do nothing else. What a pipeline can reach at most
//! with the same decoder and resizer.

use std::fs::{File, read_dir};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use libjpeg_turbo_rs::{Decoder, PixelFormat};
use ringfeed::order::RandomKey;

/// Pixels a side of the result.
pub(crate) const SIDE: u32 = 224;

/// Side that evaluation resizes to before it cuts out the middle.
const SHORTER: f64 = 256.0;

/// Pixels around a crop that its own depend on: interpolation of colour reads its neighbours.
const MARGIN: usize = 16;

/// Which part of an image becomes the result.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Crop {
    /// 8 to 100 % of the area anywhere, of sides 3:4 to 4:3.
    Random,
    /// The middle.
    Middle,
}

/// What of an image is decoded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Taken {
    /// All of it.
    Whole,
    /// The rows and columns of the crop, and what these depend on.
    Crop,
}

/// The JPEGs in the class folders in `folder`, or in itself.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        read_dir(folder).expect("a folder of images").map(|entry| entry.expect("an entry").path()).collect()
    };
    let (classes, mut files): (Vec<_>, Vec<_>) = entries(folder).into_iter().partition(|path| path.is_dir());
    files.extend(classes.iter().flat_map(|class| entries(class)));
    files.sort();
    assert!(!files.is_empty(), "{} holds images", folder.display());
    files
}

/// Once through the files, the next one for whichever thread is free; returns how many there are.
pub(crate) fn epoch(files: &[PathBuf], crop: Crop, taken: Taken, threads: usize) -> usize {
    let next = AtomicUsize::new(0);
    scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut work = Work::default();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(index) else { return };
                    work.image(file, RandomKey::new(index as u64), crop, taken);
                }
            });
        }
    });
    files.len()
}

/// What a thread keeps.
#[derive(Default)]
struct Work {
    bytes: Vec<u8>,
    decoded: Vec<u8>,
    result: Vec<u8>,
    resizer: Resizer,
}

impl Work {
    fn image(&mut self, file: &Path, key: RandomKey, crop: Crop, taken: Taken) {
        self.bytes.clear();
        File::open(file).and_then(|mut file| file.read_to_end(&mut self.bytes)).expect("the file can be read");
        let mut decoder = Decoder::new(&self.bytes).expect("a JPEG");
        decoder.set_output_format(PixelFormat::Rgb);
        let (width, height) = (decoder.header().width as usize, decoder.header().height as usize);
        let [left, top, wide, high] = match crop {
            Crop::Random => random_crop(width as f64, height as f64, key),
            Crop::Middle => middle(width as f64, height as f64),
        };
        // The filter that makes the middle smaller reads beyond its edges.
        let beyond = if crop == Crop::Middle { 1 + (wide / f64::from(SIDE)).ceil() as usize } else { 0 };
        let mut offset = (0, 0);
        if taken == Taken::Crop {
            let x = (left as usize).saturating_sub(MARGIN + beyond);
            let y = (top as usize).saturating_sub(MARGIN + beyond);
            let right = ((left + wide).ceil() as usize + MARGIN + beyond).min(width);
            let bottom = ((top + high).ceil() as usize + MARGIN + beyond).min(height);
            decoder.set_crop_region(x, y, right - x, bottom - y);
            offset = (right, y);
        }
        let len = decoder.output_buffer_size().expect("a size");
        if self.decoded.len() < len {
            self.decoded.resize(len, 0);
        }
        let info = decoder.decode_image_into(&mut self.decoded[..len]).expect("a whole JPEG");
        // The decoder moves the left edge out to a block's border.
        let x = offset.0.saturating_sub(info.width);
        let from = TypedImageRef::<U8x3>::from_buffer(info.width as u32, info.height as u32, &self.decoded[..len]);
        self.result.resize((SIDE * SIDE * 3) as usize, 0);
        let mut into = TypedImage::<U8x3>::from_buffer(SIDE, SIDE, &mut self.result).expect("a buffer of this size");
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
            .use_alpha(false)
            .crop(left - x as f64, top - offset.1 as f64, wide, high);
        self.resizer.resize_typed(&from.expect("whole rows"), &mut into, &options).expect("a crop of the image");
    }
}

/// Left, top, width and height, as torchvision's `RandomResizedCrop` draws them.
fn random_crop(width: f64, height: f64, key: RandomKey) -> [f64; 4] {
    for attempt in 0..10 {
        let draw = |nth: u64| key.unit(4 * attempt + nth);
        let area = width * height * (0.08 + 0.92 * draw(0));
        let (low, high) = ((3_f64 / 4.0).ln(), (4_f64 / 3.0).ln());
        let ratio = (low + (high - low) * draw(1)).exp();
        let (wide, high) = ((area * ratio).sqrt().round(), (area / ratio).sqrt().round());
        if (1.0..=width).contains(&wide) && (1.0..=height).contains(&high) {
            return [(draw(2) * (width - wide + 1.0)).floor(), (draw(3) * (height - high + 1.0)).floor(), wide, high];
        }
    }
    let side = width.min(height);
    [((width - side) / 2.0).floor(), ((height - side) / 2.0).floor(), side, side]
}

/// The part of the image that becomes the middle of the resized one.
fn middle(width: f64, height: f64) -> [f64; 4] {
    let side = width.min(height) * f64::from(SIDE) / SHORTER;
    [(width - side) / 2.0, (height - side) / 2.0, side, side]
}
