//! Sums without rounding, so that mean and deviation do not depend on the order of the records, nor on how they were
//! divided. They are fixed-point numbers as long as the range of f64 (Kulisch: "Computer Arithmetic and Validity",
//! 2008).

use serde::{Deserialize, Serialize};

/// Words of a sum whose lowest bit stands for 2^-1074, with room for 2^64 times the largest number.
const SUM: usize = 34;

/// The same for squares, with a lowest bit of 2^-2148.
const SQUARES: usize = 67;

/// The exact sum of numbers and of their squares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sums {
    count: u64,
    #[serde(with = "words")]
    positive: [u64; SUM],
    #[serde(with = "words")]
    negative: [u64; SUM],
    #[serde(with = "words")]
    squares: [u64; SQUARES],
}

/// The words that are not 0, each with its position.
mod words {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer, const N: usize>(words: &[u64; N], serializer: S) -> Result<S::Ok, S::Error> {
        let words: Vec<(usize, u64)> = words.iter().copied().enumerate().filter(|(_, word)| *word != 0).collect();
        words.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[u64; N], D::Error> {
        let mut words = [0; N];
        for (place, word) in Vec::<(usize, u64)>::deserialize(deserializer)? {
            *words.get_mut(place).ok_or_else(|| serde::de::Error::custom("a sum beyond all numbers"))? = word;
        }
        Ok(words)
    }
}

impl Default for Sums {
    fn default() -> Self {
        Self { count: 0, positive: [0; SUM], negative: [0; SUM], squares: [0; SQUARES] }
    }
}

impl Sums {
    /// Adds a finite number `times` times.
    pub(super) fn add(&mut self, number: f64, times: u64) {
        let bits = number.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as usize, bits & ((1 << 52) - 1));
        let (mantissa, place) = if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let sum = if number < 0.0 { &mut self.negative } else { &mut self.positive };
        // 16 bits of the factor at a time, so that the products fit into 128 bits.
        for piece in 0..4 {
            let (factor, shift) = (u128::from(times >> (16 * piece) & 0xffff), 16 * piece);
            if factor != 0 {
                add_at(sum, u128::from(mantissa) * factor, place + shift);
                add_at(&mut self.squares, u128::from(mantissa).pow(2) * factor, 2 * place + shift);
            }
        }
        self.count = self.count.saturating_add(times);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        add_all(&mut self.positive, &other.positive);
        add_all(&mut self.negative, &other.negative);
        add_all(&mut self.squares, &other.squares);
        self.count = self.count.saturating_add(other.count);
    }

    /// The mean, correctly rounded; `None` of no numbers.
    pub(super) fn mean(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let (is_negative, sum) = self.sum();
        // With 64 more bits than f64 has, for rounding.
        let mut quotient = [0u64; SUM + 1];
        let mut rest = 0u128;
        for (at, word) in quotient.iter_mut().enumerate().rev() {
            rest = rest << 64 | u128::from(if at == 0 { 0 } else { sum[at - 1] });
            *word = (rest / u128::from(self.count)) as u64;
            rest %= u128::from(self.count);
        }
        let mean = rounded(&quotient, rest != 0);
        Some(if is_negative { -mean } else { mean })
    }

    /// The square root of the mean squared difference from the mean; 0 if all numbers are equal, `None` without
    /// numbers.
    pub(super) fn deviation(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        // n * (sum of squares) - (sum)^2, in units of 2^-2148.
        let (mut scaled, mut carry) = ([0u64; 2 * SUM], 0u128);
        for (word, own) in scaled.iter_mut().zip(self.squares.iter().copied().chain([0])) {
            carry += u128::from(own) * u128::from(self.count);
            (*word, carry) = (carry as u64, carry >> 64);
        }
        let (_, sum) = self.sum();
        let mut square = [0u64; 2 * SUM];
        for (at, one) in sum.iter().enumerate().filter(|(_, one)| **one != 0) {
            let mut carry = 0u128;
            for (word, other) in square[at..].iter_mut().zip(sum.iter().copied().chain([0])) {
                carry += u128::from(*one) * u128::from(other) + u128::from(*word);
                (*word, carry) = (carry as u64, carry >> 64);
            }
        }
        subtract(&mut scaled, &square);
        let Some(top) = top_bit(&scaled) else { return Some(0.0) };
        // The highest bits, beginning at an even position, so that the root of their weight is a power of two.
        let low = top.saturating_sub(126).next_multiple_of(2);
        let root = (bits_from(&scaled, low) as f64).sqrt() / self.count as f64;
        let exponent = (low as i32 - 2148) / 2;
        let half = exponent / 2;
        Some(root * 2f64.powi(half) * 2f64.powi(exponent - half))
    }

    /// Sign and absolute value of the sum.
    fn sum(&self) -> (bool, [u64; SUM]) {
        let is_negative = self.positive.iter().rev().lt(self.negative.iter().rev());
        let (mut large, small) =
            if is_negative { (self.negative, &self.positive) } else { (self.positive, &self.negative) };
        subtract(&mut large, small);
        (is_negative, large)
    }
}

/// Adds `value`, shifted by `bit`.
fn add_at(words: &mut [u64], value: u128, bit: usize) {
    let (at, shift) = (bit / 64, bit % 64);
    let low = value << shift;
    let high = if shift == 0 { 0 } else { (value >> (128 - shift)) as u64 };
    let mut carry = false;
    let parts = [low as u64, (low >> 64) as u64, high];
    for (word, part) in words[at..].iter_mut().zip(parts.into_iter().chain(std::iter::repeat(0))).enumerate() {
        let (nth, (word, part)) = (word, part);
        if nth > 2 && !carry {
            break;
        }
        let (sum, over) = word.overflowing_add(part);
        let (sum, over_again) = sum.overflowing_add(carry.into());
        (*word, carry) = (sum, over | over_again);
    }
}

fn add_all(words: &mut [u64], others: &[u64]) {
    let mut carry = false;
    for (word, other) in words.iter_mut().zip(others) {
        let (sum, over) = word.overflowing_add(*other);
        let (sum, over_again) = sum.overflowing_add(carry.into());
        (*word, carry) = (sum, over | over_again);
    }
}

/// Subtracts a number that is not larger.
fn subtract(words: &mut [u64], others: &[u64]) {
    let mut borrow = false;
    for (word, other) in words.iter_mut().zip(others) {
        let (rest, under) = word.overflowing_sub(*other);
        let (rest, under_again) = rest.overflowing_sub(borrow.into());
        (*word, borrow) = (rest, under | under_again);
    }
}

fn top_bit(words: &[u64]) -> Option<usize> {
    let at = words.iter().rposition(|word| *word != 0)?;
    Some(64 * at + 63 - words[at].leading_zeros() as usize)
}

/// The 128 bits from `bit` on.
fn bits_from(words: &[u64], bit: usize) -> u128 {
    let (at, shift) = (bit / 64, bit % 64);
    let word = |nth: usize| u128::from(words.get(at + nth).copied().unwrap_or(0));
    let low = word(0) | word(1) << 64;
    if shift == 0 { low } else { low >> shift | word(2) << (128 - shift) }
}

/// The nearest f64, ties to even, of the number whose lowest bit stands for 2^-1138. `more` says that it is a little
/// larger.
fn rounded(words: &[u64], more: bool) -> f64 {
    let Some(top) = top_bit(words) else { return 0.0 };
    // No bit of f64 is below 2^-1074.
    let low = top.saturating_sub(52).max(64);
    if low - 64 >= 2046 {
        return f64::INFINITY; // what no sum of numbers comes to
    }
    let mut mantissa = bits_from(words, low) as u64;
    let is_half = words[(low - 1) / 64] >> ((low - 1) % 64) & 1 == 1;
    let below = low - 1;
    let is_more = more
        || words[..below / 64].iter().any(|word| *word != 0)
        || words[below / 64] & ((1u64 << (below % 64)) - 1) != 0;
    mantissa += u64::from(is_half && (is_more || mantissa & 1 == 1));
    // The bit that every mantissa begins with adds one to the exponent; if rounding up adds a bit, it adds another one.
    f64::from_bits(((low as u64 - 64) << 52) + mantissa)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sums(numbers: &[f64]) -> Sums {
        let mut sums = Sums::default();
        numbers.iter().for_each(|number| sums.add(*number, 1));
        sums
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_numbers_themselves() {
        let of = |numbers: &[f64]| (sums(numbers).mean().unwrap(), sums(numbers).deviation().unwrap());
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0]), (2.5, 1.25f64.sqrt()));
        assert_eq!(of(&[0.1; 7]), (0.1, 0.0));
        assert_eq!(of(&[-0.0]), (0.0, 0.0));
        assert_eq!(of(&[1e16, 1.0, -1e16]).0, 1.0 / 3.0);
        assert_eq!(of(&[f64::MAX, f64::MAX, f64::MAX]), (f64::MAX, 0.0));
        assert_eq!(of(&[f64::MAX, -f64::MAX]), (0.0, f64::MAX));
        let tiny = f64::from_bits(1);
        assert_eq!(of(&[tiny, 3.0 * tiny]), (2.0 * tiny, tiny));
        // Half of the smallest number is rounded to even; anything more is rounded up.
        assert_eq!(of(&[tiny, 0.0]).0, 0.0);
        assert_eq!(of(&[tiny, tiny, 0.0]).0, tiny);
        assert_eq!(of(&[1e12, 1e12 + 1.0]), (1e12 + 0.5, 0.5));
        assert_eq!((Sums::default().mean(), Sums::default().deviation()), (None, None));
    }

    proptest! {
        #[test]
        fn neither_order_nor_shares_matter(
            numbers in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO, 1..40),
            cut in 0usize..40,
        ) {
            let cut = cut.min(numbers.len());
            let whole = sums(&numbers);
            let mut parts = sums(&numbers[cut..]);
            parts.merge(&sums(&numbers[..cut]));
            prop_assert_eq!(&whole, &parts);
            let reversed: Vec<f64> = numbers.iter().rev().copied().collect();
            prop_assert_eq!(whole, sums(&reversed));
        }

        #[test]
        fn often_is_one_by_one(number in prop::num::f64::ANY.prop_filter("finite", |x| x.is_finite()), times in 0u64..300) {
            let mut often = Sums::default();
            often.add(number, times);
            prop_assert_eq!(often, sums(&vec![number; times as usize]));
        }

        /// Compared with small integers, whose sums f64 holds exactly.
        #[test]
        fn means_of_integers_are_rounded_once(numbers in prop::collection::vec(-1_000_000i64..1_000_000, 1..100), shift in -300i32..300) {
            let scale = 2f64.powi(shift);
            let scaled: Vec<f64> = numbers.iter().map(|number| *number as f64 * scale).collect();
            let n = numbers.len() as i64;
            let (sum, squares) = numbers.iter().fold((0, 0), |(sum, squares), x| (sum + x, squares + x * x));
            let sums = sums(&scaled);
            prop_assert_eq!(sums.mean().unwrap(), sum as f64 / n as f64 * scale);
            let deviation = ((n * squares - sum * sum) as f64).sqrt() / n as f64 * scale;
            let found = sums.deviation().unwrap();
            prop_assert!((found - deviation).abs() <= 1e-15 * deviation, "{} {}", found, deviation);
        }
    }
}
