//! Trains a classifier on the MNIST digits, fed by the `AsyncDataSetIterator`, and tests it through the same workspace.
//!
//! `cargo run --release -p train_mnist -- --help` lists the settings.

use std::error::Error;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, loss};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use ringfeed::arrays::{IdxOptions, IdxReader};
use ringfeed::field::{Class, Numbers};
use ringfeed::order::RandomKey;
use ringfeed::source::{ReaderSource, Transformed};
use ringfeed::transform::{Transforms, normalise};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{DataSet, Normaliser, Workspace};

/// Train a classifier on the MNIST digits and test it.
#[derive(Parser)]
struct Args {
    /// Folder with the four original IDX files
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mnist"))]
    data: PathBuf,
    /// Passes over the 60,000 training digits
    #[arg(long, default_value_t = 3)]
    epochs: u64,
    /// Digits a batch
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// Seed of the shuffle and of the first weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Threads that make batches [default: one for each core]
    #[arg(long)]
    workers: Option<usize>,
    /// Finished batches that may wait for the trainer
    #[arg(long, default_value_t = 2)]
    prefetch: usize,
    /// Make batches without prefetch, on the trainer's own thread
    #[arg(long)]
    shield: bool,
}

const PIXELS: usize = 28 * 28;
const HIDDEN: usize = 256;
const DIGITS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let mut builder = Workspace::builder().prefetch(args.prefetch);
    if let Some(workers) = args.workers {
        builder = builder.workers(workers);
    }
    let workspace = builder.build()?;

    let digits = |set: &str| -> ringfeed::Result<ReaderSource> { digits(&args.data, set, args.batch_size) };
    // The mean and deviation that are customary for MNIST.
    let standard = Normaliser::Standardise { axis: None, mean: vec![33.318], deviation: vec![78.567] };
    let iterate = |source: ReaderSource| {
        let source = Transformed::new(source, Transforms::new().with(normalise("features", standard.clone())));
        if args.shield { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }
    };
    let mut train = iterate(digits("train")?.shuffle(args.seed))?;
    let mut test = iterate(digits("t10k")?)?;

    let model = Model::new(RandomKey::new(args.seed))?;
    let mut optimizer = AdamW::new(model.variables(), ParamsAdamW { lr: 1e-3, ..ParamsAdamW::default() })?;
    let progress = Progress::new(args.epochs * train.batches_per_epoch().unwrap_or(0));
    let mut final_loss = 0.0;
    let mut training = Duration::ZERO;
    for epoch in 0..args.epochs {
        let begin = Instant::now();
        let mut losses = 0.0;
        let mut samples = 0;
        for batch in train.epoch()? {
            let batch = batch?;
            let (images, labels) = tensors(&batch)?;
            let loss = loss::cross_entropy(&model.forward(&images)?, &labels)?;
            optimizer.backward_step(&loss)?;
            losses += f64::from(loss.to_scalar::<f32>()?) * batch.len() as f64;
            samples += batch.len();
            progress.step();
        }
        training += begin.elapsed();
        final_loss = losses / samples as f64;
        progress.line(&format!("epoch {}/{}: loss {final_loss:.4}", epoch + 1, args.epochs));
    }
    let ring_bytes = workspace.ring().bytes;

    let (mut right, mut tested) = (0u32, 0);
    for batch in &mut test {
        let batch = batch?;
        let (images, labels) = tensors(&batch)?;
        let answers = model.forward(&images)?.argmax(D::Minus1)?.to_dtype(DType::I64)?;
        right += answers.eq(&labels)?.to_dtype(DType::U32)?.sum_all()?.to_scalar::<u32>()?;
        tested += batch.len();
    }
    progress.finish();

    let (stats, ring) = (train.stats(), workspace.ring());
    assert_eq!(ring.bytes, ring_bytes, "testing takes no batch memory of its own");
    let seconds = training.as_secs_f64();
    println!("final loss: {final_loss}");
    println!("test accuracy: {:.2} %", 100.0 * f64::from(right) / tested as f64);
    println!("samples/s: {:.0}", stats.samples as f64 / seconds);
    println!("trainer waited for data: {:.2} % of the time", 100.0 * stats.trainer.wait_seconds / seconds);
    println!("ring: {} slots, {} bytes, {} regrown, {} spilled", ring.slots, ring.bytes, ring.regrown, ring.spilled);
    Ok(())
}

/// The digits of one set.
fn digits(folder: &Path, set: &str, batch_size: usize) -> ringfeed::Result<ReaderSource> {
    let (images, options) = (folder.join(format!("{set}-images-idx3-ubyte.gz")), IdxOptions::default());
    let images = IdxReader::open_as(images, "features", Numbers::f32(), &options)?;
    let labels = folder.join(format!("{set}-labels-idx1-ubyte.gz"));
    let labels = IdxReader::open_as(labels, "labels", Class, &options)?;
    Ok(ReaderSource::new(images).and(labels).batch_size(batch_size))
}

fn tensors(batch: &DataSet) -> Result<(Tensor, Tensor), Box<dyn Error>> {
    let images = Tensor::from_slice(batch.features()?.as_slice::<f32>()?, (batch.len(), PIXELS), &Device::Cpu)?;
    let labels = Tensor::from_slice(batch.labels()?.as_slice::<i64>()?, batch.len(), &Device::Cpu)?;
    Ok((images, labels))
}

/// Two layers, with weights that are a function of the seed.
struct Model {
    weights: Vec<Var>,
    hidden: Linear,
    output: Linear,
}

impl Model {
    fn new(key: RandomKey) -> candle_core::Result<Self> {
        let layer = |number: u64, inputs: usize, outputs: usize| {
            let bound = (6.0 / inputs as f64).sqrt();
            let key = key.with(number);
            let values: Vec<f32> =
                (0..inputs * outputs).map(|i| ((2.0 * key.unit(i as u64) - 1.0) * bound) as f32).collect();
            let weight = Var::from_vec(values, (outputs, inputs), &Device::Cpu)?;
            let bias = Var::zeros(outputs, DType::F32, &Device::Cpu)?;
            let linear = Linear::new(weight.as_tensor().clone(), Some(bias.as_tensor().clone()));
            candle_core::Result::Ok((linear, [weight, bias]))
        };
        let (hidden, first) = layer(0, PIXELS, HIDDEN)?;
        let (output, second) = layer(1, HIDDEN, DIGITS)?;
        Ok(Self { weights: first.into_iter().chain(second).collect(), hidden, output })
    }

    fn variables(&self) -> Vec<Var> {
        self.weights.clone()
    }

    fn forward(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        self.output.forward(&self.hidden.forward(images)?.relu()?)
    }
}

/// A bar on a terminal, plain lines in a pipe.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new(batches: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} batches, {eta} left");
            ProgressBar::new(batches).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self(bar)
    }

    fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    fn line(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
