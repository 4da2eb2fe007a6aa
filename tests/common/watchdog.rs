//! Names a test that hangs, and ends it: the limit of a whole run would not say which one it was.
#![expect(unreachable_pub, reason = "a module of several test files")]

use std::cell::RefCell;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Longer than any test takes, also under a sanitizer on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

thread_local! {
    /// Gone when the test's thread ends, which its watchdog hears.
    static RUNNING: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// From now on the calling test has `LIMIT` to end, or to call this again.
pub fn watch() {
    watch_for(LIMIT);
}

/// As [`watch`], with another limit.
pub fn watch_for(limit: Duration) {
    RUNNING.with_borrow_mut(|running| match running {
        Some(running) => _ = running.send(()),
        none => *none = Some(guard(limit)),
    });
}

fn guard(limit: Duration) -> Sender<()> {
    let test = std::thread::current().name().unwrap_or("of a thread without a name").to_owned();
    let (running, again) = channel();
    std::thread::spawn(move || {
        loop {
            match again.recv_timeout(limit) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        // Not by `eprintln`, which writes to where the output of a test is kept until it ends.
        let _ = writeln!(std::io::stderr(), "\nringfeed: the test {test} hangs: it goes on after {limit:?}");
        std::process::abort();
    });
    running
}
