//! Which sample is at which position of an epoch: pure functions of (seed, epoch, position).

mod blocks;
mod bucketed;
mod mixture;
pub(crate) mod permutation;
mod shard;
mod subset;
mod weighted;

use std::sync::Arc;

use blocks::BlockShuffle;
pub(crate) use blocks::{Blocks, RUN};
pub(crate) use bucketed::{Bucket, BucketBatch, Bucketed, EpochBuckets};
pub(crate) use mixture::Mixture;
use mixture::Shuffles;
pub use permutation::Permutation;
pub(crate) use shard::Deal;
pub use shard::{Remainder, Shard};
pub use subset::Subset;
pub(crate) use weighted::Weighted;

use crate::random::{RandomKey, scaled};

/// Makes the keys of a sample's later draws different from those of its operations.
const AGAIN: u64 = 0x6167_6169_6e64_7277;

/// Makes the draws of weighted sampling different from other random numbers.
const DRAW: u64 = 0x6472_6177_6472_6177;

/// Limit of an epoch's samples and of a run's epochs, so that the sum of a few positions stays below 2^64.
pub(crate) const FURTHEST: u64 = 1 << 62;

/// The order of all epochs of a source.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) len: u64,
    pub(crate) seed: u64,
    pub(crate) shuffled: bool,
    pub(crate) picks: Picks,
    /// For shuffling in blocks, if each sample is taken once.
    pub(crate) blocks: Option<Blocks>,
}

/// The samples in an order.
#[derive(Clone, Debug)]
pub(crate) enum Picks {
    /// Each once per epoch.
    Once(Subset),
    /// Drawn with replacement.
    Weighted(Arc<Weighted>),
    /// Several subsets in proportion to their weights.
    Mixed(Arc<Mixture>),
}

impl Order {
    /// The order of one epoch.
    pub(crate) fn epoch(&self, epoch: u64) -> EpochOrder {
        let shuffle = match &self.picks {
            Picks::Once(_) if self.shuffled => match &self.blocks {
                Some(blocks) => Shuffle::Blocks(Box::new(BlockShuffle::new(blocks, epoch_key(self.seed, epoch)))),
                None => Shuffle::Whole(Permutation::new(self.len, epoch_key(self.seed, epoch))),
            },
            Picks::Mixed(mixture) if self.shuffled => Shuffle::Mixed(Shuffles::new(mixture, self.seed)),
            _ => Shuffle::None,
        };
        EpochOrder { order: self.clone(), epoch, shuffle }
    }

    /// A sample chosen by random bits, to replace another one.
    pub(crate) fn any(&self, bits: u64) -> u64 {
        match &self.picks {
            Picks::Once(subset) => subset.at(scaled(bits, subset.len())),
            Picks::Weighted(weighted) => weighted.draw(RandomKey::new(bits), 0),
            Picks::Mixed(mixture) => mixture.any(bits),
        }
    }
}

/// The key of everything random in an epoch.
pub(crate) fn epoch_key(seed: u64, epoch: u64) -> RandomKey {
    RandomKey::new(seed).with(epoch)
}

/// The key of everything random in a sample, in the epoch with the key `epoch`. `draw` tells several draws of it in
/// that epoch apart.
pub(crate) fn sample_key(epoch: RandomKey, id: u64, draw: u64) -> RandomKey {
    match draw {
        0 => epoch.with(id),
        draw => epoch.with(id).with(AGAIN).with(draw),
    }
}

/// The order of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct EpochOrder {
    order: Order,
    epoch: u64,
    shuffle: Shuffle,
}

#[derive(Clone, Debug)]
enum Shuffle {
    None,
    Whole(Permutation),
    Blocks(Box<BlockShuffle>),
    Mixed(Shuffles),
}

impl EpochOrder {
    /// Moves to another epoch. A mixture's shuffles are kept, because they do not depend on the epoch.
    pub(crate) fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        let key = epoch_key(self.order.seed, epoch);
        match &mut self.shuffle {
            Shuffle::Whole(shuffle) => *shuffle = Permutation::new(self.order.len, key),
            Shuffle::Blocks(shuffle) => shuffle.begin(key),
            Shuffle::None | Shuffle::Mixed(_) => {}
        }
    }

    /// Replaces positions by their samples. If samples come several times, `draws` is filled: two of one sample have
    /// different numbers in an epoch.
    pub(crate) fn replace(&mut self, positions: &mut [u64], draws: &mut Vec<u64>) {
        match (&self.order.picks, &self.shuffle) {
            (Picks::Once(subset), Shuffle::Whole(shuffle)) => {
                shuffle.replace(positions);
                subset.replace(positions);
            }
            (Picks::Once(subset), Shuffle::None) => subset.replace(positions),
            (Picks::Once(_), _) => positions.iter_mut().for_each(|position| *position = self.draw_at(*position).0),
            _ => {
                for position in positions {
                    let (sample, draw) = self.draw_at(*position);
                    *position = sample;
                    draws.push(draw);
                }
            }
        }
    }

    /// The sample at a position, and which of its draws this is. A weighted draw has the number of its position,
    /// because counting the earlier draws of the same sample would require repeating them.
    fn draw_at(&mut self, position: u64) -> (u64, u64) {
        let Order { len, seed, picks, .. } = &self.order;
        match (picks, &mut self.shuffle) {
            (Picks::Once(subset), Shuffle::Whole(shuffle)) => (subset.at(shuffle.at(position)), 0),
            (Picks::Once(subset), Shuffle::Blocks(shuffle)) => (subset.at(shuffle.at(position)), 0),
            (Picks::Once(subset), _) => (subset.at(position), 0),
            (Picks::Weighted(weighted), _) => {
                (weighted.draw(epoch_key(*seed, self.epoch).with(DRAW), position), position)
            }
            (Picks::Mixed(mixture), shuffle) => {
                let shuffles = if let Shuffle::Mixed(shuffles) = shuffle { Some(shuffles) } else { None };
                mixture.draw_at(shuffles, self.epoch.wrapping_mul(*len), *len, position)
            }
        }
    }
}
