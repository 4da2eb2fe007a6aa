//! Ends of records, found for 64 bytes at a time. With quotes, a record of ordinary length has several bytes that
//! matter, and searching for them one after another costs more than looking at all bytes.
//!
//! If every quote opens or closes a quoted field, or is doubled inside one, then a byte is inside quotes if the number
//! of quotes up to it is odd. At a quote in any other place, the search stops.

use super::dialect::Dialect;
use super::vectors::{self, BLOCK, Masks};

/// Number of blocks whose masks are made together.
const BLOCKS: usize = 32;

/// Gives begin and end (before its terminator) of each complete record in `bytes`, which begin with a record, as long
/// as `give` returns `true`. Returns the beginning of the first record that was not given.
///
/// For a dialect with quotes and without comments.
pub(super) fn whole_records(bytes: &[u8], dialect: &Dialect, mut give: impl FnMut(usize, usize) -> bool) -> usize {
    let wanted = [dialect.quote, dialect.delimiter, dialect.terminator];
    let mut masks = [[0; 3]; BLOCKS];
    let mut begin = 0;
    // All bits are set if the block begins inside quotes.
    let mut inside = 0_u64;
    // Whether the last byte of the block before is one that a quote may open after.
    let mut may_open = 1;
    for (nth, part) in bytes.chunks(BLOCKS * BLOCK).enumerate() {
        let (blocks, rest) = part.as_chunks();
        masks_of(blocks, wanted, &mut masks);
        if !rest.is_empty() {
            let mut last = [0; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            masks_of(&[last], wanted, &mut masks[blocks.len()..]);
            let is_there = (1 << rest.len()) - 1;
            masks[blocks.len()].iter_mut().for_each(|mask| *mask &= is_there);
        }
        let at = nth * BLOCKS * BLOCK;
        let starts = (at..at + part.len()).step_by(BLOCK);
        for (start, [quotes, delimiters, terminators]) in starts.zip(&masks) {
            // Inside are the bytes from the quote that opens up to the one before the quote that closes.
            let is_inside = odd(*quotes) ^ inside;
            let opens = quotes & is_inside;
            // A quote that opens right after one that closes is one that is doubled.
            let before = quotes | delimiters | terminators;
            let allowed = before << 1 | may_open;
            let mut ends = terminators & !is_inside;
            if opens & !allowed != 0 {
                // The records that end before it are sound.
                let stray = (opens & !allowed).trailing_zeros();
                ends &= (1 << stray) - 1;
            }
            while ends != 0 {
                let end = start + ends.trailing_zeros() as usize;
                if !give(begin, end) {
                    return begin;
                }
                begin = end + 1;
                ends &= ends - 1;
            }
            if opens & !allowed != 0 {
                return begin;
            }
            inside = (is_inside as i64 >> 63) as u64;
            may_open = before >> 63;
        }
    }
    begin
}

/// For each bit, whether the number of bits up to it is odd.
fn odd(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

fn masks_of(blocks: &[[u8; BLOCK]], wanted: [u8; 3], into: &mut [Masks]) {
    if !vectors::masks(blocks, wanted, into) {
        for (block, masks) in blocks.iter().zip(into) {
            *masks = wanted.map(|byte| equal(block, byte));
        }
    }
}

/// Which bytes are equal to `byte`.
fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let words = block.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.enumerate().fold(0, |mask, (nth, word)| {
        let other = word ^ u64::from_le_bytes([byte; 8]);
        // The upper bit of each byte that is zero, and then all of these in one byte.
        let is_zero = !(((other & LOW) + LOW) | other) & !LOW;
        mask | ((is_zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * nth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomKey;
    use crate::read::csv::tests::DIALECT;

    #[test]
    fn records_are_those_of_searching_for_each_end() {
        let key = RandomKey::new(3);
        let (mut whole, mut stopped) = (0, 0);
        for nth in 0..20_000 {
            let key = key.with(nth);
            let dialect = Dialect { terminator: if nth % 5 == 0 { b'\r' } else { b'\n' }, ..DIALECT };
            // Fields of which few or many are quoted, and few or many of these in another way than they should be.
            let (quoted, odd) = (1 + key.below(0, 8), 1 + key.below(1, 400));
            let mut text = Vec::new();
            for at in 0..key.below(2, 300) {
                let key = key.with(at);
                let content = |text: &mut Vec<u8>| {
                    (0..key.below(3, 40)).for_each(|at| {
                        text.extend([&b"ab"[..], b"c", b",", b"\n", b"\r\n"][key.below(10 + at, 5) as usize])
                    });
                };
                match (key.below(4, quoted) > 0, key.below(5, odd) > 0) {
                    (true, _) => text.extend(b"plain"),
                    (false, true) => {
                        text.push(b'"');
                        content(&mut text);
                        (0..key.below(6, 3)).for_each(|_| text.extend(b"\"\""));
                        text.push(b'"');
                    }
                    (false, false) => {
                        (0..key.below(7, 4)).for_each(|_| text.push(b'"'));
                        content(&mut text);
                        (0..key.below(8, 4)).for_each(|_| text.push(b'"'));
                    }
                }
                let between = [
                    &b","[..],
                    b",",
                    b",",
                    if dialect.terminator == b'\r' { b"\r" } else { b"\r\n" },
                    &[dialect.terminator],
                ];
                text.extend(between[key.below(9, 5) as usize]);
            }
            let mut given = Vec::new();
            let next = whole_records(&text, &dialect, |begin, end| {
                given.push((begin, end));
                true
            });
            let mut naive = Vec::new();
            let mut begin = 0;
            while let Some(end) = dialect.find_end(&text[begin..], &mut Default::default()) {
                naive.push((begin, begin + end));
                begin += end + 1;
            }
            assert_eq!(given, naive[..given.len()], "{}", String::from_utf8_lossy(&text));
            assert_eq!(next, naive.get(given.len()).map_or(begin, |(begin, _)| *begin));
            whole += usize::from(given.len() == naive.len());
            stopped += usize::from(given.len() < naive.len());
        }
        assert!(whole > 2000 && stopped > 2000, "{whole} {stopped}");
    }

    #[test]
    fn it_stops_where_it_is_told_to() {
        let mut given = 0;
        let next = whole_records(b"1\n\"2\n\"\n3\n", &DIALECT, |_, end| {
            given += 1;
            end < 6
        });
        assert_eq!((next, given), (2, 2));
        assert_eq!(whole_records(b"1\n\"2\n", &DIALECT, |_, _| true), 2);
        assert_eq!(whole_records(b"", &DIALECT, |_, _| true), 0);
    }

    #[test]
    fn bytes_that_are_equal_are_found_with_vectors_and_without() {
        for byte in 0..=255 {
            for nth in 0..50 {
                let key = RandomKey::new(4).with(nth).with(byte);
                let byte = byte as u8;
                let of = |at: usize| match key.below(at as u64, 3) {
                    0 => byte,
                    1 => byte ^ 1 << key.below(100 + at as u64, 8),
                    _ => key.bits(200 + at as u64) as u8,
                };
                let block: [u8; BLOCK] = std::array::from_fn(of);
                let naive = [byte, byte ^ 1, byte ^ 0x80]
                    .map(|byte| (0..BLOCK).fold(0, |mask, at| mask | u64::from(block[at] == byte) << at));
                assert_eq!([byte, byte ^ 1, byte ^ 0x80].map(|byte| equal(&block, byte)), naive);
                let mut masks = [[0; 3]; 2];
                if vectors::masks(&[[0; BLOCK], block], [byte, byte ^ 1, byte ^ 0x80], &mut masks) {
                    assert_eq!(masks[1], naive);
                }
            }
        }
    }
}
