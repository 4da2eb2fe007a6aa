//! Streamed records that are their numbers.
#![expect(unreachable_pub, reason = "a module of several test files")]

use ringfeed::error::Location;
use ringfeed::read::{Record, RecordDecoder, RowMut, Sample, Scratch};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::{DType, Result};

/// Makes a tensor of each record's number.
pub struct Numbered([TensorSpec; 1]);

impl Numbered {
    pub fn new(name: &str) -> Self {
        Self([TensorSpec::new(name, Role::Feature, DType::I64, &[])])
    }
}

impl RecordDecoder for Numbered {
    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn decode(&self, _: Sample, record: &Record, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        row.tensor(0).as_mut_slice::<i64>()?[0] = record.index as i64;
        Ok(())
    }

    fn place(&self, record: &Record) -> Location {
        Location { record: Some(record.index), ..Location::default() }
    }
}
