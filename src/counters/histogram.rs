use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::adding::{add_alone, count, nanoseconds};

/// Buckets per octave (doubling of time).
const PARTS: usize = 4;
/// Up to 2^41 ns, which is 37 minutes. Longer times count in the last bucket.
pub(crate) const BUCKETS: usize = 40 * PARTS;

/// Times by their logarithm, in a fixed number of buckets that any thread adds to.
#[derive(Debug)]
pub(crate) struct Histogram(Box<[AtomicU64]>);

impl Histogram {
    pub(crate) fn new() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds `times` times of length `time`.
    pub(crate) fn record(&self, time: Duration, times: u64) {
        count(&self.0[bucket_of(nanoseconds(time))], times);
    }

    /// Adds one time; no other thread may record meanwhile.
    pub(crate) fn record_alone(&self, time: Duration) {
        add_alone(&self.0[bucket_of(nanoseconds(time))], 1);
    }

    pub(crate) fn read(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|bucket| self.0[bucket].load(Ordering::Relaxed))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < PARTS as u64 {
        return ns as usize;
    }
    let octave = ns.ilog2() as usize;
    let part = (ns >> (octave - 2)) as usize & (PARTS - 1);
    ((octave - 1) * PARTS + part).min(BUCKETS - 1)
}

/// The lower and upper limit of a bucket, in nanoseconds.
pub(crate) fn bounds_of(bucket: usize) -> (f64, f64) {
    let from = |bucket: usize| match bucket.checked_sub(PARTS) {
        None => bucket as f64,
        Some(above) => (PARTS + bucket % PARTS) as f64 * f64::exp2((above / PARTS) as f64),
    };
    (from(bucket), from(bucket + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_the_bounds_of_its_bucket() {
        let powers = (0..41).flat_map(|power| [-1i64, 0, 1, 3].map(|off| (1i64 << power) + off));
        for ns in powers.filter(|ns| (0..1 << 41).contains(ns)) {
            let (from, to) = bounds_of(bucket_of(ns as u64));
            assert!((from..to).contains(&(ns as f64)), "{ns}: {from} to {to}");
            assert!(ns < 4 || to <= 1.25 * from, "{ns}: {from} to {to}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
