use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::counters::{Counters, now};
use crate::dataset::{BadRecord, DataSet, DataSetIterator, Moment, Source, State};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Schema;
use crate::stats::{self, Figures as _, Stats, StatsHandle};
use crate::storage::ReadLimit;

use super::delivery::Delivery;
use super::fetchers::WithinLimit;
use super::figures::Figures;
use super::planning::Planning;
use super::scheduling::Schedule;
use super::session::{Session, SessionParts};
use super::steps::{Begin, Taken};
use super::tune::{Amounts, Found, Tuner};
use super::tuning::Tuning;
use super::workspace::{Turn, Workspace};

/// Batches that the workers of a [`Workspace`] make ahead of the trainer, delivered in order.
///
/// "Asynchronous" means threads that run ahead, not futures. The batches are the same, byte for byte, as those of the
/// shield, for any number of workers or batches ahead.
///
/// Each iterator has its own planning thread, in addition to the workspace's workers. `next` takes a finished batch
/// without copying it, and sleeps if no batch is ready. An error, also a panic in a reader, arrives in its batch's
/// place.
pub struct AsyncDataSetIterator {
    session: Arc<Session>,
    workspace: Workspace,
    delivery: Delivery,
    figures: Arc<Figures>,
}

impl fmt::Debug for AsyncDataSetIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncDataSetIterator")
            .field("state", &self.delivery.state())
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl AsyncDataSetIterator {
    /// Plans the first batch of `source`, which determines the size of the workspace's ring if this is its first
    /// source. Then begins to make batches, unless another source has the workspace.
    ///
    /// # Errors
    ///
    /// Errors of the source; [`ErrorKind::Budget`] if the ring does not fit; [`ErrorKind::Config`] for a shielded
    /// source.
    pub fn new(source: impl Source, workspace: &Workspace) -> Result<Self> {
        if !source.async_supported() {
            let message = "the source is shielded: give it to AsyncShieldDataSetIterator, or to `wrap`, which asks it";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut opened = Box::new(source).open()?;
        let config = workspace.config();
        let counters = Arc::new(Counters::new(config.tracer()));
        let within_limit = config.fetch_limit_of_a_sample().map(|limit| {
            let limit = ReadLimit::new(limit, counters.clone());
            opened.planner.limit_reads(&limit);
            Arc::new(WithinLimit::new(opened.filler.clone(), limit))
        });
        if let Some(within_limit) = &within_limit {
            opened.filler = within_limit.clone();
        }
        let (ring, first, prefetch) = workspace.prepare(&mut opened)?;
        let pool = workspace.pool()?;
        let (begin, bounds) = workspace.amounts();
        let begin = Amounts { prefetch, ..begin };
        let is_tuned = [bounds.workers, bounds.prefetch].map(|most| most.is_some());
        let found = Arc::new(Found::new(begin, is_tuned));
        let schedule = Arc::<Schedule>::default();
        let ahead = Some((found.clone(), schedule.clone()));
        let figures = Figures::new(&opened, counters.clone(), ring.clone(), workspace, ahead);
        let tuner = is_tuned.contains(&true).then(|| Tuner::new(bounds, begin));
        let session = Arc::new(Session::new(SessionParts {
            filler: opened.filler.clone(),
            counters: counters.clone(),
            ring,
            policy: opened.bad_records,
            first,
            terms: workspace.terms(&opened),
            runs_on: opened.runs_on && config.is_running_on(),
            // Choosing samples takes little memory. Reading them, or asking the user's iterator for them, waits until
            // there is room.
            plans_ahead: opened.planner.planning() == stats::Planning::Order,
            workers: bounds.workers.map_or(begin.workers, |most| most.max(begin.workers)),
            first_limit: begin.workers.max(2),
            prefetch: begin.prefetch,
            most_prefetch: bounds.prefetch.map_or(begin.prefetch, |most| most.max(begin.prefetch)),
            within_limit,
            lease_wait: config.lease_wait_time(),
            close_wait: config.close_wait_time(),
        }));
        let delivery = Delivery::new(&opened, counters);
        let tuning = Tuning::new(pool.gate(), found, tuner, StatsHandle::new(&figures), config.other_slots());
        let planning = Planning::new(session.clone(), opened.planner, pool.jobs(), tuning);
        let manners = config.manners();
        thread::Builder::new()
            .name("ringfeed-plan".to_owned())
            .spawn(move || {
                manners.mind();
                schedule.join();
                planning.run();
            })
            .map_err(|error| Error::new(ErrorKind::Io, format!("the planning thread can't be started: {error}")))?;
        let iterator = Self { session, workspace: workspace.clone(), delivery, figures };
        workspace.lend_if_free(&iterator.session)?;
        Ok(iterator)
    }

    /// Counts how long the trainer waited for the workspace while another iterator had it.
    fn count_waiting(&self, loan: &Turn<'_>) {
        if let Some(since) = loan.waited_since {
            self.session.counters.trainer_waited(since, now());
        }
    }

    /// Drops all planned batches, to resume at `begin`. After an error, nothing has changed.
    fn restart(&self, begin: Begin) -> Result<()> {
        self.session.pause()?;
        self.session.restart(begin);
        Ok(())
    }
}

impl Iterator for AsyncDataSetIterator {
    type Item = Result<DataSet>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.delivery.is_done() {
            return self.delivery.next_after_end();
        }
        self.delivery.asked();
        let loan = match self.workspace.lend(&self.session) {
            Ok(loan) => loan,
            Err(error) => return self.delivery.deliver(Taken::Exhausted(error), now()),
        };
        self.count_waiting(&loan);
        let (taken, now) = self.session.take();
        self.delivery.deliver(taken, now)
    }
}

impl DataSetIterator for AsyncDataSetIterator {
    fn ready_within(&mut self, time: Duration) -> bool {
        if self.delivery.is_done() {
            return true;
        }
        self.delivery.may_wait();
        match self.workspace.lend(&self.session) {
            Ok(loan) => {
                self.count_waiting(&loan);
                self.session.is_ready_within(time)
            }
            // `next` reports the reason.
            Err(_) => true,
        }
    }

    fn begin_epoch(&mut self) -> Result<()> {
        if self.delivery.is_at_beginning() { Ok(()) } else { self.reset() }
    }

    fn reset(&mut self) -> Result<()> {
        let Some(epoch) = self.delivery.next_epoch()? else { return Ok(()) };
        // A session that continues into the next epoch has that epoch's first batches behind the end of this one.
        if !(self.session.runs_on && self.delivery.has_ended()) {
            self.restart(Begin::Epoch(epoch))?;
        }
        self.delivery.begin(epoch);
        self.workspace.resume_if_lent(&self.session)
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.delivery.check_seek(state)?;
        self.restart(Begin::At(*state))?;
        self.delivery.go_on(*state);
        self.workspace.resume_if_lent(&self.session)
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

impl Drop for AsyncDataSetIterator {
    fn drop(&mut self) {
        self.session.close();
    }
}
