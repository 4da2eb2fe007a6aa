//! Decimal numbers in text, compared exactly.

use std::cmp::Ordering;
use std::iter::repeat;

use memchr::{memchr, memchr2};

/// Compares the size of two decimal numbers, without their signs. Both must be finite numbers that the standard library
/// can parse.
pub(crate) fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let (ones, others) = (Digits::of(one), Digits::of(other));
    let most = one.len().max(other.len());
    ones.place.cmp(&others.place).then_with(|| ones.padded(most).cmp(others.padded(most)))
}

/// The digits from the first one that is not 0; there may be a point among them.
#[derive(Clone, Copy)]
struct Digits<'a> {
    digits: &'a [u8],
    /// The power of ten of the first digit; the least one for 0.
    place: i64,
}

impl<'a> Digits<'a> {
    fn of(text: &'a [u8]) -> Self {
        let (number, exponent) = match memchr2(b'e', b'E', text) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])),
            None => (text, 0),
        };
        let Some(first) = number.iter().position(|byte| matches!(byte, b'1'..=b'9')) else {
            return Self { digits: &[], place: i64::MIN };
        };
        let point = memchr(b'.', number).unwrap_or(number.len());
        let place = if first < point { (point - first) as i64 - 1 } else { point as i64 - first as i64 };
        Self { digits: &number[first..], place: exponent.saturating_add(place) }
    }

    fn padded(self, len: usize) -> impl Iterator<Item = u8> + use<'a> {
        self.digits.iter().copied().filter(u8::is_ascii_digit).chain(repeat(b'0')).take(len)
    }
}

/// An exponent beyond 64 bits becomes the largest or smallest one.
fn exponent(text: &[u8]) -> i64 {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.unwrap_or(if text.first() == Some(&b'-') { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        let ascending = [
            &["0", "-0", "0.00", ".0", "0e7", "0e99999999999999999999"][..],
            &["1e-99999999999999999999"],
            &["0.0001", "1e-4", "100e-6", "+.00010"],
            &["0.00010000000000000000000000001"],
            &["9.99", "999e-2", "-009.990"],
            &["10", "1e1", "1E+1", "10.", "00010.000", "0.1e2", "1.e1"],
            &["10.0000000000000000001"],
            &["734.25", "73425e-2"],
            &["734.25001"],
            &["7342.5"],
            &["1e99999999999999999999"],
        ];
        for (nth, ones) in ascending.iter().enumerate() {
            for (other, others) in ascending.iter().enumerate() {
                for (one, other, expected) in
                    ones.iter().flat_map(|one| others.iter().map(move |text| (one, text, nth.cmp(&other))))
                {
                    assert_eq!(compare(one.as_bytes(), other.as_bytes()), expected, "{one} and {other}");
                }
            }
        }
    }
}
