//! Moving pixels by a matrix or a shift: Pillow's affine transform.

use super::augment::{Edge, Interpolation};
use super::rotate::between;

/// An affine transform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Warp {
    /// Where a pixel comes from: `x = m[0] x' + m[1] y' + m[2]`, `y = m[3] x' + m[4] y' + m[5]`, with the origin in the
    /// upper left corner of the picture.
    pub(super) inverse: [f64; 6],
    pub(super) interpolation: Interpolation,
    pub(super) fill: [u8; 3],
}

impl Warp {
    /// torchvision's `_get_inverse_affine_matrix`: degrees clockwise, pixels, factor, degrees along x and y.
    pub(super) fn inverse_of(
        (middle_x, middle_y): (f64, f64),
        degrees: f64,
        (x, y): (f64, f64),
        scale: f64,
        shear: (f64, f64),
    ) -> [f64; 6] {
        let (turn, shear_x, shear_y) = (degrees.to_radians(), shear.0.to_radians(), shear.1.to_radians());
        let (cos, tan) = (shear_y.cos(), shear_x.tan());
        let a = (turn - shear_y).cos() / cos;
        let b = -(a * tan + turn.sin());
        let c = (turn - shear_y).sin() / cos;
        let d = turn.cos() - c * tan;
        let [a, b, c, d] = [d, -b, -c, a].map(|value| value / scale);
        let from_x = middle_x - a * (middle_x + x) - b * (middle_y + y);
        let from_y = middle_y - c * (middle_x + x) - d * (middle_y + y);
        [a, b, from_x, c, d, from_y]
    }

    /// Pillow's `rotate`: degrees counter-clockwise.
    pub(super) fn inverse_of_turn((middle_x, middle_y): (f64, f64), degrees: f64) -> [f64; 6] {
        let (sin, cos) = (-degrees.rem_euclid(360.0).to_radians()).sin_cos();
        // Rounded to 15 digits, so that quarter turns are exact.
        let [sin, cos] = [sin, cos].map(|value| (value * 1e15).round() / 1e15);
        let from_x = cos * -middle_x + sin * -middle_y + middle_x;
        let from_y = -sin * -middle_x + cos * -middle_y + middle_y;
        [cos, sin, from_x, -sin, cos, from_y]
    }

    /// Takes the RGB pixels `from` to `into`.
    pub(super) fn apply(&self, from: &[u8], size: (usize, usize), into: &mut [u8]) {
        let (from, _) = from.as_chunks::<3>();
        let (into, _) = into.as_chunks_mut::<3>();
        match self.interpolation {
            Interpolation::Nearest => self.nearest(from, size, self.fill, into),
            Interpolation::Bilinear => {
                let [a, b, c, d, e, f] = self.inverse;
                let (width, height) = (size.0 as f64, size.1 as f64);
                for (y, row) in into.chunks_exact_mut(size.0).enumerate() {
                    for (x, pixel) in row.iter_mut().enumerate() {
                        let (x, y) = (x as f64 + 0.5, y as f64 + 0.5);
                        let (was_x, was_y) = (a * x + b * y + c, d * x + e * y + f);
                        let inside = (0.0..width).contains(&was_x) && (0.0..height).contains(&was_y);
                        *pixel = if inside { between(from, size, was_x - 0.5, was_y - 0.5) } else { self.fill };
                    }
                }
            }
        }
    }

    /// The same with the nearest of pixels of any kind, and `fill` from outside: in steps of 1/65536 of a pixel, as
    /// Pillow.
    pub(super) fn nearest<P: Copy>(&self, from: &[P], (width, height): (usize, usize), fill: P, into: &mut [P]) {
        let [a, b, c, d, e, f] = self.inverse;
        if b == 0.0 && d == 0.0 {
            // Without a turn, Pillow adds up steps of full precision.
            let steps = |start: f64, step: f64| std::iter::successors(Some(start), move |at| Some(at + step));
            let inside = |at: f64, length: usize| (at >= 0.0 && (at as usize) < length).then_some(at as usize);
            for (row, was_y) in into.chunks_exact_mut(width).zip(steps(f + e * 0.5, e)) {
                let was_row = inside(was_y, height).map(|y| &from[y * width..][..width]);
                for (pixel, was_x) in row.iter_mut().zip(steps(c + a * 0.5, a)) {
                    *pixel = was_row.and_then(|row| inside(was_x, width).map(|x| row[x])).unwrap_or(fill);
                }
            }
            return;
        }
        let fixed = |value: f64| (value * 65536.0 + 0.5).floor() as i64;
        let (mut row_x, mut row_y) = (fixed(c + a * 0.5 + b * 0.5), fixed(f + d * 0.5 + e * 0.5));
        let (a, b, d, e) = (fixed(a), fixed(b), fixed(d), fixed(e));
        for row in into.chunks_exact_mut(width) {
            let (mut was_x, mut was_y) = (row_x, row_y);
            for pixel in row {
                let (x, y) = (was_x >> 16, was_y >> 16);
                let inside = (0..width as i64).contains(&x) && (0..height as i64).contains(&y);
                *pixel = if inside { from[y as usize * width + x as usize] } else { fill };
                (was_x, was_y) = (was_x + a, was_y + d);
            }
            (row_x, row_y) = (row_x + b, row_y + e);
        }
    }
}

/// A picture cut out of itself, padded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shift {
    /// Where the new upper left corner lies in the old picture.
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) edge: Edge,
    pub(super) fill: [u8; 3],
}

impl Shift {
    pub(super) fn apply<P: Copy>(&self, from: &[P], (width, height): (usize, usize), fill: P, into: &mut [P]) {
        // What lies in the old picture goes row by row, the rest pixel by pixel.
        let inside = (-self.x).clamp(0, width as i64) as usize..(width as i64 - self.x).clamp(0, width as i64) as usize;
        for (y, row) in into.chunks_exact_mut(width).enumerate() {
            let Some(was_y) = self.edge.place(y as i64 + self.y, height) else {
                row.fill(fill);
                continue;
            };
            let was = &from[was_y * width..][..width];
            for x in (0..inside.start).chain(inside.end.max(inside.start)..width) {
                row[x] = self.edge.place(x as i64 + self.x, width).map_or(fill, |x| was[x]);
            }
            if !inside.is_empty() {
                let start = (inside.start as i64 + self.x) as usize;
                row[inside.clone()].copy_from_slice(&was[start..][..inside.len()]);
            }
        }
    }
}
