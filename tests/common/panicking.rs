//! An iterator that panics.
#![expect(unreachable_pub, reason = "a module of several test files")]

use std::sync::Arc;

use ringfeed::inspect::BadRecord;
use ringfeed::order::State;
use ringfeed::stats::Stats;
use ringfeed::tensor::Schema;
use ringfeed::{DataSet, DataSetIterator, Result};

/// The batches of another iterator, with a panic in place of the one of this index.
pub struct Panicking(pub Box<dyn DataSetIterator>, pub u64);

impl Iterator for Panicking {
    type Item = Result<DataSet>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.0.next()?;
        assert_ne!(batch.as_ref().unwrap().index(), self.1, "in the midst of an epoch");
        Some(batch)
    }
}

impl DataSetIterator for Panicking {
    fn begin_epoch(&mut self) -> Result<()> {
        self.0.begin_epoch()
    }

    fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.0.seek(state)
    }

    fn schema(&self) -> &Arc<Schema> {
        self.0.schema()
    }

    fn state(&self) -> State {
        self.0.state()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        self.0.batches_per_epoch()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn bad_records(&self) -> Vec<BadRecord> {
        self.0.bad_records()
    }
}
