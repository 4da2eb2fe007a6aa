//! Tables in memory that other libraries pass through Arrow's C interfaces, read in place.
//! <https://arrow.apache.org/docs/format/CStreamInterface.html>

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::read::columns::{Cells, Columns, ColumnsOptions, Leaf, Source, Span, column, fields_of};
use crate::storage::Needs;
use crate::tree::no_faults;

/// A table in the memory of another library, such as pyarrow, polars, DuckDB or another version of Arrow for Rust. It
/// is imported through Arrow's C data interface, without a copy unless its numbers are not aligned. Clones share it.
///
/// Its contents are checked when they are first read. It must not be changed in place while it is read.
#[derive(Clone)]
pub struct ArrowTable {
    name: PathBuf,
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
    /// The records that are read, in their order, if not all are.
    picked: Option<ScalarBuffer<u64>>,
}

impl fmt::Debug for ArrowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowTable").field("name", &self.name).field("records", &self.len()).finish_non_exhaustive()
    }
}

#[cold]
fn not_taken(error: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Format, format!("the table can't be taken over: {error}"))
}

/// The column itself, or a column inside it, if Arrow's interface does not have its type.
fn foreign(column: &FFI_ArrowSchema) -> Option<&FFI_ArrowSchema> {
    let inside = column.children().find_map(foreign);
    inside.or_else(|| DataType::try_from(column).is_err().then_some(column))
}

/// Refuses columns of a library's own types, such as the numbers of 128 bits of polars.
fn check_types(table: &FFI_ArrowSchema) -> Result<()> {
    let found = table.children().find_map(|column| Some((column, foreign(column)?)));
    let Some((column, foreign)) = found else { return Ok(()) };
    let (name, format) = (column.name().unwrap_or_default(), foreign.format());
    let message = format!(
        "values of type {format:?}, which Arrow does not have: leave the column out, or cast it, such as to numbers of 64 bits"
    );
    Err(Error::new(ErrorKind::Unsupported, message).at_column(name))
}

/// The error for a stream whose records can't be imported.
#[cold]
fn not_read(schema: &Schema, error: impl fmt::Display) -> Error {
    let error = not_taken(error);
    // Polars gives a column without a type memory that it can't have.
    match schema.fields().iter().find(|field| *field.data_type() == DataType::Null) {
        Some(column) if error.message().contains("\"Null\"") => {
            let message =
                "a column without a type, because no value is known: leave it out, or cast it, such as to numbers";
            Error::new(ErrorKind::Unsupported, message).at_column(column.name())
        }
        _ => error,
    }
}

/// A producer that breaks the rules must not end the process.
fn caught<T>(take: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(take)).unwrap_or_else(|panic| Err(not_taken(Error::from_panic(&*panic).message())))
}

impl ArrowTable {
    /// Takes all records of a stream. Messages call the table `name`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a stream that fails, or is not a stream of records; [`ErrorKind::Unsupported`] for a
    /// column of a type that Arrow does not have, such as numbers of 128 bits.
    ///
    /// # Safety
    ///
    /// `stream` points to an `ArrowArrayStream` of Arrow's C stream interface that follows its rules. It is released
    /// here, and what it points to stays the caller's.
    pub unsafe fn from_stream(stream: NonNull<c_void>, name: &str) -> Result<Self> {
        // SAFETY: the caller promises that it is such a stream.
        let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr().cast()) };
        caught(|| {
            if let Some(get_schema) = stream.get_schema() {
                let mut schema = FFI_ArrowSchema::empty();
                // SAFETY: both live here, and a stream that is not released yet says what it holds as often as it is
                // asked.
                if unsafe { get_schema(&raw mut stream, &raw mut schema) } == 0 {
                    check_types(&schema)?;
                }
            }
            let reader = RecordBatchStreamReader::try_new(stream).map_err(not_taken)?;
            let schema = arrow_array::RecordBatchReader::schema(&reader);
            let batches = reader.collect::<std::result::Result<_, _>>().map_err(|error| not_read(&schema, error))?;
            Ok(Self { name: name.into(), schema, batches, picked: None })
        })
    }

    /// A single array of records.
    ///
    /// # Errors
    ///
    /// As [`from_stream`](Self::from_stream).
    ///
    /// # Safety
    ///
    /// `schema` points to an `ArrowSchema` and `array` to an `ArrowArray` of it, both of Arrow's C data interface and
    /// by its rules. The array is moved out of there.
    pub unsafe fn from_array(schema: NonNull<c_void>, array: NonNull<c_void>, name: &str) -> Result<Self> {
        // SAFETY: the caller promises that it is such a description, which is only looked at.
        let schema = unsafe { schema.cast::<FFI_ArrowSchema>().as_ref() };
        // SAFETY: the caller promises that it is such an array.
        let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr().cast()) };
        caught(|| {
            check_types(schema)?;
            let DataType::Struct(fields) = DataType::try_from(schema).map_err(not_taken)? else {
                return Err(not_taken("it is a column, not a table"));
            };
            // SAFETY: the caller promises that the array is one of this description.
            let data = unsafe { from_ffi(array, schema) }.map_err(not_taken)?;
            let schema = Arc::new(Schema::new(fields));
            let batches = [RecordBatch::from(StructArray::from(data))].into();
            Ok(Self { name: name.into(), schema, batches, picked: None })
        })
    }

    /// The records at these indices, in this order. The indices are the first column of `places`, unsigned numbers of
    /// 64 bits, as Hugging Face stores a shuffled or selected data set.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for another type of column, and [`ErrorKind::Data`] for an index beyond the table.
    pub fn pick(self, places: &Self) -> Result<Self> {
        let len = self.len();
        let column = |batch: &RecordBatch| {
            let column = batch.columns().first().filter(|column| column.null_count() == 0);
            let numbers = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
            numbers
                .map(|numbers| numbers.values().clone())
                .ok_or_else(|| not_taken("its indices are not whole numbers"))
        };
        let mut parts = places.batches.iter().map(column).collect::<Result<Vec<_>>>()?;
        let own = if parts.len() == 1 { parts.swap_remove(0) } else { parts.iter().flatten().copied().collect() };
        if let Some((at, place)) = own.iter().enumerate().find(|(_, place)| **place >= len) {
            let message = format!("picked index {at} is {place}, but the table has {len} records");
            return Err(Error::new(ErrorKind::Data, message));
        }
        let picked = match &self.picked {
            None => own,
            Some(before) => own.iter().map(|place| before[*place as usize]).collect(),
        };
        Ok(Self { picked: Some(picked), ..self })
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        match &self.picked {
            Some(picked) => picked.len() as u64,
            None => self.stored(),
        }
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn stored(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }
}

impl Columns {
    /// The records of a table in memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for invalid options.
    pub fn of_table(table: &ArrowTable, options: &ColumnsOptions, budget: &MemoryBudget) -> Result<Self> {
        no_faults(options.faults())?;
        let fields = table.schema.fields().iter();
        let columns: Vec<_> = fields.map(|field| column(field, field.data_type().clone())).collect();
        let (leaves, refused) = fields_of(&columns);
        let source = Table { paths: [table.name.clone()], batches: table.batches.clone(), leaves };
        Ok(Self::new(source, refused, options, budget).picked(table.picked.clone()))
    }
}

struct Table {
    /// The table's name in messages.
    paths: [PathBuf; 1],
    batches: Arc<[RecordBatch]>,
    leaves: Vec<Leaf>,
}

impl Source for Table {
    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The same table may have another number of bytes next time.
    fn stored_bytes(&self) -> u64 {
        0
    }

    fn spans(&self, _: &[usize], _: u64) -> Vec<Span> {
        let mut first = 0;
        let spans = self.batches.iter().enumerate().map(|(group, batch)| {
            let records = batch.num_rows() as u64;
            let span = Span { file: 0, group, first, records, skipped: 0 };
            first += records;
            span
        });
        spans.filter(|span| span.records > 0).collect()
    }

    fn records(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    fn parts(&self, fields: &[usize]) -> usize {
        usize::from(!fields.is_empty())
    }

    fn part_of(&self, nth: usize) -> (usize, usize) {
        (0, nth)
    }

    /// The values lie in the table itself.
    fn estimate(&self, _: &Span, _: &[usize], _: usize) -> u64 {
        0
    }

    fn decode(&self, span: &Span, fields: &[usize], _: usize, _: &mut Reservation) -> Result<Vec<Cells>> {
        let batch = &self.batches[span.group];
        let cells = fields.iter().map(|position| {
            let leaf = &self.leaves[*position];
            let column = batch.column(leaf.path[0]);
            let damaged = |error| Error::new(ErrorKind::Data, format!("the column is damaged: {error}"));
            let checked = column.to_data().validate_full().map_err(damaged);
            let cells = checked.and_then(|()| leaf.cells(column));
            cells.map_err(|error| error.at_column(leaf.info.name.clone()))
        });
        cells.collect()
    }

    fn need(&self, _: &Span, _: &[usize], _: usize, _: &mut Needs) {}
}
