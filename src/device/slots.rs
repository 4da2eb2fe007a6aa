use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dataset::State as Position;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};

use super::Device;
use super::batch::DeviceDataSet;
use super::plan::{About, Plan};

/// Items that may wait beside the batches: errors, and the end of an epoch.
const OTHER_ITEMS: usize = 2;

/// One of the few places on the device that batches are copied to, in turn.
///
/// It is at home, in the upload thread's hand, or in a batch's; whoever has it may use it alone. What the trainer's streams
/// still do with it when it comes home stands in `traces`, and the copy stream waits for that before it writes.
pub(super) struct Slot<D: Device> {
    pub(super) device: D,
    /// The one stream that copies to it.
    pub(super) copies: D::Stream,
    /// The one stream that converts what was copied, so that the next copy need not wait for that; without conversions the
    /// same one.
    pub(super) converts: D::Stream,
    memory: Option<D::Memory>,
    bytes: usize,
    /// Behind the latest copy and what was computed from it.
    pub(super) ready: D::Event,
    pub(super) traces: Traces<D>,
    /// Whether a stream uses the memory in a way that no event tells the end of.
    pub(super) untraced: bool,
    pub(super) about: About,
}

/// The trainer's streams that work with a slot.
pub(super) struct Traces<D: Device> {
    pub(super) uses: Vec<Use<D>>,
    /// Events of past uses, to be used again.
    spare: Vec<D::Event>,
}

impl<D: Device> Default for Traces<D> {
    fn default() -> Self {
        Self { uses: Vec::new(), spare: Vec::new() }
    }
}

impl<D: Device> Traces<D> {
    /// Remembers that `stream` works with the slot. Whether it is the first time.
    pub(super) fn add(&mut self, stream: &D::Stream, device: &D) -> Result<bool> {
        if self.uses.iter().any(|used| used.stream == *stream) {
            return Ok(false);
        }
        let end = match self.spare.pop() {
            Some(event) => event,
            None => device.event()?,
        };
        self.uses.push(Use { stream: stream.clone(), end });
        Ok(true)
    }
}

/// A trainer's stream that works with a slot, and the end of that work once it is recorded.
pub(super) struct Use<D: Device> {
    pub(super) stream: D::Stream,
    pub(super) end: D::Event,
}

impl<D: Device> Slot<D> {
    fn new(device: &D, copies: &D::Stream, converts: &D::Stream) -> Result<Self> {
        Ok(Self {
            ready: device.event()?,
            device: device.clone(),
            copies: copies.clone(),
            converts: converts.clone(),
            memory: None,
            bytes: 0,
            traces: Traces::default(),
            untraced: false,
            about: About::default(),
        })
    }

    /// Orders what the copy stream does from now on after all past uses, and makes the slot hold `bytes` bytes. Whether it
    /// was given other memory for that. Waits for nothing, unless a use could not be traced.
    pub(super) fn begin(&mut self, bytes: usize) -> Result<bool> {
        if self.untraced {
            self.device.settle()?;
            self.untraced = false;
        }
        self.order_after_uses()?;
        if self.memory.is_some() && bytes <= self.bytes {
            return Ok(false);
        }
        if let Some(memory) = self.memory.take() {
            self.device.free(memory, &self.copies);
        }
        // As the host's slots do: creeping lengths do not grow the slot at every batch.
        let grown = if self.bytes == 0 { bytes } else { bytes.max(self.bytes / 4 * 5) };
        self.bytes = 0;
        self.memory = Some(self.device.allocate(grown, &self.copies)?);
        self.bytes = grown;
        Ok(true)
    }

    fn order_after_uses(&mut self) -> Result<()> {
        if self.converts != self.copies {
            self.device.order_after(&self.ready, &self.copies)?;
        }
        while let Some(used) = self.traces.uses.pop() {
            self.device.order_after(&used.end, &self.copies)?;
            self.traces.spare.push(used.end);
        }
        Ok(())
    }

    /// The memory; there is some once [`begin`](Self::begin) went well.
    pub(super) fn memory(&self) -> &D::Memory {
        self.memory.as_ref().expect("a slot that holds a batch has memory")
    }
}

impl<D: Device> Drop for Slot<D> {
    fn drop(&mut self) {
        let ordered = self.order_after_uses();
        let Some(memory) = self.memory.take() else { return };
        if self.untraced || ordered.is_err() {
            // Freeing what a stream may still write would give that memory to somebody else.
            tracing::warn!(bytes = self.bytes, "device memory is left behind, because the device is broken");
            std::mem::forget(memory);
            return;
        }
        self.device.free(memory, &self.copies);
    }
}

/// What an upload thread shares with the trainer: the slots that are at home, and what was uploaded.
pub(super) struct Slots<D: Device> {
    count: usize,
    lease_wait: Duration,
    state: Mutex<State<D>>,
    changed: Condvar,
}

struct State<D: Device> {
    home: VecDeque<Slot<D>>,
    /// Slots of batches in the caller's hands.
    held: usize,
    /// Whether the upload thread waits for a slot, so that nothing can be uploaded before one comes home.
    is_starved: bool,
    /// What was uploaded and not taken yet. Batches are bounded by the slots, other items by the upload thread.
    uploaded: VecDeque<Uploaded<D>>,
    /// Items of earlier runs are not wanted any more.
    run: u64,
    /// No item is wanted any more.
    is_closed: bool,
    /// The upload thread has ended.
    is_over: bool,
}

/// What comes out of the upload, in order: a batch or an error, and where the iterator stands after it; at last the end of
/// the epoch.
pub(super) type Uploaded<D> = Option<(Result<DeviceDataSet<D>>, Position)>;

impl<D: Device> Slots<D> {
    pub(super) fn new(device: &D, plan: &Plan, count: usize, lease_wait: Duration) -> Result<Arc<Self>> {
        let copies = device.stream()?;
        let converts = if plan.converts() { device.stream()? } else { copies.clone() };
        let home = (0..count).map(|_| Slot::new(device, &copies, &converts)).collect::<Result<_>>()?;
        let state = State {
            home,
            held: 0,
            is_starved: false,
            uploaded: VecDeque::with_capacity(count + OTHER_ITEMS),
            run: 0,
            is_closed: false,
            is_over: false,
        };
        Ok(Arc::new(Self { count, lease_wait, state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// For the upload thread: a slot, if one is at home.
    pub(super) fn try_take(&self) -> Option<Slot<D>> {
        self.state.lock().home.pop_front()
    }

    /// For the upload thread: waits for a slot until the batch that it is for is not wanted any more.
    pub(super) fn take(&self, run: u64) -> Option<Slot<D>> {
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

    /// For the upload thread: hands an item over, unless there are many already; then it is given back.
    pub(super) fn try_give(&self, run: u64, item: Uploaded<D>) -> Option<Uploaded<D>> {
        let state = self.state.lock();
        if state.uploaded.len() >= self.count + OTHER_ITEMS && !state.is_closed && state.run == run {
            return Some(item);
        }
        self.put(state, run, item);
        None
    }

    /// For the upload thread: hands an item over, when there is room.
    pub(super) fn give(&self, run: u64, item: Uploaded<D>) {
        let mut state = self.state.lock();
        while state.uploaded.len() >= self.count + OTHER_ITEMS && !state.is_closed && state.run == run {
            state = self.changed.wait(state);
        }
        self.put(state, run, item);
    }

    fn put(&self, mut state: MutexGuard<'_, State<D>>, run: u64, item: Uploaded<D>) {
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

    /// For the trainer: what comes next; sleeps until it is there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exhausted`] if nothing can come, because all slots are in the caller's hands for `lease_wait`.
    pub(super) fn next(&self, device: &D) -> Result<Uploaded<D>> {
        let mut state = self.state.lock();
        let mut deadline = None;
        loop {
            if let Some(mut item) = state.uploaded.pop_front() {
                if let Some((Ok(batch), _)) = &mut item {
                    batch.mark_held();
                    state.held += 1;
                }
                drop(state);
                self.changed.notify_all();
                return Ok(item);
            }
            if state.is_over {
                return Err(ended());
            }
            state = if state.is_starved && state.held >= self.count {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.lease_wait);
                if Instant::now() >= deadline {
                    return Err(self.exhausted(device, state.held));
                }
                self.changed.wait_until(state, deadline)
            } else {
                deadline = None;
                self.changed.wait(state)
            };
        }
    }

    /// For the trainer: waits while all slots are in the caller's hands.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exhausted`] after `lease_wait`.
    pub(super) fn wait_for_one(&self, device: &D) -> Result<()> {
        let deadline = Instant::now() + self.lease_wait;
        let mut state = self.state.lock();
        while state.held >= self.count {
            if Instant::now() >= deadline {
                return Err(self.exhausted(device, state.held));
            }
            state = self.changed.wait_until(state, deadline);
        }
        Ok(())
    }

    fn exhausted(&self, device: &D, held: usize) -> Error {
        let message = format!(
            "{held} of {}'s {} slots are held by batches that were not dropped, so nothing can be uploaded; drop batches \
             before asking for more, or raise the number of slots",
            device.name(),
            self.count,
        );
        Error::new(ErrorKind::Exhausted, message)
    }

    /// Brings a slot home, or frees it if it has no home any more.
    pub(super) fn give_back(&self, slot: Slot<D>, was_held: bool) {
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

    pub(super) fn is_wanted(&self, run: u64) -> bool {
        let state = self.state.lock();
        !state.is_closed && state.run == run
    }

    /// From now on only items of this run are wanted. Others are dropped, except for those in the caller's hands.
    pub(super) fn begin_run(&self, run: u64) {
        let mut state = self.state.lock();
        state.run = run;
        let unwanted = std::mem::take(&mut state.uploaded);
        drop(state);
        self.changed.notify_all();
        drop(unwanted);
    }

    /// No item is wanted any more; slots are freed.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let homeless = std::mem::take(&mut state.home);
        let unwanted = std::mem::take(&mut state.uploaded);
        drop(state);
        self.changed.notify_all();
        drop((unwanted, homeless));
    }

    /// The upload thread has ended: nobody waits for it any more.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// The error of an upload stage without a thread.
pub(super) fn ended() -> Error {
    Error::new(ErrorKind::Device, "the upload thread has ended")
}
