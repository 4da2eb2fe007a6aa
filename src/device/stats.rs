use std::sync::Arc;

use crate::counters::TrainerCounter;
pub use crate::stats::UploadStats;
use crate::stats::{Figures, Stats, StatsHandle, Times, TrainerStats};
use crate::sync::{Mutex, Ordering};

use super::Device;
use super::batch::Hands;
use super::lane::{Lane, LaneCounters};

/// The figures of all lanes together.
pub(super) fn read<'a>(
    lanes: impl Iterator<Item = &'a LaneCounters> + Clone,
    trainer_wait_seconds: f64,
) -> UploadStats {
    let mut all = UploadStats { trainer_wait_seconds, ..UploadStats::default() };
    let load = |counter: &crate::sync::AtomicU64| counter.load(Ordering::Relaxed);
    all.uploads = Times::read_all(lanes.clone().map(|lane| &lane.uploads));
    all.slot_waits = Times::read_all(lanes.clone().map(|lane| &lane.slot_waits));
    for lane in lanes {
        all.batches += load(&lane.batches);
        all.samples += load(&lane.samples);
        all.bytes += load(&lane.bytes);
        all.grown += load(&lane.grown);
        all.load_wait_seconds += load(&lane.load_wait_ns) as f64 / 1e9;
        all.slot_wait_seconds += load(&lane.slot_wait_ns) as f64 / 1e9;
        all.upload_seconds += load(&lane.upload_ns) as f64 / 1e9;
        all.copy_wait_seconds += load(&lane.copy_wait_ns) as f64 / 1e9;
    }
    all
}

/// The sources of an upload stage's figures, which any thread may read.
pub(super) struct UploadFigures<D: Device> {
    pub(super) trainer: TrainerCounter,
    /// The handle of the inner iterator.
    pub(super) inside: StatsHandle,
    /// The inner iterator's figures, if it has no handle: the last ones that could be read.
    pub(super) last: Mutex<Stats>,
    lanes: Vec<(Arc<Hands<D>>, Arc<LaneCounters>)>,
}

impl<D: Device> UploadFigures<D> {
    pub(super) fn new(inside: StatsHandle, last: Stats, lanes: &[Lane<D>]) -> Self {
        Self {
            trainer: TrainerCounter::new(),
            inside,
            last: Mutex::new(last),
            lanes: lanes.iter().map(|lane| (lane.exchange().clone(), lane.counters().clone())).collect(),
        }
    }

    /// Adds up how long the trainer waited for each device.
    pub(super) fn sum_waits(&self) {
        let waited = self.lanes.iter().map(|(exchange, _)| exchange.waited_ns()).sum();
        self.trainer.wait_ns.store(waited, Ordering::Relaxed);
    }

    pub(super) fn upload(&self) -> UploadStats {
        self.sum_waits();
        let waited = self.trainer.wait_ns.load(Ordering::Relaxed) as f64 / 1e9;
        read(self.lanes.iter().map(|(_, counters)| &**counters), waited)
    }
}

impl<D: Device> Figures for UploadFigures<D> {
    fn stats(&self) -> Stats {
        let stats = self.inside.stats().unwrap_or_else(|| self.last.lock().clone());
        let mut stats = stats.with_trainer(TrainerStats::read(&self.trainer));
        stats.upload = Some(self.upload());
        stats
    }
}
