use std::sync::atomic::AtomicU64;

/// The causes of the trainer's waits, in nanoseconds, and the fill level of the ring: integrals over time.
#[derive(Debug, Default)]
pub(crate) struct QueueCounter {
    /// Time in which this iterator had the ring.
    pub(crate) time_ns: AtomicU64,
    /// Time in which the next batch was ready, and time in which only later ones were.
    pub(crate) ready_ns: AtomicU64,
    pub(crate) behind_ns: AtomicU64,
    /// Batches times time.
    pub(crate) ready_batch_ns: AtomicU64,
    pub(crate) filling_batch_ns: AtomicU64,
    /// Time that the trainer waited: for planning, for a slot that it holds itself, for a batch that is being filled
    /// while no other is ready, and for a batch while later ones are ready.
    pub(crate) wait_plan_ns: AtomicU64,
    pub(crate) wait_slot_ns: AtomicU64,
    pub(crate) wait_fill_ns: AtomicU64,
    pub(crate) wait_behind_ns: AtomicU64,
}
