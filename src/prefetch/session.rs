use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::counters::{Counters, Kind, Track, add};
use crate::dataset::{BadRecords, Batch, BatchPlan, Fetch, Filler, PlanTerms, caught, fetch_directly, settle_batch};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Scratch;
use crate::ring::{Draft, Overflow, Ring, exhausted};
use crate::storage::{FetchLimit, Limited};
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

use super::fetchers::{OneSample, fetch_within};
use super::levels::{Levels, Wait};
use super::steps::{Begin, LONGEST_WAIT, Step, Taken, check_process};

/// One source's batches in flight, shared by the consumer, the planning thread and the workers.
///
/// Lock order: the window, then the ring.
pub(super) struct Session {
    pub(super) filler: Arc<dyn Filler>,
    pub(super) counters: Arc<Counters>,
    pub(super) ring: Ring<Batch>,
    pub(super) policy: BadRecords,
    /// Helper threads that read, if reading has a time limit.
    pub(super) fetchers: Option<Limited<OneSample>>,
    /// One for each worker, so that every worker's buffers stay warm.
    scratches: Box<[Mutex<Scratch>]>,
    pub(super) terms: PlanTerms,
    /// Time to fill a row, in nanoseconds: a running mean that sizes jobs.
    pub(super) row_ns: AtomicU64,
    /// Workers and the planning thread abandon what they do.
    pub(super) stop: AtomicBool,
    /// The planning thread stops waiting for a slot: to abandon its batch, or to spill it.
    pub(super) interrupt: AtomicBool,
    window: Mutex<Window>,
    /// The consumer's: a batch is ready, or nothing will be.
    ready: Condvar,
    /// The planning thread's: there is room, or another wish.
    go: Condvar,
    /// Whether the next epoch is begun when one is planned to its end.
    pub(super) runs_on: bool,
    lease_wait: Duration,
    close_wait: Duration,
    /// Where its threads are.
    process: u32,
}

/// Batches in ticket order, and what the consumer wants of the planning thread.
struct Window {
    wanted: Wanted,
    /// Since a pause was asked for, everybody has stopped and every batch that was not handed out is pending again.
    /// Until then some batches may be filled in part.
    paused: bool,
    parked: bool,
    exited: bool,
    entries: VecDeque<Entry>,
    /// How many batches may be bound and not handed out.
    limit: usize,
    first_ticket: u64,
    in_flight: usize,
    /// How full it is, and what the trainer waits for.
    levels: Levels,
    waiting_for_slot: bool,
    spill: bool,
    /// Planned before the workspace was taken away: to be filled again, in this order.
    pending: VecDeque<Pending>,
    begin: Option<Begin>,
    /// The epoch that is being planned.
    epoch: u64,
    /// Nothing more is planned until the consumer asks for another epoch.
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Run,
    Pause,
    Close,
}

/// What was in the window, or would have come into it.
#[expect(clippy::large_enum_variant, reason = "a box would be memory taken for each batch")]
enum Pending {
    Plan(BatchPlan),
    Mark(Entry),
}

enum Entry {
    Filling,
    Filled(Draft<Batch>),
    Failed(Error),
    End,
}

pub(super) struct SessionParts {
    pub(super) filler: Arc<dyn Filler>,
    pub(super) counters: Arc<Counters>,
    pub(super) ring: Ring<Batch>,
    pub(super) policy: BadRecords,
    pub(super) first: Option<BatchPlan>,
    pub(super) terms: PlanTerms,
    pub(super) runs_on: bool,
    pub(super) workers: usize,
    pub(super) prefetch: usize,
    /// As far as it may be raised.
    pub(super) most_prefetch: usize,
    pub(super) fetch_limit: Option<FetchLimit>,
    pub(super) lease_wait: Duration,
    pub(super) close_wait: Duration,
}

impl Window {
    /// Writes down what passed since the last change. Called before each.
    fn note(&mut self, counters: &Counters) -> Instant {
        let now = Instant::now();
        if self.paused {
            self.levels.pause();
            return now;
        }
        let wait = match self.entries.front() {
            Some(Entry::Filling) => Wait::Fill,
            Some(_) => Wait::Nothing,
            None if self.waiting_for_slot => Wait::Slot,
            None => Wait::Plan,
        };
        self.levels.note(&counters.queue, wait, self.in_flight, now);
        now
    }

    /// The trainer waits from now on, or no longer.
    fn trainer_waits(&mut self, counters: &Counters, waits: bool) -> Instant {
        let now = self.note(counters);
        self.levels.trainer_waits = waits;
        now
    }

    /// Writes down how many batches are ready and being filled from now on, if there is a trace.
    fn trace_levels(&self, counters: &Counters, now: Instant) {
        if let Some(trace) = &counters.trace {
            trace.record_levels(now, self.levels.ready, self.in_flight);
        }
    }

    /// Whether another batch may be bound. Ends of epochs take no slot, but an epoch without batches must not make them
    /// pile up.
    fn has_room(&self) -> bool {
        let ends = self.entries.iter().filter(|entry| matches!(entry, Entry::End)).count();
        self.entries.len() - ends < self.limit && ends < 2
    }
}

impl Session {
    /// A session that is paused, with the first batch planned; without one it is at its end.
    pub(super) fn new(parts: SessionParts) -> Self {
        let empty = parts.first.is_none();
        let window = Window {
            wanted: Wanted::Pause,
            paused: true,
            parked: false,
            exited: false,
            entries: VecDeque::with_capacity(parts.most_prefetch + 2),
            limit: parts.prefetch + 1,
            first_ticket: 0,
            in_flight: 0,
            levels: Levels::default(),
            waiting_for_slot: false,
            spill: false,
            ended: empty && !parts.runs_on,
            epoch: u64::from(empty),
            pending: VecDeque::from([parts.first.map_or(Pending::Mark(Entry::End), Pending::Plan)]),
            begin: (empty && parts.runs_on).then_some(Begin::Epoch(1)),
        };
        Self {
            filler: parts.filler,
            counters: parts.counters,
            ring: parts.ring,
            policy: parts.policy,
            fetchers: parts.fetch_limit.map(|limit| Limited::new(limit, parts.workers)),
            scratches: (0..parts.workers).map(|_| Mutex::default()).collect(),
            terms: parts.terms,
            row_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            interrupt: AtomicBool::new(false),
            window: Mutex::new(window),
            ready: Condvar::new(),
            go: Condvar::new(),
            runs_on: parts.runs_on,
            lease_wait: parts.lease_wait,
            close_wait: parts.close_wait,
            process: std::process::id(),
        }
    }

    /// An error in a forked child, where none of the threads is that would do anything, and any lock may be held for ever.
    pub(super) fn check_process(&self) -> Result<()> {
        check_process(self.process)
    }

    // ---- the consumer's side ----

    /// The next batch in ticket order.
    ///
    /// Waits while any batch is being planned or filled. When instead all slots are in the caller's hands, it waits
    /// `lease_wait` and then gives an error that takes no ticket, or has the batch spilled.
    pub(super) fn take(&self) -> Taken {
        let mut window = self.window.lock();
        let mut waiting_since = None;
        let mut deadline = None;
        let taken = loop {
            match window.entries.front() {
                Some(Entry::Filling) => deadline = None,
                Some(_) => {
                    let now = window.trainer_waits(&self.counters, false);
                    let entry = window.entries.pop_front();
                    if matches!(entry, Some(Entry::Filled(_))) {
                        window.levels.least_ready = window.levels.least_ready.min(window.levels.ready);
                        window.levels.ready -= 1;
                        window.trace_levels(&self.counters, now);
                    }
                    window.first_ticket += 1;
                    self.go.notify_one();
                    break entry;
                }
                None if window.exited => {
                    break Some(Entry::Failed(Error::new(ErrorKind::Panicked, "the planning thread has ended")));
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
                        window.trainer_waits(&self.counters, false);
                        drop(window);
                        if let Some(since) = waiting_since {
                            self.counters.trainer_waited(since);
                        }
                        return Taken::Exhausted(exhausted(self.ring.leased(), self.ring.slots()));
                    }
                    continue;
                }
                None => deadline = None,
            }
            waiting_since.get_or_insert_with(|| window.trainer_waits(&self.counters, true));
            window = self.ready.wait(window);
        };
        drop(window);
        if let Some(since) = waiting_since {
            self.counters.trainer_waited(since);
        }
        match taken {
            Some(Entry::Filled(draft)) => Taken::Batch(draft),
            Some(Entry::Failed(error)) => Taken::Failed(error),
            Some(Entry::End | Entry::Filling) | None => Taken::End,
        }
    }

    /// Waits at most `time` for something that [`take`](Self::take) gives at once, and says whether there is. Where all slots
    /// are in the caller's hands, `take` is the one that waits.
    pub(super) fn is_ready_within(&self, time: Duration) -> bool {
        let since = Instant::now();
        let deadline = since + time.min(LONGEST_WAIT);
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
            window = self.ready.wait_until(window, deadline);
        };
        if has_waited {
            window.trainer_waits(&self.counters, false);
        }
        drop(window);
        if has_waited {
            self.counters.trainer_waited(since);
        }
        is_ready
    }

    /// Lets planning and filling go on. Where a pause ended in its time limit, what it left undone is done first.
    pub(super) fn resume(&self) -> Result<()> {
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

    /// Stops planning and filling, and returns every slot that is not in the caller's hands. What was planned and not
    /// handed out is kept, to be filled again.
    pub(super) fn pause(&self) -> Result<()> {
        self.check_process()?;
        let mut window = self.window.lock();
        if window.wanted == Wanted::Run {
            window.wanted = Wanted::Pause;
        }
        self.complete_pause(window).map(drop)
    }

    fn complete_pause<'a>(&self, window: MutexGuard<'a, Window>) -> Result<MutexGuard<'a, Window>> {
        if window.paused {
            return Ok(window);
        }
        let mut window = self.quiesce(window)?;
        window.note(&self.counters);
        window.levels.ready = 0;
        window.first_ticket += window.entries.len() as u64;
        while let Some(entry) = window.entries.pop_back() {
            let pending = match entry {
                Entry::Filled(mut draft) => Pending::Plan(draft.payload_mut().take_plan()),
                mark => Pending::Mark(mark),
            };
            window.pending.push_front(pending);
        }
        window.paused = true;
        Ok(window)
    }

    /// Goes on elsewhere: what was planned is forgotten. The session must be paused.
    pub(super) fn restart(&self, begin: Begin) {
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
    pub(super) fn close(&self) {
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
                tracing::warn!(%error, "an iterator was dropped while work was in progress");
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
            }
        }
    }

    /// Makes everybody stop, and waits until they have.
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

    // ---- the planning thread's side ----

    /// How many finished batches may wait from here on, at most as many as at first or as there is room for.
    pub(super) fn set_prefetch(&self, batches: usize) {
        self.window.lock().limit = batches + 1;
    }

    /// The fewest batches that were ready when the trainer took one, since the last call.
    pub(super) fn least_ready(&self) -> usize {
        std::mem::replace(&mut self.window.lock().levels.least_ready, usize::MAX)
    }

    /// Waits until there is something to do.
    pub(super) fn next_step(&self) -> Step {
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
                    None if !window.ended => return Step::Plan,
                    None => {}
                }
            }
            // At the end of an epoch it waits for the trainer to begin another.
            let (since, is_full) = (Instant::now(), !window.ended);
            window = self.go.wait(window);
            if is_full {
                add(&self.counters.room_wait_ns, since.elapsed());
            }
        }
    }

    /// The epoch that is being planned has ended, or failed. Behind its end the next one begins, if the source runs on.
    pub(super) fn end(&self, error: Option<Error>) {
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

    /// Keeps a plan that could not be bound because the session is being paused: it comes before all others.
    pub(super) fn keep(&self, plan: BatchPlan) {
        self.window.lock().pending.push_front(Pending::Plan(plan));
    }

    /// A slot of the ring for a batch of `bytes`; `None` if the session is being paused.
    pub(super) fn slot(&self, bytes: usize) -> Result<Option<Draft<Batch>>> {
        let mut window = self.window.lock();
        let since = window.note(&self.counters);
        window.waiting_for_slot = true;
        drop(window);
        if self.ring.is_all_leased() {
            self.ready.notify_all();
        }
        let slot = loop {
            match caught(|| self.ring.acquire(bytes, &self.interrupt, None)) {
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
        add(&self.counters.slot_wait_ns, now.saturating_duration_since(since));
        window.waiting_for_slot = false;
        window.spill = false;
        slot
    }

    /// Gives the next ticket to a batch that is about to be filled; `None` if the session is being paused.
    pub(super) fn bind(&self) -> Option<u64> {
        let mut window = self.window.lock();
        if window.wanted != Wanted::Run {
            return None;
        }
        let now = window.note(&self.counters);
        window.entries.push_back(Entry::Filling);
        window.in_flight += 1;
        window.trace_levels(&self.counters, now);
        Some(window.first_ticket + window.entries.len() as u64 - 1)
    }

    /// The planning thread is gone.
    pub(super) fn exited(&self) {
        self.window.lock().exited = true;
        self.ready.notify_all();
    }

    // ---- the workers' side ----

    /// Lends the way in which worker `worker` fetches: directly, or within the time limit.
    pub(super) fn with_fetch(&self, worker: usize, work: impl FnOnce(&mut Fetch<'_>)) {
        match &self.fetchers {
            None => work(&mut fetch_directly),
            Some(fetchers) => work(&mut |_, plan, rows, job, scratch| {
                while let Some(nth) = job.advance() {
                    let row = rows.start + nth;
                    let filler = &self.filler;
                    job.report(fetch_within(fetchers, worker, filler, plan, row, scratch, &self.counters));
                }
            }),
        }
    }

    /// Takes worker `worker`'s buffers out: what is done with them is done under no lock.
    pub(super) fn take_scratch(&self, worker: usize) -> Scratch {
        std::mem::take(&mut *self.scratches[worker].lock())
    }

    /// Keeps worker `worker`'s buffers for its next job.
    pub(super) fn keep_scratch(&self, worker: usize, scratch: Scratch) {
        *self.scratches[worker].lock() = scratch;
    }

    /// All shares of a batch were given back.
    pub(super) fn filled(&self, mut draft: Draft<Batch>, worker: usize, scratch: &mut Scratch) {
        if draft.is_whole() && !self.stop.load(Ordering::Acquire) {
            let begin = self.counters.trace.as_ref().map(|_| Instant::now());
            let settled = caught(|| {
                self.with_fetch(worker, |fetch| {
                    settle_batch(&mut draft, self.policy, &*self.filler, scratch, &self.counters, fetch);
                });
                Ok(())
            });
            draft.payload_mut().plan.requested = None;
            if let (Some(trace), Some(begin)) = (&self.counters.trace, begin) {
                let (span, batch) = ((begin, Instant::now()), draft.payload());
                trace.record(Kind::Settle, Track::Worker(worker as u32), span, Some(batch.ticket), batch.plan.rows());
            }
            if let Some(error) = settled.err().or_else(|| self.fetchers.as_ref().and_then(Limited::failure)) {
                draft.payload().fail(error);
            }
        }
        let mut window = self.window.lock();
        let now = window.note(&self.counters);
        window.in_flight -= 1;
        let place = draft.payload().ticket.wrapping_sub(window.first_ticket) as usize;
        if window.wanted == Wanted::Close {
            // Home before anybody hears that nothing is in flight: the next source counts on the slot.
            drop(draft);
        } else {
            window.entries[place] = Entry::Filled(draft);
            window.levels.ready += 1;
            window.trace_levels(&self.counters, now);
        }
        if place == 0 || self.stop.load(Ordering::Acquire) {
            self.ready.notify_all();
        }
    }
}
