//! Memory that is held only while nothing else needs it, for data that saves time but is not necessary.

use std::any::Any;
use std::sync::Arc as StdArc;

use super::account::{Count, Spare};
use super::budget::MemoryBudget;
use crate::sync::Arc;

/// The source of spare memory. It does not keep the budget alive, because the budget keeps the user of this memory.
#[derive(Debug)]
pub(crate) struct Room(Arc<Count>);

impl Room {
    /// Takes `bytes` if they are free.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.0.take(bytes).is_ok()
    }

    /// Gives back bytes that were taken.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.0.give_back(bytes);
    }
}

impl MemoryBudget {
    /// The `T` of this budget, made at the first call. A budget has one such thing; `None` if it is of another type.
    pub(crate) fn spare<T: Spare>(&self, new: impl FnOnce(Room) -> T) -> Option<StdArc<T>> {
        let spare = self.0.spare.get_or_init(|| StdArc::new(new(Room(self.0.count.clone()))));
        let any: StdArc<dyn Any + Send + Sync> = spare.clone();
        any.downcast().ok()
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::sync::Mutex;

    #[derive(Debug)]
    struct Bytes(Room, Mutex<u64>);

    impl Bytes {
        fn take(&self, more: u64) -> bool {
            let mut bytes = self.1.lock();
            let is_free = self.0.take(more);
            *bytes += if is_free { more } else { 0 };
            is_free
        }
    }

    impl Spare for Bytes {
        fn give_up(&self) -> u64 {
            std::mem::take(&mut self.1.lock())
        }
    }

    #[test]
    fn spare_memory_goes_to_whoever_needs_it() {
        let budget = MemoryBudget::new(100);
        let bytes = || budget.spare(|room| Bytes(room, Mutex::new(0))).unwrap();
        assert!(bytes().take(30) && bytes().take(20) && !bytes().take(60));
        assert_eq!(budget.used(), 50);
        // What can never fit takes nothing away.
        assert!(budget.reserve(101, "a ring slot").is_err());
        assert_eq!(budget.used(), 50);
        let mut slot = budget.reserve(50, "a ring slot").unwrap();
        assert_eq!(budget.used(), 100);
        assert!(slot.grow_if_free(51));
        assert_eq!(budget.used(), 51);
        let tool = budget.lend::<Vec<u8>>(49, "work").unwrap();
        assert_eq!(budget.used(), 100);
        drop((tool, slot));
    }

    #[test]
    fn what_fits_without_spare_memory_fits_with_it_whoever_else_comes() {
        crate::watchdog::watch();
        let budget = MemoryBudget::new(100);
        let bytes = budget.spare(|room| Bytes(room, Mutex::new(0))).unwrap();
        let together = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (budget, together) = (&budget, &together);
                scope.spawn(move || {
                    for _ in 0..3000 {
                        together.wait();
                        let reserved = budget.reserve(50, "a ring slot").map(drop);
                        together.wait();
                        assert!(reserved.is_ok(), "thread {thread}");
                    }
                });
            }
            for _ in 0..3000 {
                while bytes.take(1) {}
                together.wait();
                together.wait();
            }
        });
    }
}
