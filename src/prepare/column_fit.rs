//! What a column accepts, and fitting it from what was counted.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::read::Value;

use super::columns::{Category, Date, Number};
use super::date::DatePart;
use super::fitted::{FittedCategory, FittedDate, FittedNumber, FittedPart, NumberShape, missing, moment};
use super::given;
use super::recipe::Column;
use super::stats::{Stats, nothing};
use super::words::Impute;

/// What a value means, if its column allows it.
pub(super) enum Given<'a> {
    Missing,
    Number(f64),
    Name(&'a str),
}

impl Column {
    /// Gives the meaning of a value to `take`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a value that could not be prepared, and those of `take`.
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
    pub(super) fn shape(&self) -> NumberShape {
        NumberShape { clip: self.clip, log1p: self.log1p }
    }

    pub(super) fn finish(&self, missing: u64, raw: &Stats, shaped: &Stats) -> Result<FittedNumber> {
        let impute = self.impute.as_ref().map(|impute| raw.imputed(impute)?.ok_or_else(nothing)).transpose()?;
        let mut shaped = shaped.clone();
        if let Some(number) = impute {
            // The substitute for missing values is scaled like all others.
            shaped.add(self.shape().of(number)?, missing);
        }
        let scale = self.scale.as_ref().map(|scale| shaped.scaled(scale)).transpose()?;
        Ok(FittedNumber { impute, mask: self.mask, shape: self.shape(), scale })
    }
}

impl Category {
    pub(super) fn finish(&self, missing: u64, names: &BTreeMap<String, u64>) -> Result<FittedCategory> {
        let mut counts: Vec<(String, u64)> = names.iter().map(|(name, times)| (name.clone(), *times)).collect();
        let by_frequency =
            |(one, times): &(String, u64), (other, more): &(String, u64)| more.cmp(times).then(one.cmp(other));
        counts.sort_unstable_by(by_frequency);
        let impute = match &self.impute {
            None => None,
            Some(Impute::MostFrequent) => Some(counts.first().ok_or_else(nothing)?.0.clone()),
            Some(Impute::Text(text)) => Some(given::named(text).to_owned()),
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
    pub(super) fn finish(&self, missing: u64, seconds: &Stats, parts: &[(DatePart, Stats)]) -> Result<FittedDate> {
        let impute = self.impute.as_ref().map(|impute| seconds.imputed(impute)?.ok_or_else(nothing)).transpose()?;
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
