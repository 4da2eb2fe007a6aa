use crate::decode::image::Moves;
use crate::decode::{CropFit, ImageAugment, ImageColour, ImageOptions, JpegDecoder, PixelOrder, ResizeFilter};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};

use super::of_options::of_options;
use super::{Codec, Field};

/// An image as a tensor `f32 [channels, height, width]`: pixels from 0 to 255, unless a normaliser scales them.
/// [`dtype`](Self::dtype) and [`order`](Self::order) change type and order. A file that can't be decoded is a bad
/// record.
#[derive(Clone, Debug, PartialEq)]
pub struct Image(ImageOptions);

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

    /// Refuses a map without a geometry if each picture among `images`, those of its record, would be transformed in
    /// another way. The whole of a picture may become a smaller or larger map.
    pub(super) fn check_alone(&self, images: &[(String, Field)]) -> Result<()> {
        let map = &self.0;
        if map.colour != ImageColour::Index || map.geometry.is_some() {
            return Ok(());
        }
        let is_moved = |options: &ImageOptions| options.augment.iter().any(|step| step.moves() > Moves::Nothing);
        let mut other = None;
        for (name, image) in images {
            let Codec::Image(Self(picture)) = &image.codec else { continue };
            if picture.colour == ImageColour::Index {
                continue;
            }
            let shows_all = picture.fit == CropFit::default() || picture.size == map.size;
            if !is_moved(picture) && !is_moved(map) && picture.fit == map.fit && shows_all {
                return Ok(());
            }
            other.get_or_insert(name);
        }
        let Some(name) = other else { return Ok(()) };
        let message = format!(
            "without `geometry`, this map is not cropped, flipped and turned like {name:?}; give both the same `geometry`"
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// Gives a map without operations and fit of its own those of `image`, if it is the picture with its geometry.
    /// Returns whether that changed it.
    pub(super) fn go_with(&mut self, image: &Field) -> Result<bool> {
        let Codec::Image(Self(picture)) = &image.codec else { return Ok(false) };
        let map = &mut self.0;
        let before = (map.augment.is_empty(), map.fit);
        if map.colour == ImageColour::Index
            && picture.colour != ImageColour::Index
            && map.geometry.is_some()
            && map.geometry == picture.geometry
            && (map.augment.is_empty(), map.fit) == (true, CropFit::default())
        {
            map.fit = inherited_fit(picture, map.size)?;
            map.augment.clone_from(&picture.augment);
        }
        Ok((map.augment.is_empty(), map.fit) != before)
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

/// The fit of a map of this size that is transformed like `picture`.
fn inherited_fit(picture: &ImageOptions, size: Option<(u32, u32)>) -> Result<CropFit> {
    if picture.size == size {
        return Ok(picture.fit);
    }
    // Height and width of the picture, and of the map.
    let sides = picture.size.zip(size).map(|((a, b), (c, d))| [a, b, c, d].map(u64::from));
    let sides = sides.filter(|[a, b, c, d]| a * d == b * c);
    let most = if sides.is_some() { Moves::ByAngles } else { Moves::ByShares };
    let fault = |what: &str| {
        let message = format!(
            "{what} of its picture does not suit a map of another size; give the map the picture's size, or its own \
             `augment` or `fit`"
        );
        Err(Error::new(ErrorKind::Config, message))
    };
    if let Some(step) = picture.augment.iter().find(|step| step.moves() > most) {
        return fault(step.name());
    }
    let CropFit::CenterCrop { shorter } = picture.fit else { return Ok(picture.fit) };
    let scaled = sides.and_then(|[side, _, of_map, _]| {
        let product = u64::from(shorter) * of_map;
        let is_whole = product.checked_rem(side) == Some(0);
        is_whole.then(|| u32::try_from(product / side).ok()).flatten()
    });
    match scaled {
        Some(shorter) => Ok(CropFit::CenterCrop { shorter }),
        None => fault(&format!("fit = center_crop with shorter = {shorter}")),
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
