use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::counters::{Tick, add};
use crate::dataset::State as Position;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Items that may wait in addition to batches: errors, and the end of an epoch.
const OTHER_ITEMS: usize = 2;

/// Passes host batches from the loader to the upload thread, device batches from there to the trainer, and slots back.
///
/// All of its state is under one lock, so that each thread can wait for the first of several events. Items belong to
/// runs: after a reset, items that an earlier run has loaded or uploaded are no longer needed.
///
/// It knows nothing of devices: `S` is a slot, `H` a host batch, `B` a batch on the device.
pub(super) struct Exchange<S, H, B> {
    /// The name of the slots' device.
    name: String,
    count: usize,
    lease_wait: Duration,
    waited_ns: AtomicU64,
    state: Mutex<State<S, H, B>>,
    changed: Condvar,
}

struct State<S, H, B> {
    /// The next item, until the upload thread takes it. There is only one place, because the loader can't fill a host
    /// batch that waits here.
    loaded: Option<Loaded<H>>,
    home: VecDeque<S>,
    /// Number of slots whose batches the caller holds.
    held: usize,
    /// Whether the upload thread waits for a slot, so that nothing can be uploaded before one returns.
    is_starved: bool,
    /// Items that were uploaded and not taken yet. Slots limit the batches; the upload thread limits other items.
    uploaded: VecDeque<Uploaded<B>>,
    /// The current run. Items of earlier runs are dropped.
    run: u64,
    /// All items are dropped.
    is_closed: bool,
    /// The upload thread has ended.
    is_over: bool,
}

/// The input of the upload, in order: a batch or an error, with the iterator's position after it; at last the end of
/// the epoch.
pub(super) type Loaded<H> = Option<(Result<H>, Position)>;

/// The output of the upload, in the same order.
pub(super) type Uploaded<B> = Option<(Result<B>, Position)>;

impl<S, H, B> Exchange<S, H, B> {
    /// Makes the exchange for the slots of the device called `name`.
    pub(super) fn new(name: String, home: VecDeque<S>, lease_wait: Duration) -> Self {
        let count = home.len();
        let state = State {
            loaded: None,
            home,
            held: 0,
            is_starved: false,
            uploaded: VecDeque::with_capacity(count + OTHER_ITEMS),
            run: 0,
            is_closed: false,
            is_over: false,
        };
        Self {
            name,
            count,
            lease_wait,
            waited_ns: AtomicU64::new(0),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// For the loader: waits until the next item is requested; `false` if no more items of this run are needed.
    pub(super) fn wait_to_load(&self, run: u64) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.is_closed || state.is_over || state.run != run {
                return false;
            }
            if state.loaded.is_none() {
                return true;
            }
            state = self.changed.wait(state);
        }
    }

    /// For the loader, after waiting: passes the next item on, or drops it if it is no longer needed.
    pub(super) fn load(&self, run: u64, item: Loaded<H>) {
        let mut state = self.state.lock();
        let unwanted =
            if state.is_closed || state.is_over || state.run != run { Some(item) } else { state.loaded.replace(item) };
        drop(state);
        self.changed.notify_all();
        drop(unwanted);
    }

    /// For the upload thread: the next item and its run, if there is one.
    pub(super) fn try_receive(&self) -> Option<(u64, Loaded<H>)> {
        let mut state = self.state.lock();
        let item = state.loaded.take()?;
        let run = state.run;
        drop(state);
        self.changed.notify_all();
        Some((run, item))
    }

    /// For the upload thread: waits for the next item; `None` if no more will come.
    pub(super) fn receive(&self) -> Option<(u64, Loaded<H>)> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(item) = state.loaded.take() {
                let run = state.run;
                drop(state);
                self.changed.notify_all();
                return Some((run, item));
            }
            state = self.changed.wait(state);
        }
    }

    /// For the upload thread: a slot, if one is free.
    pub(super) fn try_take(&self) -> Option<S> {
        self.state.lock().home.pop_front()
    }

    /// For the upload thread: waits for a slot; `None` if its batch is no longer needed.
    pub(super) fn take(&self, run: u64) -> Option<S> {
        let mut state = self.state.lock();
        state.is_starved = true;
        self.changed.notify_all();
        let slot = loop {
            if state.is_closed || state.run != run {
                break None;
            }
            if let Some(slot) = state.home.pop_front() {
                break Some(slot);
            }
            state = self.changed.wait(state);
        };
        state.is_starved = false;
        slot
    }

    /// For the upload thread: passes an item on; returns it if too many wait already.
    pub(super) fn try_give(&self, run: u64, item: Uploaded<B>) -> Option<Uploaded<B>> {
        let state = self.state.lock();
        if state.uploaded.len() >= self.count + OTHER_ITEMS && !state.is_closed && state.run == run {
            return Some(item);
        }
        self.put(state, run, item);
        None
    }

    /// For the upload thread: passes an item on as soon as there is room.
    pub(super) fn give(&self, run: u64, item: Uploaded<B>) {
        let mut state = self.state.lock();
        while state.uploaded.len() >= self.count + OTHER_ITEMS && !state.is_closed && state.run == run {
            state = self.changed.wait(state);
        }
        self.put(state, run, item);
    }

    fn put(&self, mut state: MutexGuard<'_, State<S, H, B>>, run: u64, item: Uploaded<B>) {
        let unwanted = if state.is_closed || state.run != run {
            Some(item)
        } else {
            state.uploaded.push_back(item);
            None
        };
        drop(state);
        self.changed.notify_all();
        drop(unwanted);
    }

    /// For the trainer: waits for the next item. A batch's slot counts as held from now on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exhausted`] if nothing can come, because the caller holds all slots for `lease_wait`.
    pub(super) fn next(&self) -> Result<Uploaded<B>> {
        let mut since = None;
        let next = self.wait_for_next(&mut since);
        if let Some(since) = since {
            self.trainer_waited(since);
        }
        next
    }

    /// For the trainer: waits at most `time` until [`next`](Self::next) would return at once, and returns whether it
    /// would. If the caller holds all slots, `next` must do the waiting.
    pub(super) fn is_ready_within(&self, time: Duration) -> bool {
        let since = Tick::now();
        let deadline = Instant::now() + time;
        let mut has_waited = false;
        let mut state = self.state.lock();
        let is_ready = loop {
            let is_exhausted = state.is_starved && state.held >= self.count;
            if !state.uploaded.is_empty() || state.is_over || is_exhausted {
                break true;
            }
            if Instant::now() >= deadline {
                break false;
            }
            has_waited = true;
            state = self.changed.wait_until(state, deadline);
        };
        drop(state);
        if has_waited {
            self.trainer_waited(since);
        }
        is_ready
    }

    /// The trainer waited for a batch or its copy.
    pub(super) fn trainer_waited(&self, since: Tick) {
        add(&self.waited_ns, since.elapsed());
    }

    /// How long the trainer has waited in total.
    pub(super) fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }

    fn wait_for_next(&self, since: &mut Option<Tick>) -> Result<Uploaded<B>> {
        let mut state = self.state.lock();
        let mut deadline = None;
        loop {
            if let Some(item) = state.uploaded.pop_front() {
                state.held += usize::from(matches!(item, Some((Ok(_), _))));
                drop(state);
                self.changed.notify_all();
                return Ok(item);
            }
            if state.is_over {
                return Err(ended());
            }
            since.get_or_insert_with(Tick::now);
            state = if state.is_starved && state.held >= self.count {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.lease_wait);
                if Instant::now() >= deadline {
                    return Err(self.exhausted(state.held));
                }
                self.changed.wait_until(state, deadline)
            } else {
                deadline = None;
                self.changed.wait(state)
            };
        }
    }

    /// For the trainer: waits while the caller holds all slots.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exhausted`] after `lease_wait`.
    pub(super) fn wait_for_one(&self) -> Result<()> {
        let deadline = Instant::now() + self.lease_wait;
        let mut state = self.state.lock();
        while state.held >= self.count {
            if Instant::now() >= deadline {
                return Err(self.exhausted(state.held));
            }
            state = self.changed.wait_until(state, deadline);
        }
        Ok(())
    }

    fn exhausted(&self, held: usize) -> Error {
        let message = format!(
            "{held} of {}'s {} slots are held by batches that were not dropped, so nothing can be uploaded; drop batches \
             before asking for more, or raise the number of slots",
            self.name, self.count,
        );
        Error::exhausted(message)
    }

    /// Takes a slot back, or frees it if it is not needed any more.
    pub(super) fn give_back(&self, slot: S, was_held: bool) {
        let mut state = self.state.lock();
        if was_held {
            state.held -= 1;
        }
        let homeless = if state.is_closed {
            Some(slot)
        } else {
            state.home.push_back(slot);
            None
        };
        drop(state);
        self.changed.notify_all();
        drop(homeless);
    }

    /// From now on only items of this run are needed. Others are dropped, except for batches that the caller holds.
    pub(super) fn begin_run(&self, run: u64) {
        let mut state = self.state.lock();
        state.run = run;
        let unwanted = (std::mem::take(&mut state.uploaded), state.loaded.take());
        drop(state);
        self.changed.notify_all();
        drop(unwanted);
    }

    /// No more items are needed; slots are freed.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let homeless = std::mem::take(&mut state.home);
        let unwanted = (std::mem::take(&mut state.uploaded), state.loaded.take());
        drop(state);
        self.changed.notify_all();
        drop((unwanted, homeless));
    }

    /// The upload thread has ended: no thread waits for it any more.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        let unwanted = state.loaded.take();
        drop(state);
        self.changed.notify_all();
        drop(unwanted);
    }
}

/// The error of an upload stage without a thread.
pub(super) fn ended() -> Error {
    Error::new(ErrorKind::Device, "the upload thread has ended")
}
