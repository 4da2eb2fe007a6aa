use crate::error::Result;
use crate::sync::{Arc, Ordering};

use super::account::Account;

/// A limit in bytes, shared by everything that holds much memory: the ring, streamed records, unpacked files, decoders
/// of images.
///
/// Clones share the same limit.
#[derive(Clone, Debug)]
pub struct MemoryBudget(pub(super) Arc<Account>);

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::unlimited()
    }
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Account::new(limit)))
    }

    /// A budget without a limit, which still counts.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.0.count.used.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` until the reservation drops. `what` names the purpose in the error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`](crate::ErrorKind::Budget), with the numbers of bytes that are needed, used and allowed.
    pub fn reserve(&self, bytes: u64, what: &str) -> Result<Reservation> {
        let mut reservation = self.empty_reservation();
        reservation.grow_to(bytes, what)?;
        Ok(reservation)
    }

    /// A reservation that holds nothing yet.
    pub(crate) fn empty_reservation(&self) -> Reservation {
        Reservation { account: self.0.clone(), bytes: 0 }
    }
}

/// Bytes reserved from a [`MemoryBudget`]; dropping it returns them.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    bytes: u64,
}

impl Reservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows the reservation to at least `bytes`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`](crate::ErrorKind::Budget); the reservation is then as before.
    pub fn grow_to(&mut self, bytes: u64, what: &str) -> Result<()> {
        self.try_grow_to(bytes)
            .map_err(|used| self.account.refusal(bytes - self.bytes, used, what, ", or make batches smaller"))
    }

    /// Like [`grow_to`](Self::grow_to), for callers with an alternative: returns the number of bytes in use instead of
    /// an error with a message.
    pub(crate) fn try_grow_to(&mut self, bytes: u64) -> Result<(), u64> {
        let Some(more) = bytes.checked_sub(self.bytes) else { return Ok(()) };
        if self.account.take(more).is_err() {
            drop(self.account.take_waiting(more)?);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Holds at least `bytes` from now on, if they are free. Does not wait.
    pub(crate) fn grow_if_free(&mut self, bytes: u64) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else { return true };
        let is_free = self.account.take(more).is_ok();
        if is_free {
            self.bytes = bytes;
        }
        is_free
    }

    /// Shrinks the reservation to at most `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(less) = self.bytes.checked_sub(bytes) {
            self.account.count.give_back(less);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_budget_refuses_what_does_not_fit_and_takes_back_what_is_dropped() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.reserve(60, "a").unwrap();
        let error = budget.reserve(50, "the ring").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
        assert!(error.to_string().contains("the ring needs 50 more bytes, but 60 of"), "{error}");
        assert!(error.to_string().contains("at least 110"), "{error}");
        assert!(first.grow_to(101, "a").is_err());
        assert_eq!(first.bytes(), 60);
        first.shrink_to(10);
        assert_eq!(budget.used(), 10);
        drop(first);
        assert_eq!(budget.used(), 0);
    }
}
