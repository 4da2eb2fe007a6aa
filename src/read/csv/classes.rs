//! The classes of a column, and finding the class of a field.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::random::mix;

use super::value::{FieldNumber, is_decimal, whole};

/// Class names and their indices.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    pub(crate) names: Vec<String>,
    indices: HashMap<Box<[u8]>, u32, TextHash>,
    /// The number of classes; without names, the limit of the indices.
    pub(crate) count: u32,
    by_index: bool,
}

impl Classes {
    pub(crate) fn named(names: Vec<String>) -> Self {
        let indices = (0u32..).zip(&names).map(|(index, name)| (name.as_bytes().into(), index)).collect();
        let by_index = names.iter().all(|name| !is_decimal(name.trim().as_bytes()));
        Self { count: names.len() as u32, names, indices, by_index }
    }

    /// Those of a category, where a number is a name like others.
    pub(crate) fn of_category(names: Vec<String>) -> Self {
        Self { by_index: false, ..Self::named(names) }
    }

    pub(crate) fn counted(count: u32) -> Self {
        Self { names: Vec::new(), indices: HashMap::default(), count, by_index: true }
    }

    /// The class of a field: by name, or else by index, unless the index `is_missing`.
    #[inline]
    pub(crate) fn index(&self, field: &[u8], is_missing: impl FnOnce(&[u8]) -> bool) -> Option<u32> {
        if let Some(index) = self.indices.get(field) {
            return Some(*index);
        }
        let trimmed = field.trim_ascii();
        if !self.by_index {
            return None;
        }
        let index = u32::exact(trimmed).or_else(|| u32::try_from(whole(trimmed)?).ok());
        index.filter(|index| *index < self.count && !is_missing(trimmed))
    }
}

/// Hashes short texts eight bytes at a time: looking up a class costs half as much as with the standard library's hash.
/// The seed differs from table to table, so that no file can make all its classes collide.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextHash(u64);

impl Default for TextHash {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for TextHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for TextHash {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        // The last word overlaps the one before it. This costs less than a shorter word.
        match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) => {
                if bytes.len() > 16 {
                    bytes.as_chunks().0.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
                }
                self.write_u64(u64::from_le_bytes(*first));
                self.write_u64(u64::from_le_bytes(*last));
            }
            _ => {
                let word = match (bytes.first_chunk(), bytes.last_chunk(), bytes) {
                    (Some(first), Some(last), _) => {
                        u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
                    }
                    (_, _, [first, .., last]) => {
                        u64::from_le_bytes([*first, bytes[bytes.len() / 2], *last, 0, 0, 0, 0, 0])
                    }
                    _ => bytes.first().copied().unwrap_or_default().into(),
                };
                self.write_u64(word);
            }
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    #[inline]
    fn write_usize(&mut self, len: usize) {
        self.0 ^= (len as u64) << 32;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_by_name_before_index() {
        let index = |classes: &Classes, field: &str| classes.index(field.as_bytes(), |_| false);
        let named = |names: &[&str]| Classes::named(names.iter().map(|name| (*name).to_owned()).collect());
        let classes = named(&["setosa", "versicolor"]);
        assert_eq!(index(&classes, "versicolor"), Some(1));
        assert_eq!(["0", "2", "Setosa"].map(|field| index(&classes, field)), [Some(0), None, None]);
        assert_eq!(
            ["1.0", " 1e0", "1.5", "-1.0", "2.0"].map(|field| index(&classes, field)),
            [Some(1), Some(1), None, None, None]
        );
        assert_eq!(classes.index(b" 0", |field| field == b"0"), None);
        for names in [["7", "3"], ["0.5", " 1.5"], ["1e3", "x"], ["18446744073709551616", "x"]] {
            let numbers = named(&names);
            assert_eq!(index(&numbers, names[1]), Some(1));
            assert_eq!(["0", "1"].map(|field| index(&numbers, field)), [None; 2], "{names:?}");
        }
        assert_eq!(index(&named(&["nan", "inf"]), "1"), Some(1), "words");
        let category = Classes::of_category(vec!["setosa".into(), "versicolor".into()]);
        assert_eq!(["versicolor", "0"].map(|field| index(&category, field)), [Some(1), None]);
    }

    #[test]
    fn names_of_any_length_are_told_apart() {
        let names: Vec<String> = (0..40).flat_map(|len| ["a".repeat(len), "b".repeat(len), "\0".repeat(len)]).collect();
        let names: Vec<String> = names.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        let classes = Classes::named(names.clone());
        for (index, name) in (0u32..).zip(&names) {
            assert_eq!(classes.index(name.as_bytes(), |_| false), Some(index));
            assert_eq!(classes.index(format!("{name}x").as_bytes(), |_| false), None);
        }
    }
}
