use serde::Serialize;

/// The results of automatic tuning. The current numbers are [`WorkerStats::threads`](super::WorkerStats::threads) and
/// [`QueueStats::prefetch`](super::QueueStats::prefetch).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tuning {
    /// Whether the number of workers is tuned.
    pub workers: bool,
    /// Whether the number of batches ahead is tuned.
    pub prefetch: bool,
    /// Number of changes so far, including trials.
    pub changes: u64,
    /// Reason for the last change.
    pub why: String,
}
