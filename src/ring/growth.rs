use crate::error::Result;
use crate::memory::{Block, whole_pages};
use crate::sync::Ordering;

use super::slot::Body;
use super::{Draft, Overflow, Shared};

impl<M> Draft<M> {
    /// Gives the slot memory for `bytes` bytes, if it has less.
    ///
    /// Growth is geometric (1.25 times, whole pages), so that creeping lengths do not regrow at every batch, and frees
    /// the old memory before it takes the new. A slot that is large enough for this batch but smaller than the largest
    /// batch seen grows too, if the budget allows: it will be needed.
    pub(super) fn fit(&mut self, bytes: usize) -> Result<()> {
        let ring = self.home();
        let body = self.body_mut();
        let before = body.reserved();
        let fitted = ring.fit(body, whole_pages(bytes) as u64);
        // Wrapping: the difference may be negative.
        ring.bytes.fetch_add(body.reserved().wrapping_sub(before), Ordering::Relaxed);
        fitted
    }
}

impl<M> Draft<M> {
    /// Gives the slot memory for `bytes` bytes while it is being filled; what was written may be lost.
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
    fn reserved(&self) -> u64 {
        self.reservation.as_ref().map_or(0, |reservation| reservation.bytes())
    }
}

impl<M> Shared<M> {
    fn fit(&self, body: &mut Body<M>, need: u64) -> Result<()> {
        let high_water = self.high_water.fetch_max(need, Ordering::Relaxed).max(need);
        let have = body.block.as_ref().map_or(0, |block| block.len() as u64);
        let Some(reservation) = &mut body.reservation else { return Ok(()) };
        if have >= high_water {
            return Ok(());
        }
        if have == 0 && reservation.bytes() >= high_water {
            return self.replace(body);
        }
        let geometric = (whole_pages((have / 4 * 5) as usize) as u64).max(high_water);
        let grown = [geometric, high_water, need]
            .into_iter()
            .any(|target| target > have && reservation.grow_to(target, "a ring slot").is_ok());
        if grown {
            self.regrown.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(from = have, needed = need, "a slot is given larger memory");
            self.replace(body)
        } else if have >= need {
            Ok(())
        } else if self.config.overflow == Overflow::Spill {
            body.spill = Some(Block::unbounded(need as usize)?);
            self.spilled.fetch_add(1, Ordering::Relaxed);
            Ok(())
        } else {
            reservation.grow_to(need, "a ring slot")
        }
    }

    /// Frees the slot's block and takes one of the reserved size.
    fn replace(&self, body: &mut Body<M>) -> Result<()> {
        body.block = None;
        match self.config.pages.allocate(body.reserved() as usize) {
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

    /// Frees the slot's block if it is larger than `slot_bytes`; the next fill allocates what it needs.
    pub(super) fn shrink(&self, body: &mut Body<M>, slot_bytes: usize) {
        if body.reserved() > slot_bytes as u64 {
            body.block = None;
            self.bytes.fetch_sub(body.reserved() - slot_bytes as u64, Ordering::Relaxed);
            if let Some(reservation) = &mut body.reservation {
                reservation.shrink_to(slot_bytes as u64);
            }
        }
    }
}
