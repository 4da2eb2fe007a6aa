//! From operations to changes, with random numbers drawn with their keys.

use super::augment::check::MAX_KERNEL;
use super::augment::{ImageAugment, happens};
use super::boxes::{erase_box, uniform};
use super::change::{Change, Mixture, Pixels};
use super::filter::Blur;
use super::policy::{auto_augment, rand_augment, trivial_augment};
use super::warp::{Shift, Warp};
use crate::random::RandomKey;

impl ImageAugment {
    /// Gives the changes to an upright picture of this width and height, in order; none if the operation does not
    /// happen. Choices that are made before decoding are not changes.
    pub(super) fn draw(&self, key: RandomKey, size: (u32, u32), visit: &mut impl FnMut(Change)) {
        let mut maybe = |probability: f64, change: Change| {
            if happens(probability, key) {
                visit(change);
            }
        };
        match *self {
            Self::RandomResizedCrop { .. } | Self::ScaleJitter { .. } => {}
            Self::HorizontalFlip { probability } => maybe(probability, Change::Mirror),
            Self::VerticalFlip { probability } => maybe(probability, Change::UpsideDown),
            Self::ColourJitter { brightness, contrast, saturation, hue, probability } => {
                if happens(probability, key) {
                    Jitter { brightness, contrast, saturation, hue }.draw(key, visit);
                }
            }
            Self::RandomErasing { probability, scale, ratio, value } => {
                if happens(probability, key)
                    && let Some(region) = erase_box(size, scale, ratio, key)
                {
                    visit(Change::Fill(region, value));
                }
            }
            Self::Rotation { degrees, interpolation } => {
                visit(Change::Rotate(uniform((-degrees, degrees), key.unit(0)), interpolation));
            }
            Self::RandomCrop { padding, edge, fill } => {
                let offset = |counter| key.below(counter, 2 * u64::from(padding) + 1) as i64 - i64::from(padding);
                visit(Change::Shift(Shift { x: offset(0), y: offset(1), edge, fill }));
            }
            Self::Affine { degrees, translate, scale, shear, interpolation, fill } => {
                let around = |range: f64, counter| uniform((-range, range), key.unit(counter));
                let moved = |share: f64, side: u32, counter| around(share * f64::from(side), counter).round_ties_even();
                let middle = (f64::from(size.0) * 0.5, f64::from(size.1) * 0.5);
                let translate = (moved(translate.0, size.0, 1), moved(translate.1, size.1, 2));
                let shear = (around(shear.0, 4), around(shear.1, 5));
                let scale = uniform(scale, key.unit(3));
                let inverse = Warp::inverse_of(middle, around(degrees, 0), translate, scale, shear);
                visit(Change::Warp(Warp { inverse, interpolation, fill }));
            }
            Self::GaussianBlur { kernel, sigma, probability } => {
                let kernel = kernel.unwrap_or((size.0.min(size.1) / 10) | 1).min(MAX_KERNEL);
                maybe(
                    probability,
                    Change::Blur(Blur { radius: kernel as usize / 2, sigma: uniform(sigma, key.unit(0)) }),
                );
            }
            Self::RandomGrey { probability } => maybe(probability, Change::Grey),
            Self::Solarise { threshold, probability } => maybe(probability, Change::Solarise(threshold)),
            Self::Posterise { bits, probability } => maybe(probability, Change::Posterise(bits)),
            Self::Equalise { probability } => maybe(probability, Change::Equalise),
            Self::Autocontrast { probability } => maybe(probability, Change::Autocontrast),
            Self::Invert { probability } => maybe(probability, Change::Invert),
            Self::Sharpness { factor, probability } => maybe(probability, Change::Sharpness(factor as f32)),
            Self::RandAugment { count, magnitude, bins, interpolation, fill } => {
                rand_augment((count, magnitude, bins), size, Pixels { interpolation, fill }, key, visit);
            }
            Self::TrivialAugment { bins, interpolation, fill } => {
                trivial_augment(bins, size, Pixels { interpolation, fill }, key, visit);
            }
            Self::AutoAugment { policy, interpolation, fill } => {
                auto_augment(policy, size, Pixels { interpolation, fill }, key, visit);
            }
            Self::AugMix { severity, width, depth, alpha, all_operations, interpolation, fill } => {
                let pixels = Pixels { interpolation, fill };
                visit(Change::Mix(Mixture { severity, width, depth, alpha, all_operations, pixels, key }));
            }
        }
    }
}

/// Half the width of each factor's range; 0 if there is no such change.
struct Jitter {
    brightness: f64,
    contrast: f64,
    saturation: f64,
    hue: f64,
}

impl Jitter {
    /// Draws order and factors under `key`.
    ///
    /// Counters 0 to 3 give the factors of brightness, contrast, saturation and hue, 4 to 6 the order.
    fn draw(&self, key: RandomKey, visit: &mut impl FnMut(Change)) {
        let around_one =
            |range: f64, counter: u64| uniform(((1.0 - range).max(0.0), 1.0 + range), key.unit(counter)) as f32;
        for operation in order(key) {
            match operation {
                0 if self.brightness > 0.0 => visit(Change::Brightness(around_one(self.brightness, 0))),
                1 if self.contrast > 0.0 => visit(Change::Contrast(around_one(self.contrast, 1))),
                2 if self.saturation > 0.0 => visit(Change::Saturation(around_one(self.saturation, 2))),
                3 if self.hue > 0.0 => visit(Change::Hue(uniform((-self.hue, self.hue), key.unit(3)))),
                _ => {}
            }
        }
    }
}

/// The four operations in random order (Fisher-Yates), so that each of the 24 orders is equally likely.
fn order(key: RandomKey) -> [usize; 4] {
    let mut order = [0, 1, 2, 3];
    for last in (1..4).rev() {
        let other = (key.unit(3 + last as u64) * (last + 1) as f64) as usize;
        order.swap(last, other);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for sample in 0..24_000 {
            *counts.entry(order(RandomKey::new(sample))).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        // The standard deviation of each count is 31.
        assert!(counts.values().all(|count| (860..1140).contains(count)), "{counts:?}");
    }
}
