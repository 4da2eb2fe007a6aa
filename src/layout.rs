use std::ops::Range;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Extents, MAX_EXTENTS, Rows, Schema, Shape};

/// Tensors start at multiples of this number of bytes in a slot, as DLPack requires.
pub const TENSOR_ALIGNMENT: usize = 256;

/// Where each tensor of one batch lies in its slot. Neither tensors nor rows of a tensor overlap.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    rows: usize,
    bytes: usize,
    extents: Extents,
    tensors: Vec<TensorLayout>,
    /// For each row, if a tensor is ragged.
    runs: Vec<Run>,
}

/// Where one sample lies in ragged tensors, in elements, by extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: [usize; MAX_EXTENTS],
    pub(crate) len: [usize; MAX_EXTENTS],
}

impl Run {
    fn new(start: [usize; MAX_EXTENTS], lengths: Extents) -> Self {
        Self { start, len: lengths.0.map(|length| length as usize) }
    }

    /// Where the next sample begins; `None` beyond any memory.
    fn end(&self) -> Option<[usize; MAX_EXTENTS]> {
        let mut end = self.start;
        for (end, len) in end.iter_mut().zip(self.len) {
            *end = end.checked_add(len)?;
        }
        Some(end)
    }
}

/// Where one tensor of a batch lies: its samples one after another, without gaps. Each sample has the shape
/// `row_shape`, unless the tensor is [ragged](Rows::Ragged). [`Layout::shape`] and [`Layout::range`] are correct for
/// all tensors.
#[derive(Clone, Copy, Debug)]
pub struct TensorLayout {
    pub(crate) offset: usize,
    pub(crate) row_bytes: usize,
    pub(crate) row_shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) rows: Rows,
    /// The extent that decides the sizes of its samples, if they differ.
    pub(crate) extent: usize,
    /// Whether it is beside the slot, in memory of the thread that fills it: see `row/wide.rs`.
    pub(crate) is_aside: bool,
}

impl TensorLayout {
    /// First byte in the slot; a multiple of [`TENSOR_ALIGNMENT`].
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes of one sample; in a ragged tensor, of the longest sample.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Shape of one sample, padding included; in a ragged tensor, of the longest sample.
    pub fn row_shape(&self) -> &Shape {
        &self.row_shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How its samples are stored.
    pub fn rows(&self) -> Rows {
        self.rows
    }
}

impl Layout {
    /// Computes the layout of `rows` samples of `schema`, all with these extents, reusing this layout's memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] if the batch's size in bytes overflows.
    pub fn compute(&mut self, schema: &Schema, rows: usize, extents: Extents) -> Result<()> {
        self.compute_each(schema, rows, extents, &[])
    }

    /// The same with the extents of each sample, which ragged tensors need. None of them is larger than `extents`. If
    /// `each` is empty, all samples have `extents`.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute).
    pub(crate) fn compute_each(
        &mut self,
        schema: &Schema,
        rows: usize,
        extents: Extents,
        each: &[Extents],
    ) -> Result<()> {
        self.tensors.clear();
        self.runs.clear();
        self.rows = rows;
        self.extents = extents;
        self.bytes = 0;
        let sums = if schema.is_ragged() { self.lay_out_runs(rows, extents, each)? } else { [0; MAX_EXTENTS] };
        for tensor in schema.tensors() {
            let row_shape = tensor.row_shape(&extents);
            let extent = tensor.ragged_extent().unwrap_or_default();
            let sizes = row_shape.elements().and_then(|elements| {
                let row_bytes = elements.checked_mul(tensor.dtype.bytes())?;
                let offset = self.bytes.checked_next_multiple_of(TENSOR_ALIGNMENT)?;
                let bytes = match tensor.rows {
                    Rows::Even => row_bytes.checked_mul(rows)?,
                    Rows::Ragged => sums[extent].checked_mul(tensor.dtype.bytes())?,
                    Rows::Offsets => rows.checked_add(1)?.checked_mul(tensor.dtype.bytes())?,
                };
                let end = offset.checked_add(bytes)?;
                (end <= isize::MAX as usize).then_some((row_bytes, offset, end))
            });
            let Some((row_bytes, offset, end)) = sizes else {
                let message = format!("a batch of {rows} samples of shape {row_shape:?} has more bytes than memory");
                return Err(Error::new(ErrorKind::Limit, message).at_column(&tensor.name));
            };
            self.bytes = end;
            let dtype = tensor.dtype;
            let rows = tensor.rows;
            self.tensors.push(TensorLayout { offset, row_bytes, row_shape, dtype, rows, extent, is_aside: false });
        }
        Ok(())
    }

    /// Computes where each sample begins, and the number of elements of all samples.
    fn lay_out_runs(&mut self, rows: usize, extents: Extents, each: &[Extents]) -> Result<[usize; MAX_EXTENTS]> {
        self.runs.try_reserve(rows).map_err(|error| {
            let message = format!("no memory to lay out a batch of {rows} samples; lower the batch size");
            Error::new(ErrorKind::Limit, message).with_source(error)
        })?;
        let mut start = [0; MAX_EXTENTS];
        for row in 0..rows {
            let run = Run::new(start, each.get(row).copied().unwrap_or(extents));
            self.runs.push(run);
            start = run.end().ok_or_else(|| {
                let message = format!("a batch of {rows} samples has more elements than memory");
                Error::new(ErrorKind::Limit, message)
            })?;
        }
        Ok(start)
    }

    /// Samples in the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the slot that the batch uses.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The longest extents among the samples.
    pub fn extents(&self) -> Extents {
        self.extents
    }

    /// The tensors, in the schema's order.
    pub fn tensors(&self) -> &[TensorLayout] {
        &self.tensors
    }

    /// Shape of the batch's tensor `index`: `[samples, ...]`; `[elements]` for a ragged tensor, `[samples + 1]` for
    /// offsets.
    ///
    /// # Panics
    ///
    /// If there is no such tensor.
    pub fn shape(&self, index: usize) -> Shape {
        let tensor = &self.tensors[index];
        match tensor.rows {
            Rows::Ragged => Shape::new(&[self.elements(tensor.extent)]),
            Rows::Offsets => Shape::new(&[self.rows + 1]),
            Rows::Even => {
                let mut shape = Shape::new(&[self.rows]);
                tensor.row_shape.iter().for_each(|dim| shape.push(*dim));
                shape
            }
        }
    }

    /// The range of bytes in the slot that the batch's tensor `index` uses.
    ///
    /// # Panics
    ///
    /// If there is no such tensor.
    pub fn range(&self, index: usize) -> Range<usize> {
        let tensor = &self.tensors[index];
        let bytes = match tensor.rows {
            Rows::Even => self.rows * tensor.row_bytes,
            Rows::Ragged => self.elements(tensor.extent) * tensor.dtype.bytes(),
            Rows::Offsets => (self.rows + 1) * tensor.dtype.bytes(),
        };
        tensor.offset..tensor.offset + bytes
    }

    /// The elements of a sample in the batch's tensor `index`; for offsets, where the sample begins.
    pub(crate) fn row_elements(&self, index: usize, row: usize) -> Range<usize> {
        let tensor = &self.tensors[index];
        let each = tensor.row_bytes / tensor.dtype.bytes();
        match tensor.rows {
            Rows::Even => row * each..(row + 1) * each,
            Rows::Ragged => {
                let run = &self.runs[row];
                run.start[tensor.extent]..run.start[tensor.extent] + run.len[tensor.extent]
            }
            Rows::Offsets => row..row + 1,
        }
    }

    /// Number of elements of all samples, in the ragged tensors with this extent.
    fn elements(&self, extent: usize) -> usize {
        self.runs.last().map_or(0, |last| last.start[extent] + last.len[extent])
    }

    /// Where the samples are in ragged tensors; empty if there are none.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Bytes of tensor data, without the gaps between tensors.
    pub fn tensor_bytes(&self) -> usize {
        (0..self.tensors.len()).map(|index| self.range(index).len()).sum()
    }

    /// Writes where the samples of ragged tensors begin and end to `bytes`, the slot's memory.
    pub(crate) fn write_offsets(&self, bytes: &mut [u8]) {
        for (index, tensor) in self.tensors.iter().enumerate().filter(|(_, tensor)| tensor.rows == Rows::Offsets) {
            let ends = self.runs.iter().map(|run| run.start[tensor.extent] + run.len[tensor.extent]);
            let offsets: &mut [i64] = bytemuck::cast_slice_mut(&mut bytes[self.range(index)]);
            for (offset, at) in offsets.iter_mut().zip(std::iter::once(0).chain(ends)) {
                *offset = at as i64;
            }
        }
    }

    /// Keeps the first `rows` samples; the others were bad and are removed.
    pub(crate) fn truncate(&mut self, rows: usize) {
        debug_assert!(rows <= self.rows);
        self.rows = rows;
        self.runs.truncate(rows);
    }

    /// Moves sample `from` to place `to` in `bytes`, the slot's memory, after the samples before it.
    pub(crate) fn move_row(&mut self, bytes: &mut [u8], from: usize, to: usize) {
        debug_assert!(to < from);
        let moved = self.runs.get(from).map(|run| {
            let start = to.checked_sub(1).and_then(|before| self.runs[before].end()).unwrap_or_default();
            (*run, Run { start, ..*run })
        });
        for tensor in &self.tensors {
            match (tensor.rows, moved) {
                (Rows::Even, _) => {
                    let start = tensor.offset + from * tensor.row_bytes;
                    bytes.copy_within(start..start + tensor.row_bytes, tensor.offset + to * tensor.row_bytes);
                }
                (Rows::Ragged, Some((from, to))) => {
                    let (extent, width) = (tensor.extent, tensor.dtype.bytes());
                    let start = tensor.offset + from.start[extent] * width;
                    let len = from.len[extent] * width;
                    bytes.copy_within(start..start + len, tensor.offset + to.start[extent] * width);
                }
                _ => {}
            }
        }
        if let Some((_, run)) = moved {
            self.runs[to] = run;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Dim, Role, TensorSpec};

    #[test]
    fn tensors_start_aligned_and_take_the_longest_extents() {
        let schema = Schema::new(vec![
            TensorSpec::with_dims("x", Role::Feature, DType::F32, vec![Dim::Extent(0), Dim::Fixed(3)]),
            TensorSpec::new("y", Role::Label, DType::I64, &[]),
        ])
        .unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 5, Extents::of_length(7)).unwrap();
        assert_eq!(layout.tensors()[0].row_bytes(), 7 * 3 * 4);
        assert_eq!(layout.tensors()[1].offset(), 512);
        assert_eq!(layout.bytes(), 512 + 5 * 8);
    }

    #[test]
    fn ragged_samples_lie_one_behind_another_also_when_some_are_taken_out() {
        let schema = Schema::new(vec![
            TensorSpec::ragged("values", Role::Feature, DType::U16, 0),
            TensorSpec::offsets("values_offsets", 0),
            TensorSpec::new("y", Role::Label, DType::U8, &[]),
        ])
        .unwrap();
        let mut layout = Layout::default();
        let each = [3, 0, 2, 4].map(Extents::of_length);
        layout.compute_each(&schema, 4, Extents::of_length(4), &each).unwrap();
        assert_eq!((layout.shape(0).to_vec(), layout.shape(1).to_vec()), (vec![9], vec![5]));
        assert_eq!((layout.bytes(), layout.tensor_bytes()), (516, 18 + 40 + 4));
        let mut slot = [0u64; 65];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut slot);
        for (row, at) in [(0, 0..3), (2, 3..5), (3, 5..9)] {
            bytemuck::cast_slice_mut::<u8, u16>(&mut bytes[..18])[at].fill(row);
        }
        layout.move_row(bytes, 2, 0);
        layout.move_row(bytes, 3, 1);
        layout.truncate(2);
        layout.write_offsets(bytes);
        assert_eq!(bytemuck::cast_slice::<u8, u16>(&bytes[layout.range(0)]), [2, 2, 3, 3, 3, 3]);
        assert_eq!(bytemuck::cast_slice::<u8, i64>(&bytes[layout.range(1)]), [0, 2, 6]);
        layout.truncate(0);
        layout.write_offsets(bytes);
        assert_eq!((layout.range(0).len(), bytemuck::cast_slice::<u8, i64>(&bytes[layout.range(1)])), (0, &[0][..]));
        let all_alike = |layout: &mut Layout| layout.compute(&schema, 2, Extents::of_length(3));
        all_alike(&mut layout).unwrap();
        assert_eq!(layout.shape(0).to_vec(), [6]);
    }

    #[test]
    fn a_size_that_overflows_is_an_error() {
        let huge = TensorSpec::new("x", Role::Feature, DType::F64, &[usize::MAX / 4, 8]);
        let schema = Schema::new(vec![huge]).unwrap();
        let error = Layout::default().compute(&schema, 1, Extents::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
