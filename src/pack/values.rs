//! The values of a column of a Parquet file.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, PrimitiveArray, StringArray,
    make_array,
};
use arrow_buffer::i256;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, TimeUnit};
use parquet::errors::ParquetError;

use crate::decode::odd_f32;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::float16::f16;
use crate::read::{DateUnit, FieldKind, Meaning};

use super::cells::{Cell, Column, each_number, float_of, integer_of, is_exact, is_held};

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

enum Stored {
    Bool(Vec<Option<bool>>),
    U8(Vec<Option<u8>>),
    I8(Vec<Option<i8>>),
    U16(Vec<Option<u16>>),
    I16(Vec<Option<i16>>),
    U32(Vec<Option<u32>>),
    I32(Vec<Option<i32>>),
    U64(Vec<Option<u64>>),
    I64(Vec<Option<i64>>),
    F16(Vec<Option<f16>>),
    F32(Vec<Option<f32>>),
    F64(Vec<Option<f64>>),
    Decimal(Vec<Option<i256>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

/// A number from any source.
#[derive(Clone, Copy)]
enum Number<'a> {
    Integer(i128),
    Float(f64),
    Written(&'a str),
}

/// Runs the same code for the numbers of any type.
macro_rules! each_type {
    ($stored:expr, $numbers:ident => $code:expr, $others:ident => $other:expr) => {
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
            $others => $other,
        }
    };
}

const DAY_MS: i64 = 86_400_000;

impl Values {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for decimals of more digits than Parquet has.
    pub(super) fn new(column: &Column) -> Result<Self> {
        let of = |stored, data_type| Ok(Self { stored, data_type, unit: Unit::Same });
        let (i32s, i64s) = (Stored::I32(Vec::new()), Stored::I64(Vec::new()));
        match &column.meaning {
            Some(Meaning::Bool) => of(Stored::Bool(Vec::new()), DataType::Boolean),
            Some(Meaning::U64) => of(Stored::U64(Vec::new()), DataType::UInt64),
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
                let data_type = match digits {
                    ..=DECIMAL128_MAX_PRECISION => DataType::Decimal128(digits, scale),
                    _ => DataType::Decimal256(digits, scale),
                };
                of(Stored::Decimal(Vec::new()), data_type)
            }
            _ => match column.kind {
                FieldKind::Numbers(DType::U8) => of(Stored::U8(Vec::new()), DataType::UInt8),
                FieldKind::Numbers(DType::I8) => of(Stored::I8(Vec::new()), DataType::Int8),
                FieldKind::Numbers(DType::U16) => of(Stored::U16(Vec::new()), DataType::UInt16),
                FieldKind::Numbers(DType::I16) => of(Stored::I16(Vec::new()), DataType::Int16),
                FieldKind::Numbers(DType::U32) => of(Stored::U32(Vec::new()), DataType::UInt32),
                FieldKind::Numbers(DType::I32) => of(i32s, DataType::Int32),
                FieldKind::Numbers(DType::U64) => of(Stored::U64(Vec::new()), DataType::UInt64),
                FieldKind::Numbers(DType::I64) => of(i64s, DataType::Int64),
                FieldKind::Numbers(DType::F16) => of(Stored::F16(Vec::new()), DataType::Float16),
                // Parquet has no such type; f32 can hold all of its numbers.
                FieldKind::Numbers(DType::F32 | DType::Bf16) => of(Stored::F32(Vec::new()), DataType::Float32),
                FieldKind::Numbers(DType::F64) => of(Stored::F64(Vec::new()), DataType::Float64),
                FieldKind::Text => of(Stored::Text(Vec::new()), DataType::Utf8),
                _ => of(Stored::Bytes(Vec::new()), DataType::Binary),
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
            Cell::Decimal(text) | Cell::Text(text) => Some(Number::Written(text)),
            Cell::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(Number::Written),
            _ => None,
        };
        let unfit = || {
            let error = unexpected(&self.data_type.to_string(), cell);
            let is_integer = match number() {
                Some(Number::Integer(_)) => true,
                Some(Number::Written(text)) => integer_of(text).is_some(),
                _ => false,
            };
            match is_integer {
                true => Error::new(error.kind(), format!("{}; tar archives hold it", error.message())),
                false => error,
            }
        };
        let is_there = !matches!(cell, Cell::Missing);
        each_type!(&mut self.stored,
        numbers => numbers.push(match is_there {
            true => Some(number().and_then(Storable::of).ok_or_else(unfit)?),
            false => None,
        }),
        others => match (others, cell) {
            (Stored::Bool(flags), Cell::Missing) => flags.push(None),
            (Stored::Bool(flags), Cell::Bool(flag)) => flags.push(Some(*flag)),
            (Stored::Decimal(decimals), Cell::Missing) => decimals.push(None),
            (Stored::Decimal(decimals), Cell::Decimal(text)) => {
                let scale = match self.data_type {
                    DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => scale,
                    _ => 0,
                };
                decimals.push(Some(decimal(text, scale).ok_or_else(unfit)?));
            }
            (Stored::Text(texts), Cell::Missing) => texts.push(None),
            (Stored::Text(texts), Cell::Text(text) | Cell::Decimal(text)) => texts.push(Some(text.clone())),
            (Stored::Text(texts), Cell::Bytes(bytes)) => {
                let text = String::from_utf8(bytes.clone()).map_err(|_| unexpected("text in UTF-8", cell))?;
                texts.push(Some(text));
            }
            (Stored::Bytes(all), Cell::Missing) => all.push(None),
            (Stored::Bytes(all), Cell::Bytes(bytes)) => all.push(Some(bytes.clone())),
            (Stored::Bytes(all), Cell::Text(text)) => all.push(Some(text.clone().into_bytes())),
            _ => return Err(unfit()),
        });
        Ok(())
    }

    pub(super) fn take(&mut self) -> Result<ArrayRef> {
        fn numbers<T: ArrowPrimitiveType>(values: &mut Vec<Option<T::Native>>) -> ArrayRef {
            Arc::new(std::mem::take(values).into_iter().collect::<PrimitiveArray<T>>())
        }
        let array: ArrayRef = match &mut self.stored {
            Stored::Bool(flags) => Arc::new(BooleanArray::from(std::mem::take(flags))),
            Stored::U8(values) => numbers::<UInt8Type>(values),
            Stored::I8(values) => numbers::<Int8Type>(values),
            Stored::U16(values) => numbers::<UInt16Type>(values),
            Stored::I16(values) => numbers::<Int16Type>(values),
            Stored::U32(values) => numbers::<UInt32Type>(values),
            Stored::I32(values) => numbers::<Int32Type>(values),
            Stored::U64(values) => numbers::<UInt64Type>(values),
            Stored::I64(values) => numbers::<Int64Type>(values),
            Stored::F16(values) => numbers::<Float16Type>(values),
            Stored::F32(values) => numbers::<Float32Type>(values),
            Stored::F64(values) => numbers::<Float64Type>(values),
            Stored::Decimal(values) => {
                let values = std::mem::take(values).into_iter();
                if let DataType::Decimal128(..) = self.data_type {
                    Arc::new(Decimal128Array::from_iter(values.map(|value| value.and_then(i256::to_i128))))
                } else {
                    Arc::new(Decimal256Array::from_iter(values))
                }
            }
            Stored::Text(values) => Arc::new(StringArray::from_iter(std::mem::take(values))),
            Stored::Bytes(values) => Arc::new(BinaryArray::from_iter(std::mem::take(values))),
        };
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
                    Number::Written(text) => integer_of(text).or_else(|| float_of(text).and_then(whole)),
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
