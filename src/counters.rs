//! Where statistics are written, by whoever does the work; read by `stats`.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Ordering};

/// One stage's figures, summed over its threads.
#[derive(Debug)]
pub(crate) struct StageCounter {
    pub(crate) busy_ns: AtomicU64,
    pub(crate) wait_ns: AtomicU64,
    pub(crate) samples: AtomicU64,
}

impl StageCounter {
    fn new() -> Self {
        Self { busy_ns: AtomicU64::new(0), wait_ns: AtomicU64::new(0), samples: AtomicU64::new(0) }
    }

    pub(crate) fn busy(&self, time: Duration, samples: usize) {
        add(&self.busy_ns, time);
        self.samples.fetch_add(samples as u64, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self, since: Instant) {
        add(&self.wait_ns, since.elapsed());
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// All figures of one iterator.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) plan: StageCounter,
    pub(crate) read: StageCounter,
    pub(crate) decode: StageCounter,
    pub(crate) trainer_wait_ns: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) samples: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) replaced: AtomicU64,
    pub(crate) refilled: AtomicU64,
    pub(crate) left_behind: AtomicU64,
    pub(crate) moved_rows: AtomicU64,
    pub(crate) detached: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            plan: StageCounter::new(),
            read: StageCounter::new(),
            decode: StageCounter::new(),
            trainer_wait_ns: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            refilled: AtomicU64::new(0),
            left_behind: AtomicU64::new(0),
            moved_rows: AtomicU64::new(0),
            detached: AtomicU64::new(0),
        }
    }

    pub(crate) fn trainer_waited(&self, since: Instant) {
        add(&self.trainer_wait_ns, since.elapsed());
    }
}
