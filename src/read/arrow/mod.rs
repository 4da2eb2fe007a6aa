//! Arrow's files and streams: record batches as they lie in memory.
//! <https://arrow.apache.org/docs/format/Columnar.html>
//!
//! A file (Feather version 2) begins with `ARROW1` and ends with a list of its batches. A stream, often called `.arrow`
//! as well, has one message after another and an end marker. Both are read by the positions of their messages.

mod dictionaries;
mod entry;
mod lengths;
mod messages;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_schema::Schema;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::read::columns::{Cells, Columns, ColumnsOptions, Leaf, Source, Span, column, memory_of, open_all};
use crate::storage::{Access, Files, Input, Needs};
use crate::tree::no_faults;

use dictionaries::{Dictionaries, Growing};
pub use entry::Arrow;
use lengths::broken;
use messages::{Body, Message, Place, messages};
pub use table::ArrowTable;

struct Batch {
    place: Place,
    records: u64,
    /// The state of the dictionaries that it needs.
    dictionaries: usize,
}

struct File {
    input: Arc<Input>,
    schema: Arc<Schema>,
    version: arrow_ipc::MetadataVersion,
    batches: Vec<Batch>,
    /// The states of the dictionaries.
    dictionaries: Vec<Arc<Dictionaries>>,
    records: u64,
    reservation: Reservation,
}

struct ArrowFiles {
    paths: Vec<PathBuf>,
    files: Vec<File>,
    leaves: Vec<Leaf>,
    max_chunk_bytes: u64,
}

impl Columns {
    /// The records of Arrow files and streams, one file after another. A stream must have its end marker: without it,
    /// nobody can tell whether the stream was cut off.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a file that is damaged, or has other columns than the first one;
    /// [`ErrorKind::Unsupported`] for Feather version 1; those of reading.
    pub fn open_arrow(
        files: &Files,
        paths: &[PathBuf],
        options: &ColumnsOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        no_faults(options.faults())?;
        let most = options.max_chunk_bytes;
        let open = |files: &Files, path: &Path| File::open(files, path, options.access, most, budget);
        let (opened, leaves, refused) = open_all(files, paths, open, |file| {
            let fields = file.schema.fields().iter();
            fields.map(|field| column(field, field.data_type().clone())).collect()
        })?;
        let source = ArrowFiles { paths: paths.to_vec(), files: opened, leaves, max_chunk_bytes: most };
        Ok(Self::new(source, refused, options, budget))
    }
}

#[cold]
fn not_decoded(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("a record batch is damaged: {error}"))
}

impl File {
    fn open(files: &Files, path: &Path, access: Access, max_bytes: u64, budget: &MemoryBudget) -> Result<Self> {
        let input = Arc::new(files.open(path, access)?);
        let (schema, version, found) = messages(&input, budget)?;
        let mut file = Self {
            input,
            schema: Arc::new(schema),
            version,
            batches: Vec::new(),
            dictionaries: Vec::new(),
            records: 0,
            reservation: budget.empty_reservation(),
        };
        let mut dictionaries = Growing::new(&file.schema);
        for message in found {
            match message {
                Message::Dictionary(place) => {
                    file.add_dictionary(&place, max_bytes, &mut dictionaries)
                        .map_err(|error| error.at_byte(place.start))?;
                }
                Message::Records(place, records) => {
                    let total = file.records.checked_add(records).filter(|total| *total <= 1 << 40);
                    let message = format!("a batch of {records} records is impossible");
                    file.records = total.ok_or_else(|| broken(message).at_byte(place.start))?;
                    let dictionaries = dictionaries.of_batch(&mut file.reservation)?;
                    file.batches.push(Batch { place, records, dictionaries });
                }
            }
        }
        file.dictionaries = dictionaries.finish(&mut file.reservation)?;
        let bytes = (file.batches.len() * size_of::<Batch>()) as u64;
        file.reservation.grow_to(file.reservation.bytes() + bytes, "the places of record batches")?;
        Ok(file)
    }

    fn add_dictionary(&mut self, place: &Place, max_bytes: u64, dictionaries: &mut Growing) -> Result<()> {
        let body = Body::read(&self.input, place, max_bytes)?;
        let message = body.message()?;
        let batch = message.header_as_dictionary_batch().ok_or_else(|| broken("this is not a dictionary"))?;
        dictionaries.add((batch.id(), batch.isDelta()), &mut self.reservation, |known| {
            read_dictionary(&body.bytes, batch, &self.schema, known, &self.version)
        })
    }
}

impl ArrowFiles {
    /// The columns that contain these fields, each once, in order.
    fn columns(&self, fields: &[usize]) -> Vec<usize> {
        let mut columns: Vec<usize> = fields.iter().map(|position| self.leaves[*position].path[0]).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    fn read(&self, span: &Span, fields: &[usize], reservation: &mut Reservation) -> Result<Vec<Cells>> {
        let file = &self.files[span.file];
        let batch = &file.batches[span.group];
        let body = Body::read(&file.input, &batch.place, self.max_chunk_bytes)?;
        let message = body.message()?;
        let header = message.header_as_record_batch().ok_or_else(|| broken("this is not a record batch"))?;
        let columns = self.columns(fields);
        let dictionaries = &file.dictionaries[batch.dictionaries];
        let decoder =
            RecordBatchDecoder::try_new(&body.bytes, header, file.schema.clone(), dictionaries, &file.version);
        let decoded = decoder.and_then(|decoder| decoder.with_projection(Some(&columns)).read_record_batch());
        let decoded = decoded.map_err(not_decoded)?;
        if !body.is_borrowed() {
            let bytes = memory_of(decoded.columns());
            reservation.grow_to(bytes, "decoded records of an Arrow file")?;
            reservation.shrink_to(bytes);
        }
        let mut cells = Vec::with_capacity(fields.len());
        for position in fields {
            let leaf = &self.leaves[*position];
            let at_column = |error: Error| error.at_column(leaf.info.name.clone());
            let array = columns.binary_search(&leaf.path[0]).ok().and_then(|at| decoded.columns().get(at));
            let array = array.ok_or_else(|| at_column(broken("a column is missing")))?;
            cells.push(leaf.cells(array).map_err(at_column)?);
        }
        Ok(cells)
    }
}

impl Source for ArrowFiles {
    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    fn stored_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.input.len()).sum()
    }

    fn spans(&self, _: &[usize], _: u64) -> Vec<Span> {
        let mut first = 0;
        let batches = self.files.iter().enumerate().flat_map(|(at, file)| {
            file.batches.iter().enumerate().map(move |(group, batch)| (at, group, batch.records))
        });
        let spans = batches.map(|(file, group, records)| {
            let span = Span { file, group, first, records, skipped: 0 };
            first += records;
            span
        });
        spans.filter(|span| span.records > 0).collect()
    }

    fn records(&self) -> u64 {
        self.files.iter().map(|file| file.records).sum()
    }

    fn parts(&self, fields: &[usize]) -> usize {
        usize::from(!fields.is_empty())
    }

    fn part_of(&self, nth: usize) -> (usize, usize) {
        (0, nth)
    }

    fn estimate(&self, span: &Span, _: &[usize], _: usize) -> u64 {
        let file = &self.files[span.file];
        let body = file.batches[span.group].place.body_len;
        if file.input.slice().is_some() { 0 } else { body.min(self.max_chunk_bytes) }
    }

    fn decode(&self, span: &Span, fields: &[usize], _: usize, reservation: &mut Reservation) -> Result<Vec<Cells>> {
        let start = self.files[span.file].batches[span.group].place.start;
        self.read(span, fields, reservation).map_err(|error| error.at_byte(start))
    }

    fn need(&self, span: &Span, _: &[usize], _: usize, needs: &mut Needs) {
        let file = &self.files[span.file];
        let place = &file.batches[span.group].place;
        file.input.need(place.start..place.end(), needs);
    }
}
