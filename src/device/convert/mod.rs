//! The part of the list of transforms that runs on a device, so that fewer bytes are copied than the result has.
//!
//! A [`Prepared`] holds all conversions of one tensor, combined from members of the list and checked against the schema
//! once. A [`Work`] says for one batch where in the slot it reads and writes. `cpu.rs` computes it on the host. A GPU's
//! kernels give the same bits, and so do the members themselves, in a worker. (Two exceptions, both for `dense` on a GPU:
//! if entries have the same column, any of them is used; and each NaN is 0x7fff in f16, whose sign and payload are kept
//! on the host.) `split.rs` decides which transforms of a list run on the device.

pub(super) mod cpu;
mod prepare;
mod split;
mod table;

use serde::Deserialize;

use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::layout::TENSOR_ALIGNMENT;
pub(super) use crate::transform::MAX_CHANNELS;

pub(super) use prepare::Prepared;
pub(crate) use split::split;
pub use table::Conversion;

/// The error for a transform that can't run on a device.
pub(super) const ON_HOST: &str = "this transform runs only on the host";
/// The transforms that can run on a device.
pub(super) const CONVERTS: &str = "a device does cast, normalise, one_hot, layout, flip and dense";

/// Element type that a device gives: the 32-bit result, rounded once to the nearest, ties to even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FloatType {
    #[default]
    F32,
    F16,
    Bf16,
}

impl FloatType {
    /// The same type on the device, if there is one.
    pub(super) fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Self::F32),
            DType::F16 => Some(Self::F16),
            DType::Bf16 => Some(Self::Bf16),
            _ => None,
        }
    }
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

/// A conversion of one batch, by offsets in its slot. `output` is behind everything that it reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    Image(ImageWork),
    Scale(ScaleWork),
    OneHot(OneHotWork),
    Dense(DenseWork),
}

impl Work {
    /// Whether everything that it reads is before everything that it writes, in a slot of `bytes` bytes, and both begin
    /// where a tensor may begin.
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
