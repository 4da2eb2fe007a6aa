use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::decode::{converts, write_numbers};
use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::row::RowMut;
use crate::schema::{Extents, Role, TensorSpec};

use super::{RecordReader, Sample, Scratch, check_record};

/// Samples that are in memory already: one tensor of fixed shape, row after row.
///
/// ```
/// use ringfeed::Role;
/// use ringfeed::read::{MemoryReader, RecordReader};
///
/// let points = MemoryReader::new("point", Role::Feature, &[2], vec![0.0f32, 1.0, 2.0, 3.0])?;
/// assert_eq!(points.len(), 2);
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct MemoryReader<T> {
    values: Arc<[T]>,
    row_elements: usize,
    tensors: [TensorSpec; 1],
}

impl<T> fmt::Debug for MemoryReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReader")
            .field("tensor", &self.tensors[0])
            .field("elements", &self.values.len())
            .finish_non_exhaustive()
    }
}

impl<T: Element> MemoryReader<T> {
    /// Samples of shape `row_shape` (`&[]` for a number each) from `values`; no copy is made of an `Arc<[T]>`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the values do not make whole samples.
    pub fn new(name: impl Into<String>, role: Role, row_shape: &[usize], values: impl Into<Arc<[T]>>) -> Result<Self> {
        let values = values.into();
        let spec = TensorSpec::new(name, role, T::DTYPE, row_shape);
        let row_elements = spec.row_shape(&Extents::default()).elements().unwrap_or(0);
        if row_elements == 0 || values.len() % row_elements != 0 {
            let message = format!("{} values do not make samples of shape {row_shape:?}", values.len());
            return Err(Error::new(ErrorKind::Schema, message).at_column(spec.name));
        }
        Ok(Self { values, row_elements, tensors: [spec] })
    }

    /// Names the classes that the values stand for.
    #[must_use]
    pub fn classes(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tensors[0].classes = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Gives the trainer another element type.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if it can't hold every value of this one.
    pub fn dtype(mut self, dtype: DType) -> Result<Self> {
        if !converts(T::DTYPE, dtype) {
            let message = format!("{} values do not fit {dtype}", T::DTYPE);
            return Err(Error::new(ErrorKind::Schema, message).at_column(&self.tensors[0].name));
        }
        self.tensors[0].dtype = dtype;
        Ok(self)
    }
}

impl<T: Element> RecordReader for MemoryReader<T> {
    fn len(&self) -> u64 {
        (self.values.len() / self.row_elements) as u64
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        check_record(sample.id, self.len())?;
        let start = sample.id as usize * self.row_elements;
        let values = &self.values[start..start + self.row_elements];
        write_numbers(&mut row.tensor(0), 0, T::numbers(values))
    }

    fn place(&self, sample: u64) -> Location {
        Location { path: Some(Path::new("memory").to_owned()), record: Some(sample), ..Location::default() }
    }
}
