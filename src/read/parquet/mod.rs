//! Parquet files. <https://parquet.apache.org/docs/file-format/>
//!
//! The footer and the columns are decoded by Arrow's own crate. The pages are found, checked and decompressed here,
//! because a damaged page must neither take much memory nor pass as a good one.

mod entry;
mod footer;
mod levels;
mod pages;
mod positions;
mod schema;
mod thrift;
mod unpack;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ArrayRef;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type;
use parquet::column::page::PageIterator;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::schema::types::ColumnDescriptor;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::read::columns::{Cells, Columns, ColumnsOptions, Leaf, Source, Span, foreseen, memory_of, open_all};
use crate::storage::{Access, Files, Input, Needs};
use crate::sync::Mutex;
use crate::tree::no_faults;

pub use entry::Parquet;
use levels::Levels;
use pages::{Chunk, OneChunk, Pages, Part};
use positions::Positions;
use schema::{FixedLens, leaf_count, level_of_item, project};

const MAGIC: [u8; 4] = *b"PAR1";
const MAGIC_ENCRYPTED: [u8; 4] = *b"PARE";
/// Bytes of the footer's length and the magic number.
const TAIL: u64 = 8;

/// Most records per file: enough for any file, and few enough that planning a footer's records ends.
const MAX_RECORDS: u64 = 1 << 36;
/// Most records that may exist without taking any byte.
const MOST_UNSEEN: u64 = 1 << 24;
/// Most values of a column for each of its bytes: a page of some tens of bytes may repeat one value many million times.
const MOST_A_BYTE: u64 = 1 << 20;
/// Most records that are decoded together.
const MAX_SPAN: u64 = 1 << 20;
/// A group is not cut into parts of fewer stored bytes than this, whatever size its footer promises.
const LEAST_STORED: u64 = 4 << 10;
/// Number of records that are decoded at once before it is known how much memory they take; a power of two.
const BATCH: usize = 1 << 13;

struct File {
    input: Arc<Input>,
    metadata: ParquetMetaData,
    columns: schema::Columns,
    positions: Arc<Positions>,
}

struct ParquetFiles {
    paths: Vec<PathBuf>,
    files: Vec<File>,
    leaves: Vec<Leaf>,
    /// For each field, the columns of single values that it is decoded from, and its path in them.
    projections: Vec<(std::ops::Range<usize>, Vec<usize>)>,
    max_chunk_bytes: u64,
}

impl Columns {
    /// The records of Parquet files, one file after another.
    ///
    /// Row groups are decoded by column and page, whatever their encoding (all but those of future versions), and
    /// compressed by Snappy, gzip, Zstandard, LZ4 or Brotli. Checksums of pages are checked where they are written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a file that is damaged, or has other columns than the first one;
    /// [`ErrorKind::Unsupported`] for an encrypted one; those of reading.
    pub fn open_parquet(
        files: &Files,
        paths: &[PathBuf],
        options: &ColumnsOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        no_faults(options.faults())?;
        let open = |files: &Files, path: &Path| File::open(files, path, options.access, budget);
        let (opened, leaves, refused) = open_all(files, paths, open, |file| file.columns.columns.clone())?;
        let columns = &opened[0].columns.columns;
        let firsts: Vec<usize> = columns
            .iter()
            .scan(0, |next, column| {
                let first = *next;
                *next += leaf_count(column.data_type());
                Some(first)
            })
            .collect();
        let projections = leaves
            .iter()
            .map(|leaf| {
                let (column, path) = (leaf.path[0], &leaf.path[1..]);
                project(columns[column].data_type(), path, firsts[column])
            })
            .collect();
        let source = ParquetFiles {
            paths: paths.to_vec(),
            files: opened,
            leaves,
            projections,
            max_chunk_bytes: options.max_chunk_bytes,
        };
        Ok(Self::new(source, refused, options, budget))
    }
}

#[cold]
fn encrypted(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} encrypted, which is not read"))
}

#[cold]
fn broken(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, message.into())
}

impl File {
    fn open(files: &Files, path: &Path, access: Access, budget: &MemoryBudget) -> Result<Self> {
        let input = Arc::new(files.open(path, access)?);
        let len = input.len();
        let mut head = [0; 4];
        let mut tail = [0; TAIL as usize];
        let end = len.checked_sub(TAIL).filter(|end| *end >= 4);
        let end = end.ok_or_else(|| broken(format!("a file of {len} bytes is not a Parquet file")))?;
        input.read_at(0, &mut head)?;
        input.read_at(end, &mut tail)?;
        let (footer_len, magic) = (u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]), &tail[4..]);
        match (head, magic) {
            (MAGIC, magic) if magic == MAGIC => {}
            (MAGIC_ENCRYPTED, _) => return Err(encrypted("the file is")),
            (MAGIC, _) => {
                return Err(broken(
                    "the file does not end as a Parquet file does: it was cut off, or is still being written",
                ));
            }
            _ => return Err(broken("this is not a Parquet file")),
        }
        let start = end.checked_sub(footer_len.into()).filter(|start| *start >= 4);
        let start = start.ok_or_else(|| broken(format!("a footer of {footer_len} bytes in a file of {len}")))?;
        // Decoding the footer takes several times its length.
        let what = "the footer of a Parquet file";
        let _reservation = budget.reserve(u64::from(footer_len) * 8, what)?;
        let mut footer = vec![0; footer_len as usize];
        input.read_at(start, &mut footer)?;
        if !footer::is_sane_schema(&footer) {
            return Err(broken("the footer is damaged: its schema is not a tree").at_byte(start));
        }
        let options = ParquetMetaDataOptions::new();
        let decoded = ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options));
        let metadata = decoded.map_err(|error| broken(format!("the footer is damaged: {error}")).at_byte(start))?;
        check(&metadata)?;
        if footer::names_encryption(&footer) {
            return Err(encrypted("columns of the file are"));
        }
        let columns = schema::Columns::new(&metadata)?;
        let leaf_columns: usize = columns.columns.iter().map(|column| leaf_count(column.data_type())).sum();
        if leaf_columns != columns.schema.num_columns() {
            return Err(schema::not_understood("its columns can't be told apart"));
        }
        Ok(Self { input, metadata, columns, positions: Arc::default() })
    }

    /// Where the pages of column `leaf` of a row group are.
    fn chunk(&self, group: usize, leaf: usize, max_bytes: u64) -> Result<Chunk> {
        let group = self.metadata.row_group(group);
        let column = group.column(leaf);
        if column.file_path().is_some_and(|path| !path.is_empty()) {
            return Err(Error::new(ErrorKind::Unsupported, "a column lies in another file, which is not read"));
        }
        // Some writers put a 0 where there is no dictionary.
        let data = column.data_page_offset();
        let start = column.dictionary_page_offset().filter(|dictionary| (4..data).contains(dictionary)).unwrap_or(data);
        let range = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
        let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
        let most = self.input.len() - TAIL;
        let Some(range) = range.filter(|range| range.start >= 4 && range.end <= most) else {
            let message =
                format!("the footer says that a column begins at byte {start}, and does not end within the file");
            return Err(broken(message));
        };
        let descriptor = self.columns.schema.column(leaf);
        let (stored, values) = (column.column_type(), column.num_values() as u64);
        let is_flat = descriptor.max_rep_level() == 0;
        if stored != descriptor.physical_type() || is_flat && values != group.num_rows() as u64 {
            let message = format!(
                "the footer says that a column has {values} values of type {stored}, which is \
                                   impossible"
            );
            return Err(broken(message));
        }
        let width = width_of(&descriptor);
        let codec = column.compression();
        let levels = Levels { repetition: descriptor.max_rep_level(), definition: descriptor.max_def_level() };
        let input = self.input.clone();
        let (padding, part) = (None, None);
        Ok(Chunk { input, range, codec, stored, width, values, is_flat, levels, padding, part, max_bytes })
    }
}

/// Bytes of a value of a column, if all have the same size.
fn width_of(column: &ColumnDescriptor) -> Option<u32> {
    match column.physical_type() {
        Type::BOOLEAN => Some(1),
        Type::INT32 | Type::FLOAT => Some(4),
        Type::INT64 | Type::DOUBLE => Some(8),
        Type::INT96 => Some(12),
        Type::FIXED_LEN_BYTE_ARRAY => Some(u32::try_from(column.type_length()).unwrap_or(0)),
        Type::BYTE_ARRAY => None,
    }
}

/// Refuses footers that can't be true.
fn check(metadata: &ParquetMetaData) -> Result<()> {
    let mut records = 0u64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let count = u64::try_from(group.num_rows()).ok();
        let is_good = group.columns().iter().all(|column| column.num_values() >= 0 && column.compressed_size() >= 0);
        let total = count.filter(|_| is_good).and_then(|count| records.checked_add(count));
        let Some((count, total)) = count.zip(total).filter(|(_, total)| *total <= MAX_RECORDS) else {
            return Err(broken(format!("the footer's description of row group {index} is impossible")));
        };
        records = total;
        check_group(group, count).map_err(|reason| {
            broken(format!("the footer says that row group {index} has {count} records, but {reason}"))
        })?;
    }
    let said = metadata.file_metadata().num_rows();
    if said as u64 != records {
        let message = format!("the footer says that there are {said} records, but its row groups have {records}");
        return Err(broken(message));
    }
    Ok(())
}

/// Refuses a row group with more records than its columns can hold.
fn check_group(group: &RowGroupMetaData, records: u64) -> Result<(), String> {
    if group.columns().is_empty() && records > MOST_UNSEEN {
        return Err("no columns".to_owned());
    }
    for column in group.columns() {
        let (values, bytes) = (column.num_values() as u64, column.compressed_size() as u64);
        let is_flat = column.column_descr().max_rep_level() == 0;
        if values < records || is_flat && values > records {
            return Err(format!("column {:?} {values} values", column.column_path().string()));
        }
        if values > MOST_UNSEEN.saturating_add(bytes.saturating_mul(MOST_A_BYTE)) {
            return Err(format!("column {:?} {bytes} bytes", column.column_path().string()));
        }
    }
    Ok(())
}

/// Approximate size of a column's values after decoding.
fn decoded_bytes(column: &ColumnChunkMetaData) -> u64 {
    let values = column.num_values() as u64;
    let unpacked = u64::try_from(column.uncompressed_size()).unwrap_or(0);
    let (width, stored) = match column.column_type() {
        // Lists and missing values add to that.
        Type::BOOLEAN => (1, 0),
        Type::INT32 | Type::FLOAT => (4, 0),
        Type::INT64 | Type::DOUBLE | Type::INT96 => (8, 0),
        Type::FIXED_LEN_BYTE_ARRAY => (u64::try_from(column.column_descr().type_length()).unwrap_or(0), 0),
        // Where each value begins, and the pages themselves.
        Type::BYTE_ARRAY => (16, unpacked),
    };
    values.saturating_mul(width).saturating_add(stored)
}

impl ParquetFiles {
    /// Size of the field at `position` in all records of a row group.
    fn group_bytes(&self, group: &RowGroupMetaData, position: usize) -> u64 {
        let leaves = &self.projections[position].0;
        group.columns().get(leaves.clone()).unwrap_or_default().iter().map(decoded_bytes).sum()
    }

    fn read(&self, span: &Span, position: usize, reservation: &mut Reservation) -> Result<Cells> {
        let file = &self.files[span.file];
        let (leaves, path) = &self.projections[position];
        let records = span.records as usize;
        let is_part = span.records < file.metadata.row_group(span.group).num_rows() as u64;
        let part = is_part.then(|| span.skipped..span.skipped + span.records);
        let max_bytes = self.max_chunk_bytes;
        let mut group = Group { file, group: span.group, part, lens: None, fault: Arc::default(), max_bytes };
        let fault = group.fault.clone();
        // Reading the pages tells best what is wrong with them.
        let located = |error: &dyn std::fmt::Display| {
            let own = fault.lock().take();
            own.unwrap_or_else(|| Error::new(ErrorKind::Data, format!("row group {}: {error}", span.group)))
        };
        let mask = ProjectionMask::leaves(&file.columns.schema, leaves.clone());
        let levels = parquet_to_arrow_field_levels(&file.columns.schema, mask.clone(), Some(&file.columns.types));
        if levels.is_ok() {
            let leaf = &self.leaves[position].path;
            group.lens = Some(FixedLens::of(file.columns.types[leaf[0]].data_type(), &leaf[1..]));
        }
        self.check_lens(&group, leaves.clone(), span.records)?;
        let levels = levels.or_else(|_| parquet_to_arrow_field_levels(&file.columns.schema, mask, None));
        let levels = levels.map_err(|error| located(&error))?;
        let selection = is_part.then(|| {
            let skipped = RowSelector::skip(span.skipped as usize);
            RowSelection::from(vec![skipped, RowSelector::select(records)])
        });
        // The memory for numbers is known, and one array of them is better than several.
        let is_number = |leaf: usize| {
            let column = file.columns.schema.column(leaf);
            column.max_rep_level() == 0 && column.physical_type() != Type::BYTE_ARRAY
        };
        // The crate allocates room for as many records as are requested.
        let each = if leaves.clone().all(is_number) { records } else { BATCH.min(records.next_power_of_two()) };
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, each, selection);
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let mut found = 0;
        for batch in reader.map_err(|error| located(&error))? {
            let batch = batch.map_err(|error| located(&error))?;
            found += batch.num_rows();
            arrays.extend(batch.columns().first().cloned());
            if found > records {
                let message = format!("row group {} holds more records than the footer says", span.group);
                return Err(broken(message));
            }
            if arrays.len().is_power_of_two() || found == records {
                let bytes = memory_of(&arrays);
                self.check_bytes(bytes)?;
                reservation.grow_to(bytes, "decoded records of a Parquet file")?;
                if found == records {
                    reservation.shrink_to(bytes);
                }
            }
        }
        let leaf = &self.leaves[position];
        Cells::joined(&arrays, path, leaf.is_text, each).map(|cells| leaf.shaped(cells))
    }

    fn check_bytes(&self, bytes: u64) -> Result<()> {
        if bytes <= self.max_chunk_bytes {
            return Ok(());
        }
        let message = format!(
            "{bytes} bytes for the values of one column that belong together, more than max_chunk_bytes = {}; raise \
             it if you trust the file",
            self.max_chunk_bytes
        );
        Err(Error::new(ErrorKind::Limit, message))
    }

    /// Checks the memory for values whose length the file says, which missing values take, too.
    fn check_lens(&self, group: &Group<'_>, leaves: std::ops::Range<usize>, records: u64) -> Result<()> {
        let bytes = leaves.map(|leaf| {
            let column = group.file.columns.schema.column(leaf);
            let width = u64::from(width_of(&column).unwrap_or(16));
            let is_flat = column.max_rep_level() == 0;
            match group.lens {
                _ if is_flat && column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY => width,
                Some(lens) if !is_flat && lens.of_record > 1 => {
                    // Where lists begin and end in the others.
                    lens.of_record.saturating_mul(if lens.of_item.is_some() { 4 } else { width })
                }
                _ => 0,
            }
        });
        self.check_bytes(bytes.fold(0, u64::saturating_add).saturating_mul(records))
    }
}

impl Source for ParquetFiles {
    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    fn stored_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.input.len()).sum()
    }

    fn spans(&self, fields: &[usize], bytes: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut first = 0;
        for (at, file) in self.files.iter().enumerate() {
            for (index, group) in file.metadata.row_groups().iter().enumerate() {
                let records = group.num_rows() as u64;
                let decoded = fields.iter().map(|position| self.group_bytes(group, *position));
                let decoded = decoded.fold(0, u64::saturating_add);
                let stored: i64 = group.columns().iter().map(|column| column.compressed_size().min(1 << 40)).sum();
                let parts = decoded.div_ceil(bytes).min(stored as u64 / LEAST_STORED).max(1);
                let each = records.div_ceil(parts).clamp(1, MAX_SPAN);
                let mut skipped = 0;
                while skipped < records {
                    let records = each.min(records - skipped);
                    spans.push(Span { file: at, group: index, first: first + skipped, records, skipped });
                    skipped += records;
                }
                first += records;
            }
        }
        spans
    }

    fn records(&self) -> u64 {
        self.files.iter().map(|file| file.metadata.file_metadata().num_rows() as u64).sum()
    }

    fn parts(&self, fields: &[usize]) -> usize {
        fields.len()
    }

    fn part_of(&self, nth: usize) -> (usize, usize) {
        (nth, 0)
    }

    fn estimate(&self, span: &Span, fields: &[usize], part: usize) -> u64 {
        let group = self.files[span.file].metadata.row_group(span.group);
        let bytes = u128::from(self.group_bytes(group, fields[part])) * u128::from(span.records);
        let bytes = u64::try_from(bytes / u128::from(group.num_rows().max(1) as u64)).unwrap_or(u64::MAX);
        bytes.min(self.max_chunk_bytes)
    }

    fn decode(&self, span: &Span, fields: &[usize], part: usize, reservation: &mut Reservation) -> Result<Vec<Cells>> {
        let cells = foreseen(|| self.read(span, fields[part], reservation));
        Ok(vec![cells.map_err(|error| error.at_column(self.leaves[fields[part]].info.name.clone()))?])
    }

    fn need(&self, span: &Span, fields: &[usize], part: usize, needs: &mut Needs) {
        let file = &self.files[span.file];
        let is_part = span.records < file.metadata.row_group(span.group).num_rows() as u64;
        for leaf in self.projections[fields[part]].0.clone() {
            match file.chunk(span.group, leaf, self.max_chunk_bytes) {
                Ok(chunk) if is_part => {
                    let records = span.skipped..span.skipped + span.records;
                    let ranges = file.positions.needed((span.group, leaf), &chunk.range, &records);
                    ranges.into_iter().for_each(|range| file.input.need(range, needs));
                }
                Ok(chunk) => file.input.need(chunk.range, needs),
                Err(_) => {}
            }
        }
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A row group in the form that the crate needs.
struct Group<'a> {
    file: &'a File,
    group: usize,
    /// The records that are read, if these are not all.
    part: Option<std::ops::Range<u64>>,
    /// The lengths of its lists that are fixed, if these are known.
    lens: Option<FixedLens>,
    /// The error of the pages. The crate passes on only the text of an error.
    fault: Arc<Mutex<Option<Error>>>,
    max_bytes: u64,
}

impl Group<'_> {
    /// The part of a column that is read, with the memory that its missing lists take.
    fn limited(&self, chunk: Chunk, leaf: usize) -> Chunk {
        let (positions, key) = (self.file.positions.clone(), (self.group, leaf));
        let part = self.part.clone().map(|records| Part { records, positions, key });
        let schema = &self.file.columns.schema;
        let padding = self.lens.and_then(|lens| {
            let len = lens.of_item.filter(|len| *len > 1)?;
            // Less defined is a missing or empty list around those of a fixed size, which takes nothing.
            let least = level_of_item(schema, leaf, lens.around);
            // One level less is a missing value in a list, if values can be missing.
            let bound = chunk.levels.definition - i16::from(schema.column(leaf).self_type().is_optional());
            Some((len.saturating_mul(chunk.width.unwrap_or(16).into()), least..bound))
        });
        Chunk { part, padding, ..chunk }
    }
}

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        self.file.metadata.row_group(self.group).num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> parquet::errors::Result<Box<dyn PageIterator>> {
        let chunk = self.file.chunk(self.group, leaf, self.max_bytes);
        let pages = chunk.and_then(|chunk| Pages::new(self.limited(chunk, leaf), self.fault.clone()));
        let pages = pages.map_err(|error| {
            let text = parquet::errors::ParquetError::General(error.to_string());
            self.fault.lock().get_or_insert(error);
            text
        })?;
        Ok(Box::new(OneChunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.file.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file.metadata
    }
}
