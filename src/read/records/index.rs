use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};

/// Records that share one anchor.
const GROUP: usize = 32;

/// A flag in an anchor: the records of the group are in `wide`.
const WIDE: u64 = 1 << 63;

/// Where each record begins, in about two bytes per record: an anchor for every 32 records, and the distance of each
/// record from its anchor. Groups that span 64 KiB or more (records of more than 2 KiB, or long comments between them)
/// take ten bytes per record.
#[derive(Debug)]
pub(crate) struct RecordIndex {
    /// Where the first record of each group begins; with `WIDE`, the position of its records in `wide`.
    anchors: Vec<u64>,
    /// The distance of each record from its group's anchor; meaningless in a wide group.
    distances: Vec<u16>,
    /// Where each record of a wide group begins.
    wide: Vec<u64>,
    /// Where the last record ends at the latest.
    end: u64,
    reservation: Reservation,
}

impl RecordIndex {
    /// An empty index whose memory counts against `budget`.
    pub(crate) fn new(budget: &MemoryBudget) -> Result<Self> {
        let reservation = budget.reserve(0, "the row index")?;
        Ok(Self { anchors: Vec::new(), distances: Vec::new(), wide: Vec::new(), end: 0, reservation })
    }

    pub(crate) fn len(&self) -> usize {
        self.distances.len()
    }

    /// Adds the next record, which begins at `byte`, after all others.
    #[inline]
    pub(crate) fn push(&mut self, byte: u64) -> Result<()> {
        let len = self.len();
        if len == self.distances.capacity() {
            self.grow((len * 2).max(1024))?;
        }
        if len.is_multiple_of(GROUP) {
            self.anchors.push(byte);
        }
        // The distance from a wide anchor is never small.
        match u16::try_from(byte.wrapping_sub(self.anchors[len / GROUP])) {
            Ok(distance) => self.distances.push(distance),
            Err(_) => self.push_wide(byte)?,
        }
        Ok(())
    }

    #[cold]
    fn push_wide(&mut self, byte: u64) -> Result<()> {
        let (group, nth) = (self.len() / GROUP, self.len() % GROUP);
        if self.anchors[group] & WIDE == 0 {
            if self.wide.len() + GROUP > self.wide.capacity() {
                let capacity = (self.wide.len() * 2).max(64 * GROUP);
                let bytes = Self::bytes(self.distances.capacity(), self.anchors.capacity(), capacity);
                self.reservation.grow_to(bytes, "the row index")?;
                self.wide.reserve_exact(capacity - self.wide.len());
            }
            let begins: [u64; GROUP] = std::array::from_fn(|nth| self.start(group * GROUP + nth));
            self.anchors[group] = WIDE | self.wide.len() as u64;
            self.wide.extend(begins);
        }
        let at = (self.anchors[group] & !WIDE) as usize;
        self.wide[at + nth] = byte;
        self.distances.push(0);
        Ok(())
    }

    /// Makes room for `capacity` records, counted before it is taken.
    fn grow(&mut self, capacity: usize) -> Result<()> {
        let anchors = capacity.div_ceil(GROUP);
        self.reservation.grow_to(Self::bytes(capacity, anchors, self.wide.capacity()), "the row index")?;
        self.distances.reserve_exact(capacity - self.distances.len());
        self.anchors.reserve_exact(anchors - self.anchors.len());
        Ok(())
    }

    fn bytes(records: usize, groups: usize, wide: usize) -> u64 {
        (records * 2 + groups * 8 + wide * 8) as u64
    }

    /// Completes the index: no record goes beyond `end`.
    pub(crate) fn finish(&mut self, end: u64) {
        self.end = end;
        self.anchors.shrink_to_fit();
        self.distances.shrink_to_fit();
        self.wide.shrink_to_fit();
        let bytes = Self::bytes(self.distances.capacity(), self.anchors.capacity(), self.wide.capacity());
        self.reservation.shrink_to(bytes);
    }

    /// Where record `row` begins; for the number behind the last record, the end.
    #[inline]
    pub(crate) fn start(&self, row: usize) -> u64 {
        let Some(distance) = self.distances.get(row) else { return self.end };
        let anchor = self.anchors[row / GROUP];
        if anchor & WIDE == 0 {
            anchor + u64::from(*distance)
        } else {
            self.wide[(anchor & !WIDE) as usize + row % GROUP]
        }
    }

    /// The index as bytes of a file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let counts = [self.end, self.distances.len() as u64, self.wide.len() as u64];
        let words = counts.iter().chain(&self.anchors).chain(&self.wide).flat_map(|word| word.to_le_bytes());
        words.chain(self.distances.iter().flat_map(|distance| distance.to_le_bytes())).collect()
    }

    /// The index that [`to_bytes`](Self::to_bytes) wrote, for a file that ends at `end`, and the bytes behind the
    /// index; `None` if it can't be one.
    pub(crate) fn from_bytes<'a>(bytes: &'a [u8], end: u64, budget: &MemoryBudget) -> Result<Option<(Self, &'a [u8])>> {
        let Some((counts, rest)) = bytes.split_at_checked(24) else { return Ok(None) };
        let mut counts = words(counts).map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let mut next = || counts.next().unwrap_or_default();
        let (own_end, records, wide) = (next(), next(), next());
        let groups = records.div_ceil(GROUP);
        // The counts are trusted only if there are as many bytes.
        let sizes = [groups.checked_mul(8), wide.checked_mul(8), records.checked_mul(2)];
        let [Some(anchor_bytes), Some(wide_bytes), Some(distance_bytes)] = sizes else { return Ok(None) };
        let Some((anchors, rest)) = rest.split_at_checked(anchor_bytes) else { return Ok(None) };
        let Some((wide_begins, rest)) = rest.split_at_checked(wide_bytes) else { return Ok(None) };
        let Some((distances, rest)) = rest.split_at_checked(distance_bytes) else { return Ok(None) };
        if own_end as u64 != end {
            return Ok(None);
        }
        let index = Self {
            reservation: budget.reserve(Self::bytes(records, groups, wide), "the row index")?,
            anchors: words(anchors).collect(),
            distances: distances.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect(),
            wide: words(wide_begins).collect(),
            end,
        };
        Ok(index.is_sound().then_some((index, rest)))
    }

    /// Whether every record can be looked up and begins after the one before it.
    fn is_sound(&self) -> bool {
        let within = |anchor: &u64| {
            let at = usize::try_from(anchor & !WIDE).unwrap_or(usize::MAX);
            if anchor & WIDE == 0 { *anchor < self.end } else { at.saturating_add(GROUP) <= self.wide.len() }
        };
        self.anchors.iter().all(within) && (0..self.len()).all(|row| self.start(row) < self.start(row + 1))
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(begins: &[u64], end: u64, budget: &MemoryBudget) -> RecordIndex {
        let mut index = RecordIndex::new(budget).unwrap();
        begins.iter().for_each(|begin| index.push(*begin).unwrap());
        index.finish(end);
        index
    }

    #[test]
    fn every_record_is_found_even_with_gigabytes_between_them() {
        for (step, bytes) in [(7u64, 2500), (2000, 2500), (100_000_000, 10_500)] {
            let budget = MemoryBudget::unlimited();
            let begins: Vec<u64> = (0..1000).map(|row| 3 + row * step).collect();
            let index = index(&begins, 1001 * step, &budget);
            assert!((0..1000usize).all(|row| index.start(row) == begins[row]));
            assert_eq!((index.len(), index.start(1000)), (1000, 1001 * step));
            assert!((2000..=bytes).contains(&budget.used()), "{}", budget.used());
            drop(index);
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn one_long_record_makes_only_its_own_group_wide() {
        let budget = MemoryBudget::unlimited();
        for long in [0, 1, 30, 31, 32, 40, 99] {
            let begins: Vec<u64> = (0..100).map(|row| 10 * row + if row > long { 5 << 32 } else { 0 }).collect();
            let index = index(&begins, 6 << 32, &budget);
            assert_eq!((0..100).map(|row| index.start(row)).collect::<Vec<_>>(), begins);
            assert!(index.wide.len() <= GROUP);
        }
    }

    #[test]
    fn an_index_beyond_the_budget_is_refused() {
        for step in [1, 100_000] {
            let mut index = RecordIndex::new(&MemoryBudget::new(10_000)).unwrap();
            let error = (0..10_000).find_map(|row| index.push(row * step).err()).unwrap();
            assert!(error.to_string().contains("the row index needs"), "{error}");
        }
    }

    #[test]
    fn a_written_index_is_read_back_and_a_wrong_one_refused() {
        let budget = MemoryBudget::unlimited();
        let begins: Vec<u64> = (0..100).map(|row| 10 * row + if row > 50 { 5 << 32 } else { 0 }).collect();
        let written = index(&begins, 6 << 32, &budget).to_bytes();
        let behind = [&written[..], b"more"].concat();
        let (read, rest) = RecordIndex::from_bytes(&behind, 6 << 32, &budget).unwrap().unwrap();
        assert_eq!(((0..100).map(|row| read.start(row)).collect::<Vec<_>>(), rest), (begins, &b"more"[..]));
        assert!(RecordIndex::from_bytes(&written, 5 << 32, &budget).unwrap().is_none());
        for cut in 0..written.len() {
            assert!(RecordIndex::from_bytes(&written[..cut], 6 << 32, &budget).unwrap().is_none(), "{cut}");
        }
        // Even with a wrong index, looking up never panics, and records are in order.
        for at in 0..written.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut wrong = written.clone();
                wrong[at] = value;
                if let Some((index, _)) = RecordIndex::from_bytes(&wrong, 6 << 32, &budget).unwrap() {
                    assert!((0..index.len()).all(|row| index.start(row) < index.start(row + 1)));
                }
            }
        }
        drop(read);
        assert_eq!(budget.used(), 0);
    }
}
