//! Figures of a run: how often, how much, how long.

use std::time::Duration;

use serde::Serialize;

use crate::counters::{Counters, Damage, StageCounter};
pub use crate::ring::RingStats;
use crate::sync::Ordering;

/// The figures of an iterator since it was made: who worked, who waited, and for how long.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// Batches handed out.
    pub batches: u64,
    /// Samples handed out.
    pub samples: u64,
    /// Bytes of tensors handed out.
    pub bytes: u64,
    /// Bad records left out.
    pub skipped: u64,
    /// Bad records replaced by other samples.
    pub replaced: u64,
    /// Batches laid out and filled again because a replacement was longer.
    pub refilled: u64,
    /// Reading threads left behind because a sample took longer than its time limit.
    pub left_behind: u64,
    /// Rows moved up inside their slot because a bad one before them was left out.
    pub moved_rows: u64,
    /// Arrays of transforms' scopes that did not fit the memory kept for them: those of the first samples, by which it is learned,
    /// and larger ones than any before.
    pub scope_spilled: u64,
    /// Batches copied out of the ring on request.
    pub detached: u64,
    /// Damaged images that were handed out all the same, because libjpeg loads them with a warning.
    pub damaged: u64,
    /// What was wrong with them: only the kinds that were met. An image may have several.
    pub damage: Vec<DamageStats>,
    /// Time that the trainer spent waiting in `next`, in seconds.
    pub trainer_wait_seconds: f64,
    /// What each stage did.
    pub stages: Vec<StageStats>,
    /// The ring.
    pub ring: RingStats,
    /// Bytes that count against the workspace's [`MemoryBudget`](crate::memory::MemoryBudget) now: its rings, and what was opened
    /// within the same budget (row indexes, listings, inflated files, records of streams).
    pub memory_bytes: u64,
}

/// How many images had one kind of damage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DamageStats {
    /// The kind, in words: `stray bytes before a marker`, `data that ends early`, `surplus data`, `bits that are no code`,
    /// `wrong restart markers`, `wrong scan headers` or `no end-of-image marker`.
    pub kind: &'static str,
    /// Images that have it.
    pub images: u64,
}

/// One stage's figures, summed over its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageStats {
    /// `plan` (which samples come next; for a stream, reading them too), `read` or `decode`.
    pub name: &'static str,
    /// Threads that work on it; `read` and `decode` share theirs.
    pub threads: usize,
    /// Time worked, in seconds.
    pub busy_seconds: f64,
    /// Time waited for work or for a free slot, in seconds. Waiting for work is counted at `decode`.
    pub wait_seconds: f64,
    /// Samples that went through.
    pub samples: u64,
    /// What the stage could do if it never waited: samples by busy time of one thread, times threads.
    pub samples_per_second: f64,
}

impl Stats {
    pub(crate) fn read(counters: &Counters, workers: usize, ring: RingStats, memory_bytes: u64) -> Self {
        let load = |counter: &crate::sync::AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            batches: load(&counters.batches),
            samples: load(&counters.samples),
            bytes: load(&counters.bytes),
            skipped: load(&counters.skipped),
            replaced: load(&counters.replaced),
            refilled: load(&counters.refilled),
            left_behind: load(&counters.left_behind),
            moved_rows: load(&counters.moved_rows),
            scope_spilled: load(&counters.scope_spilled),
            detached: load(&counters.detached),
            damaged: load(&counters.damaged),
            damage: DamageStats::of(counters.damage.each_ref().map(load)),
            trainer_wait_seconds: seconds(load(&counters.trainer_wait_ns)),
            stages: vec![
                StageStats::read("plan", 1, &counters.plan),
                StageStats::read("read", workers, &counters.read),
                StageStats::read("decode", workers, &counters.decode),
            ],
            ring,
            memory_bytes,
        }
    }

    /// What happened since `earlier` figures of the same iterator.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut stages = self.stages.clone();
        for (stage, before) in stages.iter_mut().zip(&earlier.stages) {
            stage.busy_seconds -= before.busy_seconds;
            stage.wait_seconds -= before.wait_seconds;
            stage.samples -= before.samples;
            stage.samples_per_second = rate(stage.samples, stage.busy_seconds, stage.threads);
        }
        let before = |kind| earlier.damage.iter().find(|damage| damage.kind == kind).map_or(0, |damage| damage.images);
        let damage = self.damage.iter();
        let damage = damage.map(|damage| DamageStats { images: damage.images - before(damage.kind), ..*damage });
        let damage = damage.filter(|damage| damage.images > 0).collect();
        Self {
            batches: self.batches - earlier.batches,
            samples: self.samples - earlier.samples,
            bytes: self.bytes - earlier.bytes,
            skipped: self.skipped - earlier.skipped,
            replaced: self.replaced - earlier.replaced,
            refilled: self.refilled - earlier.refilled,
            left_behind: self.left_behind - earlier.left_behind,
            moved_rows: self.moved_rows - earlier.moved_rows,
            scope_spilled: self.scope_spilled - earlier.scope_spilled,
            detached: self.detached - earlier.detached,
            damaged: self.damaged - earlier.damaged,
            damage,
            trainer_wait_seconds: self.trainer_wait_seconds - earlier.trainer_wait_seconds,
            stages,
            ring: self.ring,
            memory_bytes: self.memory_bytes,
        }
    }

    /// What limited throughput over `elapsed`: `trainer` if it waited for less than a twentieth of the time, otherwise
    /// the stage that was busiest for its threads.
    pub fn bottleneck(&self, elapsed: Duration) -> &'static str {
        if self.trainer_wait_seconds < 0.05 * elapsed.as_secs_f64() {
            return "trainer";
        }
        let [plan, read, decode] = self.stages.as_slice() else { return "trainer" };
        let workers = (read.busy_seconds + decode.busy_seconds) / decode.threads.max(1) as f64;
        if plan.busy_seconds > workers {
            "plan"
        } else if read.busy_seconds > decode.busy_seconds {
            "read"
        } else {
            "decode"
        }
    }
}

impl DamageStats {
    /// The kinds that were met.
    pub(crate) fn of(images: [u64; Damage::ALL.len()]) -> Vec<Self> {
        let damage = Damage::ALL.iter().zip(images).map(|(damage, images)| Self { kind: damage.as_str(), images });
        damage.filter(|damage| damage.images > 0).collect()
    }
}

impl StageStats {
    fn read(name: &'static str, threads: usize, counter: &StageCounter) -> Self {
        let busy_seconds = seconds(counter.busy_ns.load(Ordering::Relaxed));
        let samples = counter.samples.load(Ordering::Relaxed);
        Self {
            name,
            threads,
            busy_seconds,
            wait_seconds: seconds(counter.wait_ns.load(Ordering::Relaxed)),
            samples,
            samples_per_second: rate(samples, busy_seconds, threads),
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn rate(samples: u64, busy_seconds: f64, threads: usize) -> f64 {
    if busy_seconds > 0.0 { samples as f64 / busy_seconds * threads as f64 } else { 0.0 }
}
