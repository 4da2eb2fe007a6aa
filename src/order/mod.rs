//! Which sample stands at which position of an epoch: pure functions of (seed, epoch, position).

mod permutation;
mod shard;

pub use permutation::Permutation;
pub(crate) use shard::Deal;
pub use shard::{Remainder, Shard};

use crate::random::RandomKey;

/// The order of all epochs of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) len: u64,
    pub(crate) seed: u64,
    pub(crate) shuffled: bool,
}

impl Order {
    /// The order of one epoch.
    pub(crate) fn epoch(&self, epoch: u64) -> EpochOrder {
        let key = epoch_key(self.seed, epoch);
        EpochOrder(self.shuffled.then(|| Permutation::new(self.len, key)))
    }
}

/// The key of everything random in an epoch.
pub(crate) fn epoch_key(seed: u64, epoch: u64) -> RandomKey {
    RandomKey::new(seed).with(epoch)
}

/// The order of one epoch: the source's own, or a permutation of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochOrder(Option<Permutation>);

impl EpochOrder {
    pub(crate) fn sample_at(&self, position: u64) -> u64 {
        self.0.map_or(position, |permutation| permutation.at(position))
    }
}
