//! Recipes before they are fitted: columns, and how each is prepared.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::Result;
use crate::read::{NO_GAPS, Windows};
use crate::tree::under;

use super::by_name;
use super::columns::{Category, Date, Hash, Number};
use super::derive::Derive;
use super::inputs::Steps;
use super::join::Join;

/// Most columns of a recipe.
const MAX_COLUMNS: usize = 4096;

/// How the columns of a table are prepared, before it is fitted to data with [`fit`](Self::fit).
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
/// In settings it is the table `prepare`, with the same meaning:
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
    /// By name: tables that are joined to records, before anything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "by_name")]
    pub(super) join: Vec<(String, Join)>,
    /// By name: columns that are computed from others, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "by_name")]
    pub(super) derive: Vec<(String, Derive)>,
    /// Which records are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<String>,
    /// Which records are one sample, if samples are windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) windows: Option<Windows>,
    /// By name, in the order of the results.
    #[serde(with = "by_name")]
    pub(super) columns: Vec<(String, Column)>,
    /// Element type of the features.
    #[serde(default = "f32_type")]
    pub(super) dtype: DType,
}

fn f32_type() -> DType {
    DType::F32
}

/// How a column is prepared: made by [`number`](super::number), [`category`](super::category), [`hash`](super::hash)
/// and [`date`](super::date).
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
        Self {
            join: Vec::new(),
            derive: Vec::new(),
            filter: None,
            windows: None,
            columns: Vec::new(),
            dtype: DType::F32,
        }
    }

    /// Joins a small table to each record; its columns are then called `name.column`. See [`join`](super::join).
    #[must_use]
    pub fn join(mut self, name: impl Into<String>, join: Join) -> Self {
        self.join.push((name.into(), join));
        self
    }

    /// Derives a column with this name from others, also from columns of joined tables and from columns derived before.
    /// [`column`](Self::column) and [`filter`](Self::filter) can use it. It replaces a field of the record with the
    /// same name. See [`Derive`].
    ///
    /// ```
    /// use ringfeed::prepare::{Median, Recipe, category, number, pair, ratio};
    ///
    /// let recipe = Recipe::new()
    ///     .derive("per_room", ratio("price", "rooms"))
    ///     .derive("where", pair(["city", "district"]))
    ///     .filter("price > 0 and city != missing")
    ///     .column("per_room", number().impute(Median).log1p())
    ///     .column("where", category().unknown());
    /// # assert!(recipe.faults().is_empty());
    /// # let same: Recipe = toml::from_str(r#"
    /// #     filter = "price > 0 and city != missing"
    /// #     [derive]
    /// #     per_room = { ratio = ["price", "rooms"] }
    /// #     where = { pair = ["city", "district"] }
    /// #     [columns]
    /// #     per_room = { number = { impute = "median", log1p = true } }
    /// #     where = { category = { unknown = true } }
    /// # "#).expect("the example is valid");
    /// # assert_eq!(recipe, same);
    /// ```
    #[must_use]
    pub fn derive(mut self, name: impl Into<String>, derive: Derive) -> Self {
        self.derive.push((name.into(), derive));
        self
    }

    /// Leaves out all records that do not fulfil a condition, in the language of
    /// [`Loader::filter`](crate::Loader::filter), which may also name joined and derived columns. Such records are not
    /// used for fitting. A loader with the fitted recipe skips them, and in a server they are an error that names the
    /// filter. A record whose fields can't be compared is bad. Texts are compared like the names of a
    /// [`category`](super::category): `'3'` and `'3.0'` are the same. Lengths are only available in the loader's
    /// filter.
    #[must_use]
    pub fn filter(mut self, condition: impl Into<String>) -> Self {
        self.filter = Some(condition.into());
        self
    }

    /// Makes samples of consecutive records of a series, for forecasting, instead of single records. The recipe is
    /// fitted to each record of their [part](Windows::part) once. A loader with the fitted recipe makes these windows,
    /// and may set its own [`Loader::windows`](crate::Loader::windows) only to choose another `stride` and `part`, such
    /// as the part for testing. A server makes them of records in memory: see
    /// [`Prepared::window`](super::Prepared::window). There can't be a [`filter`](Self::filter), too, because there
    /// would be gaps.
    ///
    /// ```
    /// use ringfeed::prepare::{Median, Recipe, category, number};
    /// use ringfeed::read::Windows;
    ///
    /// let recipe = Recipe::new()
    ///     .column("temperature", number().impute(Median).mask().standardise())
    ///     .column("weather", category().unknown())
    ///     .windows(Windows::new(48, 12).series("sensor").part(0.0, 0.8));
    /// # assert!(recipe.faults().is_empty());
    /// # let same: Recipe = toml::from_str(r#"
    /// #     windows = { length = 48, horizon = 12, series = "sensor", part = [0.0, 0.8] }
    /// #     [columns]
    /// #     temperature = { number = { impute = "median", mask = true, scale = "standardise" } }
    /// #     weather = { category = { unknown = true } }
    /// # "#).expect("the example is valid");
    /// # assert_eq!(recipe, same);
    /// ```
    #[must_use]
    pub fn windows(mut self, windows: Windows) -> Self {
        self.windows = Some(windows);
        self
    }

    /// Sets how the column with this name is prepared: a column of a table, a key or pointer of JSON, or any other
    /// field name of the source.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, column: impl Into<Column>) -> Self {
        self.columns.push((name.into(), column.into()));
        self
    }

    /// Sets this for several columns.
    ///
    /// ```
    /// use ringfeed::prepare::{Median, Recipe, number};
    ///
    /// let recipe = Recipe::new().columns(["width", "height"], number().impute(Median));
    /// # let each = Recipe::new().column("width", number().impute(Median)).column("height", number().impute(Median));
    /// # assert_eq!(recipe, each);
    /// ```
    #[must_use]
    pub fn columns(mut self, names: impl IntoIterator<Item = impl Into<String>>, column: impl Into<Column>) -> Self {
        let column = column.into();
        self.columns.extend(names.into_iter().map(|name| (name.into(), column.clone())));
        self
    }

    /// Element type of the features: `f32`, the default, or `f64`.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Everything that is wrong with it, as far as it is known without data.
    pub fn faults(&self) -> Vec<String> {
        [self.value_faults(), self.missing_tables()].concat()
    }

    /// The tables that it joins and that do not exist.
    pub(crate) fn missing_tables(&self) -> Vec<String> {
        self.join.iter().flat_map(|(name, join)| under(format!("join.{name}"), join.faults())).collect()
    }

    /// The same, independent of its use.
    pub(crate) fn value_faults(&self) -> Vec<String> {
        let mut faults = self.steps().faults();
        faults.extend(windows_faults(self.windows.as_ref(), self.filter.as_deref()));
        if self.columns.is_empty() || self.columns.len() > MAX_COLUMNS {
            faults.push(format!("columns: {}; there are 1 to {MAX_COLUMNS}", self.columns.len()));
        }
        if !matches!(self.dtype, DType::F32 | DType::F64) {
            faults.push(format!("dtype: {}; features are f32 or f64", self.dtype));
        }
        let mut names = std::collections::HashSet::new();
        for (name, column) in &self.columns {
            if !names.insert(name) {
                faults.push(format!("columns.{name}: it is listed twice"));
            }
            let (kind, own) = match column {
                Column::Number(number) => ("number", number.faults()),
                Column::Category(category) => ("category", category.faults()),
                Column::Hash(hash) => ("hash", hash.faults()),
                Column::Date(date) => ("date", date.faults()),
            };
            faults.extend(under(format_args!("columns.{name}.{kind}"), own));
        }
        faults
    }

    pub(super) fn steps(&self) -> Steps {
        Steps { join: self.join.clone(), derive: self.derive.clone(), filter: self.filter.clone() }
    }

    pub(crate) fn own_windows(&self) -> Option<&Windows> {
        self.windows.as_ref()
    }

    /// The paths of the tables.
    pub(crate) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.join.iter_mut().filter_map(|(_, join)| join.path_mut())
    }

    /// The same with the joined tables in memory.
    ///
    /// # Errors
    ///
    /// Those of reading them.
    pub(super) fn loaded(&self) -> Result<Self> {
        let Steps { join, .. } = self.steps().loaded(self.columns.iter().map(|(name, _)| name.as_str()))?;
        Ok(Self { join, ..self.clone() })
    }
}

/// Faults of the windows of a recipe with this filter.
pub(super) fn windows_faults(windows: Option<&Windows>, filter: Option<&str>) -> Vec<String> {
    let Some(windows) = windows else { return Vec::new() };
    let gaps = filter.map(|_| NO_GAPS.to_owned());
    under("windows", windows.faults()).chain(gaps).collect()
}
