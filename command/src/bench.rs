use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfeed::arrays::RawOptions;
use ringfeed::csv::Missing;
use ringfeed::field::{Image, Numbers};
use ringfeed::formats::{Csv, CsvSequences, Formats, Idx, Npy, Raw, TokenFiles};
use ringfeed::settings::{BadLimits, BadRecords, Mix, OnlySource, Paths, SourceConfig};
use ringfeed::source::Headspace;
use ringfeed::stats::{
    DamageStats, QueueStats, RingStats, SlowSample, StageStats, Stats, Trace, TrainerStats, Tuning, Verdict,
    WorkerStats,
};
use ringfeed::storage::Files;
use ringfeed::tokens::TokenOptions;
use ringfeed::{DType, Error, ErrorKind, LoaderConfig, Result};
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

/// Side of the square that images are resized to unless something else is said.
const IMAGE_SIZE: u32 = 224;

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

/// What the config file says, then what the flags say; and whether the sources are what lies at PATH, with changes so
/// that as much as possible can be measured.
fn settings(args: &BenchArgs, formats: &Formats) -> Result<(LoaderConfig, bool)> {
    let config = match &args.config {
        Some(file) => LoaderConfig::load_with(file, formats)?,
        None => LoaderConfig::default(),
    };
    let has_fields = has_fields(&config);
    let mut is_detected = false;
    let plain = |path: &Path| match told(path, args) {
        Some(source) => Ok(vec![source]),
        None => {
            is_detected = true;
            detected(path, formats)
        }
    };
    let mut config = at_path(config, args.path.as_deref(), formats, plain)?;
    let mut taken = Taken::default();
    for source in &mut config.sources {
        adjust(source, args, has_fields, &mut taken)?;
    }
    if let Some(source) = config.sources.first() {
        taken.check(args, source)?;
    }
    config.batch_size = args.batch_size.unwrap_or(config.batch_size);
    config.workers = args.workers.or(config.workers);
    config.prefetch = args.prefetch.or(config.prefetch);
    // Random windows need a seed.
    config.shuffle = args.shuffle.or(config.shuffle).or(args.window.map(|_| 0));
    config.shield |= args.shield;
    if args.skip_bad && config.bad_records == BadRecords::Fail {
        config.bad_records = BadRecords::Skip(BadLimits::default());
    }
    Ok((config, is_detected))
}

/// Whether the settings say what tensors there are.
fn has_fields(config: &LoaderConfig) -> bool {
    !config.fields.is_empty() || config.prepared.is_some()
}

/// The settings of a file with PATH in place of its only source's, or with what lies there if it names none: without
/// fields, with the sources that `plain` gives.
pub(crate) fn at_path(
    mut config: LoaderConfig,
    path: Option<&Path>,
    formats: &Formats,
    plain: impl FnOnce(&Path) -> Result<Vec<SourceConfig>>,
) -> Result<LoaderConfig> {
    let Some(path) = path else { return resolved(config, formats) };
    let has_fields = has_fields(&config);
    match (&mut config.source, config.sources.as_mut_slice()) {
        (Some(OnlySource::Path(source)), []) => source.path = path.into(),
        (Some(OnlySource::Named(source)), []) => source.set_paths(path),
        (None, [source]) => source.set_paths(path),
        (None, []) if config.mix.is_empty() => {
            config.sources =
                if has_fields { LoaderConfig::for_path_with(path, formats)?.sources } else { plain(path)? };
        }
        _ => find_in(path, &mut config, formats)?,
    }
    // Without a source, there is nothing that fields could be of.
    let is_empty = config.source.is_none() && config.sources.is_empty() && config.mix.is_empty();
    if is_empty { Ok(config) } else { resolved(config, formats) }
}

/// The settings with their formats detected, and with the names of files that they are read with: what was fitted is
/// still in its own.
fn resolved(mut config: LoaderConfig, formats: &Formats) -> Result<LoaderConfig> {
    let (prepared, prepare) = (config.prepared.take(), config.prepare.take());
    Ok(LoaderConfig { prepared, prepare, ..config.resolved_with(formats)? })
}

/// The source that the flags describe, if they do.
fn told(path: &Path, args: &BenchArgs) -> Option<SourceConfig> {
    let (path, raw) = (path.to_owned(), args.raw.options());
    match (args.window, raw) {
        (Some(window), raw) => {
            let mut options = TokenOptions { window, ..TokenOptions::default() };
            if let Some(RawOptions { stored, header_bytes, endian, .. }) = raw {
                options = TokenOptions { stored, header_bytes, endian, ..options };
            }
            Some(SourceConfig::new(TokenFiles, path, options))
        }
        (None, Some(options)) => Some(SourceConfig::new(Raw, path, options)),
        (None, None) => None,
    }
}

/// Sources of what lies at `path`, so that as much as possible can be measured without saying more.
fn detected(path: &Path, formats: &Formats) -> Result<Vec<SourceConfig>> {
    let mut sources = LoaderConfig::for_path_with(path, formats)?.sources;
    set_missing(&mut sources, Missing::Nan);
    for source in &mut sources {
        name_usual_fields(source)?;
        change_images(source, |image| image.size(IMAGE_SIZE, IMAGE_SIZE));
    }
    Ok(sources)
}

/// What missing numbers of CSV files become.
fn set_missing(sources: &mut [SourceConfig], missing: Missing) {
    for source in sources {
        if let Some(options) = source.options_mut::<Csv>() {
            options.missing = missing;
        }
        if let Some(options) = source.options_mut::<CsvSequences>() {
            options.csv.missing = missing;
        }
    }
}

/// Several sources have paths of their own; those that are not there are looked for in `folder` by their names.
fn find_in(folder: &Path, config: &mut LoaderConfig, formats: &Formats) -> Result<()> {
    if !folder.is_dir() {
        let message = "the --config file has several sources, so PATH may only be the folder that holds them";
        return Err(Error::new(ErrorKind::Config, message).at_path(folder));
    }
    // By where each is: its path in the settings, and whether it was moved to the folder.
    let mut places: HashMap<PathBuf, (PathBuf, bool)> = HashMap::new();
    let mut found = |path: &Path| -> Result<PathBuf> {
        let (own, is_moved) = match path.file_name() {
            Some(name) if !is_there(path, formats) => (folder.join(name), true),
            _ => (path.to_owned(), false),
        };
        match places.insert(written::place(&own), (path.to_owned(), is_moved)) {
            Some((other, other_is_moved)) if other != path && (is_moved || other_is_moved) => {
                let message = format!(
                    "{} and {} of the --config file would both be this one; correct these paths, or give the files different names",
                    other.display(),
                    path.display()
                );
                Err(Error::new(ErrorKind::Config, message).at_path(own))
            }
            _ => Ok(own),
        }
    };
    if let Mix::Paths(paths) = &mut config.mix {
        paths.iter_mut().try_for_each(|(path, _)| found(path).map(|own| *path = own))?;
    }
    for source in &mut config.sources {
        source.set_paths(source.paths().iter().map(&mut found).collect::<Result<Paths>>()?);
    }
    Ok(())
}

/// Whether there is a file or folder at a path, or any for a pattern.
fn is_there(path: &Path, formats: &Formats) -> bool {
    let is_pattern = || path.to_str().is_some_and(|text| text.contains(['*', '?', '[', '{']));
    path.exists() || is_pattern() && !matches!(formats.whole(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// The fields that are the usual ones of a source take their place, so that they can be changed.
fn name_usual_fields(source: &mut SourceConfig) -> Result<()> {
    if source.fields.is_empty() {
        source.fields = source.usual_fields(&Files::local())?;
    }
    Ok(())
}

/// Changes the images among the fields of a source; says whether there are any.
fn change_images(source: &mut SourceConfig, change: impl Fn(Image) -> Image) -> bool {
    let mut any = false;
    for image in source.fields.iter_mut().filter_map(|(_, field)| field.image_mut()) {
        *image = change(image.clone());
        any = true;
    }
    any
}

/// Which flags for images and arrays a source has taken.
#[derive(Default)]
struct Taken {
    dtype: bool,
    images: bool,
}

impl Taken {
    /// The error for a flag that none of the sources takes, of which `source` is the first.
    fn check(&self, args: &BenchArgs, source: &SourceConfig) -> Result<()> {
        let message = match args.dtype() {
            _ if !self.images && (args.size.is_some() || args.layout().is_some()) => {
                format!("--size and --layout are for images, but this is {}", source.format())
            }
            Some(dtype) if !self.dtype => format!(
                "--dtype {dtype} is for images, and for arrays without fields; a --config file chooses the types of tensors"
            ),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Config, message).at_path(source.path()))
    }
}

/// What the flags for images and arrays say. With `has_fields`, the settings say what tensors there are.
fn adjust(source: &mut SourceConfig, args: &BenchArgs, has_fields: bool, taken: &mut Taken) -> Result<()> {
    if args.size.is_none() && args.dtype().is_none() && args.layout().is_none() {
        return Ok(());
    }
    if !has_fields {
        name_usual_fields(source)?;
    }
    let has_images = change_images(source, |image| {
        let image = if let Some(size) = args.size { image.size(size, size) } else { image };
        let image = if let Some(dtype) = args.dtype() { image.dtype(dtype) } else { image };
        if let Some(order) = args.layout() { image.order(order) } else { image }
    });
    if has_images {
        (taken.dtype, taken.images) = (true, true);
        return Ok(());
    }
    let Some(dtype) = args.dtype() else { return Ok(()) };
    if source.is::<Idx>() || source.is::<Npy>() || source.is::<Raw>() {
        // Fields say it already, as those of labels do.
        if source.fields.is_empty() && !has_fields {
            source.fields = vec![("features".to_owned(), Numbers::of(dtype).into())];
            taken.dtype = true;
        }
    } else {
        // Number columns are f32 anyway.
        taken.dtype |= dtype == DType::F32 && !source.is::<TokenFiles>();
    }
    Ok(())
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

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
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
