//! Numbers by which samples are chosen, exact also beyond the range of f64, because ids are often 64-bit integers.

use crate::dtype::{DType, Numbers};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Known;
use crate::random::hash_bytes;
use crate::read::{Outside, OutsideCodec, Value};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

/// A number as the nearest f64, and the distance of a 64-bit integer from it. NaN means missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    near: f64,
    rest: i16,
}

impl Number {
    /// From what [`codec`] wrote, or from any other number.
    pub(super) fn of(written: &[f64]) -> Self {
        let rest = written.get(1).copied().unwrap_or(0.0) as i16;
        Self { near: written.first().copied().unwrap_or(f64::NAN), rest }
    }

    /// # Errors
    ///
    /// As [`exact`].
    pub(super) fn read(value: &Value<'_>) -> Result<Self> {
        exact(value).map(|(near, rest)| Self { near, rest })
    }

    fn integer(self) -> i128 {
        self.near as i128 + i128::from(self.rest)
    }

    pub(super) fn known<'a>(self) -> Known<'a> {
        match self {
            Self { near, .. } if near.is_nan() => Known::Missing,
            Self { near, rest: 0 } => Known::Number(near),
            number => Known::Integer(number.integer()),
        }
    }

    /// The bits of the nearest f64: of the same number the same, and of all that are missing.
    fn bits(self) -> u64 {
        if self.near.is_nan() { f64::NAN.to_bits() } else { (self.near + 0.0).to_bits() }
    }

    /// The same for equal numbers, and different for different ones.
    pub(super) fn group(self) -> u64 {
        match self.rest {
            0 => self.bits(),
            _ => hash_bytes(&self.integer().to_le_bytes()),
        }
    }

    /// Sorts like the numbers.
    pub(super) fn rank(self) -> (u64, i16) {
        let bits = self.bits();
        (if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }, self.rest)
    }
}

/// Writes a field's number as f64 `[2]`: the nearest one, and the distance from it.
pub(super) fn codec(name: &str) -> OutsideCodec {
    OutsideCodec::new(Exact([TensorSpec::new(name, Role::Feature, DType::F64, &[2])]))
}

struct Exact([TensorSpec; 1]);

impl Outside for Exact {
    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn write(&self, _: usize, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let (near, rest) = exact(&value)?;
        row.tensor(0).as_mut_slice::<f64>()?.copy_from_slice(&[near, f64::from(rest)]);
        Ok(())
    }
}

/// # Errors
///
/// [`ErrorKind::Data`] for what is no number, or an integer beyond 64 bits, of which f64 holds too little.
fn exact(value: &Value<'_>) -> Result<(f64, i16)> {
    let unexpected = || Error::new(ErrorKind::Data, format!("expected a number, found {}", value.describe()));
    let integer = |integer: i128| (integer as f64, (integer - integer as f64 as i128) as i16);
    Ok(match value {
        Value::Missing => (f64::NAN, 0),
        Value::Bool(flag) => (f64::from(u8::from(*flag)), 0),
        Value::I64(number) | Value::Time(number, _) => integer((*number).into()),
        Value::U64(number) | Value::Numbers(Numbers::U64([number])) => integer((*number).into()),
        Value::F64(number) => (*number, 0),
        Value::Numbers(Numbers::I64([number])) => integer((*number).into()),
        Value::Numbers(numbers) if numbers.len() == 1 => (numbers.at(0), 0),
        Value::Decimal(text) => written(text, integer).ok_or_else(unexpected)?,
        Value::Bytes(bytes) => {
            std::str::from_utf8(bytes).ok().and_then(|text| written(text, integer)).ok_or_else(unexpected)?
        }
        _ => return Err(unexpected()),
    })
}

/// The number in a text.
fn written(text: &str, integer: impl Fn(i128) -> (f64, i16)) -> Option<(f64, i16)> {
    let text = text.trim();
    let whole = text.trim_end_matches('0').strip_suffix('.').unwrap_or(text);
    if whole.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit()) {
        let held = i128::from(i64::MIN)..=i128::from(u64::MAX);
        return whole.parse().ok().filter(|number| held.contains(number)).map(integer);
    }
    // Words such as "inf" parse, too, but are not numbers here.
    let number = text.bytes().any(|byte| byte.is_ascii_digit()).then(|| text.parse::<f64>().ok()).flatten()?;
    number.is_finite().then_some((number, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: Value<'_>) -> Option<Number> {
        exact(&value).ok().map(|(near, rest)| Number { near, rest })
    }

    #[test]
    fn no_two_integers_of_64_bits_are_one_number() {
        let edges = [i128::from(i64::MIN), -(1 << 53), 0, 1 << 53, 1 << 62, 1 << 63, i128::from(u64::MAX)];
        let near = edges.into_iter().flat_map(|edge| edge - 3..edge + 4);
        let all: Vec<i128> =
            near.filter(|number| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(number)).collect();
        let numbers: Vec<Number> = all
            .iter()
            .map(|integer| {
                let text = integer.to_string();
                let of_text = number(Value::Bytes(text.as_bytes())).unwrap();
                let of_value = match i64::try_from(*integer) {
                    Ok(integer) => number(Value::I64(integer)),
                    Err(_) => number(Value::U64(*integer as u64)),
                };
                assert_eq!(
                    (of_value.unwrap(), number(Value::Decimal(&format!("{text}.0"))).unwrap()),
                    (of_text, of_text)
                );
                assert_eq!(of_text.integer(), *integer);
                of_text
            })
            .collect();
        assert!(numbers.is_sorted_by(|one, next| one.rank() < next.rank()));
        let groups: std::collections::HashSet<u64> = numbers.iter().map(|number| number.group()).collect();
        assert_eq!(groups.len(), all.len());
    }

    #[test]
    fn equal_numbers_are_one_group_however_they_are_stored() {
        let number = |near: f64| number(Value::F64(near)).unwrap();
        for (one, other) in [(0.0, -0.0), (f64::NAN, -f64::NAN), (f64::NAN, f64::from_bits(f64::NAN.to_bits() + 1))] {
            let [one, other] = [number(one), number(other)];
            assert_eq!((one.group(), one.rank()), (other.group(), other.rank()), "{one:?} {other:?}");
        }
        assert!(number(-5e-324).rank() < number(-0.0).rank() && number(0.0).rank() < number(5e-324).rank());
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "x", "inf", "nan", "-", "1e999", "18446744073709551616", "-9223372036854775809", "1 2"] {
            assert_eq!(number(Value::Bytes(text.as_bytes())), None, "{text}");
        }
        assert_eq!((number(Value::Text("3")), number(Value::Bytes(b"\xff"))), (None, None));
        for (text, found) in [("-0", 0.0), (" 7 ", 7.0), ("2.50", 2.5), ("1e3", 1000.0), (".5", 0.5), ("+10", 10.0)] {
            assert_eq!(number(Value::Bytes(text.as_bytes())), Some(Number { near: found, rest: 0 }), "{text}");
        }
        assert!(matches!(number(Value::Missing).unwrap().known(), Known::Missing));
    }
}
