//! A function for each operation with common parameters.

use super::{
    Edge, ImageAugment, Interpolation, LearnedPolicy, always, bilinear, blur_sigma, crop_ratio, crop_scale,
    erasing_ratio, erasing_scale, half, jitter_scale, nine, thirty_one, three, two, yes,
};

/// A random resized crop: 8 to 100 % of the area, sides of 3:4 to 4:3.
pub fn random_resized_crop() -> ImageAugment {
    ImageAugment::RandomResizedCrop { scale: crop_scale(), ratio: crop_ratio() }
}

/// A scale of 0.1 to 2, in black.
pub fn scale_jitter() -> ImageAugment {
    ImageAugment::ScaleJitter { scale: jitter_scale(), fill: [0; 3] }
}

/// A horizontal flip of every second image.
pub fn horizontal_flip() -> ImageAugment {
    ImageAugment::HorizontalFlip { probability: half() }
}

/// A vertical flip of every second image.
pub fn vertical_flip() -> ImageAugment {
    ImageAugment::VerticalFlip { probability: half() }
}

/// A random crop after black padding of so many pixels.
pub fn random_crop(padding: u32) -> ImageAugment {
    ImageAugment::RandomCrop { padding, edge: Edge::Constant, fill: [0; 3] }
}

/// Brightness, contrast, saturation and hue of every image.
pub fn colour_jitter(brightness: f64, contrast: f64, saturation: f64, hue: f64) -> ImageAugment {
    ImageAugment::ColourJitter { brightness, contrast, saturation, hue, probability: always() }
}

/// A blur of every image by 0.1 to 2 pixels.
pub fn gaussian_blur() -> ImageAugment {
    ImageAugment::GaussianBlur { kernel: None, sigma: blur_sigma(), probability: always() }
}

/// Two operations of magnitude 9 of 30.
pub fn rand_augment() -> ImageAugment {
    let (count, magnitude, bins) = (two(), nine(), thirty_one());
    ImageAugment::RandAugment { count, magnitude, bins, interpolation: Interpolation::Nearest, fill: [0; 3] }
}

/// One operation of any magnitude.
pub fn trivial_augment() -> ImageAugment {
    ImageAugment::TrivialAugment { bins: thirty_one(), interpolation: Interpolation::Nearest, fill: [0; 3] }
}

/// The policy that was learned on this data set.
pub fn auto_augment(policy: LearnedPolicy) -> ImageAugment {
    ImageAugment::AutoAugment { policy, interpolation: Interpolation::Nearest, fill: [0; 3] }
}

/// Three chains of severity 3.
pub fn aug_mix() -> ImageAugment {
    ImageAugment::AugMix {
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
pub fn random_erasing() -> ImageAugment {
    ImageAugment::RandomErasing { probability: half(), scale: erasing_scale(), ratio: erasing_ratio(), value: [0; 3] }
}
