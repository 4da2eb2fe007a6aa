//! The counters that working threads write; `stats` reads them.
//!
//! Nothing here allocates or waits while batches are made: numbers are added up, times go into histograms of fixed
//! size, and the few slowest samples into a table of fixed size.

mod bytes_read;
mod clock;
mod damage;
mod histogram;
mod inside;
mod recorder;
mod slowest;
mod timeline;
mod trainer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use bytes_read::BytesRead;
pub(crate) use clock::{Lap, Spent, Tick, now, process_cpu, thread_cpu};
pub(crate) use damage::{Damage, DamageTally, Damages};
pub(crate) use histogram::{BUCKETS, Histogram, bounds_of};
pub(crate) use inside::Inside;
#[cfg(feature = "images")]
pub(crate) use inside::Resizing;
pub(crate) use recorder::{Event, Kind, Recorder, Spans, Traced, Tracer, Track};
pub(crate) use slowest::{Slow, Slowest};
pub(crate) use timeline::{Moment, Stretches, Timeline};
pub(crate) use trainer::{TrainerClock, TrainerCounter};

/// The counters of one stage, summed over its threads.
#[derive(Debug)]
pub(crate) struct StageCounter {
    pub(crate) busy_ns: AtomicU64,
    /// The part of the busy time for which the processor time was read, too, and this processor time.
    pub(crate) timed_ns: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) samples: AtomicU64,
    /// Of files and storages.
    pub(crate) bytes_read: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Per sample, or per batch if a stage works on whole batches.
    pub(crate) times: Histogram,
}

impl StageCounter {
    fn new() -> Self {
        Self {
            busy_ns: AtomicU64::new(0),
            timed_ns: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            times: Histogram::new(),
        }
    }

    /// Counts work on `samples` samples.
    pub(crate) fn busy(&self, spent: Spent, samples: usize) {
        add(&self.busy_ns, spent.wall);
        if let Some(cpu) = spent.cpu {
            add(&self.timed_ns, spent.wall);
            add(&self.cpu_ns, cpu);
        }
        self.handled(samples);
    }

    /// Counts `samples` samples that took almost no time.
    pub(crate) fn handled(&self, samples: usize) {
        count(&self.samples, samples as u64);
    }

    /// Counts a whole batch of `samples` samples, and the bytes read for it. Only the calling thread may count in this
    /// stage.
    pub(crate) fn busy_alone(&self, spent: Spent, samples: usize, read: BytesRead) {
        self.more_alone(spent);
        add_alone(&self.samples, samples as u64);
        self.times.record_alone(spent.wall);
        if read.requests > 0 {
            add_alone(&self.bytes_read, read.bytes);
            add_alone(&self.requests, read.requests);
        }
    }

    /// Counts more work on a batch that was counted before. Only the calling thread may count in this stage.
    pub(crate) fn more_alone(&self, spent: Spent) {
        add_alone(&self.busy_ns, nanoseconds(spent.wall));
        if let Some(cpu) = spent.cpu {
            add_alone(&self.timed_ns, nanoseconds(spent.wall));
            add_alone(&self.cpu_ns, nanoseconds(cpu));
        }
    }

    /// Adds the bytes that were read meanwhile.
    pub(crate) fn read(&self, read: BytesRead) {
        if read.requests > 0 {
            count(&self.bytes_read, read.bytes);
            count(&self.requests, read.requests);
        }
    }
}

/// Whether nothing is counted, in builds that measure the cost of counting (`benches/statistics.rs`).
const UNCOUNTED: bool = cfg!(ringfeed_uncounted);

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    if !UNCOUNTED {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

/// Adds a time to a counter of nanoseconds.
pub(crate) fn add(counter: &AtomicU64, time: Duration) {
    count(counter, nanoseconds(time));
}

/// Adds to a counter that no other thread writes to, at a fraction of the cost of an atomic addition.
pub(crate) fn add_alone(counter: &AtomicU64, more: u64) {
    if !UNCOUNTED {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// The causes of the trainer's waits, in nanoseconds, and the fill level of the ring: integrals over time.
#[derive(Debug, Default)]
pub(crate) struct QueueCounter {
    /// Time in which this iterator had the ring.
    pub(crate) time_ns: AtomicU64,
    /// Time in which the next batch was ready, and time in which only later ones were.
    pub(crate) ready_ns: AtomicU64,
    pub(crate) behind_ns: AtomicU64,
    /// Batches times time.
    pub(crate) ready_batch_ns: AtomicU64,
    pub(crate) filling_batch_ns: AtomicU64,
    /// Time that the trainer waited: for planning, for a slot that it holds itself, for a batch that is being filled
    /// while no other is ready, and for a batch while later ones are ready.
    pub(crate) wait_plan_ns: AtomicU64,
    pub(crate) wait_slot_ns: AtomicU64,
    pub(crate) wait_fill_ns: AtomicU64,
    pub(crate) wait_behind_ns: AtomicU64,
}

/// All counters of one iterator.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Records events, if a trace is wanted.
    pub(crate) trace: Option<Tracer>,
    pub(crate) plan: StageCounter,
    pub(crate) read: StageCounter,
    pub(crate) decode: StageCounter,
    pub(crate) resize: StageCounter,
    pub(crate) transform: StageCounter,
    pub(crate) settle: StageCounter,
    /// Time that planning waited because enough batches were planned, and because the caller held the slots.
    pub(crate) room_wait_ns: AtomicU64,
    pub(crate) slot_wait_ns: AtomicU64,
    /// How long planning waited for the slot of each batch.
    pub(crate) slot_waits: Histogram,
    /// Time that workers waited for work.
    pub(crate) idle_ns: AtomicU64,
    /// Time that workers rested because they had used up their share of the cores.
    pub(crate) rest_ns: AtomicU64,
    /// Time that workers waited to begin the transforms' code.
    pub(crate) lock_wait_ns: AtomicU64,
    /// Time that workers waited for memory of the budget that other threads held.
    pub(crate) memory_wait_ns: AtomicU64,
    pub(crate) trainer: TrainerCounter,
    pub(crate) queue: QueueCounter,
    pub(crate) reads: Concurrency,
    pub(crate) slowest: Slowest,
    pub(crate) timeline: Timeline,
    pub(crate) batches: AtomicU64,
    pub(crate) samples: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) replaced: AtomicU64,
    pub(crate) refilled: AtomicU64,
    pub(crate) left_behind: AtomicU64,
    pub(crate) moved_rows: AtomicU64,
    /// Batches whose bytes were requested before workers needed them.
    pub(crate) asked_ahead: AtomicU64,
    pub(crate) scope_spilled: AtomicU64,
    pub(crate) detached: AtomicU64,
    pub(crate) damaged: AtomicU64,
    /// By kind.
    pub(crate) damage: [AtomicU64; Damage::ALL.len()],
}

impl Counters {
    pub(crate) fn new(trace: Option<Tracer>) -> Self {
        Self {
            trace,
            plan: StageCounter::new(),
            read: StageCounter::new(),
            decode: StageCounter::new(),
            resize: StageCounter::new(),
            transform: StageCounter::new(),
            settle: StageCounter::new(),
            room_wait_ns: AtomicU64::new(0),
            slot_wait_ns: AtomicU64::new(0),
            slot_waits: Histogram::new(),
            idle_ns: AtomicU64::new(0),
            rest_ns: AtomicU64::new(0),
            lock_wait_ns: AtomicU64::new(0),
            memory_wait_ns: AtomicU64::new(0),
            trainer: TrainerCounter::new(),
            queue: QueueCounter::default(),
            reads: Concurrency::default(),
            slowest: Slowest::new(),
            timeline: Timeline::new(),
            batches: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            refilled: AtomicU64::new(0),
            left_behind: AtomicU64::new(0),
            moved_rows: AtomicU64::new(0),
            asked_ahead: AtomicU64::new(0),
            scope_spilled: AtomicU64::new(0),
            detached: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            damage: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Counts this many arrays of scopes that did not fit.
    pub(crate) fn count_spilled(&self, arrays: u64) {
        if arrays > 0 {
            self.scope_spilled.fetch_add(arrays, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_damage(&self, tally: DamageTally) {
        if tally.images == 0 {
            return;
        }
        self.damaged.fetch_add(tally.images, Ordering::Relaxed);
        for (counter, count) in self.damage.iter().zip(tally.kinds) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The trainer waited from `since` until `now`.
    pub(crate) fn trainer_waited(&self, since: Tick, now: Tick) {
        add_alone(&self.trainer.wait_ns, nanoseconds(now.since(since)));
        if let Some(trace) = &self.trace {
            trace.record(Kind::Wait, trace.trainer(), (since, now), None, 0);
        }
    }
}

/// How long reading took, by the number of jobs that read at the same time. This distinguishes storage with high
/// latency from storage with limited throughput.
#[derive(Debug, Default)]
pub(crate) struct Concurrency {
    reading: AtomicU64,
    /// For 1, 2, 3 to 4, 5 to 8 jobs and so on: time, samples, and the sum over samples of how many jobs read.
    pub(crate) levels: [[AtomicU64; 3]; LEVELS],
}

/// Up to 4096 jobs that read at the same time.
pub(crate) const LEVELS: usize = 13;

impl Concurrency {
    /// A job begins to read; returns how many jobs read now.
    pub(crate) fn enter(&self) -> u64 {
        if UNCOUNTED { 1 } else { self.reading.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// A job has read `samples` samples. `entered` is what `enter` returned.
    pub(crate) fn leave(&self, entered: u64, time: Duration, samples: usize) {
        if UNCOUNTED {
            return;
        }
        let left = self.reading.fetch_sub(1, Ordering::Relaxed);
        let jobs = entered.midpoint(left).max(1);
        let level = (u64::BITS - (jobs - 1).leading_zeros()) as usize;
        let samples = samples as u64;
        let sums = [nanoseconds(time), samples, samples * jobs];
        for (sum, add) in self.levels[level.min(LEVELS - 1)].iter().zip(sums) {
            sum.fetch_add(add, Ordering::Relaxed);
        }
    }
}
