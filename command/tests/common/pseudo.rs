//! A pseudo terminal, for the tests of what a person sees while a command runs.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for something that comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal of 110 columns and 30 lines, and what was written to it.
pub(crate) struct Pseudo {
    pub(crate) slave: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Pseudo {
    /// A terminal, and what a person types there.
    pub(crate) fn open() -> (Self, File) {
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
        (Self { slave, seen }, master)
    }

    /// The command, which finds this terminal as its standard error.
    pub(crate) fn shown(&self, mut command: Command) -> Command {
        command.env("TERM", "xterm-256color").stderr(self.slave.try_clone().unwrap());
        command
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    pub(crate) fn wait_for(&self, what: &str) {
        self.wait_until(what, |text| text.contains(what));
    }

    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let given_up = Instant::now() + PATIENCE;
        while !is_so(&self.text()) {
            assert!(Instant::now() < given_up, "no {what:?} in {:?}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }
}
