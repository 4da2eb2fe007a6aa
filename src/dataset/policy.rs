use serde::{Deserialize, Serialize};

/// Number of samples per batch, unless another one is set.
pub(crate) const DEFAULT_BATCH_SIZE: usize = 32;

/// What to do with records that can't be read or decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BadRecords {
    /// The first one ends the epoch, with its error in the batch's place. The default.
    #[default]
    Fail,
    /// They are left out, counted and named. Their batches have fewer samples, and no later batch changes. Every batch
    /// is delivered, even one without any sample ([`DataSet::is_empty`](crate::DataSet::is_empty)). So the number of
    /// batches does not depend on the data, and all shards take the same number of steps. Beyond a limit the epoch ends
    /// with [`ErrorKind::TooManyBad`](crate::ErrorKind::TooManyBad).
    Skip(BadLimits),
    /// Each is replaced by another sample, chosen by (seed, epoch, position, attempt), counted and named. Batch sizes,
    /// step counts and all other samples stay the same, on every shard. Needs random access.
    Replace(BadLimits),
}

impl BadRecords {
    /// Leaves out bad records, within `limits`.
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

/// How many bad records an epoch of one shard may have. Limits that are not given do not apply. If a run of several
/// shards resumes, they count from there: its state may be another shard's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BadLimits {
    /// Maximum number of bad records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Maximum share of bad records among the samples, from 0 to 1. If the number of samples is not known in advance,
    /// the share is that among the samples so far, checked from the thousandth sample on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Maximum number of bad records in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u64>,
}

impl BadLimits {
    /// At most `count` bad records.
    pub fn count(count: u64) -> Self {
        Self { count: Some(count), ..Self::default() }
    }

    /// At most this share of the samples.
    pub fn share(share: f64) -> Self {
        Self { share: Some(share), ..Self::default() }
    }
}
