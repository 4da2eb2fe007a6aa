//! The part of Thrift's compact protocol that page headers use, and that is needed to check a footer's schema before it
//! is decoded (`footer`). <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// Deepest nesting that is read.
pub(super) const MAX_DEPTH: usize = 64;

/// Why bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes end too early.
    Short,
    /// The protocol does not allow these bytes.
    Malformed,
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

/// Reads values one after another.
pub(super) struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether lists and maps of truth values are refused. Readers do not agree on how long these are.
    is_strict: bool,
}

pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
pub(super) const BYTE: u8 = 3;
pub(super) const I32: u8 = 5;
const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const UUID: u8 = 13;

impl<'a> Compact<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, is_strict: false }
    }

    /// Reads only what every reader understands in the same way.
    pub(super) fn strict(bytes: &'a [u8]) -> Self {
        Self { is_strict: true, ..Self::new(bytes) }
    }

    /// Number of bytes that were read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or(Fault::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn pass(&mut self, len: u64) -> Result<()> {
        let left = (self.bytes.len() - self.at) as u64;
        if len > left {
            return Err(Fault::Short);
        }
        self.at += len as usize;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::Malformed)
    }

    /// A number of a type up to `i64`.
    pub(super) fn integer(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next field of a struct: its number and type; `None` at the struct's end. `last` is the number of the
    /// previous field.
    pub(super) fn field(&mut self, last: &mut i64) -> Result<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        *last = match head >> 4 {
            0 => self.integer()?,
            step => last.saturating_add(step.into()),
        };
        Ok(Some((*last, head & 0xf)))
    }

    /// Number and type of a list's elements.
    pub(super) fn list(&mut self) -> Result<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => count.into(),
        };
        Ok((count, head & 0xf))
    }

    /// Skips a value.
    pub(super) fn skip(&mut self, kind: u8) -> Result<()> {
        self.skip_within(kind, MAX_DEPTH)
    }

    fn skip_within(&mut self, kind: u8, depth: usize) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or(Fault::Malformed)?;
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.pass(1),
            4..=6 => self.varint().map(|_| ()),
            DOUBLE => self.pass(8),
            UUID => self.pass(16),
            BINARY => {
                let len = self.varint()?;
                self.pass(len)
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(kind, depth))
            }
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0xf, depth)
                })
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip_within(kind, depth)?;
                }
                Ok(())
            }
            _ => Err(Fault::Malformed),
        }
    }

    /// In lists and maps, a boolean takes a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Result<()> {
        match kind {
            TRUE | FALSE if self.is_strict => Err(Fault::Malformed),
            TRUE | FALSE => self.pass(1),
            kind => self.skip_within(kind, depth),
        }
    }
}

/// The header of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PageHeader {
    pub(super) kind: i64,
    pub(super) unpacked_bytes: i64,
    pub(super) stored_bytes: i64,
    pub(super) crc: Option<u32>,
    pub(super) values: i64,
    pub(super) encoding: i64,
    pub(super) definition_encoding: i64,
    pub(super) repetition_encoding: i64,
    /// Only in version 2.
    pub(super) nulls: i64,
    pub(super) rows: i64,
    pub(super) definition_bytes: i64,
    pub(super) repetition_bytes: i64,
    pub(super) is_compressed: bool,
    /// Only for dictionaries.
    pub(super) is_sorted: bool,
    /// Which of the three kinds of headers are there.
    pub(super) has: [bool; 3],
}

pub(super) const DATA_PAGE: i64 = 0;
pub(super) const DICTIONARY_PAGE: i64 = 2;
pub(super) const DATA_PAGE_V2: i64 = 3;

impl PageHeader {
    /// The header at the start of `bytes`, and its length.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, usize)> {
        let mut input = Compact::new(bytes);
        let mut header = Self { is_compressed: true, ..Self::default() };
        let mut last = 0;
        while let Some((field, kind)) = input.field(&mut last)? {
            match (field, kind) {
                (1, I32) => header.kind = input.integer()?,
                (2, I32) => header.unpacked_bytes = input.integer()?,
                (3, I32) => header.stored_bytes = input.integer()?,
                (4, I32) => header.crc = Some(input.integer()? as u32),
                (5, STRUCT) => header.data_page(&mut input)?,
                (7, STRUCT) => header.dictionary_page(&mut input)?,
                (8, STRUCT) => header.data_page_v2(&mut input)?,
                (_, kind) => input.skip(kind)?,
            }
        }
        Ok((header, input.position()))
    }

    fn data_page(&mut self, input: &mut Compact<'_>) -> Result<()> {
        self.has[0] = true;
        let mut last = 0;
        while let Some((field, kind)) = input.field(&mut last)? {
            match (field, kind) {
                (1, I32) => self.values = input.integer()?,
                (2, I32) => self.encoding = input.integer()?,
                (3, I32) => self.definition_encoding = input.integer()?,
                (4, I32) => self.repetition_encoding = input.integer()?,
                (_, kind) => input.skip(kind)?,
            }
        }
        Ok(())
    }

    fn dictionary_page(&mut self, input: &mut Compact<'_>) -> Result<()> {
        self.has[1] = true;
        let mut last = 0;
        while let Some((field, kind)) = input.field(&mut last)? {
            match (field, kind) {
                (1, I32) => self.values = input.integer()?,
                (2, I32) => self.encoding = input.integer()?,
                (3, kind @ (TRUE | FALSE)) => self.is_sorted = kind == TRUE,
                (_, kind) => input.skip(kind)?,
            }
        }
        Ok(())
    }

    fn data_page_v2(&mut self, input: &mut Compact<'_>) -> Result<()> {
        self.has[2] = true;
        let mut last = 0;
        while let Some((field, kind)) = input.field(&mut last)? {
            match (field, kind) {
                (1, I32) => self.values = input.integer()?,
                (2, I32) => self.nulls = input.integer()?,
                (3, I32) => self.rows = input.integer()?,
                (4, I32) => self.encoding = input.integer()?,
                (5, I32) => self.definition_bytes = input.integer()?,
                (6, I32) => self.repetition_bytes = input.integer()?,
                (7, kind @ (TRUE | FALSE)) => self.is_compressed = kind == TRUE,
                (_, kind) => input.skip(kind)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn number(number: usize) -> [u8; 3] {
        let twice = number * 2;
        assert!(twice < 1 << 14);
        [0x15, twice as u8 | 0x80, (twice >> 7) as u8]
    }

    /// The header of a page of version 1, with plain values and levels in runs.
    pub(in super::super) fn page_header(len: usize, values: usize) -> Vec<u8> {
        let of_values = [&[0x2c][..], &number(values), &[0x15, 0, 0x15, 6, 0x15, 6, 0, 0]].concat();
        [&[0x15, 0][..], &number(len), &number(len), &of_values].concat()
    }

    /// The same of version 2, with so many bytes of repetition levels, and as many records as values.
    pub(in super::super) fn page_header_v2(len: usize, values: usize, repetition: usize) -> Vec<u8> {
        let of_values = [number(values), number(0), number(values), number(0), number(0), number(repetition)].concat();
        [&[0x15, 6][..], &number(len), &number(len), &[0x5c], &of_values, &[0x12, 0, 0]].concat()
    }

    #[test]
    fn what_ends_too_early_says_so_and_deep_nesting_ends() {
        // type 0, 20 bytes, 10 stored, a data page of 3 values with statistics that hold an unknown struct.
        let header =
            [0x15, 0, 0x15, 40, 0x15, 20, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0x1c, 0x18, 2, 9, 9, 0, 0, 0];
        let (parsed, len) = PageHeader::parse(&header).unwrap();
        assert_eq!((len, parsed.values, parsed.unpacked_bytes, parsed.stored_bytes), (header.len(), 3, 20, 10));
        assert_eq!((parsed.definition_encoding, parsed.has), (3, [true, false, false]));
        for len in 0..header.len() {
            assert_eq!(PageHeader::parse(&header[..len]), Err(Fault::Short), "{len} bytes");
        }
        assert_eq!(PageHeader::parse(&[0x1c; 1000]), Err(Fault::Malformed));
        assert_eq!(PageHeader::parse(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Err(Fault::Short));
        // A list of booleans that take no byte each would never end.
        assert_eq!(PageHeader::parse(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Err(Fault::Short));
    }
}
