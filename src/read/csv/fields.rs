use memchr::memchr;

use super::dialect::Dialect;
use super::value::{FieldNumber, other_number};
use super::vectors;

/// The fields of one record, one after another.
#[derive(Clone)]
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

    /// The record from the start of the next field on; `None` after the last field.
    #[inline]
    pub(crate) fn rest(&self) -> Option<&'a [u8]> {
        (!self.done).then(|| &self.raw[self.at..])
    }

    /// Offset of the next field in the record.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Passes a field of `len` bytes, which ends the record or is followed by a delimiter.
    #[inline]
    pub(crate) fn pass(&mut self, len: usize) {
        let end = self.at + len;
        self.done = end >= self.raw.len();
        self.at = end + 1;
    }

    /// Reads fields that are plain numbers and not NaN, until one is not, or `into` is full; returns how many.
    pub(crate) fn numbers<T: FieldNumber>(&mut self, into: &mut [T]) -> usize {
        let Some((count, at)) = vectors::numbers(self.raw, self.at, self.dialect.delimiter, into) else {
            return self.numbers_by_words(into);
        };
        (self.at, self.done) = (at, at > self.raw.len());
        count
    }

    /// The same on every processor.
    pub(super) fn numbers_by_words<T: FieldNumber>(&mut self, into: &mut [T]) -> usize {
        let delimiter = self.dialect.delimiter;
        let mut count = 0;
        while let (Some(target), Some(rest)) = (into.get_mut(count), self.rest()) {
            let ends = |(_, len): &(T, usize)| rest.get(*len).is_none_or(|next| *next == delimiter);
            let read = T::plain(rest).filter(ends).or_else(|| other_number(rest).filter(ends));
            let Some((number, len)) = read else { break };
            *target = number;
            self.pass(len);
            count += 1;
        }
        count
    }

    /// The next field without its quotes: from the record itself, or from `buffer` if it contains doubled quotes.
    pub(crate) fn next<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let rest = self.rest()?;
        let Extent { len, quotes } = self.extent(rest);
        self.pass(len);
        let Some(Quotes { close, doubled }) = quotes else { return Some(&rest[..len]) };
        let after = (close + 1).min(len);
        if !doubled && after == len {
            return Some(&rest[1..close]);
        }
        buffer.clear();
        let mut from = 1;
        while let Some(quote) = memchr(self.dialect.quote, &rest[from..close]) {
            buffer.extend_from_slice(&rest[from..=from + quote]);
            from += quote + 2;
        }
        buffer.extend_from_slice(&rest[from..close]);
        buffer.extend_from_slice(&rest[after..len]);
        Some(buffer)
    }

    /// Passes the next field; `false` after the last one.
    pub(crate) fn skip(&mut self) -> bool {
        let Some(rest) = self.rest() else { return false };
        self.pass(self.extent(rest).len);
        true
    }

    /// How many fields are left.
    pub(crate) fn count(mut self) -> usize {
        if !self.quoted {
            // In sums of bytes, which the compiler makes vectors of: less than `memchr` takes for short records.
            let delimiter = |byte: &u8| u8::from(*byte == self.dialect.delimiter);
            let in_part = |part: &[u8]| usize::from(part.iter().map(delimiter).sum::<u8>());
            return self.rest().map_or(0, |rest| rest.chunks(u8::MAX.into()).map(in_part).sum::<usize>() + 1);
        }
        let mut count = 0;
        while self.skip() {
            count += 1;
        }
        count
    }

    /// The end of the field at the start of `rest`.
    fn extent(&self, rest: &[u8]) -> Extent {
        let delimiter = |from: usize| memchr(self.dialect.delimiter, &rest[from..]).map_or(rest.len(), |at| from + at);
        if !self.quoted || rest.first() != Some(&self.dialect.quote) {
            return Extent { len: delimiter(0), quotes: None };
        }
        let (mut at, mut doubled) = (1, false);
        loop {
            let close = memchr(self.dialect.quote, &rest[at..]).map_or(rest.len(), |found| at + found);
            if rest.get(close + 1) != Some(&self.dialect.quote) {
                let len = delimiter((close + 1).min(rest.len()));
                return Extent { len, quotes: Some(Quotes { close, doubled }) };
            }
            doubled = true;
            at = close + 2;
        }
    }
}

/// How long a field is, quotes included.
struct Extent {
    len: usize,
    /// If it begins with a quote.
    quotes: Option<Quotes>,
}

struct Quotes {
    close: usize,
    /// Whether there are doubled quotes before the closing one.
    doubled: bool,
}
