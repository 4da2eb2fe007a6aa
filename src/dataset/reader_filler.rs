//! The shared half of a source of readers: fills the rows of batches from one or several of them.

use std::ops::Range;
use std::sync::Arc;

use crate::caught::caught;
use crate::counters::DamageTally;
use crate::error::{Location, Result};
use crate::positions::{Bucketed, Order};
use crate::read::{Job, RecordReader, Scratch, caught_each, decode_each};
use crate::row::{Picked, PickedRoom, RowMut, RowsMut};
use crate::schema::{Extents, Schema};
use crate::storage::Needs;

use super::buckets::BucketLength;
use super::contract::{BatchPlan, Filler};

/// One of the composed readers, and which tensors and extents are its own.
pub(super) struct Component {
    pub(super) nth: usize,
    pub(super) reader: Arc<dyn RecordReader>,
    pub(super) part: Part,
    pub(super) first_extent: usize,
    pub(super) extents: usize,
}

/// The tensors of a sample that belong to a reader.
pub(super) enum Part {
    /// The first one, and how many follow each other.
    Together(usize, usize),
    /// They do not follow each other, or not in this order.
    Apart(Picked),
}

impl Part {
    /// The tensors at these positions.
    pub(super) fn of(places: &[usize]) -> Self {
        let first = places.first().copied().unwrap_or(0);
        if places.iter().copied().eq(first..first + places.len()) {
            return Self::Together(first, places.len());
        }
        Self::Apart(Picked::new(places))
    }

    fn of_rows<'a>(&'a self, all: &'a mut RowsMut<'_>, room: &'a mut PickedRoom) -> RowsMut<'a> {
        match self {
            Self::Together(first, count) => all.part(*first, *count),
            Self::Apart(picked) => all.picked(picked, room),
        }
    }
}

/// What a worker keeps for one of the readers.
#[derive(Default)]
struct Kept {
    scratch: Scratch,
    room: PickedRoom,
}

/// Fills batches from readers: any row, on any thread.
pub(super) struct ReaderFiller {
    pub(super) schema: Arc<Schema>,
    pub(super) components: Vec<Component>,
    pub(super) order: Order,
    /// The length that decides the bucket, and its padding.
    pub(super) length: Option<BucketLength>,
    /// The order of buckets, and the seed of its shuffle.
    pub(super) buckets: Option<(Arc<Bucketed>, Option<u64>)>,
}

/// What is kept for each component.
fn kept(scratch: &mut Scratch, components: usize) -> &mut [Kept] {
    let kept = scratch.of::<Vec<Kept>>();
    if kept.len() < components {
        kept.resize_with(components, Kept::default);
    }
    kept
}

impl Filler for ReaderFiller {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn need(&self, plan: &BatchPlan, needs: &mut Needs) {
        for component in &self.components {
            component.reader.need(&plan.samples, needs);
        }
    }

    fn measure(&self, plan: &BatchPlan, row: usize, scratch: &mut Scratch) -> Result<Extents> {
        let mut all = Extents::default();
        let kept = kept(scratch, self.components.len());
        for (component, kept) in self.components.iter().zip(kept).filter(|(component, _)| component.extents > 0) {
            let mut extents = component.reader.measure(plan.samples[row], &mut kept.scratch)?;
            if let Some(length) = self.length.as_ref().filter(|length| length.reader == component.nth) {
                length.pad(&mut extents.0[..component.extents]);
            }
            let range = component.first_extent..component.first_extent + component.extents;
            all.0[range].copy_from_slice(&extents.0[..component.extents]);
        }
        Ok(all)
    }

    fn fetch(&self, plan: &BatchPlan, rows: Range<usize>, nth: usize, scratch: &mut Scratch) -> Result<()> {
        let kept = kept(scratch, self.components.len());
        // All readers are called, even after an error, because each must see where a job begins.
        let calls = self.components.iter().zip(kept).map(|(component, kept)| {
            caught(|| component.reader.fetch(&plan.samples[rows.clone()], nth, &mut kept.scratch))
        });
        calls.fold(Ok(()), Result::and)
    }

    fn fetch_all(&self, _: &BatchPlan, _: Range<usize>, job: &mut Job<'_>, scratch: &mut Scratch) {
        for (component, kept) in self.components.iter().zip(kept(scratch, self.components.len())) {
            job.read_again();
            caught_each(job, |job| component.reader.fetch_all(job, &mut kept.scratch));
        }
    }

    fn decode_all(
        &self,
        _: &BatchPlan,
        _: Range<usize>,
        job: &mut Job<'_>,
        scratch: &mut Scratch,
        out: &mut RowsMut<'_>,
    ) {
        let (mut damage, mut is_straight) = (DamageTally::default(), true);
        for (component, Kept { scratch, room }) in self.components.iter().zip(kept(scratch, self.components.len())) {
            job.decode_again();
            let mut part = component.part.of_rows(out, room);
            decode_each(job, |job| component.reader.decode_all(job, scratch, &mut part));
            damage.add_all(scratch.take_damage());
            is_straight &= job.is_straight();
        }
        job.came_straight(is_straight);
        scratch.note_all(damage);
    }

    fn decode(
        &self,
        plan: &BatchPlan,
        row: usize,
        nth: usize,
        scratch: &mut Scratch,
        out: &mut RowMut<'_>,
    ) -> Result<()> {
        let sample = plan.sample(row);
        let mut damage = DamageTally::default();
        let mut components = self.components.iter().zip(kept(scratch, self.components.len()));
        let decoded = components.try_for_each(|(component, Kept { scratch, room })| {
            let mut rows = out.as_rows();
            let mut part = component.part.of_rows(&mut rows, room);
            scratch.forget_damage();
            let decoded = component.reader.decode(sample, nth, scratch, &mut part.row(0));
            damage.add_all(scratch.take_damage());
            decoded
        });
        scratch.note_all(damage);
        decoded
    }

    fn check_padding(&self, pad: &dyn Fn(Extents) -> Result<Extents>) -> Result<()> {
        let Some(length) = &self.length else { return Ok(()) };
        length.check_padding(self.components[length.reader].first_extent, pad)
    }

    fn any_sample(&self, bits: u64) -> Option<u64> {
        (self.order.len > 0).then(|| self.order.any(bits))
    }

    /// One of the same bucket; if that is urgent, one of any bucket whose batches may have as many rows, so that the batch
    /// is no larger than others.
    fn replacement(&self, plan: &BatchPlan, row: usize, bits: u64, is_urgent: bool) -> Option<u64> {
        let Some((buckets, seed)) = &self.buckets else { return self.any_sample(bits) };
        match is_urgent {
            true => buckets.any(plan.rows() as u64, bits),
            false => buckets.like(*seed, plan.epoch, plan.positions[row], bits),
        }
    }

    fn place(&self, plan: &BatchPlan, row: usize) -> Location {
        self.components[0].reader.place(plan.samples[row])
    }
}
