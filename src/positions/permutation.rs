use crate::processor::{Kernel, dispatch};
use crate::random::RandomKey;

/// A shuffle of `0..len` that is computed by index. A billion samples need no more memory than ten.
///
/// For up to 256 samples it is a table of 256 bytes, shuffled when it is made (Fisher and Yates; Durstenfeld:
/// "Algorithm 235: Random permutation", CACM 1964), so that all orders are equally likely. For more samples there is no
/// table, but a Feistel network over the smallest power of two that is at least `len`, applied until the result is
/// below `len` (Black, Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002): fewer than two times on average.
/// It reaches only some of the possible orders: for a power of two, for example, only even permutations.
///
/// ```
/// use ringfeed::order::{Permutation, RandomKey};
///
/// let shuffle = Permutation::new(10, RandomKey::new(42));
/// let mut samples: Vec<u64> = (0..10).map(|position| shuffle.at(position)).collect();
/// samples.sort();
/// assert_eq!(samples, (0..10).collect::<Vec<_>>());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    len: u64,
    way: Way,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Table([u8; TABLE]),
    Network(Network),
}

/// Longest shuffle that is a table. In such small domains a network has biases that tests detect, and over a power of
/// two it only makes even permutations. This number must not change, because states count positions in the resulting
/// order.
const TABLE: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Network {
    /// Bits of the right half; the left half has the same number or one less.
    right_bits: u32,
    right_mask: u64,
    left_mask: u64,
    rounds: [Round; ROUNDS],
}

#[cfg(test)]
thread_local! {
    /// How often this thread has asked a permutation for a sample.
    pub(crate) static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// With fewer than six rounds, domains of some hundred samples show a bias in a chi-squared test; eight leave a margin.
const ROUNDS: usize = 8;

impl Permutation {
    /// The shuffle of `0..len` under `key`.
    pub fn new(len: u64, key: RandomKey) -> Self {
        let way = if len <= TABLE as u64 { Way::Table(table(len, key)) } else { Way::Network(Network::new(len, key)) };
        Self { len, way }
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
        match &self.way {
            Way::Table(table) => table[position as usize].into(),
            Way::Network(network) => {
                let mut index = position;
                loop {
                    index = network.step(index);
                    if index < self.len {
                        return index;
                    }
                }
            }
        }
    }
}

impl Permutation {
    /// Replaces positions by their samples: the same as [`at`](Self::at) for each, at a third of the cost.
    pub(crate) fn replace(&self, positions: &mut [u64]) {
        let Way::Network(network) = &self.way else {
            return positions.iter_mut().for_each(|position| *position = self.at(*position));
        };
        #[cfg(test)]
        CALLS.with(|calls| calls.set(calls.get() + positions.len() as u64));
        dispatch(Walk { network, len: self.len, indices: positions });
    }
}

/// Number of indices that go through the network at the same time, and number of those that fill one or a few vectors.
const AT_ONCE: usize = 256;
const VECTOR: usize = 8;

fn table(len: u64, key: RandomKey) -> [u8; TABLE] {
    let mut table = std::array::from_fn(|index| index as u8);
    for last in (1..len).rev() {
        table.swap(last as usize, key.below(last, last + 1) as usize);
    }
    table
}

impl Network {
    fn new(len: u64, key: RandomKey) -> Self {
        // Bits of the largest index, not of the length: 2^k samples need k bits.
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let (left_bits, right_bits) = (bits / 2, bits.div_ceil(2));
        Self {
            right_bits,
            right_mask: low_bits(right_bits),
            left_mask: low_bits(left_bits),
            rounds: std::array::from_fn(|round| Round::new(key.with(round as u64))),
        }
    }

    /// Sends each index through the network until it is below `len`. Indices that are not done yet continue together,
    /// so that no branch depends on a single index: half of such branches would be predicted wrongly.
    #[inline(always)]
    fn walk(&self, indices: &mut [u64], len: u64) {
        // No closures, because they would be compiled without the vector instructions.
        for index in &mut *indices {
            *index = self.step(*index);
        }
        let (mut walking, mut places) = ([0; AT_ONCE], [0u16; AT_ONCE]);
        let mut left = 0;
        for (place, index) in (0..).zip(&*indices) {
            (walking[left], places[left]) = (*index, place);
            left += usize::from(*index >= len);
        }
        while left > 0 {
            // Whole vectors: what is after the last index does not matter.
            for some in walking.as_chunks_mut::<VECTOR>().0.iter_mut().take(left.div_ceil(VECTOR)) {
                for index in some {
                    *index = self.step(*index);
                }
            }
            let mut further = 0;
            for nth in 0..left {
                let (index, place) = (walking[nth], places[nth]);
                indices[usize::from(place)] = index;
                (walking[further], places[further]) = (index, place);
                further += usize::from(index >= len);
            }
            left = further;
        }
    }

    #[inline(always)]
    fn step(&self, index: u64) -> u64 {
        let mut right = index & self.right_mask;
        let mut left = index >> self.right_bits & self.left_mask;
        for pair in self.rounds.chunks_exact(2) {
            left ^= pair[0].of(right) & self.left_mask;
            right ^= pair[1].of(left) & self.right_mask;
        }
        left << self.right_bits | right
    }
}

/// Sends each index through the network until it is below `len`.
struct Walk<'a> {
    network: &'a Network,
    len: u64,
    indices: &'a mut [u64],
}

impl Kernel for Walk<'_> {
    const COMPUTES: bool = true;

    #[inline(always)]
    fn run(self) {
        let mut is_beyond = false;
        for index in &*self.indices {
            is_beyond |= *index >= self.len;
        }
        assert!(!is_beyond, "a position of {} or more", self.len);
        for some in self.indices.chunks_mut(AT_ONCE) {
            self.network.walk(some, self.len);
        }
    }
}

/// The function of one round: a single multiplication by a number that the key draws. Its upper half depends on every
/// lower bit; a stronger function would be half of the cost of planning a sample. (With one number for all rounds,
/// tests see a bias in small domains.)
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
        // Bits 32 to 63 of `(half ^ flip) * factor`, and others above them, from products of halves, because there are
        // vector instructions for those. A half of the network has at most 32 bits.
        const LOW: u64 = 0xffff_ffff;
        let low = (half ^ self.flip) & LOW;
        let above = (self.flip >> 32).wrapping_mul(self.factor & LOW);
        let carried = (low * (self.factor & LOW)) >> 32;
        carried.wrapping_add(low * (self.factor >> 32)).wrapping_add(above)
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
    fn many_positions_at_once_give_the_samples_that_each_alone_gives() {
        for len in [1, 5, 256, 257, 300, 511, 512, 513, 1000, 4096, 4097, 1 << 40, u64::MAX] {
            let permutation = Permutation::new(len, RandomKey::new(len ^ 3));
            for count in [0, 1, 63, 64, 65, 200, 1000] {
                let positions: Vec<u64> = (0..count).map(|nth| (nth * 7919 + count) % len).collect();
                let mut samples = positions.clone();
                permutation.replace(&mut samples);
                let each: Vec<u64> = positions.iter().map(|position| permutation.at(*position)).collect();
                assert_eq!(samples, each, "{count} of {len}");
                // Also with the vectors that every processor has.
                if let Way::Network(network) = &permutation.way {
                    let mut samples = positions.clone();
                    Walk { network, len, indices: &mut samples }.run();
                    assert_eq!(samples, each, "{count} of {len}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a position of 300 or more")]
    fn positions_beyond_the_end_are_refused() {
        Permutation::new(300, RandomKey::new(1)).replace(&mut [0, 300]);
    }

    #[test]
    fn the_order_of_a_key_never_changes() {
        let first = |len, count| {
            let permutation = Permutation::new(len, RandomKey::new(42).with(7));
            (0..count).map(|position| permutation.at(position)).collect::<Vec<_>>()
        };
        assert_eq!(first(10, 10), [2, 3, 4, 5, 0, 1, 9, 6, 7, 8]);
        assert_eq!(first(256, 5), [219, 194, 32, 134, 80]);
        assert_eq!(first(257, 5), [220, 221, 32, 136, 51]);
        assert_eq!(first(1_000_000_007, 3), [771_667_042, 206_003_947, 318_017_079]);
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
                        // The distance from the first to the second, around the end: never 0, and all other values are
                        // equally likely.
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

    /// The deviation of the samples of `trials` shuffles of `0..len` from an even distribution, as deviations from the
    /// mean of chi squared: for the sample at each position, for the pair of samples at some pairs of positions, for
    /// parity, and, if `len` is small, for the whole order.
    fn unevenness(len: u64, trials: u64) -> Vec<(&'static str, f64)> {
        let n = len as usize;
        let pairs = [(0, 1), (0, n - 1), (n / 2, n / 2 - 1)];
        let mut positions = vec![0u64; n * n];
        let mut pair_counts = pairs.map(|_| vec![0u64; n * n]);
        let mut orders = vec![0u64; if n <= 8 { (1..=n).product() } else { 0 }];
        let mut odd = 0;
        let mut shuffle = vec![0usize; n];
        for seed in 0..trials {
            let permutation = Permutation::new(len, RandomKey::new(seed).with(len));
            for (position, sample) in shuffle.iter_mut().enumerate() {
                *sample = permutation.at(position as u64) as usize;
                positions[position * n + *sample] += 1;
            }
            for (counts, (first, second)) in pair_counts.iter_mut().zip(pairs) {
                counts[shuffle[first] * n + shuffle[second]] += 1;
            }
            if !orders.is_empty() {
                // The number of the order in the factorial system.
                let smaller = |at: usize| shuffle[at + 1..].iter().filter(|later| **later < shuffle[at]).count();
                orders[(0..n).fold(0, |number, at| number * (n - at) + smaller(at))] += 1;
            }
            let mut cycles = 0;
            for start in 0..n {
                let mut at = start;
                cycles += u64::from(shuffle[start] < n);
                while shuffle[at] < n {
                    at = std::mem::replace(&mut shuffle[at], n);
                }
            }
            odd += (len - cycles) % 2;
        }
        let trials = trials as f64;
        let mut found =
            vec![("positions", deviations(&positions, trials / n as f64, trials / (len - 1) as f64, (n - 1).pow(2)))];
        for (mut counts, (first, second)) in pair_counts.into_iter().zip(pairs) {
            let mut cells = 0..n * n;
            counts.retain(|_| cells.next().is_some_and(|cell| cell / n != cell % n));
            let mean = trials / counts.len() as f64;
            found.push((
                if first + 1 == second { "neighbours" } else { "pairs" },
                deviations(&counts, mean, mean, counts.len() - 1),
            ));
        }
        found.push(("parity", (odd as f64 - trials / 2.0) / (trials / 4.0).sqrt()));
        if !orders.is_empty() {
            let mean = trials / orders.len() as f64;
            found.push(("orders", deviations(&orders, mean, mean, orders.len() - 1)));
        }
        found
    }

    /// Chi squared as deviations from its mean (Wilson and Hilferty, "The distribution of chi-square", 1931). Each
    /// count has this mean and this variance, apart from the dependence between the counts.
    fn deviations(counts: &[u64], mean: f64, variance: f64, freedom: usize) -> f64 {
        let chi_squared: f64 = counts.iter().map(|count| (*count as f64 - mean).powi(2) / variance).sum();
        let spread = 2.0 / (9.0 * freedom as f64);
        ((chi_squared / freedom as f64).cbrt() - (1.0 - spread)) / spread.sqrt()
    }

    #[test]
    fn small_shuffles_are_as_even_as_chance_makes_them() {
        for len in (2..=16).chain([32, 33, 64, 128, 200, 256]) {
            for (what, deviations) in unevenness(len, 10_000) {
                assert!(deviations.abs() < 4.5, "{what} of {len}: {deviations} deviations");
            }
        }
    }

    /// Takes minutes; `benches/record` has its output.
    #[test]
    #[ignore = "a million shuffles of each length"]
    fn a_million_small_shuffles_are_as_even_as_chance_makes_them() {
        let all: Vec<_> =
            (2..=200).flat_map(|len| unevenness(len, 1_000_000).into_iter().map(move |of| (len, of))).collect();
        for what in ["positions", "neighbours", "pairs", "parity", "orders"] {
            let of: Vec<f64> = all.iter().filter(|(_, (name, _))| *name == what).map(|(_, (_, of))| *of).collect();
            let mean = of.iter().sum::<f64>() / of.len() as f64;
            let spread = (of.iter().map(|of| of * of).sum::<f64>() / of.len() as f64).sqrt();
            let furthest = of.iter().fold(0.0, |furthest: f64, of| furthest.max(of.abs()));
            println!("{what}: {} tests, mean {mean:.3}, spread {spread:.3}, furthest {furthest:.2}", of.len());
        }
        for (len, (what, deviations)) in all {
            assert!(deviations.abs() < 4.5, "{what} of {len}: {deviations} deviations");
        }
    }
}
