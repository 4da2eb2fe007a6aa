//! What is to be fitted: columns, and what becomes of each.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};

use super::columns::{Category, Date, Hash, Number};

/// Most columns of a recipe.
const MAX_COLUMNS: usize = 4096;

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

/// What becomes of a column: made by [`number`](super::number), [`category`](super::category), [`hash`](super::hash) and
/// [`date`](super::date).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Column {
    /// See [`number`](super::number).
    Number(Number),
    /// See [`category`](super::category).
    Category(Category),
    /// See [`hash`](super::hash).
    Hash(Hash),
    /// See [`date`](super::date).
    Date(Date),
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
