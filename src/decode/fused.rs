//! Conversions and `fma(x, scale, bias)` over slices, compiled for the processor at hand.
//!
//! `f32::mul_add` rounds once everywhere, so every path gives the same bits. But without the FMA instruction it is a
//! call of the mathematics library (about 20 times slower). The loops are therefore compiled twice, and one version is
//! chosen at run time by the processor's instructions.

use crate::processor::{Kernel, dispatch};

/// Writes `to(x)` for each value. With these vectors, converting tokens of 16 bits to 64 takes a sixth less time than
/// with the vectors that every processor has.
///
/// # Panics
///
/// If the slices differ in length.
pub(crate) fn convert<T: Copy, U>(target: &mut [U], values: &[T], to: impl Fn(T) -> U) {
    struct Convert<'a, T, U, F>(&'a mut [U], &'a [T], F);
    impl<T: Copy, U, F: Fn(T) -> U> Kernel for Convert<'_, T, U, F> {
        #[inline(always)]
        fn run(self) {
            let Self(target, values, to) = self;
            for (target, value) in target.iter_mut().zip(values) {
                *target = to(*value);
            }
        }
    }
    assert_eq!(target.len(), values.len());
    dispatch(Convert(target, values, to));
}

/// Replaces each value by `to(x)`.
pub(crate) fn map_in_place<T: Copy>(values: &mut [T], to: impl Fn(T) -> T) {
    struct Map<'a, T, F>(&'a mut [T], F);
    impl<T: Copy, F: Fn(T) -> T> Kernel for Map<'_, T, F> {
        #[inline(always)]
        fn run(self) {
            let Self(values, to) = self;
            for value in values {
                *value = to(*value);
            }
        }
    }
    dispatch(Map(values, to));
}

/// Writes `fma(to_f32(x), scale, bias)` for each value, with one factor for all.
///
/// # Panics
///
/// If the slices differ in length.
pub(crate) fn scale_all<T: Copy>(target: &mut [f32], values: &[T], scale: f32, bias: f32, to_f32: impl Fn(T) -> f32) {
    struct All<'a, T, F>(&'a mut [f32], &'a [T], f32, f32, F);
    impl<T: Copy, F: Fn(T) -> f32> Kernel for All<'_, T, F> {
        #[inline(always)]
        fn run(self) {
            let Self(target, values, scale, bias, to_f32) = self;
            for (target, value) in target.iter_mut().zip(values) {
                *target = to_f32(*value).mul_add(scale, bias);
            }
        }
    }
    assert_eq!(target.len(), values.len());
    dispatch(All(target, values, scale, bias, to_f32));
}

/// Writes `fma(to_f32(x), scale, bias)`, with a factor and a summand for each value.
///
/// # Panics
///
/// If the slices differ in length.
pub(crate) fn scale_each<T: Copy>(
    target: &mut [f32],
    values: &[T],
    scale: &[f32],
    bias: &[f32],
    to_f32: impl Fn(T) -> f32,
) {
    struct Each<'a, T, F>(&'a mut [f32], &'a [T], &'a [f32], &'a [f32], F);
    impl<T: Copy, F: Fn(T) -> f32> Kernel for Each<'_, T, F> {
        #[inline(always)]
        fn run(self) {
            let Self(target, values, scale, bias, to_f32) = self;
            for (((target, value), scale), bias) in target.iter_mut().zip(values).zip(scale).zip(bias) {
                *target = to_f32(*value).mul_add(*scale, *bias);
            }
        }
    }
    assert_eq!([values.len(), scale.len(), bias.len()], [target.len(); 3]);
    dispatch(Each(target, values, scale, bias, to_f32));
}

/// Writes pixels of three bytes as three numbers each, channel `c` as `fma(x, scale[c], bias[c])`; the channels stay
/// interleaved.
///
/// # Panics
///
/// If the slices differ in length.
pub(crate) fn scale_pixels(target: &mut [f32], pixels: &[u8], scale: [f32; 3], bias: [f32; 3]) {
    struct Pixels<'a>(&'a mut [f32], &'a [u8], [f32; 3], [f32; 3]);
    impl Kernel for Pixels<'_> {
        #[inline(always)]
        fn run(self) {
            // A multiple of three and of the vector's length, so that every block uses the same factors. With 24, the
            // compiler unrolls the inner loop instead of using vectors (ten times slower).
            const BLOCK: usize = 48;
            let Self(target, pixels, scale, bias) = self;
            let scales: [f32; BLOCK] = std::array::from_fn(|i| scale[i % 3]);
            let biases: [f32; BLOCK] = std::array::from_fn(|i| bias[i % 3]);
            let (blocks, rest) = target.as_chunks_mut::<BLOCK>();
            let (pixel_blocks, pixel_rest) = pixels.as_chunks::<BLOCK>();
            for (block, pixels) in blocks.iter_mut().zip(pixel_blocks) {
                for i in 0..BLOCK {
                    block[i] = f32::from(pixels[i]).mul_add(scales[i], biases[i]);
                }
            }
            for (i, (target, value)) in rest.iter_mut().zip(pixel_rest).enumerate() {
                *target = f32::from(*value).mul_add(scale[i % 3], bias[i % 3]);
            }
        }
    }
    assert_eq!(target.len(), pixels.len());
    dispatch(Pixels(target, pixels, scale, bias));
}

/// Writes channel `c` of pixels of three bytes to plane `c`, as `fma(x, scale[c], bias[c])`; from right to left if
/// `mirrored`.
///
/// # Panics
///
/// If a plane does not have as many elements as there are pixels.
pub(crate) fn scale_planes(planes: [&mut [f32]; 3], pixels: &[u8], mirrored: bool, scale: [f32; 3], bias: [f32; 3]) {
    to_planes(planes, pixels, mirrored, |c, value| f32::from(value).mul_add(scale[c], bias[c]));
}

/// Writes channel `c` of pixels of three bytes to plane `c` without changes; from right to left if `mirrored`.
///
/// # Panics
///
/// If a plane does not have as many elements as there are pixels.
#[cfg(any(feature = "images", test))]
pub(crate) fn split_planes(planes: [&mut [u8]; 3], pixels: &[u8], mirrored: bool) {
    to_planes(planes, pixels, mirrored, |_, value| value);
}

fn to_planes<T: Copy + Default>(
    planes: [&mut [T]; 3],
    pixels: &[u8],
    mirrored: bool,
    element: impl Fn(usize, u8) -> T,
) {
    assert!(planes.iter().all(|plane| plane.len() * 3 == pixels.len()), "a plane has one element a pixel");
    let (pixels, _) = pixels.as_chunks::<3>();
    if mirrored {
        dispatch(Mirrored(planes, pixels, element));
    } else {
        dispatch(Straight(planes, pixels, element));
    }
}

// The channels are written out, here and below: for a loop over three of them, or for pixels that go through an array,
// the compiler does not use vectors (ten times slower).

struct Straight<'a, T, F>([&'a mut [T]; 3], &'a [[u8; 3]], F);

impl<T, F: Fn(usize, u8) -> T> Kernel for Straight<'_, T, F> {
    #[inline(always)]
    fn run(self) {
        let Self([red, green, blue], pixels, element) = self;
        for (((pixel, red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
            *red = element(0, pixel[0]);
            *green = element(1, pixel[1]);
            *blue = element(2, pixel[2]);
        }
    }
}

struct Mirrored<'a, T, F>([&'a mut [T]; 3], &'a [[u8; 3]], F);

impl<T: Copy + Default, F: Fn(usize, u8) -> T> Kernel for Mirrored<'_, T, F> {
    #[inline(always)]
    fn run(self) {
        // Reversed block by block, as bytes: a loop that runs backwards through one of the slices is slower.
        const BLOCK: usize = 32;
        let Self([red, green, blue], pixels, element) = self;
        let (blocks, rest) = pixels.as_chunks::<BLOCK>();
        for (nth, block) in (1..).zip(blocks) {
            let (mut r, mut g, mut b) = ([0; BLOCK], [0; BLOCK], [0; BLOCK]);
            for i in 0..BLOCK {
                r[i] = block[i][0];
                g[i] = block[i][1];
                b[i] = block[i][2];
            }
            r.reverse();
            g.reverse();
            b.reverse();
            let blank = [T::default(); BLOCK];
            let (mut reds, mut greens, mut blues) = (blank, blank, blank);
            for i in 0..BLOCK {
                reds[i] = element(0, r[i]);
                greens[i] = element(1, g[i]);
                blues[i] = element(2, b[i]);
            }
            let start = pixels.len() - nth * BLOCK;
            red[start..start + BLOCK].copy_from_slice(&reds);
            green[start..start + BLOCK].copy_from_slice(&greens);
            blue[start..start + BLOCK].copy_from_slice(&blues);
        }
        for (i, pixel) in rest.iter().rev().enumerate() {
            red[i] = element(0, pixel[0]);
            green[i] = element(1, pixel[1]);
            blue[i] = element(2, pixel[2]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn factor() -> impl Strategy<Value = f32> {
        -1e6f32..1e6
    }

    proptest! {
        #[test]
        fn every_kernel_gives_the_bits_of_the_naive_loop(
            pixels in proptest::collection::vec(any::<[u8; 3]>(), 0..300),
            scale in [factor(), factor(), factor()],
            bias in [factor(), factor(), factor()],
        ) {
            let naive: Vec<[u32; 3]> = pixels
                .iter()
                .map(|pixel| std::array::from_fn(|c| f32::from(pixel[c]).mul_add(scale[c], bias[c]).to_bits()))
                .collect();
            let flat = pixels.as_flattened();
            let mut interleaved = vec![f32::NAN; flat.len()];
            scale_pixels(&mut interleaved, flat, scale, bias);
            prop_assert!(interleaved.iter().map(|x| x.to_bits()).eq(naive.iter().flatten().copied()));

            for mirrored in [false, true] {
                let at = |i: usize| if mirrored { pixels.len() - 1 - i } else { i };
                let mut planes = vec![f32::NAN; flat.len()];
                let (red, rest) = planes.split_at_mut(pixels.len());
                let (green, blue) = rest.split_at_mut(pixels.len());
                scale_planes([red, green, blue], flat, mirrored, scale, bias);
                let mut bytes = vec![0u8; flat.len()];
                let (red, rest) = bytes.split_at_mut(pixels.len());
                let (green, blue) = rest.split_at_mut(pixels.len());
                split_planes([red, green, blue], flat, mirrored);
                for c in 0..3 {
                    for i in 0..pixels.len() {
                        prop_assert_eq!(planes[c * pixels.len() + i].to_bits(), naive[at(i)][c]);
                        prop_assert_eq!(bytes[c * pixels.len() + i], pixels[at(i)][c]);
                    }
                }
            }

            let mut all = vec![f32::NAN; flat.len()];
            scale_all(&mut all, flat, scale[0], bias[0], f32::from);
            let expected = flat.iter().map(|x| f32::from(*x).mul_add(scale[0], bias[0]).to_bits());
            prop_assert!(all.iter().map(|x| x.to_bits()).eq(expected));

            let scales: Vec<f32> = scale.iter().copied().cycle().take(flat.len()).collect();
            let biases: Vec<f32> = bias.iter().copied().cycle().take(flat.len()).collect();
            let mut each = vec![f32::NAN; flat.len()];
            scale_each(&mut each, flat, &scales, &biases, f32::from);
            prop_assert!(each.iter().map(|x| x.to_bits()).eq(naive.iter().flatten().copied()));
        }
    }
}
