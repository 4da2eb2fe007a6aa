use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::CounterMutex;

use super::adding::nanoseconds;
use super::clock::Tick;

/// Maximum number of moments that are kept. If there are more, every second one is dropped, and from then on they are
/// recorded half as often.
const MOMENTS: usize = 256;
/// Time between two moments, at first.
const FIRST_NS: u64 = 10_000_000;
/// Least number of batches in a stretch of a run: more than a burst that a deeper ring could absorb.
const STRETCH_BATCHES: u64 = 64;

/// The sums at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Time since the first batch.
    pub(crate) ns: u64,
    pub(crate) batches: u64,
    pub(crate) samples: u64,
    /// Busy time of all workers.
    pub(crate) busy_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) queue_ns: u64,
    pub(crate) ready_batch_ns: u64,
}

/// A run over time, in a fixed number of moments.
#[derive(Debug)]
pub(crate) struct Timeline {
    begin: Tick,
    /// When the next moment is due, from the beginning. It is read without the lock.
    due_ns: AtomicU64,
    kept: CounterMutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Its capacity is the maximum number of moments.
    moments: Vec<Moment>,
    every_ns: u64,
    /// Where the current stretch began.
    begun: Moment,
    stretches: Stretches,
}

/// Time that the trainer waited, by stretches of the run. This distinguishes a run that is slow for half of its time
/// from one that is half as slow all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stretches {
    pub(crate) wait_seconds: f64,
    /// The same, multiplied by the mean number of workers that worked in that stretch.
    pub(crate) wait_worker_seconds: f64,
}

impl Stretches {
    fn add(&mut self, from: &Moment, to: &Moment) {
        let [ns, waited, busy] =
            [to.ns - from.ns, to.wait_ns.saturating_sub(from.wait_ns), to.busy_ns.saturating_sub(from.busy_ns)];
        let waited = waited as f64 / 1e9;
        self.wait_seconds += waited;
        self.wait_worker_seconds += waited * busy as f64 / ns.max(1) as f64;
    }
}

impl Timeline {
    pub(super) fn new() -> Self {
        let moments = Vec::with_capacity(MOMENTS);
        let (begun, stretches) = (Moment::default(), Stretches::default());
        let kept = Kept { moments, every_ns: FIRST_NS, begun, stretches };
        Self { begin: Tick::now(), due_ns: AtomicU64::new(0), kept: CounterMutex::new(kept) }
    }

    /// The time of `now` from the beginning, if a moment is due.
    pub(super) fn due(&self, now: Tick) -> Option<u64> {
        let ns = nanoseconds(now.since(self.begin));
        (ns >= self.due_ns.load(Ordering::Relaxed)).then_some(ns)
    }

    pub(super) fn keep(&self, moment: Moment) {
        let mut kept = self.kept.lock();
        if kept.moments.len() == MOMENTS {
            (0..MOMENTS / 2).for_each(|nth| kept.moments[nth] = kept.moments[2 * nth]);
            kept.moments.truncate(MOMENTS / 2);
            kept.every_ns *= 2;
        }
        kept.moments.push(moment);
        if moment.batches - kept.begun.batches >= STRETCH_BATCHES {
            let begun = std::mem::replace(&mut kept.begun, moment);
            kept.stretches.add(&begun, &moment);
        }
        self.due_ns.store(moment.ns + kept.every_ns, Ordering::Relaxed);
    }

    /// The moments so far, the earliest first.
    pub(crate) fn read(&self) -> Vec<Moment> {
        self.kept.lock().moments.clone()
    }

    /// All complete stretches.
    pub(crate) fn stretches(&self) -> Stretches {
        self.kept.lock().stretches
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

    #[test]
    fn what_was_waited_is_weighed_by_who_worked_in_its_own_stretch() {
        let timeline = Timeline::new();
        let second = |nth: u64, wait: u64, busy: u64| Moment {
            ns: nth * 1_000_000_000,
            batches: nth * STRETCH_BATCHES,
            wait_ns: wait * 500_000_000,
            busy_ns: busy * 2_000_000_000,
            ..Moment::default()
        };
        // Four seconds without waiting and work, then four in which two worked all the time, and half of it was waited.
        (1..=4).for_each(|nth| timeline.keep(second(nth, 0, 0)));
        (5..=8).for_each(|nth| timeline.keep(second(nth, nth - 4, nth - 4)));
        assert_eq!(timeline.stretches(), Stretches { wait_seconds: 2.0, wait_worker_seconds: 4.0 });
    }
}
