//! Counting what a recipe must know, record by record.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::read::Value;

use super::counts::Counts;
use super::date::{DatePart, iso};
use super::exact::Sums;
use super::fitted::{
    Fitted, FittedCategory, FittedDate, FittedHash, FittedNumber, FittedPart, FittedScale, NumberShape, missing, moment,
};
use super::given;
use super::prepared::Prepared;
use super::recipe::{Category, Column, Date, Impute, Number, Recipe, Scale};

/// Most different names of one column.
pub(super) const MOST_NAMES: usize = 1 << 20;

/// What was counted of the training data: a recipe on its way to [`Prepared`].
///
/// One pass is enough, in any order: means, deviations, extremes, names and how often each occurs are exact and the same
/// however the records were shared out and [merged](Self::merge) again. Quantiles and medians are exact for columns of up to 2^18
/// different numbers; beyond, each is off by a small part of itself that [`Prepared::quantile_error`] says, at most 2^-29 for up to
/// 2^18 classes of numbers that begin with the same 29 bits. Beyond 2^20 different names a column is an error: hash it.
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
    recipe: Recipe,
    columns: Vec<Counted>,
    records: u64,
    /// The values of a record until all of them are known to be good, and their names.
    staged: Vec<Staged>,
    text: String,
}

/// What was counted of one column.
#[derive(Clone, Debug)]
enum Counted {
    Number {
        missing: u64,
        raw: Stats,
        shaped: Stats,
    },
    Names {
        missing: u64,
        names: HashMap<String, u64>,
    },
    Date {
        missing: u64,
        seconds: Stats,
        parts: Vec<(DatePart, Stats)>,
    },
    /// There is nothing to know.
    Nothing,
}

#[derive(Clone, Debug)]
enum Staged {
    Missing,
    Number(f64),
    Name(Range<usize>),
}

/// What is counted of numbers: no more than is needed.
#[derive(Clone, Debug, Default)]
struct Stats {
    sums: Option<Box<Sums>>,
    counts: Option<Counts>,
    range: Option<Option<(f64, f64)>>,
}

impl Stats {
    fn for_impute(impute: Option<&Impute>) -> Self {
        Self {
            sums: matches!(impute, Some(Impute::Mean)).then(Box::default),
            counts: matches!(impute, Some(Impute::Median | Impute::MostFrequent)).then(Counts::default),
            range: None,
        }
    }

    fn for_scale(scale: Option<&Scale>) -> Self {
        Self {
            sums: matches!(scale, Some(Scale::Standardise)).then(Box::default),
            counts: matches!(scale, Some(Scale::Robust | Scale::Quantile { .. })).then(Counts::default),
            range: matches!(scale, Some(Scale::MinMax { .. })).then_some(None),
        }
    }

    fn add(&mut self, number: f64, times: u64) {
        if times == 0 {
            return;
        }
        if let Some(sums) = &mut self.sums {
            sums.add(number, times);
        }
        if let Some(counts) = &mut self.counts {
            counts.add(number, times);
        }
        if let Some(range) = &mut self.range {
            let (low, high) = range.unwrap_or((number, number));
            *range = Some((low.min(number), high.max(number)));
        }
    }

    fn merge(&mut self, other: &Self) {
        if let (Some(sums), Some(other)) = (&mut self.sums, &other.sums) {
            sums.merge(other);
        }
        if let (Some(counts), Some(other)) = (&mut self.counts, &other.counts) {
            counts.merge(other);
        }
        if let (Some(range), Some(Some((low, high)))) = (&mut self.range, other.range) {
            let own = range.unwrap_or((low, high));
            *range = Some((own.0.min(low), own.1.max(high)));
        }
    }

    /// The number that stands for a missing one; `None` of no numbers.
    fn imputed(&self, impute: &Impute) -> Option<f64> {
        match impute {
            Impute::Mean => self.sums.as_ref()?.mean(),
            Impute::Median => self.counts.as_ref()?.sorted().median(),
            Impute::MostFrequent => self.counts.as_ref()?.most_frequent(),
            Impute::Number(number) => Some(*number),
            Impute::Text(text) => iso(text),
        }
    }

    /// # Errors
    ///
    /// [`ErrorKind::Data`] of no numbers, or of such as are too far apart.
    fn scaled(&self, scale: &Scale) -> Result<FittedScale> {
        let fitted = match scale {
            Scale::Standardise => self
                .sums
                .as_ref()
                .and_then(|sums| Some(FittedScale::Standardise { mean: sums.mean()?, deviation: sums.deviation()? })),
            Scale::MinMax { low, high } => self.range.flatten().map(|(smallest, largest)| FittedScale::MinMax {
                smallest,
                largest,
                low: *low,
                high: *high,
            }),
            Scale::Robust => self.counts.as_ref().and_then(|counts| {
                let sorted = counts.sorted();
                let distance = sorted.quantile(0.75)? - sorted.quantile(0.25)?;
                Some(FittedScale::Robust { median: sorted.median()?, distance })
            }),
            Scale::Quantile { count } => self.counts.as_ref().and_then(|counts| {
                let sorted = counts.sorted();
                let count = (*count as u64).min(sorted.count()).max(1);
                let share = |nth: u64| nth as f64 / (count - 1).max(1) as f64;
                let mut quantiles: Vec<f64> =
                    (0..count).map(|nth| sorted.quantile(share(nth))).collect::<Option<_>>()?;
                // Rounding may leave one a little below the one before.
                for at in 1..quantiles.len() {
                    quantiles[at] = quantiles[at].max(quantiles[at - 1]);
                }
                Some(FittedScale::Quantile { quantiles })
            }),
        };
        let fitted = fitted.ok_or_else(nothing)?;
        match fitted.fault() {
            None => Ok(fitted),
            Some(_) => {
                let message = "its numbers are further apart than f64 reaches; clip them";
                Err(Error::new(ErrorKind::Data, message))
            }
        }
    }

    fn error(&self) -> f64 {
        self.counts.as_ref().map_or(0.0, Counts::error)
    }
}

#[cold]
fn nothing() -> Error {
    let message = "all values are missing: impute a number or name of your own, or leave the column out";
    Error::new(ErrorKind::Data, message)
}

impl RecipeFit {
    /// Nothing is counted yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with all [faults](Recipe::faults) of the recipe.
    pub fn new(recipe: &Recipe) -> Result<Self> {
        recipe.check()?;
        let counted = |(_, column): &(String, Column)| match column {
            Column::Number(Number { impute, scale, .. }) => Counted::Number {
                missing: 0,
                raw: Stats::for_impute(impute.as_ref()),
                shaped: Stats::for_scale(scale.as_ref()),
            },
            Column::Category(_) => Counted::Names { missing: 0, names: HashMap::new() },
            Column::Hash(_) => Counted::Nothing,
            Column::Date(Date { impute, parts, scale, .. }) => Counted::Date {
                missing: 0,
                seconds: Stats::for_impute(impute.as_ref()),
                parts: parts.iter().map(|part| (*part, Stats::for_scale(scale.as_ref()))).collect(),
            },
        };
        Ok(Self {
            recipe: recipe.clone(),
            columns: recipe.columns.iter().map(counted).collect(),
            records: 0,
            staged: vec![Staged::Missing; recipe.columns.len()],
            text: String::new(),
        })
    }

    /// Counts a record: its values in the order of the recipe's columns.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column, for a value that could not be prepared; nothing of the record is counted.
    ///
    /// # Panics
    ///
    /// If there are not as many values as columns.
    pub fn observe(&mut self, values: &[Value<'_>]) -> Result<()> {
        assert_eq!(values.len(), self.columns.len(), "a value for each column");
        self.text.clear();
        for (((name, column), value), staged) in self.recipe.columns.iter().zip(values).zip(&mut self.staged) {
            let text = &mut self.text;
            let given = column.given(value, |given| {
                *staged = match given {
                    Given::Missing => Staged::Missing,
                    Given::Number(number) => Staged::Number(number),
                    Given::Name(name) => {
                        let start = text.len();
                        text.push_str(name);
                        Staged::Name(start..text.len())
                    }
                };
                Ok(())
            });
            given.map_err(|error| error.at_column(name))?;
        }
        for nth in 0..self.columns.len() {
            match self.staged[nth].clone() {
                Staged::Missing => self.count_missing(nth, 1),
                Staged::Number(number) => self.count_number(nth, number)?,
                Staged::Name(range) => {
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

    /// Counts records, whose values are counted one by one.
    pub(super) fn count_records(&mut self, records: u64) {
        self.records += records;
    }

    pub(super) fn count_missing(&mut self, nth: usize, times: u64) {
        match &mut self.columns[nth] {
            Counted::Number { missing, .. } | Counted::Names { missing, .. } | Counted::Date { missing, .. } => {
                *missing += times;
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
                add_name(names, name, times).map_err(|error| error.at_column(&self.recipe.columns[nth].0))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Counts what `other` counted, as if it had been observed here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a fit of another recipe, [`ErrorKind::Limit`] for too many names.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.recipe != other.recipe {
            return Err(Error::new(ErrorKind::Config, "fits of different recipes"));
        }
        for ((own, other), (name, _)) in self.columns.iter_mut().zip(&other.columns).zip(&self.recipe.columns) {
            match (own, other) {
                (
                    Counted::Number { missing, raw, shaped },
                    Counted::Number { missing: more, raw: other_raw, shaped: other_shaped },
                ) => {
                    *missing += more;
                    raw.merge(other_raw);
                    shaped.merge(other_shaped);
                }
                (Counted::Names { missing, names }, Counted::Names { missing: more, names: others }) => {
                    *missing += more;
                    let mut others = others.iter();
                    others
                        .try_for_each(|(other, times)| add_name(names, other, *times))
                        .map_err(|error| error.at_column(name))?;
                }
                (
                    Counted::Date { missing, seconds, parts },
                    Counted::Date { missing: more, seconds: other_seconds, parts: others },
                ) => {
                    *missing += more;
                    seconds.merge(other_seconds);
                    parts.iter_mut().zip(others).for_each(|((_, stats), (_, others))| stats.merge(others));
                }
                _ => {}
            }
        }
        self.records += other.records;
        Ok(())
    }

    /// How many records were counted.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// What becomes of records, by everything that was counted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column, where too little was counted to know.
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
        Prepared::new(columns, self.recipe.dtype, self.records, error)
    }
}

fn add_name(names: &mut HashMap<String, u64>, name: &str, times: u64) -> Result<()> {
    if let Some(count) = names.get_mut(name) {
        *count += times;
        return Ok(());
    }
    if names.len() == MOST_NAMES {
        let message = format!("more than {MOST_NAMES} different names; make it a column by hash");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    names.insert(name.to_owned(), times);
    Ok(())
}

/// What a value says, if it may stand in its column.
pub(super) enum Given<'a> {
    Missing,
    Number(f64),
    Name(&'a str),
}

impl Column {
    /// Gives to `take` what a value says.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for what could not be prepared, and those of `take`.
    pub(super) fn given<T>(&self, value: &Value<'_>, take: impl FnOnce(Given<'_>) -> Result<T>) -> Result<T> {
        let is_imputed = match self {
            Self::Number(Number { impute, .. }) | Self::Date(Date { impute, .. }) => impute.is_some(),
            Self::Category(category) => category.impute.is_some() || category.unknown,
            Self::Hash(_) => true,
        };
        let number = match self {
            Self::Category(_) | Self::Hash(_) => {
                return given::name(value, |name| match name {
                    Some(name) => take(Given::Name(name)),
                    None if is_imputed => take(Given::Missing),
                    None => Err(missing()),
                });
            }
            Self::Number(number) => {
                let given = given::number(value)?;
                given.map(|given| number.shape().of(given)).transpose()?;
                given
            }
            Self::Date(date) => {
                let given = given::seconds(value, date.format.as_deref(), date.unit)?;
                given.map(moment).transpose()?;
                given
            }
        };
        match number {
            Some(number) => take(Given::Number(number)),
            None if is_imputed => take(Given::Missing),
            None => Err(missing()),
        }
    }
}

impl Number {
    fn shape(&self) -> NumberShape {
        NumberShape { clip: self.clip, log1p: self.log1p }
    }

    fn finish(&self, missing: u64, raw: &Stats, shaped: &Stats) -> Result<FittedNumber> {
        let impute = self.impute.as_ref().map(|impute| raw.imputed(impute).ok_or_else(nothing)).transpose()?;
        let mut shaped = shaped.clone();
        if let Some(number) = impute {
            // What stands for missing values is scaled as all others.
            shaped.add(self.shape().of(number)?, missing);
        }
        let scale = self.scale.as_ref().map(|scale| shaped.scaled(scale)).transpose()?;
        Ok(FittedNumber { impute, mask: self.mask, shape: self.shape(), scale })
    }
}

impl Category {
    fn finish(&self, missing: u64, names: &HashMap<String, u64>) -> Result<FittedCategory> {
        let mut counts: Vec<(String, u64)> = names.iter().map(|(name, times)| (name.clone(), *times)).collect();
        let by_frequency =
            |(one, times): &(String, u64), (other, more): &(String, u64)| more.cmp(times).then(one.cmp(other));
        counts.sort_unstable_by(by_frequency);
        let impute = match &self.impute {
            None => None,
            Some(Impute::MostFrequent) => Some(counts.first().ok_or_else(nothing)?.0.clone()),
            Some(Impute::Text(text)) => Some(text.trim().to_owned()),
            Some(_) => return Err(Error::new(ErrorKind::Config, "names have no mean")),
        };
        if let Some(impute) = &impute {
            match counts.iter_mut().find(|(name, _)| name == impute) {
                Some((_, times)) => *times += missing,
                None => counts.push((impute.clone(), missing)),
            }
            counts.sort_unstable_by(by_frequency);
        }
        counts.retain(|(_, times)| self.at_least.is_none_or(|at_least| *times >= at_least));
        counts.truncate(self.most.unwrap_or(usize::MAX));
        let mut names: Vec<String> = counts.into_iter().map(|(name, _)| name).collect();
        if !self.by_frequency {
            names.sort_unstable();
        }
        if names.is_empty() && !self.unknown {
            return Err(nothing());
        }
        match self.one_hot_fault(names.len()) {
            Some(fault) => Err(Error::new(ErrorKind::Config, fault)),
            None => {
                let Self { unknown, mask, one_hot, .. } = *self;
                Ok(FittedCategory { names, unknown, impute, mask, one_hot })
            }
        }
    }
}

impl Date {
    fn finish(&self, missing: u64, seconds: &Stats, parts: &[(DatePart, Stats)]) -> Result<FittedDate> {
        let impute = self.impute.as_ref().map(|impute| seconds.imputed(impute).ok_or_else(nothing)).transpose()?;
        let imputed = impute.map(moment).transpose()?;
        let fitted = parts.iter().map(|(part, stats)| {
            let mut stats = stats.clone();
            if let Some(imputed) = &imputed {
                stats.add(part.of(imputed), missing);
            }
            Ok(FittedPart { part: *part, scale: self.scale.as_ref().map(|scale| stats.scaled(scale)).transpose()? })
        });
        Ok(FittedDate {
            parts: fitted.collect::<Result<_>>()?,
            cyclic: self.cyclic.clone(),
            impute,
            mask: self.mask,
            format: self.format.clone(),
            unit: self.unit,
        })
    }
}
