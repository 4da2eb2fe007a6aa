use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::decode::{converts, write_numbers};
use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, Role, TensorSpec};

use super::copied::copy_rows;
use super::{Job, RecordReader, Sample, Scratch, check_record};

/// Samples in memory: one tensor of fixed shape, row after row.
///
/// ```
/// use ringfeed::read::{MemoryReader, RecordReader};
/// use ringfeed::tensor::Role;
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
    /// Samples of shape `row_shape` (`&[]` for one number per sample) from `values`. An `Arc<[T]>` is not copied.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the number of values is not a multiple of a sample's.
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

    /// Sets another element type for the batches.
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

    fn fetch_all(&self, job: &mut Job<'_>, _: &mut Scratch) {
        if job.samples().iter().all(|sample| *sample < self.len()) {
            return;
        }
        while let Some(nth) = job.advance() {
            job.report(check_record(job.samples()[nth], self.len()));
        }
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        let record_bytes = self.row_elements * size_of::<T>();
        let place = |sample| sample * record_bytes as u64..(sample + 1) * record_bytes as u64;
        let is_plain = !rows.is_empty() && {
            let mut row = rows.row(0);
            let tensor = row.tensor(0);
            tensor.dtype() == T::DTYPE && tensor.affine().is_none()
        };
        if is_plain && copy_rows(job, rows, bytemuck::cast_slice(&self.values), record_bytes, place) {
            return;
        }
        while let Some(nth) = job.advance() {
            job.report(self.decode(job.sample(nth), nth, scratch, &mut rows.row(nth)));
        }
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        check_record(sample.id, self.len())?;
        let start = sample.id as usize * self.row_elements;
        let values = &self.values[start..start + self.row_elements];
        write_numbers(&mut row.tensor(0), 0, T::numbers(values))
    }

    fn is_random(&self) -> bool {
        false
    }

    fn place(&self, sample: u64) -> Location {
        Location { path: Some(Path::new("memory").to_owned()), record: Some(sample), ..Location::default() }
    }
}
