//! The levels of repetition and definition that say which values of a page form lists, and which are missing.
//! <https://parquet.apache.org/docs/file-format/nestedencoding/>

use std::ops::Range;

use parquet::basic::Encoding;

use super::values::{Packed, bits_at};

/// Largest levels of repetition and definition of a column: 0 if pages have none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) repetition: i16,
    pub(super) definition: i16,
}

/// The parts of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sections<'a> {
    pub(super) repetition: &'a [u8],
    pub(super) definition: &'a [u8],
    pub(super) values: &'a [u8],
}

/// The records that begin in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) count: u64,
    /// Whether one of them begins with the page.
    pub(super) are_whole: bool,
}

impl Levels {
    /// The parts of a page of version 1, without levels that are not stored as runs; `None` if it is too short for
    /// them.
    pub(super) fn split<'a>(&self, page: &'a [u8], values: u64, encodings: [Encoding; 2]) -> Option<Sections<'a>> {
        let (mut rest, mut levels) = (page, [&page[..0]; 2]);
        for ((most, encoding), level) in [self.repetition, self.definition].into_iter().zip(encodings).zip(&mut levels)
        {
            if most == 0 {
                continue;
            }
            let len = if encoding == Encoding::RLE {
                let (len, behind) = rest.split_first_chunk::<4>()?;
                rest = behind;
                u64::from(u32::from_le_bytes(*len))
            } else {
                values.checked_mul(width(most).into())?.div_ceil(8)
            };
            let taken;
            (taken, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            *level = if encoding == Encoding::RLE { taken } else { &[] };
        }
        let [repetition, definition] = levels;
        Some(Sections { repetition, definition, values: rest })
    }

    /// The records that begin among `values` values, by the levels that are stored as runs; `None` if these are too
    /// few.
    pub(super) fn rows(&self, repetition: &[u8], values: u64) -> Option<Rows> {
        let (count, are_whole) = below(repetition, self.repetition, values, 1)?;
        Some(Rows { count, are_whole })
    }

    /// How many of `values` values are defined to one of these levels; all if that can't be known.
    pub(super) fn defined_in(&self, levels: Range<i16>, definition: &[u8], values: u64) -> u64 {
        let below = |bound| Some(below(definition, self.definition, values, u16::try_from(bound).unwrap_or(0))?.0);
        let count = below(levels.end).zip(below(levels.start)).map(|(end, start)| end.saturating_sub(start));
        count.unwrap_or(values)
    }
}

/// Bits of a level that is at most this.
fn width(most: i16) -> u8 {
    16 - most.unsigned_abs().leading_zeros() as u8
}

/// How many of the first `left` levels are below `bound`, and whether the first one is. They are stored as runs of one
/// level, and as packed bits. <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>
fn below(levels: &[u8], most: i16, mut left: u64, bound: u16) -> Option<(u64, bool)> {
    let (mut input, width) = (Packed { bytes: levels }, width(most));
    let (mut count, mut first) = (0, None);
    while left > 0 {
        let head = input.varint()?;
        let is_packed = head & 1 == 1;
        let of_run = if is_packed { (head >> 1).saturating_mul(8) } else { head >> 1 }.min(left);
        if of_run == 0 {
            return None;
        }
        let (found, of_first) = if is_packed {
            let len = (head >> 1).saturating_mul(width.into()).min(input.bytes.len() as u64);
            packed_below(input.take(len as usize)?, width, of_run as usize, bound)?
        } else {
            let bytes = input.take(usize::from(width.div_ceil(8)))?;
            let is_below = bytes.iter().rev().fold(0, |level, byte| level << 8 | u16::from(*byte)) < bound;
            (if is_below { of_run } else { 0 }, is_below)
        };
        first.get_or_insert(of_first);
        count += found;
        left -= of_run;
    }
    Some((count, first.unwrap_or(false)))
}

fn packed_below(bits: &[u8], width: u8, count: usize, bound: u16) -> Option<(u64, bool)> {
    let is_below = |nth: usize| Some(bits_at(bits, nth * usize::from(width), width)? < i64::from(bound));
    // Lists that are not nested have a bit for each value.
    let whole = if width == 1 && bound == 1 { count / 8 } else { 0 };
    let mut found = bits.get(..whole)?.iter().map(|byte| u64::from(byte.count_zeros())).sum();
    for nth in whole * 8..count {
        found += u64::from(is_below(nth)?);
    }
    Some((found, is_below(0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_their_levels() {
        const PAGE: &[u8] = &[2, 0, 0, 0, 9, 8, 1, 0, 0, 0, 9, 7, 7];
        let both = Levels { repetition: 1, definition: 3 };
        let of = |levels: &Levels, page: &'static [u8], encoding| levels.split(page, 5, [encoding; 2]);
        let all = Sections { repetition: &[9, 8], definition: &[9], values: &[7, 7] };
        assert_eq!(of(&both, PAGE, Encoding::RLE), Some(all));
        assert_eq!(of(&Levels::default(), PAGE, Encoding::RLE).unwrap().values, PAGE);
        assert_eq!(of(&both, &PAGE[..9], Encoding::RLE), None);
        // Five levels of 1 bit, and five of 2.
        assert_eq!(of(&both, PAGE, Encoding::PLAIN).unwrap().values, &PAGE[3..]);
    }

    #[test]
    fn levels_are_counted_in_runs_and_in_packed_bits() {
        let of_lists = Levels { repetition: 1, definition: 2 };
        let rows = |bytes: &[u8], values| of_lists.rows(bytes, values).map(|rows| (rows.count, rows.are_whole));
        // One record of 1000 values, in a run of one level and one of 999.
        assert_eq!(rows(&[2, 0, 0xce, 0xf, 1], 1000), Some((1, true)));
        assert_eq!(rows(&[2, 0, 0xce, 0xf, 1], 1001), None);
        // Eleven levels in two groups of eight: 0 1 1 1 0 1 1 1, 1 1 0.
        assert_eq!(rows(&[5, 0b1110_1110, 0b1111_1011], 11), Some((3, true)));
        assert_eq!(rows(&[5, 0b1110_1111], 8), Some((1, false)));
        assert_eq!(rows(&[5, 0b1110_1111], 9), None);
        assert_eq!(rows(&[0, 0, 2, 0], 1), None, "a run of nothing");
        assert_eq!((rows(&[], 0), rows(&[], 1)), (Some((0, false)), None));
        // A run of more levels than there are values, as hostile as it may be.
        assert_eq!(rows(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0], 1 << 40), Some((1 << 40, true)));
        // Levels of two bits: 0, 1, 2, 2, 1, 0, 0, 2; then three times 1.
        let defined = [3, 0b1010_0100, 0b1000_0001, 6, 1];
        let levels = [0..1, 0..2, 0..3, 1..2, 1..3, 2..2];
        assert_eq!(levels.map(|levels| of_lists.defined_in(levels, &defined, 11)), [3, 8, 11, 5, 8, 0]);
        assert_eq!(of_lists.defined_in(1..1, &defined, 12), 12, "too few");
        let deep = Levels { repetition: 300, definition: 0 };
        assert_eq!(deep.rows(&[4, 0, 1, 6, 0, 0], 5), Some(Rows { count: 3, are_whole: false }));
    }
}
