use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded, select_biased};

use crate::dataset::{Batch, caught, fill_rows};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Scratch;
use crate::ring::Share;
use crate::sync::{Condvar, Mutex, Ordering};

use super::background::stand_back;
use super::planning::Measuring;
use super::session::Session;

/// Jobs that may wait for a worker. More than a few batches' worth; a full queue only makes planning wait.
const QUEUED_JOBS: usize = 1024;
/// How often a planning thread that waits for room in the queue looks whether it should stop.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Work for a worker: some rows of one batch.
pub(super) enum Job {
    Fill { session: Arc<Session>, share: Share<Batch> },
    Measure { session: Arc<Session>, measuring: Arc<Measuring>, rows: Range<usize> },
}

/// Where jobs are handed in. Measuring goes before filling: a batch can't be bound before it is measured.
#[derive(Clone)]
pub(super) struct Jobs {
    fill: Sender<Job>,
    measure: Sender<Job>,
}

impl Jobs {
    /// Hands a job in. A job of a stopping session is finished unfilled if no worker has room for it.
    pub(super) fn send(&self, mut job: Job, session: &Session) {
        let queue = if matches!(job, Job::Measure { .. }) { &self.measure } else { &self.fill };
        loop {
            match queue.send_timeout(job, LOOK_UP) {
                Ok(()) => return,
                Err(SendTimeoutError::Timeout(back)) if !session.stop.load(Ordering::Acquire) => job = back,
                Err(SendTimeoutError::Timeout(back) | SendTimeoutError::Disconnected(back)) => return back.abandon(),
            }
        }
    }
}

impl Job {
    /// Runs on worker `worker`.
    fn run(self, worker: usize) {
        match self {
            Self::Fill { session, mut share } => {
                let rows = share.rows().len() as u64;
                let _span = tracing::trace_span!("fill", ticket = share.payload().ticket, rows, worker).entered();
                let begin = Instant::now();
                let mut scratch = session.scratches[worker].lock();
                session.with_fetch(worker, |fetch| {
                    fill_rows(&*session.filler, &mut share, &mut scratch, &session.counters, &session.stop, fetch);
                });
                let row_ns = (begin.elapsed().as_nanos() as u64 / rows.max(1)).max(1);
                let before = session.row_ns.load(Ordering::Relaxed);
                let mean = if before == 0 { row_ns } else { (7 * before + row_ns).div_ceil(8) };
                session.row_ns.store(mean, Ordering::Relaxed);
                if let Some(draft) = share.finish() {
                    session.filled(draft, worker, &mut scratch);
                }
            }
            Self::Measure { session, measuring, rows } => {
                let _span = tracing::trace_span!("measure", rows = rows.len(), worker).entered();
                measuring.run(&session, rows, &mut session.scratches[worker].lock());
            }
        }
    }

    /// Reports without having worked.
    fn abandon(self) {
        match self {
            Self::Fill { session, share } => {
                if let Some(draft) = share.finish() {
                    session.filled(draft, 0, &mut Scratch::default());
                }
            }
            Self::Measure { session, measuring, .. } => {
                measuring.run(&session, 0..0, &mut Scratch::default());
            }
        }
    }

    fn waited(&self, since: Instant) {
        let (Self::Fill { session, .. } | Self::Measure { session, .. }) = self;
        session.counters.decode.waited(since);
    }
}

/// The worker threads of a workspace.
pub(super) struct Pool {
    jobs: Option<Jobs>,
    alive: Arc<Alive>,
    close_wait: Duration,
}

struct Alive {
    threads: Mutex<usize>,
    ended: Condvar,
}

impl Pool {
    pub(super) fn start(workers: usize, close_wait: Duration) -> Result<Self> {
        let (fill, fill_jobs) = bounded(QUEUED_JOBS);
        let (measure, measure_jobs) = bounded(QUEUED_JOBS);
        let alive = Arc::new(Alive { threads: Mutex::new(0), ended: Condvar::new() });
        let pool = Self { jobs: Some(Jobs { fill, measure }), alive, close_wait };
        for worker in 0..workers {
            let (fill_jobs, measure_jobs) = (fill_jobs.clone(), measure_jobs.clone());
            let alive = pool.alive.clone();
            *alive.threads.lock() += 1;
            let guard = AliveGuard(alive);
            thread::Builder::new()
                .name(format!("ringfeed-{worker}"))
                .spawn(move || {
                    let _guard = guard;
                    stand_back();
                    work(worker, &fill_jobs, &measure_jobs);
                })
                .map_err(|error| Error::new(ErrorKind::Io, format!("no worker thread: {error}")))?;
        }
        Ok(pool)
    }

    pub(super) fn jobs(&self) -> Jobs {
        self.jobs.clone().expect("a pool has its queue until it drops")
    }
}

struct AliveGuard(Arc<Alive>);

impl Drop for AliveGuard {
    fn drop(&mut self) {
        *self.0.threads.lock() -= 1;
        self.0.ended.notify_all();
    }
}

fn work(worker: usize, fill: &Receiver<Job>, measure: &Receiver<Job>) {
    loop {
        let since = Instant::now();
        let job = select_biased! {
            recv(measure) -> job => job,
            recv(fill) -> job => job,
        };
        let Ok(job) = job else { return };
        job.waited(since);
        // A job catches what the user's code does in it, but may be the last to hold the user's filler or buffers,
        // whose destructors run outside. The next job does not suffer for it.
        let ran = caught(|| {
            job.run(worker);
            Ok(())
        });
        if let Err(error) = ran {
            tracing::warn!(%error, "a source panicked while it was dropped");
        }
    }
}

impl Drop for Pool {
    /// Ends the threads; waits at most `close_wait` for those that are busy.
    fn drop(&mut self) {
        self.jobs = None;
        let deadline = Instant::now() + self.close_wait;
        let mut threads = self.alive.threads.lock();
        while *threads > 0 && Instant::now() < deadline {
            threads = self.alive.ended.wait_until(threads, deadline);
        }
    }
}
