//! Positions in the data of previously decoded files at which decoding can begin.
//!
//! To find the first block of a part, every code before it must be read once. While this is done, the state of the
//! decoder is recorded at every 16th MCU (a [`Trace`]). When another part of the same file is wanted, as with random
//! crops in later epochs, decoding begins in each row at the nearest of these positions. Files are identified by a hash
//! of all their bytes, so the records of a file that has changed are never used, and a part that was read once without
//! a fault has none.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;

use twox_hash::XxHash3_128;

use super::area::Area;
use super::trace::{Point, Trace, across};
use crate::memory::{Room, Spare};
use crate::sync::Mutex;

/// Smallest and largest number of points for which memory is allocated at a time, unless a file has more.
const CHUNK: Range<usize> = 4096..65536;
/// Number of files in the first table.
const FILES: usize = 112;

/// The points of many files, shared by decoders.
#[derive(Debug)]
pub(crate) struct Index {
    room: Room,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    files: HashMap<u128, Place>,
    chunks: Vec<Vec<Point>>,
    /// Bytes that were allocated for both.
    bytes: u64,
    /// Maximum number of bytes to allocate: half of the bytes that were released the last time.
    most_bytes: u64,
    /// The largest limit within which there was no room for a file: with such a limit, no further file is recorded.
    full_at: u64,
}

impl State {
    fn new(most_bytes: u64) -> Self {
        Self { files: HashMap::new(), chunks: Vec::new(), bytes: 0, most_bytes, full_at: 0 }
    }
}

/// The position of a file's points.
#[derive(Clone, Copy, Debug)]
struct Place {
    chunk: u32,
    first: u32,
    /// Points of all rows.
    all: u32,
    /// Number of rows of MCUs, from the top, whose points are known.
    rows: u32,
}

impl Place {
    /// The points, if there are as many as the file should have: the hash may belong to another file.
    fn of<'a>(&self, chunks: &'a mut [Vec<Point>], all: usize) -> Option<&'a mut [Point]> {
        let chunk = &mut chunks[self.chunk as usize];
        (self.all as usize == all).then(|| &mut chunk[self.first as usize..][..all])
    }
}

/// Points of all rows.
fn all(area: &Area) -> usize {
    across(area) * area.mcus.1
}

impl Index {
    pub(crate) fn new(room: Room) -> Self {
        Self { room, state: Mutex::new(State::new(u64::MAX)) }
    }

    /// Begins a trace with the points that are known of a file, of which `area` is wanted, and returns the file's key.
    /// None if the whole file is wanted, or if nothing is known of it and there is no room within `most_bytes`.
    pub(super) fn look_up(&self, bytes: &[u8], area: &Area, trace: &mut Trace, most_bytes: u64) -> Option<u128> {
        if (&area.mcu_columns, &area.mcu_rows) == (&(0..area.mcus.0), &(0..area.mcus.1)) {
            return None;
        }
        let file = XxHash3_128::oneshot(bytes);
        let mut state = self.state.lock();
        let State { files, chunks, full_at, .. } = &mut *state;
        let known = files.get(&file).and_then(|place| Some((place.rows as usize, &*place.of(chunks, all(area))?)));
        if known.is_none() && most_bytes <= *full_at {
            return None;
        }
        let (rows, points) = known.unwrap_or_default();
        trace.begin(area, rows, points);
        Some(file)
    }

    /// Keeps the points that were recorded for a file, if there is room within `most_bytes`.
    pub(super) fn keep(&self, file: u128, area: &Area, trace: &Trace, most_bytes: u64) {
        let (all, across, (first, points)) = (all(area), across(area), trace.noted(area));
        if points.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        if !state.files.contains_key(&file) {
            if first > 0 || !state.has_room(&self.room, all, most_bytes) {
                return;
            }
            state.add(file, all);
        }
        let Some(place) = state.files.get_mut(&file) else { return };
        // Meanwhile, others may have noted more, or less if the memory was given up.
        let rows = first + points.len() / across;
        if first <= place.rows as usize
            && rows > place.rows as usize
            && let Some(known) = place.of(&mut state.chunks, all)
        {
            place.rows = rows as u32;
            known[first * across..][..points.len()].copy_from_slice(points);
        }
    }
}

impl State {
    /// Makes room for this many points of one more file, within `most_bytes`.
    fn has_room(&mut self, room: &Room, points: usize, most_bytes: u64) -> bool {
        let has_points = self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= points);
        // An eighth of what is there.
        let usual = (self.bytes as usize / (8 * size_of::<Point>())).clamp(CHUNK.start, CHUNK.end);
        let len = if has_points { 0 } else { points.max(usual) };
        let is_full = self.files.len() == self.files.capacity();
        let capacity = if is_full { (2 * self.files.len()).max(FILES) } else { 0 };
        // Both tables exist while the old one is copied.
        let old = if is_full { table_bytes(self.files.capacity()) } else { 0 };
        let more = (len * size_of::<Point>()) as u64 + table_bytes(capacity);
        let most = most_bytes.min(self.most_bytes);
        if self.bytes.saturating_add(more) > most || !room.take(more) {
            self.full_at = self.full_at.max(most_bytes);
            return false;
        }
        if len > 0 {
            self.chunks.push(Vec::with_capacity(len));
        }
        if is_full {
            self.files.reserve(capacity - self.files.len());
            room.give_back(old);
        }
        self.bytes += more - old;
        true
    }

    /// Adds a file with this many points, none of which is known yet. There must be room for it.
    fn add(&mut self, file: u128, all: usize) {
        let chunk = self.chunks.len() as u32 - 1;
        let points = &mut self.chunks[chunk as usize];
        let first = points.len();
        points.resize(first + all, Point::default());
        self.files.insert(file, Place { chunk, first: first as u32, all: all as u32, rows: 0 });
    }
}

/// Memory of a table for so many files: its capacity is seven eighths of a power of two.
fn table_bytes(capacity: usize) -> u64 {
    let places = if capacity == 0 { 0 } else { (capacity * 8).div_ceil(7).next_power_of_two() };
    (places * (size_of::<(u128, Place)>() + 1)) as u64
}

impl Spare for Index {
    fn give_up(&self) -> u64 {
        let mut state = self.state.lock();
        if state.bytes == 0 {
            return 0;
        }
        let less = State::new(state.bytes / 2);
        mem::replace(&mut *state, less).bytes
    }
}
