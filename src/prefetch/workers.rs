use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::caught::caught;
use crate::counters::{BytesRead, Kind, Lap, Track, add, now};
use crate::dataset::{Batch, fill_rows};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Scratch;
use crate::ring::Share;
use crate::sync::{Condvar, Mutex, Ordering};
use crate::system::thread_cpu;

use super::gate::Gate;
use super::manners::Manners;
use super::measuring::Measuring;
use super::queue::{Order, Queue};
use super::rest::Rest;
use super::scheduling::Schedule;
use super::session::Session;
use super::steps::check_process;
use super::tune::{Amounts, Bounds};

/// How often planning checks whether it should stop while it waits for room in the queue.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Work for a worker: some rows of one batch. In every case, the thread that waits for the result is notified.
pub(super) enum Job {
    Fill(Filling),
    Measure(Portion),
}

/// A share to be filled. If it is dropped before that, its batch fails.
pub(super) struct Filling {
    session: Arc<Session>,
    share: Option<Share<Batch>>,
}

/// Rows to be measured.
pub(super) struct Portion {
    session: Arc<Session>,
    /// `None` after they have reported.
    measuring: Option<Arc<Measuring>>,
    rows: Range<usize>,
}

/// The entrance for jobs. When the last of these drops, the workers end after the jobs that wait.
#[derive(Clone)]
pub(super) struct Jobs(Arc<Entrance>);

struct Entrance {
    queue: Arc<Queue<Job>>,
}

impl Jobs {
    /// Adds a job to the queue. A job of a session that stops is dropped if the queue has no room.
    pub(super) fn send(&self, mut job: Job) {
        let order = job.order();
        while let Err(back) = self.0.queue.push(job, order, LOOK_UP) {
            if back.session().stop.load(Ordering::Acquire) {
                return;
            }
            job = back;
        }
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Job {
    pub(super) fn fill(session: Arc<Session>, share: Share<Batch>) -> Self {
        Self::Fill(Filling { session, share: Some(share) })
    }

    pub(super) fn measure(session: Arc<Session>, measuring: Arc<Measuring>, rows: Range<usize>) -> Self {
        Self::Measure(Portion { session, measuring: Some(measuring), rows })
    }

    fn session(&self) -> &Session {
        match self {
            Self::Fill(filling) => &filling.session,
            Self::Measure(portion) => &portion.session,
        }
    }

    /// A batch must be measured before it gets a slot, so measuring comes before filling. If single reads have a time
    /// limit, they take much longer than memory does.
    fn order(&self) -> Order {
        match self {
            Self::Measure(_) => Order::Urgent,
            Self::Fill(Filling { share: Some(share), session }) if session.within_limit.is_none() => {
                Order::Home(share.place())
            }
            Self::Fill(_) => Order::Next,
        }
    }

    /// Runs on worker `worker`. Returns whether other threads have something to do now that may bring more jobs.
    pub(super) fn run(self, worker: usize) -> bool {
        match self {
            Self::Fill(filling) => filling.run(worker),
            Self::Measure(portion) => {
                portion.run(worker);
                false
            }
        }
    }
}

impl Filling {
    fn run(mut self, worker: usize) -> bool {
        let Some(mut share) = self.share.take() else { return false };
        let session = &*self.session;
        let mut scratch = session.take_scratch(worker);
        let rows = share.rows().len();
        let before = session.row_ns.load(Ordering::Relaxed);
        // Panics of a reader's methods are caught one by one; those of other user code (a schema, a subscriber) are
        // caught here.
        let filled = caught(|| {
            let _span = tracing::trace_span!("fill", ticket = share.payload().ticket, rows, worker).entered();
            let (filler, counters, stop) = (&*session.filler, &session.counters, &session.stop);
            let filled = fill_rows(filler, &mut share, &mut scratch, counters, stop, before);
            if let Some(trace) = &counters.trace {
                trace.record_job(Track::Worker(worker as u32), filled.spans, share.payload().ticket, rows);
            }
            let row_ns = filled.spans.row_ns(rows).max(1);
            let mean = if before == 0 { row_ns } else { (7 * before + row_ns).div_ceil(8) };
            session.row_ns.store(mean, Ordering::Relaxed);
            if session.is_straight.load(Ordering::Relaxed) != filled.is_straight {
                session.is_straight.store(filled.is_straight, Ordering::Relaxed);
            }
            Ok(filled.is_whole)
        });
        let draft = match filled {
            Ok(true) => share.finish(),
            Ok(false) => share.abandon(),
            Err(error) => {
                share.payload().fail(error);
                share.abandon()
            }
        };
        let are_others_due = draft.is_some_and(|draft| session.filled(draft, worker, &mut scratch));
        session.keep_scratch(worker, scratch);
        are_others_due
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(draft) = self.share.take().and_then(Share::abandon) {
            self.session.filled(draft, 0, &mut Scratch::default());
        }
    }
}

impl Portion {
    fn run(mut self, worker: usize) {
        let Some(measuring) = self.measuring.take() else { return };
        let session = &*self.session;
        let mut scratch = session.take_scratch(worker);
        let begin = Lap::now(scratch.looks_at_cpu());
        let measured = caught(|| {
            let _span = tracing::trace_span!("measure", rows = self.rows.len(), worker).entered();
            BytesRead::take();
            measuring.run(session, self.rows.clone(), &mut scratch)
        });
        // Measuring counts as reading, because it reads bytes. Its samples are counted later, when they are read for
        // decoding.
        let spent = begin.elapsed();
        session.counters.read.busy(spent, 0);
        session.counters.read.read(BytesRead::take());
        scratch.worked(spent.wall);
        if let Some(trace) = &session.counters.trace {
            let span = (begin.at(), begin.at() + spent.wall);
            trace.record(Kind::Measure, Track::Worker(worker as u32), span, None, self.rows.len());
        }
        session.keep_scratch(worker, scratch);
        measuring.report(measured);
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        if let Some(measuring) = self.measuring.take() {
            measuring.report(Err(Error::new(ErrorKind::Panicked, "a part of the batch was not measured")));
        }
    }
}

/// The worker threads of a workspace.
pub(super) struct Pool {
    jobs: Option<Jobs>,
    alive: Arc<Alive>,
    schedule: Arc<Schedule>,
    rest: Arc<Rest>,
    gate: Arc<Gate>,
    close_wait: Duration,
    /// The process that has the threads.
    process: u32,
}

struct Alive {
    threads: Mutex<usize>,
    ended: Condvar,
}

impl Pool {
    pub(super) fn start(
        (begin, bounds): (Amounts, Bounds),
        manners: &Arc<Manners>,
        close_wait: Duration,
    ) -> Result<Self> {
        let queue = Arc::new(Queue::new());
        let alive = Arc::new(Alive { threads: Mutex::new(0), ended: Condvar::new() });
        let (jobs, schedule) = (Some(Jobs(Arc::new(Entrance { queue: queue.clone() }))), Arc::default());
        let rest = Arc::new(Rest::new(manners.most_cores()));
        let gate = Arc::new(Gate::new(begin.workers));
        let pool = Self { jobs, alive, schedule, rest, gate, close_wait, process: std::process::id() };
        let cores = manners.core_count();
        for worker in 0..bounds.workers.unwrap_or(begin.workers).max(begin.workers) {
            let (queue, alive, schedule) = (queue.clone(), pool.alive.clone(), pool.schedule.clone());
            let (manners, rest, gate) = (manners.clone(), pool.rest.clone(), pool.gate.clone());
            *alive.threads.lock() += 1;
            queue.enter();
            let guard = AliveGuard(alive, queue.clone());
            thread::Builder::new()
                .name(format!("ringfeed-{worker}"))
                .spawn(move || {
                    let _guard = guard;
                    manners.mind();
                    schedule.join();
                    work(worker, &queue, &rest, &gate, cores);
                })
                .map_err(|error| Error::new(ErrorKind::Io, format!("a worker thread can't be started: {error}")))?;
        }
        Ok(pool)
    }

    pub(super) fn check_process(&self) -> Result<()> {
        check_process(self.process)
    }

    /// Time that the threads were on a core, and time that they waited for one, in seconds.
    pub(super) fn scheduled(&self) -> Option<[f64; 2]> {
        self.check_process().ok().and_then(|()| self.schedule.read())
    }

    pub(super) fn gate(&self) -> Arc<Gate> {
        self.gate.clone()
    }

    pub(super) fn jobs(&self) -> Jobs {
        self.jobs.clone().expect("a pool has its queue until it drops")
    }
}

/// A thread that takes jobs.
struct AliveGuard(Arc<Alive>, Arc<Queue<Job>>);

impl Drop for AliveGuard {
    fn drop(&mut self) {
        self.1.leave();
        *self.0.threads.lock() -= 1;
        self.0.ended.notify_all();
    }
}

fn work(worker: usize, queue: &Queue<Job>, rest: &Rest, gate: &Gate, cores: usize) {
    loop {
        gate.pass(worker);
        let since = now();
        let Some(job) = queue.take(worker, || gate.workers()) else { return };
        add(&job.session().counters.idle_ns, now().since(since));
        let resting = rest.is_needed().then(|| (job.session().counters.clone(), thread_cpu()));
        // A job catches panics of the user's code in it, but it may be the last owner of the user's filler or buffers,
        // whose destructors run outside of it. The next job must not suffer from that.
        let are_others_due = caught(|| Ok(job.run(worker))).unwrap_or_else(|error| {
            // The subscriber may be the user's and panic as well.
            let _unheard = caught(|| {
                tracing::warn!(%error, "a source panicked while it was dropped");
                Ok(())
            });
            false
        });
        if let Some((counters, before)) = resting {
            let used = thread_cpu().zip(before).map(|(now, before)| now.saturating_sub(before));
            add(&counters.rest_ns, rest.after(used.unwrap_or_default()));
        }
        // Without a core of their own, the trainer and the planning thread wait until a worker leaves its core. They
        // get it before all jobs are done, so that the other cores have work while they run.
        let workers = gate.workers();
        if are_others_due && workers >= cores && (1..=workers).contains(&queue.len()) {
            thread::yield_now();
        }
    }
}

impl Drop for Pool {
    /// Ends the threads; waits at most `close_wait` for busy ones.
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // In a forked process no thread will end here, and a thread that does not exist may have locked the queue
            // for ever.
            std::mem::forget(self.jobs.take());
            return;
        }
        self.jobs = None;
        self.rest.close();
        self.gate.close();
        let deadline = Instant::now() + self.close_wait;
        let mut threads = self.alive.threads.lock();
        while *threads > 0 && Instant::now() < deadline {
            threads = self.alive.ended.wait_until(threads, deadline);
        }
    }
}
