use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use crate::dataset::{BatchPlan, measure_rows};
use crate::error::{Error, Result};
use crate::read::Scratch;
use crate::schema::Extents;
use crate::sync::{Condvar, Mutex, Ordering};

use super::session::Session;

/// A batch whose rows the workers measure; reused from batch to batch.
#[derive(Default)]
pub(super) struct Measuring {
    plan: RwLock<BatchPlan>,
    progress: Mutex<Progress>,
    /// The extents of each row, if tensors are ragged.
    lengths: Mutex<Vec<Extents>>,
    done: Done,
}

struct Done(Condvar);

impl Default for Done {
    fn default() -> Self {
        Self(Condvar::new())
    }
}

#[derive(Default)]
struct Progress {
    left: usize,
    extents: Extents,
    faults: Vec<(usize, Error)>,
    /// The error if rows could not be measured.
    failed: Option<Error>,
}

/// The result of measuring some rows: the longest extents, and the bad rows.
pub(super) type Measured = (Extents, Vec<(usize, Error)>);

impl Measuring {
    /// Takes the plan; `parts` parts of its rows must report.
    pub(super) fn begin(&self, plan: &mut BatchPlan, parts: usize, is_ragged: bool) {
        let mut lengths = self.lengths.lock();
        lengths.clear();
        lengths.resize(if is_ragged { plan.rows() } else { 0 }, Extents::default());
        drop(lengths);
        std::mem::swap(plan, &mut *self.plan.write().unwrap_or_else(PoisonError::into_inner));
        *self.progress.lock() = Progress { left: parts, ..Progress::default() };
    }

    /// Waits until all parts have reported, and gives the plan back.
    pub(super) fn wait(&self, plan: &mut BatchPlan) -> Result<Extents> {
        let mut progress = self.progress.lock();
        while progress.left > 0 {
            progress = self.done.0.wait(progress);
        }
        let Progress { extents, faults, failed, .. } = std::mem::take(&mut *progress);
        drop(progress);
        std::mem::swap(plan, &mut *self.plan.write().unwrap_or_else(PoisonError::into_inner));
        plan.faults.extend(faults);
        std::mem::swap(&mut plan.lengths, &mut *self.lengths.lock());
        failed.map_or(Ok(extents), Err)
    }

    /// Measures some rows on a worker, which [reports](Self::report) in any case.
    pub(super) fn run(&self, session: &Session, rows: Range<usize>, scratch: &mut Scratch) -> Result<Measured> {
        let plan = self.plan.read().unwrap_or_else(PoisonError::into_inner);
        let mut faults = Vec::new();
        let mut extents = Extents::default();
        let is_ragged = session.filler.schema().is_ragged();
        if !session.stop.load(Ordering::Acquire) {
            measure_rows(&*session.filler, &plan, rows, scratch, |row, measured| match measured {
                Ok(measured) => {
                    extents = extents.max(measured);
                    if is_ragged && let Some(length) = self.lengths.lock().get_mut(row) {
                        *length = measured;
                    }
                }
                Err(error) => faults.push((row, error)),
            });
        }
        Ok((extents, faults))
    }

    /// The result for some rows. Each part of the rows reports once.
    pub(super) fn report(&self, measured: Result<Measured>) {
        let mut progress = self.progress.lock();
        match measured {
            Ok((extents, mut faults)) => {
                progress.extents = progress.extents.max(extents);
                progress.faults.append(&mut faults);
            }
            Err(error) => progress.failed = Some(error),
        }
        progress.left -= 1;
        if progress.left == 0 {
            self.done.0.notify_all();
        }
    }
}
