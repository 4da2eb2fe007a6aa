//! Workers that work all the time, or as much as they are allowed to.

use super::gain::{Bound, Gain, Scaling};
use super::judge::{Judge, OTHERS, QUEUED};
use super::kinds::{Change, Limit, Verdict};
use crate::stats::numbers::share;
use crate::stats::show::{Percent, Things};

/// The main work of workers that are always busy, and the evidence that it is the limit.
struct Work {
    stage: Option<&'static str>,
    name: &'static str,
    evidence: String,
}

impl Judge<'_> {
    /// The workers work all the time.
    pub(super) fn workers(&self) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages[1..]);
        let name = stage.map_or("what they do together", |stage| self.gerund(stage));
        let evidence = format!(
            "{name} is the limit ({} {} busy: {what}; no batch ready {} of the time)",
            Things(self.stats.workers.threads, "worker"),
            Percent(self.busy),
            Percent(1.0 - self.stats.queue.readiness())
        );
        let work = Work { stage, name, evidence };
        let gain = Gain::of(self.stats);
        if gain.queued >= QUEUED {
            return self.workers_without_core(&work, &gain);
        }
        if let Some(verdict) = self.workers_in_turn(&work, &gain) {
            return verdict;
        }
        if gain.workers > self.stats.workers.threads && gain.factor >= self.measure.gain {
            return self.more_workers(work, &gain);
        }
        self.enough_workers(work, &gain)
    }

    /// For a large part of their work they were ready to run but had no core.
    fn workers_without_core(&self, work: &Work, gain: &Gain) -> Verdict {
        let Work { stage, name, evidence } = work;
        let queued = Percent(gain.queued);
        if !gain.uses_all_cores {
            let evidence = format!("{evidence}, but {queued} of that time they could have run and had no core");
            return self.said(Limit::MachineBusy, *stage, evidence, OTHERS);
        }
        let evidence = format!("{evidence}, and {}", self.all_cores());
        let advice = match self.stats.workers.threads > self.stats.cores {
            true => format!(
                "more workers than cores gain nothing ({queued} of their time they waited for a core): make {name} \
                 cheaper, or use more cores"
            ),
            false => format!("make {name} cheaper, or use more cores"),
        };
        self.said(Limit::Workers, *stage, evidence, advice)
    }

    /// They wait for something that more workers would not speed up.
    fn workers_in_turn(&self, work: &Work, gain: &Gain) -> Option<Verdict> {
        let Work { stage, evidence, .. } = work;
        let (evidence, advice) = match gain.scaling {
            Scaling::Shared => (
                format!("{evidence}, and reading took longer the more workers read at the same time"),
                "the storage gives no more bytes per second: read fewer bytes, or use faster storage; more workers gain \
                 nothing",
            ),
            Scaling::Ahead => (
                format!("{evidence}, for bytes that were asked for ahead"),
                "the storage answers late: have more requests under way at the same time \
                 (`Storage::requests_in_flight`), or read fewer bytes; more workers gain nothing",
            ),
            Scaling::Locked => (
                format!(
                    "{evidence}, but {} of that time they waited for their turn to run the transforms' code",
                    Percent(gain.locked)
                ),
                "it runs one at a time, as functions in Python do: make it cheaper, or let transforms of the library do \
                 it; more workers gain nothing",
            ),
            Scaling::Memory => {
                let evidence = format!(
                    "{evidence}, but {} of that time they waited for memory that other workers held",
                    Percent(gain.memory)
                );
                let gives = self.foretold(gain.factor);
                let advice = format!(
                    "raise the memory budget (`budget_bytes`){gives}, or let samples need less memory; more workers gain nothing"
                );
                return Some(Verdict {
                    gain: Some(gain.factor),
                    ..self.said(Limit::Workers, *stage, evidence, advice)
                });
            }
            Scaling::Free | Scaling::Unknown => return None,
        };
        Some(self.said(Limit::Workers, *stage, evidence, advice))
    }

    fn more_workers(&self, work: Work, gain: &Gain) -> Verdict {
        let is_unknown = gain.scaling == Scaling::Unknown;
        let than = if is_unknown { "up to" } else { "about" };
        let why = match (gain.waits, is_unknown && work.stage != Some("read")) {
            (true, true) => {
                " (they mostly wait, and need no core for that; less where they wait for one another, as functions in Python do)"
            }
            (true, false) => " (they mostly wait, and need no core for that)",
            (false, true) => " (less where they wait for one another, as functions in Python do)",
            (false, false) => "",
        };
        let workers = Things(gain.workers, "worker");
        let advice = format!("{workers} would be expected to give {than} {:.1}x{why}", gain.factor);
        Verdict {
            change: Some(Change { setting: "workers", value: gain.workers }),
            gain: Some(gain.factor),
            is_gain_most: is_unknown,
            ..self.said(Limit::Workers, work.stage, work.evidence, advice)
        }
    }

    /// More workers would gain nothing, or too little.
    fn enough_workers(&self, work: Work, gain: &Gain) -> Verdict {
        let Work { stage, name, evidence } = work;
        let (stats, workers) = (self.stats, &self.stats.workers);
        let mean = share(workers.thread_seconds, self.seconds);
        if gain.workers <= workers.threads && mean < 0.9 * workers.threads as f64 {
            let advice = format!(
                "there were {mean:.1} workers on average, and are {} now: judge the difference of two snapshots",
                workers.threads
            );
            return self.said(Limit::Workers, stage, evidence, advice);
        }
        let then = match gain.bound {
            Bound::Cores => None,
            Bound::Trainer => Some("the trainer then is the limit"),
            Bound::Planning => Some("planning then is the limit"),
            Bound::Lock => Some("the transforms' code runs one at a time, as functions in Python do"),
            Bound::Ring => {
                Some("no more samples may be worked on at the same time: see `prefetch`, and batches that are held")
            }
        };
        if let Some(then) = then {
            let most = gain.factor.max(1.0);
            let advice = format!("make {name} cheaper; more workers would gain {most:.2}x at most, since {then}");
            return self.said(Limit::Workers, stage, evidence, advice);
        }
        let usable = stats.usable_cores();
        let cores = match usable.fract() > 0.0 {
            true => format!("{usable:.1} cores"),
            false => Things(stats.cores, "core").to_string(),
        };
        let (cores, more) = match workers.most_cores {
            Some(most) => (format!("{most:.1} of {cores}"), "let workers use more of them"),
            None => (cores, "use more cores"),
        };
        self.said(Limit::Workers, stage, format!("{evidence} on {cores}"), format!("make {name} cheaper, or {more}"))
    }

    /// The share of their time that the workers worked while the trainer waited, if it is known for most of its waits.
    pub(super) fn busy_when_waited(&self) -> Option<f64> {
        let stretches = self.stats.stretches;
        let threads = share(self.stats.workers.thread_seconds, self.seconds);
        let is_known = stretches.wait_seconds >= 0.5 * self.stats.trainer.wait_seconds && threads > 0.0;
        is_known.then(|| (stretches.wait_worker_seconds / stretches.wait_seconds / threads).min(1.0))
    }

    /// The workers work all the time in those parts of the run in which the trainer waits.
    pub(super) fn workers_at_times(&self, busy: f64) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages[1..]);
        let name = stage.map_or("what they do together", |stage| self.gerund(stage));
        let evidence = format!(
            "{name} is the limit at times ({} {} busy on average, and {} in those parts of the run in which it \
             waited: {what})",
            Things(self.stats.workers.threads, "worker"),
            Percent(self.busy),
            Percent(busy)
        );
        let advice = format!(
            "see what is different there, by the difference of two snapshots; more workers, or making {name} cheaper, help there \
             alone"
        );
        self.said(Limit::Workers, stage, evidence, advice)
    }

    /// The workers would work all the time if they were allowed to.
    pub(super) fn capped(&self) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages[1..]);
        let most = self.stats.workers.most_cores.unwrap_or(self.stats.cores as f64);
        let evidence = format!(
            "{} may use {most:.1} of {}, and rested {} of the time ({what})",
            Things(self.stats.workers.threads, "worker"),
            Things(self.stats.cores, "core"),
            Percent(self.rested)
        );
        let name = stage.map_or("what they do", |stage| self.gerund(stage));
        self.said(Limit::Capped, stage, evidence, format!("raise `worker_share`, or make {name} cheaper"))
    }
}
