//! Waits of the trainer for something other than the speed of workers.

use super::gain::Gain;
use super::judge::{Judge, QUEUED, SATURATED, WAITS};
use super::kinds::{Change, Limit, Verdict};
use crate::stats::numbers::share;
use crate::stats::show::{Percent, Seconds, Things};
use crate::stats::{Planning, SlowSample};

/// Longest time to wake a thread if there is a core for it.
const WAKE_SECONDS: f64 = 250e-6;
/// Batches that come faster than this are as fast as they can be handed over.
const HAND_OFF_SECONDS: f64 = 50e-6;

impl Judge<'_> {
    /// Most of the trainer's waiting was for the first batches of epochs.
    pub(super) fn epoch_edges(&self) -> Option<Verdict> {
        let (stats, trainer) = (self.stats, &self.stats.trainer);
        let of_waits = share(trainer.edge_wait_seconds, trainer.wait_seconds);
        // It must also wait longer for them than for other batches, not only more often.
        let others = share(
            trainer.wait_seconds - trainer.edge_wait_seconds,
            trainer.batches.saturating_sub(trainer.epochs) as f64,
        );
        let is_more = trainer.edge_wait_seconds >= 3.0 * others * trainer.epochs as f64;
        // If each epoch is a single batch, waiting for these batches says nothing, but workers that are never idle do.
        let is_each_one = trainer.batches <= trainer.epochs && self.busy >= SATURATED;
        let has_other_cause = is_each_one || self.lacks_cores();
        if trainer.epochs < 2 || of_waits < 0.5 || !is_more || has_other_cause || stats.upload.is_some() {
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
                "make epochs longer, or make it cheaper to begin one: a stream begins again only when it is asked to"
            }
        };
        Some(self.said(Limit::EpochEdges, None, evidence, advice))
    }

    /// The trainer waits, and the workers have time left.
    pub(super) fn idle_workers(&self) -> Verdict {
        let (stats, queue) = (self.stats, &self.stats.queue);
        let idle = Percent(1.0 - self.busy);
        if self.is_out_of_slots() {
            return self.held_batches();
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
            let evidence = format!(
                "a batch comes every {each}, which is the time that handing over a batch takes (workers idle {idle})"
            );
            return self.said(Limit::HandOff, None, evidence, "make batches larger");
        }
        let gain = Gain::of(stats);
        // Batches that are begun earlier would wait for the same cores.
        let share_all_cores = gain.uses_all_cores && gain.queued >= QUEUED;
        if self.lacks_cores() || self.queued() >= WAITS && share_all_cores {
            return self.without_core("the workers", self.queued());
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

    /// Share of the time in which the workers were ready to run but had no core.
    fn queued(&self) -> f64 {
        let workers = &self.stats.workers;
        workers.share(workers.queued_seconds.unwrap_or(0.0))
    }

    /// The workers lacked a core for longer than they worked, and for a large part of the trainer's waiting time.
    pub(super) fn lacks_cores(&self) -> bool {
        let queued = self.queued();
        queued >= WAITS && queued > self.busy && queued >= 0.4 * self.waited
    }

    /// For a large part of the time, there was no slot to fill.
    pub(super) fn is_out_of_slots(&self) -> bool {
        share(self.stats.queue.planning_slot_seconds, self.seconds) >= 0.25
    }

    pub(super) fn held_batches(&self) -> Verdict {
        let (stats, queue) = (self.stats, &self.stats.queue);
        let held = share(stats.ring.held_seconds, self.seconds);
        let evidence = format!(
            "it held {held:.1} batches at a time, so that there was no slot to fill for {} of the time{}",
            Percent(share(queue.planning_slot_seconds, self.seconds).min(1.0)),
            if stats.workers.threads > 0 {
                format!(" (workers idle {})", Percent(1.0 - self.busy))
            } else {
                String::new()
            }
        );
        let hold = (held.ceil() as usize).max(1);
        // If as many can be made at the same time as may be ahead, instead of those that had slots.
        let (now, then) = (queue.mean_filling() + queue.mean_ready(), (queue.prefetch + 1) as f64);
        let gain = match stats.workers.threads {
            0 => share(self.seconds, self.seconds - queue.planning_slot_seconds),
            _ => self.at_most().min(if now > 0.0 { then / now } else { f64::INFINITY }),
        };
        let gives = self.foretold(gain);
        let advice = format!(
            "drop batches sooner, copy those that must stay (`detach`), or have the ring hold {hold} more (`hold`){gives}"
        );
        Verdict {
            change: Some(Change { setting: "hold", value: hold }),
            gain: Some(gain).filter(|gain| *gain >= self.measure.gain),
            ..self.said(Limit::HeldBatches, None, evidence, advice)
        }
    }

    /// For most of the trainer's waiting, its batch was ready: the trainer was notified but had no core, or the
    /// notification itself takes that long.
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
        let advice =
            format!("make those samples cheaper or leave them out; `prefetch = {value}` bridges more of them{gives}");
        Verdict {
            change: Some(Change { setting: "prefetch", value }),
            gain: gain.filter(|gain| *gain >= self.measure.gain),
            ..self.said(Limit::SlowSamples, None, evidence, advice)
        }
    }

    /// The gain of a deeper ring if slow samples stop it: each slow sample stops the others for as long as it takes,
    /// less the time of the batches that are ahead.
    fn gain_by_riding_over(&self, prefetch: usize) -> Option<f64> {
        let queue = &self.stats.queue;
        // Samples that are about as slow as the slowest.
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

    fn shallow_ring(&self) -> Verdict {
        let (queue, steps) = (&self.stats.queue, &self.stats.trainer.steps);
        let full = Percent(share(queue.planning_full_seconds, self.seconds).min(1.0));
        let idle = Percent(1.0 - self.busy);
        let ahead = Things(queue.prefetch, "batch");
        // Compares the longest steps with shorter ones; a burst has as many waits as it has batches.
        let is_bursty = steps.p99_seconds > 4.0 * steps.quantile(0.25).max(1e-6) && queue.readiness() >= 0.2;
        let ahead_of = |value: usize| share((value + 1) as f64, (queue.prefetch + 1) as f64);
        let (what, value, deeper) = match is_bursty {
            true => ("it takes batches in bursts", 4 * queue.prefetch.max(1), f64::INFINITY),
            // In proportion to the number that is made at the same time.
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
}
