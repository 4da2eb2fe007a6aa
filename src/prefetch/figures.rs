use std::sync::Arc;

use crate::counters::Counters;
use crate::dataset::{Batch, BatchPlan, Filler, Opened, caught};
use crate::error::Location;
use crate::ring::Ring;
use crate::stats::{self, Planning, Setting, Stats};

use super::scheduling::cores;
use super::workers::Pool;
use super::workspace::Workspace;

/// What both iterators tell of a run: everything that its figures are read from.
pub(super) struct Figures {
    counters: Arc<Counters>,
    filler: Arc<dyn Filler>,
    ring: Ring<Batch>,
    workspace: Workspace,
    planning: Planning,
    cores: usize,
    /// Whether the workspace's threads work for it.
    is_ahead: bool,
}

impl Figures {
    pub(super) fn new(
        opened: &Opened,
        counters: Arc<Counters>,
        ring: Ring<Batch>,
        workspace: &Workspace,
        is_ahead: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            counters,
            filler: opened.filler.clone(),
            ring,
            workspace: workspace.clone(),
            planning: opened.planner.planning(),
            cores: cores(),
            is_ahead,
        })
    }
}

impl stats::Figures for Figures {
    fn stats(&self) -> Stats {
        let ahead = |number: usize| if self.is_ahead { number } else { 0 };
        let pool = self.is_ahead.then(|| self.workspace.pool().ok()).flatten();
        let setting = Setting {
            workers: ahead(self.workspace.workers()),
            prefetch: ahead(self.workspace.prefetch()),
            planning: self.planning,
            cores: self.cores,
            most_cores: self.workspace.config().manners().most_cores(),
            ring: self.ring.stats(),
            memory_bytes: self.workspace.budget().used(),
            scheduled: pool.and_then(Pool::scheduled),
        };
        Stats::read(&self.counters, setting, |sample| name_of(&*self.filler, sample))
    }
}

/// Where a sample is, as well as its source can tell.
fn name_of(filler: &dyn Filler, sample: u64) -> String {
    let plan = BatchPlan { samples: vec![sample], positions: vec![sample], ..BatchPlan::default() };
    // A stream knows records only while it has them.
    let place = caught(|| Ok(filler.place(&plan, 0))).unwrap_or_default();
    Location { record: place.record.or(Some(sample)), ..place }.to_string()
}
