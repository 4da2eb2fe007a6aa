//! Records as rows of a Parquet file.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray, RecordBatch, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};

use super::cells::{Cell, Column, each_number};
use super::output::Output;
use super::values::{Values, failed, unexpected};

/// Bytes of values in a row group, before they are encoded: a reader holds this much at a time, and so does packing.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// A file of rows that is being written.
pub(super) struct Table {
    writer: ArrowWriter<Output>,
    schema: Arc<Schema>,
    tree: Vec<(String, Node)>,
    columns: Vec<Column>,
    leaves: Vec<Leaf>,
    rows: usize,
}

/// A column, or a struct of columns.
enum Node {
    Leaf(usize),
    Struct(Vec<(String, Node)>),
}

/// The values of a column in the current row group.
struct Leaf {
    values: Values,
    /// For lists, and for lists in them.
    levels: Vec<Level>,
}

/// Lists of the same depth.
struct Level {
    /// Number of values in each, if it is always the same.
    fixed: Option<usize>,
    lens: Vec<usize>,
    /// Whether each list exists at all.
    valid: Vec<bool>,
}

impl Table {
    pub(super) fn new(columns: &[Column], out: Output) -> Result<Self> {
        let leaves = columns.iter().map(Leaf::new).collect::<Result<Vec<_>>>()?;
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
        Ok(Self { writer, schema, tree, columns: columns.to_vec(), leaves, rows: 0 })
    }

    /// Adds a row. If a cell does not fit its column, this is an error and nothing is added.
    pub(super) fn push(&mut self, cells: &[Cell]) -> Result<()> {
        for ((leaf, column), cell) in self.leaves.iter_mut().zip(&self.columns).zip(cells) {
            leaf.push(cell).map_err(|error| error.at_column(&column.name))?;
        }
        self.rows += 1;
        let bytes: usize = self.leaves.iter().map(Leaf::bytes).sum();
        if bytes >= ROW_GROUP_BYTES { self.write_row_group() } else { Ok(()) }
    }

    /// Checks that such columns are possible.
    pub(super) fn allows(columns: &[Column]) -> Result<()> {
        columns.iter().try_for_each(|column| Leaf::new(column).map(|_| ()))
    }

    /// Whether a row fits the columns. A missing value fits each.
    pub(super) fn check(columns: &[Column], cells: &[Cell]) -> Result<()> {
        let mut there = columns.iter().zip(cells).filter(|(_, cell)| !matches!(cell, Cell::Missing));
        there
            .try_for_each(|(column, cell)| Leaf::new(column)?.push(cell).map_err(|error| error.at_column(&column.name)))
    }

    fn write_row_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let leaves = self.leaves.iter_mut().map(Leaf::take).collect::<Result<Vec<_>>>()?;
        let arrays = self.tree.iter().map(|(name, node)| node.array(name, &leaves)).collect::<Result<_>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(|error| failed(error.into()))?;
        self.rows = 0;
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(failed)
    }

    /// Writes the rest and the footer.
    pub(super) fn finish(mut self) -> Result<Output> {
        self.write_row_group()?;
        self.writer.into_inner().map_err(failed)
    }
}

/// Puts column `nth` at the end of its path. No path is the beginning of another one.
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
        let kind = match self {
            Self::Leaf(nth) => leaves[*nth].data_type(),
            Self::Struct(inner) => {
                DataType::Struct(inner.iter().map(|(name, node)| node.field(name, leaves)).collect())
            }
        };
        Arc::new(Field::new(name, kind, true))
    }

    /// If no field of a struct has a value, the struct itself is missing.
    fn array(&self, name: &str, leaves: &[ArrayRef]) -> Result<ArrayRef> {
        match self {
            Self::Leaf(nth) => Ok(leaves[*nth].clone()),
            Self::Struct(inner) => {
                let arrays: Vec<ArrayRef> =
                    inner.iter().map(|(name, node)| node.array(name, leaves)).collect::<Result<_>>()?;
                let fields = inner.iter().zip(&arrays);
                let fields =
                    fields.map(|((name, _), array)| Field::new(name, array.data_type().clone(), true)).collect();
                let rows = arrays.first().map_or(0, |array| array.len());
                let valid = (0..rows).map(|row| arrays.iter().any(|array| array.is_valid(row)));
                let made = StructArray::try_new(fields, arrays.clone(), Some(NullBuffer::from_iter(valid)));
                Ok(Arc::new(made.map_err(|error| failed(error.into()).at_column(name))?))
            }
        }
    }
}

impl Level {
    fn new(dim: usize) -> Self {
        Self { fixed: Some(dim).filter(|dim| *dim > 0), lens: Vec::new(), valid: Vec::new() }
    }

    /// Adds a list with this number of values.
    fn push(&mut self, len: usize) -> Result<()> {
        if let Some(fixed) = self.fixed.filter(|fixed| *fixed != len) {
            let message = format!(
                "a list of {len} values, but those of the first records, from which the column is made, have {fixed} each; \
                 pack into tar, where lists of JSON Lines have any length, or leave the field out (--skip-fields)"
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        self.lens.push(len);
        self.valid.push(true);
        Ok(())
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.lens) + self.valid.len()
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
    fn new(column: &Column) -> Result<Self> {
        let values = Values::new(column)?;
        Ok(Self { values, levels: column.shape.iter().map(|dim| Level::new(*dim)).collect() })
    }

    fn data_type(&self) -> DataType {
        self.levels.iter().rev().fold(self.values.data_type(), |inner, level| level.data_type(inner))
    }

    fn push(&mut self, cell: &Cell) -> Result<()> {
        push_at(&mut self.levels, &mut self.values, cell)
    }

    fn bytes(&self) -> usize {
        self.levels.iter().map(Level::bytes).sum::<usize>() + self.values.bytes()
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let values = self.values.take()?;
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
            match inner {
                [] => values.push_missing(len),
                inner => (0..len).try_for_each(|_| push_at(inner, values, &Cell::Missing))?,
            }
            Ok(())
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
        // A list of one element may come as its value.
        cell if inner.is_empty() => {
            level.push(1)?;
            values.push(cell)
        }
        cell => Err(unexpected("a list of lists", cell)),
    }
}

/// Whether an array fits lists of this depth.
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

/// Adds the numbers of nested lists of known lengths, which follow one another.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::FieldKind;

    fn leaf(kind: FieldKind, shape: &[usize]) -> Leaf {
        let name = "x".to_owned();
        let path = vec![name.clone()];
        let column = Column { number: 0, field: 0.into(), name, path, kind, shape: shape.to_vec(), meaning: None };
        Leaf::new(&column).unwrap()
    }

    #[test]
    fn values_count_as_much_as_they_take() {
        let mut texts = leaf(FieldKind::Text, &[]);
        (0..1000).for_each(|_| texts.push(&Cell::Text("a".to_owned())).unwrap());
        (0..1000).for_each(|_| texts.push(&Cell::Missing).unwrap());
        assert!((9000..9100).contains(&texts.bytes()), "{}", texts.bytes());
        // A list of a fixed length that is missing has the place of one that is there.
        let mut lists = leaf(FieldKind::Numbers(DType::F32), &[3, 7]);
        let before = lists.bytes();
        (0..10).for_each(|_| lists.push(&Cell::Missing).unwrap());
        assert!(lists.bytes() - before >= 10 * 3 * 7 * 4, "{}", lists.bytes());
        assert_eq!((lists.take().unwrap().len(), lists.bytes()), (10, before));
    }
}
