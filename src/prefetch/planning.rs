use std::sync::Arc;
use std::time::Instant;

use crate::counters::{BytesRead, Kind, Lap};
use crate::dataset::{BatchPlan, Planner, caught, measure_plan};
use crate::error::Result;
use crate::layout::Layout;
use crate::read::Scratch;
use crate::schema::Extents;
use crate::sync::Ordering;

use super::lookahead::Lookahead;
use super::measuring::Measuring;
use super::session::Session;
use super::steps::Step;
use super::tuning::Tuning;
use super::workers::{Job, Jobs};

/// A job should take about this long: long against a hand-off, short against a batch.
const JOB_NS: u64 = 500_000;
/// What a job reads should still be in a core's own cache when it is decoded: those of today have 512 KiB and more.
const JOB_BYTES: usize = 256 << 10;
/// Measuring that takes less than this for a whole batch is not worth handing out.
const MEASURE_INLINE_NS: u64 = 100_000;

/// The thread that plans batches, lays them out and binds slots to them in ticket order.
pub(super) struct Planning {
    session: Arc<Session>,
    /// Dropped before the planner, whose destructor may take long: the workers end when nobody can send.
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
                    if let Err(error) = self.lookahead.begin(&begin, &mut *self.planner) {
                        self.session.end(Some(error));
                    }
                }
                Step::Refill(mut plan) => {
                    self.lookahead.ask_for(&mut plan, &*self.session.filler);
                    self.fill(plan);
                }
                Step::Plan => {
                    let begin = Lap::now(self.scratch.looks_at_cpu());
                    let (filler, runs_on) = (&*self.session.filler, self.session.runs_on);
                    let planned = caught(|| {
                        let _span = tracing::trace_span!("plan").entered();
                        self.lookahead.next(&mut *self.planner, filler, &mut self.spare, runs_on)
                    });
                    let rows = planned.as_ref().map_or(0, |plan| plan.as_ref().map_or(0, BatchPlan::rows));
                    let spent = begin.elapsed();
                    self.session.counters.plan.busy(spent, rows);
                    self.session.counters.plan.times.record(spent.wall, 1);
                    self.session.counters.plan.read(BytesRead::take());
                    self.record(Kind::Plan, (begin.at(), begin.at() + spent.wall), None, rows);
                    self.scratch.worked(spent.wall);
                    match planned {
                        Ok(Some(plan)) => {
                            self.fill(plan);
                            // What listens to events is the user's.
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
        // The planner may hold user state whose destructor takes long: nobody waits for that.
        drop(exit);
    }

    fn fill(&mut self, plan: BatchPlan) {
        match caught(|| self.bind(plan)) {
            Ok(None) => {}
            Ok(Some(plan)) => self.session.keep(plan),
            Err(error) => self.session.end(Some(error)),
        }
    }

    /// Measures, lays out, takes a slot and hands the rows out. Gives the plan back if the session is being paused.
    fn bind(&mut self, mut plan: BatchPlan) -> Result<Option<BatchPlan>> {
        let session = self.session.clone();
        let stopped = || session.stop.load(Ordering::Acquire);
        if stopped() {
            return Ok(Some(plan));
        }
        let begin = Lap::now(self.scratch.is_cpu_due());
        let measured = self.measure(&mut plan);
        if stopped() {
            // Perhaps measured in part.
            plan.measured = None;
            return Ok(Some(plan));
        }
        let extents = measured?;
        if session.filler.is_measured()
            && let Some(error) = session.failure()
        {
            return Err(error);
        }
        plan.lay_out(&mut self.layout, session.filler.schema(), extents)?;
        let spent = begin.elapsed();
        session.counters.plan.busy(spent, 0);
        self.scratch.worked(spent.wall);
        let asked = begin.at() + spent.wall;
        let Some(mut draft) = session.slot(self.layout.bytes())? else { return Ok(Some(plan)) };
        if session.counters.trace.is_some() {
            self.record(Kind::SlotWait, (asked, Instant::now()), None, plan.rows());
        }
        let batch = draft.payload_mut();
        let mut used = batch.begin(plan);
        used.clear();
        // Turns with other sources leave plans over: each refill brings one home and takes none.
        if self.spare.len() < session.ring.slots() {
            self.spare.push(used);
        }
        std::mem::swap(&mut batch.layout, &mut self.layout);
        let workers = self.tuning.workers(&session);
        let rows = match session.within_limit {
            // A read that is given up takes its worker's buffers along: those of one sample, not of a whole job.
            Some(_) => 1,
            None => {
                let (rows, row_ns) = (batch.layout.rows(), session.row_ns.load(Ordering::Relaxed));
                let row_bytes = (batch.layout.bytes() / rows.max(1)).saturating_add(session.filler.bytes_aside());
                rows_a_job(rows, workers, row_ns).min(rows_in_cache(row_bytes))
            }
        };
        tracing::trace!(batch = batch.plan.index, rows_a_job = rows, "a batch has its slot");
        // From here on the window waits for the batch: no code of the user's runs before its shares are on their way.
        let Some(ticket) = session.bind() else { return Ok(Some(draft.payload_mut().take_plan())) };
        draft.payload_mut().ticket = ticket;
        let samples = draft.payload().layout.rows();
        draft.split(rows, |share| self.jobs.send(Job::fill(session.clone(), share)));
        if session.counters.trace.is_some() {
            self.record(Kind::Bind, (begin.at(), Instant::now()), Some(ticket), samples);
        }
        Ok(None)
    }

    fn record(&self, kind: Kind, span: (Instant, Instant), batch: Option<u64>, samples: usize) {
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
        let begin = Instant::now();
        let extents = measure_plan(&*session.filler, plan, &mut self.scratch);
        self.measure_ns = begin.elapsed().as_nanos() as u64 / rows.max(1);
        Ok(extents)
    }
}

/// How many rows of so many bytes are read and then decoded without leaving the processor's cache in between.
fn rows_in_cache(row_bytes: usize) -> usize {
    (JOB_BYTES / row_bytes.max(1)).max(1)
}

/// How many rows make a job of about `JOB_NS`, given what a row took so far (0 if that is not known yet).
fn rows_a_job(rows: usize, workers: usize, row_ns: u64) -> usize {
    if row_ns == 0 {
        return rows.div_ceil(4 * workers);
    }
    let by_time = (JOB_NS / row_ns).clamp(1, rows as u64) as usize;
    // Work worth sharing is shared among all workers, even if it would make a single job.
    if row_ns * rows as u64 > JOB_NS / 2 { by_time.min(rows.div_ceil(workers)) } else { by_time }
}

#[cfg(test)]
mod tests {
    use super::{rows_a_job, rows_in_cache};

    #[test]
    fn jobs_are_worth_half_a_millisecond_and_keep_all_workers_busy() {
        assert_eq!(rows_a_job(256, 2, 0), 32);
        assert_eq!(rows_a_job(256, 2, 5_000_000), 1);
        assert_eq!(rows_a_job(256, 2, 10_000), 50);
        assert_eq!(rows_a_job(256, 2, 500), 256);
        assert_eq!(rows_a_job(256, 2, 1_500), 128);
        assert_eq!(rows_a_job(1, 8, 1), 1);
        // Half of a job's time is not yet worth sharing.
        assert_eq!((rows_a_job(250, 2, 1_000), rows_a_job(251, 2, 1_000)), (250, 126));
    }

    #[test]
    fn what_a_job_reads_stays_in_the_cache() {
        assert_eq!((rows_in_cache(64), rows_in_cache(12 << 10), rows_in_cache(1 << 20)), (4096, 21, 1));
    }
}
