use std::fmt;
use std::sync::Arc;

use crate::caught::caught;
use crate::counters::{BytesRead, Counters, Kind, Lap, Tick, add_alone, nanoseconds, now};
use crate::dataset::{
    BadRecord, Batch, BatchPlan, DataSet, DataSetIterator, Filler, Moment, OpenedSource, PlanTerms, Planner, Source,
    State, at_largest, fill_rows, measure_plan, plan_batch, settle_batch,
};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::read::Scratch;
use crate::ring::Ring;
use crate::schema::Schema;
use crate::stats::{Figures as _, Stats, StatsHandle};
use crate::sync::AtomicBool;

use super::async_iterator::AsyncDataSetIterator;
use super::delivery::Delivery;
use super::figures::Figures;
use super::steps::Taken;
use super::workspace::Workspace;

/// A source that may not be prefetched; see [`shield`].
#[doc(alias = "AsyncShieldDataSetIterator")]
#[derive(Debug)]
pub struct Shielded<S>(S);

/// Forbids prefetch: [`wrap`] then makes this source's batches on the caller's thread, one at a time, when `next` is
/// called. Breakpoints, backtraces and profiles show the decoder as a call from the training loop.
pub fn shield<S: Source>(source: S) -> Shielded<S> {
    Shielded(source)
}

impl<S: Source> Source for Shielded<S> {
    fn open(self: Box<Self>) -> Result<OpenedSource> {
        Box::new(self.0).open()
    }

    fn async_supported(&self) -> bool {
        false
    }
}

/// Prefetches `source`, unless it is shielded. A trainer's `fit` calls this.
///
/// # Errors
///
/// Those of [`AsyncDataSetIterator::new`].
pub fn wrap(source: impl Source + 'static, workspace: &Workspace) -> Result<Box<dyn DataSetIterator>> {
    if source.async_supported() {
        Ok(Box::new(AsyncDataSetIterator::new(source, workspace)?))
    } else {
        Ok(Box::new(AsyncShieldDataSetIterator::new(source, workspace)?))
    }
}

/// Batches made on the caller's thread, without prefetch, in the same ring and by the same code: every byte is the same
/// as with [`AsyncDataSetIterator`].
pub struct AsyncShieldDataSetIterator {
    planner: Box<dyn Planner>,
    filler: Arc<dyn Filler>,
    counters: Arc<Counters>,
    ring: Ring<Batch>,
    workspace: Workspace,
    delivery: Delivery,
    figures: Arc<Figures>,
    scratch: Scratch,
    layout: Layout,
    /// A batch that is planned but not made: the first one, or one that found no slot.
    planned: Option<BatchPlan>,
    spare: BatchPlan,
    terms: PlanTerms,
    /// Time that a row of the last batch took.
    row_ns: u64,
    /// Batches that were begun.
    made: u64,
    ended: bool,
}

impl fmt::Debug for AsyncShieldDataSetIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncShieldDataSetIterator")
            .field("state", &self.delivery.state())
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl AsyncShieldDataSetIterator {
    /// Plans the first batch of `source`, which determines the size of the workspace's ring if this is its first
    /// source. Uses none of the workspace's threads.
    ///
    /// # Errors
    ///
    /// Errors of the source; [`ErrorKind::Budget`](crate::ErrorKind::Budget) if the ring does not fit.
    pub fn new(source: impl Source, workspace: &Workspace) -> Result<Self> {
        let mut opened = Box::new(source).open()?;
        let (ring, planned, _) = workspace.prepare(&mut opened)?;
        let counters = Arc::new(Counters::new(workspace.config().tracer()));
        Ok(Self {
            delivery: Delivery::new(&opened, counters.clone()),
            figures: Figures::new(&opened, counters.clone(), ring.clone(), workspace, None),
            ended: planned.is_none(),
            terms: workspace.terms(&opened),
            row_ns: 0,
            made: 0,
            planner: opened.planner,
            filler: opened.filler,
            counters,
            ring,
            workspace: workspace.clone(),
            scratch: Scratch::default(),
            layout: Layout::default(),
            planned,
            spare: BatchPlan::default(),
        })
    }

    /// Makes the next batch; the time counts from `since`.
    fn make(&mut self, since: Tick) -> Result<Taken> {
        let mut plan = match self.planned.take() {
            Some(plan) => plan,
            None if self.ended => return Ok(Taken::End),
            None => {
                let mut plan = std::mem::take(&mut self.spare);
                BytesRead::take();
                let begin = Lap::of(since);
                let planned = plan_batch(&mut *self.planner, &mut plan, self.terms)?;
                let spent = begin.elapsed();
                self.counters.plan.busy_alone(spent, plan.rows(), BytesRead::take());
                if let Some(trace) = &self.counters.trace {
                    let span = (begin.at(), begin.at() + spent.wall);
                    trace.record(Kind::Plan, trace.trainer(), span, None, plan.rows());
                }
                if !planned {
                    self.spare = plan;
                    self.ended = true;
                    return Ok(Taken::End);
                }
                plan
            }
        };
        BytesRead::take();
        let extents = measure_plan(&*self.filler, &mut plan, &mut self.scratch);
        // Measuring counts as reading.
        self.counters.read.read(BytesRead::take());
        if let Some(error) = plan.take_interruption() {
            self.planned = Some(plan);
            return Ok(Taken::Exhausted(error));
        }
        plan.lay_out(&mut self.layout, self.filler.schema(), extents)
            .map_err(|error| at_largest(&*self.filler, &plan, error))?;
        let config = self.workspace.config();
        let never = AtomicBool::new(false);
        let bytes = self.layout.bytes();
        let wanted = now();
        let taken = match self.ring.free_slot(&never, Some(config.lease_wait_time())) {
            Err(error) if error.is_wait() && config.is_spilling() => self.ring.spill(bytes).map(Some),
            taken => taken,
        };
        let had = now();
        let waited = had.since(wanted);
        add_alone(&self.counters.slot_wait_ns, nanoseconds(waited));
        let mut draft = match taken {
            Ok(Some(draft)) => {
                self.counters.slot_waits.record_alone(waited);
                draft
            }
            Ok(None) => return Ok(Taken::End),
            Err(error) => {
                self.planned = Some(plan);
                return if error.is_wait() { Ok(Taken::Exhausted(error)) } else { Err(error) };
            }
        };
        match draft.make_room(bytes) {
            Ok(false) => {}
            Ok(true) => self.counters.plan.more_alone(Lap::of(had).elapsed()),
            Err(error) => {
                let error = at_largest(&*self.filler, &plan, error);
                self.planned = Some(plan);
                return Err(error);
            }
        }
        let batch = draft.payload_mut();
        self.spare = batch.begin(plan);
        batch.ticket = self.made;
        self.made += 1;
        self.spare.clear();
        std::mem::swap(&mut batch.layout, &mut self.layout);
        let mut made = None;
        let rows = batch.layout.rows();
        draft.split(rows, |mut share| {
            let (filler, scratch) = (&*self.filler, &mut self.scratch);
            let counters = &self.counters;
            let filled = fill_rows(filler, &mut share, scratch, counters, &never, self.row_ns);
            if let Some(trace) = &counters.trace {
                trace.record_job(trace.trainer(), filled.spans, share.payload().ticket, rows);
            }
            made = if filled.is_whole { share.finish() } else { share.abandon() };
            self.row_ns = filled.spans.row_ns(rows);
        });
        let Some(mut draft) = made else { return Ok(Taken::End) };
        let policy = self.delivery.policy();
        settle_batch(&mut draft, policy, &*self.filler, &mut self.scratch, &self.counters);
        if let Some(error) = draft.payload_mut().take_interruption() {
            self.planned = Some(draft.payload_mut().take_plan());
            return Ok(Taken::Exhausted(error));
        }
        Ok(Taken::Batch(draft))
    }

    /// Moves the planner. If the planner returns an error, its position is unknown, and no batch comes until a later
    /// move succeeds.
    fn restart(&mut self, begin: impl FnOnce(&mut dyn Planner) -> Result<()>) -> Result<()> {
        self.planned = None;
        self.ended = false;
        caught(|| begin(&mut *self.planner)).map_err(Error::of_a_user).inspect_err(|_| self.delivery.fuse())
    }
}

impl Iterator for AsyncShieldDataSetIterator {
    type Item = Result<DataSet>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.delivery.is_done() {
            return self.delivery.next_after_end();
        }
        let asked = self.delivery.asked();
        let workspace = self.workspace.clone();
        let loan = match workspace.lend_to_caller() {
            Ok(loan) => loan,
            Err(error) => return self.delivery.deliver(Taken::Exhausted(error), now()),
        };
        let begin = loan.waited_since.map_or(asked, |_| now());
        // Panics of readers are caught one by one; those of other user code (a schema, a subscriber) are caught here.
        let made = caught(|| self.make(begin)).unwrap_or_else(Taken::Failed);
        let now = now();
        self.counters.trainer_waited(asked, now);
        self.delivery.deliver(made, now)
    }
}

impl DataSetIterator for AsyncShieldDataSetIterator {
    fn begin_epoch(&mut self) -> Result<()> {
        if self.delivery.is_at_beginning() { Ok(()) } else { self.reset() }
    }

    fn reset(&mut self) -> Result<()> {
        let Some(epoch) = self.delivery.next_epoch()? else { return Ok(()) };
        self.restart(|planner| planner.begin_epoch(epoch))?;
        self.delivery.begin(epoch);
        Ok(())
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.delivery.check_seek(state)?;
        self.restart(|planner| planner.seek(state))?;
        self.delivery.go_on(*state);
        Ok(())
    }

    fn schema(&self) -> &Arc<Schema> {
        self.delivery.schema()
    }

    fn state(&self) -> State {
        self.delivery.state()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        self.delivery.batches_per_epoch()
    }

    fn stats(&self) -> Stats {
        self.figures.stats()
    }

    fn stats_handle(&self) -> StatsHandle {
        StatsHandle::new(&self.figures)
    }

    fn timeline(&self) -> Vec<Moment> {
        self.delivery.timeline()
    }

    fn bad_records(&self) -> Vec<BadRecord> {
        self.delivery.bad_records()
    }
}
