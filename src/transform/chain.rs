use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Scope, Scopes};
use crate::read::Sample;
use crate::row::{RowMut, Wide, WideMemory};
use crate::schema::{Schema, TensorSpec};
use crate::tree::{no_faults, under};

use super::lengths::Lengths;
use super::list::Item;
use super::members::{Operation, Part};
use super::tensors::Declared;
use super::{BatchMut, BatchTransform, Outputs, Row, Tensors, Transform, Transforms};

/// Makes the random choices of transforms different from those of other operations on a sample. These numbers never
/// change.
const ROW_KEY: u64 = 2000;
const BATCH_KEY: u64 = 2001;

/// The error for samples if a transform did not call the work that it was given.
pub(crate) const NOT_DONE: &str = "transforms: one of them did not let the others work on the samples";

/// A list of transforms, made for the tensors of a source.
pub(crate) struct Chain {
    /// Number of tensors that are decoded. They come first.
    inputs: usize,
    wide: Wide,
    schema: Arc<Schema>,
    steps: Vec<Step>,
    batch_steps: Vec<(u64, Arc<dyn BatchTransform>)>,
    lengths: Lengths,
}

/// A list that is compiled up to some item.
struct Making {
    tensors: Tensors,
    steps: Vec<Step>,
    batch_steps: Vec<(u64, Arc<dyn BatchTransform>)>,
}

impl Making {
    /// Adds a part. `nth` distinguishes the random choices of the user's items.
    fn add(&mut self, part: Part, nth: u64) -> Result<()> {
        match part {
            Part::Row(_) if !self.batch_steps.is_empty() => {
                let message = "transforms: transforms of samples come before those of whole batches";
                return Err(Error::new(ErrorKind::Config, message));
            }
            Part::Row(transform) => {
                transform.declare(&mut self.tensors)?;
                let declared = std::mem::take(&mut self.tensors.declared);
                // A transform that neither reads nor writes has declared everything.
                if !declared.readable.is_empty() || !declared.written.is_empty() {
                    self.steps.push(Step { transform, declared, nth });
                }
            }
            Part::Batch(transform) => {
                self.tensors.in_place_only();
                transform.declare(&mut self.tensors)?;
                self.tensors.declared = Declared::default();
                self.batch_steps.push((self.batch_steps.len() as u64, transform));
            }
        }
        Ok(())
    }
}

/// One transform of samples, and the tensors that it reads and writes.
struct Step {
    transform: Arc<dyn Transform>,
    declared: Declared,
    /// Number of the user's own items before it in the list.
    nth: u64,
}

/// What a worker keeps for transforms from job to job.
#[derive(Default)]
pub(crate) struct ChainMemory {
    pub(crate) wide: WideMemory,
    pub(crate) scopes: Scopes,
}

impl Transforms {
    /// The tensors after this list was applied to those of `source`.
    ///
    /// # Errors
    ///
    /// Errors of the transforms' declarations.
    pub fn schema(&self, source: &Schema) -> Result<Schema> {
        Ok(Chain::new(source.tensors(), self)?.schema().as_ref().clone())
    }
}

impl Chain {
    /// # Errors
    ///
    /// Errors of the transforms' declarations for `source`, the tensors that are decoded.
    pub(crate) fn new(source: &[TensorSpec], list: &Transforms) -> Result<Self> {
        let mut made = Making { tensors: Tensors::of_source(source), steps: Vec::new(), batch_steps: Vec::new() };
        let mut own = 0;
        let mut members: Vec<&Operation> = Vec::new();
        for item in list.items() {
            match item {
                Item::Member(operation) => {
                    no_faults(under("transforms", operation.faults()).collect())?;
                    let parts = operation.parts(&made.tensors, members.iter().copied())?;
                    parts.into_iter().try_for_each(|part| made.add(part, 0))?;
                    members.push(operation);
                }
                Item::Check(check) => {
                    if let Some(part) = check.part(&made.tensors)? {
                        made.add(part, 0)?;
                    }
                }
                Item::Own(part) => {
                    made.add(part.clone(), own)?;
                    own += 1;
                }
            }
        }
        let Making { tensors, steps, batch_steps } = made;
        let schema = Schema::new(tensors.specs().cloned().collect())?;
        let place = |index| tensors.current.iter().position(|current| *current == index);
        let places = (0..tensors.all.len()).map(place).collect();
        Ok(Self {
            inputs: source.len(),
            wide: Wide::new(tensors.all, places),
            schema: Arc::new(schema),
            steps,
            batch_steps,
            lengths: tensors.lengths,
        })
    }

    /// How a sample's lengths change.
    pub(crate) fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// The tensors that are delivered.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Number of tensors that are decoded; they are the first of the wide row.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// The tensors that are decoded, with what is applied to them meanwhile.
    pub(crate) fn decoded(&self) -> &[TensorSpec] {
        &self.wide.specs()[..self.inputs]
    }

    pub(crate) fn wide(&self) -> &Wide {
        &self.wide
    }

    /// Whether samples change after they are decoded.
    pub(crate) fn changes_rows(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether batches change after they are settled.
    pub(crate) fn changes_batches(&self) -> bool {
        !self.batch_steps.is_empty()
    }

    /// Calls `work` within the preparation of all transforms of samples.
    pub(crate) fn around(&self, work: &mut dyn FnMut()) {
        fn within(steps: &[Step], work: &mut dyn FnMut()) {
            match steps {
                [] => work(),
                [first, rest @ ..] => first.transform.around(&mut || within(rest, work)),
            }
        }
        within(&self.steps, work);
    }

    /// As [`around`](Self::around), for a single sample.
    ///
    /// # Errors
    ///
    /// Those of `work`, and [`ErrorKind::Data`] if a transform does not call it.
    pub(crate) fn around_one(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let (mut work, mut done) = (Some(work), None);
        self.around(&mut || {
            if let Some(work) = work.take() {
                done = Some(work());
            }
        });
        done.unwrap_or_else(|| Err(Error::new(ErrorKind::Data, NOT_DONE)))
    }

    /// Applies all transforms of samples to one sample, whose tensors are the wide ones.
    pub(crate) fn apply(&self, sample: Sample, row: &mut RowMut<'_>, scope: &mut Scope<'_>) -> Result<()> {
        for Step { transform, declared, nth } in &self.steps {
            let (view, written) = row.split(&declared.written);
            let row = Row {
                view,
                all: self.wide.specs(),
                readable: &declared.readable,
                id: sample.id,
                sample_key: sample.key,
                key: sample.key.operation(ROW_KEY, *nth),
            };
            scope.next();
            transform.apply(&row, &mut Outputs(written), scope)?;
        }
        Ok(())
    }

    /// Applies all transforms of batches to a batch.
    pub(crate) fn finish(&self, batch: &mut BatchMut<'_>, scope: &mut Scope<'_>) -> Result<()> {
        for (nth, transform) in &self.batch_steps {
            let key = batch.key().operation(BATCH_KEY, *nth);
            scope.next();
            transform.apply(&mut batch.under(key), scope)?;
        }
        Ok(())
    }
}
