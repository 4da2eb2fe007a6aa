use std::sync::Arc;
use std::time::Instant;

use crate::stats::StatsHandle;

use super::gate::Gate;
use super::session::Session;
use super::tune::{Amounts, Found, Tuner};

/// Puts into effect how many workers and batches ahead an iterator has: the planning thread's part of it.
pub(super) struct Tuning {
    gate: Arc<Gate>,
    found: Arc<Found>,
    /// None where both are given.
    tuner: Option<Tuner>,
    figures: StatsHandle,
    looked: Instant,
    now: Amounts,
    /// Slots of the ring beside those for batches ahead.
    other_slots: usize,
}

impl Tuning {
    pub(super) fn new(
        gate: Arc<Gate>,
        found: Arc<Found>,
        tuner: Option<Tuner>,
        figures: StatsHandle,
        other_slots: usize,
    ) -> Self {
        let now = found.amounts();
        Self { gate, found, tuner, figures, looked: Instant::now(), now, other_slots }
    }

    /// How many workers there are for what is handed out now. Another iterator of the workspace may have had others, and other
    /// slots.
    pub(super) fn workers(&self, session: &Session) -> usize {
        self.gate.set(self.now.workers);
        let slots = self.now.prefetch + self.other_slots;
        if self.tuner.is_some()
            && session.ring.slots() < slots
            && let Err(error) = session.ring.set_slots(slots)
        {
            tracing::debug!(%error, "the ring has fewer slots than were found");
        }
        self.now.workers
    }

    /// A batch was planned: looks at the figures if it is time to.
    pub(super) fn planned(&mut self, session: &Session) {
        let Some(tuner) = &mut self.tuner else { return };
        if !tuner.is_due(self.looked.elapsed()) {
            return;
        }
        self.looked = Instant::now();
        let Some(stats) = self.figures.stats() else { return };
        if let Some((wanted, why)) = tuner.look(stats, session.least_ready()) {
            self.set(wanted, why, session);
        }
    }

    fn set(&mut self, mut wanted: Amounts, mut why: String, session: &Session) {
        let slots = session.ring.slots();
        let needed = wanted.prefetch + self.other_slots;
        // Another iterator of the workspace may need more than this one.
        let fewer = slots.saturating_sub(self.now.prefetch.saturating_sub(wanted.prefetch));
        if let Err(error) = session.ring.set_slots(fewer.max(needed)) {
            wanted.prefetch = session.ring.slots().saturating_sub(self.other_slots).min(wanted.prefetch);
            why = error.message().to_owned();
            if let Some(tuner) = &mut self.tuner {
                tuner.no_room(wanted.prefetch);
            }
        }
        session.set_prefetch(wanted.prefetch);
        tracing::info!(workers = wanted.workers, prefetch = wanted.prefetch, why, "tuned");
        self.now = wanted;
        self.found.set(wanted, why, session.counters.trainer.seconds());
    }
}
