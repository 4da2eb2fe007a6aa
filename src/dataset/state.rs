use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::order::FURTHEST;
use crate::read::Fingerprint;

/// Where an iterator stands: what a later run needs to go on, with any number of shards and workers, any prefetch, with
/// or without the shield. Small plain data: less than 256 bytes of JSON.
///
/// Every later Ringfeed reads it. One that a later Ringfeed wrote is refused as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// Version of this form, and of the orders in which positions are counted.
    pub version: u32,
    /// Seed of order and randomness.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Positions of the epoch's global order that batches returned so far have covered, on all shards together, bad
    /// records included. Where shards were stopped a step apart, go on from the smallest.
    pub position: u64,
    /// Bad records of this shard in this epoch so far.
    pub bad: u64,
    /// Bad records of this shard one after another, up to this place.
    pub run: u32,
    /// What tells the source from a changed one; `None` goes on with any source.
    pub source: Option<Fingerprint>,
}

impl State {
    /// The version that this library writes.
    ///
    /// Version 1 was that of unreleased builds: small sets were shuffled in other orders, and fingerprints were others.
    pub const VERSION: u32 = 2;

    /// The beginning of the first epoch.
    pub fn new(seed: u64) -> Self {
        Self { version: Self::VERSION, seed, epoch: 0, position: 0, bad: 0, run: 0, source: None }
    }

    /// The same place, for a source that has changed since, or a state of version 1: the caller answers for positions
    /// still meaning what they meant.
    #[must_use]
    pub fn for_changed_source(self) -> Self {
        Self { version: self.version.max(Self::VERSION), source: None, ..self }
    }

    /// What a source says that is shorter than the state.
    #[cold]
    pub(super) fn is_beyond(&self, len: u64) -> Error {
        let message = format!("the state stands at position {}, but the epoch has {len} samples", self.position);
        Error::new(ErrorKind::Config, message)
    }

    /// What is wrong with it, whatever the source.
    pub(crate) fn check(&self) -> Result<()> {
        let fault = |message| Err(Error::new(ErrorKind::Config, message));
        if let Some(message) = too_late(self.version) {
            return fault(message);
        }
        if self.version < Self::VERSION {
            return fault(format!(
                "the state has version {}, and this Ringfeed has other orders and fingerprints; begin anew, or go on all the \
                 same with `State::for_changed_source`: the order of more than 256 samples without weights or mixes is as it was",
                self.version
            ));
        }
        if self.epoch.max(self.position) > FURTHEST {
            return fault(format!(
                "the state stands in epoch {}, at position {}, where no run gets; it is damaged",
                self.epoch, self.position
            ));
        }
        Ok(())
    }
}

fn too_late(version: u32) -> Option<String> {
    (version > State::VERSION).then(|| {
        let newest = State::VERSION;
        format!(
            "the state has version {version}, of a later Ringfeed; this one reads versions up to {newest}; update it"
        )
    })
}

/// A state without its version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest {
    seed: u64,
    epoch: u64,
    position: u64,
    bad: u64,
    run: u32,
    source: Option<Fingerprint>,
}

impl Rest {
    fn of_version(self, version: u32) -> State {
        let Self { seed, epoch, position, bad, run, source } = self;
        State { version, seed, epoch, position, bad, run, source }
    }
}

/// Reads the version before anything else, wherever it stands: a later version may have other fields.
impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        const FIELDS: &[&str] = &["version", "seed", "epoch", "position", "bad", "run", "source"];
        deserializer.deserialize_struct("State", FIELDS, StateVisitor)
    }
}

struct StateVisitor;

impl<'de> Visitor<'de> for StateVisitor {
    type Value = State;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the state of an iterator")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<State, A::Error> {
        let mut fields = serde_json::Map::new();
        while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
            if fields.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
        }
        let version = fields.remove("version").ok_or_else(|| A::Error::missing_field("version"))?;
        let version = u32::deserialize(version).map_err(A::Error::custom)?;
        if let Some(message) = too_late(version) {
            return Err(A::Error::custom(message));
        }
        Ok(Rest::deserialize(serde_json::Value::Object(fields)).map_err(A::Error::custom)?.of_version(version))
    }

    /// Formats that name no fields.
    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> std::result::Result<State, A::Error> {
        let version: u32 = next(&mut fields)?;
        if let Some(message) = too_late(version) {
            return Err(A::Error::custom(message));
        }
        let rest = Rest {
            seed: next(&mut fields)?,
            epoch: next(&mut fields)?,
            position: next(&mut fields)?,
            bad: next(&mut fields)?,
            run: next(&mut fields)?,
            source: next(&mut fields)?,
        };
        Ok(rest.of_version(version))
    }
}

fn next<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(fields: &mut A) -> std::result::Result<T, A::Error> {
    fields.next_element()?.ok_or_else(|| A::Error::custom("a state that is cut off"))
}
