//! The batches of a session in ticket order.

use std::collections::VecDeque;

use crate::counters::{Counters, Tick, now};
use crate::dataset::{Batch, BatchPlan};
use crate::error::Error;
use crate::prefetch::levels::{Levels, Wait};
use crate::prefetch::steps::Begin;
use crate::ring::Draft;

/// Batches in ticket order, and what the consumer wants of the planning thread.
pub(super) struct Window {
    pub(super) wanted: Wanted,
    /// After a request to pause: all threads have stopped, and every batch that was not delivered is pending again.
    /// Until then some batches may be partly filled.
    pub(super) paused: bool,
    pub(super) parked: bool,
    pub(super) exited: bool,
    pub(super) entries: VecDeque<Entry>,
    /// Maximum number of batches that are bound and not delivered.
    pub(super) limit: usize,
    /// The same, before the first batch is delivered to a trainer that waits for it. With more batches than the workers
    /// can begin at once, no core would be free to wake the trainer, and it would wait up to a tick longer.
    pub(super) first_limit: usize,
    /// Whether the trainer has taken a batch, or one was ready while it did not wait.
    pub(super) has_begun: bool,
    pub(super) first_ticket: u64,
    pub(super) in_flight: usize,
    /// How full it is, and what the trainer waits for.
    pub(super) levels: Levels,
    pub(super) waiting_for_slot: bool,
    pub(super) spill: bool,
    /// Batches that were planned before the workspace was taken away. They are filled again in this order.
    pub(super) pending: VecDeque<Pending>,
    pub(super) begin: Option<Begin>,
    /// The epoch that is being planned.
    pub(super) epoch: u64,
    /// Nothing more is planned until the consumer asks for another epoch.
    pub(super) ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Run,
    Pause,
    Close,
}

/// An item that was in the window, or would have come next.
#[expect(clippy::large_enum_variant, reason = "a box would be memory taken for each batch")]
pub(super) enum Pending {
    Plan(BatchPlan),
    Mark(Entry),
}

pub(super) enum Entry {
    Filling,
    Filled(Draft<Batch>),
    Failed(Error),
    End,
}

impl Window {
    /// Records the time since the last change, and returns the current time. Called before each change.
    pub(super) fn note(&mut self, counters: &Counters) -> Tick {
        let now = now();
        self.note_until(counters, now);
        now
    }

    /// The same for callers that have just read the clock.
    pub(super) fn note_until(&mut self, counters: &Counters, now: Tick) {
        if self.paused {
            return self.levels.pause();
        }
        let wait = match self.entries.front() {
            Some(Entry::Filling) => Wait::Fill,
            Some(_) => Wait::Nothing,
            None if self.waiting_for_slot => Wait::Slot,
            None => Wait::Plan,
        };
        self.levels.note(&counters.queue, wait, self.in_flight, now);
    }

    /// The trainer waits from now on, or no longer.
    pub(super) fn trainer_waits(&mut self, counters: &Counters, waits: bool) -> Tick {
        let now = self.note(counters);
        self.levels.trainer_waits = waits;
        now
    }

    /// Records how many batches are ready and being filled from now on, if there is a trace.
    pub(super) fn trace_levels(&self, counters: &Counters, now: Tick) {
        if let Some(trace) = &counters.trace {
            trace.record_levels(now, self.levels.ready, self.in_flight);
        }
    }

    /// Whether the batch that the trainer waits for is ready.
    pub(super) fn is_trainer_due(&self) -> bool {
        self.levels.trainer_waits && matches!(self.entries.front(), Some(Entry::Filled(_)))
    }

    /// Whether the planning thread can make another batch.
    pub(super) fn is_planning_due(&self) -> bool {
        self.wanted == Wanted::Run && !self.ended && !self.waiting_for_slot && self.has_room()
    }

    /// Whether another batch may be bound. Ends of epochs take no slot, but a series of epochs without batches must not
    /// make them pile up.
    pub(super) fn has_room(&self) -> bool {
        let ends = self.ends();
        let limit = if self.has_begun { self.limit } else { self.limit.min(self.first_limit) };
        self.entries.len() - ends < limit && ends < 2
    }

    /// Whether the next batch must be planned now. It must not add too many ends of epochs.
    pub(super) fn has_nothing_planned(&self) -> bool {
        self.pending.is_empty() && self.begin.is_none() && !self.ended && self.ends() < 2
    }

    fn ends(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::End)).count()
    }
}
