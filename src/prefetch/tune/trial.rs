use crate::stats::Stats;

use super::amounts::Amounts;

/// Number of looks before a change that did not help is tried again: at first, and at last.
const FIRST_REFUSAL: u64 = 8;
const LAST_REFUSAL: u64 = 256;
/// If steps or samples take this many times as long, or as short, the work has changed.
const OTHERWISE: f64 = 1.4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    MoreWorkers,
    MorePrefetch,
    FewerWorkers,
    LessPrefetch,
}

/// The kind of work that the loader does, regardless of the numbers that are tuned.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Time of a sample on a core.
    sample_seconds: f64,
    /// Time of a typical step (the median).
    step_seconds: f64,
}

impl Kind {
    fn of(seen: &Stats) -> Self {
        let decoded = seen.stage("decode").map_or(0, |stage| stage.samples).max(1) as f64;
        let on_core = seen.stages.iter().filter(|stage| stage.name != "plan");
        let on_core: f64 = on_core.map(|stage| stage.cpu_seconds.unwrap_or(stage.busy_seconds)).sum();
        Self { sample_seconds: on_core / decoded, step_seconds: seen.trainer.steps.p50_seconds }
    }

    fn is_other_than(self, other: Self) -> bool {
        // Below that, clocks and hand-overs are most of it.
        let differ = |a: f64, b: f64, least: f64| a.max(b) > least && a.max(b) > OTHERWISE * a.min(b).max(least / 2.0);
        differ(self.step_seconds, other.step_seconds, 1e-3) || differ(self.sample_seconds, other.sample_seconds, 20e-6)
    }
}

/// A setting that is being tried, and the state before it.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) what: What,
    pub(super) before: Amounts,
    batch_seconds: f64,
    waited: f64,
    kind: Kind,
}

impl Trial {
    pub(super) fn new(what: What, before: Amounts, seen: &Stats) -> Self {
        let (waited, kind) = (seen.trainer.waited(), Kind::of(seen));
        Self { what, before, batch_seconds: batch_seconds(seen), waited, kind }
    }

    /// Whether the trainer's steps have changed since.
    pub(super) fn is_about_something_else(&self, seen: &Stats) -> bool {
        let now = Kind { sample_seconds: self.kind.sample_seconds, ..Kind::of(seen) };
        now.is_other_than(self.kind)
    }

    pub(super) fn has_helped(&self, seen: &Stats) -> bool {
        let now = batch_seconds(seen);
        match self.what {
            // A part of what could be gained.
            What::MoreWorkers | What::MorePrefetch => {
                now <= self.batch_seconds * (1.0 - (0.3 * self.waited).clamp(0.005, 0.03))
            }
            What::FewerWorkers | What::LessPrefetch => {
                now <= 1.01 * self.batch_seconds && seen.trainer.waited() <= self.waited + 0.01
            }
        }
    }

    pub(super) fn disappointment(&self) -> &'static str {
        match self.what {
            What::MoreWorkers => "more workers were not faster",
            What::MorePrefetch => "more batches ahead were not faster",
            What::FewerWorkers => "fewer workers were slower",
            What::LessPrefetch => "fewer batches ahead were slower",
        }
    }
}

fn batch_seconds(seen: &Stats) -> f64 {
    seen.trainer.seconds() / seen.trainer.batches.max(1) as f64
}

/// The changes that did not help, and when they may be tried again.
#[derive(Debug, Default)]
pub(super) struct Refused([Option<Refusal>; 4]);

#[derive(Clone, Copy, Debug)]
struct Refusal {
    until: u64,
    looks: u64,
    kind: Kind,
}

impl Refused {
    pub(super) fn allows(&self, what: What, look: u64, seen: &Stats) -> bool {
        self.0[what as usize].is_none_or(|refusal| look >= refusal.until || Kind::of(seen).is_other_than(refusal.kind))
    }

    pub(super) fn note(&mut self, what: What, look: u64, seen: &Stats) {
        let refusal = &mut self.0[what as usize];
        let looks = refusal.map_or(FIRST_REFUSAL, |before| (2 * before.looks).min(LAST_REFUSAL));
        *refusal = Some(Refusal { until: look + looks, looks, kind: Kind::of(seen) });
    }

    pub(super) fn forget(&mut self, what: What) {
        self.0[what as usize] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Amounts = Amounts { workers: 2, prefetch: 2 };

    #[test]
    fn work_is_other_work_where_it_takes_another_time_that_can_be_told() {
        let kind = |step_seconds: f64, sample_seconds: f64| Kind { sample_seconds, step_seconds };
        let plain = kind(1e-4, 1e-6);
        assert!(!kind(2e-3, 1e-6).is_other_than(kind(1.5e-3, 1e-6)), "a third more");
        assert!(kind(3e-3, 1e-6).is_other_than(kind(2e-3, 1e-6)) && kind(2e-3, 1e-6).is_other_than(kind(3e-3, 1e-6)));
        // A time below half of the smallest time that counts is taken as that half.
        assert!(kind(1.1e-3, 1e-6).is_other_than(plain) && !kind(0.9e-3, 1e-6).is_other_than(plain));
        assert!(kind(1e-4, 22e-6).is_other_than(plain) && !kind(1e-4, 18e-6).is_other_than(plain));
    }

    #[test]
    fn what_is_taken_back_is_said_as_what_was_tried() {
        let said = |what| Trial::new(what, BEFORE, &Stats::default()).disappointment();
        for (what, tried, found) in [
            (What::MoreWorkers, "more workers", "not faster"),
            (What::MorePrefetch, "more batches ahead", "not faster"),
            (What::FewerWorkers, "fewer workers", "slower"),
            (What::LessPrefetch, "fewer batches ahead", "slower"),
        ] {
            assert!(said(what).starts_with(tried) && said(what).ends_with(found), "{what:?}: {}", said(what));
        }
    }

    #[test]
    fn what_did_not_help_is_tried_again_after_twice_as_long_each_time() {
        let (mut refused, seen) = (Refused::default(), Stats::default());
        let what = What::MoreWorkers;
        assert!(refused.allows(what, 0, &seen));
        let mut look = 0;
        for looks in [8, 16, 32, 64, 128, 256, 256] {
            refused.note(what, look, &seen);
            assert!(!refused.allows(what, look + looks - 1, &seen) && refused.allows(what, look + looks, &seen));
            assert!(refused.allows(What::MorePrefetch, look, &seen), "nothing was said of that");
            look += looks;
        }
        refused.forget(what);
        assert!(refused.allows(what, 0, &seen));
    }
}
