//! What an operation does to one picture, with everything drawn. Pixels, maps and boxes carry the same changes out.

use super::augment::check::MAX_KERNEL;
use super::augment::{Edge, ImageAugment, Interpolation, happens};
use super::boxes::{erase_box, uniform};
use super::colour::Jitter;
use super::filter::Blur;
use super::stored::Region;
use super::warp::{Shift, Warp};
use crate::random::RandomKey;

/// One change to an upright picture, which keeps its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Mirror,
    UpsideDown,
    /// By degrees counter-clockwise.
    Rotate(f64, Interpolation),
    Warp(Warp),
    Shift(Shift),
    Fill(Region, [u8; 3]),
    Brightness(f32),
    Contrast(f32),
    Saturation(f32),
    /// Shares of the circle of colours.
    Hue(f64),
    Grey,
    Sharpness(f32),
    Blur(Blur),
    Invert,
    /// How many bits stay.
    Posterise(u8),
    /// The smallest value that is inverted.
    Solarise(u8),
    Autocontrast,
    Equalise,
}

impl ImageAugment {
    /// Gives the changes that it makes to an upright picture of this width and height, in their order; none if it does not
    /// happen. The crop that is chosen before decoding is none.
    pub(super) fn draw(&self, key: RandomKey, size: (u32, u32), visit: &mut impl FnMut(Change)) {
        let mut maybe = |probability: f64, change: Change| {
            if happens(probability, key) {
                visit(change);
            }
        };
        match *self {
            Self::RandomResizedCrop { .. } => {}
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
        }
    }
}

impl Edge {
    /// The place in a line of `length` that stands for `at`, if a pixel does.
    pub(super) fn place(self, at: i64, length: usize) -> Option<usize> {
        let most = length as i64 - 1;
        let inside = (0..=most).contains(&at);
        let place = match self {
            _ if inside => at,
            Self::Constant => return None,
            Self::Edge => at.clamp(0, most),
            Self::Reflect if most == 0 => 0,
            Self::Reflect => most - (at.rem_euclid(2 * most) - most).abs(),
            Self::Symmetric => {
                let at = at.rem_euclid(2 * (most + 1));
                at.min(2 * most + 1 - at)
            }
        };
        Some(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_an_edge_lies_what_numpy_pads_with() {
        // `numpy.pad(numpy.arange(4), 9, mode)`.
        for (edge, expected) in [
            (Edge::Edge, "0000000000123333333333"),
            (Edge::Reflect, "3210123210123210123210"),
            (Edge::Symmetric, "0012332100123321001233"),
        ] {
            let places: String = (-9..13).map(|at| edge.place(at, 4).unwrap().to_string()).collect();
            assert_eq!(places, expected, "{edge:?}");
        }
        assert_eq!(Edge::Constant.place(-1, 4), None);
        assert_eq!([-2, 0, 3].map(|at| Edge::Reflect.place(at, 1)), [Some(0); 3]);
    }
}
