//! What is seen of a benchmark while it runs: in a pseudo terminal, as a person sees it, and in a pipe.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const IRIS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/iris.csv");

/// Longest wait for something that comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal of 110 columns and 30 lines, and what was written to it.
struct Pseudo {
    master: File,
    slave: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Pseudo {
    fn open() -> Self {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 30, ws_col: 110, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: both places are there to be written to, and there is no name and no setting but the size.
        let opened = unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size) };
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: a new descriptor, which nobody else has.
        let master = unsafe { File::from_raw_fd(master) };
        // SAFETY: the same.
        let slave = unsafe { OwnedFd::from_raw_fd(slave) };
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut reader, into) = (master.try_clone().unwrap(), seen.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Behind the last writer, reading is an error.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                into.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { master, slave, seen }
    }

    /// Runs the command with this terminal as its standard input and error; its report goes to a pipe.
    fn bench(&self, args: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_ringfeed"))
            .args(["bench", IRIS, "--batch-size", "10", "--workers", "2"])
            .args(args)
            .env("TERM", "xterm-256color")
            .stdin(self.slave.try_clone().unwrap())
            .stderr(self.slave.try_clone().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, what: &str) {
        let given_up = Instant::now() + PATIENCE;
        while !self.text().contains(what) {
            assert!(Instant::now() < given_up, "no {what:?} in {:?}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a person would read this.
    fn wait_to_read(&self, what: &str) {
        let given_up = Instant::now() + PATIENCE;
        while !screen(&self.text()).contains(what) {
            assert!(Instant::now() < given_up, "no {what:?} on\n{}", screen(&self.text()));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether lines are edited and echoed, as a shell leaves them.
    fn is_cooked(&self) -> bool {
        use std::os::fd::AsRawFd;
        // SAFETY: zeros are settings of a terminal.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and the place is there to be written to.
        assert_eq!(unsafe { libc::tcgetattr(self.slave.as_raw_fd(), &mut settings) }, 0);
        settings.c_lflag & (libc::ICANON | libc::ECHO | libc::ISIG) == libc::ICANON | libc::ECHO | libc::ISIG
    }
}

/// What stands on a screen after all of this was written to it: letters, and where the cursor was moved. Colours are left out.
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

/// The report of a command that has ended well.
fn report(child: Child) -> serde_json::Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A run that nobody would see the end of.
const ENDLESS: [&str; 7] = ["--step-ms", "2", "--epochs", "10000000", "--warmup-epochs", "0", "--json"];

#[test]
fn a_dashboard_is_drawn_in_place_and_ends_with_q_ctrl_c_or_a_signal() {
    let ends: [fn(&mut File, u32); 3] = [
        |keys, _| keys.write_all(b"q").unwrap(),
        |keys, _| keys.write_all(b"\x03").unwrap(),
        |_, child| {
            // SAFETY: the child was not waited for, so that the number is still its own.
            assert_eq!(unsafe { libc::kill(child as libc::pid_t, libc::SIGINT) }, 0);
        },
    ];
    for end in ends {
        let mut terminal = Pseudo::open();
        assert!(terminal.is_cooked());
        let child = terminal.bench(&[&ENDLESS[..], &["--live"]].concat());
        terminal.wait_for("\u{1b}[?1049h");
        for part in [
            "ringfeed: ",
            "batches",
            "verdict, of the last seconds",
            "stages, 2 workers on",
            "decode",
            "ring, and what the trainer waits for",
            "samples a second, now ",
            "q or Ctrl-C: end the run",
        ] {
            terminal.wait_to_read(part);
        }
        println!("{}", screen(&terminal.text()));
        assert!(!terminal.is_cooked());
        end(&mut terminal.master, child.id());
        let report = report(child);
        assert!(report["samples"].as_u64().unwrap() > 0 && report["verdict"]["limit"].is_string(), "{report}");
        terminal.wait_for("\u{1b}[?1049l");
        assert!(terminal.is_cooked());
    }
}

#[test]
fn a_bar_says_how_fast_and_what_limits() {
    let terminal = Pseudo::open();
    let mut child = terminal.bench(&ENDLESS);
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
