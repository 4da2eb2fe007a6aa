use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::positions::FURTHEST;
use crate::read::Fingerprint;
use crate::tree::Node;

/// The position of an iterator. A later run resumes there, with any number of shards and workers, any prefetch, with or
/// without the shield. Small plain data: less than 256 bytes of JSON.
///
/// Every later version of Ringfeed can read it. A state from a later version is an error that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// Version of this format, and of the orders in which positions are counted.
    pub version: u32,
    /// Seed of order and randomness.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Number of positions of the epoch's global order that the batches so far have covered, on all shards together,
    /// bad records included. If shards stopped one step apart, resume from the smallest.
    pub position: u64,
    /// Bad records of this shard in this epoch so far.
    pub bad: u64,
    /// Bad records of this shard in a row, up to this position.
    pub run: u32,
    /// Identifies the source, so that a changed one is refused; `None` accepts any source.
    pub source: Option<Fingerprint>,
}

impl State {
    /// The version that this library writes.
    ///
    /// Unreleased builds wrote version 1, with other orders for small sets and other fingerprints.
    pub const VERSION: u32 = 2;

    /// The beginning of the first epoch.
    pub fn new(seed: u64) -> Self {
        Self { version: Self::VERSION, seed, epoch: 0, position: 0, bad: 0, run: 0, source: None }
    }

    /// The same position, for a source that has changed since, or for a state of version 1. The caller must know that
    /// positions still mean the same.
    #[must_use]
    pub fn for_changed_source(self) -> Self {
        Self { version: self.version.max(Self::VERSION), source: None, ..self }
    }

    /// The error of a source that is shorter than the state.
    #[cold]
    pub(super) fn is_beyond(&self, len: u64) -> Error {
        let message = format!("the state is at position {}, but the epoch has {len} samples", self.position);
        Error::new(ErrorKind::Config, message)
    }

    /// Checks what does not depend on the source.
    pub(crate) fn check(&self) -> Result<()> {
        let fault = |message| Err(Error::new(ErrorKind::Config, message));
        if let Some(message) = too_late(self.version) {
            return fault(message);
        }
        if self.version < Self::VERSION {
            return fault(format!(
                "the state has version {}, but this version of Ringfeed has other orders and fingerprints; start \
                 again, or accept the state as one of changed data (`State::for_changed_source`, in Python \
                 `load_state_dict(state, changed_source=True)`): the order of more than 256 samples without weights or \
                 mixes is the same",
                self.version
            ));
        }
        if self.epoch.max(self.position) > FURTHEST {
            return fault(format!(
                "the state is in epoch {}, at position {}, which no run reaches; it is damaged",
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
            "the state has version {version}, which a later version of Ringfeed wrote; this one reads versions up to \
             {newest}; update Ringfeed"
        )
    })
}

/// A state without its version.
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

/// The entries of a state, or of the part of it with this key.
struct Entries {
    key: &'static str,
    entries: Vec<(String, Node)>,
}

impl Entries {
    fn of(key: &'static str, node: Node) -> std::result::Result<Self, String> {
        match node {
            Node::Table(entries) => Ok(Self { key, entries }),
            other => match BTreeMap::<String, IgnoredAny>::deserialize(&other) {
                Ok(_) => Ok(Self { key, entries: Vec::new() }),
                Err(fault) => Err(format!("{key}: {fault}")),
            },
        }
    }

    /// Takes the entry of this name.
    fn take(&mut self, name: &str) -> std::result::Result<Node, String> {
        let at = self.entries.iter().position(|(own, _)| own == name);
        at.map(|at| self.entries.remove(at).1).ok_or_else(|| format!("{}{name:?} is missing", self.within()))
    }

    /// The same of one that may be missing: not every format has a value for nothing.
    fn take_if_any(&mut self, name: &str) -> Node {
        let at = self.entries.iter().position(|(own, _)| own == name);
        at.map_or(Node::Null, |at| self.entries.remove(at).1)
    }

    fn read<T: for<'n> Deserialize<'n>>(&mut self, name: &str) -> std::result::Result<T, String> {
        let node = self.take(name)?;
        self.value(name, &node)
    }

    fn value<T: for<'n> Deserialize<'n>>(&self, name: &str, node: &Node) -> std::result::Result<T, String> {
        let path = if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) };
        T::deserialize(node).map_err(|fault| format!("{path}: {fault}"))
    }

    /// A hash, which is written as text.
    fn hash(&mut self, name: &str) -> std::result::Result<u64, String> {
        let text: String = self.read(name)?;
        u64::from_str_radix(&text, 16)
            .map_err(|_| format!("{}.{name}: expected up to 16 hexadecimal digits, found {text:?}", self.key))
    }

    /// Checks that nothing is left.
    fn end(&self, names: &str) -> std::result::Result<(), String> {
        match self.entries.first() {
            Some((name, _)) => Err(format!("{}{name:?} does not belong here, only {names}", self.within())),
            None => Ok(()),
        }
    }

    /// How a message begins about something that has no path of its own.
    fn within(&self) -> String {
        if self.key.is_empty() { String::new() } else { format!("{}: ", self.key) }
    }
}

impl State {
    /// Reads the version first, wherever it stands, because a later version may have other entries.
    fn of(node: Node) -> std::result::Result<Self, String> {
        let mut all = Entries::of("", node)?;
        let version = all.read("version")?;
        if let Some(message) = too_late(version) {
            return Err(message);
        }
        let (seed, epoch, position) = (all.read("seed")?, all.read("epoch")?, all.read("position")?);
        let (bad, run) = (all.read("bad")?, all.read("run")?);
        let source = match all.take_if_any("source") {
            Node::Null => None,
            node => {
                let mut source = Entries::of("source", node)?;
                let count = source.take_if_any("count");
                let found = Fingerprint {
                    count: source.value("count", &count)?,
                    names: source.hash("names")?,
                    sizes: source.hash("sizes")?,
                };
                source.end("count, names and sizes")?;
                Some(found)
            }
        };
        all.end("version, seed, epoch, position, bad, run and source")?;
        Ok(Self { version, seed, epoch, position, bad, run, source })
    }
}

/// Reads the version first, wherever it stands, because a later version may have other fields.
impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        const FIELDS: &[&str] = &["version", "seed", "epoch", "position", "bad", "run", "source"];
        if !deserializer.is_human_readable() {
            return deserializer.deserialize_struct("State", FIELDS, StateVisitor);
        }
        // What a person can read has its faults told in words for a person.
        let read = match Node::deserialize(deserializer)? {
            table @ Node::Table(_) => Self::of(table),
            other => (&other).deserialize_any(StateVisitor).map_err(|fault| fault.to_string()),
        };
        read.map_err(D::Error::custom)
    }
}

struct StateVisitor;

impl<'de> Visitor<'de> for StateVisitor {
    type Value = State;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the state of an iterator")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<State, A::Error> {
        let node = Node::deserialize(MapAccessDeserializer::new(map))?;
        State::of(node).map_err(A::Error::custom)
    }

    /// For formats without names of fields.
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
