//! From coefficients to pixels, on any processor. The AVX2 code beside it does the same, step by step.

use super::entropy::{Block, ZIGZAG};

/// Factors of the inverse DCT, in units of 1 / 8192.
pub(super) mod factors {
    pub(in super::super) const F_0_298: i16 = 2446;
    pub(in super::super) const F_0_390: i16 = 3196;
    pub(in super::super) const F_0_541: i16 = 4433;
    pub(in super::super) const F_0_765: i16 = 6270;
    pub(in super::super) const F_0_899: i16 = 7373;
    pub(in super::super) const F_1_175: i16 = 9633;
    pub(in super::super) const F_1_501: i16 = 12299;
    pub(in super::super) const F_1_847: i16 = 15137;
    pub(in super::super) const F_1_961: i16 = 16069;
    pub(in super::super) const F_2_053: i16 = 16819;
    pub(in super::super) const F_2_562: i16 = 20995;
    pub(in super::super) const F_3_072: i16 = 25172;
    /// Fraction bits of the factors.
    pub(in super::super) const BITS: u32 = 13;
    /// Fraction bits that are kept between columns and rows.
    pub(in super::super) const KEPT: u32 = 2;
}

use factors::*;

/// Largest coefficient after multiplication with its step: several times what any picture of 8 bits gives. Beyond, decoders
/// differ in where they wrap or saturate.
const MAX_COEFFICIENT: i16 = 8191;

/// Quantisation of a component, row by row as in a [`Block`].
#[derive(Clone, Copy)]
pub(super) struct Quantisation {
    /// What coefficients are multiplied with.
    pub(super) steps: [i16; 64],
    /// The largest coefficients that are taken.
    pub(super) limits: [i16; 64],
}

impl Quantisation {
    /// From the file's table, in the order of the zigzag.
    pub(super) fn new(table: &[u8; 64]) -> Self {
        let mut quantisation = Self { steps: [0; 64], limits: [0; 64] };
        for (step, at) in table.iter().zip(ZIGZAG) {
            let step = i16::from(*step);
            quantisation.steps[usize::from(at)] = step;
            quantisation.limits[usize::from(at)] = MAX_COEFFICIENT / step.max(1);
        }
        quantisation
    }
}

/// Turns each block of a row of blocks into 8 x 8 samples: the first one at the start of `into`, each 8 columns behind the
/// one before, with `stride` between rows. May write up to 8 columns more. False if a coefficient is beyond its limit.
pub(super) fn inverse_dct(blocks: &[Block], quantisation: &Quantisation, into: &mut [u8], stride: usize) -> bool {
    let Quantisation { steps, limits } = quantisation;
    for (x, block) in blocks.iter().enumerate() {
        if block.iter().zip(limits).any(|(value, limit)| i32::from(*value).abs() > i32::from(*limit)) {
            return false;
        }
        let block: Block = std::array::from_fn(|i| block[i] * steps[i]);
        let mut columns = block;
        for x in 0..8 {
            let column = one_dimension(std::array::from_fn(|y| block[8 * y + x]), BITS - KEPT);
            for (y, value) in column.into_iter().enumerate() {
                columns[8 * y + x] = value;
            }
        }
        for (y, row) in columns.as_chunks::<8>().0.iter().enumerate() {
            let into = &mut into[y * stride + 8 * x..][..8];
            // The sum over both dimensions is 8 times too large.
            for (into, value) in into.iter_mut().zip(one_dimension(*row, BITS + KEPT + 3)) {
                *into = (value.clamp(-128, 127) + 128) as u8;
            }
        }
    }
    true
}

/// The inverse DCT of 8 values by Loeffler, Ligtenberg and Moschytz, as libjpeg's "islow" computes it; the result is
/// rounded to `shift` bits less. Sums wrap and results saturate at 16 bits, which no real picture comes near.
fn one_dimension(x: [i16; 8], shift: u32) -> [i16; 8] {
    let product = |a: i16, fa: i16, b: i16, fb: i16| i32::from(a) * i32::from(fa) + i32::from(b) * i32::from(fb);
    let t3 = product(x[2], F_0_541 + F_0_765, x[6], F_0_541);
    let t2 = product(x[2], F_0_541, x[6], F_0_541 - F_1_847);
    let t0 = i32::from(x[0].wrapping_add(x[4])) << BITS;
    let t1 = i32::from(x[0].wrapping_sub(x[4])) << BITS;
    let even = [t0 + t3, t1 + t2, t1 - t2, t0 - t3];

    let z3 = x[7].wrapping_add(x[3]);
    let z4 = x[5].wrapping_add(x[1]);
    let sum3 = product(z3, F_1_175 - F_1_961, z4, F_1_175);
    let sum4 = product(z3, F_1_175, z4, F_1_175 - F_0_390);
    let odd = [
        product(x[7], -F_0_899, x[1], F_1_501 - F_0_899) + sum4,
        product(x[5], -F_2_562, x[3], F_3_072 - F_2_562) + sum3,
        product(x[5], F_2_053 - F_2_562, x[3], -F_2_562) + sum4,
        product(x[7], F_0_298 - F_0_899, x[1], -F_0_899) + sum3,
    ];
    let round = |sum: i32| (sum.wrapping_add(1 << (shift - 1)) >> shift).clamp(-32768, 32767) as i16;
    std::array::from_fn(|i| match i {
        0..4 => round(even[i].wrapping_add(odd[i])),
        _ => round(even[7 - i].wrapping_sub(odd[7 - i])),
    })
}

/// Doubles the columns of a row of colour: each new sample is three quarters of the nearer old one and a quarter of the
/// other. `from` begins one sample before the first, and has one more at its end.
pub(super) fn upsample_width(from: &[u8], into: &mut [u8]) {
    for (from, into) in from.windows(3).zip(into.as_chunks_mut::<2>().0) {
        let (left, this, right) = (u16::from(from[0]), u16::from(from[1]), u16::from(from[2]));
        *into = [((3 * this + left + 1) >> 2) as u8, ((3 * this + right + 2) >> 2) as u8];
    }
}

/// As [`upsample_width`], between two rows: three quarters of `near` and one of `far`.
pub(super) fn upsample_both(near: &[u8], far: &[u8], into: &mut [u8]) {
    let sum = |at: usize| 3 * u16::from(near[at]) + u16::from(far[at]);
    for (at, into) in into.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let (left, this, right) = (sum(at), sum(at + 1), sum(at + 2));
        *into = [((3 * this + left + 8) >> 4) as u8, ((3 * this + right + 7) >> 4) as u8];
    }
}

/// Writes a row of pixels, from as many samples of luma and colour (or more).
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
