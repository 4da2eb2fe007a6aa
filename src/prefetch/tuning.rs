use std::sync::Arc;
use std::time::Instant;

use crate::stats::StatsHandle;

use super::gate::Gate;
use super::session::Session;
use super::tune::{Amounts, Found, Tuner};

/// Applies the numbers of workers and batches ahead, on the planning thread.
pub(super) struct Tuning {
    gate: Arc<Gate>,
    found: Arc<Found>,
    /// `None` if both are given.
    tuner: Option<Tuner>,
    figures: StatsHandle,
    looked: Instant,
    now: Amounts,
    /// Slots of the ring that are not for batches ahead.
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

    /// The number of workers for the next jobs. Another iterator of the workspace may have used other numbers.
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

    /// Called after each planned batch: looks at the statistics if a look is due.
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
        // Another iterator of the workspace may need more slots than this one.
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
