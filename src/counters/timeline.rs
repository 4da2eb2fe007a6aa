use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::sync::CounterMutex;

use super::Counters;

/// Most moments that are kept; then every second one is dropped, and half as many a second are kept from there on.
const MOMENTS: usize = 256;
/// From one moment to the next, at first.
const FIRST_NS: u64 = 10_000_000;

/// What had been counted by a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the first batch.
    pub(crate) ns: u64,
    pub(crate) samples: u64,
    pub(crate) wait_ns: u64,
    pub(crate) queue_ns: u64,
    pub(crate) ready_batch_ns: u64,
}

/// A run over time, in a fixed number of moments.
#[derive(Debug)]
pub(crate) struct Timeline {
    begin: Instant,
    /// When the next moment is due, since the beginning: looked at without the lock.
    due_ns: AtomicU64,
    kept: CounterMutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// With room for all that there may be.
    moments: Vec<Moment>,
    every_ns: u64,
}

impl Timeline {
    pub(super) fn new() -> Self {
        let kept = Kept { moments: Vec::with_capacity(MOMENTS), every_ns: FIRST_NS };
        Self { begin: Instant::now(), due_ns: AtomicU64::new(0), kept: CounterMutex::new(kept) }
    }

    fn keep(&self, moment: Moment) {
        let mut kept = self.kept.lock();
        if kept.moments.len() == MOMENTS {
            (0..MOMENTS / 2).for_each(|nth| kept.moments[nth] = kept.moments[2 * nth]);
            kept.moments.truncate(MOMENTS / 2);
            kept.every_ns *= 2;
        }
        kept.moments.push(moment);
        self.due_ns.store(moment.ns + kept.every_ns, Ordering::Relaxed);
    }

    /// The moments so far, the earliest first.
    pub(crate) fn read(&self) -> Vec<Moment> {
        self.kept.lock().moments.clone()
    }
}

impl Counters {
    /// A batch was given to the trainer at `now`: keeps what was counted if it is time to.
    pub(crate) fn note_moment(&self, now: Instant) {
        let ns = super::nanoseconds(now.saturating_duration_since(self.timeline.begin));
        if ns < self.timeline.due_ns.load(Ordering::Relaxed) {
            return;
        }
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.timeline.keep(Moment {
            ns,
            samples: load(&self.samples),
            wait_ns: load(&self.trainer.wait_ns),
            queue_ns: load(&self.queue.time_ns),
            ready_batch_ns: load(&self.queue.ready_batch_ns),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_moments_of_all_of_it() {
        let timeline = Timeline::new();
        let mut taken = 0;
        for ms in 0..100_000u64 {
            let ns = ms * 1_000_000;
            if ns >= timeline.due_ns.load(Ordering::Relaxed) {
                timeline.keep(Moment { ns, samples: ms, ..Moment::default() });
                taken += 1;
            }
        }
        let kept = timeline.read();
        assert!((MOMENTS / 2..=MOMENTS).contains(&kept.len()) && taken < 2500, "{} of {taken}", kept.len());
        assert!(kept[0].ns == 0 && kept.windows(2).all(|pair| pair[0].ns < pair[1].ns));
        assert!(kept.last().unwrap().samples > 99_000);
    }
}
