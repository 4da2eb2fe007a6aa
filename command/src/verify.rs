use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ringfeed::formats::{Formats, Raw};
use ringfeed::inspect::{VerifiedPart, VerifyProgress, VerifyReport, verify_with};
use ringfeed::settings::SourceConfig;
use ringfeed::stats::DamageStats;
use ringfeed::{Error, ErrorKind, LoaderConfig, Result};
use serde::{Serialize, Serializer};

use crate::args::VerifyArgs;
use crate::config::at_path;
use crate::ending::Ending;
use crate::loader::loader;
use crate::output::{ErrorParts, Report, lossy};
use crate::progress::style;
use crate::table::{count, damages, duration, one_line, things};

/// The exit status of what a person stopped (Ctrl-C), as shells have it: 128 and the signal's number.
pub(crate) const INTERRUPTED: u8 = 130;

/// All that is bad in a data set.
#[derive(Serialize)]
pub(crate) struct Verification {
    path: String,
    format: String,
    checked: VerifiedPart,
    samples: u64,
    bad_samples: u64,
    #[serde(serialize_with = "all_parts")]
    bad: Vec<Error>,
    damaged: u64,
    damage: Vec<DamageStats>,
    #[serde(serialize_with = "parts")]
    ended_by: Option<Error>,
    ok: bool,
    seconds: f64,
}

pub(crate) fn all_parts<S: Serializer>(errors: &[Error], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(ErrorParts::of))
}

fn parts<S: Serializer>(error: &Option<Error>, serializer: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(ErrorParts::of).serialize(serializer)
}

/// Reads everything.
pub(crate) fn run(args: &VerifyArgs, formats: &Formats, ending: &Ending) -> Result<Verification> {
    let begin = Instant::now();
    let config = match args.raw.options() {
        Some(options) => {
            let path = args.path.clone().unwrap_or_default();
            Some(LoaderConfig {
                workers: args.workers.map(Into::into),
                ..LoaderConfig::new(SourceConfig::new(Raw, path, options))
            })
        }
        None => args.config.as_deref().map(|file| settings(file, args, formats)).transpose()?,
    };
    let bar = bar();
    let watch = Once::new();
    let show = |progress: VerifyProgress| {
        // Before anything is found, the signal ends the process as ever; and a second one always does.
        watch.call_once(|| ending.be_patient());
        if let (Some(total), None) = (progress.total, bar.length()) {
            bar.set_length(total);
            bar.set_style(style("{bar:40} {human_pos}/{things}, {rate}, {eta} left{msg}", "sample"));
        }
        bar.set_position(progress.samples);
        if progress.bad > 0 {
            bar.set_message(format!(", {} bad", count(progress.bad)));
        }
        if ending.is_told() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let (path, format, report) = match config.filter(|config| !config.sources.is_empty()) {
        Some(config) => {
            let names: Vec<&str> = config.sources.iter().map(|source| source.format()).collect();
            let path = args.path.as_deref().unwrap_or(config.sources[0].path()).to_owned();
            (path, names.join(" + "), loader(config, formats).verify(show)?)
        }
        None => {
            // Without a source in the file, clap has seen to it that there is a path, or this says what is missing.
            let path = args.path.clone().unwrap_or_default();
            let format = formats.whole(&path)?.kind().to_owned();
            let report = verify_with(&path, formats, args.workers.unwrap_or_else(cores), show)?;
            (path, format, report)
        }
    };
    bar.finish_and_clear();
    let ok = report.is_ok();
    let VerifyReport { checked, samples, bad_samples, bad, damaged, damage, ended_by, .. } = report;
    let seconds = begin.elapsed().as_secs_f64();
    let path = lossy(&path);
    Ok(Verification { path, format, checked, samples, bad_samples, bad, damaged, damage, ended_by, ok, seconds })
}

/// What the file says, of the data at PATH.
fn settings(file: &Path, args: &VerifyArgs, formats: &Formats) -> Result<LoaderConfig> {
    let config = LoaderConfig::load_with(file, formats)?;
    let plain = |path: &Path| Ok(LoaderConfig::for_path_with(path, formats)?.sources);
    let mut config = at_path(config, args.path.as_deref(), formats, plain)?;
    if args.path.is_none() && config.sources.is_empty() {
        let message = "names no source, so give a PATH beside it";
        return Err(Error::new(ErrorKind::Config, message).at_path(file));
    }
    config.workers = args.workers.map(Into::into).or(config.workers);
    Ok(config)
}

/// A bar on a terminal; nothing in a pipe.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length().with_style(style("{spinner} {things}, {rate}{msg}", "sample"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Report for Verification {
    fn text(&self, _: usize) -> String {
        let path = one_line(&self.path);
        let Self { format, samples, bad_samples, .. } = self;
        let mut text = match (bad_samples, self.checked) {
            (0, VerifiedPart::Form) => format!("{path}: {format}, {} read, none malformed", things(*samples, "sample")),
            (0, _) => format!("{path}: {format}, {} read, none bad", things(*samples, "sample")),
            (bad, _) => format!("{path}: {format}, {} read, {} bad", things(*samples, "sample"), count(*bad)),
        };
        text += &format!(" ({})\n", duration(self.seconds));
        if self.checked == VerifiedPart::Form && self.ok {
            text += "  checked: the number of fields and the encoding of each record\n  not checked: whether a loader accepts the \
                     values (`verify --config SETTINGS` checks that)\n";
        }
        for error in &self.bad {
            text += &format!("  {}\n", one_line(&error.to_string()));
        }
        match bad_samples - self.bad.len() as u64 {
            0 => {}
            more => text += &format!("  and {} more that are not listed\n", count(more)),
        }
        if self.damaged > 0 {
            text += &format!("  loaded in spite of damage: {}\n", damages(self.damaged, &self.damage));
        }
        if self.status() == INTERRUPTED {
            text += "  stopped before the end\n";
        } else if let Some(error) = &self.ended_by {
            text += &format!("  nothing could be read from here on: {}\n", one_line(&error.to_string()));
        }
        text
    }

    fn status(&self) -> u8 {
        match &self.ended_by {
            Some(error) if error.kind() == ErrorKind::Interrupted => INTERRUPTED,
            _ => u8::from(!self.ok),
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}
