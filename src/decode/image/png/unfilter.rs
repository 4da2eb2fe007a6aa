//! Undoes the filters of PNG's rows.
//!
//! Each byte of a row was written as its difference from the value that is expected from its neighbours: the same
//! sample of the pixel to the left, above, and above to the left. Pixels to the right of the wanted ones need not be
//! undone, because no wanted pixel depends on them.

/// A pixel's samples, with zeros behind them.
type Pixel = [i16; 4];

/// Undoes `filter` of the first pixels of a row, each of `CHANNELS` bytes: from `stored` into `row`, with `above`, the
/// row above it, or zeros. All three have the same length, a multiple of whole pixels. False if there is no such
/// filter.
pub(super) fn unfilter<const CHANNELS: usize>(filter: u8, stored: &[u8], above: &[u8], row: &mut [u8]) -> bool {
    match filter {
        0 => row.copy_from_slice(stored),
        1 => each::<CHANNELS>(stored, above, row, |[left, _, _]| left),
        2 => {
            for ((into, stored), above) in row.iter_mut().zip(stored).zip(above) {
                *into = stored.wrapping_add(*above);
            }
        }
        3 => each::<CHANNELS>(stored, above, row, |[left, above, _]| {
            std::array::from_fn(|sample| (left[sample] + above[sample]) >> 1)
        }),
        #[cfg(target_arch = "x86_64")]
        4 if CHANNELS >= 3 => {
            // SAFETY: the only condition is SSE2, which is a part of x86-64.
            unsafe { vectors::paeth::<CHANNELS>(stored, above, row) }
        }
        4 => each::<CHANNELS>(stored, above, row, paeth),
        _ => return false,
    }
    true
}

/// Adds the value that is `expected` from the pixels to the left, above, and above to the left.
#[inline(always)]
fn each<const CHANNELS: usize>(stored: &[u8], above: &[u8], row: &mut [u8], expected: impl Fn([Pixel; 3]) -> Pixel) {
    let (stored, above) = (stored.as_chunks::<CHANNELS>().0, above.as_chunks::<CHANNELS>().0);
    let pixel =
        |bytes: &[u8; CHANNELS]| -> Pixel { std::array::from_fn(|at| bytes.get(at).map_or(0, |byte| (*byte).into())) };
    let (mut left, mut corner) = ([0; 4], [0; 4]);
    for ((into, stored), above) in row.as_chunks_mut::<CHANNELS>().0.iter_mut().zip(stored).zip(above) {
        let above = pixel(above);
        let (stored, expected) = (pixel(stored), expected([left, above, corner]));
        left = std::array::from_fn(|sample| (stored[sample] + expected[sample]) & 255);
        corner = above;
        *into = std::array::from_fn(|sample| left[sample] as u8);
    }
}

/// The one of the three that is nearest to `left + above - corner`, or the first of them if several are. It is computed
/// in another form than in the specification: that value is on the far side of left or above exactly if
/// `3 corner - left - above`, which is twice as far from them as the corner is, lies beyond both.
#[inline(always)]
fn paeth([left, above, corner]: [Pixel; 3]) -> Pixel {
    std::array::from_fn(|sample| {
        let (left, above, corner) = (left[sample], above[sample], corner[sample]);
        let mark = 3 * corner - left - above;
        let (low, high) = (left.min(above), left.max(above));
        match () {
            () if mark <= low => high,
            () if mark >= high => low,
            () => corner,
        }
    })
}

/// Paeth's filter with the samples of a pixel side by side, by instructions that every x86-64 processor has.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_add_epi16, _mm_and_si128, _mm_andnot_si128, _mm_cmpgt_epi16, _mm_cvtsi32_si128,
        _mm_cvtsi128_si32, _mm_max_epi16, _mm_min_epi16, _mm_or_si128, _mm_packus_epi16, _mm_setzero_si128,
        _mm_sub_epi16, _mm_unpacklo_epi8,
    };

    /// As [`unfilter`](super::unfilter) with filter 4.
    #[target_feature(enable = "sse2")]
    pub(super) fn paeth<const CHANNELS: usize>(stored: &[u8], above: &[u8], row: &mut [u8]) {
        let (mut left, mut corner) = (_mm_setzero_si128(), _mm_setzero_si128());
        let (stored, above) = (stored.as_chunks::<CHANNELS>().0, above.as_chunks::<CHANNELS>().0);
        for ((into, stored), above) in row.as_chunks_mut::<CHANNELS>().0.iter_mut().zip(stored).zip(above) {
            let above = load(above);
            // Modulo 256: the upper halves stay zero.
            left = _mm_add_epi8(load(stored), expected(left, above, corner));
            corner = above;
            let bytes = _mm_cvtsi128_si32(_mm_packus_epi16(left, left)).to_le_bytes();
            *into = std::array::from_fn(|sample| bytes[sample]);
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load<const CHANNELS: usize>(pixel: &[u8; CHANNELS]) -> __m128i {
        let bytes = std::array::from_fn(|at| pixel.get(at).copied().unwrap_or(0));
        _mm_unpacklo_epi8(_mm_cvtsi32_si128(i32::from_le_bytes(bytes)), _mm_setzero_si128())
    }

    /// As [`paeth`](super::paeth). Computations that do not need `left` are kept off the chain from one pixel to the
    /// next.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn expected(left: __m128i, above: __m128i, corner: __m128i) -> __m128i {
        let thrice = _mm_add_epi16(_mm_add_epi16(corner, corner), corner);
        let mark = _mm_sub_epi16(_mm_sub_epi16(thrice, above), left);
        let (low, high) = (_mm_min_epi16(left, above), _mm_max_epi16(left, above));
        let inner = choose(_mm_cmpgt_epi16(high, mark), corner, low);
        choose(_mm_cmpgt_epi16(mark, low), inner, high)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn choose(mask: __m128i, yes: __m128i, no: __m128i) -> __m128i {
        _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomKey;

    /// As the specification defines it, a byte at a time.
    fn naive(filter: u8, channels: usize, stored: &[u8], above: &[u8]) -> Vec<u8> {
        let mut row: Vec<u8> = Vec::new();
        for (at, byte) in stored.iter().enumerate() {
            let before = |row: &[u8]| at.checked_sub(channels).map_or(0, |at| i32::from(row[at]));
            let (left, up, corner) = (before(&row), i32::from(above[at]), before(above));
            let estimate = left + up - corner;
            let distances = [left, up, corner].map(|value| (estimate - value).abs());
            let nearest = match distances {
                [a, b, c] if a <= b && a <= c => left,
                [_, b, c] if b <= c => up,
                _ => corner,
            };
            let expected = [0, left, up, (left + up) / 2, nearest][usize::from(filter)];
            row.push(byte.wrapping_add(expected as u8));
        }
        row
    }

    fn check<const CHANNELS: usize>() {
        let key = RandomKey::new(CHANNELS as u64);
        for round in 0..2000 {
            let len = CHANNELS * (round % 40 + 1);
            // Few values, so that neighbours are often equal or as far apart as can be; and all.
            let byte = |at: usize| {
                let bits = key.with(round as u64).bits(at as u64);
                if round % 2 == 0 { [0, 1, 127, 128, 254, 255][(bits % 6) as usize] } else { bits as u8 }
            };
            let (stored, above): (Vec<u8>, Vec<u8>) = (0..len).map(|at| (byte(2 * at), byte(2 * at + 1))).unzip();
            for filter in 0..5 {
                let mut row = vec![7; len];
                assert!(unfilter::<CHANNELS>(filter, &stored, &above, &mut row));
                assert_eq!(row, naive(filter, CHANNELS, &stored, &above), "{filter} {stored:?} {above:?}");
            }
            let mut portable = vec![7; len];
            each::<CHANNELS>(&stored, &above, &mut portable, paeth);
            assert_eq!(portable, naive(4, CHANNELS, &stored, &above), "{stored:?} {above:?}");
        }
        assert!(!unfilter::<CHANNELS>(5, &[0; 4], &[0; 4], &mut [0; 4]));
    }

    #[test]
    fn rows_are_what_the_specification_says() {
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
    }
}
