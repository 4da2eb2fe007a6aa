use crate::error::Result;

use super::engine::Engine;
use super::plan::About;

/// One of the few places on the device that batches are copied to, in turn. It is free, or belongs to the upload thread
/// or to a batch; its owner uses it alone. When it returns, `traces` lists the work that the trainer's streams still do
/// with it. The copy stream waits for that work before it writes.
pub(super) struct Slot<E: Engine> {
    pub(super) device: E,
    /// The one stream that copies to it.
    pub(super) copies: E::Stream,
    /// The one stream that converts the copied bytes, so that the next copy need not wait; the same as `copies` if
    /// there are no conversions.
    pub(super) converts: E::Stream,
    memory: Option<E::Memory>,
    bytes: usize,
    /// Recorded after the latest copy and its conversions.
    pub(super) ready: E::Event,
    pub(super) traces: Traces<E>,
    /// Whether a stream uses the memory without an event that marks the end of its work.
    pub(super) untraced: bool,
    pub(super) about: About,
}

/// The trainer's streams that use a slot.
pub(super) struct Traces<E: Engine> {
    pub(super) uses: Vec<Use<E>>,
    /// Events of past uses, for reuse.
    spare: Vec<E::Event>,
    /// Whether unknown streams use the slot, too.
    pub(super) is_partial: bool,
}

impl<E: Engine> Default for Traces<E> {
    fn default() -> Self {
        Self { uses: Vec::new(), spare: Vec::new(), is_partial: false }
    }
}

impl<E: Engine> Traces<E> {
    /// Whether `stream` is in the list.
    pub(super) fn know(&self, stream: &E::Stream) -> bool {
        self.uses.iter().any(|used| used.stream == *stream)
    }

    /// Adds `stream` to the list.
    pub(super) fn add(&mut self, stream: &E::Stream, device: &E) -> Result<()> {
        if self.know(stream) {
            return Ok(());
        }
        let end = match self.spare.pop() {
            Some(event) => event,
            None => device.event()?,
        };
        self.uses.push(Use { stream: stream.clone(), end });
        Ok(())
    }
}

/// A trainer's stream that uses a slot, and the event at the end of its work, once recorded.
pub(super) struct Use<E: Engine> {
    pub(super) stream: E::Stream,
    pub(super) end: E::Event,
}

impl<E: Engine> Slot<E> {
    pub(super) fn new(device: &E, copies: &E::Stream, converts: &E::Stream) -> Result<Self> {
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

    /// Orders the copy stream after all past uses, and makes room for `bytes` bytes in the slot. Returns whether it has
    /// new memory. Does not wait, unless a use could not be traced.
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
        // The same as for the host's slots, so that slowly growing lengths do not grow the slot at every batch.
        let grown = if self.bytes == 0 { bytes } else { bytes.max(self.bytes / 4 * 5) };
        self.bytes = 0;
        self.memory = Some(self.device.allocate(grown, &self.copies)?);
        self.bytes = grown;
        Ok(true)
    }

    fn order_after_uses(&mut self) -> Result<()> {
        let mut ordered = Ok(());
        if self.converts != self.copies {
            ordered = self.device.order_after(&self.ready, &self.copies);
        }
        while let Some(used) = self.traces.uses.pop() {
            ordered = ordered.and(self.device.order_after(&used.end, &self.copies));
            self.traces.spare.push(used.end);
        }
        self.untraced |= ordered.is_err();
        ordered
    }

    /// Bytes of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory, which exists after [`begin`](Self::begin) has succeeded.
    pub(super) fn memory(&self) -> &E::Memory {
        self.memory.as_ref().expect("a slot that holds a batch has memory")
    }
}

impl<E: Engine> Drop for Slot<E> {
    fn drop(&mut self) {
        let _ = self.order_after_uses();
        let Some(memory) = self.memory.take() else { return };
        if self.untraced {
            // If memory was freed while a stream may write to it, somebody else could get it.
            self.device.abandon(memory);
        } else {
            self.device.free(memory, &self.copies);
        }
    }
}
