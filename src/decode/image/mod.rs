//! Image files to pixels to numbers.
//!
//! [`options`] says what is wanted; [`container`] finds format, size and orientation in a file's header ([`stored`]) and
//! checks that the file is whole; [`jpeg`] (with [`baseline`] and
//! [`complete`], decoders of our own) and [`other`] decode 8-bit RGB pixels behind [`decoder::DecodeImage`]; [`resize`] and [`pixels`]
//! bring them to the wanted size and order; [`augment`] names the random operations, which [`boxes`], [`colour`] and
//! [`rotate`] carry out; [`ImageWork`] is the way through all of them.

mod augment;
mod baseline;
mod bmp;
mod boxes;
mod colour;
mod complete;
mod container;
mod damage;
mod decoder;
mod decoders;
mod gif;
mod jpeg;
mod jpeg_header;
mod map;
mod options;
mod other;
mod pixels;
mod png;
mod pnm;
mod resize;
mod rotate;
mod samples;
mod stored;
mod tiff;
#[cfg(feature = "turbojpeg")]
mod turbojpeg;
mod work;

pub use augment::{ImageAugment, Interpolation};
pub(crate) use container::header;
pub use options::{CropFit, ImageColour, ImageOptions, JpegDecoder, LabelFormat, PixelOrder};
pub(crate) use pixels::{Rows, write_rounded};
pub(crate) use stored::ImageFormat;
pub(crate) use work::{ImageWork, write_image};
