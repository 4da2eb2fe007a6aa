//! A reader that waits on a timer, for the benchmarks in which waiting is all that matters.

use std::time::Duration;

use ringfeed::DType;
use ringfeed::error::Location;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::tensor::{Role, TensorSpec};

/// Records that take a while to read, each as long as `time` says, and nothing to decode.
pub(crate) struct Sleeper<F> {
    len: u64,
    time: F,
    tensors: [TensorSpec; 1],
}

impl<F: Fn(u64) -> Duration + Send + Sync> Sleeper<F> {
    pub(crate) fn new(len: u64, time: F) -> Self {
        Self { len, time, tensors: [TensorSpec::new("x", Role::Feature, DType::U8, &[])] }
    }
}

impl<F: Fn(u64) -> Duration + Send + Sync> RecordReader for Sleeper<F> {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> ringfeed::Result<()> {
        std::thread::sleep((self.time)(samples[nth]));
        Ok(())
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> ringfeed::Result<()> {
        row.zero();
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}
