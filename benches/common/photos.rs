//! A folder of JPEGs to measure with where none is given: cut from the photographs among the fixtures, of sizes and
//! kinds as web photographs have them.

mod photograph;

use std::fs::{create_dir_all, read_dir, write};
use std::path::{Path, PathBuf};

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{ResizeOptions, Resizer};
use libjpeg_turbo_rs::{Encoder, PixelFormat, Subsampling};
use ringfeed::order::RandomKey;

use photograph::photograph;

/// Makes `count` images in class folders in `folder`, the same for every call.
pub(crate) fn make_folder(folder: &Path, count: u64) {
    let photographs = photographs();
    let mut resizer = Resizer::new();
    for index in 0..count {
        let key = RandomKey::new(20).with(index);
        let photograph = &photographs[(key.bits(0) % photographs.len() as u64) as usize];
        let (width, height) = size(key);
        // A cut of the photograph in the same proportions, as large as it holds or smaller.
        let most = (photograph.width() as f64 / width as f64).min(photograph.height() as f64 / height as f64);
        let zoom = most * (0.5 + 0.5 * key.unit(1));
        let (cut_width, cut_height) = (width as f64 * zoom, height as f64 * zoom);
        let left = (photograph.width() as f64 - cut_width) * key.unit(2);
        let top = (photograph.height() as f64 - cut_height) * key.unit(3);
        let from = TypedImageRef::<U8x3>::from_buffer(photograph.width(), photograph.height(), photograph.as_raw());
        let mut into = vec![0; (width * height * 3) as usize];
        let mut image = TypedImage::<U8x3>::from_buffer(width, height, &mut into).expect("a buffer of this size");
        let options = ResizeOptions::new().crop(left, top, cut_width, cut_height);
        resizer.resize_typed(&from.expect("the photograph's own size"), &mut image, &options).expect("a cut within it");
        let jpeg = Encoder::new(&into, width as usize, height as usize, PixelFormat::Rgb)
            .quality([85, 90, 92, 95][(key.bits(4) % 4) as usize])
            .subsampling(if key.unit(5) < 0.9 { Subsampling::S420 } else { Subsampling::S444 })
            .encode()
            .expect("pixels make a JPEG");
        let class = folder.join(format!("class-{}", index % 10));
        create_dir_all(&class).expect("a temporary folder can be written");
        write(class.join(format!("{index:05}.jpg")), jpeg).expect("a temporary folder can be written");
    }
}

/// Five hundred pixels on the longer side are the rule; a quarter are upright.
fn size(key: RandomKey) -> (u32, u32) {
    let longer = if key.unit(6) < 0.65 { 500 } else { 200 + (key.unit(7) * 500.0) as u32 };
    let shorter = (f64::from(longer) / [4.0 / 3.0, 3.0 / 2.0, 1.25][(key.bits(8) % 3) as usize]) as u32;
    if key.unit(9) < 0.75 { (longer, shorter) } else { (shorter, longer) }
}

fn photographs() -> Vec<image::RgbImage> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos");
    let mut paths: Vec<PathBuf> =
        read_dir(folder).expect("the fixtures").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| photograph(path)).collect()
}
