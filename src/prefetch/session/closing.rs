//! Pausing, resuming, restarting and closing a session.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::caught::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::prefetch::steps::Begin;
use crate::sync::MutexGuard;

use super::Session;
use super::window::{Entry, Pending, Wanted, Window};

impl Session {
    /// Lets planning and filling continue. If a pause ended at its time limit, its remaining work is done first.
    pub(in crate::prefetch) fn resume(&self) -> Result<()> {
        if !self.stop.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut window = self.window.lock();
        if window.wanted == Wanted::Pause {
            window = self.complete_pause(window)?;
            window.wanted = Wanted::Run;
            window.note(&self.counters);
            window.paused = false;
            self.stop.store(false, Ordering::Release);
            self.interrupt.store(false, Ordering::Release);
            self.go.notify_one();
        }
        Ok(())
    }

    /// Stops planning and filling, and returns every slot that the caller does not hold. Planned batches that were not
    /// delivered are kept, and filled again later.
    pub(in crate::prefetch) fn pause(&self) -> Result<()> {
        self.check_process()?;
        let mut window = self.window.lock();
        if window.wanted == Wanted::Run {
            window.wanted = Wanted::Pause;
        }
        self.complete_pause(window).map(drop)
    }

    fn complete_pause<'a>(&'a self, window: MutexGuard<'a, Window>) -> Result<MutexGuard<'a, Window>> {
        if window.paused {
            return Ok(window);
        }
        let mut window = self.quiesce(window)?;
        window.note(&self.counters);
        window.levels.ready = 0;
        window.first_ticket += window.entries.len() as u64;
        let mut emptied = Vec::new();
        while let Some(entry) = window.entries.pop_back() {
            let pending = match entry {
                Entry::Filled(mut draft) => {
                    let plan = draft.payload_mut().take_plan();
                    emptied.push(draft);
                    Pending::Plan(plan)
                }
                mark => Pending::Mark(mark),
            };
            window.pending.push_front(pending);
        }
        window.paused = true;
        // Everybody has stopped, and nobody goes on before the caller does: what frees the slots' memory, which may be
        // the user's, has no need of the lock.
        drop(window);
        let _freed = caught(|| {
            drop(emptied);
            Ok(())
        });
        Ok(self.window.lock())
    }

    /// Continues elsewhere: all planned batches are dropped. The session must be paused.
    pub(in crate::prefetch) fn restart(&self, begin: Begin) {
        let mut window = self.window.lock();
        let forgotten = std::mem::take(&mut window.pending);
        window.ended = false;
        window.epoch = match begin {
            Begin::Epoch(epoch) => epoch,
            Begin::At(state) => state.epoch,
        };
        window.begin = Some(begin);
        drop(window);
        drop(forgotten);
    }

    /// Ends the session; waits at most `close_wait` for work in progress.
    pub(in crate::prefetch) fn close(&self) {
        if self.check_process().is_err() {
            return;
        }
        let mut window = self.window.lock();
        window.wanted = Wanted::Close;
        match self.quiesce(window) {
            Ok(mut window) => {
                let entries = std::mem::take(&mut window.entries);
                drop(window);
                drop(entries);
            }
            Err(error) => {
                // What is filled goes home now; what is stuck follows when it is done.
                let mut window = self.window.lock();
                let filled: Vec<_> = window
                    .entries
                    .iter_mut()
                    .filter(|entry| matches!(entry, Entry::Filled(_)))
                    .map(|entry| std::mem::replace(entry, Entry::End))
                    .collect();
                drop(window);
                drop(filled);
                tracing::warn!(%error, "an iterator was dropped while work was in progress");
            }
        }
    }

    /// Makes planning thread and workers stop, and waits until they have.
    fn quiesce<'a>(&self, mut window: MutexGuard<'a, Window>) -> Result<MutexGuard<'a, Window>> {
        self.stop.store(true, Ordering::Release);
        self.interrupt.store(true, Ordering::Release);
        self.go.notify_one();
        self.ring.wake();
        let deadline = Instant::now() + self.close_wait;
        while !(window.exited || window.parked) || window.in_flight > 0 {
            if Instant::now() >= deadline {
                let message = format!(
                    "after {:?}, {} and {} batches are still being filled; a reader is stuck in input or output, or a \
                     record takes very long to decode",
                    self.close_wait,
                    if window.parked || window.exited { "planning has stopped" } else { "planning has not stopped" },
                    window.in_flight,
                );
                return Err(Error::new(ErrorKind::TimedOut, message));
            }
            window = self.ready.wait_until(window, deadline);
        }
        Ok(window)
    }
}
