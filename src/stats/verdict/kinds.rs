//! What a verdict is made of.

use std::fmt;

use serde::Serialize;

use crate::stats::show::Percent;

/// What limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// The run was too short to tell.
    TooLittleSeen,
    /// The trainer: the loader could do more.
    Trainer,
    /// Neither: both work nearly all the time, and neither waits.
    Balanced,
    /// The threads that fill batches: [`Verdict::stage`] names what they do most, if one thing stands out.
    Workers,
    /// The one thread that plans, or reads what can only be read in order.
    Planning,
    /// Batches are made one at a time, when they are asked for, because prefetch is switched off.
    Shield,
    /// The first batch of each epoch: nothing is made for it before the epoch begins.
    EpochEdges,
    /// Too few batches may be made ahead: workers have nothing to do, and the trainer waits all the same.
    ShallowRing,
    /// Single samples that take much longer than others hold up their batch, while others wait behind it.
    SlowSamples,
    /// The trainer holds batches, so that there is no slot to fill.
    HeldBatches,
    /// Copies to the device.
    Upload,
    /// Handing over: batches are so small that nothing else counts.
    HandOff,
    /// The workers may use no more of the cores: they rest, by `worker_share`.
    Capped,
    /// Other programs take the cores.
    MachineBusy,
    /// The trainer waits, and the figures do not show for what.
    Unclear,
}

/// What could be set to another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// `workers`, `prefetch`, `hold` or `shield`.
    pub setting: &'static str,
    /// The value that is worth trying; 0 for `shield` means to leave it out.
    pub value: usize,
}

/// What limits a run, with evidence, and what to do: see [`Stats::verdict`](crate::stats::Stats::verdict). `Display` writes it as one sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What limits.
    pub limit: Limit,
    /// The stage that takes most of the time, if one stands out: a name of [`Stats::stages`](crate::stats::Stats::stages).
    pub stage: Option<&'static str>,
    /// Share of the time that the trainer waited, from 0 to 1.
    pub waited: f64,
    /// Which figures show it, in words.
    pub evidence: String,
    /// What to do, in words.
    pub advice: String,
    /// The same as a setting, where it is one.
    pub change: Option<Change>,
    /// How many times as many samples a second are expected of that change, where the figures foretell it; of an upload, of half
    /// the bytes.
    pub gain: Option<f64>,
    /// Whether that is the most that it may be, because nothing shows how the storage does with more that read at the same time.
    pub is_gain_most: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = match self.limit {
            Limit::TooLittleSeen => return write!(f, "too little seen to tell: {}; {}", self.evidence, self.advice),
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
