use crate::random::{RandomKey, mix};

/// A shuffle of `0..len` computed by index: no index array, the same memory for a billion samples as for ten.
///
/// A Feistel network over the smallest power of two that holds `len`, walked until it leaves the surplus (Black,
/// Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002). Fewer than two walks on average.
///
/// ```
/// use ringfeed::{Permutation, RandomKey};
///
/// let shuffle = Permutation::new(10, RandomKey::new(42));
/// let mut samples: Vec<u64> = (0..10).map(|position| shuffle.at(position)).collect();
/// samples.sort();
/// assert_eq!(samples, (0..10).collect::<Vec<_>>());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    len: u64,
    /// Bits of the right half; the left half has as many or one fewer.
    right_bits: u32,
    right_mask: u64,
    left_mask: u64,
    rounds: [u64; ROUNDS],
}

#[cfg(test)]
thread_local! {
    /// How often this thread asked a permutation for a sample.
    pub(crate) static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// With fewer than six, small domains show a bias in a chi-squared test; eight leave a margin.
const ROUNDS: usize = 8;

impl Permutation {
    /// The shuffle of `0..len` under `key`.
    pub fn new(len: u64, key: RandomKey) -> Self {
        // Bits of the largest index, not of the length: 2^k samples need k bits.
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let (left_bits, right_bits) = (bits / 2, bits.div_ceil(2));
        Self {
            len,
            right_bits,
            right_mask: low_bits(right_bits),
            left_mask: low_bits(left_bits),
            rounds: std::array::from_fn(|round| key.bits(round as u64)),
        }
    }

    /// The sample at `position`.
    ///
    /// # Panics
    ///
    /// If `position` is not below the length.
    pub fn at(&self, position: u64) -> u64 {
        #[cfg(test)]
        CALLS.with(|calls| calls.set(calls.get() + 1));
        assert!(position < self.len, "position {position} of {}", self.len);
        let mut index = position;
        loop {
            index = self.network(index);
            if index < self.len {
                return index;
            }
        }
    }

    fn network(&self, index: u64) -> u64 {
        let mut right = index & self.right_mask;
        let mut left = index >> self.right_bits & self.left_mask;
        for pair in self.rounds.chunks_exact(2) {
            left ^= mix(right ^ pair[0]) & self.left_mask;
            right ^= mix(left ^ pair[1]) & self.right_mask;
        }
        left << self.right_bits | right
    }
}

fn low_bits(bits: u32) -> u64 {
    (1u64 << bits).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_bijective(len: u64, key: RandomKey) {
        let permutation = Permutation::new(len, key);
        let mut seen = vec![false; len as usize];
        for position in 0..len {
            let sample = permutation.at(position) as usize;
            assert!(!seen[sample], "sample {sample} twice of {len}");
            seen[sample] = true;
        }
    }

    #[test]
    fn it_is_a_bijection_at_and_around_every_power_of_two() {
        for bits in 0..=16 {
            for len in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                (0..3).for_each(|seed| assert_bijective(len, RandomKey::new(seed)));
            }
        }
    }

    #[test]
    fn it_answers_for_lengths_that_no_array_could_hold() {
        for len in [u64::MAX, 1 << 63, (1 << 63) + 1, 1_000_000_000_000] {
            let permutation = Permutation::new(len, RandomKey::new(1));
            assert!((0..1000).all(|step| permutation.at(len - 1 - step) < len));
        }
    }

    #[test]
    fn every_sample_comes_to_every_position_equally_often() {
        for len in [3u64, 8, 10] {
            let trials = 20_000u64;
            let mut counts = vec![0u64; (len * len) as usize];
            for seed in 0..trials {
                let permutation = Permutation::new(len, RandomKey::new(seed));
                (0..len).for_each(|position| counts[(position * len + permutation.at(position)) as usize] += 1);
            }
            let expected = trials as f64 / len as f64;
            let chi_squared: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
            let freedom = ((len - 1) * (len - 1)) as f64;
            let limit = freedom + 6.0 * (2.0 * freedom).sqrt();
            assert!(chi_squared < limit, "length {len}: chi squared {chi_squared} above {limit}");
        }
    }
}
