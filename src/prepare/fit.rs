//! Counting what fitting needs, record by record.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::read::{Staged, Value, Windows};
use crate::tree::no_faults;

use super::column_fit::Given;
use super::columns::{Date, Number};
use super::date::DatePart;
use super::fitted::{Fitted, FittedHash, moment};
use super::inputs::Inputs;
use super::prepared::Prepared;
use super::recipe::{Column, Recipe};
use super::stats::Stats;

/// Most different names of one column.
pub(super) const MOST_NAMES: usize = 1 << 20;

/// What was counted in the training data, from which [`finish`](Self::finish) makes a [`Prepared`].
///
/// One pass is enough, in any order: means, deviations, extremes, names and their frequencies are exact, and the same
/// however the records were divided and [merged](Self::merge). Quantiles and medians are exact for columns with up to
/// 2^18 different numbers. Beyond that, each number has a small relative error, which [`Prepared::quantile_error`]
/// returns: at most 2^-29 for up to 2^18 classes of numbers that begin with the same 29 bits. A column with more than
/// 2^20 different names is an error: hash it.
///
/// [`Recipe::fit`] does all of this for a loader's data.
///
/// ```
/// use ringfeed::prepare::{Mean, Recipe, RecipeFit, number};
/// use ringfeed::read::Value;
///
/// let recipe = Recipe::new().column("age", number().impute(Mean).standardise());
/// let (mut fit, mut other) = (RecipeFit::new(&recipe)?, RecipeFit::new(&recipe)?);
/// fit.observe(&[Value::I64(30)])?;
/// other.observe(&[Value::Missing])?;
/// other.observe(&[Value::F64(50.0)])?;
/// fit.merge(&other)?;
/// let prepared = fit.finish()?; // a mean of 40
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecipeFit {
    /// With all tables that it joins in memory.
    recipe: Recipe,
    inputs: Arc<Inputs>,
    columns: Vec<Counted>,
    records: u64,
    /// The values and names of a record, until all of them are known to be good.
    noted: Vec<Noted>,
    text: String,
    /// The fields of a record, if columns are joined or derived.
    values: Staged,
}

/// The counts of one column.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Counted {
    Number {
        missing: u64,
        raw: Stats,
        shaped: Stats,
    },
    Names {
        missing: u64,
        names: BTreeMap<String, u64>,
    },
    Date {
        missing: u64,
        seconds: Stats,
        parts: Vec<(DatePart, Stats)>,
    },
    /// Nothing has to be counted.
    Nothing,
}

impl Counted {
    /// Whether both count in the same way.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number { raw, shaped, .. }, Self::Number { raw: other_raw, shaped: other_shaped, .. }) => {
                raw.is_like(other_raw) && shaped.is_like(other_shaped)
            }
            (Self::Names { .. }, Self::Names { names, .. }) => names.len() <= MOST_NAMES,
            (Self::Date { seconds, parts, .. }, Self::Date { seconds: other_seconds, parts: others, .. }) => {
                let is_same = |((part, stats), (other, others)): (&(DatePart, Stats), &(DatePart, Stats))| {
                    part == other && stats.is_like(others)
                };
                seconds.is_like(other_seconds) && parts.len() == others.len() && parts.iter().zip(others).all(is_same)
            }
            (Self::Nothing, Self::Nothing) => true,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
enum Noted {
    Missing,
    Number(f64),
    Name(Range<usize>),
}

impl RecipeFit {
    /// An empty fit, with nothing counted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with all [faults](Recipe::faults) of the recipe; those of reading the tables that it
    /// joins.
    pub fn new(recipe: &Recipe) -> Result<Self> {
        no_faults(recipe.faults())?;
        let recipe = recipe.loaded()?;
        let inputs = Arc::new(Inputs::new(recipe.steps(), recipe.columns.iter().map(|(name, _)| name.as_str()))?);
        let counted = |(_, column): &(String, Column)| match column {
            Column::Number(Number { impute, scale, .. }) => Counted::Number {
                missing: 0,
                raw: Stats::for_impute(impute.as_ref()),
                shaped: Stats::for_scale(scale.as_ref()),
            },
            Column::Category(_) => Counted::Names { missing: 0, names: BTreeMap::new() },
            Column::Hash(_) => Counted::Nothing,
            Column::Date(Date { impute, parts, scale, .. }) => Counted::Date {
                missing: 0,
                seconds: Stats::for_impute(impute.as_ref()),
                parts: parts.iter().map(|part| (*part, Stats::for_scale(scale.as_ref()))).collect(),
            },
        };
        Ok(Self {
            columns: recipe.columns.iter().map(counted).collect(),
            records: 0,
            noted: vec![Noted::Missing; recipe.columns.len()],
            text: String::new(),
            values: Staged::default(),
            recipe,
            inputs,
        })
    }

    /// A fit of the same recipe, with nothing counted: for a part of the data that is to be [merged](Self::merge)
    /// later.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn emptied(&self) -> Result<Self> {
        Self::new(&self.recipe)
    }

    /// The fields of a record that the recipe needs: its columns, except joined and derived ones, and the fields that
    /// those and the [filter](Recipe::filter) use.
    pub fn field_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.inputs.fields().iter().map(String::as_str)
    }

    /// Counts a record, given by its values in the order of [`field_names`](Self::field_names) (without joins and
    /// derived columns, these are the recipe's columns). A record that the recipe's filter leaves out is not counted.
    ///
    /// # Errors
    ///
    /// With the column, [`ErrorKind::Data`] for a value that could not be prepared, and [`ErrorKind::Limit`] for a name
    /// too many; nothing of the record is counted.
    ///
    /// # Panics
    ///
    /// If the number of values is not the number of fields.
    pub fn observe(&mut self, values: &[Value<'_>]) -> Result<()> {
        assert_eq!(values.len(), self.inputs.fields().len(), "a value for each field");
        let is_plain = self.inputs.is_plain();
        if !is_plain {
            self.values.clear();
            values.iter().enumerate().for_each(|(nth, value)| self.values.keep(nth, value));
            if !self.inputs.work_out(&mut self.values)? {
                return Ok(());
            }
        }
        self.text.clear();
        for (nth, ((name, column), noted)) in self.recipe.columns.iter().zip(&mut self.noted).enumerate() {
            let text = &mut self.text;
            let value = if is_plain { values[nth] } else { self.inputs.column(nth, &self.values) };
            let given = column.given(&value, |given| {
                *noted = match given {
                    Given::Missing => Noted::Missing,
                    Given::Number(number) => Noted::Number(number),
                    Given::Name(name) => {
                        let start = text.len();
                        text.push_str(name);
                        Noted::Name(start..text.len())
                    }
                };
                Ok(())
            });
            given.map_err(|error| error.at_column(name))?;
        }
        for ((noted, counted), (name, _)) in self.noted.iter().zip(&self.columns).zip(&self.recipe.columns) {
            if let (Noted::Name(range), Counted::Names { names, .. }) = (noted, counted) {
                has_room(names, [&self.text[range.clone()]]).map_err(|error| error.at_column(name))?;
            }
        }
        for nth in 0..self.columns.len() {
            match self.noted[nth].clone() {
                Noted::Missing => self.count_missing(nth, 1),
                Noted::Number(number) => self.count_number(nth, number)?,
                Noted::Name(range) => {
                    let text = std::mem::take(&mut self.text);
                    let counted = self.count_name(nth, &text[range], 1);
                    self.text = text;
                    counted?;
                }
            }
        }
        self.records += 1;
        Ok(())
    }

    /// Adds records whose values are counted one by one.
    pub(super) fn count_records(&mut self, records: u64) {
        self.records += records;
    }

    pub(super) fn count_missing(&mut self, nth: usize, times: u64) {
        match &mut self.columns[nth] {
            Counted::Number { missing, .. } | Counted::Names { missing, .. } | Counted::Date { missing, .. } => {
                *missing = missing.saturating_add(times);
            }
            Counted::Nothing => {}
        }
    }

    pub(super) fn count_number(&mut self, nth: usize, number: f64) -> Result<()> {
        match (&mut self.columns[nth], &self.recipe.columns[nth].1) {
            (Counted::Number { raw, shaped, .. }, Column::Number(column)) => {
                raw.add(number, 1);
                shaped.add(column.shape().of(number)?, 1);
            }
            (Counted::Date { seconds, parts, .. }, _) => {
                seconds.add(number, 1);
                let moment = moment(number)?;
                parts.iter_mut().for_each(|(part, stats)| stats.add(part.of(&moment), 1));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn count_name(&mut self, nth: usize, name: &str, times: u64) -> Result<()> {
        match &mut self.columns[nth] {
            Counted::Names { names, .. } => {
                has_room(names, [name]).map_err(|error| error.at_column(&self.recipe.columns[nth].0))?;
                add_name(names, name, times);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The windows of the recipe.
    pub(crate) fn windows(&self) -> Option<&Windows> {
        self.recipe.windows.as_ref()
    }

    pub(super) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    pub(super) fn inputs(&self) -> &Arc<Inputs> {
        &self.inputs
    }

    pub(super) fn counted(&self) -> &[Counted] {
        &self.columns
    }

    /// A fit of `recipe` with these counts; `None` if they do not belong to it.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(super) fn of_counted(recipe: &Recipe, records: u64, columns: Vec<Counted>) -> Result<Option<Self>> {
        let new = Self::new(recipe)?;
        let fits = new.columns.len() == columns.len()
            && new.columns.iter().zip(&columns).all(|(own, column)| own.is_like(column));
        Ok(fits.then_some(Self { records, columns, ..new }))
    }

    /// Adds the counts of `other`, as if its records had been observed here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a fit of another recipe, [`ErrorKind::Limit`] for too many names; nothing is added.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.recipe != other.recipe {
            return Err(Error::new(ErrorKind::Config, "fits of different recipes"));
        }
        for ((own, other), (name, _)) in self.columns.iter().zip(&other.columns).zip(&self.recipe.columns) {
            if let (Counted::Names { names, .. }, Counted::Names { names: others, .. }) = (own, other) {
                has_room(names, others.keys().map(String::as_str)).map_err(|error| error.at_column(name))?;
            }
        }
        for (own, other) in self.columns.iter_mut().zip(&other.columns) {
            match (own, other) {
                (
                    Counted::Number { missing, raw, shaped },
                    Counted::Number { missing: more, raw: other_raw, shaped: other_shaped },
                ) => {
                    *missing = missing.saturating_add(*more);
                    raw.merge(other_raw);
                    shaped.merge(other_shaped);
                }
                (Counted::Names { missing, names }, Counted::Names { missing: more, names: others }) => {
                    *missing = missing.saturating_add(*more);
                    others.iter().for_each(|(other, times)| add_name(names, other, *times));
                }
                (
                    Counted::Date { missing, seconds, parts },
                    Counted::Date { missing: more, seconds: other_seconds, parts: others },
                ) => {
                    *missing = missing.saturating_add(*more);
                    seconds.merge(other_seconds);
                    parts.iter_mut().zip(others).for_each(|((_, stats), (_, others))| stats.merge(others));
                }
                _ => {}
            }
        }
        self.records = self.records.saturating_add(other.records);
        Ok(())
    }

    /// The number of counted records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The fitted recipe, from everything that was counted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column, if too little was counted.
    pub fn finish(&self) -> Result<Prepared> {
        if self.records == 0 {
            return Err(Error::new(ErrorKind::Data, "there is no record to fit the recipe to"));
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut error = 0f64;
        for ((name, column), counted) in self.recipe.columns.iter().zip(&self.columns) {
            let fitted = match (column, counted) {
                (Column::Number(number), Counted::Number { missing, raw, shaped }) => {
                    error = error.max(raw.error()).max(shaped.error());
                    number.finish(*missing, raw, shaped).map(Fitted::Number)
                }
                (Column::Category(category), Counted::Names { missing, names }) => {
                    category.finish(*missing, names).map(Fitted::Category)
                }
                (Column::Date(date), Counted::Date { missing, seconds, parts }) => {
                    let parts_error = parts.iter().fold(seconds.error(), |most, (_, stats)| most.max(stats.error()));
                    error = error.max(parts_error);
                    date.finish(*missing, seconds, parts).map(Fitted::Date)
                }
                (Column::Hash(hash), _) => Ok(Fitted::Hash(FittedHash { buckets: hash.buckets, mask: hash.mask })),
                _ => continue,
            };
            columns.push((name.clone(), fitted.map_err(|error| error.at_column(name))?));
        }
        let Recipe { dtype, windows, .. } = &self.recipe;
        Prepared::new(self.recipe.steps(), columns, *dtype, self.records, error, windows.clone())
    }
}

/// # Errors
///
/// [`ErrorKind::Limit`] if there would be too many names with these `others`, which are all different.
fn has_room<'a>(
    names: &BTreeMap<String, u64>,
    others: impl IntoIterator<Item = &'a str, IntoIter: ExactSizeIterator>,
) -> Result<()> {
    let others = others.into_iter();
    if names.len() + others.len() <= MOST_NAMES {
        return Ok(());
    }
    if names.len() + others.filter(|other| !names.contains_key(*other)).count() <= MOST_NAMES {
        return Ok(());
    }
    let message = format!("more than {MOST_NAMES} different names; make it a column by hash");
    Err(Error::new(ErrorKind::Limit, message))
}

fn add_name(names: &mut BTreeMap<String, u64>, name: &str, times: u64) {
    if let Some(count) = names.get_mut(name) {
        *count = count.saturating_add(times);
    } else {
        names.insert(name.to_owned(), times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::{category, number};

    #[test]
    fn a_name_too_many_changes_no_count() {
        let recipe = Recipe::new().column("x", number().standardise()).column("y", category()).column("z", category());
        let mut fit = RecipeFit::new(&recipe).unwrap();
        let mut other = fit.clone();
        fit.observe(&[Value::F64(1.0), Value::Text("a"), Value::Text("b")]).unwrap();
        // The column "z" is full.
        let names = (0..MOST_NAMES).map(|nth| (nth.to_string(), 1)).collect();
        fit.columns[2] = Counted::Names { missing: 0, names };
        let counted = |fit: &RecipeFit| {
            let Counted::Names { missing, names } = &fit.columns[2] else { panic!("no names") };
            let times: u64 = names.values().sum();
            (serde_json::to_string(&fit.columns[..2]).unwrap(), *missing, names.len(), times, fit.records())
        };
        let before = counted(&fit);
        let error = fit.observe(&[Value::F64(5.0), Value::Text("c"), Value::Text("new")]).unwrap_err();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Limit, Some("z")));
        assert_eq!(counted(&fit), before);
        other.observe(&[Value::F64(5.0), Value::Text("c"), Value::Text("7")]).unwrap();
        let known = other.clone();
        other.observe(&[Value::F64(6.0), Value::Text("d"), Value::Text("new")]).unwrap();
        assert_eq!(fit.merge(&other).unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(counted(&fit), before);
        fit.merge(&known).unwrap();
        fit.observe(&[Value::F64(5.0), Value::Text("c"), Value::Text("7")]).unwrap();
        assert_eq!((fit.records(), counted(&fit).3), (3, MOST_NAMES as u64 + 2));
    }
}
