pub use crate::stats::UploadStats;
use crate::sync::Ordering;

use super::lane::LaneCounters;

/// The figures of all lanes.
pub(super) fn read<'a>(lanes: impl Iterator<Item = &'a LaneCounters>, trainer_wait_seconds: f64) -> UploadStats {
    let mut all = UploadStats { trainer_wait_seconds, ..UploadStats::default() };
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
