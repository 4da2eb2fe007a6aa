mod settings;

use std::path::Path;
use std::time::{Duration, Instant};

use ringfeed::csv::Missing;
use ringfeed::formats::Formats;
use ringfeed::source::Headspace;
use ringfeed::stats::{
    DamageStats, QueueStats, RingStats, SlowSample, StageStats, Stats, Trace, TrainerStats, Tuning, Verdict,
    WorkerStats,
};
use ringfeed::{Error, ErrorKind, LoaderConfig, Result};
use serde::Serialize;

use crate::args::BenchArgs;
use crate::ending::Ending;
use crate::loader::loader;
use crate::names::{Names, STANDARD_INPUT};
use crate::output::{Report, lossy, plain, while_working};
use crate::table::{count, damages, measured, one_line, things};
use crate::upload::{self, Batches, UploadMeasurement};
use crate::watch::{About, watch};
use crate::written;
use settings::{IMAGE_SIZE, change_images, set_missing, settings};

/// How fast a data set was read, and what limited it.
#[derive(Serialize)]
pub(crate) struct Measurement {
    path: String,
    batch_size: usize,
    workers: usize,
    prefetch: usize,
    shield: bool,
    epochs: u64,
    /// Before all epochs were read, because somebody ended it.
    is_cut_short: bool,
    samples: u64,
    batches: u64,
    bytes: u64,
    seconds: f64,
    samples_per_second: f64,
    /// Of each epoch, so that two runs can be compared with how much each differs from itself.
    epoch_samples_per_second: Vec<f64>,
    by_epoch: Vec<EpochFigures>,
    first_batch_ms: f64,
    trainer_wait_seconds: f64,
    skipped: u64,
    damaged: u64,
    damage: Vec<DamageStats>,
    verdict: Verdict,
    trainer: TrainerStats,
    stages: Vec<StageStats>,
    worker_threads: WorkerStats,
    queue: QueueStats,
    tuning: Option<Tuning>,
    slowest: Vec<SlowSample>,
    /// All figures for a person.
    #[serde(skip)]
    table: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    upload: Option<UploadMeasurement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headspace: Option<Headspace>,
    /// Events that the trace holds, and older ones that it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_events: Option<(u64, u64)>,
    ring: RingStats,
    /// Counted by the memory budget: the ring, row indexes, listings, inflated files, records of streams.
    memory_bytes: u64,
    peak_rss_bytes: Option<u64>,
}

/// What `compare` compares, of one epoch: named as in the figures of all of them.
#[derive(Serialize)]
struct EpochFigures {
    samples_per_second: f64,
    verdict: Waited,
    trainer: TrainerStats,
    stages: Vec<StageStats>,
}

/// The part of the time that the trainer waited.
#[derive(Serialize)]
struct Waited {
    waited: f64,
}

impl EpochFigures {
    fn of(stats: Stats, seconds: f64) -> Self {
        let verdict = Waited { waited: stats.verdict().waited };
        Self {
            samples_per_second: stats.samples as f64 / seconds,
            verdict,
            trainer: stats.trainer,
            stages: stats.stages,
        }
    }
}

/// Reads the data set epoch by epoch.
pub(crate) fn bench(args: &BenchArgs, formats: &Formats, ending: &Ending, names: &Names) -> Result<Measurement> {
    let (config, is_detected) = settings(args, formats)?;
    check_written(args, &config, names)?;
    let trace = args.trace.as_ref().map(Trace::to_file).transpose()?;
    let step = Duration::from_secs_f64(args.step_ms / 1e3);
    let called = Instant::now();
    let own_trace = config.trace.clone().filter(|_| trace.is_none());
    let loader = loader(LoaderConfig { trace: own_trace, ..config.clone() }, formats);
    let mut batches =
        while_working("opening", || upload::batches(&loader, args.device, args.convert(), trace.as_ref()))?;
    #[cfg(feature = "metrics")]
    if let Some(address) = args.metrics {
        let address = ringfeed::stats::serve_metrics(batches.stats_handle(), address)?;
        crate::output::complain(&format!("metrics at http://{address}/metrics"));
    }
    let epochs = args.warmup_epochs.saturating_add(args.epochs);
    let about = About {
        path: lossy(path_of(args, &config)),
        names: names.clone(),
        batches: batches.batches_per_epoch().map(|count| count.saturating_mul(epochs)),
    };
    // From here on there are figures to show.
    ending.be_patient();
    let mut watch = watch(args.live, about, batches.stats_handle(), ending);
    let (mut first_batch, mut is_stopped) = (None, false);
    // Whether somebody has ended the run.
    let mut epoch = |batches: &mut dyn Batches| -> Result<bool> {
        // Before the first batch of all this does nothing.
        batches.reset()?;
        while !is_stopped {
            let step = &mut || {
                first_batch.get_or_insert_with(|| called.elapsed());
                wait(step);
            };
            let Some(stepped) = batches.step(step) else { break };
            stepped?;
            watch.stepped();
            is_stopped = ending.is_told() || watch.is_stopped();
        }
        Ok(is_stopped)
    };
    // Who ends the run while it warms up is told what there was.
    let (mut before, mut begin) = (batches.stats(), Instant::now());
    let mut is_over = false;
    for _ in 0..args.warmup_epochs {
        is_over = epoch(&mut *batches)?;
        if is_over {
            break;
        }
    }
    if !is_over {
        batches.begin();
        (before, begin) = (batches.stats(), Instant::now());
    }
    let mut epochs: Vec<EpochFigures> = Vec::new();
    while !is_over && (epochs.len() as u64) < args.epochs {
        let (before, begin) = (batches.stats(), Instant::now());
        is_over = epoch(&mut *batches)?;
        epochs.push(EpochFigures::of(batches.stats().since(&before), begin.elapsed().as_secs_f64()));
    }
    let rates: Vec<f64> = epochs.iter().map(|epoch| epoch.samples_per_second).collect();
    let elapsed = begin.elapsed();
    drop(watch);
    let stats = batches.stats().since(&before);
    let Some(first_batch) = first_batch else {
        let message = match ending.is_told() {
            true => "the run was ended before its first batch, so there is nothing to show",
            false => "there was no batch, so there is nothing to measure",
        };
        return Err(Error::new(ErrorKind::Data, message).at_path(path_of(args, &config)));
    };
    let seconds = elapsed.as_secs_f64();
    let upload = batches.uploaded(elapsed)?;
    if let Some(file) = &args.report {
        let report = batches.report().stats(stats.clone()).about("batch size", config.batch_size);
        let report = report.about("epochs", args.epochs).about("path", lossy(path_of(args, &config)));
        let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
        let report = report.about(crate::compare::BY_EPOCH, rates.join(" "));
        report.about("step", format!("{} ms", args.step_ms)).save_with(file, |text| names.put_into(text))?;
    }
    let trace = trace.map(|trace| trace.finish().map(|()| trace.counts())).transpose()?;
    if let Some(file) = &args.write_settings {
        let mut config = config.tuned(&stats);
        if is_detected {
            set_missing(&mut config.sources, Missing::Error);
            let has_images = config.sources.iter_mut().any(|source| change_images(source, |image| image));
            if has_images && args.size.is_none() {
                let file = file.display();
                let message =
                    format!("{file} has images of {IMAGE_SIZE} x {IMAGE_SIZE} pixels; choose others by --size");
                crate::output::complain(&message);
            }
        }
        config.save(file)?;
    }
    let headspace = match args.headspace {
        false => None,
        true if is_over => None,
        true => {
            let mut replay = batches.replay(stats.batches)?;
            while let (false, Some(stepped)) = (ending.is_told(), replay.step(&mut || wait(step))) {
                stepped?;
            }
            Some(Headspace::of(&stats, &replay.stats()))
        }
    };
    Ok(Measurement {
        path: lossy(path_of(args, &config)),
        batch_size: config.batch_size,
        workers: if config.shield { config.worker_threads() } else { stats.workers.threads },
        prefetch: if config.shield { config.prefetch_batches() } else { stats.queue.prefetch },
        shield: config.shield,
        epochs: epochs.len() as u64,
        is_cut_short: is_over,
        samples: stats.samples,
        batches: stats.batches,
        bytes: stats.bytes,
        seconds,
        samples_per_second: stats.samples as f64 / seconds,
        epoch_samples_per_second: rates,
        by_epoch: epochs,
        first_batch_ms: first_batch.as_secs_f64() * 1e3,
        trainer_wait_seconds: stats.trainer.wait_seconds,
        skipped: stats.skipped,
        damaged: stats.damaged,
        damage: stats.damage.clone(),
        upload,
        headspace,
        trace_events: trace,
        verdict: stats.verdict(),
        trainer: stats.trainer.clone(),
        stages: stats.stages.clone(),
        worker_threads: stats.workers.clone(),
        queue: stats.queue.clone(),
        tuning: stats.tuning.clone(),
        slowest: stats.slowest.clone(),
        table: stats.to_string(),
        ring: stats.ring,
        memory_bytes: stats.memory_bytes,
        peak_rss_bytes: peak_rss_bytes(),
    })
}

fn path_of<'a>(args: &'a BenchArgs, config: &'a LoaderConfig) -> &'a Path {
    args.path.as_deref().or_else(|| Some(config.sources.first()?.path())).unwrap_or(Path::new(""))
}

/// Refuses files that can't be written when the run is over, or that must not be.
fn check_written(args: &BenchArgs, config: &LoaderConfig, names: &Names) -> Result<()> {
    if let (Some(file), true) = (&args.write_settings, names.are_some()) {
        let message = format!("settings name their files, but {STANDARD_INPUT} is not a file; save it to a file");
        return Err(Error::new(ErrorKind::Config, message).at_path(file));
    }
    let check = |file: &Path, endings: &[&str]| written::check(file, endings, config, args.config.as_deref());
    let flags = [(&args.report, &["html", "json"][..]), (&args.write_settings, &[]), (&args.trace, &[])];
    for (file, endings) in &flags {
        file.as_deref().map_or(Ok(()), |file| check(file, endings))?;
    }
    args.write_settings.as_deref().map_or(Ok(()), |file| written::check_settings(config, file))?;
    let own_trace = config.trace.as_deref().filter(|_| args.trace.is_none());
    own_trace.map_or(Ok(()), |file| check(file, &[])).map_err(|error| match error.kind() {
        ErrorKind::Config => Error::new(ErrorKind::Config, format!("trace: {error}")),
        _ => error,
    })?;
    written::check_apart(flags.iter().filter_map(|(file, _)| file.as_deref()).chain(own_trace))
}

/// The trainer's step, exactly as long as asked for: sleeping alone takes some 0.1 ms more.
fn wait(step: Duration) {
    const SPUN: Duration = Duration::from_micros(300);
    let begin = Instant::now();
    if step > SPUN {
        std::thread::sleep(step - SPUN);
    }
    while begin.elapsed() < step {
        std::hint::spin_loop();
    }
}

/// The most memory that this process ever had, as Linux counts it; `None` elsewhere.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl Report for Measurement {
    fn text(&self, _: usize) -> String {
        let mode = match self.shield {
            true => "shielded".to_owned(),
            false => format!("{}, prefetch {}", things(self.workers as u64, "worker"), self.prefetch),
        };
        let mut text = format!("{}: batches of {}, {mode}\n\n", one_line(&self.path), self.batch_size);
        let mut line = |name: &str, value: String| text += &format!("{name:<16}{value}\n");
        let epochs = things(self.epochs, "epoch");
        line("samples", format!("{} in {}, {epochs}", count(self.samples), things(self.batches, "batch")));
        if self.is_cut_short {
            line("ended", "before all epochs were read; these are the figures so far".to_owned());
        }
        let (time, unit) = if self.seconds < 0.1 { (1e3 * self.seconds, "ms") } else { (self.seconds, "s") };
        line("time", format!("{} {unit}", measured(time)));
        line("speed", format!("{} samples/s, {}/s", rate(self.samples_per_second), bytes(self.bytes_per_second())));
        line("first batch", format!("after {} ms", measured(self.first_batch_ms)));
        if let Some(UploadMeasurement { device, bytes_per_second, plain_bytes_per_second, .. }) = &self.upload {
            let (uploaded, plain) = (bytes(*bytes_per_second), bytes(*plain_bytes_per_second));
            line("upload", format!("to {device}, {uploaded}/s; plain copies of that size reach {plain}/s"));
        }
        if let Some(headspace) = &self.headspace {
            line("headspace", headspace.to_string());
        }
        if let Some((events, dropped)) = self.trace_events {
            line("trace", format!("{}, {} older ones dropped", things(events, "event"), count(dropped)));
        }
        if self.skipped > 0 {
            line("skipped", things(self.skipped, "bad record"));
        }
        if self.damaged > 0 {
            line("damaged", damages(self.damaged, &self.damage));
        }
        let RingStats { slots, slot_bytes, regrown, spilled, .. } = self.ring;
        let slot = bytes(slot_bytes as f64);
        let slots = things(slots as u64, "slot");
        line("ring", format!("{slots} of {slot}, {regrown} regrown, {spilled} spilled"));
        line("counted memory", bytes(self.memory_bytes as f64));
        if let Some(peak) = self.peak_rss_bytes {
            line("peak memory", bytes(peak as f64));
        }
        let sentence = self.verdict.to_string();
        format!("{text}\n{}\n{}\n", plain(&self.table), plain(&sentence))
    }
}

impl Measurement {
    fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// Things per second.
fn rate(number: f64) -> String {
    count(number.round() as u64)
}

fn bytes(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        n if n >= 1e6 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.1} kB", n / 1e3),
    }
}
