use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::adding::{add_alone, nanoseconds};
use super::clock::{Tick, now};
use super::histogram::Histogram;
use crate::system::process_cpu;

/// The counters of the trainer: it waited for batches, or worked on them. Only the thread in the iterator's `next`
/// counts here.
#[derive(Debug)]
pub(crate) struct TrainerCounter {
    pub(crate) wait_ns: AtomicU64,
    /// Time between two batches, without waiting.
    pub(crate) busy_ns: AtomicU64,
    /// Time in `next`, without waiting.
    pub(crate) deliver_ns: AtomicU64,
    pub(crate) batches: AtomicU64,
    /// Batches that were ready when the trainer asked for them.
    pub(crate) ready: AtomicU64,
    pub(crate) waits: Histogram,
    pub(crate) steps: Histogram,
    /// Time in `next` for each batch, without waiting.
    pub(crate) deliveries: Histogram,
    /// Time waited for the first batch of each epoch, and the number of these batches.
    pub(crate) edge_wait_ns: AtomicU64,
    pub(crate) epochs: AtomicU64,
    /// Time that the process had been on a core when it first asked for a batch.
    pub(crate) process_cpu_ns: AtomicU64,
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
            deliveries: Histogram::new(),
            edge_wait_ns: AtomicU64::new(0),
            epochs: AtomicU64::new(0),
            process_cpu_ns: AtomicU64::new(0),
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

/// Separates the trainer's own time from the time that it waits. The iterator keeps it, and calls it at the beginning
/// and end of `next`.
#[derive(Debug, Default)]
pub(crate) struct TrainerClock {
    /// When the last answer was given, and how long the trainer had waited by then.
    left: Option<(Tick, Duration)>,
    entered: Option<(Tick, Duration)>,
    /// How long the trainer had waited when the last batch was given.
    waited_before: Duration,
    /// The step on that batch, once it is over. Time between the end of an epoch and the next batch counts as another
    /// step only if it is longer than that step, such as an evaluation.
    step: Option<Duration>,
}

impl TrainerClock {
    /// The trainer asks for a batch; returns the time.
    pub(crate) fn enter(&mut self, counter: &TrainerCounter) -> Tick {
        let (now, waited) = (now(), counter.waited());
        if let Some((left, waited_then)) = self.left {
            // It may have waited outside of `next`, too.
            let step = now.since(left).saturating_sub(waited.saturating_sub(waited_then));
            add_alone(&counter.busy_ns, nanoseconds(step));
            if self.step.is_none_or(|before| step > before) {
                counter.steps.record_alone(step);
                self.step = Some(step);
            }
        } else {
            let used = process_cpu().map_or(0, nanoseconds);
            counter.process_cpu_ns.store(used, Ordering::Relaxed);
        }
        self.entered = Some((now, waited));
        now
    }

    /// The trainer gets an answer, which may be a batch; returns the time.
    pub(crate) fn leave(&mut self, counter: &TrainerCounter, is_batch: bool) -> Tick {
        let (now, waited) = (now(), counter.waited());
        let (entered, waited_then) = self.entered.take().unwrap_or((now, waited));
        let inside = now.since(entered).saturating_sub(waited.saturating_sub(waited_then));
        add_alone(&counter.deliver_ns, nanoseconds(inside));
        self.left = Some((now, waited));
        if is_batch {
            let wait = waited.saturating_sub(std::mem::replace(&mut self.waited_before, waited));
            add_alone(&counter.batches, 1);
            add_alone(&counter.ready, wait.is_zero().into());
            counter.waits.record_alone(wait);
            self.step = None;
            counter.deliveries.record_alone(inside);
        }
        now
    }
}
