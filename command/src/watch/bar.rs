use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ringfeed::stats::{Stats, StatsHandle};

use crate::names::Names;
use crate::output::plain;
use crate::progress::style;
use crate::table::count;

use super::contract::{About, Watch};

/// How often the figures are read.
const READ: Duration = Duration::from_millis(500);

/// A bar, with what the figures of the last moment say.
pub(super) struct Bar {
    bar: ProgressBar,
    figures: StatsHandle,
    last: (Instant, Stats),
    names: Names,
}

impl Bar {
    pub(super) fn begin(about: &About, figures: StatsHandle) -> Self {
        let bar = match about.batches {
            Some(count) => ProgressBar::new(count)
                .with_style(style("{bar:40} {human_pos}/{things}, {eta} left\n{wide_msg}", "batch")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {things}\n{wide_msg}", "batch")),
        };
        Self { bar, last: (Instant::now(), figures.stats().unwrap_or_default()), figures, names: about.names.clone() }
    }
}

/// In a line: how fast, how often a batch was ready, and what limits.
pub(super) fn summary(stats: &Stats) -> String {
    let seconds = stats.trainer.seconds();
    let rate = if seconds > 0.0 { stats.samples as f64 / seconds } else { 0.0 };
    let ready = 100.0 * stats.trainer.readiness();
    let rate = count(rate.round() as u64);
    plain(&format!("{rate} samples/s, {ready:.0} % of the batches were ready; {}", stats.verdict()))
}

impl Watch for Bar {
    fn stepped(&mut self) {
        self.bar.inc(1);
        if self.last.0.elapsed() >= READ
            && let Some(stats) = self.figures.stats()
        {
            self.bar.set_message(self.names.put_into(summary(&(&stats - &self.last.1))));
            self.last = (Instant::now(), stats);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
