//! The threads that request pieces from a storage, and the threads that wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Instant;

use crate::counters::BytesRead;
use crate::error::{Error, Result};
use crate::storage::{Storage, replaced, shorter_than_before};
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

use super::pieces::{Content, Loaded, State, fitted};

pub(super) struct Shared {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) in_flight: usize,
    pub(super) most_bytes: u64,
    /// The process that has the threads; 0 as long as there are none.
    pub(super) process: AtomicU32,
    pub(super) next_file: AtomicU64,
    pub(super) state: Mutex<State>,
    /// Notifies threads that wait for bytes.
    pub(super) arrived: Condvar,
    /// Notifies the threads that read.
    pub(super) queued: Condvar,
}

impl Shared {
    /// The piece with byte `at` of a file, and where it begins. Waits until it has come; `None` if it was not
    /// requested, could not be read, or takes too long.
    pub(super) fn piece(self: &Arc<Self>, file: u64, at: u64) -> Option<(u64, Arc<Loaded>)> {
        if self.is_of_another_process() {
            return None;
        }
        let mut state = self.state.lock();
        let mut waits = false;
        loop {
            let until;
            let ((found, start), piece) = state.pieces.range(..=(file, at)).next_back()?;
            if *found != file || piece.end <= at {
                return None;
            }
            let key = (file, *start);
            match &piece.content {
                Content::Here(loaded) => return Some((*start, loaded.clone())),
                Content::Failed => return None,
                Content::Queued | Content::Reading(..) if state.closed => return None,
                Content::Queued => {
                    let (batch, is_urgent) = (piece.batch, piece.is_urgent);
                    if !is_urgent {
                        state.hurry(batch);
                        self.look_again(&mut state);
                    }
                    // All threads may wait for requests that never end.
                    until = Instant::now() + state.patience;
                }
                Content::Reading(_, begin) => {
                    let begin = *begin;
                    until = state.deadline(begin);
                    if until <= Instant::now() {
                        state.give_up(key);
                        self.start_threads(&mut state);
                        drop(state);
                        self.arrived.notify_all();
                        return None;
                    }
                }
            }
            if !std::mem::replace(&mut waits, true) {
                state.counts.waited += 1;
            }
            state = self.arrived.wait_until(state, until);
            if until <= Instant::now() {
                self.start_threads(&mut state);
            }
        }
    }

    #[cold]
    pub(super) fn read_now(&self, (path, len): (&Path, u64), offset: u64, into: &mut [u8]) -> Result<()> {
        let is_own = !self.is_of_another_process();
        let mut buffer = Vec::new();
        if is_own {
            let mut state = self.state.lock();
            state.counts.unforeseen += 1;
            buffer = state.buffer(into.len() as u64);
        }
        let end = offset.saturating_add(into.len() as u64);
        let found = self.storage.read(path, offset..end, &mut buffer)?;
        let Some(bytes) = buffer.get(..into.len()) else {
            return Err(shorter_than_before(path, found.max(offset.saturating_add(buffer.len() as u64))));
        };
        if found != len {
            return Err(replaced(path));
        }
        into.copy_from_slice(bytes);
        BytesRead::note(into.len());
        if is_own {
            self.state.lock().keep(buffer);
        }
        Ok(())
    }

    /// Whether this process was forked from the one that has the threads: nobody would ever answer, and a thread that
    /// does not exist here may have the lock.
    pub(super) fn is_of_another_process(&self) -> bool {
        let process = self.process.load(Ordering::Relaxed);
        process != 0 && process != std::process::id()
    }

    pub(super) fn start_threads(self: &Arc<Self>, state: &mut MutexGuard<'_, State>) {
        if state.give_up_overdue() {
            self.arrived.notify_all();
        }
        let room = self.in_flight - state.threads;
        // Those that wait for requests which were given up are some more, but not without end.
        let room = room.min((2 * self.in_flight).saturating_sub(state.threads + state.lost()));
        let wanted = state.waiting().saturating_sub(state.idle).min(room);
        if wanted > 0 {
            self.process.store(std::process::id(), Ordering::Relaxed);
        }
        for _ in 0..wanted {
            let shared = self.clone();
            let started =
                thread::Builder::new().name(format!("ringfeed-ahead-{}", state.threads)).spawn(move || shared.work());
            if started.is_err() {
                break;
            }
            state.threads += 1;
        }
        self.look_again(state);
        if state.threads == 0 {
            // If there is no thread, nobody would ever answer: the thread that needs the bytes reads them.
            state.fail_queued();
            self.arrived.notify_all();
        }
    }

    /// Wakes a thread if there is something that it may read.
    pub(super) fn look_again(&self, state: &mut MutexGuard<'_, State>) {
        if state.idle > 0 && state.has_next() {
            self.queued.notify_one();
        }
    }

    /// What a thread does.
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return;
            }
            let Some((request, mut buffer)) = state.next() else {
                state.idle += 1;
                state = self.queued.wait(state);
                state.idle -= 1;
                continue;
            };
            // One after another, as far as there is room.
            self.look_again(&mut state);
            drop(state);
            let range = request.key.1..request.end;
            let read = catch_unwind(AssertUnwindSafe(|| self.storage.read(&request.path, range, &mut buffer)))
                .unwrap_or_else(|panic| {
                    let error = Error::from_panic(&*panic);
                    // It is the user's, too: if dropping it panicked, nobody would answer those who wait.
                    std::mem::forget(panic);
                    Err(error)
                });
            let file_len = read.as_ref().ok().copied();
            // A subscriber and an error's content are the user's, and somebody waits for this thread's answer.
            let told = catch_unwind(AssertUnwindSafe(|| {
                if let Err(error) = read {
                    tracing::debug!(path = %request.path.display(), %error, "a request ahead failed; it is made again when needed");
                }
            }));
            told.unwrap_or_else(std::mem::forget);
            let buffer = fitted(buffer);
            state = self.state.lock();
            let stays = state.arrive(&request, file_len, buffer);
            self.arrived.notify_all();
            if !stays {
                self.look_again(&mut state);
                return;
            }
        }
    }
}
