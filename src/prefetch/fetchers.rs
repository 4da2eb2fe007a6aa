//! A filler whose reads have a time limit.

use std::ops::Range;
use std::sync::Arc;

use crate::caught::caught;
use crate::dataset::{BatchPlan, Filler};
use crate::error::{Error, Location, Result};
use crate::read::{Job, Scratch};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, Schema};
use crate::storage::{Limited, Needs, OwnedRead, ReadLimit};
use crate::transform::BatchMut;

/// Fetches and measures each sample on another thread, which is left behind if it takes too long.
pub(super) struct WithinLimit {
    filler: Arc<dyn Filler>,
    limited: Limited<OneSample>,
}

/// The bytes of one sample, or its lengths.
struct OneSample {
    filler: Arc<dyn Filler>,
    plan: BatchPlan,
    scratch: Scratch,
    /// The lengths, if the sample is to be measured.
    extents: Option<Extents>,
}

impl OwnedRead for OneSample {
    fn read(&mut self) -> Result<()> {
        let Self { filler, plan, scratch, extents } = self;
        caught(|| match extents {
            None => filler.fetch(plan, 0..1, 0, scratch),
            Some(extents) => {
                *extents = filler.measure(plan, 0, scratch)?;
                Ok(())
            }
        })
    }
}

impl WithinLimit {
    pub(super) fn new(filler: Arc<dyn Filler>, limit: ReadLimit) -> Self {
        Self { filler, limited: Limited::new(limit) }
    }

    /// The error that ends the epoch once too many threads are left behind.
    pub(super) fn failure(&self) -> Option<Error> {
        self.limited.failure()
    }

    fn read(
        &self,
        plan: &BatchPlan,
        row: usize,
        scratch: &mut Scratch,
        extents: Option<Extents>,
    ) -> Result<Option<Extents>> {
        let taken = &mut *scratch;
        let sample = || OneSample {
            filler: self.filler.clone(),
            plan: plan.one_row(row),
            scratch: std::mem::take(taken),
            extents,
        };
        let (sample, read) = self.limited.read(sample)?;
        *scratch = sample.scratch;
        read.map(|()| sample.extents)
    }
}

impl Filler for WithinLimit {
    fn schema(&self) -> &Arc<Schema> {
        self.filler.schema()
    }

    fn is_measured(&self) -> bool {
        self.filler.is_measured()
    }

    fn bytes_aside(&self) -> usize {
        self.filler.bytes_aside()
    }

    fn need(&self, plan: &BatchPlan, needs: &mut Needs) {
        self.filler.need(plan, needs);
    }

    fn measure(&self, plan: &BatchPlan, row: usize, scratch: &mut Scratch) -> Result<Extents> {
        // The records of a stream lie in the plan.
        if plan.records.len() > row {
            return self.filler.measure(plan, row, scratch);
        }
        self.read(plan, row, scratch, Some(Extents::default())).map(Option::unwrap_or_default)
    }

    fn fetch(&self, plan: &BatchPlan, rows: Range<usize>, nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.read(plan, rows.start + nth, scratch, None).map(drop)
    }

    fn decode(
        &self,
        plan: &BatchPlan,
        row: usize,
        nth: usize,
        scratch: &mut Scratch,
        out: &mut RowMut<'_>,
    ) -> Result<()> {
        self.filler.decode(plan, row, nth, scratch, out)
    }

    fn decode_all(
        &self,
        plan: &BatchPlan,
        rows: Range<usize>,
        job: &mut Job<'_>,
        scratch: &mut Scratch,
        out: &mut RowsMut<'_>,
    ) {
        self.filler.decode_all(plan, rows, job, scratch, out);
    }

    fn is_transformed(&self) -> bool {
        self.filler.is_transformed()
    }

    fn finishes(&self) -> bool {
        self.filler.finishes()
    }

    fn finish(&self, batch: &mut BatchMut<'_>, scratch: &mut Scratch) -> Result<()> {
        self.filler.finish(batch, scratch)
    }

    fn any_sample(&self, bits: u64) -> Option<u64> {
        self.filler.any_sample(bits)
    }

    fn replacement(&self, plan: &BatchPlan, row: usize, bits: u64, is_urgent: bool) -> Option<u64> {
        self.filler.replacement(plan, row, bits, is_urgent)
    }

    fn place(&self, plan: &BatchPlan, row: usize) -> Location {
        self.filler.place(plan, row)
    }
}
