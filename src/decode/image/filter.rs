//! Filters over the neighbours of each pixel: blur and sharpness.

use super::augment::Edge;
use super::augment::check::MAX_KERNEL;
use super::colour::blend;
use super::decoder::resize_buffer;

/// A Gaussian filter, mirrored at the edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Blur {
    /// Taps on each side of the middle.
    pub(super) radius: usize,
    /// Standard deviation in pixels.
    pub(super) sigma: f64,
}

const MAX_RADIUS: usize = MAX_KERNEL as usize / 2;

impl Blur {
    /// Most bytes that it needs in addition to the pixels, for rows of so many pixels.
    pub(super) fn memory(width: u64) -> u64 {
        4 * 3 * (2 * width + 2 * MAX_RADIUS as u64)
    }

    /// The weights of torchvision's `gaussian_blur`.
    fn weights(&self) -> [f32; 2 * MAX_RADIUS + 1] {
        let radius = self.radius.min(MAX_RADIUS);
        let weight = |tap: usize| {
            // exp(-d^2 / (2 sigma^2)), written as torchvision does.
            let x = (tap as f64 - radius as f64) / std::f64::consts::SQRT_2 / self.sigma;
            (-x * x).exp()
        };
        let sum: f64 = (0..=2 * radius).map(weight).sum();
        std::array::from_fn(|tap| if tap <= 2 * radius { (weight(tap) / sum) as f32 } else { 0.0 })
    }

    /// Filters the RGB pixels `from` down and then across, row by row, in the memory of `rows`.
    pub(super) fn apply(&self, from: &[u8], (width, height): (usize, usize), rows: &mut Vec<f32>, into: &mut [u8]) {
        let radius = self.radius.min(MAX_RADIUS);
        let weights = &self.weights()[..=2 * radius];
        let line = 3 * width;
        let (wide, sums) = resize_buffer(rows, 2 * line + 6 * radius).split_at_mut(line + 6 * radius);
        for (y, into) in into.chunks_exact_mut(line).enumerate() {
            let down = &mut wide[3 * radius..][..line];
            down.fill(0.0);
            for (tap, weight) in weights.iter().enumerate() {
                let at = y as i64 + tap as i64 - radius as i64;
                let from = &from[Edge::Reflect.place(at, height).unwrap_or(0) * line..][..line];
                down.iter_mut().zip(from).for_each(|(sum, value)| *sum += weight * f32::from(*value));
            }
            for beside in (0..radius).chain(radius + width..2 * radius + width) {
                let x = Edge::Reflect.place(beside as i64 - radius as i64, width).unwrap_or(0) + radius;
                wide.copy_within(3 * x..3 * x + 3, 3 * beside);
            }
            sums.fill(0.0);
            for (tap, weight) in weights.iter().enumerate() {
                sums.iter_mut().zip(&wide[3 * tap..]).for_each(|(sum, value)| *sum += weight * value);
            }
            // Rounds half to even: beyond 2^23, numbers have no fractions.
            const WHOLE: f32 = 12_582_912.0;
            into.iter_mut().zip(&*sums).for_each(|(into, sum)| *into = (sum + WHOLE - WHOLE) as u8);
        }
    }
}

/// Blends between the smoothed picture (0) and the picture itself (1), or beyond: Pillow's `ImageEnhance.Sharpness`.
pub(super) fn sharpen(from: &[u8], (width, height): (usize, usize), factor: f32, into: &mut [u8]) {
    into.copy_from_slice(&from[..into.len()]);
    if width < 3 || height < 3 {
        return;
    }
    let line = 3 * width;
    for y in 1..height - 1 {
        let row = |y: usize| &from[y * line..][..line];
        let (above, here, below) = (row(y - 1), row(y), row(y + 1));
        for at in 3..line - 3 {
            let three = |row: &[u8]| u32::from(row[at - 3]) + u32::from(row[at]) + u32::from(row[at + 3]);
            let sum = three(above) + three(here) + three(below) + 4 * u32::from(here[at]);
            // Thirteenths, rounded.
            let smooth = (2 * sum + 13) / 26;
            into[y * line + at] = blend(smooth as u8, here[at], factor);
        }
    }
    // At the edges the smoothed picture is the picture itself; blending the two changes nothing.
}
