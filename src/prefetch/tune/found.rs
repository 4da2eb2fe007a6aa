use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::stats::Tuning;
use crate::sync::CounterMutex;

use super::amounts::Amounts;

/// The numbers in effect, and why: written by who tunes, read by who asks for figures.
#[derive(Debug)]
pub(crate) struct Found {
    workers: AtomicUsize,
    prefetch: AtomicUsize,
    changes: AtomicU64,
    /// Whether each is found at all.
    is_tuned: [bool; 2],
    why: CounterMutex<String>,
}

impl Found {
    pub(crate) fn new(begin: Amounts, is_tuned: [bool; 2]) -> Self {
        Self {
            workers: AtomicUsize::new(begin.workers),
            prefetch: AtomicUsize::new(begin.prefetch),
            changes: AtomicU64::new(0),
            is_tuned,
            why: CounterMutex::new("nothing else was tried yet".to_owned()),
        }
    }

    pub(crate) fn amounts(&self) -> Amounts {
        Amounts { workers: self.workers.load(Ordering::Relaxed), prefetch: self.prefetch.load(Ordering::Relaxed) }
    }

    pub(crate) fn set(&self, amounts: Amounts, why: String) {
        self.workers.store(amounts.workers, Ordering::Relaxed);
        self.prefetch.store(amounts.prefetch, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
        *self.why.lock() = why;
    }

    /// What figures tell of it; nothing where both are given.
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
