use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::counters::{Counters, DamageTally, Traced};
use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::{AnonymousPages, Block, PageSource};
use crate::ring::Lease;
use crate::schema::{Role, Rows, Schema, Shape};
use crate::sync::{Mutex, Ordering};
use crate::view::TensorView;

use super::contract::BatchPlan;
use super::state::State;

/// The payload of a slot, in addition to its memory. It is recycled with the slot.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) ticket: u64,
    pub(crate) plan: BatchPlan,
    pub(crate) layout: Layout,
    /// Bad rows, found by any worker in any order.
    pub(crate) faults: Mutex<Vec<(usize, Error)>>,
    /// Damage of those images among its samples that were loaded despite the damage.
    pub(crate) damage: Mutex<DamageTally>,
    /// Bad rows that were removed or replaced, in the order of rows, to be counted and named.
    pub(crate) bad: Vec<(usize, Error)>,
    /// Positions, samples and padding of the rows after some were removed or replaced. The plan itself does not change,
    /// because the batch may have to be filled again.
    pub(crate) kept: Option<Kept>,
    /// An error that ends the epoch here, under every policy for bad records.
    fatal: Mutex<Option<Error>>,
    /// The iterator's state after this batch was delivered.
    pub(crate) after: Option<State>,
}

/// The samples of a batch after its bad ones were removed or replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) positions: Vec<u64>,
    pub(crate) samples: Vec<u64>,
    pub(crate) padding: usize,
}

impl Batch {
    /// Makes this the batch of `plan`, and returns the slot's previous plan for reuse.
    pub(crate) fn begin(&mut self, plan: BatchPlan) -> BatchPlan {
        let ended = (std::mem::take(self.faults.get_mut()), self.fatal.get_mut().take());
        // Errors may contain the user's objects, which must not be dropped under a lock.
        drop(ended);
        *self.damage.get_mut() = DamageTally::default();
        self.bad.clear();
        self.kept = None;
        std::mem::replace(&mut self.plan, plan)
    }

    /// Marks the batch as failed: `error` ends the epoch in its place, unless another error does so already.
    pub(crate) fn fail(&self, error: Error) {
        let mut fatal = self.fatal.lock();
        // Otherwise the error is dropped after the lock is released, because it may contain the user's objects.
        if fatal.is_none() {
            *fatal = Some(error);
        }
    }

    /// Whether it can't be delivered.
    pub(super) fn has_failed(&mut self) -> bool {
        self.fatal.get_mut().is_some()
    }

    /// Takes the error of user code that was interrupted while it worked on the batch. The batch can be filled again
    /// then.
    pub(crate) fn take_interruption(&mut self) -> Option<Error> {
        self.fatal.get_mut().take_if(|error| error.kind() == ErrorKind::Interrupted)
    }

    /// The error that ends the epoch in this batch's place.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.fatal.get_mut().take()
    }

    /// Takes the plan back, so that the batch can be filled again. Rows that were found to be bad stay bad.
    pub(crate) fn take_plan(&mut self) -> BatchPlan {
        let mut plan = std::mem::take(&mut self.plan);
        plan.faults.append(&mut self.bad);
        plan.faults.append(self.faults.get_mut());
        plan
    }
}

impl AsRef<Layout> for Batch {
    fn as_ref(&self) -> &Layout {
        &self.layout
    }
}

/// One batch: `len()` samples. Each tensor is contiguous and row-major, with shape `[samples, ...]`, in one slot of the
/// ring.
///
/// It is an owned lease of the slot: you may keep it, send it to another thread, zip it or return it from a function.
/// Its memory does not change until it drops; then the slot is filled again. Taking and dropping a batch neither copies
/// nor allocates. If you keep more batches than the ring has spare slots, `next` returns [`ErrorKind::Exhausted`];
/// [`DataSet::detach`] copies a batch out of the ring.
pub struct DataSet {
    memory: Memory,
    schema: Arc<Schema>,
    counters: Arc<Counters>,
    bad_records: usize,
}

enum Memory {
    Leased(Lease<Batch>),
    Detached { batch: Box<Batch>, block: Block },
    Replayed(Replayed),
}

/// Where repeated batches wait while nobody uses them.
pub(super) type Home = Mutex<VecDeque<Detached>>;

/// A batch that returns to its home when it drops, so that it can be delivered again.
struct Replayed {
    /// `None` only while it drops.
    batch: Option<Detached>,
    home: Arc<Home>,
}

impl Replayed {
    fn batch(&self) -> &Detached {
        self.batch.as_ref().expect("a batch is there until it drops")
    }
}

impl Drop for Replayed {
    fn drop(&mut self) {
        self.home.lock().extend(self.batch.take());
    }
}

/// A batch in ordinary memory.
pub(super) struct Detached(Box<DataSet>);

impl Detached {
    /// Lends it to the caller until it drops.
    pub(super) fn lend(self, home: &Arc<Home>) -> DataSet {
        let DataSet { schema, counters, bad_records, .. } = &*self.0;
        let (schema, counters, bad_records) = (schema.clone(), counters.clone(), *bad_records);
        let memory = Memory::Replayed(Replayed { batch: Some(self), home: home.clone() });
        DataSet { memory, schema, counters, bad_records }
    }
}

impl DataSet {
    pub(crate) fn new(lease: Lease<Batch>, schema: Arc<Schema>, counters: Arc<Counters>) -> Self {
        let bad_records = lease.payload().bad.len();
        Self { memory: Memory::Leased(lease), schema, counters, bad_records }
    }

    fn batch(&self) -> &Batch {
        match &self.memory {
            Memory::Leased(lease) => lease.payload(),
            Memory::Detached { batch, .. } => batch,
            Memory::Replayed(replayed) => replayed.batch().0.batch(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Leased(lease) => lease.bytes(),
            Memory::Detached { block, .. } => block.as_slice(),
            Memory::Replayed(replayed) => replayed.batch().0.bytes(),
        }
    }

    /// Where its events are recorded, if there is a trace and it comes from the ring.
    pub(crate) fn traced(&self) -> Option<Traced> {
        match (&self.memory, &self.counters.trace) {
            (Memory::Leased(lease), Some(tracer)) => {
                Some(Traced { tracer: tracer.clone(), batch: lease.payload().ticket })
            }
            _ => None,
        }
    }

    /// The slot's bytes from its beginning to the end of the last tensor.
    pub(crate) fn slot_bytes(&self) -> &[u8] {
        &self.bytes()[..self.batch().layout.bytes()]
    }

    /// The first byte of the batch's memory, to pass to another library; [`layout`](Self::layout) says where the
    /// tensors are. The memory may be written as long as the batch lives, but not while a borrow of the batch is read.
    pub fn start(&mut self) -> NonNull<u8> {
        match &mut self.memory {
            Memory::Leased(lease) => lease.start(),
            Memory::Detached { block, .. } => block.start(),
            Memory::Replayed(replayed) => replayed.batch.as_mut().expect("a batch is there until it drops").0.start(),
        }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.batch().layout.rows()
    }

    /// Whether it has no samples, because [`BadRecords::Skip`](crate::settings::BadRecords::Skip) left out all of them.
    /// A training step that divides by the number of samples must check this.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names, roles, types and shapes of the tensors of a sample.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Where the tensors lie.
    pub fn layout(&self) -> &Layout {
        &self.batch().layout
    }

    /// All tensors, in the schema's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorView<'_>> {
        (0..self.schema.tensors().len()).map(|index| self.view(index))
    }

    /// The tensor of this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        Ok(self.view(self.schema.index_of(name)?))
    }

    /// The elements of a tensor of type `f32`, all samples one after another. No copy.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Schema`] for one of another type.
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        self.tensor(name)?.as_slice()
    }

    /// The elements of a tensor of type `i64`, such as class indices. No copy.
    ///
    /// # Errors
    ///
    /// As [`f32`](Self::f32).
    pub fn i64(&self, name: &str) -> Result<&[i64]> {
        self.tensor(name)?.as_slice()
    }

    /// The elements of a tensor, one slice per sample. In a ragged tensor, each slice has the sample's own length.
    ///
    /// ```
    /// # use ringfeed::Loader;
    /// # use ringfeed::field::{Class, Numbers};
    /// # use ringfeed::tensor::Role;
    /// let irises = Loader::open("fixtures/iris-species.csv")?
    ///     .field("flower", Numbers::f32().from([0, 1, 2, 3]))
    ///     .field("species", Class);
    /// let batch = irises.build()?.next().expect("there are samples")?;
    /// for (flower, species) in batch.rows::<f32>("flower")?.zip(batch.i64("species")?) {
    ///     assert_eq!(flower.len(), 4);
    ///     assert!(*species < 3);
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`f32`](Self::f32).
    pub fn rows<T: Element>(&self, name: &str) -> Result<impl ExactSizeIterator<Item = &[T]>> {
        let index = self.schema.index_of(name)?;
        let (elements, layout) = (self.view(index).as_slice::<T>()?, self.layout());
        Ok((0..self.len()).map(move |row| &elements[layout.row_elements(index, row)]))
    }

    /// The one tensor that is a feature.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if there are none or several; use [`DataSet::tensor`] then.
    pub fn features(&self) -> Result<TensorView<'_>> {
        self.only(Role::Feature)
    }

    /// The one tensor that is a label.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if there are none or several; use [`DataSet::tensor`] then.
    pub fn labels(&self) -> Result<TensorView<'_>> {
        self.only(Role::Label)
    }

    fn only(&self, role: Role) -> Result<TensorView<'_>> {
        let mut found = (0..self.schema.tensors().len()).filter(|index| self.schema.tensors()[*index].role == role);
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(self.view(index)),
            _ => {
                let names: Vec<_> =
                    self.schema.tensors().iter().map(|t| format!("{} ({:?})", t.name, t.role)).collect();
                let message =
                    format!("not exactly one {role:?} tensor among {}; ask for one by name", names.join(", "));
                Err(Error::new(ErrorKind::Schema, message))
            }
        }
    }

    fn view(&self, index: usize) -> TensorView<'_> {
        let layout = &self.batch().layout;
        TensorView::new(&self.schema.tensors()[index], layout, index, self.bytes())
    }

    /// Tensor `index`, without the samples that only pad the batch.
    pub(super) fn unpadded(&self, index: usize) -> TensorView<'_> {
        let (view, rows) = (self.view(index), self.len().saturating_sub(self.padding()));
        let elements = rows.checked_sub(1).map_or(0, |last| self.layout().row_elements(index, last).end);
        let first = if view.spec().rows == Rows::Even { rows } else { elements };
        let mut shape = Shape::new(&[first]);
        view.shape()[1..].iter().for_each(|dim| shape.push(*dim));
        TensorView::of_row(view.spec(), shape, &view.bytes()[..elements * view.dtype().bytes()])
    }

    /// The epoch, from 0.
    pub fn epoch(&self) -> u64 {
        self.batch().plan.epoch
    }

    /// The batch's number in its epoch, from 0.
    pub fn index(&self) -> u64 {
        self.batch().plan.index
    }

    /// For each sample, its position in the epoch's order.
    pub fn positions(&self) -> &[u64] {
        self.batch().kept.as_ref().map_or(&self.batch().plan.positions, |kept| &kept.positions)
    }

    /// For each sample, the index of its record in the source.
    pub fn sample_ids(&self) -> &[u64] {
        self.batch().kept.as_ref().map_or(&self.batch().plan.samples, |kept| &kept.samples)
    }

    /// Number of samples at the end that only pad the last batch.
    pub fn padding(&self) -> usize {
        self.batch().kept.as_ref().map_or(self.batch().plan.padding, |kept| kept.padding)
    }

    /// Number of bad records that were left out of this batch, or replaced.
    pub fn bad_records(&self) -> usize {
        self.bad_records
    }

    /// The position of the iterator after this batch: a later run resumes there.
    pub fn state_after(&self) -> State {
        self.batch().after.unwrap_or(State::new(0))
    }

    /// Copies the batch to ordinary memory, outside of the budget, and frees its slot now. The statistics count it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the operating system refuses the memory.
    pub fn detach(self) -> Result<Self> {
        match &self.memory {
            Memory::Leased(_) | Memory::Replayed(_) => self.copy(),
            Memory::Detached { .. } => Ok(self),
        }
    }

    /// The same in a form that can be lent.
    pub(super) fn into_detached(self) -> Result<Detached> {
        Ok(Detached(Box::new(self.detach()?)))
    }

    /// A copy in ordinary memory, outside of the budget. The statistics count it as detached.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the operating system refuses the memory.
    pub fn copy(&self) -> Result<Self> {
        let bytes = self.slot_bytes();
        let mut block = AnonymousPages.allocate(bytes.len())?;
        block.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        let from = self.batch();
        let plan = BatchPlan {
            epoch: from.plan.epoch,
            index: from.plan.index,
            key: from.plan.key,
            positions: from.plan.positions.clone(),
            samples: from.plan.samples.clone(),
            padding: from.plan.padding,
            end: from.plan.end,
            ..BatchPlan::default()
        };
        let layout = from.layout.clone();
        let batch = Batch { plan, layout, kept: from.kept.clone(), after: from.after, ..Batch::default() };
        self.counters.detached.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            memory: Memory::Detached { batch: Box::new(batch), block },
            schema: self.schema.clone(),
            counters: self.counters.clone(),
            bad_records: self.bad_records,
        })
    }
}

impl fmt::Debug for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataSet(epoch {}, batch {}, {} samples", self.epoch(), self.index(), self.len())?;
        for tensor in self.tensors() {
            write!(f, ", {}: {} {:?}", tensor.name(), tensor.dtype(), tensor.shape())?;
        }
        f.write_str(")")
    }
}
