//! Images to a device, beside the trainer's step: bytes travel, the device normalises them, and nobody waits for a
//! copy.
//!
//! `cargo run --release -p upload_images -- --help` lists the settings. It runs on the host device, where a stream is
//! a thread and candle computes on it. On a GPU the program is the same with `CudaDevice::open(0)` in place of
//! `HostDevice::new()`, and the step gives `on.features()?.address()` to kernels on its stream in place of the closure.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use candle_core::{Device as Candle, Tensor};
use clap::Parser;
use ringfeed::device::{Device, DeviceDataSetIterator, HostDevice, HostStream, copy_rate};
use ringfeed::transform::{cast, normalise};
use ringfeed::{DType, Loader, Normaliser};

/// Upload images and compute with them at the same time.
#[derive(Parser)]
struct Args {
    /// Folder of images
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/photos"))]
    data: PathBuf,
    /// Passes over the images
    #[arg(long, default_value_t = 10)]
    epochs: u64,
    /// Images a batch
    #[arg(long, default_value_t = 8)]
    batch_size: usize,
    /// Side of the square that images are resized to
    #[arg(long, default_value_t = 128)]
    size: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let device = HostDevice::new();
    let loader = Loader::images(&args.data)
        .size(args.size, args.size)
        .transform(cast("image", DType::F32))
        .transform(normalise("image", Normaliser::imagenet()))
        .batch_size(args.batch_size)
        .shuffle(1);
    let mut batches = loader.upload(device.clone())?;

    let step = device.stream()?;
    let model = Arc::new(Model::new()?);
    let loading = epochs(&mut batches, &args, &step, None)?;
    let before = batches.upload_stats();
    let both = epochs(&mut batches, &args, &step, Some(&model))?;
    let uploaded = batches.upload_stats().since(&before);

    let computing = model.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
    println!("load and upload alone  {loading:.3} s");
    println!("compute alone          {computing:.3} s, as it ran beside the rest");
    println!("both together          {both:.3} s: {:.3} s are hidden", loading + computing - both);
    println!("device waited          {:.1} % of the time", 100.0 * (1.0 - computing / both).max(0.0));
    let bytes = (uploaded.bytes / uploaded.batches.max(1)) as usize;
    let plain = copy_rate(&device, &device.pages(), bytes, 64)?;
    println!("uploaded               {:.3} GB/s", uploaded.bytes as f64 / both / 1e9);
    println!("plain copies reach     {:.3} GB/s with batches of {bytes} bytes", plain / 1e9);
    println!("mean activation        {:.4}", model.mean());
    Ok(())
}

/// Seconds of all epochs, until the stream has done all its work.
fn epochs(
    batches: &mut DeviceDataSetIterator<HostDevice>,
    args: &Args,
    step: &HostStream,
    model: Option<&Arc<Model>>,
) -> Result<f64, Box<dyn Error>> {
    let begin = Instant::now();
    for epoch in batches.epochs(args.epochs) {
        for batch in epoch? {
            let batch = batch?;
            // From here on the stream is behind the copy; this thread is not.
            let on = batch.on(step)?;
            let shape = on.features()?.shape().to_vec();
            if let Some(model) = model.cloned() {
                on.run(move |tensors| model.step(tensors[0], &shape).expect("tensors that fit"))?;
            }
        } // The batch's slot is copied to again when the stream has computed with it.
    }
    step.synchronize()?;
    Ok(begin.elapsed().as_secs_f64())
}

/// What stands for a model: one convolution.
struct Model {
    weights: Tensor,
    nanoseconds: AtomicU64,
    /// Sum of the means, as a count of millionths, and how many there are.
    millionths: AtomicU64,
    steps: AtomicU64,
}

impl Model {
    fn new() -> candle_core::Result<Self> {
        let weights = Tensor::arange(0f32, 8.0 * 27.0, &Candle::Cpu)?.affine(0.01, -1.0)?.reshape((8, 3, 3, 3))?;
        Ok(Self { weights, nanoseconds: AtomicU64::new(0), millionths: AtomicU64::new(0), steps: AtomicU64::new(0) })
    }

    fn step(&self, images: &[u8], shape: &[usize]) -> candle_core::Result<()> {
        let begin = Instant::now();
        // candle can't borrow memory: one copy on the device.
        let images = Tensor::from_slice(bytemuck::cast_slice::<u8, f32>(images), shape, &Candle::Cpu)?;
        let mean = images.conv2d(&self.weights, 1, 2, 1, 1)?.relu()?.mean_all()?.to_scalar::<f32>()?;
        self.millionths.fetch_add((f64::from(mean) * 1e6) as u64, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn mean(&self) -> f64 {
        self.millionths.load(Ordering::Relaxed) as f64 / 1e6 / self.steps.load(Ordering::Relaxed).max(1) as f64
    }
}
