use serde::Serialize;

use crate::sync::Ordering;

use super::lane::LaneCounters;

/// The figures of an upload stage, over all its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct UploadStats {
    /// Batches whose copies were started.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// How often a device slot was given memory: once for each slot, and when batches grew.
    pub grown: u64,
    /// Time that upload threads waited for a host batch while no copy was under way, in seconds: the loader was late.
    pub load_wait_seconds: f64,
    /// Time that they waited for a device slot, in seconds: the trainer was late.
    pub slot_wait_seconds: f64,
    /// Time that they waited for copies to land, in seconds.
    pub copy_wait_seconds: f64,
    /// Time that the trainer waited in `next`, in seconds.
    pub trainer_wait_seconds: f64,
}

impl UploadStats {
    pub(super) fn read<'a>(lanes: impl Iterator<Item = &'a LaneCounters>, trainer_wait_seconds: f64) -> Self {
        let mut all = Self { trainer_wait_seconds, ..Self::default() };
        let load = |counter: &crate::sync::AtomicU64| counter.load(Ordering::Relaxed);
        for lane in lanes {
            all.batches += load(&lane.batches);
            all.samples += load(&lane.samples);
            all.bytes += load(&lane.bytes);
            all.grown += load(&lane.grown);
            all.load_wait_seconds += load(&lane.load_wait_ns) as f64 / 1e9;
            all.slot_wait_seconds += load(&lane.slot_wait_ns) as f64 / 1e9;
            all.copy_wait_seconds += load(&lane.copy_wait_ns) as f64 / 1e9;
        }
        all
    }

    /// What happened since `earlier` figures of the same stage.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            batches: self.batches - earlier.batches,
            samples: self.samples - earlier.samples,
            bytes: self.bytes - earlier.bytes,
            grown: self.grown - earlier.grown,
            load_wait_seconds: self.load_wait_seconds - earlier.load_wait_seconds,
            slot_wait_seconds: self.slot_wait_seconds - earlier.slot_wait_seconds,
            copy_wait_seconds: self.copy_wait_seconds - earlier.copy_wait_seconds,
            trainer_wait_seconds: self.trainer_wait_seconds - earlier.trainer_wait_seconds,
        }
    }
}
