use serde::{Deserialize, Serialize};

use crate::memory::{MemoryBudget, PageSource};

/// What to do when a batch needs more memory than the budget has left, or gets no slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overflow {
    /// A named error in the batch's place. The default.
    #[default]
    Fail,
    /// The batch is made in ordinary memory outside of the budget, and counted in [`RingStats::spilled`].
    Spill,
}

/// The settings of a ring.
#[derive(Clone, Debug)]
pub(crate) struct RingConfig {
    pub(crate) slots: usize,
    pub(crate) slot_bytes: usize,
    pub(crate) pages: std::sync::Arc<dyn PageSource>,
    pub(crate) budget: MemoryBudget,
    pub(crate) overflow: Overflow,
    /// A byte that fills a slot before every use, so that a test sees which bytes a decoder does not write.
    pub(crate) poison: Option<u8>,
}

/// Statistics of the ring at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RingStats {
    /// Number of slots.
    pub slots: usize,
    /// Bytes of the largest slot.
    pub slot_bytes: usize,
    /// Bytes of all slots together.
    pub bytes: usize,
    /// Slots that the caller holds now.
    pub leased: usize,
    /// Time for which the caller held slots, summed over slots.
    pub held_seconds: f64,
    /// How often a slot was given more memory.
    pub regrown: u64,
    /// Batches made in ordinary memory because no slot could hold them.
    pub spilled: u64,
}
