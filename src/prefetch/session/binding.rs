//! The planning thread's side of a session: what to do next, slots and tickets.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::counters::{Tick, add_alone, nanoseconds, now};
use crate::dataset::{Batch, BatchPlan};
use crate::error::{Error, Result};
use crate::prefetch::steps::{Begin, Step};
use crate::ring::Draft;

use super::Session;
use super::window::{Entry, Pending, Wanted};

impl Session {
    /// How many finished batches may wait from here on, at most as many as at first or as there is room for.
    pub(in crate::prefetch) fn set_prefetch(&self, batches: usize) {
        self.window.lock().limit = batches + 1;
    }

    /// The fewest batches that were ready when the trainer took one, since the last call.
    pub(in crate::prefetch) fn least_ready(&self) -> usize {
        std::mem::replace(&mut self.window.lock().levels.least_ready, usize::MAX)
    }

    /// Waits until there is something to do.
    pub(in crate::prefetch) fn next_step(&self) -> Step {
        let mut window = self.window.lock();
        loop {
            match window.wanted {
                Wanted::Close => return Step::Exit,
                Wanted::Pause => {
                    window.parked = true;
                    self.ready.notify_all();
                    window = self.go.wait(window);
                    continue;
                }
                Wanted::Run => window.parked = false,
            }
            if window.pending.is_empty()
                && let Some(begin) = window.begin.take()
            {
                return Step::Begin(begin);
            }
            if window.has_room() {
                match window.pending.pop_front() {
                    Some(Pending::Plan(plan)) => return Step::Refill(plan),
                    Some(Pending::Mark(mark)) => {
                        window.entries.push_back(mark);
                        self.ready.notify_all();
                        continue;
                    }
                    None if !window.ended => return Step::Plan { has_room: true },
                    None => {}
                }
            } else if self.plans_ahead && window.has_nothing_planned() {
                return Step::Plan { has_room: false };
            }
            // At the end of an epoch it waits for the trainer to begin another.
            let (since, is_full) = (now(), !window.ended);
            window = self.go.wait_awake(&self.window, window);
            if is_full {
                add_alone(&self.counters.room_wait_ns, nanoseconds(now().since(since)));
            }
        }
    }

    /// The epoch that is being planned has ended, or failed. After its end the next one begins, if the source continues
    /// by itself.
    pub(in crate::prefetch) fn end(&self, error: Option<Error>) {
        let mut window = self.window.lock();
        let mut forgotten = VecDeque::new();
        let mark = match error {
            Some(error) => {
                // Whatever is still pending comes after the error: nobody will ask for it.
                forgotten = std::mem::take(&mut window.pending);
                window.begin = None;
                window.ended = true;
                Entry::Failed(error)
            }
            None => {
                window.ended = !self.runs_on;
                if self.runs_on && window.begin.is_none() {
                    window.epoch = window.epoch.wrapping_add(1);
                    window.begin = Some(Begin::Epoch(window.epoch));
                }
                Entry::End
            }
        };
        if window.wanted == Wanted::Run {
            window.entries.push_back(mark);
            self.ready.notify_all();
        } else {
            window.pending.push_front(Pending::Mark(mark));
        }
        drop(window);
        drop(forgotten);
    }

    /// Keeps a plan that could not be bound because the session is being paused. It comes before all other plans.
    pub(in crate::prefetch) fn keep(&self, plan: BatchPlan) {
        self.window.lock().pending.push_front(Pending::Plan(plan));
    }

    /// A slot of the ring for a batch of `bytes`, for which the thread waits since `since`, and the time at which it
    /// got the slot; `None` if none was free and the session is being paused. The slot's memory may be too small.
    pub(in crate::prefetch) fn slot(&self, bytes: usize, since: Tick) -> Result<Option<(Draft<Batch>, Tick)>> {
        if let Some(draft) = self.ring.try_free_slot() {
            self.counters.slot_waits.record_alone(Duration::ZERO);
            return Ok(Some((draft, since)));
        }
        let mut window = self.window.lock();
        window.note_until(&self.counters, since);
        window.waiting_for_slot = true;
        drop(window);
        if self.ring.is_all_leased() {
            self.ready.notify_all();
        }
        let slot = loop {
            match self.ring.free_slot(&self.interrupt, None) {
                Ok(None) if !self.stop.load(Ordering::Acquire) => {
                    let mut window = self.window.lock();
                    if window.wanted != Wanted::Run {
                        break Ok(None);
                    }
                    self.interrupt.store(false, Ordering::Release);
                    if std::mem::take(&mut window.spill) {
                        drop(window);
                        break self.ring.spill(bytes).map(Some);
                    }
                }
                other => break other,
            }
        };
        let mut window = self.window.lock();
        let now = window.note(&self.counters);
        let waited = now.since(since);
        add_alone(&self.counters.slot_wait_ns, nanoseconds(waited));
        window.waiting_for_slot = false;
        window.spill = false;
        let slot = slot?;
        if slot.is_some() {
            self.counters.slot_waits.record_alone(waited);
        }
        Ok(slot.map(|draft| (draft, now)))
    }

    /// Gives the next ticket to a batch that is about to be filled, `now`; `None` if the session is being paused.
    pub(in crate::prefetch) fn bind(&self, now: Tick) -> Option<u64> {
        let mut window = self.window.lock();
        if window.wanted != Wanted::Run {
            return None;
        }
        window.note_until(&self.counters, now);
        window.entries.push_back(Entry::Filling);
        window.in_flight += 1;
        window.trace_levels(&self.counters, now);
        Some(window.first_ticket + window.entries.len() as u64 - 1)
    }

    /// The planning thread is gone.
    pub(in crate::prefetch) fn exited(&self) {
        self.window.lock().exited = true;
        self.ready.notify_all();
    }
}
