use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::counters::Tick;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::read::{Job, Scratch, caught_each, decode_each};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, Schema};
use crate::storage::Needs;
use crate::transform::{BatchMut, Chain, ChainMemory, NOT_DONE, Transforms};

use super::contract::{BatchPlan, Filler, OpenedSource, Source};

/// A source with a list of transforms that its samples and batches pass through before delivery.
pub struct Transformed<S> {
    source: S,
    list: Transforms,
}

impl<S: fmt::Debug> fmt::Debug for Transformed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transformed").field("source", &self.source).field("list", &self.list).finish()
    }
}

impl<S: Source> Transformed<S> {
    /// Applies `list` to the tensors of `source`.
    pub fn new(source: S, list: Transforms) -> Self {
        Self { source, list }
    }
}

impl<S: Source> Source for Transformed<S> {
    fn open(self: Box<Self>) -> Result<OpenedSource> {
        let opened = Box::new(self.source).open()?;
        if self.list.is_empty() {
            return Ok(opened);
        }
        if opened.filler.is_transformed() {
            let message = "transforms: this source is transformed already; make one list of both";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let chain = Chain::new(opened.filler.schema().tensors(), &self.list)?;
        opened.filler.check_padding(&|extents| chain.lengths().apply(extents))?;
        Ok(OpenedSource { filler: Arc::new(TransformedFiller { inner: opened.filler, chain }), ..opened })
    }

    fn async_supported(&self) -> bool {
        self.source.async_supported()
    }
}

struct TransformedFiller {
    inner: Arc<dyn Filler>,
    chain: Chain,
}

/// A worker's buffers: those of the source, and those of the transforms.
#[derive(Default)]
struct Worker {
    inner: Scratch,
    memory: ChainMemory,
}

impl Filler for TransformedFiller {
    fn schema(&self) -> &Arc<Schema> {
        self.chain.schema()
    }

    fn is_measured(&self) -> bool {
        self.inner.is_measured()
    }

    fn bytes_aside(&self) -> usize {
        self.chain.wide().aside_bytes().saturating_add(self.inner.bytes_aside())
    }

    fn need(&self, plan: &BatchPlan, needs: &mut Needs) {
        self.inner.need(plan, needs);
    }

    fn measure(&self, plan: &BatchPlan, row: usize, scratch: &mut Scratch) -> Result<Extents> {
        let extents = self.inner.measure(plan, row, &mut scratch.of::<Worker>().inner)?;
        self.chain.lengths().apply(extents)
    }

    fn fetch(&self, plan: &BatchPlan, rows: Range<usize>, nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.inner.fetch(plan, rows, nth, &mut scratch.of::<Worker>().inner)
    }

    fn decode(
        &self,
        plan: &BatchPlan,
        row: usize,
        nth: usize,
        scratch: &mut Scratch,
        out: &mut RowMut<'_>,
    ) -> Result<()> {
        let Worker { inner, memory: ChainMemory { wide, scopes } } = scratch.of();
        let mut out = out.as_rows();
        let mut rows = out.widen(self.chain.wide(), wide)?;
        let mut only = rows.row(0);
        let (sample, spilled) = (plan.sample(row), scopes.spilled());
        inner.forget_damage();
        let decoded = self.inner.decode(plan, row, nth, inner, &mut only.part(0, self.chain.inputs()));
        let done =
            decoded.and_then(|()| self.chain.around_one(|| self.chain.apply(sample, &mut only, &mut scopes.enter())));
        // Also of a sample that failed: it would be counted with the next one.
        let (damage, spilled) = (inner.take_damage(), scopes.spilled() - spilled);
        scratch.note_all(damage);
        scratch.note_spilled(spilled);
        done
    }

    fn fetch_all(&self, plan: &BatchPlan, rows: Range<usize>, job: &mut Job<'_>, scratch: &mut Scratch) {
        self.inner.fetch_all(plan, rows, job, &mut scratch.of::<Worker>().inner);
    }

    fn decode_all(
        &self,
        plan: &BatchPlan,
        rows: Range<usize>,
        job: &mut Job<'_>,
        scratch: &mut Scratch,
        out: &mut RowsMut<'_>,
    ) {
        let Worker { inner, memory: ChainMemory { wide, scopes } } = scratch.of();
        let mut out = match out.widen(self.chain.wide(), wide) {
            Ok(out) => out,
            Err(error) => return job.refuse_rest(error.kind(), error.message()),
        };
        let mut decoded = out.part(0, self.chain.inputs());
        decode_each(job, |job| self.inner.decode_all(plan, rows.clone(), job, inner, &mut decoded));
        let (damage, spilled) = (inner.take_damage(), scopes.spilled());
        if self.chain.changes_rows() {
            let begin = job.lap();
            let mut scope = scopes.enter();
            job.transform_again();
            let mut is_done = false;
            caught_each(job, |job| {
                let asked = Tick::now();
                self.chain.around(&mut || {
                    job.waited_to_transform(asked);
                    while let Some(nth) = job.advance() {
                        job.report(self.chain.apply(job.sample(nth), &mut out.row(nth), &mut scope));
                    }
                    is_done = true;
                });
            });
            job.transformed_since(begin);
            if !is_done {
                job.refuse_rest(ErrorKind::Data, NOT_DONE);
            }
        }
        let spilled = scopes.spilled() - spilled;
        scratch.note_all(damage);
        scratch.note_spilled(spilled);
    }

    fn is_transformed(&self) -> bool {
        true
    }

    fn finishes(&self) -> bool {
        self.chain.changes_batches()
    }

    fn finish(&self, batch: &mut BatchMut<'_>, scratch: &mut Scratch) -> Result<()> {
        let scopes = &scratch.of::<Worker>().memory.scopes;
        let spilled = scopes.spilled();
        let finished = self.chain.finish(batch, &mut scopes.enter());
        let spilled = scopes.spilled() - spilled;
        scratch.note_spilled(spilled);
        finished
    }

    fn any_sample(&self, bits: u64) -> Option<u64> {
        self.inner.any_sample(bits)
    }

    fn replacement(&self, plan: &BatchPlan, row: usize, bits: u64, is_urgent: bool) -> Option<u64> {
        self.inner.replacement(plan, row, bits, is_urgent)
    }

    fn place(&self, plan: &BatchPlan, row: usize) -> Location {
        self.inner.place(plan, row)
    }
}
