//! What the figures of a run show: who waits for whom, and what to do about it.

mod gain;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

use gain::{Gain, Scaling};

use super::show::{Percent, Seconds};
use super::{Planning, StageStats, Stats, share};

/// From where on something counts.
#[derive(Clone, Copy)]
struct Measure {
    /// Who waits for less than this share of the time is not kept waiting.
    waits: f64,
    /// Less is not worth a change.
    gain: f64,
}

/// What is worth a person's time, and a machine's.
const PEOPLE: Measure = Measure { waits: 0.05, gain: 1.1 };
const TUNING: Measure = Measure { waits: 0.01, gain: 1.02 };
/// Waits for less than this share of the time explain nothing.
const WAITS: f64 = 0.05;
/// Threads that work for this share of the time have no time left to speak of: handing over takes some.
const SATURATED: f64 = 0.75;
/// Less than this was seen of a run: nothing can be said.
const FEWEST_BATCHES: u64 = 3;
const SHORTEST_SECONDS: f64 = 0.005;
/// Batches that come faster than this are as fast as they can be handed over.
const HAND_OFF_SECONDS: f64 = 50e-6;

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

/// What limits a run, with evidence, and what to do: see [`Stats::verdict`]. `Display` writes it as one sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What limits.
    pub limit: Limit,
    /// The stage that takes most of the time, if one stands out: a name of [`Stats::stages`].
    pub stage: Option<&'static str>,
    /// Share of the time that the trainer waited, from 0 to 1.
    pub waited: f64,
    /// Which figures show it, in words.
    pub evidence: String,
    /// What to do, in words.
    pub advice: String,
    /// The same as a setting, where it is one.
    pub change: Option<Change>,
    /// How many times as many samples a second are expected of that change, where the figures foretell it.
    pub gain: Option<f64>,
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

impl Stats {
    /// What limits the run, by these figures. Give the difference of two snapshots to judge the time between them, without the
    /// start of the run.
    ///
    /// It names only what the figures show: a stage whose threads have time left is not a bottleneck, and time in which a
    /// thread could have run but had no core is not work.
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

    /// The same for who acts upon it: by finer measures, and with the number of workers.
    pub(crate) fn finding(&self) -> Finding {
        let judge = Judge::of(self, TUNING);
        let verdict = judge.verdict();
        let gain = Gain::of(self, verdict.stage);
        let workers = self.workers.threads;
        // Nothing shared is used up, and yet that many are not enough: samples differ.
        let is_short = verdict.limit == Limit::Workers
            && gain.scaling != Scaling::Shared
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

/// What limits a run, for who acts upon it.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) limit: Limit,
    pub(crate) change: Option<Change>,
    /// As many workers as can be of use.
    pub(crate) workers: usize,
    pub(crate) evidence: String,
}

/// The figures as shares of the time.
struct Judge<'a> {
    stats: &'a Stats,
    measure: Measure,
    seconds: f64,
    waited: f64,
    /// Share of their time that the workers worked.
    busy: f64,
    /// ... and that they rested.
    rested: f64,
    plan: f64,
}

impl<'a> Judge<'a> {
    fn of(stats: &'a Stats, measure: Measure) -> Self {
        let seconds = stats.trainer.seconds();
        Self {
            stats,
            measure,
            seconds,
            waited: stats.trainer.waited(),
            busy: share(stats.workers.busy_seconds, seconds * stats.workers.threads as f64),
            rested: share(stats.workers.rested_seconds, seconds * stats.workers.threads as f64),
            plan: stats.stage("plan").map_or(0.0, |plan| share(plan.busy_seconds, seconds)),
        }
    }

    fn verdict(&self) -> Verdict {
        let trainer = &self.stats.trainer;
        if trainer.batches < FEWEST_BATCHES || self.seconds < SHORTEST_SECONDS {
            let evidence = format!("{} batches in {}", trainer.batches, Seconds(self.seconds));
            return self.said(Limit::TooLittleSeen, None, evidence, "let it run for longer");
        }
        if let Some(verdict) = self.upload() {
            return verdict;
        }
        if self.waited < self.measure.waits {
            return self.fed();
        }
        if self.stats.workers.threads == 0 {
            return self.shield();
        }
        if self.busy >= SATURATED {
            return self.workers();
        }
        if self.rested >= 0.25 && self.busy + self.rested >= SATURATED {
            return self.capped();
        }
        self.idle_workers()
    }

    fn said(
        &self,
        limit: Limit,
        stage: Option<&'static str>,
        evidence: impl Into<String>,
        advice: impl Into<String>,
    ) -> Verdict {
        let (evidence, advice) = (evidence.into(), advice.into());
        Verdict { limit, stage, waited: self.waited, evidence, advice, change: None, gain: None }
    }

    /// The trainer waits for the device though the loader is not late, or copies are under way all the time: a trainer may
    /// leave waiting for them to the device.
    fn upload(&self) -> Option<Verdict> {
        let upload = self.stats.upload?;
        let [copies, loader, trainer] = [upload.copy_wait_seconds, upload.load_wait_seconds, upload.slot_wait_seconds]
            .map(|wait| share(wait, self.seconds));
        let is_waited_for = self.waited >= WAITS && loader < 0.25 * self.waited;
        let takes_all = copies >= 0.9 && loader < WAITS && trainer < WAITS;
        if !is_waited_for && !takes_all {
            return None;
        }
        let rate = share(upload.bytes as f64, self.seconds) / 1e6;
        let late = format!("the loader was late for {} of the time", Percent(loader));
        let (evidence, advice) = match copies >= 0.5 * self.waited {
            true => (
                format!("copies to the device are the limit (under way {}, {rate:.0} MB/s; {late})", Percent(copies)),
                "copy fewer bytes (images as bytes, converted on the device), let batches lie in the device's own pages, or use \
                 a faster link",
            ),
            false => (
                format!("what is computed on the device from copies is the limit (copies {}; {late})", Percent(copies)),
                "convert less there, or have the loader's workers do it",
            ),
        };
        Some(self.said(Limit::Upload, None, evidence, advice))
    }

    /// The trainer does not wait.
    fn fed(&self) -> Verdict {
        let busiest = self.busy.max(self.plan);
        let ready = Percent(self.stats.trainer.readiness());
        let who = if self.plan > self.busy { "planning" } else { "the workers" };
        let evidence = format!("{ready} of the batches were ready when it asked ({who} {} busy)", Percent(busiest));
        if busiest >= SATURATED {
            let advice = "both keep up with each other: to go faster, both must become faster";
            return self.said(Limit::Balanced, None, evidence, advice);
        }
        let most = 1.0 / (1.0 - self.waited);
        let gain = if most < 1.01 { "nothing".to_owned() } else { format!("{most:.2}x at most") };
        self.said(Limit::Trainer, None, evidence, format!("a faster loader would gain {gain}"))
    }

    fn shield(&self) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages);
        let evidence = format!("batches are made on its own thread, when it asks for them ({what})");
        let advice = "leave the shield out, so that they are made ahead on other threads";
        let (made, used) = (self.stats.trainer.wait_seconds, self.stats.trainer.busy_seconds);
        Verdict {
            change: Some(Change { setting: "shield", value: 0 }),
            gain: Some(share(self.seconds, made.max(used))),
            ..self.said(Limit::Shield, stage, evidence, advice)
        }
    }

    /// The workers work all the time.
    fn workers(&self) -> Verdict {
        let (stats, workers) = (self.stats, &self.stats.workers);
        let (stage, what) = self.main_stage(&stats.stages[1..]);
        let name = stage.map_or("what they do together", |stage| self.gerund(stage));
        let gain = Gain::of(stats, stage);
        let empty = 1.0 - stats.queue.readiness();
        let shown = format!(
            "{name} is the limit ({} {} busy: {what}; no batch ready {} of the time)",
            counted(workers.threads, "worker"),
            Percent(self.busy),
            Percent(empty)
        );
        if gain.queued >= 0.25 {
            let queued = Percent(gain.queued);
            if gain.uses_all_cores {
                let evidence = format!("{shown}, and all {} cores are at work", stats.cores);
                let advice = match workers.threads > stats.cores {
                    true => format!(
                        "more workers than cores gain nothing ({queued} of their time they waited for a core): make {name} \
                         cheaper, or use more cores"
                    ),
                    false => format!("make {name} cheaper, or use more cores"),
                };
                return self.said(Limit::Workers, stage, evidence, advice);
            }
            let evidence = format!("{shown}, but {queued} of that time they could have run and had no core");
            let advice = "other programs take the cores: end them, or measure when they have ended";
            return self.said(Limit::MachineBusy, stage, evidence, advice);
        }
        if gain.scaling == Scaling::Shared {
            let evidence = format!("{shown}, and reading took longer the more workers read at the same time");
            let advice = "the storage gives no more bytes a second: read fewer bytes, or use faster storage; more workers gain \
                          nothing";
            return self.said(Limit::Workers, stage, evidence, advice);
        }
        if gain.workers > workers.threads && gain.factor >= self.measure.gain {
            let than = if gain.scaling == Scaling::Unknown { "up to" } else { "about" };
            let why = match gain.waits {
                true => " (they mostly wait, and need no core for that)",
                false => "",
            };
            let advice = format!(
                "{} would be expected to give {than} {:.1}x{why}",
                counted(gain.workers, "worker"),
                gain.factor
            );
            return Verdict {
                change: Some(Change { setting: "workers", value: gain.workers }),
                gain: Some(gain.factor),
                ..self.said(Limit::Workers, stage, shown, advice)
            };
        }
        let (cores, more) = match workers.most_cores {
            Some(most) => (format!("{most:.1} of {}", counted(stats.cores, "core")), "let workers use more of them"),
            None => (counted(stats.cores, "core"), "use more cores"),
        };
        self.said(Limit::Workers, stage, format!("{shown} on {cores}"), format!("make {name} cheaper, or {more}"))
    }

    /// The workers would work all the time if they might.
    fn capped(&self) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages[1..]);
        let most = self.stats.workers.most_cores.unwrap_or(self.stats.cores as f64);
        let evidence = format!(
            "{} may use {most:.1} of {}, and rested {} of the time ({what})",
            counted(self.stats.workers.threads, "worker"),
            counted(self.stats.cores, "core"),
            Percent(self.rested)
        );
        let name = stage.map_or("what they do", |stage| self.gerund(stage));
        self.said(Limit::Capped, stage, evidence, format!("raise `worker_share`, or make {name} cheaper"))
    }

    /// The trainer waits, and the workers have time left.
    fn idle_workers(&self) -> Verdict {
        let (stats, queue) = (self.stats, &self.stats.queue);
        let idle = Percent(1.0 - self.busy);
        if share(queue.planning_slot_seconds, self.seconds) >= 0.25 {
            let held = share(stats.ring.held_seconds, self.seconds);
            let evidence = format!(
                "it held {held:.1} batches at a time, so that there was no slot to fill for {} of the time (workers idle {idle})",
                Percent(share(queue.planning_slot_seconds, self.seconds))
            );
            let hold = (held.ceil() as usize).max(1);
            let advice = format!("drop batches sooner, copy those that must stay (`detach`), or set `hold = {hold}`");
            return Verdict {
                change: Some(Change { setting: "hold", value: hold }),
                ..self.said(Limit::HeldBatches, None, evidence, advice)
            };
        }
        if self.plan >= SATURATED {
            return self.planning();
        }
        let waits = [queue.wait_plan_seconds, queue.wait_fill_seconds, queue.wait_behind_seconds];
        let [plan, fill, behind] = waits.map(|wait| share(wait, stats.trainer.wait_seconds.max(f64::MIN_POSITIVE)));
        if share(self.seconds, stats.trainer.batches as f64) < HAND_OFF_SECONDS {
            let each = Seconds(share(self.seconds, stats.trainer.batches as f64));
            let evidence =
                format!("a batch comes every {each}, which is what handing it over takes (workers idle {idle})");
            return self.said(Limit::HandOff, None, evidence, "make batches larger");
        }
        let queued = share(stats.workers.queued_seconds.unwrap_or(0.0), self.seconds * stats.workers.threads as f64);
        // More than they worked, and a good part of what the trainer waited.
        let is_late = queued >= WAITS && queued > self.busy && queued >= 0.4 * self.waited;
        if is_late && Gain::of(stats, None).uses_all_cores {
            return self.workers();
        }
        if is_late {
            let evidence = format!("the workers could have run for {} of the time and had no core", Percent(queued));
            let advice = "other programs take the cores: end them, or measure when they have ended";
            return self.said(Limit::MachineBusy, None, evidence, advice);
        }
        if behind >= 0.4 {
            return self.slow_samples(behind);
        }
        if plan >= 0.5 && self.plan >= 0.5 * self.waited {
            return self.planning();
        }
        let is_full = share(queue.planning_full_seconds, self.seconds) >= 0.2;
        if fill + behind >= 0.5 && is_full {
            return self.shallow_ring();
        }
        let evidence = format!("yet the workers were idle {idle}, and planning was busy {}", Percent(self.plan));
        let advice =
            "the figures do not show what it waited for: see whether other values of workers and prefetch change it";
        self.said(Limit::Unclear, None, evidence, advice)
    }

    fn planning(&self) -> Verdict {
        let (what, advice) = match self.stats.planning {
            Planning::Order => ("choosing samples", "the source plans slowly: larger batches may help"),
            Planning::Stream => (
                "reading the records, which can only be read in order,",
                "unpack the file, so that all workers can read it, or split it into several",
            ),
            Planning::Iterator => (
                "your own iterator",
                "let it give less, such as names or bytes, and do the work in the workers (a container or a transform of \
                 your own)",
            ),
        };
        let idle = Percent(1.0 - self.busy);
        let evidence = format!("{what} is the limit (one thread, busy {}; workers idle {idle})", Percent(self.plan));
        self.said(Limit::Planning, Some("plan"), evidence, advice)
    }

    fn slow_samples(&self, behind: f64) -> Verdict {
        let queue = &self.stats.queue;
        let slowest =
            self.stats.slowest.first().map_or_else(String::new, |slow| {
                format!("; the slowest took {}: {}", Seconds(slow.seconds()), slow.name)
            });
        let evidence = format!(
            "for {} of that, one batch held up others that were ready (workers idle {}{slowest})",
            Percent(behind),
            Percent(1.0 - self.busy)
        );
        let value = 4 * queue.prefetch.max(1);
        let advice =
            format!("make those samples cheaper or leave them out; `prefetch = {value}` rides over more of them");
        Verdict {
            change: Some(Change { setting: "prefetch", value }),
            ..self.said(Limit::SlowSamples, None, evidence, advice)
        }
    }

    fn shallow_ring(&self) -> Verdict {
        let (queue, steps) = (&self.stats.queue, &self.stats.trainer.steps);
        let full = Percent(share(queue.planning_full_seconds, self.seconds));
        let idle = Percent(1.0 - self.busy);
        let ahead = counted(queue.prefetch, "batch");
        // Of the longest steps and the waits in between, as many as a burst may have.
        let is_bursty = steps.p99_seconds > 4.0 * steps.p50_seconds.max(1e-6) && queue.readiness() >= 0.2;
        let ahead_of = |value: usize| share((value + 1) as f64, (queue.prefetch + 1) as f64);
        let (what, value, deeper) = match is_bursty {
            true => ("it takes batches in bursts", 4 * queue.prefetch.max(1), f64::INFINITY),
            // As many times as many are made at the same time.
            false => {
                let value = 2 * queue.prefetch.max(1);
                ("too few batches are made at the same time", value, ahead_of(value))
            }
        };
        let evidence = format!(
            "{what}: {ahead} may be ahead, and for {full} of the time no more could be begun (workers idle {idle})"
        );
        // What the workers could do at most, and the trainer.
        let gain = share(1.0, self.busy.max(1.0 - self.waited)).min(deeper);
        let advice = format!("`prefetch = {value}` would be expected to give about {gain:.1}x");
        Verdict {
            change: Some(Change { setting: "prefetch", value }),
            gain: Some(gain),
            ..self.said(Limit::ShallowRing, None, evidence, advice)
        }
    }

    /// The stage that takes most of the work, if it is half of it; and the two that take most, in words.
    fn main_stage(&self, stages: &[StageStats]) -> (Option<&'static str>, String) {
        let all: f64 = stages.iter().map(|stage| stage.busy_seconds).sum();
        let mut sorted: Vec<&StageStats> = stages.iter().collect();
        sorted.sort_by(|a, b| b.busy_seconds.total_cmp(&a.busy_seconds));
        let part = |stage: &StageStats| share(stage.busy_seconds, all);
        let words: Vec<String> = sorted
            .iter()
            .take(2)
            .filter(|stage| part(stage) >= 0.01)
            .map(|stage| format!("{} {}", self.gerund(stage.name), Percent(part(stage))))
            .collect();
        let main = sorted.first().filter(|stage| part(stage) >= 0.5).map(|stage| stage.name);
        (main, words.join(", "))
    }

    fn gerund(&self, stage: &'static str) -> &'static str {
        match (stage, self.stats.planning) {
            ("plan", Planning::Order) => "planning",
            ("plan", Planning::Stream) => "reading in order",
            ("plan", Planning::Iterator) => "your iterator",
            ("read", _) => "reading",
            ("decode", _) => "decoding",
            ("transform", _) => "the transforms' code",
            ("settle", _) => "settling bad records",
            _ => stage,
        }
    }
}

fn counted(number: usize, name: &str) -> String {
    let plural = match number {
        1 => "",
        _ if name.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {name}{plural}")
}
