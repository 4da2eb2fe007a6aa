use crate::random::mix;

use super::{Permutation, Subset, epoch_key, scaled};

/// Make the keys of the batches' order, and of the samples in a bucket, different from other random numbers.
const BATCHES: u64 = 0x6275_636b_6261_7463;
const BUCKET: u64 = 0x6275_636b_6574_2121;

/// An epoch of batches, each with samples of one bucket.
///
/// Each bucket's samples are shuffled and cut into batches; the batches of all buckets are shuffled together. Both
/// shuffles are permutations that are computed by index, so that any batch is available at once.
#[derive(Clone, Debug)]
pub(crate) struct Bucketed {
    buckets: Box<[Bucket]>,
    /// Number of each bucket's first batch, and at the end the number of all batches.
    starts: Box<[u64]>,
}

/// Samples that are batched together.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) samples: Subset,
    /// Samples per batch.
    pub(crate) rows: u64,
    /// Number of batches.
    pub(crate) batches: u64,
}

/// One of the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketBatch {
    pub(crate) bucket: usize,
    /// Its first sample, as a position in the bucket's order.
    pub(crate) first: u64,
    /// Number of samples.
    pub(crate) rows: u64,
}

impl Bucketed {
    pub(crate) fn new(buckets: Vec<Bucket>) -> Self {
        let buckets: Box<[Bucket]> = buckets.into_iter().filter(|bucket| bucket.batches > 0).collect();
        let starts = buckets.iter().scan(0u64, |next, bucket| {
            *next = next.saturating_add(bucket.batches);
            Some(*next)
        });
        Self { starts: std::iter::once(0).chain(starts).collect(), buckets }
    }

    /// Batches per epoch.
    pub(crate) fn batches(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Samples per epoch.
    pub(crate) fn samples(&self) -> u64 {
        let samples = |bucket: &Bucket| bucket.samples.len().min(bucket.batches.saturating_mul(bucket.rows));
        self.buckets.iter().map(samples).fold(0, u64::saturating_add)
    }

    /// Maximum number of samples in a batch.
    pub(crate) fn most_rows(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.rows).max().unwrap_or(1).max(1)
    }

    /// Distinguishes these buckets from others.
    pub(crate) fn hash(&self) -> u64 {
        let hash = |hash, bucket: &Bucket| mix(mix(hash ^ bucket.samples.hash()) ^ bucket.rows);
        self.buckets.iter().fold(self.batches(), hash)
    }

    /// The order of an epoch; without a seed, bucket by bucket.
    pub(crate) fn epoch(&self, seed: Option<u64>, epoch: u64) -> EpochBuckets {
        let shuffle = seed.map(|seed| {
            let key = epoch_key(seed, epoch);
            let of_bucket = |(nth, bucket): (usize, &Bucket)| {
                Permutation::new(bucket.samples.len(), key.with(BUCKET).with(nth as u64))
            };
            let batches = Permutation::new(self.batches(), key.with(BATCHES));
            (batches, self.buckets.iter().enumerate().map(of_bucket).collect())
        });
        EpochBuckets { shuffle }
    }

    /// Batch `number` of the epoch.
    pub(crate) fn batch(&self, order: &EpochBuckets, number: u64) -> BucketBatch {
        let at = order.shuffle.as_ref().map_or(number, |(batches, _)| batches.at(number));
        let bucket = self.starts.partition_point(|start| *start <= at) - 1;
        let Bucket { samples, rows, .. } = &self.buckets[bucket];
        let first = (at - self.starts[bucket]) * rows;
        BucketBatch { bucket, first, rows: (samples.len() - first).min(*rows) }
    }

    /// Number of samples in a full batch of this bucket.
    pub(crate) fn rows(&self, bucket: usize) -> u64 {
        self.buckets[bucket].rows
    }

    /// Sample `nth` of a bucket; after the last one, the first follows again.
    pub(crate) fn sample(&self, order: &EpochBuckets, bucket: usize, nth: u64) -> u64 {
        let samples = &self.buckets[bucket].samples;
        let nth = nth % samples.len();
        samples.at(order.shuffle.as_ref().map_or(nth, |(_, buckets)| buckets[bucket].at(nth)))
    }

    /// A sample of the bucket of a position, chosen by random bits. The orders of epochs are those of this seed.
    pub(crate) fn like(&self, seed: Option<u64>, epoch: u64, position: u64, bits: u64) -> Option<u64> {
        let number = (position / self.most_rows()).checked_rem(self.batches())?;
        let BucketBatch { bucket, .. } = self.batch(&self.epoch(seed, epoch), number);
        let samples = &self.buckets[bucket].samples;
        Some(samples.at(scaled(bits, samples.len())))
    }

    /// A sample of any bucket whose batches may have so many rows, chosen by random bits.
    pub(crate) fn any(&self, rows: u64, bits: u64) -> Option<u64> {
        let buckets = || self.buckets.iter().filter(|bucket| bucket.rows >= rows);
        let mut index = scaled(bits, buckets().map(|bucket| bucket.samples.len()).sum());
        for Bucket { samples, .. } in buckets() {
            match index.checked_sub(samples.len()) {
                None => return Some(samples.at(index)),
                Some(rest) => index = rest,
            }
        }
        None
    }

    /// All samples of all buckets.
    pub(crate) fn all(&self) -> Subset {
        Subset::listed(self.buckets.iter().flat_map(|bucket| bucket.samples.iter()))
    }
}

/// The shuffles of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct EpochBuckets {
    shuffle: Option<(Permutation, Box<[Permutation]>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(sizes: &[(u64, u64)]) -> Bucketed {
        let mut next = 0;
        let bucket = |(len, rows): &(u64, u64)| {
            next += len;
            Bucket { samples: Subset::range(next - len..next), rows: *rows, batches: len.div_ceil(*rows) }
        };
        Bucketed::new(sizes.iter().map(bucket).collect())
    }

    #[test]
    fn every_sample_stands_once_in_a_batch_of_its_own_bucket() {
        let buckets = buckets(&[(1000, 64), (0, 8), (7, 16), (300, 300), (33, 4)]);
        assert_eq!((buckets.batches(), buckets.samples(), buckets.most_rows()), (16 + 1 + 1 + 9, 1340, 300));
        for seed in [None, Some(1), Some(2)] {
            let mut orders = Vec::new();
            for epoch in 0..2 {
                let order = buckets.epoch(seed, epoch);
                let mut all = Vec::new();
                let mut kinds = Vec::new();
                for number in 0..buckets.batches() {
                    let BucketBatch { bucket, first, rows } = buckets.batch(&order, number);
                    let samples: Vec<u64> =
                        (first..first + rows).map(|nth| buckets.sample(&order, bucket, nth)).collect();
                    assert!(samples.iter().all(|id| buckets.buckets[bucket].samples.iter().any(|own| own == *id)));
                    all.extend(samples);
                    kinds.push(bucket);
                }
                orders.push(all.clone());
                all.sort_unstable();
                assert_eq!(all, (0..1340).collect::<Vec<_>>());
                assert_eq!(seed.is_none(), kinds.is_sorted(), "batches of all buckets are mixed");
            }
            assert_eq!(seed.is_none(), orders[0] == orders[1]);
        }
    }

    #[test]
    fn other_samples_or_sizes_have_other_hashes() {
        let hashes = [[(10, 2)], [(10, 5)], [(11, 2)]].map(|sizes| buckets(&sizes).hash());
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
        // There are as many batches.
        let [one, other] = [[(10, 6)], [(10, 7)]].map(|sizes| buckets(&sizes));
        assert!(one.batches() == other.batches() && one.hash() != other.hash());
    }

    #[test]
    fn buckets_of_one_size_are_shuffled_each_for_itself() {
        let two = buckets(&[(50, 50), (50, 50)]);
        let epoch = two.epoch(Some(1), 0);
        let [one, other] = [0, 1].map(|bucket| (0..50).map(|n| two.sample(&epoch, bucket, n) % 50).collect::<Vec<_>>());
        assert_ne!(one, other);
    }
}
