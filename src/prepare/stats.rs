//! The statistics of a column's numbers that are counted.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

use super::counts::{Counts, Sorted};
use super::date_text::iso;
use super::exact::Sums;
use super::fitted::FittedScale;
use super::words::{Impute, Scale};

/// Statistics of numbers, as far as they are needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stats {
    sums: Option<Box<Sums>>,
    counts: Option<Counts>,
    range: Option<Range>,
}

/// The smallest and largest number, if there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    ends: Option<(f64, f64)>,
}

impl Range {
    fn add(&mut self, low: f64, high: f64) {
        let own = self.ends.unwrap_or((low, high));
        self.ends = Some((own.0.min(low), own.1.max(high)));
    }
}

impl Stats {
    pub(super) fn for_impute(impute: Option<&Impute>) -> Self {
        Self {
            sums: matches!(impute, Some(Impute::Mean)).then(Box::default),
            counts: matches!(impute, Some(Impute::Median | Impute::MostFrequent)).then(Counts::default),
            range: None,
        }
    }

    pub(super) fn for_scale(scale: Option<&Scale>) -> Self {
        Self {
            sums: matches!(scale, Some(Scale::Standardise)).then(Box::default),
            counts: matches!(scale, Some(Scale::Robust | Scale::Quantile { .. } | Scale::Bins { .. }))
                .then(Counts::default),
            range: matches!(scale, Some(Scale::MinMax { .. })).then(Range::default),
        }
    }

    pub(super) fn add(&mut self, number: f64, times: u64) {
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
            range.add(number, number);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if let (Some(sums), Some(other)) = (&mut self.sums, &other.sums) {
            sums.merge(other);
        }
        if let (Some(counts), Some(other)) = (&mut self.counts, &other.counts) {
            counts.merge(other);
        }
        if let (Some(range), Some(Range { ends: Some((low, high)) })) = (&mut self.range, other.range) {
            range.add(low, high);
        }
    }

    /// The substitute for missing numbers; `None` without numbers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] if there are too many different numbers to know the most frequent one.
    pub(super) fn imputed(&self, impute: &Impute) -> Result<Option<f64>> {
        let counts = self.counts.as_ref();
        Ok(match impute {
            Impute::Mean => self.sums.as_ref().and_then(|sums| sums.mean()),
            Impute::Median => counts.and_then(|counts| counts.sorted().median()),
            Impute::MostFrequent => counts.map(Counts::most_frequent).transpose()?.flatten(),
            Impute::Number(number) => Some(*number),
            Impute::Text(text) => iso(text),
        })
    }

    /// # Errors
    ///
    /// [`ErrorKind::Data`] without numbers, or if they are too far apart.
    pub(super) fn scaled(&self, scale: &Scale) -> Result<FittedScale> {
        let fitted = match scale {
            Scale::Standardise => self
                .sums
                .as_ref()
                .and_then(|sums| Some(FittedScale::Standardise { mean: sums.mean()?, deviation: sums.deviation()? })),
            Scale::MinMax { low, high } => self
                .range
                .and_then(|range| range.ends)
                .map(|(smallest, largest)| FittedScale::MinMax { smallest, largest, low: *low, high: *high }),
            Scale::Robust => self.counts.as_ref().and_then(|counts| {
                let sorted = counts.sorted();
                let distance = sorted.quantile(0.75)? - sorted.quantile(0.25)?;
                Some(FittedScale::Robust { median: sorted.median()?, distance })
            }),
            Scale::Quantile { count } => self.counts.as_ref().and_then(|counts| {
                let sorted = counts.sorted();
                Some(FittedScale::Quantile { quantiles: evenly(&sorted, (*count as u64).min(sorted.count()).max(1))? })
            }),
            Scale::Bins { count } => self.counts.as_ref().and_then(|counts| {
                let mut edges = evenly(&counts.sorted(), *count as u64 + 1)?;
                edges.dedup();
                edges.pop();
                Some(FittedScale::Bins { edges: edges.into_iter().skip(1).collect() })
            }),
        };
        let fitted = fitted.ok_or_else(nothing)?;
        match fitted.fault() {
            None => Ok(fitted),
            Some(_) => {
                let message = "its numbers differ by more than f64 can hold; clip them";
                Err(Error::new(ErrorKind::Data, message))
            }
        }
    }

    /// Whether both count in the same way.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let parts = |stats: &Self| (stats.sums.is_some(), stats.counts.is_some(), stats.range.is_some());
        parts(self) == parts(other)
    }

    pub(super) fn error(&self) -> f64 {
        self.counts.as_ref().map_or(0.0, Counts::error)
    }
}

/// This many quantiles, from the smallest number to the largest. `None` without numbers.
fn evenly(sorted: &Sorted, count: u64) -> Option<Vec<f64>> {
    let share = |nth: u64| nth as f64 / (count - 1).max(1) as f64;
    let mut quantiles: Vec<f64> = (0..count).map(|nth| sorted.quantile(share(nth))).collect::<Option<_>>()?;
    // Rounding may leave one a little below the one before.
    for at in 1..quantiles.len() {
        quantiles[at] = quantiles[at].max(quantiles[at - 1]);
    }
    Some(quantiles)
}

#[cold]
pub(super) fn nothing() -> Error {
    let message = "all values are missing: impute a number or name of your own, or leave the column out";
    Error::new(ErrorKind::Data, message)
}
