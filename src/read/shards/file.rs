//! One file of records: its table, or the tables of its frames, and the parts that are decompressed as a unit.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::storage::{Access, Files, Input, Packing, inflate_error};

/// Longer records are refused.
pub(super) const MAX_RECORD_BYTES: u64 = 1 << 30;

/// Larger parts that are decompressed as a whole are refused.
pub(in crate::read) const MAX_CHUNK_BYTES: u64 = 4 << 30;

const WHAT: &str = "a decompressed shard";

/// The first bytes of a file with frames.
const FRAMED: &[u8; 8] = b"LDFZ01\0\0";

/// What an index says about a file.
#[derive(Clone, Debug)]
pub(in crate::read) struct Listed {
    pub(in crate::read) path: PathBuf,
    pub(in crate::read) records: u64,
    pub(in crate::read) packed: Packed,
    /// Bytes of the file, if the index tells.
    pub(in crate::read) bytes: Option<u64>,
}

/// How the records of a file are compressed.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::read) enum Packed {
    No,
    /// The file as a whole. The index gives the approximate number of bytes after decompression, and the maximum.
    Whole {
        packing: Packing,
        bytes: u64,
        most: u64,
    },
    /// Each record by itself, with Zstandard.
    Records,
    /// Frames of records, with Zstandard.
    Frames,
}

pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) packed: Packed,
    /// The open file. A file that is compressed as a whole is opened when it is decompressed.
    pub(super) input: Option<Input>,
    /// Where each record begins, and where the last one ends: in the file, or in the content of the frames.
    pub(super) offsets: Vec<u32>,
    pub(super) frames: Vec<Frame>,
    pub(super) bytes: u64,
}

/// Records that are compressed together.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) first: u64,
    pub(super) stored: Range<u64>,
    bytes: u64,
}

/// A decompressed part: its bytes, and where each record lies in it.
pub(super) struct Part {
    pub(super) first: u64,
    pub(super) offsets: Vec<u32>,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn read_into(input: &Input, range: Range<u64>, into: &mut Vec<u8>) -> Result<()> {
    let len = range.end - range.start;
    if len > MAX_RECORD_BYTES {
        return Err(Error::new(ErrorKind::Limit, format!("a record of {len} bytes")));
    }
    into.resize(len as usize, 0);
    input.read_at(range.start, into)
}

/// Reads to the end, which must come within `most` bytes. `foreseen` bytes are reserved. If the index gives too small a
/// number, the other bytes are counted before they are read.
fn read_bounded(
    bytes: impl Read,
    (foreseen, most): (u64, u64),
    path: &Path,
    reservation: &mut Reservation,
    into: &mut Vec<u8>,
) -> Result<()> {
    const LEAST: u64 = 1 << 20;
    let mut bytes = bytes.take(most + 1);
    while into.len() as u64 <= most {
        let len = into.len() as u64;
        // One byte more shows the end.
        let to_end = foreseen.saturating_sub(len).saturating_add(1);
        let step = if len < foreseen { to_end.min(len.max(LEAST)) } else { len.max(LEAST) }.min(most + 1 - len);
        reservation.grow_to(len + step - 1, WHAT)?;
        into.reserve_exact(step as usize);
        let read = bytes.by_ref().take(step).read_to_end(into);
        read.map_err(|error| inflate_error(path, into.len() as u64, error))?;
        if (into.len() as u64) < len + step {
            return Ok(());
        }
    }
    Err(Error::new(ErrorKind::Limit, format!("unpacks to more than {most} bytes")))
}

/// The numbers in `bytes`.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Checks that records follow one another after the table, and within the bytes that hold them.
fn check_offsets(offsets: &[u32], least: u64, end: u64) -> Result<()> {
    let is_ascending = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let first = offsets.first().copied().map_or(least, u64::from);
    let last = offsets.last().copied().map_or(0, u64::from);
    if is_ascending && first >= least && last <= end {
        return Ok(());
    }
    let message =
        format!("its table says that records lie at {first} to {last}, of {end} bytes: it is truncated or damaged");
    Err(Error::new(ErrorKind::Format, message))
}

/// Reads the table of a file of `records` records.
fn read_table(input: &Input, records: u64) -> Result<Vec<u32>> {
    let bytes = table_bytes(records).filter(|bytes| *bytes <= input.len());
    let Some(bytes) = bytes else {
        let message = format!("{} bytes, too few for the table of {records} records that the index says", input.len());
        return Err(Error::new(ErrorKind::Format, message));
    };
    let mut table = vec![0; bytes as usize];
    input.read_at(0, &mut table)?;
    offsets_of(&table, records, input.len())
}

/// Bytes of the number of records and of the table behind it.
fn table_bytes(records: u64) -> Option<u64> {
    records.checked_add(2)?.checked_mul(4)
}

/// The table in the first `bytes` of a file of `len`.
fn offsets_of(bytes: &[u8], records: u64, len: u64) -> Result<Vec<u32>> {
    let least = table_bytes(records).filter(|least| *least <= bytes.len() as u64);
    let found = numbers(bytes.get(..4).unwrap_or_default());
    let Some(least) = least.filter(|_| found.first().copied().map(u64::from) == Some(records)) else {
        let message = format!("holds {} records; the index says {records}", found.first().copied().unwrap_or(0));
        return Err(Error::new(ErrorKind::Format, message));
    };
    let offsets = numbers(&bytes[4..least as usize]);
    check_offsets(&offsets, least, len).map(|()| offsets)
}

impl File {
    pub(super) fn open(files: &Files, path: &Path, records: u64, packed: &Packed, bytes: Option<u64>) -> Result<Self> {
        let mut file = Self {
            path: path.to_owned(),
            packed: packed.clone(),
            input: None,
            offsets: Vec::new(),
            frames: Vec::new(),
            bytes: 0,
        };
        if let Packed::Whole { packing, bytes, most } = *packed {
            if bytes > MAX_CHUNK_BYTES {
                let message = format!("unpacks to {bytes} bytes; at most {MAX_CHUNK_BYTES}");
                return Err(Error::new(ErrorKind::Limit, message));
            }
            let Some(table) = table_bytes(records).filter(|table| *table <= most) else {
                let message = format!("unpacks to {most} bytes, too few for the table of {records} records");
                return Err(Error::new(ErrorKind::Format, message));
            };
            file.packed = Packed::Whole { packing, bytes: bytes.saturating_add(table).min(most), most };
            file.bytes = most;
            return Ok(file);
        }
        let input = files.open(path, Access::Read)?;
        file.bytes = input.len();
        if let Some(bytes) = bytes.filter(|bytes| *bytes != input.len()) {
            let message = format!("{} bytes; the index says {bytes}: it is truncated, or another file", input.len());
            return Err(Error::new(ErrorKind::Format, message));
        }
        match packed {
            Packed::Frames => (file.offsets, file.frames) = frames(&input, records)?,
            _ => file.offsets = read_table(&input, records)?,
        }
        file.input = Some(input);
        Ok(file)
    }

    /// The position of a record in the file.
    pub(super) fn range(&self, record: u64) -> Range<u64> {
        let at = record as usize;
        self.offsets.get(at).zip(self.offsets.get(at + 1)).map_or(0..0, |(start, end)| (*start).into()..(*end).into())
    }

    /// The frame that holds a record.
    pub(super) fn frame_of(&self, record: u64) -> (usize, &Frame) {
        let at = self.frames.partition_point(|frame| frame.first <= record).saturating_sub(1);
        (at, &self.frames[at])
    }

    /// Number of bytes of the file, or of a frame of it, after decompression, as far as the index gives it.
    pub(super) fn chunk_bytes(&self, frame: usize) -> u64 {
        match self.packed {
            Packed::Whole { bytes, .. } => bytes,
            _ => self.frames.get(frame).map_or(self.bytes, |frame| frame.bytes),
        }
    }

    /// Decompresses the file, or a frame of it.
    pub(super) fn unpack(
        &self,
        (files, budget): (&Files, &MemoryBudget),
        records: u64,
        frame: usize,
        reservation: &mut Reservation,
    ) -> Result<Part> {
        let mut bytes = Vec::new();
        let part = match (&self.packed, &self.input) {
            (Packed::Frames, Some(input)) => {
                let Frame { first, stored, bytes: most } = self.frames[frame].clone();
                let mut packed = Vec::new();
                read_into(input, stored, &mut packed)?;
                let unpacked = Packing::Zstd.unpack(Box::new(std::io::Cursor::new(packed)), budget)?;
                read_bounded(unpacked, (most, most), &self.path, reservation, &mut bytes)?;
                let end = self.frames.get(frame + 1).map_or(records, |next| next.first);
                let own = &self.offsets[first as usize..=end as usize];
                let base = own.first().copied().unwrap_or(0);
                let offsets: Vec<u32> = own.iter().map(|offset| offset - base).collect();
                check_offsets(&offsets, 0, bytes.len() as u64)?;
                Part { first, offsets, bytes }
            }
            (Packed::Whole { packing, bytes: foreseen, most }, _) => {
                let unpacked = packing.unpack(files.stream_whole(&self.path)?, budget)?;
                read_bounded(unpacked, (*foreseen, *most), &self.path, reservation, &mut bytes)?;
                bytes.shrink_to_fit();
                let offsets = offsets_of(&bytes, records, bytes.len() as u64)?;
                Part { first: 0, offsets, bytes }
            }
            _ => Part { first: 0, offsets: Vec::new(), bytes },
        };
        let held = (part.bytes.capacity() + part.offsets.capacity() * size_of::<u32>()) as u64;
        reservation.shrink_to(held);
        reservation.grow_to(held, WHAT)?;
        Ok(part)
    }
}

/// The tables of a file of frames: the positions of records in the content of all frames, and the frames.
fn frames(input: &Input, records: u64) -> Result<(Vec<u32>, Vec<Frame>)> {
    const PREFIX: u64 = 24;
    const FRAME: usize = 24;
    let fault = |message: String| Error::new(ErrorKind::Format, message);
    let mut prefix = [0; PREFIX as usize];
    if input.len() < PREFIX {
        return Err(fault(format!("{} bytes, too few for a file of frames", input.len())));
    }
    input.read_at(0, &mut prefix)?;
    let version = u16::from_le_bytes([prefix[8], prefix[9]]);
    if prefix[..8] != *FRAMED || version != 1 {
        return Err(fault(format!("no file of frames of version 1, as the index says (version {version})")));
    }
    let (found, count) = match numbers(&prefix[12..])[..] {
        [found, _, count] => (u64::from(found), u64::from(count)),
        _ => (0, 0),
    };
    if found != records {
        return Err(fault(format!("holds {found} records; the index says {records}")));
    }
    let offsets_bytes = (records + 1) * 4;
    let end = PREFIX + offsets_bytes + count * FRAME as u64;
    if end > input.len() || count > records {
        return Err(fault(format!("tables of {end} bytes in a file of {}: it is truncated or damaged", input.len())));
    }
    let mut tables = vec![0; (end - PREFIX) as usize];
    input.read_at(PREFIX, &mut tables)?;
    let (offsets, rest) = tables.split_at(offsets_bytes as usize);
    let offsets = numbers(offsets);
    let mut frames: Vec<Frame> = Vec::with_capacity(count as usize);
    let mut next = 0;
    for frame in rest.chunks_exact(FRAME) {
        let [first, items, start, high, stored, bytes] = numbers(frame)[..] else { continue };
        let start = u64::from(start) | u64::from(high) << 32;
        let stored = start..start.saturating_add(stored.into());
        let bytes = u64::from(bytes);
        if u64::from(first) != next
            || items == 0
            || stored.start < end
            || stored.end > input.len()
            || bytes > MAX_CHUNK_BYTES
        {
            return Err(fault(format!(
                "the frame of record {first} is not where the file has room for it: it is damaged"
            )));
        }
        next += u64::from(items);
        frames.push(Frame { first: first.into(), stored, bytes });
    }
    if next != records {
        return Err(fault(format!("its frames hold {next} records of {records}: it is damaged")));
    }
    check_offsets(&offsets, 0, u32::MAX.into())?;
    Ok((offsets, frames))
}
