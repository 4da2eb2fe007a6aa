//! From raw values to the numbers of a batch.

#[cfg(feature = "formats")]
pub(crate) mod audio;
mod decimal;
mod fused;
mod halves;
pub(crate) mod image;
mod numbers;
#[cfg(feature = "formats")]
mod tokenizer;

pub(crate) use decimal::{LONG, compare as compare_decimals, integer as integer_of_decimal, number as number_of_text};
pub(crate) use fused::{map_in_place, scale_all};
pub(crate) use halves::{FromF32, odd_beside, odd_f32, odd_f32_of_text};
#[cfg(feature = "images")]
pub(crate) use image::Redraw;
pub(crate) use image::{Rows, write_rounded};
#[cfg(feature = "formats")]
pub(crate) use image::{is_operation, list_faults, named_operations};

#[cfg(feature = "formats")]
pub use audio::{AudioCrop, AudioOptions};
#[cfg(not(feature = "formats"))]
pub(crate) use image::ImageOptions;
pub use image::PixelOrder;
#[cfg(feature = "formats")]
pub use image::{
    AugmentRecipe, CropFit, Edge, ImageAugment, ImageColour, ImageOptions, Interpolation, JpegDecoder, LabelFormat,
    LearnedPolicy, ResizeFilter, aug_mix, auto_augment, colour_jitter, gaussian_blur, horizontal_flip, rand_augment,
    random_crop, random_erasing, random_resized_crop, scale_jitter, trivial_augment, vertical_flip,
};
pub use numbers::write_numbers;
pub(crate) use numbers::{converts, one_hot, write_finite, write_finite_column};
#[cfg(feature = "formats")]
pub(crate) use tokenizer::Tokenizer;
