use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::snapshot::Stats;

/// A source of statistics: the part of a run that any thread may read while another one works.
pub trait Figures: Send + Sync {
    /// The statistics so far.
    fn stats(&self) -> Stats;
}

/// A handle to the statistics of an iterator. Any thread can read them at any time, while another one works with the
/// iterator. Clones are handles to the same iterator. A handle keeps nothing alive: the statistics end with the
/// iterator.
///
/// ```
/// use ringfeed::{DataSetIterator, Loader};
///
/// let mut train = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(10).build()?;
/// let handle = train.stats_handle();
/// let watcher = std::thread::spawn(move || {
///     let mut before = None;
///     while let Some(stats) = handle.stats() {
///         println!("{}", before.map_or(stats.clone(), |before| &stats - &before)); // since the last look
///         before = Some(stats);
///         std::thread::sleep(std::time::Duration::from_millis(100));
///     }
/// });
/// train.epoch()?.for_each(drop); // the trainer
/// drop(train);
/// watcher.join().expect("the watcher ends with the iterator");
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone)]
pub struct StatsHandle(Weak<dyn Figures>);

impl StatsHandle {
    /// A handle to your own statistics, for an iterator that wraps another.
    pub fn new<F: Figures + 'static>(of: &Arc<F>) -> Self {
        // Which it turns into a weak one of any kind.
        let weak: Weak<F> = Arc::downgrade(of);
        Self(weak)
    }

    /// Whether the iterator still exists.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The statistics so far; `None` after the iterator was dropped. This may delay other threads, but only for a
    /// moment: a thread that also reads statistics, or one that is handing over a slot.
    pub fn stats(&self) -> Option<Stats> {
        let figures = self.0.upgrade()?;
        let stats = figures.stats();
        // If the iterator is gone by now, this is the last owner of what it read from, including the user's source.
        if catch_unwind(AssertUnwindSafe(|| drop(figures))).is_err() {
            tracing::warn!("a source panicked while it was dropped");
        }
        Some(stats)
    }
}

impl Default for StatsHandle {
    /// A handle to nothing.
    fn default() -> Self {
        struct Nothing;
        impl Figures for Nothing {
            fn stats(&self) -> Stats {
                Stats::default()
            }
        }
        let weak: Weak<Nothing> = Weak::new();
        Self(weak)
    }
}

impl fmt::Debug for StatsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsHandle").field("is_alive", &self.is_alive()).finish()
    }
}
