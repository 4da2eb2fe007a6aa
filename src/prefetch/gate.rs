use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering};

/// Lets the first workers work, up to a number that may change; the others sleep.
#[derive(Debug)]
pub(super) struct Gate {
    open_for: AtomicUsize,
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn new(workers: usize) -> Self {
        Self { open_for: AtomicUsize::new(workers), is_closed: Mutex::new(false), changed: Condvar::new() }
    }

    /// Number of workers that may work.
    pub(super) fn workers(&self) -> usize {
        self.open_for.load(Ordering::Relaxed)
    }

    /// Waits until worker `worker` may work, or the workspace drops.
    pub(super) fn pass(&self, worker: usize) {
        if worker < self.open_for.load(Ordering::Acquire) {
            return;
        }
        let mut is_closed = self.is_closed.lock();
        while worker >= self.open_for.load(Ordering::Acquire) && !*is_closed {
            is_closed = self.changed.wait(is_closed);
        }
    }

    /// Sets the number of workers. Those beyond it finish their job, or the next job if they wait for one.
    pub(super) fn set(&self, workers: usize) {
        if self.open_for.load(Ordering::Relaxed) == workers {
            return;
        }
        let guard = self.is_closed.lock();
        self.open_for.store(workers, Ordering::Release);
        drop(guard);
        self.changed.notify_all();
    }

    /// Lets all workers pass, so that they see that the work has ended.
    pub(super) fn close(&self) {
        *self.is_closed.lock() = true;
        self.changed.notify_all();
    }
}
