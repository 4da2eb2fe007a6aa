//! Values in columns: Arrow's arrays, from which the values of a record are given without copying them.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray,
    StringArray, StringViewArray,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer, i256};
use arrow_schema::DataType;

use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::float16::f16;
use crate::read::{DateUnit, List, Shaped, Value};

use super::decimal::decimal;
use super::kinds::{date_unit, unsupported};

/// Most dimensions of lists that are given as an array.
const MOST_DEEP: usize = 8;

/// The values of some neighbouring records. Copies share them.
#[derive(Clone)]
pub(crate) struct Cells {
    len: usize,
    nulls: Option<NullBuffer>,
    data: Data,
}

#[derive(Clone)]
enum Data {
    Missing,
    Bool(BooleanBuffer),
    Numbers(Plain),
    /// Numbers of several fields, record by record: one of every `step` numbers belongs to this field, beginning with
    /// `first`.
    Stepped {
        numbers: Plain,
        first: usize,
        step: usize,
    },
    U64(ScalarBuffer<u64>),
    /// Whole numbers, and how many of their digits are after the point.
    Decimal(ScalarBuffer<i128>, i8),
    LargeDecimal(ScalarBuffer<i256>, i8),
    Bytes(Bytes),
    /// Bytes that should be UTF-8.
    Text(Bytes),
    List {
        ranges: Ranges,
        items: Box<Cells>,
    },
    /// Indices of values that are stored elsewhere.
    Dictionary {
        keys: Keys,
        values: Box<Cells>,
    },
    /// The field of a struct.
    Inner(Box<Cells>),
    /// Parts of `1 << shift` records each, except for the last.
    Joined {
        shift: u32,
        parts: Vec<Cells>,
    },
}

/// Indices of values.
#[derive(Clone)]
enum Keys {
    Whole(Whole),
    U64(ScalarBuffer<u64>),
}

/// Numbers of a type that tensors can hold.
#[derive(Clone)]
pub(super) enum Plain {
    Whole(Whole),
    F16(ScalarBuffer<f16>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
    Days(ScalarBuffer<i32>),
    Times(ScalarBuffer<i64>, DateUnit),
}

/// Integers that fit in 64 bits with a sign.
#[derive(Clone)]
pub(super) enum Whole {
    U8(ScalarBuffer<u8>),
    I8(ScalarBuffer<i8>),
    U16(ScalarBuffer<u16>),
    I16(ScalarBuffer<i16>),
    U32(ScalarBuffer<u32>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
}

#[derive(Clone)]
enum Bytes {
    View(BinaryViewArray),
    TextView(StringViewArray),
    Small(BinaryArray),
    SmallText(StringArray),
    Large(LargeBinaryArray),
    LargeText(LargeStringArray),
    Fixed(FixedSizeBinaryArray),
}

/// Where each record's list begins and ends.
#[derive(Clone)]
enum Ranges {
    Small(ScalarBuffer<i32>),
    Large(ScalarBuffer<i64>),
    Views(ScalarBuffer<i64>, ScalarBuffer<i64>),
    Fixed(usize),
}

impl Keys {
    fn new(keys: &dyn Array) -> Result<Self> {
        match keys.data_type() {
            DataType::UInt64 => Ok(Self::U64(keys.as_primitive::<UInt64Type>().values().clone())),
            kind => Whole::new(keys).map(Self::Whole).ok_or_else(|| unsupported(kind)),
        }
    }

    #[inline]
    fn at(&self, at: usize) -> usize {
        match self {
            Self::Whole(keys) => keys.at(at) as usize,
            Self::U64(keys) => keys[at].as_usize(),
        }
    }
}

impl Whole {
    /// The numbers of an array of integers, except for unsigned ones of 64 bits.
    fn new(array: &dyn Array) -> Option<Self> {
        fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> ScalarBuffer<T::Native> {
            array.as_primitive::<T>().values().clone()
        }
        Some(match array.data_type() {
            DataType::UInt8 => Self::U8(values::<UInt8Type>(array)),
            DataType::Int8 => Self::I8(values::<Int8Type>(array)),
            DataType::UInt16 => Self::U16(values::<UInt16Type>(array)),
            DataType::Int16 => Self::I16(values::<Int16Type>(array)),
            DataType::UInt32 => Self::U32(values::<UInt32Type>(array)),
            DataType::Int32 => Self::I32(values::<Int32Type>(array)),
            DataType::Int64 => Self::I64(values::<Int64Type>(array)),
            _ => return None,
        })
    }

    fn numbers(&self, range: Range<usize>) -> NumberSlice<'_> {
        match self {
            Self::U8(values) => NumberSlice::U8(&values[range]),
            Self::I8(values) => NumberSlice::I8(&values[range]),
            Self::U16(values) => NumberSlice::U16(&values[range]),
            Self::I16(values) => NumberSlice::I16(&values[range]),
            Self::U32(values) => NumberSlice::U32(&values[range]),
            Self::I32(values) => NumberSlice::I32(&values[range]),
            Self::I64(values) => NumberSlice::I64(&values[range]),
        }
    }

    #[inline]
    fn at(&self, at: usize) -> i64 {
        match self {
            Self::U8(values) => values[at].into(),
            Self::I8(values) => values[at].into(),
            Self::U16(values) => values[at].into(),
            Self::I16(values) => values[at].into(),
            Self::U32(values) => values[at].into(),
            Self::I32(values) => values[at].into(),
            Self::I64(values) => values[at],
        }
    }
}

impl Plain {
    fn numbers(&self, range: Range<usize>) -> NumberSlice<'_> {
        match self {
            Self::Whole(values) => values.numbers(range),
            Self::Days(values) => NumberSlice::I32(&values[range]),
            Self::Times(values, _) => NumberSlice::I64(&values[range]),
            Self::F16(values) => NumberSlice::F16(&values[range]),
            Self::F32(values) => NumberSlice::F32(&values[range]),
            Self::F64(values) => NumberSlice::F64(&values[range]),
        }
    }

    #[inline]
    fn value(&self, at: usize) -> Value<'_> {
        match self {
            Self::Whole(values) => Value::I64(values.at(at)),
            Self::Days(values) => Value::Time(values[at].into(), DateUnit::Days),
            Self::Times(values, unit) => Value::Time(values[at], *unit),
            Self::F16(values) => Value::F64(values[at].into()),
            Self::F32(values) => Value::F64(values[at].into()),
            Self::F64(values) => Value::F64(values[at]),
        }
    }
}

impl Bytes {
    #[inline]
    fn at(&self, at: usize) -> &[u8] {
        match self {
            Self::View(array) => array.value(at),
            Self::TextView(array) => array.value(at).as_bytes(),
            Self::Small(array) => array.value(at),
            Self::SmallText(array) => array.value(at).as_bytes(),
            Self::Large(array) => array.value(at),
            Self::LargeText(array) => array.value(at).as_bytes(),
            Self::Fixed(array) => array.value(at),
        }
    }
}

impl Ranges {
    #[inline]
    fn at(&self, at: usize) -> Range<usize> {
        match self {
            Self::Small(offsets) => offsets[at].as_usize()..offsets[at + 1].as_usize(),
            Self::Large(offsets) => offsets[at].as_usize()..offsets[at + 1].as_usize(),
            Self::Views(starts, lens) => {
                let start = starts[at].as_usize();
                start..start + lens[at].as_usize()
            }
            Self::Fixed(len) => at * len..(at + 1) * len,
        }
    }
}

impl Cells {
    /// The values of an array. `path` leads through structs, also inside lists. `is_text` says that bytes should be
    /// UTF-8.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for types that are no values.
    pub(crate) fn new(array: &ArrayRef, path: &[usize], is_text: bool) -> Result<Self> {
        macro_rules! numbers {
            ($variant:ident, $type:ty) => {
                Data::Numbers(Plain::$variant(array.as_primitive::<$type>().values().clone()))
            };
        }
        // For types that count days, seconds and the like, only the raw numbers matter.
        fn raw<T: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
            let data = array.to_data();
            ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
        }
        let bytes = |bytes| if is_text { Data::Text(bytes) } else { Data::Bytes(bytes) };
        let data = match array.data_type() {
            DataType::Null => Data::Missing,
            DataType::Boolean => Data::Bool(array.as_boolean().values().clone()),
            DataType::UInt64 => Data::U64(array.as_primitive::<UInt64Type>().values().clone()),
            DataType::Float16 => numbers!(F16, Float16Type),
            DataType::Float32 => numbers!(F32, Float32Type),
            DataType::Float64 => numbers!(F64, Float64Type),
            DataType::Date32 => Data::Numbers(Plain::Days(raw(array))),
            DataType::Time32(_) => Data::Numbers(Plain::Whole(Whole::I32(raw(array)))),
            DataType::Date64 => Data::Numbers(Plain::Times(raw(array), DateUnit::Milliseconds)),
            DataType::Timestamp(unit, _) => Data::Numbers(Plain::Times(raw(array), date_unit(*unit))),
            DataType::Time64(_) | DataType::Duration(_) => Data::Numbers(Plain::Whole(Whole::I64(raw(array)))),
            DataType::Decimal32(_, scale) => Data::Decimal(widened::<Decimal32Type>(array), *scale),
            DataType::Decimal64(_, scale) => Data::Decimal(widened::<Decimal64Type>(array), *scale),
            DataType::Decimal128(_, scale) => {
                Data::Decimal(array.as_primitive::<Decimal128Type>().values().clone(), *scale)
            }
            DataType::Decimal256(_, scale) => {
                Data::LargeDecimal(array.as_primitive::<Decimal256Type>().values().clone(), *scale)
            }
            DataType::BinaryView => bytes(Bytes::View(array.as_binary_view().clone())),
            DataType::Binary => bytes(Bytes::Small(array.as_binary().clone())),
            DataType::LargeBinary => bytes(Bytes::Large(array.as_binary().clone())),
            DataType::FixedSizeBinary(_) => bytes(Bytes::Fixed(array.as_fixed_size_binary().clone())),
            DataType::Utf8View => Data::Text(Bytes::TextView(array.as_string_view().clone())),
            DataType::Utf8 => Data::Text(Bytes::SmallText(array.as_string().clone())),
            DataType::LargeUtf8 => Data::Text(Bytes::LargeText(array.as_string().clone())),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let items = Box::new(Self::new(list.values(), path, is_text)?);
                Data::List { ranges: Ranges::Small(list.offsets().inner().clone()), items }
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let items = Box::new(Self::new(list.values(), path, is_text)?);
                Data::List { ranges: Ranges::Large(list.offsets().inner().clone()), items }
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                let items = Box::new(Self::new(list.values(), path, is_text)?);
                let wide = |values: &ScalarBuffer<i32>| values.iter().map(|value| i64::from(*value)).collect();
                Data::List { ranges: Ranges::Views(wide(list.offsets()), wide(list.sizes())), items }
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                let items = Box::new(Self::new(list.values(), path, is_text)?);
                Data::List { ranges: Ranges::Views(list.offsets().clone(), list.sizes().clone()), items }
            }
            DataType::FixedSizeList(_, len) => {
                let list = array.as_fixed_size_list();
                let items = Box::new(Self::new(list.values(), path, is_text)?);
                Data::List { ranges: Ranges::Fixed(usize::try_from(*len).unwrap_or(0)), items }
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let (field, rest) = path.split_first().ok_or_else(|| unsupported(array.data_type()))?;
                let column = map.entries().columns().get(*field).ok_or_else(|| unsupported(array.data_type()))?;
                let items = Box::new(Self::new(column, rest, is_text)?);
                Data::List { ranges: Ranges::Small(map.offsets().inner().clone()), items }
            }
            DataType::Struct(_) => {
                let (field, rest) = path.split_first().ok_or_else(|| unsupported(array.data_type()))?;
                let column = array.as_struct().columns().get(*field);
                let column = column.ok_or_else(|| unsupported(array.data_type()))?;
                Data::Inner(Box::new(Self::new(column, rest, is_text)?))
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                Data::Dictionary {
                    keys: Keys::new(dictionary.keys())?,
                    values: Box::new(Self::new(values, path, is_text)?),
                }
            }
            kind => match Whole::new(array) {
                Some(numbers) => Data::Numbers(Plain::Whole(numbers)),
                None => return Err(unsupported(kind)),
            },
        };
        Ok(Self { len: array.len(), nulls: array.nulls().filter(|nulls| nulls.null_count() > 0).cloned(), data })
    }

    /// The values of several arrays, one after another; each but the last has `each` records, a power of two.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn joined(arrays: &[ArrayRef], path: &[usize], is_text: bool, each: usize) -> Result<Self> {
        let mut parts = Vec::with_capacity(arrays.len());
        for (nth, array) in arrays.iter().enumerate() {
            if nth + 1 < arrays.len() && array.len() != each {
                let message = format!("{} records came where {each} were asked for", array.len());
                return Err(Error::new(ErrorKind::Format, message));
            }
            parts.push(Self::new(array, path, is_text)?);
        }
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let len = parts.iter().map(Self::len).sum();
        Ok(Self { len, nulls: None, data: Data::Joined { shift: each.trailing_zeros(), parts } })
    }

    /// The same values, with the innermost lists as arrays of this shape, which has as many elements.
    #[must_use]
    pub(crate) fn shaped(mut self, shape: &[usize]) -> Self {
        self.data = match self.data {
            Data::List { ranges, items } if items.is_list() => {
                Data::List { ranges, items: Box::new(items.shaped(shape)) }
            }
            // Lists of one number each are these numbers.
            Data::List { ranges: Ranges::Fixed(_), items } if shape.is_empty() => {
                let nulls = NullBuffer::union(self.nulls.as_ref(), items.nulls.as_ref());
                return Self { nulls, ..*items };
            }
            Data::List { ranges: Ranges::Fixed(_), items } if !shape.contains(&0) => {
                let (first, rest) = shape.split_first().unwrap_or((&1, &[]));
                let nested = |items: Box<Self>, len: &usize| {
                    let lists = items.len / len;
                    Box::new(Self { len: lists, nulls: None, data: Data::List { ranges: Ranges::Fixed(*len), items } })
                };
                Data::List { ranges: Ranges::Fixed(*first), items: rest.iter().rev().fold(items, nested) }
            }
            Data::Inner(cells) => Data::Inner(Box::new(cells.shaped(shape))),
            Data::Dictionary { keys, values } => Data::Dictionary { keys, values: Box::new(values.shaped(shape)) },
            Data::Joined { shift, parts } => {
                Data::Joined { shift, parts: parts.into_iter().map(|part| part.shaped(shape)).collect() }
            }
            other => other,
        };
        self
    }

    fn is_list(&self) -> bool {
        match &self.data {
            Data::List { .. } => true,
            Data::Inner(cells) => cells.is_list(),
            Data::Dictionary { values, .. } => values.is_list(),
            _ => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the value of a record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a text that is not UTF-8, and those of `visit`.
    #[inline]
    pub(crate) fn give(&self, at: usize, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        self.give_inside(at, false, visit)
    }

    /// The same inside of a list, where a list has its shape: a list beside it may be given value by value.
    fn give_inside(&self, at: usize, is_item: bool, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
            return visit(Value::Missing);
        }
        match &self.data {
            Data::Missing => visit(Value::Missing),
            Data::Bool(flags) => visit(Value::Bool(flags.value(at))),
            Data::Numbers(numbers) => visit(numbers.value(at)),
            Data::Stepped { numbers, first, step } => visit(numbers.value(first + at * step)),
            Data::U64(numbers) => visit(Value::U64(numbers[at])),
            Data::Decimal(numbers, scale) => {
                let number = numbers[at];
                decimal(number < 0, number.unsigned_abs(), *scale, visit)
            }
            Data::LargeDecimal(numbers, scale) => {
                let text = numbers[at].to_string();
                let digits = text.trim_start_matches('-');
                decimal(digits.len() < text.len(), digits, *scale, visit)
            }
            Data::Bytes(bytes) => visit(Value::Bytes(bytes.at(at))),
            Data::Text(Bytes::TextView(array)) => visit(Value::Text(array.value(at))),
            Data::Text(Bytes::SmallText(array)) => visit(Value::Text(array.value(at))),
            Data::Text(Bytes::LargeText(array)) => visit(Value::Text(array.value(at))),
            Data::Text(bytes) => {
                let bytes = bytes.at(at);
                match std::str::from_utf8(bytes) {
                    Ok(text) => visit(Value::Text(text)),
                    Err(error) => {
                        let (at, found) = (error.valid_up_to(), bytes[error.valid_up_to()]);
                        Err(Error::new(ErrorKind::Data, format!("byte {at} of the text is {found:#04x}: not UTF-8")))
                    }
                }
            }
            Data::List { ranges, items } => {
                let range = ranges.at(at);
                let rank = match ranges {
                    // The shape is that of the field.
                    Ranges::Fixed(_) if !is_item => Some(1),
                    _ => items.rank(),
                };
                match rank.and_then(|rank| Some((rank, items.numbers(&range)?))) {
                    Some((1, numbers)) => visit(Value::Numbers(numbers)),
                    Some((rank, numbers)) => {
                        let mut shape = [range.len() as u64; MOST_DEEP];
                        items.lens(&mut shape[1..]);
                        visit(Value::List(&Shaped::new(numbers, &shape[..rank])?))
                    }
                    None => visit(Value::List(&Items { cells: items, range })),
                }
            }
            Data::Dictionary { keys, values } => values.give_inside(keys.at(at), is_item, visit),
            Data::Inner(cells) => cells.give_inside(at, is_item, visit),
            Data::Joined { shift, parts } => {
                let part = at >> shift;
                parts[part].give_inside(at - (part << shift), is_item, visit)
            }
        }
    }

    /// All of them, if they are numbers and none is missing; with the number of elements per record.
    pub(crate) fn plain(&self) -> Option<(NumberSlice<'_>, usize)> {
        match &self.data {
            Data::Stepped { numbers, first, step } => Some((numbers.numbers(*first..step * self.len), *step)),
            _ => self.whole_numbers().map(|numbers| (numbers.numbers(0..self.len), 1)),
        }
    }

    /// All of them, if they are numbers without gaps and none is missing.
    pub(super) fn whole_numbers(&self) -> Option<&Plain> {
        match &self.data {
            Data::Numbers(numbers) if self.nulls.is_none() => Some(numbers),
            Data::Inner(cells) if self.nulls.is_none() => cells.whole_numbers(),
            _ => None,
        }
    }

    /// The numbers of one field, from the numbers of several.
    pub(super) fn stepped(numbers: Plain, first: usize, step: usize, len: usize) -> Self {
        Self { len, nulls: None, data: Data::Stepped { numbers, first, step } }
    }

    /// How many dimensions a list of these has, if they are numbers, or lists that are all of the same length; `None`
    /// if there are more than anybody needs.
    fn rank(&self) -> Option<usize> {
        match &self.data {
            Data::Inner(cells) => cells.rank(),
            Data::List { ranges: Ranges::Fixed(_), items } => items.rank().map(|rank| rank + 1),
            _ => Some(1),
        }
        .filter(|rank| *rank <= MOST_DEEP)
    }

    /// The lengths of these lists, and of the lists in them.
    fn lens(&self, into: &mut [u64]) {
        match &self.data {
            Data::Inner(cells) => cells.lens(into),
            Data::List { ranges: Ranges::Fixed(len), items } => {
                if let Some((first, rest)) = into.split_first_mut() {
                    *first = *len as u64;
                    items.lens(rest);
                }
            }
            _ => {}
        }
    }

    /// The numbers in a range, if none is missing; also those in nested lists of equal length.
    fn numbers(&self, range: &Range<usize>) -> Option<NumberSlice<'_>> {
        let has_missing = |nulls: &NullBuffer| nulls.slice(range.start, range.len()).null_count() > 0;
        if self.nulls.as_ref().is_some_and(has_missing) {
            return None;
        }
        match &self.data {
            Data::Numbers(numbers) => Some(numbers.numbers(range.clone())),
            Data::Inner(cells) => cells.numbers(range),
            Data::List { ranges: Ranges::Fixed(len), items } => items.numbers(&(range.start * len..range.end * len)),
            _ => None,
        }
    }
}

fn widened<T: ArrowPrimitiveType>(array: &ArrayRef) -> ScalarBuffer<i128>
where
    T::Native: Into<i128>,
{
    array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect()
}

/// The values of one record's list.
struct Items<'a> {
    cells: &'a Cells,
    range: Range<usize>,
}

impl List for Items<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        self.range.clone().try_for_each(|at| self.cells.give_inside(at, true, visit))
    }
}

/// Bytes of memory that arrays hold; shared memory counts once.
pub(crate) fn memory_of<'a>(arrays: impl IntoIterator<Item = &'a ArrayRef>) -> u64 {
    fn add(data: &arrow_array::ArrayRef, seen: &mut std::collections::HashSet<usize>) -> u64 {
        add_data(&data.to_data(), seen)
    }
    fn add_data(data: &arrow_data::ArrayData, seen: &mut std::collections::HashSet<usize>) -> u64 {
        let nulls = data.nulls().map(|nulls| nulls.inner().inner());
        let own = data.buffers().iter().chain(nulls);
        let own: u64 = own
            .filter(|buffer| seen.insert(buffer.data_ptr().as_ptr().addr()))
            .map(|buffer| buffer.capacity() as u64)
            .sum();
        own + data.child_data().iter().map(|child| add_data(child, seen)).sum::<u64>()
    }
    let mut seen = std::collections::HashSet::new();
    arrays.into_iter().map(|array| add(array, &mut seen)).sum()
}
