//! The consumer's side of a session: taking batches.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::counters::{Tick, now};
use crate::error::{Error, ErrorKind};
use crate::prefetch::steps::{LONGEST_WAIT, Taken};
use crate::ring::{Overflow, exhausted};

use super::Session;
use super::window::Entry;

impl Session {
    /// The next batch in ticket order, and when it was taken.
    ///
    /// Waits while any batch is being planned or filled. If the caller holds all slots instead, it waits for
    /// `lease_wait`, and then returns an error that takes no ticket, or has the batch spilled.
    pub(in crate::prefetch) fn take(&self) -> (Taken, Tick) {
        let mut window = self.window.lock();
        let mut waiting_since = None;
        let mut deadline = None;
        let (taken, now) = loop {
            match window.entries.front() {
                Some(Entry::Filling) => deadline = None,
                Some(_) => {
                    let now = window.trainer_waits(&self.counters, false);
                    let entry = window.entries.pop_front();
                    window.has_begun = true;
                    if matches!(entry, Some(Entry::Filled(_))) {
                        window.levels.least_ready = window.levels.least_ready.min(window.levels.ready);
                        window.levels.ready -= 1;
                        window.trace_levels(&self.counters, now);
                    }
                    window.first_ticket += 1;
                    break (entry, now);
                }
                None if window.exited => {
                    let error = Error::new(ErrorKind::Panicked, "the planning thread has ended");
                    break (Some(Entry::Failed(error)), now());
                }
                None if window.waiting_for_slot && !window.spill && self.ring.is_all_leased() => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.lease_wait);
                    waiting_since.get_or_insert_with(|| window.trainer_waits(&self.counters, true));
                    if Instant::now() < deadline {
                        window = self.ready.wait_until(window, deadline);
                    } else if self.ring.overflow() == Overflow::Spill {
                        window.spill = true;
                        self.interrupt.store(true, Ordering::Release);
                        self.ring.wake();
                    } else {
                        let now = window.trainer_waits(&self.counters, false);
                        drop(window);
                        if let Some(since) = waiting_since {
                            self.counters.trainer_waited(since, now);
                        }
                        return (Taken::Exhausted(exhausted(self.ring.leased(), self.ring.slots())), now);
                    }
                    continue;
                }
                None => deadline = None,
            }
            waiting_since.get_or_insert_with(|| window.trainer_waits(&self.counters, true));
            window = self.ready.wait_awake(&self.window, window);
        };
        drop(window);
        self.go.notify_one();
        if let Some(since) = waiting_since {
            self.counters.trainer_waited(since, now);
        }
        let taken = match taken {
            Some(Entry::Filled(draft)) => Taken::Batch(draft),
            Some(Entry::Failed(error)) => Taken::Failed(error),
            Some(Entry::End | Entry::Filling) | None => Taken::End,
        };
        (taken, now)
    }

    /// Waits at most `time` until [`take`](Self::take) would return at once, and returns whether it would. If the
    /// caller holds all slots, `take` does the waiting.
    pub(in crate::prefetch) fn is_ready_within(&self, time: Duration) -> bool {
        let since = now();
        let deadline = Instant::now() + time.min(LONGEST_WAIT);
        let mut window = self.window.lock();
        let mut has_waited = false;
        let is_ready = loop {
            let is_coming = match window.entries.front() {
                Some(Entry::Filling) => true,
                Some(_) => false,
                None if window.exited => false,
                None => !window.waiting_for_slot || !self.ring.is_all_leased(),
            };
            if !is_coming || Instant::now() >= deadline {
                break !is_coming;
            }
            if !std::mem::replace(&mut has_waited, true) {
                window.trainer_waits(&self.counters, true);
            }
            window = self.ready.wait_awake_until(&self.window, window, deadline);
        };
        if has_waited {
            window.trainer_waits(&self.counters, false);
        }
        // Planning begins now, because the caller may take the batch much later.
        let begins = is_ready && !window.has_begun;
        window.has_begun |= is_ready;
        drop(window);
        if begins {
            self.go.notify_one();
        }
        if has_waited {
            self.counters.trainer_waited(since, now());
        }
        is_ready
    }
}
