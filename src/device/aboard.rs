use std::sync::Arc;

use crate::dataset::DataSet;
use crate::sync::{Condvar, Mutex};

/// Number of host batches that the upload stage holds: waiting for a device slot, or being copied.
///
/// They keep slots of the loader's ring in use, and return by themselves. If they exhaust the ring, this is not the
/// trainer's fault, and the loader waits for them.
#[derive(Debug)]
pub(super) struct Aboard {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    batches: usize,
    /// Number of batches that have returned so far.
    landed: u64,
    run: u64,
}

/// A host batch that the upload stage holds.
pub(super) struct HostBatch {
    // The batch's slot returns before the count goes down.
    pub(super) batch: DataSet,
    _counted: Counted,
}

struct Counted(Arc<Aboard>);

impl Drop for Counted {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.batches -= 1;
        state.landed += 1;
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Aboard {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::default()), changed: Condvar::new() })
    }

    pub(super) fn take(self: &Arc<Self>, batch: DataSet) -> HostBatch {
        self.state.lock().batches += 1;
        HostBatch { batch, _counted: Counted(self.clone()) }
    }

    /// Number of batches that have returned so far.
    pub(super) fn landed(&self) -> u64 {
        self.state.lock().landed
    }

    /// Waits until more than `landed` batches have returned. `false` if none can return, or the run is over.
    pub(super) fn wait_for_more(&self, landed: u64, run: u64) -> bool {
        let mut state = self.state.lock();
        while state.landed == landed && state.run == run {
            if state.batches == 0 {
                return false;
            }
            state = self.changed.wait(state);
        }
        state.run == run
    }

    pub(super) fn begin_run(&self, run: u64) {
        self.state.lock().run = run;
        self.changed.notify_all();
    }
}
