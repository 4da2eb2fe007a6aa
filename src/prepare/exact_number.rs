//! A number whose integers are exact, also where f64 is not.

use std::cmp::Ordering;
use std::ops::{Add, Neg};

use crate::filter::order;
use crate::read::Value;

/// A number that is compared, added and subtracted exactly if it is an integer of up to 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exact {
    Integer(i128),
    Float(f64),
}

/// All integers up to this one are numbers of f64.
const MAX_SAFE: f64 = (1u64 << 53) as f64;

impl Exact {
    #[inline]
    pub(super) fn of(number: f64) -> Self {
        // Larger ones stay what they are, so that they keep their names.
        match number.fract() == 0.0 && number.abs() <= MAX_SAFE {
            true => Self::Integer((number as i64).into()),
            false => Self::Float(number),
        }
    }

    /// The nearest f64.
    #[inline]
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    /// The same, or the nearest f64 of an integer of more than 64 bits.
    pub(super) fn value(self) -> Value<'static> {
        match self {
            Self::Integer(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => Value::I64(number),
                (_, Ok(number)) => Value::U64(number),
                _ => Value::F64(number as f64),
            },
            Self::Float(number) => Value::F64(number),
        }
    }
}

impl Add for Exact {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Self::Integer(one + other),
            _ => Self::Float(self.to_f64() + other.to_f64()),
        }
    }
}

impl Neg for Exact {
    type Output = Self;

    fn neg(self) -> Self {
        match self {
            Self::Integer(number) => Self::Integer(-number),
            Self::Float(number) => Self::Float(-number),
        }
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (*self, *other) {
            (Self::Integer(one), Self::Integer(other)) => Some(one.cmp(&other)),
            (Self::Integer(one), Self::Float(other)) => order(one, other),
            (Self::Float(one), Self::Integer(other)) => order(other, one).map(Ordering::reverse),
            (Self::Float(one), Self::Float(other)) => one.partial_cmp(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_an_integer_if_f64_tells_it_from_its_neighbours() {
        for (number, is_integer) in [
            (0.0, true),
            (-0.0, true),
            (-3.0, true),
            (9_007_199_254_740_992.0, true),
            (9_007_199_254_740_994.0, false),
            (-9_223_372_036_854_775_808.0, false),
            (9_223_372_036_854_775_808.0, false),
            (-9_223_372_036_854_777_856.0, false),
            (0.5, false),
            (1e300, false),
            (f64::INFINITY, false),
            (f64::NEG_INFINITY, false),
        ] {
            let exact = Exact::of(number);
            assert_eq!(matches!(exact, Exact::Integer(_)), is_integer, "{number}");
            assert_eq!(exact.to_f64(), number);
        }
    }

    #[test]
    fn numbers_beyond_f64_are_told_apart() {
        let large = |more: i128| Exact::Integer((1 << 53) + more);
        assert!(large(1) > large(0) && large(1) == large(1) && large(1) != large(0));
        assert!(large(1) > Exact::Float(9_007_199_254_740_992.0) && Exact::Float(0.5) < large(0));
        assert!(Exact::Integer(1 << 63) == Exact::of(9_223_372_036_854_775_808.0));
        assert_eq!((large(1) + -large(0)).to_f64(), 1.0);
        assert_eq!((Exact::Integer(3) + Exact::Float(0.5)).to_f64(), 3.5);
        assert!(matches!(Exact::Integer(u64::MAX.into()).value(), Value::U64(u64::MAX)));
        assert!(
            matches!((Exact::Integer(u64::MAX.into()) + Exact::of(1.0)).value(), Value::F64(x) if x == 2f64.powi(64))
        );
    }
}
