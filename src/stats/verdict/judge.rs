//! What figures show: which of them explain what the trainer waited for.

use std::fmt::Write as _;

use super::gain::{Bound, Gain, Scaling};
use super::kinds::{Change, Limit, Verdict};
use crate::stats::show::{Percent, Seconds};
use crate::stats::{Planning, SlowSample, StageStats, Stats, share};

/// From where on something counts.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    /// Who waits for less than this share of the time is not kept waiting.
    waits: f64,
    /// Less is not worth a change.
    gain: f64,
}

/// What is worth a person's time, and a machine's.
pub(super) const PEOPLE: Measure = Measure { waits: 0.05, gain: 1.1 };
pub(super) const TUNING: Measure = Measure { waits: 0.01, gain: 1.02 };
/// Waits for less than this share of the time explain nothing.
const WAITS: f64 = 0.05;
/// Share of the workers' work in which they could have run but had no core: less is what the cores' scheduling takes.
const QUEUED: f64 = 0.25;
/// Threads that work for this share of the time have no time left to speak of: handing over takes some.
const SATURATED: f64 = 0.75;
/// Less than this was seen of a run: nothing can be said.
const FEWEST_BATCHES: u64 = 3;
const SHORTEST_SECONDS: f64 = 0.005;
/// Of fewer batches than these, a single one that was waited for is perhaps only the first.
const FEW_BATCHES: u64 = 16;
/// What is done about other programs.
const OTHERS: &str = "other programs take the cores: end them, or measure when they have ended";
/// What it takes to wake a thread at most, if there is a core for it.
const WAKE_SECONDS: f64 = 250e-6;
/// Batches that come faster than this are as fast as they can be handed over.
const HAND_OFF_SECONDS: f64 = 50e-6;

/// The figures as shares of the time.
pub(super) struct Judge<'a> {
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
    pub(super) fn of(stats: &'a Stats, measure: Measure) -> Self {
        let seconds = stats.trainer.seconds();
        Self {
            stats,
            measure,
            seconds,
            waited: stats.trainer.waited(),
            busy: stats.workers.utilisation(),
            rested: stats.workers.share(stats.workers.rested_seconds),
            plan: stats.stage("plan").map_or(0.0, StageStats::utilisation),
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        let trainer = &self.stats.trainer;
        let batches = counted(trainer.batches as usize, "batch");
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
            return self.shield();
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
        if let Some(busy) = self.busy_when_waited().filter(|busy| *busy >= SATURATED) {
            return self.workers_at_times(busy);
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
        Verdict { limit, stage, waited: self.waited, evidence, advice, change: None, gain: None, is_gain_most: false }
    }

    /// The trainer waits for the device though the loader is not late, or copies are under way all the time: a trainer may
    /// leave waiting for them to the device.
    fn upload(&self) -> Option<Verdict> {
        let upload = self.stats.upload?;
        let [copies, loader, trainer] = [upload.copy_wait_seconds, upload.load_wait_seconds, upload.slot_wait_seconds]
            .map(|wait| share(wait, self.seconds));
        // Where the loader works all the time, being late at all makes it the limit.
        let is_loader_full = self.busy.max(self.plan) >= SATURATED;
        let is_waited_for = self.waited >= WAITS && loader < if is_loader_full { 0.05 } else { 0.25 } * self.waited;
        let takes_all = copies >= 0.9 && loader < WAITS && trainer < WAITS;
        if !is_waited_for && !takes_all {
            return None;
        }
        let rate = share(upload.bytes as f64, self.seconds) / 1e6;
        // What bounds the rest: the trainer where it waits for the device by itself, and the workers.
        let gain = share(1.0, (copies / 2.0).max(1.0 - self.waited).max(self.busy));
        let gain = Some(gain).filter(|gain| is_waited_for && copies >= 0.5 * self.waited && *gain >= self.measure.gain);
        let half = gain
            .map_or_else(String::new, |gain| format!("; half the bytes would be expected to give about {gain:.1}x"));
        let late = format!("the loader was late for {} of the time", Percent(loader));
        let (evidence, advice) = match copies >= 0.5 * self.waited {
            true => (
                format!("copies to the device are the limit (under way {}, {rate:.0} MB/s; {late})", Percent(copies)),
                "copy fewer bytes (images as bytes, converted on the device), let batches lie in the device's own pages, or use \
                 a faster link"
                    .to_owned()
                    + &half,
            ),
            false => (
                format!("what is computed on the device from copies is the limit (copies {}; {late})", Percent(copies)),
                "convert less there, or have the loader's workers do it".to_owned(),
            ),
        };
        Some(Verdict { gain, ..self.said(Limit::Upload, None, evidence, advice) })
    }

    /// The trainer does not wait.
    fn fed(&self) -> Verdict {
        let busiest = self.busy.max(self.plan);
        let (batches, ahead) = (self.stats.trainer.batches, self.stats.queue.prefetch as u64 + 1);
        // Where little was worked, that is the trainer's time all the same.
        if busiest >= SATURATED && self.stats.workers.threads > 0 && batches <= ahead {
            let evidence = format!("{batches} batches, all of which could be made before they were asked for");
            return self.said(Limit::TooLittleSeen, None, evidence, "let it run for longer");
        }
        let ready = Percent(self.stats.trainer.readiness());
        let who = if self.plan > self.busy { "planning" } else { "the workers" };
        let evidence = match self.stats.workers.threads {
            0 => "that is what batches take that are made on its own thread".to_owned(),
            _ if self.stats.trainer.readiness() < 0.5 => {
                let wait = Seconds(self.stats.trainer.waits.p99_seconds);
                format!("99 of 100 batches came within {wait} when it asked ({who} {} busy)", Percent(busiest))
            }
            _ => format!("{ready} of the batches were ready when it asked ({who} {} busy)", Percent(busiest)),
        };
        if busiest >= SATURATED {
            let advice = "both keep up with each other: to go faster, both must become faster";
            return self.said(Limit::Balanced, None, evidence, advice);
        }
        let most = 1.0 / (1.0 - self.waited);
        let gain = if most < 1.01 { "nothing".to_owned() } else { format!("{most:.2}x at most") };
        let mut advice = format!("a faster loader would gain {gain}");
        if self.busy >= WAITS && Gain::of(self.stats).uses_all_cores {
            let _ = write!(advice, ", but {}: a loader that needs less of them leaves it more", self.all_cores());
        }
        self.said(Limit::Trainer, None, evidence, advice)
    }

    /// That there are no more.
    fn all_cores(&self) -> String {
        let (stats, usable) = (self.stats, self.stats.usable_cores());
        if stats.core_quota.is_some_and(|quota| quota == usable && quota.fract() > 0.0) {
            return format!("all time is used that its control group leaves it ({usable:.1} cores)");
        }
        match stats.cores {
            1 => "the only core is at work".to_owned(),
            cores => format!("all {cores} cores are at work"),
        }
    }

    fn shield(&self) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages);
        let evidence = format!("batches are made on its own thread, when it asks for them ({what})");
        let advice = "leave the shield out, so that they are made ahead on other threads";
        // By all workers that there would be, as far as there are cores for what needs one.
        let on_core: f64 = self.stats.stages.iter().map(|stage| stage.cpu_seconds.unwrap_or(stage.busy_seconds)).sum();
        let (waited, used) = (self.stats.trainer.wait_seconds, self.stats.trainer.busy_seconds);
        let made = (waited / self.stats.unshielded.max(1) as f64).max(on_core / self.stats.cores.max(1) as f64);
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
        let gain = Gain::of(stats);
        let empty = 1.0 - stats.queue.readiness();
        let shown = format!(
            "{name} is the limit ({} {} busy: {what}; no batch ready {} of the time)",
            counted(workers.threads, "worker"),
            Percent(self.busy),
            Percent(empty)
        );
        if gain.queued >= QUEUED {
            let queued = Percent(gain.queued);
            if gain.uses_all_cores {
                let evidence = format!("{shown}, and {}", self.all_cores());
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
            return self.said(Limit::MachineBusy, stage, evidence, OTHERS);
        }
        if gain.scaling == Scaling::Shared {
            let evidence = format!("{shown}, and reading took longer the more workers read at the same time");
            let advice = "the storage gives no more bytes a second: read fewer bytes, or use faster storage; more workers gain \
                          nothing";
            return self.said(Limit::Workers, stage, evidence, advice);
        }
        if gain.scaling == Scaling::Ahead {
            let evidence = format!("{shown}, for bytes that were asked for ahead");
            let advice = "the storage answers late: have more requests under way at the same time (`requests_in_flight`), or \
                          read fewer bytes; more workers gain nothing";
            return self.said(Limit::Workers, stage, evidence, advice);
        }
        if gain.scaling == Scaling::Locked {
            let evidence = format!(
                "{shown}, but {} of that time they waited for their turn to run the transforms' code",
                Percent(gain.locked)
            );
            let advice = "it runs one at a time, as functions in Python do: make it cheaper, or let transforms of the library do \
                          it; more workers gain nothing";
            return self.said(Limit::Workers, stage, evidence, advice);
        }
        if gain.workers > workers.threads && gain.factor >= self.measure.gain {
            let than = if gain.scaling == Scaling::Unknown { "up to" } else { "about" };
            let is_less = gain.scaling == Scaling::Unknown && stage != Some("read");
            let why = match (gain.waits, is_less) {
                (true, true) => {
                    " (they mostly wait, and need no core for that; less where they wait for one another, as functions in Python do)"
                }
                (true, false) => " (they mostly wait, and need no core for that)",
                (false, true) => " (less where they wait for one another, as functions in Python do)",
                (false, false) => "",
            };
            let advice = format!(
                "{} would be expected to give {than} {:.1}x{why}",
                counted(gain.workers, "worker"),
                gain.factor
            );
            return Verdict {
                change: Some(Change { setting: "workers", value: gain.workers }),
                gain: Some(gain.factor),
                is_gain_most: gain.scaling == Scaling::Unknown,
                ..self.said(Limit::Workers, stage, shown, advice)
            };
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
        let mean = share(workers.thread_seconds, self.seconds);
        if gain.workers <= workers.threads && mean < 0.9 * workers.threads as f64 {
            let advice = format!(
                "there were {mean:.1} workers in the mean, and are {} now: judge the difference of two snapshots",
                workers.threads
            );
            return self.said(Limit::Workers, stage, shown, advice);
        }
        if let Some(then) = then {
            let most = gain.factor.max(1.0);
            let advice = format!("make {name} cheaper; more workers would gain {most:.2}x at most, since {then}");
            return self.said(Limit::Workers, stage, shown, advice);
        }
        let usable = stats.usable_cores();
        let cores = if usable.fract() > 0.0 { format!("{usable:.1} cores") } else { counted(stats.cores, "core") };
        let (cores, more) = match workers.most_cores {
            Some(most) => (format!("{most:.1} of {cores}"), "let workers use more of them"),
            None => (cores, "use more cores"),
        };
        self.said(Limit::Workers, stage, format!("{shown} on {cores}"), format!("make {name} cheaper, or {more}"))
    }

    /// Most of what the trainer waited was for the first batches of epochs.
    fn epoch_edges(&self) -> Option<Verdict> {
        let (stats, trainer) = (self.stats, &self.stats.trainer);
        let of_waits = share(trainer.edge_wait_seconds, trainer.wait_seconds);
        // More than for other batches, not only many of them.
        let others = share(
            trainer.wait_seconds - trainer.edge_wait_seconds,
            trainer.batches.saturating_sub(trainer.epochs) as f64,
        );
        let is_more = trainer.edge_wait_seconds >= 3.0 * others * trainer.epochs as f64;
        // Where each epoch is one batch, waiting for all of them says nothing; workers that are never idle then do.
        let is_each_one = trainer.batches <= trainer.epochs && self.busy >= SATURATED;
        if trainer.epochs < 2 || of_waits < 0.5 || !is_more || is_each_one || stats.upload.is_some() {
            return None;
        }
        let each = Seconds(trainer.edge_wait_seconds / trainer.epochs as f64);
        let evidence = format!(
            "{} of that for the first batch of an epoch, {each} for each of {} epochs",
            Percent(of_waits.min(1.0)),
            trainer.epochs
        );
        let advice = match stats.planning {
            Planning::Order | Planning::Lengths => {
                "let batches be made across the end of an epoch (`across_epochs`, and epochs that are taken to their end), or make \
                 epochs longer"
            }
            Planning::Stream | Planning::Iterator => {
                "make epochs longer, or beginning one cheaper: a stream begins again only when it is asked to"
            }
        };
        Some(self.said(Limit::EpochEdges, None, evidence, advice))
    }

    /// Share of their time that the workers worked where the trainer waited, if that is known of most of its waits.
    fn busy_when_waited(&self) -> Option<f64> {
        let stretches = self.stats.stretches;
        let threads = share(self.stats.workers.thread_seconds, self.seconds);
        let is_known = stretches.wait_seconds >= 0.5 * self.stats.trainer.wait_seconds && threads > 0.0;
        is_known.then(|| (stretches.wait_worker_seconds / stretches.wait_seconds / threads).min(1.0))
    }

    /// The workers work all the time in those parts of the run in which the trainer waits.
    fn workers_at_times(&self, busy: f64) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages[1..]);
        let name = stage.map_or("what they do together", |stage| self.gerund(stage));
        let evidence = format!(
            "{name} is the limit at times ({} {} busy in the mean, and {} in those parts of the run in which it waited: {what})",
            counted(self.stats.workers.threads, "worker"),
            Percent(self.busy),
            Percent(busy)
        );
        let advice = format!(
            "see what is different there, by the difference of two snapshots; more workers, or making {name} cheaper, help there \
             alone"
        );
        self.said(Limit::Workers, stage, evidence, advice)
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
                Percent(share(queue.planning_slot_seconds, self.seconds).min(1.0))
            );
            let hold = (held.ceil() as usize).max(1);
            // As many at the same time as there may be ahead, instead of those for which there was a slot.
            let (now, then) = (queue.mean_filling() + queue.mean_ready(), (queue.prefetch + 1) as f64);
            let gain = self.at_most().min(if now > 0.0 { then / now } else { f64::INFINITY });
            let gives = self.foretold(gain);
            let advice =
                format!("drop batches sooner, copy those that must stay (`detach`), or set `hold = {hold}`{gives}");
            return Verdict {
                change: Some(Change { setting: "hold", value: hold }),
                gain: Some(gain).filter(|gain| *gain >= self.measure.gain),
                ..self.said(Limit::HeldBatches, None, evidence, advice)
            };
        }
        if let Some(verdict) = self.planning_without_core() {
            return verdict;
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
        let queued = stats.workers.share(stats.workers.queued_seconds.unwrap_or(0.0));
        // More than they worked, and a good part of what the trainer waited.
        let wait_for_cores = queued > self.busy && queued >= 0.4 * self.waited;
        let gain = Gain::of(stats);
        // Batches that are begun earlier would wait for the same cores.
        let share_all_cores = gain.uses_all_cores && gain.queued >= QUEUED;
        if queued >= WAITS && (wait_for_cores || share_all_cores) {
            return self.without_core("the workers", queued);
        }
        if let Some(verdict) = self.woken_late() {
            return verdict;
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

    /// Who could have run for this share of the time, and had no core.
    fn without_core(&self, who: &str, queued: f64) -> Verdict {
        let evidence = format!("{who} could have run for {} of the time and had no core", Percent(queued));
        if !Gain::of(self.stats).uses_all_cores {
            return self.said(Limit::MachineBusy, None, evidence, OTHERS);
        }
        let (stage, what) = self.main_stage(&self.stats.stages[1..]);
        let name = stage.map_or("what they do", |stage| self.gerund(stage));
        let evidence = format!("{evidence}: {} ({what})", self.all_cores());
        self.said(Limit::Workers, stage, evidence, format!("make {name} cheaper, or use more cores"))
    }

    /// The trainer waits for plans, and the thread that makes them waits for a core.
    fn planning_without_core(&self) -> Option<Verdict> {
        let (plan, waited) = (&self.stats.stages[0], self.stats.queue.wait_plan_seconds);
        let queued = plan.queued_seconds?;
        let is_waited_for = waited >= 0.5 * self.stats.trainer.wait_seconds && queued >= 0.4 * waited;
        let queued = share(queued, self.seconds).min(1.0);
        (is_waited_for && queued >= WAITS && queued >= 0.5 * self.plan).then(|| self.without_core("planning", queued))
    }

    /// For most of what it waited, its batch was ready: it was told, and had no core, or telling it takes that long.
    fn woken_late(&self) -> Option<Verdict> {
        let (trainer, queue) = (&self.stats.trainer, &self.stats.queue);
        let waits =
            queue.wait_plan_seconds + queue.wait_slot_seconds + queue.wait_fill_seconds + queue.wait_behind_seconds;
        let late = trainer.wait_seconds - waits;
        if self.stats.upload.is_some() || late < 0.5 * trainer.wait_seconds {
            return None;
        }
        let each = share(late, trainer.batches.saturating_sub(trainer.ready) as f64);
        if each <= WAKE_SECONDS {
            let batch = Seconds(share(self.seconds, trainer.batches as f64));
            let evidence =
                format!("it took {} to wake it for a batch that was ready, and one comes every {batch}", Seconds(each));
            return Some(self.said(Limit::HandOff, None, evidence, "make batches larger"));
        }
        Some(self.without_core("the trainer's thread", share(late, self.seconds)))
    }

    fn planning(&self) -> Verdict {
        let (what, advice) = match self.stats.planning {
            Planning::Order => ("choosing samples", "the source plans slowly: larger batches may help"),
            Planning::Lengths => (
                "choosing samples and measuring their lengths",
                "the source measures slowly: tensors of one length need no measuring",
            ),
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
        let gain = self.gain_by_riding_over(value);
        let gives = gain.map_or_else(String::new, |gain| self.foretold(gain));
        let advice = format!(
            "make those samples cheaper or leave them out; `prefetch = {value}` rides over more of them{gives}"
        );
        Verdict {
            change: Some(Change { setting: "prefetch", value }),
            gain: gain.filter(|gain| *gain >= self.measure.gain),
            ..self.said(Limit::SlowSamples, None, evidence, advice)
        }
    }

    /// What a deeper ring gives where slow samples stop it: each keeps the others waiting for as long as it takes, less the
    /// batches that are ahead meanwhile.
    fn gain_by_riding_over(&self, prefetch: usize) -> Option<f64> {
        let queue = &self.stats.queue;
        // Those that are as slow as the slowest, about.
        let slowest = self.stats.slowest.iter().map(SlowSample::seconds);
        let least = slowest.clone().next()? / 2.0;
        let (sum, count) =
            slowest.filter(|seconds| *seconds >= least).fold((0.0, 0.0), |(s, n), one| (s + one, n + 1.0));
        let batch = (self.seconds - queue.wait_behind_seconds) / self.stats.trainer.batches as f64;
        let stops_for = |ahead: usize| (sum / count - ahead as f64 * batch).max(0.0);
        let now = stops_for(queue.prefetch);
        if now <= 0.0 {
            return None;
        }
        let left = queue.wait_behind_seconds * stops_for(prefetch) / now;
        Some(share(self.seconds, self.seconds - queue.wait_behind_seconds + left).min(self.at_most()))
    }

    /// How many times as fast it can be at most, by what workers and trainer can do.
    fn at_most(&self) -> f64 {
        share(1.0, self.busy.max(1.0 - self.waited))
    }

    /// What is expected of a change, if it is worth a change.
    fn foretold(&self, gain: f64) -> String {
        if gain >= self.measure.gain {
            format!(", which would be expected to give about {gain:.1}x")
        } else {
            String::new()
        }
    }

    fn shallow_ring(&self) -> Verdict {
        let (queue, steps) = (&self.stats.queue, &self.stats.trainer.steps);
        let full = Percent(share(queue.planning_full_seconds, self.seconds).min(1.0));
        let idle = Percent(1.0 - self.busy);
        let ahead = counted(queue.prefetch, "batch");
        // Of the longest steps and the waits in between, as many as a burst may have.
        let is_bursty = steps.p99_seconds > 4.0 * steps.quantile(0.25).max(1e-6) && queue.readiness() >= 0.2;
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
        let gain = self.at_most().min(deeper);
        let advice = format!("`prefetch = {value}` would be expected to give about {gain:.1}x");
        Verdict {
            change: Some(Change { setting: "prefetch", value }),
            gain: Some(gain),
            ..self.said(Limit::ShallowRing, None, evidence, advice)
        }
    }

    /// The stage that takes most of the work, if it is half of it and stands out; and the two that take most, in words.
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
        let second = sorted.get(1).map_or(0.0, |stage| part(stage));
        let stands_out = |stage: &&&StageStats| part(stage) >= 0.5 && part(stage) >= second + 0.1;
        let main = sorted.first().filter(stands_out).map(|stage| stage.name);
        (main, words.join(", "))
    }

    fn gerund(&self, stage: &'static str) -> &'static str {
        match (stage, self.stats.planning) {
            ("plan", Planning::Order | Planning::Lengths) => "planning",
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
