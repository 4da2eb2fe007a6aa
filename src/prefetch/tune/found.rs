use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats::{Lived, Tuning};
use crate::sync::CounterMutex;

use super::amounts::Amounts;

/// The current numbers, and the reason for them. The tuner writes them; statistics read them.
#[derive(Debug)]
pub(crate) struct Found {
    now: CounterMutex<(Amounts, Lived)>,
    changes: AtomicU64,
    /// Whether each number is tuned at all.
    is_tuned: [bool; 2],
    why: CounterMutex<String>,
}

impl Found {
    pub(crate) fn new(begin: Amounts, is_tuned: [bool; 2]) -> Self {
        Self {
            now: CounterMutex::new((begin, Lived::default())),
            changes: AtomicU64::new(0),
            is_tuned,
            why: CounterMutex::new("nothing else was tried yet".to_owned()),
        }
    }

    pub(crate) fn amounts(&self) -> Amounts {
        self.now().0
    }

    /// The numbers, and the history of the number of workers before.
    pub(crate) fn now(&self) -> (Amounts, Lived) {
        *self.now.lock()
    }

    /// Sets other numbers, which are valid from `seconds` of the trainer's time on.
    pub(crate) fn set(&self, amounts: Amounts, why: String, seconds: f64) {
        let mut now = self.now.lock();
        let threads = now.0.workers;
        now.1.change(threads, seconds);
        now.0 = amounts;
        drop(now);
        self.changes.fetch_add(1, Ordering::Relaxed);
        *self.why.lock() = why;
    }

    /// The part of statistics about it; nothing if both numbers are given.
    pub(crate) fn tuning(&self) -> Option<Tuning> {
        let [workers, prefetch] = self.is_tuned;
        (workers || prefetch).then(|| Tuning {
            workers,
            prefetch,
            changes: self.changes.load(Ordering::Relaxed),
            why: self.why.lock().clone(),
        })
    }
}
