//! From coefficients to pixels with AVX2: the steps of the portable code, 16 or 32 numbers at a time.

use std::arch::x86_64::*;

use super::entropy::Block;
use super::portable::factors::*;
use super::portable::{MAX_BETWEEN, Quantisation};

#[inline(always)]
fn load_bytes(bytes: &[u8; 32]) -> __m256i {
    bytemuck::cast(*bytes)
}

/// See [`super::portable::inverse_dct`].
#[target_feature(enable = "avx2")]
pub(super) fn inverse_dct(blocks: &[Block], quantisation: &Quantisation, into: &mut [u8], stride: usize) -> bool {
    let (steps, limits) = (vectors(&quantisation.steps), vectors(&quantisation.limits));
    let mut beyond = _mm256_setzero_si256();
    for (x, pair) in blocks.chunks(2).enumerate() {
        // The last block of an odd number is done twice. What that writes beside it is not read.
        let (first, second) = (vectors(&pair[0]), vectors(&pair[pair.len() - 1]));
        // Two rows of a block in each vector become a row of each block.
        let mut rows = [beyond; 8];
        for i in 0..4 {
            let larger = _mm256_max_epu16(_mm256_abs_epi16(first[i]), _mm256_abs_epi16(second[i]));
            // Without sign, what is left above the limit is not zero. (-32768 has no positive number with sign.)
            beyond = _mm256_or_si256(beyond, _mm256_subs_epu16(larger, limits[i]));
            let (first, second) = (_mm256_mullo_epi16(first[i], steps[i]), _mm256_mullo_epi16(second[i], steps[i]));
            rows[2 * i] = _mm256_permute2x128_si256::<0x20>(first, second);
            rows[2 * i + 1] = _mm256_permute2x128_si256::<0x31>(first, second);
        }
        let rows = one_dimension::<{ (BITS - KEPT) as i32 }>(rows);
        let mut largest = _mm256_abs_epi16(rows[0]);
        for row in &rows[1..] {
            largest = _mm256_max_epu16(largest, _mm256_abs_epi16(*row));
        }
        beyond = _mm256_or_si256(beyond, _mm256_subs_epu16(largest, _mm256_set1_epi16(MAX_BETWEEN)));
        let rows = samples_of_two(rows);
        let into = &mut into[16 * x..];
        for (y, row) in rows.as_flattened().iter().enumerate() {
            into[y * stride..][..16].copy_from_slice(row);
        }
    }
    _mm256_testz_si256(beyond, beyond) == 1
}

/// The numbers of a block, two rows in each vector.
#[target_feature(enable = "avx2")]
#[inline]
fn vectors(block: &Block) -> [__m256i; 4] {
    bytemuck::cast(*block)
}

/// The second half of the inverse DCT for two blocks side by side, a row of each in a vector. Gives pairs of rows of 16
/// samples.
#[target_feature(enable = "avx2")]
#[inline]
fn samples_of_two(rows: [__m256i; 8]) -> [[[u8; 16]; 2]; 4] {
    let columns = one_dimension::<{ (BITS + KEPT + 3) as i32 }>(transpose(rows));

    // Packed to bytes, the second transposition needs half of the steps.
    let pack = |a, b| _mm256_add_epi8(_mm256_packs_epi16(a, b), _mm256_set1_epi8(-128));
    let [c04, c15] = [pack(columns[0], columns[4]), pack(columns[1], columns[5])];
    let [c26, c37] = [pack(columns[2], columns[6]), pack(columns[3], columns[7])];
    let (c02, c46) = (_mm256_unpacklo_epi8(c04, c26), _mm256_unpackhi_epi8(c04, c26));
    let (c13, c57) = (_mm256_unpacklo_epi8(c15, c37), _mm256_unpackhi_epi8(c15, c37));
    let (left_top, left_bottom) = (_mm256_unpacklo_epi8(c02, c13), _mm256_unpackhi_epi8(c02, c13));
    let (right_top, right_bottom) = (_mm256_unpacklo_epi8(c46, c57), _mm256_unpackhi_epi8(c46, c57));
    // From (first: two rows, second: two rows) to (a row of both, a row of both).
    let rows = |rows| bytemuck::cast(_mm256_permute4x64_epi64::<0b11_01_10_00>(rows));
    [
        rows(_mm256_unpacklo_epi32(left_top, right_top)),
        rows(_mm256_unpackhi_epi32(left_top, right_top)),
        rows(_mm256_unpacklo_epi32(left_bottom, right_bottom)),
        rows(_mm256_unpackhi_epi32(left_bottom, right_bottom)),
    ]
}

/// Two factors, for the first and second of each pair of numbers.
#[target_feature(enable = "avx2")]
#[inline]
fn pair(first: i16, second: i16) -> __m256i {
    _mm256_set1_epi32(i32::from(second) << 16 | i32::from(first as u16))
}

/// The inverse DCT of eight vectors, each lane by itself.
#[target_feature(enable = "avx2")]
#[inline]
fn one_dimension<const SHIFT: i32>(x: [__m256i; 8]) -> [__m256i; 8] {
    let sum04 = _mm256_add_epi16(x[0], x[4]);
    let difference04 = _mm256_sub_epi16(x[0], x[4]);
    let z3 = _mm256_add_epi16(x[7], x[3]);
    let z4 = _mm256_add_epi16(x[5], x[1]);
    let zero = _mm256_setzero_si256();
    let low = half::<SHIFT>(
        _mm256_unpacklo_epi16(zero, sum04),
        _mm256_unpacklo_epi16(zero, difference04),
        _mm256_unpacklo_epi16(x[2], x[6]),
        _mm256_unpacklo_epi16(z3, z4),
        _mm256_unpacklo_epi16(x[7], x[1]),
        _mm256_unpacklo_epi16(x[5], x[3]),
    );
    let high = half::<SHIFT>(
        _mm256_unpackhi_epi16(zero, sum04),
        _mm256_unpackhi_epi16(zero, difference04),
        _mm256_unpackhi_epi16(x[2], x[6]),
        _mm256_unpackhi_epi16(z3, z4),
        _mm256_unpackhi_epi16(x[7], x[1]),
        _mm256_unpackhi_epi16(x[5], x[3]),
    );
    let mut result = [zero; 8];
    for i in 0..8 {
        result[i] = _mm256_packs_epi32(low[i], high[i]);
    }
    result
}

/// Half of the lanes, as 32 bits: the first two numbers stand in the upper halves, the others side by side.
#[target_feature(enable = "avx2")]
#[inline]
fn half<const SHIFT: i32>(
    sum04: __m256i,
    difference04: __m256i,
    x26: __m256i,
    z34: __m256i,
    x71: __m256i,
    x53: __m256i,
) -> [__m256i; 8] {
    let product = |x, first, second| _mm256_madd_epi16(x, pair(first, second));
    let t0 = _mm256_srai_epi32::<{ 16 - BITS as i32 }>(sum04);
    let t1 = _mm256_srai_epi32::<{ 16 - BITS as i32 }>(difference04);
    let t3 = product(x26, F_0_541 + F_0_765, F_0_541);
    let t2 = product(x26, F_0_541, F_0_541 - F_1_847);
    let round = _mm256_set1_epi32(1 << (SHIFT - 1));
    let even = [
        _mm256_add_epi32(_mm256_add_epi32(t0, t3), round),
        _mm256_add_epi32(_mm256_add_epi32(t1, t2), round),
        _mm256_add_epi32(_mm256_sub_epi32(t1, t2), round),
        _mm256_add_epi32(_mm256_sub_epi32(t0, t3), round),
    ];
    let sum3 = product(z34, F_1_175 - F_1_961, F_1_175);
    let sum4 = product(z34, F_1_175, F_1_175 - F_0_390);
    let odd = [
        _mm256_add_epi32(product(x71, -F_0_899, F_1_501 - F_0_899), sum4),
        _mm256_add_epi32(product(x53, -F_2_562, F_3_072 - F_2_562), sum3),
        _mm256_add_epi32(product(x53, F_2_053 - F_2_562, -F_2_562), sum4),
        _mm256_add_epi32(product(x71, F_0_298 - F_0_899, -F_0_899), sum3),
    ];
    let mut result = [round; 8];
    for i in 0..4 {
        result[i] = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(even[i], odd[i]));
        result[7 - i] = _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(even[i], odd[i]));
    }
    result
}

/// Exchanges rows and columns of the 8 x 8 numbers in each half of the vectors.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose(x: [__m256i; 8]) -> [__m256i; 8] {
    let (a0, a1) = (_mm256_unpacklo_epi16(x[0], x[1]), _mm256_unpackhi_epi16(x[0], x[1]));
    let (a2, a3) = (_mm256_unpacklo_epi16(x[2], x[3]), _mm256_unpackhi_epi16(x[2], x[3]));
    let (a4, a5) = (_mm256_unpacklo_epi16(x[4], x[5]), _mm256_unpackhi_epi16(x[4], x[5]));
    let (a6, a7) = (_mm256_unpacklo_epi16(x[6], x[7]), _mm256_unpackhi_epi16(x[6], x[7]));
    let (b0, b1) = (_mm256_unpacklo_epi32(a0, a2), _mm256_unpackhi_epi32(a0, a2));
    let (b2, b3) = (_mm256_unpacklo_epi32(a1, a3), _mm256_unpackhi_epi32(a1, a3));
    let (b4, b5) = (_mm256_unpacklo_epi32(a4, a6), _mm256_unpackhi_epi32(a4, a6));
    let (b6, b7) = (_mm256_unpacklo_epi32(a5, a7), _mm256_unpackhi_epi32(a5, a7));
    [
        _mm256_unpacklo_epi64(b0, b4),
        _mm256_unpackhi_epi64(b0, b4),
        _mm256_unpacklo_epi64(b1, b5),
        _mm256_unpackhi_epi64(b1, b5),
        _mm256_unpacklo_epi64(b2, b6),
        _mm256_unpackhi_epi64(b2, b6),
        _mm256_unpacklo_epi64(b3, b7),
        _mm256_unpackhi_epi64(b3, b7),
    ]
}

/// Bytes as 16 bits each.
#[target_feature(enable = "avx2")]
#[inline]
fn widen(bytes: &[u8; 16]) -> __m256i {
    _mm256_cvtepu8_epi16(bytemuck::cast(*bytes))
}

/// Three times `x`, and `y`.
#[target_feature(enable = "avx2")]
#[inline]
fn weigh(x: __m256i, y: __m256i) -> __m256i {
    _mm256_add_epi16(_mm256_add_epi16(_mm256_add_epi16(x, x), x), y)
}

/// Those of 32 numbers that have a left and a right neighbour among the first 18: left neighbours, the numbers
/// themselves, right neighbours.
#[target_feature(enable = "avx2")]
#[inline]
fn neighbours(first: __m256i, second: __m256i) -> [__m256i; 3] {
    let middle = _mm256_permute2x128_si256::<0x21>(first, second);
    [first, _mm256_alignr_epi8::<2>(middle, first), _mm256_alignr_epi8::<4>(middle, first)]
}

/// See [`super::portable::upsample_width`].
#[target_feature(enable = "avx2")]
pub(super) fn upsample_width(from: &[u8], into: &mut [u8]) {
    let mut pieces = from.as_chunks::<16>().0.iter().map(|piece| widen(piece));
    let Some(mut next) = pieces.next() else { return };
    for (into, piece) in into.as_chunks_mut::<32>().0.iter_mut().zip(pieces) {
        let first = std::mem::replace(&mut next, piece);
        let [left, this, right] = neighbours(first, next);
        let even = _mm256_add_epi16(weigh(this, left), _mm256_set1_epi16(1));
        let odd = _mm256_add_epi16(weigh(this, right), _mm256_set1_epi16(2));
        let odd = _mm256_slli_epi16::<8>(_mm256_srli_epi16::<2>(odd));
        *into = bytemuck::cast(_mm256_or_si256(_mm256_srli_epi16::<2>(even), odd));
    }
}

/// See [`super::portable::upsample_both`].
#[target_feature(enable = "avx2")]
pub(super) fn upsample_both(near: &[u8], far: &[u8], into: &mut [u8]) {
    let rows = near.as_chunks::<16>().0.iter().zip(far.as_chunks::<16>().0);
    let mut pieces = rows.map(|(near, far)| weigh(widen(near), widen(far)));
    let Some(mut next) = pieces.next() else { return };
    for (into, piece) in into.as_chunks_mut::<32>().0.iter_mut().zip(pieces) {
        let first = std::mem::replace(&mut next, piece);
        let [left, this, right] = neighbours(first, next);
        let even = _mm256_add_epi16(weigh(this, left), _mm256_set1_epi16(8));
        let odd = _mm256_add_epi16(weigh(this, right), _mm256_set1_epi16(7));
        let odd = _mm256_slli_epi16::<8>(_mm256_srli_epi16::<4>(odd));
        *into = bytemuck::cast(_mm256_or_si256(_mm256_srli_epi16::<4>(even), odd));
    }
}

/// See [`super::portable::to_rgb`]; the samples must be allocated for a multiple of 32 pixels.
#[target_feature(enable = "avx2")]
pub(super) fn to_rgb(luma: &[u8], blue: &[u8], red: &[u8], into: &mut [u8]) {
    let mut samples = luma.as_chunks::<32>().0.iter().zip(blue.as_chunks::<32>().0).zip(red.as_chunks::<32>().0);
    let (whole, rest) = into.as_chunks_mut::<96>();
    for (into, ((luma, blue), red)) in whole.iter_mut().zip(&mut samples) {
        *into = pixels(luma, blue, red);
    }
    if let (1.., Some(((luma, blue), red))) = (rest.len(), samples.next()) {
        rest.copy_from_slice(&pixels(luma, blue, red)[..rest.len()]);
    }
}

/// 32 pixels.
#[target_feature(enable = "avx2")]
#[inline]
fn pixels(luma: &[u8; 32], blue: &[u8; 32], red: &[u8; 32]) -> [u8; 96] {
    let zero = _mm256_setzero_si256();
    let (luma, blue, red) = (load_bytes(luma), load_bytes(blue), load_bytes(red));
    let low = |bytes| _mm256_unpacklo_epi8(bytes, zero);
    let high = |bytes| _mm256_unpackhi_epi8(bytes, zero);
    let [r0, g0, b0] = colours(low(luma), low(blue), low(red));
    let [r1, g1, b1] = colours(high(luma), high(blue), high(red));
    // Unpacking and packing both work in halves, so that the order is the old one.
    interleave([_mm256_packus_epi16(r0, r1), _mm256_packus_epi16(g0, g1), _mm256_packus_epi16(b0, b1)])
}

/// Red, green and blue of 16 pixels, before they are limited to a byte. The factors are those of the portable code
/// minus whole multiples, so that they fit 16 bits: 1.402 = 1 + 0.402, 1.772 = 2 - 0.228, -0.714 = 0.286 - 1.
#[target_feature(enable = "avx2")]
#[inline]
fn colours(luma: __m256i, blue: __m256i, red: __m256i) -> [__m256i; 3] {
    let middle = _mm256_set1_epi16(128);
    let (blue, red) = (_mm256_sub_epi16(blue, middle), _mm256_sub_epi16(red, middle));
    let (blue2, red2) = (_mm256_add_epi16(blue, blue), _mm256_add_epi16(red, red));
    // Half of the product with twice the number, rounded: exactly the rounded product.
    let product = |twice, factor| {
        let product = _mm256_mulhi_epi16(twice, _mm256_set1_epi16(factor));
        _mm256_srai_epi16::<1>(_mm256_add_epi16(product, _mm256_set1_epi16(1)))
    };
    let r = _mm256_add_epi16(_mm256_add_epi16(luma, red), product(red2, 26345));
    let b = _mm256_add_epi16(_mm256_add_epi16(luma, blue2), product(blue2, -14942));
    let green = |blue_red| {
        let sum = _mm256_madd_epi16(blue_red, pair(-22554, 18734));
        _mm256_srai_epi32::<16>(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << 15)))
    };
    let low = green(_mm256_unpacklo_epi16(blue, red));
    let high = green(_mm256_unpackhi_epi16(blue, red));
    let g = _mm256_add_epi16(luma, _mm256_sub_epi16(_mm256_packs_epi32(low, high), red));
    [r, g, b]
}

/// For each third of 48 bytes and each colour: which pixel goes where; 128 where another colour goes.
const PLACES: [[[u8; 32]; 3]; 3] = {
    let mut places = [[[128; 32]; 3]; 3];
    let mut at = 0;
    while at < 48 {
        places[at / 16][at % 3][at % 16] = (at / 3) as u8;
        places[at / 16][at % 3][16 + at % 16] = (at / 3) as u8;
        at += 1;
    }
    places
};

/// Three planes of 32 bytes as one.
#[target_feature(enable = "avx2")]
#[inline]
fn interleave(planes: [__m256i; 3]) -> [u8; 96] {
    let third = |places: &[[u8; 32]; 3]| {
        let red = _mm256_shuffle_epi8(planes[0], load_bytes(&places[0]));
        let green = _mm256_shuffle_epi8(planes[1], load_bytes(&places[1]));
        let blue = _mm256_shuffle_epi8(planes[2], load_bytes(&places[2]));
        _mm256_or_si256(_mm256_or_si256(red, green), blue)
    };
    let thirds = [third(&PLACES[0]), third(&PLACES[1]), third(&PLACES[2])];
    bytemuck::cast([
        _mm256_permute2x128_si256::<0x20>(thirds[0], thirds[1]),
        _mm256_permute2x128_si256::<0x30>(thirds[2], thirds[0]),
        _mm256_permute2x128_si256::<0x31>(thirds[1], thirds[2]),
    ])
}
