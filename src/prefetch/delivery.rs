use std::sync::Arc;

use crate::caught::caught;
use crate::counters::{Counters, Kind, Tick, TrainerClock, add_alone};
use crate::dataset::{BadRecord, BadRecords, Batch, DataSet, Moment, OpenedSource, Positions, Settle, State, moments};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Fingerprint;
use crate::ring::Draft;
use crate::schema::Schema;
use crate::sync::Ordering;

use super::steps::Taken;

/// The last step of both iterators: settles batches in ticket order, delivers them, and keeps the position.
pub(super) struct Delivery {
    settle: Settle,
    schema: Arc<Schema>,
    counters: Arc<Counters>,
    clock: TrainerClock,
    /// When the trainer asked, and when it got which batch.
    entered: Option<Tick>,
    given: Option<(Tick, u64)>,
    /// While the first batch of an epoch has not come yet: how long the trainer had waited in total before it waited
    /// for this batch, in nanoseconds.
    edge: Option<u64>,
    batches_per_epoch: Option<u64>,
    repeatable: bool,
    fingerprint: Fingerprint,
    state: State,
    positions: Positions,
    /// The epoch has ended or failed: no batch comes until a reset.
    done: bool,
    /// The epoch was taken to its end, so that the next batch belongs to the next epoch.
    ended: bool,
    /// The trainer asked for a batch of this epoch, perhaps before the state at which it was resumed.
    begun: bool,
    /// The trainer asked for a batch since the last reset or seek.
    asked: bool,
    /// The last answer was `None`.
    silent: bool,
    /// A seek or reset failed halfway: no batch comes until one succeeds.
    lost: bool,
}

impl Delivery {
    pub(super) fn new(opened: &OpenedSource, counters: Arc<Counters>) -> Self {
        let positions = opened.planner.positions();
        Self {
            settle: Settle::new(opened.bad_records, opened.samples, positions.shards),
            positions,
            schema: opened.filler.schema().clone(),
            counters,
            clock: TrainerClock::default(),
            entered: None,
            given: None,
            edge: None,
            batches_per_epoch: opened.batches,
            repeatable: opened.repeatable,
            fingerprint: opened.fingerprint,
            state: State { source: Some(opened.fingerprint), ..State::new(opened.seed) },
            done: false,
            ended: false,
            begun: false,
            asked: false,
            silent: false,
            lost: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The answer of `next` if the epoch has no more batches: `None` ends a loop, and later calls get an error.
    pub(super) fn next_after_end(&mut self) -> Option<Result<DataSet>> {
        self.silent = !self.silent;
        (!self.silent).then(|| Err(Error::epoch_ended()))
    }

    /// The trainer may wait from now on, for a batch that it asks for now or later.
    pub(super) fn may_wait(&mut self) {
        if !self.asked && self.edge.is_none() {
            self.edge = Some(self.counters.trainer.wait_ns.load(Ordering::Relaxed));
        }
    }

    /// The trainer asks for a batch; returns the time.
    pub(super) fn asked(&mut self) -> Tick {
        let now = self.clock.enter(&self.counters.trainer);
        self.entered = Some(now);
        self.may_wait();
        if let (Some(trace), Some((given, batch))) = (&self.counters.trace, self.given.take()) {
            trace.record(Kind::Step, trace.trainer(), (given, now), Some(batch), 0);
        }
        now
    }

    /// The answer of `next` to the next batch in order, which was ready at `taken_at`.
    pub(super) fn deliver(&mut self, taken: Taken, taken_at: Tick) -> Option<Result<DataSet>> {
        let ticket = match &taken {
            Taken::Batch(draft) => Some(draft.payload().ticket),
            _ => None,
        };
        let delivered = match taken {
            Taken::Exhausted(error) => {
                self.clock.leave(&self.counters.trainer, false);
                return Some(Err(error));
            }
            Taken::Failed(error) => Some(Err(error)),
            Taken::End => {
                self.ended = true;
                self.settle.end_epoch(self.state.position).err().map(Err)
            }
            Taken::Batch(draft) => Some(caught(|| self.admit(draft, taken_at))),
        };
        self.begun = true;
        self.asked = true;
        self.done = !matches!(delivered, Some(Ok(_)));
        self.silent = delivered.is_none();
        let now = self.clock.leave(&self.counters.trainer, !self.done);
        if !self.done {
            if let Some(before) = self.edge.take() {
                let trainer = &self.counters.trainer;
                let waited = trainer.wait_ns.load(Ordering::Relaxed).saturating_sub(before);
                trainer.edge_wait_ns.fetch_add(waited, Ordering::Relaxed);
                trainer.epochs.fetch_add(1, Ordering::Relaxed);
            }
            self.counters.note_moment(now);
        }
        if let (Some(trace), Some(entered)) = (&self.counters.trace, self.entered) {
            let samples = delivered.as_ref().and_then(|item| item.as_ref().ok()).map_or(0, DataSet::len);
            trace.record(Kind::Next, trace.trainer(), (entered, now), ticket, samples);
            self.given = ticket.map(|ticket| (now, ticket));
        }
        delivered
    }

    fn admit(&mut self, mut draft: Draft<Batch>, taken_at: Tick) -> Result<DataSet> {
        self.settle.admit(&mut draft, &self.counters)?;
        let batch = draft.payload_mut();
        let (rows, bytes) = (batch.layout.rows(), batch.layout.tensor_bytes());
        let padding = batch.kept.as_ref().map_or(batch.plan.padding, |kept| kept.padding);
        // A subscriber may panic, and records may contain the user's objects. Only what is really delivered may be
        // counted.
        tracing::trace!(epoch = self.state.epoch, batch = batch.plan.index, rows, "a batch is handed out");
        batch.plan.release_records();
        self.counters.count_damage(*batch.damage.get_mut());
        self.state.position = batch.plan.end;
        self.state.bad = self.settle.bad_in_epoch();
        self.state.run = self.settle.run();
        batch.after = Some(self.state);
        // Nobody else hands out this iterator's batches.
        add_alone(&self.counters.batches, 1);
        add_alone(&self.counters.samples, (rows - padding) as u64);
        add_alone(&self.counters.bytes, bytes as u64);
        Ok(DataSet::new(draft.freeze(taken_at), self.schema.clone(), self.counters.clone()))
    }

    /// Whether the trainer has asked for nothing since the last reset or seek, so that an epoch begins here.
    pub(super) fn is_at_beginning(&self) -> bool {
        !self.asked && !self.lost
    }

    /// The epoch that a reset begins; `None` if there is nothing to reset.
    pub(super) fn next_epoch(&self) -> Result<Option<u64>> {
        if !self.begun && !self.lost {
            return Ok(None);
        }
        if !self.repeatable {
            let message = "the source serves a single epoch; for more epochs, give a factory that makes a new one";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Some(self.state.epoch.wrapping_add(self.begun.into())))
    }

    /// Whether the epoch was taken to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Begins `epoch`.
    pub(super) fn begin(&mut self, epoch: u64) {
        self.go_on(State { epoch, position: 0, bad: 0, run: 0, ..self.state });
    }

    /// Checks that a state can be resumed: its version is known, and seed and source are the same.
    pub(super) fn check_seek(&self, state: &State) -> Result<()> {
        state.check()?;
        if state.seed != self.state.seed {
            let message = format!("the state was made with seed {}, this iterator has {}", state.seed, self.state.seed);
            return Err(Error::new(ErrorKind::Config, message));
        }
        state.source.map_or(Ok(()), |then| then.check(&self.fingerprint))?;
        self.positions.check(state)
    }

    /// Resumes at `state`, perhaps in the middle of an epoch.
    pub(super) fn go_on(&mut self, state: State) {
        self.state = State { source: Some(self.fingerprint), ..state };
        self.settle.begin_epoch(state.bad, state.run);
        self.done = false;
        self.ended = false;
        self.begun = state.position > 0;
        self.asked = false;
        self.edge = None;
        self.lost = false;
    }

    /// Nothing more comes until a seek or reset succeeds: the next answer is an error, so that no loop takes it for an
    /// epoch without batches.
    pub(super) fn fuse(&mut self) {
        self.done = true;
        self.silent = true;
        self.lost = true;
    }

    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn batches_per_epoch(&self) -> Option<u64> {
        self.batches_per_epoch
    }

    pub(super) fn bad_records(&self) -> Vec<BadRecord> {
        self.settle.named()
    }

    pub(super) fn policy(&self) -> BadRecords {
        self.settle.policy()
    }

    pub(super) fn timeline(&self) -> Vec<Moment> {
        moments(&self.counters.timeline)
    }
}
