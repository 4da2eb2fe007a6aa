//! The `ringfeed` command: look into data sets, and measure how fast they can be read.
//!
//! Its way: `args` (what was typed), `verbose` (what the library says meanwhile), `inspect`, `verify`, `plan`, `fit`,
//! `bench` and `compare` (the work, by the library's public interface alone, to a report), `table` and `output` (a
//! report or an error, for a person or as JSON).

mod args;
mod bench;
mod compare;
mod config;
mod ending;
mod fit;
mod inspect;
mod loader;
mod names;
mod output;
mod pack;
mod plan;
mod progress;
mod record;
mod standard_input;
mod table;
mod upload;
mod verbose;
mod verify;
mod watch;
mod written;

use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
#[cfg(unix)]
use std::sync::{Arc, atomic::AtomicBool};

use ringfeed::formats::Formats;
use ringfeed::{Error, ErrorKind, LoaderConfig, Result};

use args::{Args, Command};
use ending::Ending;
use names::Names;
use output::Report;
use standard_input::{Kept, keep};

/// Does what was typed, the program's name first, and prints to the process's standard output and standard error. The
/// exit status: 0 if all went well, 1 for errors of the data (also those that `verify` lists) or at run time, 2 for
/// wrong usage, 130 or 143 where Ctrl-C or `kill` ended it.
pub fn run(typed: impl IntoIterator<Item = OsString>) -> u8 {
    run_with(typed, &Formats::new())
}

/// As [`run`], for data in these formats: a program of your own with the whole command, which knows your own formats,
/// too.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use ringfeed::Result;
/// use ringfeed::formats::{Format, Formats, Open, Opened};
/// use ringfeed::read::Lines;
///
/// struct Shouting;
///
/// impl Format for Shouting {
///     const NAME: &'static str = "shouting";
///     type Options = ();
///
///     fn sniff(&self, head: &[u8], _: &std::path::Path) -> bool {
///         head.starts_with(b"SHOUT")
///     }
///
///     fn open(&self, _: &(), at: &Open<'_>) -> Result<impl Into<Opened>> {
///         Lines::index(at, |line| line.to_ascii_uppercase())
///     }
/// }
///
/// fn main() -> ExitCode {
///     ringfeed_cli::run_with(std::env::args_os(), &Formats::new().with(Shouting)).into()
/// }
/// ```
pub fn run_with(typed: impl IntoIterator<Item = OsString>, formats: &Formats) -> u8 {
    // Writing beyond the limit of a file's size (`ulimit -f`) is then an error, instead of a signal that ends the
    // process.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::<AtomicBool>::default());
    let Args { command, verbose } = match args::parse(typed, formats) {
        Ok(args) => args,
        // Also the help that was asked for.
        Err(error) => {
            return match error.print() {
                // What reads it, such as `head`, may have seen enough.
                Err(fault) if fault.kind() != io::ErrorKind::BrokenPipe => {
                    output::complain(&format!("the text can't be written: {fault}"));
                    output::FAILURE
                }
                _ => error.exit_code() as u8,
            };
        }
    };
    if verbose {
        verbose::begin();
    }
    let ending = Ending::default();
    let status = match command {
        Command::Inspect(mut args) => {
            let (csv, raw) = (args.options(), args.raw.options());
            let kept = output::while_working("reading", || caught(|| keep(args.path.as_mut(), &ending)));
            let inspect = |_: &Names| {
                let inspected = output::while_working("reading", || inspect::run(&args, &csv, raw.as_ref(), formats));
                in_file(inspected, args.config.as_deref())
            };
            finish(kept, inspect, args.json)
        }
        Command::Verify(mut args) => {
            let kept = caught(|| keep(args.path.as_mut(), &ending));
            finish(kept, |_| in_file(verify::run(&args, formats, &ending), args.config.as_deref()), args.json)
        }
        Command::Plan(mut args) => {
            let kept = caught(|| keep(&mut args.config, &ending));
            finish(kept, |_| in_file(plan::plan(&args, formats), plan::settings_file(&args)), args.json)
        }
        Command::Fit(args) => finish(Ok(None), |_| in_file(fit::fit(&args, formats), Some(&args.config)), args.json),
        Command::Compare(args) => finish(Ok(None), |_| compare::compare(&args), args.json),
        Command::Bench(mut args) => {
            let kept = caught(|| keep(args.path.as_mut(), &ending));
            let work = |names: &Names| in_file(bench::bench(&args, formats, &ending, names), args.config.as_deref());
            finish(kept, work, args.json)
        }
        Command::Pack(args) => finish(Ok(None), |_| pack::pack(&args, formats, &ending), args.json),
        Command::Completions { shell } => output::print(&args::completions(shell), output::SUCCESS),
    };
    ending.status().unwrap_or(status)
}

/// Errors of settings name the file that these are from.
fn in_file<R>(result: Result<R>, file: Option<&Path>) -> Result<R> {
    result.map_err(|error| match file {
        Some(file) => LoaderConfig::locate(error, file),
        None => error,
    })
}

/// Does a command's work, unless its input could not be kept, and prints what came of it.
fn finish<R: Report>(kept: Result<Option<Kept>>, work: impl FnOnce(&Names) -> Result<R>, as_json: bool) -> u8 {
    let names = kept.as_ref().ok().and_then(Option::as_ref).map_or_else(Names::default, Kept::names);
    // It is there until the work is done.
    let result = kept.and_then(|_kept| caught(|| work(&names)));
    output::finish(result, as_json, &names)
}

/// A panic becomes an error, so that a script gets its JSON and its exit status even then.
fn caught<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let message = "a bug in ringfeed or in a decoder that it uses; please report it together with the data";
        Err(Error::new(ErrorKind::Panicked, message))
    })
}
