use std::fmt;
use std::str::FromStr;

use bytemuck::{Zeroable, cast_slice_mut, try_cast_slice};
use serde::{Deserialize, Serialize};

use crate::decode::{converts, write_finite, write_numbers};
use crate::dtype::{DType, Element, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::float16::{bf16, f16};
use crate::row::TensorMut;

/// Element type of an array in a file: those of [`DType`], of which some become another one unless they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StoredType {
    /// 8-bit unsigned integer.
    #[default]
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
    /// 64-bit unsigned integer: becomes `i64`, for which a number from 2^63 on makes its record bad, unless `u64` is
    /// asked for.
    U64,
    /// 64-bit signed integer.
    I64,
    /// 16-bit IEEE 754 number: becomes `f32`, unless `f16` is asked for.
    F16,
    /// The upper half of an `f32`, which it becomes, unless `bf16` is asked for.
    Bf16,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
}

impl StoredType {
    /// Every one, in declaration order.
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

    /// Bytes an element.
    pub const fn bytes(self) -> usize {
        self.exactly().bytes()
    }

    /// The type that a batch holds it in, unless another is asked for: i64 for u64, and f32 for 16 bits, because
    /// trainers compute with these.
    pub const fn dtype(self) -> DType {
        match self {
            Self::U8 => DType::U8,
            Self::I8 => DType::I8,
            Self::U16 => DType::U16,
            Self::I16 => DType::I16,
            Self::U32 => DType::U32,
            Self::I32 => DType::I32,
            Self::U64 | Self::I64 => DType::I64,
            Self::F16 | Self::Bf16 | Self::F32 => DType::F32,
            Self::F64 => DType::F64,
        }
    }

    /// The type of the same bytes.
    pub(crate) const fn exactly(self) -> DType {
        match self {
            Self::U64 => DType::U64,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::Bf16,
            other => other.dtype(),
        }
    }

    /// Whether a tensor of this type may be made of it: numbers of u64 that i64 does not hold are bad records.
    pub(crate) fn fits(self, dtype: DType) -> bool {
        converts(self.exactly(), dtype) || converts(self.dtype(), dtype)
    }

    /// The name in text and JSON: `"u8"`, `"bf16"` and so on.
    pub const fn as_str(self) -> &'static str {
        self.exactly().as_str()
    }
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StoredType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Config, format!("no element type {name:?}; there are {names}"))
        })
    }
}

/// Which byte of a number comes first in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Endian {
    /// The least significant one. The default.
    #[default]
    Little,
    /// The most significant one.
    Big,
}

impl FromStr for Endian {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "little" => Ok(Self::Little),
            "big" => Ok(Self::Big),
            _ => {
                Err(Error::new(ErrorKind::Config, format!("the order of bytes is \"little\" or \"big\", not {name:?}")))
            }
        }
    }
}

impl Endian {
    const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };
}

/// Number of elements that are converted to native order at a time, if the file's bytes can't be used in place.
const CHUNK: usize = 256;

/// How the elements of a file are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) kind: StoredType,
    pub(crate) endian: Endian,
}

impl Stored {
    /// Whether the tensor has the same bytes as the file.
    pub(crate) fn is_plain(self, tensor: &TensorMut<'_>) -> bool {
        self.kind.exactly() == tensor.dtype()
            && tensor.affine().is_none()
            && (self.endian == Endian::NATIVE || self.kind.bytes() == 1)
    }

    /// Writes the elements in `bytes`, which are at `offset` in the file, to `tensor`, beginning with its first
    /// element.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a number that the tensor can't hold, one of `u64` with its byte in the file.
    pub(crate) fn write(self, bytes: &[u8], offset: u64, tensor: &mut TensorMut<'_>) -> Result<()> {
        if self.is_plain(tensor) {
            tensor.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        match self.kind {
            StoredType::U8 => write_numbers(tensor, 0, u8::numbers(bytes)),
            StoredType::I8 => write_numbers(tensor, 0, i8::numbers(bytemuck::cast_slice(bytes))),
            StoredType::U16 => self.write_as::<u16, 2>(bytes, tensor),
            StoredType::I16 => self.write_as::<i16, 2>(bytes, tensor),
            StoredType::U32 => self.write_as::<u32, 4>(bytes, tensor),
            StoredType::I32 => self.write_as::<i32, 4>(bytes, tensor),
            StoredType::I64 => self.write_as::<i64, 8>(bytes, tensor),
            StoredType::F32 => self.write_as::<f32, 4>(bytes, tensor),
            StoredType::F64 => self.write_as::<f64, 8>(bytes, tensor),
            StoredType::U64 if tensor.dtype() == DType::I64 => self.write_long(bytes, offset, tensor),
            StoredType::U64 => self.write_as::<u64, 8>(bytes, tensor),
            StoredType::F16 => self.write_as::<f16, 2>(bytes, tensor),
            StoredType::Bf16 => self.write_as::<bf16, 2>(bytes, tensor),
        }
    }

    /// The elements in `bytes` in native order and aligned, in `room`.
    pub(crate) fn numbers<'a>(self, bytes: &[u8], room: &'a mut Vec<u64>) -> NumberSlice<'a> {
        room.resize(bytes.len().div_ceil(8), 0);
        let room = &mut cast_slice_mut::<u64, u8>(room)[..bytes.len()];
        room.copy_from_slice(bytes);
        if self.endian != Endian::NATIVE && self.kind.bytes() > 1 {
            room.chunks_exact_mut(self.kind.bytes()).for_each(<[u8]>::reverse);
        }
        NumberSlice::of(self.kind.exactly(), room)
    }

    /// Gives every element of `bytes` to `visit`.
    pub(crate) fn visit(self, bytes: &[u8], mut visit: impl FnMut(f64)) {
        match self.kind {
            StoredType::U8 => bytes.iter().map(|value| f64::from(*value)).for_each(visit),
            StoredType::I8 => bytes.iter().map(|value| f64::from(*value as i8)).for_each(visit),
            StoredType::U16 => self.each::<u16, 2>(bytes, |value| visit(value.into())),
            StoredType::I16 => self.each::<i16, 2>(bytes, |value| visit(value.into())),
            StoredType::U32 => self.each::<u32, 4>(bytes, |value| visit(value.into())),
            StoredType::I32 => self.each::<i32, 4>(bytes, |value| visit(value.into())),
            StoredType::I64 => self.each::<i64, 8>(bytes, |value| visit(value as f64)),
            StoredType::U64 => self.each::<u64, 8>(bytes, |value| visit(value as f64)),
            StoredType::F32 => self.each::<f32, 4>(bytes, |value| visit(value.into())),
            StoredType::F64 => self.each::<f64, 8>(bytes, visit),
            StoredType::F16 => self.each::<f16, 2>(bytes, |value| visit(value.into())),
            StoredType::Bf16 => self.each::<bf16, 2>(bytes, |value| visit(value.into())),
        }
    }

    pub(crate) fn each<T: FileNumber<N>, const N: usize>(self, bytes: &[u8], visit: impl FnMut(T)) {
        let elements = bytes.as_chunks::<N>().0.iter();
        match self.endian {
            Endian::Little => elements.map(|element| T::from_le(*element)).for_each(visit),
            Endian::Big => elements.map(|element| T::from_be(*element)).for_each(visit),
        }
    }

    fn write_as<T: FileNumber<N> + Element, const N: usize>(
        self,
        bytes: &[u8],
        tensor: &mut TensorMut<'_>,
    ) -> Result<()> {
        self.chunks::<T, N, _>(bytes, |at, values| write_finite(tensor, at, T::numbers(values)))
    }

    fn write_long(self, bytes: &[u8], offset: u64, tensor: &mut TensorMut<'_>) -> Result<()> {
        self.chunks::<i64, 8, _>(bytes, |at, values| {
            if let Some(nth) = values.iter().position(|value| *value < 0) {
                return Err(too_large(values[nth] as u64, offset, at + nth));
            }
            write_finite(tensor, at, i64::numbers(values))
        })
    }

    /// Gives the elements of `bytes` to `visit` in native order, with the index of the first: all at once if the bytes
    /// can be used in place, otherwise chunk by chunk.
    pub(crate) fn chunks<T: FileNumber<N>, const N: usize, E>(
        self,
        bytes: &[u8],
        mut visit: impl FnMut(usize, &[T]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let (Endian::NATIVE, Ok(values)) = (self.endian, try_cast_slice(bytes)) {
            return visit(0, values);
        }
        let mut values = [T::zeroed(); CHUNK];
        for (nth, chunk) in bytes.chunks(CHUNK * N).enumerate() {
            let mut count = 0;
            self.each::<T, N>(chunk, |value| {
                values[count] = value;
                count += 1;
            });
            visit(nth * CHUNK, &values[..count])?;
        }
        Ok(())
    }
}

#[cold]
pub(super) fn too_large(value: u64, offset: u64, nth: usize) -> Error {
    let message = format!("{value} is more than i64 holds, which u64 numbers become; set dtype to \"u64\"");
    Error::new(ErrorKind::Data, message).at_byte(offset + 8 * nth as u64)
}

/// A number of `N` bytes.
pub(crate) trait FileNumber<const N: usize>: bytemuck::Pod + Zeroable {
    fn from_le(bytes: [u8; N]) -> Self;
    fn from_be(bytes: [u8; N]) -> Self;
}

macro_rules! file_numbers {
    ($($type:ty),*) => {$(
        impl FileNumber<{ size_of::<$type>() }> for $type {
            fn from_le(bytes: [u8; size_of::<$type>()]) -> Self {
                Self::from_le_bytes(bytes)
            }

            fn from_be(bytes: [u8; size_of::<$type>()]) -> Self {
                Self::from_be_bytes(bytes)
            }
        }
    )*};
}

file_numbers!(u8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64);
