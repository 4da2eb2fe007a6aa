use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Histogram, add};

/// What the trainer did: waited for batches, or worked on them.
#[derive(Debug)]
pub(crate) struct TrainerCounter {
    pub(crate) wait_ns: AtomicU64,
    /// Time between two batches that was not waited.
    pub(crate) busy_ns: AtomicU64,
    /// Time in `next` that was not waited.
    pub(crate) deliver_ns: AtomicU64,
    pub(crate) batches: AtomicU64,
    /// Batches that were there when they were asked for.
    pub(crate) ready: AtomicU64,
    pub(crate) waits: Histogram,
    pub(crate) steps: Histogram,
}

impl TrainerCounter {
    pub(crate) fn new() -> Self {
        Self {
            wait_ns: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            deliver_ns: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            waits: Histogram::new(),
            steps: Histogram::new(),
        }
    }

    /// All of its time, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        let parts = [&self.wait_ns, &self.busy_ns, &self.deliver_ns].map(|part| part.load(Ordering::Relaxed));
        parts.iter().sum::<u64>() as f64 / 1e9
    }

    fn waited(&self) -> Duration {
        Duration::from_nanos(self.wait_ns.load(Ordering::Relaxed))
    }
}

/// Tells the trainer's own time from the time that it waits: kept by the iterator, and asked at both ends of `next`.
#[derive(Debug, Default)]
pub(crate) struct TrainerClock {
    /// When the last answer was given, and what had been waited by then.
    left: Option<(Instant, Duration)>,
    entered: Option<(Instant, Duration)>,
    /// What had been waited when the last batch was given.
    waited_before: Duration,
}

impl TrainerClock {
    /// The trainer asks for a batch: when that is.
    pub(crate) fn enter(&mut self, counter: &TrainerCounter) -> Instant {
        let (now, waited) = (Instant::now(), counter.waited());
        if let Some((left, waited_then)) = self.left {
            // It may have waited outside of `next`, too.
            let step = now.saturating_duration_since(left).saturating_sub(waited.saturating_sub(waited_then));
            add(&counter.busy_ns, step);
            counter.steps.record(step, 1);
        }
        self.entered = Some((now, waited));
        now
    }

    /// The trainer gets an answer, a batch or something else: when that is.
    pub(crate) fn leave(&mut self, counter: &TrainerCounter, is_batch: bool) -> Instant {
        let (now, waited) = (Instant::now(), counter.waited());
        let (entered, waited_then) = self.entered.take().unwrap_or((now, waited));
        let inside = now.saturating_duration_since(entered).saturating_sub(waited.saturating_sub(waited_then));
        add(&counter.deliver_ns, inside);
        self.left = Some((now, waited));
        if is_batch {
            let wait = waited.saturating_sub(std::mem::replace(&mut self.waited_before, waited));
            counter.batches.fetch_add(1, Ordering::Relaxed);
            counter.ready.fetch_add(u64::from(wait.is_zero()), Ordering::Relaxed);
            counter.waits.record(wait, 1);
        }
        now
    }
}
