//! The lengths of records that vary.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use crate::memory::{MemoryBudget, Reservation};
use crate::schema::{Dim, TensorSpec};

/// The lengths of records, as far as they vary and are known. A file may lie about its number of records, so memory is
/// only taken for those parts in which a record was measured. If there is none left, records are measured again.
pub(super) struct Lengths {
    /// Number of lengths per record.
    pub(super) each: usize,
    /// A power of two.
    records_of_part: u64,
    parts: Box<[OnceLock<Option<KnownLengths>>]>,
}

/// The lengths of neighbouring records.
struct KnownLengths {
    /// `u32::MAX` means unknown.
    lengths: Box<[AtomicU32]>,
    #[expect(dead_code, reason = "held until the reader drops")]
    reservation: Reservation,
}

impl Lengths {
    /// Most parts. If there are more parts of the least size, they are made larger.
    const PARTS: u64 = 1 << 12;
    const LEAST: u64 = 1 << 12;

    pub(super) fn new(tensors: &[TensorSpec], records: u64) -> Self {
        let extents = tensors.iter().flat_map(|tensor| &tensor.shape).filter_map(|dim| match dim {
            Dim::Extent(index) => Some(index + 1),
            Dim::Fixed(_) => None,
        });
        let each = extents.max().unwrap_or(0);
        let records_of_part = (records / Self::PARTS).max(Self::LEAST).min(records.max(1)).next_power_of_two();
        let parts = if each == 0 { 0 } else { records.div_ceil(records_of_part) };
        Self { each, records_of_part, parts: (0..parts).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn of(&self, record: u64) -> Option<&[AtomicU32]> {
        let part = self.parts.get((record / self.records_of_part) as usize)?;
        self.in_part(record, part.get()?.as_ref()?)
    }

    /// The place for a record's lengths, which are now known.
    pub(super) fn to_be_known(&self, record: u64, budget: &MemoryBudget) -> Option<&[AtomicU32]> {
        let part = self.parts.get((record / self.records_of_part) as usize)?;
        let count = usize::try_from(self.records_of_part).ok().and_then(|count| count.checked_mul(self.each));
        self.in_part(record, part.get_or_init(|| KnownLengths::new(count?, budget)).as_ref()?)
    }

    fn in_part<'p>(&self, record: u64, part: &'p KnownLengths) -> Option<&'p [AtomicU32]> {
        let start = (record % self.records_of_part) as usize * self.each;
        part.lengths.get(start..start + self.each)
    }
}

impl KnownLengths {
    fn new(count: usize, budget: &MemoryBudget) -> Option<Self> {
        let mut reservation = budget.empty_reservation();
        let mut lengths = Vec::new();
        if !reservation.grow_if_free(count as u64 * 4) || lengths.try_reserve_exact(count).is_err() {
            return None;
        }
        lengths.resize_with(count, || AtomicU32::new(u32::MAX));
        Some(Self { lengths: lengths.into_boxed_slice(), reservation })
    }
}
