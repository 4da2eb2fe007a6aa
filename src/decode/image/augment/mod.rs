pub(super) mod check;
mod constructors;
mod recipe;

use serde::{Deserialize, Serialize};

use crate::random::RandomKey;
pub(crate) use check::Moves;
pub use constructors::{
    aug_mix, auto_augment, colour_jitter, gaussian_blur, horizontal_flip, rand_augment, random_crop, random_erasing,
    random_resized_crop, scale_jitter, trivial_augment, vertical_flip,
};
pub use recipe::AugmentRecipe;
pub(crate) use recipe::{is_operation, named};

/// One random operation on the pixels of an image, as plain data. Parameters that are left out have torchvision's
/// defaults.
///
/// An image goes through the operations of [`ImageOptions::augment`](crate::images::ImageOptions::augment) in the order
/// of the list, as 8-bit RGB and before anything is normalised. Each operation draws its random numbers with its own
/// key, made of seed, epoch, sample, kind of operation and its position among those of the same kind. So a sample of an
/// epoch is the same picture for any number of workers, any order or shard, and after a restart. Adding an operation
/// does not change the random numbers of the others. The first images of several sources of one loader draw the same
/// numbers, and so do images with the same [`geometry`](crate::images::ImageOptions::geometry). With the same
/// operations, a picture and its segmentation map (see [`ImageOptions`](crate::images::ImageOptions)) get the same
/// crops, flips and rotations.
///
/// [`random_resized_crop()`](crate::images::random_resized_crop) and its neighbours make operations with their usual
/// parameters.
///
/// Data is augmented if the list has operations: leave the list empty for evaluation.
///
/// ```
/// use ringfeed::images::{ImageAugment, ImageOptions};
///
/// let options: ImageOptions = toml::from_str(r#"
///     size = [224, 224]
///     augment = [
///         { kind = "random_resized_crop", scale = [0.2, 1.0] },
///         { kind = "horizontal_flip" },
///         { kind = "colour_jitter", brightness = 0.4, saturation = 0.4 },
///     ]
/// "#).expect("the example is valid");
/// assert_eq!(options.augment[1], ImageAugment::HorizontalFlip { probability: 0.5 });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ImageAugment {
    /// Cuts a random box out of the upright image and resizes it to
    /// [`ImageOptions::size`](crate::images::ImageOptions::size): torchvision's `RandomResizedCrop`. It stands first in
    /// the list. The box is drawn before anything is decoded.
    RandomResizedCrop {
        /// The share of the image's area that the box covers: minimum and maximum.
        #[serde(default = "crop_scale")]
        scale: (f64, f64),
        /// The box's width divided by its height: minimum and maximum; uniform in its logarithm.
        #[serde(default = "crop_ratio")]
        ratio: (f64, f64),
    },
    /// Scales the upright image at random, keeps its proportions, and cuts a random box of
    /// [`ImageOptions::size`](crate::images::ImageOptions::size) out of it. If the scaled image is smaller than this,
    /// it is placed at random. These are torchvision's `ScaleJitter` and `RandomCrop` with `pad_if_needed`, as used to
    /// train detectors (large scale jittering; Ghiasi and others, 2021). It stands first in the list. Only what the box
    /// needs is decoded and resized.
    #[doc(alias = "RandomCrop")]
    ScaleJitter {
        /// The scale: minimum and maximum. At 1, the whole image just fits into the result.
        #[serde(default = "jitter_scale")]
        scale: (f64, f64),
        /// Red, green and blue around a smaller image, before normalisation; for a segmentation map, the first number
        /// is the class.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Mirrors left to right: torchvision's `RandomHorizontalFlip`.
    HorizontalFlip {
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Mirrors top to bottom: torchvision's `RandomVerticalFlip`.
    VerticalFlip {
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Changes brightness, contrast, saturation and hue, in random order: torchvision's `ColorJitter` on Pillow images,
    /// to the bit. Those that are 0 are left out.
    ColourJitter {
        /// The factor is uniform between `1 - brightness` (at least 0) and `1 + brightness`; 0 is black, 1 changes
        /// nothing.
        #[serde(default)]
        brightness: f64,
        /// The factor is uniform between `1 - contrast` (at least 0) and `1 + contrast`; 0 is the mean grey everywhere.
        #[serde(default)]
        contrast: f64,
        /// The factor is uniform between `1 - saturation` (at least 0) and `1 + saturation`; 0 is grey.
        #[serde(default)]
        saturation: f64,
        /// The shift is uniform between `-hue` and `hue`; 1 is once around the circle of colours, 0.5 is the maximum.
        #[serde(default)]
        hue: f64,
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Fills a random box with one colour: torchvision's `RandomErasing`.
    RandomErasing {
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
        /// The share of the image's area that the box covers: minimum and maximum.
        #[serde(default = "erasing_scale")]
        scale: (f64, f64),
        /// The box's height divided by its width: minimum and maximum; uniform in its logarithm.
        #[serde(default = "erasing_ratio")]
        ratio: (f64, f64),
        /// Red, green and blue, before normalisation.
        #[serde(default)]
        value: [u8; 3],
    },
    /// Rotates about the centre by a random angle and keeps the size: torchvision's `RandomRotation`. Pixels from
    /// outside of the image are black. Bilinear gives Pillow's pixels; the nearest pixel is found exactly, whereas
    /// Pillow rounds its steps to 1/65536 of a pixel.
    Rotation {
        /// The angle, counter-clockwise, is uniform between `-degrees` and `degrees`.
        degrees: f64,
        /// How values between pixels are computed.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// Pads the image on all sides and cuts out a random box of its old size, as is usual for CIFAR: torchvision's
    /// `RandomCrop` of the image's size with `padding`.
    RandomCrop {
        /// Number of pixels on each side.
        padding: u32,
        /// The pixels from outside of the image.
        #[serde(default)]
        edge: Edge,
        /// Red, green and blue of [`Edge::Constant`], before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Rotates, moves, scales and shears about the centre, and keeps the size: torchvision's `RandomAffine` on Pillow
    /// images, to the bit.
    #[doc(alias = "RandomAffine")]
    Affine {
        /// The angle, clockwise, is uniform between `-degrees` and `degrees`.
        #[serde(default)]
        degrees: f64,
        /// Maximum shift in both directions, as shares of width and height; whole pixels.
        #[serde(default)]
        translate: (f64, f64),
        /// The factor is uniform from the first to the second.
        #[serde(default = "same_scale")]
        scale: (f64, f64),
        /// Maximum shear along x and y, in degrees, in both directions.
        #[serde(default)]
        shear: (f64, f64),
        /// How values between pixels are computed.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of pixels from outside of the image, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Blurs by a Gaussian filter: torchvision's `GaussianBlur`, within one level. The most expensive operation: per
    /// value, it costs as many multiplications as the filter has taps across and down.
    GaussianBlur {
        /// Number of taps of the filter across and down, odd, at most 255. By default a tenth of the shorter side, as
        /// in SimCLR.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kernel: Option<u32>,
        /// The standard deviation in pixels is uniform from the first to the second.
        #[serde(default = "blur_sigma")]
        sigma: (f64, f64),
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Removes the colour and keeps three equal channels: torchvision's `RandomGrayscale`.
    #[doc(alias = "RandomGrayscale")]
    RandomGrey {
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "tenth")]
        probability: f64,
    },
    /// Inverts values at or above a threshold: torchvision's `RandomSolarize`.
    #[doc(alias = "RandomSolarize")]
    #[serde(alias = "solarize")]
    Solarise {
        /// The smallest value that is inverted, 0 to 255.
        #[serde(default = "middle")]
        threshold: u8,
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Keeps only the upper bits of each value: torchvision's `RandomPosterize`.
    #[doc(alias = "RandomPosterize")]
    #[serde(alias = "posterize")]
    Posterise {
        /// Number of bits that are kept, 1 to 8.
        bits: u8,
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Spreads the values of each channel so that all are about equally frequent: torchvision's `RandomEqualize` on
    /// Pillow images.
    #[doc(alias = "RandomEqualize")]
    #[serde(alias = "equalize")]
    Equalise {
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Stretches the values of each channel to all from 0 to 255: torchvision's `RandomAutocontrast` on Pillow images.
    #[doc(alias = "RandomAutocontrast")]
    Autocontrast {
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Subtracts every value from 255: torchvision's `RandomInvert`.
    #[doc(alias = "RandomInvert")]
    Invert {
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Some operations at random, all of one strength: torchvision's `RandAugment` on Pillow images (Cubuk and others,
    /// 2019).
    #[serde(alias = "randaugment")]
    RandAugment {
        /// Number of operations, one after another.
        #[serde(default = "two")]
        count: u32,
        /// The index of the magnitude, from 0.
        #[serde(default = "nine")]
        magnitude: u32,
        /// Number of magnitudes, from no effect to the strongest.
        #[serde(default = "thirty_one")]
        bins: u32,
        /// How values between pixels are computed.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of pixels from outside of the image, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// One operation of a random strength: torchvision's `TrivialAugmentWide` on Pillow images (Müller and Hutter,
    /// 2021).
    #[doc(alias = "TrivialAugmentWide")]
    #[serde(alias = "trivial_augment_wide")]
    TrivialAugment {
        /// Number of magnitudes, from no effect to the strongest.
        #[serde(default = "thirty_one")]
        bins: u32,
        /// How values between pixels are computed.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of pixels from outside of the image, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// One of 25 pairs of operations that were learned on a data set: torchvision's `AutoAugment` on Pillow images
    /// (Cubuk and others, 2018).
    AutoAugment {
        /// The data set.
        #[serde(default)]
        policy: LearnedPolicy,
        /// How values between pixels are computed.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of pixels from outside of the image, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// A weighted sum of the image and of several versions of it that went through operations: torchvision's `AugMix`
    /// (Hendrycks and others, 2019), with the operations on Pillow images. Not for segmentation maps. It needs six
    /// times the memory of the result.
    #[serde(alias = "augmix")]
    AugMix {
        /// The strength, 1 to 10.
        #[serde(default = "three")]
        severity: u32,
        /// Number of images that are added to the image itself, 1 to 16.
        #[serde(default = "three")]
        width: u32,
        /// Number of operations on each of them; by default 1 to 3 at random.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
        /// All parameters of the distributions of the weights; 1 is uniform.
        #[serde(default = "always")]
        alpha: f64,
        /// Whether brightness, saturation, contrast and sharpness are among the operations.
        #[serde(default = "yes")]
        all_operations: bool,
        /// How values between pixels are computed.
        #[serde(default = "bilinear")]
        interpolation: Interpolation,
        /// Red, green and blue of pixels from outside of the image, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Sharpens or smooths: torchvision's `RandomAdjustSharpness` on Pillow images.
    #[doc(alias = "RandomAdjustSharpness")]
    Sharpness {
        /// 0 is smoothed, 1 changes nothing, 2 is twice as sharp.
        factor: f64,
        /// The probability of this operation, from 0 to 1.
        #[serde(default = "half")]
        probability: f64,
    },
}

/// The data set that a policy of [`ImageAugment::AutoAugment`] was learned on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LearnedPolicy {
    /// ImageNet. The default.
    #[default]
    Imagenet,
    /// CIFAR-10.
    Cifar10,
    /// Street View House Numbers.
    Svhn,
}

/// The pixels beyond the edge of an image, for operations that read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Edge {
    /// One colour. The default.
    #[default]
    Constant,
    /// The pixel at the edge.
    Edge,
    /// The image mirrored at its outermost pixels, which are not repeated.
    Reflect,
    /// The image mirrored at its edge: the outermost pixels come twice.
    Symmetric,
}

/// How values between pixels are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Interpolation {
    /// The nearest. The default.
    #[default]
    Nearest,
    /// Weighted by distance among the four nearest.
    Bilinear,
}

fn crop_scale() -> (f64, f64) {
    (0.08, 1.0)
}

fn jitter_scale() -> (f64, f64) {
    (0.1, 2.0)
}

fn crop_ratio() -> (f64, f64) {
    (3.0 / 4.0, 4.0 / 3.0)
}

fn half() -> f64 {
    0.5
}

fn always() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn two() -> u32 {
    2
}

fn three() -> u32 {
    3
}

fn nine() -> u32 {
    9
}

fn thirty_one() -> u32 {
    31
}

fn bilinear() -> Interpolation {
    Interpolation::Bilinear
}

fn tenth() -> f64 {
    0.1
}

fn middle() -> u8 {
    128
}

fn same_scale() -> (f64, f64) {
    (1.0, 1.0)
}

fn blur_sigma() -> (f64, f64) {
    (0.1, 2.0)
}

fn erasing_scale() -> (f64, f64) {
    (0.02, 0.33)
}

fn erasing_ratio() -> (f64, f64) {
    (0.3, 3.3)
}

/// The operations, each with the key that it uses in the sample of `key`.
pub(super) fn keyed(list: &[ImageAugment], key: RandomKey) -> impl Iterator<Item = (&ImageAugment, RandomKey)> {
    list.iter().enumerate().map(move |(index, operation)| {
        let number = operation.number();
        let nth = list[..index].iter().filter(|earlier| earlier.number() == number).count() as u64;
        (operation, key.operation(number, nth))
    })
}

/// Whether an operation of this probability happens.
pub(super) fn happens(probability: f64, key: RandomKey) -> bool {
    key.unit(u64::MAX) < probability
}
