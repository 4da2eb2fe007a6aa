//! Where the records of a large file begin, found chunk by chunk on several threads.
//!
//! A chunk begins after a line end, which may be inside quotes; this depends on the chunks before it. So each chunk is
//! read in two ways at the same time: as if it began with a line, and as if it began inside quotes. Both soon agree (or
//! there is no quote, and the second has nothing to read). Only the choice between them is made in order.

use std::ops::Range;

use memchr::{memchr, memchr_iter};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::parallel::in_order;
use crate::storage::Input;

use super::dialect::{Dialect, Progress};
use super::ends::whole_records;
use crate::read::records::RecordIndex;

/// How many bytes of the file are one job.
const CHUNK_BYTES: u64 = 1 << 20;

/// The records of `input` after the header; `None` if anything is wrong. Reading from front to back then finds the
/// error.
pub(super) fn find_records(
    input: &Input,
    dialect: &Dialect,
    limit: usize,
    header: bool,
    threads: usize,
    budget: &MemoryBudget,
) -> Option<RecordIndex> {
    let index = RecordIndex::new(budget).ok()?;
    let mut merge = Merge { index, skip: header, limit: limit as u64, open: None };
    let chunk = |buffer: &mut Vec<u8>, nth| {
        let lines = Lines::of_chunk(input, dialect.terminator, limit, nth, buffer)?;
        let chunk = Chunk::new(&lines, dialect, limit).ok_or_else(unclear)?;
        Ok((lines.begin, chunk))
    };
    let add = |(begin, chunk): (u64, Chunk)| merge.add(begin, &chunk);
    in_order(threads, input.len().div_ceil(CHUNK_BYTES), chunk, add).ok()?;
    merge.index.finish(input.len());
    merge.open.is_none().then_some(merge.index)
}

/// An error that ends the jobs. Nobody reads it.
fn unclear() -> Error {
    Error::new(ErrorKind::Limit, "a record is too long")
}

/// The lines that belong to a chunk: those that end in it, except for the first of them (it belongs to an earlier
/// chunk, if there is one), and the line that begins in it and ends after it.
struct Lines<'a> {
    begin: u64,
    bytes: &'a [u8],
    /// Whether the chunk ends with the file.
    last: bool,
}

impl<'a> Lines<'a> {
    /// An error if a line is longer than a record may be.
    fn of_chunk(input: &'a Input, terminator: u8, limit: usize, nth: u64, buffer: &'a mut Vec<u8>) -> Result<Self> {
        let from = nth * CHUNK_BYTES;
        let left = usize::try_from(input.len() - from).unwrap_or(usize::MAX);
        let own = left.min(CHUNK_BYTES as usize);
        // A record with CR LF after it, or the next line end, lies within this.
        let most = own.saturating_add(limit).saturating_add(2).min(left);
        let mut window = Window { input, from, buffer, held: 0 };
        let bytes = window.first(own)?;
        let begin = match nth {
            0 if bytes.starts_with(b"\xef\xbb\xbf") => 3,
            0 => 0,
            _ => match memchr(terminator, bytes) {
                Some(found) => found + 1,
                // No line begins here.
                None => return Ok(Self { begin: from, bytes: &[], last: false }),
            },
        };
        let mut end = own;
        while end < left {
            if end == most {
                return Err(unclear());
            }
            let searched = end;
            end = end.saturating_add((end - own).clamp(4 << 10, 1 << 20)).min(most);
            if let Some(found) = memchr(terminator, &window.first(end)?[searched..]) {
                end = searched + found + 1;
                break;
            }
        }
        Ok(Self { begin: from + begin as u64, bytes: window.into(begin..end), last: end == left })
    }
}

/// The bytes of an input from some position on: its own bytes, or those that were read so far.
struct Window<'a> {
    input: &'a Input,
    from: u64,
    buffer: &'a mut Vec<u8>,
    held: usize,
}

impl<'a> Window<'a> {
    fn first(&mut self, len: usize) -> Result<&[u8]> {
        if let Some(all) = self.input.slice() {
            return Ok(&all[self.from as usize..][..len]);
        }
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        if self.held < len {
            self.input.read_at(self.from + self.held as u64, &mut self.buffer[self.held..len])?;
            self.held = len;
        }
        Ok(&self.buffer[..len])
    }

    fn into(self, range: Range<usize>) -> &'a [u8] {
        match self.input.slice() {
            Some(all) => &all[self.from as usize..][range],
            None => &self.buffer[range],
        }
    }
}

/// The offsets of the records that begin in a chunk.
#[derive(Debug, PartialEq)]
struct Chunk {
    len: u32,
    /// The records if the chunk begins with a record.
    fresh: Vec<u32>,
    /// Whether the last of them ends in a later chunk, because a quote is open.
    fresh_open: bool,
    /// The records if the chunk begins inside quotes.
    inside: Inside,
}

#[derive(Debug, Default, PartialEq)]
struct Inside {
    /// The end of the record that began in an earlier chunk; `None` if it is in a later one.
    end: Option<u32>,
    /// The records after it, up to the first that is also in `fresh`.
    own: Vec<u32>,
    /// Number of records in `fresh` before the first one that both have.
    fresh_from: usize,
    open: bool,
}

impl Chunk {
    /// `None` if a record is too long.
    fn new(lines: &Lines<'_>, dialect: &Dialect, limit: usize) -> Option<Self> {
        let bytes = lines.bytes;
        let len = u32::try_from(bytes.len()).ok()?;
        let first_quote = if dialect.has_quotes { memchr(dialect.quote, bytes) } else { None };
        // Growing the vector step by step would cost as much as finding the records.
        let mut fresh = Vec::with_capacity(bytes.len() / 64);
        if first_quote.is_none() && dialect.comment.is_none() {
            // Every line is a record.
            let mut begin = 0;
            let unended = bytes.last().is_some_and(|last| *last != dialect.terminator);
            for end in memchr_iter(dialect.terminator, bytes).chain(unended.then_some(bytes.len())) {
                let content = dialect.content(&bytes[begin..], end - begin);
                if content > limit {
                    return None;
                }
                if dialect.is_record(&bytes[begin..begin + content]) {
                    fresh.push(begin as u32);
                }
                begin = (end + 1).min(bytes.len());
            }
            return Some(Self { len, fresh, fresh_open: false, inside: Inside::default() });
        }
        let mut at = 0;
        if dialect.comment.is_none() {
            at = whole_records(bytes, dialect, |begin, end| {
                let content = dialect.content(&bytes[begin..], end - begin);
                if content <= limit && dialect.is_record(&bytes[begin..begin + content]) {
                    fresh.push(begin as u32);
                }
                content <= limit
            });
        }
        let mut records = Records { dialect, bytes, last: lines.last, at };
        let mut fresh_open = false;
        while let Some((begin, end)) = records.next() {
            fresh.push(begin as u32);
            match end {
                Some(end) if end - begin > limit => return None,
                Some(_) => {}
                None => fresh_open = true,
            }
        }
        let mut inside = Inside { fresh_from: fresh.len(), ..Inside::default() };
        if let (Some(_), Some(end)) = (first_quote, records.leave_quotes()) {
            inside.end = Some(end as u32);
            inside.open = loop {
                let Some((begin, end)) = records.next() else { break false };
                let common = fresh.partition_point(|other| (*other as usize) < begin);
                if fresh.get(common).is_some_and(|other| *other as usize == begin) {
                    inside.fresh_from = common;
                    break fresh_open;
                }
                inside.own.push(begin as u32);
                match end {
                    Some(end) if end - begin > limit => return None,
                    Some(_) => {}
                    None => break true,
                }
            };
        }
        Some(Self { len, fresh, fresh_open, inside })
    }
}

/// Reads records, beginning with a line.
struct Records<'a> {
    dialect: &'a Dialect,
    bytes: &'a [u8],
    last: bool,
    at: usize,
}

impl Records<'_> {
    /// Begin and end of the next record. There is no end if a quote is open at the end of the chunk but not of the
    /// file.
    fn next(&mut self) -> Option<(usize, Option<usize>)> {
        while let Some(first) = self.bytes.get(self.at) {
            let (begin, rest) = (self.at, &self.bytes[self.at..]);
            if self.dialect.comment == Some(*first) {
                self.at += memchr(self.dialect.terminator, rest).map_or(rest.len(), |end| end + 1);
                continue;
            }
            let end = self.end(begin, Progress::default());
            if end.is_none_or(|end| self.dialect.is_record(&self.bytes[begin..end])) {
                return Some((begin, end));
            }
        }
        None
    }

    /// The end of the record that the beginning of the chunk is in.
    fn leave_quotes(&mut self) -> Option<usize> {
        self.end(0, Progress::inside_quotes())
    }

    /// The end of the content of the record at `begin`; the reader is then after the record.
    fn end(&mut self, begin: usize, mut progress: Progress) -> Option<usize> {
        let rest = &self.bytes[begin..];
        let end = self.dialect.find_end(rest, &mut progress);
        if end.is_none() && (!self.last || self.dialect.left_open(rest, &progress).is_some()) {
            self.at = self.bytes.len();
            return None;
        }
        let end = end.unwrap_or(rest.len());
        self.at = (begin + end + 1).min(self.bytes.len());
        Some(begin + self.dialect.content(rest, end))
    }
}

/// Puts chunks together in the file's order.
struct Merge {
    index: RecordIndex,
    /// Whether the first record must still be left out.
    skip: bool,
    limit: u64,
    /// The beginning of the record that has an open quote.
    open: Option<u64>,
}

impl Merge {
    fn add(&mut self, begin: u64, chunk: &Chunk) -> Result<()> {
        let (own, fresh, open) = match self.open {
            None => (&[][..], &chunk.fresh[..], chunk.fresh_open),
            Some(record) => {
                let end = begin + u64::from(chunk.inside.end.unwrap_or(chunk.len));
                if end - record > self.limit {
                    return Err(unclear());
                }
                if chunk.inside.end.is_none() {
                    return Ok(());
                }
                (&chunk.inside.own[..], &chunk.fresh[chunk.inside.fresh_from..], chunk.inside.open)
            }
        };
        let last = fresh.last().or(own.last()).map(|record| begin + u64::from(*record));
        self.open = last.filter(|_| open);
        for record in own.iter().chain(fresh) {
            if !std::mem::take(&mut self.skip) {
                self.index.push(begin + u64::from(*record))?;
            }
        }
        Ok(())
    }
}
