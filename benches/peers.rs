//! One workload of the comparison with other loaders, in one process: `benches/peers.sh` has it called by the program
//! that calls the others too, so that all meet the same machine. It prints one line of JSON.
//!
//! Workloads: `image-{train,eval}-{u8,f32}`, `csv`, `csv-mixed`, `fixed-{u8,f32}`, `tokens`, `wav`, `parquet`,
//! `parquet-zstd`, `parquet-shuffled`, `jsonl`, `tfrecord`, `tfrecord-images`, `png`, `png-small`, `jpeg-large`,
//! `jpeg-progressive`, over a folder of data made for all of them. What a workload gives is what the others give: the
//! same tensors, element types and shapes, checked in the first batch.
//!
//! A variant is a change of the settings, `--set KEY=VALUE`: of the loader, as `--set shuffle=7`, or of its sources'
//! options, as `--set options.jpeg=libjpeg_turbo`. The value is JSON, or else text. `--tar` reads images from tar
//! archives.
//!
//! `--settings` prints the settings instead, for the same workload in another language (`python/benches`), and `--make
//! FOLDER` makes a small folder of data for images, `csv`, `fixed-f32` and `tokens`.
//!
//! It does three epochs: one to warm up, one that is measured (`--epochs` of them: the median counts), and one with a
//! consumer that sleeps `--consumer-ms` after each batch. Nothing is read ahead across their borders.

#[path = "common/machine.rs"]
mod machine;
#[path = "common/made.rs"]
mod made;
#[path = "common/photos.rs"]
mod photos;
#[path = "common/workloads.rs"]
mod workloads;

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::thread::sleep;
use std::time::{Duration, Instant};

use machine::{cores, cpu_seconds};
use ringfeed::storage::Mapping;
use ringfeed::{DataSetIterator, Error, ErrorKind, Loader, Result};
use serde_json::{Value, json};
use workloads::Workload;

const USAGE: &str = "usage: peers --data FOLDER --workload NAME [--batch N] [--workers N] [--consumer-ms MS] \
                     [--epochs N] [--tar] [--set KEY=VALUE].. [--settings], or peers --make FOLDER";

struct Args {
    workload: Workload,
    epochs: usize,
    consumer: Duration,
    /// Whether to print the settings, and measure nothing.
    prints: bool,
}

fn main() -> Result<()> {
    let Some(args) = args() else { return Ok(()) };
    if args.prints {
        println!("{}", args.workload.settings());
        return Ok(());
    }
    let line = measure(&args)?;
    println!("{line}");
    Ok(())
}

/// `None` where nothing is asked for, as when all benchmarks are run.
fn args() -> Option<Args> {
    let (mut data, mut name, mut tar, mut prints) = (None, None, false, false);
    let (mut batch, mut workers, mut epochs, mut consumer_ms) = (None, cores(), 1, 0.0);
    let mut settings = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--tar" {
            tar = true;
            continue;
        }
        if word == "--settings" {
            prints = true;
            continue;
        }
        if word == "--bench" || word == "--test" {
            continue;
        }
        let value = words.next().unwrap_or_else(|| usage(&format!("{word} needs a value")));
        match word.as_str() {
            "--make" => {
                made::make_data(Path::new(&value)).unwrap_or_else(|error| usage(&format!("{value}: {error}")));
                return None;
            }
            "--data" => data = Some(PathBuf::from(value)),
            "--workload" => name = Some(value),
            "--batch" => batch = Some(number(&word, &value) as usize),
            "--workers" => workers = number(&word, &value) as usize,
            "--consumer-ms" => consumer_ms = number(&word, &value),
            "--epochs" => epochs = number(&word, &value).max(1.0) as usize,
            "--set" => settings.push(key_value(&value)),
            _ => usage(&format!("unknown argument {word:?}")),
        }
    }
    let (Some(data), Some(name)) = (data, name) else {
        eprintln!("nothing to compare with; benches/peers.sh says how. {USAGE}");
        return None;
    };
    let made = Workload::new(&data, &name, tar).map(|mut workload| {
        workload.set("workers", json!(workers));
        if let Some(batch) = batch {
            workload.set("batch_size", json!(batch));
        }
        settings.into_iter().for_each(|(key, value)| workload.set(&key, value));
        workload
    });
    let workload = made.unwrap_or_else(|fault| usage(&fault));
    Some(Args { workload, epochs, consumer: Duration::from_secs_f64(consumer_ms / 1e3), prints })
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}; {USAGE}");
    exit(2)
}

fn number(name: &str, value: &str) -> f64 {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.unwrap_or_else(|| usage(&format!("{name} takes a number from 0 on, not {value:?}")))
}

fn key_value(text: &str) -> (String, Value) {
    let Some((key, value)) = text.split_once('=') else { usage(&format!("{text:?} is not KEY=VALUE")) };
    (key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)))
}

/// What one epoch took.
struct Epoch {
    seconds: f64,
    samples: u64,
    batches: u64,
    bytes: u64,
    cpu_seconds: f64,
    other_cores: Option<f64>,
}

fn measure(args: &Args) -> Result<Value> {
    let built = Instant::now();
    // SAFETY: nobody changes the data of a benchmark.
    let mut iterator = Loader::from(args.workload.config()?).mapping(unsafe { Mapping::promise() }).build()?;
    let mut first = None;
    let warm = epoch(&mut *iterator, Duration::ZERO, |batch| {
        let ttfb = built.elapsed().as_secs_f64();
        first = Some((ttfb, seconds_since_exec()));
        args.workload.check(batch)
    })?;
    let Some((ttfb, ttfb_process)) = first else {
        return Err(Error::new(ErrorKind::Data, "the workload gives no batch"));
    };
    let before = iterator.stats();
    let mut epochs: Vec<Epoch> =
        (0..args.epochs).map(|_| epoch(&mut *iterator, Duration::ZERO, |_| Ok(()))).collect::<Result<_>>()?;
    let stages = iterator.stats().since(&before).stages;
    epochs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let seconds: Vec<f64> = epochs.iter().map(|epoch| epoch.seconds).collect();
    let median = epochs.swap_remove(epochs.len() / 2);
    let mut line = json!({
        "samples": median.samples,
        "seconds": median.seconds,
        "batches": median.batches,
        "bytes": median.bytes,
        "cpu_seconds": median.cpu_seconds,
        "other_cores": median.other_cores,
        "epochs": seconds,
        "warmup_seconds": warm.seconds,
        "ttfb": ttfb,
        "ttfb_process": ttfb_process,
        "versions": { "ringfeed": env!("CARGO_PKG_VERSION") },
        "stages": stages,
        "ring": iterator.stats().ring,
    });
    if !args.consumer.is_zero() {
        let with = epoch(&mut *iterator, args.consumer, |_| Ok(()))?;
        let sleeping = with.batches as f64 * args.consumer.as_secs_f64();
        line["consumer_ms"] = json!(args.consumer.as_secs_f64() * 1e3);
        line["consumer_seconds"] = json!(with.seconds);
        line["consumer_samples"] = json!(with.samples);
        line["overlap"] = json!(median.seconds.max(sleeping) / with.seconds);
    }
    Ok(line)
}

/// One epoch from its first request to its last batch; `on_first` sees the first batch.
fn epoch(
    iterator: &mut dyn DataSetIterator,
    consumer: Duration,
    on_first: impl FnOnce(&ringfeed::DataSet) -> Result<()>,
) -> Result<Epoch> {
    let before = iterator.stats();
    let (cpu, busy, begin) = (cpu_seconds(), busy_seconds(), Instant::now());
    iterator.reset()?;
    let mut on_first = Some(on_first);
    for batch in &mut *iterator {
        let batch = batch?;
        if let Some(on_first) = on_first.take() {
            on_first(&batch)?;
        }
        if !consumer.is_zero() {
            sleep(consumer);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = cpu_seconds() - cpu;
    let others = busy.zip(busy_seconds()).map(|(before, after)| ((after - before - cpu_seconds) / seconds).max(0.0));
    let stats = iterator.stats().since(&before);
    Ok(Epoch {
        seconds,
        samples: stats.samples,
        batches: stats.batches,
        bytes: stats.bytes,
        cpu_seconds,
        other_cores: others,
    })
}

/// Seconds since this process was started, to a hundredth, if whoever did so says when: in seconds of Linux's
/// `CLOCK_MONOTONIC`, which are those since the machine was started.
fn seconds_since_exec() -> Option<f64> {
    let started: f64 = std::env::var("PEERS_T0").ok()?.parse().ok()?;
    let now: f64 = read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    Some(now - started)
}

/// CPU seconds that all programs together have used, with what the host took away; `None` where Linux does not count.
fn busy_seconds() -> Option<f64> {
    let stat = read_to_string("/proc/stat").ok()?;
    let mut ticks = [0_u64; 8];
    for (tick, field) in ticks.iter_mut().zip(stat.lines().next()?.split_whitespace().skip(1)) {
        *tick = field.parse().ok()?;
    }
    let [_, _, _, idle, waiting, ..] = ticks;
    // Linux shows hundredths of a second, whatever it counts itself.
    Some((ticks.iter().sum::<u64>() - idle - waiting) as f64 / 100.0)
}
