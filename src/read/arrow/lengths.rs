//! Checks whether a batch can have as many records as it says: its columns must hold data for each record.

use arrow_ipc::{BodyCompression, Buffer, CompressionType, FieldNode, MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Schema, UnionMode};

use crate::error::{Error, ErrorKind, Result};

/// Most records of a batch that may exist without taking any byte: with no columns, or with only missing values.
const MOST_UNSEEN: u64 = 1 << 24;

#[cold]
pub(super) fn broken(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, message.into())
}

/// Refuses a batch that claims more records than its `body_len` bytes can hold.
pub(super) fn check_records(
    batch: &RecordBatch<'_>,
    records: u64,
    schema: &Schema,
    version: MetadataVersion,
    body_len: u64,
) -> Result<()> {
    let mut columns = Columns {
        nodes: batch.nodes().into_iter().flatten(),
        buffers: batch.buffers().into_iter().flatten(),
        variadic: batch.variadicBufferCounts().into_iter().flatten(),
        has_union_validity: version < MetadataVersion::V5,
        growth: batch.compression().map_or(1, growth),
        body_len,
        records,
        is_seen: false,
    };
    for field in schema.fields() {
        columns.check(field.data_type(), Some(records)).map_err(|reason| {
            broken(format!("a batch says that it has {records} records, but {reason}")).at_column(field.name())
        })?;
    }
    if records > MOST_UNSEEN && !columns.is_seen {
        let message =
            format!("a batch says that it has {records} records, but none of its columns holds a byte of them");
        return Err(broken(message));
    }
    Ok(())
}

/// The largest number of bytes that one byte may unpack to, by the densest block of each method.
fn growth(compression: BodyCompression<'_>) -> u64 {
    if compression.codec() == CompressionType::LZ4_FRAME { 255 } else { 1 << 15 }
}

/// The columns of a batch, in the order in which their lengths are written.
struct Columns<N, B, V> {
    nodes: N,
    buffers: B,
    variadic: V,
    has_union_validity: bool,
    growth: u64,
    body_len: u64,
    records: u64,
    /// Whether some column has bytes for each record.
    is_seen: bool,
}

impl<'a, N, B, V> Columns<N, B, V>
where
    N: Iterator<Item = &'a FieldNode>,
    B: Iterator<Item = &'a Buffer>,
    V: Iterator<Item = i64>,
{
    /// Checks a column and those in it, which must have `expected` values if that is known.
    fn check(&mut self, kind: &DataType, expected: Option<u64>) -> Result<(), String> {
        let node = self.nodes.next().ok_or("it describes fewer columns than the schema")?;
        let len = u64::try_from(node.length()).map_err(|_| "one of its columns has a negative number of values")?;
        if let Some(expected) = expected.filter(|expected| *expected != len) {
            return Err(format!("{len} values where there should be {expected}"));
        }
        match kind {
            DataType::Null => return Ok(()),
            DataType::RunEndEncoded(ends, values) => {
                self.check(ends.data_type(), None)?;
                return self.check(values.data_type(), None);
            }
            DataType::Union(fields, mode) => {
                if self.has_union_validity {
                    self.buffer(len, 0)?;
                }
                self.buffer(len, 8)?;
                if *mode == UnionMode::Dense {
                    self.buffer(len, 32)?;
                }
                return fields.iter().try_for_each(|(_, field)| self.check(field.data_type(), None));
            }
            _ => self.buffer(len, 0)?,
        }
        // Where each value begins, and where the last one ends.
        let ends = if len == 0 { 0 } else { len.saturating_add(1) };
        match kind {
            DataType::Boolean => self.buffer(len, 1),
            DataType::Utf8 | DataType::Binary => self.buffer(ends, 32).and_then(|()| self.buffer(0, 0)),
            DataType::LargeUtf8 | DataType::LargeBinary => self.buffer(ends, 64).and_then(|()| self.buffer(0, 0)),
            DataType::Utf8View | DataType::BinaryView => {
                self.buffer(len, 128)?;
                let count = self.variadic.next().ok_or("it does not say how many parts a column has")?;
                (0..count).try_for_each(|_| self.buffer(0, 0))
            }
            DataType::FixedSizeBinary(bytes) => self.buffer(len, u64::try_from(*bytes).unwrap_or(0) * 8),
            DataType::List(field) | DataType::Map(field, _) => {
                self.buffer(ends, 32)?;
                self.check(field.data_type(), None)
            }
            DataType::LargeList(field) => {
                self.buffer(ends, 64)?;
                self.check(field.data_type(), None)
            }
            DataType::ListView(field) => {
                self.buffer(len, 32)?;
                self.buffer(len, 32)?;
                self.check(field.data_type(), None)
            }
            DataType::LargeListView(field) => {
                self.buffer(len, 64)?;
                self.buffer(len, 64)?;
                self.check(field.data_type(), None)
            }
            DataType::FixedSizeList(field, each) => {
                let inner = len.checked_mul(u64::try_from(*each).unwrap_or(0));
                let inner = inner.ok_or("its lists have an impossible number of values")?;
                self.check(field.data_type(), Some(inner))
            }
            DataType::Struct(fields) => fields.iter().try_for_each(|field| self.check(field.data_type(), Some(len))),
            DataType::Dictionary(keys, _) => self.buffer(len, keys.primitive_width().unwrap_or(0) as u64 * 8),
            kind => self.buffer(len, kind.primitive_width().unwrap_or(0) as u64 * 8),
        }
    }

    /// The next bytes of a column, which must hold `count` values of `bits` each.
    fn buffer(&mut self, count: u64, bits: u64) -> Result<(), String> {
        let buffer = self.buffers.next().ok_or("it describes fewer columns than the schema")?;
        let stored = u64::try_from(buffer.length()).ok().filter(|stored| *stored <= self.body_len);
        let stored = stored.ok_or_else(|| format!("{} bytes of a column lie outside of it", buffer.length()))?;
        let most = u128::from(stored) * u128::from(self.growth);
        if u128::from(count) * u128::from(bits) > most * 8 {
            return Err(format!("{count} values of {bits} bits can't lie in {stored} bytes"));
        }
        self.is_seen |= bits > 0 && count >= self.records;
        Ok(())
    }
}
