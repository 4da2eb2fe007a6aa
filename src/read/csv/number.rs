//! Numbers from text, fast: eight digits at a time, and one division where that is as good as exact arithmetic.
//!
//! All other numbers are left to the callers' slower parsers, so every result is that of the standard library's parser.

use crate::decode::{odd_beside, odd_f32};

/// Most digits of a [`Decimal`]: its mantissa fits i64.
const MAX_DIGITS: usize = 18;

/// Powers of ten that f64 holds exactly, as many as a mantissa has digits.
const POWERS: [u64; MAX_DIGITS + 1] = {
    let mut powers = [1; MAX_DIGITS + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = 10 * powers[at - 1];
        at += 1;
    }
    powers
};
const FLOAT_POWERS: [f64; MAX_DIGITS + 1] = {
    let mut powers = [1.0; MAX_DIGITS + 1];
    let mut at = 0;
    while at < powers.len() {
        powers[at] = POWERS[at] as f64;
        at += 1;
    }
    powers
};

/// The reciprocal of each power, rounded.
const INVERSE_POWERS: [f64; MAX_DIGITS + 1] = {
    let mut inverses = [1.0; MAX_DIGITS + 1];
    let mut at = 0;
    while at < inverses.len() {
        inverses[at] = 1.0 / FLOAT_POWERS[at];
        at += 1;
    }
    inverses
};

/// A plain decimal number, such as `-12.5`: at most 18 digits, no exponent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal {
    /// Its digits as an integer.
    mantissa: u64,
    /// How many digits are after the point.
    scale: usize,
    negative: bool,
    /// Whether there is no point.
    whole: bool,
    /// Number of bytes.
    pub(in crate::read) len: usize,
}

impl Decimal {
    /// The number with the digits of `mantissa`, at most 18, of which `scale` are after the point.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn new(mantissa: u64, scale: usize, negative: bool, whole: bool, len: usize) -> Self {
        Self { mantissa, scale, negative, whole, len }
    }

    /// The number at the start of `bytes`, up to the first byte that can't belong to it.
    #[inline(always)]
    pub(in crate::read) fn leading(bytes: &[u8]) -> Option<Self> {
        let negative = bytes.first() == Some(&b'-');
        let mut at = usize::from(negative);
        let (mut count, mut mantissa) = digits(word(bytes, at));
        at += count;
        let mut total = count;
        if count == 8 {
            (at, total) = more_digits(bytes, at, total, &mut mantissa)?;
        }
        let whole = bytes.get(at) != Some(&b'.');
        let mut scale = 0;
        if !whole {
            at += 1;
            let behind;
            (count, behind) = digits(word(bytes, at));
            let before = total;
            // At most 26 digits: eight more than are allowed.
            total += count;
            if total > MAX_DIGITS {
                return None;
            }
            mantissa = mantissa * POWERS[count] + behind;
            at += count;
            if count == 8 {
                (at, total) = more_digits(bytes, at, total, &mut mantissa)?;
            }
            scale = total - before;
        }
        (total > 0).then_some(Self { mantissa, scale, negative, whole, len: at })
    }

    /// The nearest f32, if it is certain.
    #[inline(always)]
    pub(super) fn to_f32(self) -> Option<f32> {
        // Mantissa, power and product are each rounded once, so the result is less than 3.1 units in the last place of
        // an f64 away from the number. It rounds to the same f32, unless it is that close to the middle between two
        // f32. All results are 0 or normal numbers of both types.
        let product = (self.mantissa as i64 as f64 * INVERSE_POWERS[self.scale]).to_bits();
        const BELOW: u64 = (1 << 29) - 1;
        const MIDDLE: u64 = 1 << 28;
        if (product & BELOW).wrapping_sub(MIDDLE - 4) <= 8 {
            return None;
        }
        Some(f64::from_bits(product | u64::from(self.negative) << 63) as f32)
    }

    /// The f32 that rounds to the same number of 16 bits (see [`odd_f32`]), if it is certain.
    #[inline(always)]
    pub(super) fn to_odd_f32(self) -> Option<f32> {
        const LAST: u64 = 1 << 29;
        // The distance is that of `to_f32`. Usually the number certainly lies between two f32, and the odd one of them
        // is the result.
        let product = (self.mantissa as i64 as f64 * INVERSE_POWERS[self.scale]).to_bits();
        if (product & (LAST - 1)).wrapping_sub(4) <= LAST - 8 {
            let odd = product & !(LAST - 1) | LAST | u64::from(self.negative) << 63;
            return Some(f64::from_bits(odd) as f32);
        }
        let quotient = self.to_f64()?;
        let odd = odd_f32(quotient);
        if f64::from(odd) != quotient {
            return Some(odd);
        }
        // The remainder of the division, which f64 holds exactly, or at least its sign.
        let rest = (-quotient.abs()).mul_add(FLOAT_POWERS[self.scale], self.mantissa as i64 as f64);
        Some(odd_beside(odd, rest > 0.0, rest < 0.0))
    }

    /// The nearest f64, if it is the quotient of two numbers that f64 holds exactly.
    #[inline(always)]
    pub(super) fn to_f64(self) -> Option<f64> {
        if self.mantissa > 1 << 53 {
            return None;
        }
        let quotient = (self.mantissa as i64 as f64 / FLOAT_POWERS[self.scale]).to_bits();
        Some(f64::from_bits(quotient | u64::from(self.negative) << 63))
    }

    /// The integer, if the text is one.
    #[inline(always)]
    pub(in crate::read) fn to_i64(self) -> Option<i64> {
        let number = self.mantissa as i64;
        self.whole.then_some(if self.negative { -number } else { number })
    }

    /// The integer without a sign.
    #[inline(always)]
    pub(super) fn to_u64(self) -> Option<u64> {
        (self.whole && !self.negative).then_some(self.mantissa)
    }
}

/// How many digits there are from `at` on, up to eight.
#[inline(always)]
pub(in crate::read) fn few_digits(bytes: &[u8], at: usize) -> usize {
    few_digits_value(bytes, at).0
}

/// How many digits there are from `at` on, up to eight, and the integer that they are.
#[inline(always)]
pub(in crate::read) fn few_digits_value(bytes: &[u8], at: usize) -> (usize, u64) {
    digits(word(bytes, at))
}

/// Appends the digits from `at` on; returns where they end, and how many there are in total.
fn more_digits(bytes: &[u8], mut at: usize, mut total: usize, mantissa: &mut u64) -> Option<(usize, usize)> {
    loop {
        let (count, value) = digits(word(bytes, at));
        total += count;
        if total > MAX_DIGITS {
            return None;
        }
        *mantissa = *mantissa * POWERS[count] + value;
        at += count;
        if count < 8 {
            return Some((at, total));
        }
    }
}

/// The eight bytes from `at` on, the first one lowest; zeros after the end.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(bytes, at),
    }
}

#[inline(never)]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let left = bytes.len().saturating_sub(at);
    match bytes.last_chunk() {
        Some(word) if left > 0 => u64::from_le_bytes(*word) >> (64 - 8 * left),
        _ => {
            let mut word = [0; 8];
            word[..left].copy_from_slice(&bytes[bytes.len() - left..]);
            u64::from_le_bytes(word)
        }
    }
}

/// Number of a word's bytes that are digits before the first other byte, and their value.
#[inline(always)]
fn digits(word: u64) -> (usize, u64) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // A digit becomes its value, any other byte 10 or more. Adding 118 moves this into the top bit.
    let values = word ^ (EACH * 0x30);
    let others = (values.wrapping_add(EACH * 118) | values) & (EACH * 0x80);
    let count = others.trailing_zeros() / 8;
    // Moves the digits to the end of the word, after zeros. This takes two shifts, because one shift can't be by all 64
    // bits.
    let half = 32 - 4 * count;
    let values = (values << half) << half;
    // Joins digits to pairs, pairs to fours, and these to eight: each product puts its sum into the upper half.
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let fours = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let rest = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    (count as usize, fours.wrapping_add(rest) >> 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::odd_f32_of_text;

    /// The fast way must give what the standard library gives for the same bytes.
    fn check(text: &str) {
        // With and without bytes after it, because the end of a word is found in two ways.
        for padded in [text.to_owned(), format!("{text},123456789")] {
            let Some(decimal) = Decimal::leading(padded.as_bytes()) else { continue };
            let own = &padded[..decimal.len];
            assert!(own == text || padded[decimal.len..].starts_with(|next: char| !next.is_ascii_digit()), "{padded}");
            let f32s = decimal.to_f32().map(f32::to_bits);
            assert!(f32s.is_none() || f32s == own.parse().ok().map(f32::to_bits), "{own}: {f32s:?}");
            let f64s = decimal.to_f64().map(f64::to_bits);
            assert!(f64s.is_none() || f64s == own.parse().ok().map(f64::to_bits), "{own}: {f64s:?}");
            let odd = decimal.to_odd_f32().map(f32::to_bits);
            let expected = own.parse().map(|near| odd_f32_of_text(own.as_bytes(), near).to_bits());
            assert!(odd.is_none() || odd == expected.ok(), "{own}: {odd:?}");
            let i64s = decimal.to_i64();
            assert!(i64s.is_none() || i64s == own.parse().ok(), "{own}: {i64s:?}");
            let u64s = decimal.to_u64();
            assert!(u64s.is_none() || u64s == own.parse().ok(), "{own}: {u64s:?}");
        }
    }

    #[test]
    fn every_length_of_digits_before_and_behind_the_point_is_read() {
        for before in 0..=20 {
            for behind in 0..=20 {
                for (point, sign) in [(".", ""), (".", "-"), ("", "-"), ("", "")] {
                    let digits = "98765432101234567890";
                    let text = format!("{sign}{}{point}{}", &digits[..before], &digits[20 - behind..]);
                    check(&text);
                    let plain = before + behind;
                    let found = Decimal::leading(text.as_bytes());
                    assert_eq!(found.is_some(), (1..=18).contains(&plain), "{text}");
                    assert!(found.is_none_or(|found| found.len == text.len()), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_plain_decimal_is_left_to_others() {
        for text in ["", "-", ".", "-.", "+1", "--1", "e5", "nan", "inf", " 1", "\"1\"", "x", "\u{ff11}"] {
            assert!(Decimal::leading(text.as_bytes()).is_none(), "{text}");
        }
        for (text, len) in
            [("1e5", 1), ("1.5.5", 3), ("12 ", 2), ("3.", 2), (".5", 2), ("1-2", 1), ("7\r", 1), ("8:", 1), ("8/", 1)]
        {
            assert_eq!(Decimal::leading(text.as_bytes()).unwrap().len, len, "{text}");
        }
        let zero = Decimal::leading(b"-0.000").unwrap();
        assert_eq!((zero.to_f32().unwrap().to_bits(), zero.to_u64()), ((-0f32).to_bits(), None));
    }

    #[test]
    fn what_lies_between_two_f32_is_not_guessed() {
        // 2^24 + 1 lies in the middle, and the others next to it.
        for text in ["16777217", "16777217.0", "16777217.0000000001", "16777216.999999999", "-33554434.000000001"] {
            check(text);
        }
        assert!(Decimal::leading(b"16777217").unwrap().to_f32().is_none());
        assert_eq!(Decimal::leading(b"16777218").unwrap().to_f32(), Some(16_777_218.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn numbers_are_those_of_the_standard_library(text in "-?[0-9]{0,19}(\\.[0-9]{0,19})?[,e \\r.x/:]?") {
            check(&text);
        }

        #[test]
        fn shortest_forms_of_floats_are_read_exactly(bits in any::<u64>(), short in any::<u32>(), decimals in 0usize..19) {
            let wide = f64::from_bits(bits & 0xbff0_ffff_ffff_ffff | 0x3c00_0000_0000_0000) ;
            check(&wide.to_string());
            check(&format!("{:.decimals$}", f32::from_bits(short & 0xbfff_ffff | 0x3000_0000)));
            check(&format!("{:.decimals$}", f64::from(short) / 997.0));
        }

        #[test]
        fn midpoints_of_f32_and_their_neighbours_are_right(mantissa in 0u32..1 << 23, exponent in 0u32..40, off in -2i64..=2) {
            // Between two neighbouring f32 of 2^-8 to 2^31, cut to some digits and moved by one in the last place.
            let low = f32::from_bits((119 + exponent) << 23 | mantissa);
            let middle = (f64::from(low) + f64::from(low.next_up())) / 2.0;
            let exact = format!("{middle:.40}");
            let (before, behind) = exact.split_once('.').unwrap();
            for keep in 0..(18usize).saturating_sub(before.len()).min(40) {
                let digits: i64 = format!("{before}{}", &behind[..keep]).parse().unwrap();
                let moved = (digits + off).max(0).to_string();
                let moved = format!("{moved:0>width$}", width = keep + 1);
                let point = moved.len() - keep;
                check(&format!("{}.{}", &moved[..point], &moved[point..]));
            }
        }
    }
}
