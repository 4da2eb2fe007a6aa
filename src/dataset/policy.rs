use serde::{Deserialize, Serialize};

/// What becomes of records that can't be read or decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BadRecords {
    /// The first one ends the epoch, with its error in the batch's place. The default.
    #[default]
    Fail,
    /// They are left out, counted and named; their batches are shorter, and no later batch changes. Every batch is
    /// delivered, even one of which nothing is left ([`DataSet::is_empty`](crate::DataSet::is_empty)): how many there are
    /// does not depend on the data, so that all shards take the same number of steps. Beyond a limit the epoch ends with
    /// [`ErrorKind::TooManyBad`](crate::ErrorKind::TooManyBad).
    Skip(BadLimits),
    /// Each is replaced by another sample, chosen by (seed, epoch, position, attempt), counted and named: batch sizes,
    /// step counts and all other samples stay as they are, on every shard. Needs random access.
    Replace(BadLimits),
}

impl BadRecords {
    /// Leaves bad records out, within `limits`.
    pub fn skip(limits: BadLimits) -> Self {
        Self::Skip(limits)
    }

    pub(crate) fn limits(self) -> Option<BadLimits> {
        match self {
            Self::Fail => None,
            Self::Skip(limits) | Self::Replace(limits) => Some(limits),
        }
    }
}

/// How many bad records an epoch of one shard may have. Whatever is not given is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BadLimits {
    /// Most of them, as a count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Most of them, as a share of the samples (0 to 1). Where the number of samples is not known beforehand: of the
    /// samples so far, from the thousandth on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Most of them one after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u64>,
}

impl BadLimits {
    /// At most `count` of them.
    pub fn count(count: u64) -> Self {
        Self { count: Some(count), ..Self::default() }
    }

    /// At most this share of the samples.
    pub fn share(share: f64) -> Self {
        Self { share: Some(share), ..Self::default() }
    }
}
