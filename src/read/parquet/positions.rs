//! The known beginnings of pages in a column, so that finding a later part of a row group does not start at the
//! beginning.

use std::collections::HashMap;
use std::ops::Range;

use crate::sync::Mutex;

/// Smallest and largest distance in bytes between two kept positions, and how many are kept of a column within these
/// distances. A row group has at most this many and one for each MiB, whatever the file says about its pages.
const LEAST_APART: u64 = 4 << 10;
const MOST_APART: u64 = 1 << 20;
const KEPT: u64 = 256;

/// The beginning of a page whose first value begins a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) at: u64,
    /// Number of records before it.
    pub(super) record: u64,
    /// Number of values before it.
    pub(super) values: u64,
}

/// The row group and the column.
pub(super) type Key = (usize, usize);

/// The known positions in the columns of a file, in order.
#[derive(Default)]
pub(super) struct Positions(Mutex<HashMap<Key, Vec<Position>>>);

impl Positions {
    /// Keeps a position in a column that is in `chunk`, unless others are near.
    pub(super) fn note(&self, key: Key, chunk: &Range<u64>, position: Position) {
        let apart = ((chunk.end - chunk.start) / KEPT).clamp(LEAST_APART, MOST_APART);
        let mut known = self.0.lock();
        let known = known.entry(key).or_default();
        let place = known.partition_point(|other| other.at < position.at);
        let is_near = |other: Option<&Position>| other.is_some_and(|other| other.at.abs_diff(position.at) < apart);
        if !is_near(known.get(place)) && !is_near(place.checked_sub(1).and_then(|before| known.get(before))) {
            known.insert(place, position);
        }
    }

    /// The first page with values, if it is known.
    pub(super) fn first(&self, key: Key) -> Option<Position> {
        self.0.lock().get(&key)?.first().filter(|first| first.record == 0).copied()
    }

    /// The last known page that begins with this record or an earlier one.
    pub(super) fn before(&self, key: Key, record: u64) -> Option<Position> {
        let known = self.0.lock();
        let known = known.get(&key)?;
        let place = known.partition_point(|position| position.record <= record);
        place.checked_sub(1).map(|place| known[place])
    }

    /// A position such that everything that is read for the records before this one is before it. The first page that
    /// begins with a later record is read, to see that the last record has ended, and with it the header of the next
    /// page.
    pub(super) fn behind(&self, key: Key, record: u64) -> Option<u64> {
        let known = self.0.lock();
        let known = known.get(&key)?;
        let place = known.partition_point(|position| position.record < record);
        known.get(place + 2).map(|position| position.at)
    }

    /// The bytes that are read for some records of a column that is in `chunk`: those of the dictionary, and those of
    /// pages.
    pub(super) fn needed(&self, key: Key, chunk: &Range<u64>, records: &Range<u64>) -> [Range<u64>; 2] {
        let end = self.behind(key, records.end).unwrap_or(chunk.end);
        match self.first(key).zip(self.before(key, records.start)) {
            Some((first, start)) => [chunk.start..first.at, start.at..end],
            None => [chunk.start..end, end..end],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_by_the_pages_that_were_passed() {
        let positions = Positions::default();
        let chunk = 1000..1000 + (100 << 20);
        // Pages of 300 KiB and 10 records, behind a dictionary of 24 bytes.
        let page = |nth: u64| Position { at: 1024 + nth * (300 << 10), record: nth * 10, values: nth * 20 };
        assert_eq!(positions.needed((0, 1), &chunk, &(40..60)), [chunk.clone(), chunk.end..chunk.end]);
        [0, 1, 2, 40, 41, 12, 3, 4, 5, 6, 7, 8, 9].iter().for_each(|nth| positions.note((0, 1), &chunk, page(*nth)));
        let kept = positions.0.lock()[&(0, 1)].clone();
        // A 256th of 100 MiB is more than one page and less than two.
        assert_eq!(kept, [0, 2, 4, 6, 8, 12, 40].map(page));
        assert_eq!((positions.first((0, 1)), positions.first((0, 0))), (Some(page(0)), None));
        assert_eq!(positions.before((0, 1), 59), Some(page(4)));
        assert_eq!(positions.before((0, 1), 60), Some(page(6)));
        assert_eq!(positions.needed((0, 1), &chunk, &(25..60)), [1000..1024, page(2).at..page(12).at]);
        assert_eq!(positions.needed((0, 1), &chunk, &(25..100)), [1000..1024, page(2).at..chunk.end]);
    }

    #[test]
    fn few_positions_are_kept_of_many_pages() {
        let positions = Positions::default();
        for nth in 0..100_000 {
            positions.note((0, 0), &(0..2_000_000), Position { at: nth * 20, record: nth, values: nth });
        }
        assert!(positions.0.lock()[&(0, 0)].len() < 300);
    }
}
