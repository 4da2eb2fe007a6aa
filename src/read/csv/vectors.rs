//! Numbers of neighbouring fields by vector instructions: 64 bytes are searched for delimiters at a time, and a field
//! becomes a [`Decimal`] as a whole.
//!
//! When fields are read word by word, the end of a field is known only after its digits have been read, and so is the
//! beginning of the next one. Here all ends are known first, so the processor works on several fields at the same time.

use super::value::FieldNumber;

/// Bytes that are looked at together: as many as a mask has bits.
pub(super) const BLOCK: usize = u64::BITS as usize;

/// Which bytes of a block are equal to each of three, the first in the lowest bit.
pub(super) type Masks = [u64; 3];

/// Reads the fields of a record, beginning at `at`, as [`Fields::numbers`](super::fields::Fields::numbers) does.
/// Returns how many, and where the next field begins; `None` if the processor lacks the instructions.
#[inline]
pub(super) fn numbers<T: FieldNumber>(
    record: &[u8],
    at: usize,
    delimiter: u8,
    into: &mut [T],
) -> Option<(usize, usize)> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the only condition is that the processor has AVX2, BMI1 and BMI2, which was just asked of it.
        return Some(unsafe { avx2::numbers(record, at, delimiter, into) });
    }
    let _ = (record, at, delimiter, into);
    None
}

/// Which bytes of each block are equal to those that are wanted. Returns `false` if the processor lacks the
/// instructions.
pub(super) fn masks(blocks: &[[u8; BLOCK]], wanted: [u8; 3], into: &mut [Masks]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the only condition is that the processor has AVX2, BMI1 and BMI2, which was just asked of it.
        unsafe { avx2::masks(blocks, wanted, into) };
        return true;
    }
    let _ = (blocks, wanted, into);
    false
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use crate::read::csv::number::Decimal;
    use crate::read::csv::value::{FieldNumber, other_number};
    use crate::read::csv::vectors::{BLOCK, Masks};

    /// Longest field that is read here.
    const FIELD: usize = 16;

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn numbers<T: FieldNumber>(record: &[u8], at: usize, delimiter: u8, into: &mut [T]) -> (usize, usize) {
        if record.len() >= BLOCK {
            return numbers_of_block(record, at, delimiter, into);
        }
        let mut block = [0; BLOCK];
        let moved = BLOCK - record.len();
        block[moved..].copy_from_slice(record);
        let (count, at) = numbers_of_block(&block, moved + at, delimiter, into);
        (count, at - moved)
    }

    /// For a record that is at least as long as a block.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn numbers_of_block<T: FieldNumber>(record: &[u8], at: usize, delimiter: u8, into: &mut [T]) -> (usize, usize) {
        let (mut count, mut start) = (0, at);
        // An empty field is not a number, even at the end.
        while count < into.len() && start < record.len() {
            let left = record.len() - start;
            // The last block is the last bytes of the record, and the end of the record also ends a field.
            let last = left < BLOCK;
            let from = if last { record.len() - BLOCK } else { start };
            let mut ends = delimiters(&record[from..], delimiter);
            if last {
                ends = ends >> (BLOCK - left) | 1 << left;
            }
            let begin = start;
            while ends != 0
                && let Some(target) = into.get_mut(count)
            {
                let end = begin + ends.trailing_zeros() as usize;
                ends &= ends - 1;
                // No closures: they would be compiled without these features, and be calls.
                let plain = match decimal(record, start, end) {
                    Some(decimal) => T::of_decimal(decimal),
                    None => None,
                };
                *target = match plain {
                    Some(number) => number,
                    None => match other(&record[start..], end - start) {
                        Some(number) => number,
                        None => return (count, start),
                    },
                };
                count += 1;
                start = end + 1;
            }
            if start == begin {
                // Longer than a block.
                break;
            }
        }
        (count, start)
    }

    /// A field that is not a short plain number.
    #[inline(never)]
    fn other<T: FieldNumber>(rest: &[u8], len: usize) -> Option<T> {
        let is_all = |(_, own): &(T, usize)| *own == len;
        let read = T::plain(rest).filter(is_all).or_else(|| other_number(rest).filter(is_all));
        read.map(|(number, _)| number)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn masks(blocks: &[[u8; BLOCK]], wanted: [u8; 3], into: &mut [Masks]) {
        for (block, into) in blocks.iter().zip(into) {
            *into = [mask(block, wanted[0]), mask(block, wanted[1]), mask(block, wanted[2])];
        }
    }

    /// Which of the first 64 bytes are delimiters.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    #[inline]
    fn delimiters(bytes: &[u8], delimiter: u8) -> u64 {
        match bytes.first_chunk() {
            Some(block) => mask(block, delimiter),
            None => 0,
        }
    }

    /// Which bytes are equal to `byte`.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    #[inline]
    fn mask(block: &[u8; BLOCK], byte: u8) -> u64 {
        let [low, high]: &[[u8; 32]; 2] = bytemuck::cast_ref(block);
        let byte = _mm256_set1_epi8(byte as i8);
        let mask = |bytes: &[u8; 32]| _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytemuck::cast(*bytes), byte)) as u32;
        u64::from(mask(high)) << 32 | u64::from(mask(low))
    }

    /// Moves the digits before the point, whose index is the row of this table, to the place of the point, and puts a
    /// zero first. Without a point, nothing moves.
    const CLOSED: [[u8; FIELD]; FIELD + 1] = {
        let mut closed = [[0; FIELD]; FIELD + 1];
        let mut point = 0;
        while point <= FIELD {
            let mut at = 0;
            while at < FIELD {
                closed[point][at] = match point {
                    FIELD => at as u8,
                    // An index with the upper bit set gives a zero.
                    _ if at == 0 => 0x80,
                    _ if at <= point => at as u8 - 1,
                    _ => at as u8,
                };
                at += 1;
            }
            point += 1;
        }
        closed
    };

    /// The 16 bytes from element `n` on are a mask for the last `n` of 16 bytes.
    const LAST: [u8; 2 * FIELD] = {
        let mut last = [0; 2 * FIELD];
        let mut at = FIELD;
        while at < last.len() {
            last[at] = 0xff;
            at += 1;
        }
        last
    };

    /// The field from `start` to `end`, if it is a plain decimal number of at most 16 bytes. The record must have at
    /// least 16.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    #[inline]
    fn decimal(record: &[u8], start: usize, end: usize) -> Option<Decimal> {
        let len = end - start;
        if len > FIELD {
            return None;
        }
        let bytes: [u8; FIELD] = match end.checked_sub(FIELD) {
            Some(from) => *record.get(from..)?.first_chunk()?,
            None if len == 0 => return None,
            None => (u128::from_le_bytes(*record.first_chunk()?) << (8 * (FIELD - end))).to_le_bytes(),
        };
        let negative = *record.get(start)? == b'-';
        // From here on, only the last `len` bytes count.
        let unsigned = len - usize::from(negative);
        let text: __m128i = bytemuck::cast(bytes);
        let values = _mm_sub_epi8(text, _mm_set1_epi8(b'0' as i8));
        let are_digits = _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values);
        let are_points = _mm_cmpeq_epi8(text, _mm_set1_epi8(b'.' as i8));
        let inside = 0xffff_0000_u32 >> unsigned & 0xffff;
        let others = !_mm_movemask_epi8(are_digits) as u32 & inside;
        let points = _mm_movemask_epi8(are_points) as u32 & inside;
        let whole = others == 0;
        if others != points || others & others.wrapping_sub(1) != 0 || unsigned == usize::from(!whole) {
            return None;
        }
        let point = (others | 1 << FIELD).trailing_zeros() as usize;
        let last: __m128i = bytemuck::cast::<[u8; FIELD], _>(*LAST.get(unsigned..)?.first_chunk()?);
        let closed: __m128i = bytemuck::cast(CLOSED[point]);
        let digits = _mm_shuffle_epi8(_mm_and_si128(values, last), closed);
        // Joins digits to pairs, pairs to fours, and these to eight.
        let pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(10 + (1 << 8)));
        let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(100 + (1 << 16)));
        let packed = _mm_packus_epi32(fours, fours);
        let eights = _mm_madd_epi16(packed, _mm_set1_epi32(10_000 + (1 << 16)));
        let eights = _mm_cvtsi128_si64(eights) as u64;
        let mantissa = (eights & 0xffff_ffff) * 100_000_000 + (eights >> 32);
        Some(Decimal::new(mantissa, (FIELD - point).saturating_sub(1), negative, whole, len))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::random::RandomKey;
    use crate::read::csv::fields::Fields;
    use crate::read::csv::tests::DIALECT;
    use crate::read::csv::value::BeforeHalf;

    /// The fields that are read by vectors, up to the first that is not a number, must be the same as those read by
    /// words.
    fn check<T: FieldNumber>(record: &str, bits: impl Fn(T) -> u64) -> usize {
        let mut by_words = [T::default(); 40];
        let mut fields = Fields::new(record.as_bytes(), false, &DIALECT);
        let count = fields.numbers_by_words(&mut by_words);
        let mut by_vectors = [T::default(); 40];
        let found = numbers(record.as_bytes(), 0, b',', &mut by_vectors);
        if let Some(found) = found {
            assert_eq!(found, (count, fields.at()), "{record}");
            for (own, other) in by_vectors.iter().zip(&by_words).take(count) {
                assert_eq!(bits(*own), bits(*other), "{record}");
            }
        }
        count
    }

    fn check_all(record: &str) -> usize {
        check::<f64>(record, f64::to_bits);
        check::<BeforeHalf>(record, |number| f32::from(number).to_bits().into());
        check::<i64>(record, |number| number as u64);
        check::<u8>(record, u64::from);
        check::<f32>(record, |number| number.to_bits().into())
    }

    #[test]
    fn fields_of_every_length_at_every_place_are_those_that_words_give() {
        let odd = [
            "",
            "-",
            ".",
            "-.",
            "1e5",
            "+1",
            "1.2.3",
            "--1",
            " 1",
            "1 ",
            "nan",
            "\"1\"",
            "1.-2",
            "-1-",
            "12/",
            ":1",
            "1.5x",
            "inf",
            "-Infinity",
            "65520",
            "-70000",
            "3.5e38",
            "1e39",
            "1e999",
        ];
        let digits = "98765432101234567890123";
        let plain = (0..=20).flat_map(|before| {
            let of = move |(sign, behind)| {
                let point = if before % 3 == 0 && behind == 0 { "" } else { "." };
                format!("{sign}{}{point}{}", &digits[..before], &digits[digits.len() - behind..])
            };
            ["", "-"].into_iter().flat_map(move |sign| (0..=20).map(move |behind| of((sign, behind))))
        });
        for field in odd.map(str::to_owned).into_iter().chain(plain) {
            for before in [0, 1, 7, 20, 61, 62, 63, 64, 65, 128] {
                // So many bytes before it, in fields of one byte.
                let record = format!("{}{}{field}", "1,".repeat(before / 2), if before % 2 == 1 { "," } else { "" });
                check_all(&record);
                check_all(&format!("{record},7"));
                check_all(&format!("{field},{record},5.25,-7"));
                check_all(&format!("{field},{}", "x".repeat(before)));
            }
        }
        // A field longer than a block is not read here.
        let (record, mut into) = (format!("1,2,{},3", "5".repeat(70)), [0f64; 4]);
        assert!(numbers(record.as_bytes(), 0, b',', &mut into).is_none_or(|found| found == (2, 4)));
        assert_eq!((check_all(""), check_all("1,"), check_all(",1"), check_all("1,2\r")), (0, 1, 0, 1));
    }

    /// Random decimals of all lengths, compared with the standard library's parser.
    fn random_decimals(count: u64) {
        let key = RandomKey::new(31);
        for nth in 0..count / 30 {
            let key = key.with(nth);
            let field = |nth: u64| {
                let key = key.with(nth);
                let decimals = key.below(0, 13) as usize;
                let number = key.bits(1) as i64 >> key.below(2, 63);
                match key.below(3, 4) {
                    0 => format!(
                        "{:.decimals$}",
                        f64::from(f32::from_bits(key.bits(4) as u32 & 0xbfff_ffff | 0x3000_0000))
                    ),
                    1 => format!("{:.decimals$}", number as f64 / 1e7),
                    2 => format!("{}", number as f64 / 10f64.powi(decimals as i32)),
                    _ => format!("{number}"),
                }
            };
            let fields: Vec<String> = (0..30).map(field).collect();
            let record = fields.join(",");
            let mut wide = [0f64; 30];
            let mut narrow = [0f32; 30];
            for (done, fields) in [
                (numbers(record.as_bytes(), 0, b',', &mut wide), &fields),
                (numbers(record.as_bytes(), 0, b',', &mut narrow), &fields),
            ] {
                assert!(done.is_none_or(|done| done == (fields.len(), record.len() + 1)), "{record}");
                if done.is_none() {
                    return;
                }
            }
            for ((field, wide), narrow) in fields.iter().zip(wide).zip(narrow) {
                let expected: (f64, f32) = (field.parse().expect("a decimal"), field.parse().expect("a decimal"));
                assert_eq!((wide.to_bits(), narrow.to_bits()), (expected.0.to_bits(), expected.1.to_bits()), "{field}");
            }
        }
    }

    #[test]
    fn random_decimals_are_those_of_the_standard_library() {
        random_decimals(60_000);
    }

    #[test]
    #[ignore = "a hundred million decimals"]
    fn many_random_decimals_are_those_of_the_standard_library() {
        random_decimals(100_000_000);
    }
}
