use serde::Serialize;

use crate::counters::{BUCKETS, Histogram, bounds_of};

/// Distribution of a duration: the exact number of times, and percentiles that are accurate to an eighth.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// Median, in seconds: half of the times were not longer.
    pub p50_seconds: f64,
    /// 90th percentile, in seconds: nine of ten times were not longer.
    pub p90_seconds: f64,
    /// 99th percentile, in seconds: 99 of 100 times were not longer.
    pub p99_seconds: f64,
    /// The buckets that are not empty, with their numbers of times.
    #[serde(skip)]
    pub(super) buckets: Vec<(usize, u64)>,
}

impl Times {
    pub(super) fn read(histogram: &Histogram) -> Self {
        Self::read_all([histogram])
    }

    /// All times of several histograms together.
    pub(crate) fn read_all<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let mut counts = [0; BUCKETS];
        for histogram in histograms {
            counts.iter_mut().zip(histogram.read()).for_each(|(sum, count)| *sum += count);
        }
        Self::of(counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect())
    }

    fn of(buckets: Vec<(usize, u64)>) -> Self {
        let mut times = Self { count: buckets.iter().map(|(_, count)| count).sum(), buckets, ..Self::default() };
        [times.p50_seconds, times.p90_seconds, times.p99_seconds] = [0.5, 0.9, 0.99].map(|share| times.quantile(share));
        times
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut before = [0; BUCKETS];
        for (bucket, count) in &earlier.buckets {
            before[*bucket] = *count;
        }
        let left = self.buckets.iter().map(|(bucket, count)| (*bucket, count.saturating_sub(before[*bucket])));
        Self::of(left.filter(|(_, count)| *count > 0).collect())
    }

    /// The quantile for `share` (0 to 1), in seconds: this share of the times was not longer. It is the middle of its
    /// bucket.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        let bucket = self.buckets.iter().find(|(_, count)| {
            passed += count;
            passed >= rank
        });
        bucket.map_or(0.0, |(bucket, _)| {
            let (from, to) = bounds_of(*bucket);
            // The first bucket is for things that took no time at all.
            if *bucket == 0 { 0.0 } else { from.midpoint(to) / 1e9 }
        })
    }

    /// The 50th, 90th and 99th percentile, in seconds.
    pub(crate) fn quantiles(&self) -> [f64; 3] {
        [self.p50_seconds, self.p90_seconds, self.p99_seconds]
    }

    /// Upper bound in seconds and number of times, for each bucket that is not empty: the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().map(|(bucket, count)| (bounds_of(*bucket).1 / 1e9, *count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn quantiles_are_known_to_an_eighth_and_differences_leave_what_came_later() {
        let histogram = Histogram::new();
        (1..=1000).for_each(|us| histogram.record(Duration::from_micros(us), 1));
        let earlier = Times::read(&histogram);
        for (found, exact) in
            [(earlier.p50_seconds, 500e-6), (earlier.p90_seconds, 900e-6), (earlier.p99_seconds, 990e-6)]
        {
            assert!((found / exact - 1.0).abs() <= 0.125, "{found} {exact}");
        }
        histogram.record(Duration::from_millis(8), 3);
        let since = Times::read(&histogram).since(&earlier);
        assert_eq!(since.count, 3);
        assert!((since.p50_seconds / 8e-3 - 1.0).abs() <= 0.125);
        assert_eq!(since.buckets().map(|(_, count)| count).collect::<Vec<_>>(), [3]);
        assert_eq!(Times::default().quantile(0.5), 0.0);
    }
}
