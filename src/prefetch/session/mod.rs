//! One source's batches in flight. The trainer takes them (`taking`), the planning thread gives them slots and tickets
//! (`binding`), workers fill them (here), and all of them stop for a pause or at the end (`closing`).

mod binding;
mod closing;
mod taking;
#[cfg(all(test, not(ringfeed_loom)))]
mod tests;
mod window;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::caught::caught;
use crate::counters::{Counters, Kind, Tick, Track};
use crate::dataset::{BadRecords, Batch, BatchPlan, Filler, PlanTerms, settle_batch};
use crate::error::{Error, Result};
use crate::read::Scratch;
use crate::ring::{Draft, Ring};
use crate::sync::{AtomicBool, Condvar, Mutex};
#[cfg(all(test, not(ringfeed_loom)))]
use crate::watchdog;

use super::fetchers::WithinLimit;
use super::levels::Levels;
use super::steps::{Begin, check_process};

use window::{Entry, Pending, Wanted, Window};

/// One source's batches in flight, shared by the consumer, the planning thread and the workers.
///
/// What several threads change at once lies in cache lines of its own: for tiny batches, moving a line from core to core
/// takes longer than all other work.
///
/// Lock order: the window, then the ring.
pub(super) struct Session {
    pub(super) filler: Arc<dyn Filler>,
    pub(super) counters: Arc<Counters>,
    pub(super) ring: Ring<Batch>,
    pub(super) policy: BadRecords,
    /// Helper threads that read, if reading has a time limit.
    pub(super) within_limit: Option<Arc<WithinLimit>>,
    /// One for each worker, so that every worker's buffers stay warm.
    scratches: Box<[Mutex<Scratch>]>,
    pub(super) terms: PlanTerms,
    /// Time to fill a row, in nanoseconds: a running mean that sizes jobs.
    pub(super) row_ns: CachePadded<AtomicU64>,
    /// Whether rows are written directly to their final place.
    pub(super) is_straight: AtomicBool,
    /// Tells workers and the planning thread to abandon their work. Set while the session is paused or closed.
    pub(super) stop: AtomicBool,
    /// Tells the planning thread to stop waiting for a slot: to abandon its batch, or to spill it.
    pub(super) interrupt: AtomicBool,
    window: CachePadded<Mutex<Window>>,
    /// For the consumer: a batch is ready, or none will come.
    ready: CachePadded<Condvar>,
    /// For the planning thread: there is room, or the consumer wants something else.
    go: CachePadded<Condvar>,
    /// Whether the next epoch begins when all batches of an epoch are planned.
    pub(super) runs_on: bool,
    /// Whether a batch is planned before there is room for it, so that it then only needs a slot.
    plans_ahead: bool,
    lease_wait: Duration,
    close_wait: Duration,
    /// The process that has its threads.
    process: u32,
}

pub(super) struct SessionParts {
    pub(super) filler: Arc<dyn Filler>,
    pub(super) counters: Arc<Counters>,
    pub(super) ring: Ring<Batch>,
    pub(super) policy: BadRecords,
    pub(super) first: Option<BatchPlan>,
    pub(super) terms: PlanTerms,
    pub(super) runs_on: bool,
    pub(super) plans_ahead: bool,
    pub(super) workers: usize,
    /// Maximum number of batches that are begun while the trainer waits for its first.
    pub(super) first_limit: usize,
    pub(super) prefetch: usize,
    /// The limit up to which it may be raised.
    pub(super) most_prefetch: usize,
    pub(super) within_limit: Option<Arc<WithinLimit>>,
    pub(super) lease_wait: Duration,
    pub(super) close_wait: Duration,
}

impl Session {
    /// A session that is paused, with the first batch planned. Without a first batch, it is at its end.
    pub(super) fn new(parts: SessionParts) -> Self {
        let empty = parts.first.is_none();
        let window = Window {
            wanted: Wanted::Pause,
            paused: true,
            parked: false,
            exited: false,
            entries: VecDeque::with_capacity(parts.most_prefetch + 2),
            limit: parts.prefetch + 1,
            first_limit: parts.first_limit,
            has_begun: false,
            first_ticket: 0,
            in_flight: 0,
            levels: Levels::default(),
            waiting_for_slot: false,
            spill: false,
            ended: empty && !parts.runs_on,
            epoch: u64::from(empty),
            pending: VecDeque::from([parts.first.map_or(Pending::Mark(Entry::End), Pending::Plan)]),
            begin: (empty && parts.runs_on).then_some(Begin::Epoch(1)),
        };
        Self {
            filler: parts.filler,
            counters: parts.counters,
            ring: parts.ring,
            policy: parts.policy,
            within_limit: parts.within_limit,
            scratches: (0..parts.workers).map(|_| Mutex::default()).collect(),
            terms: parts.terms,
            row_ns: AtomicU64::new(0).into(),
            is_straight: AtomicBool::new(false),
            stop: AtomicBool::new(true),
            interrupt: AtomicBool::new(false),
            window: Mutex::new(window).into(),
            ready: Condvar::new().into(),
            go: Condvar::new().into(),
            runs_on: parts.runs_on,
            plans_ahead: parts.plans_ahead,
            lease_wait: parts.lease_wait,
            close_wait: parts.close_wait,
            process: std::process::id(),
        }
    }

    /// An error in a forked child, which has none of the threads that would do the work, and in which any lock may be
    /// held for ever.
    pub(super) fn check_process(&self) -> Result<()> {
        check_process(self.process)
    }

    /// The error that ends the epoch once too many reads have passed their limit.
    pub(super) fn failure(&self) -> Option<Error> {
        self.within_limit.as_ref().and_then(|limit| limit.failure())
    }

    /// Takes worker `worker`'s buffers out, so that no lock is held while they are used.
    pub(super) fn take_scratch(&self, worker: usize) -> Scratch {
        std::mem::take(&mut *self.scratches[worker].lock())
    }

    /// Keeps worker `worker`'s buffers for its next job.
    pub(super) fn keep_scratch(&self, worker: usize, scratch: Scratch) {
        *self.scratches[worker].lock() = scratch;
    }

    /// All shares of a batch have returned. Returns whether the trainer or the planning thread has something to do now.
    pub(super) fn filled(&self, mut draft: Draft<Batch>, worker: usize, scratch: &mut Scratch) -> bool {
        if draft.is_whole() && !self.stop.load(Ordering::Acquire) {
            let begin = self.counters.trace.as_ref().map(|_| Tick::now());
            let settled = caught(|| {
                settle_batch(&mut draft, self.policy, &*self.filler, scratch, &self.counters);
                Ok(())
            });
            draft.payload_mut().plan.requested = None;
            if let (Some(trace), Some(begin)) = (&self.counters.trace, begin) {
                let (span, batch) = ((begin, Tick::now()), draft.payload());
                trace.record(Kind::Settle, Track::Worker(worker as u32), span, Some(batch.ticket), batch.plan.rows());
            }
            if let Some(error) = settled.err().or_else(|| self.failure()) {
                draft.payload().fail(error);
            }
        }
        let ticket = draft.payload().ticket;
        let mut draft = Some(draft);
        let mut window = self.window.lock();
        if window.wanted == Wanted::Close {
            drop(window);
            // Home before anybody hears that nothing is in flight: the next source counts on the slot. Under no lock,
            // because what frees its memory may be the user's.
            let _freed = caught(|| {
                drop(draft.take());
                Ok(())
            });
            window = self.window.lock();
        }
        let now = window.note(&self.counters);
        window.in_flight -= 1;
        let place = ticket.wrapping_sub(window.first_ticket) as usize;
        if let Some(draft) = draft {
            window.entries[place] = Entry::Filled(draft);
            window.levels.ready += 1;
            window.trace_levels(&self.counters, now);
        }
        let begins = !window.has_begun && !window.levels.trainer_waits;
        window.has_begun |= begins;
        let are_others_due = window.is_trainer_due() || window.is_planning_due();
        drop(window);
        if begins {
            self.go.notify_one();
        }
        if place == 0 || self.stop.load(Ordering::Acquire) {
            self.ready.notify_all();
        }
        are_others_due
    }
}
