use serde::{Deserialize, Serialize};

use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::random::{RandomKey, mix};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Dim, Extents, Role, Schema, TensorSpec};
use crate::storage::Needs;

use super::{Fingerprint, Job, Record, RecordDecoder, RecordReader, Sample, Scratch};

/// One random operation on the numbers of a feature tensor, as plain data.
///
/// It works on what the trainer would see: normalised units, padding left alone. Its random numbers are a function of
/// seed, epoch, sample, tensor, kind of operation and position among those of the same kind, whatever the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum NumberAugment {
    /// Adds a normally distributed number of mean 0 to every element.
    Noise {
        /// Standard deviation.
        deviation: f64,
        /// How many of the samples.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Replaces elements, each by itself, with a fixed number.
    Masking {
        /// How many of the elements.
        probability: f64,
        /// What stands there instead; 0 is the mean of standardised numbers.
        #[serde(default)]
        value: f64,
    },
}

fn always() -> f64 {
    1.0
}

impl NumberAugment {
    /// The number under which it draws, apart from those of images. These never change.
    fn number(&self) -> u64 {
        match self {
            Self::Noise { .. } => 1001,
            Self::Masking { .. } => 1002,
        }
    }

    /// Everything that is wrong with it, in words; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let (Self::Noise { probability, .. } | Self::Masking { probability, .. }) = self;
        if !(0.0..=1.0).contains(probability) {
            faults.push(format!("a probability of {probability}; it is between 0 and 1"));
        }
        match self {
            Self::Noise { deviation, .. } if !(deviation.is_finite() && *deviation >= 0.0) => {
                faults.push(format!("noise with a deviation of {deviation}; it is 0 or more"));
            }
            Self::Masking { value, .. } if !value.is_finite() => {
                faults.push(format!("masking with {value}, which is no number"));
            }
            _ => {}
        }
        faults
    }

    /// Changes the elements that hold data, counted in their order.
    fn apply<'a, T: Float>(&self, elements: impl Iterator<Item = &'a mut T>, key: RandomKey) {
        match *self {
            Self::Noise { deviation, probability } => {
                if key.unit(u64::MAX) < probability {
                    let noise = |i: u64| deviation * key.normal(i);
                    elements.zip(0..).for_each(|(x, i)| *x = T::from_f64(x.to_f64() + noise(i)));
                }
            }
            Self::Masking { probability, value } => {
                let masked = elements.zip(0..).filter(|(_, i)| key.unit(*i) < probability);
                masked.for_each(|(x, _)| *x = T::from_f64(value));
            }
        }
    }
}

/// A reader whose feature tensors go through random operations once they are decoded: for training data.
///
/// ```
/// use ringfeed::{ReaderSource, Role};
/// use ringfeed::read::{Augmented, MemoryReader, NumberAugment};
///
/// let points = MemoryReader::new("point", Role::Feature, &[2], vec![0.0f32, 1.0, 2.0, 3.0])?;
/// let noise = NumberAugment::Noise { deviation: 0.1, probability: 1.0 };
/// let train = ReaderSource::new(Augmented::new(points, "point", vec![noise])?).shuffle(42);
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct Augmented<R> {
    inner: R,
    targets: Vec<Target>,
}

/// A tensor that is augmented.
struct Target {
    tensor: usize,
    /// Mask, and the dimension of the tensor that its first one stands for.
    mask: Option<(usize, usize)>,
    /// Hash of the tensor's name: other tensors draw other numbers.
    name: u64,
    operations: Vec<NumberAugment>,
}

/// A worker's buffers: those of the inner reader, and what the mask says of each element.
#[derive(Default)]
struct Worker {
    inner: Scratch,
    present: Vec<bool>,
}

impl<R: RecordReader> Augmented<R> {
    /// `reader`, with `operations` on its tensor `name`, in their order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] without such a tensor; [`ErrorKind::Schema`] if it is no feature of `f32` or `f64`, or
    /// varies in length and has no mask that tells data from padding; [`ErrorKind::Config`] for operations that make no
    /// sense.
    pub fn new(reader: R, name: &str, operations: Vec<NumberAugment>) -> Result<Self> {
        let target = Target::new(reader.tensors(), name, operations)?;
        Ok(Self { inner: reader, targets: vec![target] })
    }

    /// The same, with operations on a further tensor.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); also [`ErrorKind::Config`] for a tensor that has operations already.
    pub fn and(mut self, name: &str, operations: Vec<NumberAugment>) -> Result<Self> {
        let target = Target::new(self.inner.tensors(), name, operations)?;
        if self.targets.iter().any(|other| other.tensor == target.tensor) {
            return Err(Error::new(ErrorKind::Config, "is augmented twice; give one list").at_column(name));
        }
        self.targets.push(target);
        Ok(self)
    }
}

impl<R> Augmented<R> {
    /// Any number of targets, none too: what the loader makes of a reader or a decoder whose tensors are `tensors`.
    pub(crate) fn with_all<'a>(
        inner: R,
        tensors: &[TensorSpec],
        lists: impl IntoIterator<Item = (&'a str, &'a [NumberAugment])>,
    ) -> Result<Self> {
        let target = |(name, list): (&str, &[NumberAugment])| Target::new(tensors, name, list.to_vec());
        Ok(Self { inner, targets: lists.into_iter().map(target).collect::<Result<_>>()? })
    }

    fn changes_nothing(&self) -> bool {
        self.targets.iter().all(|target| target.operations.is_empty())
    }

    fn apply(&self, sample: Sample, present: &mut Vec<bool>, row: &mut RowMut<'_>) -> Result<()> {
        for target in &self.targets {
            match row.specs()[target.tensor].dtype {
                DType::F64 => target.apply::<f64>(sample, present, row)?,
                _ => target.apply::<f32>(sample, present, row)?,
            }
        }
        Ok(())
    }
}

impl Target {
    fn new(tensors: &[TensorSpec], name: &str, operations: Vec<NumberAugment>) -> Result<Self> {
        let fault = |kind, message: String| Err(Error::new(kind, message).at_column(name));
        let faults: Vec<String> = operations.iter().flat_map(NumberAugment::faults).collect();
        if !faults.is_empty() {
            return fault(ErrorKind::Config, faults.join("; "));
        }
        let tensor = Schema::new(tensors.to_vec())?.index_of(name)?;
        let spec = &tensors[tensor];
        if spec.role != Role::Feature || !matches!(spec.dtype, DType::F32 | DType::F64) {
            let message =
                format!("is a {:?} of {}; numbers are augmented in features of f32 or f64", spec.role, spec.dtype);
            return fault(ErrorKind::Schema, message);
        }
        let own = format!("{name}_mask");
        let mask = [own.as_str(), "features_mask"].into_iter().find_map(|mask| {
            let index = tensors.iter().position(|spec| spec.name == mask && spec.role == Role::Mask)?;
            let dims: &[Dim] = &tensors[index].shape;
            let axis = spec.shape.windows(dims.len().max(1)).position(|part| part == dims)?;
            Some((index, axis))
        });
        if spec.is_variable() && mask.is_none() {
            return fault(ErrorKind::Schema, "varies in length and has no mask to tell data from padding".to_owned());
        }
        let name = name.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        Ok(Self { tensor, mask, name, operations })
    }

    fn apply<T: Float>(&self, sample: Sample, present: &mut Vec<bool>, row: &mut RowMut<'_>) -> Result<()> {
        // How many neighbouring elements one element of the mask stands for.
        let mut run = 1;
        present.clear();
        if let Some((mask, axis)) = self.mask {
            let rank = row.specs()[mask].shape.len();
            run = row.tensor(self.tensor).shape()[axis + rank..].iter().product();
            let mut mask = row.tensor(mask);
            let bytes = mask.dtype().bytes();
            present.extend(mask.bytes_mut().chunks_exact(bytes).map(|value| value.iter().any(|byte| *byte != 0)));
        }
        let mut tensor = row.tensor(self.tensor);
        let values = tensor.as_mut_slice::<T>()?;
        for (index, operation) in self.operations.iter().enumerate() {
            let number = operation.number();
            let nth = self.operations[..index].iter().filter(|earlier| earlier.number() == number).count() as u64;
            let key = sample.key.operation(number, nth).with(self.name);
            if present.is_empty() {
                operation.apply(values.iter_mut(), key);
            } else {
                // Only data is counted, so that the padding of a batch changes nothing.
                let repeated = present.iter().flat_map(|present| std::iter::repeat_n(*present, run)).cycle();
                operation.apply(values.iter_mut().zip(repeated).filter(|(_, present)| *present).map(|(x, _)| x), key);
            }
        }
        Ok(())
    }
}

/// Numbers that can be augmented.
trait Float: Element {
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
}

impl Float for f32 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Float for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(value: f64) -> Self {
        value
    }
}

impl<R: RecordReader> RecordReader for Augmented<R> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.inner.tensors()
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.inner.need(samples, needs);
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        self.inner.measure(sample, &mut scratch.of::<Worker>().inner)
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.inner.fetch(samples, nth, &mut scratch.of::<Worker>().inner)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let Worker { inner, present } = scratch.of();
        self.inner.decode(sample, nth, inner, row)?;
        self.apply(sample, present, row)?;
        let damage = inner.take_damage();
        scratch.note_all(damage);
        Ok(())
    }

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        self.inner.fetch_all(job, &mut scratch.of::<Worker>().inner);
    }

    /// Record by record where there are operations: each must be applied once, also to a job that goes on after a panic.
    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        if self.changes_nothing() {
            let inner = &mut scratch.of::<Worker>().inner;
            self.inner.decode_all(job, inner, rows);
            let damage = inner.take_damage();
            return scratch.note_all(damage);
        }
        while let Some(nth) = job.advance() {
            job.report(self.decode(job.sample(nth), nth, scratch, &mut rows.row(nth)));
        }
    }

    fn place(&self, sample: u64) -> Location {
        self.inner.place(sample)
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        self.inner.name(sample, name);
    }

    fn label(&self, sample: u64) -> Option<u32> {
        self.inner.label(sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.inner.fingerprint()
    }
}

impl<D: RecordDecoder> RecordDecoder for Augmented<D> {
    fn tensors(&self) -> &[TensorSpec] {
        self.inner.tensors()
    }

    fn measure(&self, record: &Record, scratch: &mut Scratch) -> Result<Extents> {
        self.inner.measure(record, &mut scratch.of::<Worker>().inner)
    }

    fn decode(&self, sample: Sample, record: &Record, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let Worker { inner, present } = scratch.of();
        self.inner.decode(sample, record, inner, row)?;
        self.apply(sample, present, row)?;
        let damage = inner.take_damage();
        scratch.note_all(damage);
        Ok(())
    }

    fn decode_all(&self, records: &[Record], job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        if self.changes_nothing() {
            let inner = &mut scratch.of::<Worker>().inner;
            self.inner.decode_all(records, job, inner, rows);
            let damage = inner.take_damage();
            return scratch.note_all(damage);
        }
        while let Some(nth) = job.advance() {
            job.report(self.decode(job.sample(nth), &records[nth], scratch, &mut rows.row(nth)));
        }
    }

    fn place(&self, record: &Record) -> Location {
        self.inner.place(record)
    }
}
