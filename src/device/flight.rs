use crate::error::{Error, ErrorKind, Result};

use super::Device;
use super::aboard::HostBatch;
use super::slot::Slot;

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
        let Some(landed) = &self.landed else { return Ok(()) };
        // If that goes wrong, the copy may still be under way, unless the device is broken.
        self.device.block_on(landed).inspect_err(|_| drop(self.device.settle()))
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
