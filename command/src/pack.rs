use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ringfeed::formats::Formats;
use ringfeed::pack::{Manifest, Pack, PackInto, PackProgress};
use ringfeed::settings::SourceConfig;
use ringfeed::{Error, ErrorKind, LoaderConfig, Result};
use serde::Serialize;

use crate::args::PackArgs;
use crate::config::at_path;
use crate::ending::Ending;
use crate::output::{Report, lossy};
use crate::progress::style;
use crate::table::{count, duration, one_line, things};
use crate::verify::{INTERRUPTED, all_parts};

/// Number of records that were left out and are named in JSON, and in text.
const NAMED: usize = 100;
const LISTED: usize = 10;

/// What was packed, or how far it came.
#[derive(Serialize)]
pub(crate) struct Packed {
    path: String,
    out: String,
    /// Absent where it was stopped.
    manifest: Option<Manifest>,
    /// The first records that were left out.
    #[serde(serialize_with = "all_parts")]
    bad: Vec<Error>,
    ok: bool,
    seconds: f64,
}

/// The source of settings that have a single one; `done` says what is done with it.
///
/// # Errors
///
/// [`ErrorKind::Config`] if there are others, or none.
pub(crate) fn only_source(config: LoaderConfig, done: &str) -> Result<SourceConfig> {
    let [source] = <[_; 1]>::try_from(config.sources).map_err(|sources: Vec<_>| {
        let message = format!("names {} sources; one is {done} at a time", sources.len());
        Error::new(ErrorKind::Config, message)
    })?;
    Ok(source)
}

pub(crate) fn pack(args: &PackArgs, formats: &Formats, ending: &Ending) -> Result<Packed> {
    let begin = Instant::now();
    let source = match &args.config {
        None => formats.whole(&args.path)?,
        Some(file) => {
            let config = LoaderConfig::load_with(file, formats)?;
            let config = at_path(config, Some(&args.path), formats, |path| Ok(vec![formats.whole(path)?]))?;
            check_alone(&config).map_err(|error| error.at_path(file))?;
            only_source(config, "packed").map_err(|error| error.at_path(file))?
        }
    };
    let into = if args.parquet { PackInto::Parquet } else { PackInto::Tar };
    let mut pack = Pack::new(source, into).fields(args.fields.iter().cloned());
    pack = pack.skip_fields(args.skip_fields.iter().cloned()).text(args.text.iter().cloned());
    if let Some(mib) = args.shard_mib {
        pack = pack.shard_bytes(mib << 20);
    }
    if let Some(threads) = args.workers {
        pack = pack.threads(threads);
    }
    if args.skip_bad {
        pack = pack.skip_bad();
    }
    if args.restart {
        pack = pack.restart();
    }
    let bar = bar();
    let watch = Once::new();
    let mut bad = Vec::new();
    let show = |progress: PackProgress| {
        // A second signal ends the process as ever.
        watch.call_once(|| {
            ending.be_patient();
            bar.set_length(progress.total);
            bar.set_style(style("{bar:40} {human_pos}/{things}, {rate}, {eta} left{msg}", "record"));
        });
        bar.set_position(progress.records);
        bar.set_message(format!(", {}", things(progress.shards, "shard")));
        if ending.is_told() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let packed = pack.run_naming(&args.out, show, |error| {
        if bad.len() < NAMED {
            bad.push(error);
        }
    });
    bar.finish_and_clear();
    let manifest = match packed {
        Ok(manifest) => Some(manifest),
        Err(error) if error.kind() == ErrorKind::Interrupted => None,
        Err(error) => return Err(error),
    };
    let (path, out, ok) = (lossy(&args.path), lossy(&args.out), manifest.is_some());
    Ok(Packed { path, out, manifest, bad, ok, seconds: begin.elapsed().as_secs_f64() })
}

/// All records are packed, with all their fields or those that `--fields` names: settings that say otherwise are not
/// passed over.
fn check_alone(config: &LoaderConfig) -> Result<()> {
    let default = LoaderConfig::default();
    let has_fields = |source: &SourceConfig| !source.fields.is_empty();
    let others = [
        ("fields", config.fields != default.fields || config.sources.iter().any(has_fields)),
        ("prepared", config.prepared != default.prepared),
        ("prepare", config.prepare != default.prepare),
        ("normalise", config.normalise != default.normalise),
        ("transforms", config.transforms != default.transforms),
        ("augment", config.augment != default.augment),
        ("mix", config.mix != default.mix),
        ("shuffle", config.shuffle != default.shuffle),
        ("shuffle_blocks", config.shuffle_blocks != default.shuffle_blocks),
        ("bucket", config.bucket != default.bucket),
        ("stratify", config.stratify != default.stratify),
        ("group", config.group != default.group),
        ("split", config.split != default.split),
        ("folds", config.folds != default.folds),
        ("windows", config.windows != default.windows),
        ("sequences", config.sequences != default.sequences),
        ("filter", config.filter != default.filter),
        ("class_balanced", config.class_balanced != default.class_balanced),
        ("weight_by", config.weight_by != default.weight_by),
        ("samples_per_epoch", config.samples_per_epoch != default.samples_per_epoch),
        ("shard", config.shard != default.shard),
        ("bad_records", config.bad_records != default.bad_records),
    ];
    let Some((name, _)) = others.iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
    let message = format!(
        "{name}: pack uses only the format and options of the source, and packs all records; remove {name}; choose \
         fields by --fields, --skip-fields and --text, and leave bad records out by --skip-bad"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// A bar on a terminal; nothing in a pipe.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length().with_style(style("{spinner} opening", "record"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Report for Packed {
    fn text(&self, _: usize) -> String {
        let (path, out) = (one_line(&self.path), one_line(&self.out));
        let Some(manifest) = &self.manifest else {
            return format!("{path}: stopped; the same command resumes after the last finished shard in {out}\n");
        };
        let Manifest { records, skipped, bytes, shards, .. } = manifest;
        let shards = things(shards.len() as u64, "shard");
        let mut text = format!(
            "{path}: {} in {shards} of {} bytes, {out} ({})\n",
            things(*records, "record"),
            count(*bytes),
            duration(self.seconds)
        );
        if *skipped > 0 {
            text += &format!("  {} left out\n", things(*skipped, "bad record"));
        }
        for error in self.bad.iter().take(LISTED) {
            text += &format!("  {}\n", one_line(&error.to_string()));
        }
        text
    }

    fn status(&self) -> u8 {
        if self.ok { 0 } else { INTERRUPTED }
    }
}
