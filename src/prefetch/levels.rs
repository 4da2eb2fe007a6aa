use std::time::Instant;

use crate::counters::{QueueCounter, add};

/// How full the window is, and since when: its integrals over time go to the counters.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// `None` while the workspace is not lent.
    since: Option<Instant>,
    /// Batches that are whole and were not handed out.
    pub(super) ready: usize,
    pub(super) trainer_waits: bool,
    /// The fewest that were ready when the trainer took one, since somebody asked.
    pub(super) least_ready: usize,
}

/// What a trainer that asked now would wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// A plan.
    Plan,
    /// A slot that it holds itself.
    Slot,
    /// A batch that is being filled.
    Fill,
}

impl Levels {
    /// Adds up what was so since the last call, up to `now`.
    pub(super) fn note(&mut self, queue: &QueueCounter, wait: Wait, filling: usize, now: Instant) {
        let Some(since) = self.since.replace(now) else { return };
        let time = now.saturating_duration_since(since);
        add(&queue.time_ns, time);
        add(&queue.ready_batch_ns, time.saturating_mul(self.ready as u32));
        add(&queue.filling_batch_ns, time.saturating_mul(filling as u32));
        let waited = match wait {
            Wait::Nothing => return add(&queue.ready_ns, time),
            Wait::Plan => &queue.wait_plan_ns,
            Wait::Slot => &queue.wait_slot_ns,
            Wait::Fill if self.ready > 0 => {
                add(&queue.behind_ns, time);
                &queue.wait_behind_ns
            }
            Wait::Fill => &queue.wait_fill_ns,
        };
        if self.trainer_waits {
            add(waited, time);
        }
    }

    /// Time does not count until the next call of `note`.
    pub(super) fn pause(&mut self) {
        self.since = None;
    }
}
