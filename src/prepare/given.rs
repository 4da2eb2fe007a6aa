//! The meaning of a value: the same number or time, whichever container it comes from, and the same name, except that
//! CSV has only text.

use std::fmt::Write;

use crate::decode::number_of_text;
use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::read::{DateUnit, Value};

use super::date::Moment;
use super::date_text::{by_format, iso};
use super::exact_number::Exact;

#[cold]
fn unexpected(wanted: &str, found: &Value<'_>) -> Error {
    Error::new(ErrorKind::Data, format!("expected {wanted}, found {}", found.describe()))
}

/// A value's text without surrounding blanks.
fn text<'a>(value: &Value<'a>) -> Option<&'a str> {
    match value {
        Value::Text(text) | Value::Decimal(text) => Some(text.trim()),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(str::trim),
        _ => None,
    }
}

/// Whether the value is missing in every sense: neither a number nor a name nor anything else.
pub(super) fn is_missing(value: &Value<'_>) -> bool {
    match value {
        Value::Missing => true,
        Value::F64(number) => number.is_nan(),
        Value::Numbers(numbers) => numbers.len() == 1 && numbers.at(0).is_nan(),
        value => text(value).is_some_and(str::is_empty),
    }
}

/// A finite number, or `None` if it is missing.
///
/// # Errors
///
/// [`ErrorKind::Data`] for a value that is not a number, or is infinite.
#[inline]
pub(super) fn number(value: &Value<'_>) -> Result<Option<f64>> {
    let number = match value {
        Value::Missing => return Ok(None),
        Value::F64(number) => *number,
        Value::I64(number) | Value::Time(number, _) => *number as f64,
        Value::U64(number) => *number as f64,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Numbers(numbers) if numbers.len() == 1 => numbers.at(0),
        Value::Decimal(_) | Value::Bytes(_) => match text(value) {
            Some("") => return Ok(None),
            // Words such as "inf" parse, too, but are not numbers here.
            Some(text) if text.bytes().any(|byte| byte.is_ascii_digit()) => {
                number_of_text(text).ok_or_else(|| unexpected("a number", value))?
            }
            _ => return Err(unexpected("a number", value)),
        },
        _ => return Err(unexpected("a number", value)),
    };
    match number.is_finite() {
        true => Ok(Some(number)),
        false if number.is_nan() => Ok(None),
        false => Err(unexpected("a finite number", value)),
    }
}

/// The integer of a value or of its text, which f64 may not hold exactly.
fn integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::I64(number) | Value::Time(number, _) => Some(*number),
        Value::U64(number) | Value::Numbers(NumberSlice::U64([number])) => i64::try_from(*number).ok(),
        Value::Numbers(NumberSlice::I64([number])) => Some(*number),
        Value::Decimal(_) | Value::Bytes(_) => text(value)?.parse().ok(),
        _ => None,
    }
}

/// A finite number, or `None` if it is missing: an integer of 64 bits stays exact.
///
/// # Errors
///
/// As [`number`].
#[inline]
pub(super) fn exact_number(value: &Value<'_>) -> Result<Option<Exact>> {
    let large = || match value {
        Value::U64(number) | Value::Numbers(NumberSlice::U64([number])) => Some(*number),
        Value::Decimal(_) | Value::Bytes(_) => text(value)?.parse().ok(),
        _ => None,
    };
    match integer(value).map(i128::from).or_else(|| large().map(i128::from)) {
        Some(number) => Ok(Some(Exact::Integer(number))),
        None => Ok(number(value)?.map(Exact::of)),
    }
}

/// The name in a text.
pub(super) fn named(text: &str) -> &str {
    without_zeros(text.trim())
}

/// Gives `take` a name that is not empty, or `None`. A number has one name, however it is stored or written; the name
/// of a text, such as any field of CSV, is the text.
///
/// # Errors
///
/// [`ErrorKind::Data`] for a value that can't be a name, and those of `take`.
#[inline]
pub(super) fn name<T>(value: &Value<'_>, take: impl FnOnce(Option<&str>) -> Result<T>) -> Result<T> {
    let mut own = Digits { bytes: [0; MOST_DIGITS], len: 0 };
    if let Some(text) = text(value) {
        let text = without_zeros(text);
        let number = if let Value::Decimal(_) = value { write_decimal(&mut own, text) } else { None };
        return match number.map(|written| written.ok().and_then(|()| own.text())) {
            None => take(Some(text).filter(|name| !name.is_empty())),
            Some(Some(name)) => take(Some(name)),
            Some(None) => Err(unexpected("a name", value)),
        };
    }
    let written = match value {
        Value::Missing => return take(None),
        Value::Bool(flag) => write!(own, "{flag}"),
        Value::I64(number) => write!(own, "{number}"),
        Value::Time(ticks, unit) => write_time(&mut own, *ticks, *unit),
        Value::U64(number) | Value::Numbers(NumberSlice::U64([number])) => write!(own, "{number}"),
        Value::F64(number) if number.is_nan() => return take(None),
        Value::F64(number) => write_float(&mut own, *number),
        Value::Numbers(NumberSlice::I64([number])) => write!(own, "{number}"),
        Value::Numbers(numbers) if numbers.len() == 1 && numbers.at(0).is_nan() => return take(None),
        Value::Numbers(numbers) if numbers.len() == 1 => write_float(&mut own, numbers.at(0)),
        Value::Bytes(_) => return Err(unexpected("a name in UTF-8", value)),
        _ => return Err(unexpected("a name", value)),
    };
    match written.ok().and_then(|()| own.text()) {
        Some(name) => take(Some(name)),
        None => Err(unexpected("a name", value)),
    }
}

/// The name of a flag that other programs, such as pandas in CSV, write in another way; any other name as it is.
pub(super) fn without_case_of_flags(name: &str) -> &str {
    match name {
        "True" | "TRUE" => "true",
        "False" | "FALSE" => "false",
        name => name,
    }
}

/// A date or a time in ISO 8601: `2024-05-01`, `2024-05-01T13:45:30.25`.
fn write_time(into: &mut Digits, ticks: i64, unit: DateUnit) -> std::fmt::Result {
    let per_second = match unit {
        DateUnit::Days => None,
        DateUnit::Seconds => Some(1),
        DateUnit::Milliseconds => Some(1_000),
        DateUnit::Microseconds => Some(1_000_000),
        DateUnit::Nanoseconds => Some(1_000_000_000),
    };
    let (seconds, rest) = match per_second {
        None => (ticks.checked_mul(86_400).ok_or(std::fmt::Error)?, 0),
        Some(per_second) => (ticks.div_euclid(per_second), ticks.rem_euclid(per_second) * (1_000_000_000 / per_second)),
    };
    let moment = Moment::new(seconds as f64).ok_or(std::fmt::Error)?;
    moment.write(into, per_second.is_some())?;
    if rest == 0 {
        return Ok(());
    }
    let (mut rest, mut digits) = (rest, 9);
    while rest % 10 == 0 {
        (rest, digits) = (rest / 10, digits - 1);
    }
    write!(into, ".{rest:0digits$}")
}

/// Writes the number that a text stands for. `None` for plain integers, which stay unchanged, and for words.
fn write_decimal(into: &mut Digits, text: &str) -> Option<std::fmt::Result> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !digits.starts_with('0'));
    if is_plain || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.parse::<i128>() {
        Ok(integer) => Some(write!(into, "{integer}")),
        Err(_) => text.parse().ok().map(|number| write_float(into, number)),
    }
}

/// The shortest decimal of a finite number: of an f32, if it is one and no integer, so that 0.1 has the same name as
/// f32 and as f64.
fn write_float(into: &mut Digits, number: f64) -> std::fmt::Result {
    let narrow = number as f32;
    match number {
        number if !number.is_finite() => Err(std::fmt::Error),
        number if number.fract() != 0.0 && f64::from(narrow) == number => write!(into, "{narrow}"),
        // -0 is 0.
        number => write!(into, "{}", number + 0.0),
    }
}

/// The longest number without an exponent has 309 digits before the point; the smallest has 324 zeros and 17 digits
/// after it.
const MOST_DIGITS: usize = 352;

/// A number as text, on the stack.
struct Digits {
    bytes: [u8; MOST_DIGITS],
    len: usize,
}

impl Digits {
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes[..self.len]).ok()
    }
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// A whole number without the `.0` that some writers add.
fn without_zeros(text: &str) -> &str {
    let Some(whole) = text.trim_end_matches('0').strip_suffix('.') else { return text };
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match (is_whole && whole.len() + 1 < text.len(), whole) {
        (true, "-0") => "0",
        (true, whole) => whole,
        (false, _) => text,
    }
}

/// Seconds since 1970, or `None` if they are missing.
///
/// # Errors
///
/// [`ErrorKind::Data`] for a value that is not a date.
pub(super) fn seconds(value: &Value<'_>, format: Option<&str>, unit: Option<DateUnit>) -> Result<Option<f64>> {
    const WANTED: &str = "a date such as 2024-05-01, or 2024-05-01T13:45:30; otherwise set its format or unit";
    if is_missing(value) {
        return Ok(None);
    }
    // A CSV file does not distinguish numbers from text.
    if let (Value::Text(_) | Value::Bytes(_), Some(text)) = (value, text(value)) {
        let seconds = match format {
            Some(format) => by_format(text, format),
            None => iso(text),
        };
        if seconds.is_some() {
            return Ok(seconds);
        }
    }
    match (unit, value, format) {
        // The file's own unit overrides the settings.
        (_, Value::Time(number, unit), _) => Ok(Some(unit.seconds_of(*number))),
        (Some(unit), value, _) if !matches!(value, Value::Bool(_)) => match integer(value) {
            Some(number) => Ok(Some(unit.seconds_of(number))),
            None => Ok(number(value)?.map(|number| unit.seconds(number))),
        },
        (_, value, Some(format)) => Err(unexpected(&format!("a date written as {format}"), value)),
        (_, value, None) => Err(unexpected(WANTED, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_same_however_it_comes() {
        let of = |value: Value<'_>| number(&value).map_err(|error| error.message().to_owned());
        for value in [Value::I64(3), Value::U64(3), Value::F64(3.0), Value::Decimal("3.0"), Value::Bytes(b" 3e0 ")] {
            assert_eq!(of(value), Ok(Some(3.0)), "{value:?}");
        }
        assert_eq!(of(Value::Numbers(NumberSlice::F32(&[0.5]))), Ok(Some(0.5)));
        assert_eq!(of(Value::Bool(true)), Ok(Some(1.0)));
        for value in [Value::Missing, Value::F64(f64::NAN), Value::Bytes(b" ")] {
            assert_eq!(of(value), Ok(None), "{value:?}");
        }
        for value in [
            Value::F64(f64::INFINITY),
            Value::Decimal("1e999"),
            Value::Bytes(b"inf"),
            Value::Bytes(b"x1"),
            Value::Text("3"),
        ] {
            assert!(of(value).unwrap_err().contains("expected a "), "{value:?}");
        }
    }

    #[test]
    fn a_name_is_the_same_however_it_comes() {
        let of = |value: Value<'_>| name(&value, |name| Ok(name.map(str::to_owned)));
        for extreme in [f64::MIN, -f64::MIN_POSITIVE, f64::from_bits(1), -f64::from_bits(0xf_ffff_ffff_ffff)] {
            assert_eq!(of(Value::F64(extreme)).unwrap(), Some(extreme.to_string()));
        }
        for value in [
            Value::I64(3),
            Value::U64(3),
            Value::F64(3.0),
            Value::Decimal("3.0"),
            Value::Bytes(b" 3 "),
            Value::Text("3.00"),
            Value::Numbers(NumberSlice::I64(&[3])),
            Value::Numbers(NumberSlice::F32(&[3.0])),
        ] {
            assert_eq!(of(value).unwrap().as_deref(), Some("3"), "{value:?}");
        }
        for value in [
            Value::Decimal("1.50"),
            Value::Decimal("15e-1"),
            Value::F64(1.5),
            Value::Numbers(NumberSlice::F32(&[1.5])),
            Value::Text("1.5"),
        ] {
            assert_eq!(of(value).unwrap().as_deref(), Some("1.5"), "{value:?}");
        }
        for value in [
            Value::Decimal("0.1"),
            Value::Decimal("1e-1"),
            Value::Decimal("0.10000000149011612"),
            Value::F64(0.1),
            Value::F64(0.1f32.into()),
            Value::Numbers(NumberSlice::F32(&[0.1])),
        ] {
            assert_eq!(of(value).unwrap().as_deref(), Some("0.1"), "{value:?}");
        }
        for (written, name) in [
            ("1e2", "100"),
            ("1.0E2", "100"),
            ("+7", "7"),
            ("007", "7"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0e5", "0"),
            (
                "12345678901234567890123456789012345678901234567890",
                "12345678901234567890123456789012345678901234567890",
            ),
            ("+12345678901234567", "12345678901234567"),
            ("16777217", "16777217"),
            ("12345.67", "12345.67"),
            ("inf", "inf"),
        ] {
            assert_eq!(of(Value::Decimal(written)).unwrap().as_deref(), Some(name), "{written}");
        }
        assert_eq!(of(Value::F64(12345.67f32.into())).unwrap().as_deref(), Some("12345.67"));
        assert_eq!(of(Value::F64(123_456_792f32.into())).unwrap().as_deref(), Some("123456792"));
        assert!(of(Value::Decimal("1e999")).is_err());
        let large = Value::Numbers(NumberSlice::I64(&[i64::MAX]));
        assert_eq!(of(large).unwrap(), Some(i64::MAX.to_string()));
        assert_eq!(of(Value::F64(-0.0)).unwrap().as_deref(), Some("0"));
        assert_eq!(of(Value::Text("-0.0")).unwrap().as_deref(), Some("0"));
        assert_eq!(of(Value::F64(2.5)).unwrap().as_deref(), Some("2.5"));
        // A code of digits stays as it is. CSV does not distinguish numbers from text.
        for verbatim in ["007", "1.", ".0", "-.0", "a.0", "1.50", "v1.10", "10", "+7", "1e-05", "12e4"] {
            for value in [Value::Text(verbatim), Value::Bytes(verbatim.as_bytes())] {
                assert_eq!(of(value).unwrap().as_deref(), Some(verbatim));
            }
        }
        let none = Value::Numbers(NumberSlice::F64(&[f64::NAN]));
        for value in [Value::Missing, Value::F64(f64::NAN), Value::Text("  "), Value::Bytes(b""), none] {
            assert_eq!(of(value).unwrap(), None, "{value:?}");
        }
        assert!(of(Value::Bytes(b"\xff")).is_err() && of(Value::F64(f64::INFINITY)).is_err());
    }

    #[test]
    fn a_moment_is_the_same_however_it_comes() {
        let of = |value: Value<'_>, unit| seconds(&value, None, unit).unwrap();
        assert_eq!(of(Value::Text("1970-01-02"), None), Some(86_400.0));
        assert_eq!(of(Value::Text("1970-01-02"), Some(DateUnit::Days)), Some(86_400.0));
        assert_eq!(of(Value::I64(1), Some(DateUnit::Days)), Some(86_400.0));
        for unit in [None, Some(DateUnit::Seconds)] {
            assert_eq!(of(Value::Time(1, DateUnit::Days), unit), Some(86_400.0));
        }
        assert_eq!(of(Value::Bytes(b"1"), Some(DateUnit::Days)), Some(86_400.0));
        // The last nanosecond of 2024 is not in 2025.
        let last = "1735689599999999999";
        for value in [
            Value::Time(1_735_689_599_999_999_999, DateUnit::Nanoseconds),
            Value::I64(1_735_689_599_999_999_999),
            Value::Numbers(NumberSlice::I64(&[1_735_689_599_999_999_999])),
            Value::Bytes(last.as_bytes()),
            Value::Decimal(last),
            Value::Text("2024-12-31T23:59:59.999999999"),
        ] {
            assert_eq!(of(value, Some(DateUnit::Nanoseconds)), Some(1_735_689_600f64.next_down()), "{value:?}");
        }
        assert_eq!(of(Value::Decimal("1500"), Some(DateUnit::Milliseconds)), Some(1.5));
        let none = Value::Numbers(NumberSlice::F32(&[f32::NAN]));
        for value in [Value::Text(""), Value::Bytes(b" "), Value::Missing, Value::F64(f64::NAN), none] {
            assert_eq!((of(value, Some(DateUnit::Days)), of(value, None)), (None, None));
            assert_eq!(seconds(&value, Some("%d.%m.%Y"), None).unwrap(), None);
        }
        // 2024 or 20240501 would mean a moment of 1970.
        for value in [Value::Bytes(b"20240501"), Value::I64(20_240_501), Value::Bool(true)] {
            let error = seconds(&value, None, None).unwrap_err();
            assert!(error.message().contains("set its format or unit"), "{error}");
        }
        let error = seconds(&Value::Text("2024-05-01"), Some("%d.%m.%Y"), None).unwrap_err();
        assert!(error.message().contains("%d.%m.%Y"), "{error}");
    }
}
