use serde::Serialize;

use super::numbers::less;
use super::times::Times;

/// The statistics of an upload stage, over all its devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UploadStats {
    /// Batches whose copies were started.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// How often a device slot received memory: once for each slot, and when batches grew.
    pub grown: u64,
    /// Time that upload threads waited for a host batch while no copy was under way, in seconds: the loader was late.
    pub load_wait_seconds: f64,
    /// Time that they waited for a device slot, in seconds: the trainer was late.
    pub slot_wait_seconds: f64,
    /// Time that they waited for copies to finish, in seconds.
    pub copy_wait_seconds: f64,
    /// Time that the trainer waited in `next` and for copies, in seconds.
    pub trainer_wait_seconds: f64,
    /// Time that batches were on their way to the device, in seconds. If several are uploaded at the same time, the
    /// time of each counts.
    pub upload_seconds: f64,
    /// How long the upload of each batch took: from the start of its copy until the upload thread saw that the copy was
    /// done.
    pub uploads: Times,
    /// How long the upload of each batch waited for a device slot: almost no time as long as the trainer is not late.
    pub slot_waits: Times,
}

impl UploadStats {
    /// The statistics since `earlier`, a snapshot of the same stage.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            batches: self.batches.saturating_sub(earlier.batches),
            samples: self.samples.saturating_sub(earlier.samples),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            grown: self.grown.saturating_sub(earlier.grown),
            load_wait_seconds: less(self.load_wait_seconds, earlier.load_wait_seconds),
            slot_wait_seconds: less(self.slot_wait_seconds, earlier.slot_wait_seconds),
            copy_wait_seconds: less(self.copy_wait_seconds, earlier.copy_wait_seconds),
            trainer_wait_seconds: less(self.trainer_wait_seconds, earlier.trainer_wait_seconds),
            upload_seconds: less(self.upload_seconds, earlier.upload_seconds),
            uploads: self.uploads.since(&earlier.uploads),
            slot_waits: self.slot_waits.since(&earlier.slot_waits),
        }
    }
}
