//! Single numbers: exact, or rounded once.

use bytemuck::cast_slice_mut;

use crate::decode::{integer_of_decimal, number_of_text, write_finite, write_finite_column};
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Missing;
use crate::read::csv::{BeforeHalf, FieldElement, FieldNumber, with_element};
use crate::read::fields::{self, Field};
use crate::row::{RowMut, RowsMut, TensorMut};
use crate::schema::{Role, TensorSpec};

use super::contract::{Context, Decode, Made, unexpected};
use crate::read::value::Value;

struct NumberCodec {
    missing: Missing,
}

/// One number per field: `[]` for a single field, `[fields]` for several, or another shape with as many elements.
pub(super) fn make(name: &str, role: Role, numbers: &fields::Numbers, field: &Field) -> Result<Made> {
    let count = field.source_count();
    let shape = match &numbers.shape {
        Some(shape) if shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim)) == Some(count) => {
            shape.clone()
        }
        Some(shape) => {
            let message = format!("shape {shape:?} must have as many elements as there are fields, {count}");
            return Err(Error::new(ErrorKind::Config, message));
        }
        None if field.is_several() => vec![count],
        None => Vec::new(),
    };
    check_missing(numbers)?;
    let tensors = vec![TensorSpec::new(name, role, numbers.dtype, &shape)];
    Ok(Made { codec: Box::new(NumberCodec { missing: numbers.missing }), tensors })
}

/// Checks that the number for missing values is one that the tensor can hold.
pub(in crate::read) fn check_missing(numbers: &fields::Numbers) -> Result<()> {
    let dtype = numbers.dtype;
    let fault = match numbers.missing {
        Missing::Value(value) if !with_element!(dtype, T => <T as FieldNumber>::from_f64(value).is_some()) => {
            format!("missing values become {value}, which is not an element of type {dtype}")
        }
        Missing::Nan if !dtype.is_float() => {
            format!("missing values become NaN, which is not an element of type {dtype}")
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Config, fault))
}

impl Decode for NumberCodec {
    fn write(&self, nth: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        write_number(&mut row.tensor(0), nth, value, self.missing)
    }

    fn write_column(
        &self,
        nth: usize,
        numbers: NumberSlice<'_>,
        places: &[(usize, usize)],
        rows: &mut RowsMut<'_>,
    ) -> bool {
        let (spec, row_shape) = rows.tensor_spec(0);
        let Some(bytes) = rows.tensor_bytes(0) else { return false };
        let count = row_shape.iter().product();
        if spec.dtype == numbers.dtype() && spec.affine.is_none() {
            scatter(numbers, places.iter().copied(), nth, count, bytes);
            return true;
        }
        let (mut gathered, mut written) = ([0u64; BLOCK], [0u64; BLOCK]);
        places.chunks(BLOCK).all(|places| {
            let numbers = gather(numbers, places, &mut gathered);
            let written: &mut [u8] = &mut cast_slice_mut(&mut written)[..places.len() * spec.dtype.bytes()];
            let mut column = TensorMut::beside(spec, written);
            let is_written = match crate::decode::converts(numbers.dtype(), spec.dtype) {
                true => write_finite_column(&mut column, nth, row_shape, numbers).is_ok(),
                false => write_array(&mut column, 0, numbers).is_ok(),
            };
            let rows = places.iter().zip(0..).map(|((row, _), at)| (*row, at));
            scatter(column.numbers(), rows, nth, count, bytes);
            is_written
        })
    }
}

/// Numbers of a column that are converted together.
const BLOCK: usize = 64;

/// The numbers at `places`, one after another in `room`.
fn gather<'a>(numbers: NumberSlice<'_>, places: &[(usize, usize)], room: &'a mut [u64; BLOCK]) -> NumberSlice<'a> {
    let dtype = numbers.dtype();
    let bytes: &mut [u8] = &mut cast_slice_mut(room)[..places.len() * dtype.bytes()];
    with_element!(dtype, T => {
        let numbers = numbers.as_slice::<T>().unwrap_or_default();
        let room = cast_slice_mut::<u8, T>(bytes);
        room.iter_mut().zip(places).for_each(|(room, (_, at))| *room = numbers[*at]);
    });
    NumberSlice::of(dtype, bytes)
}

/// Writes numbers as element `nth` of `count` in each row of `rows`, which all have the same type; `places` gives the
/// row and the position of each number.
fn scatter(
    numbers: NumberSlice<'_>,
    places: impl Iterator<Item = (usize, usize)>,
    nth: usize,
    count: usize,
    rows: &mut [u8],
) {
    with_element!(numbers.dtype(), T => {
        let numbers = numbers.as_slice::<T>().unwrap_or_default();
        let elements: &mut [T] = cast_slice_mut(rows);
        places.for_each(|(row, at)| elements[row * count + nth] = numbers[at]);
    });
}

/// Writes a value as element `at` of a tensor, transformed like the tensor's other values.
///
/// # Errors
///
/// [`ErrorKind::Data`] for a value that is not a number, or that the tensor's type can't hold: an integer type takes
/// whole numbers in its range. A floating point type rounds to the nearest number, and refuses what is too large for it
/// unless it was infinite before.
#[inline]
pub(super) fn write_number(tensor: &mut TensorMut<'_>, at: usize, value: Value<'_>, missing: Missing) -> Result<()> {
    match value {
        Value::I64(number) | Value::Time(number, _) => write_integer(tensor, at, number),
        Value::F64(number) => write_float(tensor, at, number),
        Value::Decimal(text) => write_decimal(tensor, at, text),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes).map(str::trim) {
            Ok(text) if looks_like_number(text) => write_decimal(tensor, at, text),
            _ => Err(unexpected(tensor.dtype(), &value)),
        },
        Value::Bool(flag) => write_integer(tensor, at, flag.into()),
        Value::U64(number) => write_unsigned(tensor, at, number),
        Value::Numbers(numbers) if numbers.len() == 1 => write_array(tensor, at, numbers),
        Value::Missing => match missing {
            Missing::Error => {
                Err(Error::new(ErrorKind::Data, "there is no value; `missing` sets what to do with such records"))
            }
            Missing::Nan => write_float(tensor, at, f64::NAN),
            Missing::Value(value) => write_float(tensor, at, value),
        },
        Value::Numbers(_) | Value::List(_) => {
            let message = format!(
                "{}, where one number was expected; for lists, set `list` to true, or give a shape or a max_len",
                value.describe()
            );
            Err(Error::new(ErrorKind::Data, message))
        }
        Value::Text(_) => Err(unexpected(tensor.dtype(), &value)),
    }
}

/// Writes numbers of one type, beginning at element `at`.
pub(super) fn write_array(tensor: &mut TensorMut<'_>, at: usize, numbers: NumberSlice<'_>) -> Result<()> {
    match numbers {
        NumberSlice::I64(integers) if !tensor.dtype().is_float() && tensor.dtype() != DType::I64 => {
            integers.iter().zip(at..).try_for_each(|(number, at)| write_integer(tensor, at, *number))
        }
        NumberSlice::U64(integers) if !tensor.dtype().is_float() && tensor.dtype() != DType::U64 => {
            integers.iter().zip(at..).try_for_each(|(number, at)| write_unsigned(tensor, at, *number))
        }
        NumberSlice::F32(_) | NumberSlice::F64(_) | NumberSlice::F16(_) | NumberSlice::Bf16(_)
            if !tensor.dtype().is_float() =>
        {
            (0..numbers.len()).try_for_each(|index| write_float(tensor, at + index, numbers.at(index)))
        }
        numbers if crate::decode::converts(numbers.dtype(), tensor.dtype()) => write_finite(tensor, at, numbers),
        // Every type but f64, u64 and i64 (see above) converts to f64 exactly.
        numbers => (0..numbers.len()).try_for_each(|index| write_float(tensor, at + index, numbers.at(index))),
    }
}

#[inline]
fn write_integer(tensor: &mut TensorMut<'_>, at: usize, number: i64) -> Result<()> {
    let dtype = tensor.dtype();
    if dtype.is_float() || dtype == DType::I64 {
        return write_finite(tensor, at, NumberSlice::I64(&[number]));
    }
    with_element!(dtype, T => {
        match <T as FieldElement>::from_i64(number) {
            Some(element) => tensor.as_mut_slice::<T>()?[at] = element,
            None => return Err(unexpected(dtype, &Value::I64(number))),
        }
    });
    Ok(())
}

fn write_unsigned(tensor: &mut TensorMut<'_>, at: usize, number: u64) -> Result<()> {
    let dtype = tensor.dtype();
    match i64::try_from(number) {
        Ok(number) => write_integer(tensor, at, number),
        Err(_) if dtype.is_float() || dtype == DType::U64 => write_finite(tensor, at, NumberSlice::U64(&[number])),
        Err(_) => Err(unexpected(dtype, &Value::U64(number))),
    }
}

fn write_float(tensor: &mut TensorMut<'_>, at: usize, number: f64) -> Result<()> {
    let dtype = tensor.dtype();
    if dtype.is_float() {
        return write_finite(tensor, at, NumberSlice::F64(&[number]));
    }
    with_element!(dtype, T => {
        match <T as FieldNumber>::from_f64(number) {
            Some(element) => tensor.as_mut_slice::<T>()?[at] = element,
            None => return Err(unexpected(dtype, &Value::F64(number))),
        }
    });
    Ok(())
}

/// Whether a text has digits. Words such as "nan" or "inf" do not count: nobody means to train on them.
fn looks_like_number(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

#[inline]
fn write_decimal(tensor: &mut TensorMut<'_>, at: usize, text: &str) -> Result<()> {
    let dtype = tensor.dtype();
    match dtype {
        DType::F32 => match parsed::<f32>(text).filter(|number| number.is_finite()) {
            Some(number) => write_finite(tensor, at, NumberSlice::F32(&[number])),
            None => Err(refused(text, dtype)),
        },
        DType::F64 => match parsed::<f64>(text).filter(|number| number.is_finite()) {
            Some(number) => write_finite(tensor, at, NumberSlice::F64(&[number])),
            None => Err(refused(text, dtype)),
        },
        DType::F16 | DType::Bf16 if tensor.affine().is_some() => {
            match parsed::<f32>(text).filter(|number| number.is_finite()) {
                Some(number) => write_finite(tensor, at, NumberSlice::F32(&[number])),
                None => Err(refused(text, dtype)),
            }
        }
        DType::F16 | DType::Bf16 => match parsed::<BeforeHalf>(text).map(f32::from) {
            // `number` may not be what the file says, so the error names the text.
            Some(number) if number.is_finite() => {
                write_finite(tensor, at, NumberSlice::F32(&[number])).map_err(|_| refused(text, dtype))
            }
            _ => Err(refused(text, dtype)),
        },
        dtype => match whole(text) {
            Some(number) => write_integer(tensor, at, number),
            None if dtype == DType::U64 => match large(text) {
                Some(number) => write_unsigned(tensor, at, number),
                None => Err(unexpected(dtype, &Value::Decimal(text))),
            },
            None => Err(unexpected(dtype, &Value::Decimal(text))),
        },
    }
}

/// The error for a text that no number of a floating point type stands for, in the same words as for CSV.
#[cold]
fn refused(text: &str, dtype: DType) -> Error {
    match parsed::<f64>(text) {
        Some(number) if !number.is_nan() => {
            let found = Value::Decimal(text).describe();
            Error::new(ErrorKind::Data, format!("expected {dtype}, found {found}, which is too large for it"))
        }
        _ => unexpected("a number", &Value::Decimal(text)),
    }
}

#[inline]
fn parsed<T: FieldNumber>(text: &str) -> Option<T> {
    match T::plain(text.as_bytes()) {
        Some((number, len)) if len == text.len() => Some(number),
        _ => T::exact(text.as_bytes()),
    }
}

/// The integer that a text stands for. Some writers put 3.0 or 3e0 for 3.
pub(super) fn whole(text: &str) -> Option<i64> {
    integer(text)
}

/// The same for an integer that may be too large for i64.
#[cold]
fn large(text: &str) -> Option<u64> {
    integer(text)
}

#[inline]
fn integer<T: FieldNumber + TryFrom<i128>>(text: &str) -> Option<T> {
    let plain = text.trim_end_matches('0').strip_suffix('.').and_then(parsed::<T>);
    if let Some(number) = parsed::<T>(text).or(plain) {
        return Some(number);
    }
    number_of_text::<f64>(text).filter(|near| near.is_finite())?;
    integer_of_decimal(text.as_bytes())?.try_into().ok()
}
