//! Bytes that are asked for before a worker needs them.
//!
//! A storage that takes its time is kept busy by many requests at once. What will be needed is known from the plan; each
//! batch's [`Needs`] become requests here, which threads of this room work off in the order of the plan. A worker that
//! comes for bytes finds them, waits for a request that is under way, or, where nobody asked, reads by itself.
//!
//! Pieces of a file never overlap, so that the one that holds a byte is the last that begins before it. A piece stays
//! while a batch that asked for it does. A failed request leaves nothing: whoever comes for its bytes reads again and has
//! the error in its own place.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crate::counters::BytesRead;
use crate::error::{Error, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::sync::{Condvar, Mutex, MutexGuard};

use super::Storage;

/// Needs that lie no farther apart than this are one request: so many bytes take less time than another request.
const GAP_BYTES: u64 = 64 << 10;
/// Longer pieces are several requests, which may be under way together.
const PIECE_BYTES: u64 = 8 << 20;
/// What a whole file is taken to hold until the first ones have come.
const FILE_BYTES: u64 = 256 << 10;
/// The end of a piece that is a whole file of unknown length.
const TO_THE_END: u64 = u64::MAX;

/// The requests to one storage. Dropping it ends its threads as soon as their requests end.
pub(crate) struct Ahead(Arc<Shared>);

struct Shared {
    storage: Arc<dyn Storage>,
    in_flight: usize,
    most_bytes: u64,
    state: Mutex<State>,
    /// For whoever waits for bytes.
    arrived: Condvar,
    /// For the threads.
    queued: Condvar,
}

struct State {
    closed: bool,
    threads: usize,
    idle: usize,
    pieces: BTreeMap<Key, Piece>,
    queue: VecDeque<Key>,
    /// Of all pieces, whether they have come or not; the budget's share is as large.
    bytes: u64,
    reservation: Reservation,
    /// Mean length of whole files so far.
    file_bytes: u64,
    /// Buffers that were used before.
    spare: Vec<Vec<u8>>,
    next_file: u64,
    counts: AheadStats,
}

/// A file, and the first byte of a piece of it.
type Key = (u64, u64);

struct Piece {
    end: u64,
    path: Arc<Path>,
    /// How many batches need it.
    needed_by: usize,
    /// What it counts for in `State::bytes`.
    counted: u64,
    content: Content,
}

enum Content {
    Queued,
    Reading,
    Here(Arc<Loaded>),
    Failed,
}

struct Loaded {
    bytes: Vec<u8>,
    file_len: u64,
}

/// What a storage with latency was asked for, and how often somebody had to wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct AheadStats {
    /// Requests made before their bytes were needed.
    pub requests: u64,
    /// Bytes that came with them.
    pub bytes: u64,
    /// Most requests under way at the same time.
    pub most_in_flight: usize,
    /// Reads that found their request still under way.
    pub waited: u64,
    /// Reads that nobody had asked for before, made while somebody waited.
    pub unforeseen: u64,
}

/// Byte ranges of files that will be needed together: those of a batch.
#[derive(Default)]
pub struct Needs(Vec<Need>);

impl fmt::Debug for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Needs").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

struct Need {
    shared: Arc<Shared>,
    file: u64,
    path: Arc<Path>,
    range: Range<u64>,
}

/// Pieces that a batch needs: they stay until this drops.
#[derive(Default)]
pub(crate) struct Requested(Vec<(Arc<Shared>, Vec<Key>)>);

impl std::fmt::Debug for Requested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pieces: usize = self.0.iter().map(|(_, keys)| keys.len()).sum();
        write!(f, "Requested({pieces} pieces)")
    }
}

impl Ahead {
    pub(super) fn new(storage: Arc<dyn Storage>, most_bytes: u64, budget: &MemoryBudget) -> Self {
        let state = State {
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
        };
        Self(Arc::new(Shared {
            in_flight: storage.requests_in_flight().clamp(1, 1024),
            storage,
            most_bytes,
            state: Mutex::new(state),
            arrived: Condvar::new(),
            queued: Condvar::new(),
        }))
    }

    pub(super) fn storage(&self) -> &dyn Storage {
        &*self.0.storage
    }

    /// A number for a file, or the first of `count` numbers for as many files.
    pub(super) fn number_files(&self, count: u64) -> u64 {
        let mut state = self.0.state.lock();
        let first = state.next_file;
        state.next_file += count;
        first
    }

    /// Says that `range` of a file will be needed; of a whole file that is `0..u64::MAX`.
    pub(super) fn need(&self, file: u64, path: &Arc<Path>, range: Range<u64>, needs: &mut Needs) {
        if !range.is_empty() {
            needs.0.push(Need { shared: self.0.clone(), file, path: path.clone(), range });
        }
    }

    pub(super) fn stats(&self) -> AheadStats {
        self.0.state.lock().counts
    }

    /// Fills `into` with the bytes of a file from `offset` on.
    pub(super) fn read(&self, file: u64, path: &Path, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = offset.saturating_add(done as u64);
            let rest = &mut into[done..];
            let piece = self.0.piece(file, at);
            let found = piece.as_ref().and_then(|(start, piece)| piece.bytes.get((at - start) as usize..));
            let Some(found) = found.filter(|found| !found.is_empty()) else {
                return self.0.read_now(path, at, rest);
            };
            let count = found.len().min(rest.len());
            rest[..count].copy_from_slice(&found[..count]);
            BytesRead::note(count);
            done += count;
        }
        Ok(())
    }

    /// Puts the first `wanted` bytes of a file into `buffer`; gives the file's length.
    pub(super) fn read_file(&self, file: u64, path: &Path, buffer: &mut Vec<u8>, wanted: u64) -> Result<u64> {
        let Some((_, piece)) = self.0.piece(file, 0) else {
            self.0.state.lock().counts.unforeseen += 1;
            let len = self.0.storage.read(path, 0..wanted, buffer)?;
            BytesRead::note(buffer.len());
            return Ok(len);
        };
        let count = usize::try_from(wanted).map_or(piece.bytes.len(), |wanted| piece.bytes.len().min(wanted));
        buffer.clear();
        buffer.extend_from_slice(&piece.bytes[..count]);
        BytesRead::note(count);
        Ok(piece.file_len)
    }
}

impl std::fmt::Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ahead").field(&self.stats()).finish()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.queued.notify_all();
        self.0.arrived.notify_all();
    }
}

impl Needs {
    /// Whether nothing will be needed that takes time.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks for everything that nobody has asked for yet. What is asked for in vain is not an error here: the read that
    /// needs it has it.
    pub(crate) fn request(mut self) -> Requested {
        self.0.sort_by_key(|need| (Arc::as_ptr(&need.shared).addr(), need.file, need.range.start));
        let mut requested = Requested::default();
        for of_one in self.0.chunk_by(|a, b| Arc::ptr_eq(&a.shared, &b.shared)) {
            let mut keys = Vec::new();
            let shared = &of_one[0].shared;
            let mut state = shared.state.lock();
            for of_file in of_one.chunk_by(|a, b| a.file == b.file) {
                let mut merged: Option<Range<u64>> = None;
                for need in of_file {
                    match &mut merged {
                        Some(range) if need.range.start <= range.end.saturating_add(GAP_BYTES) => {
                            range.end = range.end.max(need.range.end);
                        }
                        _ => {
                            if let Some(range) = merged.replace(need.range.clone()) {
                                state.add(need.file, &need.path, range, &mut keys);
                            }
                        }
                    }
                }
                if let Some(range) = merged {
                    state.add(of_file[0].file, &of_file[0].path, range, &mut keys);
                }
            }
            shared.start_threads(&mut state);
            drop(state);
            requested.0.push((shared.clone(), keys));
        }
        requested
    }
}

impl Requested {
    /// Whether more may be asked for while this and what came before it is under way.
    pub(crate) fn has_room(&self) -> bool {
        self.0.iter().all(|(shared, _)| {
            let state = shared.state.lock();
            state.bytes < shared.most_bytes
        })
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        for (shared, keys) in self.0.drain(..) {
            let mut state = shared.state.lock();
            for key in keys {
                state.release(key);
            }
        }
    }
}

impl State {
    /// Adds the pieces of `range` that are not there yet, and holds on to those that are.
    fn add(&mut self, file: u64, path: &Arc<Path>, range: Range<u64>, keys: &mut Vec<Key>) {
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
                tracing::debug!(
                    "the memory budget leaves no room for bytes asked for ahead: they are read when needed"
                );
                return;
            }
            self.bytes += counted;
            self.pieces.insert(key, piece);
            self.queue.push_back(key);
            keys.push(key);
            at = end;
        }
    }

    fn release(&mut self, key: Key) {
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

    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < 64 {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

impl Shared {
    /// The piece that holds byte `at` of a file, and where it begins. Waits until it is there; `None` if nobody asked for it,
    /// or in vain.
    fn piece(&self, file: u64, at: u64) -> Option<(u64, Arc<Loaded>)> {
        let mut state = self.state.lock();
        let mut waits = false;
        loop {
            let ((found, start), piece) = state.pieces.range(..=(file, at)).next_back()?;
            if *found != file || piece.end <= at {
                return None;
            }
            match &piece.content {
                Content::Here(loaded) => return Some((*start, loaded.clone())),
                Content::Failed => return None,
                Content::Queued | Content::Reading if state.closed => return None,
                Content::Queued | Content::Reading => {}
            }
            if !std::mem::replace(&mut waits, true) {
                state.counts.waited += 1;
            }
            state = self.arrived.wait(state);
        }
    }

    #[cold]
    fn read_now(&self, path: &Path, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut buffer = {
            let mut state = self.state.lock();
            state.counts.unforeseen += 1;
            state.spare.pop().unwrap_or_default()
        };
        let end = offset.saturating_add(into.len() as u64);
        let len = self.storage.read(path, offset..end, &mut buffer)?;
        let Some(bytes) = buffer.get(..into.len()) else {
            return Err(super::shorter_than_before(path, len.max(offset.saturating_add(buffer.len() as u64))));
        };
        into.copy_from_slice(bytes);
        BytesRead::note(into.len());
        self.state.lock().keep(buffer);
        Ok(())
    }

    fn start_threads(self: &Arc<Self>, state: &mut MutexGuard<'_, State>) {
        let wanted = state.queue.len().saturating_sub(state.idle).min(self.in_flight - state.threads);
        for _ in 0..wanted {
            let shared = self.clone();
            let started =
                thread::Builder::new().name(format!("ringfeed-ahead-{}", state.threads)).spawn(move || shared.work());
            if started.is_err() {
                break;
            }
            state.threads += 1;
        }
        self.queued.notify_all();
        if state.threads == 0 {
            // Without a thread nobody would ever answer: those who come for the bytes read them.
            while let Some(key) = state.queue.pop_front() {
                if let Some(piece) = state.pieces.get_mut(&key) {
                    piece.content = Content::Failed;
                }
            }
        }
    }

    /// What a thread does.
    fn work(&self) {
        let mut state = self.state.lock();
        let mut in_flight = 0;
        loop {
            if state.closed {
                return;
            }
            let Some(key) = state.queue.pop_front() else {
                state.idle += 1;
                state = self.queued.wait(state);
                state.idle -= 1;
                continue;
            };
            let Some(piece) = state.pieces.get_mut(&key).filter(|piece| matches!(piece.content, Content::Queued))
            else {
                continue;
            };
            piece.content = Content::Reading;
            let (path, end) = (piece.path.clone(), piece.end);
            let mut buffer = state.spare.pop().unwrap_or_default();
            in_flight = (state.threads - state.idle).max(in_flight);
            state.counts.most_in_flight = state.counts.most_in_flight.max(in_flight);
            drop(state);
            let read = catch_unwind(AssertUnwindSafe(|| self.storage.read(&path, key.1..end, &mut buffer)))
                .unwrap_or_else(|panic| {
                    let error = Error::from_panic(&*panic);
                    // It is the user's, too: if it panicked as it drops, nobody would answer those who wait.
                    std::mem::forget(panic);
                    Err(error)
                });
            state = self.state.lock();
            state.arrive(key, read, buffer);
            self.arrived.notify_all();
        }
    }
}

impl State {
    fn arrive(&mut self, key: Key, read: Result<u64>, bytes: Vec<u8>) {
        self.counts.requests += 1;
        self.counts.bytes += bytes.len() as u64;
        let Some(piece) = self.pieces.get_mut(&key) else { return self.keep(bytes) };
        let whole = piece.end == TO_THE_END;
        match read {
            Ok(file_len) if whole || bytes.len() as u64 == piece.end - key.1 => {
                let real = bytes.len() as u64;
                self.bytes = self.bytes - piece.counted + real;
                piece.counted = real;
                piece.content = Content::Here(Arc::new(Loaded { bytes, file_len }));
                if whole {
                    self.file_bytes = (7 * self.file_bytes + real).div_ceil(8);
                    // A file longer than was thought is here already: it is counted as far as the budget goes.
                    let _ = self.reservation.grow_to(self.bytes, "bytes asked for ahead");
                    self.reservation.shrink_to(self.bytes);
                }
            }
            Ok(_) => piece.content = Content::Failed,
            Err(error) => {
                tracing::debug!(path = %piece.path.display(), %error, "a request ahead failed; it is made again when needed");
                piece.content = Content::Failed;
            }
        }
        if self.pieces.get(&key).is_some_and(|piece| piece.needed_by == 0) {
            self.remove(key);
        }
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// A file whose bytes are their own offsets, and what was read of it.
    #[derive(Default)]
    struct Offsets {
        reads: Mutex<Vec<Range<u64>>>,
    }

    const LEN: u64 = 1 << 30;

    impl Storage for Offsets {
        fn file_len(&self, _: &Path) -> Result<u64> {
            Ok(LEN)
        }

        fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
            self.reads.lock().push(range.clone());
            into.clear();
            into.extend((range.start..range.end.min(LEN).min(range.start + (32 << 20))).map(|at| at as u8));
            Ok(LEN)
        }

        fn requests_in_flight(&self) -> usize {
            3
        }
    }

    fn ahead() -> (Arc<Offsets>, Ahead, Arc<Path>) {
        let storage = Arc::new(Offsets::default());
        let ahead = Ahead::new(storage.clone(), 1 << 30, &MemoryBudget::unlimited());
        (storage, ahead, Path::new("offsets").into())
    }

    fn ask<const N: usize>(ahead: &Ahead, path: &Arc<Path>, ranges: [(u64, u64); N]) -> Requested {
        let mut needs = Needs::default();
        ranges.into_iter().for_each(|(start, end)| ahead.need(0, path, start..end, &mut needs));
        needs.request()
    }

    fn check(ahead: &Ahead, path: &Path, range: Range<u64>) {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        ahead.read(0, path, range.start, &mut bytes).expect("the storage has it");
        assert!(bytes.iter().zip(range).all(|(byte, at)| *byte == at as u8));
    }

    fn read(storage: &Offsets) -> Vec<(u64, u64)> {
        storage.reads.lock().iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn neighbours_are_one_request_long_ranges_several_and_nothing_is_asked_for_twice() {
        let (storage, ahead, path) = ahead();
        let first = ask(&ahead, &path, [(10_000, 10_100), (0, 100), (50, 200)]);
        check(&ahead, &path, 0..200);
        check(&ahead, &path, 10_000..10_100);
        assert_eq!(read(&storage), [(0, 10_100)]);
        let second = ask(&ahead, &path, [(100, 20_000)]);
        check(&ahead, &path, 5000..20_000);
        assert_eq!(read(&storage)[1..], [(10_100, 20_000)]);
        drop(first);
        // The second batch still needs its part of the first one's piece.
        check(&ahead, &path, 100..20_000);
        let long = ask(&ahead, &path, [(1 << 20, (1 << 20) + 2 * PIECE_BYTES + 1)]);
        check(&ahead, &path, 1 << 20..(1 << 20) + 2 * PIECE_BYTES + 1);
        assert_eq!(storage.reads.lock().len(), 5);
        drop((second, long));
        assert_eq!(ahead.0.state.lock().bytes, 0);
        assert_eq!(ahead.stats().unforeseen, 0);
        check(&ahead, &path, 0..10);
        assert_eq!(ahead.stats().unforeseen, 1);
    }

    #[test]
    fn a_range_that_fills_a_gap_meets_both_its_neighbours() {
        let (storage, ahead, path) = ahead();
        let apart = GAP_BYTES + 1000;
        let edges = ask(&ahead, &path, [(0, 1000), (2 * apart, 2 * apart + 1000)]);
        let all = ask(&ahead, &path, [(0, 2 * apart + 1000)]);
        check(&ahead, &path, 0..2 * apart + 1000);
        let mut reads = read(&storage);
        reads.sort();
        assert_eq!(reads, [(0, 1000), (1000, 2 * apart), (2 * apart, 2 * apart + 1000)]);
        drop(edges);
        check(&ahead, &path, 0..2 * apart + 1000);
        drop(all);
        assert!(ahead.0.state.lock().pieces.is_empty());
    }

    #[test]
    fn a_whole_file_is_there_from_its_first_byte_on() {
        let (_, ahead, path) = ahead();
        let held = ask(&ahead, &path, [(0, u64::MAX)]);
        let mut buffer = Vec::new();
        assert_eq!(ahead.read_file(0, &path, &mut buffer, 300).expect("it is there"), LEN);
        assert_eq!((buffer.len(), buffer[299]), (300, 299u16 as u8));
        drop(held);
        assert_eq!(ahead.0.state.lock().bytes, 0);
    }

    #[test]
    fn what_was_asked_for_in_vain_is_read_again_by_who_needs_it() {
        struct Broken;
        impl Storage for Broken {
            fn file_len(&self, _: &Path) -> Result<u64> {
                Ok(100)
            }

            fn read(&self, _: &Path, _: Range<u64>, _: &mut Vec<u8>) -> Result<u64> {
                Err(Error::new(ErrorKind::Io, "no"))
            }
        }
        let ahead = Ahead::new(Arc::new(Broken), 1 << 30, &MemoryBudget::unlimited());
        let path = Path::new("x").into();
        let held = ask(&ahead, &path, [(0, 100)]);
        assert_eq!(ahead.read(0, &path, 0, &mut [0; 10]).unwrap_err().message(), "no");
        drop(held);
        assert!(ahead.0.state.lock().pieces.is_empty());
    }
}
