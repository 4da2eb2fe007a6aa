use std::cmp::Ordering;

use serde::{Serialize, Serializer};

use crate::dtype::NumberSlice;
use crate::filter::order;

/// What `inspect` reports about one field: statistics over every value, array elements included. The sum, the smallest
/// and the largest value of a field of integers are exact integers; other sums, and the mean, are f64. [`Figure`] says
/// how they are written in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FieldSummary {
    /// Column or tensor name.
    pub name: String,
    /// `feature`, `label`, `mask` or `ignored`.
    pub role: String,
    /// An element type, or `text`.
    pub dtype: String,
    /// Shape of one record's value; `[]` for a single value, 0 for a length that differs from record to record.
    pub shape: Vec<usize>,
    /// Number of values; for lists, and for the arrays of an archive, the number of records that have one; for an image
    /// folder, whose pixels are not read, the number of files.
    pub count: u64,
    /// Number of missing values, NaN among them.
    pub missing: u64,
    /// Sum of the values; `None` if there is no number.
    pub sum: Option<Figure>,
    /// Smallest value.
    pub min: Option<Figure>,
    /// Largest value.
    pub max: Option<Figure>,
    /// The sum divided by the number of summands: all numbers in arrays and lists, except missing ones.
    #[serde(serialize_with = "as_figure")]
    pub mean: Option<f64>,
}

impl FieldSummary {
    /// A field that was not read.
    pub(crate) fn unread(name: &str, dtype: &str, count: u64) -> Self {
        Self {
            name: name.to_owned(),
            role: "feature".to_owned(),
            dtype: dtype.to_owned(),
            shape: Vec::new(),
            count,
            missing: 0,
            sum: None,
            min: None,
            max: None,
            mean: None,
        }
    }
}

/// A number, as stored in a file.
///
/// In JSON, an integer is a number if it fits in `i64` or `u64`, and otherwise the text of its digits, such as
/// `"36893488147419103230"`. Infinities, which JSON does not have, are `"inf"` and `"-inf"`, and NaN is `"nan"`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Figure {
    /// An integer.
    Whole(i128),
    /// Of any other type.
    Real(f64),
}

/// Up to here, f64 has every integer.
const EXACT: f64 = (1u64 << 53) as f64;

impl Figure {
    /// The same number in the type of its field. A fraction stays one, also where the type was found out from some of
    /// the records.
    pub(crate) fn typed(self, is_integer: bool) -> Self {
        match self {
            Self::Real(number) if is_integer && number.fract() == 0.0 && number.abs() <= EXACT => {
                Self::Whole(number as i128)
            }
            Self::Whole(number) if !is_integer => Self::Real(number as f64),
            same => same,
        }
    }
}

impl From<i128> for Figure {
    fn from(number: i128) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Figure {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Whole(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => serializer.serialize_i64(number),
                (_, Ok(number)) => serializer.serialize_u64(number),
                _ => serializer.collect_str(&number),
            },
            Self::Real(f64::INFINITY) => serializer.serialize_str("inf"),
            Self::Real(f64::NEG_INFINITY) => serializer.serialize_str("-inf"),
            Self::Real(number) if number.is_nan() => serializer.serialize_str("nan"),
            Self::Real(number) => serializer.serialize_f64(number),
        }
    }
}

fn as_figure<S: Serializer>(figure: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    figure.map(Figure::Real).serialize(serializer)
}

/// Running statistics over numbers. The sum is compensated (Neumaier), so its error does not grow with the count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    sum: f64,
    compensation: f64,
    /// The sum of the integers.
    whole: i128,
    /// The smallest and the largest of the integers, and of all other numbers.
    whole_ends: Option<(i128, i128)>,
    ends: Option<(f64, f64)>,
}

impl Tally {
    pub(crate) fn add(&mut self, value: f64) {
        self.add_to_sum(value);
        self.count += 1;
        self.note((value, value));
    }

    /// Adds an integer, exactly.
    pub(crate) fn add_integer(&mut self, value: i128) {
        self.add_integers(value, 1);
    }

    /// Adds an integer `count` times, exactly: the sum of fewer than 2^63 integers of 64 bits fits in 127 bits.
    pub(crate) fn add_integers(&mut self, value: i128, count: u64) {
        if count == 0 {
            return;
        }
        self.whole += value * i128::from(count);
        self.count += count;
        self.note_integers((value, value));
    }

    /// Adds elements of any type. NaN is ignored.
    pub(crate) fn add_numbers(&mut self, numbers: NumberSlice<'_>) {
        match numbers {
            NumberSlice::U64(numbers) => numbers.iter().for_each(|number| self.add_integer((*number).into())),
            NumberSlice::I64(numbers) => numbers.iter().for_each(|number| self.add_integer((*number).into())),
            _ if !numbers.dtype().is_float() => {
                (0..numbers.len()).for_each(|at| self.add_integer(numbers.at(at) as i128));
            }
            _ => {
                (0..numbers.len()).map(|at| numbers.at(at)).filter(|number| !number.is_nan()).for_each(|x| self.add(x))
            }
        }
    }

    fn add_to_sum(&mut self, added: f64) {
        let total = self.sum + added;
        self.compensation +=
            if self.sum.abs() >= added.abs() { (self.sum - total) + added } else { (added - total) + self.sum };
        self.sum = total;
    }

    fn note(&mut self, (low, high): (f64, f64)) {
        self.ends = Some(self.ends.map_or((low, high), |(min, max)| (min.min(low), max.max(high))));
    }

    fn note_integers(&mut self, (low, high): (i128, i128)) {
        self.whole_ends = Some(self.whole_ends.map_or((low, high), |(min, max)| (min.min(low), max.max(high))));
    }

    /// Adds everything that was added to `other`, after what was added here.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.add_to_sum(other.sum);
        self.compensation += other.compensation;
        self.whole += other.whole;
        self.count += other.count;
        other.ends.into_iter().for_each(|ends| self.note(ends));
        other.whole_ends.into_iter().for_each(|ends| self.note_integers(ends));
    }

    /// An integer if there are only integers.
    pub(crate) fn sum(&self) -> Option<Figure> {
        match self.ends {
            None => (self.count > 0).then_some(Figure::Whole(self.whole)),
            Some(_) => self.rounded_sum().map(Figure::Real),
        }
    }

    fn rounded_sum(&self) -> Option<f64> {
        let mut all = *self;
        all.add_to_sum(self.whole as f64);
        let sum = all.sum + all.compensation;
        (self.count > 0).then_some(if sum.is_nan() { all.sum } else { sum })
    }

    pub(crate) fn min(&self) -> Option<Figure> {
        self.end(|(min, _)| min, |(min, _)| min, Ordering::is_le)
    }

    pub(crate) fn max(&self) -> Option<Figure> {
        self.end(|(_, max)| max, |(_, max)| max, Ordering::is_ge)
    }

    /// The integer, unless the other number is further out.
    fn end(
        &self,
        whole: impl Fn((i128, i128)) -> i128,
        real: impl Fn((f64, f64)) -> f64,
        is_further: impl Fn(Ordering) -> bool,
    ) -> Option<Figure> {
        let integer = self.whole_ends.map(whole);
        let number = self.ends.map(real);
        match (integer, number) {
            (Some(integer), Some(number)) if !order(integer, number).is_none_or(is_further) => Some(number.into()),
            (Some(integer), _) => Some(Figure::Whole(integer)),
            (None, number) => number.map(Figure::Real),
        }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        self.rounded_sum().map(|sum| sum / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_and_the_largest_integer_are_exact() {
        let large = (1 << 53) + 1;
        let mut tally = Tally::default();
        let mut other = Tally::default();
        tally.add_integer(large);
        other.add_integer(-large);
        tally.merge(&other);
        assert_eq!((tally.min(), tally.max()), (Some(Figure::Whole(-large)), Some(Figure::Whole(large))));
        // 2^53, beside 2^53 + 1; then the next number that f64 has.
        tally.add((1i64 << 53) as f64);
        assert_eq!(tally.max(), Some(Figure::Whole(large)));
        tally.add((large + 1) as f64);
        tally.add(f64::NEG_INFINITY);
        assert_eq!(
            (tally.min(), tally.max()),
            (Some(Figure::Real(f64::NEG_INFINITY)), Some(9_007_199_254_740_994.0.into()))
        );
        assert_eq!((Tally::default().min(), Tally::default().max()), (None, None));
    }

    #[test]
    fn a_sum_of_integers_is_exact_and_json_has_all_of_its_digits() {
        let sum = |integers: &[i128]| {
            let mut tally = Tally::default();
            integers.iter().for_each(|integer| tally.add_integer(*integer));
            tally.sum()
        };
        let json = |integers: &[i128]| serde_json::to_value(sum(integers)).unwrap();
        let largest = i128::from(u64::MAX);
        assert_eq!(sum(&[(1 << 53) + 1, 2]), Some(Figure::Whole((1 << 53) + 3)));
        assert_eq!(json(&[(1 << 53) + 1, 2]).as_u64(), Some((1 << 53) + 3));
        assert_eq!((json(&[largest]).as_u64(), json(&[i64::MIN.into()]).as_i64()), (Some(u64::MAX), Some(i64::MIN)));
        assert_eq!(json(&[largest, largest]), "36893488147419103230");
        assert_eq!(json(&[i64::MIN.into(), -1]), "-9223372036854775809");
        let mut mixed = Tally::default();
        mixed.add_integers((1 << 53) + 1, 3);
        assert_eq!((mixed.count, mixed.sum()), (3, Some(Figure::Whole(3 * ((1 << 53) + 1)))));
        mixed.add(0.5);
        assert_eq!(mixed.sum(), Some(Figure::Real(27_021_597_764_222_980.0)));
        assert_eq!(sum(&[]), None);
    }
}
