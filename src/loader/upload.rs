use crate::dataset::{OpenedSource, Source, Transformed};
use crate::device::{Conversion, Device, DeviceDataSetIterator, DeviceName, Upload, split};
use crate::error::Result;
use crate::prefetch::Workspace;
use crate::transform::Operation;

use super::{Loader, MemoryKind, RunPlan};

impl Loader {
    /// Uploads the batches to a device, ahead of the trainer. The iterator has its own workspace, in memory from which
    /// the device copies fastest, unless the settings say otherwise.
    ///
    /// The end of the list of transforms runs on the device, as far as the device gives the same bits, so that fewer
    /// bytes are copied. [`Upload::transform`] lists the transforms that can run there, and two exceptions for `dense`. All transforms before it run in
    /// the workers, and so do those that may read any tensor, such as your own functions. If `to` itself has
    /// transforms, the loader's whole list runs on the host before them. The host then also finds samples whose numbers
    /// are not classes for the device's `one_hot`, or whose values have no columns for its `dense`, and these are bad
    /// records.
    ///
    #[cfg_attr(feature = "images", doc = "```")]
    #[cfg_attr(not(feature = "images"), doc = "```ignore")]
    /// use ringfeed::device::{Device, HostDevice};
    /// use ringfeed::transform::{cast, normalise};
    /// use ringfeed::{DType, Loader, Normaliser};
    ///
    /// let device = HostDevice::new();
    /// let loader = Loader::images("fixtures/images")
    ///     .size(32, 32)
    ///     .transform(cast("image", DType::F16))
    ///     .transform(normalise("image", Normaliser::imagenet()))
    ///     .batch_size(4);
    /// let on_host = loader.build()?.next().expect("there are images")?;
    /// let mut uploaded = loader.upload(device.clone())?; // bytes travel: half of what 16-bit numbers are
    /// let batch = uploaded.next().expect("there are images")?;
    /// let image = batch.on(&device.stream()?)?;
    /// assert_eq!(image.tensor("image")?.to_host()?, on_host.tensor("image")?.bytes());
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build) and [`Upload::start`].
    pub fn upload<D: Device>(&self, to: impl Into<Upload<D>>) -> Result<DeviceDataSetIterator<D>> {
        let (to, mut builder) = (to.into(), self.workspace_builder()?);
        if let (MemoryKind::Anonymous, [device, ..]) = (&self.config.memory.kind, to.devices()) {
            builder = builder.pages(device.pages());
        }
        self.upload_in(to, &builder.build()?)
    }

    /// As [`upload`](Self::upload), in a workspace that is shared with other iterators.
    ///
    /// # Errors
    ///
    /// As [`upload`](Self::upload).
    pub fn upload_in<D: Device>(
        &self,
        to: impl Into<Upload<D>>,
        workspace: &Workspace,
    ) -> Result<DeviceDataSetIterator<D>> {
        let mut to = to.into();
        let list = self.list();
        let is_checked =
            |operation: &Operation| matches!(operation, Operation::OneHot { .. } | Operation::Dense { .. });
        let is_checked = to.operations().iter().any(is_checked);
        if !is_checked && (to.has_transforms() || list.is_empty()) {
            return to.start(self.build_in(workspace)?);
        }
        let source = self.read_by(workspace.budget(), false)?;
        let is_async = source.async_supported();
        let opened = source.open()?;
        let (on_host, on_device) = match to.has_transforms() {
            true => (list.checking(to.operations(), opened.filler.schema())?, Vec::new()),
            false => split(list, opened.filler.schema())?,
        };
        for operation in on_device {
            to = to.transform(operation);
        }
        let source = Box::new(Transformed::new(Ready { opened, is_async }, on_host));
        to.start(self.batches_of(source, workspace)?)
    }

    /// As [`plan`](Self::plan), for a run whose batches are [uploaded](Self::upload) to a device that
    /// [converts](Upload::convert) these tensors. The device is not opened, and need not exist.
    ///
    #[cfg_attr(feature = "images", doc = "```")]
    #[cfg_attr(not(feature = "images"), doc = "```ignore")]
    /// use ringfeed::device::DeviceName;
    /// use ringfeed::transform::cast;
    /// use ringfeed::{DType, Loader};
    ///
    /// let loader = Loader::images("fixtures/images").size(32, 32).transform(cast("image", DType::F16)).batch_size(4);
    /// let plan = loader.plan_upload(DeviceName::Cuda(0), [])?;
    /// assert_eq!(plan.tensors.expect("all of one size")[0].dtype, DType::F16);
    /// assert_eq!(plan.slot_bytes.map(|bytes| bytes < 4 * 3 * 32 * 32 * 2), Some(true)); // bytes travel
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`upload`](Self::upload), as far as they are found without the device and without reading the data.
    pub fn plan_upload(
        &self,
        device: DeviceName,
        convert: impl IntoIterator<Item = (String, Conversion)>,
    ) -> Result<RunPlan> {
        let operations: Vec<Operation> =
            convert.into_iter().flat_map(|(tensor, conversion)| conversion.of(&tensor)).collect();
        self.planned(Some((device, &operations)))
    }
}

/// A source that is already open.
struct Ready {
    opened: OpenedSource,
    is_async: bool,
}

impl Source for Ready {
    fn open(self: Box<Self>) -> Result<OpenedSource> {
        Ok(self.opened)
    }

    fn async_supported(&self) -> bool {
        self.is_async
    }
}
