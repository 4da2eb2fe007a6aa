//! The pages of a column chunk, found by their headers, which are checked before memory is taken for the sizes in them.

mod seek;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use crate::error::{Error, ErrorKind, Result};
use crate::read::columns::part_of;
use crate::storage::Input;
use crate::sync::Mutex;

use super::levels::{Levels, Sections};
use super::positions::{Key, Position, Positions};
use super::thrift::{DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, Fault, PageHeader};
use super::unpack::Unpacker;
use super::values::{check_times, shared_bytes};

/// Least number of bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;
/// Like [`READ_BYTES`], where only headers are read.
const HEADER_BYTES: u64 = 4 << 10;
/// Like [`READ_BYTES`], for storage where each read takes time.
const SLOW_READ_BYTES: u64 = 8 << 20;
/// Longest header of a page.
const MAX_HEADER: u64 = 16 << 20;

/// The position of the pages of a column chunk, and the properties in its footer.
#[derive(Clone)]
pub(super) struct Chunk {
    pub(super) input: Arc<Input>,
    pub(super) range: Range<u64>,
    pub(super) codec: Compression,
    /// The type in which its values are stored.
    pub(super) stored: Type,
    /// Bytes of a value, if all have the same size.
    pub(super) width: Option<u32>,
    /// Number of values, missing ones included.
    pub(super) values: u64,
    /// Whether each record has exactly one value.
    pub(super) is_flat: bool,
    pub(super) levels: Levels,
    /// Number of bytes for each value whose definition has one of these levels: a missing list of a fixed size.
    pub(super) padding: Option<(u64, Range<i16>)>,
    /// The records that are read, if these are not all.
    pub(super) part: Option<Part>,
    /// Most bytes that its pages may have together, decompressed.
    pub(super) max_bytes: u64,
}

/// Some of the records of a chunk.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) records: Range<u64>,
    /// The file's known pages.
    pub(super) positions: Arc<Positions>,
    pub(super) key: Key,
}

/// Reads one page after another. Of a part, the crate skips everything before it in one step ([`Step`]).
pub(super) struct Pages {
    chunk: Chunk,
    unpacker: Unpacker,
    at: u64,
    /// Where the header of the page at `at` begins.
    start: u64,
    /// Nothing after this position is read ahead.
    until: u64,
    /// Whether only the header of the next page may be read.
    is_header_alone: bool,
    /// Bytes that were read, and their position.
    window: (u64, Bytes),
    /// The header of the page at `at`, if it was read.
    header: Option<PageHeader>,
    /// The contents of this page, if they were read.
    contents: Option<Bytes>,
    /// Number of values in the pages before it.
    values: u64,
    /// Number of records that begin in the pages before it; `None` if that is unknown or not needed.
    record: Option<u64>,
    step: Step,
    /// Bytes that were decompressed so far, or will be when the page is decoded.
    bytes: u64,
    /// Where errors are put, because the crate passes on only their text.
    outward: Arc<Mutex<Option<Error>>>,
}

/// The crate's progress on its way to the first record of a part.
#[derive(Clone, Copy)]
enum Step {
    /// Before the first page with values.
    Dictionary,
    /// At the page where the part begins. The crate has yet to skip the records before it, as if they were one page; if
    /// it reads pages instead, they are those from this position on.
    Skip(Position, u64),
    Pages,
}

impl Pages {
    pub(super) fn new(chunk: Chunk, outward: Arc<Mutex<Option<Error>>>) -> Result<Self> {
        let mut window = (chunk.range.start, Bytes::new());
        if let Some(bytes) = part_of(&chunk.input, chunk.range.clone()) {
            window.1 = bytes;
        }
        let (unpacker, at) = (Unpacker::new(chunk.codec)?, chunk.range.start);
        let until = chunk.part.as_ref().and_then(|part| part.positions.behind(part.key, part.records.end));
        Ok(Self {
            unpacker,
            at,
            start: at,
            until: until.unwrap_or(chunk.range.end),
            is_header_alone: false,
            window,
            header: None,
            contents: None,
            values: 0,
            record: chunk.part.is_some().then_some(0),
            step: if chunk.part.is_some() { Step::Dictionary } else { Step::Pages },
            bytes: 0,
            chunk,
            outward,
        })
    }

    #[cold]
    fn outward(&self, error: Error) -> ParquetError {
        let text = ParquetError::General(error.to_string());
        self.outward.lock().get_or_insert(error);
        text
    }

    #[cold]
    fn fault(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Data, message.into()).at_byte(self.at)
    }

    /// Reads `len` bytes at `at`, which lie within the chunk.
    fn read(&mut self, at: u64, len: u64) -> Result<Bytes> {
        let (start, bytes) = &self.window;
        let is_here = at >= *start && at - start + len <= bytes.len() as u64;
        if !is_here {
            let least = match self.chunk.input.is_slow() {
                true => SLOW_READ_BYTES,
                false if self.is_header_alone => HEADER_BYTES,
                false => READ_BYTES,
            };
            let most = least.min(self.until.saturating_sub(at));
            let mut buffer = vec![0; len.max(most).min(self.chunk.range.end - at) as usize];
            self.chunk.input.read_at(at, &mut buffer)?;
            self.window = (at, buffer.into());
        }
        let from = (at - self.window.0) as usize;
        Ok(self.window.1.slice(from..from + len as usize))
    }

    /// Reads the header of the next page; `false` if there is none.
    fn look(&mut self) -> Result<bool> {
        while self.header.is_none() {
            let left = self.chunk.range.end - self.at;
            if left == 0 {
                return match self.values == self.chunk.values {
                    true => Ok(false),
                    false => {
                        let (found, said) = (self.values, self.chunk.values);
                        Err(self.fault(format!("the pages hold {found} values, but the footer says {said}")))
                    }
                };
            }
            self.start = self.at;
            let mut len = left.min(256);
            let (header, header_len) = loop {
                let bytes = self.read(self.at, len)?;
                match PageHeader::parse(&bytes) {
                    Ok(found) => break found,
                    Err(Fault::Short) if len < left.min(MAX_HEADER) => len = left.min(len * 8),
                    Err(_) => return Err(self.fault("this is not a page header")),
                }
            };
            self.at += header_len as u64;
            self.check(&header)?;
            match header.kind {
                DATA_PAGE | DICTIONARY_PAGE | DATA_PAGE_V2 => self.header = Some(header),
                // Pages of indexes. Nobody writes them.
                _ => self.at += header.stored_bytes as u64,
            }
        }
        Ok(true)
    }

    fn check(&self, header: &PageHeader) -> Result<()> {
        let left = (self.chunk.range.end - self.at) as i64;
        let is_here = match header.kind {
            DATA_PAGE => header.has[0],
            DICTIONARY_PAGE => header.has[1],
            DATA_PAGE_V2 => header.has[2],
            _ => true,
        };
        let levels = header.definition_bytes.checked_add(header.repetition_bytes);
        if !is_here
            || !(0..=left).contains(&header.stored_bytes)
            || header.unpacked_bytes < 0
            || !(0..=i64::from(u32::MAX)).contains(&header.values)
            || !(0..=header.values).contains(&header.nulls)
            || !(0..=header.values).contains(&header.rows)
            || header.definition_bytes < 0
            || header.repetition_bytes < 0
            || levels.is_none_or(|levels| levels > header.unpacked_bytes.min(header.stored_bytes))
        {
            return Err(self.fault("the header of a page is impossible"));
        }
        if header.kind == DICTIONARY_PAGE {
            let least = match self.chunk.stored {
                Type::BYTE_ARRAY => 4,
                _ => self.chunk.width.unwrap_or(0).into(),
            };
            if header.values.saturating_mul(least) > header.unpacked_bytes {
                return Err(self.fault("a dictionary of more values than its page has room for"));
            }
            if self.values > 0 {
                return Err(self.fault("a dictionary after values"));
            }
        } else {
            if self.values + header.values as u64 > self.chunk.values {
                let said = self.chunk.values;
                return Err(self.fault(format!("the pages hold more than the {said} values that the footer says")));
            }
        }
        Ok(())
    }

    fn next_page(&mut self) -> Result<Option<Page>> {
        self.begin()?;
        if let Step::Skip(first, _) = self.step {
            self.step = Step::Pages;
            self.go_to(first);
        }
        if !self.look()? {
            return Ok(None);
        }
        let Some(header) = self.header.clone() else { return Ok(None) };
        self.count(self.decoded_bytes(&header))?;
        let contents = self.contents(&header)?;
        let page = self.page(&header, contents)?;
        self.check_values(&page)?;
        let rows = self.noted_rows()?;
        self.pass(rows);
        Ok(Some(page))
    }

    /// Bytes that a page takes when its values are decoded.
    fn decoded_bytes(&self, header: &PageHeader) -> u64 {
        // Lists take two levels of 16 bits in addition to each value. The number of values per record is not known.
        let per_value = 4 + u64::from(self.chunk.width.unwrap_or(16));
        let decoded = if self.chunk.is_flat { 0 } else { (header.values as u64).saturating_mul(per_value) };
        decoded.max(header.unpacked_bytes.max(header.stored_bytes) as u64)
    }

    /// Reads and decompresses the page whose header was read.
    fn contents(&mut self, header: &PageHeader) -> Result<Bytes> {
        if let Some(contents) = &self.contents {
            return Ok(contents.clone());
        }
        if self.decoded_bytes(header) > self.chunk.max_bytes {
            return Err(self.too_much());
        }
        let stored = self.read(self.at, header.stored_bytes as u64)?;
        if header.crc.is_some_and(|crc| crc != crc32fast::hash(&stored)) {
            return Err(self.fault("a page is not what was written: its checksum is wrong"));
        }
        let levels = match header.kind {
            DATA_PAGE_V2 => (header.definition_bytes + header.repetition_bytes) as usize,
            _ => 0,
        };
        let contents = if self.unpacker.is_plain() || header.kind == DATA_PAGE_V2 && !header.is_compressed {
            stored
        } else {
            let mut unpacked = stored[..levels].to_vec();
            let len = header.unpacked_bytes as usize - levels;
            // If all values are missing, some writers store nothing.
            if len > 0 {
                let written = self.unpacker.unpack(&stored[levels..], len, &mut unpacked);
                written.map_err(|error| error.at_byte(self.at))?;
            }
            unpacked.into()
        };
        self.contents = Some(contents.clone());
        Ok(contents)
    }

    /// Counts memory that decoded values take.
    fn count(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.chunk.max_bytes { Ok(()) } else { Err(self.too_much()) }
    }

    #[cold]
    fn too_much(&self) -> Error {
        let message = format!(
            "more than max_chunk_bytes = {} for the values of one column that belong together; raise it if you trust \
             the file",
            self.chunk.max_bytes
        );
        Error::new(ErrorKind::Limit, message).at_byte(self.at)
    }

    /// Checks what must be known about values before they are decoded.
    fn check_values(&mut self, page: &Page) -> Result<()> {
        let is_plain = page.encoding() == Encoding::PLAIN || page.is_dictionary_page();
        let is_time = self.chunk.stored == Type::INT96 && is_plain;
        let is_shared = page.encoding() == Encoding::DELTA_BYTE_ARRAY;
        if !is_time && !is_shared && self.chunk.padding.is_none() {
            return Ok(());
        }
        let sections = self.sections(page).ok_or_else(|| self.fault("a page that ends within its levels"))?;
        let (definition, values, count) = (sections.definition, sections.values, page.num_values().into());
        if let Some((each, levels)) = self.chunk.padding.clone().filter(|_| !page.is_dictionary_page()) {
            let missing = self.chunk.levels.defined_in(levels, definition, count);
            self.count(missing.saturating_mul(each))?;
        }
        if is_time {
            check_times(values).map_err(|error| error.at_byte(self.at))?;
        }
        if is_shared { self.count(shared_bytes(values, count, self.chunk.max_bytes)) } else { Ok(()) }
    }

    fn sections<'a>(&self, page: &'a Page) -> Option<Sections<'a>> {
        match page {
            Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
                let encodings = [*rep_level_encoding, *def_level_encoding];
                self.chunk.levels.split(buf, (*num_values).into(), encodings)
            }
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let (repetition, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
                let (definition, values) = rest.split_at_checked(*def_levels_byte_len as usize)?;
                Some(Sections { repetition, definition, values })
            }
            Page::DictionaryPage { buf, .. } => Some(Sections { repetition: &[], definition: &[], values: buf }),
        }
    }

    fn page(&self, header: &PageHeader, buf: Bytes) -> Result<Page> {
        let encoding = |id| encoding(id).ok_or_else(|| self.fault(format!("an unknown encoding, number {id}")));
        let num_values = header.values as u32;
        Ok(match header.kind {
            DICTIONARY_PAGE => Page::DictionaryPage {
                buf,
                num_values,
                encoding: encoding(header.encoding)?,
                is_sorted: header.is_sorted,
            },
            DATA_PAGE => Page::DataPage {
                buf,
                num_values,
                encoding: encoding(header.encoding)?,
                def_level_encoding: encoding(header.definition_encoding)?,
                rep_level_encoding: encoding(header.repetition_encoding)?,
                statistics: None,
            },
            _ => Page::DataPageV2 {
                buf,
                num_values,
                encoding: encoding(header.encoding)?,
                num_nulls: header.nulls as u32,
                num_rows: header.rows as u32,
                def_levels_byte_len: header.definition_bytes as u32,
                rep_levels_byte_len: header.repetition_bytes as u32,
                is_compressed: header.is_compressed,
                statistics: None,
            },
        })
    }
}

fn encoding(id: i64) -> Option<Encoding> {
    Some(match id {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        #[expect(deprecated, reason = "levels of old files are written so")]
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return None,
    })
}

impl Iterator for Pages {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        self.next_page().map_err(|error| self.outward(error))
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        self.begin().map_err(|error| self.outward(error))?;
        if let Step::Skip(_, records) = self.step {
            return Ok(Some(PageMetadata { num_rows: Some(records as usize), num_levels: None, is_dict: false }));
        }
        if !self.look().map_err(|error| self.outward(error))? {
            return Ok(None);
        }
        Ok(self.header.as_ref().map(|header| {
            let values = Some(header.values as usize);
            match header.kind {
                DICTIONARY_PAGE => PageMetadata { num_rows: None, num_levels: None, is_dict: true },
                // Some writers gave the number of values of lists as that of records, and cut records between pages.
                DATA_PAGE_V2 if self.chunk.is_flat => {
                    PageMetadata { num_rows: values, num_levels: values, is_dict: false }
                }
                _ => PageMetadata { num_rows: None, num_levels: values, is_dict: false },
            }
        }))
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        self.skip_page().map_err(|error| self.outward(error))
    }
}

/// The pages of a single column chunk, in the form that the crate needs.
pub(super) struct OneChunk(pub(super) Option<Pages>);

impl Iterator for OneChunk {
    type Item = parquet::errors::Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}
