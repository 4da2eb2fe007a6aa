use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use super::adding::{add_alone, nanoseconds};
use super::clock::Tick;
use super::concurrency::Concurrency;
use super::damage::{Damage, DamageTally};
use super::histogram::Histogram;
use super::queue::QueueCounter;
use super::recorder::{Kind, Tracer};
use super::slowest::Slowest;
use super::stage::StageCounter;
use super::timeline::{Moment, Timeline};
use super::trainer::TrainerCounter;

/// All counters of one iterator. What a thread writes for each batch lies in cache lines that no other thread writes.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Records events, if a trace is wanted.
    pub(crate) trace: Option<Tracer>,
    pub(crate) plan: CachePadded<StageCounter>,
    pub(crate) read: StageCounter,
    pub(crate) decode: StageCounter,
    pub(crate) resize: StageCounter,
    pub(crate) transform: StageCounter,
    pub(crate) settle: StageCounter,
    /// Time that planning waited because enough batches were planned, and because the caller held the slots.
    pub(crate) room_wait_ns: CachePadded<AtomicU64>,
    pub(crate) slot_wait_ns: CachePadded<AtomicU64>,
    /// How long planning waited for the slot of each batch.
    pub(crate) slot_waits: Histogram,
    /// Time that workers waited for work.
    pub(crate) idle_ns: CachePadded<AtomicU64>,
    /// Time that workers rested because they had used up their share of the cores.
    pub(crate) rest_ns: AtomicU64,
    /// Time that workers waited to begin the transforms' code.
    pub(crate) lock_wait_ns: AtomicU64,
    /// Time that workers waited for memory of the budget that other threads held.
    pub(crate) memory_wait_ns: AtomicU64,
    pub(crate) trainer: CachePadded<TrainerCounter>,
    pub(crate) queue: CachePadded<QueueCounter>,
    pub(crate) reads: Concurrency,
    pub(crate) slowest: Slowest,
    pub(crate) timeline: Timeline,
    pub(crate) batches: CachePadded<AtomicU64>,
    pub(crate) samples: CachePadded<AtomicU64>,
    pub(crate) bytes: CachePadded<AtomicU64>,
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
            plan: StageCounter::new().into(),
            read: StageCounter::new(),
            decode: StageCounter::new(),
            resize: StageCounter::new(),
            transform: StageCounter::new(),
            settle: StageCounter::new(),
            room_wait_ns: AtomicU64::new(0).into(),
            slot_wait_ns: AtomicU64::new(0).into(),
            slot_waits: Histogram::new(),
            idle_ns: AtomicU64::new(0).into(),
            rest_ns: AtomicU64::new(0),
            lock_wait_ns: AtomicU64::new(0),
            memory_wait_ns: AtomicU64::new(0),
            trainer: TrainerCounter::new().into(),
            queue: QueueCounter::default().into(),
            reads: Concurrency::default(),
            slowest: Slowest::new(),
            timeline: Timeline::new(),
            batches: AtomicU64::new(0).into(),
            samples: AtomicU64::new(0).into(),
            bytes: AtomicU64::new(0).into(),
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

    /// A batch was delivered to the trainer at `now`: records the sums if a moment is due.
    pub(crate) fn note_moment(&self, now: Tick) {
        let Some(ns) = self.timeline.due(now) else { return };
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let worked = [&self.read, &self.decode, &self.resize, &self.transform, &self.settle];
        self.timeline.keep(Moment {
            ns,
            batches: load(&self.trainer.batches),
            samples: load(&self.samples),
            busy_ns: worked.iter().map(|stage| load(&stage.busy_ns)).sum(),
            wait_ns: load(&self.trainer.wait_ns),
            queue_ns: load(&self.queue.time_ns),
            ready_batch_ns: load(&self.queue.ready_batch_ns),
        });
    }
}
