//! Replacements of missing values, and scales of numbers, in code and in settings.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Unexpected, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The replacement of a missing value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Impute {
    /// The mean of all values.
    Mean,
    /// The median of all values.
    Median,
    /// The value that occurs most often; the smallest one of several.
    MostFrequent,
    /// This number.
    Number(f64),
    /// This name or date. In settings, a name like those above is written `{ text = "mean" }`.
    Text(String),
}

/// How numbers are scaled. If all numbers are equal, they become 0, or the start of the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Scale {
    /// To mean 0 and deviation 1.
    Standardise,
    /// From the smallest and largest number to this range.
    MinMax {
        /// The value that the smallest number becomes.
        #[serde(default)]
        low: f64,
        /// The value that the largest number becomes.
        #[serde(default = "one")]
        high: f64,
    },
    /// To median 0 and an interquartile range of 1: outliers do not count.
    Robust,
    /// To the share of the numbers that are smaller, 0 to 1, interpolated linearly between this many quantiles.
    Quantile {
        /// Number of quantiles.
        #[serde(default = "thousand")]
        count: usize,
    },
    /// To the number of the bin, from 0, of this many bins with equally many numbers. This is the number of edges
    /// between bins that are equal or smaller. If many numbers are equal, there are fewer bins.
    Bins {
        /// Number of bins.
        #[serde(default = "ten")]
        count: usize,
    },
}

fn ten() -> usize {
    10
}

fn one() -> f64 {
    1.0
}

fn thousand() -> usize {
    1000
}

impl Scale {
    pub(super) fn fault(&self) -> Option<String> {
        match self {
            Self::MinMax { low, high } if !(low.is_finite() && high.is_finite() && low < high) => {
                Some(format!("scale: from {low} to {high} is not a range"))
            }
            Self::Quantile { count } if !(2..=1 << 16).contains(count) => {
                Some(format!("scale: {count} quantiles; there are 2 to 65536"))
            }
            Self::Bins { count } if !(2..=1 << 16).contains(count) => {
                Some(format!("scale: {count} bins; there are 2 to 65536"))
            }
            _ => None,
        }
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

/// The words for computed substitutes.
const IMPUTES: [(&str, Impute); 3] =
    [("mean", Impute::Mean), ("median", Impute::Median), ("most_frequent", Impute::MostFrequent)];

/// A name that could also be a keyword: `{ text = "mean" }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    text: String,
}

const TEXT: &str = "text";

impl Serialize for Impute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_f64(*number),
            // A name that is also a word must be marked as a name.
            Self::Text(text) if IMPUTES.iter().any(|(word, _)| word == text) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(TEXT, text)?;
                map.end()
            }
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

        impl<'de> Visitor<'de> for Imputes {
            type Value = Impute;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"mean\", \"median\", \"most_frequent\", a number, or a name or date; { text = \"mean\" } is a name")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Impute, A::Error> {
                let Named { text } = Named::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Impute::Text(text))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let texts = ["Oslo", "mean", "median", "most_frequent", "2024-05-01"].map(Impute::from);
        let all = [Impute::Mean, Impute::Median, Impute::MostFrequent, Impute::Number(-1.5)];
        for impute in texts.into_iter().chain(all) {
            let text = serde_json::to_string(&impute).unwrap();
            assert_eq!(serde_json::from_str::<Impute>(&text).unwrap(), impute, "{text}");
        }
        // The short form, if it can't mean anything else.
        let of = |text: &str| serde_json::from_str::<Impute>(text).ok();
        assert_eq!((of("\"mean\""), of("\"Oslo\"")), (Some(Impute::Mean), Some("Oslo".into())));
        assert_eq!(serde_json::to_string(&Impute::from("Oslo")).unwrap(), "\"Oslo\"");
        assert_eq!([of("\"\""), of("{}"), of("{\"name\": \"x\"}"), of("true")], [const { None }; 4]);
        #[derive(Deserialize)]
        struct Settings {
            impute: Impute,
        }
        let settings: Settings = toml::from_str("impute = { text = \"median\" }").unwrap();
        assert_eq!(settings.impute, "median".into());
    }
}
