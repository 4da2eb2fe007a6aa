use std::ops::Range;
use std::sync::Arc;

use crate::random::{RandomKey, mix};

/// Some of a source's samples, in their own order.
///
/// It takes 4 bytes for each listed sample (8 in a source of more than 2^32 samples), and none for a range. Samples
/// keep the ids, the locations and the random numbers that they have in the whole source.
///
/// ```
/// use ringfeed::order::Subset;
/// use ringfeed::read::MemoryReader;
/// use ringfeed::source::ReaderSource;
/// use ringfeed::tensor::Role;
///
/// let classes = [0, 1, 0, 2];
/// let without_0 = Subset::all(4).filter(|sample| classes[sample as usize] != 0);
/// assert_eq!(without_0.iter().collect::<Vec<_>>(), [1, 3]);
/// let numbers = MemoryReader::new("x", Role::Feature, &[], vec![5.0f32, 6.0, 7.0, 8.0])?;
/// let source = ReaderSource::new(numbers).subset(without_0);
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subset(Ids);

#[derive(Clone, Debug)]
enum Ids {
    Range { start: u64, end: u64 },
    Small(Arc<[u32]>),
    Large(Arc<[u64]>),
}

impl Subset {
    /// All samples of a source of `len`.
    pub fn all(len: u64) -> Self {
        Self::range(0..len)
    }

    /// The samples with these ids; none if the range is reversed.
    pub fn range(ids: Range<u64>) -> Self {
        Self(Ids::Range { start: ids.start, end: ids.end.max(ids.start) })
    }

    /// The samples with these ids, in this order.
    pub fn listed(ids: impl IntoIterator<Item = u64>) -> Self {
        let mut ids = ids.into_iter();
        let mut small = Vec::new();
        for id in ids.by_ref() {
            let Ok(id) = u32::try_from(id) else {
                let large = small.into_iter().map(u64::from).chain([id]).chain(ids);
                return Self(Ids::Large(large.collect()));
            };
            small.push(id);
        }
        Self(Ids::Small(small.into()))
    }

    /// The samples of this subset for which `keep` returns `true`.
    #[must_use]
    pub fn filter(&self, mut keep: impl FnMut(u64) -> bool) -> Self {
        Self::listed(self.iter().filter(|id| keep(*id)))
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Ids::Range { start, end } => end - start,
            Ids::Small(ids) => ids.len() as u64,
            Ids::Large(ids) => ids.len() as u64,
        }
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of its sample `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below the length.
    pub fn at(&self, index: u64) -> u64 {
        match &self.0 {
            Ids::Range { start, end } => {
                assert!(index < end - start, "sample {index} of {}", end - start);
                start + index
            }
            Ids::Small(ids) => ids[index as usize].into(),
            Ids::Large(ids) => ids[index as usize],
        }
    }

    /// Replaces indices by the ids of its samples.
    pub(crate) fn replace(&self, indices: &mut [u64]) {
        if let Ids::Range { start: 0, end } = self.0 {
            return debug_assert!(indices.iter().all(|index| *index < end), "a sample of {end} or more");
        }
        indices.iter_mut().for_each(|index| *index = self.at(*index));
    }

    /// The ids, in the subset's order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|index| self.at(index))
    }

    /// The first id that does not exist in a source of `len` samples.
    pub(crate) fn beyond(&self, len: u64) -> Option<u64> {
        match &self.0 {
            Ids::Range { start, end } => (end > start && *end > len).then(|| len.max(*start)),
            _ => self.iter().find(|id| *id >= len),
        }
    }

    /// The samples as a range, if they are in order and none between the first and the last is missing.
    pub(crate) fn bounds(&self) -> Option<Range<u64>> {
        match self.0 {
            Ids::Range { start, end } => Some(start..end),
            _ => None,
        }
    }

    /// The lowest and the highest id.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        match &self.0 {
            Ids::Range { start, end } => (end > start).then(|| (*start, end - 1)),
            _ => self.iter().min().zip(self.iter().max()),
        }
    }

    /// Distinguishes it from other subsets.
    pub(crate) fn hash(&self) -> u64 {
        match &self.0 {
            Ids::Range { start, end } => RandomKey::new(*start).with(*end).bits(0),
            _ => self.iter().fold(self.len(), |hash, id| mix(hash.rotate_left(1) ^ mix(id ^ 0x9e37_79b9_7f4a_7c15))),
        }
    }
}
