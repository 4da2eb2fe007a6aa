use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::decode::write_finite;
use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::float16::{bf16, f16};
use crate::row::{RowMut, TensorMut};
use crate::schema::{Dim, Extents, MAX_EXTENTS, Rows, Schema, Shape, TensorSpec};

use super::{Record, RecordDecoder, RecordStream, Sample, Scratch};

/// One tensor of a sample of your own: values and shape. A `Vec` is taken without a copy.
#[derive(Clone, Debug)]
pub struct SampleTensor {
    bytes: Bytes,
    dtype: DType,
    shape: Shape,
}

struct Owned<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl SampleTensor {
    /// Values of this shape, row-major.
    ///
    /// # Panics
    ///
    /// If the number of values is not that of the shape's elements: this is a mistake in the program, not in data.
    pub fn new<T: Element>(values: Vec<T>, shape: &[usize]) -> Self {
        let shape = Shape::new(shape);
        assert_eq!(Some(values.len()), shape.elements(), "values for shape {shape:?}");
        Self { bytes: Bytes::from_owner(Owned(values)), dtype: T::DTYPE, shape }
    }
}

impl<T: Element> From<Vec<T>> for SampleTensor {
    fn from(values: Vec<T>) -> Self {
        let shape = [values.len()];
        Self::new(values, &shape)
    }
}

impl<T: Element> From<T> for SampleTensor {
    fn from(value: T) -> Self {
        Self::new(vec![value], &[])
    }
}

type Samples = Box<dyn Iterator<Item = Result<Vec<SampleTensor>>> + Send>;

/// Samples from an iterator of your own: one [`SampleTensor`] for each tensor. It is called on one thread only, ahead of the
/// trainer, and needs no `Sync`.
///
/// An `Err` of kind [`ErrorKind::Data`] is one bad record; any other kind ends the epoch.
///
/// ```
/// use ringfeed::DType;
/// use ringfeed::read::{SampleTensor, SampleStream};
/// use ringfeed::source::StreamSource;
/// use ringfeed::tensor::{Role, TensorSpec};
///
/// let tensors = [TensorSpec::new("x", Role::Feature, DType::F32, &[2]), TensorSpec::new("y", Role::Label, DType::I64, &[])];
/// let squares = || (0..100).map(|i| Ok(vec![SampleTensor::from(vec![i as f32, 0.5]), SampleTensor::from(i64::from(i * i))]));
/// let source = StreamSource::from_samples(SampleStream::repeatable(&tensors, squares)?).batch_size(10);
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct SampleStream {
    tensors: Arc<[TensorSpec]>,
    samples: Samples,
    factory: Option<Box<dyn FnMut() -> Samples + Send>>,
    read: u64,
}

impl fmt::Debug for SampleStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleStream").field("tensors", &self.tensors).field("read", &self.read).finish_non_exhaustive()
    }
}

impl SampleStream {
    /// Samples for a single epoch: a second one is refused with [`ErrorKind::Unsupported`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the tensors are not a valid schema.
    pub fn once<I>(tensors: &[TensorSpec], samples: I) -> Result<Self>
    where
        I: IntoIterator<Item = Result<Vec<SampleTensor>>>,
        I::IntoIter: Send + 'static,
    {
        if let Some(spec) = Schema::new(tensors.to_vec())?.tensors().iter().find(|spec| spec.rows != Rows::Even) {
            let message = "samples of an iterator are padded: give the tensor a plain shape";
            return Err(Error::new(ErrorKind::Schema, message).at_column(&spec.name));
        }
        Ok(Self { tensors: tensors.into(), samples: Box::new(samples.into_iter()), factory: None, read: 0 })
    }

    /// Samples of an iterator that `factory` makes for every epoch.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the tensors are not a valid schema.
    pub fn repeatable<I>(tensors: &[TensorSpec], mut factory: impl FnMut() -> I + Send + 'static) -> Result<Self>
    where
        I: IntoIterator<Item = Result<Vec<SampleTensor>>>,
        I::IntoIter: Send + 'static,
    {
        let mut factory: Box<dyn FnMut() -> Samples + Send> = Box::new(move || Box::new(factory().into_iter()));
        let mut stream = Self::once(tensors, factory())?;
        stream.factory = Some(factory);
        Ok(stream)
    }

    pub(crate) fn decoder(&self) -> SampleDecoder {
        SampleDecoder { tensors: self.tensors.clone() }
    }

    /// Checks the arrays against the tensors, and finds the sample's lengths that vary.
    fn check(&self, arrays: &[SampleTensor]) -> Result<Extents> {
        let fault = |message: String| Error::new(ErrorKind::Data, message);
        if arrays.len() != self.tensors.len() {
            return Err(fault(format!("expected {} arrays, found {}", self.tensors.len(), arrays.len())));
        }
        let mut extents = Extents::default();
        let mut known = [false; MAX_EXTENTS];
        for (array, spec) in arrays.iter().zip(self.tensors.iter()) {
            let expected =
                || format!("expected {} {:?}, found {} {:?}", spec.dtype, spec.shape, array.dtype, array.shape);
            if array.dtype != spec.dtype || array.shape.len() != spec.shape.len() {
                return Err(fault(expected()).at_column(&spec.name));
            }
            for (len, dim) in array.shape.iter().zip(&spec.shape) {
                let fits = match dim {
                    Dim::Fixed(fixed) => len == fixed,
                    Dim::Extent(index) if !known[*index] => {
                        known[*index] = true;
                        extents.0[*index] = u32::try_from(*len).unwrap_or(u32::MAX);
                        u32::try_from(*len).is_ok()
                    }
                    Dim::Extent(index) => extents.0[*index] as usize == *len,
                };
                if !fits {
                    return Err(fault(expected()).at_column(&spec.name));
                }
            }
        }
        Ok(extents)
    }
}

impl RecordStream for SampleStream {
    fn read(&mut self, record: &mut Record) -> Result<bool> {
        let Some(arrays) = self.samples.next() else { return Ok(false) };
        record.index = self.read;
        self.read += 1;
        let arrays = arrays.map_err(|error| error.at_record(record.index))?;
        record.extents = self.check(&arrays).map_err(|error| error.at_record(record.index))?;
        record.parts.clear();
        record.parts.extend(arrays.into_iter().map(|array| array.bytes));
        Ok(true)
    }

    fn rewind(&mut self) -> Result<()> {
        let Some(factory) = &mut self.factory else {
            let message = "the iterator serves a single epoch, from its beginning; for more epochs, and to resume, give a \
                           function that returns a new one (`SampleStream::repeatable`)";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        self.samples = factory();
        self.read = 0;
        Ok(())
    }

    fn repeatable(&self) -> bool {
        self.factory.is_some()
    }
}

/// Writes a user's arrays into the batch.
pub(crate) struct SampleDecoder {
    tensors: Arc<[TensorSpec]>,
}

impl RecordDecoder for SampleDecoder {
    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn measure(&self, record: &Record, _: &mut Scratch) -> Result<Extents> {
        Ok(record.extents)
    }

    fn decode(&self, _: Sample, record: &Record, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        for (index, (spec, part)) in self.tensors.iter().zip(&record.parts).enumerate() {
            let mut tensor = row.tensor(index);
            let shape = spec.row_shape(&record.extents);
            match spec.dtype {
                DType::U8 => write_padded::<u8>(&mut tensor, &shape, part)?,
                DType::I8 => write_padded::<i8>(&mut tensor, &shape, part)?,
                DType::U16 => write_padded::<u16>(&mut tensor, &shape, part)?,
                DType::I16 => write_padded::<i16>(&mut tensor, &shape, part)?,
                DType::U32 => write_padded::<u32>(&mut tensor, &shape, part)?,
                DType::I32 => write_padded::<i32>(&mut tensor, &shape, part)?,
                DType::U64 => write_padded::<u64>(&mut tensor, &shape, part)?,
                DType::I64 => write_padded::<i64>(&mut tensor, &shape, part)?,
                DType::F16 => write_padded::<f16>(&mut tensor, &shape, part)?,
                DType::Bf16 => write_padded::<bf16>(&mut tensor, &shape, part)?,
                DType::F32 => write_padded::<f32>(&mut tensor, &shape, part)?,
                DType::F64 => write_padded::<f64>(&mut tensor, &shape, part)?,
            }
        }
        Ok(())
    }

    fn place(&self, record: &Record) -> Location {
        Location { path: Some(Path::new("iterator").to_owned()), record: Some(record.index), ..Location::default() }
    }
}

/// Copies an array of `shape` to the beginning of a tensor that is at least as large in every dimension, and fills the
/// rest with zeros.
fn write_padded<T: Element>(tensor: &mut TensorMut<'_>, shape: &[usize], bytes: &[u8]) -> Result<()> {
    let values: &[T] = bytemuck::cast_slice(bytes);
    let target_shape = tensor.shape();
    if shape == target_shape {
        return write_finite(tensor, 0, T::numbers(values));
    }
    tensor.bytes_mut().fill(0);
    let run = shape.last().copied().unwrap_or(1);
    if run == 0 {
        return Ok(());
    }
    for (index, values) in values.chunks_exact(run).enumerate() {
        let (mut rest, mut step, mut at) = (index, target_shape[shape.len() - 1], 0);
        for dim in (0..shape.len() - 1).rev() {
            at += rest % shape[dim] * step;
            rest /= shape[dim];
            step *= target_shape[dim];
        }
        write_finite(tensor, at, T::numbers(values))?;
    }
    Ok(())
}
