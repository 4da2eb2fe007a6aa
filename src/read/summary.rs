use serde::{Serialize, Serializer};

use crate::dtype::Numbers;

/// What `inspect` reports about one field: statistics in f64 over every value, array elements included. Integers are
/// summed exactly, and the sum is rounded once. In JSON, which has no such numbers, infinities are `"inf"` and
/// `"-inf"`, and NaN is `"nan"`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldSummary {
    /// Column or tensor name.
    pub name: String,
    /// `feature`, `label`, `mask` or `ignored`.
    pub role: String,
    /// An element type, or `text`.
    pub dtype: String,
    /// Shape of one record's value; `[]` for a single value, 0 for a length that differs from record to record.
    pub shape: Vec<usize>,
    /// Number of values; of lists, and of the arrays of an archive, that of the records that have one; for an image
    /// folder, whose pixels are not read, of files.
    pub count: u64,
    /// Number of missing values, NaN among them.
    pub missing: u64,
    /// Sum of the values; `None` if there is no number.
    #[serde(serialize_with = "as_figure")]
    pub sum: Option<f64>,
    /// Smallest value.
    #[serde(serialize_with = "as_figure")]
    pub min: Option<f64>,
    /// Largest value.
    #[serde(serialize_with = "as_figure")]
    pub max: Option<f64>,
    /// Sum divided by the number of summands: all numbers in arrays and lists, but for those that are missing.
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
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Figure {
    /// A 64-bit integer, which f64 might round.
    Whole(i128),
    /// Of any other type.
    Real(f64),
}

impl From<f64> for Figure {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// In JSON, which has no infinities, these are `"inf"` and `"-inf"`, and what is no number `"nan"`.
impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Whole(number) => serializer.serialize_i128(number),
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

/// Running figures over numbers. The sum is compensated (Neumaier), so its error does not grow with the count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    sum: f64,
    compensation: f64,
    /// The sum of the integers.
    whole: i128,
    min: Option<f64>,
    max: Option<f64>,
}

impl Tally {
    pub(crate) fn add(&mut self, value: f64) {
        self.add_many(value, 1);
    }

    /// Adds `value` `count` times; exact as long as the product is.
    pub(crate) fn add_many(&mut self, value: f64, count: u64) {
        if count == 0 {
            return;
        }
        self.add_to_sum(value * count as f64);
        self.note(value, count);
    }

    /// Adds an integer, exactly: the sum of fewer than 2^63 integers of 64 bits fits in 127 bits.
    pub(crate) fn add_integer(&mut self, value: i128) {
        self.whole += value;
        self.note(value as f64, 1);
    }

    /// Adds elements of any type. NaN is ignored.
    pub(crate) fn add_numbers(&mut self, numbers: Numbers<'_>) {
        match numbers {
            Numbers::U64(numbers) => numbers.iter().for_each(|number| self.add_integer((*number).into())),
            Numbers::I64(numbers) => numbers.iter().for_each(|number| self.add_integer((*number).into())),
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

    fn note(&mut self, value: f64, count: u64) {
        self.count += count;
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }

    /// Adds everything that was added to `other`, after what was added here.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.add_to_sum(other.sum);
        self.compensation += other.compensation;
        self.whole += other.whole;
        self.count += other.count;
        self.min = self.min.into_iter().chain(other.min).reduce(f64::min);
        self.max = self.max.into_iter().chain(other.max).reduce(f64::max);
    }

    pub(crate) fn sum(&self) -> Option<f64> {
        let mut all = *self;
        all.add_to_sum(self.whole as f64);
        let sum = all.sum + all.compensation;
        (self.count > 0).then_some(if sum.is_nan() { all.sum } else { sum })
    }

    pub(crate) fn min(&self) -> Option<f64> {
        self.min
    }

    pub(crate) fn max(&self) -> Option<f64> {
        self.max
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        self.sum().map(|sum| sum / self.count as f64)
    }
}
