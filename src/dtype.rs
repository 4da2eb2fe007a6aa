use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use bytemuck::cast_slice;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};
use crate::float16::{bf16, f16};

/// Element type of a tensor, in native byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DType {
    /// 8-bit unsigned integer.
    U8,
    /// 8-bit signed integer.
    I8,
    /// 16-bit unsigned integer.
    U16,
    /// 16-bit signed integer.
    I16,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// 64-bit unsigned integer.
    U64,
    /// 64-bit signed integer.
    I64,
    /// 16-bit IEEE 754 number.
    F16,
    /// The upper half of a 32-bit IEEE 754 number.
    Bf16,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [Self; 12] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
    ];

    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The smallest and largest integer of the type; `None` for floating point.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        match self {
            Self::U8 => Some((0, u8::MAX as i128)),
            Self::I8 => Some((i8::MIN as i128, i8::MAX as i128)),
            Self::U16 => Some((0, u16::MAX as i128)),
            Self::I16 => Some((i16::MIN as i128, i16::MAX as i128)),
            Self::U32 => Some((0, u32::MAX as i128)),
            Self::I32 => Some((i32::MIN as i128, i32::MAX as i128)),
            Self::U64 => Some((0, u64::MAX as i128)),
            Self::I64 => Some((i64::MIN as i128, i64::MAX as i128)),
            Self::F16 | Self::Bf16 | Self::F32 | Self::F64 => None,
        }
    }

    /// The name in text and JSON: `"u8"`, `"f32"` and so on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|dtype| dtype.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|dtype| dtype.as_str()).collect();
            Error::new(ErrorKind::Config, format!("no element type {name:?}; there are {}", names.join(", ")))
        })
    }
}

/// Source values of any element type, in native byte order.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant is named after its element type")]
#[non_exhaustive]
pub enum NumberSlice<'a> {
    U8(&'a [u8]),
    I8(&'a [i8]),
    U16(&'a [u16]),
    I16(&'a [i16]),
    U32(&'a [u32]),
    I32(&'a [i32]),
    U64(&'a [u64]),
    I64(&'a [i64]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl<'a> NumberSlice<'a> {
    /// The numbers of this type in `bytes`.
    ///
    /// # Panics
    ///
    /// If the bytes are not aligned for the type, or are not a whole number of elements.
    pub(crate) fn of(dtype: DType, bytes: &'a [u8]) -> Self {
        match dtype {
            DType::U8 => Self::U8(bytes),
            DType::I8 => Self::I8(cast_slice(bytes)),
            DType::U16 => Self::U16(cast_slice(bytes)),
            DType::I16 => Self::I16(cast_slice(bytes)),
            DType::U32 => Self::U32(cast_slice(bytes)),
            DType::I32 => Self::I32(cast_slice(bytes)),
            DType::U64 => Self::U64(cast_slice(bytes)),
            DType::I64 => Self::I64(cast_slice(bytes)),
            DType::F16 => Self::F16(cast_slice(bytes)),
            DType::Bf16 => Self::Bf16(cast_slice(bytes)),
            DType::F32 => Self::F32(cast_slice(bytes)),
            DType::F64 => Self::F64(cast_slice(bytes)),
        }
    }

    /// Their type.
    pub const fn dtype(&self) -> DType {
        match self {
            Self::U8(_) => DType::U8,
            Self::I8(_) => DType::I8,
            Self::U16(_) => DType::U16,
            Self::I16(_) => DType::I16,
            Self::U32(_) => DType::U32,
            Self::I32(_) => DType::I32,
            Self::U64(_) => DType::U64,
            Self::I64(_) => DType::I64,
            Self::F16(_) => DType::F16,
            Self::Bf16(_) => DType::Bf16,
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
        }
    }

    /// The values in this range.
    ///
    /// # Panics
    ///
    /// If there are fewer values.
    #[must_use]
    pub fn range(self, range: Range<usize>) -> Self {
        match self {
            Self::U8(values) => Self::U8(&values[range]),
            Self::I8(values) => Self::I8(&values[range]),
            Self::U16(values) => Self::U16(&values[range]),
            Self::I16(values) => Self::I16(&values[range]),
            Self::U32(values) => Self::U32(&values[range]),
            Self::I32(values) => Self::I32(&values[range]),
            Self::U64(values) => Self::U64(&values[range]),
            Self::I64(values) => Self::I64(&values[range]),
            Self::F16(values) => Self::F16(&values[range]),
            Self::Bf16(values) => Self::Bf16(&values[range]),
            Self::F32(values) => Self::F32(&values[range]),
            Self::F64(values) => Self::F64(&values[range]),
        }
    }

    /// The numbers, if they are of type `T`.
    pub(crate) fn as_slice<T: Element>(self) -> Option<&'a [T]> {
        if self.dtype() != T::DTYPE {
            return None;
        }
        Some(match self {
            Self::U8(values) => cast_slice(values),
            Self::I8(values) => cast_slice(values),
            Self::U16(values) => cast_slice(values),
            Self::I16(values) => cast_slice(values),
            Self::U32(values) => cast_slice(values),
            Self::I32(values) => cast_slice(values),
            Self::U64(values) => cast_slice(values),
            Self::I64(values) => cast_slice(values),
            Self::F16(values) => cast_slice(values),
            Self::Bf16(values) => cast_slice(values),
            Self::F32(values) => cast_slice(values),
            Self::F64(values) => cast_slice(values),
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::I8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Bf16(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number `index` as f64 (the nearest one for large `u64` and `i64`).
    ///
    /// # Panics
    ///
    /// If there is no such number.
    pub fn at(&self, index: usize) -> f64 {
        match self {
            Self::U8(values) => values[index].into(),
            Self::I8(values) => values[index].into(),
            Self::U16(values) => values[index].into(),
            Self::I16(values) => values[index].into(),
            Self::U32(values) => values[index].into(),
            Self::I32(values) => values[index].into(),
            Self::U64(values) => values[index] as f64,
            Self::I64(values) => values[index] as f64,
            Self::F16(values) => values[index].into(),
            Self::Bf16(values) => values[index].into(),
            Self::F32(values) => values[index].into(),
            Self::F64(values) => values[index],
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that stands for one [`DType`].
pub trait Element: bytemuck::Pod + Send + Sync + PartialEq + fmt::Debug + sealed::Sealed {
    /// The [`DType`] of this type.
    const DTYPE: DType;

    /// Wraps values of this type in [`NumberSlice`], as [`write_numbers`](crate::tensor::write_numbers) takes them.
    fn numbers(values: &[Self]) -> NumberSlice<'_>;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;

            fn numbers(values: &[Self]) -> NumberSlice<'_> {
                NumberSlice::$dtype(values)
            }
        }
    )*};
}

elements!(
    u8 => U8,
    i8 => I8,
    u16 => U16,
    i16 => I16,
    u32 => U32,
    i32 => I32,
    u64 => U64,
    i64 => I64,
    f16 => F16,
    bf16 => Bf16,
    f32 => F32,
    f64 => F64,
);
