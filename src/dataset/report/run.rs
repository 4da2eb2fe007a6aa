use std::collections::BTreeMap;

use serde::Serialize;

use crate::counters::{Moment as Counted, Timeline};
use crate::stats::{Stats, Verdict};

use super::super::settle::BadRecord;

/// A run between two points in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Moment {
    /// End of this interval, in seconds since the iterator was made.
    pub seconds: f64,
    /// Samples delivered per second.
    pub samples_per_second: f64,
    /// Share of the time that the trainer waited, from 0 to 1.
    pub waited: f64,
    /// Mean number of batches that were ready for the trainer.
    pub ready: f64,
}

/// All information about a run: the verdict, the statistics, the development over time, bad and slow samples, and notes
/// that you add.
///
/// ```
/// use ringfeed::{DataSetIterator, Loader};
///
/// let mut train = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(10).build()?;
/// train.epoch()?.for_each(drop);
/// let file = tempfile::Builder::new().suffix(".html").tempfile().map_err(|error| ringfeed::Error::io("report", error))?;
/// train.report().about("learning rate", 0.1).save(file.path())?;
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// What limits the run.
    pub verdict: Verdict,
    /// All statistics.
    pub stats: Stats,
    /// Its development over time, at most 256 moments.
    pub timeline: Vec<Moment>,
    /// The first bad records, by name.
    pub bad_records: Vec<BadRecord>,
    /// Settings, machine and other notes, by name.
    pub about: BTreeMap<String, String>,
}

impl Report {
    pub(crate) fn new(stats: Stats, timeline: Vec<Moment>, bad_records: Vec<BadRecord>) -> Self {
        let machine = format!("{} {}, {} cores", std::env::consts::OS, std::env::consts::ARCH, stats.cores);
        Self {
            verdict: stats.verdict(),
            timeline,
            bad_records,
            about: BTreeMap::from([
                ("machine".to_owned(), machine),
                ("ringfeed".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("workers".to_owned(), stats.workers.threads.to_string()),
                ("prefetch".to_owned(), stats.queue.prefetch.to_string()),
            ]),
            stats,
        }
    }

    /// Adds a note to the report, such as a setting of the trainer.
    #[must_use]
    pub fn about(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.about.insert(name.into(), value.to_string());
        self
    }

    /// Replaces the statistics, for example by those without the start of the run.
    #[must_use]
    pub fn stats(mut self, stats: Stats) -> Self {
        self.verdict = stats.verdict();
        self.stats = stats;
        self
    }
}

/// The sums that were counted by each moment, as differences between moments.
pub(crate) fn moments(timeline: &Timeline) -> Vec<Moment> {
    let per = |count: u64, ns: u64| if ns > 0 { count as f64 / ns as f64 } else { 0.0 };
    let between = |pair: &[Counted]| {
        let [from, to] = [pair[0], pair[1]];
        let less = |value: fn(&Counted) -> u64| value(&to).saturating_sub(value(&from));
        let ns = less(|moment| moment.ns);
        Moment {
            seconds: to.ns as f64 / 1e9,
            samples_per_second: 1e9 * per(less(|moment| moment.samples), ns),
            waited: per(less(|moment| moment.wait_ns), ns).min(1.0),
            ready: per(less(|moment| moment.ready_batch_ns), less(|moment| moment.queue_ns)),
        }
    };
    timeline.read().windows(2).map(between).collect()
}
