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

/// Batches of one epoch, then of the next: the user's side of every source.
///
/// [`epochs`](Self::epochs) goes through several epochs, [`epoch`](Self::epoch) through one. An iterator gives the batches of
/// an epoch itself, too: `next` gives them in order and then `None`, until [`reset`](Self::reset) begins the next epoch. Asked
/// once more without that, it gives an error of kind [`Ended`], so that no loop trains on nothing. An error is
/// an item in its batch's place, and ends the epoch (an [`Exhausted`] ring is the exception: drop a batch and go on).
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
    /// The batches of the next epoch: of the first one if nothing was asked for yet, and of what a state left of its epoch
    /// behind a [`seek`](Self::seek). An epoch that was left before its end is not gone on with.
    ///
    /// # Errors
    ///
    /// As [`reset`](Self::reset).
    fn epoch(&mut self) -> Result<Epoch<'_>> {
        Epoch::begin(self.as_dyn())
    }

    /// `count` epochs, one after another, each as [`epoch`](Self::epoch) gives it. What a state left of an epoch counts as
    /// one: a run of 90 epochs goes on with `epochs(90 - state.epoch)`. Go through each before the next begins.
    fn epochs(&mut self, count: u64) -> Epochs<'_> {
        Epochs::new(self.as_dyn(), count)
    }

    /// Waits at most `time` until [`next`](Iterator::next) has an answer, an error or the end included, and says whether it has. For
    /// callers that must look up from waiting, as for a key that was pressed. An iterator that makes batches in `next` itself
    /// says so at once.
    fn ready_within(&mut self, time: Duration) -> bool {
        let _ = time;
        true
    }

    /// Begins the epoch that [`epoch`](Self::epoch) gives: does nothing where nothing was asked for since the last reset or
    /// seek, and resets otherwise.
    ///
    /// # Errors
    ///
    /// As [`reset`](Self::reset).
    fn begin_epoch(&mut self) -> Result<()>;

    /// Begins the next epoch; does nothing before the first batch of one. Batches that are still held stay as they are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the source serves a single epoch,
    /// [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if a worker or reader does not stop within `close_wait`.
    fn reset(&mut self) -> Result<()>;

    /// Goes on with the very next position after `state`, as [`state`](Self::state) or
    /// [`DataSet::state_after`](crate::DataSet::state_after) gave it, perhaps with another number of shards or workers. No
    /// replay and no scan, except that a stream is read up to the place.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the state was made with another seed, or with another source:
    /// the error says which of count, names and sizes changed, and [`State::for_changed_source`] goes on all the same.
    fn seek(&mut self, state: &State) -> Result<()>;

    /// What a sample is made of.
    fn schema(&self) -> &Arc<Schema>;

    /// Where the iterator stands: after the last batch that `next` returned.
    fn state(&self) -> State;

    /// Number of batches an epoch, where it is known before reading them.
    fn batches_per_epoch(&self) -> Option<u64>;

    /// The figures so far.
    fn stats(&self) -> Stats;

    /// A handle by which any thread can read the figures while this one works. An iterator that wraps another gives that of
    /// the one inside; by default there is nothing to read.
    fn stats_handle(&self) -> StatsHandle {
        StatsHandle::default()
    }

    /// The first bad records that were left out or replaced, by name.
    fn bad_records(&self) -> Vec<BadRecord>;

    /// How the run went over time, as far as that was kept.
    fn timeline(&self) -> Vec<Moment> {
        Vec::new()
    }

    /// Everything that is known of the run, to be saved as a page or as data.
    fn report(&self) -> Report {
        Report::of(self)
    }
}

impl Report {
    /// What an iterator knows now.
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

/// What gives batches epoch by epoch: a [`DataSetIterator`], or one of batches on a device.
pub trait ByEpoch: Iterator<Item = Result<Self::Batch>> {
    /// What a batch is.
    type Batch;

    /// Makes the next batch the first one that is left of an epoch; see [`DataSetIterator::begin_epoch`].
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

/// The way from an iterator to its own trait object: every [`DataSetIterator`] has it.
pub trait AsDyn {
    /// The iterator as a trait object.
    fn as_dyn<'a>(&'a mut self) -> &'a mut (dyn DataSetIterator + 'a);
}

impl<I: DataSetIterator> AsDyn for I {
    fn as_dyn<'a>(&'a mut self) -> &'a mut (dyn DataSetIterator + 'a) {
        self
    }
}

/// The batches of one epoch, or what a state left of it; see [`DataSetIterator::epoch`].
///
/// It may be dropped before its end: the epoch that is begun after it is another one.
pub struct Epoch<'a, I: ByEpoch + ?Sized = dyn DataSetIterator + 'a> {
    /// There until it drops.
    iterator: Option<&'a mut I>,
    /// Who lent it.
    home: Option<Home<'a, I>>,
    ended: bool,
}

impl<I: ByEpoch + ?Sized> fmt::Debug for Epoch<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Where the iterator lies between two epochs.
type Home<'a, I> = Arc<Mutex<Option<&'a mut I>>>;

impl<'a, I: ByEpoch + ?Sized> Epoch<'a, I> {
    pub(crate) fn begin(iterator: &'a mut I) -> Result<Self> {
        iterator.begin_epoch()?;
        Ok(Self { iterator: Some(iterator), home: None, ended: false })
    }

    /// The iterator that they come from: its state and figures.
    pub fn iterator(&self) -> &I {
        self.iterator.as_deref().expect("it is there until the epoch drops")
    }
}

impl<I: ByEpoch + ?Sized> Iterator for Epoch<'_, I> {
    type Item = I::Item;

    /// The next batch; `None` at the end, however often it is asked for.
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

    /// Begins the next epoch. After an error there is none.
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
