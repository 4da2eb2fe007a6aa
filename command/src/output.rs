use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};
use ringfeed::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::json;

use crate::names::Names;

/// The exit status where all went well.
pub(crate) const SUCCESS: u8 = 0;

/// The exit status of an error.
pub(crate) const FAILURE: u8 = 1;

/// What a command found out.
pub(crate) trait Report: Serialize {
    /// The report for a person, in lines of about `width` characters.
    fn text(&self, width: usize) -> String;

    /// The exit status: 0 if what was found is as it should be.
    fn status(&self) -> u8 {
        SUCCESS
    }
}

/// Prints a report or an error; the exit status that goes with it.
pub(crate) fn finish<R: Report>(result: Result<R>, as_json: bool, names: &Names) -> u8 {
    let (text, status) = match result {
        Ok(report) => {
            let status = report.status();
            if as_json { to_json(&report, status) } else { (report.text(width()), status) }
        }
        Err(error) if as_json => to_json(&ErrorReport { error: ErrorParts::of(&error) }, FAILURE),
        Err(error) => {
            complain(&names.put_into(person(&error)));
            return FAILURE;
        }
    };
    print(names.put_into(text).as_bytes(), status)
}

/// Writes to standard output; gives `status` if that can be done.
pub(crate) fn print(bytes: &[u8], status: u8) -> u8 {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // Whoever reads (such as `head`) has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("standard output: {error}"));
            FAILURE
        }
        _ => status,
    }
}

/// Says something beside the report.
pub(super) fn complain(text: &str) {
    // Where there is nobody to complain to, the exit status has to do.
    let _ = writeln!(io::stderr(), "ringfeed: {text}");
}

/// Columns of the terminal; in a pipe, a width that most screens and papers have.
fn width() -> usize {
    let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    terminal.map_or(120, |(width, _)| usize::from(width.0).max(40))
}

/// A report with its status; an error where it can't be written.
fn to_json(value: &impl Serialize, status: u8) -> (String, u8) {
    // Reports hold only text, numbers, lists and maps whose keys are text.
    let (text, status) = match serde_json::to_string(value) {
        Ok(text) => (text, status),
        Err(error) => (json!({ "error": { "kind": "io", "message": error.to_string() } }).to_string(), FAILURE),
    };
    (text + "\n", status)
}

#[derive(Serialize)]
struct ErrorReport<'a> {
    error: ErrorParts<'a>,
}

/// Parts that are absent are null.
#[derive(Serialize)]
pub(crate) struct ErrorParts<'a> {
    kind: &'static str,
    path: Option<String>,
    record: Option<u64>,
    line: Option<u64>,
    member: Option<&'a str>,
    column: Option<&'a str>,
    byte: Option<u64>,
    message: &'a str,
}

impl<'a> ErrorParts<'a> {
    pub(crate) fn of(error: &'a Error) -> Self {
        let place = error.location();
        Self {
            kind: error.kind().as_str(),
            path: place.path.as_deref().map(lossy),
            record: place.record,
            line: place.line,
            member: place.member.as_deref(),
            column: place.column.as_deref(),
            byte: place.byte,
            message: error.message(),
        }
    }
}

/// JSON has no other than Unicode text.
pub(crate) fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The error, and what to do next where its message does not say so itself.
fn person(error: &Error) -> String {
    let (record, line) = (error.location().record, error.location().line);
    let advice = match error.kind() {
        ErrorKind::Data | ErrorKind::Format if line.is_some() && record.is_some() => {
            "correct the record, or leave bad ones out (--skip-bad, or `bad_records = \"skip\"` in settings); if it is a \
             table that is written in another way, inspect has --delimiter, --header and --encoding, settings have all \
             options"
        }
        ErrorKind::Data | ErrorKind::Format if line.is_some() && !is_of_our_own(error) => {
            "correct the file in that line; if it is a table that is written in another way, inspect has --delimiter, \
             --header and --encoding, settings have all options"
        }
        ErrorKind::Format | ErrorKind::Data if is_damage(error.message()) => {
            "replace the file if it is damaged or cut off, or leave it out"
        }
        ErrorKind::Io => match io_kind(error) {
            Some(io::ErrorKind::PermissionDenied) => {
                "see who may read it, or write there: its permissions, and those of the folders above"
            }
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => "make room on the disk",
            Some(io::ErrorKind::ReadOnlyFilesystem) => "write somewhere else: this file system is read-only",
            _ => return plain(&error.to_string()),
        },
        ErrorKind::Panicked => "this is a fault of Ringfeed: please report it with the file",
        _ => return plain(&error.to_string()),
    };
    format!("{}\n  to do: {advice}", plain(&error.to_string()))
}

/// Whether a file has a fault that we write and read as JSON: a normaliser, or what was fitted. Of data, JSON is read
/// by other means.
fn is_of_our_own(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<serde_json::Error>())
}

/// Whether a message tells of damage. Others say themselves what is to be done.
fn is_damage(message: &str) -> bool {
    ["damage", "truncated", "cut off", "checksum", "ends in the middle", "corrupt"]
        .iter()
        .any(|word| message.contains(word))
}

/// What the operating system said.
fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    std::error::Error::source(error)?.downcast_ref::<io::Error>().map(io::Error::kind)
}

/// How long a command may be silent.
const SILENCE: Duration = Duration::from_millis(500);

/// Shows on a terminal that `work` goes on, for how long, and how much it has read, if it takes its time: opening or
/// reading a large file.
pub(crate) fn while_working<T>(doing: &'static str, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let mut before = bytes_read().map_or(0, |(bytes, told)| bytes + told);
    let (working, ended) = mpsc::channel::<()>();
    let show = move || {
        if ended.recv_timeout(SILENCE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let style = ProgressStyle::with_template("{spinner} {prefix}, {elapsed}{msg}");
        let bar = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let bar = bar.with_prefix(doing).with_elapsed(SILENCE);
        while ended.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
            if let Some((now, told)) = bytes_read() {
                bar.set_message(format!(", {} read", DecimalBytes(now.saturating_sub(before))));
                before += told;
            }
            bar.tick();
        }
        bar.finish_and_clear();
    };
    std::thread::scope(|scope| {
        // Without a thread for it, the work is done in silence.
        let _ = std::thread::Builder::new().spawn_scoped(scope, show);
        let result = work();
        drop(working);
        result
    })
}

/// Bytes that this process has read, from files and from anything else, but for mapped files; and those read to be told
/// so, which count from the next time on. `None` if the system does not tell.
fn bytes_read() -> Option<(u64, u64)> {
    let told = fs::read_to_string("/proc/self/io").ok()?;
    let bytes = told.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()?;
    Some((bytes, told.len() as u64))
}

/// Text from data without the control characters that a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && c != '\n' {
            true => plain.extend(c.escape_default()),
            false => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_as_json_is_an_error() {
        struct Unwritable;

        impl Serialize for Unwritable {
            fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }

        let (text, status) = to_json(&Unwritable, SUCCESS);
        assert_eq!((text.contains("\"message\":\"no\""), status), (true, FAILURE));
    }

    #[test]
    fn what_the_system_refuses_comes_with_its_own_advice() {
        let said = |kind: io::ErrorKind| person(&Error::io("data/a.csv", io::Error::from(kind)));
        let refused = said(io::ErrorKind::PermissionDenied);
        assert!(refused.starts_with("data/a.csv: ") && refused.contains("to do: see who may read it"), "{refused}");
        assert!(!refused.contains("room on the disk"), "{refused}");
        assert!(said(io::ErrorKind::StorageFull).ends_with("to do: make room on the disk"));
        assert!(said(io::ErrorKind::ReadOnlyFilesystem).contains("write somewhere else"));
        assert!(!said(io::ErrorKind::ConnectionReset).contains("to do:"), "nothing is said where nothing is known");
    }
}
