use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Block, whole_pages};
use crate::sync::Ordering;

use super::config::Overflow;
use super::slot::{Body, Draft, Shared};

impl<M> Draft<M> {
    /// Gives memory for `bytes` bytes to a slot that was just taken; returns whether it had to grow.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`] if the slot must grow and may not.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<bool> {
        let has = |body: &Body<M>| (body.reserved(), body.block.is_some());
        let before = has(self.body_mut());
        self.fit(bytes)?;
        if let Some(poison) = self.home().config.poison {
            self.bytes_mut().fill(poison);
        }
        Ok(has(self.body_mut()) != before)
    }

    /// Gives the slot memory for `bytes` bytes, if it has less.
    ///
    /// Growth is geometric (1.25 times, whole pages), so that slowly increasing lengths do not grow it at every batch.
    /// The old memory is freed before the new memory is allocated. A slot that is large enough for this batch but
    /// smaller than the largest batch so far grows too, if the budget has that much free: it will be needed. Waits only
    /// for the memory that this batch needs.
    pub(super) fn fit(&mut self, bytes: usize) -> Result<()> {
        let ring = self.home();
        let body = self.body_mut();
        let before = body.reserved();
        // Its memory's source may be the user's: whatever it does, the bytes are counted.
        let fitted = catch_unwind(AssertUnwindSafe(|| ring.fit(body, whole_pages(bytes) as u64)));
        let after = body.reserved();
        // Wrapping: the difference may be negative.
        ring.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        if after > before {
            tracing::debug!(before, after, "a slot is given larger memory");
        }
        fitted.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<M> Draft<M> {
    /// Gives the slot memory for `bytes` bytes while it is being filled; its content may be lost.
    pub(crate) fn refit(&mut self, bytes: usize) -> Result<()> {
        let body = self.body_mut();
        if let Some(spilled) = &body.spill {
            if spilled.len() < bytes {
                body.spill = Some(Block::unbounded(bytes)?);
            }
            return Ok(());
        }
        self.fit(bytes)
    }
}

impl<M> Body<M> {
    pub(super) fn reserved(&self) -> u64 {
        self.reservation.as_ref().map_or(0, |reservation| reservation.bytes())
    }
}

impl<M> Shared<M> {
    fn fit(&self, body: &mut Body<M>, need: u64) -> Result<()> {
        self.grow(body, need)?;
        // A batch that the budget refused, or that is outside of the ring, is no measure for the slots.
        if body.spill.is_none() {
            self.high_water.fetch_max(need, Ordering::Relaxed);
        }
        Ok(())
    }

    fn grow(&self, body: &mut Body<M>, need: u64) -> Result<()> {
        let high_water = self.high_water.load(Ordering::Relaxed).max(need);
        let have = body.block.as_ref().filter(|block| block.is_ours()).map_or(0, |block| block.len() as u64);
        let Some(reservation) = &mut body.reservation else { return Ok(()) };
        if have >= high_water {
            return Ok(());
        }
        if have == 0 && reservation.bytes() >= high_water {
            return self.replace(body, need);
        }
        let geometric = (whole_pages((have / 4 * 5) as usize) as u64).max(high_water);
        let has_grown =
            [geometric, high_water].into_iter().any(|target| target > have && reservation.grow_if_free(target))
                || have < need && reservation.try_grow_to(need).is_ok();
        if has_grown {
            self.regrown.fetch_add(1, Ordering::Relaxed);
            self.replace(body, need)
        } else if have >= need {
            Ok(())
        } else if self.config.overflow == Overflow::Spill {
            body.spill = Some(Block::unbounded(need as usize)?);
            self.spilled.fetch_add(1, Ordering::Relaxed);
            Ok(())
        } else {
            // Another owner may have freed memory since it was refused above.
            reservation.grow_to(need, "a ring slot")?;
            self.replace(body, need)
        }
    }

    /// Frees the slot's block and allocates one of the reserved size, or only of the needed size if there is not enough
    /// memory.
    fn replace(&self, body: &mut Body<M>, need: u64) -> Result<()> {
        body.block = None;
        let allocated = self.allocate(body.reserved()).or_else(|error| match &mut body.reservation {
            Some(reservation) if reservation.bytes() > need => {
                reservation.shrink_to(need);
                self.allocate(need)
            }
            _ => Err(error),
        });
        match allocated {
            Ok(block) => {
                self.slot_bytes.fetch_max(block.len() as u64, Ordering::Relaxed);
                body.block = Some(block);
                Ok(())
            }
            Err(error) => {
                if let Some(reservation) = &mut body.reservation {
                    reservation.shrink_to(0);
                }
                Err(error)
            }
        }
    }

    /// A block from the page source, which may be the user's own. Later code relies on its length.
    fn allocate(&self, bytes: u64) -> Result<Block> {
        let block = self.config.pages.allocate(bytes as usize).map_err(Error::of_a_user)?;
        if (block.len() as u64) < bytes {
            let message = format!("the page source gave {} bytes instead of {bytes}", block.len());
            return Err(Error::new(ErrorKind::Io, message));
        }
        Ok(block)
    }

    /// Takes the slot's block away if it is larger than `slot_bytes`; the next use allocates a new one.
    pub(super) fn shrink(&self, body: &mut Body<M>, slot_bytes: usize) -> Option<Block> {
        if body.reserved() <= slot_bytes as u64 {
            return None;
        }
        self.bytes.fetch_sub(body.reserved() - slot_bytes as u64, Ordering::Relaxed);
        if let Some(reservation) = &mut body.reservation {
            reservation.shrink_to(slot_bytes as u64);
        }
        body.block.take()
    }
}
