//! From raw values to the numbers of a batch.

mod fused;
pub(crate) mod image;
mod numbers;

pub use image::{CropFit, ImageColour, ImageOptions, JpegDecoder, LabelFormat, PixelOrder};
pub use numbers::{Numbers, write_numbers};
