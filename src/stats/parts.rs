use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::counters::{Concurrency, Counters, QueueCounter, StageCounter, TrainerCounter};

use super::times::Times;
use super::{less, seconds};

/// What takes time where batches are planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Planning {
    /// Samples are chosen.
    #[default]
    Order,
    /// Records are read that can only be read in order: a pipe, compressed text.
    Stream,
    /// An iterator of the user's own is asked for samples.
    Iterator,
    /// Samples are chosen, and it is looked how long they are, since batches differ in size.
    Lengths,
}

/// One stage's figures, summed over its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageStats {
    /// `plan` (which samples come next; for a stream, reading them too), `read`, `decode`, `resize` (where there are images: to their
    /// size, their random changes, and to the tensor's numbers), `transform` (where the source has transforms, the user's own among
    /// them) or `settle` (what becomes of bad records, batch by batch).
    pub name: &'static str,
    /// Threads that work on it now; all stages but `plan` share theirs, the workers.
    pub threads: usize,
    /// Time that these threads had, in seconds: with one number of threads all the time, that number times the trainer's time.
    pub thread_seconds: f64,
    /// Time worked by the clock, in seconds.
    pub busy_seconds: f64,
    /// Of that, time on a processor core, in seconds: the rest was waited for input, locks or a free core. Looked at now and then;
    /// absent where the system does not tell, or nothing was looked at yet.
    pub cpu_seconds: Option<f64>,
    /// Time that its thread could have run but had no core to run on, in seconds, worked or not: of `plan` alone, which has a thread of
    /// its own. Linux tells it.
    pub queued_seconds: Option<f64>,
    /// Samples that went through.
    pub samples: u64,
    /// Bytes that it read from files or storages, packed as they lie there: what measuring and decoding read counts as `read`, and
    /// what a stream reads as `plan`. Nothing of files that are mapped.
    pub bytes_read: u64,
    /// How many requests that took: calls of the system, or pieces of a storage, which may have been asked for ahead.
    pub requests: u64,
    /// What the stage could do if it had its threads to itself and never waited: samples by busy time of one thread, times
    /// threads.
    pub samples_per_second: f64,
    /// How long a sample took; in `plan`, a batch; in `settle`, a batch with bad records. Samples that take less than 20 us count with the mean of those
    /// that were worked on in one go.
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

/// Work that began before the trainer first asked is counted, but that time is not; hence at most 1.
fn share_of_threads(seconds: f64, thread_seconds: f64) -> f64 {
    super::share(seconds, thread_seconds).min(1.0)
}

fn rate(samples: u64, busy_seconds: f64, threads: usize) -> f64 {
    if busy_seconds > 0.0 { samples as f64 / busy_seconds * threads as f64 } else { 0.0 }
}

/// What the trainer did: the caller of `next`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrainerStats {
    /// Batches that it was given.
    pub batches: u64,
    /// Of these, how many were ready when they were asked for.
    pub ready: u64,
    /// Time that it waited for batches, in seconds. Without prefetch, all time that it takes to make them.
    pub wait_seconds: f64,
    /// Time between two batches in which it did not wait, in seconds: its steps, and what else it did.
    pub busy_seconds: f64,
    /// Time in `next` that was not waited, in seconds: what handing over costs.
    pub deliver_seconds: f64,
    /// How long it waited for each batch.
    pub waits: Times,
    /// How long it worked on each batch; what it did between two epochs is one more if it took longer.
    pub steps: Times,
    /// How long handing over each batch took: the time in `next` that was not waited.
    pub deliveries: Times,
    /// Of the time that it waited, what it waited for the first batch of each epoch, in seconds.
    pub edge_wait_seconds: f64,
    /// Epochs of which it was given the first batch.
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

    /// The time that these figures are about, in seconds: from the first batch that was asked for.
    pub fn seconds(&self) -> f64 {
        self.wait_seconds + self.busy_seconds + self.deliver_seconds
    }

    /// Share of the time that the trainer waited, from 0 to 1.
    pub fn waited(&self) -> f64 {
        super::share(self.wait_seconds, self.seconds())
    }

    /// Share of batches that were ready when they were asked for, from 0 to 1.
    pub fn readiness(&self) -> f64 {
        super::share(self.ready as f64, self.batches as f64)
    }
}

/// The worker threads, over all that they did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkerStats {
    /// How many there are now; none without prefetch.
    pub threads: usize,
    /// Time that they had, in seconds: with one number of threads all the time, that number times the trainer's time. Where it is
    /// found while the trainer works, each number counts for as long as it was in effect.
    pub thread_seconds: f64,
    /// Time that they worked for this iterator, by the clock, in seconds.
    pub busy_seconds: f64,
    /// Time that they waited for work before it came, in seconds.
    pub idle_seconds: f64,
    /// Time that they rested because they may use no more of the cores, in seconds.
    pub rested_seconds: f64,
    /// Of the time that they worked, what they waited to begin the transforms' code, in seconds: functions in Python wait for the
    /// interpreter's lock ([`Transform::around`](crate::transform::Transform::around)).
    pub lock_wait_seconds: f64,
    /// Of the time that they worked, what they waited for memory of the [`MemoryBudget`](crate::memory::MemoryBudget) that other
    /// workers held, in seconds: decoders of images take theirs from it.
    pub memory_wait_seconds: f64,
    /// Cores whose time they may use together, where `worker_cores` or `worker_share` bound it.
    pub most_cores: Option<f64>,
    /// Time that they were on a processor core, in seconds, for whatever iterator. Linux tells it.
    pub cpu_seconds: Option<f64>,
    /// Time that they could have run but had no core to run on, in seconds. Linux tells it.
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

    /// The share of all threads' time that so many seconds are, at most 1.
    pub(super) fn share(&self, seconds: f64) -> f64 {
        share_of_threads(seconds, self.thread_seconds)
    }
}

/// Batches on their way to the trainer, over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueStats {
    /// How many whole batches may wait for the trainer.
    pub prefetch: usize,
    /// Time that these figures are about, in seconds: the workspace was this iterator's.
    pub seconds: f64,
    /// Time in which the next batch was ready, in seconds.
    pub ready_seconds: f64,
    /// Time in which other batches were ready but not the next one, in seconds.
    pub behind_seconds: f64,
    /// Ready batches times time, in seconds: divided by `seconds`, how many were ready in the mean.
    pub ready_batch_seconds: f64,
    /// Batches that were being filled times time, in seconds.
    pub filling_batch_seconds: f64,
    /// Time that the trainer waited while the next batch was being planned, in seconds.
    pub wait_plan_seconds: f64,
    /// Time that it waited while there was no slot, because it held them itself, in seconds.
    pub wait_slot_seconds: f64,
    /// Time that it waited while the next batch was being filled and no other was ready, in seconds.
    pub wait_fill_seconds: f64,
    /// Time that it waited for one batch while others behind it were ready, in seconds.
    pub wait_behind_seconds: f64,
    /// Time that planning waited because as many batches as may be were planned, in seconds.
    pub planning_full_seconds: f64,
    /// Time that planning waited for a slot that the caller held, in seconds.
    pub planning_slot_seconds: f64,
    /// How long planning waited for the slot of each batch: hardly at all, while the caller holds no more batches than it may.
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
        super::share(self.ready_seconds, self.seconds)
    }

    /// Batches that were ready, in the mean over time.
    pub fn mean_ready(&self) -> f64 {
        super::share(self.ready_batch_seconds, self.seconds)
    }

    /// Batches that were being filled, in the mean over time.
    pub fn mean_filling(&self) -> f64 {
        super::share(self.filling_batch_seconds, self.seconds)
    }
}

/// How long reading took while so many jobs read at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ReadStats {
    /// How many jobs read at the same time, in the mean over samples.
    pub jobs: f64,
    /// Samples read.
    pub samples: u64,
    /// Time that reading one took, in seconds, in the mean.
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
pub struct SlowSample {
    /// Its index in the source.
    pub sample: u64,
    /// Where it is: file, record, line, as far as the source tells.
    pub name: String,
    /// Time that reading it took, in seconds.
    pub read_seconds: f64,
    /// Time that decoding it took, in seconds.
    pub decode_seconds: f64,
    /// Time that resizing its images and changing them at random took, in seconds.
    pub resize_seconds: f64,
    /// Time that transforms of it took, in seconds.
    pub transform_seconds: f64,
}

impl SlowSample {
    /// All of it, in seconds.
    pub fn seconds(&self) -> f64 {
        self.read_seconds + self.decode_seconds + self.resize_seconds + self.transform_seconds
    }
}
