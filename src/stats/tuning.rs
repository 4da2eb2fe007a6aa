use serde::Serialize;

/// What was found by who tunes: workers, batches ahead, or both. The numbers in effect are
/// [`WorkerStats::threads`](super::WorkerStats::threads) and [`QueueStats::prefetch`](super::QueueStats::prefetch).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tuning {
    /// Whether the number of workers is found.
    pub workers: bool,
    /// Whether the number of batches ahead is.
    pub prefetch: bool,
    /// How often another number was set, also to try it.
    pub changes: u64,
    /// Why the last one was.
    pub why: String,
}
