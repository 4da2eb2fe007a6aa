use crate::random::{RandomKey, mix};

use super::{Permutation, Subset};

/// Slots per block; positions are shuffled within a block.
const BLOCK: u64 = 1024;

/// Makes the keys of the schedule different from those of the passes.
const SCHEDULE: u64 = 0x6d69_7863_6865_6475;
const PASS: u64 = 0x6d69_7870_6173_7321;

/// Several subsets in one endless stream, in proportion to their weights. Epochs are cut from the stream.
///
/// The stream has slots. Slot `n` belongs to the part whose share of the interval `0..2^32` holds the `n`th point of
/// van der Corput's sequence (the bits of `n`, reversed). Every aligned run of 2^k slots has 2^k points at equal
/// distance, so each part has its exact share of them, rounded up or down. How many earlier slots a part has is a sum
/// over the bits of `n`. That number is the part's own position: it goes through its samples in passes, each with its
/// own shuffle.
#[derive(Debug)]
pub(crate) struct Mixture {
    subsets: Box<[Subset]>,
    /// Where each part's share of `0..2^32` begins, and at the end 2^32.
    starts: Box<[u64]>,
    /// Whether it is certain that no sample is in two parts.
    is_apart: bool,
}

impl Mixture {
    /// Parts with their weights; or the fault of the weights.
    pub(crate) fn new(parts: &[(Subset, f64)]) -> Result<Self, String> {
        if let Some((_, weight)) = parts.iter().find(|(_, weight)| !(weight.is_finite() && *weight >= 0.0)) {
            return Err(format!("a weight of {weight}; weights are finite and not negative"));
        }
        if let Some(part) = parts.iter().position(|(subset, weight)| subset.is_empty() && *weight > 0.0) {
            return Err(format!("part {part} has a weight, but no samples"));
        }
        let greatest = parts.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        if greatest == 0.0 {
            return Err("all weights are 0; there is nothing to mix".to_owned());
        }
        let parts: Vec<_> = parts.iter().filter(|(_, weight)| *weight > 0.0).collect();
        let sum: f64 = parts.iter().map(|(_, weight)| weight / greatest).sum();
        let mut starts = Vec::with_capacity(parts.len() + 1);
        let (mut start, mut end) = (0, 0.0);
        for (_, weight) in &parts {
            starts.push(start);
            end += weight / greatest / sum;
            // At least one of the 2^32 points for each part, however small its weight.
            start = ((end * (1u64 << 32) as f64).round() as u64).max(start + 1);
        }
        starts.push(start);
        let last = starts.len() - 1;
        starts[last] = 1 << 32;
        if !starts.is_sorted_by(|a, b| a < b) {
            return Err("the largest weight is more than 2^32 times the smallest".to_owned());
        }
        let subsets: Box<[Subset]> = parts.into_iter().map(|(subset, _)| subset.clone()).collect();
        let mut spans: Box<[_]> = subsets.iter().map(Subset::span).collect();
        spans.sort_unstable();
        let is_apart = spans.is_sorted_by(|one, next| one.map(|(_, last)| last) < next.map(|(first, _)| first));
        Ok(Self { subsets, starts: starts.into(), is_apart })
    }

    /// Number of samples of all parts.
    pub(crate) fn len(&self) -> u64 {
        self.subsets.iter().fold(0, |sum: u64, subset| sum.saturating_add(subset.len()))
    }

    pub(crate) fn hash(&self) -> u64 {
        let parts = self.subsets.iter().zip(&self.starts);
        parts.fold(0, |hash, (subset, start)| mix(mix(hash ^ subset.hash()) ^ start))
    }

    /// The sample at `position` of the epoch `begin..begin + len`, and which of its draws in that epoch this is.
    /// Without shuffles, the parts are interleaved evenly, each in its own order.
    pub(crate) fn draw_at(&self, shuffles: Option<&mut Shuffles>, begin: u64, len: u64, position: u64) -> (u64, u64) {
        let mut slot = begin.wrapping_add(position);
        let Some(shuffles) = shuffles else {
            let (part, nth) = self.turn(slot);
            let subset = &self.subsets[part];
            let pass = nth.wrapping_sub(self.before(part, begin)) / subset.len();
            return (subset.at(nth % subset.len()), self.draw(part, pass));
        };
        if self.subsets.len() > 1 {
            // A block never crosses the end of an epoch, so each epoch has its exact share of each part.
            let before = (slot % BLOCK).min(position);
            let after = (BLOCK - slot % BLOCK).min(len - position);
            let first = slot.wrapping_sub(before);
            slot = shuffles.in_block(first, before + after, before);
        }
        let (part, nth) = self.turn(slot);
        let subset = &self.subsets[part];
        let pass = nth / subset.len();
        let earlier = self.before(part, begin) / subset.len();
        let id = subset.at(shuffles.in_pass(part, pass, subset.len(), nth % subset.len()));
        (id, self.draw(part, pass.wrapping_sub(earlier)))
    }

    /// The number of a sample's draw, for a part that goes through its samples for the `pass`th time in an epoch.
    fn draw(&self, part: usize, pass: u64) -> u64 {
        match self.is_apart {
            true => pass,
            false => pass.wrapping_mul(self.subsets.len() as u64).wrapping_add(part as u64),
        }
    }

    /// The part that a slot belongs to, and the number of that part's earlier slots.
    fn turn(&self, slot: u64) -> (usize, u64) {
        let part = self.part_of(slot);
        (part, self.before(part, slot))
    }

    /// A sample chosen by random bits, in proportion to the weights.
    pub(crate) fn any(&self, bits: u64) -> u64 {
        let subset = &self.subsets[self.part_of(bits)];
        subset.at(RandomKey::new(bits).below(0, subset.len()))
    }

    fn part_of(&self, slot: u64) -> usize {
        let point = u64::from((slot as u32).reverse_bits());
        self.starts.partition_point(|start| *start <= point) - 1
    }

    /// Number of slots before `slot` that belong to this part.
    fn before(&self, part: usize, slot: u64) -> u64 {
        if self.subsets.len() == 1 {
            return slot;
        }
        let (start, end) = (self.starts[part], self.starts[part + 1]);
        let rest = slot as u32;
        (slot >> 32) * (end - start) + points_below(rest, end) - points_below(rest, start)
    }
}

/// The last shuffles of one epoch of a mixture, because the next position usually needs the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Shuffles {
    seed: u64,
    /// By the block's first slot.
    block: Option<(u64, Permutation)>,
    /// By the number of the pass, for each part.
    passes: Box<[Option<(u64, Permutation)>]>,
}

impl Shuffles {
    pub(crate) fn new(mixture: &Mixture, seed: u64) -> Self {
        Self { seed, block: None, passes: vec![None; mixture.subsets.len()].into() }
    }

    /// A slot of the block that begins with `first`, shuffled.
    fn in_block(&mut self, first: u64, len: u64, at: u64) -> u64 {
        let key = || RandomKey::new(self.seed).with(SCHEDULE).with(first);
        first.wrapping_add(shuffled(&mut self.block, first, || Permutation::new(len, key()), at))
    }

    /// A sample of a part with `len` samples, shuffled for one of its passes.
    fn in_pass(&mut self, part: usize, pass: u64, len: u64, at: u64) -> u64 {
        let key = || RandomKey::new(self.seed).with(PASS).with(part as u64).with(pass);
        shuffled(&mut self.passes[part], pass, || Permutation::new(len, key()), at)
    }
}

/// Uses the kept shuffle if it has this number, otherwise makes a new one.
fn shuffled(kept: &mut Option<(u64, Permutation)>, number: u64, make: impl FnOnce() -> Permutation, at: u64) -> u64 {
    match kept {
        Some((of, shuffle)) if *of == number => shuffle.at(at),
        kept => kept.insert((number, make())).1.at(at),
    }
}

/// How many of the first `count` points of van der Corput's sequence in `0..2^32` are below `limit`.
fn points_below(count: u32, limit: u64) -> u64 {
    let mut below = 0;
    let mut rest = count;
    while rest > 0 {
        // The last aligned run of 2^k points, which begins with `first`; they are 2^(32-k) apart.
        let run = rest.trailing_zeros();
        rest &= rest - 1;
        let first = u64::from(rest.reverse_bits());
        let distance = 32 - run;
        below += (limit.saturating_sub(first) + (1 << distance) - 1) >> distance;
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_counted_as_one_by_one() {
        for limit in [0, 1, 77, 1 << 20, (1 << 31) + 12345, 3 << 30, 1 << 32] {
            let mut counted = 0;
            for count in 0..5000u32 {
                assert_eq!(points_below(count, limit), counted, "{count} points below {limit}");
                counted += u64::from(u64::from(count.reverse_bits()) < limit);
            }
        }
        assert_eq!(points_below(u32::MAX, 1 << 32), u64::from(u32::MAX));
    }

    #[test]
    fn a_part_counts_its_slots_across_periods() {
        let mixture = Mixture::new(&[(Subset::all(3), 0.3), (Subset::all(5), 0.7)]).unwrap();
        for start in [0, (1u64 << 32) - 50, (7 << 32) - 50] {
            for slot in start..start + 100 {
                let part = mixture.part_of(slot);
                assert_eq!(mixture.before(part, slot + 1), mixture.before(part, slot) + 1);
                assert_eq!(mixture.before(1 - part, slot + 1), mixture.before(1 - part, slot));
            }
        }
    }

    #[test]
    fn weights_that_make_no_sense_are_refused() {
        let all = || Subset::all(4);
        for (parts, part) in [
            (vec![], "nothing to mix"),
            (vec![(all(), 0.0)], "nothing to mix"),
            (vec![(all(), -1.0)], "not negative"),
            (vec![(all(), f64::NAN)], "finite"),
            (vec![(Subset::all(0), 1.0)], "no samples"),
            (vec![(all(), 1.0), (all(), 1e-300)], "2^32 times the smallest"),
        ] {
            assert!(Mixture::new(&parts).unwrap_err().contains(part), "{part}");
        }
        assert!(Mixture::new(&[(all(), 1.0), (Subset::all(0), 0.0)]).is_ok());
    }
}
