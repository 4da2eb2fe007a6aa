use crate::decode::{CropFit, ImageAugment, ImageColour, ImageOptions, JpegDecoder, PixelOrder, ResizeFilter};
use crate::dtype::DType;

use super::of_options::of_options;

/// An image as a tensor `f32 [channels, height, width]`: pixels from 0 to 255, unless a normaliser scales them.
/// [`dtype`](Self::dtype) and [`order`](Self::order) change type and order. A file that can't be decoded is a bad
/// record.
#[derive(Clone, Debug, PartialEq)]
pub struct Image(pub(super) ImageOptions);

impl Image {
    /// Three channels (red, green, blue), resized to this many pixels.
    pub fn rgb(height: u32, width: u32) -> Self {
        Self(ImageOptions { size: Some((height, width)), dtype: DType::F32, ..ImageOptions::default() })
    }

    /// One channel (grey), resized to this many pixels.
    pub fn grey(height: u32, width: u32) -> Self {
        let Self(options) = Self::rgb(height, width);
        Self(ImageOptions { colour: ImageColour::Grey, ..options })
    }

    /// A segmentation map: a label `i64 [height, width]` with the index that the file stores for each pixel. Resizing
    /// takes the nearest pixel and never mixes indices, and operations on colour do not change them. Give it the
    /// [`geometry`](Self::geometry) of its picture.
    pub fn index_map(height: u32, width: u32) -> Self {
        let Self(options) = Self::rgb(height, width);
        Self(ImageOptions { colour: ImageColour::Index, dtype: DType::I64, ..options })
    }

    /// Three channels (red, green, blue), each picture in its own size. All pictures of a batch are padded with zeros,
    /// below and to the right, to the largest height and width. A mask (`u8 [height, width]`, suffix `_mask`) is 1 on
    /// the picture.
    pub fn of_any_size() -> Self {
        Self(ImageOptions { dtype: DType::F32, ..ImageOptions::default() })
    }

    /// Height and width in pixels that each picture is resized to.
    #[must_use]
    pub fn size(mut self, height: u32, width: u32) -> Self {
        self.0.size = Some((height, width));
        self
    }

    /// Turns this picture's field into a segmentation map of this type with the same geometry.
    pub(crate) fn into_map(self, dtype: DType) -> Self {
        Self(ImageOptions { colour: ImageColour::Index, dtype, ..self.0 })
    }

    pub(super) fn options_mut(&mut self) -> &mut ImageOptions {
        &mut self.0
    }

    pub(super) fn make_plain(&mut self) {
        self.0.augment.clear();
    }

    /// Random operations, in this order; leave them out for evaluation.
    #[must_use]
    pub fn augment(mut self, operations: impl IntoIterator<Item = ImageAugment>) -> Self {
        self.0.augment = operations.into_iter().collect();
        self
    }

    /// Element type.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.0.dtype = dtype;
        self
    }

    /// How images are fitted to the size.
    #[must_use]
    pub fn fit(mut self, fit: CropFit) -> Self {
        self.0.fit = fit;
        self
    }

    /// The filter for resizing.
    #[must_use]
    pub fn resize(mut self, filter: ResizeFilter) -> Self {
        self.0.resize = filter;
        self
    }

    /// Order of the dimensions.
    #[must_use]
    pub fn order(mut self, order: PixelOrder) -> Self {
        self.0.order = order;
        self
    }

    /// The JPEG decoder. Default: the fastest one that gives the right pixels.
    #[must_use]
    pub fn jpeg(mut self, decoder: JpegDecoder) -> Self {
        self.0.jpeg = decoder;
        self
    }

    /// Refuses JPEG files that libjpeg loads with a warning; see [`ImageOptions::strict`].
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.0.strict = true;
        self
    }

    /// Lets a JPEG be shrunk while it is decoded; see [`ImageOptions::dct_scaling`].
    #[must_use]
    pub fn dct_scaling(mut self) -> Self {
        self.0.dct_scaling = true;
        self
    }

    /// The most memory for an index of JPEG files; see [`ImageOptions::jpeg_index_bytes`]. Default: 2^28; 0 for none.
    #[must_use]
    pub fn jpeg_index_bytes(mut self, bytes: u64) -> Self {
        self.0.jpeg_index_bytes = bytes;
        self
    }

    /// The largest number of pixels that a picture may have, checked in its header before anything is decoded. Default:
    /// 2^27.
    #[must_use]
    pub fn max_pixels(mut self, pixels: u64) -> Self {
        self.0.max_pixels = pixels;
        self
    }
}

of_options!(
    Image,
    ImageOptions,
    "images",
    "Images of a sample whose geometry has the same name are cropped, flipped and rotated in the same way; others \
     each in their own way. A map beside a picture that is cropped or moved needs the geometry of that picture. It \
     then takes over the picture's operations and fit, unless it has its own. If the map has another size, `shorter` \
     of `center_crop` is scaled with it, and what can't be scaled, such as `random_crop`, is an error when the source \
     is opened."
);
