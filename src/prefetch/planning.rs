use std::sync::Arc;

use crate::caught::caught;
use crate::counters::{BytesRead, Kind, Lap, Tick, add_alone};
use crate::dataset::{BatchPlan, Planner, at_largest, measure_plan};
use crate::error::Result;
use crate::layout::Layout;
use crate::read::Scratch;
use crate::schema::Extents;
use crate::storage::Requested;
use crate::sync::Ordering;

use super::lookahead::Lookahead;
use super::measuring::Measuring;
use super::session::Session;
use super::steps::Step;
use super::tuning::Tuning;
use super::workers::{Job, Jobs};

/// How long a job should take: long compared with a hand-off, short compared with a batch.
const JOB_NS: u64 = 500_000;
/// Work that takes longer than this is shared among all workers, so that finished batches come evenly.
const SHARED_NS: u64 = 100_000;
/// The bytes that a job reads should still be in a core's own cache when they are decoded; current cores have 512 KiB
/// or more.
const JOB_BYTES: usize = 256 << 10;
/// If measuring a whole batch takes less than this, it is not worth sharing.
const MEASURE_INLINE_NS: u64 = 100_000;

/// The thread that plans batches, lays them out and binds slots to them in ticket order.
pub(super) struct Planning {
    session: Arc<Session>,
    /// Dropped before the planner, whose destructor may take long: the workers end when no thread can send jobs.
    jobs: Jobs,
    planner: Box<dyn Planner>,
    lookahead: Lookahead,
    tuning: Tuning,
    layout: Layout,
    spare: Vec<BatchPlan>,
    scratch: Scratch,
    measuring: Arc<Measuring>,
    measure_ns: u64,
}

impl Planning {
    pub(super) fn new(session: Arc<Session>, planner: Box<dyn Planner>, jobs: Jobs, tuning: Tuning) -> Self {
        Self {
            lookahead: Lookahead::new(session.terms),
            session,
            jobs,
            planner,
            tuning,
            layout: Layout::default(),
            spare: Vec::new(),
            scratch: Scratch::default(),
            measuring: Arc::default(),
            measure_ns: 0,
        }
    }

    /// Runs until the session closes.
    pub(super) fn run(mut self) {
        struct Exit(Arc<Session>);
        impl Drop for Exit {
            fn drop(&mut self) {
                self.0.exited();
            }
        }
        let exit = Exit(self.session.clone());
        loop {
            match self.session.next_step() {
                Step::Exit => break,
                Step::Begin(begin) => {
                    // Beginning a stream again runs the user's code.
                    let lap = Lap::now(true);
                    let begun = self.lookahead.begin(&begin, &mut *self.planner);
                    self.session.counters.plan.busy(lap.elapsed(), 0);
                    if let Err(error) = begun {
                        self.session.end(Some(error));
                    }
                }
                Step::Refill(mut plan) => {
                    self.lookahead.ask_for(&mut plan, &*self.session.filler);
                    self.fill(plan, Lap::now(false));
                }
                Step::Plan { has_room } => {
                    let begin = Lap::now(self.scratch.looks_at_cpu());
                    let (filler, runs_on) = (&*self.session.filler, self.session.runs_on);
                    let planned = caught(|| {
                        let _span = tracing::trace_span!("plan").entered();
                        self.lookahead.next(&mut *self.planner, filler, &mut self.spare, runs_on)
                    });
                    let rows = planned.as_ref().map_or(0, |plan| plan.as_ref().map_or(0, BatchPlan::rows));
                    let end = begin.again();
                    let spent = begin.to(end);
                    self.session.counters.plan.busy_alone(spent, rows, BytesRead::take());
                    self.record(Kind::Plan, (begin.at(), end.at()), None, rows);
                    self.scratch.worked(spent.wall);
                    match planned {
                        Ok(Some(plan)) => {
                            if has_room {
                                self.fill(plan, end);
                            } else {
                                self.session.keep(plan);
                            }
                            // A subscriber may be the user's code.
                            let looked = caught(|| {
                                self.tuning.planned(&self.session);
                                Ok(())
                            });
                            if let Err(error) = looked {
                                self.session.end(Some(error));
                            }
                        }
                        Ok(None) => self.session.end(None),
                        Err(error) => self.session.end(Some(error)),
                    }
                }
            }
        }
        // The planner may hold user state whose destructor takes long. Nobody waits for that.
        drop(exit);
    }

    fn fill(&mut self, plan: BatchPlan, begin: Lap) {
        match caught(|| self.bind(plan, begin)) {
            Ok(None) => {}
            Ok(Some(plan)) => self.session.keep(plan),
            Err(error) => self.session.end(Some(error)),
        }
    }

    /// Measures the batch, lays it out, takes a slot and gives the rows to workers; the time counts from `begin`.
    /// Returns the plan if the session is being paused.
    fn bind(&mut self, mut plan: BatchPlan, begin: Lap) -> Result<Option<BatchPlan>> {
        let session = self.session.clone();
        let stopped = || session.stop.load(Ordering::Acquire);
        if stopped() {
            return Ok(Some(plan));
        }
        let measured = self.measure(&mut plan);
        if stopped() {
            // A part may have been measured.
            plan.measured = None;
            return Ok(Some(plan));
        }
        let extents = measured?;
        if let Some(error) = plan.take_interruption() {
            return Err(error);
        }
        if session.filler.is_measured()
            && let Some(error) = session.failure()
        {
            return Err(error);
        }
        plan.lay_out(&mut self.layout, session.filler.schema(), extents)
            .map_err(|error| at_largest(&*session.filler, &plan, error))?;
        let laid_out = begin.again();
        let spent = begin.to(laid_out);
        session.counters.plan.more_alone(spent);
        self.scratch.worked(spent.wall);
        let slot = session.slot(self.layout.bytes(), laid_out.at())?;
        let Some((mut draft, taken)) = slot else { return Ok(Some(plan)) };
        self.record(Kind::SlotWait, (laid_out.at(), taken), None, plan.rows());
        match draft.make_room(self.layout.bytes()) {
            Ok(false) => {}
            Ok(true) => session.counters.plan.more_alone(Lap::of(taken).elapsed()),
            Err(error) => return Err(at_largest(&*session.filler, &plan, error)),
        }
        if plan.requested.as_ref().is_some_and(Requested::is_whole) {
            add_alone(&session.counters.asked_ahead, 1);
        }
        let batch = draft.payload_mut();
        let mut used = batch.begin(plan);
        used.clear();
        // If the workspace was lent to other sources, plans are left over: each refill returns one and takes none.
        if self.spare.is_empty() || self.spare.len() < session.ring.slots() {
            self.spare.push(used);
        }
        std::mem::swap(&mut batch.layout, &mut self.layout);
        let workers = self.tuning.workers(&session);
        let rows = match session.within_limit {
            // A read that is given up keeps its worker's buffers: those of one sample, not of a whole job.
            Some(_) => 1,
            None => {
                let (rows, row_ns) = (batch.layout.rows(), session.row_ns.load(Ordering::Relaxed));
                let row_bytes = (batch.layout.bytes() / rows.max(1)).saturating_add(session.filler.bytes_aside());
                let is_straight = session.is_straight.load(Ordering::Relaxed);
                let most = if is_straight { rows } else { rows_in_cache(row_bytes) };
                alike(rows, rows_a_job(rows, workers, row_ns).min(most))
            }
        };
        tracing::trace!(batch = batch.plan.index, rows_a_job = rows, "a batch has its slot");
        // From here on the window waits for the batch, so no user code may run before its shares are handed out.
        let Some(ticket) = session.bind(taken) else { return Ok(Some(draft.payload_mut().take_plan())) };
        draft.payload_mut().ticket = ticket;
        let samples = draft.payload().layout.rows();
        draft.split(rows, |share| self.jobs.send(Job::fill(session.clone(), share)));
        if session.counters.trace.is_some() {
            self.record(Kind::Bind, (begin.at(), Tick::now()), Some(ticket), samples);
        }
        Ok(None)
    }

    fn record(&self, kind: Kind, span: (Tick, Tick), batch: Option<u64>, samples: usize) {
        if let Some(trace) = &self.session.counters.trace {
            trace.record(kind, trace.planning(), span, batch, samples);
        }
    }

    fn measure(&mut self, plan: &mut BatchPlan) -> Result<Extents> {
        let session = &self.session;
        let rows = plan.rows() as u64;
        if let Some(measured) = plan.measured {
            return Ok(measured);
        }
        if session.filler.is_measured()
            && self.measure_ns.saturating_mul(rows) > MEASURE_INLINE_NS
            && let workers @ 2.. = self.tuning.workers(session)
        {
            let rows = plan.rows();
            let step = rows.div_ceil(2 * workers).max(1);
            self.measuring.begin(plan, rows.div_ceil(step), session.filler.schema().is_ragged());
            for start in (0..rows).step_by(step) {
                let rows = start..rows.min(start + step);
                self.jobs.send(Job::measure(session.clone(), self.measuring.clone(), rows));
            }
            let extents = self.measuring.wait(plan)?;
            plan.measured = Some(extents);
            return Ok(extents);
        }
        if !session.filler.is_measured() {
            return Ok(measure_plan(&*session.filler, plan, &mut self.scratch));
        }
        let begin = Tick::now();
        BytesRead::take();
        let extents = measure_plan(&*session.filler, plan, &mut self.scratch);
        // Measuring counts as reading.
        session.counters.read.read(BytesRead::take());
        self.measure_ns = begin.elapsed().as_nanos() as u64 / rows.max(1);
        Ok(extents)
    }
}

/// Number of rows of this size that can be read and then decoded without leaving the processor's cache.
fn rows_in_cache(row_bytes: usize) -> usize {
    (JOB_BYTES / row_bytes.max(1)).max(1)
}

/// Rows per job for jobs of similar size, with as many jobs as there would be with `a_job` rows each.
fn alike(rows: usize, a_job: usize) -> usize {
    rows.div_ceil(rows.div_ceil(a_job.max(1)).max(1))
}

/// Number of rows for a job of about `JOB_NS`, by the time of a row so far (0 if not known).
fn rows_a_job(rows: usize, workers: usize, row_ns: u64) -> usize {
    if row_ns == 0 {
        return rows.div_ceil(4 * workers);
    }
    let by_time = (JOB_NS / row_ns).clamp(1, rows as u64) as usize;
    if row_ns.saturating_mul(rows as u64) <= SHARED_NS {
        return by_time;
    }
    // Work that is worth sharing is shared among all workers, even if a single job would be large enough; but among no
    // more of them than have something to do for longer than it takes to wake them.
    let least = (SHARED_NS / 2 / row_ns) as usize;
    by_time.min(rows.div_ceil(workers).max(least))
}

#[cfg(test)]
mod tests {
    use super::{alike, rows_a_job, rows_in_cache};

    #[test]
    fn jobs_take_half_a_millisecond_at_most_and_keep_all_workers_busy() {
        assert_eq!(rows_a_job(256, 2, 0), 32);
        assert_eq!(rows_a_job(256, 2, 5_000_000), 1);
        assert_eq!(rows_a_job(256, 2, 10_000), 50);
        assert_eq!(rows_a_job(256, 2, 350), 256);
        assert_eq!(rows_a_job(256, 2, 500), 128);
        assert_eq!(rows_a_job(256, 2, 1_500), 128);
        assert_eq!(rows_a_job(1, 8, 1), 1);
        // A fifth of a job's time is not worth sharing yet.
        assert_eq!((rows_a_job(100, 2, 1_000), rows_a_job(101, 2, 1_000)), (100, 51));
        assert_eq!(rows_a_job(8, 2, u64::MAX), 1);
        // Of many workers, as many take part as have a twentieth of a millisecond to do.
        assert_eq!((rows_a_job(256, 64, 500), rows_a_job(256, 64, 100_000)), (100, 4));
    }

    #[test]
    fn no_job_is_a_small_rest_of_the_others() {
        assert_eq!((alike(256, 85), alike(256, 256), alike(256, 1), alike(7, 4), alike(0, 3)), (64, 256, 1, 4, 0));
    }

    #[test]
    fn what_a_job_reads_stays_in_the_cache() {
        assert_eq!((rows_in_cache(64), rows_in_cache(12 << 10), rows_in_cache(1 << 20)), (4096, 21, 1));
    }
}
