use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};

/// Records that share one anchor.
const GROUP: usize = 64;

/// Where each record begins: about four bytes a record. An anchor for every 64 records, and each record's distance from
/// its anchor.
#[derive(Debug)]
pub(crate) struct RowIndex {
    anchors: Vec<u64>,
    offsets: Offsets,
    /// Where the last record ends at the latest.
    end: u64,
    reservation: Reservation,
}

#[derive(Debug)]
enum Offsets {
    Narrow(Vec<u32>),
    /// Once 64 records (or the comments among them) span more than 4 GiB.
    Wide(Vec<u64>),
}

impl RowIndex {
    /// An empty index whose memory counts against `budget`.
    pub(crate) fn new(budget: &MemoryBudget) -> Result<Self> {
        let reservation = budget.reserve(0, "the row index")?;
        Ok(Self { anchors: Vec::new(), offsets: Offsets::Narrow(Vec::new()), end: 0, reservation })
    }

    pub(crate) fn len(&self) -> usize {
        match &self.offsets {
            Offsets::Narrow(offsets) => offsets.len(),
            Offsets::Wide(offsets) => offsets.len(),
        }
    }

    /// Adds the next record, which begins at `byte`.
    pub(crate) fn push(&mut self, byte: u64) -> Result<()> {
        let len = self.len();
        if len.is_multiple_of(GROUP) {
            self.anchors.push(byte);
        }
        let distance = byte - self.anchors[len / GROUP];
        if let (Offsets::Narrow(offsets), true) = (&self.offsets, distance > u32::MAX.into()) {
            self.offsets = Offsets::Wide(offsets.iter().map(|offset| (*offset).into()).collect());
        }
        let full = match &self.offsets {
            Offsets::Narrow(offsets) => offsets.len() == offsets.capacity(),
            Offsets::Wide(offsets) => offsets.len() == offsets.capacity(),
        };
        if full {
            self.grow((len * 2).max(1024))?;
        }
        match &mut self.offsets {
            Offsets::Narrow(offsets) => offsets.push(distance as u32),
            Offsets::Wide(offsets) => offsets.push(distance),
        }
        Ok(())
    }

    /// Makes room for `capacity` records, counted before it is taken.
    fn grow(&mut self, capacity: usize) -> Result<()> {
        let width = if matches!(self.offsets, Offsets::Wide(_)) { 8 } else { 4 };
        self.reservation.grow_to((capacity * width + capacity / GROUP * 8) as u64, "the row index")?;
        match &mut self.offsets {
            Offsets::Narrow(offsets) => offsets.reserve_exact(capacity - offsets.len()),
            Offsets::Wide(offsets) => offsets.reserve_exact(capacity - offsets.len()),
        }
        Ok(())
    }

    /// Ends the index: nothing lies beyond `end`.
    pub(crate) fn finish(&mut self, end: u64) {
        self.end = end;
        self.anchors.shrink_to_fit();
        let bytes = match &mut self.offsets {
            Offsets::Narrow(offsets) => {
                offsets.shrink_to_fit();
                offsets.capacity() * 4
            }
            Offsets::Wide(offsets) => {
                offsets.shrink_to_fit();
                offsets.capacity() * 8
            }
        };
        self.reservation.shrink_to((bytes + self.anchors.capacity() * 8) as u64);
    }

    /// Where record `row` begins; the end behind the last one.
    pub(crate) fn start(&self, row: usize) -> u64 {
        let offset = match &self.offsets {
            Offsets::Narrow(offsets) => offsets.get(row).map(|offset| (*offset).into()),
            Offsets::Wide(offsets) => offsets.get(row).copied(),
        };
        offset.map_or(self.end, |offset: u64| self.anchors[row / GROUP] + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_found_even_with_gigabytes_between_them() {
        for step in [7u64, 100_000_000] {
            let budget = MemoryBudget::unlimited();
            let mut index = RowIndex::new(&budget).unwrap();
            (0..1000u64).for_each(|row| index.push(3 + row * step).unwrap());
            index.finish(1001 * step);
            assert_eq!(matches!(index.offsets, Offsets::Wide(_)), step > 7);
            assert!((0..1000usize).all(|row| index.start(row) == 3 + row as u64 * step));
            assert_eq!((index.len(), index.start(1000)), (1000, 1001 * step));
            assert!((4000..=12_000).contains(&budget.used()), "{}", budget.used());
            drop(index);
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn an_index_beyond_the_budget_is_refused() {
        let mut index = RowIndex::new(&MemoryBudget::new(10_000)).unwrap();
        let error = (0..10_000).find_map(|row| index.push(row).err()).unwrap();
        assert!(error.to_string().contains("the row index needs"), "{error}");
    }
}
