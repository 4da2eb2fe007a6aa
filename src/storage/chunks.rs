//! Decoded chunks, shared by all workers of a reader: data that can only be decoded as a unit, such as a row group, is
//! decoded once and kept while there is room.
//!
//! The first thread that needs a chunk decodes it, without a lock; others wait. A thread that needs several chunks
//! first decodes those that no thread has begun, and then waits. So several threads decode the columns of one row
//! group.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Deref;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A bounded cache of decoded chunks, by key.
pub(crate) struct Chunks<K, T> {
    most_bytes: u64,
    budget: MemoryBudget,
    state: Mutex<State<K, T>>,
    /// Notified when a chunk was decoded, or could not be.
    changed: Condvar,
}

struct State<K, T> {
    entries: HashMap<K, Entry<T>>,
    /// Bytes of the chunks in the cache.
    bytes: u64,
    /// Counts uses; the least recently used chunk has the smallest.
    uses: u64,
    counts: ChunkStats,
}

enum Entry<T> {
    Decoding,
    Here { chunk: Arc<Chunk<T>>, used: u64 },
    Bad(Arc<Fault>),
}

/// An error that occurs every time this chunk is decoded.
struct Fault {
    kind: ErrorKind,
    message: String,
    location: Location,
}

/// A decoded chunk with its share of the memory budget.
pub(crate) struct Chunk<T> {
    value: T,
    reservation: Reservation,
}

/// How often decoded chunks were in the cache, and how often they had to be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ChunkStats {
    /// Chunks that were found in the cache.
    pub hits: u64,
    /// Chunks that another thread was decoding, so that the caller waited.
    pub waited: u64,
    /// Chunks that were decoded. If this is more than the number of chunks, some were decoded again, because there was
    /// no room to keep them.
    pub decoded: u64,
    /// Chunks that were removed to make room for others.
    pub evicted: u64,
    /// Bytes of the chunks that are kept now.
    pub bytes: u64,
}

impl<T> Deref for Chunk<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Chunk<T> {
    /// Bytes that it counts for in the budget.
    pub(crate) fn bytes(&self) -> u64 {
        self.reservation.bytes()
    }
}

/// Withdraws the claim on a chunk if decoding it panics.
struct Claim<'a, K: Copy + Eq + Hash, T> {
    chunks: &'a Chunks<K, T>,
    key: K,
    is_kept: bool,
}

impl<K: Copy + Eq + Hash, T> Drop for Claim<'_, K, T> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.chunks.state.lock().entries.remove(&self.key);
            self.chunks.changed.notify_all();
        }
    }
}

impl<K: Copy + Eq + Hash, T> Chunks<K, T> {
    /// Keeps at most `most_bytes` in addition to the chunks in use; all of them count against `budget`.
    pub(crate) fn new(most_bytes: u64, budget: &MemoryBudget) -> Self {
        let state = State { entries: HashMap::new(), bytes: 0, uses: 0, counts: ChunkStats::default() };
        Self { most_bytes, budget: budget.clone(), state: Mutex::new(state), changed: Condvar::new() }
    }

    #[cfg(any(feature = "parquet", all(test, not(ringfeed_loom))))]
    pub(crate) fn stats(&self) -> ChunkStats {
        let state = self.state.lock();
        ChunkStats { bytes: state.bytes, ..state.counts }
    }

    /// Whether a chunk is in the cache, or will be soon.
    #[cfg(any(feature = "parquet", all(test, not(ringfeed_loom))))]
    pub(crate) fn has(&self, key: K) -> bool {
        matches!(self.state.lock().entries.get(&key), Some(Entry::Here { .. } | Entry::Decoding))
    }

    /// Whether the chunks in use exceed the maximum to keep: callers that can release some should do so.
    #[cfg(any(feature = "parquet", all(test, not(ringfeed_loom))))]
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().bytes > self.most_bytes
    }

    /// Whether anybody holds or decodes a chunk.
    #[cfg(any(feature = "parquet", all(test, not(ringfeed_loom))))]
    pub(crate) fn are_in_use(&self) -> bool {
        let state = self.state.lock();
        state.entries.values().any(|entry| match entry {
            Entry::Here { chunk, .. } => Arc::strong_count(chunk) > 1,
            Entry::Decoding => true,
            Entry::Bad(_) => false,
        })
    }

    /// Puts the chunks of `keys` into `into`, in this order. `decode` decodes chunks that are not in the cache. It gets
    /// a reservation of `estimate` bytes, and must set it to the bytes that the chunk needs.
    ///
    /// # Errors
    ///
    /// Those of `decode`. A fault of the data is kept, and returned to every caller that asks for the chunk. After any
    /// other error (reading, memory), waiting callers decode it themselves.
    pub(crate) fn get(
        &self,
        keys: impl Iterator<Item = K> + Clone,
        estimate: impl Fn(K) -> u64,
        decode: impl Fn(K, &mut Reservation) -> Result<T>,
        into: &mut Vec<Arc<Chunk<T>>>,
    ) -> Result<()> {
        self.get_unless(None, keys, estimate, decode, into).map(drop)
    }

    /// Like [`get`](Self::get), if the chunks of `keys` may have been [joined](Self::join) into one, `whole`: then only
    /// this one is put into `into`. Returns whether that happened.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(crate) fn get_unless(
        &self,
        whole: Option<K>,
        keys: impl Iterator<Item = K> + Clone,
        estimate: impl Fn(K) -> u64,
        decode: impl Fn(K, &mut Reservation) -> Result<T>,
        into: &mut Vec<Arc<Chunk<T>>>,
    ) -> Result<bool> {
        let first = into.len();
        // Chunks are replaced by the one that they are joined to in a single step, so that a thread finds one or the
        // other.
        let look_up = |state: &mut State<K, T>, key| match whole.and_then(|whole| state.find(whole)) {
            Some(chunk) => Ok(Found::Whole(chunk)),
            None => state.look_up(key),
        };
        let is_whole = |chunk, into: &mut Vec<_>| {
            into.truncate(first);
            into.push(chunk);
            Ok(true)
        };
        let mut is_complete = true;
        for key in keys.clone() {
            let found = look_up(&mut self.state.lock(), key)?;
            match found {
                Found::Here(chunk) => into.push(chunk),
                Found::Whole(chunk) => return is_whole(chunk, into),
                Found::Decoding => is_complete = false,
                Found::Nothing => into.push(self.decode(key, &estimate, &decode)?),
            }
        }
        if is_complete {
            return Ok(false);
        }
        // Chunks that others decode were skipped; now they are waited for.
        into.truncate(first);
        for key in keys {
            let mut state = self.state.lock();
            let mut has_waited = false;
            loop {
                match look_up(&mut state, key)? {
                    Found::Here(chunk) => {
                        into.push(chunk);
                        break;
                    }
                    Found::Whole(chunk) => return is_whole(chunk, into),
                    Found::Decoding => {
                        state.counts.waited += u64::from(!has_waited);
                        has_waited = true;
                        state = self.changed.wait(state);
                    }
                    Found::Nothing => {
                        drop(state);
                        into.push(self.decode(key, &estimate, &decode)?);
                        break;
                    }
                }
            }
        }
        Ok(false)
    }

    /// Joins the chunks `parts`, which are all those of `keys`, into one, `whole`, which replaces them. `None` if there
    /// is not enough memory for both.
    ///
    /// # Panics
    ///
    /// If `join` does.
    #[cfg(any(feature = "parquet", all(test, not(ringfeed_loom))))]
    pub(crate) fn join(
        &self,
        whole: K,
        keys: impl Iterator<Item = K>,
        parts: &[Arc<Chunk<T>>],
        join: impl FnOnce(&[Arc<Chunk<T>>]) -> T,
    ) -> Result<Option<Arc<Chunk<T>>>> {
        let mut state = self.state.lock();
        loop {
            match state.look_up(whole)? {
                Found::Here(chunk) | Found::Whole(chunk) => return Ok(Some(chunk)),
                Found::Decoding => state = self.changed.wait(state),
                Found::Nothing => break,
            }
        }
        drop(state);
        let mut claim = Claim { chunks: self, key: whole, is_kept: false };
        let bytes: u64 = parts.iter().map(|part| part.bytes()).sum();
        let mut reservation = self.budget.empty_reservation();
        if reservation.try_grow_to(bytes).is_err() {
            return Ok(None);
        }
        let chunk = Arc::new(Chunk { value: join(parts), reservation });
        let mut state = self.state.lock();
        let replaced: Vec<_> = keys.filter_map(|key| state.take(key)).collect();
        state.keep(whole, &chunk);
        claim.is_kept = true;
        self.changed.notify_all();
        let evicted = self.make_room(state, 0);
        drop((replaced, evicted));
        Ok(Some(chunk))
    }

    /// Decodes a chunk that this thread has claimed.
    fn decode(
        &self,
        key: K,
        estimate: impl Fn(K) -> u64,
        decode: impl Fn(K, &mut Reservation) -> Result<T>,
    ) -> Result<Arc<Chunk<T>>> {
        let mut claim = Claim { chunks: self, key, is_kept: false };
        let bytes = estimate(key);
        drop(self.make_room(self.state.lock(), bytes));
        let mut reservation = self.budget.empty_reservation();
        if reservation.try_grow_to(bytes).is_err() {
            // Unused chunks are dropped to make room for the one that is needed.
            drop(self.make_room(self.state.lock(), u64::MAX));
            reservation.grow_to(bytes, "decoding a chunk")?;
        }
        let decoded = decode(key, &mut reservation);
        let mut state = self.state.lock();
        let value = match decoded {
            Ok(value) => value,
            Err(error) => {
                if error.kind().is_of_bytes() {
                    claim.is_kept = true;
                    state.entries.insert(key, Entry::Bad(Arc::new(Fault::of(&error))));
                    self.changed.notify_all();
                }
                drop(state);
                return Err(error);
            }
        };
        let chunk = Arc::new(Chunk { value, reservation });
        state.counts.decoded += 1;
        state.keep(key, &chunk);
        claim.is_kept = true;
        self.changed.notify_all();
        drop(self.make_room(state, 0));
        Ok(chunk)
    }

    /// Removes the least recently used chunks that are not in use, until there is room for `more` bytes. They are
    /// dropped after the lock is released.
    fn make_room(&self, mut state: MutexGuard<'_, State<K, T>>, more: u64) -> Vec<Arc<Chunk<T>>> {
        let mut evicted = Vec::new();
        while state.bytes.saturating_add(more) > self.most_bytes {
            let oldest = state.entries.iter().filter_map(|(key, entry)| match entry {
                // Only the owner of this lock makes further handles.
                Entry::Here { chunk, used } if Arc::strong_count(chunk) == 1 => Some((*used, *key)),
                _ => None,
            });
            let Some((_, key)) = oldest.min_by_key(|(used, _)| *used) else { break };
            evicted.extend(state.take(key));
            state.counts.evicted += 1;
        }
        drop(state);
        evicted
    }
}

enum Found<T> {
    Here(Arc<Chunk<T>>),
    /// It was joined with others into this one.
    Whole(Arc<Chunk<T>>),
    Decoding,
    /// The caller must decode it, and has the claim on it.
    Nothing,
}

impl<K: Copy + Eq + Hash, T> State<K, T> {
    /// A chunk that is in the cache.
    fn find(&mut self, key: K) -> Option<Arc<Chunk<T>>> {
        self.uses += 1;
        match self.entries.get_mut(&key) {
            Some(Entry::Here { chunk, used }) => {
                *used = self.uses;
                self.counts.hits += 1;
                Some(chunk.clone())
            }
            _ => None,
        }
    }

    fn keep(&mut self, key: K, chunk: &Arc<Chunk<T>>) {
        self.bytes += chunk.bytes();
        self.uses += 1;
        self.entries.insert(key, Entry::Here { chunk: chunk.clone(), used: self.uses });
    }

    /// Removes a chunk from the cache.
    fn take(&mut self, key: K) -> Option<Arc<Chunk<T>>> {
        let Some(Entry::Here { chunk, .. }) = self.entries.get(&key) else { return None };
        let chunk = chunk.clone();
        self.bytes -= chunk.bytes();
        self.entries.remove(&key);
        Some(chunk)
    }

    fn look_up(&mut self, key: K) -> Result<Found<T>> {
        if let Some(chunk) = self.find(key) {
            return Ok(Found::Here(chunk));
        }
        match self.entries.get(&key) {
            Some(Entry::Bad(fault)) => Err(fault.error()),
            Some(_) => Ok(Found::Decoding),
            None => {
                self.entries.insert(key, Entry::Decoding);
                Ok(Found::Nothing)
            }
        }
    }
}

impl Fault {
    fn of(error: &Error) -> Self {
        Self { kind: error.kind(), message: error.message().to_owned(), location: error.location().clone() }
    }

    #[cold]
    fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone()).at(self.location.clone())
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn get<T>(
        chunks: &Chunks<u32, T>,
        keys: &[u32],
        decode: impl Fn(u32, &mut Reservation) -> Result<T>,
    ) -> Result<Vec<Arc<Chunk<T>>>> {
        let mut into = Vec::new();
        chunks.get(keys.iter().copied(), |_| 10, decode, &mut into).map(|()| into)
    }

    fn double(key: u32, _: &mut Reservation) -> Result<u32> {
        Ok(key * 2)
    }

    fn kept(chunks: &Chunks<u32, u32>, keys: std::ops::Range<u32>) -> Vec<u32> {
        keys.filter(|key| chunks.has(*key)).collect()
    }

    #[test]
    fn a_chunk_is_decoded_once_whoever_wants_it_and_all_in_their_order() {
        crate::watchdog::watch();
        let chunks = Chunks::new(1000, &MemoryBudget::unlimited());
        let decoded = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..8u32 {
                let (chunks, decoded) = (&chunks, &decoded);
                scope.spawn(move || {
                    for turn in 0..200 {
                        let keys: Vec<u32> = (0..7).map(|at| (at * 3 + thread + turn) % 20).collect();
                        let found = get(chunks, &keys, |key, reservation| {
                            decoded.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                            double(key, reservation)
                        });
                        let found: Vec<u32> = found.unwrap().iter().map(|chunk| ***chunk).collect();
                        assert_eq!(found, keys.iter().map(|key| key * 2).collect::<Vec<_>>());
                    }
                });
            }
        });
        assert_eq!((decoded.into_inner(), chunks.stats().decoded, chunks.stats().bytes), (20, 20, 200));
    }

    #[test]
    fn what_others_decode_is_waited_for_after_the_rest_is_decoded() {
        crate::watchdog::watch();
        let chunks = Chunks::new(1000, &MemoryBudget::unlimited());
        let (begun, other_is_done) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let slow = |key, reservation: &mut Reservation| {
                    begun.wait();
                    // The other thread decodes chunk 2 while this one is still at 1, so no lock is held.
                    other_is_done.wait();
                    double(key, reservation)
                };
                get(&chunks, &[1], slow).unwrap();
            });
            begun.wait();
            let found = get(&chunks, &[1, 2], |key, reservation| {
                assert_eq!(key, 2);
                other_is_done.wait();
                double(key, reservation)
            });
            let found: Vec<u32> = found.unwrap().iter().map(|chunk| ***chunk).collect();
            assert_eq!(found, [2, 4]);
        });
        assert_eq!(chunks.stats().decoded, 2);
    }

    #[test]
    fn the_least_recently_used_goes_unless_somebody_holds_it() {
        let budget = MemoryBudget::unlimited();
        let chunks = Chunks::new(30, &budget);
        let held = get(&chunks, &[0], double).unwrap();
        get(&chunks, &[1, 2], double).unwrap();
        get(&chunks, &[1], double).unwrap();
        get(&chunks, &[3], double).unwrap();
        assert_eq!(kept(&chunks, 0..5), [0, 1, 3]);
        assert!(chunks.are_in_use());
        drop(held);
        assert!(!chunks.are_in_use());
        get(&chunks, &[4], double).unwrap();
        assert_eq!(kept(&chunks, 0..5), [1, 3, 4]);
        assert_eq!((budget.used(), chunks.stats().bytes, chunks.stats().evicted), (30, 30, 2));
        // More may be in use than may be kept.
        let many = get(&chunks, &[10, 11, 12, 13, 14], double).unwrap();
        assert_eq!(budget.used(), 50);
        drop(many);
        get(&chunks, &[0], double).unwrap();
        assert_eq!(budget.used(), 30);
        drop(chunks);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_fault_of_the_data_is_said_to_all_and_any_other_only_to_the_first() {
        let chunks: Chunks<u32, u32> = Chunks::new(1000, &MemoryBudget::unlimited());
        let bad = |_, _: &mut Reservation| Err(Error::new(ErrorKind::Data, "torn").at_path("x").at_byte(7));
        for _ in 0..2 {
            let error = get(&chunks, &[1], bad).map(|_| ()).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Data, "x: byte 7: torn"));
        }
        // It is not decoded again.
        assert_eq!(get(&chunks, &[1], double).map(|_| ()).unwrap_err().kind(), ErrorKind::Data);
        let lost = |_, _: &mut Reservation| Err(Error::new(ErrorKind::Io, "no answer"));
        assert_eq!(get(&chunks, &[2], lost).map(|_| ()).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(**get(&chunks, &[2], double).unwrap()[0], 4);
    }

    #[test]
    fn a_wait_ends_where_the_decoder_panics_or_fails() {
        crate::watchdog::watch();
        for fails in [false, true] {
            let chunks = Chunks::new(1000, &MemoryBudget::unlimited());
            let begun = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let broken = |_, _: &mut Reservation| -> Result<u32> {
                        begun.wait();
                        // Until the other thread waits.
                        while chunks.stats().waited == 0 {
                            thread::yield_now();
                        }
                        if fails { Err(Error::new(ErrorKind::Io, "no answer")) } else { panic!("in the decoder") }
                    };
                    let found = catch_unwind(AssertUnwindSafe(|| get(&chunks, &[1], broken).map(|_| ())));
                    assert_eq!(found.is_err(), !fails);
                });
                begun.wait();
                assert_eq!(**get(&chunks, &[1], double).unwrap()[0], 2);
            });
        }
    }

    #[test]
    fn chunks_that_are_joined_are_decoded_once_and_make_room_for_what_they_become() {
        crate::watchdog::watch();
        for cache in [1000, 40] {
            let budget = MemoryBudget::unlimited();
            let chunks: Chunks<u32, u32> = Chunks::new(cache, &budget);
            let (decoded, joined) = (AtomicUsize::new(0), AtomicUsize::new(0));
            // Chunks 10 to 13 become chunk 1, 20 to 23 chunk 2.
            let get = |whole: u32| {
                let (keys, mut into) = (whole * 10..whole * 10 + 4, Vec::new());
                let decode = |key, reservation: &mut Reservation| {
                    decoded.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                    double(key, reservation)
                };
                if chunks.get_unless(Some(whole), keys.clone(), |_| 10, decode, &mut into).unwrap() {
                    return **into[0];
                }
                let add = |parts: &[Arc<Chunk<u32>>]| {
                    joined.fetch_add(1, Ordering::Relaxed);
                    parts.iter().map(|part| ***part).sum()
                };
                **chunks.join(whole, keys, &into, add).unwrap().unwrap()
            };
            thread::scope(|scope| {
                for thread in 0..6u32 {
                    let get = &get;
                    scope.spawn(move || {
                        for turn in 0..20 {
                            let whole = 1 + (thread + turn) % 2;
                            assert_eq!(get(whole), 2 * (40 * whole + 6));
                        }
                    });
                }
            });
            if cache == 1000 {
                assert_eq!((decoded.into_inner(), joined.into_inner(), chunks.stats().decoded), (8, 2, 8));
                assert_eq!((kept(&chunks, 0..30), budget.used()), (vec![1, 2], 80));
            }
            assert_eq!(chunks.stats().bytes, budget.used());
        }
    }

    #[test]
    fn without_memory_for_both_the_parts_stay_as_they_are() {
        let budget = MemoryBudget::new(35);
        let chunks = Chunks::new(1000, &budget);
        let parts = get(&chunks, &[1, 2], double).unwrap();
        let join = |parts: &[Arc<Chunk<u32>>]| ***parts.first().unwrap();
        assert!(chunks.join(0, [1, 2].into_iter(), &parts, join).unwrap().is_none());
        assert_eq!((kept(&chunks, 0..5), budget.used(), chunks.is_over()), (vec![1, 2], 20, false));
        drop(chunks.join(0, [1].into_iter(), &parts[..1], join).unwrap().unwrap());
        assert_eq!(kept(&chunks, 0..5), [0, 2]);
    }

    #[test]
    fn chunks_that_nobody_holds_give_way_where_memory_is_short() {
        let budget = MemoryBudget::new(35);
        let chunks = Chunks::new(1000, &budget);
        get(&chunks, &[0, 1], double).unwrap();
        let held = get(&chunks, &[2], double).unwrap();
        get(&chunks, &[3], double).unwrap();
        assert_eq!((kept(&chunks, 0..5), budget.used()), (vec![2, 3], 20));
        let other = budget.reserve(25, "a ring slot");
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Budget);
        let more = get(&chunks, &[4, 5], double).unwrap();
        let error = get(&chunks, &[6], double).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
        assert!(error.to_string().contains("decoding a chunk needs 10 more bytes"), "{error}");
        drop((held, more));
        get(&chunks, &[6], double).unwrap();
    }
}
