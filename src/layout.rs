use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Extents, Schema, Shape};

/// Tensors start at multiples of this many bytes in a slot, as DLPack asks.
pub const TENSOR_ALIGNMENT: usize = 256;

/// Where each tensor of one batch lies in its slot. Tensors never overlap, nor do rows of one tensor.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    rows: usize,
    bytes: usize,
    extents: Extents,
    tensors: Vec<TensorLayout>,
}

/// Where one tensor of a batch lies: `rows` samples one after another, each of `row_shape`, without gaps.
#[derive(Clone, Copy, Debug)]
pub struct TensorLayout {
    pub(crate) offset: usize,
    pub(crate) row_bytes: usize,
    pub(crate) row_shape: Shape,
    pub(crate) dtype: DType,
    /// Whether it lies beside the slot, in the memory of whoever fills it: see `row/wide.rs`.
    pub(crate) is_aside: bool,
}

impl TensorLayout {
    /// First byte in the slot; a multiple of [`TENSOR_ALIGNMENT`].
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes of one sample.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Shape of one sample, padding included.
    pub fn row_shape(&self) -> &Shape {
        &self.row_shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
}

impl Layout {
    /// Lays `rows` samples of `schema` out, reusing this layout's memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] if the batch's size in bytes overflows.
    pub fn compute(&mut self, schema: &Schema, rows: usize, extents: Extents) -> Result<()> {
        self.tensors.clear();
        self.rows = rows;
        self.extents = extents;
        self.bytes = 0;
        for tensor in schema.tensors() {
            let row_shape = tensor.row_shape(&extents);
            let sizes = row_shape.elements().and_then(|elements| {
                let row_bytes = elements.checked_mul(tensor.dtype.bytes())?;
                let offset = self.bytes.checked_next_multiple_of(TENSOR_ALIGNMENT)?;
                let end = offset.checked_add(row_bytes.checked_mul(rows)?)?;
                (end <= isize::MAX as usize).then_some((row_bytes, offset, end))
            });
            let Some((row_bytes, offset, end)) = sizes else {
                let message = format!("a batch of {rows} samples of shape {row_shape:?} has more bytes than memory");
                return Err(Error::new(ErrorKind::Limit, message).at_column(&tensor.name));
            };
            self.bytes = end;
            let dtype = tensor.dtype;
            self.tensors.push(TensorLayout { offset, row_bytes, row_shape, dtype, is_aside: false });
        }
        Ok(())
    }

    /// Samples in the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of slot that the batch takes.
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

    /// Bytes of tensor data, without the gaps between tensors.
    pub fn tensor_bytes(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.row_bytes * self.rows).sum()
    }

    /// Keeps the first `rows` samples: the others were bad and are left out.
    pub(crate) fn truncate(&mut self, rows: usize) {
        debug_assert!(rows <= self.rows);
        self.rows = rows;
    }

    /// Moves sample `from` to `to` in `bytes`, the slot's memory.
    pub(crate) fn move_row(&self, bytes: &mut [u8], from: usize, to: usize) {
        for tensor in &self.tensors {
            let start = tensor.offset + from * tensor.row_bytes;
            bytes.copy_within(start..start + tensor.row_bytes, tensor.offset + to * tensor.row_bytes);
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
    fn a_size_that_overflows_is_an_error() {
        let huge = TensorSpec::new("x", Role::Feature, DType::F64, &[usize::MAX / 4, 8]);
        let schema = Schema::new(vec![huge]).unwrap();
        let error = Layout::default().compute(&schema, 1, Extents::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
