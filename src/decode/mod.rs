//! From raw values to the numbers of a batch.

mod fused;
mod halves;
pub(crate) mod image;
mod numbers;

pub(crate) use fused::scale_all;
pub(crate) use halves::FromF32;
pub(crate) use image::{Rows, write_rounded};

pub use image::{
    CropFit, ImageAugment, ImageColour, ImageOptions, Interpolation, JpegDecoder, LabelFormat, PixelOrder,
};
pub(crate) use numbers::converts;
pub use numbers::write_numbers;
