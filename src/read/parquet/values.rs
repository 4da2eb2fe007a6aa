//! Checks of the values of a page before they are decoded: how much memory they take, and whether they can be decoded.

use crate::error::{Error, ErrorKind, Result};

/// Days from the first day of INT96 to 1970-01-01, and the largest number of days from then on that 64-bit nanoseconds
/// can express.
const DAYS_TO_1970: i64 = 2_440_588;
const MOST_DAYS: i64 = 106_751;

/// Checks that 64-bit nanoseconds can express these 96-bit timestamps.
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

/// Reads numbers of varying length.
pub(super) struct Packed<'a> {
    pub(super) bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    pub(super) fn varint(&mut self) -> Option<u64> {
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

    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }
}

/// Bytes that the values of a page take, if values are stored without the beginning that they share with the previous
/// value: a few bytes can stand for any number. `most` if it is as many or more, or if the number can't be known.
/// `count` is the number of values that the page says it has.
/// <https://parquet.apache.org/docs/file-format/data-pages/encodings/#delta-strings-delta_byte_array--7>
pub(super) fn shared_bytes(values: &[u8], count: u64, most: u64) -> u64 {
    prefixes(values, count, most).map_or(most, |shared| shared.saturating_add(values.len() as u64).min(most))
}

fn prefixes(values: &[u8], count: u64, most: u64) -> Option<u64> {
    let mut input = Packed { bytes: values };
    let (block, parts, mut left) = (input.varint()?, input.varint()?, input.varint()?);
    let mut value = input.zigzag()?;
    if left > count {
        return None;
    }
    if left == 0 {
        return Some(0);
    }
    let each = block.checked_div(parts).filter(|each| *each > 0 && each.is_multiple_of(8) && *each <= 1 << 20)?;
    let mut sum = u64::try_from(value).ok()?;
    left -= 1;
    while left > 0 && sum < most {
        let least = input.zigzag()?;
        let widths = input.take(usize::try_from(parts).ok()?)?;
        for width in widths.iter().copied() {
            if left == 0 {
                break;
            }
            if width == 0 && least == 0 {
                // No byte is stored for lengths that are all the same.
                let same = left.min(each);
                sum = sum.saturating_add(u64::try_from(value).ok()?.saturating_mul(same));
                left -= same;
                continue;
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

/// The number of `width` bits that begins with bit `start`.
pub(super) fn bits_at(bytes: &[u8], start: usize, width: u8) -> Option<i64> {
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
        assert_eq!(shared_bytes(&values, 5, 1000), 110 + values.len() as u64);
        assert_eq!(shared_bytes(&values, 9, 100), 100);
        for len in 0..14 {
            assert_eq!(shared_bytes(&values[..len], 5, 1000), 1000, "{len} bytes");
        }
        assert_eq!(shared_bytes(&[0, 0, 9, 2], 9, 1000), 1000);
    }

    #[test]
    fn a_page_can_t_share_more_values_than_it_has() {
        // More lengths than anybody could count, all the same, and stored in no byte: of 3 values and of 2 to the power
        // of 62.
        let block = |count: &[u8]| [&[0x80, 0x80, 4, 1], count, &[0, 0, 0]].concat();
        assert_eq!(shared_bytes(&block(&[3]), 3, 1000), 8);
        assert_eq!(shared_bytes(&block(&[3]), 2, 1000), 1000);
        let many = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
        assert_eq!(shared_bytes(&block(&many), u32::MAX.into(), 1000), 1000);
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
