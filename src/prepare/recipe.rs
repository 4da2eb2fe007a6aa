//! What is to be fitted: columns, and what becomes of each.

use std::fmt;

use serde::de::{MapAccess, Unexpected, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};

use super::date::{DatePart, DateUnit, format_fault, iso};

/// Most columns of a recipe.
const MAX_COLUMNS: usize = 4096;

/// Most codes of a hashed column, and most names of one that is one-hot.
const MAX_BUCKETS: u64 = 1 << 32;
const MAX_ONE_HOT: usize = 1 << 16;

/// What becomes of the columns of a table, before it is known what is in them: [`fit`](Self::fit) finds that out.
///
/// ```
/// use ringfeed::prepare::{DatePart::Month, Median, Recipe, category, date, number};
///
/// let recipe = Recipe::new()
///     .column("age", number().impute(Median).mask().standardise())
///     .column("city", category().unknown())
///     .column("joined", date().cyclic(Month));
/// # assert!(recipe.faults().is_empty());
/// ```
///
/// In settings it is the table `prepare`, where each of these lines says the same:
///
/// ```
/// # use ringfeed::prepare::{DatePart::Month, Median, Recipe, category, date, number};
/// let recipe: Recipe = toml::from_str(r#"
///     [columns]
///     age = { number = { impute = "median", mask = true, scale = "standardise" } }
///     city = { category = { unknown = true } }
///     joined = { date = { cyclic = ["month"] } }
/// "#).expect("the example is valid");
/// # let same = Recipe::new()
/// #     .column("age", number().impute(Median).mask().standardise())
/// #     .column("city", category().unknown())
/// #     .column("joined", date().cyclic(Month));
/// # assert_eq!(recipe, same);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// By name, in the order of what they become.
    #[serde(with = "by_name")]
    pub(super) columns: Vec<(String, Column)>,
    /// Element type of the features.
    #[serde(default = "f32_type")]
    pub(super) dtype: DType,
}

fn f32_type() -> DType {
    DType::F32
}

/// What becomes of a column: made by [`number`], [`category`], [`hash`] and [`date`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Column {
    /// See [`number`].
    Number(Number),
    /// See [`category`].
    Category(Category),
    /// See [`hash`].
    Hash(Hash),
    /// See [`date`].
    Date(Date),
}

/// What stands for a missing value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Impute {
    /// The mean of the others.
    Mean,
    /// The one in the middle of the others.
    Median,
    /// The one that occurs most often, the smallest of several.
    MostFrequent,
    /// This number.
    Number(f64),
    /// This name or date.
    Text(String),
}

/// How numbers are brought to a range that is easy to learn from; equal numbers become 0, or the range's begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Scale {
    /// To mean 0 and deviation 1.
    Standardise,
    /// From the smallest and largest number to this range.
    MinMax {
        /// What the smallest becomes.
        #[serde(default)]
        low: f64,
        /// What the largest becomes.
        #[serde(default = "one")]
        high: f64,
    },
    /// To median 0 and a distance of 1 between first and third quartile: outliers do not count.
    Robust,
    /// To the share of the numbers that are smaller, 0 to 1, by straight lines between so many quantiles.
    Quantile {
        /// How many quantiles.
        #[serde(default = "thousand")]
        count: usize,
    },
}

fn one() -> f64 {
    1.0
}

fn thousand() -> usize {
    1000
}

/// A column of numbers; each becomes one feature. See [`number`].
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

/// A column of names; each becomes a code, or features with a single 1. See [`category`].
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

/// A column of too many names to list; each becomes a code by its hash. See [`hash`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hash {
    pub(super) buckets: u64,
    #[serde(default)]
    pub(super) mask: bool,
}

/// A column of dates or times; their parts become features. See [`date`].
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

/// A column of numbers: one feature. What is done to each, in this order, whatever the order it was said in:
/// [`impute`](Number::impute), [`clip`](Number::clip), [`log1p`](Number::log1p), and one scale, which is fitted to what
/// those before it give.
///
/// Whole numbers, fractions and truth values (1 and 0) are numbers, and text only where it is a field of a CSV file. NaN is
/// a missing value. What is infinite or no number makes its record bad.
pub fn number() -> Number {
    Number::default()
}

/// A column of names: a code each, from 0, in the order of the sorted names.
///
/// A name is text as it is written, without blanks around it; a whole number is its digits (`3` and `3.0` are one name), and
/// empty text is a missing value.
pub fn category() -> Category {
    Category::default()
}

/// A column of too many names to list: codes 1 to `buckets` by a hash that never changes, and 0 for a missing value.
pub fn hash(buckets: u64) -> Hash {
    Hash { buckets, mask: false }
}

/// A column of dates, or of dates and times: text as ISO 8601 has it (`2024-05-01`, `2024-05-01T13:45:30+02:00`; without an
/// offset it is UTC), or numbers that count a [`unit`](Date::unit) from 1970 on. Say which [`part`](Date::part)s become features.
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
            /// Adds a feature that is 1 where the value was missing, and otherwise 0.
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
            /// What stands for a missing value; without it, a record without a value is bad.
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
    /// Smaller numbers become `low`, larger ones `high`.
    #[must_use]
    pub fn clip(mut self, low: f64, high: f64) -> Self {
        self.clip = Some((low, high));
        self
    }

    /// Takes the logarithm of 1 + x; numbers up to -1 make their record bad.
    #[must_use]
    pub fn log1p(mut self) -> Self {
        self.log1p = true;
        self
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some((low, high)) = self.clip
            && !(low.is_finite() && high.is_finite() && low <= high)
        {
            faults.push(format!("clip: from {low} to {high} there is nothing"));
        }
        match &self.impute {
            Some(Impute::Text(text)) => faults.push(format!("impute: {text:?} is no number")),
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

const MASK_ALONE: &str = "mask: say by impute what stands for a missing value beside it";

impl Category {
    /// Names that the training data does not have, and missing values, get the code 0, and those that it has the codes from 1
    /// on; one-hot, they are all zeros. Without it they make their record bad.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// A feature for each name, of which one is 1 and the others are 0, instead of a code.
    #[must_use]
    pub fn one_hot(mut self) -> Self {
        self.one_hot = true;
        self
    }

    /// Codes in the order of how often the names occur, instead of sorted.
    #[must_use]
    pub fn by_frequency(mut self) -> Self {
        self.by_frequency = true;
        self
    }

    /// Keeps so many names, those that occur most often; the others are unknown.
    #[must_use]
    pub fn most(mut self, names: usize) -> Self {
        self.most = Some(names);
        self
    }

    /// Keeps the names that occur at least so often; the others are unknown.
    #[must_use]
    pub fn at_least(mut self, times: u64) -> Self {
        self.at_least = Some(times);
        self
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match &self.impute {
            Some(Impute::Mean | Impute::Median | Impute::Number(_)) => {
                faults.push("impute: names have \"most_frequent\", or a name".to_owned());
            }
            Some(Impute::Text(text)) if text.trim().is_empty() => {
                faults.push("impute: empty text is a missing value itself".to_owned());
            }
            None if self.mask && !self.unknown => {
                faults.push("mask: say by impute or unknown what stands for a missing value beside it".to_owned());
            }
            _ => {}
        }
        if (self.most.is_some() || self.at_least.is_some()) && !self.unknown {
            faults.push("most, at_least: the names that they leave out become unknown; say unknown, too".to_owned());
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
    fn faults(&self) -> Vec<String> {
        let fault = format!("buckets: {}; there are 1 to {MAX_BUCKETS}", self.buckets);
        if (1..=MAX_BUCKETS).contains(&self.buckets) { Vec::new() } else { vec![fault] }
    }
}

impl Date {
    /// This part as a number.
    #[must_use]
    pub fn part(mut self, part: DatePart) -> Self {
        self.parts.push(part);
        self
    }

    /// This part as two numbers, sine and cosine, by which December is next to January.
    #[must_use]
    pub fn cyclic(mut self, part: DatePart) -> Self {
        self.cyclic.push(part);
        self
    }

    /// How the text is written, if not by ISO 8601: `%Y`, `%m`, `%d`, `%H`, `%M`, `%S`, `%f` (a fraction of a second) and `%z`,
    /// as `strptime` has them, with all their digits, such as `%d.%m.%Y`.
    #[must_use]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// What dates count that are numbers; without it they make their record bad.
    #[must_use]
    pub fn unit(mut self, unit: DateUnit) -> Self {
        self.unit = Some(unit);
        self
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.parts.is_empty() && self.cyclic.is_empty() {
            let names: Vec<&str> = DatePart::ALL.iter().map(|part| part.name()).collect();
            faults.push(format!("parts: name at least one for parts or cyclic: {}", names.join(", ")));
        }
        if let Some(part) = self.cyclic.iter().find(|part| !part.is_cyclic()) {
            faults.push(format!("cyclic: {} never comes again; take it for one of parts", part.name()));
        }
        faults.extend(self.format.as_deref().and_then(format_fault).map(|fault| format!("format: {fault}")));
        match &self.impute {
            Some(Impute::Text(text)) if iso(text).is_none() => {
                faults.push(format!("impute: {text:?} is no date as ISO 8601 has it, such as 2024-05-01"));
            }
            Some(Impute::Number(_)) => faults.push("impute: a date is written as text".to_owned()),
            None if self.mask => faults.push(MASK_ALONE.to_owned()),
            _ => {}
        }
        faults.extend(self.scale.as_ref().and_then(Scale::fault));
        faults
    }
}

impl Scale {
    fn fault(&self) -> Option<String> {
        match self {
            Self::MinMax { low, high } if !(low.is_finite() && high.is_finite() && low < high) => {
                Some(format!("scale: from {low} to {high} is no range"))
            }
            Self::Quantile { count } if !(2..=1 << 16).contains(count) => {
                Some(format!("scale: {count} quantiles; there are 2 to 65536"))
            }
            _ => None,
        }
    }
}

impl From<Number> for Column {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<Category> for Column {
    fn from(category: Category) -> Self {
        Self::Category(category)
    }
}

impl From<Hash> for Column {
    fn from(hash: Hash) -> Self {
        Self::Hash(hash)
    }
}

impl From<Date> for Column {
    fn from(date: Date) -> Self {
        Self::Date(date)
    }
}

impl From<f64> for Impute {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Impute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Default for Recipe {
    fn default() -> Self {
        Self::new()
    }
}

impl Recipe {
    /// No columns yet.
    pub fn new() -> Self {
        Self { columns: Vec::new(), dtype: DType::F32 }
    }

    /// Adds what becomes of the column of this name: a column of a table, a key or pointer of JSON, or whatever the source calls
    /// its fields.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, column: impl Into<Column>) -> Self {
        self.columns.push((name.into(), column.into()));
        self
    }

    /// Element type of the features: `f32`, the default, or `f64`.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Everything that is wrong with it, as far as it can be told without data.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.columns.is_empty() || self.columns.len() > MAX_COLUMNS {
            faults.push(format!("columns: {}; there are 1 to {MAX_COLUMNS}", self.columns.len()));
        }
        if !matches!(self.dtype, DType::F32 | DType::F64) {
            faults.push(format!("dtype: {}; features are f32 or f64", self.dtype));
        }
        let mut names = std::collections::HashSet::new();
        for (name, column) in &self.columns {
            if !names.insert(name) {
                faults.push(format!("columns.{name}: it is there twice"));
            }
            let own = match column {
                Column::Number(number) => number.faults(),
                Column::Category(category) => category.faults(),
                Column::Hash(hash) => hash.faults(),
                Column::Date(date) => date.faults(),
            };
            faults.extend(own.into_iter().map(|fault| format!("columns.{name}.{fault}")));
        }
        faults
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.faults().as_slice() {
            [] => Ok(()),
            faults => Err(Error::new(ErrorKind::Config, format!("a recipe with {}", faults.join("; ")))),
        }
    }
}

/// The words that stand for what is computed.
const IMPUTES: [(&str, Impute); 3] =
    [("mean", Impute::Mean), ("median", Impute::Median), ("most_frequent", Impute::MostFrequent)];

impl Serialize for Impute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            word => {
                serializer.serialize_str(IMPUTES.iter().find(|(_, other)| other == word).map_or("", |(name, _)| name))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Impute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Imputes;

        impl Visitor<'_> for Imputes {
            type Value = Impute;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"mean\", \"median\", \"most_frequent\", a number, or a name or date")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Impute, E> {
                match IMPUTES.into_iter().find(|(name, _)| *name == text) {
                    Some((_, word)) => Ok(word),
                    None if text.is_empty() => Err(E::invalid_value(Unexpected::Str(text), &self)),
                    None => Ok(text.into()),
                }
            }

            fn visit_f64<E>(self, number: f64) -> Result<Impute, E> {
                Ok(number.into())
            }

            fn visit_i64<E>(self, number: i64) -> Result<Impute, E> {
                Ok((number as f64).into())
            }

            fn visit_u64<E>(self, number: u64) -> Result<Impute, E> {
                Ok((number as f64).into())
            }
        }

        deserializer.deserialize_any(Imputes)
    }
}

/// Columns by their names, in their order.
mod by_name {
    use super::*;

    pub(super) fn serialize<S: Serializer>(columns: &[(String, Column)], serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(columns.len()))?;
        for (name, column) in columns {
            map.serialize_entry(name, column)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Column)>, D::Error> {
        struct ByName;

        impl<'de> Visitor<'de> for ByName {
            type Value = Vec<(String, Column)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of columns by their names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut columns: Self::Value = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    columns.push(entry);
                }
                Ok(columns)
            }
        }

        deserializer.deserialize_map(ByName)
    }
}
