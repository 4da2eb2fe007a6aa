//! How counters are added to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether nothing is counted, in builds that measure the cost of counting (`benches/statistics.rs`).
pub(super) const UNCOUNTED: bool = cfg!(ringfeed_uncounted);

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    if !UNCOUNTED {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

/// Adds a time to a counter of nanoseconds.
pub(crate) fn add(counter: &AtomicU64, time: Duration) {
    count(counter, nanoseconds(time));
}

/// Adds to a counter that no other thread writes to, at a fraction of the cost of an atomic addition.
pub(crate) fn add_alone(counter: &AtomicU64, more: u64) {
    if !UNCOUNTED {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
