//! Files of records with a table of offsets, in which MDS and LitData store samples: the number of records (`u32`), the
//! offset of each record and of the end (`u32`), and the records.
//!
//! Plain files are read record by record. Compressed data (a whole file, or frames of records in it) is decompressed
//! once for all workers and kept within a limit.

mod file;

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::random::{hash_numbers, hash_texts};
use crate::storage::{Chunk, Chunks, Files, Needs, Packing, inflate_error};
use crate::sync::Arc;

use super::{Fingerprint, check_record, parallel};

use file::{File, Frame, MAX_RECORD_BYTES, Part, read_into};
pub(super) use file::{Listed, MAX_CHUNK_BYTES, Packed};

/// The memory of a decompressed record up to this size is kept for the next job.
const KEPT_BYTES: usize = 1 << 20;

/// Many such files, whose records follow one another.
pub(super) struct Shards {
    files: Vec<File>,
    /// The beginning of each file, and at the end the number of all records.
    starts: Vec<u64>,
    storage: Files,
    chunks: Chunks<(usize, usize), Part>,
    /// The budget for decompression.
    budget: MemoryBudget,
    #[expect(dead_code, reason = "held until the shards drop")]
    reservation: Reservation,
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

/// One record: its own bytes, or a part of a chunk.
#[derive(Default)]
struct Record {
    own: Vec<u8>,
    /// Which of the held chunks contains it, and where.
    held: Option<(usize, Range<usize>)>,
}

impl Shards {
    /// Opens the files, and reads the tables of those that are not compressed as a whole.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a file that does not match the index.
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

    /// The first record of each part that is decompressed as a unit; without compression, of each file.
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
        Location { path: Some(file.path.clone()), record: Some(in_file), byte, ..Location::default() }
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
    /// Releases the memory of unusually long records.
    fn give_up(&mut self, records: &mut [Record]) {
        let Some(reservation) = &mut self.reservation else { return };
        for record in records.iter_mut().filter(|record| record.own.capacity() > KEPT_BYTES) {
            record.own = Vec::new();
        }
        self.bytes = records.iter().map(|record| record.own.capacity() as u64).sum();
        reservation.shrink_to(self.bytes);
    }

    /// Replaces the content of `into` by a whole record, whose length is unknown until its end: its memory is counted
    /// as it grows.
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
