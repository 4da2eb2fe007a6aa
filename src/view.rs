use std::fmt;

use crate::dtype::{DType, Element, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::schema::{MAX_RANK, Shape, TensorSpec};

/// A read-only view of one tensor of a batch, borrowed from it: it can't outlive the batch. Row-major, without gaps.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    spec: &'a TensorSpec,
    shape: Shape,
    bytes: &'a [u8],
}

impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorView")
            .field("name", &self.spec.name)
            .field("dtype", &self.spec.dtype)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl<'a> TensorView<'a> {
    /// Tensor `index` of a batch with this layout in `slot`.
    pub(crate) fn new(spec: &'a TensorSpec, layout: &Layout, index: usize, slot: &'a [u8]) -> Self {
        Self { spec, shape: layout.shape(index), bytes: &slot[layout.range(index)] }
    }

    /// One sample of a tensor. Its shape has no dimension for the batch.
    pub(crate) fn of_row(spec: &'a TensorSpec, shape: Shape, bytes: &'a [u8]) -> Self {
        Self { spec, shape, bytes }
    }

    /// Its name, role, classes and the transformation it went through.
    pub fn spec(&self) -> &'a TensorSpec {
        self.spec
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        &self.spec.name
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Shape: `[samples, ...]` for a tensor of a batch. A ragged tensor has a single dimension, the elements of all
    /// samples.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements from one index to the next, for each dimension.
    pub fn strides(&self) -> Shape {
        let mut step = 1;
        let mut strides = [1; MAX_RANK + 1];
        for (stride, dim) in strides[..self.shape.len()].iter_mut().zip(self.shape.iter()).rev() {
            *stride = step;
            step *= dim;
        }
        Shape::new(&strides[..self.shape.len()])
    }

    /// The raw bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// All elements, in row-major order, of any type. No copy.
    pub fn numbers(&self) -> NumberSlice<'a> {
        NumberSlice::of(self.spec.dtype, self.bytes)
    }

    /// All elements, in row-major order. No copy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the tensor holds another element type.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T]> {
        if T::DTYPE != self.spec.dtype {
            let message = format!("the tensor holds {}, not {}", self.spec.dtype, T::DTYPE);
            return Err(Error::new(ErrorKind::Schema, message).at_column(&self.spec.name));
        }
        Ok(bytemuck::cast_slice(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Extents, Role, Schema};

    #[test]
    fn an_empty_tensor_has_strides_that_fit_or_is_refused() {
        const WIDE: usize = 1 << 40;
        let tensors: [(&[usize], _); 5] = [
            (&[2, 0, 1 << 58], Some([0, 0, 1 << 58, 1])),
            (&[0, WIDE, WIDE], None),
            (&[WIDE, WIDE, 0], None),
            (&[0, usize::MAX], None),
            (&[usize::MAX, 0], None),
        ];
        for (dims, strides) in tensors {
            let spec = TensorSpec::new("x", Role::Feature, DType::U8, dims);
            let schema = Schema::new(vec![spec.clone()]).expect("a schema");
            let mut layout = Layout::default();
            let laid_out = layout.compute(&schema, 2, Extents::default());
            let found = laid_out.ok().map(|()| TensorView::new(&spec, &layout, 0, &[]).strides());
            assert_eq!(found, strides.map(|strides: [usize; 4]| Shape::new(&strides)), "{dims:?}");
        }
    }
}
