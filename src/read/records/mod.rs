//! The records of a file by the position where each begins: random access, many read at a time.

mod index;

use std::hint::black_box;

use crate::error::Result;
use crate::storage::{Gathered, Input, Needs};

use super::check_record;

pub(crate) use index::RecordIndex;

/// Neighbouring records are read together up to this many bytes.
const READ_BYTES: u64 = 256 << 10;

/// How many bytes of a mapped record are prefetched into the processor's cache before it is decoded. The processor
/// prefetches the following bytes by itself.
const TOUCHED_BYTES: usize = 1 << 10;

/// The records of one file, with random access.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) input: Input,
    index: RecordIndex,
    limit: usize,
}

/// Records that were read: their bytes, and where each record begins and ends in them.
#[derive(Debug, Default)]
pub(crate) struct RecordBytes {
    bytes: Vec<u8>,
    /// The bytes instead, if `is_gathered`.
    gathered: Gathered,
    is_gathered: bool,
    /// Something of the job can't be read: records are read one by one, so that only this part is missing.
    one_by_one: bool,
    /// Number of bytes in use. The rest of the memory is kept so that it need not be cleared again.
    used: usize,
    spans: Vec<(usize, usize)>,
}

impl RecordBytes {
    pub(crate) fn clear(&mut self) {
        (self.is_gathered, self.one_by_one) = (false, false);
        self.used = 0;
        self.spans.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Leaves the places before record `nth` empty, for records that could not be read.
    pub(crate) fn skip_to(&mut self, nth: usize) {
        self.spans.resize(nth, (0, 0));
    }

    /// Record `nth` and what follows it: in the bytes that were read, or in `all` bytes of the file.
    #[inline]
    pub(crate) fn get<'a>(&'a self, nth: usize, all: Option<&'a [u8]>) -> &'a [u8] {
        let Some((start, end)) = self.spans.get(nth) else { return &[] };
        let read = || if self.is_gathered { self.gathered.bytes() } else { &self.bytes };
        all.unwrap_or_else(read).get(*start..*end).unwrap_or_default()
    }

    /// The bytes from the first record to the end of the last one, which follow one another in the file.
    pub(crate) fn get_all<'a>(&'a self, all: Option<&'a [u8]>) -> &'a [u8] {
        let (Some((start, _)), Some((_, end))) = (self.spans.first(), self.spans.last()) else { return &[] };
        all.unwrap_or(&self.bytes).get(*start..*end).unwrap_or_default()
    }

    /// Room for `len` more bytes, to be read into.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < self.used + len {
            self.bytes.resize(self.used + len, 0);
        }
        &mut self.bytes[self.used..self.used + len]
    }

    /// Marks `len` bytes of the room as used; returns where they begin.
    pub(crate) fn take(&mut self, len: usize) -> usize {
        self.used += len;
        self.used - len
    }

    /// Where record `nth` begins in the bytes.
    pub(crate) fn start(&self, nth: usize) -> usize {
        self.spans.get(nth).map_or(self.used, |(start, _)| *start)
    }

    /// The bytes read from `base` on, and where to write the begin and end of each record in them.
    pub(crate) fn unparted(&mut self, base: usize) -> (&[u8], &mut Vec<(usize, usize)>) {
        (&self.bytes[base..self.used], &mut self.spans)
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> &[u8] {
        &self.bytes[start..end]
    }
}

impl Records {
    /// The records of `input` that begin where `index` says. At most `limit` bytes of each record are read.
    pub(crate) fn new(input: Input, index: RecordIndex, limit: usize) -> Self {
        Self { input, index, limit }
    }

    pub(crate) fn index(&self) -> &RecordIndex {
        &self.index
    }

    pub(crate) fn len(&self) -> u64 {
        self.index.len() as u64
    }

    /// Where record `row` begins.
    pub(crate) fn start(&self, row: u64) -> u64 {
        self.index.start(usize::try_from(row).unwrap_or(usize::MAX))
    }

    /// The end of the bytes that may belong to the record that begins at `start`.
    fn end(&self, row: u64, start: u64) -> u64 {
        self.start(row.saturating_add(1)).min(start.saturating_add(self.limit as u64).saturating_add(2))
    }

    /// Names the bytes of `rows` that will be read.
    pub(crate) fn need(&self, rows: &[u64], needs: &mut Needs) {
        if self.input.is_slow() {
            for row in rows {
                let start = self.start(*row);
                self.input.need(start..self.end(*row, start), needs);
            }
        }
    }

    /// Finds `rows` in a file that is in memory, and prefetches rows that are far apart into the processor's cache: all
    /// at once, which costs much less than waiting for each of them in turn.
    pub(crate) fn find(&self, rows: &[u64], into: &mut RecordBytes) {
        let base = into.spans.len();
        into.spans.extend(rows.iter().map(|row| {
            let start = self.start(*row);
            (start as usize, self.end(*row, start) as usize)
        }));
        let all = self.input.slice().unwrap_or_default();
        let mut behind = None;
        for (row, (start, end)) in rows.iter().zip(&into.spans[base..]) {
            if behind != Some(*row)
                && let Some(bytes) = all.get(*start..(*end).min(start + TOUCHED_BYTES))
            {
                black_box(bytes.iter().step_by(64).chain(bytes.last()).fold(0, |sum, byte| sum ^ byte));
            }
            behind = row.checked_add(1);
        }
    }

    /// Prefetches the index entries of `rows` into the processor's cache, all at once instead of one after another.
    pub(crate) fn look_up(&self, rows: &[u64]) {
        black_box(rows.iter().fold(0, |sum, row| sum ^ self.start(*row)));
    }

    /// Reads all of `rows` at once, if that is worthwhile. `false` if they must be read one by one.
    pub(crate) fn gather(&self, rows: &[u64], into: &mut RecordBytes) -> bool {
        if rows.iter().any(|row| *row >= self.len()) {
            return false;
        }
        into.spans.clear();
        let mut at = 0;
        into.spans.extend(rows.iter().map(|row| {
            let start = self.start(*row);
            let begin = at;
            at += (self.end(*row, start) - start) as usize;
            (begin, at)
        }));
        let pieces = rows.iter().zip(&into.spans).map(|(row, (begin, end))| {
            let start = self.start(*row);
            start..start + (end - begin) as u64
        });
        into.is_gathered = into.gathered.gather(&self.input, pieces);
        if !into.is_gathered {
            into.spans.clear();
        }
        into.is_gathered
    }

    /// Reads record `rows[nth]` of a job, together with as many of the following records as is worthwhile.
    pub(crate) fn fetch(&self, rows: &[u64], nth: usize, into: &mut RecordBytes) -> Result<()> {
        if nth == 0 {
            into.clear();
        }
        if nth < into.len() {
            return Ok(());
        }
        into.skip_to(nth);
        if self.input.slice().is_some() {
            self.find(&rows[nth..], into);
            return Ok(());
        }
        if nth == 0 {
            self.look_up(rows);
            if self.gather(rows, into) {
                return Ok(());
            }
        }
        self.read(&rows[nth..], into).map_err(|error| error.at_record(rows[nth]))
    }

    /// Reads the first of `rows`, and in the same call those of the following rows that are after it in the file.
    pub(crate) fn read(&self, rows: &[u64], into: &mut RecordBytes) -> Result<()> {
        let first = rows[0];
        check_record(first, self.len()).map_err(|error| error.at_path(self.input.path()))?;
        let start = self.start(first);
        let mut end = self.end(first, start);
        let mut count = 1;
        for (row, expected) in rows[1..].iter().zip(first + 1..self.len()) {
            if *row != expected || into.one_by_one {
                break;
            }
            let next = self.start(expected + 1);
            if next - start > READ_BYTES {
                break;
            }
            end = next;
            count += 1;
        }
        let len = (end - start) as usize;
        match self.input.read_at(start, into.room(len)) {
            Err(_) if count > 1 => {
                into.one_by_one = true;
                return self.read(&rows[..1], into);
            }
            read => read?,
        }
        let base = into.take(len);
        for row in first..first + count {
            let begin = self.start(row);
            let finish = self.end(row, begin).min(end);
            into.spans.push((base + (begin - start) as usize, base + (finish - start) as usize));
        }
        Ok(())
    }
}
