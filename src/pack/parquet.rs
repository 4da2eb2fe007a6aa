//! Records as rows of a Parquet file.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, FixedSizeListArray, ListArray, PrimitiveArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use half::f16;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::FieldKind;

use super::cells::{Cell, Column, each_number, float_of, integer_of, is_exact, is_held};
use super::output::Output;

/// Bytes of values in a row group, before they are encoded: what a reader holds of it at a time.
const ROW_GROUP_BYTES: u64 = 32 << 20;

/// A file of rows that is being written.
pub(super) struct Table {
    writer: ArrowWriter<Output>,
    schema: Arc<Schema>,
    tree: Vec<(String, Node)>,
    columns: Vec<Column>,
    leaves: Vec<Leaf>,
    rows: usize,
    bytes: u64,
}

/// A column, or a struct of some.
enum Node {
    Leaf(usize),
    Struct(Vec<(String, Node)>),
}

/// The values of a column in the row group that is being filled.
struct Leaf {
    values: Values,
    /// Of lists, and of lists in them.
    levels: Vec<Level>,
}

/// Lists that are equally deep.
struct Level {
    /// How many values each has, if all have as many.
    fixed: Option<usize>,
    lens: Vec<usize>,
    /// Whether each is there at all.
    valid: Vec<bool>,
}

enum Values {
    U8(Vec<Option<u8>>),
    I8(Vec<Option<i8>>),
    U16(Vec<Option<u16>>),
    I16(Vec<Option<i16>>),
    U32(Vec<Option<u32>>),
    I32(Vec<Option<i32>>),
    I64(Vec<Option<i64>>),
    F16(Vec<Option<f16>>),
    F32(Vec<Option<f32>>),
    F64(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

/// A number from wherever.
#[derive(Clone, Copy)]
enum Number<'a> {
    Integer(i128),
    Float(f64),
    Written(&'a str),
}

impl Table {
    pub(super) fn new(columns: &[Column], out: Output) -> Result<Self> {
        let leaves = columns.iter().map(Leaf::new).collect::<Vec<_>>();
        let mut tree = Vec::new();
        for (nth, column) in columns.iter().enumerate() {
            place(&mut tree, &column.path, nth);
        }
        let fields: Fields = tree.iter().map(|(name, node)| node.field(name, &leaves)).collect();
        let schema = Arc::new(Schema::new(fields));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("ringfeed ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties)).map_err(failed)?;
        Ok(Self { writer, schema, tree, columns: columns.to_vec(), leaves, rows: 0, bytes: 0 })
    }

    /// Adds a row; a cell that does not fit its column is an error, and nothing is added.
    pub(super) fn push(&mut self, cells: &[Cell]) -> Result<()> {
        for ((leaf, column), cell) in self.leaves.iter_mut().zip(&self.columns).zip(cells) {
            leaf.push(cell).map_err(|error| error.at_column(&column.name))?;
            self.bytes += cell.bytes();
        }
        self.rows += 1;
        if self.bytes >= ROW_GROUP_BYTES { self.write_row_group() } else { Ok(()) }
    }

    /// Whether a row fits the columns.
    pub(super) fn check(columns: &[Column], cells: &[Cell]) -> Result<()> {
        columns
            .iter()
            .zip(cells)
            .try_for_each(|(column, cell)| Leaf::new(column).push(cell).map_err(|error| error.at_column(&column.name)))
    }

    fn write_row_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let leaves = self.leaves.iter_mut().map(Leaf::take).collect::<Result<Vec<_>>>()?;
        let arrays = self.tree.iter().map(|(name, node)| node.array(name, &leaves)).collect::<Result<_>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(|error| failed(error.into()))?;
        (self.rows, self.bytes) = (0, 0);
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(failed)
    }

    /// Writes the rest and the footer.
    pub(super) fn finish(mut self) -> Result<Output> {
        self.write_row_group()?;
        self.writer.into_inner().map_err(failed)
    }
}

fn failed(error: ParquetError) -> Error {
    Error::new(ErrorKind::Io, format!("the Parquet file can't be written: {error}")).with_source(error)
}

/// Puts column `nth` where its path leads; no path is the beginning of another one.
fn place(tree: &mut Vec<(String, Node)>, path: &[String], nth: usize) {
    match path {
        [] => {}
        [name] => tree.push((name.clone(), Node::Leaf(nth))),
        [name, rest @ ..] => {
            let at = tree.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
                tree.push((name.clone(), Node::Struct(Vec::new())));
                tree.len() - 1
            });
            if let Node::Struct(inner) = &mut tree[at].1 {
                place(inner, rest, nth);
            }
        }
    }
}

impl Node {
    fn field(&self, name: &str, leaves: &[Leaf]) -> FieldRef {
        match self {
            Self::Leaf(nth) => Arc::new(Field::new(name, leaves[*nth].data_type(), true)),
            Self::Struct(inner) => {
                let fields: Fields = inner.iter().map(|(name, node)| node.field(name, leaves)).collect();
                Arc::new(Field::new(name, DataType::Struct(fields), false))
            }
        }
    }

    fn array(&self, name: &str, leaves: &[ArrayRef]) -> Result<ArrayRef> {
        match self {
            Self::Leaf(nth) => Ok(leaves[*nth].clone()),
            Self::Struct(inner) => {
                let mut fields = Vec::new();
                let mut arrays = Vec::new();
                for (name, node) in inner {
                    let array = node.array(name, leaves)?;
                    let nullable = matches!(node, Self::Leaf(_));
                    fields.push(Arc::new(Field::new(name, array.data_type().clone(), nullable)));
                    arrays.push(array);
                }
                let made = StructArray::try_new(fields.into(), arrays, None);
                let made = made.map_err(|error| failed(error.into()).at_column(name))?;
                Ok(Arc::new(made))
            }
        }
    }
}

impl Level {
    fn new(dim: usize) -> Self {
        Self { fixed: Some(dim).filter(|dim| *dim > 0), lens: Vec::new(), valid: Vec::new() }
    }

    /// Adds a list of so many values.
    fn push(&mut self, len: usize) -> Result<()> {
        if let Some(fixed) = self.fixed.filter(|fixed| *fixed != len) {
            let message = format!("{len} values; the field has {fixed} in each record");
            return Err(Error::new(ErrorKind::Data, message));
        }
        self.lens.push(len);
        self.valid.push(true);
        Ok(())
    }

    fn data_type(&self, inner: DataType) -> DataType {
        let item = Arc::new(Field::new_list_field(inner, true));
        match self.fixed {
            Some(len) => DataType::FixedSizeList(item, len as i32),
            None => DataType::List(item),
        }
    }

    fn take(&mut self, values: ArrayRef) -> Result<ArrayRef> {
        let nulls = Some(NullBuffer::from(std::mem::take(&mut self.valid)));
        let lens = std::mem::take(&mut self.lens);
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Ok(match self.fixed {
            Some(len) => {
                let list = FixedSizeListArray::try_new(item, len as i32, values, nulls);
                Arc::new(list.map_err(|error| failed(error.into()))?)
            }
            None => {
                let list = ListArray::try_new(item, OffsetBuffer::from_lengths(lens), values, nulls);
                Arc::new(list.map_err(|error| failed(error.into()))?)
            }
        })
    }
}

impl Leaf {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            FieldKind::Numbers(DType::U8) => Values::U8(Vec::new()),
            FieldKind::Numbers(DType::I8) => Values::I8(Vec::new()),
            FieldKind::Numbers(DType::U16) => Values::U16(Vec::new()),
            FieldKind::Numbers(DType::I16) => Values::I16(Vec::new()),
            FieldKind::Numbers(DType::U32) => Values::U32(Vec::new()),
            FieldKind::Numbers(DType::I32) => Values::I32(Vec::new()),
            FieldKind::Numbers(DType::I64) => Values::I64(Vec::new()),
            FieldKind::Numbers(DType::F16) => Values::F16(Vec::new()),
            // Parquet has no such type; an f32 holds each of its numbers.
            FieldKind::Numbers(DType::F32 | DType::Bf16) => Values::F32(Vec::new()),
            FieldKind::Numbers(DType::F64) => Values::F64(Vec::new()),
            FieldKind::Text => Values::Text(Vec::new()),
            _ => Values::Bytes(Vec::new()),
        };
        Self { values, levels: column.shape.iter().map(|dim| Level::new(*dim)).collect() }
    }

    fn data_type(&self) -> DataType {
        self.levels.iter().rev().fold(self.values.data_type(), |inner, level| level.data_type(inner))
    }

    fn push(&mut self, cell: &Cell) -> Result<()> {
        push_at(&mut self.levels, &mut self.values, cell)
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let values = self.values.take();
        self.levels.iter_mut().rev().try_fold(values, |values, level| level.take(values))
    }
}

fn push_at(levels: &mut [Level], values: &mut Values, cell: &Cell) -> Result<()> {
    let Some((level, inner)) = levels.split_first_mut() else {
        return values.push(cell);
    };
    match cell {
        Cell::Missing => {
            let len = level.fixed.unwrap_or(0);
            level.lens.push(len);
            level.valid.push(false);
            (0..len).try_for_each(|_| push_at(inner, values, &Cell::Missing))
        }
        Cell::List(items) => {
            level.push(items.len())?;
            items.iter().try_for_each(|item| push_at(inner, values, item))
        }
        Cell::Numbers(dtype, bytes, shape) => {
            if let Some(shape) = shape {
                check_shape(levels, shape)?;
            }
            push_numbers(levels, values, (*dtype, bytes), shape.as_deref())
        }
        // A list of one may come as its value.
        cell if inner.is_empty() => {
            level.push(1)?;
            values.push(cell)
        }
        cell => Err(unexpected("a list of lists", cell)),
    }
}

/// Whether an array fits lists that are so deep.
fn check_shape(levels: &[Level], shape: &[u64]) -> Result<()> {
    let fits = |(level, dim): (&Level, &u64)| level.fixed.is_none_or(|fixed| fixed as u64 == *dim);
    let is_empty = shape.iter().skip(1).any(|dim| *dim == 0);
    if shape.len() == levels.len() && !is_empty && levels.iter().zip(shape).all(fits) {
        return Ok(());
    }
    let dims: Vec<usize> = levels.iter().map(|level| level.fixed.unwrap_or(0)).collect();
    let message = format!(
        "an array of shape {shape:?}; the field has {dims:?} (0: any length), and a column would lose the shape; pack into tar"
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Numbers of lists in lists of known lengths come one after another.
fn push_numbers(
    levels: &mut [Level],
    values: &mut Values,
    (dtype, bytes): (DType, &[u8]),
    shape: Option<&[u64]>,
) -> Result<()> {
    let Some((level, inner)) = levels.split_first_mut() else {
        let mut pushed = Ok(());
        each_number(dtype, bytes, |number| {
            if pushed.is_ok() {
                pushed = values.push(&number);
            }
        });
        return pushed;
    };
    let shape = shape.and_then(|shape| shape.get(1..));
    let dim = |(nth, level): (usize, &Level)| match shape {
        Some(shape) => shape.get(nth).and_then(|dim| usize::try_from(*dim).ok()),
        None => level.fixed,
    };
    let mut inner_dims = inner.iter().enumerate().map(dim);
    let each = inner_dims.try_fold(dtype.bytes(), |bytes, dim| bytes.checked_mul(dim?));
    let Some(each) = each.filter(|each| *each > 0 && bytes.len().is_multiple_of(*each)) else {
        let message = format!("{} numbers, which are not lists in lists as elsewhere", bytes.len() / dtype.bytes());
        return Err(Error::new(ErrorKind::Data, message));
    };
    level.push(bytes.len() / each)?;
    bytes.chunks(each).try_for_each(|bytes| push_numbers(inner, values, (dtype, bytes), shape))
}

/// Runs the same code for the numbers of any type.
macro_rules! each_type {
    ($values:expr, $numbers:ident => $code:expr, $texts:ident => $text:expr, $bytes:ident => $byte:expr) => {
        match $values {
            Values::U8($numbers) => $code,
            Values::I8($numbers) => $code,
            Values::U16($numbers) => $code,
            Values::I16($numbers) => $code,
            Values::U32($numbers) => $code,
            Values::I32($numbers) => $code,
            Values::I64($numbers) => $code,
            Values::F16($numbers) => $code,
            Values::F32($numbers) => $code,
            Values::F64($numbers) => $code,
            Values::Text($texts) => $text,
            Values::Bytes($bytes) => $byte,
        }
    };
}

impl Values {
    fn data_type(&self) -> DataType {
        match self {
            Self::U8(_) => DataType::UInt8,
            Self::I8(_) => DataType::Int8,
            Self::U16(_) => DataType::UInt16,
            Self::I16(_) => DataType::Int16,
            Self::U32(_) => DataType::UInt32,
            Self::I32(_) => DataType::Int32,
            Self::I64(_) => DataType::Int64,
            Self::F16(_) => DataType::Float16,
            Self::F32(_) => DataType::Float32,
            Self::F64(_) => DataType::Float64,
            Self::Text(_) => DataType::Utf8,
            Self::Bytes(_) => DataType::Binary,
        }
    }

    fn push(&mut self, cell: &Cell) -> Result<()> {
        if let Cell::Missing = cell {
            each_type!(self, numbers => numbers.push(None), texts => texts.push(None), bytes => bytes.push(None));
            return Ok(());
        }
        // A single number may come as an array of one.
        if let Cell::Numbers(dtype, bytes, _) = cell
            && bytes.len() == dtype.bytes()
        {
            return push_numbers(&mut [], self, (*dtype, bytes), None);
        }
        let wanted = self.data_type();
        let number = || match cell {
            Cell::Bool(flag) => Some(Number::Integer((*flag).into())),
            Cell::I64(number) => Some(Number::Integer((*number).into())),
            Cell::U64(number) => Some(Number::Integer((*number).into())),
            Cell::F64(number) => Some(Number::Float(*number)),
            Cell::Decimal(text) | Cell::Text(text) => Some(Number::Written(text)),
            Cell::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(Number::Written),
            _ => None,
        };
        each_type!(self,
        numbers => {
            let number = number().and_then(converted).ok_or_else(|| unexpected(&wanted.to_string(), cell))?;
            numbers.push(Some(number));
        },
        texts => texts.push(Some(match cell {
            Cell::Text(text) | Cell::Decimal(text) => text.clone(),
            Cell::Bytes(bytes) => String::from_utf8(bytes.clone()).map_err(|_| unexpected("text in UTF-8", cell))?,
            _ => return Err(unexpected("text", cell)),
        })),
        bytes => bytes.push(Some(match cell {
            Cell::Bytes(found) => found.clone(),
            Cell::Text(text) => text.clone().into_bytes(),
            _ => return Err(unexpected("bytes", cell)),
        })));
        Ok(())
    }

    fn take(&mut self) -> ArrayRef {
        fn numbers<T: ArrowPrimitiveType>(values: &mut Vec<Option<T::Native>>) -> ArrayRef {
            Arc::new(std::mem::take(values).into_iter().collect::<PrimitiveArray<T>>())
        }
        match self {
            Self::U8(values) => numbers::<UInt8Type>(values),
            Self::I8(values) => numbers::<Int8Type>(values),
            Self::U16(values) => numbers::<UInt16Type>(values),
            Self::I16(values) => numbers::<Int16Type>(values),
            Self::U32(values) => numbers::<UInt32Type>(values),
            Self::I32(values) => numbers::<Int32Type>(values),
            Self::I64(values) => numbers::<Int64Type>(values),
            Self::F16(values) => numbers::<Float16Type>(values),
            Self::F32(values) => numbers::<Float32Type>(values),
            Self::F64(values) => numbers::<Float64Type>(values),
            Self::Text(values) => Arc::new(StringArray::from_iter(std::mem::take(values))),
            Self::Bytes(values) => Arc::new(BinaryArray::from_iter(std::mem::take(values))),
        }
    }
}

#[cold]
fn unexpected(wanted: &str, found: &Cell) -> Error {
    let message = format!("expected {wanted}, as the field holds it elsewhere, found {}", found.describe());
    Error::new(ErrorKind::Data, message)
}

/// A type of numbers in a table.
trait Stored: Sized {
    fn of(number: Number<'_>) -> Option<Self>;
}

fn converted<T: Stored>(number: Number<'_>) -> Option<T> {
    T::of(number)
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Stored for $type {
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

integers!(u8, i8, u16, i16, u32, i32, i64);

impl Stored for f64 {
    fn of(number: Number<'_>) -> Option<Self> {
        match number {
            Number::Integer(integer) => is_exact(integer).then_some(integer as f64),
            Number::Float(number) => Some(number),
            Number::Written(text) => text.trim().parse().ok().filter(|number| is_held(text, *number)),
        }
    }
}

impl Stored for f32 {
    fn of(number: Number<'_>) -> Option<Self> {
        match number {
            Number::Integer(integer) => Some(integer as f32),
            Number::Float(number) => Some(number as f32),
            // Rounded once.
            Number::Written(text) => text.trim().parse().ok(),
        }
    }
}

impl Stored for f16 {
    fn of(number: Number<'_>) -> Option<Self> {
        f64::of(number).map(f16::from_f64)
    }
}
