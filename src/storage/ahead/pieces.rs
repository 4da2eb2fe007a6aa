//! The requested pieces of files, and the bytes of those that have arrived.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::memory::{MemoryBudget, Reservation};

/// Longer pieces are several requests, which may be in progress at the same time.
pub(super) const PIECE_BYTES: u64 = 8 << 20;
/// The assumed length of a whole file until the first files have arrived.
const FILE_BYTES: u64 = 256 << 10;
/// How many whole files are read at the same time until the length of one is known.
const FIRST_FILES: usize = 8;
/// What a buffer may have more than twice what it holds.
const SLACK_BYTES: usize = 4 << 10;
/// The end of a piece that is a whole file of unknown length.
pub(super) const TO_THE_END: u64 = u64::MAX;

pub(super) struct State {
    pub(super) closed: bool,
    pub(super) threads: usize,
    pub(super) idle: usize,
    pub(super) pieces: BTreeMap<Key, Piece>,
    /// Pieces to be read, each with the batch that requested it.
    queue: VecDeque<(Key, u64)>,
    /// Those that a reader waits for, with all others of their batches: they are read first, whatever is held.
    urgent: VecDeque<(Key, u64)>,
    /// Bytes of all pieces, arrived or not. The budget's share is as large, together with the spare buffers.
    pub(super) bytes: u64,
    pub(super) reservation: Reservation,
    most_bytes: u64,
    /// Bytes of the pieces that have arrived or are being read.
    held: u64,
    /// Mean length of the whole files so far; `None` before the first.
    file_bytes: Option<u64>,
    /// Number of whole files that are being read.
    reading_files: usize,
    /// Buffers that were used before.
    pub(super) spare: Vec<Vec<u8>>,
    spare_bytes: u64,
    /// The number of the next batch that requests.
    pub(super) next_batch: u64,
    /// Whether a piece was not read because others hold too much.
    pub(super) is_held_back: bool,
    pub(super) next_file: u64,
    pub(super) counts: AheadStats,
}

/// A file, and the first byte of a piece of it.
pub(super) type Key = (u64, u64);

pub(super) struct Piece {
    pub(super) end: u64,
    pub(super) path: Arc<Path>,
    /// The batch that requested it first.
    pub(super) batch: u64,
    /// Whether a reader waits for its batch.
    pub(super) is_urgent: bool,
    /// Number of batches that need it.
    pub(super) needed_by: usize,
    /// Its part of `State::bytes`.
    pub(super) counted: u64,
    pub(super) content: Content,
}

pub(super) enum Content {
    Queued,
    Reading,
    Here(Arc<Loaded>),
    Failed,
}

pub(super) struct Loaded {
    pub(super) bytes: Vec<u8>,
    pub(super) file_len: u64,
}

/// Requests to a storage, and how often a worker had to wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct AheadStats {
    /// Requests made before their bytes were needed.
    pub requests: u64,
    /// Bytes that came with them.
    pub bytes: u64,
    /// Maximum number of requests that were in progress at the same time.
    pub most_in_flight: usize,
    /// Reads that found their request still in progress.
    pub waited: u64,
    /// Reads that were not requested ahead, made while a worker waited.
    pub unforeseen: u64,
}

impl State {
    /// At most `most_bytes` are held, unless batches that readers wait for need more.
    pub(super) fn new(budget: &MemoryBudget, most_bytes: u64) -> Self {
        Self {
            closed: false,
            threads: 0,
            idle: 0,
            pieces: BTreeMap::new(),
            queue: VecDeque::new(),
            urgent: VecDeque::new(),
            bytes: 0,
            reservation: budget.empty_reservation(),
            most_bytes,
            held: 0,
            file_bytes: None,
            reading_files: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            next_batch: 0,
            is_held_back: false,
            next_file: 0,
            counts: AheadStats::default(),
        }
    }

    /// Takes as many bytes of the budget as all pieces have. Does not wait for what is in use elsewhere: bytes that are
    /// not requested ahead are read when they are needed.
    fn reserve(&mut self, bytes: u64) -> bool {
        if self.reservation.grow_if_free(bytes + self.spare_bytes) {
            return true;
        }
        self.drop_spare();
        self.reservation.shrink_to(self.bytes);
        self.reservation.grow_if_free(bytes)
    }

    /// Adds the pieces of `range` that do not exist yet, for the batch that requests now, and keeps those that do.
    /// Returns whether the memory budget had room for them.
    pub(super) fn add(&mut self, file: u64, path: &Arc<Path>, range: Range<u64>, keys: &mut Vec<Key>) -> bool {
        let batch = self.next_batch;
        let mut at = range.start;
        if let Some(((_, start), piece)) =
            self.pieces.range_mut(..(file, at)).next_back().filter(|((f, _), piece)| *f == file && piece.end > at)
        {
            piece.needed_by += 1;
            keys.push((file, *start));
            at = piece.end;
        }
        while at < range.end {
            let next =
                self.pieces.range_mut((file, at)..).next().filter(|((f, start), _)| *f == file && *start < range.end);
            let end = match next {
                Some(((_, start), piece)) if *start == at => {
                    piece.needed_by += 1;
                    keys.push((file, at));
                    at = piece.end;
                    continue;
                }
                Some(((_, start), _)) => *start,
                None => range.end,
            };
            let whole = end == TO_THE_END;
            let end = if whole { end } else { end.min(at.saturating_add(PIECE_BYTES)) };
            let counted = if whole { self.file_bytes.unwrap_or(FILE_BYTES) } else { end - at };
            let key = (file, at);
            let piece = Piece {
                end,
                path: path.clone(),
                batch,
                is_urgent: false,
                needed_by: 1,
                counted,
                content: Content::Queued,
            };
            if !self.reserve(self.bytes + counted) {
                return false;
            }
            self.bytes += counted;
            self.pieces.insert(key, piece);
            self.queue.push_back((key, batch));
            keys.push(key);
            at = end;
        }
        true
    }

    pub(super) fn release(&mut self, key: Key) {
        let Some(piece) = self.pieces.get_mut(&key) else { return };
        piece.needed_by -= 1;
        if piece.needed_by > 0 || matches!(piece.content, Content::Reading) {
            return;
        }
        self.remove(key);
    }

    fn remove(&mut self, key: Key) {
        let Some(piece) = self.pieces.remove(&key) else { return };
        self.bytes -= piece.counted;
        if !matches!(piece.content, Content::Queued) {
            self.held -= piece.counted;
        }
        if let Content::Here(loaded) = piece.content
            && let Some(loaded) = Arc::into_inner(loaded)
        {
            self.keep(loaded.bytes);
        }
        if self.pieces.is_empty() {
            self.drop_spare();
        }
        self.reservation.shrink_to(self.bytes + self.spare_bytes);
    }

    fn drop_spare(&mut self) {
        self.spare.clear();
        self.spare_bytes = 0;
    }

    /// Keeps a buffer for pieces that are requested, as far as the budget allows.
    pub(super) fn keep(&mut self, mut bytes: Vec<u8>) {
        let more = bytes.capacity() as u64;
        let is_within = self.bytes + self.spare_bytes + more <= self.most_bytes;
        if is_within
            && !self.pieces.is_empty()
            && self.spare.len() < 64
            && self.reservation.grow_if_free(self.bytes + self.spare_bytes + more)
        {
            bytes.clear();
            self.spare.push(bytes);
            self.spare_bytes += more;
        }
    }

    /// A buffer that was used before, or a new one.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let buffer = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity() as u64;
        self.reservation.shrink_to(self.bytes + self.spare_bytes);
        buffer
    }

    /// Takes the next piece that may be read now. A whole file, whose length is known only afterwards, must find room
    /// within the limit and the budget, unless a reader waits for its batch.
    pub(super) fn next(&mut self) -> Option<(Key, Arc<Path>, u64)> {
        while let Some(key) = first_of(&mut self.urgent, &self.pieces) {
            self.urgent.pop_front();
            if let Some(next) = self.begin(key, true) {
                return Some(next);
            }
        }
        let key = first_of(&mut self.queue, &self.pieces)?;
        let next = self.begin(key, false);
        match next {
            Some(_) => drop(self.queue.pop_front()),
            None => self.is_held_back = true,
        }
        next
    }

    /// Begins to read a queued piece; `None` if it has no room.
    fn begin(&mut self, key: Key, is_urgent: bool) -> Option<(Key, Arc<Path>, u64)> {
        let Piece { end, counted, .. } = *self.pieces.get(&key)?;
        let is_whole = end == TO_THE_END;
        let mut likely = counted;
        if is_whole {
            likely = likely.max(self.file_bytes.unwrap_or(FILE_BYTES));
            let has_room = match self.file_bytes {
                None => self.reading_files < FIRST_FILES,
                Some(_) => self.held == 0 || self.held + likely <= self.most_bytes,
            };
            let may_read = is_urgent || has_room && self.reserve(self.bytes + likely - counted);
            if !may_read {
                return None;
            }
            self.reading_files += 1;
        }
        self.bytes += likely - counted;
        self.held += likely;
        let piece = self.pieces.get_mut(&key)?;
        (piece.counted, piece.content) = (likely, Content::Reading);
        Some((key, piece.path.clone(), end))
    }

    /// Lets the queued pieces of this batch be read first.
    pub(super) fn hurry(&mut self, batch: u64) {
        let Self { urgent, pieces, queue, .. } = self;
        queue.retain(|entry| {
            let is_other = entry.1 != batch;
            if !is_other {
                urgent.push_back(*entry);
                if let Some(piece) = pieces.get_mut(&entry.0).filter(|piece| piece.batch == batch) {
                    piece.is_urgent = true;
                }
            }
            is_other
        });
    }

    /// Number of pieces that wait to be read, and perhaps some that nobody needs any more.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len() + self.urgent.len()
    }

    /// Leaves all pieces that nobody has begun to read to those who need them.
    pub(super) fn fail_queued(&mut self) {
        for queue in [&mut self.urgent, &mut self.queue] {
            while let Some(key) = first_of(queue, &self.pieces) {
                queue.pop_front();
                if let Some(piece) = self.pieces.get_mut(&key) {
                    piece.content = Content::Failed;
                    self.held += piece.counted;
                }
            }
        }
    }

    /// A request has ended: with these bytes of a file of this length, or without success.
    pub(super) fn arrive(&mut self, key: Key, read: Option<u64>, mut bytes: Vec<u8>) {
        self.counts.requests += 1;
        self.counts.bytes += bytes.len() as u64;
        let Some(piece) = self.pieces.get_mut(&key) else { return self.keep(bytes) };
        let whole = piece.end == TO_THE_END;
        self.reading_files -= usize::from(whole);
        let (len, wanted) = (bytes.len() as u64, piece.end - key.1);
        let is_all = |file_len: u64| if whole { len >= file_len.saturating_sub(key.1) } else { len == wanted };
        match read {
            Some(file_len) if is_all(file_len) => {
                // A buffer that once held a much longer file does not keep its memory for this one.
                if bytes.capacity() > 2 * bytes.len() + SLACK_BYTES {
                    bytes.shrink_to_fit();
                }
                let real = bytes.capacity() as u64;
                self.bytes = self.bytes - piece.counted + real;
                self.held = self.held - piece.counted + real;
                piece.counted = real;
                piece.content = Content::Here(Arc::new(Loaded { bytes, file_len }));
                if whole {
                    self.file_bytes = Some(self.file_bytes.map_or(len, |mean| (7 * mean + len).div_ceil(8)));
                }
                // What is longer than was assumed is here already: it is counted as far as the budget allows.
                let total = self.bytes + self.spare_bytes;
                self.reservation.grow_if_free(total);
                self.reservation.shrink_to(total);
            }
            _ => piece.content = Content::Failed,
        }
        if self.pieces.get(&key).is_some_and(|piece| piece.needed_by == 0) {
            self.remove(key);
        }
    }
}

/// The first queued piece. Entries of pieces that were given up are removed: another batch may have requested the same
/// bytes again, further back.
fn first_of(queue: &mut VecDeque<(Key, u64)>, pieces: &BTreeMap<Key, Piece>) -> Option<Key> {
    let is_there = |(key, batch): &(Key, u64)| {
        pieces.get(key).is_some_and(|piece| piece.batch == *batch && matches!(piece.content, Content::Queued))
    };
    while let Some(entry) = queue.front() {
        if is_there(entry) {
            return Some(entry.0);
        }
        queue.pop_front();
    }
    None
}
