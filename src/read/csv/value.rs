//! The meaning of a single field.

use std::collections::HashSet;
use std::str::FromStr;

use fast_float2::FastFloat;

use crate::decode::{LONG, compare_decimals, integer_of_decimal, number_of_text, odd_f32, odd_f32_of_text};
use crate::dtype::{DType, Element};
use crate::float16::{bf16, f16};
use crate::schema::Affine;

use super::number::Decimal;

/// What a field is, if nothing is known of its column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Missing,
    Integer(i64),
    Float(f64),
    Text,
}

/// The fields that stand for a missing value.
#[derive(Clone, Debug)]
pub(crate) struct Missings {
    tokens: HashSet<Box<[u8]>>,
    longest: usize,
    /// Those that are numbers, such as -999; -999.0 is the same number.
    numbers: Vec<Box<[u8]>>,
    /// Those that are words for numbers, in any spelling.
    words: Vec<Word>,
}

/// A number without digits, in any letter case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Nan,
    Infinity { negative: bool },
}

impl Word {
    fn of(field: &[u8]) -> Option<Self> {
        let (negative, word) = match field {
            [b'-', word @ ..] => (true, word),
            [b'+', word @ ..] | word => (false, word),
        };
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        if is("nan") { Some(Self::Nan) } else { (is("inf") || is("infinity")).then_some(Self::Infinity { negative }) }
    }
}

impl Missings {
    pub(crate) fn new(tokens: &[String]) -> Self {
        let tokens: HashSet<Box<[u8]>> = tokens.iter().map(|token| token.trim_ascii().as_bytes().into()).collect();
        let longest = tokens.iter().map(|token| token.len()).max().unwrap_or(0);
        let numbers = tokens.iter().filter(|token| is_decimal(token)).cloned().collect();
        let words = tokens.iter().filter_map(|token| Word::of(token)).collect();
        Self { tokens, longest, numbers, words }
    }

    /// Whether a number with digits may stand for a missing value, so that it must be looked up.
    pub(crate) fn has_numbers(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Whether a field without surrounding blanks is missing.
    pub(crate) fn contains(&self, field: &[u8]) -> bool {
        field.len() <= self.longest && self.tokens.contains(field)
            || self.numbers.iter().any(|number| is_same_number(number, field))
            || Word::of(field).is_some_and(|word| self.words.contains(&word))
    }

    pub(crate) fn value(&self, field: &[u8]) -> Value {
        let field = field.trim_ascii();
        if self.has_numbers() && self.contains(field) {
            return Value::Missing;
        }
        let whole = |len: usize| len == field.len();
        if let Some(decimal) = Decimal::leading(field).filter(|decimal| whole(decimal.len)) {
            if let Some(number) = decimal.to_i64() {
                return Value::Integer(number);
            }
            if let Some(number) = decimal.to_f64() {
                return Value::Float(number);
            }
        }
        if let Some((number, _)) = i64::leading(field).filter(|(_, len)| whole(*len)) {
            return Value::Integer(number);
        }
        if let Some((number, _)) = f64::leading(field).filter(|(number, len)| whole(*len) && number.is_finite()) {
            // This is reached for integers beyond i64, too.
            return Value::Float(number);
        }
        if let Some(number) = i64::exact(field) {
            return Value::Integer(number);
        }
        match f64::exact(field) {
            Some(number) if number.is_finite() => Value::Float(number),
            _ if self.contains(field) => Value::Missing,
            Some(number) => Value::Float(number),
            None => Value::Text,
        }
    }
}

/// Whether a token, field or name is a number with digits that the standard library can parse.
pub(crate) fn is_decimal(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit) && f64::exact(text).is_some()
}

/// The integer that a number without surrounding blanks is, however it is written: 3, 3.0 or 3e0.
pub(super) fn whole(field: &[u8]) -> Option<i64> {
    i64::exact(without_zeros(field)).or_else(|| integer_of(field)?.try_into().ok())
}

/// As [`whole`], in an integer type.
#[cold]
pub(super) fn of_whole<T: FieldNumber>(field: &[u8]) -> Option<T> {
    T::exact(without_zeros(field)).or_else(|| T::exact(integer_of(field)?.to_string().as_bytes()))
}

/// A number without the zeros behind its point.
fn without_zeros(field: &[u8]) -> &[u8] {
    let point = field.iter().rposition(|byte| *byte != b'0').filter(|last| field[*last] == b'.');
    &field[..point.unwrap_or(field.len())]
}

/// The integer that a number is.
fn integer_of(field: &[u8]) -> Option<i128> {
    f64::exact(field).filter(|near| near.is_finite())?;
    integer_of_decimal(field)
}

/// Whether a field is the same number as this token.
fn is_same_number(token: &[u8], field: &[u8]) -> bool {
    let same_sign = token.starts_with(b"-") == field.starts_with(b"-");
    compare_decimals(token, field).is_eq() && (same_sign || compare_decimals(token, b"0").is_eq()) && is_decimal(field)
}

/// A number type that fields can be read as.
pub(crate) trait FieldNumber: Copy + Default {
    /// The number at the start of `bytes`, and its length: only what [`exact`](Self::exact) would read in the same way.
    fn leading(bytes: &[u8]) -> Option<(Self, usize)>;
    /// The same number in this type, if it is certain.
    fn of_decimal(decimal: Decimal) -> Option<Self>;
    /// Like [`leading`](Self::leading), but only for plain numbers, and fast.
    #[inline(always)]
    fn plain(bytes: &[u8]) -> Option<(Self, usize)> {
        let decimal = Decimal::leading(bytes)?;
        Some((Self::of_decimal(decimal)?, decimal.len))
    }
    /// The number that is all of `field`, correctly rounded.
    fn exact(field: &[u8]) -> Option<Self>;
    /// The same value in this type.
    fn from_f64(value: f64) -> Option<Self>;
    fn is_nan(self) -> bool;
    fn is_infinite(self) -> bool;
}

/// Whether the type is too small for the number in a text: only words may give infinity.
pub(super) fn is_too_large<T: FieldNumber>(number: T, text: &[u8]) -> bool {
    number.is_infinite() && text.iter().any(u8::is_ascii_digit)
}

/// An element type that fields can be read as.
pub(crate) trait FieldElement: FieldNumber + Element {
    fn from_index(index: u32) -> Self;
    /// Transformed by the factors at `entry`.
    fn scaled(self, affine: &Affine, entry: usize) -> Self;

    /// The same integer in this type.
    fn from_i64(number: i64) -> Option<Self> {
        match Self::DTYPE {
            DType::I64 => return Some(bytemuck::cast(number)),
            DType::U64 => return u64::try_from(number).ok().map(bytemuck::cast),
            _ => {}
        }
        let near = number as f64;
        let survives = |own: &Self| near as i128 == i128::from(number) && Self::numbers(&[*own]).at(0) == near;
        Self::from_f64(near).filter(survives)
    }
}

/// The integer at the start of `bytes`, and its length.
fn leading_integer<T: FromStr>(bytes: &[u8]) -> Option<(T, usize)> {
    let sign = usize::from(matches!(bytes, [b'+' | b'-', ..]));
    let len = sign + bytes[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some((std::str::from_utf8(&bytes[..len]).ok()?.parse().ok()?, len))
}

#[inline]
fn leading_float<T: FastFloat + FromStr>(bytes: &[u8]) -> Option<(T, usize)> {
    let (number, len) = fast_float2::parse_partial(bytes).ok()?;
    Some((if len < LONG { number } else { number_of_text(std::str::from_utf8(&bytes[..len]).ok()?)? }, len))
}

macro_rules! field_numbers {
    ($($type:ty: $plain:expr, $leading:expr, [$is_nan:expr, $is_infinite:expr], $scaled:expr, $from_f64:expr;)*) => {$(
        impl FieldNumber for $type {
            #[inline]
            fn leading(bytes: &[u8]) -> Option<(Self, usize)> {
                $leading(bytes)
            }

            #[inline(always)]
            fn of_decimal(decimal: Decimal) -> Option<Self> {
                let number: fn(Decimal) -> Option<Self> = $plain;
                number(decimal)
            }

            fn exact(field: &[u8]) -> Option<Self> {
                number_of_text(std::str::from_utf8(field).ok()?)
            }

            fn from_f64(value: f64) -> Option<Self> {
                let convert: fn(f64) -> Option<Self> = $from_f64;
                convert(value)
            }

            #[inline]
            fn is_nan(self) -> bool {
                let is_nan: fn(Self) -> bool = $is_nan;
                is_nan(self)
            }

            #[inline]
            fn is_infinite(self) -> bool {
                let is_infinite: fn(Self) -> bool = $is_infinite;
                is_infinite(self)
            }
        }

        impl FieldElement for $type {
            fn from_index(index: u32) -> Self {
                index as Self
            }

            #[inline]
            fn scaled(self, affine: &Affine, entry: usize) -> Self {
                let scaled: fn(Self, &Affine, usize) -> Self = $scaled;
                scaled(self, affine, entry)
            }
        }
    )*};
}

#[inline]
fn scaled_f32(x: f32, affine: &Affine, entry: usize) -> f32 {
    x.mul_add(affine.scale[entry], affine.bias[entry])
}

/// The nearest f32, unless the nearest is infinity.
fn nearest_f32(value: f64) -> Option<f32> {
    let near = value as f32;
    (near.is_finite() || !value.is_finite()).then_some(near)
}

/// An integer type can hold a number that is the same after it was converted there and back, below 2^63 (which
/// saturates to the largest i64, and that rounds to 2^63 again).
macro_rules! whole {
    ($type:ty) => {
        |value| ((value as $type) as f64 == value && value < <$type>::MAX as f64 + 1.0).then_some(value as $type)
    };
}

field_numbers! {
    u8: |decimal| decimal.to_u64()?.try_into().ok(), leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(u8);
    i8: |decimal| decimal.to_i64()?.try_into().ok(), leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(i8);
    u16: |decimal| decimal.to_u64()?.try_into().ok(), leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(u16);
    i16: |decimal| decimal.to_i64()?.try_into().ok(), leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(i16);
    u32: |decimal| decimal.to_u64()?.try_into().ok(), leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(u32);
    i32: |decimal| decimal.to_i64()?.try_into().ok(), leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(i32);
    u64: Decimal::to_u64, leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(u64);
    i64: Decimal::to_i64, leading_integer, [|_| false, |_| false], |x, _, _| x, whole!(i64);
    f32: Decimal::to_f32, leading_float, [f32::is_nan, f32::is_infinite], scaled_f32, nearest_f32;
    f64: Decimal::to_f64, leading_float, [f64::is_nan, f64::is_infinite], |x, affine, entry| affine.steps[entry].apply(x), Some;
}

/// A number that becomes one of 16 bits: the f32 that rounds to the same as the field (see [`odd_f32`]).
#[derive(Clone, Copy, Default)]
pub(crate) struct BeforeHalf(f32);

impl From<BeforeHalf> for f32 {
    fn from(number: BeforeHalf) -> Self {
        number.0
    }
}

impl FieldNumber for BeforeHalf {
    fn leading(bytes: &[u8]) -> Option<(Self, usize)> {
        let (near, len) = f64::leading(bytes)?;
        Some((Self(odd_f32_of_text(&bytes[..len], near)), len))
    }

    #[inline(always)]
    fn of_decimal(decimal: Decimal) -> Option<Self> {
        decimal.to_odd_f32().map(Self)
    }

    fn exact(field: &[u8]) -> Option<Self> {
        f64::exact(field).map(|near| Self(odd_f32_of_text(field, near)))
    }

    fn from_f64(value: f64) -> Option<Self> {
        Some(Self(odd_f32(value)))
    }

    fn is_nan(self) -> bool {
        self.0.is_nan()
    }

    fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }
}

macro_rules! field_halves {
    ($($type:ty),*) => {$(
        impl FieldNumber for $type {
            fn leading(bytes: &[u8]) -> Option<(Self, usize)> {
                BeforeHalf::leading(bytes).map(|(number, len)| (<$type>::from_f32(number.0), len))
            }

            fn of_decimal(decimal: Decimal) -> Option<Self> {
                BeforeHalf::of_decimal(decimal).map(|number| <$type>::from_f32(number.0))
            }

            fn exact(field: &[u8]) -> Option<Self> {
                BeforeHalf::exact(field).map(|number| <$type>::from_f32(number.0))
            }

            /// Fractions are rounded. A whole number may be a class and must stay the same.
            fn from_f64(value: f64) -> Option<Self> {
                let number = <$type>::from_f32(odd_f32(value));
                let is_in_reach = number.is_finite() || !value.is_finite();
                (is_in_reach && value.fract() != 0.0 || f64::from(number) == value).then_some(number)
            }

            fn is_nan(self) -> bool {
                self.is_nan()
            }

            fn is_infinite(self) -> bool {
                self.is_infinite()
            }
        }

        impl FieldElement for $type {
            fn from_index(index: u32) -> Self {
                <$type>::from_f32(odd_f32(index.into()))
            }

            fn scaled(self, affine: &Affine, entry: usize) -> Self {
                <$type>::from_f32(scaled_f32(self.to_f32(), affine, entry))
            }
        }
    )*};
}

field_halves!(f16, bf16);

/// A number that is not plain: one with an exponent, many digits, or a plus sign. If it is not finite, it may stand for
/// a missing value or be too large.
#[inline(never)]
pub(super) fn other_number<T: FieldNumber>(rest: &[u8]) -> Option<(T, usize)> {
    T::leading(rest).filter(|(number, _)| !number.is_nan() && !number.is_infinite())
}

/// Runs `$body` with `$T` standing for the element type `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::dtype::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::dtype::DType::U16 => {
                type $T = u16;
                $body
            }
            $crate::dtype::DType::I16 => {
                type $T = i16;
                $body
            }
            $crate::dtype::DType::U32 => {
                type $T = u32;
                $body
            }
            $crate::dtype::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::dtype::DType::U64 => {
                type $T = u64;
                $body
            }
            $crate::dtype::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::dtype::DType::F16 => {
                type $T = $crate::float16::f16;
                $body
            }
            $crate::dtype::DType::Bf16 => {
                type $T = $crate::float16::bf16;
                $body
            }
            $crate::dtype::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_element;

/// Whether a tensor of this type can hold `value`.
pub(crate) fn holds(dtype: DType, value: f64) -> bool {
    with_element!(dtype, T => <T as FieldNumber>::from_f64(value).is_some())
}

/// Whether a tensor of this type can hold an integer, such as a class.
pub(crate) fn holds_integer(dtype: DType, number: i64) -> bool {
    with_element!(dtype, T => <T as FieldElement>::from_i64(number).is_some())
}

/// An index from 0 to `last` that a tensor of this type can't hold, if there is one.
pub(crate) fn unfit_index(dtype: DType, last: i64) -> Option<i64> {
    // A floating-point type with n significant bits holds 2^n, but not the integer after it.
    let most = match dtype {
        DType::Bf16 => 1 << 8,
        DType::F16 => 1 << 11,
        DType::F32 => 1 << 24,
        DType::F64 => 1 << 53,
        _ => i64::MAX,
    };
    [most.saturating_add(1).min(last), last].into_iter().find(|index| !holds_integer(dtype, *index))
}

/// Whether a field is a number with a comma instead of a point.
pub(super) fn has_decimal_comma(field: &[u8]) -> bool {
    let field = field.trim_ascii();
    let field = field.strip_prefix(b"-").or(field.strip_prefix(b"+")).unwrap_or(field);
    let mut parts = field.split(|byte| *byte == b',');
    let are_digits = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(|byte| byte.is_ascii_digit()))
    };
    are_digits(parts.next()) && are_digits(parts.next()) && parts.next().is_none()
}

/// The advice for a field that only people read as a number; empty if it is not a number for anybody.
pub(super) fn advice(field: &[u8]) -> String {
    if has_decimal_comma(field) {
        return "; numbers have a decimal point: convert the file (pandas.read_csv with decimal=\",\", or with \
                thousands=\",\" if that is what the comma separates, and to_csv)"
            .to_owned();
    }
    let Ok(text) = std::str::from_utf8(field) else { return String::new() };
    let (around, number): (String, String) =
        text.trim().chars().partition(|each| each.is_whitespace() || "$\u{20ac}\u{a3}\u{a5}%_',".contains(*each));
    match around.is_empty() || !is_decimal(number.as_bytes()) {
        true => String::new(),
        false => format!(
            "; a number is digits with a sign, a point and an exponent at most: take {around:?} out of the column"
        ),
    }
}

/// A field as a message shows it: quoted, lossy, and not longer than 40 characters.
pub(crate) fn shown(field: &[u8]) -> String {
    let start = String::from_utf8_lossy(&field[..field.len().min(200)]);
    let mut short: String = start.chars().take(40).collect();
    if short.len() < start.len() || field.len() > 200 {
        short.push('…');
    }
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_missing_a_number_or_text() {
        let missings = Missings::new(&["".to_owned(), "NaN".to_owned(), "-999".to_owned()]);
        for (field, value) in [
            ("", Value::Missing),
            ("  ", Value::Missing),
            ("NaN", Value::Missing),
            ("-999", Value::Missing),
            ("+5", Value::Integer(5)),
            (" 7 ", Value::Integer(7)),
            ("1e3", Value::Float(1000.0)),
            ("inf", Value::Float(f64::INFINITY)),
            ("9223372036854775808", Value::Float(9_223_372_036_854_775_808.0)),
            ("1_000", Value::Text),
            ("0x10", Value::Text),
            ("\0", Value::Text),
            ("1,5", Value::Text),
        ] {
            assert_eq!(missings.value(field.as_bytes()), value, "{field:?}");
        }
    }

    #[test]
    fn what_is_a_number_to_people_alone_is_told_what_to_do() {
        for field in ["1,5", " -12,25 ", "+0,5"] {
            assert!(
                has_decimal_comma(field.as_bytes()) && advice(field.as_bytes()).contains("decimal point"),
                "{field}"
            );
        }
        for (field, part) in [
            ("$3", "take \"$\" out"),
            ("1 000.5", "take \" \" out"),
            ("1,234,567", "take \",,\" out"),
            ("-5%", "\"%\""),
        ] {
            assert!(advice(field.as_bytes()).contains(part), "{field}: {}", advice(field.as_bytes()));
        }
        for field in ["", "x", "$", "2024-05-01", "12:30", "1,5,x", "3", "v1,5", ",5", "5,"] {
            assert!(!has_decimal_comma(field.as_bytes()), "{field}");
        }
        for field in ["", "x", "$", "2024-05-01", "12:30", "1,5,x", "3", "a 3"] {
            assert_eq!(advice(field.as_bytes()), "", "{field}");
        }
    }

    #[test]
    fn exponents_of_any_size_are_read() {
        let zeros = "0".repeat(655_359);
        for text in [format!("0.{zeros}1e655360"), format!("1{zeros}e-655359")] {
            let field = text.as_bytes();
            assert_eq!(
                (f64::exact(field), f32::exact(field), bf16::exact(field)),
                (Some(1.0), Some(1.0), Some(bf16::ONE))
            );
            assert_eq!(f64::leading(format!("{text},2").as_bytes()), Some((1.0, text.len())));
            assert_eq!((whole(field), Missings::new(&[]).value(field)), (Some(1), Value::Float(1.0)));
        }
        // With other letters, it is as little a number as a short text.
        assert_eq!(f64::exact(format!("0.{zeros}1e655360x").as_bytes()), None);
    }

    #[test]
    fn integers_with_an_exponent_are_exact() {
        for (text, number) in [
            ("1.23456789012345678e17", Some(123_456_789_012_345_678)),
            ("12345678901234567e1", Some(123_456_789_012_345_670)),
            ("9.223372036854775807e18", Some(i64::MAX)),
            ("-9.223372036854775808e18", Some(i64::MIN)),
            ("9.223372036854775808e18", None),
            ("1.5e0", None),
            ("1e400", None),
            ("inf", None),
        ] {
            assert_eq!(whole(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn a_value_is_held_only_if_it_survives() {
        assert!(holds(DType::U8, 255.0) && !holds(DType::U8, 256.0) && !holds(DType::U8, 0.5));
        assert!(holds(DType::I64, -9_223_372_036_854_775_808.0) && !holds(DType::I64, 9_223_372_036_854_775_808.0));
        assert!(!holds(DType::I32, f64::NAN) && holds(DType::F32, 0.1));
        assert!(holds(DType::F16, 2048.0) && !holds(DType::F16, 2049.0) && holds(DType::F16, 0.1));
        assert!(holds(DType::Bf16, -1.0) && !holds(DType::Bf16, 257.0) && holds(DType::Bf16, f64::NAN));
    }
}
