//! From raw values to the numbers of a batch.

mod fused;
pub(crate) mod image;
mod numbers;

pub use image::{
    CropFit, ImageAugment, ImageColour, ImageOptions, Interpolation, JpegDecoder, LabelFormat, PixelOrder,
};
pub(crate) use numbers::converts;
pub use numbers::write_numbers;
