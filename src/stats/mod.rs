//! Statistics of a run: counts, amounts and times, and a verdict that says which part of the loader, if any, makes the
//! trainer wait.
//!
//! Every iterator counts all the time. [`Stats`] is a snapshot, and the difference of two snapshots covers the time
//! between them. A [`StatsHandle`] takes snapshots from any other thread.

mod damage;
mod handle;
mod metrics;
mod numbers;
mod parts;
mod setting;
mod show;
mod snapshot;
mod times;
mod trace;
mod tuning;
mod upload;
mod verdict;

pub use crate::ring::RingStats;

pub use damage::DamageStats;
pub use handle::{Figures, StatsHandle};
pub use metrics::MetricsAddress;
#[cfg(feature = "metrics")]
pub use metrics::serve_metrics;
#[cfg(not(feature = "metrics"))]
pub(crate) use metrics::serve_metrics;
pub use parts::{Planning, QueueStats, ReadStats, SlowSample, StageStats, TrainerStats, WorkerStats};
pub(crate) use setting::{Lived, Setting};
pub(crate) use show::{Percent, Seconds};
pub use snapshot::Stats;
pub use times::Times;
pub use trace::Trace;
pub use tuning::Tuning;
pub use upload::UploadStats;
pub use verdict::{Change, Limit, Verdict};
