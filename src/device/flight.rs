use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::PageSource;

use super::Device;
use super::aboard::HostBatch;
use super::slots::Slot;

/// A host batch whose copy may be under way. It owns the batch: nobody can touch, change or give back what the device reads.
///
/// The batch's slot goes home when the copy has landed, and not before: dropping a flight waits for that.
pub(super) struct Flight<D: Device> {
    device: D,
    batch: Option<HostBatch>,
    landed: Option<D::Event>,
}

impl<D: Device> Flight<D> {
    /// Lets the slot's copy stream copy the batch to the slot's beginning, with `landed` behind it.
    ///
    /// The slot must have begun with at least the batch's bytes. If the device refuses, nothing reads the batch any more.
    pub(super) fn start(batch: HostBatch, slot: &Slot<D>, landed: D::Event) -> Result<Self> {
        let device = slot.device.clone();
        // SAFETY: `Slot::begin` made room and ordered the stream after all uses of the slot, which is in the caller's
        // hands alone; the batch is owned by the flight, read by nobody else and written by nobody at all, until `landed`
        // is past or the device has settled. Whatever uses the slot next is ordered after `ready` of this stream.
        let started = unsafe { device.copy_in(batch.batch.slot_bytes(), slot.memory(), &slot.copies) };
        started?;
        if let Err(error) = device.record(&landed, &slot.copies) {
            // A copy that no event tells the end of.
            let _ = device.settle();
            return Err(error);
        }
        Ok(Self { device, batch: Some(batch), landed: Some(landed) })
    }

    /// Lets the slot's other stream convert what is copied, after the copy.
    pub(super) fn convert(&self, slot: &Slot<D>) -> Result<()> {
        let (Some(landed), false) = (&self.landed, slot.about.works.is_empty()) else { return Ok(()) };
        slot.device.order_after(landed, &slot.converts)?;
        for work in &slot.about.works {
            // SAFETY: the plan laid all tensors that the work reads, and behind them its output, out in `about.bytes` bytes,
            // for which `Slot::begin` made room. The stream was ordered after the copy; the next copy, and freeing the
            // memory, are ordered after `ready` of this stream, and so is every stream that uses the batch.
            unsafe { slot.device.convert(work, slot.memory(), &slot.converts)? };
        }
        Ok(())
    }

    /// Sleeps until the copy has landed, and gives the batch's slot back to its ring. Returns the event, to be used again.
    pub(super) fn land(mut self) -> Result<D::Event> {
        let waited = self.wait();
        self.batch = None;
        waited?;
        self.landed.take().ok_or_else(|| Error::new(ErrorKind::Device, "a copy landed twice"))
    }

    fn wait(&self) -> Result<()> {
        self.landed.as_ref().map_or(Ok(()), |landed| self.device.block_on(landed))
    }
}

impl<D: Device> Drop for Flight<D> {
    fn drop(&mut self) {
        if self.batch.is_some() {
            // If the device is broken, it does not read any more either.
            let _ = self.wait();
        }
    }
}

/// Bytes a second that `device` copies from its own [`pages`](Device::pages), plainly: `copies` copies of `bytes` bytes, two
/// queued, one after the other. What an upload can reach at best.
///
/// # Errors
///
/// [`ErrorKind::Device`] if the device refuses, [`ErrorKind::Io`] if the host has not the memory.
pub fn copy_rate<D: Device>(device: &D, bytes: usize, copies: usize) -> Result<f64> {
    let stream = device.stream()?;
    let from = [device.pages().allocate(bytes)?, device.pages().allocate(bytes)?];
    let to = device.allocate(bytes, &stream)?;
    let events = [device.event()?, device.event()?];
    let copy = |turn: usize| {
        // SAFETY: both stay until the device has settled below; nothing else uses the target.
        let copied = unsafe { device.copy_in(&from[turn % 2].as_slice()[..bytes], &to, &stream) };
        copied.and_then(|()| device.record(&events[turn % 2], &stream))
    };
    let run = || {
        // The first copies warm caches and clocks up.
        (0..2).try_for_each(copy)?;
        device.settle()?;
        let begin = Instant::now();
        for turn in 0..copies {
            if turn >= 2 {
                device.block_on(&events[turn % 2])?;
            }
            copy(turn)?;
        }
        device.settle()?;
        Ok((copies * bytes) as f64 / begin.elapsed().as_secs_f64())
    };
    let rate = run();
    // If it went wrong, a copy may be under way.
    let settled = device.settle();
    device.free(to, &stream);
    settled.and(rate)
}
