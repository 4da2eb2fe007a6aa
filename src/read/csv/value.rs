//! What a single field means.

use std::collections::HashSet;

use crate::dtype::{DType, Element};

use super::number::Decimal;

/// What a field is, when nothing is known of its column.
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
    /// Whether a token is itself a number, such as -999: then a number must be looked up before it is believed.
    pub(crate) numeric: bool,
}

impl Missings {
    pub(crate) fn new(tokens: &[String]) -> Self {
        let tokens: HashSet<Box<[u8]>> = tokens.iter().map(|token| token.trim_ascii().as_bytes().into()).collect();
        let longest = tokens.iter().map(|token| token.len()).max().unwrap_or(0);
        let numeric = tokens.iter().any(|token| f64::exact(token).is_some_and(|number| !number.is_nan()));
        Self { tokens, longest, numeric }
    }

    /// Whether a field without surrounding blanks is missing.
    pub(crate) fn contains(&self, field: &[u8]) -> bool {
        field.len() <= self.longest && self.tokens.contains(field)
    }

    pub(crate) fn value(&self, field: &[u8]) -> Value {
        let field = field.trim_ascii();
        if self.numeric && self.contains(field) {
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
        if let Some((number, _)) = f64::leading(field).filter(|(number, len)| whole(*len) && !number.is_nan()) {
            // An integer beyond i64 comes here too.
            return Value::Float(number);
        }
        if let Some(number) = i64::exact(field) {
            return Value::Integer(number);
        }
        match f64::exact(field) {
            Some(number) if !number.is_nan() => Value::Float(number),
            _ if self.contains(field) => Value::Missing,
            Some(number) => Value::Float(number),
            None => Value::Text,
        }
    }
}

/// An element type that fields can be read as.
pub(crate) trait FieldNumber: Element {
    /// The number at the start of `bytes` and how long it is: only what [`exact`](Self::exact) would read as the same.
    fn leading(bytes: &[u8]) -> Option<(Self, usize)>;
    /// As [`leading`](Self::leading), but only a plain one, and fast.
    fn plain(bytes: &[u8]) -> Option<(Self, usize)>;
    /// The number that is all of `field`, correctly rounded.
    fn exact(field: &[u8]) -> Option<Self>;
    /// The same value in this type.
    fn from_f64(value: f64) -> Option<Self>;
    fn from_index(index: u32) -> Self;
    fn is_nan(self) -> bool;
    fn scaled(self, scale: f32, bias: f32) -> Self;
}

macro_rules! field_numbers {
    ($($type:ty: $plain:expr, $leading:path, $is_nan:expr, $scaled:expr, $from_f64:expr;)*) => {$(
        impl FieldNumber for $type {
            #[inline]
            fn leading(bytes: &[u8]) -> Option<(Self, usize)> {
                $leading(bytes).ok()
            }

            #[inline(always)]
            fn plain(bytes: &[u8]) -> Option<(Self, usize)> {
                let decimal = Decimal::leading(bytes)?;
                let number: fn(Decimal) -> Option<Self> = $plain;
                Some((number(decimal)?, decimal.len))
            }

            fn exact(field: &[u8]) -> Option<Self> {
                std::str::from_utf8(field).ok()?.parse().ok()
            }

            fn from_f64(value: f64) -> Option<Self> {
                let convert: fn(f64) -> Option<Self> = $from_f64;
                convert(value)
            }

            fn from_index(index: u32) -> Self {
                index as Self
            }

            #[inline]
            fn is_nan(self) -> bool {
                let is_nan: fn(Self) -> bool = $is_nan;
                is_nan(self)
            }

            #[inline]
            fn scaled(self, scale: f32, bias: f32) -> Self {
                let scaled: fn(Self, f32, f32) -> Self = $scaled;
                scaled(self, scale, bias)
            }
        }
    )*};
}

/// An integer type holds what survives the way there and back, below 2^63 (which saturates to i64's largest, and that
/// rounds to 2^63 again).
macro_rules! whole {
    ($type:ty) => {
        |value| ((value as $type) as f64 == value && value < <$type>::MAX as f64 + 1.0).then_some(value as $type)
    };
}

field_numbers! {
    u8: |decimal| decimal.to_u64()?.try_into().ok(), lexical_core::parse_partial, |_| false, |x, _, _| x, whole!(u8);
    i8: |decimal| decimal.to_i64()?.try_into().ok(), lexical_core::parse_partial, |_| false, |x, _, _| x, whole!(i8);
    u16: |decimal| decimal.to_u64()?.try_into().ok(), lexical_core::parse_partial, |_| false, |x, _, _| x, whole!(u16);
    i16: |decimal| decimal.to_i64()?.try_into().ok(), lexical_core::parse_partial, |_| false, |x, _, _| x, whole!(i16);
    u32: |decimal| decimal.to_u64()?.try_into().ok(), lexical_core::parse_partial, |_| false, |x, _, _| x, whole!(u32);
    i32: |decimal| decimal.to_i64()?.try_into().ok(), lexical_core::parse_partial, |_| false, |x, _, _| x, whole!(i32);
    i64: Decimal::to_i64, lexical_core::parse_partial, |_| false, |x, _, _| x, whole!(i64);
    f32: Decimal::to_f32, fast_float2::parse_partial, f32::is_nan, f32::mul_add, |value| Some(value as f32);
    f64: Decimal::to_f64, fast_float2::parse_partial, f64::is_nan, |x, scale, bias| x.mul_add(scale.into(), bias.into()), Some;
}

/// Read as f32, and rounded once more.
macro_rules! field_halves {
    ($($type:ty),*) => {$(
        impl FieldNumber for $type {
            fn leading(bytes: &[u8]) -> Option<(Self, usize)> {
                f32::leading(bytes).map(|(number, len)| (<$type>::from_f32(number), len))
            }

            fn plain(bytes: &[u8]) -> Option<(Self, usize)> {
                f32::plain(bytes).map(|(number, len)| (<$type>::from_f32(number), len))
            }

            fn exact(field: &[u8]) -> Option<Self> {
                f32::exact(field).map(<$type>::from_f32)
            }

            /// Fractions are rounded; a whole number, which may be a class, must survive.
            fn from_f64(value: f64) -> Option<Self> {
                let number = <$type>::from_f32(value as f32);
                (value.fract() != 0.0 || f64::from(number) == value).then_some(number)
            }

            fn from_index(index: u32) -> Self {
                <$type>::from_f32(index as f32)
            }

            fn is_nan(self) -> bool {
                self.is_nan()
            }

            fn scaled(self, scale: f32, bias: f32) -> Self {
                <$type>::from_f32(self.to_f32().mul_add(scale, bias))
            }
        }
    )*};
}

field_halves!(half::f16, half::bf16);

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
            $crate::dtype::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::dtype::DType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::dtype::DType::Bf16 => {
                type $T = half::bf16;
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

/// Whether `value` can stand in a tensor of this type.
pub(crate) fn holds(dtype: DType, value: f64) -> bool {
    with_element!(dtype, T => <T as FieldNumber>::from_f64(value).is_some())
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
    fn a_value_is_held_only_if_it_survives() {
        assert!(holds(DType::U8, 255.0) && !holds(DType::U8, 256.0) && !holds(DType::U8, 0.5));
        assert!(holds(DType::I64, -9_223_372_036_854_775_808.0) && !holds(DType::I64, 9_223_372_036_854_775_808.0));
        assert!(!holds(DType::I32, f64::NAN) && holds(DType::F32, 0.1));
        assert!(holds(DType::F16, 2048.0) && !holds(DType::F16, 2049.0) && holds(DType::F16, 0.1));
        assert!(holds(DType::Bf16, -1.0) && !holds(DType::Bf16, 257.0) && holds(DType::Bf16, f64::NAN));
    }
}
