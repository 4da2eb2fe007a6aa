//! Files of records with a table of where each begins, by which MDS and LitData pack samples: `u32` records, `u32` offsets of
//! each and of the end, and the records.
//!
//! Plain files are read record by record. What is compressed (a file as a whole, or frames of records in it) is decompressed
//! once for all workers and kept within a bound.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::random::{hash_numbers, hash_texts};
use crate::storage::{Access, Chunk, Chunks, Files, Input, Needs, Packing, inflate_error};
use crate::sync::Arc;

use super::{Fingerprint, check_record, parallel};

/// A record that is longer is refused.
const MAX_RECORD_BYTES: u64 = 1 << 30;

/// A decompressed record's memory is kept for the next job's up to this.
const KEPT_BYTES: usize = 1 << 20;

/// What is decompressed at a time is refused beyond this.
const MAX_CHUNK_BYTES: u64 = 4 << 30;

/// What an index says of a file.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) path: PathBuf,
    pub(super) records: u64,
    pub(super) packed: Packed,
    /// Bytes of the file, where the index says it.
    pub(super) bytes: Option<u64>,
}

/// How the records of a file are compressed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Packed {
    No,
    /// The file as a whole, to so many bytes.
    Whole(Packing, u64),
    /// Each record by itself, by Zstandard.
    Records,
    /// Frames of records, by Zstandard.
    Frames,
}

/// Many such files, whose records follow one another.
pub(super) struct Shards {
    files: Vec<File>,
    /// Where each file begins, and at last the number of all records.
    starts: Vec<u64>,
    storage: Files,
    chunks: Chunks<(usize, usize), Part>,
    /// What decompressing counts against.
    budget: MemoryBudget,
    #[expect(dead_code, reason = "held until the shards drop")]
    reservation: Reservation,
}

struct File {
    path: PathBuf,
    packed: Packed,
    /// The open file; those that are compressed as a whole are opened when they are decompressed.
    input: Option<Input>,
    /// Where each record begins, and where the last one ends: in the file, or in what frames hold.
    offsets: Vec<u32>,
    frames: Vec<Frame>,
    bytes: u64,
}

/// Records that are compressed together.
#[derive(Clone, Debug)]
struct Frame {
    first: u64,
    stored: Range<u64>,
    bytes: u64,
}

/// What was decompressed together: where each record lies in it, and the bytes.
struct Part {
    first: u64,
    offsets: Vec<u32>,
    bytes: Vec<u8>,
}

/// The records that a worker has read.
#[derive(Default)]
pub(super) struct ShardBytes {
    records: Vec<Record>,
    held: Vec<Arc<Chunk<Part>>>,
    packed: Vec<u8>,
    unpacked: Unpacked,
}

/// The memory of records that are decompressed one by one.
#[derive(Default)]
struct Unpacked {
    bytes: u64,
    reservation: Option<Reservation>,
}

/// One record: bytes of its own, or a part of a chunk.
#[derive(Default)]
struct Record {
    own: Vec<u8>,
    /// Which of the chunks that are held, and where in it.
    held: Option<(usize, Range<usize>)>,
}

/// What frames begin with.
const FRAMED: &[u8; 8] = b"LDFZ01\0\0";

impl Shards {
    /// Opens the files, and reads the tables of those that are not compressed as a whole.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a file that is not what the index says.
    pub(super) fn open(files: &Files, listed: Vec<Listed>, cache_bytes: u64, budget: &MemoryBudget) -> Result<Self> {
        let mut starts = vec![0u64];
        for file in &listed {
            let next = starts.last().copied().unwrap_or(0).checked_add(file.records);
            let next =
                next.ok_or_else(|| Error::new(ErrorKind::Limit, "more records than a number of 64 bits counts"))?;
            starts.push(next);
        }
        let what = "where the records lie in their files";
        let mut reservation = budget.reserve(0, what)?;
        let mut held = 0;
        let mut opened = Vec::with_capacity(listed.len());
        parallel::in_order(
            parallel::thread_count(None),
            listed.len() as u64,
            |(): &mut (), nth| {
                let Listed { path, records, packed, bytes } = &listed[nth as usize];
                File::open(files, path, *records, packed, *bytes).map_err(|error| error.at_path(path))
            },
            |file: File| {
                held += (file.offsets.len() * size_of::<u32>() + file.frames.len() * size_of::<Frame>()) as u64;
                reservation.grow_to(held, what)?;
                opened.push(file);
                Ok(())
            },
        )?;
        let chunks = Chunks::new(cache_bytes, budget);
        Ok(Self { files: opened, starts, storage: files.clone(), chunks, budget: budget.clone(), reservation })
    }

    pub(super) fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The file of a record, and its number in it.
    fn locate(&self, record: u64) -> (usize, u64) {
        let file = self.starts[..self.files.len()].partition_point(|start| *start <= record).saturating_sub(1);
        (file, record - self.starts[file])
    }

    pub(super) fn need(&self, records: &[u64], needs: &mut Needs) {
        for record in records.iter().filter(|record| **record < self.len()) {
            let (file, record) = self.locate(*record);
            let file = &self.files[file];
            if let Some(input) = &file.input {
                match file.packed {
                    Packed::Frames => input.need(file.frame_of(record).1.stored.clone(), needs),
                    _ => input.need(file.range(record), needs),
                }
            }
        }
    }

    /// Reads a record of a job.
    pub(super) fn fetch(&self, records: &[u64], nth: usize, into: &mut ShardBytes) -> Result<()> {
        check_record(records[nth], self.len())?;
        if nth == 0 {
            into.held.clear();
            into.unpacked.give_up(&mut into.records);
        }
        if into.records.len() <= nth {
            into.records.resize_with(nth + 1, Record::default);
        }
        let ShardBytes { records: read, held, packed, unpacked } = into;
        let into = &mut read[nth];
        into.held = None;
        let (number, record) = self.locate(records[nth]);
        let file = &self.files[number];
        let chunk = match (&file.packed, &file.input) {
            (Packed::No, Some(input)) => return read_into(input, file.range(record), &mut into.own),
            (Packed::Records, Some(input)) => {
                read_into(input, file.range(record), packed)?;
                let bytes =
                    Packing::Zstd.unpack(Box::new(std::io::Cursor::new(std::mem::take(packed))), &self.budget)?;
                return unpacked.read(bytes, &file.path, &self.budget, &mut into.own);
            }
            (Packed::Frames, _) => file.frame_of(record).0,
            _ => 0,
        };
        let chunk_of = |(number, frame): (usize, usize), reservation: &mut Reservation| {
            let file = &self.files[number];
            let records = self.starts[number + 1] - self.starts[number];
            file.unpack((&self.storage, &self.budget), records, frame, reservation)
                .map_err(|error| error.at_path(&file.path))
        };
        let estimate = |(number, frame): (usize, usize)| self.files[number].chunk_bytes(frame);
        let before = held.len();
        self.chunks.get([(number, chunk)].into_iter(), estimate, chunk_of, held)?;
        let part = &held[before];
        let at = (record - part.first) as usize;
        let range =
            part.offsets.get(at).zip(part.offsets.get(at + 1)).map(|(start, end)| *start as usize..*end as usize);
        let range = range.filter(|range| part.bytes.get(range.clone()).is_some());
        let range =
            range.ok_or_else(|| Error::new(ErrorKind::Format, "the record lies beyond what it is packed in"))?;
        into.held = Some((before, range));
        Ok(())
    }

    /// The record that [`fetch`](Self::fetch) read as the job's `nth`.
    pub(super) fn bytes<'a>(&self, nth: usize, read: &'a ShardBytes) -> &'a [u8] {
        let Record { own, held } = &read.records[nth];
        match held {
            Some((chunk, range)) => &read.held[*chunk].bytes[range.clone()],
            None => own,
        }
    }

    /// The first records of what is decompressed together; without compression, of each file.
    pub(super) fn chunks(&self) -> Vec<u64> {
        let mut chunks = Vec::new();
        for (file, start) in self.files.iter().zip(&self.starts) {
            match file.frames.as_slice() {
                [] => chunks.push(*start),
                frames => chunks.extend(frames.iter().map(|frame| start + frame.first)),
            }
        }
        chunks.dedup();
        chunks
    }

    pub(super) fn place(&self, record: u64) -> Location {
        if record >= self.len() {
            return Location { record: Some(record), ..Location::default() };
        }
        let (file, in_file) = self.locate(record);
        let file = &self.files[file];
        let byte = matches!(file.packed, Packed::No | Packed::Records).then(|| file.range(in_file).start);
        Location { path: Some(file.path.clone()), record: Some(record), byte, ..Location::default() }
    }

    /// The record's file, and its number there.
    pub(super) fn name(&self, record: u64, name: &mut Vec<u8>) {
        let (file, record) = self.locate(record);
        super::many::file_name(&self.files[file].path, name);
        name.extend_from_slice(&record.to_le_bytes());
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        let name = |file: &File| file.path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        let names = hash_texts(self.files.iter().map(name));
        let sizes = self
            .files
            .iter()
            .zip(self.starts.windows(2))
            .flat_map(|(file, bounds)| [bounds[1] - bounds[0], file.bytes]);
        Fingerprint { count: Some(self.len()), names, sizes: hash_numbers(sizes) }
    }
}

impl Unpacked {
    /// Gives back what records took that were unusually long.
    fn give_up(&mut self, records: &mut [Record]) {
        let Some(reservation) = &mut self.reservation else { return };
        for record in records.iter_mut().filter(|record| record.own.capacity() > KEPT_BYTES) {
            record.own = Vec::new();
        }
        self.bytes = records.iter().map(|record| record.own.capacity() as u64).sum();
        reservation.shrink_to(self.bytes);
    }

    /// Replaces what is in `into` by all of a record, whose length nobody knows before its end comes: its memory is counted as it
    /// grows.
    fn read(&mut self, mut bytes: impl Read, path: &Path, budget: &MemoryBudget, into: &mut Vec<u8>) -> Result<()> {
        const LEAST: usize = 4 << 10;
        let reservation = self.reservation.get_or_insert_with(|| budget.empty_reservation());
        self.bytes = self.bytes.saturating_sub(into.capacity() as u64);
        let others = self.bytes;
        into.clear();
        let mut read = || {
            loop {
                let room = (into.capacity() - into.len()) as u64;
                let read = bytes.by_ref().take(room).read_to_end(into);
                read.map_err(|error| inflate_error(path, into.len() as u64, error))?;
                if into.len() < into.capacity() {
                    return Ok(());
                }
                if into.len() as u64 > MAX_RECORD_BYTES {
                    let message = format!("a record unpacks to more than {MAX_RECORD_BYTES} bytes");
                    return Err(Error::new(ErrorKind::Limit, message));
                }
                let capacity = (2 * into.len()).clamp(LEAST, MAX_RECORD_BYTES as usize + 1);
                reservation.grow_to(others + capacity as u64, "a decompressed record")?;
                into.try_reserve_exact(capacity - into.len()).map_err(|_| {
                    let message = format!("no memory for a record of more than {} bytes", into.len());
                    Error::new(ErrorKind::Limit, message)
                })?;
            }
        };
        let read = read();
        if read.is_err() {
            *into = Vec::new();
        }
        self.bytes = others + into.capacity() as u64;
        reservation.shrink_to(self.bytes);
        read
    }
}

fn read_into(input: &Input, range: Range<u64>, into: &mut Vec<u8>) -> Result<()> {
    let len = range.end - range.start;
    if len > MAX_RECORD_BYTES {
        return Err(Error::new(ErrorKind::Limit, format!("a record of {len} bytes")));
    }
    into.resize(len as usize, 0);
    input.read_at(range.start, into)
}

/// Reads to the end, which comes within `most` bytes.
fn read_bounded(bytes: impl Read, most: u64, path: &Path, into: &mut Vec<u8>) -> Result<()> {
    bytes.take(most + 1).read_to_end(into).map_err(|error| inflate_error(path, into.len() as u64, error))?;
    if into.len() as u64 > most {
        return Err(Error::new(ErrorKind::Limit, format!("unpacks to more than {most} bytes")));
    }
    Ok(())
}

/// The numbers in `bytes`.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Checks that records follow one another, behind the table and within what holds them.
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

/// The table that stands in the first `bytes` of a file of `len`.
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
    fn open(files: &Files, path: &Path, records: u64, packed: &Packed, bytes: Option<u64>) -> Result<Self> {
        let mut file = Self {
            path: path.to_owned(),
            packed: packed.clone(),
            input: None,
            offsets: Vec::new(),
            frames: Vec::new(),
            bytes: 0,
        };
        if let Packed::Whole(_, bytes) = *packed {
            if bytes > MAX_CHUNK_BYTES {
                return Err(Error::new(
                    ErrorKind::Limit,
                    format!("unpacks to {bytes} bytes; at most {MAX_CHUNK_BYTES}"),
                ));
            }
            if table_bytes(records).is_none_or(|table| table > bytes) {
                let message = format!("unpacks to {bytes} bytes, too few for the table of {records} records");
                return Err(Error::new(ErrorKind::Format, message));
            }
            file.bytes = bytes;
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

    /// Where a record lies in the file.
    fn range(&self, record: u64) -> Range<u64> {
        let at = record as usize;
        self.offsets.get(at).zip(self.offsets.get(at + 1)).map_or(0..0, |(start, end)| (*start).into()..(*end).into())
    }

    /// The frame that holds a record.
    fn frame_of(&self, record: u64) -> (usize, &Frame) {
        let at = self.frames.partition_point(|frame| frame.first <= record).saturating_sub(1);
        (at, &self.frames[at])
    }

    fn chunk_bytes(&self, frame: usize) -> u64 {
        self.frames.get(frame).map_or(self.bytes, |frame| frame.bytes)
    }

    /// Decompresses the file, or a frame of it.
    fn unpack(
        &self,
        (files, budget): (&Files, &MemoryBudget),
        records: u64,
        frame: usize,
        reservation: &mut Reservation,
    ) -> Result<Part> {
        let most = self.chunk_bytes(frame);
        let mut bytes = Vec::new();
        let part = match (&self.packed, &self.input) {
            (Packed::Frames, Some(input)) => {
                let Frame { first, stored, .. } = self.frames[frame].clone();
                let mut packed = Vec::new();
                read_into(input, stored, &mut packed)?;
                let unpacked = Packing::Zstd.unpack(Box::new(std::io::Cursor::new(packed)), budget)?;
                read_bounded(unpacked, most, &self.path, &mut bytes)?;
                let end = self.frames.get(frame + 1).map_or(records, |next| next.first);
                let own = &self.offsets[first as usize..=end as usize];
                let base = own.first().copied().unwrap_or(0);
                let offsets: Vec<u32> = own.iter().map(|offset| offset - base).collect();
                check_offsets(&offsets, 0, bytes.len() as u64)?;
                Part { first, offsets, bytes }
            }
            (Packed::Whole(packing, _), _) => {
                let unpacked = packing.unpack(files.stream(&self.path)?, budget)?;
                read_bounded(unpacked, most, &self.path, &mut bytes)?;
                let offsets = offsets_of(&bytes, records, bytes.len() as u64)?;
                Part { first: 0, offsets, bytes }
            }
            _ => Part { first: 0, offsets: Vec::new(), bytes },
        };
        let held = (part.bytes.capacity() + part.offsets.capacity() * size_of::<u32>()) as u64;
        reservation.shrink_to(held);
        reservation.grow_to(held, "a decompressed shard")?;
        Ok(part)
    }
}

/// The tables of a file of frames: where records lie in what the frames hold together, and the frames.
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
