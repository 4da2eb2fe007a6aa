//! Resampling by windowed sinc interpolation, with the zero crossings, the window and the roll-off of torchaudio's
//! `resample`, and its values up to rounding.
//!
//! Each number is a sum over a few neighbours, so that resampling a part of a sound gives that part of the resampled
//! whole.

use std::f64::consts::PI;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// Zero crossings of the sinc on each side.
const ZEROS: f64 = 6.0;

/// Frequencies are cut off at this share of the highest one that the lower rate has.
const ROLL_OFF: f64 = 0.99;

/// Most weights for a pair of rates, which take 16 MiB; usual rates need some thousands.
const MOST_WEIGHTS: u64 = 1 << 22;

/// Most neighbours that a frame is computed from.
pub(super) const MOST_TAPS: usize = 4096;

/// Number of sums that are computed at the same time.
const LANES: usize = 8;

/// Weights from one rate to another.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// `from` frames of the file become `to` frames of the tensor; the numbers have no common divisor.
    from: u64,
    to: u64,
    /// Number of weights per frame.
    taps: usize,
    /// For each of the `to` frames of a period: the position of its first neighbour, counted from the period's first
    /// frame of the file.
    firsts: Vec<i64>,
    weights: Vec<f32>,
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Kernel {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for rates that are too far apart, or have too small a divisor in common.
    pub(crate) fn new(from: u32, to: u32) -> Result<Self> {
        let divisor = common_divisor(u64::from(from), u64::from(to));
        let (from, to) = (u64::from(from) / divisor, u64::from(to) / divisor);
        let base = from.min(to) as f64 * ROLL_OFF;
        let reach = ZEROS * from as f64 / base;
        let taps = (2.0 * reach) as usize + 1;
        let taps = taps.next_multiple_of(LANES);
        if taps as u64 * to > MOST_WEIGHTS || taps > MOST_TAPS {
            let message = format!(
                "{} frames per second can't become {}: the rates are too far apart, or have no common divisor",
                from * divisor,
                to * divisor
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut firsts = Vec::with_capacity(to as usize);
        let mut weights = Vec::with_capacity(taps * to as usize);
        for phase in 0..to {
            let place = phase as f64 / to as f64;
            let first = ((place * from as f64) - reach).ceil() as i64;
            firsts.push(first);
            weights.extend((0..taps as i64).map(|tap| {
                let t = ((first + tap) as f64 / from as f64 - place) * base;
                if t.abs() >= ZEROS {
                    return 0.0;
                }
                let window = (t * PI / ZEROS / 2.0).cos().powi(2);
                let sinc = if t == 0.0 { 1.0 } else { (t * PI).sin() / (t * PI) };
                (sinc * window * base / from as f64) as f32
            }));
        }
        Ok(Self { from, to, taps, firsts, weights })
    }

    /// How many frames of the tensor this many frames of the file become.
    pub(crate) fn frames_of(&self, frames: u64) -> u64 {
        let frames = (u128::from(frames) * u128::from(self.to)).div_ceil(u128::from(self.from));
        u64::try_from(frames).unwrap_or(u64::MAX)
    }

    /// The position of the first neighbour of a frame of the tensor; negative before the sound begins.
    fn first_of(&self, output: u64) -> i64 {
        let (turn, phase) = (output / self.to, output % self.to);
        (turn * self.from) as i64 + self.firsts[phase as usize]
    }

    /// The frames of a file of `frames` frames from which these frames of the tensor are computed.
    pub(crate) fn inputs(&self, output: &Range<u64>, frames: u64) -> Range<u64> {
        if output.is_empty() {
            return 0..0;
        }
        let Range { start, end } = self.span(output);
        (start.max(0) as u64).min(frames)..(end.max(0) as u64).min(frames)
    }

    /// The same, as if the sound had neither beginning nor end.
    pub(super) fn span(&self, output: &Range<u64>) -> Range<i64> {
        // Later frames may begin before earlier ones only by rounding, which the ceilings remove.
        self.first_of(output.start)..self.first_of(output.end - 1) + self.taps as i64
    }

    /// The least number of frames of the tensor that can be computed from `room` frames of the file; 0 if these are too
    /// few.
    pub(super) fn outputs_in(&self, room: usize) -> u64 {
        let free = (room as u64).saturating_sub(self.taps as u64 + 1);
        free * self.to / self.from
    }

    /// Writes the frames of the tensor from `first` on. `input` are frames of the file, beginning with the first
    /// neighbour, with zeros before and after the sound.
    pub(super) fn write(&self, first: u64, input: &[f32], out: &mut [f32]) {
        let origin = self.first_of(first);
        for (output, out) in (first..).zip(out) {
            let phase = (output % self.to) as usize;
            let start = (self.first_of(output) - origin) as usize;
            let weights = &self.weights[phase * self.taps..(phase + 1) * self.taps];
            *out = dot(weights, &input[start..start + self.taps]);
        }
    }
}

/// The sum of products, in the same order on every machine.
#[inline]
fn dot(weights: &[f32], values: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (weights, values) in weights.as_chunks::<LANES>().0.iter().zip(values.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += weights[lane] * values[lane];
        }
    }
    sums.iter().sum()
}
