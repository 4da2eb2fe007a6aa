//! The settings of one column: numbers, names, hashed names, dates.

use serde::{Deserialize, Serialize};

use super::date::DatePart;
use super::date_text::{format_fault, iso};
use super::words::{Impute, Scale};
use crate::read::DateUnit;
use crate::tree::not_allowed;

/// Most codes of a hashed column, and most names of a one-hot column.
const MAX_BUCKETS: u64 = 1 << 32;
const MAX_ONE_HOT: usize = 1 << 16;

/// A column of numbers, which becomes one feature. See [`number`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Number {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impute: Option<Impute>,
    pub(super) mask: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clip: Option<(f64, f64)>,
    pub(super) log1p: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<Scale>,
}

/// A column of names, which becomes a code, or one-hot features. See [`category`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Category {
    pub(super) unknown: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impute: Option<Impute>,
    pub(super) mask: bool,
    pub(super) one_hot: bool,
    pub(super) by_frequency: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) most: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at_least: Option<u64>,
}

/// A column with too many names to list, which becomes a code by hash. See [`hash`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hash {
    pub(super) buckets: u64,
    #[serde(default)]
    pub(super) mask: bool,
}

/// A column of dates or times, whose parts become features. See [`date`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Date {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<DatePart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cyclic: Vec<DatePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impute: Option<Impute>,
    pub(super) mask: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<DateUnit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<Scale>,
}

/// A column of numbers: one feature. The steps are always applied in this order: [`impute`](Number::impute),
/// [`clip`](Number::clip), [`log1p`](Number::log1p), and one scale, which is fitted to the result of the steps before
/// it.
///
/// Integers, floating point numbers and booleans (1 and 0) are numbers; text is a number only in a CSV file. NaN is a
/// missing value. An infinite value, or one that is not a number, makes its record bad.
pub fn number() -> Number {
    Number::default()
}

/// A column of names: one code per name, from 0, in the order of the sorted names.
///
/// A name is text without surrounding blanks, as it is written: `007` and `1.50` stay so. Only zeros after the point of
/// a whole number are dropped: `3` and `3.0` are the same name, as text and as a number. Another number of JSON,
/// Parquet, Arrow or a struct is its shortest decimal without an exponent (`0.1`, also as an `f32`; `0.00001`),
/// booleans are `true` and `false`, and empty text is a missing value.
///
/// CSV does not say which fields are numbers, so all of them are text. A field that is not the shortest decimal, such as
/// `1e-05` (as pandas writes it), `1.50` or `+7`, is another name than the number in a JSON record. Serve such a column
/// as CSV or as the same text, or train from a format that has numbers.
pub fn category() -> Category {
    Category::default()
}

/// A column with too many names to list: codes 1 to `buckets` by a hash that never changes, and 0 for a missing value.
pub fn hash(buckets: u64) -> Hash {
    Hash { buckets, mask: false }
}

/// A column of dates, or of dates and times: text in the form of ISO 8601 (`2024-05-01`, `2024-05-01T13:45:30+02:00`;
/// UTC without an offset), or numbers that count a [`unit`](Date::unit) since 1970. Choose which [`part`](Date::part)s
/// become features.
pub fn date() -> Date {
    Date::default()
}

macro_rules! scales {
    ($($type:ident: $of:expr;)*) => {$(
        impl $type {
            #[doc = concat!("Scales ", $of, " to mean 0 and deviation 1.")]
            #[must_use]
            pub fn standardise(self) -> Self {
                self.scale(Scale::Standardise)
            }

            #[doc = concat!("Scales ", $of, " from the smallest and largest number to `low` and `high`.")]
            #[must_use]
            pub fn min_max(self, low: f64, high: f64) -> Self {
                self.scale(Scale::MinMax { low, high })
            }

            #[doc = concat!("Scales ", $of, " to median 0 and a distance of 1 between the first and third quartile.")]
            #[must_use]
            pub fn robust(self) -> Self {
                self.scale(Scale::Robust)
            }

            #[doc = concat!("Scales ", $of, " to the share of smaller numbers, between so many quantiles.")]
            #[must_use]
            pub fn quantile(self, count: usize) -> Self {
                self.scale(Scale::Quantile { count })
            }

            #[doc = concat!("Replaces ", $of, " by the number of the bin, from 0, of so many with equally many numbers.")]
            #[must_use]
            pub fn bins(self, count: usize) -> Self {
                self.scale(Scale::Bins { count })
            }

            #[doc = concat!("Scales ", $of, ".")]
            #[must_use]
            pub fn scale(mut self, scale: Scale) -> Self {
                self.scale = Some(scale);
                self
            }
        }
    )*};
}

scales! {
    Number: "the numbers";
    Date: "each part that is not cyclic";
}

macro_rules! masks {
    ($($type:ident)*) => {$(
        impl $type {
            /// Adds a feature that is 1 if the value was missing, and otherwise 0.
            #[must_use]
            pub fn mask(mut self) -> Self {
                self.mask = true;
                self
            }
        }
    )*};
}

masks! { Number Category Hash Date }

macro_rules! imputes {
    ($($type:ident)*) => {$(
        impl $type {
            /// The replacement of a missing value. Without it, a record with a missing value is bad.
            #[must_use]
            pub fn impute(mut self, impute: impl Into<Impute>) -> Self {
                self.impute = Some(impute.into());
                self
            }
        }
    )*};
}

imputes! { Number Category Date }

impl Number {
    /// Numbers below `low` become `low`, numbers above `high` become `high`.
    #[must_use]
    pub fn clip(mut self, low: f64, high: f64) -> Self {
        self.clip = Some((low, high));
        self
    }

    /// Takes the logarithm of 1 + x. Numbers of -1 or less make their record bad.
    #[must_use]
    pub fn log1p(mut self) -> Self {
        self.log1p = true;
        self
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some((low, high)) = self.clip
            && !(low.is_finite() && high.is_finite() && low <= high)
        {
            faults.push(format!(
                "clip: nothing lies between {low} and {high}; the low end must be smaller than the high end"
            ));
        }
        match &self.impute {
            Some(Impute::Text(text)) => faults.push(format!("impute: {}, or a number", not_allowed(text, &COMPUTED))),
            Some(Impute::Number(number)) if !number.is_finite() => {
                faults.push(format!("impute: {number} can't stand for a missing value"));
            }
            None if self.mask => faults.push(MASK_ALONE.to_owned()),
            _ => {}
        }
        faults.extend(self.scale.as_ref().and_then(Scale::fault));
        faults
    }
}

/// The words for substitutes that are computed from numbers.
const COMPUTED: [&str; 3] = ["mean", "median", "most_frequent"];

const MASK_ALONE: &str = "mask: also give impute, which sets what replaces a missing value";

impl Category {
    /// Names that are not in the training data, and missing values, get code 0 (one-hot: all zeros); names in the
    /// training data get codes from 1. Without this setting, unknown names and missing values make their record bad.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// One-hot: one feature per name, 1 for the record's name and 0 for all others, instead of a code.
    #[must_use]
    pub fn one_hot(mut self) -> Self {
        self.one_hot = true;
        self
    }

    /// Orders codes by how often the names occur, instead of by name.
    #[must_use]
    pub fn by_frequency(mut self) -> Self {
        self.by_frequency = true;
        self
    }

    /// Keeps only this many names, those that occur most often, as the vocabulary; the others are unknown.
    #[must_use]
    pub fn most(mut self, names: usize) -> Self {
        self.most = Some(names);
        self
    }

    /// Keeps only names that occur at least this often; the others are unknown.
    #[must_use]
    pub fn at_least(mut self, times: u64) -> Self {
        self.at_least = Some(times);
        self
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match &self.impute {
            Some(Impute::Mean | Impute::Median | Impute::Number(_)) => {
                faults.push("impute: for names, give \"most_frequent\" or a name".to_owned());
            }
            Some(Impute::Text(text)) if text.trim().is_empty() => {
                faults.push("impute: empty text is a missing value itself".to_owned());
            }
            None if self.mask && !self.unknown => {
                faults.push("mask: also give impute or unknown, which set what replaces a missing value".to_owned());
            }
            _ => {}
        }
        if (self.most.is_some() || self.at_least.is_some()) && !self.unknown {
            faults.push("most, at_least: the names that they leave out become unknown; set unknown, too".to_owned());
        }
        if self.most == Some(0) {
            faults.push("most: no name would be left".to_owned());
        }
        faults
    }

    /// Why a one-hot column can't have so many names.
    pub(super) fn one_hot_fault(&self, names: usize) -> Option<String> {
        (self.one_hot && names > MAX_ONE_HOT).then(|| {
            format!("{names} names; one-hot takes {MAX_ONE_HOT} at most: keep some by `most`, or leave one_hot out")
        })
    }
}

impl Hash {
    pub(super) fn faults(&self) -> Vec<String> {
        let fault = format!("buckets: {}; there are 1 to {MAX_BUCKETS}", self.buckets);
        if (1..=MAX_BUCKETS).contains(&self.buckets) { Vec::new() } else { vec![fault] }
    }
}

impl Date {
    /// Adds this part as a number.
    #[must_use]
    pub fn part(mut self, part: DatePart) -> Self {
        self.parts.push(part);
        self
    }

    /// Adds this part as two numbers, sine and cosine, so that December is next to January.
    #[must_use]
    pub fn cyclic(mut self, part: DatePart) -> Self {
        self.cyclic.push(part);
        self
    }

    /// The format of the text, if it is not ISO 8601: `%Y`, `%m`, `%d`, `%H`, `%M`, `%S`, `%f` (a fraction of a second)
    /// and `%z`, as in `strptime`, with all their digits, such as `%d.%m.%Y`.
    #[must_use]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// The unit of dates that are numbers. Without it, numbers make their record bad, except in files that store the
    /// unit, such as Parquet and Arrow.
    #[must_use]
    pub fn unit(mut self, unit: DateUnit) -> Self {
        self.unit = Some(unit);
        self
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.parts.is_empty() && self.cyclic.is_empty() {
            let names: Vec<&str> = DatePart::ALL.iter().map(|part| part.name()).collect();
            faults.push(format!("parts: list at least one under parts or cyclic: {}", names.join(", ")));
        }
        if let Some(part) = self.cyclic.iter().find(|part| !part.is_cyclic()) {
            faults.push(format!("cyclic: {} does not repeat; list it under parts", part.name()));
        }
        faults.extend(self.format.as_deref().and_then(format_fault).map(|fault| format!("format: {fault}")));
        match &self.impute {
            Some(Impute::Text(text)) if iso(text).is_none() => {
                faults.push(format!("impute: {text:?} is not a date in ISO 8601, such as 2024-05-01"));
            }
            Some(Impute::Number(_)) => faults.push("impute: a date is written as text".to_owned()),
            None if self.mask => faults.push(MASK_ALONE.to_owned()),
            _ => {}
        }
        faults.extend(self.scale.as_ref().and_then(Scale::fault));
        faults
    }
}
