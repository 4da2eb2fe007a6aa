use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr_iter};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Reservation;
use crate::storage::inflate_error;

use super::dialect::{Dialect, Progress};

/// Where a record lies in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Byte offset in the (unpacked) file.
    pub(crate) byte: u64,
    /// Line from 1.
    pub(crate) line: u64,
    /// Whether it contains a quote.
    pub(crate) quoted: bool,
    start: usize,
    len: usize,
}

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The records of a file from front to back, through a window that is never much larger than the longest record
/// allowed.
///
/// Windows are recycled once every record that was [taken](Self::take) from them has been dropped.
pub(crate) struct Scan<R> {
    source: R,
    path: PathBuf,
    dialect: Dialect,
    limit: usize,
    window: BytesMut,
    /// Windows in which records that were taken may still lie.
    spare: Vec<BytesMut>,
    /// Where the next line begins in the window.
    cursor: usize,
    /// Where the window begins in the file.
    offset: u64,
    line: u64,
    started: bool,
    ended: bool,
    fault: Option<Error>,
    /// The memory of all windows.
    reservation: Option<Reservation>,
}

impl<R: Read> Scan<R> {
    /// Counts the memory of windows against a budget.
    pub(crate) fn count_against(&mut self, reservation: Reservation) {
        self.reservation = Some(reservation);
    }

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
            reservation: None,
        }
    }

    /// Begins again with another source, and keeps the memory.
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

    /// The next record, without blank lines and comments.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] with a record that is too long, [`ErrorKind::Format`] with a quote that is never closed,
    /// and those of reading. Nothing comes after an error.
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
                // A CR may belong to a line end or to the content; this is not known before the next byte.
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
            if self.dialect.is_record(&self.window[start..start + len]) {
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

    /// Reads more bytes behind the unread ones; `false` at the end of the file.
    fn fill(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let unread = self.window.len() - self.cursor;
        // By doubling, the cost of copying stays linear for long records. A window larger than the limit would be
        // useless.
        let room = unread.clamp(CHUNK_BYTES, self.limit.saturating_sub(unread).saturating_add(CHUNK_BYTES));
        if self.window.capacity() < self.window.len() + room {
            let needed = unread + room;
            let reusable = self.spare.iter_mut().position(|spare| spare.try_reclaim(needed));
            // Rounded up, so that a window that was made for one remaining part also holds the next, slightly longer
            // one.
            let mut window = match reusable {
                Some(index) => self.spare.swap_remove(index),
                None => {
                    let bytes = needed.next_power_of_two();
                    if let Some(reservation) = &mut self.reservation {
                        reservation.grow_to(reservation.bytes() + bytes as u64, "records that are read ahead")?;
                    }
                    BytesMut::with_capacity(bytes)
                }
            };
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
                    // Bytes that were read before come first.
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
            None => "the file may be of another format".to_owned(),
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
