//! Conversion to and from 16-bit floating point, rounded correctly: to the nearest, ties to even.

use std::io::Write;

use bytemuck::Pod;

use super::decimal::compare;
use super::fused::convert;
use crate::dtype::Element;
use crate::float16::{bf16, f16, round_each, widen_each};

/// A number type that is computed in 32 bits and then rounded.
pub(crate) trait FromF32: Pod {
    fn from_f32(number: f32) -> Self;

    /// # Panics
    ///
    /// If the slices differ in length.
    fn from_f32s(numbers: &[f32], into: &mut [Self]);
}

/// A number type of 16 bits.
pub(crate) trait Half: Element + FromF32 {
    /// # Panics
    ///
    /// If the slices differ in length.
    fn to_f32s(halves: &[Self], into: &mut [f32]);
}

impl FromF32 for f32 {
    fn from_f32(number: f32) -> Self {
        number
    }

    fn from_f32s(numbers: &[f32], into: &mut [Self]) {
        into.copy_from_slice(numbers);
    }
}

impl FromF32 for f16 {
    fn from_f32(number: f32) -> Self {
        f16::from_f32(number)
    }

    fn from_f32s(numbers: &[f32], into: &mut [Self]) {
        round_each(numbers, into);
    }
}

impl Half for f16 {
    fn to_f32s(halves: &[Self], into: &mut [f32]) {
        widen_each(halves, into);
    }
}

impl FromF32 for bf16 {
    fn from_f32(number: f32) -> Self {
        bf16::from_f32(number)
    }

    fn from_f32s(numbers: &[f32], into: &mut [Self]) {
        convert(into, numbers, bf16::from_f32);
    }
}

impl Half for bf16 {
    fn to_f32s(halves: &[Self], into: &mut [f32]) {
        convert(into, halves, bf16::to_f32);
    }
}

/// `number` rounded to odd: a value between two numbers of 32 bits becomes the one whose last bit is 1. Rounding that
/// to 16 bits gives the same as rounding `number` itself; rounding to the nearest twice does not (S. Boldo and G.
/// Melquiond, "When double rounding is odd", 2004).
pub(crate) fn odd_f32(number: f64) -> f32 {
    let near = number as f32;
    let size = f64::from(near).abs();
    odd_beside(near, size < number.abs(), size > number.abs())
}

/// Rounds to odd a number that is `larger` or `smaller` in size than `near`, the nearest number of 32 bits.
#[inline(always)]
pub(crate) fn odd_beside(near: f32, larger: bool, smaller: bool) -> f32 {
    let bits = near.to_bits();
    // An even neighbour is replaced by the odd one on the other side. A number that is exact, or NaN, stays.
    f32::from_bits(bits + (u32::from(larger) & !bits & 1) - (u32::from(smaller) & !bits & 1))
}

/// The same for an integer, without rounding on the way.
pub(crate) fn odd_f32_of_i64(number: i64) -> f32 {
    // 52 bits are exact in f64; the lowest of them says whether there were more bits.
    const REST: i64 = (1 << 12) - 1;
    let is_small = number.unsigned_abs() <= 1 << 53;
    let rest = i64::from(number & REST != 0) << 12;
    odd_f32(if is_small { number as f64 } else { (number & !REST | rest) as f64 })
}

/// The same for an integer without a sign.
pub(crate) fn odd_f32_of_u64(number: u64) -> f32 {
    const REST: u64 = (1 << 12) - 1;
    let is_small = number <= 1 << 53;
    let rest = u64::from(number & REST != 0) << 12;
    odd_f32(if is_small { number as f64 } else { (number & !REST | rest) as f64 })
}

/// [`odd_f32`] of the decimal number `text`, whose nearest f64 is `near`.
pub(crate) fn odd_f32_of_text(text: &[u8], near: f64) -> f32 {
    let odd = odd_f32(near);
    if f64::from(odd) != near || near == 0.0 || near.is_infinite() {
        // This lies between the same two numbers of 32 bits as the text, or is too small or too large for 16 bits.
        return odd;
    }
    let mut exact = [0; 160];
    let mut rest = &mut exact[..];
    // A number of 32 bits has at most 113 digits. There is room for them, so writing can't fail.
    drop(write!(rest, "{near:.120e}"));
    let left = rest.len();
    let order = compare(text, &exact[..exact.len() - left]);
    odd_beside(odd, order.is_gt(), order.is_lt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detour_that_rounds_to_nearest_is_wrong_where_ours_is_right() {
        // Just above the middle between 1 and the next number of 16 bits.
        let value = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16::from_f32(value as f32).to_bits(), 0x3c00);
        assert_eq!(f16::from_f32(odd_f32(value)).to_bits(), 0x3c01);
        assert_eq!(f16::from_f32(odd_f32(-value)).to_bits(), 0xbc01);
        let value = 1.0 + 2f64.powi(-8) - 2f64.powi(-40);
        assert_eq!(bf16::from_f32(odd_f32(value)).to_bits(), 0x3f80);
    }

    #[test]
    fn what_is_no_number_stays_so() {
        for value in [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(odd_f32(value).to_bits(), (value as f32).to_bits());
        }
        assert!(odd_f32(f64::NAN).is_nan());
        assert_eq!(bf16::from_f32(odd_f32(1e300)), bf16::INFINITY);
        assert_eq!(odd_f32(1e-300), f32::from_bits(1));
        assert_eq!(f16::from_f32(odd_f32(-1e-300)).to_bits(), 0x8000);
    }
}
