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
/// The end of a piece that is a whole file of unknown length.
pub(super) const TO_THE_END: u64 = u64::MAX;

pub(super) struct State {
    pub(super) closed: bool,
    pub(super) threads: usize,
    pub(super) idle: usize,
    pub(super) pieces: BTreeMap<Key, Piece>,
    pub(super) queue: VecDeque<Key>,
    /// Bytes of all pieces, arrived or not; the budget's share is as large.
    pub(super) bytes: u64,
    pub(super) reservation: Reservation,
    /// Mean length of the whole files so far.
    pub(super) file_bytes: u64,
    /// Buffers that were used before.
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) next_file: u64,
    pub(super) counts: AheadStats,
}

/// A file, and the first byte of a piece of it.
pub(super) type Key = (u64, u64);

pub(super) struct Piece {
    pub(super) end: u64,
    pub(super) path: Arc<Path>,
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
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Self {
            closed: false,
            threads: 0,
            idle: 0,
            pieces: BTreeMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            reservation: budget.empty_reservation(),
            file_bytes: FILE_BYTES,
            spare: Vec::new(),
            next_file: 0,
            counts: AheadStats::default(),
        }
    }

    /// Adds the pieces of `range` that do not exist yet, and keeps those that do. Returns whether the memory budget had
    /// room for them.
    pub(super) fn add(&mut self, file: u64, path: &Arc<Path>, range: Range<u64>, keys: &mut Vec<Key>) -> bool {
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
            let counted = if whole { self.file_bytes } else { end - at };
            let key = (file, at);
            let piece = Piece { end, path: path.clone(), needed_by: 1, counted, content: Content::Queued };
            if self.reservation.grow_to(self.bytes + counted, "bytes asked for ahead").is_err() {
                return false;
            }
            self.bytes += counted;
            self.pieces.insert(key, piece);
            self.queue.push_back(key);
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
        self.reservation.shrink_to(self.bytes);
        if let Content::Here(loaded) = piece.content
            && let Some(loaded) = Arc::into_inner(loaded)
        {
            self.keep(loaded.bytes);
        }
    }

    pub(super) fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < 64 {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// A request has ended: with these bytes of a file of this length, or without success.
    pub(super) fn arrive(&mut self, key: Key, read: Option<u64>, bytes: Vec<u8>) {
        self.counts.requests += 1;
        self.counts.bytes += bytes.len() as u64;
        let Some(piece) = self.pieces.get_mut(&key) else { return self.keep(bytes) };
        let whole = piece.end == TO_THE_END;
        let (len, wanted) = (bytes.len() as u64, piece.end - key.1);
        let is_all = |file_len: u64| if whole { len >= file_len.saturating_sub(key.1) } else { len == wanted };
        match read {
            Some(file_len) if is_all(file_len) => {
                let real = bytes.len() as u64;
                self.bytes = self.bytes - piece.counted + real;
                piece.counted = real;
                piece.content = Content::Here(Arc::new(Loaded { bytes, file_len }));
                if whole {
                    self.file_bytes = (7 * self.file_bytes + real).div_ceil(8);
                    // A file that is longer than was assumed is here already: it is counted as far as the budget
                    // allows.
                    let _ = self.reservation.grow_to(self.bytes, "bytes asked for ahead");
                    self.reservation.shrink_to(self.bytes);
                }
            }
            _ => piece.content = Content::Failed,
        }
        if self.pieces.get(&key).is_some_and(|piece| piece.needed_by == 0) {
            self.remove(key);
        }
    }
}
