//! Floating point numbers of 16 bits: the types of the crate `half`, or, if it is not built, plain types of our own,
//! whose conversions give the same bits.

#[cfg(feature = "half")]
pub use half::{bf16, f16};
#[cfg(not(feature = "half"))]
pub use plain::{bf16, f16};

/// Rounds each number, by the processor's own instruction where `half` finds one.
///
/// # Panics
///
/// If the slices differ in length.
pub(crate) fn round_each(numbers: &[f32], into: &mut [f16]) {
    #[cfg(feature = "half")]
    half::slice::HalfFloatSliceExt::convert_from_f32_slice(into, numbers);
    #[cfg(not(feature = "half"))]
    plain::each(into, numbers, f16::from_f32);
}

/// Widens each number, by the processor's own instruction where `half` finds one.
///
/// # Panics
///
/// If the slices differ in length.
pub(crate) fn widen_each(halves: &[f16], into: &mut [f32]) {
    #[cfg(feature = "half")]
    half::slice::HalfFloatSliceExt::convert_to_f32_slice(halves, into);
    #[cfg(not(feature = "half"))]
    plain::each(into, halves, f16::to_f32);
}

#[cfg(any(test, not(feature = "half")))]
mod plain {
    use std::cmp::Ordering;
    use std::fmt;

    use bytemuck::{Pod, Zeroable};

    /// Bits of the fraction of an f32.
    const FRACTION: u32 = f32::MANTISSA_DIGITS - 1;
    /// The exponent of infinity and NaN, and the number that is added to other exponents.
    const LAST: u32 = 0xff;
    const BIAS: u32 = 0x7f;

    /// The bits of the nearest number whose fraction has `fraction` bits, ties to even.
    pub(super) fn narrow(number: f32, fraction: u32) -> u16 {
        let bits = number.to_bits();
        let sign = (bits >> 16) as u16 & 0x8000;
        let (exponent, rest) = (bits >> FRACTION & LAST, bits & ((1 << FRACTION) - 1));
        let last = (1 << (15 - fraction)) - 1;
        let infinite = (last << fraction) as u16;
        if exponent == LAST {
            // What is no number stays so, even if only bits that are cut off say it.
            let quiet = if rest == 0 { 0 } else { 1 << (fraction - 1) };
            return sign | infinite | quiet | (rest >> (FRACTION - fraction)) as u16;
        }
        // The first exponent that has a leading 1 bit in the type of 16 bits.
        let first = BIAS - (last >> 1) + 1;
        let below = first.saturating_sub(exponent.max(1));
        let cut = FRACTION - fraction + below;
        if cut > FRACTION + 1 {
            return sign;
        }
        // Below the first, the leading bit stands in the fraction.
        let leading = u32::from(exponent > 0) << FRACTION;
        let kept = match exponent >= first {
            true => (exponent - first + 1) << FRACTION | rest,
            false => leading | rest,
        };
        let (whole, lost, half) = (kept >> cut, kept & ((1 << cut) - 1), 1 << (cut - 1));
        let up = lost > half || lost == half && whole & 1 == 1;
        // Rounding up may carry into the exponent, up to infinity.
        sign | (whole + u32::from(up)).min(infinite.into()) as u16
    }

    /// The number with these bits, whose fraction has `fraction` bits.
    pub(super) fn widen(bits: u16, fraction: u32) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let last = (1 << (15 - fraction)) - 1;
        let (exponent, rest) = (u32::from(bits & 0x7fff) >> fraction, u32::from(bits) & ((1 << fraction) - 1));
        let first = BIAS - (last >> 1) + 1;
        let shifted = rest << (FRACTION - fraction);
        if exponent == last {
            let quiet = if rest == 0 { 0 } else { 1 << (FRACTION - 1) };
            return f32::from_bits(sign | LAST << FRACTION | quiet | shifted);
        }
        if exponent > 0 {
            return f32::from_bits(sign | (exponent - 1 + first) << FRACTION | shifted);
        }
        // Both powers of two and their product are exact.
        let scale = f32::from_bits(first << FRACTION);
        let size = rest as f32 / (1u32 << fraction) as f32 * scale;
        f32::from_bits(sign | size.to_bits())
    }

    #[cfg(not(feature = "half"))]
    pub(super) fn each<A: Copy, B>(into: &mut [B], from: &[A], convert: impl Fn(A) -> B) {
        assert_eq!(into.len(), from.len(), "as many numbers as there is room for");
        into.iter_mut().zip(from).for_each(|(into, from)| *into = convert(*from));
    }

    macro_rules! halves {
        ($($(#[$doc:meta])* $name:ident, $fraction:literal;)*) => {$(
            $(#[$doc])*
            #[expect(non_camel_case_types, reason = "it is named as the types of the language")]
            #[derive(Clone, Copy, Default)]
            #[repr(transparent)]
            pub struct $name(u16);

            // SAFETY: zero is a number of this type.
            unsafe impl Zeroable for $name {}
            // SAFETY: it is a u16 in every respect: all bits are numbers, and there is no padding.
            unsafe impl Pod for $name {}

            impl $name {
                /// 1.
                pub const ONE: Self = Self(((1 << (14 - $fraction)) - 1) << $fraction);
                /// Infinity.
                pub const INFINITY: Self = Self(((1 << (15 - $fraction)) - 1) << $fraction);

                /// The number with these bits.
                pub const fn from_bits(bits: u16) -> Self {
                    Self(bits)
                }

                /// Its bits.
                pub const fn to_bits(self) -> u16 {
                    self.0
                }

                /// The nearest number, ties to even.
                pub fn from_f32(number: f32) -> Self {
                    Self(narrow(number, $fraction))
                }

                /// The same number.
                pub fn to_f32(self) -> f32 {
                    widen(self.0, $fraction)
                }

                /// The same number.
                pub fn to_f64(self) -> f64 {
                    self.to_f32().into()
                }

                /// The number with these bytes, in native order.
                pub const fn from_ne_bytes(bytes: [u8; 2]) -> Self {
                    Self(u16::from_ne_bytes(bytes))
                }

                /// The number with these bytes, the lowest first.
                pub const fn from_le_bytes(bytes: [u8; 2]) -> Self {
                    Self(u16::from_le_bytes(bytes))
                }

                /// The number with these bytes, the highest first.
                pub const fn from_be_bytes(bytes: [u8; 2]) -> Self {
                    Self(u16::from_be_bytes(bytes))
                }

                /// Its bytes, in native order.
                pub const fn to_ne_bytes(self) -> [u8; 2] {
                    self.0.to_ne_bytes()
                }

                /// Its bytes, the lowest first.
                pub const fn to_le_bytes(self) -> [u8; 2] {
                    self.0.to_le_bytes()
                }

                /// Whether it is not a number.
                pub const fn is_nan(self) -> bool {
                    self.0 & 0x7fff > Self::INFINITY.0
                }

                /// Whether it is infinite.
                pub const fn is_infinite(self) -> bool {
                    self.0 & 0x7fff == Self::INFINITY.0
                }

                /// Whether it is neither infinite nor NaN.
                pub const fn is_finite(self) -> bool {
                    self.0 & 0x7fff < Self::INFINITY.0
                }
            }

            impl From<$name> for f32 {
                fn from(number: $name) -> Self {
                    number.to_f32()
                }
            }

            impl From<$name> for f64 {
                fn from(number: $name) -> Self {
                    number.to_f64()
                }
            }

            impl PartialEq for $name {
                fn eq(&self, other: &Self) -> bool {
                    self.to_f32() == other.to_f32()
                }
            }

            impl PartialOrd for $name {
                fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                    self.to_f32().partial_cmp(&other.to_f32())
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.to_f32().fmt(f)
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.to_f32().fmt(f)
                }
            }
        )*};
    }

    halves! {
        /// A 16-bit IEEE 754 number.
        f16, 10;
        /// The upper half of a 32-bit IEEE 754 number.
        bf16, 7;
    }
}

#[cfg(test)]
mod tests {
    use super::plain::{self, narrow, widen};

    /// Tests every number of 16 bits, the midpoint of each two neighbours, and the numbers of 32 bits next to the
    /// midpoint.
    #[test]
    fn plain_types_round_to_the_nearest_and_ties_to_even() {
        for fraction in [10, 7] {
            let infinite = ((1u16 << (15 - fraction)) - 1) << fraction;
            for bits in 0..infinite {
                let (low, high) = (widen(bits, fraction), widen(bits + 1, fraction));
                assert_eq!(narrow(low, fraction), bits);
                assert_eq!(narrow(-low, fraction), bits | 0x8000);
                // Infinity stands for the number that would follow the largest one.
                let high = if high.is_finite() {
                    f64::from(high)
                } else {
                    2.0 * f64::from(low) - f64::from(widen(bits - 1, fraction))
                };
                let middle = f64::midpoint(low.into(), high) as f32;
                assert_eq!(f64::from(middle), f64::midpoint(low.into(), high), "a middle is a number of 32 bits");
                assert_eq!(narrow(middle, fraction), bits + (bits & 1), "{middle:e}");
                assert_eq!(narrow(middle.next_down(), fraction), bits, "below {middle:e}");
                assert_eq!(narrow(middle.next_up(), fraction), bits + 1, "above {middle:e}");
            }
            assert_eq!(narrow(f32::INFINITY, fraction), infinite);
            assert_eq!(narrow(f32::MAX, fraction), infinite);
            assert_eq!(widen(infinite | 0x8000, fraction), f32::NEG_INFINITY);
            for nan in [f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xff80_0001)] {
                assert!(narrow(nan, fraction) & 0x7fff > infinite);
                assert!(widen(narrow(nan, fraction), fraction).is_nan());
            }
        }
        assert_eq!((plain::f16::ONE.to_f32(), plain::bf16::ONE.to_f32()), (1.0, 1.0));
    }

    #[cfg(feature = "half")]
    #[test]
    fn plain_types_give_the_bits_of_the_crate_half() {
        for bits in 0..=u16::MAX {
            assert_eq!(widen(bits, 10).to_bits(), half::f16::from_bits(bits).to_f32().to_bits(), "{bits:x}");
            assert_eq!(widen(bits, 7).to_bits(), half::bf16::from_bits(bits).to_f32().to_bits(), "{bits:x}");
        }
        // The step is odd, so that all low bits occur.
        for bits in (0..=u32::MAX).step_by(4_099) {
            let number = f32::from_bits(bits);
            assert_eq!(narrow(number, 10), half::f16::from_f32(number).to_bits(), "{bits:x}");
            assert_eq!(narrow(number, 7), half::bf16::from_f32(number).to_bits(), "{bits:x}");
        }
    }
}
