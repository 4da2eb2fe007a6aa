//! The requested pieces of files, and the bytes of those that have arrived.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::memory::{MemoryBudget, Reservation};

/// Longer pieces are several requests, which may be in progress at the same time.
pub(super) const PIECE_BYTES: u64 = 8 << 20;
/// The assumed length of a whole file until the first files have arrived.
const FILE_BYTES: u64 = 256 << 10;
/// How many whole files are read at the same time at first, when the length of none is known.
const FIRST_FILES: usize = 8;
/// How many bytes a buffer may have in addition to twice what it holds.
const SLACK_BYTES: usize = 4 << 10;
/// The end of a piece that is a whole file of unknown length.
pub(super) const TO_THE_END: u64 = u64::MAX;
/// A request that takes longer than this, and ten times as long as the slowest ones lately, is given up.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct State {
    pub(super) closed: bool,
    pub(super) threads: usize,
    pub(super) idle: usize,
    pub(super) pieces: BTreeMap<Key, Piece>,
    /// Pieces of known length to be read, each with the batch that requested it.
    ranges: VecDeque<(Key, u64)>,
    /// Whole files to be read, likewise.
    files: VecDeque<(Key, u64)>,
    /// Those that a reader waits for, with all others of their batches: they are read first, whatever is held.
    urgent: VecDeque<(Key, u64)>,
    /// Bytes of all pieces, arrived or not. The budget's share is as large, together with the spare buffers.
    pub(super) bytes: u64,
    pub(super) reservation: Reservation,
    most_bytes: u64,
    /// Bytes of the pieces that have arrived or are being read.
    held: u64,
    /// Mean length of the whole files so far.
    file_bytes: u64,
    /// The length that one more may have: that of the longest ones lately.
    likely_bytes: u64,
    /// The number of the next request, and how many are in progress.
    next_request: u64,
    reading: usize,
    /// Requests that were given up, and have not ended yet.
    lost: BTreeMap<u64, Lost>,
    /// Their part of `bytes` and `held`: it is no room for others, but does not keep them from being requested.
    lost_bytes: u64,
    /// How long the slowest requests took lately, and the shortest time after which one is given up.
    slowest: Duration,
    pub(super) patience: Duration,
    /// When requests are looked at again that nobody waits for.
    look_at: Option<Instant>,
    /// Number of whole files that are being read, and the maximum number, which doubles from round to round.
    reading_files: usize,
    most_files: usize,
    /// Buffers that were used before.
    pub(super) spare: Vec<Vec<u8>>,
    spare_bytes: u64,
    /// The number of the next batch that requests.
    pub(super) next_batch: u64,
    pub(super) counts: AheadStats,
}

/// A file, and the first byte of a piece of it.
pub(super) type Key = (u64, u64);

pub(super) struct Piece {
    pub(super) end: u64,
    /// The greatest length that a whole file may have.
    most: u64,
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
    /// The number of the request, and when it began.
    Reading(u64, Instant),
    Here(Arc<Loaded>),
    Failed,
}

/// What a thread requests.
pub(super) struct Request {
    pub(super) key: Key,
    pub(super) path: Arc<Path>,
    pub(super) end: u64,
    number: u64,
    begin: Instant,
}

/// What a request counts that was given up.
struct Lost {
    counted: u64,
    /// The end of its piece.
    end: u64,
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
            ranges: VecDeque::new(),
            files: VecDeque::new(),
            urgent: VecDeque::new(),
            bytes: 0,
            reservation: budget.empty_reservation(),
            most_bytes,
            held: 0,
            file_bytes: FILE_BYTES,
            likely_bytes: FILE_BYTES,
            next_request: 0,
            reading: 0,
            lost: BTreeMap::new(),
            lost_bytes: 0,
            slowest: Duration::ZERO,
            patience: PATIENCE,
            look_at: None,
            reading_files: 0,
            most_files: FIRST_FILES,
            spare: Vec::new(),
            spare_bytes: 0,
            next_batch: 0,
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

    /// Adds the pieces of `range` that do not exist yet, for the batch that requests now, and keeps those that do. Those
    /// that could not be read are read again. A whole file may have `most` bytes. Returns whether the memory budget had
    /// room for them.
    pub(super) fn add(
        &mut self,
        file: u64,
        path: &Arc<Path>,
        range: Range<u64>,
        most: u64,
        keys: &mut Vec<Key>,
    ) -> bool {
        let batch = self.next_batch;
        let mut at = range.start;
        if let Some(((_, start), piece)) =
            self.pieces.range_mut(..(file, at)).next_back().filter(|((f, _), piece)| *f == file && piece.end > at)
        {
            piece.needed_by += 1;
            let key = (file, *start);
            keys.push(key);
            at = piece.end;
            if !self.again(key) {
                return false;
            }
        }
        while at < range.end {
            let next =
                self.pieces.range_mut((file, at)..).next().filter(|((f, start), _)| *f == file && *start < range.end);
            let end = match next {
                Some(((_, start), piece)) if *start == at => {
                    piece.needed_by += 1;
                    let key = (file, at);
                    keys.push(key);
                    at = piece.end;
                    if !self.again(key) {
                        return false;
                    }
                    continue;
                }
                Some(((_, start), _)) => *start,
                None => range.end,
            };
            let whole = end == TO_THE_END;
            let end = if whole { end } else { end.min(at.saturating_add(PIECE_BYTES)) };
            let counted = if whole { self.file_bytes } else { end - at };
            let key = (file, at);
            let piece = Piece {
                end,
                most,
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
            let queue = if whole { &mut self.files } else { &mut self.ranges };
            queue.push_back((key, batch));
            keys.push(key);
            at = end;
        }
        true
    }

    /// Queues a piece again if it could not be read. Returns whether the memory budget had room for it.
    fn again(&mut self, key: Key) -> bool {
        let batch = self.next_batch;
        let Some(piece) = self.pieces.get(&key).filter(|piece| matches!(piece.content, Content::Failed)) else {
            return true;
        };
        let whole = piece.end == TO_THE_END;
        let (before, counted) = (piece.counted, if whole { self.file_bytes } else { piece.end - key.1 });
        let bytes = self.bytes - before + counted;
        if !self.reserve(bytes) {
            return false;
        }
        self.bytes = bytes;
        self.held -= before;
        if let Some(piece) = self.pieces.get_mut(&key) {
            (piece.batch, piece.is_urgent, piece.counted, piece.content) = (batch, false, counted, Content::Queued);
        }
        let queue = if whole { &mut self.files } else { &mut self.ranges };
        queue.push_back((key, batch));
        true
    }

    pub(super) fn release(&mut self, key: Key) {
        let Some(piece) = self.pieces.get_mut(&key) else { return };
        piece.needed_by -= 1;
        if piece.needed_by > 0 || matches!(piece.content, Content::Reading(..)) {
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

    /// Nothing more will be requested.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.drop_spare();
        self.reservation.shrink_to(self.bytes);
    }

    /// Keeps a buffer for pieces that are requested, as far as the budget allows.
    pub(super) fn keep(&mut self, mut bytes: Vec<u8>) {
        let more = bytes.capacity() as u64;
        let is_within = self.bytes + self.spare_bytes + more <= self.most_bytes;
        if is_within
            && !self.closed
            && !self.pieces.is_empty()
            && self.spare.len() < 64
            && self.reservation.grow_if_free(self.bytes + self.spare_bytes + more)
        {
            bytes.clear();
            self.spare.push(bytes);
            self.spare_bytes += more;
        }
    }

    /// A buffer for so many bytes: one that was used before and is not much larger, or a new one.
    pub(super) fn buffer(&mut self, wanted: u64) -> Vec<u8> {
        let most = wanted.saturating_mul(2).saturating_add(SLACK_BYTES as u64);
        let fits = self.spare.iter().rposition(|buffer| buffer.capacity() as u64 <= most);
        let buffer = fits.map(|fits| self.spare.swap_remove(fits)).unwrap_or_default();
        self.spare_bytes -= buffer.capacity() as u64;
        self.reservation.shrink_to(self.bytes + self.spare_bytes);
        buffer
    }

    /// Takes the next piece that may be read now. A whole file, whose length is known only afterwards, must find room
    /// within the limit and the budget, unless a reader waits for its batch.
    pub(super) fn next(&mut self) -> Option<(Request, Vec<u8>)> {
        if let Some(key) = first_of(&mut self.urgent, &self.pieces) {
            self.urgent.pop_front();
            return self.begin(key);
        }
        if let Some(key) = first_of(&mut self.ranges, &self.pieces) {
            self.ranges.pop_front();
            return self.begin(key);
        }
        let key = first_of(&mut self.files, &self.pieces)?;
        let counted = self.pieces.get(&key)?.counted;
        if self.has_room() && self.reserve(self.bytes + self.likely_bytes.max(counted) - counted) {
            self.files.pop_front();
            return self.begin(key);
        }
        None
    }

    /// Whether one more whole file may be read.
    fn has_room(&self) -> bool {
        let held = self.held - self.lost_bytes;
        self.reading_files < self.most_files && (held == 0 || held + self.likely_bytes <= self.most_bytes)
    }

    /// Whether a thread that looks again would find something to read.
    pub(super) fn has_next(&mut self) -> bool {
        let Self { urgent, ranges, pieces, .. } = self;
        let is_free = first_of(urgent, pieces).or_else(|| first_of(ranges, pieces)).is_some();
        is_free || self.has_room() && first_of(&mut self.files, &self.pieces).is_some()
    }

    /// A request, and a buffer for it.
    fn begin(&mut self, key: Key) -> Option<(Request, Vec<u8>)> {
        let (number, begin) = (self.next_request, Instant::now());
        let piece = self.pieces.get_mut(&key)?;
        let mut end = piece.end;
        if piece.end == TO_THE_END {
            let likely = self.likely_bytes.max(piece.counted);
            self.bytes += likely - piece.counted;
            piece.counted = likely;
            self.reading_files += 1;
            // One byte more shows that it is too long.
            end = piece.most.saturating_add(1);
        }
        self.held += piece.counted;
        piece.content = Content::Reading(number, begin);
        let (path, counted) = (piece.path.clone(), piece.counted);
        self.next_request += 1;
        self.reading += 1;
        self.counts.most_in_flight = self.counts.most_in_flight.max(self.reading);
        Some((Request { key, path, end, number, begin }, self.buffer(counted)))
    }

    /// When a request that began at `begin` is given up.
    pub(super) fn deadline(&self, begin: Instant) -> Instant {
        begin + self.patience.max((10 * self.slowest).min(20 * self.patience))
    }

    /// Number of requests that were given up, and have not ended.
    pub(super) fn lost(&self) -> usize {
        self.lost.len()
    }

    /// Gives a request up that takes too long: those who need its bytes read them, and another thread may take the
    /// place of the one that waits for it.
    pub(super) fn give_up(&mut self, key: Key) {
        let Some(piece) = self.pieces.get_mut(&key) else { return };
        if let Content::Reading(number, _) = piece.content {
            let lost = Lost { counted: std::mem::take(&mut piece.counted), end: piece.end };
            self.lost_bytes += lost.counted;
            piece.content = Content::Failed;
            let is_needed = piece.needed_by > 0;
            self.lost.insert(number, lost);
            self.threads -= 1;
            if !is_needed {
                self.remove(key);
            }
        }
    }

    /// Gives all requests up that take too long, if others wait and all threads are busy. Now and then. Returns whether
    /// there are any.
    pub(super) fn give_up_overdue(&mut self) -> bool {
        let now = Instant::now();
        if self.idle > 0 || self.waiting() == 0 || self.look_at.is_some_and(|at| now < at) {
            return false;
        }
        self.look_at = Some(now + self.patience);
        let is_overdue = |piece: &Piece| match piece.content {
            Content::Reading(_, begin) => self.deadline(begin) <= now,
            _ => false,
        };
        let overdue: Vec<Key> =
            self.pieces.iter().filter(|(_, piece)| is_overdue(piece)).map(|(key, _)| *key).collect();
        overdue.iter().for_each(|key| self.give_up(*key));
        !overdue.is_empty()
    }

    /// Bytes of the pieces, without those of requests that were given up.
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.bytes - self.lost_bytes
    }

    /// Lets the queued pieces of this batch be read first.
    pub(super) fn hurry(&mut self, batch: u64) {
        let Self { urgent, pieces, ranges, files, .. } = self;
        for queue in [ranges, files] {
            // They are in the order of their batches.
            let begin = queue.partition_point(|(_, other)| *other < batch);
            let end = queue.partition_point(|(_, other)| *other <= batch);
            for entry in queue.drain(begin..end) {
                if let Some(piece) = pieces.get_mut(&entry.0).filter(|piece| piece.batch == batch) {
                    piece.is_urgent = true;
                    urgent.push_back(entry);
                }
            }
        }
    }

    /// Number of pieces that wait to be read, and perhaps some that nobody needs any more.
    pub(super) fn waiting(&self) -> usize {
        self.urgent.len() + self.ranges.len() + self.files.len()
    }

    /// Leaves all pieces that nobody has begun to read to those who need them.
    pub(super) fn fail_queued(&mut self) {
        for queue in [&mut self.urgent, &mut self.ranges, &mut self.files] {
            while let Some(key) = first_of(queue, &self.pieces) {
                queue.pop_front();
                if let Some(piece) = self.pieces.get_mut(&key) {
                    piece.content = Content::Failed;
                    self.held += piece.counted;
                }
            }
        }
    }

    /// A request has ended: with these bytes of a file of this length, or without success. Returns whether its thread
    /// has not been replaced.
    pub(super) fn arrive(&mut self, request: &Request, read: Option<u64>, mut bytes: Vec<u8>) -> bool {
        self.counts.requests += 1;
        self.counts.bytes += bytes.len() as u64;
        self.reading -= 1;
        if read.is_some() {
            self.slowest = request.begin.elapsed().max(self.slowest - self.slowest / 16);
        }
        let key = request.key;
        let lost = self.lost.remove(&request.number);
        if let Some(Lost { counted, end }) = lost {
            self.lost_bytes -= counted;
            let is_wanted = |piece: &&mut Piece| piece.end == end && matches!(piece.content, Content::Failed);
            let Some(piece) = self.pieces.get_mut(&key).filter(is_wanted) else {
                self.reading_files -= usize::from(end == TO_THE_END);
                self.bytes -= counted;
                self.held -= counted;
                self.keep(bytes);
                self.reservation.shrink_to(self.bytes + self.spare_bytes);
                return false;
            };
            // It comes late, but nobody has requested it again.
            self.bytes -= piece.counted;
            self.held -= piece.counted;
            piece.counted = counted;
        }
        let Some(piece) = self.pieces.get_mut(&key) else {
            self.keep(bytes);
            return true;
        };
        let whole = piece.end == TO_THE_END;
        self.reading_files -= usize::from(whole);
        let len = bytes.len() as u64;
        let is_all = |file_len: u64| match whole {
            true => len >= file_len.min(request.end).saturating_sub(key.1),
            false => len == request.end - key.1,
        };
        match read {
            Some(file_len) if is_all(file_len) => {
                if whole && file_len > piece.most {
                    // It is refused by its length.
                    bytes = Vec::new();
                }
                let real = bytes.capacity() as u64;
                self.bytes = self.bytes - piece.counted + real;
                self.held = self.held - piece.counted + real;
                piece.counted = real;
                piece.content = Content::Here(Arc::new(Loaded { bytes, file_len }));
                if whole {
                    self.file_bytes = (7 * self.file_bytes + real).div_ceil(8);
                    self.likely_bytes = real.max(self.likely_bytes - self.likely_bytes / 16);
                    self.most_files += 1;
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
        lost.is_none()
    }
}

/// Frees the memory of a buffer that is much larger than what it holds.
pub(super) fn fitted(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.capacity() > 2 * bytes.len() + SLACK_BYTES {
        bytes.shrink_to_fit();
    }
    bytes
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
