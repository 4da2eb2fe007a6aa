use std::sync::Arc;

use crate::caught::caught;
use crate::control_group::cores as core_quota;
use crate::counters::Counters;
use crate::dataset::{Batch, BatchPlan, Filler, OpenedSource};
use crate::error::Location;
use crate::ring::Ring;
use crate::stats::{self, Lived, Planning, Setting, Stats};

use super::scheduling::{Schedule, cores};
use super::tune::{Amounts, Found};
use super::workers::Pool;
use super::workspace::Workspace;

/// The sources of both iterators' statistics.
pub(super) struct Figures {
    counters: Arc<Counters>,
    filler: Arc<dyn Filler>,
    ring: Ring<Batch>,
    workspace: Workspace,
    planning: Planning,
    cores: usize,
    core_quota: Option<f64>,
    /// The work of the threads before this iterator, for other iterators; see `Setting::scheduled`.
    scheduled_before: [f64; 2],
    /// If the workspace's threads work for it: their number, and the thread that plans.
    ahead: Option<(Arc<Found>, Arc<Schedule>)>,
}

impl Figures {
    pub(super) fn new(
        opened: &OpenedSource,
        counters: Arc<Counters>,
        ring: Ring<Batch>,
        workspace: &Workspace,
        ahead: Option<(Arc<Found>, Arc<Schedule>)>,
    ) -> Arc<Self> {
        let planning = match opened.planner.planning() {
            Planning::Order if opened.filler.is_measured() => Planning::Lengths,
            planning => planning,
        };
        let pool = ahead.as_ref().and_then(|_| workspace.pool().ok());
        Arc::new(Self {
            scheduled_before: pool.and_then(Pool::scheduled).unwrap_or_default(),
            counters,
            filler: opened.filler.clone(),
            ring,
            workspace: workspace.clone(),
            planning,
            cores: cores(),
            core_quota: core_quota(),
            ahead,
        })
    }
}

impl stats::Figures for Figures {
    fn stats(&self) -> Stats {
        let none = (Amounts { workers: 0, prefetch: 0 }, Lived::default());
        let (amounts, lived) = self.ahead.as_ref().map_or(none, |(found, _)| found.now());
        let pool = self.ahead.as_ref().and_then(|_| self.workspace.pool().ok());
        let setting = Setting {
            workers: amounts.workers,
            lived,
            unshielded: self.workspace.amounts().0.workers,
            prefetch: amounts.prefetch,
            planning: self.planning,
            cores: self.cores,
            core_quota: self.core_quota,
            most_cores: self.workspace.config().manners().most_cores(),
            tuning: self.ahead.as_ref().and_then(|(found, _)| found.tuning()),
            ring: self.ring.stats(),
            memory_bytes: self.workspace.budget().used(),
            scheduled: pool.and_then(Pool::scheduled).map(|[cpu, queued]| {
                let [before, queued_before] = self.scheduled_before;
                [(cpu - before).max(0.0), (queued - queued_before).max(0.0)]
            }),
            planning_queued: self.ahead.as_ref().and_then(|(_, planning)| planning.read()).map(|[_, queued]| queued),
        };
        Stats::read(&self.counters, setting, |sample| name_of(&*self.filler, sample))
    }
}

/// The place of a sample, as precisely as its source can tell.
fn name_of(filler: &dyn Filler, sample: u64) -> String {
    let plan = BatchPlan { samples: vec![sample], positions: vec![sample], ..BatchPlan::default() };
    // A stream has its records only for a short time.
    let place = caught(|| Ok(filler.place(&plan, 0))).unwrap_or_default();
    Location { record: place.record.or(Some(sample)), ..place }.to_string()
}
