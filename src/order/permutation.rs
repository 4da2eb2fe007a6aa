use crate::random::RandomKey;

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
    rounds: [Round; ROUNDS],
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
            rounds: std::array::from_fn(|round| Round::new(key.with(round as u64))),
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
            left ^= pair[0].of(right) & self.left_mask;
            right ^= pair[1].of(left) & self.right_mask;
        }
        left << self.right_bits | right
    }
}

/// One round's function: a single multiplication, by a number that the key draws. Its upper half depends on every bit
/// below, and a stronger function would be half of what planning a sample costs. (With one number for all rounds, tests
/// see a bias in small domains.)
#[derive(Clone, Copy, Debug)]
struct Round {
    flip: u64,
    factor: u64,
}

impl Round {
    fn new(key: RandomKey) -> Self {
        Self { flip: key.bits(0), factor: key.bits(1) | 1 }
    }

    #[inline(always)]
    fn of(self, half: u64) -> u64 {
        (half ^ self.flip).wrapping_mul(self.factor) >> 32
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
    fn neighbours_are_as_far_apart_as_by_chance() {
        for len in [64u64, 1000, 4096, 50_000] {
            let mut counts = [0u64; 64];
            let mut total = 0.0;
            for seed in 0..200_000 / len + 4 {
                let permutation = Permutation::new(len, RandomKey::new(seed));
                for step in [1, 2, 16] {
                    for position in 0..len - step {
                        // How far the second is behind the first, around the end: never 0, anything else evenly.
                        let apart = permutation.at(position + step).wrapping_sub(permutation.at(position));
                        let apart = if apart > len { apart.wrapping_add(len) } else { apart };
                        counts[((apart - 1) * 64 / (len - 1)) as usize] += 1;
                        total += 1.0;
                    }
                }
            }
            let expected = |bin: u64| {
                let from = (bin * (len - 1)).div_ceil(64);
                let end = ((bin + 1) * (len - 1)).div_ceil(64);
                total * (end - from) as f64 / (len - 1) as f64
            };
            let chi_squared: f64 = (0u64..64)
                .zip(counts)
                .filter(|(bin, _)| expected(*bin) > 0.0)
                .map(|(bin, count)| (count as f64 - expected(bin)).powi(2) / expected(bin))
                .sum();
            let limit = 63.0 + 6.0 * (2.0f64 * 63.0).sqrt();
            assert!(chi_squared < limit, "length {len}: chi squared {chi_squared} above {limit}");
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
