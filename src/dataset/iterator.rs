use std::sync::Arc;

use crate::error::Result;
use crate::schema::Schema;
use crate::stats::Stats;

use super::batch::DataSet;
use super::settle::BadRecord;
use super::state::State;

/// Batches of one epoch, then of the next: the user's side of every source.
///
/// `next` gives the epoch's batches in order and then `None`; [`reset`](Self::reset) begins the next epoch. An error is
/// an item in its batch's place, after which `next` gives `None` until a reset (an [`Exhausted`] ring is the exception:
/// drop a batch and go on).
///
/// [`Exhausted`]: crate::ErrorKind::Exhausted
pub trait DataSetIterator: Iterator<Item = Result<DataSet>> + Send {
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

    /// The first bad records that were left out or replaced, by name.
    fn bad_records(&self) -> Vec<BadRecord>;
}

impl<I: DataSetIterator + ?Sized> DataSetIterator for Box<I> {
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

    fn bad_records(&self) -> Vec<BadRecord> {
        (**self).bad_records()
    }
}
