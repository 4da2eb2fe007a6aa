use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Scope, Scopes};
use crate::read::Sample;
use crate::row::{RowMut, Wide, WideMemory};
use crate::schema::{Schema, TensorSpec};

use super::list::Item;
use super::tensors::Declared;
use super::{BatchMut, BatchTransform, Outputs, Row, Tensors, Transform, Transforms};

/// Tell the draws of transforms from those of other operations on a sample. These numbers never change.
const ROW_KEY: u64 = 2000;
const BATCH_KEY: u64 = 2001;

/// A list of transforms, made for the tensors of a source.
pub(crate) struct Chain {
    /// How many tensors are decoded: the first ones.
    inputs: usize,
    wide: Wide,
    schema: Arc<Schema>,
    steps: Vec<Step>,
    batch_steps: Vec<(u64, Arc<dyn BatchTransform>)>,
}

/// One transform of samples, and which tensors it reads and writes.
struct Step {
    transform: Arc<dyn Transform>,
    declared: Declared,
    /// Its place in the list.
    nth: u64,
}

/// What a worker keeps for transforms from job to job.
#[derive(Default)]
pub(crate) struct ChainMemory {
    pub(crate) wide: WideMemory,
    pub(crate) scopes: Scopes,
}

impl Transforms {
    /// The tensors that are made of those of `source`.
    ///
    /// # Errors
    ///
    /// What the transforms object to.
    pub fn schema(&self, source: &Schema) -> Result<Schema> {
        Ok(Chain::new(source.tensors(), self)?.schema().as_ref().clone())
    }
}

impl Chain {
    /// # Errors
    ///
    /// What the transforms object to in `source`, the tensors that are decoded.
    pub(crate) fn new(source: &[TensorSpec], list: &Transforms) -> Result<Self> {
        let mut tensors = Tensors::of_source(source);
        let (mut steps, mut batch_steps) = (Vec::new(), Vec::new());
        for (nth, item) in (0..).zip(list.items()) {
            match item {
                Item::Row(_) if !batch_steps.is_empty() => {
                    let message = "transforms: what works on samples comes before all that works on whole batches";
                    return Err(Error::new(ErrorKind::Config, message));
                }
                Item::Row(transform) => {
                    transform.declare(&mut tensors)?;
                    let declared = std::mem::take(&mut tensors.declared);
                    // What writes nothing has said all that it does.
                    if !declared.written.is_empty() {
                        steps.push(Step { transform: transform.clone(), declared, nth });
                    }
                }
                Item::Batch(transform) => {
                    tensors.in_place_only();
                    transform.declare(&mut tensors)?;
                    tensors.declared = Declared::default();
                    batch_steps.push((nth, transform.clone()));
                }
            }
        }
        let schema = Schema::new(tensors.specs().cloned().collect())?;
        let place = |index| tensors.current.iter().position(|current| *current == index);
        let places = (0..tensors.all.len()).map(place).collect();
        Ok(Self {
            inputs: source.len(),
            wide: Wide::new(tensors.all, places),
            schema: Arc::new(schema),
            steps,
            batch_steps,
        })
    }

    /// What is delivered.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// How many tensors are decoded: the first of the wide ones.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(crate) fn wide(&self) -> &Wide {
        &self.wide
    }

    /// Whether a sample changes once it is decoded.
    pub(crate) fn changes_rows(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether a batch changes once it is settled.
    pub(crate) fn changes_batches(&self) -> bool {
        !self.batch_steps.is_empty()
    }

    /// Has all transforms of samples prepare for those that `work` applies them to.
    pub(crate) fn around(&self, work: &mut dyn FnMut()) {
        fn within(steps: &[Step], work: &mut dyn FnMut()) {
            match steps {
                [] => work(),
                [first, rest @ ..] => first.transform.around(&mut || within(rest, work)),
            }
        }
        within(&self.steps, work);
    }

    /// Applies all transforms of samples to one, whose tensors are the wide ones.
    pub(crate) fn apply(&self, sample: Sample, row: &mut RowMut<'_>, scope: &mut Scope<'_>) -> Result<()> {
        for Step { transform, declared, nth } in &self.steps {
            let (view, written) = row.split(&declared.written);
            let row = Row {
                view,
                all: self.wide.specs(),
                readable: &declared.readable,
                id: sample.id,
                key: sample.key.operation(ROW_KEY, *nth),
            };
            scope.next();
            transform.apply(&row, &mut Outputs(written), scope)?;
        }
        Ok(())
    }

    /// Applies all transforms of batches to one.
    pub(crate) fn finish(&self, batch: &mut BatchMut<'_>, scope: &mut Scope<'_>) -> Result<()> {
        for (nth, transform) in &self.batch_steps {
            let key = batch.key().operation(BATCH_KEY, *nth);
            scope.next();
            transform.apply(&mut batch.under(key), scope)?;
        }
        Ok(())
    }
}
