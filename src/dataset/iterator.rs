use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::schema::Schema;
use crate::stats::{Stats, StatsHandle};
use crate::sync::Mutex;

use super::batch::DataSet;
use super::report::{Moment, Report};
use super::settle::BadRecord;
use super::state::State;

/// The batches of one epoch, then of the next: the interface for a training loop.
///
/// [`epochs`](Self::epochs) loops over several epochs, [`epoch`](Self::epoch) over one. You can also use the iterator
/// itself: `next` gives the batches of an epoch in order and then `None`, until [`reset`](Self::reset) begins the next
/// epoch. A further `next` without a reset returns an error of kind [`Ended`], so that no loop trains on nothing. An
/// error is an item in its batch's place, and ends the epoch. The only exception is an [`Exhausted`] ring: drop a batch
/// and continue.
///
/// ```
/// use ringfeed::{DataSetIterator, Loader};
///
/// let mut train = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(50).shuffle(42).build()?;
/// for epoch in train.epochs(3) {
///     for batch in epoch? {
///         assert_eq!(batch?.len(), 50);
///     }
/// }
/// assert_eq!(train.state().epoch, 2);
/// assert_eq!(train.epoch()?.count(), 3); // the fourth
/// # Ok::<(), ringfeed::Error>(())
/// ```
///
/// [`Ended`]: crate::ErrorKind::Ended
/// [`Exhausted`]: crate::ErrorKind::Exhausted
pub trait DataSetIterator: Iterator<Item = Result<DataSet>> + Send + AsDyn {
    /// The batches of the next epoch. If no batch was taken yet, this is the first epoch; after a [`seek`](Self::seek),
    /// it is the rest of the state's epoch. An epoch that was left before its end is not continued.
    ///
    /// # Errors
    ///
    /// As [`reset`](Self::reset).
    fn epoch(&mut self) -> Result<Epoch<'_>> {
        Epoch::begin(self.as_dyn())
    }

    /// `count` epochs, one after another, each as [`epoch`](Self::epoch) gives it. The rest of a resumed epoch counts
    /// as one epoch: to continue a run of 90 epochs, use `epochs(90 - state.epoch)`. Loop over each epoch before you
    /// take the next one.
    fn epochs(&mut self, count: u64) -> Epochs<'_> {
        Epochs::new(self.as_dyn(), count)
    }

    /// Waits at most `time` until [`next`](Iterator::next) can return without waiting (a batch, an error, or the end),
    /// and returns whether it can. This is for callers that must react to something else while they wait, such as a
    /// key. An iterator that makes batches in `next` itself returns `true` at once.
    fn ready_within(&mut self, time: Duration) -> bool {
        let _ = time;
        true
    }

    /// Begins the epoch that [`epoch`](Self::epoch) gives: does nothing if no batch was taken since the last reset or
    /// seek, and resets otherwise.
    ///
    /// # Errors
    ///
    /// As [`reset`](Self::reset).
    fn begin_epoch(&mut self) -> Result<()>;

    /// Begins the next epoch; does nothing before the first batch of an epoch. Batches that the caller still holds do
    /// not change.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the source serves a single epoch,
    /// [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if a worker or reader does not stop within `close_wait`.
    fn reset(&mut self) -> Result<()>;

    /// Resumes at the position of `state`, from [`state`](Self::state) or
    /// [`DataSet::state_after`](crate::DataSet::state_after), also with another number of shards or workers. This needs
    /// no replay and no scan, except that a stream is read up to the position.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the state was made with another seed or another source. The
    /// error says which of count, names and sizes changed; [`State::for_changed_source`] makes a state that is accepted
    /// anyway.
    fn seek(&mut self, state: &State) -> Result<()>;

    /// Names, roles, types and shapes of the tensors of a sample.
    fn schema(&self) -> &Arc<Schema>;

    /// The iterator's position: after the last batch that `next` returned. Less than 256 bytes as JSON.
    fn state(&self) -> State;

    /// Number of batches per epoch, if it is known before reading them.
    fn batches_per_epoch(&self) -> Option<u64>;

    /// The statistics so far. Allocates; call it once per epoch or per second, not once per batch.
    fn stats(&self) -> Stats;

    /// A handle with which any thread can read the statistics while this thread works. An iterator that wraps another
    /// one returns the inner iterator's handle; by default there is nothing to read.
    fn stats_handle(&self) -> StatsHandle {
        StatsHandle::default()
    }

    /// The first bad records that were left out or replaced, by name.
    fn bad_records(&self) -> Vec<BadRecord>;

    /// How the run developed over time: at most 256 moments.
    fn timeline(&self) -> Vec<Moment> {
        Vec::new()
    }

    /// A report with all information about the run, to be saved as a page or as data.
    fn report(&self) -> Report {
        Report::of(self)
    }
}

impl Report {
    /// The information that an iterator has now.
    pub fn of(iterator: &(impl DataSetIterator + ?Sized)) -> Self {
        Self::new(iterator.stats(), iterator.timeline(), iterator.bad_records())
    }
}

impl<I: DataSetIterator + ?Sized> DataSetIterator for Box<I> {
    fn ready_within(&mut self, time: Duration) -> bool {
        (**self).ready_within(time)
    }

    fn begin_epoch(&mut self) -> Result<()> {
        (**self).begin_epoch()
    }

    fn reset(&mut self) -> Result<()> {
        (**self).reset()
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        (**self).seek(state)
    }

    fn schema(&self) -> &Arc<Schema> {
        (**self).schema()
    }

    fn state(&self) -> State {
        (**self).state()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        (**self).batches_per_epoch()
    }

    fn stats(&self) -> Stats {
        (**self).stats()
    }

    fn stats_handle(&self) -> StatsHandle {
        (**self).stats_handle()
    }

    fn bad_records(&self) -> Vec<BadRecord> {
        (**self).bad_records()
    }

    fn timeline(&self) -> Vec<Moment> {
        (**self).timeline()
    }
}

/// An iterator that gives batches epoch by epoch: a [`DataSetIterator`], or one of batches on a device.
pub trait ByEpoch: Iterator<Item = Result<Self::Batch>> {
    /// What a batch is.
    type Batch;

    /// Begins the epoch whose batches are taken next; see [`DataSetIterator::begin_epoch`].
    ///
    /// # Errors
    ///
    /// As [`DataSetIterator::reset`].
    fn begin_epoch(&mut self) -> Result<()>;
}

impl ByEpoch for dyn DataSetIterator + '_ {
    type Batch = DataSet;

    fn begin_epoch(&mut self) -> Result<()> {
        DataSetIterator::begin_epoch(self)
    }
}

/// Conversion of an iterator to its trait object; every [`DataSetIterator`] has it.
pub trait AsDyn {
    /// The iterator as a trait object.
    fn as_dyn<'a>(&'a mut self) -> &'a mut (dyn DataSetIterator + 'a);
}

impl<I: DataSetIterator> AsDyn for I {
    fn as_dyn<'a>(&'a mut self) -> &'a mut (dyn DataSetIterator + 'a) {
        self
    }
}

/// The batches of one epoch, or the rest of a resumed one; see [`DataSetIterator::epoch`].
///
/// It may be dropped before its end; the next call then begins another epoch.
pub struct Epoch<'a, I: ByEpoch + ?Sized = dyn DataSetIterator + 'a> {
    /// `None` only while it drops.
    iterator: Option<&'a mut I>,
    /// The owner that lent it.
    home: Option<Home<'a, I>>,
    ended: bool,
}

impl<I: ByEpoch + ?Sized> fmt::Debug for Epoch<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Where the iterator is kept between two epochs.
type Home<'a, I> = Arc<Mutex<Option<&'a mut I>>>;

impl<'a, I: ByEpoch + ?Sized> Epoch<'a, I> {
    pub(crate) fn begin(iterator: &'a mut I) -> Result<Self> {
        iterator.begin_epoch()?;
        Ok(Self { iterator: Some(iterator), home: None, ended: false })
    }

    /// The iterator that the batches come from, with its state and statistics.
    pub fn iterator(&self) -> &I {
        self.iterator.as_deref().expect("it is there until the epoch drops")
    }
}

impl<I: ByEpoch + ?Sized> Iterator for Epoch<'_, I> {
    type Item = I::Item;

    /// The next batch; `None` at the end, and after it.
    fn next(&mut self) -> Option<I::Item> {
        if self.ended {
            return None;
        }
        let next = self.iterator.as_mut()?.next();
        self.ended = next.is_none();
        next
    }
}

impl<I: ByEpoch + ?Sized> Drop for Epoch<'_, I> {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            *home.lock() = self.iterator.take();
        }
    }
}

/// Several epochs, one after another; see [`DataSetIterator::epochs`].
pub struct Epochs<'a, I: ByEpoch + ?Sized = dyn DataSetIterator + 'a> {
    home: Home<'a, I>,
    left: u64,
}

impl<I: ByEpoch + ?Sized> fmt::Debug for Epochs<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epochs").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<'a, I: ByEpoch + ?Sized> Epochs<'a, I> {
    pub(crate) fn new(iterator: &'a mut I, count: u64) -> Self {
        Self { home: Arc::new(Mutex::new(Some(iterator))), left: count }
    }
}

impl<'a, I: ByEpoch + ?Sized> Iterator for Epochs<'a, I> {
    type Item = Result<Epoch<'a, I>>;

    /// Begins the next epoch. After an error there is no next epoch.
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let taken = self.home.lock().take();
        let Some(iterator) = taken else {
            self.left = 0;
            let message = "the epoch before is still held: go through each epoch before the next one begins";
            return Some(Err(Error::new(ErrorKind::Unsupported, message)));
        };
        if let Err(error) = iterator.begin_epoch() {
            self.left = 0;
            *self.home.lock() = Some(iterator);
            return Some(Err(error));
        }
        Some(Ok(Epoch { iterator: Some(iterator), home: Some(self.home.clone()), ended: false }))
    }
}
