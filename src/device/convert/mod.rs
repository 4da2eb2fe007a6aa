//! What a tensor can become on its way: computed on the device, from fewer bytes than the result has.
//!
//! A [`Conversion`] says what is wanted, `prepare` checks it against the schema once, and a [`Work`] says for one batch
//! where in the slot it reads and writes. `cpu.rs` computes it on the host; a GPU's kernels give the same bits.

pub(super) mod cpu;
mod prepare;
mod table;

use serde::Deserialize;

use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::layout::TENSOR_ALIGNMENT;
use crate::normalise::Normaliser;

pub(super) use prepare::Prepared;

/// Element type that a conversion gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FloatType {
    /// 32-bit IEEE 754 number. The default.
    #[default]
    F32,
    /// 16-bit IEEE 754 number: the 32-bit result, rounded to the nearest, ties to even.
    F16,
    /// The upper half of a 32-bit number: the 32-bit result, rounded to the nearest, ties to even.
    Bf16,
}

impl From<FloatType> for DType {
    fn from(float: FloatType) -> Self {
        match float {
            FloatType::F32 => Self::F32,
            FloatType::F16 => Self::F16,
            FloatType::Bf16 => Self::Bf16,
        }
    }
}

/// What becomes of a tensor on its way to the device. It keeps its name and role.
///
/// Results are `fma(x, scale, bias)` with factors of 32 bits, rounded once, the same bits on every device.
///
/// As text (it is `Deserialize`) it is an element type, for [`Conversion::image`], or a table: `{ image = "f16", order, from_order,
/// normalise, flip_by }`, `{ scale = 0.001, bias, to }`, `{ one_hot = 10, to }`, or `{ dense = 2000, indices = "columns", masked_by,
/// to }`.
///
/// ```
/// use ringfeed::{DType, Loader, Normaliser};
/// use ringfeed::device::{Conversion, FloatType, HostDevice, Upload};
///
/// let device = HostDevice::new();
/// let loader = Loader::images("fixtures/images").size(32, 32).batch_size(4); // u8: a quarter of the bytes
/// let upload = Upload::to(device.clone())
///     .convert("image", Conversion::image(FloatType::F16).normalise(Normaliser::imagenet()));
/// let mut batches = upload.start(loader.build()?)?;
/// let stream = ringfeed::device::Device::stream(&device)?;
/// if let Some(batch) = batches.next() {
///     let batch = batch?;
///     assert_eq!(batch.on(&stream)?.tensor("image")?.dtype(), DType::F16);
/// }
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Conversion {
    /// Images of bytes, normalised and laid out anew.
    Image(ImageConversion),
    /// Integers of 8 or 16 bits: `x * scale + bias`.
    ///
    /// ```
    /// use ringfeed::{AsyncDataSetIterator, DType};
    /// use ringfeed::device::{Conversion, Device, FloatType, HostDevice};
    /// use ringfeed::read::MemoryReader;
    /// use ringfeed::{ReaderSource, Role, Workspace};
    /// use ringfeed::device::Upload;
    ///
    /// // Depths of 16 bits, in millimetres, as metres.
    /// let depths = MemoryReader::new("depth", Role::Feature, &[2, 2], vec![0u16, 500, 1000, 65535])?;
    /// let batches = AsyncDataSetIterator::new(ReaderSource::new(depths), &Workspace::builder().build()?)?;
    /// let metres = Conversion::Scale { to: FloatType::F32, scale: 0.001, bias: 0.0 };
    /// let device = HostDevice::new();
    /// let mut batches = Upload::to(device.clone()).convert("depth", metres).start(batches)?;
    /// if let Some(batch) = batches.next().transpose()? {
    ///     assert_eq!(batch.on(&device.stream()?)?.features()?.dtype(), DType::F32);
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    Scale {
        /// Element type of the result.
        to: FloatType,
        /// The factor.
        scale: f32,
        /// The summand.
        bias: f32,
    },
    /// A class's number becomes a row of `classes` numbers, 1 at its place and 0 elsewhere: one dimension more. A number that
    /// is no class (below 0, or too large) becomes zeros.
    OneHot {
        /// Element type of the result.
        to: FloatType,
        /// How many classes there are.
        classes: usize,
    },
    /// The tensor holds the values of a sparse row, one for each entry, and becomes the dense row.
    Dense(DenseConversion),
}

impl Conversion {
    /// Images of bytes, as `[channels, height, width]` of this element type, not normalised yet: 0 to 255.
    pub fn image(to: FloatType) -> ImageConversion {
        ImageConversion { to, order: PixelOrder::Nchw, from: None, normaliser: None, flip: None }
    }

    /// A sparse row's 32-bit values as a row of `columns` numbers; `indices` names the tensor of their columns.
    ///
    /// ```
    /// use ringfeed::AsyncDataSetIterator;
    /// use ringfeed::device::{Conversion, Device, FloatType, HostDevice};
    /// use ringfeed::read::MemoryReader;
    /// use ringfeed::{ReaderSource, Role, Workspace};
    /// use ringfeed::device::Upload;
    ///
    /// let values = MemoryReader::new("x", Role::Feature, &[2], vec![0.5f32, 2.0, 1.0, 0.0])?;
    /// let columns = MemoryReader::new("columns", Role::Feature, &[2], vec![0i32, 3, 2, 0])?;
    /// let present = MemoryReader::new("present", Role::Mask, &[2], vec![1u8, 1, 1, 0])?;
    /// let source = ReaderSource::new(values).and(columns).and(present);
    /// let batches = AsyncDataSetIterator::new(source, &Workspace::builder().build()?)?;
    /// let dense = Conversion::dense(FloatType::F32, 4, "columns").masked_by("present");
    /// let device = HostDevice::new();
    /// let mut rows = Upload::to(device.clone()).convert("x", dense).start(batches)?;
    /// if let Some(batch) = rows.next().transpose()? {
    ///     assert_eq!(batch.on(&device.stream()?)?.tensor("x")?.shape(), [2, 4]); // 0.5 0 0 2 and 0 0 1 0
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    pub fn dense(to: FloatType, columns: usize, indices: impl Into<String>) -> DenseConversion {
        DenseConversion { to, columns, indices: indices.into(), mask: None }
    }
}

/// How images of bytes become numbers; see [`Conversion::image`].
#[derive(Clone, Debug, PartialEq)]
pub struct ImageConversion {
    to: FloatType,
    order: PixelOrder,
    from: Option<PixelOrder>,
    normaliser: Option<Normaliser>,
    flip: Option<String>,
}

impl ImageConversion {
    /// Order of the dimensions of the result. Default: `[channels, height, width]`.
    #[must_use]
    pub fn order(mut self, order: PixelOrder) -> Self {
        self.order = order;
        self
    }

    /// Order of the dimensions on the host. Default: channels are where there are 1 to 4.
    #[must_use]
    pub fn from_order(mut self, order: PixelOrder) -> Self {
        self.from = Some(order);
        self
    }

    /// Normalises by this. Where images of a batch differ in size, padding is normalised like a pixel of 0.
    #[must_use]
    pub fn normalise(mut self, normaliser: Normaliser) -> Self {
        self.normaliser = Some(normaliser);
        self
    }

    /// Mirrors those images left to right for which the tensor of this name, one byte a sample, is not 0.
    #[must_use]
    pub fn flip_by(mut self, tensor: impl Into<String>) -> Self {
        self.flip = Some(tensor.into());
        self
    }
}

impl From<ImageConversion> for Conversion {
    fn from(image: ImageConversion) -> Self {
        Self::Image(image)
    }
}

/// How sparse rows become dense ones; see [`Conversion::dense`].
///
/// Entries with a column that is not there are left out; a column that a row names twice gets one of the values.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseConversion {
    to: FloatType,
    columns: usize,
    indices: String,
    mask: Option<String>,
}

impl DenseConversion {
    /// Takes only entries for which the tensor of this name, one byte an entry, is not 0: the others pad shorter rows.
    #[must_use]
    pub fn masked_by(mut self, tensor: impl Into<String>) -> Self {
        self.mask = Some(tensor.into());
        self
    }
}

impl From<DenseConversion> for Conversion {
    fn from(dense: DenseConversion) -> Self {
        Self::Dense(dense)
    }
}

/// A conversion of one batch, by offsets in its slot. `output` lies behind all that it reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    Image(ImageWork),
    Scale(ScaleWork),
    OneHot(OneHotWork),
    Dense(DenseWork),
}

impl Work {
    /// Whether all that it reads lies before all that it writes, that in a slot of `bytes` bytes, and each where a tensor may
    /// begin.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        let sized = |count: Option<usize>, dtype: DType| count.and_then(|count| count.checked_mul(dtype.bytes()));
        let product = |numbers: &[usize]| numbers.iter().try_fold(1usize, |all, number| all.checked_mul(*number));
        let lies = |start: usize, len: Option<usize>, end: usize| {
            let reaches = len.and_then(|len| start.checked_add(len));
            start.is_multiple_of(TENSOR_ALIGNMENT) && reaches.is_some_and(|reaches| reaches <= end)
        };
        let beside = |start: Option<usize>, len, end| start.is_none_or(|start| lies(start, len, end));
        match self {
            Self::Image(work) => {
                let values = product(&[work.images, work.channels, work.height, work.width]);
                work.channels <= MAX_CHANNELS
                    && lies(work.input, values, work.output)
                    && beside(work.flags, Some(work.images), work.output)
                    && lies(work.output, sized(values, work.to.into()), bytes)
            }
            Self::Scale(work) => {
                lies(work.input, sized(Some(work.count), work.from), work.output)
                    && lies(work.output, sized(Some(work.count), work.to.into()), bytes)
            }
            Self::OneHot(work) => {
                lies(work.input, sized(Some(work.count), work.from), work.output)
                    && lies(work.output, sized(product(&[work.count, work.classes]), work.to.into()), bytes)
            }
            Self::Dense(work) => {
                let entries = product(&[work.rows, work.entries]);
                lies(work.values, sized(entries, DType::F32), work.output)
                    && lies(work.indices, sized(entries, work.index_type), work.output)
                    && beside(work.mask, entries, work.output)
                    && lies(work.output, sized(product(&[work.rows, work.columns]), work.to.into()), bytes)
            }
        }
    }
}

/// Most channels of an image.
pub(super) const MAX_CHANNELS: usize = 4;

/// `images` images of `height` x `width` pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageWork {
    pub input: usize,
    /// One byte an image.
    pub flags: Option<usize>,
    pub output: usize,
    pub images: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub from: PixelOrder,
    pub order: PixelOrder,
    pub to: FloatType,
    pub scale: [f32; MAX_CHANNELS],
    pub bias: [f32; MAX_CHANNELS],
}

/// `count` integers of 8 or 16 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleWork {
    pub input: usize,
    pub output: usize,
    pub count: usize,
    pub from: DType,
    pub to: FloatType,
    pub scale: f32,
    pub bias: f32,
}

/// `count` classes by number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneHotWork {
    pub input: usize,
    pub output: usize,
    pub count: usize,
    pub classes: usize,
    pub from: DType,
    pub to: FloatType,
}

/// `rows` rows of `entries` values of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DenseWork {
    pub values: usize,
    pub indices: usize,
    pub index_type: DType,
    /// One byte an entry.
    pub mask: Option<usize>,
    pub output: usize,
    pub rows: usize,
    pub entries: usize,
    pub columns: usize,
    pub to: FloatType,
}
