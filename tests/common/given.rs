//! A reader of samples that a test gives.
#![expect(unreachable_pub, reason = "a module of several test files")]

use std::sync::Arc;

use ringfeed::Result;
use ringfeed::error::Location;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::tensor::TensorSpec;

/// Samples that are given, tensor by tensor.
#[derive(Clone)]
pub struct Given {
    pub tensors: Vec<TensorSpec>,
    pub rows: Arc<Vec<Vec<Vec<u8>>>>,
}

impl RecordReader for Given {
    fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        for (index, bytes) in self.rows[sample.id as usize].iter().enumerate() {
            row.tensor(index).bytes_mut().copy_from_slice(bytes);
        }
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}
