//! What runs while a loader is open: its iterator, on the host or with an upload to a device.

use std::sync::Arc;
use std::time::Duration;

use ringfeed::device::{Conversion, CudaDevice, DeviceDataSetIterator, DeviceName, HostDevice, Upload};
use ringfeed::inspect::BadRecord;
use ringfeed::order::State;
use ringfeed::report::Report;
use ringfeed::settings::MemoryKind;
use ringfeed::stats::StatsHandle;
use ringfeed::tensor::Schema;
use ringfeed::{DataSet, DataSetIterator, Error, ErrorKind, Loader, Result, Workspace};

use crate::device::{Lends, OnDevice};
use crate::fork;

/// Where batches go, and how their tensors are converted.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) device: DeviceName,
    pub(crate) conversions: Vec<(String, Conversion)>,
}

/// Buffers on a device in addition to those of kept batches: one for the current batch, one that is ready, one that is
/// being copied to.
const OTHER_PLACES: usize = 3;

/// Maximum number of batches that may be kept on a device.
pub(crate) const MOST_HELD: usize = 64 - OTHER_PLACES;

pub(crate) struct Running {
    pub(crate) batches: Box<dyn Batches>,
    pub(crate) workspace: Workspace,
    /// After the last batch that was delivered.
    pub(crate) state: State,
    /// What comes next, if it is known already: it could not be delivered, or nobody has asked for it yet.
    pub(crate) spare: Option<Result<Made>>,
    pub(crate) generation: u64,
}

/// A batch, on the host or on a device.
pub(crate) enum Made {
    Host(DataSet),
    Device(Box<dyn OnDevice>),
}

impl Made {
    /// The loader's position after it.
    pub(crate) fn state_after(&self) -> State {
        match self {
            Self::Host(batch) => batch.state_after(),
            Self::Device(batch) => batch.facts().after,
        }
    }

    /// The batch in separate memory; `None` if the batch itself has separate memory now. After an error it is
    /// unchanged.
    pub(crate) fn copied(&mut self) -> Result<Option<Self>> {
        match self {
            Self::Host(batch) => Ok(Some(Self::Host(batch.copy()?))),
            Self::Device(batch) => batch.detach().map(|()| None),
        }
    }

    /// Bytes of its memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Host(batch) => batch.layout().bytes() as u64,
            Self::Device(batch) => batch.bytes() as u64,
        }
    }
}

/// An iterator, for batches on the host or on a device.
pub(crate) trait Batches: Send {
    fn ready_within(&mut self, time: Duration) -> bool;
    fn next(&mut self) -> Option<Result<Made>>;
    fn reset(&mut self) -> Result<()>;
    fn seek(&mut self, state: &State) -> Result<()>;
    /// The schema of a batch, where it is.
    fn schema(&self) -> &Arc<Schema>;
    fn state(&self) -> State;
    fn batches_per_epoch(&self) -> Option<u64>;
    fn stats_handle(&self) -> StatsHandle;
    fn bad_records(&mut self) -> Vec<BadRecord>;
    fn report(&self) -> Report;
}

macro_rules! batches {
    ($made:expr) => {
        fn ready_within(&mut self, time: Duration) -> bool {
            self.0.ready_within(time)
        }

        fn next(&mut self) -> Option<Result<Made>> {
            Some(self.0.next()?.map($made))
        }

        fn reset(&mut self) -> Result<()> {
            self.0.reset()
        }

        fn seek(&mut self, state: &State) -> Result<()> {
            self.0.seek(state)
        }

        fn state(&self) -> State {
            self.0.state()
        }

        fn batches_per_epoch(&self) -> Option<u64> {
            self.0.batches_per_epoch()
        }

        fn stats_handle(&self) -> StatsHandle {
            self.0.stats_handle()
        }

        fn bad_records(&mut self) -> Vec<BadRecord> {
            self.0.bad_records()
        }

        fn report(&self) -> Report {
            self.0.report()
        }
    };
}

struct OfHost(Box<dyn DataSetIterator>);

impl Batches for OfHost {
    batches!(Made::Host);

    fn schema(&self) -> &Arc<Schema> {
        self.0.schema()
    }
}

struct OfDevice<D: Lends>(DeviceDataSetIterator<D>);

impl<D: Lends> Batches for OfDevice<D> {
    batches!(|batch| Made::Device(Box::new(batch)));

    fn schema(&self) -> &Arc<Schema> {
        self.0.device_schema()
    }
}

impl Running {
    /// Opens the device and the loader. `hold` batches may be kept in addition to the current one, unless the batches
    /// are made in another loader's workspace, which sets this number.
    pub(crate) fn open(
        loader: &Loader,
        hold: usize,
        target: Option<&Target>,
        shared: Option<Workspace>,
    ) -> Result<Self> {
        let Some(target) = target else {
            let own = || loader.workspace_builder()?.hold(hold).build();
            let workspace = shared.map_or_else(own, Ok)?;
            let batches = Box::new(OfHost(loader.build_in(&workspace)?));
            return Ok(Self::new(batches, workspace));
        };
        match target.device {
            DeviceName::Host => Self::upload(loader, hold, target, HostDevice::new()),
            DeviceName::Cuda(ordinal) => Self::upload(loader, hold, target, CudaDevice::open(ordinal)?),
            other => Err(Error::new(ErrorKind::Unsupported, format!("{other}: not from Python"))),
        }
    }

    fn upload<D: Lends>(loader: &Loader, hold: usize, target: &Target, device: D) -> Result<Self> {
        let mut workspace = loader.workspace_builder()?;
        if loader.config().memory.kind == MemoryKind::Anonymous {
            workspace = workspace.pages(device.pages());
        }
        let workspace = workspace.build()?;
        let upload = Upload::to(device).slots(hold + OTHER_PLACES);
        let convert =
            |upload: Upload<D>, (name, conversion): &(String, Conversion)| upload.convert(name, conversion.clone());
        let upload = target.conversions.iter().fold(upload, convert);
        Ok(Self::new(Box::new(OfDevice(loader.upload_in(upload, &workspace)?)), workspace))
    }

    fn new(batches: Box<dyn Batches>, workspace: Workspace) -> Self {
        let state = batches.state();
        Self { batches, workspace, state, spare: None, generation: fork::generation() }
    }

    pub(crate) fn reset(&mut self) -> Result<()> {
        self.spare = None;
        self.batches.reset()?;
        self.state = self.batches.state();
        Ok(())
    }

    pub(crate) fn seek(&mut self, state: &State) -> Result<()> {
        self.batches.seek(state)?;
        self.spare = None;
        self.state = self.batches.state();
        Ok(())
    }
}
