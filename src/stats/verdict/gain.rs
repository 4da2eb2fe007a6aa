//! What more workers would give.

use crate::stats::{Stats, share};

/// How many times as many workers are foretold at most, and where it is not known how reading goes with more.
const MOST_TIMES: usize = 4;
const MOST_TIMES_UNKNOWN: usize = 2;

/// How reading goes when more read at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    /// Nothing shared is in the way, as far as it was seen.
    Free,
    /// Each takes longer in proportion: what is read from gives no more.
    Shared,
    /// It was never otherwise than now.
    Unknown,
}

/// What more workers would give, and why no more.
#[derive(Debug)]
pub(super) struct Gain {
    /// The smallest number that gives it.
    pub(super) workers: usize,
    /// As many times as many samples a second.
    pub(super) factor: f64,
    /// Share of the workers' work in which they could have run but had no core.
    pub(super) queued: f64,
    /// This process is on nearly all cores all the time.
    pub(super) uses_all_cores: bool,
    /// Most of the work is waiting, which needs no core.
    pub(super) waits: bool,
    pub(super) scaling: Scaling,
}

impl Gain {
    /// By what a sample costs on a core and beside one: the workers' rate is bounded by the cores that the rest of the process
    /// leaves, by planning, and by the trainer.
    pub(super) fn of(stats: &Stats, stage: Option<&str>) -> Self {
        let (workers, seconds) = (&stats.workers, stats.trainer.seconds());
        // What is counted of stages, and not what goes through the ring: they run ahead of the trainer.
        let decoded = stats.stage("decode").map_or(0, |stage| stage.samples).max(1) as f64;
        let busy = workers.busy_seconds;
        let on_core: f64 = stats.stages[1..].iter().map(|stage| stage.cpu_seconds.unwrap_or(stage.busy_seconds)).sum();
        let on_core = on_core.min(busy);
        let queued = workers.queued_seconds.unwrap_or(0.0).min(busy - on_core).max(0.0);
        let process_cores = stats.process_cpu_seconds.map(|cpu| share(cpu, seconds));
        let others = process_cores.map_or(0.0, |cores| (cores - share(on_core, seconds)).max(0.0));
        let (sample_seconds, sample_cpu) = ((busy - queued) / decoded, on_core / decoded);
        let rate = share(decoded, seconds);
        let cores = (stats.cores as f64 - others).max(0.1).min(workers.most_cores.unwrap_or(f64::INFINITY));
        let by_cores = share(cores, sample_cpu);
        let by_trainer =
            share(stats.trainer.batches as f64, stats.trainer.busy_seconds) * share(decoded, stats.batches as f64);
        let by_planning = stats.stages[0].samples as f64 / stats.stages[0].busy_seconds.max(f64::MIN_POSITIVE);
        let bounds = [by_cores, by_trainer, by_planning].into_iter().filter(|bound| *bound > 0.0);
        let most = bounds.fold(f64::INFINITY, f64::min);
        let scaling = if stage == Some("read") { Self::scaling(stats) } else { Scaling::Free };
        let times = if scaling == Scaling::Unknown { MOST_TIMES_UNKNOWN } else { MOST_TIMES };
        // Not one worker for the last hundredth.
        let needed = (0.98 * most * sample_seconds).ceil().clamp(1.0, (times * workers.threads) as f64) as usize;
        let reachable = most.min(needed as f64 / sample_seconds.max(f64::MIN_POSITIVE));
        Self {
            workers: needed,
            factor: share(reachable, rate),
            queued: share(queued, busy),
            uses_all_cores: process_cores.is_some_and(|used| used >= 0.8 * stats.cores as f64),
            waits: on_core < 0.5 * (busy - queued),
            scaling,
        }
    }

    /// From few that read at the same time to many: how the time of a sample grew.
    fn scaling(stats: &Stats) -> Scaling {
        let all: u64 = stats.reads.iter().map(|level| level.samples).sum();
        let mut seen =
            stats.reads.iter().filter(|level| level.samples >= 10 && level.samples as f64 >= 0.02 * all as f64);
        let (Some(few), Some(many)) = (seen.next(), seen.next_back()) else { return Scaling::Unknown };
        let jobs = many.jobs / few.jobs.max(f64::MIN_POSITIVE);
        if jobs < 1.5 {
            return Scaling::Unknown;
        }
        // 0 where each takes as long as alone, 1 where they share what there is.
        let slope = share(many.sample_seconds, few.sample_seconds).max(f64::MIN_POSITIVE).ln() / jobs.ln();
        if slope >= 0.6 {
            Scaling::Shared
        } else if slope <= 0.3 {
            Scaling::Free
        } else {
            Scaling::Unknown
        }
    }
}
