//! Decimal numbers in text, compared exactly.

use std::cmp::Ordering;
use std::iter::repeat;
use std::str::FromStr;

use memchr::{memchr, memchr2};

/// Compares the size of two decimal numbers, without their signs. Both must be finite numbers that the standard library
/// can parse.
pub(crate) fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let (ones, others) = (Digits::of(one), Digits::of(other));
    let most = one.len().max(other.len());
    ones.place.cmp(&others.place).then_with(|| ones.padded(most).cmp(others.padded(most)))
}

/// The integer that a decimal number is, if it has at most 20 digits, as all integers of 64 bits do; `None` for others. The
/// number must be one that the standard library can parse.
pub(crate) fn integer(text: &[u8]) -> Option<i128> {
    let number = Digits::of(text);
    // A number below 1 has no digits before the point.
    let digits = usize::try_from(number.place.saturating_add(1)).unwrap_or(0);
    let has_fraction =
        number.digits.iter().filter(|byte| byte.is_ascii_digit()).skip(digits).any(|digit| *digit != b'0');
    if number.place >= 20 || has_fraction {
        return None;
    }
    let size = number.padded(digits).fold(0, |size, digit| 10 * size + i128::from(digit - b'0'));
    Some(if text.first() == Some(&b'-') { -size } else { size })
}

/// Parsers stop reading an exponent at the fifth or sixth digit. In a shorter number than this, so large an exponent says
/// by itself that the number is infinite or 0.
pub(crate) const LONG: usize = 1 << 15;

/// The number that is all of `text`, as the standard library parses it, but right for exponents of any size.
#[inline]
pub(crate) fn number<T: FromStr>(text: &str) -> Option<T> {
    let number = text.parse().ok()?;
    let short = if text.len() < LONG { None } else { shortened(text.as_bytes()) };
    short.map_or(Some(number), |short| short.parse().ok())
}

/// A short number that every floating point type rounds as it does this [`LONG`] one; `None` if it has no exponent.
#[cold]
fn shortened(text: &[u8]) -> Option<String> {
    /// More digits than the middle between two numbers of 64 bits has.
    const MOST: usize = 800;
    memchr2(b'e', b'E', text)?;
    let number = Digits::of(text);
    let sign = if text.first() == Some(&b'-') { "-" } else { "" };
    let digits: String = number.padded(MOST).map(char::from).collect();
    let rest = number.digits.iter().filter(|byte| byte.is_ascii_digit()).skip(MOST).any(|digit| *digit != b'0');
    let place = number.place.clamp(-10_000, 10_000);
    Some(format!("{sign}{}.{}{}e{place}", &digits[..1], &digits[1..], u8::from(rest)))
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

    #[test]
    fn an_integer_is_exact_however_it_is_written() {
        for (text, number) in [
            ("0", 0),
            ("-0.0", 0),
            ("0e99999999999999999999", 0),
            ("3.0", 3),
            ("-3.e0", -3),
            ("+0.5e1", 5),
            ("120e-1", 12),
            ("1.23456789012345678e17", 123_456_789_012_345_678),
            ("-12345678901234567e1", -123_456_789_012_345_670),
            ("9223372036854775807.000E+0", i64::MAX.into()),
            ("-0.9223372036854775808e19", i64::MIN.into()),
            ("18446744073709551615", u64::MAX.into()),
            ("99999999999999999999", 99_999_999_999_999_999_999),
        ] {
            assert_eq!(integer(text.as_bytes()), Some(number), "{text}");
        }
        for text in ["0.5", "1e-1", "3.00000000000000000001", "100000000000000000000", "1e20", "1e99999999999999999999"]
        {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_long_number_is_the_same_when_it_is_shortened() {
        let zeros = "0".repeat(1_000_000);
        for (text, number) in [
            (format!("-0.{zeros}25e1000002"), -25.0),
            (format!("25{zeros}.5e-1000001"), 2.5),
            (format!("0{zeros}e99"), 0.0),
            (format!("1{zeros}e1000000"), f64::INFINITY),
            (format!("0.{zeros}1e-1000000"), 0.0),
            // Just above the middle between 1 and the next number, which 1 alone is nearest to.
            (format!("1.00000000000000011102230246251565404236316680908203125{zeros}1e0"), 1.0 + f64::EPSILON),
        ] {
            assert_eq!(shortened(text.as_bytes()).unwrap().parse(), Ok(number));
        }
        assert_eq!(shortened(zeros.as_bytes()), None);
    }
}
