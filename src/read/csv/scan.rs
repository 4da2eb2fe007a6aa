//! Where records and fields end. The rules are those of the `csv` crate: a quote opens only at the start of a field, a
//! doubled quote stands for itself, and text after a closing quote is taken as it is.

use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr_iter, memchr2};

use crate::error::{Error, ErrorKind, Result};
use crate::read::input::inflate_error;

use super::value::FieldNumber;

/// The bytes that structure a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    pub(crate) comment: Option<u8>,
    /// LF (a CR before it belongs to the line end), or CR alone.
    pub(crate) terminator: u8,
}

/// How far a search for the end of a record has come, so that more bytes don't begin it anew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    at: usize,
    open: Option<usize>,
    quoted: bool,
}

/// One record's bytes, found in a larger slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Without the line end.
    pub(crate) len: usize,
    /// Where the next line begins.
    pub(crate) next: usize,
    /// Whether there is a quote anywhere in it.
    pub(crate) quoted: bool,
}

impl Dialect {
    /// The index of the terminator that ends the record at the start of `bytes`; `None` if it is not in there.
    fn find_end(&self, bytes: &[u8], progress: &mut Progress) -> Option<usize> {
        loop {
            let rest = &bytes[progress.at..];
            if progress.open.is_some() {
                let Some(found) = memchr(self.quote, rest) else {
                    progress.at = bytes.len();
                    return None;
                };
                let quote = progress.at + found;
                match bytes.get(quote + 1) {
                    None => {
                        // Whether it closes depends on the byte after it: look at it again then.
                        progress.at = quote;
                        return None;
                    }
                    Some(next) if *next == self.quote => progress.at = quote + 2,
                    Some(_) => {
                        progress.open = None;
                        progress.at = quote + 1;
                    }
                }
            } else {
                let Some(found) = memchr2(self.quote, self.terminator, rest) else {
                    progress.at = bytes.len();
                    return None;
                };
                let at = progress.at + found;
                progress.at = at + 1;
                if bytes[at] == self.terminator {
                    return Some(at);
                }
                progress.quoted = true;
                if at == 0 || bytes[at - 1] == self.delimiter {
                    progress.open = Some(at);
                }
            }
        }
    }

    /// Where the quote was opened that the end of the file leaves open.
    fn left_open(&self, bytes: &[u8], progress: &Progress) -> Option<usize> {
        progress.open.filter(|_| bytes.get(progress.at..) != Some(&[self.quote]))
    }

    fn content(&self, bytes: &[u8], end: usize) -> usize {
        let cr = end > 0 && bytes[end - 1] == b'\r' && self.terminator == b'\n';
        end - usize::from(cr)
    }

    /// The records in `bytes` and where each begins; a byte-order mark, blank lines and comments are passed over.
    pub(crate) fn records<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, Found)> + use<'a> {
        let dialect = *self;
        let mut at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        std::iter::from_fn(move || {
            while at < bytes.len() {
                let (start, rest) = (at, &bytes[at..]);
                if dialect.comment == Some(rest[0]) {
                    at += memchr(dialect.terminator, rest).map_or(rest.len(), |end| end + 1);
                    continue;
                }
                let found = dialect.record(rest);
                at += found.next;
                if found.len > 0 {
                    return Some((start, found));
                }
            }
            None
        })
    }

    /// The record at the start of `bytes`, which hold all of it: without a terminator they end with it.
    pub(crate) fn record(&self, bytes: &[u8]) -> Found {
        let mut progress = Progress::default();
        let end = self.find_end(bytes, &mut progress).unwrap_or(bytes.len());
        Found { len: self.content(bytes, end), next: (end + 1).min(bytes.len()), quoted: progress.quoted }
    }
}

/// The fields of one record, one after another.
pub(crate) struct Fields<'a> {
    raw: &'a [u8],
    dialect: &'a Dialect,
    quoted: bool,
    at: usize,
    done: bool,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(raw: &'a [u8], quoted: bool, dialect: &'a Dialect) -> Self {
        Self { raw, dialect, quoted, at: 0, done: false }
    }

    /// Where the next field starts, and the record from there on; `None` behind the last field.
    #[inline]
    pub(crate) fn rest(&self) -> Option<&'a [u8]> {
        (!self.done).then(|| &self.raw[self.at..])
    }

    /// Offset of the next field in the record.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Goes past a field of `len` bytes, which ends the record or is followed by a delimiter.
    #[inline]
    pub(crate) fn pass(&mut self, len: usize) {
        let end = self.at + len;
        self.done = end >= self.raw.len();
        self.at = end + 1;
    }

    /// Reads fields that are simply a number and no NaN, until one is not or `into` is full; returns how many.
    pub(crate) fn numbers<T: FieldNumber>(&mut self, into: &mut [T]) -> usize {
        let mut count = 0;
        while let (Some(target), Some(rest)) = (into.get_mut(count), self.rest()) {
            let Some((number, len)) = T::leading(rest) else { break };
            if rest.get(len).is_some_and(|next| *next != self.dialect.delimiter) || number.is_nan() {
                break;
            }
            *target = number;
            self.pass(len);
            count += 1;
        }
        count
    }

    /// The next field as it means, unquoted: from the record itself, or from `buffer` if quotes are doubled in it.
    pub(crate) fn next<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let rest = self.rest()?;
        if !self.quoted || rest.first() != Some(&self.dialect.quote) {
            let len = memchr(self.dialect.delimiter, rest).unwrap_or(rest.len());
            self.pass(len);
            return Some(&rest[..len]);
        }
        buffer.clear();
        let (mut from, mut at) = (1, 1);
        loop {
            let quote = memchr(self.dialect.quote, &rest[at..]).map_or(rest.len(), |found| at + found);
            if rest.get(quote + 1) == Some(&self.dialect.quote) {
                buffer.extend_from_slice(&rest[from..=quote]);
                at = quote + 2;
                from = at;
                continue;
            }
            let after = (quote + 1).min(rest.len());
            let end = memchr(self.dialect.delimiter, &rest[after..]).map_or(rest.len(), |found| after + found);
            self.pass(end);
            if buffer.is_empty() && end == after {
                return Some(&rest[from..quote]);
            }
            buffer.extend_from_slice(&rest[from..quote]);
            buffer.extend_from_slice(&rest[after..end]);
            return Some(buffer);
        }
    }

    /// How many fields are left.
    pub(crate) fn count(mut self) -> usize {
        if !self.quoted {
            return self.rest().map_or(0, |rest| memchr_iter(self.dialect.delimiter, rest).count() + 1);
        }
        let mut buffer = Vec::new();
        std::iter::from_fn(|| self.next(&mut buffer).map(|_| ())).count()
    }
}

/// Where a record lies in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Byte offset in the (unpacked) file.
    pub(crate) byte: u64,
    /// Line from 1.
    pub(crate) line: u64,
    /// Whether there is a quote anywhere in it.
    pub(crate) quoted: bool,
    start: usize,
    len: usize,
}

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The records of a file from front to back, through a window that is never much larger than the longest record allowed.
///
/// Windows are recycled once every record that was [taken](Self::take) from them has been dropped.
pub(crate) struct Scan<R> {
    source: R,
    path: PathBuf,
    dialect: Dialect,
    limit: usize,
    window: BytesMut,
    /// Windows that taken records may still lie in.
    spare: Vec<BytesMut>,
    /// Where the next line begins in the window.
    cursor: usize,
    /// Where the window begins in the file.
    offset: u64,
    line: u64,
    started: bool,
    ended: bool,
    fault: Option<Error>,
}

impl<R: Read> Scan<R> {
    pub(crate) fn new(source: R, path: &Path, dialect: Dialect, limit: usize) -> Self {
        Self {
            source,
            path: path.to_owned(),
            dialect,
            limit,
            window: BytesMut::new(),
            spare: Vec::new(),
            cursor: 0,
            offset: 0,
            line: 1,
            started: false,
            ended: false,
            fault: None,
        }
    }

    /// Begins again with another source, keeping the memory.
    pub(crate) fn restart(&mut self, source: R) {
        self.source = source;
        self.window.clear();
        self.cursor = 0;
        self.offset = 0;
        self.line = 1;
        self.started = false;
        self.ended = false;
        self.fault = None;
    }

    /// The next record; blank lines and comments are no records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] with a record that is too long, [`ErrorKind::Format`] with a quote that is never closed, and
    /// those of reading. Nothing comes after an error.
    pub(crate) fn next(&mut self) -> Result<Option<Span>> {
        let result = self.advance();
        if result.is_err() {
            self.cursor = self.window.len();
            self.ended = true;
        }
        result
    }

    fn advance(&mut self) -> Result<Option<Span>> {
        if !self.started {
            self.started = true;
            while self.window.len() < 3 && self.fill()? {}
            if self.window.starts_with(b"\xef\xbb\xbf") {
                self.cursor = 3;
            }
        }
        loop {
            if self.cursor == self.window.len() && !self.fill()? {
                return Ok(None);
            }
            if self.dialect.comment == Some(self.window[self.cursor]) {
                self.skip_line()?;
                continue;
            }
            let (byte, line) = (self.offset + self.cursor as u64, self.line);
            let mut progress = Progress::default();
            let end = loop {
                let tail = &self.window[self.cursor..];
                let found = self.dialect.find_end(tail, &mut progress);
                let known = found.unwrap_or(tail.len());
                // The CR of a line end is not yet told from content while its LF is missing.
                if self.dialect.content(tail, known) > self.limit {
                    return Err(self.too_long(&progress));
                }
                if found.is_some() {
                    break known;
                }
                if !self.fill()? {
                    if let Some(open) = self.dialect.left_open(&self.window[self.cursor..], &progress) {
                        return Err(self.never_closed(open));
                    }
                    break known;
                }
            };
            let tail = &self.window[self.cursor..];
            let len = self.dialect.content(tail, end);
            let inside =
                if progress.quoted { memchr_iter(self.dialect.terminator, &tail[..end]).count() as u64 } else { 0 };
            let start = self.cursor;
            self.line += inside + 1;
            self.cursor = (start + end + 1).min(self.window.len());
            if len > 0 {
                return Ok(Some(Span { byte, line, quoted: progress.quoted, start, len }));
            }
        }
    }

    /// The record that `next` found last, in place.
    pub(crate) fn bytes(&self, span: &Span) -> &[u8] {
        &self.window[span.start..span.start + span.len]
    }

    /// The record that `next` found last, to keep: shares the window's memory.
    pub(crate) fn take(&mut self, span: Span) -> Bytes {
        let end = span.start + span.len;
        self.window.advance(span.start);
        self.cursor -= end;
        self.offset += end as u64;
        self.window.split_to(span.len).freeze()
    }

    fn skip_line(&mut self) -> Result<()> {
        loop {
            if let Some(found) = memchr(self.dialect.terminator, &self.window[self.cursor..]) {
                self.cursor += found + 1;
                self.line += 1;
                return Ok(());
            }
            self.cursor = self.window.len();
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Reads more behind what is unread; `false` at the end of the file.
    fn fill(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let unread = self.window.len() - self.cursor;
        // Doubling keeps copying linear for long records, and stops at what the limit makes useless.
        let room = unread.clamp(CHUNK_BYTES, self.limit.saturating_sub(unread).saturating_add(CHUNK_BYTES));
        if self.window.capacity() < self.window.len() + room {
            let needed = unread + room;
            let reusable = self.spare.iter_mut().position(|spare| spare.try_reclaim(needed));
            let mut window =
                reusable.map_or_else(|| BytesMut::with_capacity(needed), |index| self.spare.swap_remove(index));
            window.extend_from_slice(&self.window[self.cursor..]);
            std::mem::swap(&mut self.window, &mut window);
            window.clear();
            if window.capacity() > 0 {
                self.spare.push(window);
            }
            self.offset += self.cursor as u64;
            self.cursor = 0;
        }
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let start = self.window.len();
        let mut end = start;
        self.window.resize(start + room, 0);
        while end < self.window.len() && !self.ended {
            match self.source.read(&mut self.window[end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // What was read before it comes first.
                    self.fault = Some(inflate_error(&self.path, self.offset + end as u64, error));
                    break;
                }
            }
        }
        self.window.truncate(end);
        match self.fault.take_if(|_| end == start) {
            Some(fault) => Err(fault),
            None => Ok(end > start),
        }
    }

    #[cold]
    fn too_long(&self, progress: &Progress) -> Error {
        let why = match progress.open {
            Some(open) => {
                let tail = &self.window[self.cursor..];
                let line = self.line + memchr_iter(self.dialect.terminator, &tail[..open]).count() as u64;
                format!("the quote that opens on line {line} may never have been closed")
            }
            None => "the file may not be CSV".to_owned(),
        };
        let message = format!("a record longer than {} bytes: {why}; otherwise raise max_record_bytes", self.limit);
        self.here(Error::new(ErrorKind::Limit, message), 0)
    }

    #[cold]
    fn never_closed(&self, open: usize) -> Error {
        self.here(Error::new(ErrorKind::Format, "a quote opens here that is never closed"), open)
    }

    fn here(&self, error: Error, at: usize) -> Error {
        let tail = &self.window[self.cursor..];
        let line = self.line + memchr_iter(self.dialect.terminator, &tail[..at]).count() as u64;
        error.at_path(&self.path).at_line(line).at_byte(self.offset + (self.cursor + at) as u64)
    }
}
