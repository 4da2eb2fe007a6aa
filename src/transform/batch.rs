use std::fmt;

use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::Scope;
use crate::random::RandomKey;
use crate::schema::Schema;
use crate::view::TensorView;

use super::Tensors;

/// Changes the tensors of a whole batch. It runs in the worker that finished the batch, after all rows were decoded and
/// bad ones were removed or replaced, and before delivery.
///
/// An error or a panic replaces the batch and ends the epoch: it does not belong to a record, so no policy for bad
/// records applies.
pub trait BatchTransform: Send + Sync {
    /// Declares which tensors it [changes](Tensors::change) and [reads](Tensors::read). Called when a source is opened.
    ///
    /// # Errors
    ///
    /// If tensors do not exist, or are not as this transform needs them.
    fn declare(&self, tensors: &mut Tensors) -> Result<()>;

    /// Works on one batch. Arrays of `scope` end with this call.
    ///
    /// # Errors
    ///
    /// Any error that makes it impossible to deliver the batch.
    fn apply(&self, batch: &mut BatchMut<'_>, scope: &Scope<'_>) -> Result<()>;
}

/// A whole batch before its delivery.
pub struct BatchMut<'a> {
    schema: &'a Schema,
    layout: &'a Layout,
    bytes: &'a mut [u8],
    key: RandomKey,
    samples: &'a [u64],
    padding: usize,
}

impl fmt::Debug for BatchMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchMut")
            .field("samples", &self.samples)
            .field("padding", &self.padding)
            .finish_non_exhaustive()
    }
}

impl<'a> BatchMut<'a> {
    pub(crate) fn new(
        schema: &'a Schema,
        layout: &'a Layout,
        bytes: &'a mut [u8],
        key: RandomKey,
        samples: &'a [u64],
        padding: usize,
    ) -> Self {
        Self { schema, layout, bytes, key, samples, padding }
    }

    /// The same batch under another key.
    pub(super) fn under(&mut self, key: RandomKey) -> BatchMut<'_> {
        BatchMut { bytes: self.bytes, key, ..*self }
    }

    /// Number of samples; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a batch of which nothing is left is not transformed")]
    pub fn len(&self) -> usize {
        self.layout.rows()
    }

    /// The key for this transform's random numbers: a function of seed, epoch, batch and position in the list.
    pub fn key(&self) -> RandomKey {
        self.key
    }

    /// For each sample, the index of its record in the source.
    pub fn sample_ids(&self) -> &[u64] {
        self.samples
    }

    /// Number of samples at the end that only pad the last batch.
    pub fn padding(&self) -> usize {
        self.padding
    }

    /// Names, roles, types and shapes of the tensors of a sample.
    pub fn schema(&self) -> &Schema {
        self.schema
    }

    /// The tensor of this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let index = self.schema.index_of(name)?;
        Ok(TensorView::new(&self.schema.tensors()[index], self.layout, index, self.bytes))
    }

    /// The elements of the tensor of this name, sample by sample, to change them.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Schema`] if it holds another element type.
    pub fn get_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        let spec = &self.schema.tensors()[self.schema.index_of(name)?];
        if T::DTYPE != spec.dtype {
            let message = format!("the tensor holds {}, not {}", spec.dtype, T::DTYPE);
            return Err(Error::new(ErrorKind::Schema, message).at_column(name));
        }
        self.bytes_mut(name).map(bytemuck::cast_slice_mut)
    }

    /// The bytes of the tensor of this name, sample by sample, to change them.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    pub fn bytes_mut(&mut self, name: &str) -> Result<&mut [u8]> {
        Ok(&mut self.bytes[self.layout.range(self.schema.index_of(name)?)])
    }
}
