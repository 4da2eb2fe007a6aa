use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringfeed::stats::StatsHandle;

use super::bar::summary;
use super::contract::{About, Watch};

/// How often a line is written.
const EVERY: Duration = Duration::from_secs(1);

/// A line per second where no dashboard can be shown: in a pipe or a file.
pub(super) struct Lines {
    /// Dropped to end the thread.
    working: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    pub(super) fn begin(about: &About, figures: StatsHandle) -> Self {
        let names = about.names.clone();
        let (working, ended) = mpsc::channel::<()>();
        let write = move || {
            let (begin, mut before) = (Instant::now(), figures.stats().unwrap_or_default());
            loop {
                let is_over = ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                let Some(stats) = figures.stats() else { return };
                let since = &stats - &before;
                if since.trainer.batches > 0 {
                    let seconds = begin.elapsed().as_secs_f64();
                    let _ = writeln!(std::io::stderr(), "{seconds:.0} s: {}", names.put_into(summary(&since)));
                    before = stats;
                }
                if is_over {
                    return;
                }
            }
        };
        // Without a thread for it, the run is measured in silence.
        let thread = thread::Builder::new().spawn(write).ok();
        Self { working: Some(working), thread }
    }
}

impl Watch for Lines {}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.working.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
