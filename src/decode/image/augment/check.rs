//! The names of operations, the keys of their random numbers, and the faults of their settings.

use super::ImageAugment;
use crate::decode::image::stored::MAX_SIDE;

/// Most taps of a filter.
pub(in crate::decode::image) const MAX_KERNEL: u32 = 255;

/// Most operations in one chain of a policy.
const MAX_STEPS: u32 = 64;

/// Most images with which one image is mixed.
pub(in crate::decode::image) const MAX_WIDTH: u32 = 16;

/// How an operation moves pixels, and so the sizes that a picture and its map may have to stay on top of each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moves {
    Nothing,
    /// By shares of width and height: any two sizes.
    ByShares,
    /// By angles, or by one scale for both sides: sizes of the same proportions.
    ByAngles,
    /// By a number of pixels: the same size.
    ByPixels,
}

impl ImageAugment {
    /// The number for its random key. These numbers never change: stored results depend on them.
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::RandomResizedCrop { .. } => 1,
            Self::HorizontalFlip { .. } => 2,
            Self::VerticalFlip { .. } => 3,
            Self::ColourJitter { .. } => 4,
            Self::RandomErasing { .. } => 5,
            Self::Rotation { .. } => 6,
            Self::RandomCrop { .. } => 7,
            Self::Affine { .. } => 8,
            Self::GaussianBlur { .. } => 9,
            Self::RandomGrey { .. } => 10,
            Self::Solarise { .. } => 11,
            Self::Posterise { .. } => 12,
            Self::Equalise { .. } => 13,
            Self::Autocontrast { .. } => 14,
            Self::Invert { .. } => 15,
            Self::Sharpness { .. } => 16,
            Self::RandAugment { .. } => 17,
            Self::TrivialAugment { .. } => 18,
            Self::AutoAugment { .. } => 19,
            Self::AugMix { .. } => 20,
            Self::ScaleJitter { .. } => 21,
        }
    }

    /// Its probability, if that is a setting.
    fn probability(&self) -> Option<f64> {
        match *self {
            Self::HorizontalFlip { probability }
            | Self::VerticalFlip { probability }
            | Self::ColourJitter { probability, .. }
            | Self::RandomErasing { probability, .. }
            | Self::GaussianBlur { probability, .. }
            | Self::RandomGrey { probability }
            | Self::Solarise { probability, .. }
            | Self::Posterise { probability, .. }
            | Self::Equalise { probability }
            | Self::Autocontrast { probability }
            | Self::Invert { probability }
            | Self::Sharpness { probability, .. } => Some(probability),
            Self::RandomResizedCrop { .. } | Self::ScaleJitter { .. } | Self::Rotation { .. } => None,
            Self::RandomCrop { .. } | Self::Affine { .. } => None,
            Self::RandAugment { .. } | Self::TrivialAugment { .. } | Self::AutoAugment { .. } | Self::AugMix { .. } => {
                None
            }
        }
    }

    /// Reports all of its faults.
    pub(in crate::decode::image) fn faults(&self, tell: &mut impl FnMut(String)) {
        let mut fault = |fault: &str| tell(format!("{}: {fault}", self.name()));
        if let Some(probability) = self.probability().filter(|probability| !(0.0..=1.0).contains(probability)) {
            fault(&format!("a probability of {probability}; it is between 0 and 1"));
        }
        match *self {
            Self::RandomResizedCrop { scale, ratio } | Self::RandomErasing { scale, ratio, .. } => {
                check_box(scale, ratio, &mut fault);
            }
            Self::ColourJitter { brightness, contrast, saturation, hue, .. } => {
                for (name, value) in [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)] {
                    if !(0.0..=1e6).contains(&value) {
                        fault(&format!("{name} = {value}; it is 0 or more"));
                    }
                }
                if !(0.0..=0.5).contains(&hue) {
                    fault(&format!("hue = {hue}; it is between 0 and 0.5"));
                }
            }
            Self::ScaleJitter { scale, .. } => check_factors(scale, &mut fault),
            Self::Rotation { degrees, .. } => check_degrees("degrees", degrees, 360.0, &mut fault),
            Self::RandomCrop { padding, .. } => {
                if padding > MAX_SIDE {
                    fault(&format!("padding = {padding}; it is at most {MAX_SIDE} pixels"));
                }
            }
            Self::Affine { degrees, translate, scale, shear, .. } => {
                check_degrees("degrees", degrees, 360.0, &mut fault);
                check_degrees("shear", shear.0, 89.0, &mut fault);
                check_degrees("shear", shear.1, 89.0, &mut fault);
                if !(0.0..=1.0).contains(&translate.0) || !(0.0..=1.0).contains(&translate.1) {
                    let (x, y) = translate;
                    fault(&format!("translate = [{x}, {y}]; shares of width and height are between 0 and 1"));
                }
                check_factors(scale, &mut fault);
            }
            Self::GaussianBlur { kernel, sigma, .. } => {
                if let Some(kernel) = kernel.filter(|kernel| kernel % 2 == 0 || *kernel > MAX_KERNEL) {
                    fault(&format!("kernel = {kernel}; it is an odd number of pixels, at most {MAX_KERNEL}"));
                }
                if !(0.0 < sigma.0 && sigma.0 <= sigma.1 && sigma.1 <= 1e3) {
                    fault(&format!("a sigma from {} to {}; deviations rise from above 0 pixels", sigma.0, sigma.1));
                }
            }
            Self::Posterise { bits, .. } => {
                if !(1..=8).contains(&bits) {
                    fault(&format!("bits = {bits}; 1 to 8 of them stay"));
                }
            }
            Self::Sharpness { factor, .. } => {
                if !(0.0..=1e6).contains(&factor) {
                    fault(&format!("factor = {factor}; it is 0 or more"));
                }
            }
            Self::RandAugment { count, magnitude, bins, .. } => {
                if count > MAX_STEPS {
                    fault(&format!("count = {count}; it is at most {MAX_STEPS}"));
                }
                check_bins(bins, &mut fault);
                if magnitude >= bins {
                    fault(&format!("magnitude = {magnitude}; of {bins} magnitudes, the last is {}", bins.max(1) - 1));
                }
            }
            Self::TrivialAugment { bins, .. } => check_bins(bins, &mut fault),
            Self::AugMix { severity, width, depth, alpha, .. } => {
                if !(1..=10).contains(&severity) {
                    fault(&format!("severity = {severity}; it is 1 to 10"));
                }
                if !(1..=MAX_WIDTH).contains(&width) {
                    fault(&format!("width = {width}; it is 1 to {MAX_WIDTH}"));
                }
                if let Some(depth) = depth.filter(|depth| !(1..=MAX_STEPS).contains(depth)) {
                    fault(&format!("depth = {depth}; it is 1 to {MAX_STEPS}, or left out"));
                }
                if !(1e-3..=1e6).contains(&alpha) {
                    fault(&format!("alpha = {alpha}; it is 0.001 to a million"));
                }
            }
            Self::AutoAugment { .. }
            | Self::HorizontalFlip { .. }
            | Self::VerticalFlip { .. }
            | Self::RandomGrey { .. }
            | Self::Solarise { .. }
            | Self::Equalise { .. }
            | Self::Autocontrast { .. }
            | Self::Invert { .. } => {}
        }
    }

    /// How it moves the pixels of an image.
    pub(crate) fn moves(&self) -> Moves {
        match self {
            Self::RandomResizedCrop { .. } | Self::HorizontalFlip { .. } | Self::VerticalFlip { .. } => Moves::ByShares,
            Self::ScaleJitter { .. } | Self::Rotation { .. } | Self::Affine { .. } => Moves::ByAngles,
            Self::RandAugment { .. } | Self::AutoAugment { .. } | Self::AugMix { .. } => Moves::ByAngles,
            Self::RandomCrop { .. } | Self::TrivialAugment { .. } => Moves::ByPixels,
            Self::ColourJitter { .. }
            | Self::RandomErasing { .. }
            | Self::GaussianBlur { .. }
            | Self::RandomGrey { .. }
            | Self::Solarise { .. }
            | Self::Posterise { .. }
            | Self::Equalise { .. }
            | Self::Autocontrast { .. }
            | Self::Invert { .. }
            | Self::Sharpness { .. } => Moves::Nothing,
        }
    }

    /// Whether it only chooses the part of the picture that is decoded.
    pub(in crate::decode::image) fn is_before_decoding(&self) -> bool {
        matches!(self, Self::RandomResizedCrop { .. } | Self::ScaleJitter { .. })
    }

    /// Its name in settings.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::RandomResizedCrop { .. } => "random_resized_crop",
            Self::ScaleJitter { .. } => "scale_jitter",
            Self::HorizontalFlip { .. } => "horizontal_flip",
            Self::VerticalFlip { .. } => "vertical_flip",
            Self::ColourJitter { .. } => "colour_jitter",
            Self::RandomErasing { .. } => "random_erasing",
            Self::Rotation { .. } => "rotation",
            Self::RandomCrop { .. } => "random_crop",
            Self::Affine { .. } => "affine",
            Self::GaussianBlur { .. } => "gaussian_blur",
            Self::RandomGrey { .. } => "random_grey",
            Self::Solarise { .. } => "solarise",
            Self::Posterise { .. } => "posterise",
            Self::Equalise { .. } => "equalise",
            Self::Autocontrast { .. } => "autocontrast",
            Self::Invert { .. } => "invert",
            Self::Sharpness { .. } => "sharpness",
            Self::RandAugment { .. } => "rand_augment",
            Self::TrivialAugment { .. } => "trivial_augment",
            Self::AutoAugment { .. } => "auto_augment",
            Self::AugMix { .. } => "aug_mix",
        }
    }
}

fn check_box(scale: (f64, f64), ratio: (f64, f64), fault: &mut impl FnMut(&str)) {
    if !(0.0 < scale.0 && scale.0 <= scale.1 && scale.1 <= 1.0) {
        fault(&format!(
            "a scale from {} to {}; give two shares of the area, the smaller first, above 0 and at most 1",
            scale.0, scale.1
        ));
    }
    if !(0.0 < ratio.0 && ratio.0 <= ratio.1 && ratio.1.is_finite()) {
        fault(&format!("a ratio from {} to {}; give two ratios above 0, the smaller first", ratio.0, ratio.1));
    }
}

fn check_factors(scale: (f64, f64), fault: &mut impl FnMut(&str)) {
    if !(1e-3 <= scale.0 && scale.0 <= scale.1 && scale.1 <= 1e3) {
        fault(&format!("a scale from {} to {}; factors rise from 0.001 up to 1000", scale.0, scale.1));
    }
}

fn check_bins(bins: u32, fault: &mut impl FnMut(&str)) {
    if !(2..=1 << 16).contains(&bins) {
        fault(&format!("bins = {bins}; there are 2 to 65536"));
    }
}

fn check_degrees(name: &str, degrees: f64, most: f64, fault: &mut impl FnMut(&str)) {
    if !(0.0..=most).contains(&degrees) {
        fault(&format!("{name} = {degrees}; they are between 0 and {most}"));
    }
}
