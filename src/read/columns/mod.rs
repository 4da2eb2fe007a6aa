//! Tables that are stored by column, in groups of neighbouring records: Parquet files, Arrow files.

mod cells;
mod decimal;
mod kinds;
mod leaves;
mod open;
mod rows;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow_buffer::ScalarBuffer;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::random::hash_bytes;
use crate::storage::{Access, Chunk, ChunkStats, Chunks, Needs};

use super::many::{file_name, hash_names};
use super::{
    ColumnRef, Container, DecodedBytes, FieldInfo, Fingerprint, Meaning, Scratch, Visit, VisitColumn, check_record,
    find_field,
};

pub(super) use cells::{Cells, memory_of};
pub(super) use leaves::{Leaf, column};
pub(super) use open::{fields_of, foreseen, is_visible, open_all, part_of};

use rows::by_record;

/// How Parquet and Arrow files are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColumnsOptions {
    /// How the files are read.
    pub access: Access,
    /// Maximum number of bytes of decoded records that are kept for all workers together, in addition to those in use;
    /// at most a quarter of the memory budget. If a random order draws records from more data than this, the same row
    /// groups are decoded again and again: then shuffle in blocks (`shuffle = { seed = 42, blocks = 4 }`), or raise
    /// this value. A plan ([`RunPlan::advice`](crate::inspect::RunPlan::advice)) says when this happens, and how many
    /// blocks fit.
    pub cache_bytes: u64,
    /// Maximum number of bytes that one column of a row group may need when it is decoded. This limits the memory that
    /// a damaged or hostile file can make a worker take.
    pub max_chunk_bytes: u64,
}

impl Default for ColumnsOptions {
    fn default() -> Self {
        Self { access: Access::Read, cache_bytes: 256 << 20, max_chunk_bytes: 1 << 30 }
    }
}

impl ColumnsOptions {
    pub(crate) fn faults(&self) -> Vec<String> {
        let limits = [("cache_bytes", self.cache_bytes), ("max_chunk_bytes", self.max_chunk_bytes)];
        let nothing = limits.into_iter().filter(|(_, bytes)| *bytes == 0);
        nothing.map(|(key, _)| format!("{key}: 0; it must be at least 1")).collect()
    }
}

/// Neighbouring records that are decoded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The file, and the group of records in it that are stored together (a row group, a record batch).
    pub(super) file: usize,
    pub(super) group: usize,
    /// Index of the first record.
    pub(super) first: u64,
    pub(super) records: u64,
    /// Number of records before it in the group.
    pub(super) skipped: u64,
}

/// Where the columns come from: files of one format.
pub(super) trait Source: Send + Sync {
    /// All fields that are read.
    fn leaves(&self) -> &[Leaf];

    fn paths(&self) -> &[PathBuf];

    /// Bytes of all files together.
    fn stored_bytes(&self) -> u64;

    /// All records, in order, in spans that need about `bytes` at most for the fields at these positions.
    fn spans(&self, fields: &[usize], bytes: u64) -> Vec<Span>;

    /// Number of records.
    fn records(&self) -> u64;

    /// Number of parts in which the fields of a span are decoded.
    fn parts(&self, fields: &[usize]) -> usize;

    /// The part of field number `nth` of those that are read, and the field's place in the part.
    fn part_of(&self, nth: usize) -> (usize, usize);

    /// Approximate number of bytes that a part needs.
    fn estimate(&self, span: &Span, fields: &[usize], part: usize) -> u64;

    /// Decodes a part. `reservation` holds the estimate; at the end it must hold what is needed.
    fn decode(&self, span: &Span, fields: &[usize], part: usize, reservation: &mut Reservation) -> Result<Vec<Cells>>;

    /// Names the bytes that a part is read from.
    fn need(&self, span: &Span, fields: &[usize], part: usize, needs: &mut Needs);

    /// Whether decoding a span is so expensive that storing it again, record by record, costs little in comparison.
    fn is_costly(&self) -> bool {
        false
    }
}

/// Stands for all parts together, stored record by record.
const WHOLE: u32 = u32::MAX;

/// The records of Parquet files, or of Arrow files and streams (Feather, and what Hugging Face caches), of one or of
/// many files with the same columns.
///
/// Its fields are the columns, and the fields of structs by their path: `image.bytes` is field `bytes` of column
/// `image`, unless a column itself has this name. If several columns have one name, they are named by their positions.
/// Only fields that are used are read.
///
/// | stored as | becomes |
/// |---|---|
/// | integers, floating point numbers, truth values | numbers |
/// | decimals | numbers as they are written, rounded only to the type of the tensor |
/// | dates | whole days (32 bits) or milliseconds (64 bits) since 1970-01-01 |
/// | times, durations, points in time | whole seconds, milli-, micro- or nanoseconds, as stored; points in time since 1970-01-01 UTC, or local time where no zone is known. Parquet's INT96 are nanoseconds, unless the file's note on Arrow's types gives another unit |
/// | text, dictionaries of text | text |
/// | bytes | bytes, such as those of an image file |
/// | lists, fixed-size lists, lists in lists | lists; those of a fixed size have a known shape |
/// | null | a missing value |
///
/// Records that the file stores as a unit (a row group, a record batch, or a part of a large one) are decoded together,
/// column by column, once for all workers. They are kept for later use; see [`ColumnsOptions::cache_bytes`]. A shuffle
/// in blocks decodes each unit once per epoch; [`Loader::plan`](crate::Loader::plan) says when a shuffle draws from
/// more than is kept.
pub struct Columns {
    source: Box<dyn Source>,
    infos: Vec<FieldInfo>,
    /// Fields that are not read, and why.
    refused: Vec<Leaf>,
    /// The positions of the fields that were requested.
    found: Vec<usize>,
    spans: OnceLock<Vec<Span>>,
    chunks: Chunks<(u32, u32), Vec<Cells>>,
    budget: MemoryBudget,
    cache_bytes: u64,
    /// The stored record of each record, if not all are read in order.
    picked: Option<ScalarBuffer<u64>>,
    /// Distinguishes what is decoded here from what another table decodes.
    identity: Arc<()>,
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Columns");
        shown.field("files", &self.source.paths()).field("records", &self.source.records()).finish_non_exhaustive()
    }
}

/// The records of one job, as a worker holds them.
#[derive(Default)]
struct Held {
    spans: Vec<HeldSpan>,
    /// For each record of the job, its span, if that is held.
    of: Vec<Option<usize>>,
    /// For each record of the job, its place in the span.
    rows: Vec<usize>,
    /// For each span.
    places: Vec<Places>,
    /// Whether the job's records lie far apart.
    is_scattered: bool,
    /// The table that they belong to.
    identity: Option<Arc<()>>,
    /// When there was no memory for a span for the first time since one was decoded.
    waits_since: Option<Instant>,
}

/// How long a worker waits for memory that others hold. One without work keeps what it holds.
const MOST_WAIT: Duration = Duration::from_secs(1);

/// Where the numbers of a field are, for the records in one span: the records' places in the job, the places of their
/// numbers, and the distance from one record to the next.
#[derive(Default)]
struct Places {
    each: Vec<(usize, usize)>,
    step: usize,
}

struct HeldSpan {
    span: Span,
    decoded: Decoded,
}

impl Held {
    fn bytes(&self) -> u64 {
        self.spans.iter().flat_map(|span| &span.decoded.parts).map(|part| part.bytes()).sum()
    }
}

/// The fields of a span, in parts or as a whole.
struct Decoded {
    parts: Vec<Arc<Chunk<Vec<Cells>>>>,
    is_whole: bool,
}

impl Decoded {
    fn cells(&self, source: &dyn Source, number: usize) -> &Cells {
        let (part, place) = if self.is_whole { (0, number) } else { source.part_of(number) };
        &self.parts[part][place]
    }
}

impl Columns {
    pub(super) fn new(
        source: impl Source + 'static,
        refused: Vec<Leaf>,
        options: &ColumnsOptions,
        budget: &MemoryBudget,
    ) -> Self {
        let cache_bytes = options.cache_bytes.min(budget.limit() / 4);
        Self {
            infos: source.leaves().iter().map(|leaf| leaf.info.clone()).collect(),
            source: Box::new(source),
            refused,
            found: Vec::new(),
            spans: OnceLock::new(),
            chunks: Chunks::new(cache_bytes, budget),
            budget: budget.clone(),
            cache_bytes,
            picked: None,
            identity: Arc::default(),
        }
    }

    /// The records at these places, which there are.
    pub(super) fn picked(self, picked: Option<ScalarBuffer<u64>>) -> Self {
        Self { picked, ..self }
    }

    /// Where a record is stored.
    #[inline]
    fn stored(&self, record: u64) -> u64 {
        self.picked.as_ref().map_or(record, |picked| picked[record as usize])
    }

    /// The ranges of records that are decoded together, in order, for orders that draw from few of them at a time. They
    /// depend on the fields that are read.
    ///
    /// None for a table of which records were picked.
    pub fn chunks(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.spans().iter().filter(|_| self.picked.is_none()).map(|span| span.first..span.first + span.records)
    }

    /// How often decoded records were in the cache when they were needed.
    pub fn chunk_stats(&self) -> ChunkStats {
        self.chunks.stats()
    }

    fn spans(&self) -> &[Span] {
        // A quarter of the cache: it then has room for two neighbours and a few more.
        self.spans.get_or_init(|| self.source.spans(&self.found, (self.cache_bytes / 4).max(1)))
    }

    /// Which span a record is in.
    fn span_of(&self, record: u64) -> usize {
        self.spans().partition_point(|span| span.first <= record).saturating_sub(1)
    }

    /// The fields of a span. If records of it are wanted in random order, they are stored record by record, once for
    /// all workers.
    fn decoded(&self, index: usize, is_scattered: bool) -> Result<Decoded> {
        let span = &self.spans()[index];
        let keys = (0..self.source.parts(&self.found) as u32).map(|part| (index as u32, part));
        let whole = Some((index as u32, WHOLE)).filter(|_| self.source.is_costly());
        let mut parts = Vec::with_capacity(keys.len());
        let is_whole = self.chunks.get_unless(
            whole,
            keys.clone(),
            |(_, part)| self.source.estimate(span, &self.found, part as usize),
            |(_, part), reservation| self.decode(span, part as usize, reservation),
            &mut parts,
        )?;
        let decoded = Decoded { parts, is_whole };
        let cells = || (0..self.found.len()).map(|number| decoded.cells(&*self.source, number));
        let Some(whole) = whole.filter(|_| is_scattered && !is_whole) else { return Ok(decoded) };
        if cells().filter(|cells| cells.plain().is_some()).count() < 2 {
            return Ok(decoded);
        }
        let joined = self.chunks.join(whole, keys, &decoded.parts, |_| by_record(&cells().collect::<Vec<_>>()))?;
        Ok(joined.map_or(decoded, |whole| Decoded { parts: vec![whole], is_whole: true }))
    }

    /// The fields of a span that no job holds. If there is no memory for it, releases what this job holds, and then waits
    /// for what others hold: how much that is depends on timing, and the record is not bad for it.
    fn decoded_alone(&self, index: usize, held: &mut Held) -> Result<Decoded> {
        loop {
            let error = match self.decoded(index, false) {
                Err(error) if error.kind() == ErrorKind::Budget => error,
                decoded => {
                    held.waits_since = None;
                    return decoded;
                }
            };
            let waits_since = *held.waits_since.get_or_insert_with(Instant::now);
            if !held.spans.is_empty() {
                held.spans.clear();
                held.of.fill(None);
            } else if waits_since.elapsed() < MOST_WAIT && self.chunks.are_in_use() {
                std::thread::sleep(Duration::from_millis(10));
            } else {
                return Err(error);
            }
        }
    }

    fn decode(&self, span: &Span, part: usize, reservation: &mut Reservation) -> Result<Vec<Cells>> {
        let decoded = foreseen(|| self.source.decode(span, &self.found, part, reservation));
        let cells = decoded.and_then(|cells| match cells.iter().all(|cells| cells.len() as u64 == span.records) {
            true => Ok(cells),
            false => {
                let found = cells.iter().map(Cells::len).min().unwrap_or(0);
                let message = format!("{found} records were found where there should be {}", span.records);
                Err(Error::new(ErrorKind::Format, message))
            }
        });
        cells.map_err(|error| error.at_path(&self.source.paths()[span.file]))
    }

    /// Prepares for other fields, which may need other spans.
    fn begin_anew(&mut self) {
        self.spans = OnceLock::new();
        self.chunks = Chunks::new(self.cache_bytes, &self.budget);
        self.identity = Arc::default();
    }

    /// The position of the only column of this name, which fields of structs may have, too.
    fn only_column(&self, field: &ColumnRef) -> Option<usize> {
        let ColumnRef::Name(name) = field else { return None };
        let leaves = self.source.leaves().iter().zip(0..);
        let mut own = leaves.filter(|(leaf, _)| leaf.path.len() == 1 && leaf.info.name == *name);
        let (_, position) = own.next()?;
        own.next().is_none().then_some(position)
    }

    /// The error for a position that means one field in the file, and another one among those that are read.
    fn other_place(&self, field: &ColumnRef) -> Option<Error> {
        let ColumnRef::Position(position) = field else { return None };
        let leaf = self.source.leaves().get(*position)?;
        let is_only = self.infos.iter().filter(|info| info.name == leaf.info.name).count() == 1;
        let is_there = leaf.path == [*position];
        let of_file = self.source.leaves().iter().chain(&self.refused).find(|leaf| leaf.path.first() == Some(position));
        let column = of_file.map_or_else(|| format!("column {position}"), |leaf| format!("{:?}", leaf.steps[0]));
        (is_only && !is_there).then(|| {
            let message = format!(
                "{position} is the position of {column} in the file, but of {:?} among its fields; give the name",
                leaf.info.name
            );
            Error::new(ErrorKind::Config, message)
        })
    }

    /// The error for a field that is not read, if it is one.
    fn refusal(&self, name: &str) -> Option<Error> {
        let leaf = self.refused.iter().find(|leaf| leaf.info.name == name)?;
        let message = leaf.refusal.clone().unwrap_or_default();
        Some(Error::new(ErrorKind::Config, message).at_column(name))
    }

    /// The file that has a record, and the record's number there.
    fn in_file(&self, record: u64) -> (Option<&Path>, u64) {
        let stored = self.stored(record);
        let Some(span) = self.spans().get(self.span_of(stored)) else { return (None, stored) };
        let first = self.spans().partition_point(|other| other.file < span.file);
        let path = self.source.paths().get(span.file).map(PathBuf::as_path);
        (path, stored.saturating_sub(self.spans()[first].first))
    }
}

impl Container for Columns {
    fn len(&self) -> u64 {
        self.picked.as_ref().map_or_else(|| self.source.records(), |picked| picked.len() as u64)
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.infos
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        if let Some(error) = self.other_place(field) {
            return Err(error);
        }
        let position = match self.only_column(field) {
            Some(position) => position,
            None => find_field(&self.infos, field).map_err(|error| match field {
                ColumnRef::Name(name) if error.kind() == ErrorKind::NotFound => self.refusal(name).unwrap_or(error),
                _ => error,
            })?,
        };
        if let Some(nth) = self.found.iter().position(|found| *found == position) {
            return Ok(nth);
        }
        self.found.push(position);
        self.begin_anew();
        Ok(self.found.len() - 1)
    }

    fn meaning(&self, number: usize) -> Option<Meaning> {
        self.source.leaves().get(*self.found.get(number)?)?.meaning.clone()
    }

    fn steps(&self, number: usize) -> Option<Vec<String>> {
        Some(self.source.leaves().get(*self.found.get(number)?)?.steps.clone())
    }

    fn left_out(&self) -> Vec<(String, String)> {
        let is_read = |leaf: &&Leaf| {
            let is_inner = |other: &Leaf| other.path.len() > leaf.path.len() && other.path.starts_with(&leaf.path);
            self.source.leaves().iter().chain(&self.refused).any(is_inner)
        };
        let whole = self.refused.iter().filter(|leaf| !is_read(leaf));
        whole.map(|leaf| (leaf.info.name.clone(), leaf.refusal.clone().unwrap_or_default())).collect()
    }

    fn forget(&mut self) {
        self.found.clear();
        self.begin_anew();
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        let mut last = None;
        for record in records {
            let index = self.span_of(self.stored(*record));
            let Some(span) = self.spans().get(index).filter(|_| last != Some(index)) else { continue };
            last = Some(index);
            for part in 0..self.source.parts(&self.found) {
                // What is still held need not be read again.
                if !self.chunks.has((index as u32, WHOLE)) && !self.chunks.has((index as u32, part as u32)) {
                    self.source.need(span, &self.found, part, needs);
                }
            }
        }
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(records[nth], self.len())?;
        let held: &mut Held = scratch.of();
        let record = self.stored(records[nth]);
        let is_in = |held: &HeldSpan| (held.span.first..held.span.first + held.span.records).contains(&record);
        if nth == 0 {
            let is_own = held.identity.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, &self.identity));
            let is_jump = |pair: &&[u64]| pair[1] != pair[0].wrapping_add(1);
            held.is_scattered = records.windows(2).filter(is_jump).count() * 2 > records.len();
            // The next job often begins where the last one ended.
            let kept = held.spans.pop().filter(|held| is_own && is_in(held));
            held.spans.clear();
            held.of.clear();
            held.rows.clear();
            held.spans.extend(kept.filter(|_| !held.is_scattered));
            held.identity = Some(self.identity.clone());
        }
        held.of.resize(nth, None);
        held.rows.resize(nth, 0);
        let place = match held.spans.iter().rposition(is_in) {
            Some(place) => Some(place),
            // If all jobs together hold more than the cache may keep, and this job has its share, other spans are
            // decoded when their records are.
            None if held.bytes() > self.cache_bytes / 4 && self.chunks.is_over() => None,
            None => {
                let index = self.span_of(record);
                match self.decoded(index, held.is_scattered) {
                    Ok(decoded) => {
                        held.spans.push(HeldSpan { span: self.spans()[index], decoded });
                        Some(held.spans.len() - 1)
                    }
                    // It may be this job or others that hold the memory: it is decoded when the record is read.
                    Err(error) if error.kind() == ErrorKind::Budget => None,
                    Err(error) => return Err(error),
                }
            }
        };
        held.of.push(place);
        held.rows.push(place.map_or(0, |place| (record - held.spans[place].span.first) as usize));
        Ok(())
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let held: &mut Held = scratch.of();
        let record = self.stored(record);
        let own;
        let place = held.of.get(nth).copied().flatten().filter(|place| *place < held.spans.len());
        let (span, decoded) = match place {
            Some(place) => (&held.spans[place].span, &held.spans[place].decoded),
            None => {
                let index = self.span_of(record);
                own = self.decoded_alone(index, held)?;
                (&self.spans()[index], &own)
            }
        };
        let row = (record - span.first) as usize;
        for number in 0..self.found.len() {
            decoded
                .cells(&*self.source, number)
                .give(row, &mut |value| visit(number, value).map_err(Error::in_value))
                .map_err(|error| self.at_field(error, number, span.file))?;
        }
        Ok(())
    }

    fn columns(&self, scratch: &mut Scratch, visit: &mut VisitColumn<'_>) {
        let Held { spans, of, rows, places, identity, .. } = scratch.of();
        if !identity.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, &self.identity)) {
            return;
        }
        places.resize_with(spans.len().max(places.len()), Places::default);
        for places in &mut places[..spans.len()] {
            places.each.clear();
            places.step = 1;
        }
        for (nth, (of, row)) in of.iter().zip(&*rows).enumerate() {
            if let Some(of) = of {
                places[*of].each.push((nth, *row));
            }
        }
        for number in 0..self.found.len() {
            for (span, places) in spans.iter().zip(&mut *places) {
                let Some((numbers, step)) = span.decoded.cells(&*self.source, number).plain() else { continue };
                if places.step != step {
                    places.each.iter_mut().for_each(|(nth, place)| *place = rows[*nth] * step);
                    places.step = step;
                }
                visit(number, numbers, &places.each);
            }
        }
    }

    /// If a row group or record batch is decoded in several parts, the first one: the others depend on the memory.
    fn chunks(&self) -> Vec<u64> {
        let spans = self.spans().iter().filter(|span| self.picked.is_none() && span.skipped == 0);
        spans.map(|span| span.first).collect()
    }

    fn decoded_bytes(&self) -> Option<DecodedBytes> {
        if !self.source.is_costly() {
            return None;
        }
        let parts = self.source.parts(&self.found);
        let of_span = |span: &Span| (0..parts).map(|part| self.source.estimate(span, &self.found, part)).sum::<u64>();
        Some(DecodedBytes { all: self.spans().iter().map(of_span).sum(), kept: self.cache_bytes })
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        let (path, record) = self.in_file(record);
        if let Some(path) = path.filter(|_| self.source.paths().len() > 1) {
            file_name(path, name);
        }
        name.extend_from_slice(&record.to_le_bytes());
    }

    fn place(&self, record: u64) -> Location {
        let (path, in_file) = self.in_file(record);
        // Picked records are those of a table in memory, and numbered as they were picked.
        let record = if self.picked.is_some() { record } else { in_file };
        Location { path: path.map(Path::to_owned), record: Some(record), ..Location::default() }
    }

    fn fingerprint(&self) -> Fingerprint {
        let paths = self.source.paths();
        let names = match &self.picked {
            Some(picked) => hash_bytes(bytemuck::cast_slice(picked)),
            None if paths.len() > 1 => hash_names(paths),
            None => 0,
        };
        Fingerprint { count: Some(self.len()), names, sizes: self.source.stored_bytes() }
    }
}

impl Columns {
    #[cold]
    fn at_field(&self, error: Error, number: usize, file: usize) -> Error {
        error.at_column(self.infos[self.found[number]].name.clone()).at_path(&self.source.paths()[file])
    }
}
