use crate::dataset::{Opened, Source, Transformed};
use crate::device::{Device, DeviceDataSetIterator, Upload, split};
use crate::error::Result;
use crate::prefetch::Workspace;

use super::{Loader, MemoryKind};

impl Loader {
    /// The batches on a device, uploaded ahead of the trainer, in a workspace of their own, whose memory is what the device
    /// copies from fastest unless the settings say otherwise.
    ///
    /// Of the list of transforms as much of the end as the device can do is done there, on fewer bytes that travel, and to the
    /// same bits: which transforms these can be, says [`Upload::transform`]. What comes before, and what may look at any tensor,
    /// such as functions of your own, is done in the workers. If `to` itself says what the device does, the loader's whole list
    /// is done on the host before it.
    ///
    /// ```
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

    /// As [`upload`](Self::upload), in a workspace that it shares with others.
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
        if to.has_transforms() || list.is_empty() {
            return to.start(self.build_in(workspace)?);
        }
        let source = self.read_by(workspace.budget(), false)?;
        let is_async = source.async_supported();
        let opened = source.open()?;
        let (on_host, on_device) = split(list, opened.filler.schema())?;
        for operation in on_device {
            to = to.transform(operation);
        }
        let source = Box::new(Transformed::new(Ready { opened, is_async }, on_host));
        to.start(self.batches_of(source, workspace)?)
    }
}

/// A source that is open already.
struct Ready {
    opened: Opened,
    is_async: bool,
}

impl Source for Ready {
    fn open(self: Box<Self>) -> Result<Opened> {
        Ok(self.opened)
    }

    fn async_supported(&self) -> bool {
        self.is_async
    }
}
