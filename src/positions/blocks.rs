use std::sync::Arc;

use crate::random::{RandomKey, mix};

use super::{Permutation, Subset};

/// Make the keys of chunks, and of samples in a block, different from other random numbers.
const CHUNKS: u64 = 0x626c_6f63_6368_756e;
const BLOCK: u64 = 0x626c_6f63_6b73_2121;

/// Number of records in a chunk, if it is not known which records are read or decoded together.
pub(crate) const RUN: u64 = 1024;

/// Chunks of a subset, and the number of chunks that are shuffled together.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Where each chunk begins in the subset, and at the end the subset's length.
    starts: Arc<[u64]>,
    together: u64,
}

impl Blocks {
    /// The chunks that begin at these records, as far as the subset has samples of them; if there are none, runs of
    /// records.
    pub(crate) fn new(subset: &Subset, chunks: &[u64], together: u64) -> Self {
        let chunk_of = |id: u64| match chunks {
            [] => id / RUN,
            chunks => chunks.partition_point(|start| *start <= id) as u64,
        };
        let mut starts = Vec::new();
        match subset.bounds() {
            Some(ids) if !chunks.is_empty() => {
                let within = chunks.iter().filter(|start| ids.contains(start)).map(|start| start - ids.start);
                starts.extend(std::iter::once(0).chain(within));
            }
            Some(ids) => {
                let next = ids.start.next_multiple_of(RUN);
                let within = (next..ids.end).step_by(RUN as usize).map(|start| start - ids.start);
                starts.extend(std::iter::once(0).chain(within));
            }
            None => {
                let mut last = None;
                for (index, id) in (0..).zip(subset.iter()) {
                    let chunk = Some(chunk_of(id));
                    if chunk != last {
                        starts.push(index);
                    }
                    last = chunk;
                }
            }
        }
        starts.push(subset.len());
        starts.dedup();
        Self { starts: starts.into(), together: together.max(1) }
    }

    fn chunks(&self) -> u64 {
        (self.starts.len() - 1) as u64
    }

    /// Distinguishes these blocks from others.
    pub(crate) fn hash(&self) -> u64 {
        self.starts.iter().fold(mix(self.together), |hash, start| mix(hash ^ start))
    }
}

/// The shuffle of one epoch: chunks in random order, and the samples of neighbouring chunks in random order.
///
/// The beginnings of all chunks are computed once per epoch; after that, each position costs a search among them.
#[derive(Clone, Debug)]
pub(crate) struct BlockShuffle {
    blocks: Blocks,
    key: RandomKey,
    order: Permutation,
    /// Where the chunks begin in the epoch's order, and at the end the length.
    begins: Vec<u64>,
    /// The block that was used last: its positions, and its shuffle.
    last: Option<(std::ops::Range<u64>, Permutation)>,
}

impl BlockShuffle {
    pub(crate) fn new(blocks: &Blocks, key: RandomKey) -> Self {
        let order = Permutation::new(blocks.chunks(), key.with(CHUNKS));
        let mut shuffle = Self { blocks: blocks.clone(), key, order, begins: Vec::new(), last: None };
        shuffle.begin(key);
        shuffle
    }

    /// Begins another epoch.
    pub(crate) fn begin(&mut self, key: RandomKey) {
        let starts = &self.blocks.starts;
        (self.key, self.last) = (key, None);
        self.order = Permutation::new(self.blocks.chunks(), key.with(CHUNKS));
        self.begins.clear();
        let mut begin = 0;
        for nth in 0..self.blocks.chunks() {
            self.begins.push(begin);
            let chunk = self.order.at(nth) as usize;
            begin += starts[chunk + 1] - starts[chunk];
        }
        self.begins.push(begin);
    }

    /// The index in the subset of the sample at a position.
    pub(crate) fn at(&mut self, position: u64) -> u64 {
        if !self.last.as_ref().is_some_and(|(range, _)| range.contains(&position)) {
            let together = self.blocks.together;
            let block = (self.begins.partition_point(|begin| *begin <= position) as u64 - 1) / together;
            let first = (block * together) as usize;
            let end = first.saturating_add(usize::try_from(together).unwrap_or(usize::MAX));
            let range = self.begins[first]..self.begins[end.min(self.begins.len() - 1)];
            let shuffle = Permutation::new(range.end - range.start, self.key.with(BLOCK).with(block));
            self.last = Some((range, shuffle));
        }
        let among = match &self.last {
            Some((range, shuffle)) => range.start + shuffle.at(position - range.start),
            None => position,
        };
        let nth = self.begins.partition_point(|begin| *begin <= among) - 1;
        let chunk = self.order.at(nth as u64) as usize;
        self.blocks.starts[chunk] + (among - self.begins[nth])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(blocks: &Blocks, seed: u64, len: u64) -> Vec<u64> {
        let mut shuffle = BlockShuffle::new(blocks, RandomKey::new(seed));
        (0..len).map(|position| shuffle.at(position)).collect()
    }

    #[test]
    fn blocks_of_one_size_are_shuffled_each_for_itself() {
        let blocks = Blocks::new(&Subset::all(150), &[0, 50, 100], 1);
        let places: Vec<u64> = order(&blocks, 7, 150).into_iter().map(|id| id % 50).collect();
        assert!(places[..50] != places[50..100] && places[50..100] != places[100..]);
    }

    #[test]
    fn every_sample_stands_once_and_a_block_holds_some_chunks_alone() {
        let subset = Subset::all(1000);
        let chunks: Vec<u64> = (0..1000).filter(|at| at % 37 == 0 || at % 100 == 0).collect();
        for together in [1, 3, 1000] {
            let blocks = Blocks::new(&subset, &chunks, together);
            let found = order(&blocks, 7, 1000);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
            assert_ne!(found, order(&blocks, 8, 1000));
            // A chunk is finished after as many others as are shuffled with it.
            let chunk_of = |id: &u64| chunks.partition_point(|start| start <= id);
            let mut seen: Vec<usize> = found.iter().map(chunk_of).collect();
            let mut open: Vec<usize> = Vec::new();
            for at in 0..seen.len() {
                if !open.contains(&seen[at]) {
                    open.push(seen[at]);
                }
                open.retain(|chunk| seen[at..].contains(chunk));
                assert!(open.len() as u64 <= together.min(chunks.len() as u64));
            }
            seen.dedup();
            assert!(together > 1 || seen.len() == chunks.len());
            // This holds from any position on, not only from the first.
            let mut shuffle = BlockShuffle::new(&blocks, RandomKey::new(7));
            for position in [999, 0, 500, 501, 3] {
                assert_eq!(shuffle.at(position), found[position as usize]);
            }
        }
    }

    #[test]
    fn a_subset_has_the_chunks_that_it_holds_samples_of() {
        let starts = |subset: &Subset, chunks: &[u64]| Blocks::new(subset, chunks, 1).starts.to_vec();
        assert_eq!(starts(&Subset::range(5..25), &[0, 10, 20, 30]), [0, 5, 15, 20]);
        assert_eq!(starts(&Subset::listed([1, 2, 11, 12, 13, 35]), &[0, 10, 20, 30]), [0, 2, 5, 6]);
        assert_eq!(starts(&Subset::all(0), &[0, 10]), [0]);
        assert_eq!(starts(&Subset::range(1000..3000), &[]), [0, 24, 1048, 2000]);
        assert_eq!(starts(&Subset::listed((1000..3000).chain([4000])), &[]), [0, 24, 1048, 2000, 2001]);
        let hashes = [(10, 1), (11, 1), (10, 2)].map(|(at, k)| Blocks::new(&Subset::all(100), &[0, at], k).hash());
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
    }
}
