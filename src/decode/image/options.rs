use std::borrow::Cow;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::augment::ImageAugment;
use super::order::PixelOrder;
use super::stored::MAX_SIDE;
use crate::dtype::DType;
#[cfg(feature = "images")]
use crate::random::{RandomKey, mix};

/// Makes the keys of named geometries different from those of operations. It never changes.
#[cfg(feature = "images")]
const GEOMETRY: u64 = 0x6765_6f6d_6574_7279;

/// Most pixels of an image, if settings do not say otherwise.
pub(super) const MAX_PIXELS: u64 = 1 << 27;

/// The error for images in a build without decoders.
pub(super) const NO_DECODERS: &str = "images need a build with the feature `images`, which is on by default";

/// Channels of an image in the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageColour {
    /// Red, green, blue. The default.
    #[default]
    Rgb,
    /// One channel: luma by ITU-R BT.601, `(19595 R + 38470 G + 7471 B + 32768) >> 16`, as Pillow computes it.
    Grey,
    /// A segmentation map: the palette index or grey value of each pixel, a label of `[height, width]`. Grey of 2 and 4
    /// bits, and of a PGM with another maximum, has Pillow's values; see [`ImageOptions`].
    Index,
}

impl ImageColour {
    /// Number of channels.
    pub const fn channels(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Grey | Self::Index => 1,
        }
    }
}

/// How an image is fitted to the given size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum CropFit {
    /// The whole image is stretched: torchvision's `Resize((height, width))`. The default.
    #[default]
    Stretch,
    /// The shorter side is resized to this many pixels, then the centre is cut out: torchvision's `Resize(shorter)` and
    /// `CenterCrop((height, width))`, done as one resize.
    CenterCrop {
        /// Length of the shorter side before the cut; at least the longer side of the size.
        shorter: u32,
    },
}

/// How pixels are computed when an image is resized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResizeFilter {
    /// Weighted by distance, over all pixels that a new pixel covers: Pillow's `BILINEAR`, and torchvision's with
    /// `antialias`. The default.
    #[default]
    Bilinear,
    /// A cubic filter over twice that width: sharper, and about half as fast. Pillow's `BICUBIC`, and torchvision's
    /// with `antialias`. But next to hard edges, where the filter overshoots, a level may differ by about 20. Values
    /// beyond 0 or 255 are cut off between the two passes, and the order of these passes is reversed here.
    Bicubic,
    /// The pixel that contains the centre of the new pixel: `nearest-exact` of PyTorch, `NEAREST_EXACT` of torchvision.
    /// Where that centre lies exactly between two pixels, it is the second, in Pillow's `NEAREST` sometimes the first.
    Nearest,
}

/// The decoder of JPEG files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JpegDecoder {
    /// Ringfeed's own decoders: a fast one for baseline files, which are nearly all files in data sets, and one for
    /// every other kind of file and for damaged files. (On processors for which the fast decoder has no vector code,
    /// usual baseline files go to [`LibjpegTurbo`](Self::LibjpegTurbo), which has it for ARM.) The pixels are those of
    /// libjpeg-turbo, bit for bit, also for files that it loads with a warning: see [`ImageOptions::strict`]. If only a
    /// part of an image is decoded, damage below that part is not noticed, unless markers are wrong. The default.
    #[default]
    Auto,
    /// `libjpeg-turbo-rs`, with the pixels of C's libjpeg-turbo, bit for bit. JPEG has no checksums. Damage inside a
    /// scan is noticed if the data is not a valid code, ends early, or has a marker in the wrong place. It is not
    /// noticed if the data still decodes to some picture, even if data is left over. It refuses all damage that it
    /// notices, and files that it may decode wrongly: CMYK with subsampled components, arithmetic coding, and
    /// progressive files with restart markers.
    LibjpegTurbo,
    /// C's libjpeg-turbo. Needs the feature `turbojpeg`, and cmake and nasm to build. The pixels are those of
    /// [`LibjpegTurbo`](Self::LibjpegTurbo).
    TurboJpeg,
}

impl<'de> Deserialize<'de> for JpegDecoder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*Cow::<str>::deserialize(deserializer)? {
            "auto" => Ok(Self::Auto),
            "libjpeg_turbo" => Ok(Self::LibjpegTurbo),
            "turbo_jpeg" => Ok(Self::TurboJpeg),
            "zune" => Err(D::Error::custom("jpeg = \"zune\" was removed: its pixels were wrong; leave jpeg out")),
            other => Err(D::Error::unknown_variant(other, &["auto", "libjpeg_turbo", "turbo_jpeg"])),
        }
    }
}

/// The form of class labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LabelFormat {
    /// The class index as `i64`, shape `[]`. The default.
    #[default]
    I64,
    /// The class index as `u32`, shape `[]`.
    U32,
    /// An `f32` for each class, 1 at the class index and 0 elsewhere.
    OneHot,
    /// No tensor of labels.
    Off,
}

/// How images are decoded: plain data, with a default for every part.
///
/// # Segmentation maps
///
/// With [`ImageColour::Index`], files are read as maps: the stored value of a pixel, its palette index or grey value,
/// is a class and is never mixed with another. The tensor is a label of shape `[height, width]` and type `u8` (the
/// default), `u16`, `u32`, `i32`, `i64` or `f32`; a value that does not fit is an error. Values are those of
/// `numpy.array(PIL.Image.open(path))`: PNG, GIF and BMP with a palette, PNG, TIFF and PGM with one channel of grey.
/// Files with several channels are refused, and so are JPEG files, because JPEG changes values.
///
/// A map is transformed like the picture that it belongs to, if both draw the same random numbers (see
/// [`geometry`](Self::geometry)) and have the same options otherwise. Resizing takes the pixel that contains the centre
/// of the new one ([`ResizeFilter::Nearest`]), Crops and flips are the same, and a rotation has the same angle and
/// fills with zeros. Operations on colour, including erasing, do not change it.
///
/// In one record, give picture and map the same `geometry`: the map then takes over the picture's operations and fit,
/// unless it has its own. [`Loader::maps`](crate::Loader::maps) adds a folder of maps with the options of the pictures,
/// and matches them by their names.
///
/// Before any operation, a map must have the same size as its picture. If both are stored in one record and share a
/// geometry, another size makes the record bad. Between two files, this is not checked.
///
/// ```
/// use ringfeed::images::{ImageColour, ImageOptions};
///
/// let maps: ImageOptions = toml::from_str(r#"
///     size = [512, 512]
///     colour = "index"
///     dtype = "i64"
///     image_name = "map"
///     augment = [{ kind = "random_resized_crop" }, { kind = "horizontal_flip" }]
/// "#).expect("the example is valid");
/// assert_eq!(maps.colour, ImageColour::Index);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageOptions {
    /// Height and width in pixels that every image is resized to, with the filter [`resize`](Self::resize). `None`
    /// keeps each image's own size: a batch is then padded with zeros at the bottom and the right, and has a mask
    /// tensor, `u8 [height, width]`, that is 1 on the image.
    pub size: Option<(u32, u32)>,
    /// How images are fitted to `size`.
    pub fit: CropFit,
    /// How pixels are computed when images are resized; segmentation maps always take the nearest pixel.
    pub resize: ResizeFilter,
    /// `u8` (the default), `f32`, `f16` or `bf16`; in the latter three, values stay 0 to 255 unless a normaliser scales
    /// them.
    pub dtype: DType,
    /// Order of the dimensions.
    pub order: PixelOrder,
    /// Channels.
    pub colour: ImageColour,
    /// Random operations, in this order. Default: none, as for evaluation. In settings a list, or the name of an
    /// [`AugmentRecipe`](crate::images::AugmentRecipe).
    #[serde(deserialize_with = "super::augment::named")]
    pub augment: Vec<ImageAugment>,
    /// Images of one sample with the same geometry name use the same random numbers: they are cropped, flipped and
    /// rotated in the same way. Without a name, each image of a source has its own random numbers; those of the first
    /// image are the same in every source of a loader.
    pub geometry: Option<String>,
    /// The class names in index order, the same list for training and test data. `None` uses the names that are found,
    /// sorted. A class that is found but not listed is an error; one that is listed but not found is not.
    pub classes: Option<Vec<String>>,
    /// The form of class labels.
    pub labels: LabelFormat,
    /// Name of the image tensor. Its mask has the suffix `_mask`.
    pub image_name: String,
    /// Name of the label tensor.
    pub label_name: String,
    /// Maximum number of pixels of an image, checked in its header before anything is decoded. Default: 2^27, enough
    /// for photographs of 100 megapixels. Decoding a pixel takes 3 bytes of memory in PNG, BMP and PNM files. Other
    /// files take more. GIF files take 1 more. JPEG files take up to 3 more for the samples that are stored (1.5 with
    /// halved colours), and about 2 for each of them if there are several scans. WebP files take 2.5 (lossy, without
    /// alpha), 5 (lossless) or 11 more. TIFF files take the uncompressed size of a pixel more, and twice that size if
    /// it is not RGB or CMYK of 8 bits. A part that is cut from a WebP or a TIFF, unless this has JPEG data, takes 3
    /// more. Together with the memory for resizing and rotating, this counts against the memory budget, before anything
    /// is decoded.
    pub max_pixels: u64,
    /// Maximum number of bytes of a file, checked before it is read.
    pub max_file_bytes: u64,
    /// The decoder of JPEG files.
    pub jpeg: JpegDecoder,
    /// Whether JPEG files that libjpeg loads with a warning are refused. Such files have stray bytes before a marker,
    /// restart markers out of order, or data that is damaged or ends early although the end of the image is marked. If
    /// not (the default), such images have libjpeg's pixels and are counted in
    /// [`Stats::damage`](crate::stats::Stats::damage). The decoders [`LibjpegTurbo`](JpegDecoder::LibjpegTurbo) and
    /// [`TurboJpeg`](JpegDecoder::TurboJpeg) always refuse them, and so does shrinking. A file that is cut off is
    /// always refused.
    pub strict: bool,
    /// Whether a JPEG may be shrunk to a half, a quarter or an eighth while it is decoded, as long as it keeps at least
    /// the pixels that `size` needs. This is faster for large images, but pixels differ from those of a full decode by
    /// a few levels. Needs the feature `turbojpeg` and the decoder `Auto` or `TurboJpeg`.
    pub dct_scaling: bool,
    /// Maximum number of bytes of memory for an index of baseline JPEG files: about 600 for a file of 500 x 400 pixels
    /// (4:2:0), 10 for every 256 x 16. With the index, a part of a file that was decoded before, such as a random crop
    /// in a later epoch, is decoded without reading all data above it and to its left. All images of a loader share the
    /// index. It counts against the memory budget. If the memory is needed for anything else, the index releases all of
    /// it, and from then on takes at most half as much. It is kept as long as the budget, and used by
    /// [`JpegDecoder::Auto`] on processors with AVX2. Pixels and errors are the same. Default: 2^28, enough for 400,000
    /// files of that size. With 0, there is no index.
    pub jpeg_index_bytes: u64,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            size: None,
            fit: CropFit::Stretch,
            resize: ResizeFilter::Bilinear,
            dtype: DType::U8,
            order: PixelOrder::Nchw,
            colour: ImageColour::Rgb,
            augment: Vec::new(),
            geometry: None,
            classes: None,
            labels: LabelFormat::I64,
            image_name: "image".to_owned(),
            label_name: "label".to_owned(),
            max_pixels: MAX_PIXELS,
            max_file_bytes: 256 << 20,
            jpeg: JpegDecoder::Auto,
            strict: false,
            dct_scaling: false,
            jpeg_index_bytes: 1 << 28,
        }
    }
}

impl ImageOptions {
    /// The key of everything random for an image of a sample with this key.
    #[cfg(feature = "images")]
    pub(crate) fn key(&self, sample: RandomKey) -> RandomKey {
        match &self.geometry {
            None => sample,
            Some(name) => sample.with(name.bytes().fold(GEOMETRY, |hash, byte| mix(hash ^ u64::from(byte)))),
        }
    }

    /// Everything that is wrong with these options, each with its key; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !cfg!(feature = "images") {
            faults.push(NO_DECODERS.to_owned());
        }
        if self.jpeg == JpegDecoder::TurboJpeg && !cfg!(feature = "turbojpeg") {
            faults.push("jpeg: turbo_jpeg needs a build with the feature `turbojpeg`".to_owned());
        }
        if self.dct_scaling && self.jpeg != JpegDecoder::LibjpegTurbo && !cfg!(feature = "turbojpeg") {
            faults.push("dct_scaling: it needs a build with the feature `turbojpeg`".to_owned());
        }
        faults.extend(self.value_faults());
        faults
    }

    /// The same, for any build.
    pub(crate) fn value_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.colour == ImageColour::Index {
            if !matches!(self.dtype, DType::U8 | DType::U16 | DType::U32 | DType::I32 | DType::I64 | DType::F32) {
                faults.push(format!("dtype: {}; maps of indices are u8, u16, u32, i32, i64 or f32", self.dtype));
            }
        } else if !matches!(self.dtype, DType::U8 | DType::F16 | DType::Bf16 | DType::F32) {
            faults.push(format!("dtype: {}; images are u8, f32, f16 or bf16", self.dtype));
        }
        match (self.size, self.fit) {
            (Some((height, width)), _) if height == 0 || width == 0 => {
                faults.push(format!("size: {height} x {width} has no pixels; give a size of at least 1 x 1"));
            }
            (Some((height, width)), _) if u64::from(height) * u64::from(width) > self.max_pixels => {
                faults.push(format!("size: {height} x {width} exceeds max_pixels = {}", self.max_pixels));
            }
            (Some((height, width)), _) if height.max(width) > MAX_SIDE => {
                faults.push(format!("size: {height} x {width}; a side has {MAX_SIDE} pixels at most"));
            }
            (Some((height, width)), CropFit::CenterCrop { shorter }) if shorter < height.max(width) => {
                faults.push(format!("fit.center_crop.shorter: {shorter} can't hold {height} x {width}; enlarge it"));
            }
            (None, CropFit::CenterCrop { .. }) => faults.push("fit: center_crop needs a size to cut".to_owned()),
            _ => {}
        }
        augment_faults(self, &mut faults);
        if self.dct_scaling && self.jpeg == JpegDecoder::LibjpegTurbo {
            faults.push("dct_scaling: it needs the JPEG decoder auto or turbo_jpeg".to_owned());
        }
        if let Some(classes) = &self.classes {
            let mut sorted: Vec<&String> = classes.iter().collect();
            sorted.sort();
            for twice in sorted.windows(2).filter(|pair| pair[0] == pair[1]) {
                faults.push(format!("classes: {:?} is listed twice", twice[0]));
            }
        }
        faults
    }
}

/// Everything that is wrong with the operations of `options`.
fn augment_faults(options: &ImageOptions, faults: &mut Vec<String>) {
    faults.extend(list_faults("augment", &options.augment));
    for (index, operation) in options.augment.iter().enumerate() {
        let mut fault = |fault: String| faults.push(format!("augment[{index}]: {fault}"));
        if options.colour == ImageColour::Index && matches!(operation, ImageAugment::AugMix { .. }) {
            fault("aug_mix: a map of indices can't be mixed; leave it out".to_owned());
        }
        if operation.is_before_decoding() {
            let name = operation.name();
            if options.size.is_none() {
                fault(format!("{name} needs a size to resize to"));
            }
            if options.fit != CropFit::Stretch {
                fault(format!("{name} and fit = center_crop both choose a part; leave one of them out"));
            }
        }
    }
}

/// Everything that is wrong with a list of operations, whatever images they change.
pub(crate) fn list_faults(key: &str, operations: &[ImageAugment]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let mut fault = |fault: String| faults.push(format!("{key}[{index}]: {fault}"));
        operation.faults(&mut fault);
        if operation.is_before_decoding() && index > 0 {
            let message = "it must be the first operation, and only once: the box is cut before anything else is done";
            fault(format!("{}: {message}", operation.name()));
        }
    }
    faults
}
