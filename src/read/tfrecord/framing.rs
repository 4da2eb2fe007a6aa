//! The layout of records in a file: length, checksum of the length, bytes, checksum of the bytes.

use std::io::{BufReader, Read};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::records::RecordIndex;
use crate::storage::{Bytes, Files, Input, inflate_error};

/// Length and its checksum.
pub(super) const HEADER: usize = 12;

/// Size of a record in addition to its bytes.
pub(super) const FRAME: u64 = 16;

/// CRC-32C, masked like TensorFlow's, so that data that contains checksums can be checked as well.
fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Number of bytes of the record that begins with `head`; `None` if the checksum shows that this is not a length.
pub(super) fn length(head: &[u8]) -> Option<u64> {
    let (length, rest) = head.split_first_chunk::<8>()?;
    let found = u32::from_le_bytes(*rest.first_chunk()?);
    (found == checksum(length)).then(|| u64::from_le_bytes(*length))
}

/// The bytes of a record; `framed` begins with its length, and may end inside it.
///
/// # Errors
///
/// [`ErrorKind::Data`] for a record that is cut off or damaged.
pub(super) fn unframe(framed: &[u8]) -> Result<&[u8]> {
    let fault = |message: String| Err(Error::new(ErrorKind::Data, message));
    if framed.len() < HEADER {
        return fault(format!("{CUT}: {} bytes are left of it", framed.len()));
    }
    let Some(len) = length(framed) else { return fault(DAMAGED_LENGTH.to_owned()) };
    let rest = &framed[HEADER..];
    let parts = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    match parts.and_then(|(bytes, rest)| Some((bytes, u32::from_le_bytes(*rest.first_chunk()?)))) {
        None => fault(format!("{CUT}: {} bytes are left of its {}", framed.len(), len.saturating_add(FRAME))),
        Some((bytes, found)) if checksum(bytes) != found => {
            fault("the record's checksum is wrong: it is damaged".to_owned())
        }
        Some((bytes, _)) => Ok(bytes),
    }
}

const CUT: &str = "the file ends inside this record: it is truncated";
const DAMAGED_LENGTH: &str = "the checksum of the record's length is wrong";

/// The beginning of each record. A record that the end of the file cuts off counts, too, as a bad one.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a damaged length, because the beginnings of later records are then unknown;
/// [`ErrorKind::Limit`] for a record of more than `most` bytes, and those of reading.
pub(super) fn index(files: &Files, input: &Input, most: u64, budget: &MemoryBudget) -> Result<RecordIndex> {
    let mut index = RecordIndex::new(budget)?;
    let mut heads = Heads::of(files, input)?;
    let end = input.len();
    let mut at = 0;
    while at < end {
        let located = |error: Error, index: &RecordIndex| error.at_record(index.len() as u64 - 1).at_byte(at);
        index.push(at)?;
        if end - at < HEADER as u64 {
            break;
        }
        let Some(len) = length(&heads.at(at)?) else {
            let message =
                format!("{DAMAGED_LENGTH}; the file is damaged here, and where later records begin is unknown");
            return Err(located(Error::new(ErrorKind::Format, message), &index));
        };
        let next = at.saturating_add(len).saturating_add(FRAME);
        if len > most && next <= end {
            let message = format!("a record of {len} bytes; at most {most} are read; raise max_record_bytes");
            return Err(located(Error::new(ErrorKind::Limit, message), &index));
        }
        at = next;
    }
    index.finish(end);
    Ok(index)
}

/// The largest and smallest number of bytes that are read at a time: many if records are short, few if most bytes are
/// skipped.
const MOST: usize = 256 << 10;
const FEWEST: usize = 4 << 10;

/// The beginnings of records, one after another.
struct Heads<'a> {
    input: &'a Input,
    /// For a file with slow access: all of its bytes, requested ahead, and how many have been read. Skipped bytes are
    /// requested, too, because skipping them would not be faster.
    stream: Option<(BufReader<Bytes>, u64)>,
    buffer: Vec<u8>,
    /// Where the buffer begins in the file.
    start: u64,
}

impl<'a> Heads<'a> {
    fn of(files: &Files, input: &'a Input) -> Result<Self> {
        let stream = if input.is_slow() { Some((BufReader::new(files.stream(input.path())?), 0)) } else { None };
        Ok(Self { input, stream, buffer: Vec::new(), start: 0 })
    }

    /// The header of the record at `at`, which is after the previous one and inside the file.
    fn at(&mut self, at: u64) -> Result<[u8; HEADER]> {
        let mut head = [0; HEADER];
        if let Some((stream, read)) = &mut self.stream {
            let passed = std::io::copy(&mut stream.take(at - *read), &mut std::io::sink());
            passed
                .and_then(|_| stream.read_exact(&mut head))
                .map_err(|error| inflate_error(self.input.path(), at, error))?;
            *read = at + HEADER as u64;
            return Ok(head);
        }
        let held = |bytes: &[u8], at: u64| bytes.get(usize::try_from(at).ok()?..)?.first_chunk().copied();
        if let Some(all) = self.input.slice() {
            return Ok(held(all, at).unwrap_or_default());
        }
        if let Some(head) = held(&self.buffer, at - self.start) {
            return Ok(head);
        }
        // Who comes to the end of what was read reads on from there, and more at a time.
        let is_next = at <= self.start + self.buffer.len() as u64;
        let wanted = if is_next { (self.buffer.len() * 2).clamp(FEWEST, MOST) } else { FEWEST };
        self.buffer.resize((self.input.len() - at).min(wanted as u64) as usize, 0);
        self.start = at;
        self.input.read_at(at, &mut self.buffer)?;
        Ok(held(&self.buffer, 0).unwrap_or_default())
    }
}
