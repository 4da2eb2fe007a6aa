//! Image files to pixels to numbers.
//!
//! [`options`] has the settings. [`container`] finds format, size and orientation in a file's header ([`stored`]) and
//! checks that the file is complete. [`jpeg`] (with [`baseline`] and [`complete`], decoders of our own) and [`other`]
//! (with [`tiff`] and [`tiff_jpeg`]) decode 8-bit RGB pixels behind [`decoder::DecodeImage`]. [`resize`] and [`pixels`]
//! bring them to the wanted size and order. [`augment`] names the random operations, [`draw`] turns each into a list of
//! changes, and [`picture`] and [`map`] apply these by [`colour`], [`tone`], [`filter`], [`rotate`] and [`warp`].
//! [`ImageWork`] calls all of them in order, [`Shared`] does so for several views of one image, and [`Redraw`] for
//! images that are tensors already. Without the feature `images`, there are only the settings and the recognition of
//! image files; everything else is an error. Without `formats`, there is none of this.

#[cfg(all(feature = "formats", not(feature = "images")))]
mod absent;
#[cfg(feature = "images")]
mod acts;
#[cfg(feature = "formats")]
#[cfg_attr(not(feature = "images"), expect(dead_code, reason = "asked by the decoders"))]
mod augment;
#[cfg(feature = "images")]
mod baseline;
#[cfg(feature = "images")]
mod bmp;
#[cfg(feature = "images")]
mod boxes;
#[cfg(feature = "images")]
mod change;
#[cfg(feature = "images")]
mod colour;
#[cfg(feature = "images")]
mod complete;
#[cfg(feature = "images")]
mod container;
#[cfg(feature = "images")]
mod damage;
#[cfg(feature = "images")]
mod decoder;
#[cfg(feature = "images")]
mod decoders;
#[cfg(feature = "images")]
mod draw;
#[cfg(feature = "images")]
mod edge;
#[cfg(feature = "images")]
mod filter;
#[cfg(feature = "images")]
mod follow;
#[cfg(feature = "images")]
mod gif;
#[cfg(feature = "images")]
mod jitter;
#[cfg(feature = "images")]
mod jpeg;
#[cfg(feature = "images")]
mod jpeg_header;
#[cfg(not(feature = "formats"))]
mod left_out;
#[cfg(feature = "images")]
mod map;
#[cfg(feature = "formats")]
mod options;
mod order;
#[cfg(feature = "images")]
mod other;
#[cfg(feature = "images")]
mod picture;
#[cfg(feature = "images")]
mod pixels;
#[cfg(feature = "images")]
mod png;
#[cfg(feature = "images")]
mod pnm;
#[cfg(feature = "images")]
mod policy;
#[cfg(feature = "images")]
mod redraw;
#[cfg(feature = "images")]
mod resize;
#[cfg(feature = "images")]
mod rotate;
mod rows;
#[cfg(feature = "images")]
mod samples;
#[cfg(feature = "formats")]
mod step;
#[cfg(feature = "formats")]
#[cfg_attr(not(feature = "images"), expect(dead_code, reason = "asked by the decoders"))]
mod stored;
#[cfg(feature = "images")]
mod tiff;
#[cfg(feature = "images")]
mod tiff_jpeg;
#[cfg(feature = "images")]
mod tiff_tags;
#[cfg(feature = "images")]
mod tone;
#[cfg(feature = "turbojpeg")]
mod turbojpeg;
#[cfg(feature = "images")]
mod views;
#[cfg(feature = "images")]
mod warp;
#[cfg(feature = "images")]
mod work;

#[cfg(all(feature = "formats", not(feature = "images")))]
pub(crate) use absent::{ImageWork, Shared, follow, header, write_image};
#[cfg(feature = "formats")]
pub use augment::{
    AugmentRecipe, Edge, ImageAugment, Interpolation, LearnedPolicy, aug_mix, auto_augment, colour_jitter,
    gaussian_blur, horizontal_flip, rand_augment, random_crop, random_erasing, random_resized_crop, scale_jitter,
    trivial_augment, vertical_flip,
};
#[cfg(feature = "formats")]
pub(crate) use augment::{Moves, is_operation, named as named_operations};
#[cfg(feature = "images")]
pub(crate) use container::header;
#[cfg(feature = "images")]
pub(crate) use follow::follow;
#[cfg(not(feature = "formats"))]
pub(crate) use left_out::{ImageOptions, Shared};
#[cfg(feature = "formats")]
pub(crate) use options::list_faults;
#[cfg(feature = "formats")]
pub use options::{CropFit, ImageColour, ImageOptions, JpegDecoder, LabelFormat, ResizeFilter};
pub use order::PixelOrder;
#[cfg(feature = "images")]
pub(crate) use redraw::Redraw;
pub(crate) use rows::{Rows, write_rounded};
#[cfg(feature = "formats")]
pub(crate) use step::Step;
#[cfg(feature = "formats")]
pub(crate) use stored::ImageFormat;
#[cfg(feature = "images")]
pub(crate) use views::Shared;
#[cfg(feature = "images")]
pub(crate) use work::{ImageWork, write_image};
