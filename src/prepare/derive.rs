//! Columns that are computed from others, record by record.

use std::fmt;
use std::ops::Add;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::exact_number::Exact;

/// What a derived column is computed from. Made by [`sum`], [`difference`], [`product`], [`ratio`], [`log_ratio`],
/// [`smallest`], [`largest`], [`less`], [`less_or_equal`], [`equal`], [`same`], [`days`] and [`pair`]; in settings a
/// table of one of these words: `{ ratio = ["price", "rooms"] }`.
///
/// The result is missing if one of its columns is missing, or if it is undefined: a ratio to 0, or the logarithm of a
/// number that is not above 0. Replace it where it is [used](super::number), like any missing value.
///
/// Integers of up to 64 bits are added, subtracted and compared exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Derive {
    /// See [`sum`].
    Sum(Vec<Operand>),
    /// See [`product`].
    Product(Vec<Operand>),
    /// See [`smallest`].
    Smallest(Vec<Operand>),
    /// See [`largest`].
    Largest(Vec<Operand>),
    /// See [`difference`].
    Difference(Vec<Operand>),
    /// See [`ratio`].
    Ratio(Vec<Operand>),
    /// See [`log_ratio`].
    LogRatio(Vec<Operand>),
    /// See [`less`].
    Less(Vec<Operand>),
    /// See [`less_or_equal`].
    LessOrEqual(Vec<Operand>),
    /// See [`equal`].
    Equal(Vec<Operand>),
    /// See [`same`].
    Same(Vec<Operand>),
    /// See [`days`].
    Days(Vec<Operand>),
    /// See [`pair`].
    Pair(Vec<Operand>),
}

/// An operand: a column or a number.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operand {
    /// A column: of the record, joined, or derived before.
    Column(String),
    /// The same number for each record.
    Number(f64),
}

impl From<&str> for Operand {
    fn from(column: &str) -> Self {
        Self::Column(column.to_owned())
    }
}

impl From<String> for Operand {
    fn from(column: String) -> Self {
        Self::Column(column)
    }
}

impl From<f64> for Operand {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

macro_rules! of_many {
    ($($(#[$doc:meta])* $name:ident $variant:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<O: Into<Operand>>(of: impl IntoIterator<Item = O>) -> Derive {
            Derive::$variant(of.into_iter().map(Into::into).collect())
        }
    )*};
}

of_many! {
    /// The sum of numbers.
    sum Sum;
    /// The product of numbers.
    product Product;
    /// The smallest of numbers.
    smallest Smallest;
    /// The largest of numbers.
    largest Largest;
    /// Several names as one name, `Oslo|female`, for a [`category`](super::category) of its own. A bar within a name is
    /// written `\|`, and a backslash `\\`, so that no two pairs have the same name.
    pair Pair;
}

macro_rules! of_two {
    ($($(#[$doc:meta])* $name:ident $variant:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(first: impl Into<Operand>, second: impl Into<Operand>) -> Derive {
            Derive::$variant(vec![first.into(), second.into()])
        }
    )*};
}

of_two! {
    /// The first number less the second.
    difference Difference;
    /// The first number divided by the second; missing if that is 0.
    ratio Ratio;
    /// The natural logarithm of the first number divided by the second; missing if the second is 0, or their ratio is
    /// not above 0.
    log_ratio LogRatio;
    /// 1 if the first number is less than the second, otherwise 0.
    less Less;
    /// 1 if the first number is not more than the second, otherwise 0.
    less_or_equal LessOrEqual;
    /// 1 if the numbers are equal, otherwise 0.
    equal Equal;
    /// 1 if the names are the same, otherwise 0.
    same Same;
    /// Days from the second date or time to the first, with their fraction. Dates are text in ISO 8601, or times in a
    /// file that stores them as times.
    days Days;
}

impl Derive {
    /// The operands that it is made of.
    pub(super) fn operands(&self) -> &[Operand] {
        match self {
            Self::Sum(of) | Self::Product(of) | Self::Smallest(of) | Self::Largest(of) | Self::Pair(of) => of,
            Self::Difference(of) | Self::Ratio(of) | Self::LogRatio(of) | Self::Days(of) => of,
            Self::Less(of) | Self::LessOrEqual(of) | Self::Equal(of) | Self::Same(of) => of,
        }
    }

    fn takes_any_count(&self) -> bool {
        matches!(self, Self::Sum(_) | Self::Product(_) | Self::Smallest(_) | Self::Largest(_) | Self::Pair(_))
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let (of, mut faults) = (self.operands(), Vec::new());
        match of.len() {
            0 | 1 if self.takes_any_count() => faults.push("it needs at least two columns or numbers".to_owned()),
            2 => {}
            _ if self.takes_any_count() => {}
            count => faults.push(format!("it needs two columns or numbers, not {count}")),
        }
        let numbers = || of.iter().filter(|operand| matches!(operand, Operand::Number(_)));
        if numbers().count() == of.len() && !of.is_empty() {
            faults.push("it has only numbers, so it is the same for every record; name a column".to_owned());
        }
        for operand in of {
            match operand {
                Operand::Number(number) if !number.is_finite() => {
                    faults.push(format!("{number} is not a finite number"))
                }
                Operand::Number(number) if matches!(self, Self::Same(_) | Self::Days(_) | Self::Pair(_)) => {
                    faults.push(format!("{number} is neither a name nor a date"));
                }
                _ => {}
            }
        }
        faults
    }

    /// The result for these numbers, all of which are taken; `None` if it is not defined. [`Same`](Self::Same) and
    /// derivations that do not take numbers have none.
    pub(super) fn of_numbers(&self, mut numbers: impl Iterator<Item = Exact>) -> Option<Exact> {
        let truth = |is_true: bool| Some(Exact::Integer(is_true.into()));
        let first = numbers.next()?;
        match self {
            Self::Sum(_) => Some(numbers.fold(first, Exact::add)),
            Self::Product(_) => {
                Some(Exact::Float(numbers.fold(first.to_f64(), |product, number| product * number.to_f64())))
            }
            Self::Smallest(_) => Some(numbers.fold(first, |least, number| if number < least { number } else { least })),
            Self::Largest(_) => Some(numbers.fold(first, |most, number| if number > most { number } else { most })),
            Self::Difference(_) => Some(numbers.fold(first, |number, less| number + -less)),
            Self::Ratio(_) => {
                let by = numbers.next()?.to_f64();
                (by != 0.0).then(|| Exact::Float(first.to_f64() / by))
            }
            Self::LogRatio(_) => log_ratio_of(first.to_f64(), numbers.next()?.to_f64()).map(Exact::Float),
            Self::Less(_) => truth(first < numbers.next()?),
            Self::LessOrEqual(_) => truth(first <= numbers.next()?),
            Self::Equal(_) => truth(first == numbers.next()?),
            Self::Days(_) => Some(Exact::Float((first.to_f64() - numbers.next()?.to_f64()) / 86_400.0)),
            Self::Same(_) | Self::Pair(_) => None,
        }
    }
}

fn log_ratio_of(number: f64, by: f64) -> Option<f64> {
    let ratio = number / by;
    let is_above_0 = number != 0.0 && by != 0.0 && (number > 0.0) == (by > 0.0);
    // A ratio that f64 does not reach, or not with all digits, still has a logarithm.
    is_above_0.then(|| if ratio.is_normal() { ratio.ln() } else { number.abs().ln() - by.abs().ln() })
}

/// Writes a name after earlier ones, in such a way that the text shows where each name ends.
pub(super) fn write_name(text: &mut String, name: &str) {
    for letter in name.chars() {
        if matches!(letter, '|' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
}

impl Serialize for Operand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Column(name) => serializer.serialize_str(name),
            Self::Number(number) => serializer.serialize_f64(*number),
        }
    }
}

impl<'de> Deserialize<'de> for Operand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Operand;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a column, or a number")
            }

            fn visit_str<E>(self, name: &str) -> Result<Operand, E> {
                Ok(name.into())
            }

            fn visit_i64<E>(self, number: i64) -> Result<Operand, E> {
                Ok(Operand::Number(number as f64))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Operand, E> {
                Ok(Operand::Number(number as f64))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Operand, E> {
                Ok(Operand::Number(number))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_what_arithmetic_says() {
        let of = |derive: Derive, numbers: &[f64]| {
            derive.of_numbers(numbers.iter().copied().map(Exact::of)).map(Exact::to_f64)
        };
        assert_eq!(of(sum(["a", "b", "c"]), &[1.0, 2.5, -0.5]), Some(3.0));
        assert_eq!(of(product(["a", "b"]), &[3.0, -2.0]), Some(-6.0));
        assert_eq!(of(smallest(["a", "b"]), &[3.0, -2.0]), Some(-2.0));
        assert_eq!(of(largest(["a", "b"]), &[3.0, -2.0]), Some(3.0));
        assert_eq!(of(difference("a", "b"), &[3.0, -2.0]), Some(5.0));
        assert_eq!(of(ratio("a", "b"), &[3.0, -2.0]), Some(-1.5));
        assert_eq!(of(log_ratio("a", "b"), &[-3.0, -2.0]), Some(1.5f64.ln()));
        assert_eq!(of(days("a", "b"), &[86_400.0, -43_200.0]), Some(1.5));
        for (numbers, less, less_or_equal, equal_to) in
            [([1.0, 2.0], 1.0, 1.0, 0.0), ([2.0, 2.0], 0.0, 1.0, 1.0), ([-0.0, 0.0], 0.0, 1.0, 1.0)]
        {
            assert_eq!(of(super::less("a", "b"), &numbers), Some(less));
            assert_eq!(of(super::less_or_equal("a", "b"), &numbers), Some(less_or_equal));
            assert_eq!(of(equal("a", "b"), &numbers), Some(equal_to));
        }
        for (derive, numbers) in [
            (ratio("a", "b"), [3.0, 0.0]),
            (ratio("a", "b"), [0.0, -0.0]),
            (log_ratio("a", "b"), [3.0, 0.0]),
            (log_ratio("a", "b"), [0.0, 3.0]),
            (log_ratio("a", "b"), [3.0, -1.0]),
            (log_ratio("a", "b"), [-1e-300, 1e300]),
        ] {
            assert_eq!(of(derive.clone(), &numbers), None, "{derive:?}");
        }
    }

    #[test]
    fn a_ratio_that_f64_does_not_reach_has_a_logarithm() {
        let of = |a: f64, b: f64| log_ratio("a", "b").of_numbers([a, b].map(Exact::of).into_iter()).unwrap().to_f64();
        let smallest = f64::from_bits(1);
        for (a, b, expected) in [
            (1e-300, 1e300, -600.0 * 10f64.ln()),
            (-1e308, -1e-10, 318.0 * 10f64.ln()),
            (f64::MAX, smallest, 1024.0 * 2f64.ln() + 1074.0 * 2f64.ln()),
            (3.0 * smallest, 2.0, -1075.0 * 2f64.ln() + 3f64.ln()),
        ] {
            assert!((of(a, b) - expected).abs() < 1e-12 * expected.abs(), "{a} {b}: {}", of(a, b));
        }
        assert_eq!(of(1e300, 1e10), (1e300f64 / 1e10).ln());
    }

    #[test]
    fn no_two_pairs_of_names_are_the_same() {
        let of = |names: &[&str]| {
            let mut text = String::new();
            for (nth, name) in names.iter().enumerate() {
                if nth > 0 {
                    text.push('|');
                }
                write_name(&mut text, name);
            }
            text
        };
        assert_eq!(of(&["Oslo", "female"]), "Oslo|female");
        let names = ["", "|", "\\", "a", "a|", "|a", "\\|", "a\\", "|\\"];
        let mut all = std::collections::HashSet::new();
        for one in names {
            for other in names {
                assert!(all.insert(of(&[one, other])), "{one:?} {other:?}");
            }
        }
    }
}
