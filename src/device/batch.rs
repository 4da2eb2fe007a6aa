use std::fmt;
use std::sync::Arc;

use crate::counters::{Kind, Tick, Traced};
use crate::dataset::State;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result, nearest};
use crate::schema::{Role, TensorSpec};
use crate::sync::Mutex;

use super::Device;
use super::aboard::HostBatch;
use super::engine::Engine;
use super::exchange::Exchange;
use super::place::Place;
use super::plan::Plan;
use super::slot::{Slot, Traces};

/// The exchange between a lane's thread, the loader and the trainer.
pub(super) type Hands<D> = Exchange<Slot<<D as Device>::Engine>, HostBatch, DeviceDataSet<D>>;

/// One batch on a device, possibly still being copied. Its tensors have shape `[samples, ...]`, row-major.
///
/// Get its tensors with [`on`](Self::on), which orders your stream after the copy, on the device. When the batch drops,
/// on any thread, its memory is reused, but only after all work that your streams were given until then. Dropping does
/// not wait.
pub struct DeviceDataSet<D: Device> {
    device: D,
    slot: Option<Slot<D::Engine>>,
    home: Arc<Hands<D>>,
    plan: Arc<Plan>,
    /// Streams that were ordered after the copy. They belong to the slot, and are kept here while the batch lives.
    traces: Mutex<Traces<D::Engine>>,
    is_held: bool,
    /// It has its own place outside of the slots.
    is_detached: bool,
}

impl<D: Device> DeviceDataSet<D> {
    pub(super) fn new(device: D, mut slot: Slot<D::Engine>, home: Arc<Hands<D>>, plan: Arc<Plan>) -> Self {
        let traces = Mutex::new(std::mem::take(&mut slot.traces));
        Self { device, slot: Some(slot), home, plan, traces, is_held: false, is_detached: false }
    }

    /// Marks the batch as being in the caller's hands.
    pub(super) fn mark_held(&mut self) {
        self.is_held = true;
    }

    /// Where its events are recorded, if there is a trace.
    pub(super) fn traced(&self) -> Option<&Traced> {
        self.slot().about.traced.as_ref()
    }

    fn slot(&self) -> &Slot<D::Engine> {
        self.slot.as_ref().expect("a batch has its slot until it drops")
    }

    /// Orders `stream` after the batch's copy, and returns the tensors for work on that stream.
    ///
    /// Does not wait. Work that `stream` is given until the batch drops may use the tensors. Several streams may use
    /// one batch, each after its own call.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken, or the stream belongs to another device.
    pub fn on(&self, stream: &D::Stream) -> Result<OnStream<'_, D>> {
        let slot = self.slot();
        // Noted last: a stream in the list is ordered already, for other threads, too.
        if !self.traces.lock().know(stream) {
            slot.device.order_after(&slot.ready, stream)?;
            self.traces.lock().add(stream, &slot.device)?;
        }
        Ok(OnStream { batch: self, stream: stream.clone() })
    }

    /// Declares that streams other than those of [`on`](Self::on) use the tensors, such as a framework's internal
    /// streams. The work of these streams until the batch drops is then safe, too. The cost: before the memory is
    /// reused, the upload thread waits for all work of the device.
    pub fn used_elsewhere(&self) {
        self.traces.lock().is_partial = true;
    }

    /// Sleeps until the copy and the conversions are done: for use by the host, or by code without streams.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken.
    pub fn wait(&self) -> Result<()> {
        let since = Tick::now();
        let landed = self.slot().device.block_on(&self.slot().ready);
        self.home.trainer_waited(since);
        if let Some(traced) = self.traced() {
            traced.record(Kind::Wait, traced.tracer.taker(), (since, Tick::now()), 0);
        }
        landed
    }

    /// The device that holds the batch.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.slot().about.positions.len()
    }

    /// Whether it has no samples, because [`BadRecords::Skip`](crate::settings::BadRecords::Skip) left out all of them.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The epoch, from 0.
    pub fn epoch(&self) -> u64 {
        self.slot().about.epoch
    }

    /// The batch's number in its epoch, from 0.
    pub fn index(&self) -> u64 {
        self.slot().about.index
    }

    /// For each sample, its position in the epoch's order.
    pub fn positions(&self) -> &[u64] {
        &self.slot().about.positions
    }

    /// For each sample, the index of its record in the source.
    pub fn sample_ids(&self) -> &[u64] {
        &self.slot().about.samples
    }

    /// Number of samples at the end that only pad the last batch.
    pub fn padding(&self) -> usize {
        self.slot().about.padding
    }

    /// Number of bad records that were left out of this batch, or replaced.
    pub fn bad_records(&self) -> usize {
        self.slot().about.bad_records
    }

    /// The position of the iterator after this batch: a later run resumes there.
    pub fn state_after(&self) -> State {
        self.slot().about.after.unwrap_or(State::new(0))
    }

    /// Bytes of its memory on the device.
    pub fn bytes(&self) -> usize {
        self.slot().bytes()
    }

    /// Lets the batch keep its device memory, and gives the upload stage new memory instead. You may then keep the
    /// batch as long as you like. Copies nothing and does not wait. The memory is freed when the batch drops, after all
    /// work that your streams were given until then.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::device::HostDevice;
    ///
    /// let loader = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(10);
    /// let mut kept = Vec::new();
    /// for batch in loader.upload(HostDevice::new())? {
    ///     let mut batch = batch?;
    ///     batch.detach()?;
    ///     kept.push(batch);
    /// }
    /// assert_eq!(kept.len(), 15); // and there are three places
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken; the batch stays as it is.
    pub fn detach(&mut self) -> Result<()> {
        if self.is_detached {
            return Ok(());
        }
        let slot = self.slot();
        let other = Slot::new(&slot.device, &slot.copies, &slot.converts)?;
        self.is_detached = true;
        self.home.give_back(other, std::mem::take(&mut self.is_held));
        Ok(())
    }

    /// Address of the slot's first byte.
    fn address(&self) -> u64 {
        self.slot().device.address(self.slot().memory())
    }

    /// Name, address, element type and shape of each tensor, in the schema's order. Until the batch drops, only streams
    /// that [`on`](Self::on) was called with may use the memory at an address.
    pub fn places(&self) -> impl Iterator<Item = (&str, u64, DType, &[usize])> {
        let start = self.address();
        self.planned().map(move |(planned, place)| {
            (planned.name.as_str(), start + place.offset as u64, planned.dtype, &*place.shape)
        })
    }

    fn planned(&self) -> impl ExactSizeIterator<Item = (&TensorSpec, &Place)> {
        self.plan.given.tensors().iter().zip(&self.slot().about.places)
    }
}

impl<D: Device> Drop for DeviceDataSet<D> {
    fn drop(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        slot.traces = std::mem::take(&mut *self.traces.lock());
        slot.untraced |= std::mem::take(&mut slot.traces.is_partial);
        for used in &slot.traces.uses {
            slot.untraced |= slot.device.record(&used.end, &used.stream).is_err();
        }
        if !self.is_detached {
            self.home.give_back(slot, self.is_held);
        }
    }
}

impl<D: Device> fmt::Debug for DeviceDataSet<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device().name();
        write!(f, "DeviceDataSet({device}, epoch {}, batch {}, {} samples", self.epoch(), self.index(), self.len())?;
        for (tensor, place) in self.planned() {
            write!(f, ", {}: {} {:?}", tensor.name, tensor.dtype, &place.shape)?;
        }
        f.write_str(")")
    }
}

/// A batch's tensors, for work on one stream that is ordered after the batch's copy.
pub struct OnStream<'a, D: Device> {
    batch: &'a DeviceDataSet<D>,
    stream: D::Stream,
}

impl<D: Device> fmt::Debug for OnStream<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStream").field("batch", &self.batch).field("stream", &self.stream).finish()
    }
}

impl<'a, D: Device> OnStream<'a, D> {
    /// The stream.
    pub fn stream(&self) -> &D::Stream {
        &self.stream
    }

    pub(super) fn memory(&self) -> &'a <D::Engine as Engine>::Memory {
        self.batch.slot().memory()
    }

    /// All tensors, in the schema's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = DeviceTensor<'_, D>> {
        self.batch.planned().map(|(planned, place)| DeviceTensor { on: self, planned, place })
    }

    /// The tensor of this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn tensor(&self, name: &str) -> Result<DeviceTensor<'_, D>> {
        self.tensors().find(|tensor| tensor.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.batch.plan.given.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
            let hint = nearest(name, names.iter().copied()).map(|near| format!("; did you mean {near:?}?"));
            Error::new(ErrorKind::NotFound, format!("no tensor {name:?} among {names:?}{}", hint.unwrap_or_default()))
        })
    }

    /// The one tensor that is a feature.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if there are none or several; use [`OnStream::tensor`] then.
    pub fn features(&self) -> Result<DeviceTensor<'_, D>> {
        self.only(Role::Feature)
    }

    /// The one tensor that is a label.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if there are none or several; use [`OnStream::tensor`] then.
    pub fn labels(&self) -> Result<DeviceTensor<'_, D>> {
        self.only(Role::Label)
    }

    fn only(&self, role: Role) -> Result<DeviceTensor<'_, D>> {
        let mut found = self.tensors().filter(|tensor| tensor.role() == role);
        match (found.next(), found.next()) {
            (Some(tensor), None) => Ok(tensor),
            _ => Err(Error::new(ErrorKind::Schema, format!("not exactly one {role:?} tensor; ask for one by name"))),
        }
    }
}

/// One tensor of a batch on a device. Row-major, without gaps.
pub struct DeviceTensor<'a, D: Device> {
    on: &'a OnStream<'a, D>,
    planned: &'a TensorSpec,
    place: &'a Place,
}

impl<D: Device> fmt::Debug for DeviceTensor<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTensor")
            .field("name", &self.planned.name)
            .field("dtype", &self.planned.dtype)
            .field("shape", &self.place.shape)
            .finish_non_exhaustive()
    }
}

impl<D: Device> DeviceTensor<'_, D> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.planned.name
    }

    /// Its purpose in training.
    pub fn role(&self) -> Role {
        self.planned.role
    }

    /// The class names that its numbers stand for, in index order.
    pub fn classes(&self) -> Option<&[String]> {
        self.planned.classes.as_deref()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.planned.dtype
    }

    /// Shape: `[samples, ...]`.
    pub fn shape(&self) -> &[usize] {
        &self.place.shape
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.place.bytes
    }

    /// Address of its first byte, on the device; a multiple of 256. Only for work on the stream, until the batch drops.
    ///
    /// A framework that can't borrow memory copies from here once, on the stream, within the device.
    pub fn address(&self) -> u64 {
        self.on.batch.address() + self.place.offset as u64
    }

    /// Copies the tensor to the host, after all current work of the stream, and waits for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken.
    pub fn to_host(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.place.bytes];
        self.on.batch.slot().device.copy_out(self.on.memory(), self.place.offset, &mut bytes, &self.on.stream)?;
        Ok(bytes)
    }
}
