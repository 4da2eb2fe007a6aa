use std::sync::atomic::AtomicU64;

use super::adding::{add, add_alone, count, nanoseconds};
use super::bytes_read::BytesRead;
use super::clock::Spent;
use super::histogram::Histogram;

/// The counters of one stage, summed over its threads.
#[derive(Debug)]
pub(crate) struct StageCounter {
    pub(crate) busy_ns: AtomicU64,
    /// The part of the busy time for which the processor time was read, too, and this processor time.
    pub(crate) timed_ns: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) samples: AtomicU64,
    /// Of files and storages.
    pub(crate) bytes_read: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Per sample, or per batch if a stage works on whole batches.
    pub(crate) times: Histogram,
}

impl StageCounter {
    pub(super) fn new() -> Self {
        Self {
            busy_ns: AtomicU64::new(0),
            timed_ns: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            times: Histogram::new(),
        }
    }

    /// Counts work on `samples` samples.
    pub(crate) fn busy(&self, spent: Spent, samples: usize) {
        add(&self.busy_ns, spent.wall);
        if let Some(cpu) = spent.cpu {
            add(&self.timed_ns, spent.wall);
            add(&self.cpu_ns, cpu);
        }
        self.handled(samples);
    }

    /// Counts `samples` samples that took almost no time.
    pub(crate) fn handled(&self, samples: usize) {
        count(&self.samples, samples as u64);
    }

    /// Counts a whole batch of `samples` samples, and the bytes read for it. Only the calling thread may count in this
    /// stage.
    pub(crate) fn busy_alone(&self, spent: Spent, samples: usize, read: BytesRead) {
        self.more_alone(spent);
        add_alone(&self.samples, samples as u64);
        self.times.record_alone(spent.wall);
        if read.requests > 0 {
            add_alone(&self.bytes_read, read.bytes);
            add_alone(&self.requests, read.requests);
        }
    }

    /// Counts more work on a batch that was counted before. Only the calling thread may count in this stage.
    pub(crate) fn more_alone(&self, spent: Spent) {
        add_alone(&self.busy_ns, nanoseconds(spent.wall));
        if let Some(cpu) = spent.cpu {
            add_alone(&self.timed_ns, nanoseconds(spent.wall));
            add_alone(&self.cpu_ns, nanoseconds(cpu));
        }
    }

    /// Adds the bytes that were read meanwhile.
    pub(crate) fn read(&self, read: BytesRead) {
        if read.requests > 0 {
            count(&self.bytes_read, read.bytes);
            count(&self.requests, read.requests);
        }
    }
}
