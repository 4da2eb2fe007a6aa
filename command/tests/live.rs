//! What is seen of a benchmark while it runs: in a pseudo terminal, as a person sees it, and in a pipe.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/pseudo.rs"]
mod pseudo;
#[path = "../../tests/common/watchdog.rs"]
mod watchdog;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use pseudo::Pseudo;

const IRIS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/iris.csv");

/// Runs the command with this terminal as its standard input and error; its report goes to a pipe.
fn bench(terminal: &Pseudo, args: &[&str]) -> Child {
    watchdog::watch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfeed"));
    command.args(["bench", IRIS, "--batch-size", "10", "--workers", "2"]).args(args);
    command.stdin(terminal.slave.try_clone().unwrap()).stdout(Stdio::piped());
    terminal.shown(command).spawn().unwrap()
}

/// Waits until a person would read this.
fn wait_to_read(terminal: &Pseudo, what: &str) {
    terminal.wait_until(what, |text| screen(text).contains(what));
}

/// Whether lines are edited and echoed, as a shell leaves them.
fn is_cooked(terminal: &Pseudo) -> bool {
    // SAFETY: zeros are settings of a terminal.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the place is there to be written to.
    assert_eq!(unsafe { libc::tcgetattr(terminal.slave.as_raw_fd(), &mut settings) }, 0);
    settings.c_lflag & (libc::ICANON | libc::ECHO | libc::ISIG) == libc::ICANON | libc::ECHO | libc::ISIG
}

/// What stands on a screen after all of this was written to it: letters, and where the cursor was moved. Colours are
/// left out.
fn screen(written: &str) -> String {
    let mut lines = vec![vec![' '; 200]; 100];
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\u{1b}' if rest.next_if_eq(&'[').is_some() => {
                let mut numbers = String::new();
                while let Some(part) = rest.next_if(|c| !c.is_ascii_alphabetic()) {
                    numbers.push(part);
                }
                if rest.next() == Some('H') {
                    let mut places = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(1) - 1);
                    (row, column) = (places.next().unwrap_or(0), places.next().unwrap_or(0));
                }
            }
            letter if letter.is_control() => {}
            letter => {
                if let Some(place) = lines.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *place = letter;
                }
                column += 1;
            }
        }
    }
    let lines = lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// The report of a command that has ended with this status.
fn report(child: Child, status: i32) -> serde_json::Value {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A run that nobody would see the end of.
const ENDLESS: [&str; 7] = ["--step-ms", "2", "--epochs", "10000000", "--warmup-epochs", "0", "--json"];

/// Ends a dashboard, by a key or a signal to the process.
type End = fn(&mut File, u32);

#[test]
fn a_dashboard_is_drawn_in_place_and_ends_with_q_ctrl_c_or_a_signal() {
    let ends: [(End, i32); 3] = [
        (|keys, _| keys.write_all(b"q").unwrap(), 0),
        (|keys, _| keys.write_all(b"\x03").unwrap(), 130),
        (
            |_, child| {
                // SAFETY: the child was not waited for, so that the number is still its own.
                assert_eq!(unsafe { libc::kill(child as libc::pid_t, libc::SIGINT) }, 0);
            },
            130,
        ),
    ];
    for (end, status) in ends {
        let (terminal, mut keys) = Pseudo::open();
        assert!(is_cooked(&terminal));
        let child = bench(&terminal, &[&ENDLESS[..], &["--live"]].concat());
        terminal.wait_for("\u{1b}[?1049h");
        for part in [
            "ringfeed: ",
            "batches",
            "verdict, of the last seconds",
            "stages, 2 workers on",
            "decode",
            "ring, and what the trainer waits for",
            "samples per second, now ",
            "q or Ctrl-C: end the run",
        ] {
            wait_to_read(&terminal, part);
        }
        println!("{}", screen(&terminal.text()));
        assert!(!is_cooked(&terminal));
        end(&mut keys, child.id());
        let report = report(child, status);
        assert_eq!(report["is_cut_short"], true, "{report}");
        assert!(report["samples"].as_u64().unwrap() > 0 && report["verdict"]["limit"].is_string(), "{report}");
        terminal.wait_for("\u{1b}[?1049l");
        assert!(is_cooked(&terminal));
    }
}

#[test]
fn a_bar_says_how_fast_and_what_limits() {
    let (terminal, _keys) = Pseudo::open();
    let mut child = bench(&terminal, &ENDLESS);
    for part in ["batches", "samples/s", "% of the batches were ready", "bound"] {
        terminal.wait_for(part);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn in_a_pipe_a_dashboard_is_lines() {
    let output = Command::new(env!("CARGO_BIN_EXE_ringfeed"))
        .args(["bench", IRIS, "--step-ms", "1", "--epochs", "20", "--live", "--json"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stderr).unwrap();
    let last = lines.lines().last().unwrap();
    assert!(last.contains(" s: ") && last.contains(" samples/s, ") && !lines.contains('\u{1b}'), "{lines}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["epochs"], &report["samples"]), (&20.into(), &3000.into()));
}
