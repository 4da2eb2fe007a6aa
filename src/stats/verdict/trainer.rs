//! A trainer that does not wait, or that makes its batches itself.

use std::fmt::Write as _;

use super::gain::Gain;
use super::judge::{Judge, SATURATED, WAITS};
use super::kinds::{Change, Limit, Verdict};
use crate::stats::numbers::share;
use crate::stats::show::{Percent, Seconds};

impl Judge<'_> {
    /// The trainer does not wait.
    pub(super) fn fed(&self) -> Verdict {
        let busiest = self.busy.max(self.plan);
        let (batches, ahead) = (self.stats.trainer.batches, self.stats.queue.prefetch as u64 + 1);
        // If there was little work, that time is the trainer's own all the same.
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
            let all_cores = self.all_cores();
            let _ = write!(advice, ", but {all_cores}: a loader that needs less CPU time leaves more for the trainer");
        }
        self.said(Limit::Trainer, None, evidence, advice)
    }

    pub(super) fn shield(&self) -> Verdict {
        let (stage, what) = self.main_stage(&self.stats.stages);
        let evidence = format!("batches are made on its own thread, when it asks for them ({what})");
        let advice = "leave the shield out, so that they are made ahead on other threads";
        // Divided among the workers that there would be, and for work on a core among the cores.
        let on_core: f64 = self.stats.stages.iter().map(|stage| stage.cpu_seconds.unwrap_or(stage.busy_seconds)).sum();
        let (waited, used) = (self.stats.trainer.wait_seconds, self.stats.trainer.busy_seconds);
        let made = (waited / self.stats.unshielded.max(1) as f64).max(on_core / self.stats.cores.max(1) as f64);
        Verdict {
            change: Some(Change { setting: "shield", value: 0 }),
            gain: Some(share(self.seconds, made.max(used))),
            ..self.said(Limit::Shield, stage, evidence, advice)
        }
    }
}
