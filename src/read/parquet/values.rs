//! Checks of the values of a page before they are decoded: how much memory they take, and whether they can be decoded.

use parquet::basic::Encoding;

use crate::error::{Error, ErrorKind, Result};

/// Largest levels of repetition and definition of a column: 0 if pages have none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) repetition: i16,
    pub(super) definition: i16,
}

impl Levels {
    /// The values of a page of version 1, which follow its levels; `None` if the page is too short for them.
    pub(super) fn behind<'a>(&self, page: &'a [u8], values: u64, encodings: [Encoding; 2]) -> Option<&'a [u8]> {
        let mut rest = page;
        for (most, encoding) in [self.repetition, self.definition].into_iter().zip(encodings) {
            if most == 0 {
                continue;
            }
            let len = if encoding == Encoding::RLE {
                let (len, behind) = rest.split_first_chunk::<4>()?;
                rest = behind;
                u64::from(u32::from_le_bytes(*len))
            } else {
                let bits = u64::from(16 - most.unsigned_abs().leading_zeros());
                values.checked_mul(bits)?.div_ceil(8)
            };
            rest = rest.get(usize::try_from(len).ok()?..)?;
        }
        Some(rest)
    }
}

/// Days from the first day of INT96 to 1970-01-01, and most days from then on that nanoseconds in 64 bits can count.
const DAYS_TO_1970: i64 = 2_440_588;
const MOST_DAYS: i64 = 106_751;

/// Checks that nanoseconds in 64 bits can count these points in time of 96 bits.
///
/// # Errors
///
/// [`ErrorKind::Data`].
pub(super) fn check_times(values: &[u8]) -> Result<()> {
    for value in values.chunks_exact(12) {
        let day = u32::from_le_bytes([value[8], value[9], value[10], value[11]]);
        let day = i64::from(day as i32) - DAYS_TO_1970;
        if day.abs() >= MOST_DAYS {
            let message = format!(
                "a point in time {day} days from 1970, stored as INT96, which nanoseconds in 64 bits can't count; write the \
                 file again with timestamps of microseconds"
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
    }
    Ok(())
}

/// Reads the parts of DELTA_BINARY_PACKED.
struct Packed<'a> {
    bytes: &'a [u8],
}

impl Packed<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }
}

/// Bytes that the values of a page take, if values are stored without the beginning that they share with the previous
/// value: a few bytes can stand for any number. `most` if it is as many or more, or if the number can't be known.
/// <https://parquet.apache.org/docs/file-format/data-pages/encodings/#delta-strings-delta_byte_array--7>
pub(super) fn shared_bytes(values: &[u8], most: u64) -> u64 {
    prefixes(values, most).map_or(most, |shared| shared.saturating_add(values.len() as u64).min(most))
}

fn prefixes(values: &[u8], most: u64) -> Option<u64> {
    let mut input = Packed { bytes: values };
    let (block, parts, mut left) = (input.varint()?, input.varint()?, input.varint()?);
    let mut value = input.zigzag()?;
    if left == 0 {
        return Some(0);
    }
    let each = block.checked_div(parts).filter(|each| *each > 0 && each.is_multiple_of(8) && *each <= 1 << 20)?;
    let mut sum = u64::try_from(value).ok()?;
    left -= 1;
    while left > 0 && sum < most {
        let least = input.zigzag()?;
        let widths = input.take(usize::try_from(parts).ok()?)?.to_vec();
        for width in widths {
            if left == 0 {
                break;
            }
            // The last part may end after its last value.
            let len = (usize::from(width) * each as usize / 8).min(input.bytes.len());
            let bits = input.take(len)?;
            for nth in 0..left.min(each) as usize {
                value = value.wrapping_add(least).wrapping_add(bits_at(bits, nth * usize::from(width), width)?);
                sum = sum.saturating_add(u64::try_from(value).ok()?);
            }
            left -= left.min(each);
        }
    }
    Some(sum)
}

fn bits_at(bytes: &[u8], start: usize, width: u8) -> Option<i64> {
    if width > 32 {
        // Lengths have 32 bits.
        return None;
    }
    let mut value = 0u64;
    let (first, end) = (start / 8, (start + usize::from(width)).div_ceil(8));
    for (nth, byte) in bytes.get(first..end)?.iter().enumerate() {
        value |= u64::from(*byte) << (8 * nth);
    }
    Some((value >> (start % 8) & ((1 << width) - 1)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_values_share_is_summed_up() {
        // Five lengths 0, 3, 3, 4, 100 in a block of 128, in 4 parts: deltas 3, 0, 1, 96, least 0, 7 bits each.
        let mut values = vec![128, 1, 4, 5, 0, 0, 7, 0, 0, 0];
        let packed: u64 = 3 | 1 << 14 | 96 << 21;
        values.extend(&packed.to_le_bytes()[..4]);
        values.extend([0; 24]);
        assert_eq!(shared_bytes(&values, 1000), 110 + values.len() as u64);
        assert_eq!(shared_bytes(&values, 100), 100);
        for len in 0..14 {
            assert_eq!(shared_bytes(&values[..len], 1000), 1000, "{len} bytes");
        }
        assert_eq!(shared_bytes(&[0, 0, 9, 2], 1000), 1000);
    }

    #[test]
    fn values_stand_behind_their_levels() {
        let page = [2, 0, 0, 0, 9, 9, 1, 0, 0, 0, 9, 7, 7];
        let both = Levels { repetition: 1, definition: 3 };
        assert_eq!(both.behind(&page, 5, [Encoding::RLE; 2]), Some(&[7, 7][..]));
        assert_eq!(Levels::default().behind(&page, 5, [Encoding::RLE; 2]), Some(&page[..]));
        assert_eq!(both.behind(&page[..9], 5, [Encoding::RLE; 2]), None);
        // Five levels of 1 bit, and five of 2.
        assert_eq!(both.behind(&page, 5, [Encoding::PLAIN; 2]), Some(&page[3..]));
    }

    #[test]
    fn nanoseconds_count_from_1677_to_2262_alone() {
        let time = |days: i64| [&[0; 8][..], &((days + DAYS_TO_1970) as u32).to_le_bytes()].concat();
        assert!(check_times(&[time(0), time(106_750), time(-106_750)].concat()).is_ok());
        let error = check_times(&[time(0), time(-700_000)].concat()).unwrap_err();
        assert!(error.message().starts_with("a point in time -700000 days from 1970"), "{error}");
        assert!(check_times(&time(2_932_896)).is_err());
    }
}
