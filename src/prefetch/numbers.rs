//! A session over samples of one byte, for tests and models.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::session::SessionParts;
use crate::counters::Counters;
use crate::dataset::{BadRecords, BatchPlan, Filler, PlanTerms};
use crate::dtype::DType;
use crate::error::{Location, Result};
use crate::memory::{MemoryBudget, PageSource};
use crate::read::Scratch;
use crate::ring::{Overflow, Ring, RingConfig};
use crate::row::RowMut;
use crate::schema::{Extents, Role, Schema, TensorSpec};

/// Writes the sample's number.
struct Numbers(Arc<Schema>);

impl Filler for Numbers {
    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn measure(&self, _: &BatchPlan, _: usize, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::default())
    }

    fn fetch(&self, _: &BatchPlan, _: Range<usize>, _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn decode(&self, plan: &BatchPlan, row: usize, _: usize, _: &mut Scratch, out: &mut RowMut<'_>) -> Result<()> {
        out.tensor(0).bytes_mut()[0] = plan.samples[row] as u8;
        Ok(())
    }

    fn place(&self, _: &BatchPlan, _: usize) -> Location {
        Location::default()
    }
}

/// A session of one worker that makes no batches ahead, over slots of one byte.
pub(super) fn session_parts(slots: usize, pages: Arc<dyn PageSource>, overflow: Overflow) -> SessionParts {
    let schema = Schema::new(vec![TensorSpec::new("x", Role::Feature, DType::U8, &[])]).unwrap();
    let budget = MemoryBudget::unlimited();
    let ring = Ring::new(RingConfig { slots, slot_bytes: 1, pages, budget, overflow, poison: None });
    SessionParts {
        filler: Arc::new(Numbers(Arc::new(schema))),
        counters: Arc::new(Counters::new(None)),
        ring: ring.unwrap(),
        policy: BadRecords::Fail,
        first: None,
        terms: PlanTerms { seed: 0, most_rows: None },
        runs_on: false,
        plans_ahead: false,
        workers: 1,
        first_limit: 2,
        prefetch: 0,
        most_prefetch: 0,
        within_limit: None,
        lease_wait: Duration::ZERO,
        close_wait: Duration::from_secs(60),
    }
}
