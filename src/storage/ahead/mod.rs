//! Bytes that are requested before a worker needs them.
//!
//! A slow storage is kept busy with many requests at a time. The plan says which bytes will be needed: each batch's
//! [`Needs`] become requests here, and threads of this module process them in the order of the plan. A worker that
//! needs bytes finds them, waits for a request in progress, or, if they were not requested, reads them itself.
//!
//! Pieces of a file never overlap, so the piece with a byte is the last one that begins at or before it. A piece is
//! kept as long as a batch needs it. A failed request leaves nothing behind: a worker that needs its bytes reads them
//! again and gets the error in its own place.

mod pieces;
mod shared;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::counters::BytesRead;
use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

use super::{Storage, replaced, shorter_than_before};

use pieces::{Key, State, TO_THE_END};
use shared::Shared;

pub use pieces::AheadStats;

/// Needs that are no farther apart than this become one request, because reading the bytes between them takes less time
/// than another request.
const GAP_BYTES: u64 = 64 << 10;

/// The requests to one storage. When it drops, its threads end as soon as their requests end.
pub(crate) struct Ahead(Arc<Shared>);

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
    /// The greatest length that a whole file may have.
    most: u64,
}

/// Pieces that a batch needs. They are kept until this drops.
#[derive(Default)]
pub(crate) struct Requested {
    pieces: Vec<(Arc<Shared>, Vec<Key>)>,
    /// Whether the memory budget had no room for some.
    is_partial: bool,
}

impl std::fmt::Debug for Requested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pieces: usize = self.pieces.iter().map(|(_, keys)| keys.len()).sum();
        write!(f, "Requested({pieces} pieces)")
    }
}

impl Ahead {
    pub(super) fn new(storage: Arc<dyn Storage>, most_bytes: u64, budget: &MemoryBudget) -> Self {
        Self(Arc::new(Shared {
            in_flight: storage.requests_in_flight().clamp(1, 1024),
            storage,
            most_bytes,
            process: AtomicU32::new(0),
            next_file: AtomicU64::new(0),
            state: Mutex::new(State::new(budget, most_bytes)),
            arrived: Condvar::new(),
            queued: Condvar::new(),
        }))
    }

    pub(super) fn storage(&self) -> &dyn Storage {
        &*self.0.storage
    }

    /// A number for a file, or the first of `count` numbers for `count` files.
    pub(super) fn number_files(&self, count: u64) -> u64 {
        self.0.next_file.fetch_add(count, Ordering::Relaxed)
    }

    /// Announces that `range` of a file will be needed.
    pub(super) fn need(&self, file: u64, path: &Arc<Path>, range: Range<u64>, needs: &mut Needs) {
        if !range.is_empty() {
            needs.0.push(Need { shared: self.0.clone(), file, path: path.clone(), range, most: u64::MAX });
        }
    }

    /// Announces that a whole file will be needed, unless it is longer than `most`.
    pub(super) fn need_whole(&self, file: u64, path: &Arc<Path>, most: u64, needs: &mut Needs) {
        needs.0.push(Need { shared: self.0.clone(), file, path: path.clone(), range: 0..TO_THE_END, most });
    }

    /// What was requested; nothing in a forked process.
    pub(super) fn stats(&self) -> AheadStats {
        if self.0.is_of_another_process() { AheadStats::default() } else { self.0.state.lock().counts }
    }

    /// Fills `into` with the bytes from `offset` on of a file that had `len` when it was opened.
    pub(super) fn read(&self, file: u64, (path, len): (&Path, u64), offset: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = offset.saturating_add(done as u64);
            let rest = &mut into[done..];
            let piece = self.0.piece(file, at);
            if piece.as_ref().is_some_and(|(_, piece)| piece.file_len != len) {
                return Err(replaced(path));
            }
            let found = piece.as_ref().and_then(|(start, piece)| piece.bytes.get((at - start) as usize..));
            let Some(found) = found.filter(|found| !found.is_empty()) else {
                return self.0.read_now((path, len), at, rest);
            };
            let count = found.len().min(rest.len());
            rest[..count].copy_from_slice(&found[..count]);
            BytesRead::note(count);
            done += count;
        }
        Ok(())
    }

    /// Copies the first `wanted` bytes of a file to `buffer`; returns the file's length.
    pub(super) fn read_file(&self, file: u64, path: &Path, buffer: &mut Vec<u8>, wanted: u64) -> Result<u64> {
        let Some((_, piece)) = self.0.piece(file, 0) else {
            if !self.0.is_of_another_process() {
                self.0.state.lock().counts.unforeseen += 1;
            }
            let len = self.0.storage.read(path, 0..wanted, buffer)?;
            BytesRead::note(buffer.len());
            if (buffer.len() as u64) < wanted.min(len) {
                return Err(shorter_than_before(path, buffer.len() as u64));
            }
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
        if self.0.is_of_another_process() {
            return;
        }
        self.0.state.lock().close();
        self.0.queued.notify_all();
        self.0.arrived.notify_all();
    }
}

impl Needs {
    /// Whether no bytes must be requested.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Requests everything that is not requested yet. If a request fails, this is not an error here: the read that
    /// needs its bytes returns the error.
    pub(crate) fn request(mut self) -> Requested {
        self.0.sort_by_key(|need| (Arc::as_ptr(&need.shared).addr(), need.file, need.range.start));
        let mut requested = Requested::default();
        for of_one in self.0.chunk_by(|a, b| Arc::ptr_eq(&a.shared, &b.shared)) {
            let (mut keys, mut has_room) = (Vec::new(), true);
            let shared = &of_one[0].shared;
            if shared.is_of_another_process() {
                // It is read when it is needed.
                requested.is_partial = true;
                continue;
            }
            let mut state = shared.state.lock();
            for of_file in of_one.chunk_by(|a, b| a.file == b.file) {
                let (mut merged, most) = (None::<Range<u64>>, of_file[0].most);
                for need in of_file {
                    match &mut merged {
                        Some(range) if need.range.start <= range.end.saturating_add(GAP_BYTES) => {
                            range.end = range.end.max(need.range.end);
                        }
                        _ => {
                            if let Some(range) = merged.replace(need.range.clone()) {
                                has_room &= state.add(need.file, &need.path, range, most, &mut keys);
                            }
                        }
                    }
                }
                if let Some(range) = merged {
                    has_room &= state.add(of_file[0].file, &of_file[0].path, range, most, &mut keys);
                }
            }
            state.next_batch += 1;
            shared.start_threads(&mut state);
            drop(state);
            requested.pieces.push((shared.clone(), keys));
            requested.is_partial |= !has_room;
            if !has_room {
                tracing::debug!("the memory budget has no room for bytes asked for ahead: they are read when needed");
            }
        }
        requested
    }
}

impl Requested {
    /// Whether more may be requested while this and earlier requests are under way.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_partial
            && self.pieces.iter().all(|(shared, _)| {
                let state = shared.state.lock();
                state.wanted_bytes() < shared.most_bytes
            })
    }

    /// Whether all bytes of the batch were requested.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_partial
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        for (shared, keys) in self.pieces.drain(..) {
            if shared.is_of_another_process() {
                continue;
            }
            let mut state = shared.state.lock();
            for key in keys {
                state.release(key);
            }
            shared.look_again(&mut state);
            drop(state);
            // Whoever waits for a piece that only this batch had requested, and that nobody has begun to read, reads it
            // directly.
            shared.arrived.notify_all();
        }
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use std::sync::mpsc;

    use super::pieces::{Content, PIECE_BYTES};
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::watchdog;

    /// A file whose bytes are their own offsets, and a record of what was read.
    #[derive(Default)]
    struct Offsets {
        reads: Mutex<Vec<Range<u64>>>,
    }

    const LEN: u64 = 1 << 30;
    /// The length of a file that is requested as a whole.
    const WHOLE: u64 = 32 << 20;

    impl Storage for Offsets {
        fn file_len(&self, _: &Path) -> Result<u64> {
            Ok(LEN)
        }

        fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
            self.reads.lock().push(range.clone());
            into.clear();
            let len = if range.end == u64::MAX { WHOLE } else { LEN };
            into.extend((range.start..range.end.min(len)).map(|at| at as u8));
            Ok(len)
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
        ahead.read(0, (path, LEN), range.start, &mut bytes).expect("the storage has it");
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
        assert_eq!(ahead.read_file(0, &path, &mut buffer, 300).expect("it is there"), WHOLE);
        assert_eq!((buffer.len(), buffer[299]), (300, 299u16 as u8));
        assert_eq!(ahead.0.state.lock().counts.unforeseen, 0);
        drop(held);
        assert_eq!(ahead.0.state.lock().bytes, 0);
    }

    #[test]
    fn a_part_of_a_whole_file_is_an_error() {
        struct Breaks;
        impl Storage for Breaks {
            fn file_len(&self, _: &Path) -> Result<u64> {
                Ok(100)
            }

            fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
                into.clear();
                into.resize((range.end.min(40) - range.start) as usize, 7);
                Ok(100)
            }
        }
        let ahead = Ahead::new(Arc::new(Breaks), 1 << 30, &MemoryBudget::unlimited());
        let path: Arc<Path> = Path::new("x").into();
        for asks in [false, true] {
            let held = asks.then(|| ask(&ahead, &path, [(0, u64::MAX)]));
            let error = ahead.read_file(0, &path, &mut Vec::new(), u64::MAX).unwrap_err();
            assert_eq!((error.path(), error.location().byte), (Some(&*path), Some(40)), "{error}");
            assert_eq!(ahead.read_file(0, &path, &mut Vec::new(), 40).unwrap(), 100);
            drop(held);
        }
    }

    #[test]
    fn an_object_of_another_length_than_before_is_an_error_that_names_it() {
        struct Replaced;
        impl Storage for Replaced {
            fn file_len(&self, _: &Path) -> Result<u64> {
                Ok(100)
            }

            fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
                into.clear();
                into.resize((range.end.min(120) - range.start) as usize, 7);
                Ok(120)
            }
        }
        let ahead = Ahead::new(Arc::new(Replaced), 1 << 30, &MemoryBudget::unlimited());
        let path: Arc<Path> = Path::new("x").into();
        let read = || ahead.read(0, (&path, 100), 10, &mut [0; 10]).unwrap_err();
        let refused = |error: Error| {
            assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(&*path)), "{error}");
            assert!(error.message().contains("another file has taken its place"), "{error}");
        };
        refused(read());
        let held = ask(&ahead, &path, [(0, 100)]);
        refused(read());
        drop(held);
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
        assert_eq!(ahead.read(0, (&path, 100), 0, &mut [0; 10]).unwrap_err().message(), "no");
        drop(held);
        assert!(ahead.0.state.lock().pieces.is_empty());
    }

    #[test]
    fn who_waits_for_what_nobody_needs_any_more_reads_by_itself() {
        /// Hangs when bytes are requested ahead.
        struct Hanging(std::sync::Mutex<mpsc::Receiver<()>>);
        impl Storage for Hanging {
            fn file_len(&self, _: &Path) -> Result<u64> {
                Ok(LEN)
            }

            fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
                if std::thread::current().name().is_some_and(|name| name.starts_with("ringfeed-ahead")) {
                    self.0.lock().unwrap().recv().unwrap_err();
                }
                into.clear();
                into.extend(range.map(|at| at as u8));
                Ok(LEN)
            }

            fn requests_in_flight(&self) -> usize {
                1
            }
        }
        watchdog::watch();
        let (open, gate) = mpsc::channel();
        let ahead = Ahead::new(Arc::new(Hanging(gate.into())), 1 << 30, &MemoryBudget::unlimited());
        let path: Arc<Path> = Path::new("offsets").into();
        let under_way = ask(&ahead, &path, [(0, 100)]);
        let queued = ask(&ahead, &path, [(1 << 20, (1 << 20) + 100)]);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| check(&ahead, &path, 1 << 20..(1 << 20) + 100));
            while ahead.stats().waited == 0 {
                std::thread::yield_now();
            }
            drop(queued);
            reader.join().unwrap();
        });
        drop(open);
        check(&ahead, &path, 0..100);
        drop(under_way);
    }

    #[test]
    fn of_a_file_that_is_too_long_no_more_is_read_than_shows_that() {
        let (storage, ahead, path) = ahead();
        let mut needs = Needs::default();
        ahead.need_whole(0, &path, 1000, &mut needs);
        let held = needs.request();
        assert_eq!(ahead.read_file(0, &path, &mut Vec::new(), 1001).expect("it is there"), LEN);
        assert_eq!((read(&storage), ahead.stats().unforeseen), (vec![(0, 1001)], 0));
        assert_eq!(ahead.0.state.lock().bytes, 0);
        drop(held);
    }

    #[test]
    fn a_request_that_does_not_end_is_given_up_and_another_thread_takes_its_place() {
        /// Hangs at the first requests that are made ahead.
        struct Hanging(std::sync::Mutex<mpsc::Receiver<()>>, AtomicU64);
        impl Storage for Hanging {
            fn file_len(&self, _: &Path) -> Result<u64> {
                Ok(LEN)
            }

            fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
                let is_ahead = std::thread::current().name().is_some_and(|name| name.starts_with("ringfeed-ahead"));
                if is_ahead && self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                    self.0.lock().unwrap().recv().unwrap_err();
                }
                into.clear();
                into.extend(range.map(|at| at as u8));
                Ok(LEN)
            }

            fn requests_in_flight(&self) -> usize {
                1
            }
        }
        watchdog::watch();
        let (open, gate) = mpsc::channel();
        let storage = Arc::new(Hanging(gate.into(), AtomicU64::new(0)));
        let ahead = Ahead::new(storage.clone(), 1 << 30, &MemoryBudget::unlimited());
        ahead.0.state.lock().patience = std::time::Duration::from_secs(1);
        let path: Arc<Path> = Path::new("offsets").into();
        let hangs = ask(&ahead, &path, [(0, 100)]);
        while storage.1.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let behind = ask(&ahead, &path, [(1 << 20, (1 << 20) + 100)]);
        // Nobody waits for the request that hangs, but all threads do.
        check(&ahead, &path, 1 << 20..(1 << 20) + 100);
        assert_eq!(ahead.stats().unforeseen, 0);
        check(&ahead, &path, 0..100);
        assert_eq!(ahead.stats().unforeseen, 1);
        // The next batch requests it again.
        let again = ask(&ahead, &path, [(0, 100)]);
        check(&ahead, &path, 0..100);
        assert_eq!(ahead.stats().unforeseen, 1);
        drop((hangs, behind, again));
        drop(open);
        while ahead.0.state.lock().lost() > 0 {
            std::thread::yield_now();
        }
        let state = ahead.0.state.lock();
        assert_eq!((state.bytes, state.threads), (0, 1));
        drop(state);
        let other = ask(&ahead, &path, [(2 << 20, (2 << 20) + 100)]);
        check(&ahead, &path, 2 << 20..(2 << 20) + 100);
        assert_eq!(ahead.stats().unforeseen, 1);
        drop(other);
    }

    #[test]
    fn what_could_not_be_read_is_requested_again_by_the_next_batch() {
        /// Fails once.
        struct Once(AtomicU64);
        impl Storage for Once {
            fn file_len(&self, _: &Path) -> Result<u64> {
                Ok(LEN)
            }

            fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
                if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Err(Error::new(ErrorKind::Io, "not now"));
                }
                into.clear();
                into.extend(range.map(|at| at as u8));
                Ok(LEN)
            }
        }
        let ahead = Ahead::new(Arc::new(Once(AtomicU64::new(0))), 1 << 30, &MemoryBudget::unlimited());
        let path: Arc<Path> = Path::new("offsets").into();
        let first = ask(&ahead, &path, [(0, 100)]);
        check(&ahead, &path, 0..100);
        assert_eq!(ahead.stats().unforeseen, 1);
        let second = ask(&ahead, &path, [(50, 100)]);
        check(&ahead, &path, 0..100);
        assert_eq!(ahead.stats().unforeseen, 1);
        drop((first, second));
        assert_eq!(ahead.0.state.lock().bytes, 0);
    }

    #[test]
    fn whole_files_that_are_longer_than_was_assumed_stay_within_the_limit() {
        watchdog::watch();
        let most = 4 * WHOLE;
        let storage = Arc::new(Offsets::default());
        let ahead = Ahead::new(storage.clone(), most, &MemoryBudget::unlimited());
        let path: Arc<Path> = Path::new("offsets").into();
        // As many batches of one file as are planned before the length of any is known.
        let mut batches: Vec<_> = (0..30)
            .map(|file| {
                let mut needs = Needs::default();
                ahead.need(file, &path, 0..u64::MAX, &mut needs);
                Some(needs.request())
            })
            .collect();
        let here = || loop {
            let mut state = ahead.0.state.lock();
            let is_still = !state.has_next();
            let of = |is: fn(&Content) -> bool| state.pieces.values().filter(|piece| is(&piece.content)).count();
            if is_still && of(|content| matches!(content, Content::Reading(..))) == 0 {
                break of(|content| matches!(content, Content::Here(_)));
            }
            drop(state);
            std::thread::yield_now();
        };
        assert!((1..=4).contains(&here()), "{}", here());
        // One that is needed now is read, with those before it.
        let mut buffer = Vec::new();
        assert_eq!(ahead.read_file(12, &path, &mut buffer, 10).expect("it is there"), WHOLE);
        assert_eq!(ahead.stats().unforeseen, 0);
        batches[..13].iter_mut().for_each(|batch| drop(batch.take()));
        for file in 13..30 {
            assert!(here() <= 4, "{}", here());
            assert_eq!(ahead.read_file(file, &path, &mut buffer, 10).expect("it is there"), WHOLE);
            batches[file as usize].take();
        }
        assert_eq!((ahead.stats().unforeseen, ahead.0.state.lock().bytes), (0, 0));
    }

    #[test]
    fn a_piece_that_a_reader_waits_for_is_read_whatever_stands_before_it() {
        watchdog::watch();
        let storage = Arc::new(Offsets::default());
        let ahead = Ahead::new(storage, WHOLE, &MemoryBudget::unlimited());
        let path: Arc<Path> = Path::new("offsets").into();
        let of = |files: std::ops::Range<u64>| {
            let mut needs = Needs::default();
            files.for_each(|file| ahead.need(file, &path, 0..u64::MAX, &mut needs));
            needs.request()
        };
        let mut buffer = Vec::new();
        let mut read = |file| ahead.read_file(file, &path, &mut buffer, 10).expect("it is there");
        // The length is known, and the limit is used up.
        let first = of(0..2);
        assert_eq!((read(0), read(1)), (WHOLE, WHOLE));
        // Given up, and requested again behind another one.
        drop(of(10..30));
        let other = of(40..41);
        let again = of(10..30);
        assert_eq!(read(40), WHOLE);
        // Of what another loader requested, nothing is read for that.
        let here =
            ahead.0.state.lock().pieces.values().filter(|piece| !matches!(piece.content, Content::Queued)).count();
        assert_eq!(here, 3);
        drop((first, other));
        assert_eq!((read(29), read(10)), (WHOLE, WHOLE));
        drop(again);
        // What is being read is counted until it comes.
        while ahead.0.state.lock().bytes > 0 {
            std::thread::yield_now();
        }
        assert_eq!(ahead.stats().unforeseen, 0);
    }

    #[test]
    fn a_forked_process_reads_for_itself() {
        watchdog::watch();
        let (storage, mut ahead, path) = ahead();
        let parents = ask(&ahead, &path, [(0, 100)]);
        check(&ahead, &path, 0..100);
        let queued = Needs(vec![Need {
            shared: ahead.0.clone(),
            file: 0,
            path: path.clone(),
            range: 500_000..500_100,
            most: u64::MAX,
        }]);
        drop(parents);
        let shared = &ahead.0;
        let process = shared.process.load(Ordering::Relaxed).wrapping_add(1);
        let state = Mutex::new(State::new(&MemoryBudget::unlimited(), 1 << 30));
        // As if the threads had stayed behind: nobody answers.
        state.lock().threads = 3;
        state.lock().idle = 3;
        state.lock().add(0, &path, 0..100, u64::MAX, &mut Vec::new());
        drop(queued);
        ahead = Ahead(Arc::new(Shared {
            storage: storage.clone(),
            in_flight: 3,
            most_bytes: 1 << 30,
            process: AtomicU32::new(process),
            next_file: AtomicU64::new(0),
            state,
            arrived: Condvar::new(),
            queued: Condvar::new(),
        }));
        let requested = ask(&ahead, &path, [(1 << 20, (1 << 20) + 100)]);
        assert!(!requested.is_whole() && !requested.has_room());
        check(&ahead, &path, 0..100);
        check(&ahead, &path, 1 << 20..(1 << 20) + 100);
        // That of a thread which is not there may stay for ever.
        let _locked = ahead.0.state.lock();
        check(&ahead, &path, 0..100);
        drop(requested);
    }

    #[test]
    fn buffers_of_long_files_do_not_keep_their_memory_for_short_ones() {
        let budget = MemoryBudget::unlimited();
        let mut state = State::new(&budget, 1 << 30);
        let path: Arc<Path> = Path::new("x").into();
        let mut keys = Vec::new();
        assert!(state.add(0, &path, 0..u64::MAX, u64::MAX, &mut keys));
        let (request, _) = state.next().expect("it is queued");
        let mut buffer = Vec::with_capacity(8 << 20);
        buffer.extend([0; 1000]);
        state.arrive(&request, Some(1000), pieces::fitted(buffer));
        assert!(state.bytes < 2000 && budget.used() == state.bytes, "{}", state.bytes);
        state.release(request.key);
        assert_eq!((state.bytes, budget.used()), (0, 0));
    }
}
