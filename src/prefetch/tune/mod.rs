//! Finds how many workers and batches ahead a trainer needs, while it trains.
//!
//! `Tuner` is a function of statistics. At each look it takes the statistics since the last look, asks for the verdict,
//! and may want another setting, which the planning thread applies. This never changes the samples of a batch, or the
//! order of batches.

mod amounts;
#[cfg(all(test, not(ringfeed_loom)))]
mod causes;
mod found;
#[cfg(all(test, not(ringfeed_loom)))]
mod simulated;
#[cfg(all(test, not(ringfeed_loom)))]
mod tests;
mod trial;

use std::time::Duration;

use crate::stats::{Limit, Stats};

pub(super) use amounts::{Amounts, Bounds};
pub(super) use found::Found;
use trial::{Refused, Trial, What};

/// Time between two looks: long compared with the cost of a look.
const LOOK: Duration = Duration::from_millis(250);
/// Minimum time that the statistics must cover to be meaningful.
const LEAST_SECONDS: f64 = 0.5;
const LEAST_BATCHES: u64 = 16;
/// The statistics must cover the longest step this many times, so that bursts count in proportion. After this many
/// batches, such a step was a pause (for an evaluation, say), and the statistics are dropped.
const LEAST_STEPS: f64 = 3.0;
const MOST_BATCHES: u64 = 256;
/// A trainer that waits for less than this share of the time counts as not waiting.
const WAITS: f64 = 0.01;
/// Number of looks in a row that must find that smaller numbers are enough.
const QUIET_LOOKS: u32 = 8;
/// Workers that are busy for at most this share of their time are enough.
const BUSY: f64 = 0.8;
/// Maximum factor on the current number that is tried at once.
const MOST_TIMES: usize = 4;
pub(crate) const LEAST_PREFETCH: usize = 2;

#[derive(Debug)]
pub(super) struct Tuner {
    bounds: Bounds,
    now: Amounts,
    /// The statistics at the last valid look.
    since: Option<Stats>,
    /// Number of batches that were begun before the last change, and are left out of the statistics.
    settling: Option<u64>,
    trial: Option<Trial>,
    refused: Refused,
    quiet: Quiet,
    looks: u64,
}

/// Observations in a series of looks in which the trainer did not wait.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    looks: u32,
    most_busy: f64,
    least_ready: usize,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { looks: 0, most_busy: 0.0, least_ready: usize::MAX }
    }
}

impl Tuner {
    pub(super) fn new(bounds: Bounds, begin: Amounts) -> Self {
        Self {
            bounds,
            now: begin,
            since: None,
            settling: None,
            trial: None,
            refused: Refused::default(),
            quiet: Quiet::default(),
            looks: 0,
        }
    }

    /// Whether the next look is due, so long after the last one.
    pub(super) fn is_due(&self, passed: Duration) -> bool {
        #[cfg(test)]
        if self.bounds.is_restless {
            return true;
        }
        passed >= LOOK
    }

    /// Looks at the statistics so far; `least_ready` is the smallest number of ready batches when the trainer took one.
    /// Returns the numbers to set, and the reason, if they change.
    pub(super) fn look(&mut self, stats: Stats, least_ready: usize) -> Option<(Amounts, String)> {
        #[cfg(test)]
        if self.bounds.is_restless {
            return Some((self.any(), String::new()));
        }
        let Some(since) = &self.since else {
            self.since = Some(stats);
            return None;
        };
        let seen = stats.since(since);
        let (batches, seconds) = (seen.trainer.batches, seen.trainer.seconds());
        if let Some(left) = self.settling {
            if batches >= left {
                self.settling = None;
                self.since = Some(stats);
            }
            return None;
        }
        self.quiet.least_ready = self.quiet.least_ready.min(least_ready);
        if batches < LEAST_BATCHES || seconds < LEAST_SECONDS {
            return None;
        }
        let longest = seen.trainer.steps.buckets().last().map_or(0.0, |(longest, _)| longest);
        let is_pause = LEAST_STEPS * longest > seconds;
        if is_pause && batches < MOST_BATCHES {
            return None;
        }
        self.since = Some(stats);
        if is_pause {
            return None;
        }
        self.looks += 1;
        match self.trial.take() {
            Some(trial) => self.conclude(&trial, &seen),
            None => self.decide(&seen),
        }
    }

    /// Memory has no room for the last requested number.
    pub(super) fn no_room(&mut self, prefetch: usize) {
        self.now.prefetch = prefetch;
        self.bounds.prefetch = self.bounds.prefetch.map(|_| prefetch);
        self.trial = None;
    }

    fn decide(&mut self, seen: &Stats) -> Option<(Amounts, String)> {
        if seen.trainer.waited() < WAITS {
            return self.lower(seen);
        }
        self.quiet = Quiet::default();
        let found = seen.finding();
        let now = self.now;
        let (what, wanted) = match found.change {
            Some(change) if change.setting == "workers" => (What::MoreWorkers, self.with_workers(change.value, seen)),
            Some(change) if change.setting == "prefetch" => {
                (What::MorePrefetch, self.with_prefetch(change.value, seen))
            }
            // No batches can be made in slots that the trainer keeps.
            Some(change) if change.setting == "hold" => {
                (What::MorePrefetch, self.with_prefetch(now.prefetch + change.value, seen))
            }
            _ if found.limit == Limit::Workers && found.workers < now.workers => {
                (What::FewerWorkers, self.with_workers(found.workers, seen))
            }
            _ => return None,
        };
        self.try_out(what, wanted, seen, found.evidence)
    }

    /// The trainer does not wait: smaller numbers may be enough.
    fn lower(&mut self, seen: &Stats) -> Option<(Amounts, String)> {
        let busy = seen.workers.busy_seconds / seen.trainer.seconds();
        self.quiet.looks += 1;
        self.quiet.most_busy = self.quiet.most_busy.max(busy);
        if self.quiet.looks < QUIET_LOOKS {
            return None;
        }
        let quiet = std::mem::take(&mut self.quiet);
        let workers = ((quiet.most_busy / BUSY).ceil().max(1.0) as usize).max(self.now.workers.div_ceil(2));
        let may = |what| self.refused.allows(what, self.looks, seen);
        if self.bounds.workers.is_some() && workers < self.now.workers && may(What::FewerWorkers) {
            let why =
                format!("the trainer does not wait, and {:.1} workers were busy at most on average", quiet.most_busy);
            return self.try_out(What::FewerWorkers, Amounts { workers, ..self.now }, seen, why);
        }
        let spare =
            Some(quiet.least_ready).filter(|ready| *ready < usize::MAX).map_or(0, |ready| ready.saturating_sub(1));
        let prefetch = self.now.prefetch.saturating_sub(spare).max(self.now.prefetch.div_ceil(2)).max(LEAST_PREFETCH);
        if self.bounds.prefetch.is_some() && prefetch < self.now.prefetch && may(What::LessPrefetch) {
            let why =
                format!("the trainer does not wait, and {} batches were ready whenever it took one", quiet.least_ready);
            return self.try_out(What::LessPrefetch, Amounts { prefetch, ..self.now }, seen, why);
        }
        None
    }

    fn with_workers(&self, wanted: usize, seen: &Stats) -> Amounts {
        let Some(most) = self.bounds.workers else { return self.now };
        let workers = wanted.min(MOST_TIMES * self.now.workers).clamp(1, most);
        // Two samples for each worker, as with the defaults.
        let rows = (seen.samples as f64 / seen.batches.max(1) as f64).max(1.0);
        let batches = (2.0 * workers as f64 / rows).ceil() as usize;
        let prefetch = self.with_prefetch(batches.max(self.now.prefetch), seen).prefetch;
        Amounts { workers, prefetch }
    }

    fn with_prefetch(&self, wanted: usize, seen: &Stats) -> Amounts {
        let Some(most) = self.bounds.prefetch else { return self.now };
        let fit = self.bounds.bytes / (seen.ring.slot_bytes as u64).max(1);
        // Beside the slots that there are for other reasons.
        let fit = (fit as usize).saturating_sub(seen.ring.slots - self.now.prefetch.min(seen.ring.slots));
        let most = most.min(fit).max(self.now.prefetch);
        Amounts { prefetch: wanted.min(MOST_TIMES * self.now.prefetch.max(1)).min(most), ..self.now }
    }

    fn try_out(&mut self, what: What, wanted: Amounts, seen: &Stats, why: String) -> Option<(Amounts, String)> {
        if wanted == self.now || !self.refused.allows(what, self.looks, seen) {
            return None;
        }
        self.trial = Some(Trial::new(what, self.now, seen));
        Some(self.set(wanted, why))
    }

    fn set(&mut self, wanted: Amounts, why: String) -> (Amounts, String) {
        self.settling = Some(self.now.prefetch.max(wanted.prefetch) as u64 + 3);
        self.now = wanted;
        self.quiet = Quiet::default();
        (wanted, why)
    }

    /// Ends a trial: keeps its setting if it helped, and restores the setting before it otherwise.
    fn conclude(&mut self, trial: &Trial, seen: &Stats) -> Option<(Amounts, String)> {
        if trial.is_about_something_else(seen) {
            return Some(self.set(trial.before, "the trainer's steps changed meanwhile".to_owned()));
        }
        if trial.has_helped(seen) {
            self.refused.forget(trial.what);
            return None;
        }
        self.refused.note(trial.what, self.looks, seen);
        Some(self.set(trial.before, trial.disappointment().to_owned()))
    }

    /// Any numbers, different ones each time.
    #[cfg(test)]
    fn any(&mut self) -> Amounts {
        self.looks += 1;
        let any = |stream: u64, most: u64| 1 + (crate::random::RandomKey::new(stream).bits(self.looks) % most) as usize;
        self.now = Amounts { workers: any(1, 9), prefetch: any(2, 11) };
        self.now
    }
}
