//! The values of a column of a Parquet file.

use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::i256;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, TimeUnit};
use parquet::errors::ParquetError;

use crate::decode::odd_f32;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::float16::f16;
use crate::read::{DateUnit, FieldKind, Meaning};

use super::cells::{Cell, Column, each_number, is_exact, is_held, whole_of};
use super::tar::json_number;

/// Values of one type.
pub(super) struct Values {
    stored: Stored,
    data_type: DataType,
    unit: Unit,
}

/// How integers are converted.
#[derive(Clone, Copy)]
enum Unit {
    Same,
    /// Seconds become milliseconds: Parquet has no seconds.
    Seconds,
    /// Milliseconds become days: Parquet has no other dates.
    Days,
}

/// In the memory of Arrow, so that a short text takes no more than its bytes and where it ends.
enum Stored {
    Bool(BooleanBuilder),
    U8(PrimitiveBuilder<UInt8Type>),
    I8(PrimitiveBuilder<Int8Type>),
    U16(PrimitiveBuilder<UInt16Type>),
    I16(PrimitiveBuilder<Int16Type>),
    U32(PrimitiveBuilder<UInt32Type>),
    I32(PrimitiveBuilder<Int32Type>),
    U64(PrimitiveBuilder<UInt64Type>),
    I64(PrimitiveBuilder<Int64Type>),
    F16(PrimitiveBuilder<Float16Type>),
    F32(PrimitiveBuilder<Float32Type>),
    F64(PrimitiveBuilder<Float64Type>),
    Decimal(PrimitiveBuilder<Decimal128Type>),
    LongDecimal(PrimitiveBuilder<Decimal256Type>),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

/// A number from any source.
#[derive(Clone, Copy)]
enum Number<'a> {
    Integer(i128),
    Float(f64),
    Written(&'a str),
}

/// Runs the same code for the numbers of any type, and other code for other values.
macro_rules! each_type {
    ($stored:expr, $numbers:ident => $code:expr, $($other:pat => $result:expr,)+) => {
        match $stored {
            Stored::U8($numbers) => $code,
            Stored::I8($numbers) => $code,
            Stored::U16($numbers) => $code,
            Stored::I16($numbers) => $code,
            Stored::U32($numbers) => $code,
            Stored::I32($numbers) => $code,
            Stored::U64($numbers) => $code,
            Stored::I64($numbers) => $code,
            Stored::F16($numbers) => $code,
            Stored::F32($numbers) => $code,
            Stored::F64($numbers) => $code,
            $($other => $result,)+
        }
    };
}

const DAY_MS: i64 = 86_400_000;

fn none<T: ArrowPrimitiveType>() -> PrimitiveBuilder<T> {
    PrimitiveBuilder::with_capacity(0)
}

impl Values {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for decimals of more digits than Parquet has.
    pub(super) fn new(column: &Column) -> Result<Self> {
        let of = |stored, data_type| Ok(Self { stored, data_type, unit: Unit::Same });
        let (i32s, i64s) = (Stored::I32(none()), Stored::I64(none()));
        match &column.meaning {
            Some(Meaning::Bool) => of(Stored::Bool(BooleanBuilder::with_capacity(0)), DataType::Boolean),
            Some(Meaning::U64) => of(Stored::U64(none()), DataType::UInt64),
            Some(Meaning::F16) => of(Stored::F16(none()), DataType::Float16),
            Some(Meaning::Date(unit)) => {
                let unit = if *unit == DateUnit::Days { Unit::Same } else { Unit::Days };
                Ok(Self { stored: i32s, data_type: DataType::Date32, unit })
            }
            Some(Meaning::Time(unit)) => {
                let (unit, time) = units(*unit);
                Ok(match time {
                    TimeUnit::Millisecond => Self { stored: i32s, data_type: DataType::Time32(time), unit },
                    _ => Self { stored: i64s, data_type: DataType::Time64(time), unit },
                })
            }
            Some(Meaning::Timestamp(unit, zone)) => {
                let (unit, time) = units(*unit);
                let data_type = DataType::Timestamp(time, zone.as_deref().map(Into::into));
                Ok(Self { stored: i64s, data_type, unit })
            }
            Some(Meaning::Duration(unit)) => {
                let (unit, time) = units(*unit);
                Ok(Self { stored: i64s, data_type: DataType::Duration(time), unit })
            }
            Some(Meaning::Decimal(digits, scale)) => {
                let zeros = u8::try_from(-i16::from(*scale)).unwrap_or(0);
                let (digits, scale) = (digits.saturating_add(zeros), (*scale).max(0));
                if digits > DECIMAL256_MAX_PRECISION {
                    let message = format!("decimals of {digits} digits, and Parquet has {DECIMAL256_MAX_PRECISION}");
                    return Err(Error::new(ErrorKind::Unsupported, message).at_column(&column.name));
                }
                match digits {
                    ..=DECIMAL128_MAX_PRECISION => of(Stored::Decimal(none()), DataType::Decimal128(digits, scale)),
                    _ => of(Stored::LongDecimal(none()), DataType::Decimal256(digits, scale)),
                }
            }
            _ => match column.kind {
                FieldKind::Numbers(DType::U8) => of(Stored::U8(none()), DataType::UInt8),
                FieldKind::Numbers(DType::I8) => of(Stored::I8(none()), DataType::Int8),
                FieldKind::Numbers(DType::U16) => of(Stored::U16(none()), DataType::UInt16),
                FieldKind::Numbers(DType::I16) => of(Stored::I16(none()), DataType::Int16),
                FieldKind::Numbers(DType::U32) => of(Stored::U32(none()), DataType::UInt32),
                FieldKind::Numbers(DType::I32) => of(i32s, DataType::Int32),
                FieldKind::Numbers(DType::U64) => of(Stored::U64(none()), DataType::UInt64),
                FieldKind::Numbers(DType::I64) => of(i64s, DataType::Int64),
                FieldKind::Numbers(DType::F16) => of(Stored::F16(none()), DataType::Float16),
                // Parquet has no such type; f32 can hold all of its numbers.
                FieldKind::Numbers(DType::F32 | DType::Bf16) => of(Stored::F32(none()), DataType::Float32),
                FieldKind::Numbers(DType::F64) => of(Stored::F64(none()), DataType::Float64),
                FieldKind::Text => of(Stored::Text(StringBuilder::with_capacity(0, 0)), DataType::Utf8),
                _ => of(Stored::Bytes(BinaryBuilder::with_capacity(0, 0)), DataType::Binary),
            },
        }
    }

    pub(super) fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    pub(super) fn push(&mut self, cell: &Cell) -> Result<()> {
        match (cell, self.unit) {
            // A single number may come as an array of one element.
            (Cell::Numbers(dtype, bytes, _), _) if bytes.len() == dtype.bytes() => {
                let mut pushed = Ok(());
                each_number(*dtype, bytes, |number| pushed = self.push(&number));
                return pushed;
            }
            (Cell::I64(number), Unit::Seconds) => {
                let number = number.checked_mul(1000).ok_or_else(|| unexpected("milliseconds of 64 bits", cell))?;
                return self.push_stored(&Cell::I64(number));
            }
            (Cell::I64(number), Unit::Days) => {
                if number % DAY_MS != 0 {
                    return Err(unexpected("a date, which Parquet keeps in whole days", cell));
                }
                return self.push_stored(&Cell::I64(number / DAY_MS));
            }
            _ => {}
        }
        self.push_stored(cell)
    }

    fn push_stored(&mut self, cell: &Cell) -> Result<()> {
        let number = || match cell {
            Cell::Bool(flag) => Some(Number::Integer((*flag).into())),
            Cell::I64(number) => Some(Number::Integer((*number).into())),
            Cell::U64(number) => Some(Number::Integer((*number).into())),
            Cell::F64(number) => Some(Number::Float(*number)),
            // What is text in its file is no number to any reader.
            Cell::Decimal(text) => Some(Number::Written(text)),
            Cell::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(Number::Written),
            _ => None,
        };
        let unfit = || {
            let error = unexpected(&self.data_type.to_string(), cell);
            let is_in_tar = match number() {
                Some(Number::Integer(_)) => true,
                Some(Number::Float(number)) => number.is_finite(),
                Some(Number::Written(text)) => json_number(text).is_some(),
                None => matches!(cell, Cell::Text(_)),
            };
            match is_in_tar {
                true => Error::new(error.kind(), format!("{}; tar archives hold it", error.message())),
                false => error,
            }
        };
        if matches!(cell, Cell::Missing) {
            self.push_missing(1);
            return Ok(());
        }
        let scale = match self.data_type {
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => scale,
            _ => 0,
        };
        each_type!(&mut self.stored,
            numbers => numbers.append_value(number().and_then(Storable::of).ok_or_else(unfit)?),
            Stored::Bool(flags) => match cell {
                Cell::Bool(flag) => flags.append_value(*flag),
                _ => return Err(unfit()),
            },
            Stored::Decimal(decimals) => match cell {
                Cell::Decimal(text) => {
                    decimals.append_value(decimal(text, scale).and_then(i256::to_i128).ok_or_else(unfit)?);
                }
                _ => return Err(unfit()),
            },
            Stored::LongDecimal(decimals) => match cell {
                Cell::Decimal(text) => decimals.append_value(decimal(text, scale).ok_or_else(unfit)?),
                _ => return Err(unfit()),
            },
            Stored::Text(texts) => {
                let text = match cell {
                    Cell::Text(text) | Cell::Decimal(text) => text,
                    Cell::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|_| unexpected("text in UTF-8", cell))?,
                    _ => return Err(unfit()),
                };
                check_room(texts.values_slice().len(), text.len())?;
                texts.append_value(text);
            },
            Stored::Bytes(all) => {
                let bytes = match cell {
                    Cell::Bytes(bytes) => bytes,
                    Cell::Text(text) => text.as_bytes(),
                    _ => return Err(unfit()),
                };
                check_room(all.values_slice().len(), bytes.len())?;
                all.append_value(bytes);
            },
        );
        Ok(())
    }

    /// Adds so many missing values.
    pub(super) fn push_missing(&mut self, count: usize) {
        each_type!(&mut self.stored,
            numbers => numbers.append_nulls(count),
            Stored::Bool(flags) => flags.append_nulls(count),
            Stored::Decimal(decimals) => decimals.append_nulls(count),
            Stored::LongDecimal(decimals) => decimals.append_nulls(count),
            Stored::Text(texts) => texts.append_nulls(count),
            Stored::Bytes(all) => all.append_nulls(count),
        );
    }

    /// Bytes of the values in memory, those of missing ones included: here, and in a reader.
    pub(super) fn bytes(&self) -> usize {
        fn of<T: ArrowPrimitiveType>(numbers: &PrimitiveBuilder<T>) -> usize {
            numbers.len() * size_of::<T::Native>()
        }
        each_type!(&self.stored,
            numbers => of(numbers),
            Stored::Bool(flags) => flags.len().div_ceil(8),
            Stored::Decimal(decimals) => of(decimals),
            Stored::LongDecimal(decimals) => of(decimals),
            Stored::Text(texts) => texts.values_slice().len() + size_of_val(texts.offsets_slice()),
            Stored::Bytes(all) => all.values_slice().len() + size_of_val(all.offsets_slice()),
        )
    }

    pub(super) fn take(&mut self) -> Result<ArrayRef> {
        let array: ArrayRef = each_type!(&mut self.stored,
            numbers => Arc::new(numbers.finish()),
            Stored::Bool(flags) => Arc::new(flags.finish()),
            Stored::Decimal(decimals) => Arc::new(decimals.finish()),
            Stored::LongDecimal(decimals) => Arc::new(decimals.finish()),
            Stored::Text(texts) => Arc::new(texts.finish()),
            Stored::Bytes(all) => Arc::new(all.finish()),
        );
        if *array.data_type() == self.data_type {
            return Ok(array);
        }
        // The same numbers, with their meaning.
        let typed = array.to_data().into_builder().data_type(self.data_type.clone()).build();
        Ok(make_array(typed.map_err(|error| failed(error.into()))?))
    }
}

fn units(unit: DateUnit) -> (Unit, TimeUnit) {
    match unit {
        DateUnit::Microseconds => (Unit::Same, TimeUnit::Microsecond),
        DateUnit::Nanoseconds => (Unit::Same, TimeUnit::Nanosecond),
        DateUnit::Milliseconds => (Unit::Same, TimeUnit::Millisecond),
        _ => (Unit::Seconds, TimeUnit::Millisecond),
    }
}

/// Checks that a column has room for a text: where each ends is a number of 32 bits. A row group ends long before.
fn check_room(held: usize, more: usize) -> Result<()> {
    const MOST_BYTES: usize = i32::MAX as usize;
    if held.saturating_add(more) <= MOST_BYTES {
        return Ok(());
    }
    let message =
        "more bytes in a record than a column holds (2 GiB); pack into tar, or leave the field out (--skip-fields)";
    Err(Error::new(ErrorKind::Limit, message))
}

/// A decimal number without its point, with `scale` digits after it.
fn decimal(text: &str, scale: i8) -> Option<i256> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let zeros = usize::try_from(scale).ok()?.checked_sub(fraction.len())?;
    i256::from_string(&format!("{whole}{fraction}{:0<zeros$}", ""))
}

pub(super) fn failed(error: ParquetError) -> Error {
    Error::new(ErrorKind::Io, format!("the Parquet file can't be written: {error}")).with_source(error)
}

#[cold]
pub(super) fn unexpected(wanted: &str, found: &Cell) -> Error {
    let message = format!("expected {wanted}, as the field holds it elsewhere, found {}", found.describe());
    Error::new(ErrorKind::Data, message)
}

/// A numeric type that a table can hold.
trait Storable: Sized {
    fn of(number: Number<'_>) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Storable for $type {
            fn of(number: Number<'_>) -> Option<Self> {
                let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 1e18).then_some(number as i128);
                let integer = match number {
                    Number::Integer(integer) => Some(integer),
                    Number::Float(number) => whole(number),
                    Number::Written(text) => whole_of(text),
                };
                integer.and_then(|integer| integer.try_into().ok())
            }
        }
    )*};
}

integers!(u8, i8, u16, i16, u32, i32, u64, i64);

impl Storable for f64 {
    fn of(number: Number<'_>) -> Option<Self> {
        match number {
            Number::Integer(integer) => is_exact(integer).then_some(integer as f64),
            Number::Float(number) => Some(number),
            Number::Written(text) => text.trim().parse().ok().filter(|number| is_held(text, *number)),
        }
    }
}

impl Storable for f32 {
    fn of(number: Number<'_>) -> Option<Self> {
        match number {
            Number::Integer(integer) => Some(integer as f32).filter(|number| *number as i128 == integer),
            Number::Float(number) => Some(number as f32).filter(|narrow| narrow.is_finite() || !number.is_finite()),
            // Rounded only once.
            Number::Written(text) => text.trim().parse().ok().filter(|number: &f32| number.is_finite()),
        }
    }
}

impl Storable for f16 {
    fn of(number: Number<'_>) -> Option<Self> {
        f64::of(number).map(|number| f16::from_f32(odd_f32(number)))
    }
}
