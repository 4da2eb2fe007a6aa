//! The rules by which records end, which are those of the `csv` crate. A quote opens only at the start of a field, a
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
    /// LF (a CR before it belongs to the line end), or a CR by itself.
    pub(crate) terminator: u8,
}

/// The meaning of a line of blanks, and of blanks before a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blanks {
    /// An ordinary record.
    Content,
    /// They are ignored: the line is empty, or a comment.
    Nothing,
    /// An ordinary record, and so is an empty line.
    Record,
}

/// How far the search for the end of a record has come, so that it need not begin again when there are more bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    at: usize,
    pub(super) open: Option<usize>,
    pub(super) quoted: bool,
}

impl Progress {
    /// In a record whose quote was opened earlier.
    pub(super) fn inside_quotes() -> Self {
        Self { at: 0, open: Some(0), quoted: true }
    }
}

/// One record in a larger slice of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Without the line end.
    pub(crate) len: usize,
    /// Where the next line begins.
    pub(crate) next: usize,
    /// Whether it contains a quote.
    pub(crate) quoted: bool,
}

impl Dialect {
    /// Finds the records in the bytes that were read from `base` on, without the first `skip` bytes.
    pub(crate) fn push_records(&self, read: &mut RecordBytes, base: usize, skip: usize) {
        let (bytes, spans) = read.unparted(base);
        let records = self.records(bytes).skip(skip);
        spans.extend(records.map(|(start, found)| (base + start, base + start + found.len)));
    }

    /// The index of the terminator that ends the record at the start of `bytes`; `None` if it is not among them.
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
                        // The next byte decides whether the quote closes: look at it again then.
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

    /// The beginning of the quote that is still open at the end of the file.
    pub(super) fn left_open(&self, bytes: &[u8], progress: &Progress) -> Option<usize> {
        progress.open.filter(|_| bytes.get(progress.at..) != Some(&[self.quote]))
    }

    /// The end of the content of the record whose terminator is at `end`.
    pub(super) fn content(&self, bytes: &[u8], end: usize) -> usize {
        let cr = end > 0 && bytes[end - 1] == b'\r' && self.terminator == b'\n';
        end - usize::from(cr)
    }

    /// Whether this content of a line or of quoted lines, which does not begin with a comment, is a record.
    pub(super) fn is_record(&self, content: &[u8]) -> bool {
        match self.blanks {
            Blanks::Content => !content.is_empty(),
            Blanks::Nothing => {
                let first = content.iter().find(|byte| !byte.is_ascii_whitespace());
                first.is_some_and(|first| self.comment != Some(*first))
            }
            Blanks::Record => true,
        }
    }

    /// The records in `bytes`, and where each begins, without a byte-order mark, blank lines and comments.
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

    /// Whether each record in `bytes` is one line, and what follows it up to the next record is empty lines.
    pub(super) fn is_plain(&self, bytes: &[u8]) -> bool {
        let has_quote = || self.has_quotes && memchr(self.quote, bytes).is_some();
        self.comment.is_none() && self.blanks == Blanks::Content && !has_quote()
    }

    /// The length of the record at the start of `bytes`, which end where the next one begins, if records are plain: its
    /// end is not searched for.
    #[inline]
    pub(super) fn plain_len(&self, bytes: &[u8]) -> usize {
        let ends_with = |len: usize| len > 0 && bytes[len - 1] == self.terminator;
        let mut len = self.content(bytes, bytes.len() - usize::from(ends_with(bytes.len())));
        while ends_with(len) {
            len = self.content(bytes, len - 1);
        }
        len
    }

    /// The record at the start of `bytes`, which contain all of it; without a terminator it ends with them.
    pub(crate) fn record(&self, bytes: &[u8]) -> Found {
        let mut progress = Progress::default();
        let end = self.find_end(bytes, &mut progress).unwrap_or(bytes.len());
        Found { len: self.content(bytes, end), next: (end + 1).min(bytes.len()), quoted: progress.quoted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text of up to eight bytes that are a letter, LF or CR.
    fn texts() -> impl Iterator<Item = Vec<u8>> {
        let text = |len: u32, nth: usize| (0..len).map(|at| b"x\n\r"[nth / 3usize.pow(at) % 3]).collect();
        (0..=8u32).flat_map(move |len| (0..3usize.pow(len)).map(move |nth| text(len, nth)))
    }

    #[test]
    fn a_plain_record_is_as_long_as_if_its_end_is_searched_for() {
        for terminator in [b'\n', b'\r'] {
            let dialect = Dialect {
                delimiter: b',',
                quote: b'"',
                has_quotes: true,
                comment: None,
                blanks: Blanks::Content,
                terminator,
            };
            for text in texts() {
                assert!(dialect.is_plain(&text));
                let records: Vec<_> = dialect.records(&text).collect();
                let ends = records.iter().skip(1).map(|(begin, _)| *begin).chain([text.len()]);
                for ((begin, found), end) in records.iter().zip(ends) {
                    assert_eq!(dialect.plain_len(&text[*begin..end]), found.len, "{text:?} {begin}");
                }
            }
            assert!(!dialect.is_plain(b"a\n\"b\""));
            assert!(!Dialect { comment: Some(b'#'), ..dialect }.is_plain(b"a"));
            assert!(!Dialect { blanks: Blanks::Nothing, ..dialect }.is_plain(b"a"));
            assert!(Dialect { has_quotes: false, ..dialect }.is_plain(b"\""));
        }
    }
}
