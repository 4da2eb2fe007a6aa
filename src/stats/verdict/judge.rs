//! The statistics as shares of the time, and helpers for all parts of a verdict.

use super::gain::Gain;
use super::kinds::{Limit, Verdict};
use crate::stats::numbers::share;
use crate::stats::show::Percent;
use crate::stats::{Planning, StageStats, Stats};

/// Thresholds for a verdict.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    /// A trainer that waits for less than this share of the time is not kept waiting.
    pub(super) waits: f64,
    /// A smaller gain is not worth a change.
    pub(super) gain: f64,
}

/// Thresholds for people, and for tuning.
pub(super) const PEOPLE: Measure = Measure { waits: 0.05, gain: 1.1 };
pub(super) const TUNING: Measure = Measure { waits: 0.01, gain: 1.02 };
/// Waits for less than this share of the time explain nothing.
pub(super) const WAITS: f64 = 0.05;
/// Share of the workers' work in which they were ready to run but had no core; less is normal scheduling.
pub(super) const QUEUED: f64 = 0.25;
/// Threads that work for this share of the time have almost no time left, because handing over takes some.
pub(super) const SATURATED: f64 = 0.75;
/// The advice if other programs take the cores.
pub(super) const OTHERS: &str = "other programs take the cores: end them, or measure when they have ended";

/// The statistics as shares of the time.
pub(super) struct Judge<'a> {
    pub(super) stats: &'a Stats,
    pub(super) measure: Measure,
    pub(super) seconds: f64,
    pub(super) waited: f64,
    /// Share of their time that the workers worked.
    pub(super) busy: f64,
    /// ... and that they rested.
    pub(super) rested: f64,
    pub(super) plan: f64,
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

    pub(super) fn said(
        &self,
        limit: Limit,
        stage: Option<&'static str>,
        evidence: impl Into<String>,
        advice: impl Into<String>,
    ) -> Verdict {
        let (evidence, advice) = (evidence.into(), advice.into());
        Verdict { limit, stage, waited: self.waited, evidence, advice, change: None, gain: None, is_gain_most: false }
    }

    /// The verdict on threads that were ready to run for this share of the time, but had no core.
    pub(super) fn without_core(&self, who: &str, queued: f64) -> Verdict {
        let evidence = format!("{who} could have run for {} of the time and had no core", Percent(queued));
        if !Gain::of(self.stats).uses_all_cores {
            return self.said(Limit::MachineBusy, None, evidence, OTHERS);
        }
        let (stage, what) = self.main_stage(&self.stats.stages[1..]);
        let name = stage.map_or("what they do", |stage| self.gerund(stage));
        let evidence = format!("{evidence}: {} ({what})", self.all_cores());
        self.said(Limit::Workers, stage, evidence, format!("make {name} cheaper, or use more cores"))
    }

    /// All cores are in use, in words.
    pub(super) fn all_cores(&self) -> String {
        let (stats, usable) = (self.stats, self.stats.usable_cores());
        if stats.core_quota.is_some_and(|quota| quota == usable && quota.fract() > 0.0) {
            return format!("this process uses all the time that its control group allows ({usable:.1} cores)");
        }
        match stats.cores {
            1 => "the only core is at work".to_owned(),
            cores => format!("all {cores} cores are at work"),
        }
    }

    /// The largest possible speed-up, by what workers and trainer can do.
    pub(super) fn at_most(&self) -> f64 {
        share(1.0, self.busy.max(1.0 - self.waited))
    }

    /// The expected gain of a change, in words, if it is large enough to mention.
    pub(super) fn foretold(&self, gain: f64) -> String {
        if gain >= self.measure.gain {
            format!(", which would be expected to give about {gain:.1}x")
        } else {
            String::new()
        }
    }

    /// The stage that takes most of the work, if it takes half of the work and stands out; and the two largest stages,
    /// in words.
    pub(super) fn main_stage(&self, stages: &[StageStats]) -> (Option<&'static str>, String) {
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

    pub(super) fn gerund(&self, stage: &'static str) -> &'static str {
        match (stage, self.stats.planning) {
            ("plan", Planning::Order | Planning::Lengths) => "planning",
            ("plan", Planning::Stream) => "reading in order",
            ("plan", Planning::Iterator) => "your iterator",
            ("read", _) => "reading",
            ("decode", _) => "decoding",
            ("resize", _) => "resizing and augmenting images",
            ("transform", _) => "the transforms' code",
            ("settle", _) => "settling bad records",
            _ => stage,
        }
    }
}
