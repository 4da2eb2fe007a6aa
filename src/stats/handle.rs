use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::Stats;

/// What figures are read from: the part of a run that any thread may look at while another one works.
pub trait Figures: Send + Sync {
    /// The figures so far.
    fn stats(&self) -> Stats;
}

/// The figures of an iterator, to be read at any time and from any thread while another one works with the iterator. Clones are
/// handles to the same one. It keeps nothing alive: with the iterator, the figures go.
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
    /// A handle to figures of one's own: of an iterator that wraps another.
    pub fn new<F: Figures + 'static>(of: &Arc<F>) -> Self {
        // Which it turns into a weak one of any kind.
        let weak: Weak<F> = Arc::downgrade(of);
        Self(weak)
    }

    /// Whether the iterator is still there.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The figures so far; `None` once the iterator is gone. Nothing waits for it but another thread that reads figures, or a
    /// thread at work for the moment in which it hands a slot over.
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
