//! Numbers by which samples are chosen. Integers are exact beyond the 53 bits of f64, because ids are often 64-bit
//! integers.

use crate::decode::number_of_text;
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::{Known, MOST_EXACT, written_integer};
use crate::random::hash_bytes;
use crate::read::{Outside, OutsideCodec, Value};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

/// A number as the nearest f64, and the distance of an integer from it. NaN means missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    near: f64,
    rest: i64,
    kind: Kind,
}

/// The type of a number in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Float,
    Integer,
    Flag,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Float, Self::Integer, Self::Flag];
}

impl Number {
    /// From what [`codec`] wrote, or from any other number.
    pub(super) fn of(written: &[f64]) -> Self {
        let at = |nth: usize| written.get(nth).copied();
        let kind = at(2).and_then(|kind| Kind::ALL.get(kind as usize)).copied();
        Self { near: at(0).unwrap_or(f64::NAN), rest: at(1).unwrap_or(0.0) as i64, kind: kind.unwrap_or(Kind::Float) }
    }

    pub(super) fn of_class(class: u32) -> Self {
        Self { near: class.into(), rest: 0, kind: Kind::Integer }
    }

    /// # Errors
    ///
    /// As [`exact`].
    pub(super) fn read(value: &Value<'_>) -> Result<Self> {
        let (near, rest, kind) = exact(value)?;
        Ok(Self { near, rest, kind })
    }

    fn integer(self) -> i128 {
        self.near as i128 + i128::from(self.rest)
    }

    pub(super) fn known<'a>(self) -> Known<'a> {
        match self {
            Self { near, .. } if near.is_nan() => Known::Missing,
            Self { near, rest: 0, .. } => Known::Number(near),
            number => Known::Integer(number.integer()),
        }
    }

    /// The number with its type in the record; the nearest f64 for an integer beyond 64 bits.
    pub(super) fn value<'a>(self) -> Value<'a> {
        if self.near.is_nan() {
            return Value::Missing;
        }
        match self.kind {
            Kind::Flag => Value::Bool(self.near != 0.0),
            Kind::Float => Value::F64(self.near),
            Kind::Integer => match (i64::try_from(self.integer()), u64::try_from(self.integer())) {
                (Ok(integer), _) => Value::I64(integer),
                (_, Ok(integer)) => Value::U64(integer),
                _ => Value::F64(self.near),
            },
        }
    }

    /// The bits of the nearest f64. They are the same for equal numbers, and the same for all missing values.
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
    pub(super) fn rank(self) -> (u64, i64) {
        let bits = self.bits();
        (if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }, self.rest)
    }
}

/// Writes a field's number as f64 `[3]`: the nearest one, the distance from it, and the number of its type.
pub(super) fn codec(name: &str) -> OutsideCodec {
    OutsideCodec::new(Exact([TensorSpec::new(name, Role::Feature, DType::F64, &[3])]))
}

struct Exact([TensorSpec; 1]);

impl Outside for Exact {
    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn write(&self, _: usize, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let (near, rest, kind) = exact(&value)?;
        row.tensor(0).as_mut_slice::<f64>()?.copy_from_slice(&[near, rest as f64, f64::from(kind as u8)]);
        Ok(())
    }
}

/// # Errors
///
/// [`ErrorKind::Data`] for a value that is not a number, or is beyond the largest f64.
fn exact(value: &Value<'_>) -> Result<Exactly> {
    let unexpected = || Error::new(ErrorKind::Data, format!("expected a number, found {}", value.describe()));
    Ok(match value {
        Value::Missing => float(f64::NAN),
        Value::Bool(flag) => (f64::from(u8::from(*flag)), 0, Kind::Flag),
        Value::I64(number) | Value::Time(number, _) => parts((*number).into()),
        Value::U64(number) | Value::Numbers(NumberSlice::U64([number])) => parts((*number).into()),
        Value::F64(number) => float(*number),
        Value::Numbers(NumberSlice::I64([number])) => parts((*number).into()),
        Value::Numbers(numbers) if numbers.len() == 1 && numbers.dtype().is_float() => float(numbers.at(0)),
        Value::Numbers(numbers) if numbers.len() == 1 => (numbers.at(0), 0, Kind::Integer),
        Value::Decimal(text) => written(text).ok_or_else(unexpected)?,
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok().and_then(written).ok_or_else(unexpected)?,
        _ => return Err(unexpected()),
    })
}

/// The nearest f64, the distance from it, and the type.
type Exactly = (f64, i64, Kind);

fn float(number: f64) -> Exactly {
    (number, 0, Kind::Float)
}

fn parts(integer: i128) -> Exactly {
    debug_assert!(integer.abs() <= MOST_EXACT, "{integer}");
    (integer as f64, (integer - integer as f64 as i128) as i64, Kind::Integer)
}

/// The number in a text, as a loader reads it. Only words such as `inf` are infinite.
fn written(text: &str) -> Option<Exactly> {
    let text = text.trim();
    if let Some(integer) = written_integer(text) {
        return Some(parts(integer));
    }
    let number: f64 = number_of_text(text)?;
    let is_too_large = number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit());
    (!is_too_large).then_some(float(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: Value<'_>) -> Option<Number> {
        Number::read(&value).ok()
    }

    #[test]
    fn no_two_integers_are_one_number() {
        let edges =
            [-MOST_EXACT, i64::MIN.into(), -(1 << 53), 0, 1 << 53, 1 << 62, 1 << 63, u64::MAX.into(), MOST_EXACT];
        let near = edges.into_iter().flat_map(|edge| edge - 3..edge + 4);
        let all: Vec<i128> = near.filter(|number| number.abs() <= MOST_EXACT).collect();
        let numbers: Vec<Number> = all
            .iter()
            .map(|integer| {
                let text = integer.to_string();
                let of_text = number(Value::Bytes(text.as_bytes())).unwrap();
                let of_value = match (i64::try_from(*integer), u64::try_from(*integer)) {
                    (Ok(integer), _) => number(Value::I64(integer)).unwrap(),
                    (_, Ok(integer)) => number(Value::U64(integer)).unwrap(),
                    _ => of_text,
                };
                assert_eq!((of_value, number(Value::Decimal(&format!("{text}.0"))).unwrap()), (of_text, of_text));
                assert_eq!(Number::of(&[of_text.near, of_text.rest as f64, 1.0]), of_text);
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
    fn a_text_is_the_number_that_a_loader_reads() {
        for text in ["", "x", "-", ".", "1e999", &"9".repeat(400), "1 2"] {
            assert_eq!(number(Value::Bytes(text.as_bytes())), None, "{text}");
        }
        assert_eq!((number(Value::Text("3")), number(Value::Bytes(b"\xff"))), (None, None));
        for (text, found) in [
            ("-0", 0.0),
            (" 7 ", 7.0),
            ("2.50", 2.5),
            ("1e3", 1000.0),
            (".5", 0.5),
            ("+10", 10.0),
            ("Infinity", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            ("1e30", 1e30),
            ("162259276829213363391578010288129", 2.0 * MOST_EXACT as f64),
        ] {
            let number = number(Value::Bytes(text.as_bytes())).unwrap();
            assert_eq!((number.near, number.rest), (found, 0), "{text}");
        }
        for missing in [Value::Missing, Value::Bytes(b"nan"), Value::Bytes(b"-NaN")] {
            assert!(matches!(number(missing).unwrap().known(), Known::Missing));
        }
    }
}
