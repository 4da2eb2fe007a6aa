use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind};

/// A number of workers, or of batches ahead: a fixed number, or one that is tuned during the run.
///
/// In settings a whole number, or `"auto"`: the loader then begins with the numbers that it would use if none were set.
/// It measures the cost of a sample and what the trainer waits for. It tries what the verdict advises, keeps changes
/// that help, and takes the smallest numbers with which the trainer does not wait longer. Up to 32 threads, or four for
/// each core, are started; those above the current number sleep. More batches are made ahead only within half of the
/// budget, or within 1 GiB without a budget. Batches are the same, byte for byte.
/// [`Stats::tuning`](crate::stats::Stats) says which numbers were chosen, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a number is given, or it is not")]
pub enum Amount {
    /// Tuned during the run.
    Auto,
    /// This many.
    Exactly(usize),
}

impl From<usize> for Amount {
    fn from(number: usize) -> Self {
        Self::Exactly(number)
    }
}

impl Amount {
    /// The number, if it is fixed.
    pub fn number(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Exactly(number) => Some(number),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Exactly(number) => write!(f, "{number}"),
        }
    }
}

/// `auto`, or a number.
impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = text.parse().map(Self::Exactly);
        number.map_err(|_| Error::new(ErrorKind::Config, format!("{text:?} is neither a whole number nor \"auto\"")))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Exactly(number) => serializer.serialize_u64(*number as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, 0 or more, or \"auto\"")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Amount, E> {
                let number = usize::try_from(number)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))?;
                Ok(Amount::Exactly(number))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Amount, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
                if text == "auto" {
                    return Ok(Amount::Auto);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_a_number_or_auto() {
        let both = |text: &str| serde_json::from_str::<Amount>(text);
        assert_eq!((both("3").unwrap(), both("\"auto\"").unwrap()), (Amount::Exactly(3), Amount::Auto));
        for amount in [Amount::Exactly(7), Amount::Auto] {
            assert_eq!(both(&serde_json::to_string(&amount).unwrap()).unwrap(), amount);
            assert_eq!(amount.to_string().parse::<Amount>().unwrap(), amount);
        }
        for wrong in ["-1", "1.5", "\"many\"", "[1]"] {
            assert!(both(wrong).unwrap_err().to_string().contains("or \"auto\""), "{wrong}");
        }
        assert!("2.0".parse::<Amount>().is_err());
    }
}
