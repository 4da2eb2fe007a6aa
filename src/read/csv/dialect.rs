//! The rules by which records end, which are those of the `csv` crate: a quote opens only at the start of a field, a
//! doubled quote stands for itself, and text after a closing quote is kept unchanged.

use memchr::{memchr, memchr2};

use crate::read::records::RecordBytes;

/// The bytes that structure a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    /// Whether there are quotes at all: without them every line is a record.
    pub(crate) has_quotes: bool,
    pub(crate) comment: Option<u8>,
    pub(crate) blanks: Blanks,
    /// LF (a CR before it belongs to the line end), or CR alone.
    pub(crate) terminator: u8,
}

/// What a line of blanks is, and what they are before a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blanks {
    /// A record like others.
    Content,
    /// As if they were not there: the line is none, or a comment.
    Nothing,
}

/// How far a search for the end of a record has come, so that more bytes don't begin it anew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    at: usize,
    pub(super) open: Option<usize>,
    pub(super) quoted: bool,
}

impl Progress {
    /// In a record whose quote was opened before.
    pub(super) fn inside_quotes() -> Self {
        Self { at: 0, open: Some(0), quoted: true }
    }
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
    /// Finds the records in what was read from `base` on, without the first `skip`.
    pub(crate) fn push_records(&self, read: &mut RecordBytes, base: usize, skip: usize) {
        let (bytes, spans) = read.unparted(base);
        let records = self.records(bytes).skip(skip);
        spans.extend(records.map(|(start, found)| (base + start, base + start + found.len)));
    }

    /// The index of the terminator that ends the record at the start of `bytes`; `None` if it is not in there.
    pub(super) fn find_end(&self, bytes: &[u8], progress: &mut Progress) -> Option<usize> {
        if !self.has_quotes {
            let end = memchr(self.terminator, &bytes[progress.at..]).map(|found| progress.at + found);
            progress.at = end.map_or(bytes.len(), |end| end + 1);
            return end;
        }
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
    pub(super) fn left_open(&self, bytes: &[u8], progress: &Progress) -> Option<usize> {
        progress.open.filter(|_| bytes.get(progress.at..) != Some(&[self.quote]))
    }

    /// Where the record's content ends whose terminator is at `end`.
    pub(super) fn content(&self, bytes: &[u8], end: usize) -> usize {
        let cr = end > 0 && bytes[end - 1] == b'\r' && self.terminator == b'\n';
        end - usize::from(cr)
    }

    /// Whether a line or quoted lines with this content, which does not begin with a comment, are a record.
    pub(super) fn is_record(&self, content: &[u8]) -> bool {
        match self.blanks {
            Blanks::Content => !content.is_empty(),
            Blanks::Nothing => {
                let first = content.iter().find(|byte| !byte.is_ascii_whitespace());
                first.is_some_and(|first| self.comment != Some(*first))
            }
        }
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
                if dialect.is_record(&rest[..found.len]) {
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
