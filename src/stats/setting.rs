use crate::ring::RingStats;

use super::numbers::less;
use super::parts::Planning;
use super::tuning::Tuning;

/// The history of the number of workers, by the trainer's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lived {
    /// Threads times seconds, up to the last change of their number.
    thread_seconds: f64,
    /// The trainer's time at that change.
    changed: f64,
}

impl Lived {
    /// Until `seconds`, there were `threads` workers.
    pub(crate) fn change(&mut self, threads: usize, seconds: f64) {
        *self = Self { thread_seconds: self.until(threads, seconds), changed: seconds.max(self.changed) };
    }

    pub(super) fn until(self, threads: usize, seconds: f64) -> f64 {
        self.thread_seconds + threads as f64 * less(seconds, self.changed)
    }
}

/// Information from an iterator in addition to its counters.
#[derive(Debug)]
pub(crate) struct Setting {
    /// 0 for the shield.
    pub(crate) workers: usize,
    /// The history of the number of workers.
    pub(crate) lived: Lived,
    /// Number of workers without the shield.
    pub(crate) unshielded: usize,
    pub(crate) prefetch: usize,
    pub(crate) planning: Planning,
    pub(crate) cores: usize,
    pub(crate) core_quota: Option<f64>,
    /// Number of cores whose time the workers may use together, if it is limited.
    pub(crate) most_cores: Option<f64>,
    pub(crate) tuning: Option<Tuning>,
    pub(crate) ring: RingStats,
    pub(crate) memory_bytes: u64,
    /// For the worker threads: time on a core, and time that they waited for one.
    pub(crate) scheduled: Option<[f64; 2]>,
    /// For the planning thread: time that it waited for a core.
    pub(crate) planning_queued: Option<f64>,
}
