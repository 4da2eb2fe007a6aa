use std::sync::Arc;

use crate::error::Result;
use crate::schema::Schema;
use crate::stats::Stats;

use super::batch::DataSet;
use super::contract::State;
use super::settle::SkippedRecord;

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

    /// Goes on from `state`, as [`state`](Self::state) gave it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the source can only be read in order,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if it was made with another seed.
    fn seek(&mut self, state: &State) -> Result<()>;

    /// What a sample is made of.
    fn schema(&self) -> &Arc<Schema>;

    /// Where the iterator stands: after the last batch that `next` returned.
    fn state(&self) -> State;

    /// Number of batches an epoch, where it is known before reading them.
    fn batches_per_epoch(&self) -> Option<u64>;

    /// The figures so far.
    fn stats(&self) -> Stats;

    /// The first bad records that were left out, by name.
    fn skipped(&self) -> Vec<SkippedRecord>;
}
