//! Consecutive records, one row each, of which windows are made.

use std::ops::Range;

use crate::decode::write_numbers;
use crate::dtype::NumberSlice;
use crate::error::Result;
use crate::layout::Layout;
use crate::row::{RowsMut, TensorMut};
use crate::schema::{Extents, MaskOf, Schema, TensorSpec};

/// The tensors of one record. All records have the same shapes.
pub(crate) struct RecordTensors {
    schema: Schema,
    /// Where each tensor has padding.
    padding: Vec<Option<Padding>>,
}

/// Where a record's tensor has padding.
#[derive(Clone, Copy)]
struct Padding {
    /// The tensor that is its mask.
    mask: usize,
    /// Number of neighbouring elements for each element of the mask.
    run: usize,
}

impl Padding {
    fn of(spec: &TensorSpec, tensors: &[TensorSpec]) -> Option<Self> {
        let MaskOf { name, axis, rank } = spec.mask(tensors.iter())?;
        let mask = tensors.iter().position(|spec| spec.name == name)?;
        Some(Self { mask, run: spec.row_shape(&Extents::default())[axis + rank..].iter().product() })
    }
}

impl RecordTensors {
    /// # Errors
    ///
    /// As [`Schema::new`].
    pub(crate) fn new(tensors: &[TensorSpec]) -> Result<Self> {
        let padding = tensors.iter().map(|spec| Padding::of(spec, tensors)).collect();
        Ok(Self { schema: Schema::new(tensors.to_vec())?, padding })
    }

    /// Number of bytes of tensor `at` in one record.
    pub(crate) fn bytes(&self, at: usize) -> usize {
        let spec = &self.schema.tensors()[at];
        spec.row_shape(&Extents::default()).iter().product::<usize>() * spec.dtype.bytes()
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Writes tensor `at` of these rows as records of a window from record `first` on, normalised if the window's is.
    /// Padding is not, as in batches of single records.
    ///
    /// # Errors
    ///
    /// As [`write_numbers`].
    pub(crate) fn write(
        &self,
        at: usize,
        rows: &RecordRows,
        range: Range<usize>,
        to: &mut TensorMut<'_>,
        first: usize,
    ) -> Result<()> {
        let dtype = |at: usize| self.schema.tensors()[at].dtype;
        let record_bytes = rows.layout.tensors()[at].row_bytes();
        let values = NumberSlice::of(dtype(at), rows.bytes(at, range.clone()));
        write_numbers(to, first * (record_bytes / dtype(at).bytes()), values)?;
        let Some(Padding { mask, run }) = self.padding[at].filter(|_| to.affine().is_some()) else { return Ok(()) };
        let run = (run * dtype(at).bytes()).max(1);
        for (nth, row) in range.enumerate() {
            let mask = NumberSlice::of(dtype(mask), rows.bytes(mask, row..row + 1));
            let from = rows.bytes(at, row..row + 1).chunks(run);
            let to = to.bytes_mut()[(first + nth) * record_bytes..].chunks_mut(run);
            for ((from, to), place) in from.zip(to).zip((0..mask.len()).cycle()) {
                if mask.at(place) == 0.0 {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(())
    }
}

/// Memory for the tensors of consecutive records. The rows of a tensor are adjacent.
#[derive(Default)]
pub(crate) struct RecordRows {
    layout: Layout,
    /// The memory of the layout, aligned to 8 bytes.
    memory: Vec<u64>,
}

impl RecordRows {
    /// Lays out so many rows, and returns the number of bytes that they need.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if it overflows.
    pub(crate) fn lay_out(&mut self, tensors: &RecordTensors, rows: usize) -> Result<u64> {
        if self.layout.rows() != rows || self.layout.tensors().is_empty() {
            self.layout.compute(&tensors.schema, rows, Extents::default())?;
        }
        Ok(self.layout.bytes().next_multiple_of(8) as u64)
    }

    /// Provides the memory of the layout. Returns whether there is enough.
    pub(crate) fn allocate(&mut self) -> bool {
        let words = self.layout.bytes().div_ceil(8);
        let missing = words.saturating_sub(self.memory.len());
        let is_there = self.memory.try_reserve_exact(missing).is_ok();
        if missing > 0 && is_there {
            self.memory.resize(words, 0);
        }
        is_there
    }

    /// Bytes that are allocated.
    pub(crate) fn allocated(&self) -> u64 {
        8 * self.memory.len() as u64
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.layout.rows()
    }

    /// These rows, for writing.
    pub(crate) fn rows_mut<'a>(&'a mut self, tensors: &'a RecordTensors, rows: Range<usize>) -> RowsMut<'a> {
        RowsMut::new(bytemuck::cast_slice_mut(&mut self.memory), tensors.schema.tensors(), &self.layout, rows)
    }

    /// The bytes of tensor `at` in these rows.
    pub(crate) fn bytes(&self, at: usize, rows: Range<usize>) -> &[u8] {
        let tensor = &self.layout.tensors()[at];
        let (start, bytes): (usize, &[u8]) = (tensor.offset(), bytemuck::cast_slice(&self.memory));
        &bytes[start + rows.start * tensor.row_bytes()..start + rows.end * tensor.row_bytes()]
    }

    /// Moves these rows to the first ones.
    pub(crate) fn move_to_front(&mut self, rows: Range<usize>) {
        let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut self.memory);
        for tensor in self.layout.tensors() {
            let (start, bytes) = (tensor.offset(), tensor.row_bytes());
            memory.copy_within(start + rows.start * bytes..start + rows.end * bytes, start);
        }
    }
}
