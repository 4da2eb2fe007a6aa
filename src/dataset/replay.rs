use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::counters::{TrainerClock, TrainerCounter};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Schema;
use crate::stats::{Figures, Stats, StatsHandle, TrainerStats};
use crate::sync::Mutex;

use super::batch::{DataSet, Home};
use super::iterator::DataSetIterator;
use super::settle::BadRecord;
use super::state::State;

/// Repeats batches that are already loaded, like an infinitely fast loader, to show how fast the trainer would then be.
///
/// Nothing is read or decoded, so the trainer has all cores to itself. [`Headspace`] compares a replay with a run that
/// loads.
///
/// The kept batches are delivered again and again: if a consumer of DLPack writes into one, the next delivery has the
/// change.
///
/// ```
/// use ringfeed::source::{Headspace, Replay};
/// use ringfeed::{DataSetIterator, Loader};
///
/// let mut step = |_batch| (); // the trainer
/// let mut train = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(10).build()?;
/// for batch in train.epoch()? {
///     step(batch?);
/// }
/// let loaded = train.stats();
/// let mut replay = Replay::new(&mut *train, 4)?;
/// for batch in replay.epoch()? {
///     step(batch?);
/// }
/// println!("{}", Headspace::of(&loaded, &replay.stats()));
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct Replay {
    schema: Arc<Schema>,
    home: Arc<Home>,
    batches_per_epoch: u64,
    /// Number of batches given in this epoch.
    given: u64,
    /// The last answer was `None`.
    is_silent: bool,
    given_out: Arc<GivenOut>,
    clock: TrainerClock,
}

/// The counters of a replay.
struct GivenOut {
    samples: AtomicU64,
    bytes: AtomicU64,
    trainer: TrainerCounter,
}

impl Replay {
    /// Takes up to `keep` batches of the current epoch of `batches`, and copies them out of its ring. An epoch of the
    /// replay has as many batches as an epoch of `batches` if that number is known, otherwise as many as were kept.
    /// Batches with fewer samples or none, such as the last one of an epoch, are repeated as they are.
    ///
    /// # Errors
    ///
    /// Those of `batches`; [`ErrorKind::Data`] if it gives no batch.
    pub fn new(batches: &mut dyn DataSetIterator, keep: usize) -> Result<Self> {
        batches.begin_epoch()?;
        let mut kept = VecDeque::new();
        while kept.len() < keep.max(1) {
            match batches.next() {
                Some(batch) => kept.push_back(batch?.into_detached()?),
                None => break,
            }
        }
        if kept.is_empty() {
            return Err(Error::new(ErrorKind::Data, "there is no batch to be replayed"));
        }
        Ok(Self {
            schema: batches.schema().clone(),
            batches_per_epoch: batches.batches_per_epoch().unwrap_or(kept.len() as u64),
            home: Arc::new(Mutex::new(kept)),
            given: 0,
            is_silent: false,
            given_out: Arc::new(GivenOut {
                samples: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                trainer: TrainerCounter::new(),
            }),
            clock: TrainerClock::default(),
        })
    }

    /// Sets the number of batches per epoch.
    #[must_use]
    pub fn batches(mut self, count: u64) -> Self {
        self.batches_per_epoch = count;
        self
    }
}

impl Figures for GivenOut {
    fn stats(&self) -> Stats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = Stats::default();
        stats.trainer = TrainerStats::read(&self.trainer);
        stats.batches = load(&self.trainer.batches);
        (stats.samples, stats.bytes) = (load(&self.samples), load(&self.bytes));
        stats
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("kept", &self.home.lock().len()).finish_non_exhaustive()
    }
}

impl Iterator for Replay {
    type Item = Result<DataSet>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.is_silent) {
            return Some(Err(Error::epoch_ended()));
        }
        self.clock.enter(&self.given_out.trainer);
        let next = (self.given < self.batches_per_epoch).then(|| {
            let kept = self.home.lock().pop_front();
            kept.map(|batch| batch.lend(&self.home)).ok_or_else(|| {
                let message = "all batches that were kept are in the caller's hands; drop one, or keep more of them";
                Error::exhausted(message.to_owned())
            })
        });
        self.is_silent = next.is_none();
        if let Some(Ok(batch)) = &next {
            self.given += 1;
            self.given_out.samples.fetch_add(batch.len() as u64, Ordering::Relaxed);
            self.given_out.bytes.fetch_add(batch.layout().tensor_bytes() as u64, Ordering::Relaxed);
        }
        self.clock.leave(&self.given_out.trainer, matches!(next, Some(Ok(_))));
        next
    }
}

impl DataSetIterator for Replay {
    fn begin_epoch(&mut self) -> Result<()> {
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        (self.given, self.is_silent) = (0, false);
        Ok(())
    }

    /// Always returns an error: a replay has no positions.
    fn seek(&mut self, _: &State) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "a replay has no positions to resume from"))
    }

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn state(&self) -> State {
        State::new(0)
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        Some(self.batches_per_epoch)
    }

    /// Only the trainer's statistics, because no other thread works.
    fn stats(&self) -> Stats {
        self.given_out.stats()
    }

    fn stats_handle(&self) -> StatsHandle {
        StatsHandle::new(&self.given_out)
    }

    fn bad_records(&self) -> Vec<BadRecord> {
        Vec::new()
    }
}

/// The speed of the trainer, and its speed if it never waited and had the machine to itself. `Display` prints a
/// sentence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Headspace {
    /// Samples per second with the loader.
    pub samples_per_second: f64,
    /// Samples per second with an infinitely fast loader that uses no CPU time.
    pub most_samples_per_second: f64,
    /// `most_samples_per_second` divided by `samples_per_second`.
    pub factor: f64,
    /// Mean time of a step of the trainer while the loader works, in seconds.
    pub step_seconds: f64,
    /// Mean time of a step while no loader works, in seconds.
    pub undisturbed_step_seconds: f64,
}

impl Headspace {
    /// Compares the statistics of a run with those of a [`Replay`] with the same trainer.
    pub fn of(loaded: &Stats, replayed: &Stats) -> Self {
        let rate = |stats: &Stats| divided(stats.samples as f64, stats.trainer.seconds());
        let step = |stats: &Stats| divided(stats.trainer.busy_seconds, stats.trainer.batches as f64);
        let (samples_per_second, most_samples_per_second) = (rate(loaded), rate(replayed));
        Self {
            samples_per_second,
            most_samples_per_second,
            factor: divided(most_samples_per_second, samples_per_second),
            step_seconds: step(loaded),
            undisturbed_step_seconds: step(replayed),
        }
    }
}

impl fmt::Display for Headspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "with an infinitely fast loader: {:.0} samples/s, which is {:.2}x; a step takes {:.3} ms while the loader works and \
             {:.3} ms without it",
            self.most_samples_per_second,
            self.factor,
            1e3 * self.step_seconds,
            1e3 * self.undisturbed_step_seconds
        )
    }
}

fn divided(number: f64, by: f64) -> f64 {
    if by > 0.0 { number / by } else { 0.0 }
}
