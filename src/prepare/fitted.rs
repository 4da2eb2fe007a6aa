//! Fitted columns: the result for one value.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::normalise::share_below;
use crate::random::{hash_bytes, scaled};
use crate::read::{DateUnit, Value};

use super::date::{DatePart, Moment};
use super::given;
use super::target::Target;

/// A fitted column in its saved form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fitted {
    Number(FittedNumber),
    Category(FittedCategory),
    Hash(FittedHash),
    Date(FittedDate),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FittedNumber {
    pub(super) impute: Option<f64>,
    pub(super) mask: bool,
    pub(super) shape: NumberShape,
    pub(super) scale: Option<FittedScale>,
}

/// The steps for a number before it is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NumberShape {
    pub(super) clip: Option<(f64, f64)>,
    pub(super) log1p: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FittedScale {
    Standardise { mean: f64, deviation: f64 },
    MinMax { smallest: f64, largest: f64, low: f64, high: f64 },
    Robust { median: f64, distance: f64 },
    Quantile { quantiles: Vec<f64> },
    Bins { edges: Vec<f64> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FittedCategory {
    /// In the order of their codes.
    pub(super) names: Vec<String>,
    pub(super) unknown: bool,
    pub(super) impute: Option<String>,
    pub(super) mask: bool,
    pub(super) one_hot: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FittedHash {
    pub(super) buckets: u64,
    pub(super) mask: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FittedDate {
    pub(super) parts: Vec<FittedPart>,
    pub(super) cyclic: Vec<DatePart>,
    /// Seconds since 1970.
    pub(super) impute: Option<f64>,
    pub(super) mask: bool,
    pub(super) format: Option<String>,
    pub(super) unit: Option<DateUnit>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FittedPart {
    pub(super) part: DatePart,
    pub(super) scale: Option<FittedScale>,
}

/// The error for a missing value without a substitute.
#[cold]
pub(super) fn missing() -> Error {
    Error::new(ErrorKind::Data, "there is no value; `impute` sets what replaces it")
}

impl NumberShape {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a number that has no logarithm.
    pub(super) fn of(self, number: f64) -> Result<f64> {
        let number = self.clip.map_or(number, |(low, high)| number.clamp(low, high));
        if !self.log1p {
            return Ok(number);
        }
        if number <= -1.0 {
            let message = format!("log1p takes numbers above -1, found {number}");
            return Err(Error::new(ErrorKind::Data, message));
        }
        Ok(number.ln_1p())
    }
}

impl FittedScale {
    pub(super) fn of(&self, number: f64) -> f64 {
        let unit = |unit: f64| if unit == 0.0 { 1.0 } else { unit };
        match self {
            Self::Standardise { mean, deviation } => (number - mean) / unit(*deviation),
            Self::Robust { median, distance } => (number - median) / unit(*distance),
            Self::MinMax { smallest, largest, low, high } => {
                (number - smallest) / unit(largest - smallest) * (high - low) + low
            }
            Self::Quantile { quantiles } => share_below(quantiles, number),
            Self::Bins { edges } => edges.partition_point(|edge| *edge <= number) as f64,
        }
    }

    /// Why this can't be the result of fitting.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let is_finite = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite());
        let is_right = match self {
            Self::Standardise { mean, deviation } => is_finite(&[*mean, *deviation]) && *deviation >= 0.0,
            Self::MinMax { smallest, largest, low, high } => {
                is_finite(&[*smallest, *largest, *low, *high, largest - smallest]) && smallest <= largest && low < high
            }
            Self::Robust { median, distance } => is_finite(&[*median, *distance]) && *distance >= 0.0,
            Self::Quantile { quantiles } => !quantiles.is_empty() && is_finite(quantiles) && quantiles.is_sorted(),
            Self::Bins { edges } => is_finite(edges) && edges.is_sorted_by(|one, next| one < next),
        };
        (!is_right).then_some("a scale whose numbers are out of order, or differ by more than f64 can hold")
    }
}

/// The position of a flag that was written in another way in the data that was fitted, such as `True` in CSV files of
/// pandas.
fn place_of_flag<'i>(index: &'i HashMap<String, u32>, name: &str) -> Option<&'i u32> {
    let written = match given::without_case_of_flags(name) {
        "true" => ["true", "True", "TRUE"],
        "false" => ["false", "False", "FALSE"],
        _ => return None,
    };
    written.into_iter().find_map(|name| index.get(name))
}

impl FittedCategory {
    /// Number of codes.
    pub(super) fn codes(&self) -> usize {
        self.names.len() + usize::from(self.unknown)
    }

    /// The codes of names by their text, for [`code`](Self::code).
    pub(super) fn index(&self) -> HashMap<String, u32> {
        self.names.iter().cloned().zip(0..).collect()
    }

    /// The position of a name, from 0; `None` if it is unknown and that is allowed.
    fn place(&self, index: &HashMap<String, u32>, name: Option<&str>) -> Result<Option<u32>> {
        let Some(name) = name else {
            return if self.unknown { Ok(None) } else { Err(missing()) };
        };
        match index.get(name).or_else(|| place_of_flag(index, name)) {
            Some(place) => Ok(Some(*place)),
            None if self.unknown => Ok(None),
            None => Err(self.no_such(name)),
        }
    }

    #[cold]
    fn no_such(&self, name: &str) -> Error {
        let near = crate::error::nearest(name, self.names.iter().map(String::as_str));
        let advice = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let count = self.names.len();
        let message =
            format!("{name:?} is none of the {count} names that were fitted; set `unknown` to accept it{advice}");
        Error::new(ErrorKind::Data, message)
    }
}

impl Fitted {
    /// The names of its features, to be added to the column's name.
    pub(super) fn features(&self) -> Vec<String> {
        let (mut names, mask) = match self {
            Self::Number(number) => (vec![String::new()], number.mask),
            Self::Category(category) if category.one_hot => {
                (category.names.iter().map(|name| format!("={name}")).collect(), category.mask)
            }
            Self::Category(category) => (Vec::new(), category.mask),
            Self::Hash(hash) => (Vec::new(), hash.mask),
            Self::Date(date) => {
                let mut names: Vec<String> = date.parts.iter().map(|part| format!("_{}", part.part.name())).collect();
                let cyclic = date.cyclic.iter().map(|part| part.name());
                names.extend(cyclic.flat_map(|name| [format!("_{name}_sin"), format!("_{name}_cos")]));
                (names, date.mask)
            }
        };
        names.extend(mask.then(|| "_missing".to_owned()));
        names
    }

    /// Number of codes and the known names; `None` if it has no codes.
    pub(super) fn codes(&self) -> Option<(u64, Vec<String>)> {
        match self {
            Self::Category(category) if !category.one_hot => {
                let unknown = category.unknown.then(String::new);
                Some((category.codes() as u64, unknown.into_iter().chain(category.names.iter().cloned()).collect()))
            }
            Self::Hash(hash) => Some((hash.buckets + 1, Vec::new())),
            _ => None,
        }
    }

    /// Writes the result for a value. `index` has the positions of a category's names.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a value that it can't be.
    pub(super) fn write(
        &self,
        value: &Value<'_>,
        index: &HashMap<String, u32>,
        target: &mut Target<'_, '_>,
    ) -> Result<()> {
        match self {
            Self::Number(number) => {
                let given = given::number(value)?;
                let own = given.or(number.impute).ok_or_else(missing)?;
                let shaped = number.shape.of(own)?;
                target.feature(number.scale.as_ref().map_or(shaped, |scale| scale.of(shaped)))?;
                target.mask(number.mask, given.is_none())
            }
            Self::Category(category) => given::name(value, |given| {
                let place = category.place(index, given.or(category.impute.as_deref()))?;
                if category.one_hot {
                    target.one_hot(category.names.len(), place.map(|place| place as usize))?;
                } else {
                    let known = |place: u32| i64::from(place) + i64::from(category.unknown);
                    target.code(place.map_or(0, known))?;
                }
                target.mask(category.mask, given.is_none())
            }),
            Self::Hash(hash) => given::name(value, |given| {
                let bucket = |name: &str| {
                    1 + scaled(hash_bytes(given::without_case_of_flags(name).as_bytes()), hash.buckets) as i64
                };
                target.code(given.map_or(0, bucket))?;
                target.mask(hash.mask, given.is_none())
            }),
            Self::Date(date) => {
                let given = given::seconds(value, date.format.as_deref(), date.unit)?;
                let moment = moment(given.or(date.impute).ok_or_else(missing)?)?;
                for FittedPart { part, scale } in &date.parts {
                    let number = part.of(&moment);
                    target.feature(scale.as_ref().map_or(number, |scale| scale.of(number)))?;
                }
                for part in &date.cyclic {
                    let (sine, cosine) = part.on_circle(&moment);
                    target.feature(sine)?;
                    target.feature(cosine)?;
                }
                target.mask(date.mask, given.is_none())
            }
        }
    }

    /// Why this can't be the result of fitting, for a column from a file.
    pub(super) fn fault(&self) -> Option<String> {
        let scale = |scale: &Option<FittedScale>| scale.as_ref().and_then(FittedScale::fault).map(str::to_owned);
        match self {
            Self::Number(number) => {
                let is_number = |number: &f64| number.is_finite();
                if number.impute.is_some_and(|number| number.is_nan()) {
                    return Some("an imputed value that is not a number".to_owned());
                }
                let clip = number.shape.clip;
                if clip.is_some_and(|(low, high)| !(is_number(&low) && is_number(&high) && low <= high)) {
                    return Some("a clip whose ends are out of order".to_owned());
                }
                scale(&number.scale)
            }
            Self::Category(category) => {
                let names: std::collections::HashSet<&String> = category.names.iter().collect();
                (names.len() < category.names.len()).then(|| "a name that occurs twice".to_owned())
            }
            Self::Hash(hash) => {
                (hash.buckets == 0 || hash.buckets > 1 << 32).then(|| "no such number of buckets".to_owned())
            }
            Self::Date(date) => date.parts.iter().find_map(|part| scale(&part.scale)),
        }
    }
}

/// # Errors
///
/// [`ErrorKind::Data`] beyond the years 0 to 9999.
pub(super) fn moment(seconds: f64) -> Result<Moment> {
    Moment::new(seconds).ok_or_else(|| {
        let message = format!(
            "{seconds} seconds since 1970 are not in the years 0 to 9999; set the `unit` of the \
                               dates"
        );
        Error::new(ErrorKind::Data, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_scaled_to_the_beginning() {
        let min_max = FittedScale::MinMax { smallest: 3.0, largest: 3.0, low: -1.0, high: 1.0 };
        assert_eq!(min_max.of(3.0), -1.0);
        assert_eq!(FittedScale::Standardise { mean: 3.0, deviation: 0.0 }.of(3.0), 0.0);
        assert_eq!(FittedScale::Robust { median: 3.0, distance: 0.0 }.of(4.0), 1.0);
    }

    #[test]
    fn what_has_no_logarithm_is_refused() {
        let shape = NumberShape { clip: None, log1p: true };
        assert_eq!(shape.of(0.0).unwrap(), 0.0);
        assert!(shape.of(-1.0).unwrap_err().message().contains("above -1, found -1"));
        assert_eq!(NumberShape { clip: Some((-0.5, 1.0)), log1p: true }.of(-7.0).unwrap(), (-0.5f64).ln_1p());
    }
}
