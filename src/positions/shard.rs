use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::tree::no_faults;

/// This process's share of the samples: number `index` of `count`.
///
/// The global order of an epoch does not depend on shards. Its positions are assigned to the shards in turn: position
/// `p` belongs to shard `p % count`. So the shards' samples, interleaved, are those of a single process.
///
/// In settings a table, `{ index = 0, count = 4 }`, or [`"auto"`](Self::auto).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Number of this shard, from 0.
    pub index: u32,
    /// Number of shards.
    pub count: u32,
}

impl Default for Shard {
    /// All samples.
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

/// What to do with the last samples of an epoch if they can't be divided evenly among the shards. Every shard has the
/// same number of samples and of batches either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "samples are added or left out")]
pub enum Remainder {
    /// Shards with too few samples get the first samples of the epoch's order again;
    /// [`DataSet::padding`](crate::DataSet::padding) says how many. The default.
    #[default]
    Pad,
    /// The remaining samples are left out.
    Drop,
}

/// Environment variables of launchers: index and count. Open MPI and PMI come before SLURM, because `srun` may start
/// them.
const LAUNCHERS: [(&str, &str, &str); 4] = [
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI", "PMI_RANK", "PMI_SIZE"),
    ("SLURM", "SLURM_PROCID", "SLURM_NTASKS"),
];

impl Shard {
    /// Shard `index` of `count`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] unless `index` is below `count`.
    pub fn new(index: u32, count: u32) -> Result<Self> {
        let shard = Self { index, count };
        no_faults(shard.faults())?;
        Ok(shard)
    }

    /// The shard that a launcher gave this process; see [`from_env`](Self::from_env).
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn auto() -> Result<Self> {
        Self::from_env().map(|(shard, _)| shard)
    }

    pub(crate) fn faults(self) -> Vec<String> {
        let fault = (self.index >= self.count).then(|| {
            format!(
                "index: shard {} of {}; it counts from 0, and is below the number of shards",
                self.index, self.count
            )
        });
        fault.into_iter().collect()
    }

    /// The shard that a launcher gave this process, and the launcher's name: torchrun (`RANK`, `WORLD_SIZE`), Open MPI
    /// (`OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`), PMI (`PMI_RANK`, `PMI_SIZE`) or SLURM (`SLURM_PROCID`,
    /// `SLURM_NTASKS`), checked in this order. If none is set: all samples, and no name.
    ///
    /// Apart from the system's temporary folder, this is all that the library takes from the environment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if only one of a launcher's two variables is set, or their values are not valid numbers.
    pub fn from_env() -> Result<(Self, Option<&'static str>)> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<(Self, Option<&'static str>)> {
        for (launcher, index_name, count_name) in LAUNCHERS {
            let fault = |message| Error::new(ErrorKind::Config, format!("{launcher}'s variables: {message}"));
            let (index, count) = match (variable(index_name), variable(count_name)) {
                (None, None) => continue,
                (Some(index), Some(count)) => (index, count),
                (Some(_), None) => return Err(fault(format!("{index_name} is set, but {count_name} is not"))),
                (None, Some(_)) => return Err(fault(format!("{count_name} is set, but {index_name} is not"))),
            };
            let number = |name, value: &str| {
                u32::from_str(value.trim()).map_err(|_| fault(format!("{name} is {value:?}, not a number")))
            };
            let shard = Self::new(number(index_name, &index)?, number(count_name, &count)?)
                .map_err(|error| fault(error.message().to_owned()))?;
            tracing::info!(%shard, launcher, "the shard comes from the environment");
            return Ok((shard, Some(launcher)));
        }
        Ok((Self::default(), None))
    }
}

impl<'de> Deserialize<'de> for Shard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Part {
            index: u32,
            count: u32,
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Shard;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\", or a table with index and count")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Shard, E> {
                match text {
                    "auto" => Shard::auto().map_err(|error| E::custom(error.message())),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Shard, A::Error> {
                let Part { index, count } = Part::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Shard { index, count })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = Error;

    /// Reads `index/count`.
    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) => Self::new(index, count),
            None => Err(Error::new(ErrorKind::Config, format!("a shard is written index/count, not {text:?}"))),
        }
    }
}

/// The positions of one shard in the rest of an epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deal {
    shard: Shard,
    len: u64,
    /// The first global position that is dealt.
    start: u64,
    /// Number of positions of this shard.
    count: u64,
}

impl Deal {
    /// Deals the positions `start..len` of an epoch.
    pub(crate) fn new(shard: Shard, len: u64, start: u64, remainder: Remainder) -> Self {
        let left = len.saturating_sub(start);
        let shards = u64::from(shard.count);
        let count = match remainder {
            Remainder::Pad => left.div_ceil(shards),
            Remainder::Drop => left / shards,
        };
        Self { shard, len, start, count }
    }

    /// Number of positions of this shard, which is the same for all shards.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The global position of this shard's `nth`; positions from `len` on are padding.
    pub(crate) fn position(&self, nth: u64) -> u64 {
        self.start + nth * u64::from(self.shard.count) + u64::from(self.shard.index)
    }

    /// Number of global positions that all shards have covered when each has covered `nth`.
    pub(crate) fn covered(&self, nth: u64) -> u64 {
        (self.start + nth * u64::from(self.shard.count)).min(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn from(variables: &[(&'static str, &'static str)]) -> Result<(Shard, Option<&'static str>)> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        Shard::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn every_launcher_is_understood_and_named() {
        assert_eq!(from(&[]).unwrap(), (Shard::default(), None));
        let of = |index, count| Shard::new(index, count).unwrap();
        assert_eq!(from(&[("RANK", "3"), ("WORLD_SIZE", "8")]).unwrap(), (of(3, 8), Some("torchrun")));
        assert_eq!(from(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")]).unwrap(), (of(1, 2), Some("SLURM")));
        assert_eq!(from(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).unwrap(), (of(0, 2), Some("PMI")));
        let mpi = [
            ("OMPI_COMM_WORLD_RANK", "4"),
            ("OMPI_COMM_WORLD_SIZE", "5"),
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
        ];
        assert_eq!(from(&mpi).unwrap(), (of(4, 5), Some("Open MPI")));
    }

    #[test]
    fn half_set_or_wrong_variables_are_errors_that_name_them() {
        for (variables, part) in [
            (&[("RANK", "3")][..], "WORLD_SIZE is not"),
            (&[("RANK", "x"), ("WORLD_SIZE", "2")], "RANK is \"x\""),
            (&[("RANK", "2"), ("WORLD_SIZE", "2")], "shard 2 of 2"),
        ] {
            let error = from(variables).unwrap_err().to_string();
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn a_shard_is_read_from_text() {
        assert_eq!("1/4".parse::<Shard>().unwrap(), Shard { index: 1, count: 4 });
        assert!("4/4".parse::<Shard>().is_err() && "1".parse::<Shard>().is_err());
    }
}
