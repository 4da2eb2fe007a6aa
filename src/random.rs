//! Random numbers as a pure function of a key: no generator has a state that is carried from one sample to the next.
//!
//! The mixing step is the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", OOPSLA 2014), in the variant 13 of Stafford.

/// A key for random numbers. Derive a separate key for everything that must differ.
///
/// ```
/// use ringfeed::order::RandomKey;
///
/// let epoch_0 = RandomKey::new(42).with(0);
/// let epoch_1 = RandomKey::new(42).with(1);
/// assert_ne!(epoch_0.bits(0), epoch_1.bits(0));
/// assert_eq!(epoch_0.bits(7), RandomKey::new(42).with(0).bits(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomKey(u64);

impl RandomKey {
    /// The key of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The key that is derived from this one for `part`. The order of parts matters: seed 1 epoch 2 is not seed 2 epoch
    /// 1.
    #[must_use]
    pub const fn with(self, part: u64) -> Self {
        Self(mix(self.0.rotate_left(23) ^ mix(part.wrapping_add(0xd1b5_4a32_d192_ed03))))
    }

    /// The key of the `nth` random operation of a kind, derived from the key of a sample. The numbers of the kinds
    /// never change.
    pub(crate) const fn operation(self, kind: u64, nth: u64) -> Self {
        self.with(kind << 32 | nth)
    }

    /// 64 random bits for `counter`.
    pub const fn bits(self, counter: u64) -> u64 {
        mix(self.0 ^ mix(counter.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number in [0, 1) for `counter`, a multiple of 2^-53.
    pub fn unit(self, counter: u64) -> f64 {
        (self.bits(counter) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `limit` for `counter`; 0 if the limit is 0.
    pub(crate) fn below(self, counter: u64, limit: u64) -> u64 {
        scaled(self.bits(counter), limit)
    }

    /// A normally distributed number (mean 0, deviation 1) for `counter`, by the Box-Muller transform.
    pub fn normal(self, counter: u64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit(2 * counter)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit(2 * counter + 1)).cos()
    }
}

impl RandomKey {
    /// A number from the gamma distribution (Marsaglia and Tsang: "A simple method for generating gamma variables",
    /// 2000).
    pub(crate) fn gamma(self, shape: f64) -> f64 {
        if shape < 1.0 {
            let power = (1.0 - self.unit(u64::MAX)).powf(1.0 / shape);
            return power * self.with(3).gamma(shape + 1.0);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        for n in 0..1 << 20 {
            let (x, u) = (self.with(4).normal(n), 1.0 - self.unit(n));
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
        d
    }
}

/// Random bits as a number below `limit`; 0 if the limit is 0.
pub(crate) fn scaled(bits: u64, limit: u64) -> u64 {
    ((u128::from(bits) * u128::from(limit)) >> 64) as u64
}

/// A hash that is the same in every process, build, version and system, for fingerprints and for splitting by name. It
/// is defined here, byte by byte, and never changes.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let step = |hash: u64, word: &[u8; 8]| mix(hash.rotate_left(29) ^ u64::from_le_bytes(*word));
    let hash = words.iter().chain(std::iter::once(&last)).fold(0x9e37_79b9_7f4a_7c15, step);
    mix(hash ^ bytes.len() as u64)
}

/// A hash of numbers in this order, as stable as [`hash_bytes`].
pub(crate) fn hash_numbers(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(RandomKey::new(0x6861_7368), RandomKey::with).bits(0)
}

/// A hash of texts in this order, as stable as [`hash_bytes`].
pub(crate) fn hash_texts(texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> u64 {
    hash_numbers(texts.into_iter().map(|text| hash_bytes(text.as_ref())))
}

pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_numbers_are_spread_evenly() {
        let key = RandomKey::new(3);
        let mean = (0..100_000).map(|i| key.unit(i)).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let key = RandomKey::new(3);
        let draws: Vec<f64> = (0..100_000).map(|i| key.normal(i)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn hashes_never_change() {
        assert_eq!(hash_bytes(b"ringfeed"), 0x8a86_ee65_155c_824d);
        assert_eq!(hash_numbers([]), 0xf1a3_7df6_d8ef_59ea);
        assert_eq!(hash_numbers([1, 2, u64::MAX]), 0xe24e_c9ec_02a1_d900);
        assert_eq!(hash_texts(["ring", "feed"]), 0x8fa3_e61a_d68a_aef0);
        assert_ne!(hash_texts(["ring", "feed"]), hash_texts(["ringfeed"]));
        assert_ne!(hash_texts(["a", ""]), hash_texts(["a"]));
        assert_ne!(hash_bytes(b"ab\0"), hash_bytes(b"ab"));
        assert_ne!(hash_bytes(b"12345678"), hash_bytes(b"12345678\0"));
    }

    #[test]
    fn neighbouring_seeds_and_epochs_have_keys_of_their_own() {
        let keys: std::collections::HashSet<u64> =
            (0..100).flat_map(|seed| (0..100).map(move |epoch| RandomKey::new(seed).with(epoch).bits(0))).collect();
        assert_eq!(keys.len(), 10_000);
    }
}
