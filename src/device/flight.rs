use std::rc::Rc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Block;

use super::aboard::HostBatch;
use super::engine::Engine;
use super::slot::Slot;

/// The owner of bytes that a device may read.
///
/// # Safety
///
/// The bytes must stay in place and unchanged until the owner drops, even if the owner is moved.
pub(super) unsafe trait Cargo {
    fn bytes(&self) -> &[u8];
}

// SAFETY: the bytes are a slot's, which nobody can write before the batch drops.
unsafe impl Cargo for HostBatch {
    fn bytes(&self) -> &[u8] {
        self.batch.slot_bytes()
    }
}

/// The first bytes of a block that may have other readers, too.
pub(super) struct Piece {
    pub(super) block: Rc<Block>,
    pub(super) bytes: usize,
}

// SAFETY: a block's memory does not move with it, and a shared one can't be written.
unsafe impl Cargo for Piece {
    fn bytes(&self) -> &[u8] {
        &self.block.as_slice()[..self.bytes]
    }
}

/// A host batch that may still be being copied. It owns the batch: no other code can touch, change or give back the
/// bytes that the device reads.
///
/// The batch's slot returns when the copy is done, and not before: dropping a flight waits for that.
pub(super) struct Flight<E: Engine, C: Cargo> {
    device: E,
    cargo: Option<C>,
    landed: Option<E::Event>,
}

impl<E: Engine, C: Cargo> Flight<E, C> {
    /// Starts copying the batch to the slot's beginning on the slot's copy stream; `landed` is recorded after the copy.
    ///
    /// The slot must have begun with at least the batch's bytes. If the device refuses, nothing reads the batch any
    /// more.
    pub(super) fn start(cargo: C, slot: &Slot<E>, landed: E::Event) -> Result<Self> {
        let device = slot.device.clone();
        let bytes = cargo.bytes();
        assert!(bytes.len() <= slot.bytes(), "{} bytes do not fit into {}", bytes.len(), slot.bytes());
        // SAFETY: there is room, and `Slot::begin` ordered the stream after all uses of the slot, which is in the
        // caller's hands alone; the batch is owned by the flight, read by nobody else and written by nobody at all,
        // until `landed` is past or the device has settled. Whatever uses the slot next is ordered after `ready` of
        // this stream.
        let started = unsafe { device.copy_in(bytes, slot.memory(), &slot.copies) };
        started?;
        // From here on, the batch stays until the copy is over, whatever happens.
        let flight = Self { device, cargo: Some(cargo), landed: Some(landed) };
        match flight.landed.as_ref().map(|landed| flight.device.record(landed, &slot.copies)) {
            Some(Err(error)) => {
                // No event tells the end of this copy.
                let _ = flight.device.settle();
                Err(error)
            }
            _ => Ok(flight),
        }
    }

    /// Starts converting the copied bytes, after the copy, on the slot's other stream; `ready` is recorded after all
    /// conversions.
    pub(super) fn convert(&self, slot: &mut Slot<E>) -> Result<()> {
        slot.convert(self.landed.as_ref())
    }

    /// Waits until the copy is complete, and returns the batch's slot to its ring. Returns the event for reuse.
    pub(super) fn land(mut self) -> Result<E::Event> {
        let waited = self.wait();
        self.cargo = None;
        waited?;
        self.landed.take().ok_or_else(|| Error::new(ErrorKind::Device, "a copy landed twice"))
    }

    fn wait(&self) -> Result<()> {
        let Some(landed) = &self.landed else { return Ok(()) };
        // After an error the copy may still be under way, unless the device is broken.
        self.device.block_on(landed).inspect_err(|_| drop(self.device.settle()))
    }
}

impl<E: Engine, C: Cargo> Drop for Flight<E, C> {
    fn drop(&mut self) {
        if self.cargo.is_some() {
            // A broken device does not read any more, either.
            let _ = self.wait();
        }
    }
}

impl<E: Engine> Slot<E> {
    /// Starts the conversions of `about` after `copied`, and records `ready` after them.
    pub(super) fn convert(&mut self, copied: Option<&E::Event>) -> Result<()> {
        // Even if only some were started, or this panics: the slot is not written again before they are done.
        self.untraced = true;
        let converted = self.start_conversions(copied);
        let recorded = self.device.record(&self.ready, &self.converts);
        self.untraced = recorded.is_err();
        converted.and(recorded)
    }

    fn start_conversions(&self, copied: Option<&E::Event>) -> Result<()> {
        if self.about.works.is_empty() {
            return Ok(());
        }
        if let Some(copied) = copied {
            self.device.order_after(copied, &self.converts)?;
        }
        for work in &self.about.works {
            if !work.fits(self.bytes()) {
                let message = format!("{work:?} does not fit into the {} bytes of its slot", self.bytes());
                return Err(Error::new(ErrorKind::Device, message));
            }
            // SAFETY: all that the work reads and writes lies in the memory, as was just checked. The stream was
            // ordered after the copy; the next copy, and freeing the memory, are ordered after `ready` of this stream,
            // and so is every stream that uses the batch.
            unsafe { self.device.convert(work, self.memory(), &self.converts)? };
        }
        Ok(())
    }
}
