//! From raw values to the numbers of a batch.

mod fused;
pub(crate) mod image;
mod numbers;

pub(crate) use fused::scale_all;

pub use image::{
    CropFit, ImageAugment, ImageColour, ImageOptions, Interpolation, JpegDecoder, LabelFormat, PixelOrder,
};
pub(crate) use numbers::converts;
pub use numbers::write_numbers;
