use serde::{Deserialize, Serialize};

use crate::random::RandomKey;

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

fn crop_ratio() -> (f64, f64) {
    (3.0 / 4.0, 4.0 / 3.0)
}

fn half() -> f64 {
    0.5
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

    /// A horizontal flip of every second image.
    pub fn horizontal_flip() -> Self {
        Self::HorizontalFlip { probability: half() }
    }

    /// A vertical flip of every second image.
    pub fn vertical_flip() -> Self {
        Self::VerticalFlip { probability: half() }
    }

    /// A black box over 2 to 33 % of the area of every second image.
    pub fn random_erasing() -> Self {
        Self::RandomErasing { probability: half(), scale: erasing_scale(), ratio: erasing_ratio(), value: [0; 3] }
    }

    /// The number under which it draws. These never change: stored results depend on them.
    fn number(&self) -> u64 {
        match self {
            Self::RandomResizedCrop { .. } => 1,
            Self::HorizontalFlip { .. } => 2,
            Self::VerticalFlip { .. } => 3,
            Self::ColourJitter { .. } => 4,
            Self::RandomErasing { .. } => 5,
            Self::Rotation { .. } => 6,
        }
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        let mut fault = |fault: &str| faults.push(format!("{}: {fault}", self.name()));
        let share = |share: f64| (0.0..=1.0).contains(&share);
        match *self {
            Self::RandomResizedCrop { scale, ratio } => check_box(scale, ratio, &mut fault),
            Self::HorizontalFlip { probability } | Self::VerticalFlip { probability } => {
                if !share(probability) {
                    fault(&format!("a probability of {probability}; it is between 0 and 1"));
                }
            }
            Self::ColourJitter { brightness, contrast, saturation, hue } => {
                for (name, value) in [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)] {
                    if !(0.0..=1e6).contains(&value) {
                        fault(&format!("{name} = {value}; it is 0 or more"));
                    }
                }
                if !(0.0..=0.5).contains(&hue) {
                    fault(&format!("hue = {hue}; it is between 0 and 0.5"));
                }
            }
            Self::RandomErasing { probability, scale, ratio, .. } => {
                if !share(probability) {
                    fault(&format!("a probability of {probability}; it is between 0 and 1"));
                }
                check_box(scale, ratio, &mut fault);
            }
            Self::Rotation { degrees, .. } => {
                if !(0.0..=360.0).contains(&degrees) {
                    fault(&format!("degrees = {degrees}; they are between 0 and 360"));
                }
            }
        }
    }

    /// What it is called in a configuration.
    fn name(&self) -> &'static str {
        match self {
            Self::RandomResizedCrop { .. } => "random_resized_crop",
            Self::HorizontalFlip { .. } => "horizontal_flip",
            Self::VerticalFlip { .. } => "vertical_flip",
            Self::ColourJitter { .. } => "colour_jitter",
            Self::RandomErasing { .. } => "random_erasing",
            Self::Rotation { .. } => "rotation",
        }
    }
}

fn check_box(scale: (f64, f64), ratio: (f64, f64), fault: &mut impl FnMut(&str)) {
    if !(0.0 < scale.0 && scale.0 <= scale.1 && scale.1 <= 1.0) {
        fault(&format!("a scale from {} to {}; shares of the area rise from above 0 up to 1", scale.0, scale.1));
    }
    if !(0.0 < ratio.0 && ratio.0 <= ratio.1 && ratio.1.is_finite()) {
        fault(&format!("a ratio from {} to {}; ratios rise from above 0", ratio.0, ratio.1));
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
