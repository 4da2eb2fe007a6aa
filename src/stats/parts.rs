use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::counters::{Concurrency, Counters, QueueCounter, StageCounter, TrainerCounter};

use super::numbers::{less, seconds, share};
use super::times::Times;

/// The main work in planning batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Planning {
    /// Choosing samples.
    #[default]
    Order,
    /// Reading records that can only be read in order: a pipe, compressed text.
    Stream,
    /// Asking a user's own iterator for samples.
    Iterator,
    /// Choosing samples and looking up their lengths, because batches differ in size.
    Lengths,
}

/// The statistics of one stage, summed over its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StageStats {
    /// `plan` (choosing the next samples; for a stream, also reading them), `read`, `decode`, `resize` (for images:
    /// resizing, augmenting and converting pixels to the tensor's type), `transform` (built-in and your own transforms,
    /// if there are any) or `settle` (removing or replacing the bad records of a batch).
    pub name: &'static str,
    /// Threads that work on it now; all stages but `plan` share the workers.
    pub threads: usize,
    /// Total time of these threads, busy or not, in seconds. If their number never changed, it is that number times the
    /// trainer's time.
    pub thread_seconds: f64,
    /// Time worked, by the wall clock, in seconds.
    pub busy_seconds: f64,
    /// The part of `busy_seconds` that the threads ran on a processor core, in seconds. In the rest, they waited for
    /// input, locks or a free core. Measured from time to time; `None` if the system does not report it, or before the
    /// first measurement.
    pub cpu_seconds: Option<f64>,
    /// Time that the thread was ready to run but had no core, in seconds, busy or not. Only for `plan`, which has its
    /// own thread, and only on Linux.
    pub queued_seconds: Option<f64>,
    /// Samples that passed through it.
    pub samples: u64,
    /// Bytes that the stage read from files or storages, before decompression. Bytes that are read while measuring or
    /// decoding count as `read`, and those of a stream as `plan`. Mapped files do not count.
    pub bytes_read: u64,
    /// Number of requests for these bytes: system calls, or pieces of a storage, which may have been requested ahead.
    pub requests: u64,
    /// Throughput of the stage if it had its threads to itself and never waited: samples by busy time of one thread,
    /// times threads.
    pub samples_per_second: f64,
    /// Time per sample; for `plan`, per batch; for `settle`, per batch with bad records. Samples that take less than 20
    /// us count with the mean of their job.
    pub times: Times,
}

impl StageStats {
    pub(super) fn read(name: &'static str, threads: usize, counter: &StageCounter) -> Self {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let busy_seconds = seconds(&counter.busy_ns);
        let (timed, cpu) = (load(&counter.timed_ns), load(&counter.cpu_ns));
        let samples = load(&counter.samples);
        Self {
            name,
            threads,
            thread_seconds: 0.0,
            busy_seconds,
            cpu_seconds: (timed > 0).then(|| busy_seconds * (cpu as f64 / timed as f64).min(1.0)),
            queued_seconds: None,
            samples,
            bytes_read: load(&counter.bytes_read),
            requests: load(&counter.requests),
            samples_per_second: rate(samples, busy_seconds, threads),
            times: Times::read(&counter.times),
        }
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let busy_seconds = less(self.busy_seconds, earlier.busy_seconds);
        let samples = self.samples.saturating_sub(earlier.samples);
        let cpu = |cpu| less(cpu, earlier.cpu_seconds.unwrap_or(0.0)).min(busy_seconds);
        Self {
            name: self.name,
            threads: self.threads,
            thread_seconds: less(self.thread_seconds, earlier.thread_seconds),
            busy_seconds,
            cpu_seconds: self.cpu_seconds.map(cpu),
            queued_seconds: self.queued_seconds.map(|now| less(now, earlier.queued_seconds.unwrap_or(0.0))),
            samples,
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            requests: self.requests.saturating_sub(earlier.requests),
            samples_per_second: rate(samples, busy_seconds, self.threads),
            times: self.times.since(&earlier.times),
        }
    }

    /// Share of their time that its threads worked on it, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        share_of_threads(self.busy_seconds, self.thread_seconds)
    }
}

/// Work that began before the trainer first asked for a batch is counted, but its time is not; hence at most 1.
fn share_of_threads(seconds: f64, thread_seconds: f64) -> f64 {
    share(seconds, thread_seconds).min(1.0)
}

fn rate(samples: u64, busy_seconds: f64, threads: usize) -> f64 {
    if busy_seconds > 0.0 { samples as f64 / busy_seconds * threads as f64 } else { 0.0 }
}

/// The statistics of the trainer: the caller of `next`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrainerStats {
    /// Batches that it received.
    pub batches: u64,
    /// Batches that were ready when the trainer asked for them.
    pub ready: u64,
    /// Time that it waited for batches, in seconds. Without prefetch, this is all the time of making them.
    pub wait_seconds: f64,
    /// Time between two batches in which it did not wait, in seconds: its steps, and its other work.
    pub busy_seconds: f64,
    /// Time in `next` without waiting, in seconds: the cost of handing over.
    pub deliver_seconds: f64,
    /// How long it waited for each batch.
    pub waits: Times,
    /// How long it worked on each batch. The time between two epochs counts as one more step if it took longer.
    pub steps: Times,
    /// How long handing over each batch took: the time in `next` without waiting.
    pub deliveries: Times,
    /// The part of the waiting time that it waited for the first batch of each epoch, in seconds.
    pub edge_wait_seconds: f64,
    /// Epochs whose first batch it received.
    pub epochs: u64,
}

impl TrainerStats {
    pub(crate) fn read(counter: &TrainerCounter) -> Self {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            batches: load(&counter.batches),
            ready: load(&counter.ready),
            wait_seconds: seconds(&counter.wait_ns),
            busy_seconds: seconds(&counter.busy_ns),
            deliver_seconds: seconds(&counter.deliver_ns),
            waits: Times::read(&counter.waits),
            steps: Times::read(&counter.steps),
            deliveries: Times::read(&counter.deliveries),
            edge_wait_seconds: seconds(&counter.edge_wait_ns),
            epochs: load(&counter.epochs),
        }
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            batches: self.batches.saturating_sub(earlier.batches),
            ready: self.ready.saturating_sub(earlier.ready),
            wait_seconds: less(self.wait_seconds, earlier.wait_seconds),
            busy_seconds: less(self.busy_seconds, earlier.busy_seconds),
            deliver_seconds: less(self.deliver_seconds, earlier.deliver_seconds),
            waits: self.waits.since(&earlier.waits),
            steps: self.steps.since(&earlier.steps),
            deliveries: self.deliveries.since(&earlier.deliveries),
            edge_wait_seconds: less(self.edge_wait_seconds, earlier.edge_wait_seconds),
            epochs: self.epochs.saturating_sub(earlier.epochs),
        }
    }

    /// The time that these statistics cover, in seconds: from the trainer's first request for a batch.
    pub fn seconds(&self) -> f64 {
        self.wait_seconds + self.busy_seconds + self.deliver_seconds
    }

    /// Share of the time that the trainer waited, from 0 to 1.
    pub fn waited(&self) -> f64 {
        share(self.wait_seconds, self.seconds())
    }

    /// Share of batches that were ready when the trainer asked for them, from 0 to 1.
    pub fn readiness(&self) -> f64 {
        share(self.ready as f64, self.batches as f64)
    }
}

/// The statistics of the worker threads, over all their work.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Number of workers now; 0 without prefetch.
    pub threads: usize,
    /// Total time of all workers, busy or not, in seconds. If their number never changed, it is that number times the
    /// trainer's time. If it is tuned during the run, each number counts for the time that it was in effect.
    pub thread_seconds: f64,
    /// Time that they worked for this iterator, by the wall clock, in seconds.
    pub busy_seconds: f64,
    /// Time that they waited for work, in seconds.
    pub idle_seconds: f64,
    /// Time that they rested because they had used up their share of the cores, in seconds.
    pub rested_seconds: f64,
    /// The part of `busy_seconds` in which they waited to run code of transforms, in seconds. For example, functions in
    /// Python wait for the interpreter lock ([`Transform::around`](crate::transform::Transform::around)).
    pub lock_wait_seconds: f64,
    /// The part of their working time in which they waited for memory of the
    /// [`MemoryBudget`](crate::memory::MemoryBudget) that other workers held, in seconds. Image decoders take their
    /// memory from the budget.
    pub memory_wait_seconds: f64,
    /// Cores whose time they may use together, if `worker_cores` or `worker_share` limits it.
    pub most_cores: Option<f64>,
    /// Time that they were on a processor core, in seconds, for any iterator. Only on Linux.
    pub cpu_seconds: Option<f64>,
    /// Time that they were ready to run but had no core, in seconds. Only on Linux.
    pub queued_seconds: Option<f64>,
}

impl WorkerStats {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let since = |now: Option<f64>, then: Option<f64>| now.zip(then).map(|(now, then)| less(now, then));
        Self {
            threads: self.threads,
            thread_seconds: less(self.thread_seconds, earlier.thread_seconds),
            busy_seconds: less(self.busy_seconds, earlier.busy_seconds),
            idle_seconds: less(self.idle_seconds, earlier.idle_seconds),
            rested_seconds: less(self.rested_seconds, earlier.rested_seconds),
            lock_wait_seconds: less(self.lock_wait_seconds, earlier.lock_wait_seconds),
            memory_wait_seconds: less(self.memory_wait_seconds, earlier.memory_wait_seconds),
            most_cores: self.most_cores,
            cpu_seconds: since(self.cpu_seconds, earlier.cpu_seconds),
            queued_seconds: since(self.queued_seconds, earlier.queued_seconds),
        }
    }

    /// Share of their time that they worked, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        self.share(self.busy_seconds)
    }

    /// These seconds as a share of all threads' time, at most 1.
    pub(super) fn share(&self, seconds: f64) -> f64 {
        share_of_threads(seconds, self.thread_seconds)
    }
}

/// The statistics of the batches between workers and trainer, over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// Number of finished batches that may wait for the trainer.
    pub prefetch: usize,
    /// Time that these statistics cover, in seconds: the time in which this iterator had the workspace.
    pub seconds: f64,
    /// Time in which the next batch was ready, in seconds.
    pub ready_seconds: f64,
    /// Time in which other batches were ready but not the next one, in seconds.
    pub behind_seconds: f64,
    /// Ready batches times time, in seconds. Divided by `seconds`, this is the mean number of ready batches.
    pub ready_batch_seconds: f64,
    /// Batches that were being filled times time, in seconds.
    pub filling_batch_seconds: f64,
    /// Time that the trainer waited while the next batch was being planned, in seconds.
    pub wait_plan_seconds: f64,
    /// Time that it waited because it held all slots itself, in seconds.
    pub wait_slot_seconds: f64,
    /// Time that it waited while the next batch was being filled and no other was ready, in seconds.
    pub wait_fill_seconds: f64,
    /// Time that it waited for one batch while later ones were ready, in seconds.
    pub wait_behind_seconds: f64,
    /// Time that planning waited because the maximum number of batches was planned, in seconds.
    pub planning_full_seconds: f64,
    /// Time that planning waited for a slot that the caller held, in seconds.
    pub planning_slot_seconds: f64,
    /// How long planning waited for the slot of each batch: almost no time as long as the caller holds no more batches
    /// than allowed.
    pub slot_waits: Times,
}

impl QueueStats {
    pub(super) fn read(counters: &Counters, prefetch: usize) -> Self {
        let queue: &QueueCounter = &counters.queue;
        Self {
            prefetch,
            seconds: seconds(&queue.time_ns),
            ready_seconds: seconds(&queue.ready_ns),
            behind_seconds: seconds(&queue.behind_ns),
            ready_batch_seconds: seconds(&queue.ready_batch_ns),
            filling_batch_seconds: seconds(&queue.filling_batch_ns),
            wait_plan_seconds: seconds(&queue.wait_plan_ns),
            wait_slot_seconds: seconds(&queue.wait_slot_ns),
            wait_fill_seconds: seconds(&queue.wait_fill_ns),
            wait_behind_seconds: seconds(&queue.wait_behind_ns),
            planning_full_seconds: seconds(&counters.room_wait_ns),
            planning_slot_seconds: seconds(&counters.slot_wait_ns),
            slot_waits: Times::read(&counters.slot_waits),
        }
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            prefetch: self.prefetch,
            seconds: less(self.seconds, earlier.seconds),
            ready_seconds: less(self.ready_seconds, earlier.ready_seconds),
            behind_seconds: less(self.behind_seconds, earlier.behind_seconds),
            ready_batch_seconds: less(self.ready_batch_seconds, earlier.ready_batch_seconds),
            filling_batch_seconds: less(self.filling_batch_seconds, earlier.filling_batch_seconds),
            wait_plan_seconds: less(self.wait_plan_seconds, earlier.wait_plan_seconds),
            wait_slot_seconds: less(self.wait_slot_seconds, earlier.wait_slot_seconds),
            wait_fill_seconds: less(self.wait_fill_seconds, earlier.wait_fill_seconds),
            wait_behind_seconds: less(self.wait_behind_seconds, earlier.wait_behind_seconds),
            planning_full_seconds: less(self.planning_full_seconds, earlier.planning_full_seconds),
            planning_slot_seconds: less(self.planning_slot_seconds, earlier.planning_slot_seconds),
            slot_waits: self.slot_waits.since(&earlier.slot_waits),
        }
    }

    /// Share of the time in which the next batch was ready, from 0 to 1.
    pub fn readiness(&self) -> f64 {
        share(self.ready_seconds, self.seconds)
    }

    /// Mean number of ready batches over time.
    pub fn mean_ready(&self) -> f64 {
        share(self.ready_batch_seconds, self.seconds)
    }

    /// Mean number of batches that were being filled, over time.
    pub fn mean_filling(&self) -> f64 {
        share(self.filling_batch_seconds, self.seconds)
    }
}

/// How long reading took while a certain number of jobs read at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadStats {
    /// Number of jobs that read at the same time, as a mean over samples.
    pub jobs: f64,
    /// Samples read.
    pub samples: u64,
    /// Mean time of reading one sample, in seconds.
    pub sample_seconds: f64,
}

impl ReadStats {
    pub(super) fn read(reads: &Concurrency) -> Vec<[u64; 3]> {
        reads.levels.iter().map(|level| level.each_ref().map(|sum| sum.load(Ordering::Relaxed))).collect()
    }

    pub(super) fn of(levels: &[[u64; 3]]) -> Vec<Self> {
        let level = |[ns, samples, jobs]: &[u64; 3]| Self {
            jobs: *jobs as f64 / *samples as f64,
            samples: *samples,
            sample_seconds: *ns as f64 / 1e9 / *samples as f64,
        };
        levels.iter().filter(|[_, samples, _]| *samples > 0).map(level).collect()
    }
}

/// A sample that took long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SlowSample {
    /// Its index in the source.
    pub sample: u64,
    /// Where it is: file, record and line, as far as the source knows them.
    pub name: String,
    /// Time of reading it, in seconds.
    pub read_seconds: f64,
    /// Time of decoding it, in seconds.
    pub decode_seconds: f64,
    /// Time of resizing its images and changing them at random, in seconds.
    pub resize_seconds: f64,
    /// Time of its transforms, in seconds.
    pub transform_seconds: f64,
}

impl SlowSample {
    /// All of this time, in seconds.
    pub fn seconds(&self) -> f64 {
        self.read_seconds + self.decode_seconds + self.resize_seconds + self.transform_seconds
    }
}
