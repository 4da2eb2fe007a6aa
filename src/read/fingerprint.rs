use crate::error::{Error, ErrorKind, Result};
use crate::random::RandomKey;

/// Identifies a source, so that another or a changed one is noticed, however it is read: the same file has the same
/// fingerprint for a reader and for a stream, in every build and on every system. In JSON, hashes are hexadecimal text,
/// because not every JSON reader keeps numbers of 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a fingerprint: count, names and sizes")]
pub struct Fingerprint {
    /// Number of records; unknown for a stream, which matches any number.
    pub count: Option<u64>,
    /// Hash of the records' or files' names.
    #[serde(with = "hex")]
    pub names: u64,
    /// Hash of their sizes.
    #[serde(with = "hex")]
    pub sizes: u64,
}

impl Fingerprint {
    /// The fingerprint of samples that are made of records of both sources.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count.zip(other.count).map(|(count, other)| count.min(other)),
            names: RandomKey::new(self.names).with(other.names).bits(0),
            sizes: RandomKey::new(self.sizes).with(other.sizes).bits(0),
        }
    }

    /// Checks that `now` is the source with which a state was made.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] that says which of count, names and sizes changed.
    pub fn check(&self, now: &Self) -> Result<()> {
        let changed: Vec<String> = [
            self.count
                .zip(now.count)
                .filter(|(then, now)| then != now)
                .map(|(then, now)| format!("the count of records (from {then} to {now})")),
            (self.names != now.names).then(|| "names".to_owned()),
            (self.sizes != now.sizes).then(|| "sizes".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the source has changed since the state was made: {}; start again, or accept the state, if positions still \
             mean the same (`State::for_changed_source`, in Python `load_state_dict(state, changed_source=True)`)",
            changed.join(", ")
        );
        Err(Error::new(ErrorKind::Config, message))
    }
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{hash:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
