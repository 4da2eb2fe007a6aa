use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::dataset::{DataSet, DataSetIterator};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Schema;
use crate::transform::Operation;
use crate::tree::no_faults;

use super::Device;
use super::aboard::Aboard;
use super::batch::DeviceDataSet;
use super::convert::Conversion;
use super::exchange::ended;
use super::iterator::DeviceDataSetIterator;
use super::lane::{LONGEST_WAIT, Lane, LaneConfig};
use super::plan::Plan;
use super::stats::{self, UploadStats};

/// Settings of an upload stage.
///
/// ```
/// use ringfeed::Loader;
/// use ringfeed::device::{HostDevice, Upload};
///
/// let device = HostDevice::new();
/// let loader = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(50);
/// let mut batches = Upload::to(device.clone()).start(loader.build()?)?;
/// let step = ringfeed::device::Device::stream(&device)?;
/// for batch in batches.epoch()? {
///     let batch = batch?;
///     let on = batch.on(&step)?; // the stream `step` goes on after the copy
///     on.run(|tensors| assert_eq!(tensors[0].len(), 50 * 4 * 4))?;
/// } // the batch's place is written again after what `step` was given
/// # Ok::<(), ringfeed::Error>(())
/// ```
///
/// A batch that is uploaded can no longer be used on the host:
///
/// ```compile_fail,E0382
/// # fn main() -> ringfeed::Result<()> {
/// # let mut batches = ringfeed::Loader::csv("fixtures/iris.csv").build()?;
/// let mut uploader = ringfeed::device::Upload::to(ringfeed::device::HostDevice::new()).uploader(batches.schema())?;
/// let batch = batches.next().unwrap()?;
/// let uploaded = uploader.upload(batch)?;
/// println!("{:?}", batch.features()?.bytes()); // moved into the upload, which may be reading it now
/// # Ok(())
/// # }
/// ```
///
/// and neither can data that was borrowed from it before:
///
/// ```compile_fail,E0505
/// # fn main() -> ringfeed::Result<()> {
/// # let mut batches = ringfeed::Loader::csv("fixtures/iris.csv").build()?;
/// let mut uploader = ringfeed::device::Upload::to(ringfeed::device::HostDevice::new()).uploader(batches.schema())?;
/// let batch = batches.next().unwrap()?;
/// let features = batch.features()?;
/// let uploaded = uploader.upload(batch)?;
/// println!("{:?}", features.bytes());
/// # Ok(())
/// # }
/// ```
///
/// and a tensor on the device can't outlive its batch:
///
/// ```compile_fail,E0505
/// # fn main() -> ringfeed::Result<()> {
/// # let device = ringfeed::device::HostDevice::new();
/// # let mut batches = ringfeed::device::Upload::to(device.clone()).start(ringfeed::Loader::csv("fixtures/iris.csv").build()?)?;
/// # let step = ringfeed::device::Device::stream(&device)?;
/// let batch = batches.next().unwrap()?;
/// let on = batch.on(&step)?;
/// drop(batch);
/// println!("{}", on.features()?.address());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Upload<D: Device> {
    devices: Vec<D>,
    lane: LaneConfig,
    operations: Vec<Operation>,
}

impl<D: Device> Upload<D> {
    /// Uploads to one device.
    pub fn to(device: D) -> Self {
        Self::to_each([device])
    }

    /// Uploads to several devices in turn: batch `n` of an epoch goes to device `n` modulo the number of devices. Each
    /// device has its own upload thread.
    ///
    /// Alternatively, give each device a loader with its own [`Shard`](crate::order::Shard), in one process or in one
    /// process per device.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::device::{HostDevice, Upload};
    /// use ringfeed::order::Shard;
    ///
    /// let iris = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(25).shuffle(1);
    /// let devices = [HostDevice::new(), HostDevice::new()];
    /// let in_turn = Upload::to_each(devices.clone()).start(iris.build()?)?;
    /// assert_eq!(in_turn.count(), 6);
    ///
    /// for (index, device) in (0..).zip(devices) {
    ///     let own = iris.clone().shard(Shard::new(index, 2)?);
    ///     assert_eq!(Upload::to(device).start(own.build()?)?.count(), 3); // in a thread of its own, if you like
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    pub fn to_each(devices: impl IntoIterator<Item = D>) -> Self {
        let wait = Duration::from_secs(10);
        Self {
            devices: devices.into_iter().collect(),
            lane: LaneConfig { slots: 3, queued: 2, lease_wait: wait, close_wait: wait },
            operations: Vec::new(),
        }
    }

    /// Number of slots on each device, which batches are uploaded to in turn. Default: 3, for the batch that the
    /// trainer uses, one that is ready, and one that is being copied.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.lane.slots = slots;
        self
    }

    /// Maximum number of copies in progress per device. Default: 2, so that one follows the other without a gap. Each
    /// holds a slot of the host's ring, in addition to the one that waits for its turn.
    #[must_use]
    pub fn queued(mut self, copies: usize) -> Self {
        self.lane.queued = copies;
        self
    }

    /// Adds a transform that runs on the device, after those so far. It gives the same bits as on the host, but fewer
    /// bytes are copied. [`Loader::upload`](crate::Loader::upload) finds by itself which transforms of its list can run
    /// there.
    ///
    /// A device can run `cast`, `normalise`, `one_hot`, `layout`, `flip` and `dense`. For a tensor of bytes or 16-bit
    /// integers, it can run a `cast` to `f32`, `f16` or `bf16`, a scalar normaliser and further casts. For images of
    /// bytes, it can also run normalisers by channel, `layout` and `flip`. For classes, it can run `one_hot` and a
    /// cast, and for the values of a sparse row `dense` and a cast. For `dense`, a GPU gives other bits than the host
    /// in two cases. If several entries of a row have the same column, the host uses the last one, and a GPU uses any
    /// of them. If a value is NaN, it is 0x7fff in `f16`, where the host keeps its sign and payload.
    ///
    /// A device does not know padding (if samples differ in length, missing elements are computed like a 0), and can't
    /// report bad samples. A number that is not a class becomes zeros. A batch in which the values of a sparse row have
    /// no columns is an error, unless [`Loader::upload`](crate::Loader::upload) found them on the host. Default: every
    /// tensor is uploaded unchanged.
    ///
    /// ```
    /// use ringfeed::device::{Device, HostDevice, Upload};
    /// use ringfeed::read::MemoryReader;
    /// use ringfeed::source::ReaderSource;
    /// use ringfeed::tensor::Role;
    /// use ringfeed::transform::{cast, normalise};
    /// use ringfeed::{AsyncDataSetIterator, DType, Normaliser, Workspace};
    ///
    /// // Depths of 16 bits, in millimetres, as metres.
    /// let depths = MemoryReader::new("depth", Role::Feature, &[2, 2], vec![0u16, 500, 1000, 65535])?;
    /// let batches = AsyncDataSetIterator::new(ReaderSource::new(depths), &Workspace::builder().build()?)?;
    /// let device = HostDevice::new();
    /// let upload = Upload::to(device.clone())
    ///     .transform(cast("depth", DType::F32))
    ///     .transform(normalise("depth", Normaliser::Linear { scale: 0.001, bias: 0.0 }));
    /// let mut batches = upload.start(batches)?;
    /// if let Some(batch) = batches.next().transpose()? {
    ///     assert_eq!(batch.on(&device.stream()?)?.features()?.dtype(), DType::F32);
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn transform(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Converts the tensor of this name on the device, as a table says.
    ///
    /// ```
    /// use ringfeed::device::{Conversion, HostDevice, Upload};
    ///
    /// let image: Conversion = serde_json::from_str(r#"{ "image": "f16", "normalise": "imagenet" }"#).expect("a table");
    /// let upload = Upload::to(HostDevice::new()).convert("image", image);
    /// ```
    #[must_use]
    pub fn convert(mut self, tensor: impl AsRef<str>, conversion: Conversion) -> Self {
        self.operations.extend(conversion.of(tensor.as_ref()));
        self
    }

    /// The transforms for the device.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether transforms for the device were given.
    pub(crate) fn has_transforms(&self) -> bool {
        !self.operations.is_empty()
    }

    /// The devices.
    pub(crate) fn devices(&self) -> &[D] {
        &self.devices
    }

    /// How long `next` waits when the caller holds every device slot. Default: 10 s.
    #[must_use]
    pub fn lease_wait(mut self, time: Duration) -> Self {
        self.lane.lease_wait = time.min(LONGEST_WAIT);
        self
    }

    /// How long `reset`, `seek` and dropping wait for work in progress. Default: 10 s.
    #[must_use]
    pub fn close_wait(mut self, time: Duration) -> Self {
        self.lane.close_wait = time.min(LONGEST_WAIT);
        self
    }

    /// Begins to upload the batches of `batches`, ahead of the trainer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for invalid settings, [`ErrorKind::Device`] if a device refuses.
    pub fn start(&self, batches: impl DataSetIterator + 'static) -> Result<DeviceDataSetIterator<D>> {
        let lanes = self.lanes(batches.schema())?;
        DeviceDataSetIterator::new(Box::new(batches), lanes, self.lane.close_wait)
    }

    /// An upload stage without an iterator, for your own batches of this schema. For one device.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn uploader(&self, schema: &Schema) -> Result<Uploader<D>> {
        let mut lanes = self.lanes(schema)?;
        match (lanes.pop(), lanes.is_empty()) {
            (Some(lane), true) => Ok(Uploader { lane, aboard: Aboard::new() }),
            _ => Err(Error::new(ErrorKind::Config, "an uploader has one device; make one for each")),
        }
    }

    fn lanes(&self, schema: &Schema) -> Result<Vec<Lane<D>>> {
        no_faults(self.faults())?;
        let plan = Arc::new(Plan::new(schema, &self.operations)?);
        (0..)
            .zip(&self.devices)
            .map(|(nth, device)| Lane::start(device.clone(), nth, plan.clone(), self.lane))
            .collect()
    }

    fn faults(&self) -> Vec<String> {
        let checks = [
            (!self.devices.is_empty(), "devices: the list is empty; name at least one"),
            ((1..=64).contains(&self.lane.slots), "slots: a device has 1 to 64 of them"),
            ((1..=64).contains(&self.lane.queued), "queued: 1 to 64 copies may be in progress"),
        ];
        checks.iter().filter(|(is_right, _)| !is_right).map(|(_, fault)| (*fault).to_owned()).collect()
    }
}

impl<D: Device> From<D> for Upload<D> {
    fn from(device: D) -> Self {
        Self::to(device)
    }
}

/// Uploads batches one by one, for a loop of your own; [`Upload::start`] wraps a whole iterator.
pub struct Uploader<D: Device> {
    lane: Lane<D>,
    aboard: Arc<Aboard>,
}

impl<D: Device> Uploader<D> {
    /// Starts the copy of `batch`, and returns the batch on the device. The slot on the host is free again when the
    /// copy is done, even if you do not wait for it. Sleeps while the maximum number of copies is in progress.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exhausted`] if the caller holds every device slot for `lease_wait`, [`ErrorKind::Device`] if the
    /// device refuses. The batch is then dropped.
    pub fn upload(&mut self, batch: DataSet) -> Result<DeviceDataSet<D>> {
        self.lane.wait_for_slot()?;
        let state = batch.state_after();
        self.lane.exchange().load(0, Some((Ok(self.aboard.take(batch)), state)));
        self.lane.next()?.map_or_else(|| Err(ended()), |(batch, _)| batch)
    }

    /// Statistics so far.
    pub fn stats(&self) -> UploadStats {
        stats::read(std::iter::once(&**self.lane.counters()), 0.0)
    }
}

impl<D: Device> fmt::Debug for Uploader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uploader({})", self.lane.device.name())
    }
}
