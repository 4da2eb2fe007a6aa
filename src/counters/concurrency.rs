use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::adding::{UNCOUNTED, nanoseconds};

/// How long reading took, by the number of jobs that read at the same time. This distinguishes storage with high
/// latency from storage with limited throughput.
#[derive(Debug, Default)]
pub(crate) struct Concurrency {
    reading: AtomicU64,
    /// For 1, 2, 3 to 4, 5 to 8 jobs and so on: time, samples, and the sum over samples of how many jobs read.
    pub(crate) levels: [[AtomicU64; 3]; LEVELS],
}

/// Up to 4096 jobs that read at the same time.
const LEVELS: usize = 13;

impl Concurrency {
    /// A job begins to read; returns how many jobs read now.
    pub(crate) fn enter(&self) -> u64 {
        if UNCOUNTED { 1 } else { self.reading.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// A job has read `samples` samples. `entered` is what `enter` returned.
    pub(crate) fn leave(&self, entered: u64, time: Duration, samples: usize) {
        if UNCOUNTED {
            return;
        }
        let left = self.reading.fetch_sub(1, Ordering::Relaxed);
        let jobs = entered.midpoint(left).max(1);
        let level = (u64::BITS - (jobs - 1).leading_zeros()) as usize;
        let samples = samples as u64;
        let sums = [nanoseconds(time), samples, samples * jobs];
        for (sum, add) in self.levels[level.min(LEVELS - 1)].iter().zip(sums) {
            sum.fetch_add(add, Ordering::Relaxed);
        }
    }
}
