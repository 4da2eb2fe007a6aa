use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use serde::{Deserialize, Serialize};

use crate::counters::{BytesRead, Counters};
use crate::dataset::{BatchPlan, Filler, caught};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Scratch;
use crate::sync::Mutex;

/// A time limit for reading one sample's bytes, for storage that may hang.
///
/// Each worker then reads on a helper thread of its own, one sample at a time. A read that passes the limit makes its
/// sample a bad record of kind [`ErrorKind::TimedOut`], and leaves its thread and buffers behind, never a slot. The same
/// bytes for the same seed are promised for runs in which no limit was passed. It covers replacements too, but not
/// measuring (reading the headers of images of native size) nor what a stream reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchLimit {
    /// Longest time for one sample, in milliseconds.
    pub time_ms: u64,
    /// How many threads an iterator may leave behind, over all its epochs, before one ends with
    /// [`ErrorKind::TimedOut`].
    pub replacements: usize,
}

/// The helper threads of a session's workers.
pub(super) struct Fetchers {
    limit: FetchLimit,
    left_behind: AtomicUsize,
    threads: Box<[Mutex<Option<Fetcher>>]>,
}

struct Fetcher {
    tasks: Sender<Task>,
    done: Receiver<(Task, Result<()>, BytesRead)>,
}

/// Everything that a read needs, owned: it may outlive the batch.
struct Task {
    filler: Arc<dyn Filler>,
    plan: BatchPlan,
    scratch: Scratch,
}

impl FetchLimit {
    pub(crate) fn fault(self) -> Option<&'static str> {
        (self.time_ms == 0).then_some("fetch_limit: nothing is read in 0 ms; give the time that a slow read may take")
    }
}

impl Fetchers {
    pub(super) fn new(limit: FetchLimit, workers: usize) -> Self {
        let threads = (0..workers).map(|_| Mutex::new(None)).collect();
        Self { limit, left_behind: AtomicUsize::new(0), threads }
    }

    /// Reads row `row` of `plan` on worker `worker`'s helper.
    pub(super) fn fetch(
        &self,
        worker: usize,
        filler: &Arc<dyn Filler>,
        plan: &BatchPlan,
        row: usize,
        scratch: &mut Scratch,
        counters: &Counters,
    ) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        // Taken out: what drops with a thread that is left behind is the user's.
        let thread = self.threads[worker].lock().take();
        let fetcher = thread.map_or_else(|| Fetcher::start(worker), Ok)?;
        let task = Task { filler: filler.clone(), plan: plan.one_row(row), scratch: std::mem::take(scratch) };
        let gone = || Error::new(ErrorKind::Panicked, "the reading thread has ended");
        fetcher.tasks.send(task).map_err(|_| gone())?;
        match fetcher.done.recv_timeout(Duration::from_millis(self.limit.time_ms)) {
            Ok((task, read, bytes)) => {
                bytes.note_all();
                *scratch = task.scratch;
                *self.threads[worker].lock() = Some(fetcher);
                read
            }
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
            Err(RecvTimeoutError::Timeout) => {
                self.left_behind.fetch_add(1, Ordering::Relaxed);
                counters.left_behind.fetch_add(1, Ordering::Relaxed);
                let message = format!("reading took longer than the limit of {} ms", self.limit.time_ms);
                Err(Error::new(ErrorKind::TimedOut, message))
            }
        }
    }

    /// The error that ends the epoch once too many threads are left behind.
    pub(super) fn failure(&self) -> Option<Error> {
        let left_behind = self.left_behind.load(Ordering::Relaxed);
        (left_behind > self.limit.replacements).then(|| {
            let message = format!(
                "{left_behind} reads passed the limit of {} ms and left their threads behind, but only {} may: the \
                 storage hangs, or the limit is too short",
                self.limit.time_ms, self.limit.replacements
            );
            Error::new(ErrorKind::TimedOut, message)
        })
    }
}

impl Fetcher {
    fn start(worker: usize) -> Result<Self> {
        let (tasks, assigned) = bounded::<Task>(1);
        let (finished, done) = bounded(1);
        thread::Builder::new()
            .name(format!("ringfeed-read-{worker}"))
            .spawn(move || {
                for mut task in assigned {
                    let read = caught(|| task.filler.fetch(&task.plan, 0..1, 0, &mut task.scratch));
                    if finished.send((task, read, BytesRead::take())).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| Error::new(ErrorKind::Io, format!("no reading thread: {error}")))?;
        Ok(Self { tasks, done })
    }
}
