//! Infers what columns hold: types from some of the records, names of classes from all of them.

use std::collections::BTreeMap;
use std::ops::Range;

use memchr::{memchr, memchr_iter};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::random::{hash_numbers, hash_texts};
use crate::read::parallel::in_order;

use super::choice::Choice;
use super::dialect::Dialect;
use super::fields::Fields;
use super::format::Format;
use super::kind::{Kind, Seen};
use super::options::CsvOptions;
use super::rows::Rows;
use super::value::Missings;
use crate::read::records::RecordBytes;

/// Neighbouring records that are looked at together, because reading a single one costs as much.
const BLOCK: u64 = 16;

/// Limits for what is looked at to find types: records, and their fields. This is some milliseconds of work for any
/// file.
const MOST_RECORDS: u64 = 8192;
const MOST_FIELDS: u64 = 1 << 19;

/// At least so many blocks are looked at, whatever the number of columns.
const LEAST_BLOCKS: u64 = 4;

/// Most neighbouring blocks that one job looks at.
const BLOCKS_A_JOB: u64 = 64;

/// How many bytes of a file are one job when the names of classes are collected.
const JOB_BYTES: u64 = 1 << 20;

/// Which blocks of records decide the types of the columns. This depends only on the number of records, so that the
/// types do not depend on how the file is read.
#[derive(Clone, Copy, Debug)]
enum Sample {
    /// None: all types are given.
    Nothing,
    /// Blocks at regular distances, at most this many (a power of two).
    Spread(u64),
}

impl Sample {
    fn of(format: &Format, choice: &Choice) -> Self {
        if !choice.asks_for_types() {
            return Self::Nothing;
        }
        let fields = (format.names.len() as u64).saturating_mul(BLOCK);
        let most = (MOST_FIELDS / fields.max(1)).clamp(LEAST_BLOCKS, MOST_RECORDS / BLOCK);
        // Rounded down.
        Self::Spread(most.next_power_of_two() >> u32::from(!most.is_power_of_two()))
    }

    fn most_blocks(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Spread(most) => most,
        }
    }

    /// The distance between the blocks that are looked at in a file of `records`.
    fn stride(self, records: u64) -> u64 {
        match self {
            Self::Spread(most) => records.div_ceil(BLOCK).div_ceil(most).next_power_of_two(),
            Self::Nothing => 1,
        }
    }
}

/// What was learnt of the columns.
#[derive(Clone)]
pub(crate) struct Inference {
    choice: Choice,
    columns: usize,
    sample: Sample,
    stride: u64,
    /// What each block of the sample shows for each column, one block after another.
    blocks: Vec<Seen>,
    /// Number of records of each block that were looked at.
    counts: Vec<u64>,
    /// Number of records so far.
    records: u64,
    /// What all records show about the columns whose fields are, or may be, names of classes.
    kinds: BTreeMap<usize, Kind>,
    missings: Missings,
    buffer: Vec<u8>,
}

/// What an [`Inference`] found, to be kept for the next run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Learnt {
    /// A hash of everything else that it depends on, beside the file.
    key: u64,
    seen: Vec<Seen>,
    looked_at: u64,
    kinds: BTreeMap<usize, Kind>,
}

impl Inference {
    /// `None` if the choice leaves nothing open that only the data can tell.
    ///
    /// # Errors
    ///
    /// What is wrong with the columns that are named.
    pub(crate) fn begin(format: &Format, choice: &Choice, missings: &Missings) -> Result<Option<Self>> {
        let sample = Sample::of(format, choice);
        let named = open_columns(format, choice, None)?;
        if matches!(sample, Sample::Nothing) && named.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            choice: choice.clone(),
            columns: format.names.len(),
            sample,
            stride: 1,
            blocks: Vec::new(),
            counts: Vec::new(),
            records: 0,
            kinds: named.into_iter().map(|column| (column, Kind::with_classes(true))).collect(),
            missings: missings.clone(),
            buffer: Vec::new(),
        }))
    }

    /// Learns from the next record of the file. A record of another length is ignored here: it is an error when it is
    /// decoded.
    pub(crate) fn observe(&mut self, raw: &[u8], quoted: bool, dialect: &Dialect) {
        let slot = self.slot(self.records);
        self.records += 1;
        if let Some(slot) = slot {
            let block = &mut self.blocks[slot * self.columns..][..self.columns];
            self.counts[slot] += u64::from(look_at(raw, quoted, dialect, block, &self.missings, &mut self.buffer));
        }
        let Self { kinds, missings, buffer, columns, .. } = self;
        each_field(raw, quoted, dialect, *columns, kinds, buffer, |kind, field| {
            if !kind.knows(field) {
                kind.observe(field, missings.value(field));
            }
        });
    }

    /// Where the block of record `record` is kept, if it is looked at. If there are too many blocks, some are dropped.
    fn slot(&mut self, record: u64) -> Option<usize> {
        let (block, most) = (record / BLOCK, self.sample.most_blocks());
        if !block.is_multiple_of(self.stride) || most == 0 {
            return None;
        }
        if block / self.stride >= most {
            self.stride *= 2;
            let columns = self.columns;
            let mut kept = (0..self.blocks.len()).map(|at| (at / columns).is_multiple_of(2));
            self.blocks.retain(|_| kept.next() == Some(true));
            let mut kept = [true, false].into_iter().cycle();
            self.counts.retain(|_| kept.next() == Some(true));
        }
        let slot = (block / self.stride) as usize;
        if slot == self.counts.len() {
            self.counts.push(0);
            self.blocks.resize(self.blocks.len() + self.columns, Seen::default());
        }
        Some(slot)
    }

    /// Learns what is still unknown from a file whose rows are known. Returns whether there was anything to learn.
    pub(super) fn learn(
        &mut self,
        rows: &Rows,
        format: &Format,
        options: &CsvOptions,
        threads: usize,
        known: Option<Learnt>,
    ) -> Result<bool> {
        self.records = rows.len();
        self.kinds.clear();
        let known = known.filter(|known| known.key == self.key(options) && known.seen.len() == self.columns);
        let is_new = known.is_none();
        match known {
            Some(known) => {
                self.counts = vec![known.looked_at];
                (self.blocks, self.kinds) = (known.seen, known.kinds);
            }
            None => self.look_into(rows, threads)?,
        }
        let mut open = open_columns(format, &self.choice, self.seen().as_deref())?;
        open.retain(|column| !self.kinds.contains_key(column));
        let names = self.names_in(rows, &open, threads)?;
        self.kinds.extend(names);
        Ok(is_new || !open.is_empty())
    }

    /// The columns whose names must be collected from all records.
    pub(super) fn named(&self) -> Vec<usize> {
        self.kinds.keys().copied().collect()
    }

    /// Continues with the records of another file that has the same columns.
    pub(super) fn add(&mut self, other: Self) {
        if let (Some(mut all), Some(seen)) = (self.seen(), other.seen()) {
            all.iter_mut().zip(seen).for_each(|(all, seen)| all.merge(seen));
            self.counts = vec![self.looked_at() + other.looked_at()];
            self.blocks = all;
        }
        self.records += other.records;
        for (column, kind) in other.kinds {
            match self.kinds.get_mut(&column) {
                Some(all) => all.merge(kind),
                None => drop(self.kinds.insert(column, kind)),
            }
        }
    }

    /// Collects further names from one of several files: its names of the columns in `named` are collected already.
    pub(super) fn add_names(&mut self, rows: &Rows, named: &[usize], format: &Format, threads: usize) -> Result<()> {
        let mut open = open_columns(format, &self.choice, self.seen().as_deref())?;
        open.retain(|column| !named.contains(column));
        for (column, kind) in self.names_in(rows, &open, threads)? {
            match self.kinds.get_mut(&column) {
                Some(all) => all.merge(kind),
                None => drop(self.kinds.insert(column, kind)),
            }
        }
        Ok(())
    }

    pub(super) fn learnt(&self, options: &CsvOptions) -> Learnt {
        Learnt {
            key: self.key(options),
            seen: self.seen().unwrap_or_else(|| vec![Seen::default(); self.columns]),
            looked_at: self.looked_at(),
            kinds: self.kinds.clone(),
        }
    }

    /// What is learnt depends on this beside the file.
    fn key(&self, options: &CsvOptions) -> u64 {
        let sample = match self.sample {
            Sample::Nothing => 0,
            Sample::Spread(blocks) => 1 + blocks,
        };
        hash_numbers([hash_texts(&options.missing_tokens), sample])
    }

    /// The types by a sample of the rows.
    fn look_into(&mut self, rows: &Rows, threads: usize) -> Result<()> {
        let stride = self.sample.stride(rows.len());
        let blocks = rows.len().div_ceil(BLOCK).div_ceil(stride).min(self.sample.most_blocks());
        // Where all are looked at, many are read at once.
        let run = if stride == 1 { BLOCKS_A_JOB } else { 1 };
        let mut all = vec![Seen::default(); self.columns];
        let mut looked_at = 0;
        let work = |(read, buffer): &mut (RecordBytes, Vec<u8>), job: u64| {
            let mut seen = vec![Seen::default(); self.columns];
            let first = job * run * stride * BLOCK;
            let end = first + run.min(blocks - job * run) * BLOCK;
            let mut count = 0;
            each_record(rows, first..rows.len().min(end), read, |raw, quoted| {
                count += u64::from(look_at(raw, quoted, rows.dialect(), &mut seen, &self.missings, buffer));
            })?;
            Ok((seen, count))
        };
        in_order(threads, blocks.div_ceil(run), work, |(seen, count)| {
            all.iter_mut().zip(seen).for_each(|(all, seen)| all.merge(seen));
            looked_at += count;
            Ok(())
        })?;
        if blocks > 0 {
            (self.blocks, self.counts) = (all, vec![looked_at]);
        }
        Ok(())
    }

    /// What the columns `wanted` hold, by all rows.
    fn names_in(&self, rows: &Rows, wanted: &[usize], threads: usize) -> Result<Names> {
        if wanted.is_empty() {
            return Ok(Names::new());
        }
        let none = |known: Option<&Names>| {
            let kind = |column: &usize| {
                Kind::with_classes(known.and_then(|known| known.get(column)).is_none_or(Kind::collects))
            };
            wanted.iter().map(|column| (*column, kind(column))).collect::<Names>()
        };
        let (columns, missings) = (self.columns, &self.missings);
        let rows_a_job = (rows.len().saturating_mul(JOB_BYTES) / rows.input.len().max(1)).max(1);
        // What a thread has met before it looks up, and gives on only what is new to it.
        let work = |(known, read, buffer): &mut (Names, RecordBytes, Vec<u8>), job: u64| {
            if known.is_empty() {
                *known = none(None);
            }
            let mut new = none(Some(known));
            each_record(rows, job * rows_a_job..rows.len().min((job + 1) * rows_a_job), read, |raw, quoted| {
                let mut all = new.values_mut();
                each_field(raw, quoted, rows.dialect(), columns, known, buffer, |known, field| {
                    let new = all.next();
                    if !known.knows(field) {
                        let value = missings.value(field);
                        known.observe(field, value);
                        new.into_iter().for_each(|new| new.observe(field, value));
                    }
                });
            })?;
            Ok(new)
        };
        let mut all = none(None);
        in_order(threads, rows.len().div_ceil(rows_a_job), work, |new| {
            all.values_mut().zip(new.into_values()).for_each(|(all, new)| all.merge(new));
            Ok(())
        })?;
        Ok(all)
    }

    /// What each column was seen to hold; `None` if types were not asked for.
    pub(super) fn seen(&self) -> Option<Vec<Seen>> {
        if matches!(self.sample, Sample::Nothing) {
            return None;
        }
        let mut seen = vec![Seen::default(); self.columns];
        for block in self.blocks.chunks_exact(self.columns.max(1)) {
            seen.iter_mut().zip(block).for_each(|(seen, block)| seen.merge(*block));
        }
        Some(seen)
    }

    /// What the fields of a column are by all records, if that was asked for.
    pub(super) fn kind(&self, column: usize) -> Option<&Kind> {
        self.kinds.get(&column)
    }

    fn looked_at(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The number of records from which types were inferred, in words; `None` if from all records.
    pub(super) fn basis(&self) -> Option<String> {
        let (looked_at, records) = (self.looked_at(), self.records);
        match self.sample {
            _ if looked_at >= records => None,
            Sample::Nothing => None,
            Sample::Spread(_) => Some(format!("from {looked_at} of {records} records")),
        }
    }
}

/// What columns hold, by all records.
type Names = BTreeMap<usize, Kind>;

/// The columns whose classes only the data can name.
fn open_columns(format: &Format, choice: &Choice, seen: Option<&[Seen]>) -> Result<Vec<usize>> {
    let wanted = choice.wanted(format, seen)?;
    let open = wanted.iter().filter(|wanted| wanted.tensor.values.are_open());
    let mut columns: Vec<usize> = open.flat_map(|wanted| wanted.columns.iter().copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    Ok(columns)
}

/// Notes what the fields of a record are; `false` for one of another length.
fn look_at(
    raw: &[u8],
    quoted: bool,
    dialect: &Dialect,
    seen: &mut [Seen],
    missings: &Missings,
    buffer: &mut Vec<u8>,
) -> bool {
    if Fields::new(raw, quoted, dialect).count() != seen.len() {
        return false;
    }
    let mut fields = Fields::new(raw, quoted, dialect);
    for seen in seen {
        let Some(field) = fields.next(buffer) else { return false };
        seen.observe(missings.value(field));
    }
    true
}

/// Shows the fields of the columns of `kinds`, of a record that has as many fields as it should.
fn each_field(
    raw: &[u8],
    quoted: bool,
    dialect: &Dialect,
    columns: usize,
    kinds: &mut Names,
    buffer: &mut Vec<u8>,
    mut show: impl FnMut(&mut Kind, &[u8]),
) {
    if kinds.is_empty() || Fields::new(raw, quoted, dialect).count() != columns {
        return;
    }
    if kinds.len() == 1
        && !quoted
        && let Some(mut only) = kinds.first_entry()
    {
        let field = field_of(raw, dialect.delimiter, *only.key(), columns);
        return show(only.get_mut(), field);
    }
    let mut fields = Fields::new(raw, quoted, dialect);
    let mut next = 0;
    for (column, kind) in kinds {
        for _ in next..*column {
            fields.skip();
        }
        next = column + 1;
        let Some(field) = fields.next(buffer) else { return };
        show(kind, field);
    }
}

/// A field of a record of `columns` fields without quotes, searched from the nearer end, because labels are often last.
fn field_of(raw: &[u8], delimiter: u8, column: usize, columns: usize) -> &[u8] {
    if column + 1 == columns {
        // A loop: names are shorter than what a search by vectors pays for.
        return &raw[raw.iter().rposition(|byte| *byte == delimiter).map_or(0, |before| before + 1)..];
    }
    let mut delimiters = memchr_iter(delimiter, raw);
    let before = match column.checked_sub(1) {
        None => None,
        Some(before) if column * 2 < columns => delimiters.nth(before),
        Some(_) => delimiters.nth_back(columns - 1 - column),
    };
    let field = &raw[before.map_or(0, |before| before + 1)..];
    &field[..memchr(delimiter, field).unwrap_or(field.len())]
}

/// Shows the records of some rows, their bytes and whether a quote is in them.
fn each_record(
    rows: &Rows,
    range: Range<u64>,
    read: &mut RecordBytes,
    mut show: impl FnMut(&[u8], bool),
) -> Result<()> {
    let mut left: Vec<u64> = range.collect();
    while !left.is_empty() {
        read.clear();
        match rows.input.slice() {
            Some(_) => rows.find(&left, read),
            None => rows.read(&left, read)?,
        }
        let (all, dialect) = (rows.input.slice(), rows.dialect());
        // What all records together tell need not be found out for each of them.
        let is_plain = dialect.is_plain(read.get_all(all));
        for nth in 0..read.len() {
            let bytes = read.get(nth, all);
            if is_plain {
                show(&bytes[..dialect.plain_len(bytes)], false);
            } else {
                let found = dialect.record(bytes);
                show(&bytes[..found.len], found.quoted);
            }
        }
        left.drain(..read.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn inference(columns: usize, options: &CsvOptions) -> (Inference, Dialect) {
        let text = vec!["a"; columns].join(",") + "\n";
        let missings = Missings::new(&options.missing_tokens);
        let format = Format::detect(Path::new("memory"), || Ok(text.as_bytes()), options, &missings).unwrap();
        (Inference::begin(&format, &Choice::default(), &missings).unwrap().unwrap(), format.dialect)
    }

    #[test]
    fn the_records_that_are_looked_at_depend_on_their_number_alone() {
        let (pristine, dialect) = inference(1, &CsvOptions::default());
        let most = MOST_RECORDS;
        for records in [1, 15, most, most + 1, 2 * most, 3 * most - 7, 4 * most + 1] {
            let stride = pristine.sample.stride(records);
            let is_looked_at = |record: u64| (record / BLOCK).is_multiple_of(stride);
            let looked_at = (0..records).filter(|record| is_looked_at(*record)).count() as u64;
            assert!(
                looked_at <= most && (records <= most) == (looked_at == records) && 3 * looked_at > records.min(most)
            );
            for text in [0, 15, 16, 17, 33, 64, most - 1, most, records / 2, records - 1] {
                let mut inference = pristine.clone();
                (0..records)
                    .for_each(|record| inference.observe(if record == text { b"x" } else { b"1" }, false, &dialect));
                let met = text < records && is_looked_at(text);
                assert_eq!(inference.seen().unwrap()[0].is_number(), !met, "{text} of {records}");
                assert_eq!((inference.stride, inference.looked_at()), (stride, looked_at));
            }
        }
    }

    #[test]
    fn more_columns_mean_fewer_records() {
        let most = |columns: usize| inference(columns, &CsvOptions::default()).0.sample.most_blocks();
        assert_eq!([1, 64, 65, 1000, 100_000].map(most), [512, 512, 256, 32, LEAST_BLOCKS]);
    }

    #[test]
    fn a_field_is_found_from_either_end() {
        let fields = ["", "b", "", "dd", "e", ""];
        let raw = fields.join(",");
        for (column, field) in fields.iter().enumerate() {
            assert_eq!(field_of(raw.as_bytes(), b',', column, fields.len()), field.as_bytes());
        }
    }
}
