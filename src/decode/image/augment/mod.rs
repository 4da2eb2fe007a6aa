pub(super) mod check;
mod recipe;

use serde::{Deserialize, Serialize};

use crate::random::RandomKey;
pub use recipe::AugmentRecipe;
pub(crate) use recipe::named;

/// One random operation on the pixels of an image, as plain data. What is left out has torchvision's default.
///
/// An image goes through the operations of [`ImageOptions::augment`](crate::images::ImageOptions::augment) in the order of the list, as 8-bit RGB and before
/// anything is normalised. Each draws its random numbers under a key of its own, made of seed, epoch, sample, kind of
/// operation and its position among those of the same kind. So a sample of an epoch is the same picture whatever the
/// workers, the order, the shard or a restart, and adding an operation changes nothing that the others draw. Several image
/// sources of one loader draw the same numbers: a picture and its segmentation map (see [`ImageOptions`](crate::images::ImageOptions)) get the same
/// crops, flips and rotations.
///
/// There is no switch: data is augmented if operations are listed, so leave the list empty for evaluation.
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
    /// Cuts a random box out of the upright image and resizes it to [`ImageOptions::size`](crate::images::ImageOptions::size): torchvision's
    /// `RandomResizedCrop`. It stands first in the list. The box is drawn before anything is decoded.
    RandomResizedCrop {
        /// Share of the image's area that the box covers, from and to.
        #[serde(default = "crop_scale")]
        scale: (f64, f64),
        /// Width by height of the box, from and to; uniform in its logarithm.
        #[serde(default = "crop_ratio")]
        ratio: (f64, f64),
    },
    /// Scales the upright image at random, keeps its proportions, and cuts a random box of
    /// [`ImageOptions::size`](crate::images::ImageOptions::size) out of it; where it is smaller than that, it is placed at random:
    /// torchvision's `ScaleJitter` and `RandomCrop` with `pad_if_needed`, as detectors are trained (large scale jittering; Ghiasi
    /// and others, 2021). It stands first in the list. Only what the box needs is decoded and resized.
    #[doc(alias = "RandomCrop")]
    ScaleJitter {
        /// The scale, from and to: at 1, all of the image just fits the result.
        #[serde(default = "jitter_scale")]
        scale: (f64, f64),
        /// Red, green and blue around an image that is smaller, before normalisation; of a segmentation map, the first is the
        /// class.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Exchanges left and right: torchvision's `RandomHorizontalFlip`.
    HorizontalFlip {
        /// How often.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Exchanges top and bottom: torchvision's `RandomVerticalFlip`.
    VerticalFlip {
        /// How often.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Changes brightness, contrast, saturation and hue, in random order: torchvision's `ColorJitter` on Pillow images,
    /// to the bit. Those that are 0 are left out.
    ColourJitter {
        /// The factor is uniform between `1 - brightness` (at least 0) and `1 + brightness`; 0 is black, 1 changes nothing.
        #[serde(default)]
        brightness: f64,
        /// The factor is uniform between `1 - contrast` (at least 0) and `1 + contrast`; 0 is the mean grey everywhere.
        #[serde(default)]
        contrast: f64,
        /// The factor is uniform between `1 - saturation` (at least 0) and `1 + saturation`; 0 is grey.
        #[serde(default)]
        saturation: f64,
        /// The shift is uniform between `-hue` and `hue`; 1 is once around the circle of colours, 0.5 the most.
        #[serde(default)]
        hue: f64,
        /// How often.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Fills a random box with one colour: torchvision's `RandomErasing`.
    RandomErasing {
        /// How often.
        #[serde(default = "half")]
        probability: f64,
        /// Share of the image's area that the box covers, from and to.
        #[serde(default = "erasing_scale")]
        scale: (f64, f64),
        /// Height by width of the box, from and to; uniform in its logarithm.
        #[serde(default = "erasing_ratio")]
        ratio: (f64, f64),
        /// Red, green and blue, before normalisation.
        #[serde(default)]
        value: [u8; 3],
    },
    /// Turns about the middle by a random angle and keeps the size: torchvision's `RandomRotation`. What comes from
    /// outside of the image is black. Bilinear gives Pillow's pixels; the nearest pixel is found exactly, where Pillow
    /// rounds its steps to 1/65536 of a pixel.
    Rotation {
        /// The angle, counter-clockwise, is uniform between `-degrees` and `degrees`.
        degrees: f64,
        /// How pixels between pixels are found.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// Pads the image on all sides and cuts a random box of its old size out, as is usual for CIFAR: torchvision's `RandomCrop`
    /// of the image's size with `padding`.
    RandomCrop {
        /// Pixels on each side.
        padding: u32,
        /// What comes in from outside.
        #[serde(default)]
        edge: Edge,
        /// Red, green and blue of [`Edge::Constant`], before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Turns, moves, scales and shears about the middle, and keeps the size: torchvision's `RandomAffine` on Pillow images, to
    /// the bit.
    #[doc(alias = "RandomAffine")]
    Affine {
        /// The angle, clockwise, is uniform between `-degrees` and `degrees`.
        #[serde(default)]
        degrees: f64,
        /// Most shares of width and height that it is moved by, either way; whole pixels.
        #[serde(default)]
        translate: (f64, f64),
        /// The factor is uniform from the first to the second.
        #[serde(default = "same_scale")]
        scale: (f64, f64),
        /// Most degrees that it is sheared by along x and y, either way.
        #[serde(default)]
        shear: (f64, f64),
        /// How pixels between pixels are found.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of what comes in from outside, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Blurs by a Gaussian filter: torchvision's `GaussianBlur`, within one level. It costs as many multiplications per value
    /// as the filter has taps across and down: of all operations the dearest.
    GaussianBlur {
        /// Taps of the filter across and down, an odd number up to 255. By default a tenth of the shorter side, as in SimCLR.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kernel: Option<u32>,
        /// The standard deviation in pixels is uniform from the first to the second.
        #[serde(default = "blur_sigma")]
        sigma: (f64, f64),
        /// How often.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Takes the colour away and keeps three equal channels: torchvision's `RandomGrayscale`.
    #[doc(alias = "RandomGrayscale")]
    RandomGrey {
        /// How often.
        #[serde(default = "tenth")]
        probability: f64,
    },
    /// Inverts what is at or above a threshold: torchvision's `RandomSolarize`.
    #[doc(alias = "RandomSolarize")]
    #[serde(alias = "solarize")]
    Solarise {
        /// The smallest value that is inverted, 0 to 255.
        #[serde(default = "middle")]
        threshold: u8,
        /// How often.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Keeps the upper bits of each value alone: torchvision's `RandomPosterize`.
    #[doc(alias = "RandomPosterize")]
    #[serde(alias = "posterize")]
    Posterise {
        /// How many bits stay, 1 to 8.
        bits: u8,
        /// How often.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Spreads the values of each channel so that all are about equally frequent: torchvision's `RandomEqualize` on Pillow
    /// images.
    #[doc(alias = "RandomEqualize")]
    #[serde(alias = "equalize")]
    Equalise {
        /// How often.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Stretches the values of each channel to all from 0 to 255: torchvision's `RandomAutocontrast` on Pillow images.
    #[doc(alias = "RandomAutocontrast")]
    Autocontrast {
        /// How often.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Subtracts every value from 255: torchvision's `RandomInvert`.
    #[doc(alias = "RandomInvert")]
    Invert {
        /// How often.
        #[serde(default = "half")]
        probability: f64,
    },
    /// Some operations at random, all of one strength: torchvision's `RandAugment` on Pillow images (Cubuk and others, 2019).
    #[serde(alias = "randaugment")]
    RandAugment {
        /// How many operations, one after another.
        #[serde(default = "two")]
        count: u32,
        /// Which of the magnitudes, from 0.
        #[serde(default = "nine")]
        magnitude: u32,
        /// How many magnitudes there are, from none to the most.
        #[serde(default = "thirty_one")]
        bins: u32,
        /// How pixels between pixels are found.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of what comes in from outside, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// One operation of a random strength: torchvision's `TrivialAugmentWide` on Pillow images (Müller and Hutter, 2021).
    #[doc(alias = "TrivialAugmentWide")]
    #[serde(alias = "trivial_augment_wide")]
    TrivialAugment {
        /// How many magnitudes there are, from none to the most.
        #[serde(default = "thirty_one")]
        bins: u32,
        /// How pixels between pixels are found.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of what comes in from outside, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// One of 25 pairs of operations that were learned on a data set: torchvision's `AutoAugment` on Pillow images (Cubuk and
    /// others, 2018).
    AutoAugment {
        /// The data set.
        #[serde(default)]
        policy: LearnedPolicy,
        /// How pixels between pixels are found.
        #[serde(default)]
        interpolation: Interpolation,
        /// Red, green and blue of what comes in from outside, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// A weighted sum of the image and of several that went through operations each: torchvision's `AugMix` (Hendrycks and
    /// others, 2019), whose operations are here those on Pillow images. Not for segmentation maps. It needs six times the
    /// result's memory.
    #[serde(alias = "augmix")]
    AugMix {
        /// How strong, 1 to 10.
        #[serde(default = "three")]
        severity: u32,
        /// How many images are added to the image itself, 1 to 16.
        #[serde(default = "three")]
        width: u32,
        /// Through how many operations each of them goes; by default 1 to 3 at random.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
        /// All parameters of the distributions that weights are drawn from; 1 is evenly.
        #[serde(default = "always")]
        alpha: f64,
        /// Whether brightness, saturation, contrast and sharpness are among the operations.
        #[serde(default = "yes")]
        all_operations: bool,
        /// How pixels between pixels are found.
        #[serde(default = "bilinear")]
        interpolation: Interpolation,
        /// Red, green and blue of what comes in from outside, before normalisation.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Sharpens or smooths: torchvision's `RandomAdjustSharpness` on Pillow images.
    #[doc(alias = "RandomAdjustSharpness")]
    Sharpness {
        /// 0 is smoothed, 1 changes nothing, 2 is twice as sharp.
        factor: f64,
        /// How often.
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

/// What lies beyond the edge of an image, where an operation looks there.
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

/// How pixels between pixels are found.
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

impl ImageAugment {
    /// A random resized crop: 8 to 100 % of the area, sides of 3:4 to 4:3.
    pub fn random_resized_crop() -> Self {
        Self::RandomResizedCrop { scale: crop_scale(), ratio: crop_ratio() }
    }

    /// A scale of 0.1 to 2, in black.
    pub fn scale_jitter() -> Self {
        Self::ScaleJitter { scale: jitter_scale(), fill: [0; 3] }
    }

    /// A horizontal flip of every second image.
    pub fn horizontal_flip() -> Self {
        Self::HorizontalFlip { probability: half() }
    }

    /// A vertical flip of every second image.
    pub fn vertical_flip() -> Self {
        Self::VerticalFlip { probability: half() }
    }

    /// A random crop after black padding of so many pixels.
    pub fn random_crop(padding: u32) -> Self {
        Self::RandomCrop { padding, edge: Edge::Constant, fill: [0; 3] }
    }

    /// Brightness, contrast, saturation and hue of every image.
    pub fn colour_jitter(brightness: f64, contrast: f64, saturation: f64, hue: f64) -> Self {
        Self::ColourJitter { brightness, contrast, saturation, hue, probability: always() }
    }

    /// A blur of every image by 0.1 to 2 pixels.
    pub fn gaussian_blur() -> Self {
        Self::GaussianBlur { kernel: None, sigma: blur_sigma(), probability: always() }
    }

    /// Two operations of magnitude 9 of 30.
    pub fn rand_augment() -> Self {
        let (count, magnitude, bins) = (two(), nine(), thirty_one());
        Self::RandAugment { count, magnitude, bins, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }

    /// One operation of any magnitude.
    pub fn trivial_augment() -> Self {
        Self::TrivialAugment { bins: thirty_one(), interpolation: Interpolation::Nearest, fill: [0; 3] }
    }

    /// The policy learned on this data set.
    pub fn auto_augment(policy: LearnedPolicy) -> Self {
        Self::AutoAugment { policy, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }

    /// Three chains of severity 3.
    pub fn aug_mix() -> Self {
        Self::AugMix {
            severity: three(),
            width: three(),
            depth: None,
            alpha: always(),
            all_operations: yes(),
            interpolation: bilinear(),
            fill: [0; 3],
        }
    }

    /// A black box over 2 to 33 % of the area of every second image.
    pub fn random_erasing() -> Self {
        Self::RandomErasing { probability: half(), scale: erasing_scale(), ratio: erasing_ratio(), value: [0; 3] }
    }
}

/// The operations, each with the key that it draws under in the sample of `key`.
pub(super) fn keyed(list: &[ImageAugment], key: RandomKey) -> impl Iterator<Item = (&ImageAugment, RandomKey)> {
    list.iter().enumerate().map(move |(index, operation)| {
        let number = operation.number();
        let nth = list[..index].iter().filter(|earlier| earlier.number() == number).count() as u64;
        (operation, key.operation(number, nth))
    })
}

/// Whether an operation of this probability is carried out.
pub(super) fn happens(probability: f64, key: RandomKey) -> bool {
    key.unit(u64::MAX) < probability
}
