//! What `bench` reads from: an iterator, or an upload stage behind one.

use std::time::Duration;

use ringfeed::device::{Device, DeviceDataSetIterator, DeviceName, HostDevice, Upload, UploadStats, copy_rate};
use ringfeed::settings::MemoryKind;
use ringfeed::source::Replay;
use ringfeed::stats::{Stats, StatsHandle, Trace};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{cast, normalise};
use ringfeed::workspace::WorkspaceBuilder;
use ringfeed::{DType, DataSetIterator, Error, ErrorKind, Loader, Normaliser, Result};
use serde::Serialize;

/// How fast batches came to a device.
#[derive(Debug, Serialize)]
pub(crate) struct UploadMeasurement {
    pub(crate) device: String,
    pub(crate) bytes: u64,
    pub(crate) bytes_per_second: f64,
    /// What plain copies of the same size reach, two queued, in the same run.
    pub(crate) plain_bytes_per_second: f64,
    /// Time that the upload waited for the loader while nothing was being copied.
    pub(crate) load_wait_seconds: f64,
    /// Time that it waited for the trainer to drop a batch.
    pub(crate) slot_wait_seconds: f64,
    /// How often device memory was taken.
    pub(crate) grown: u64,
}

/// Batches as a trainer takes them.
pub(crate) trait Batches {
    fn reset(&mut self) -> Result<()>;

    /// Waits for the next batch, holds it for a step of the trainer, and drops it.
    fn step(&mut self, step: &mut dyn FnMut()) -> Option<Result<()>>;

    fn batches_per_epoch(&self) -> Option<u64>;

    /// `batches` batches that are loaded before they are asked for.
    fn replay(&mut self, batches: u64) -> Result<Box<dyn Batches>> {
        let message = format!("{batches} batches can be repeated only if they are not uploaded: leave --device out");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The figures so far.
    fn stats(&self) -> Stats;

    /// The same, for another thread.
    fn stats_handle(&self) -> StatsHandle;

    /// All that is known of the run.
    fn report(&self) -> ringfeed::report::Report;

    /// Begins to measure the upload.
    fn begin(&mut self) {}

    /// Ends it.
    fn uploaded(&self, _elapsed: Duration) -> Result<Option<UploadMeasurement>> {
        Ok(None)
    }
}

/// The loader's batches, on the device if there is one.
pub(crate) fn batches(
    loader: &Loader,
    device: Option<DeviceName>,
    convert: Option<DType>,
    trace: Option<&Trace>,
) -> Result<Box<dyn Batches>> {
    let mut builder = loader.workspace_builder()?;
    if let Some(trace) = trace {
        builder = builder.trace(trace.clone());
    }
    match device {
        None => Ok(Box::new(OnHost(loader.build_in(&builder.build()?)?))),
        Some(DeviceName::Host) => OnDevice::start(loader, builder, HostDevice::new(), convert),
        #[cfg(feature = "cuda")]
        Some(DeviceName::Cuda(ordinal)) => {
            OnDevice::start(loader, builder, ringfeed::device::CudaDevice::open(ordinal)?, convert)
        }
        #[cfg(not(feature = "cuda"))]
        Some(DeviceName::Cuda(ordinal)) => {
            let message =
                format!("cuda:{ordinal}: this ringfeed was built without CUDA; build it with `--features cuda`");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        Some(other) => {
            Err(Error::new(ErrorKind::Unsupported, format!("{other}: a device that this command does not know")))
        }
    }
}

struct OnHost(Box<dyn DataSetIterator>);

impl Batches for OnHost {
    fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }

    fn step(&mut self, step: &mut dyn FnMut()) -> Option<Result<()>> {
        Some(self.0.next()?.map(|batch| {
            step();
            drop(batch);
        }))
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        self.0.batches_per_epoch()
    }

    fn replay(&mut self, batches: u64) -> Result<Box<dyn Batches>> {
        /// Enough that the processor's caches do not hold them all.
        const KEPT: usize = 8;
        Ok(Box::new(OnHost(Box::new(Replay::new(&mut *self.0, KEPT)?.batches(batches)))))
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn stats_handle(&self) -> StatsHandle {
        self.0.stats_handle()
    }

    fn report(&self) -> ringfeed::report::Report {
        self.0.report()
    }
}

struct OnDevice<D: Device> {
    device: D,
    batches: DeviceDataSetIterator<D>,
    before: UploadStats,
}

impl<D: Device> OnDevice<D> {
    fn start(
        loader: &Loader,
        mut builder: WorkspaceBuilder,
        device: D,
        convert: Option<DType>,
    ) -> Result<Box<dyn Batches>> {
        if loader.config().memory.kind == MemoryKind::default() {
            builder = builder.pages(device.pages());
        }
        let workspace = builder.build()?;
        let batches = match convert {
            None => loader.upload_in(device.clone(), &workspace)?,
            Some(to) => Self::converted(loader.build_in(&workspace)?, &device, to)?,
        };
        Ok(Box::new(Self { device, batches, before: UploadStats::default() }))
    }

    /// Images of bytes become numbers from 0 to 1 on the device.
    fn converted(batches: Box<dyn DataSetIterator>, device: &D, to: DType) -> Result<DeviceDataSetIterator<D>> {
        let mut upload = Upload::to(device.clone());
        let is_image =
            |spec: &&TensorSpec| spec.role == Role::Feature && spec.dtype == DType::U8 && spec.shape.len() == 3;
        let images: Vec<_> = batches.schema().tensors().iter().filter(is_image).collect();
        if images.is_empty() {
            let message = "--convert is for images of bytes, and there are none; do not ask for --dtype f32";
            return Err(Error::new(ErrorKind::Config, message));
        }
        for image in images {
            let scale = normalise(&image.name, Normaliser::image_scale());
            upload = upload.transform(cast(&image.name, to)).transform(scale);
        }
        upload.start(batches)
    }
}

impl<D: Device> Batches for OnDevice<D> {
    fn reset(&mut self) -> Result<()> {
        self.batches.reset()
    }

    fn step(&mut self, step: &mut dyn FnMut()) -> Option<Result<()>> {
        let batch = self.batches.next()?;
        Some(batch.and_then(|batch| {
            // A trainer's stream would wait here.
            batch.wait()?;
            step();
            Ok(())
        }))
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        self.batches.batches_per_epoch()
    }

    fn stats(&self) -> Stats {
        self.batches.stats()
    }

    fn stats_handle(&self) -> StatsHandle {
        self.batches.stats_handle()
    }

    fn report(&self) -> ringfeed::report::Report {
        self.batches.report()
    }

    fn begin(&mut self) {
        self.before = self.batches.upload_stats();
    }

    fn uploaded(&self, elapsed: Duration) -> Result<Option<UploadMeasurement>> {
        const PLAIN_BYTES: usize = 1 << 30;
        let stats = self.batches.upload_stats().since(&self.before);
        let bytes = (stats.bytes / stats.batches.max(1)).max(1) as usize;
        Ok(Some(UploadMeasurement {
            device: self.device.name(),
            bytes: stats.bytes,
            bytes_per_second: stats.bytes as f64 / elapsed.as_secs_f64(),
            plain_bytes_per_second: copy_rate(
                &self.device,
                &self.device.pages(),
                bytes,
                (PLAIN_BYTES / bytes).clamp(8, 256),
            )?,
            load_wait_seconds: stats.load_wait_seconds,
            slot_wait_seconds: stats.slot_wait_seconds,
            grown: stats.grown,
        }))
    }
}
