//! How fast batches come to a device: on a CUDA device if there is one and the feature `cuda` is on, otherwise on the
//! host device, whose "link" is the host's own memory. `benches/gpu.sh` runs it on a GPU machine.

mod common;

use std::time::{Duration, Instant};

use common::{Case, Options, Table};
use ringfeed::device::{Device, DeviceDataSetIterator, HostDevice, Upload, convert_rate, copy_rate};
use ringfeed::error::Location;
use ringfeed::images::PixelOrder;
use ringfeed::memory::AnonymousPages;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::source::ReaderSource;
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{cast, layout, normalise};
use ringfeed::{AsyncDataSetIterator, DType, Normaliser, Result, Workspace};

const COPIES: &str = "\
Bytes a second to the device, for batches of one tensor that cost nothing to load. Plain copies come from two buffers, two \
queued: of page-locked memory, and of ordinary memory. The upload takes batches from a ring in page-locked memory and \
drops them at once. `pin each` allocates page-locked memory for each batch, copies it, and frees it, as code without a ring \
does.";

const BYTES: &str = "\
Images of 224 x 224 a second to the device, 64 to a batch, as 32-bit numbers from the host or as bytes that are normalised \
on the device. Nothing is decoded.";

const KERNELS: &str = "\
The conversion of bytes, interleaved, to planes of numbers, alone: bytes read and written a second.";

const OVERLAP: &str = "\
An epoch whose loader waits L ms a batch, whose copies take C ms alone, and whose trainer waits for the copy and then S ms. \
Ideal is the largest of the three a batch. The trainer waited: from asking for a batch until it was on the device. Device \
memory is counted from the second epoch on.";

/// Batches whose loading takes a given time, and writes nothing.
struct Blank {
    tensors: Vec<TensorSpec>,
    len: u64,
    time: Duration,
}

impl RecordReader for Blank {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, _: &mut RowMut<'_>) -> Result<()> {
        if !self.time.is_zero() {
            std::thread::sleep(self.time);
        }
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

fn blank(dtype: DType, shape: &[usize], len: u64, time: Duration) -> Blank {
    Blank { tensors: vec![TensorSpec::new("x", Role::Feature, dtype, shape)], len, time }
}

fn start<D: Device>(device: &D, reader: Blank, batch: usize, upload: &Upload<D>) -> Result<DeviceDataSetIterator<D>> {
    let workspace = Workspace::builder().workers(1).prefetch(2).pages(device.pages()).build()?;
    upload.start(AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(batch), &workspace)?)
}

/// Seconds of one epoch, and of those that the trainer waited; `step` is the trainer's.
fn epoch<D: Device>(uploaded: &mut DeviceDataSetIterator<D>, step: Duration) -> Result<(f64, f64)> {
    uploaded.reset()?;
    let (begin, mut waited) = (Instant::now(), Duration::ZERO);
    let mut ask = begin;
    let mut last = None;
    for batch in uploaded.by_ref() {
        let batch = batch?;
        if !step.is_zero() {
            batch.wait()?;
            waited += ask.elapsed();
            std::thread::sleep(step);
        }
        last = Some(batch);
        ask = Instant::now();
    }
    // Copies are done in order.
    last.map_or(Ok(()), |batch| batch.wait())?;
    Ok((begin.elapsed().as_secs_f64(), waited.as_secs_f64()))
}

fn main() -> Result<()> {
    let Some(options) = Options::from_args(5) else { return Ok(()) };
    #[cfg(feature = "cuda")]
    match ringfeed::device::CudaDevice::open(0) {
        Ok(device) => return run(&options, &device, 1 << 30),
        Err(error) if std::env::var_os("RINGFEED_REQUIRE_GPU").is_some() => return Err(error),
        Err(error) => println!("skipped: no device ({error})\n"),
    }
    run(&options, &HostDevice::new(), 64 << 20)
}

/// `bytes`: about what one figure copies.
fn run<D: Device>(options: &Options, device: &D, bytes: usize) -> Result<()> {
    println!("Device: {}\n", device.name());
    copies(options, device, bytes)?;
    bytes_or_numbers(options, device, bytes)?;
    kernels(options, device, bytes);
    overlap(options, device)
}

fn copies<D: Device>(options: &Options, device: &D, bytes: usize) -> Result<()> {
    let gb = 1e9;
    let names = &[
        ("plain locked GB/s", 2),
        ("plain ordinary GB/s", 2),
        ("upload GB/s", 2),
        ("upload / plain", 3),
        ("pin each GB/s", 2),
    ];
    let mut table = Table::new(COPIES, &["MB"], names);
    let mut cases = Vec::new();
    for mb in [1, 8, 32, 128] {
        let (size, count) = (mb << 20, (bytes / (mb << 20)).clamp(8, 128));
        let mut uploaded =
            start(device, blank(DType::U8, &[size], count as u64, Duration::ZERO), 1, &Upload::to(device.clone()))?;
        uploaded.by_ref().for_each(drop);
        cases.push(Case::new(&[&mb], move || {
            let locked = copy_rate(device, &device.pages(), size, count).expect("plain copies") / gb;
            let ordinary = copy_rate(device, &AnonymousPages, size, count).expect("plain copies") / gb;
            let (seconds, _) = epoch(&mut uploaded, Duration::ZERO).expect("an epoch");
            let upload = (size * count) as f64 / seconds / gb;
            let begin = Instant::now();
            for _ in 0..8 {
                copy_rate(device, &device.pages(), size, 1).expect("a plain copy");
            }
            // Each allocates two blocks and copies three times: as much memory and work as one and a half batches.
            let pinned = 12.0 * size as f64 / begin.elapsed().as_secs_f64() / gb;
            vec![locked, ordinary, upload, upload / locked, pinned]
        }));
    }
    table.measure(options.rounds, cases);
    table.print(options);
    Ok(())
}

fn bytes_or_numbers<D: Device>(options: &Options, device: &D, bytes: usize) -> Result<()> {
    const IMAGES: usize = 64;
    let mut table =
        Table::new(BYTES, &["from the host", "on the device"], &[("images/s", 0), ("copied MB a batch", 1)]);
    let mut cases = Vec::new();
    let ways = [
        ("f32", "as it is", None),
        ("u8", "f32", Some(DType::F32)),
        ("u8", "f16", Some(DType::F16)),
        ("u8", "bf16", Some(DType::Bf16)),
    ];
    for (from, to, conversion) in ways {
        let (dtype, shape) = match conversion {
            None => (DType::F32, [3, 224, 224]),
            Some(_) => (DType::U8, [224, 224, 3]),
        };
        let batch_bytes = IMAGES * 224 * 224 * 3 * dtype.bytes();
        let batches = (bytes / (IMAGES * 224 * 224 * 3)).clamp(8, 128);
        let mut upload = Upload::to(device.clone());
        if let Some(to) = conversion {
            upload = upload
                .transform(cast("x", to))
                .transform(layout("x", PixelOrder::Nchw))
                .transform(normalise("x", Normaliser::imagenet()));
        }
        let reader = blank(dtype, &shape, (IMAGES * batches) as u64, Duration::ZERO);
        let mut uploaded = start(device, reader, IMAGES, &upload)?;
        uploaded.by_ref().for_each(drop);
        cases.push(Case::new(&[&from, &to], move || {
            let (seconds, _) = epoch(&mut uploaded, Duration::ZERO).expect("an epoch");
            vec![(IMAGES * batches) as f64 / seconds, batch_bytes as f64 / 1e6]
        }));
    }
    table.measure(options.rounds, cases);
    println!();
    table.print(options);
    Ok(())
}

fn kernels<D: Device>(options: &Options, device: &D, bytes: usize) {
    let mut table = Table::new(KERNELS, &["to", "images"], &[("GB/s", 1)]);
    let mut cases = Vec::new();
    for (name, to, size) in [("f32", DType::F32, 4), ("f16", DType::F16, 2), ("bf16", DType::Bf16, 2)] {
        let images = bytes / (224 * 224 * 3 * (1 + size));
        cases.push(Case::new(&[&name, &images], move || {
            vec![convert_rate(device, to, images, 224, 20).expect("conversions") / 1e9]
        }));
    }
    table.measure(options.rounds, cases);
    println!();
    table.print(options);
}

fn overlap<D: Device>(options: &Options, device: &D) -> Result<()> {
    const BATCHES: u64 = 40;
    const SIZE: usize = 64 << 20;
    let alone = SIZE as f64 / copy_rate(device, &device.pages(), SIZE, 16)?;
    let figures =
        &[("C ms", 2), ("ideal ms", 1), ("epoch ms", 1), ("ideal / epoch", 3), ("trainer waited %", 2), ("taken", 0)];
    let mut table = Table::new(OVERLAP, &["L ms", "S ms"], figures);
    let mut cases = Vec::new();
    // In multiples of the copy's time: loader, copy and trainer are the longest in turn; the last trainer is the one
    // that a loader should never keep waiting.
    for (load, step) in [(0.0, 0.5), (0.5, 2.0), (2.0, 0.5), (2.0, 2.0), (0.0, 4.0)] {
        let time = |multiple: f64| Duration::from_secs_f64(multiple * alone);
        let reader = blank(DType::U8, &[SIZE], BATCHES, time(load));
        let mut uploaded = start(device, reader, 1, &Upload::to(device.clone()))?;
        uploaded.by_ref().for_each(drop);
        let taken = uploaded.upload_stats().grown;
        let ms = |multiple: f64| format!("{:.2}", 1e3 * multiple * alone);
        cases.push(Case::new(&[&ms(load), &ms(step)], move || {
            let (seconds, waited) = epoch(&mut uploaded, time(step)).expect("an epoch");
            let ideal = BATCHES as f64 * alone * load.max(step).max(1.0);
            let taken = (uploaded.upload_stats().grown - taken) as f64;
            vec![1e3 * alone, 1e3 * ideal, 1e3 * seconds, ideal / seconds, 100.0 * waited / seconds, taken]
        }));
    }
    table.measure(options.rounds, cases);
    println!();
    table.print(options);
    Ok(())
}
