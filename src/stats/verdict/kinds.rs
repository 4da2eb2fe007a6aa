//! The parts of a verdict.

use std::fmt;

use serde::Serialize;

use crate::stats::show::Percent;

/// What limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Unknown: the run was too short.
    TooLittleSeen,
    /// The trainer: the loader could be faster.
    Trainer,
    /// Neither: both work nearly all the time, and neither waits.
    Balanced,
    /// The threads that fill batches: [`Verdict::stage`] names their main work, if one stage stands out.
    Workers,
    /// The one thread that plans, or reads data that can only be read in order.
    Planning,
    /// Batches are made one at a time, when the trainer asks for them, because prefetch is switched off.
    Shield,
    /// The first batch of each epoch: the loader makes nothing for it before the epoch begins.
    EpochEdges,
    /// Too few batches may be made ahead: workers are idle, and the trainer waits nevertheless.
    ShallowRing,
    /// Single samples that take much longer than others delay their batch, while other batches wait behind it.
    SlowSamples,
    /// The trainer holds batches, so that there is no slot to fill.
    HeldBatches,
    /// Copies to the device.
    Upload,
    /// Handing over: batches are so small that everything else takes almost no time.
    HandOff,
    /// The workers' share of the cores, `worker_share`: they have used it up, and rest.
    Capped,
    /// Other programs take the cores.
    MachineBusy,
    /// The trainer waits, and the statistics do not show for what.
    Unclear,
}

/// A setting that could be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// `workers`, `prefetch`, `hold` or `shield`.
    pub setting: &'static str,
    /// The value to try; 0 for `shield` means to leave it out.
    pub value: usize,
}

/// What limits a run, with evidence and advice: see [`Stats::verdict`](crate::stats::Stats::verdict). `Display` writes
/// it as one sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The limit.
    pub limit: Limit,
    /// The stage that takes most of the time, if one stands out: a name from
    /// [`Stats::stages`](crate::stats::Stats::stages).
    pub stage: Option<&'static str>,
    /// Share of the time that the trainer waited, from 0 to 1.
    pub waited: f64,
    /// The evidence, in words.
    pub evidence: String,
    /// The advice, in words.
    pub advice: String,
    /// The advice as a setting, if it is one.
    pub change: Option<Change>,
    /// Predicted throughput after that change, divided by the current throughput; `None` if it can't be predicted. If
    /// the upload is the limit, the prediction is for half the bytes.
    pub gain: Option<f64>,
    /// Whether `gain` is only an upper bound, because the speed of the storage with more readers at the same time is
    /// unknown.
    pub is_gain_most: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = match self.limit {
            Limit::TooLittleSeen => {
                return write!(f, "not enough data for a verdict: {}; {}", self.evidence, self.advice);
            }
            Limit::Trainer => "trainer-bound",
            Limit::Balanced => "well balanced",
            Limit::Upload => "upload-bound",
            Limit::Unclear => "not clear",
            _ => "input-bound",
        };
        let Self { evidence, advice, .. } = self;
        write!(f, "{head}: the trainer waited {} of the time; {evidence}; {advice}", Percent(self.waited))
    }
}
