use std::path::Path;

use image::RgbImage;
use libjpeg_turbo_rs::{PixelFormat, decompress_to};

/// A photograph of the fixtures, JPEG or another kind. `image` is built without JPEG, which Ringfeed decodes by other
/// means.
pub(crate) fn photograph(path: &Path) -> RgbImage {
    if path.extension().is_some_and(|extension| extension == "jpg") {
        let bytes = std::fs::read(path).expect("a photograph");
        let image = decompress_to(&bytes, PixelFormat::Rgb).expect("a photograph");
        return RgbImage::from_raw(image.width as u32, image.height as u32, image.data).expect("three bytes a pixel");
    }
    image::open(path).expect("a photograph").into_rgb8()
}
