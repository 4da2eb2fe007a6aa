//! Which sample stands at which position of an epoch: pure functions of (seed, epoch, position).

mod mixture;
pub(crate) mod permutation;
mod shard;
mod subset;
mod weighted;

use std::sync::Arc;

pub(crate) use mixture::Mixture;
pub use permutation::Permutation;
pub(crate) use shard::Deal;
pub use shard::{Remainder, Shard};
pub use subset::Subset;
pub(crate) use weighted::Weighted;

use crate::random::{RandomKey, scaled};

/// Tells the draws of weighted sampling from other random numbers.
const DRAW: u64 = 0x6472_6177_6472_6177;

/// The order of all epochs of a source.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) len: u64,
    pub(crate) seed: u64,
    pub(crate) shuffled: bool,
    pub(crate) picks: Picks,
}

/// Which samples an order is made of.
#[derive(Clone, Debug)]
pub(crate) enum Picks {
    /// Each once an epoch.
    Once(Subset),
    /// Drawn with replacement.
    Weighted(Arc<Weighted>),
    /// Several subsets in proportion.
    Mixed(Arc<Mixture>),
}

impl Order {
    /// The order of one epoch.
    pub(crate) fn epoch(&self, epoch: u64) -> EpochOrder {
        let permutation = match &self.picks {
            _ if !self.shuffled => None,
            Picks::Once(_) => Some((0, Permutation::new(self.len, epoch_key(self.seed, epoch)))),
            Picks::Weighted(_) => None,
            Picks::Mixed(mixture) => mixture.single().map(|subset| {
                let pass = epoch.wrapping_mul(self.len) / subset.len();
                (pass, mixture.shuffle(self.seed, 0, pass))
            }),
        };
        EpochOrder { order: self.clone(), epoch, permutation }
    }

    /// One of the samples by random bits: to stand in for another.
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

/// The order of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct EpochOrder {
    order: Order,
    epoch: u64,
    /// The shuffle of all samples, or of a mixture's only part in the pass in which the epoch begins, which it seldom
    /// leaves.
    permutation: Option<(u64, Permutation)>,
}

impl EpochOrder {
    pub(crate) fn sample_at(&self, position: u64) -> u64 {
        let Order { len, seed, shuffled, picks } = &self.order;
        match picks {
            Picks::Once(subset) => {
                subset.at(self.permutation.map_or(position, |(_, permutation)| permutation.at(position)))
            }
            Picks::Weighted(weighted) => weighted.draw(epoch_key(*seed, self.epoch).with(DRAW), position),
            Picks::Mixed(mixture) => {
                let begin = self.epoch.wrapping_mul(*len);
                match (self.permutation, mixture.single()) {
                    (Some((pass, permutation)), Some(subset))
                        if begin.wrapping_add(position) / subset.len() == pass =>
                    {
                        subset.at(permutation.at(begin.wrapping_add(position) % subset.len()))
                    }
                    _ => mixture.sample_at(*seed, *shuffled, begin, *len, position),
                }
            }
        }
    }
}
