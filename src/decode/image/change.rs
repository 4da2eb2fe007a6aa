use super::augment::Interpolation;
use super::filter::Blur;
use super::stored::Region;
use super::warp::{Shift, Warp};

/// One change to an upright picture, which keeps its size, with everything drawn. Pixels and maps carry out the same ones.
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
