use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::counters::{Counters, Slow, Stretches};
use crate::ring::RingStats;
use crate::system::process_cpu;

use super::damage::DamageStats;
use super::numbers::{less, seconds, share};
use super::parts::{Planning, QueueStats, ReadStats, SlowSample, StageStats, TrainerStats, WorkerStats};
use super::setting::Setting;
use super::times::Times;
use super::tuning::Tuning;
use super::upload::UploadStats;

/// The statistics of an iterator since it was made: who worked, who waited, and for how long.
///
/// ```
/// use ringfeed::{DataSetIterator, Loader};
///
/// let mut train = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(50).build()?;
/// train.epoch()?.for_each(drop);
/// let before = train.stats();
/// train.epoch()?.for_each(drop);
/// let second_epoch = &train.stats() - &before;
/// assert_eq!((second_epoch.samples, second_epoch.trainer.batches), (150, 3));
/// println!("{second_epoch}");
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// Batches delivered.
    pub batches: u64,
    /// Samples delivered, without those that pad a batch.
    pub samples: u64,
    /// Bytes of tensors delivered.
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
    /// Batches whose bytes were requested before the workers needed them, from a [`Storage`](crate::storage::Storage).
    pub asked_ahead: u64,
    /// Number of arrays in the scopes of transforms that did not fit the memory that is kept for them: the arrays of
    /// the first samples, which show how much memory is needed, and arrays larger than all earlier ones.
    pub scope_spilled: u64,
    /// Batches copied out of the ring on request.
    pub detached: u64,
    /// Damaged images that were delivered despite the damage, because libjpeg loads them with a warning.
    pub damaged: u64,
    /// The kinds of damage that were found. An image may have several.
    pub damage: Vec<DamageStats>,
    /// The trainer's part.
    pub trainer: TrainerStats,
    /// The work of each stage.
    pub stages: Vec<StageStats>,
    /// The main work of the first stage.
    pub planning: Planning,
    /// The threads of the other stages.
    pub workers: WorkerStats,
    /// The batches between the workers and the trainer.
    pub queue: QueueStats,
    /// How long reading took, by the number of jobs that read at the same time, the smallest number first.
    pub reads: Vec<ReadStats>,
    /// The samples that took longest since the iterator was made, the slowest first: at most ten, each once. Samples
    /// that take less than 20 us are not timed individually.
    pub slowest: Vec<SlowSample>,
    /// The upload, if batches are copied to a device.
    pub upload: Option<UploadStats>,
    /// The result of tuning workers and batches ahead, if they are `auto`.
    pub tuning: Option<Tuning>,
    /// The ring.
    pub ring: RingStats,
    /// Bytes that count against the workspace's [`MemoryBudget`](crate::memory::MemoryBudget) now: its rings, and data
    /// that was opened within the same budget (row indexes, listings, inflated files, records of streams).
    pub memory_bytes: u64,
    /// Cores that this process may use, within the limits of the system and its control groups (containers).
    pub cores: usize,
    /// Cores whose time the control groups of this process allow it to use, if they set a limit: possibly less than
    /// one.
    pub core_quota: Option<f64>,
    /// Time that the whole process was on a processor core since the trainer first asked for a batch, in seconds.
    /// Absent if the system does not report it.
    pub process_cpu_seconds: Option<f64>,
    #[serde(skip)]
    pub(super) read_levels: Vec<[u64; 3]>,
    #[serde(skip)]
    pub(super) stretches: Stretches,
    /// Number of workers without the shield.
    #[serde(skip)]
    pub(super) unshielded: usize,
}

impl Stats {
    /// `name` gives the place of a sample.
    pub(crate) fn read(counters: &Counters, setting: Setting, mut name: impl FnMut(u64) -> String) -> Self {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let threads = setting.workers.max(1);
        let mut stages = vec![
            StageStats::read("plan", 1, &counters.plan),
            StageStats::read("read", threads, &counters.read),
            StageStats::read("decode", threads, &counters.decode),
        ];
        if load(&counters.resize.busy_ns) > 0 {
            stages.push(StageStats::read("resize", threads, &counters.resize));
        }
        if load(&counters.transform.busy_ns) > 0 {
            stages.push(StageStats::read("transform", threads, &counters.transform));
        }
        stages.push(StageStats::read("settle", threads, &counters.settle));
        stages[0].queued_seconds = setting.planning_queued;
        let trainer = TrainerStats::read(&counters.trainer);
        let thread_seconds = setting.lived.until(setting.workers, trainer.seconds());
        for stage in &mut stages {
            let is_shared = stage.name != "plan" && setting.workers > 0;
            stage.thread_seconds = if is_shared { thread_seconds } else { trainer.seconds() };
        }
        let read_levels = ReadStats::read(&counters.reads);
        let slow = |slow: Slow| SlowSample {
            sample: slow.sample,
            name: name(slow.sample),
            read_seconds: slow.read_ns as f64 / 1e9,
            decode_seconds: slow.decode_ns as f64 / 1e9,
            resize_seconds: slow.resize_ns as f64 / 1e9,
            transform_seconds: slow.transform_ns as f64 / 1e9,
        };
        Self {
            batches: load(&counters.batches),
            samples: load(&counters.samples),
            bytes: load(&counters.bytes),
            skipped: load(&counters.skipped),
            replaced: load(&counters.replaced),
            refilled: load(&counters.refilled),
            left_behind: load(&counters.left_behind),
            moved_rows: load(&counters.moved_rows),
            asked_ahead: load(&counters.asked_ahead),
            scope_spilled: load(&counters.scope_spilled),
            detached: load(&counters.detached),
            damaged: load(&counters.damaged),
            damage: DamageStats::of(counters.damage.each_ref().map(load)),
            trainer,
            workers: WorkerStats {
                threads: setting.workers,
                thread_seconds,
                busy_seconds: stages[1..].iter().map(|stage| stage.busy_seconds).sum(),
                idle_seconds: seconds(&counters.idle_ns),
                rested_seconds: seconds(&counters.rest_ns),
                lock_wait_seconds: seconds(&counters.lock_wait_ns),
                memory_wait_seconds: seconds(&counters.memory_wait_ns),
                most_cores: setting.most_cores,
                cpu_seconds: setting.scheduled.map(|[cpu, _]| cpu),
                queued_seconds: setting.scheduled.map(|[_, queued]| queued),
            },
            stages,
            planning: setting.planning,
            queue: QueueStats::read(counters, setting.prefetch),
            reads: ReadStats::of(&read_levels),
            slowest: counters.slowest.read().into_iter().map(slow).collect(),
            upload: None,
            tuning: setting.tuning,
            ring: setting.ring,
            memory_bytes: setting.memory_bytes,
            cores: setting.cores,
            core_quota: setting.core_quota,
            process_cpu_seconds: process_cpu().map(|time| match seconds(&counters.trainer.process_cpu_ns) {
                before if before > 0.0 => less(time.as_secs_f64(), before),
                _ => 0.0,
            }),
            read_levels,
            stretches: counters.timeline.stretches(),
            unshielded: setting.unshielded,
        }
    }

    /// The statistics since `earlier`, a snapshot of the same iterator.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |kind| earlier.damage.iter().find(|damage| damage.kind == kind).map_or(0, |damage| damage.images);
        let damage = self.damage.iter();
        let damage =
            damage.map(|damage| DamageStats { images: damage.images.saturating_sub(before(damage.kind)), ..*damage });
        let stages = self.stages.iter().map(|stage| {
            let before = earlier.stages.iter().find(|before| before.name == stage.name);
            before.map_or_else(|| stage.clone(), |before| stage.since(before))
        });
        let mut read_levels = self.read_levels.clone();
        for (level, before) in read_levels.iter_mut().zip(&earlier.read_levels) {
            level.iter_mut().zip(before).for_each(|(sum, before)| *sum = sum.saturating_sub(*before));
        }
        let mut ring = self.ring;
        ring.held_seconds = less(ring.held_seconds, earlier.ring.held_seconds);
        ring.regrown = ring.regrown.saturating_sub(earlier.ring.regrown);
        ring.spilled = ring.spilled.saturating_sub(earlier.ring.spilled);
        Self {
            batches: self.batches.saturating_sub(earlier.batches),
            samples: self.samples.saturating_sub(earlier.samples),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            skipped: self.skipped.saturating_sub(earlier.skipped),
            replaced: self.replaced.saturating_sub(earlier.replaced),
            refilled: self.refilled.saturating_sub(earlier.refilled),
            left_behind: self.left_behind.saturating_sub(earlier.left_behind),
            moved_rows: self.moved_rows.saturating_sub(earlier.moved_rows),
            asked_ahead: self.asked_ahead.saturating_sub(earlier.asked_ahead),
            scope_spilled: self.scope_spilled.saturating_sub(earlier.scope_spilled),
            detached: self.detached.saturating_sub(earlier.detached),
            damaged: self.damaged.saturating_sub(earlier.damaged),
            damage: damage.filter(|damage| damage.images > 0).collect(),
            trainer: self.trainer.since(&earlier.trainer),
            stages: stages.collect(),
            planning: self.planning,
            workers: self.workers.since(&earlier.workers),
            queue: self.queue.since(&earlier.queue),
            reads: ReadStats::of(&read_levels),
            slowest: self.slowest.clone(),
            upload: self.upload.as_ref().map(|upload| match &earlier.upload {
                Some(before) => upload.since(before),
                None => upload.clone(),
            }),
            tuning: self.tuning.clone(),
            ring,
            memory_bytes: self.memory_bytes,
            cores: self.cores,
            core_quota: self.core_quota,
            process_cpu_seconds: self
                .process_cpu_seconds
                .zip(earlier.process_cpu_seconds)
                .map(|(now, then)| less(now, then)),
            read_levels,
            stretches: Stretches {
                wait_seconds: less(self.stretches.wait_seconds, earlier.stretches.wait_seconds),
                wait_worker_seconds: less(self.stretches.wait_worker_seconds, earlier.stretches.wait_worker_seconds),
            },
            unshielded: self.unshielded,
        }
    }

    /// The same with the statistics of a trainer that takes batches from a later stage.
    pub(crate) fn with_trainer(mut self, trainer: TrainerStats) -> Self {
        let times = share(trainer.seconds(), self.trainer.seconds());
        self.workers.thread_seconds *= times;
        self.stages.iter_mut().for_each(|stage| stage.thread_seconds *= times);
        Self { trainer, ..self }
    }

    /// Number of cores (perhaps with a fraction) whose time the whole process may use.
    pub(crate) fn usable_cores(&self) -> f64 {
        let cores = self.cores as f64;
        // The number of cores is the quota without its fraction.
        self.core_quota.filter(|quota| *quota < cores + 1.0).unwrap_or(cores)
    }

    /// The times that each batch took outside of the workers, by cause. Only causes that occurred.
    pub(crate) fn per_batch(&self) -> Vec<(&'static str, &Times)> {
        let mut all = vec![
            ("wait for the slot", &self.queue.slot_waits),
            ("deliver", &self.trainer.deliveries),
            ("trainer waits", &self.trainer.waits),
            ("trainer works", &self.trainer.steps),
        ];
        if let Some(upload) = &self.upload {
            let uploads = [("wait for the slot on the device", &upload.slot_waits), ("upload", &upload.uploads)];
            all.splice(1..1, uploads);
        }
        all.retain(|(_, times)| times.count > 0);
        all
    }

    /// The stage of this name, such as `decode`, if there is one.
    pub fn stage(&self, name: &str) -> Option<&StageStats> {
        self.stages.iter().find(|stage| stage.name == name)
    }
}

/// The same as [`Stats::since`]: the statistics between two snapshots.
impl Sub for &Stats {
    type Output = Stats;

    fn sub(self, earlier: Self) -> Stats {
        self.since(earlier)
    }
}
