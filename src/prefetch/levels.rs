use crate::counters::{QueueCounter, Tick, add_alone, nanoseconds};

/// How full the window is, and since when. The integrals over time are added to the counters.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// `None` while the workspace is not lent.
    since: Option<Tick>,
    /// Batches that are complete and not delivered.
    pub(super) ready: usize,
    pub(super) trainer_waits: bool,
    /// The fewest batches that were ready when the trainer took one, since this was last read.
    pub(super) least_ready: usize,
}

/// What the trainer would wait for if it asked now.
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
    /// Adds up the levels since the last call until `now`; nothing if another call was for a later time.
    pub(super) fn note(&mut self, queue: &QueueCounter, wait: Wait, filling: usize, now: Tick) {
        let Some(since) = self.since.replace(self.since.map_or(now, |since| since.max(now))) else { return };
        // Whoever notes holds the window's lock.
        let ns = nanoseconds(now.since(since));
        add_alone(&queue.time_ns, ns);
        add_alone(&queue.ready_batch_ns, ns.saturating_mul(self.ready as u64));
        add_alone(&queue.filling_batch_ns, ns.saturating_mul(filling as u64));
        let waited = match wait {
            Wait::Nothing => return add_alone(&queue.ready_ns, ns),
            Wait::Plan => &queue.wait_plan_ns,
            Wait::Slot => &queue.wait_slot_ns,
            Wait::Fill if self.ready > 0 => {
                add_alone(&queue.behind_ns, ns);
                &queue.wait_behind_ns
            }
            Wait::Fill => &queue.wait_fill_ns,
        };
        if self.trainer_waits {
            add_alone(waited, ns);
        }
    }

    /// Time is not counted until the next call of `note`.
    pub(super) fn pause(&mut self) {
        self.since = None;
    }
}
