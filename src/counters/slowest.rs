use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::CounterMutex;

use super::adding::nanoseconds;

/// Number of samples that are kept.
const KEPT: usize = 10;

/// One sample, and the longest time that each stage took for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slow {
    pub(crate) sample: u64,
    pub(crate) read_ns: u64,
    pub(crate) decode_ns: u64,
    pub(crate) resize_ns: u64,
    pub(crate) transform_ns: u64,
}

impl Slow {
    fn total_ns(&self) -> u64 {
        let all = [self.read_ns, self.decode_ns, self.resize_ns, self.transform_ns];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

/// The samples that took longest, each once.
#[derive(Debug)]
pub(crate) struct Slowest {
    /// A sample must take longer than this to be kept. It is read without the lock.
    least_ns: AtomicU64,
    kept: CounterMutex<([Slow; KEPT], usize)>,
}

impl Slowest {
    pub(crate) fn new() -> Self {
        Self { least_ns: AtomicU64::new(0), kept: CounterMutex::new(([Slow::default(); KEPT], 0)) }
    }

    pub(crate) fn offer(&self, sample: u64, [read, decode, resize, transform]: [Duration; 4]) {
        let slow = Slow {
            sample,
            read_ns: nanoseconds(read),
            decode_ns: nanoseconds(decode),
            resize_ns: nanoseconds(resize),
            transform_ns: nanoseconds(transform),
        };
        if slow.total_ns() <= self.least_ns.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.kept.lock();
        let (all, count) = &mut *kept;
        let known = all[..*count].iter().position(|known| known.sample == sample);
        let place = match known {
            Some(place) if all[place].total_ns() >= slow.total_ns() => return,
            Some(place) => place,
            None if *count < KEPT => {
                *count += 1;
                *count - 1
            }
            None => KEPT - 1,
        };
        all[place] = slow;
        all[..*count].sort_unstable_by_key(|slow| std::cmp::Reverse(slow.total_ns()));
        if *count == KEPT {
            self.least_ns.store(all[KEPT - 1].total_ns(), Ordering::Relaxed);
        }
    }

    /// The slowest first.
    pub(crate) fn read(&self) -> Vec<Slow> {
        let kept = self.kept.lock();
        kept.0[..kept.1].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_samples_are_kept_each_once_in_order() {
        let slowest = Slowest::new();
        for round in 1..=3 {
            for sample in 0..100 {
                let time = Duration::from_nanos(round * (sample * 37 % 100));
                slowest.offer(sample, [Duration::ZERO, time, Duration::ZERO, Duration::from_nanos(1)]);
            }
        }
        let kept: Vec<u64> = slowest.read().iter().map(Slow::total_ns).collect();
        let expected: Vec<u64> = (90..100).rev().map(|rank| 3 * rank + 1).collect();
        assert_eq!(kept, expected);
    }
}
