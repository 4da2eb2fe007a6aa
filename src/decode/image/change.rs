use super::augment::Interpolation;
use super::filter::Blur;
use super::stored::Region;
use super::warp::{Shift, Warp};
use crate::random::RandomKey;

/// One change to an upright picture that keeps its size, with all random choices made. Pixels and maps go through the
/// same changes.
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
    /// In turns of the colour circle.
    Hue(f64),
    Grey,
    Sharpness(f32),
    Blur(Blur),
    Invert,
    /// Number of bits that are kept.
    Posterise(u8),
    /// The smallest value that is inverted.
    Solarise(u8),
    Autocontrast,
    Equalise,
    Mix(Mixture),
}

/// How pixels are interpolated in the operations of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pixels {
    pub(super) interpolation: Interpolation,
    pub(super) fill: [u8; 3],
}

/// Pictures that are mixed, each after its own operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mixture {
    pub(super) severity: u32,
    pub(super) width: u32,
    pub(super) depth: Option<u32>,
    pub(super) alpha: f64,
    pub(super) all_operations: bool,
    pub(super) pixels: Pixels,
    pub(super) key: RandomKey,
}
