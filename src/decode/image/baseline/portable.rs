//! From coefficients to pixels, on any processor. The AVX2 code next to it does the same, step by step.

use super::entropy::{Block, ZIGZAG};

/// Factors of the inverse DCT, in units of 1 / 8192.
pub(crate) mod factors {
    pub(crate) const F_0_298: i16 = 2446;
    pub(crate) const F_0_390: i16 = 3196;
    pub(crate) const F_0_541: i16 = 4433;
    pub(crate) const F_0_765: i16 = 6270;
    pub(crate) const F_0_899: i16 = 7373;
    pub(crate) const F_1_175: i16 = 9633;
    pub(crate) const F_1_501: i16 = 12299;
    pub(crate) const F_1_847: i16 = 15137;
    pub(crate) const F_1_961: i16 = 16069;
    pub(crate) const F_2_053: i16 = 16819;
    pub(crate) const F_2_562: i16 = 20995;
    pub(crate) const F_3_072: i16 = 25172;
    /// Fraction bits of the factors.
    pub(crate) const BITS: u32 = 13;
    /// Fraction bits that are kept between columns and rows.
    pub(crate) const KEPT: u32 = 2;
}

use factors::*;

/// Largest coefficient after multiplication with its step: several times the largest one of any picture of 8 bits. Sums
/// of four times two of them fit 16 bits.
const MAX_COEFFICIENT: i16 = 8191;

/// Largest number between columns and rows, of which two fit 16 bits. Beyond this, decoders differ in where they wrap
/// or saturate; up to it, all compute the same.
pub(super) const MAX_BETWEEN: i16 = 16383;

/// Quantisation of a component, row by row as in a [`Block`].
#[derive(Clone, Copy)]
pub(crate) struct Quantisation {
    /// The factors of the coefficients.
    pub(crate) steps: [i16; 64],
    /// The largest coefficients that are accepted.
    pub(crate) limits: [i16; 64],
}

impl Quantisation {
    /// From the file's table, in the order of the zigzag.
    pub(super) fn new(table: &[u8; 64]) -> Self {
        Self::of(table.map(i16::from))
    }

    /// As [`Quantisation::new`], for steps of 16 bits. For a step below zero (in libjpeg, steps wrap), the limit is 0.
    pub(crate) fn of(table: [i16; 64]) -> Self {
        let mut quantisation = Self { steps: [0; 64], limits: [0; 64] };
        for (step, at) in table.into_iter().zip(ZIGZAG) {
            quantisation.steps[usize::from(at)] = step;
            quantisation.limits[usize::from(at)] = if step < 0 { 0 } else { MAX_COEFFICIENT / step.max(1) };
        }
        quantisation
    }
}

/// Turns each block of a row of blocks into 8 x 8 samples: the first one at the start of `into`, each 8 columns after
/// the previous one, with `stride` between rows. May write up to 8 more columns. False if a number exceeds its limit.
pub(super) fn inverse_dct(blocks: &[Block], quantisation: &Quantisation, into: &mut [u8], stride: usize) -> bool {
    let Quantisation { steps, limits } = quantisation;
    for (x, block) in blocks.iter().enumerate() {
        let is_beyond = |any: bool, (value, limit): (&i16, &i16)| any | (i32::from(*value).abs() > i32::from(*limit));
        if block.iter().zip(limits).fold(false, is_beyond) {
            return false;
        }
        let rows =
            std::array::from_fn(|y| std::array::from_fn(|x| i32::from(block[8 * y + x]) * i32::from(steps[8 * y + x])));
        let rows = one_dimension::<{ BITS - KEPT }>(&rows);
        if rows.as_flattened().iter().fold(false, |any, value| any | (value.abs() > i32::from(MAX_BETWEEN))) {
            return false;
        }
        let columns = std::array::from_fn(|x| std::array::from_fn(|y| rows[y][x]));
        // The sum over both dimensions is 8 times too large.
        let columns = one_dimension::<{ BITS + KEPT + 3 }>(&columns);
        for y in 0..8 {
            let row: [u8; 8] = std::array::from_fn(|x| (columns[x][y].clamp(-128, 127) + 128) as u8);
            into[y * stride + 8 * x..][..8].copy_from_slice(&row);
        }
    }
    true
}

/// The inverse DCT by Loeffler, Ligtenberg and Moschytz, as libjpeg's "islow" computes it: of the first numbers of all
/// eight rows, then of the second ones, and so on, so that a compiler can do several at once. Rounded to `SHIFT` bits
/// less.
fn one_dimension<const SHIFT: u32>(x: &[[i32; 8]; 8]) -> [[i32; 8]; 8] {
    let mut result = [[0; 8]; 8];
    for i in 0..8 {
        let product = |a: i32, fa: i16, b: i32, fb: i16| a * i32::from(fa) + b * i32::from(fb);
        let t3 = product(x[2][i], F_0_541 + F_0_765, x[6][i], F_0_541);
        let t2 = product(x[2][i], F_0_541, x[6][i], F_0_541 - F_1_847);
        let t0 = (x[0][i] + x[4][i]) << BITS;
        let t1 = (x[0][i] - x[4][i]) << BITS;
        let even = [t0 + t3, t1 + t2, t1 - t2, t0 - t3];

        let z3 = x[7][i] + x[3][i];
        let z4 = x[5][i] + x[1][i];
        let sum3 = product(z3, F_1_175 - F_1_961, z4, F_1_175);
        let sum4 = product(z3, F_1_175, z4, F_1_175 - F_0_390);
        let odd = [
            product(x[7][i], -F_0_899, x[1][i], F_1_501 - F_0_899) + sum4,
            product(x[5][i], -F_2_562, x[3][i], F_3_072 - F_2_562) + sum3,
            product(x[5][i], F_2_053 - F_2_562, x[3][i], -F_2_562) + sum4,
            product(x[7][i], F_0_298 - F_0_899, x[1][i], -F_0_899) + sum3,
        ];
        for (k, (even, odd)) in even.into_iter().zip(odd).enumerate() {
            let round = 1 << (SHIFT - 1);
            result[k][i] = (even + odd + round) >> SHIFT;
            result[7 - k][i] = (even - odd + round) >> SHIFT;
        }
    }
    result
}

/// Doubles the columns of a row of colour: each new sample is three quarters of the nearer old one and a quarter of the
/// other. `from` begins one sample before the first one, and has at least 31 more after the last one, of which one
/// matters; `into` has a multiple of 32 samples.
pub(super) fn upsample_width(from: &[u8], into: &mut [u8]) {
    let (right, this) = (from.get(2..).unwrap_or_default(), from.get(1..).unwrap_or_default());
    let samples = from.iter().zip(this).zip(right);
    for (((left, this), right), into) in samples.zip(into.as_chunks_mut::<2>().0) {
        let (left, this, right) = (u16::from(*left), 3 * u16::from(*this), u16::from(*right));
        *into = [((this + left + 1) >> 2) as u8, ((this + right + 2) >> 2) as u8];
    }
}

/// As [`upsample_width`], between two rows: three quarters of `near` and one of `far`.
pub(super) fn upsample_both(near: &[u8], far: &[u8], into: &mut [u8]) {
    let sums = |from: usize| {
        let rows = near.iter().zip(far).skip(from);
        rows.map(|(near, far)| 3 * u16::from(*near) + u16::from(*far))
    };
    for (((left, this), right), into) in sums(0).zip(sums(1)).zip(sums(2)).zip(into.as_chunks_mut::<2>().0) {
        *into = [((3 * this + left + 8) >> 4) as u8, ((3 * this + right + 7) >> 4) as u8];
    }
}

/// Writes a row of pixels, from the same number of samples of luma and colour (or more).
pub(super) fn to_rgb(luma: &[u8], blue: &[u8], red: &[u8], into: &mut [u8]) {
    let (pixels, _) = into.as_chunks_mut::<3>();
    for (((pixel, luma), blue), red) in pixels.iter_mut().zip(luma).zip(blue).zip(red) {
        let (luma, blue, red) = (i32::from(*luma), i32::from(*blue) - 128, i32::from(*red) - 128);
        // Factors in units of 1 / 65536, rounded as JFIF's decoders do.
        const HALF: i32 = 1 << 15;
        *pixel = [
            luma + ((91881 * red + HALF) >> 16),
            luma + ((-22554 * blue - 46802 * red + HALF) >> 16),
            luma + ((116130 * blue + HALF) >> 16),
        ]
        .map(|value| value.clamp(0, 255) as u8);
    }
}

/// Writes a row of grey pixels.
pub(super) fn grey_to_rgb(luma: &[u8], into: &mut [u8]) {
    for (pixel, luma) in into.as_chunks_mut::<3>().0.iter_mut().zip(luma) {
        *pixel = [*luma; 3];
    }
}
