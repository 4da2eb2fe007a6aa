//! The messages of Arrow's files and streams: their positions, checked before any of their contents is trusted.

use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::{MessageHeader, MetadataVersion, RecordBatch};
use arrow_schema::Schema;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::columns::part_of;
use crate::storage::Input;

use super::lengths::{broken, check_records};

const MAGIC: [u8; 6] = *b"ARROW1";
const FEATHER_1: [u8; 4] = *b"FEA1";
/// The first bytes of each message, except for old ones.
const CONTINUES: u32 = u32::MAX;
/// Arrow 0.17's mark for compressed buffers. Readers that do not know it take them for uncompressed ones.
const OLD_COMPRESSION: &str = "ARROW:experimental_compression";
/// Bytes of the footer's length and the magic number.
const TAIL: u64 = 10;
/// Longest description of a message; the schema of very many columns may be this long.
const MAX_HEADER: u64 = 256 << 20;

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: u64,
    /// Bytes of its description, including the words that hold its length.
    pub(super) header_len: u64,
    pub(super) body_len: u64,
}

impl Place {
    pub(super) fn end(&self) -> u64 {
        self.start + self.header_len + self.body_len
    }
}

pub(super) enum Message {
    Dictionary(Place),
    /// With its number of records.
    Records(Place, u64),
}

/// Whether a file is an Arrow file, or an Arrow stream that begins with its schema.
pub(super) fn is_arrow(head: &[u8]) -> bool {
    if head.starts_with(&MAGIC) || head.starts_with(&FEATHER_1) {
        return true;
    }
    let is_schema = |flat| arrow_ipc::root_as_message(flat).is_ok_and(|found| found.header_as_schema().is_some());
    let Some((first, rest)) = head.split_first_chunk::<4>() else { return false };
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
    match rest.split_first_chunk::<4>() {
        Some((len, rest)) if *first == CONTINUES.to_le_bytes() => {
            let len = word(len);
            // A schema longer than these bytes is not refused for that.
            len >= 8 && rest.get(..len).map_or(len < 16 << 20, is_schema)
        }
        // Until 2019, streams began with the length alone, which is no mark.
        _ => word(first) >= 8 && rest.get(..word(first)).is_some_and(is_schema),
    }
}

/// The schema, and all messages after it.
pub(super) fn messages(input: &Arc<Input>, budget: &MemoryBudget) -> Result<(Schema, MetadataVersion, Vec<Message>)> {
    let mut head = [0; 8];
    let head_len = input.len().min(8) as usize;
    input.read_at(0, &mut head[..head_len])?;
    if head.starts_with(&FEATHER_1) {
        let message = "Feather version 1, which is not read; write it again with pyarrow.feather.write_feather";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if head.starts_with(&MAGIC) { of_file(input, budget) } else { of_stream(input, budget) }
}

fn bytes_at(input: &Input, start: u64, len: u64) -> Result<Vec<u8>> {
    if start.checked_add(len).is_none_or(|end| end > input.len()) {
        let message = format!("{len} bytes should be here, but the file ends before: it was cut off");
        return Err(broken(message).at_byte(start));
    }
    let mut bytes = vec![0; len as usize];
    input.read_at(start, &mut bytes)?;
    Ok(bytes)
}

fn of_file(input: &Arc<Input>, budget: &MemoryBudget) -> Result<(Schema, MetadataVersion, Vec<Message>)> {
    let end = input.len().checked_sub(TAIL).filter(|end| *end >= 8);
    let end = end.ok_or_else(|| broken("an Arrow file that ends before it begins"))?;
    let tail = bytes_at(input, end, TAIL)?;
    if !tail.ends_with(&MAGIC) {
        return Err(broken("the file does not end as an Arrow file does: it was cut off, or is still being written"));
    }
    let len = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let start = end.checked_sub(len).filter(|start| *start >= 8);
    let start = start.ok_or_else(|| broken(format!("a footer of {len} bytes in a file of {}", input.len())))?;
    let _reservation = budget.reserve(len * 4, "the footer of an Arrow file")?;
    let footer = bytes_at(input, start, len)?;
    let damaged = |what: &dyn std::fmt::Display| broken(format!("the footer is damaged: {what}")).at_byte(start);
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|error| damaged(&error))?;
    let schema = footer.schema().ok_or_else(|| damaged(&"it has no schema"))?;
    let schema = schema_of(schema, damaged)?;
    let mut found = Vec::new();
    let blocks = footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten());
    let mut version = footer.version();
    let mut left = start;
    for (nth, block) in blocks.enumerate() {
        let number = |value: i64| u64::try_from(value).ok().filter(|value| *value <= start);
        let place = number(block.offset()).zip(number(block.metaDataLength().into())).zip(number(block.bodyLength()));
        let place = place.map(|((start, header_len), body_len)| Place { start, header_len, body_len });
        let place = place.filter(|place| place.end() <= start && place.start >= 8);
        let place = place.ok_or_else(|| damaged(&format!("message {nth} lies outside of the file")))?;
        let len = place.header_len + place.body_len;
        let rest = left.checked_sub(len).filter(|_| place.header_len <= MAX_HEADER);
        left = rest.ok_or_else(|| damaged(&format!("message {nth} is longer than what others leave of the file")))?;
        let header = bytes_at(input, place.start, place.header_len)?;
        let (message, own_version) = kind(&header, place, &schema)?;
        // The footers of some old files have no version.
        version = if version == MetadataVersion::V1 { own_version } else { version };
        found.extend(message);
    }
    Ok((schema, version, found))
}

fn of_stream(input: &Arc<Input>, budget: &MemoryBudget) -> Result<(Schema, MetadataVersion, Vec<Message>)> {
    let mut schema: Option<(Schema, MetadataVersion)> = None;
    let mut found = Vec::new();
    let mut at = 0;
    let mut reservation = budget.empty_reservation();
    loop {
        let left = input.len() - at;
        if left < 4 {
            let message = match schema {
                Some(_) => "the stream ends without its end marker: it was cut off, or is still being written",
                None => "this is neither an Arrow file nor a stream",
            };
            return Err(broken(message).at_byte(at));
        }
        let mut words = [0; 8];
        input.read_at(at, &mut words[..left.min(8) as usize])?;
        let word = |at: usize| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
        let (len, prefix) = if word(0) == CONTINUES { (word(4), 8) } else { (word(0), 4) };
        if word(0) == CONTINUES && left < 8 {
            return Err(broken("the stream was cut off").at_byte(at));
        }
        if len == 0 {
            return end_of_stream(input, at + prefix, schema).map(|(schema, version)| (schema, version, found));
        }
        let header_len = prefix + u64::from(len);
        if header_len > left || u64::from(len) > MAX_HEADER {
            let message = match schema {
                Some(_) => format!("a message of {len} bytes, where the file has {left} more: it was cut off"),
                None => "this is neither an Arrow file nor a stream".to_owned(),
            };
            return Err(broken(message).at_byte(at));
        }
        let header = bytes_at(input, at, header_len)?;
        let message = parse(&header).map_err(|error| error.at_byte(at))?;
        let body_len = u64::try_from(message.bodyLength()).ok().filter(|len| *len <= left - header_len);
        let body_len = body_len.ok_or_else(|| {
            broken(format!("a message of {} bytes, beyond the file's end: it was cut off", message.bodyLength()))
                .at_byte(at)
        })?;
        let place = Place { start: at, header_len, body_len };
        match (&schema, message.header_as_schema()) {
            (None, Some(found)) => {
                let found = schema_of(found, |error| broken(format!("the schema is damaged: {error}")))?;
                schema = Some((found, message.version()));
            }
            (None, None) => return Err(broken("the stream does not begin with its schema").at_byte(at)),
            (Some(_), Some(_)) => return Err(broken("a second schema in the stream").at_byte(at)),
            (Some((schema, _)), None) => found.extend(kind(&header, place, schema)?.0),
        }
        reservation.grow_to((found.len() * size_of::<Message>()) as u64 * 2, "the messages of an Arrow stream")?;
        at = place.end();
    }
}

/// The crate does not convert the byte order of numbers.
fn schema_of(written: arrow_ipc::Schema<'_>, damaged: impl Fn(&dyn std::fmt::Display) -> Error) -> Result<Schema> {
    if !written.endianness().equals_to_target_endianness() {
        let message = "its numbers lie in another byte order than this machine's (it is big-endian, most likely), which is not \
                       read; write it again, such as with pyarrow on this machine";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    for field in written.fields().into_iter().flatten() {
        if let Some(bits) = wide_integer(field) {
            let message = format!(
                "integers of {bits} bits, which are not read; write the file again without this column, or with another type"
            );
            return Err(Error::new(ErrorKind::Unsupported, message).at_column(field.name().unwrap_or_default()));
        }
    }
    arrow_ipc::convert::try_fb_to_schema(written).map_err(|error| damaged(&error))
}

/// The bits of integers in a column that the crate has no type for, and therefore refuses the whole schema: polars
/// writes some of 128 bits.
fn wide_integer(field: arrow_ipc::Field<'_>) -> Option<i32> {
    let bits = field.type_as_int().map(|int| int.bitWidth()).filter(|bits| matches!(bits, 128 | 256));
    bits.or_else(|| field.children().into_iter().flatten().find_map(wide_integer))
}

fn end_of_stream(
    input: &Input,
    at: u64,
    schema: Option<(Schema, MetadataVersion)>,
) -> Result<(Schema, MetadataVersion)> {
    let rest = input.len() - at;
    let padding = bytes_at(input, at, rest.min(8))?;
    if rest > 8 || padding.iter().any(|byte| *byte != 0) {
        return Err(broken(format!("{rest} bytes after the stream's end marker")).at_byte(at));
    }
    schema.ok_or_else(|| broken("a stream without a schema"))
}

/// The description of a message; `header` also holds its length.
fn parse(header: &[u8]) -> Result<arrow_ipc::Message<'_>> {
    let prefix = if header.starts_with(&CONTINUES.to_le_bytes()) { 8 } else { 4 };
    let flat = header.get(prefix..).ok_or_else(|| broken("a message without a description"))?;
    arrow_ipc::root_as_message(flat).map_err(|error| broken(format!("a message is damaged: {error}")))
}

fn kind(header: &[u8], place: Place, schema: &Schema) -> Result<(Option<Message>, MetadataVersion)> {
    let message = parse(header).map_err(|error| error.at_byte(place.start))?;
    let mut notes = message.custom_metadata().into_iter().flatten();
    if notes.any(|note| note.key() == Some(OLD_COMPRESSION)) {
        let message = "compressed in a way of 2020 that is not read; write it again with pyarrow.feather.write_feather";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let found = match message.header_type() {
        MessageHeader::DictionaryBatch => Some(Message::Dictionary(place)),
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch();
            let found = batch.and_then(|batch| Some((batch, u64::try_from(batch.length()).ok()?)));
            let (batch, records) =
                found.ok_or_else(|| broken("a batch with a negative number of records").at_byte(place.start))?;
            check_records(&batch, records, schema, message.version(), place.body_len)
                .map_err(|error| error.at_byte(place.start))?;
            Some(Message::Records(place, records))
        }
        MessageHeader::NONE => None,
        other => {
            let message = format!("a message of kind {other:?}, which is not read");
            return Err(Error::new(ErrorKind::Unsupported, message).at_byte(place.start));
        }
    };
    Ok((found, message.version()))
}

/// The bytes of a message.
pub(super) struct Body {
    header: Vec<u8>,
    /// Positions in the description count from here.
    pub(super) bytes: Buffer,
    is_borrowed: bool,
}

impl Body {
    pub(super) fn read(input: &Arc<Input>, place: &Place, max_bytes: u64) -> Result<Self> {
        let header = bytes_at(input, place.start, place.header_len)?;
        let start = place.start + place.header_len;
        let borrowed = part_of(input, start..start + place.body_len);
        if borrowed.is_none() && place.body_len > max_bytes {
            return Err(too_much(place.body_len, max_bytes));
        }
        let mut is_borrowed = borrowed.is_some();
        let bytes = match borrowed {
            Some(bytes) => Buffer::from(bytes),
            None => Buffer::from_vec(bytes_at(input, start, place.body_len)?),
        };
        let message = parse(&header)?;
        let batch = message.header_as_record_batch();
        let batch = batch.or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
        if let Some(batch) = batch {
            check(&batch, &bytes, max_bytes)?;
            is_borrowed &= batch.compression().is_none();
        }
        Ok(Self { header, bytes, is_borrowed })
    }

    pub(super) fn message(&self) -> Result<arrow_ipc::Message<'_>> {
        parse(&self.header)
    }

    /// Whether what is decoded from it borrows the file's bytes.
    pub(super) fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }
}

#[cold]
fn too_much(bytes: u64, max_bytes: u64) -> Error {
    let message = format!(
        "a record batch of {bytes} bytes, more than max_chunk_bytes = {max_bytes}; raise it if you trust the file"
    );
    Error::new(ErrorKind::Limit, message)
}

/// Checks that a batch's buffers lie in its body, and do not unpack to more than is allowed.
fn check(batch: &RecordBatch<'_>, body: &[u8], max_bytes: u64) -> Result<()> {
    let mut unpacked = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let stored = range.and_then(|(start, len)| body.get(start..start.checked_add(len)?));
        let stored = stored.ok_or_else(|| broken("a buffer lies outside of its record batch"))?;
        if let (Some(_), Some(len)) = (batch.compression(), stored.first_chunk::<8>()) {
            // -1 means that it is not compressed.
            let len = i64::from_le_bytes(*len);
            let len = if len == -1 { stored.len() as u64 } else { len as u64 };
            unpacked = unpacked.saturating_add(len);
        }
    }
    if unpacked > max_bytes { Err(too_much(unpacked, max_bytes)) } else { Ok(()) }
}
