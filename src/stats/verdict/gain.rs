//! The gain from more workers.

use crate::stats::numbers::share;
use crate::stats::{StageStats, Stats};

/// Maximum factor by which more workers are advised; the second one if it is not known how reading behaves with more.
const MOST_TIMES: usize = 4;
const MOST_TIMES_UNKNOWN: usize = 2;

/// If less than this share is spent waiting without a core, workers are not assumed to wait for one another.
const WAITS: f64 = 0.2;
/// If on average at most this many threads run the transforms' code, two threads almost never run it at the same time.
const ALONE: f64 = 1.25;
/// If this share of the transforms' time is spent waiting to begin them, they run one at a time.
const TURNS: f64 = 0.02;
/// If waiting for their turn, or for memory, is at least this share of the work, it is what limits workers.
const LOCKED: f64 = 0.25;

/// A smaller gain of more memory is no reason to call it the limit.
const WORTH_IT: f64 = 1.1;

/// How the work behaves when more threads do it at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    /// Nothing shared limits it, as far as the statistics show.
    Free,
    /// Reading takes longer in proportion: the storage is at its limit.
    Shared,
    /// The transforms' code runs on one thread at a time.
    Locked,
    /// The maximum number of bytes is requested ahead, and workers still wait for the storage.
    Ahead,
    /// Workers wait for memory that other workers hold.
    Memory,
    /// The number of threads never changed.
    Unknown,
}

/// The gain from more workers, and its limit.
#[derive(Debug)]
pub(super) struct Gain {
    /// The smallest number that reaches the limit.
    pub(super) workers: usize,
    /// The throughput with these workers, divided by the current throughput.
    pub(super) factor: f64,
    /// Share of the workers' work in which they were ready to run but had no core.
    pub(super) queued: f64,
    /// This process uses nearly all cores all the time.
    pub(super) uses_all_cores: bool,
    /// Most of the work is waiting, which needs no core.
    pub(super) waits: bool,
    /// Share of the workers' work in which they waited for their turn.
    pub(super) locked: f64,
    /// ... and in which they waited for memory.
    pub(super) memory: f64,
    pub(super) scaling: Scaling,
    /// The limit that would be reached.
    pub(super) bound: Bound,
}

/// Limits that no number of workers can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Cores,
    Trainer,
    Planning,
    /// The transforms' code, which runs on one thread at a time.
    Lock,
    /// The number of samples that the slots have room for.
    Ring,
}

impl Gain {
    /// Computed from the cost of a sample on a core and outside of it. The workers' rate is limited by the cores that
    /// the rest of the process leaves, by planning, and by the trainer.
    pub(super) fn of(stats: &Stats) -> Self {
        let (workers, seconds) = (&stats.workers, stats.trainer.seconds());
        // The counts of stages, not of the ring, because stages run ahead of the trainer.
        let decoded = stats.stage("decode").map_or(0, |stage| stage.samples).max(1) as f64;
        let busy = workers.busy_seconds;
        let on_core: f64 = stats.stages[1..].iter().map(|stage| stage.cpu_seconds.unwrap_or(stage.busy_seconds)).sum();
        let on_core = on_core.min(busy);
        let queued = workers.queued_seconds.unwrap_or(0.0).min(busy - on_core).max(0.0);
        let process_cores = stats.process_cpu_seconds.map(|cpu| share(cpu, seconds));
        let others = process_cores.map_or(0.0, |cores| (cores - share(on_core, seconds)).max(0.0));
        let locked = workers.lock_wait_seconds.min(busy - on_core - queued).max(0.0);
        let is_locked = locked >= LOCKED * busy;
        let memory = workers.memory_wait_seconds.min(busy - on_core - queued - locked).max(0.0);
        let is_short_of_memory = memory >= LOCKED * busy;
        let at_work = busy - queued - f64::from(is_locked) * locked - f64::from(is_short_of_memory) * memory;
        let (sample_seconds, sample_cpu) = (at_work / decoded, on_core / decoded);
        let rate = share(decoded, seconds);
        let cores = (stats.usable_cores() - others).max(0.1).min(workers.most_cores.unwrap_or(f64::INFINITY));
        let by_cores = share(cores, sample_cpu);
        let by_trainer =
            share(stats.trainer.batches as f64, stats.trainer.busy_seconds) * share(decoded, stats.batches as f64);
        let by_planning = stats.stages[0].samples as f64 / stats.stages[0].busy_seconds.max(f64::MIN_POSITIVE);
        let transforms = stats.stage("transform").map_or(0.0, |stage| stage.busy_seconds);
        let by_lock = if locked >= TURNS * transforms { share(decoded, (transforms - locked).max(0.0)) } else { 0.0 };
        let by_ring = share(Self::room(stats), sample_seconds);
        let (most, bound) = [
            (by_cores, Bound::Cores),
            (by_trainer, Bound::Trainer),
            (by_planning, Bound::Planning),
            (by_lock, Bound::Lock),
            (by_ring, Bound::Ring),
        ]
        .into_iter()
        .filter(|(rate, _)| *rate > 0.0)
        .fold((f64::INFINITY, Bound::Cores), |least, next| if next.0 < least.0 { next } else { least });
        let reach = |times: usize| {
            // No additional worker for the last two percent.
            let threads = (times * workers.threads.max(1)) as f64;
            let needed = (0.98 * most * sample_seconds).ceil().clamp(1.0, threads) as usize;
            (needed, most.min(needed as f64 / sample_seconds.max(f64::MIN_POSITIVE)))
        };
        let (mut needed, mut reachable) = reach(MOST_TIMES);
        let mut scaling = if is_locked { Scaling::Locked } else { Self::scaling(stats, queued + memory) };
        if !is_locked && is_short_of_memory {
            // With memory for all of them, and no more of them.
            (needed, reachable) = reach(1);
            if share(reachable, rate) >= WORTH_IT {
                scaling = Scaling::Memory;
            }
        }
        // Code that hardly ever ran twice at the same time, but would then, may hold a lock.
        if scaling == Scaling::Free && share(transforms, seconds) < ALONE && transforms / decoded * reachable > ALONE {
            scaling = Scaling::Unknown;
        }
        if scaling == Scaling::Unknown {
            (needed, reachable) = reach(MOST_TIMES_UNKNOWN);
        }
        Self {
            workers: needed,
            factor: share(reachable, rate),
            queued: share(queued, busy),
            uses_all_cores: process_cores.is_some_and(|used| used >= 0.8 * stats.usable_cores()),
            waits: on_core < 0.5 * at_work,
            locked: share(locked, busy),
            memory: share(memory, busy),
            scaling,
            bound,
        }
    }

    /// Number of samples that can be worked on at the same time: those of the batches that may be ahead, or that have
    /// slots.
    fn room(stats: &Stats) -> f64 {
        let rows = share(stats.samples as f64, stats.batches as f64);
        let queue = &stats.queue;
        let is_held = share(queue.planning_slot_seconds, stats.trainer.seconds()) >= 0.25;
        let there_were = queue.mean_filling() + queue.mean_ready();
        rows * if is_held { there_were } else { (queue.prefetch + 1) as f64 }
    }

    /// Work on a core is limited only by cores. Waiting may be for something shared. For reading, it is known how
    /// waiting behaves with more threads. For other work it is not known, except for `explained` seconds.
    fn scaling(stats: &Stats, explained: f64) -> Scaling {
        let off_core = |stage: &StageStats| {
            // If the system does not tell, only reading is assumed to wait.
            let unknown = if stage.name == "read" { 0.0 } else { stage.busy_seconds };
            (stage.name, stage.busy_seconds - stage.cpu_seconds.unwrap_or(unknown))
        };
        let waits = stats.stages[1..].iter().map(off_core);
        let busy = stats.workers.busy_seconds;
        match waits.clone().max_by(|a, b| a.1.total_cmp(&b.1)) {
            _ if waits.map(|wait| wait.1).sum::<f64>() - explained < WAITS * busy => Scaling::Free,
            Some(("read", _)) if stats.asked_ahead >= stats.trainer.batches.div_ceil(2) => Scaling::Ahead,
            Some(("read", _)) => Self::reading(stats),
            _ => Scaling::Unknown,
        }
    }

    /// How the time per sample grew with the number of threads that read at the same time.
    fn reading(stats: &Stats) -> Scaling {
        let all: u64 = stats.reads.iter().map(|level| level.samples).sum();
        let mut seen =
            stats.reads.iter().filter(|level| level.samples >= 10 && level.samples as f64 >= 0.02 * all as f64);
        let (Some(few), Some(many)) = (seen.next(), seen.next_back()) else { return Scaling::Unknown };
        let jobs = many.jobs / few.jobs.max(f64::MIN_POSITIVE);
        if jobs < 1.5 {
            return Scaling::Unknown;
        }
        // 0 if each takes as long as alone, 1 if they share what there is.
        let slope = share(many.sample_seconds, few.sample_seconds).max(f64::MIN_POSITIVE).ln() / jobs.ln();
        match slope {
            slope if slope <= 0.3 => Scaling::Free,
            // If it grew by more than that, the samples were different, or the conditions were.
            0.6..=1.5 => Scaling::Shared,
            _ => Scaling::Unknown,
        }
    }
}
