//! Conclusions from the statistics of a run: who waits for whom, and what to change.

mod gain;
mod judge;
mod kinds;
mod planning;
#[cfg(test)]
mod tests;
mod trainer;
mod upload;
mod waits;
mod workers;

use super::Stats;
use super::show::{Seconds, Things};
use gain::{Gain, Scaling};
use judge::{Judge, PEOPLE, SATURATED, TUNING};
pub use kinds::{Change, Limit, Verdict};

/// With fewer batches, or in a shorter time, no conclusion is possible.
const FEWEST_BATCHES: u64 = 3;
const SHORTEST_SECONDS: f64 = 0.005;
/// With fewer batches, a single one that the trainer waited for may just be the first.
const FEW_BATCHES: u64 = 16;

impl Stats {
    /// What limits the run, by these statistics. To judge the run without its start, call this on the difference of two
    /// snapshots.
    ///
    /// It names only limits that the statistics show. A stage whose threads have time left is not a bottleneck. Time in
    /// which a thread was ready to run but had no core is not work.
    ///
    /// ```
    /// use ringfeed::{DataSetIterator, Loader};
    ///
    /// let mut train = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(10).build()?;
    /// for batch in train.epoch()? {
    ///     std::thread::sleep(std::time::Duration::from_millis(5)); // a slow step
    ///     drop(batch?);
    /// }
    /// println!("{}", train.stats().verdict()); // trainer-bound: the trainer waited 0.9 % of the time; ...
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Judge::of(self, PEOPLE).verdict();
        let is_tuned = |change: &Change| match (change.setting, &self.tuning) {
            ("workers", Some(tuning)) => tuning.workers,
            ("prefetch", Some(tuning)) => tuning.prefetch,
            _ => false,
        };
        if let Some(change) = verdict.change.filter(is_tuned) {
            verdict.advice = format!(
                "{}; {} is `auto`: it tries that, or has found that it does not help",
                verdict.advice, change.setting
            );
            (verdict.change, verdict.gain) = (None, None);
        }
        verdict
    }

    /// The same for tuning: with finer thresholds, and with the number of workers.
    pub(crate) fn finding(&self) -> Finding {
        let judge = Judge::of(self, TUNING);
        let verdict = judge.verdict();
        let gain = Gain::of(self);
        let workers = self.workers.threads;
        // Nothing shared is used up, but this number is not enough, because samples differ.
        let is_short = verdict.limit == Limit::Workers
            && !matches!(gain.scaling, Scaling::Shared | Scaling::Locked | Scaling::Ahead | Scaling::Memory)
            && !gain.uses_all_cores
            && gain.queued < 0.1
            && gain.workers >= workers;
        let one_more = is_short.then_some(Change { setting: "workers", value: workers + 1 });
        Finding {
            limit: verdict.limit,
            change: verdict.change.or(one_more),
            workers: gain.workers,
            evidence: verdict.evidence,
        }
    }
}

/// What limits a run, for tuning.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) limit: Limit,
    pub(crate) change: Option<Change>,
    /// The largest useful number of workers.
    pub(crate) workers: usize,
    pub(crate) evidence: String,
}

impl Judge<'_> {
    fn verdict(&self) -> Verdict {
        let trainer = &self.stats.trainer;
        let batches = Things(trainer.batches, "batch");
        if trainer.batches < FEWEST_BATCHES || self.seconds < SHORTEST_SECONDS {
            let evidence = format!("{batches} in {}", Seconds(self.seconds));
            return self.said(Limit::TooLittleSeen, None, evidence, "let it run for longer");
        }
        let is_one = trainer.batches - trainer.ready.min(trainer.batches) == 1;
        if is_one && trainer.batches < FEW_BATCHES {
            let evidence = format!("one of {batches} was waited for, which is usual for the first");
            return self.said(Limit::TooLittleSeen, None, evidence, "let it run for longer");
        }
        if let Some(verdict) = self.upload() {
            return verdict;
        }
        if self.waited < self.measure.waits {
            return self.fed();
        }
        if self.stats.workers.threads == 0 {
            return if self.is_out_of_slots() { self.held_batches() } else { self.shield() };
        }
        if is_one && self.stats.upload.is_none() {
            let evidence = format!("all of that for one of {batches}, which is usual for the first");
            let advice = "a faster loader would gain nothing after it: judge the difference of two snapshots";
            return self.said(Limit::Trainer, None, evidence, advice);
        }
        if let Some(verdict) = self.epoch_edges() {
            return verdict;
        }
        if self.busy >= SATURATED {
            return self.workers();
        }
        if let Some(busy) = self.busy_when_waited().filter(|busy| *busy >= SATURATED && !self.lacks_cores()) {
            return self.workers_at_times(busy);
        }
        if self.rested >= 0.25 && self.busy + self.rested >= SATURATED {
            return self.capped();
        }
        self.idle_workers()
    }
}
