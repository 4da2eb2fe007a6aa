use std::sync::Arc;

use crate::counters::Counters;
use crate::dataset::{BatchPlan, Filler, caught};
use crate::error::Result;
use crate::read::Scratch;
use crate::storage::{Limited, OwnedRead};

/// The bytes of one sample.
pub(super) struct OneSample {
    filler: Arc<dyn Filler>,
    plan: BatchPlan,
    scratch: Scratch,
}

impl OwnedRead for OneSample {
    fn read(&mut self) -> Result<()> {
        caught(|| self.filler.fetch(&self.plan, 0..1, 0, &mut self.scratch))
    }
}

/// Reads row `row` of `plan` on worker `worker`'s thread for that.
pub(super) fn fetch_within(
    limited: &Limited<OneSample>,
    worker: usize,
    filler: &Arc<dyn Filler>,
    plan: &BatchPlan,
    row: usize,
    scratch: &mut Scratch,
    counters: &Counters,
) -> Result<()> {
    let taken = &mut *scratch;
    let sample = || OneSample { filler: filler.clone(), plan: plan.one_row(row), scratch: std::mem::take(taken) };
    let (sample, read) = limited.read(worker, sample, counters)?;
    *scratch = sample.scratch;
    read
}
