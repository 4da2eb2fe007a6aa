mod picked;
mod wide;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use crate::dtype::{DType, Element, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::{Layout, Run, TensorLayout};
use crate::schema::{Affine, Extents, Rows, Shape, TensorSpec};
use crate::view::TensorView;

pub(crate) use picked::{Picked, PickedRoom};
pub(crate) use wide::{Wide, WideMemory};

/// The rows of several consecutive samples in a batch that is being filled.
pub struct RowsMut<'a> {
    base: Base,
    specs: &'a [TensorSpec],
    tensors: &'a [TensorLayout],
    /// Where the batch's samples are in ragged tensors.
    runs: &'a [Run],
    rows: Range<usize>,
    /// The positions among `rows` that belong to it, if not all do.
    chosen: Option<&'a [usize]>,
    extents: Extents,
    memory: PhantomData<&'a mut [u8]>,
}

impl fmt::Debug for RowsMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsMut").field("rows", &self.rows).field("tensors", &self.specs.len()).finish_non_exhaustive()
    }
}

/// Where tensors begin: those of the batch in its slot, others [beside it](Wide).
#[derive(Clone, Copy)]
struct Base {
    slot: NonNull<u8>,
    aside: NonNull<u8>,
    /// The batch's row that is the first row there.
    first_aside: usize,
}

impl<'a> RowsMut<'a> {
    /// These rows of a batch with this layout in `slot`.
    ///
    /// # Panics
    ///
    /// As [`RowMut::new`].
    pub(crate) fn new(slot: &'a mut [u8], specs: &'a [TensorSpec], layout: &'a Layout, rows: Range<usize>) -> Self {
        assert!(layout.bytes() <= slot.len(), "the slot is too small for the layout");
        assert!(slot.as_ptr().addr().is_multiple_of(8), "a slot starts at a multiple of 8 bytes");
        let is_laid_out = |(spec, tensor): (&TensorSpec, &TensorLayout)| spec.dtype == tensor.dtype;
        assert!(specs.iter().zip(layout.tensors()).all(is_laid_out), "a layout is of one schema");
        // SAFETY: the slot is borrowed exclusively for 'a and is as large as the layout (asserted above).
        unsafe { Self::from_raw(NonNull::from(slot).cast(), specs, layout, rows) }
    }

    /// # Safety
    ///
    /// `slot` must point to memory of at least `layout.bytes()` bytes, aligned to 8 bytes, valid for 'a, in which
    /// nobody else touches the bytes of the rows `rows` of any tensor of the layout for 'a.
    pub(crate) unsafe fn from_raw(
        slot: NonNull<u8>,
        specs: &'a [TensorSpec],
        layout: &'a Layout,
        rows: Range<usize>,
    ) -> Self {
        assert!(rows.start <= rows.end && rows.end <= layout.rows(), "rows {rows:?} of a batch of {}", layout.rows());
        assert_eq!(specs.len(), layout.tensors().len(), "a layout is of one schema");
        let base = Base { slot, aside: NonNull::dangling(), first_aside: rows.start };
        let (tensors, runs, extents) = (layout.tensors(), layout.runs(), layout.extents());
        Self { base, specs, tensors, runs, rows, chosen: None, extents, memory: PhantomData }
    }

    /// These rows with further tensors in addition to the batch's. Their content is undefined: it is left over from the
    /// last call.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] if there is no memory for them, [`ErrorKind::Unsupported`] for rows that are wide already.
    ///
    /// # Panics
    ///
    /// If `wide` is of another schema.
    pub(crate) fn widen<'b>(&'b mut self, wide: &'b Wide, memory: &'b mut WideMemory) -> Result<RowsMut<'b>> {
        if self.tensors.iter().any(|tensor| tensor.is_aside) {
            let message = "transforms: these samples are transformed already; make one list of both";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        memory.lay_out(wide, self.tensors, self.extents, self.rows.len())?;
        let aside = NonNull::from(&mut memory.aside[..]).cast();
        Ok(RowsMut {
            base: Base { slot: self.base.slot, aside, first_aside: self.rows.start },
            specs: &wide.specs,
            tensors: &memory.tensors,
            runs: self.runs,
            rows: self.rows.clone(),
            chosen: self.chosen,
            extents: self.extents,
            memory: PhantomData,
        })
    }

    /// The rows at `places` among these rows, in ascending order.
    ///
    /// # Panics
    ///
    /// If these rows were chosen from others themselves.
    pub(crate) fn chosen<'b>(&'b mut self, places: &'b [usize]) -> RowsMut<'b> {
        assert!(self.chosen.is_none(), "rows are chosen once");
        let start = self.rows.start;
        let (rows, chosen) = match places {
            // One after another without a gap.
            [first, .., last] if last - first == places.len() - 1 => (start + first..start + last + 1, None),
            _ => (self.rows.clone(), Some(places)),
        };
        assert!(rows.end <= self.rows.end, "rows {places:?} of {}", self.rows.len());
        RowsMut {
            base: self.base,
            specs: self.specs,
            tensors: self.tensors,
            runs: self.runs,
            rows,
            chosen,
            extents: self.extents,
            memory: PhantomData,
        }
    }

    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.chosen.map_or(self.rows.len(), <[usize]>::len)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row `nth` of these rows.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[inline]
    pub fn row(&mut self, nth: usize) -> RowMut<'_> {
        let nth = self.chosen.map_or(nth, |chosen| chosen[nth]);
        assert!(nth < self.rows.len(), "row {nth} of {}", self.rows.len());
        let row = self.rows.start + nth;
        RowMut {
            base: self.base,
            specs: self.specs,
            tensors: self.tensors,
            runs: self.runs,
            row,
            extents: self.extents,
            memory: PhantomData,
        }
    }

    /// The description of tensor `index`, and its shape in each of these rows, unless rows have different sizes.
    ///
    /// # Panics
    ///
    /// If there is no such tensor.
    pub(crate) fn tensor_spec(&self, index: usize) -> (&'a TensorSpec, &'a [usize]) {
        (&self.specs[index], &self.tensors[index].row_shape[..])
    }

    /// The bytes of tensor `index` in all these rows, one row after another; `None` if rows have different sizes or are
    /// not adjacent.
    ///
    /// # Panics
    ///
    /// If there is no such tensor.
    pub(crate) fn tensor_bytes(&mut self, index: usize) -> Option<&mut [u8]> {
        let tensor = &self.tensors[index];
        if tensor.rows != Rows::Even || self.rows.is_empty() || self.chosen.is_some() {
            return None;
        }
        let start = self.base.start_of(tensor, self.rows.start);
        // SAFETY: rows of an even tensor lie without gaps. These belong to these rows of this tensor alone
        // (constructor's contract), and `&mut self` is borrowed for as long as the slice lives, so no second slice of
        // them exists.
        Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.rows.len() * tensor.row_bytes) })
    }

    /// The part of these rows with `count` tensors from `first` on. One of several combined readers fills it.
    ///
    /// # Panics
    ///
    /// If the rows have fewer tensors.
    pub fn part(&mut self, first: usize, count: usize) -> RowsMut<'_> {
        RowsMut {
            base: self.base,
            specs: &self.specs[first..first + count],
            tensors: &self.tensors[first..first + count],
            runs: self.runs,
            rows: self.rows.clone(),
            chosen: self.chosen,
            extents: self.extents,
            memory: PhantomData,
        }
    }
}

/// The row of one sample in a batch that is being filled: a decoder writes into it.
///
/// It contains every tensor that the decoder contributes, and nothing of any other sample. The memory still has the
/// bytes of an earlier batch: a decoder must write every byte, padding included.
pub struct RowMut<'a> {
    base: Base,
    specs: &'a [TensorSpec],
    tensors: &'a [TensorLayout],
    runs: &'a [Run],
    row: usize,
    extents: Extents,
    memory: PhantomData<&'a mut [u8]>,
}

impl fmt::Debug for RowMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMut").field("row", &self.row).field("tensors", &self.specs.len()).finish_non_exhaustive()
    }
}

impl<'a> RowMut<'a> {
    /// Row `row` of a batch with this layout in `slot`.
    ///
    /// # Panics
    ///
    /// If the slot is smaller than the layout, not aligned for its elements, has no such row, or `specs` are not the
    /// tensors of the layout.
    pub fn new(slot: &'a mut [u8], specs: &'a [TensorSpec], layout: &'a Layout, row: usize) -> Self {
        assert!(row < layout.rows(), "row {row} of a batch of {}", layout.rows());
        let rows = RowsMut::new(slot, specs, layout, row..row + 1);
        let RowsMut { base, specs, tensors, runs, extents, .. } = rows;
        Self { base, specs, tensors, runs, row, extents, memory: PhantomData }
    }

    /// The part of this row with `count` tensors from `first` on. One of several combined readers fills it.
    ///
    /// # Panics
    ///
    /// If the row has fewer tensors.
    pub fn part(&mut self, first: usize, count: usize) -> RowMut<'_> {
        RowMut {
            base: self.base,
            specs: &self.specs[first..first + count],
            tensors: &self.tensors[first..first + count],
            runs: self.runs,
            row: self.row,
            extents: self.extents,
            memory: PhantomData,
        }
    }

    /// The tensors that are to be written.
    pub fn specs(&self) -> &'a [TensorSpec] {
        self.specs
    }

    /// The longest extents in the batch, to which this sample must be padded.
    pub fn extents(&self) -> Extents {
        self.extents
    }

    /// This sample's part of tensor `index`.
    ///
    /// # Panics
    ///
    /// If there is no such tensor.
    #[inline]
    pub fn tensor(&mut self, index: usize) -> TensorMut<'_> {
        let (start, len, shape) = self.place(&self.tensors[index]);
        // SAFETY: these bytes belong to this row of this tensor alone (constructor's contract), and `&mut self` is
        // borrowed for as long as the slice lives, so no second slice of this row exists.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) };
        TensorMut { spec: &self.specs[index], shape, bytes }
    }

    /// Where this sample's part of a tensor begins, its bytes and its dimensions.
    #[inline]
    fn place(&self, tensor: &'a TensorLayout) -> (NonNull<u8>, usize, &'a [usize]) {
        if tensor.rows != Rows::Even {
            return self.place_ragged(tensor);
        }
        (self.base.start_of(tensor, self.row), tensor.row_bytes, &tensor.row_shape[..])
    }

    /// The same for a tensor whose samples have different sizes. A sample has no part of a tensor of offsets.
    fn place_ragged(&self, tensor: &'a TensorLayout) -> (NonNull<u8>, usize, &'a [usize]) {
        assert!(!tensor.is_aside, "ragged tensors lie in the slot");
        let run = &self.runs[self.row];
        let (len, width) = (&run.len[tensor.extent], tensor.dtype.bytes());
        let (at, shape) = match tensor.rows {
            Rows::Offsets => (0, NOTHING),
            _ => (run.start[tensor.extent] * width, std::slice::from_ref(len)),
        };
        // SAFETY: the constructor's contract gives the slot at least `Layout::bytes` bytes, and a layout keeps the
        // tensor, and each row's run of it, below that.
        let start = unsafe { self.base.slot.add(tensor.offset + at) };
        (start, shape[0] * width, shape)
    }

    /// The tensors `written` for writing, and all others for reading.
    pub(crate) fn split<'b>(&'b mut self, written: &'b [usize]) -> (RowView<'b>, Written<'b>) {
        let row = RowMut { memory: PhantomData, ..*self };
        let view = RowView { row: RowMut { memory: PhantomData, ..*self }, written };
        (view, Written { row, written })
    }

    /// Only this row, as rows.
    pub(crate) fn as_rows(&mut self) -> RowsMut<'_> {
        RowsMut {
            base: self.base,
            specs: self.specs,
            tensors: self.tensors,
            runs: self.runs,
            rows: self.row..self.row + 1,
            chosen: None,
            extents: self.extents,
            memory: PhantomData,
        }
    }

    /// Writes zeros everywhere.
    pub fn zero(&mut self) {
        for index in 0..self.tensors.len() {
            self.tensor(index).bytes_mut().fill(0);
        }
    }
}

/// The shape of a sample's part of a tensor that belongs to no sample.
const NOTHING: &[usize] = &[0];

impl Base {
    /// The first byte of row `row` of a tensor.
    #[inline]
    fn start_of(self, layout: &TensorLayout, row: usize) -> NonNull<u8> {
        if layout.is_aside {
            let offset = layout.offset + (row - self.first_aside) * layout.row_bytes;
            // SAFETY: `widen` laid the tensor out in the memory aside, with as many rows as there are from the first
            // one on.
            unsafe { self.aside.add(offset) }
        } else {
            // SAFETY: the constructor's contract gives the slot at least `Layout::bytes` bytes, it made sure that the
            // row is one of the layout's, and a layout keeps every row of every tensor below that.
            unsafe { self.slot.add(layout.offset + row * layout.row_bytes) }
        }
    }
}

/// The tensors of one sample that may be read while others are written.
pub(crate) struct RowView<'a> {
    row: RowMut<'a>,
    written: &'a [usize],
}

impl RowView<'_> {
    /// This sample's part of tensor `index`; `None` if it is being written, or does not exist.
    pub(crate) fn tensor(&self, index: usize) -> Option<TensorView<'_>> {
        let layout = self.row.tensors.get(index).filter(|_| !self.written.contains(&index))?;
        let (start, len, shape) = self.row.place(layout);
        // SAFETY: these bytes belong to this row of this tensor alone. `split` borrows the row for as long as this view
        // lives, and the other half writes only those tensors that are refused here: tensors do not overlap.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
        Some(TensorView::of_row(&self.row.specs[index], Shape::new(shape), bytes))
    }
}

/// The tensors of one sample that may be written while others are read.
pub(crate) struct Written<'a> {
    row: RowMut<'a>,
    written: &'a [usize],
}

impl Written<'_> {
    /// Number of tensors.
    pub(crate) fn len(&self) -> usize {
        self.written.len()
    }

    /// The `nth` of them.
    pub(crate) fn tensor(&mut self, nth: usize) -> TensorMut<'_> {
        self.row.tensor(self.written[nth])
    }
}

/// One sample's part of one tensor, to be written.
pub struct TensorMut<'a> {
    spec: &'a TensorSpec,
    shape: &'a [usize],
    bytes: &'a mut [u8],
}

impl fmt::Debug for TensorMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorMut")
            .field("name", &self.spec.name)
            .field("dtype", &self.spec.dtype)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl<'a> TensorMut<'a> {
    /// Memory beside the batch for a whole number of elements like those of a tensor, aligned for them.
    pub(crate) fn beside(spec: &'a TensorSpec, bytes: &'a mut [u8]) -> Self {
        Self { spec, shape: NOTHING, bytes }
    }

    /// The description of the tensor.
    pub fn spec(&self) -> &'a TensorSpec {
        self.spec
    }

    /// Element type to write.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Shape of one sample in this batch, padding included; in a ragged tensor, this sample's own shape.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The transformation to apply while writing.
    pub fn affine(&self) -> Option<&'a Affine> {
        self.spec.affine.as_deref()
    }

    /// The raw bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// The elements, of any type. No copy.
    pub fn numbers(&self) -> NumberSlice<'_> {
        NumberSlice::of(self.spec.dtype, self.bytes)
    }

    /// The elements of a tensor of type `f32`, row-major.
    ///
    /// # Errors
    ///
    /// As [`as_mut_slice`](Self::as_mut_slice).
    pub fn f32(&mut self) -> Result<&mut [f32]> {
        self.as_mut_slice()
    }

    /// The elements of a tensor of type `i64`, row-major.
    ///
    /// # Errors
    ///
    /// As [`as_mut_slice`](Self::as_mut_slice).
    pub fn i64(&mut self) -> Result<&mut [i64]> {
        self.as_mut_slice()
    }

    /// The elements, row-major.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the tensor holds another element type.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        if T::DTYPE != self.spec.dtype {
            let message = format!("the tensor holds {}, not {}", self.spec.dtype, T::DTYPE);
            return Err(Error::new(ErrorKind::Schema, message).at_column(&self.spec.name));
        }
        Ok(bytemuck::cast_slice_mut(self.bytes))
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::schema::{Role, Schema};

    fn layout(dtype: DType, rows: usize) -> (Schema, Layout) {
        let schema = Schema::new(vec![TensorSpec::new("x", Role::Feature, dtype, &[4])]).expect("one tensor");
        let mut layout = Layout::default();
        layout.compute(&schema, rows, Extents::default()).expect("it is small");
        (schema, layout)
    }

    #[test]
    fn a_row_that_the_batch_does_not_have_is_refused() {
        let (schema, layout) = layout(DType::U8, 3);
        let mut slot = [0u64; 2];
        for row in [3, 4, usize::MAX / 4, usize::MAX - 1, usize::MAX] {
            let slot = bytemuck::cast_slice_mut(&mut slot);
            let made = catch_unwind(AssertUnwindSafe(|| {
                RowMut::new(slot, schema.tensors(), &layout, row);
            }));
            let message = made.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(*message, format!("row {row} of a batch of 3"));
        }
        RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 2).tensor(0).bytes_mut().fill(7);
        assert_eq!(bytemuck::cast_slice::<u64, u8>(&slot)[7..13], [0, 7, 7, 7, 7, 0]);
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "what no caller may get away with")]
    fn rows_that_end_before_they_begin_are_refused() {
        let (schema, layout) = layout(DType::U8, 3);
        let mut slot = [0u64; 2];
        for rows in [2..1, usize::MAX..0, 0..4] {
            let start = NonNull::from(&mut slot[..]).cast();
            // SAFETY: as large as the layout, aligned, and used by nobody else.
            let made = catch_unwind(|| unsafe { RowsMut::from_raw(start, schema.tensors(), &layout, rows) }.len());
            assert!(made.is_err());
        }
    }

    #[test]
    #[should_panic(expected = "a layout is of one schema")]
    fn a_layout_of_another_schema_is_refused() {
        let (_, layout) = layout(DType::U8, 3);
        let (schema, _) = self::layout(DType::F32, 3);
        RowMut::new(bytemuck::cast_slice_mut(&mut [0u64; 2]), schema.tensors(), &layout, 0);
    }
}
