//! Arithmetic of times and amounts.

use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn seconds(nanoseconds: &AtomicU64) -> f64 {
    nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
}

/// A difference of times. The later one may have been read a moment before the earlier one.
pub(super) fn less(later: f64, earlier: f64) -> f64 {
    (later - earlier).max(0.0)
}

/// The part divided by the whole; 0 if the whole is 0.
pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
