//! Tools that have their own memory, such as decoders: lent for one piece of work at a time, and kept for the next one.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use super::account::{Account, Idle};
use super::budget::MemoryBudget;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;

/// A tool that needed more than this frees its memory after use.
const KEPT: u64 = 256 << 20;

/// The system is asked whether it has the memory only for more than this.
const ASKED_FOR: u64 = 16 << 20;

/// What can be lent.
pub(crate) trait Tool: Any + Default + Send {
    /// Bytes of memory that it keeps from one piece of work to the next.
    fn held(&self) -> u64;
}

impl Tool for Vec<u8> {
    fn held(&self) -> u64 {
        self.capacity() as u64
    }
}

impl MemoryBudget {
    /// Lends a `T` that may hold `bytes` of memory while it is lent. If it holds more when it comes back, this is counted
    /// then, or freed if there is no room. If there is no room, this waits until other tools
    /// come back. Therefore a thread that holds a tool must not borrow a second one, or grow a reservation.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`](crate::ErrorKind::Budget) if it does not fit beside other reservations;
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if the system does not have this much memory. The tool allocates
    /// where no error can be returned, so this would end the process.
    pub(crate) fn lend<T: Tool>(&self, bytes: u64, what: &str) -> Result<Lent<T>> {
        let account = &self.0;
        let mut tools = account.tools.lock();
        let found = tools.idle.iter().rposition(|idle| idle.tool.is::<T>()).map(|at| tools.idle.swap_remove(at));
        let held = found.as_ref().map_or(0, |idle| idle.bytes);
        if bytes <= held || account.take(bytes - held).is_ok() {
            tools.lent += 1;
            drop(tools);
            let tool = found.and_then(|idle| idle.tool.downcast().ok()).unwrap_or_default();
            if let Err(error) = check_memory(bytes.saturating_sub(held), what) {
                drop(tool);
                drop(account.gave_up(bytes.max(held)));
                return Err(error);
            }
            return Ok(Lent { tool: Some(tool), bytes: bytes.max(held), account: account.clone() });
        }
        if found.is_some() {
            tools.lent += 1;
            drop(tools);
            drop(found);
            drop(account.gave_up(held));
        } else {
            drop(tools);
        }
        let mut tools = account.take_waiting(bytes).map_err(|used| account.refusal(bytes, used, what, ""))?;
        tools.lent += 1;
        drop(tools);
        if let Err(error) = check_memory(bytes, what) {
            drop(account.gave_up(bytes));
            return Err(error);
        }
        Ok(Lent { tool: Some(Box::default()), bytes, account: account.clone() })
    }
}

/// An error if the system does not give `bytes` more bytes now, for example because the process's address space is
/// limited (`ulimit -v`).
fn check_memory(bytes: u64, what: &str) -> Result<()> {
    let is_had = |bytes| {
        let mut memory = Vec::<u8>::new();
        let is_had = memory.try_reserve_exact(bytes).is_ok();
        // The compiler may leave out memory that nobody uses.
        std::hint::black_box(&memory);
        is_had
    };
    if bytes <= ASKED_FOR || usize::try_from(bytes).is_ok_and(is_had) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Limit, format!("{what} needs {bytes} more bytes, which the system does not give")))
}

/// A tool that is lent until this drops.
#[derive(Debug)]
pub(crate) struct Lent<T: Tool> {
    tool: Option<Box<T>>,
    bytes: u64,
    account: Arc<Account>,
}

impl<T: Tool> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.tool.as_ref().expect("it is there until this drops")
    }
}

impl<T: Tool> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.tool.as_mut().expect("it is there until this drops")
    }
}

impl<T: Tool> Drop for Lent<T> {
    fn drop(&mut self) {
        let mut kept = self.tool.take();
        // Its buffers have grown for different work, so together they may be larger than any work needed.
        let more = kept.as_ref().map_or(0, |tool| tool.held()).saturating_sub(self.bytes);
        let is_counted = more == 0 || self.account.count.take(more).is_ok();
        self.bytes += if is_counted { more } else { 0 };
        kept = kept.filter(|_| is_counted && self.bytes <= KEPT);
        if kept.is_none() {
            self.account.count.give_back(self.bytes);
        }
        let mut tools = self.account.tools.lock();
        tools.lent -= 1;
        if let Some(tool) = kept.take() {
            tools.idle.push(Idle { tool, bytes: self.bytes });
        }
        drop(tools);
        self.account.came_back.notify_all();
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    impl Tool for String {
        fn held(&self) -> u64 {
            self.capacity() as u64
        }
    }

    #[test]
    fn what_a_tool_keeps_is_counted_or_freed() {
        let budget = MemoryBudget::new(100);
        drop(budget.lend::<Vec<u8>>(40, "work").unwrap());
        let mut tool = budget.lend::<Vec<u8>>(30, "work").unwrap();
        tool.reserve_exact(70);
        drop(tool);
        assert_eq!(budget.used(), 70);
        let _reservation = budget.reserve(20, "a ring slot").unwrap();
        let mut tool = budget.lend::<Vec<u8>>(70, "work").unwrap();
        assert_eq!(tool.capacity(), 70);
        tool.reserve_exact(90);
        drop(tool);
        assert_eq!(budget.used(), 20);
    }

    #[test]
    fn a_tool_is_used_again_and_its_memory_given_up_where_room_is_short() {
        let budget = MemoryBudget::new(100);
        let mut tool = budget.lend::<Vec<u8>>(60, "work").unwrap();
        tool.push(7);
        drop(tool);
        assert_eq!(budget.used(), 60);
        let tool = budget.lend::<Vec<u8>>(40, "work").unwrap();
        assert_eq!((&**tool, budget.used()), (&[7][..], 60));
        drop(tool);
        // There is no room for one of another kind.
        drop(budget.lend::<String>(50, "work").unwrap());
        assert_eq!(budget.used(), 50);
        let reservation = budget.reserve(90, "a ring slot").unwrap();
        assert_eq!(budget.used(), 90);
        drop(reservation);
        // Large memory is not kept.
        let budget = MemoryBudget::unlimited();
        drop(budget.lend::<Vec<u8>>(KEPT + 1, "work").unwrap());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn more_than_the_system_gives_is_an_error_of_its_own() {
        let budget = MemoryBudget::unlimited();
        drop(budget.lend::<Vec<u8>>(100, "work").unwrap());
        let error = budget.lend::<Vec<u8>>(1 << 62, "decoding an image").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(
            error.message(),
            "decoding an image needs 4611686018427387804 more bytes, which the system does not give"
        );
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn whoever_finds_no_room_waits_for_those_who_will_give_some_back() {
        crate::watchdog::watch();
        let budget = MemoryBudget::new(100);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let budget = &budget;
                scope.spawn(move || {
                    for turn in 0..2000 {
                        let bytes = 1 + (thread * 2000 + turn) * 37 % 100;
                        if thread == 0 {
                            let tool = budget.lend::<String>(bytes, "work").unwrap();
                            assert!(tool.is_empty());
                            continue;
                        }
                        let tool = budget.lend::<Vec<u8>>(bytes, "work").unwrap();
                        assert!(budget.used() <= 100 && tool.is_empty());
                    }
                });
            }
        });
        // A reservation waits for them, too.
        std::thread::scope(|scope| {
            scope.spawn(|| (1..2000).for_each(|turn| drop(budget.lend::<Vec<u8>>(turn % 70, "work"))));
            (0..2000).for_each(|_| drop(budget.reserve(100, "a ring slot").unwrap()));
        });
        let _slot = budget.reserve(30, "a ring slot").unwrap();
        let error = budget.lend::<Vec<u8>>(71, "decoding an image").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
        assert!(error.to_string().contains("decoding an image needs 71 more bytes, but 30 of"), "{error}");
        assert_eq!(budget.used(), 30);
    }
}
