//! Reads with a time limit, on a separate thread that is left behind if a read hangs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use serde::{Deserialize, Serialize};

use crate::counters::{BytesRead, Counters};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// A time limit for reading one sample's bytes, for storage that may hang.
///
/// A helper thread then does all reads, one sample at a time: fetching, measuring (reading the headers of images in
/// their own size) and replacements. If a read exceeds the limit, its sample is a bad record of kind
/// [`ErrorKind::TimedOut`]. Its thread and buffers are left behind, but never a slot. A stream is left behind as a
/// whole, because no other thread can continue it: the error arrives in the batch's place, and ends the run. The same
/// seed gives the same bytes only in runs without a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchLimit {
    /// Maximum time for one sample, in milliseconds.
    pub time_ms: u64,
    /// How many threads an iterator may leave behind, over all its epochs, before one ends with
    /// [`ErrorKind::TimedOut`].
    pub replacements: usize,
}

impl FetchLimit {
    pub(crate) fn faults(self) -> Vec<String> {
        let fault = "time_ms: nothing is read in 0 ms; give the time that a slow read may take";
        (self.time_ms == 0).then(|| fault.to_owned()).into_iter().collect()
    }
}

/// The time limit that a planner is given; see [`Planner::limit_reads`](crate::source::Planner::limit_reads).
#[derive(Clone)]
pub struct ReadLimit {
    limit: FetchLimit,
    counters: Arc<Counters>,
}

impl fmt::Debug for ReadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadLimit").field(&self.limit).finish()
    }
}

impl ReadLimit {
    pub(crate) fn new(limit: FetchLimit, counters: Arc<Counters>) -> Self {
        Self { limit, counters }
    }

    /// The limit.
    pub fn limit(&self) -> FetchLimit {
        self.limit
    }
}

/// A read that owns everything it uses, because it may outlive the thread that waits for it.
pub(crate) trait OwnedRead: Send + 'static {
    /// Reads. Does not panic.
    fn read(&mut self) -> Result<()>;
}

/// Threads that read within a limit: as many as there are reads at the same time.
pub(crate) struct Limited<R> {
    limit: ReadLimit,
    left_behind: AtomicUsize,
    idle: Mutex<Vec<Helper<R>>>,
}

struct Helper<R> {
    reads: Sender<R>,
    done: Receiver<(R, Result<()>, BytesRead)>,
}

impl<R: OwnedRead> Limited<R> {
    pub(crate) fn new(limit: ReadLimit) -> Self {
        Self { limit, left_behind: AtomicUsize::new(0), idle: Mutex::new(Vec::new()) }
    }

    /// Makes sure that there is a thread for the next read.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), except for those of the read itself.
    pub(crate) fn prepare(&self) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if self.idle.lock().is_empty() {
            let helper = Helper::start()?;
            self.idle.lock().push(helper);
        }
        Ok(())
    }

    /// Lets another thread run the read that `read` makes, and returns it with its result.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] if it takes too long, which leaves it behind, or if too many threads were left behind
    /// before.
    pub(crate) fn read(&self, read: impl FnOnce() -> R) -> Result<(R, Result<()>)> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        // Removed first, because what a thread that is left behind drops may be the user's.
        let helper = self.idle.lock().pop();
        let helper = helper.map_or_else(Helper::start, Ok)?;
        let gone = || Error::new(ErrorKind::Panicked, "the reading thread has ended");
        helper.reads.send(read()).map_err(|_| gone())?;
        let ReadLimit { limit, counters } = &self.limit;
        match helper.done.recv_timeout(Duration::from_millis(limit.time_ms)) {
            Ok((read, result, bytes)) => {
                bytes.note_all();
                self.idle.lock().push(helper);
                Ok((read, result))
            }
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
            Err(RecvTimeoutError::Timeout) => {
                self.left_behind.fetch_add(1, Ordering::Relaxed);
                counters.left_behind.fetch_add(1, Ordering::Relaxed);
                let message = format!("reading took longer than the limit of {} ms", limit.time_ms);
                Err(Error::new(ErrorKind::TimedOut, message))
            }
        }
    }

    /// The error that ends the epoch once too many threads are left behind.
    pub(crate) fn failure(&self) -> Option<Error> {
        let (left_behind, limit) = (self.left_behind.load(Ordering::Relaxed), self.limit.limit);
        (left_behind > limit.replacements).then(|| {
            let message = format!(
                "{left_behind} reads passed the limit of {} ms and left their threads behind, but only {} may: the \
                 storage hangs, or the limit is too short",
                limit.time_ms, limit.replacements
            );
            Error::new(ErrorKind::TimedOut, message)
        })
    }
}

impl<R: OwnedRead> Helper<R> {
    fn start() -> Result<Self> {
        let (reads, assigned) = bounded::<R>(1);
        let (finished, done) = bounded(1);
        thread::Builder::new()
            .name("ringfeed-read".to_owned())
            .spawn(move || {
                for mut read in assigned {
                    let result = read.read();
                    if finished.send((read, result, BytesRead::take())).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| Error::new(ErrorKind::Io, format!("a reading thread can't be started: {error}")))?;
        Ok(Self { reads, done })
    }
}
