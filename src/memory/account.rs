//! The contents of a budget: bytes, and tools such as decoders that hold some of them.

use std::any::Any;
use std::mem;

use crate::counters::{Inside, now};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

#[derive(Debug)]
pub(super) struct Account {
    pub(super) limit: u64,
    pub(super) count: Arc<Count>,
    #[cfg(feature = "images")]
    pub(super) spare: std::sync::OnceLock<std::sync::Arc<dyn Spare>>,
    #[cfg(feature = "images")]
    giving_up: Mutex<()>,
    pub(super) tools: Mutex<Tools>,
    /// Notified when a lent tool has come back.
    pub(super) came_back: Condvar,
}

#[cfg(feature = "images")]
/// Data that the users of a budget share, and that is not necessary.
pub(crate) trait Spare: Any + std::fmt::Debug + Send + Sync {
    /// Frees the memory, and returns how many bytes it had [taken](super::spare::Room::take). Called under locks of the
    /// budget, so it must not take bytes from the budget, give bytes back or call user code.
    fn give_up(&self) -> u64;
}

/// The bytes of a budget.
#[derive(Debug)]
pub(super) struct Count {
    limit: u64,
    pub(super) used: AtomicU64,
}

impl Count {
    /// Takes `more` bytes; if they are not free, returns the number of bytes in use.
    pub(super) fn take(&self, more: u64) -> Result<(), u64> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|total| *total <= self.limit)
        });
        taken.map(|_| ())
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The tools of a budget.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Number of tools that are lent or being freed. Each of them comes back without waiting for memory.
    pub(super) lent: usize,
    /// Unused tools. Their memory is freed when there is not enough.
    pub(super) idle: Vec<Idle>,
}

#[derive(Debug)]
pub(super) struct Idle {
    pub(super) tool: Box<dyn Any + Send>,
    pub(super) bytes: u64,
}

impl Account {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            count: Arc::new(Count { limit, used: AtomicU64::new(0) }),
            #[cfg(feature = "images")]
            spare: std::sync::OnceLock::new(),
            #[cfg(feature = "images")]
            giving_up: Mutex::default(),
            tools: Mutex::default(),
            came_back: Condvar::new(),
        }
    }

    /// Takes `more` bytes, from spare memory if no others are free; if there are not enough, returns the number of
    /// bytes in use.
    pub(super) fn take(&self, more: u64) -> Result<(), u64> {
        match self.count.take(more) {
            Err(_) if more <= self.limit => self.take_spare(more),
            taken => taken,
        }
    }

    /// Takes `more` bytes after spare memory was given up.
    #[cold]
    fn take_spare(&self, more: u64) -> Result<(), u64> {
        #[cfg(feature = "images")]
        if let Some(spare) = self.spare.get() {
            // One after another: nobody finds nothing left to give up before what others gave up is free.
            let _turn = self.giving_up.lock();
            self.count.give_back(spare.give_up());
        }
        self.count.take(more)
    }

    #[cold]
    pub(super) fn refusal(&self, more: u64, used: u64, what: &str, advice: &str) -> Error {
        let limit = self.limit;
        let message = format!(
            "{what} needs {more} more bytes, but {used} of the memory budget's {limit} are taken and {} are left; raise \
             the budget to at least {}{advice}",
            limit - used,
            used.saturating_add(more),
        );
        Error::new(ErrorKind::Budget, message)
    }

    /// Takes bytes that are not free now: those of idle tools, or of lent tools when they come back. If even that is
    /// not enough, returns the number of bytes in use.
    pub(super) fn take_waiting(&self, bytes: u64) -> Result<MutexGuard<'_, Tools>, u64> {
        let mut tools = self.tools.lock();
        loop {
            let idle = mem::take(&mut tools.idle);
            if !idle.is_empty() {
                tools.lent += 1;
                drop(tools);
                let held = idle.iter().map(|idle| idle.bytes).sum();
                drop(idle);
                tools = self.gave_up(held);
            }
            match self.take(bytes) {
                Ok(()) => return Ok(tools),
                Err(used) if bytes > self.limit || tools.lent == 0 && tools.idle.is_empty() => return Err(used),
                Err(_) if tools.idle.is_empty() => {
                    let since = now();
                    tools = self.came_back.wait(tools);
                    Inside::waited_for_memory(since);
                }
                Err(_) => {}
            }
        }
    }

    /// Memory that counted as lent while it was freed is now free.
    pub(super) fn gave_up(&self, bytes: u64) -> MutexGuard<'_, Tools> {
        self.count.give_back(bytes);
        let mut tools = self.tools.lock();
        tools.lent -= 1;
        self.came_back.notify_all();
        tools
    }
}
