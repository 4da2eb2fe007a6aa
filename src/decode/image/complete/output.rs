//! From coefficients to samples, and from samples to pixels.

use std::ops::Range;

use super::super::baseline::{Block, Kernels, Quantisation, factors::*};
use super::super::decoder::held;
use super::super::samples::inked;
use super::super::stored::Region;
use super::frame::{Colours, Component};
use crate::error::{Error, ErrorKind, Result};

/// Number of samples after the last one of a row, which vectors read and write.
pub(in super::super) const BEHIND: u64 = 64;

/// How a component gets as many samples as there are pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upsampling {
    /// Repeats each sample this many times, across and down.
    Repeat(usize, usize),
    /// Interpolated between two columns, or two rows, or both.
    Width,
    Height,
    Both,
}

impl Upsampling {
    fn of(component: &Component, most: (usize, usize)) -> Self {
        let factors = (most.0 / component.per_mcu.0, most.1 / component.per_mcu.1);
        match factors {
            (2, 1) if component.size.0 > 2 => Self::Width,
            (2, 2) if component.size.0 > 2 => Self::Both,
            (1, 2) => Self::Height,
            (across, down) => Self::Repeat(across, down),
        }
    }
}

/// The blocks of a component that a region needs. If samples are interpolated, this includes one more on each side.
pub(super) struct Needed {
    pub(super) columns: Range<usize>,
    pub(super) rows: Range<usize>,
}

impl Needed {
    pub(super) fn of(component: &Component, most: (usize, usize), region: Region) -> Self {
        let blocks = |begin: u32, len: u32, factor: usize, count: usize| {
            let (first, last) = (begin as usize / factor, (begin as usize + len as usize - 1) / factor + 1);
            first.saturating_sub(1) / 8..(last / 8 + 1).min(count)
        };
        let factors = (most.0 / component.per_mcu.0, most.1 / component.per_mcu.1);
        Self {
            columns: blocks(region.x, region.width, factors.0, component.blocks.0),
            rows: blocks(region.y, region.height, factors.1, component.blocks.1),
        }
    }

    pub(super) fn has(&self, x: usize, y: usize) -> bool {
        self.columns.contains(&x) && self.rows.contains(&y)
    }
}

/// The samples of one component.
#[derive(Default)]
struct Plane {
    samples: Vec<u8>,
    stride: usize,
    upsampling: Option<Upsampling>,
    size: (usize, usize),
    /// A row of samples for each pixel.
    row: Vec<u8>,
}

impl Plane {
    /// Row `y`, as far as the component has rows.
    fn samples(&self, y: usize) -> &[u8] {
        &self.samples[y.min(self.size.1 - 1) * self.stride..][..self.size.0]
    }
}

/// All samples of an image. Its buffers are kept from image to image.
pub(super) struct Output {
    kernels: Kernels,
    planes: [Plane; 4],
    /// Two rows of samples with their outermost ones repeated.
    edged: [Vec<u8>; 2],
    /// A row of pixels, for colours that need two steps.
    pixels: Vec<u8>,
}

impl Output {
    pub(super) fn new(kernels: Kernels) -> Self {
        Self { kernels, planes: Default::default(), edged: Default::default(), pixels: Vec::new() }
    }

    /// Bytes of memory, beside a few rows.
    pub(super) fn held(&self) -> u64 {
        self.planes.iter().map(|plane| held(&plane.samples)).sum()
    }

    /// Makes room.
    pub(super) fn prepare(&mut self, components: &[Component], most: (usize, usize), width: usize) -> Result<()> {
        let len = width.next_multiple_of(32) + 2 * BEHIND as usize;
        for (plane, component) in self.planes.iter_mut().zip(components) {
            plane.stride = 8 * component.blocks.0 + BEHIND as usize;
            plane.size = component.size;
            plane.upsampling = Some(Upsampling::of(component, most));
            room(&mut plane.samples, plane.stride * 8 * component.blocks.1, 0)?;
            room(&mut plane.row, len, 0)?;
        }
        for row in self.edged.iter_mut() {
            room(row, len, 0)?;
        }
        room(&mut self.pixels, 3 * len, 0)
    }

    /// Takes blocks of a component side by side; the first one is at column `x` and row `y` of its blocks.
    pub(super) fn add(&mut self, index: usize, component: &Component, (x, y): (usize, usize), blocks: &[Block]) {
        let plane = &mut self.planes[index];
        let quantisation = Quantisation::of(component.quant.unwrap_or([0; 64]));
        let into = &mut plane.samples[8 * y * plane.stride + 8 * x..];
        if self.kernels.inverse_dct(blocks, &quantisation, into, plane.stride) {
            return;
        }
        for (x, block) in blocks.iter().enumerate() {
            let into = &mut into[8 * x..];
            if !self.kernels.inverse_dct(std::slice::from_ref(block), &quantisation, into, plane.stride) {
                wrapping_dct(block, &quantisation, into, plane.stride);
            }
        }
    }

    /// Writes the pixels in `region` as 8-bit RGB.
    pub(super) fn write(&mut self, colours: Colours, region: Region, into: &mut [u8]) {
        let (x, width) = (region.x as usize, region.width as usize);
        let count = width.next_multiple_of(32);
        let planes = match colours {
            Colours::Grey => 1,
            Colours::YCbCr | Colours::Rgb => 3,
            Colours::Cmyk | Colours::Ycck => 4,
        };
        for (y, into) in (region.y as usize..).zip(into.chunks_exact_mut(3 * width)) {
            for plane in &mut self.planes[..planes] {
                upsample(self.kernels, plane, &mut self.edged, y);
            }
            let [a, b, c, d] = self.planes.each_ref().map(|plane| plane.row.get(x..x + count).unwrap_or_default());
            match colours {
                Colours::Grey => self.kernels.grey_to_rgb(a, into),
                Colours::YCbCr => self.kernels.to_rgb(a, b, c, into),
                Colours::Rgb => {
                    for (((pixel, red), green), blue) in into.as_chunks_mut::<3>().0.iter_mut().zip(a).zip(b).zip(c) {
                        *pixel = [*red, *green, *blue];
                    }
                }
                Colours::Cmyk => {
                    for ((((pixel, a), b), c), k) in into.as_chunks_mut::<3>().0.iter_mut().zip(a).zip(b).zip(c).zip(d)
                    {
                        *pixel = [*a, *b, *c].map(|ink| inked(ink, *k));
                    }
                }
                Colours::Ycck => {
                    let inks = &mut self.pixels[..into.len()];
                    self.kernels.to_rgb(a, b, c, inks);
                    let inks = inks.as_chunks::<3>().0;
                    for ((pixel, inks), k) in into.as_chunks_mut::<3>().0.iter_mut().zip(inks).zip(d) {
                        *pixel = inks.map(|ink| inked(255 - ink, *k));
                    }
                }
            }
        }
    }
}

impl Output {
    /// Writes the samples of `count` components in `region`, pixel by pixel, as they are.
    pub(super) fn write_samples(&mut self, count: usize, region: Region, into: &mut [u8]) {
        let (x, width) = (region.x as usize, region.width as usize);
        for (y, into) in (region.y as usize..).zip(into.chunks_exact_mut(count * width)) {
            for (nth, plane) in self.planes[..count].iter_mut().enumerate() {
                upsample(self.kernels, plane, &mut self.edged, y);
                let places = into.iter_mut().skip(nth).step_by(count);
                places.zip(&plane.row[x..x + width]).for_each(|(into, sample)| *into = *sample);
            }
        }
    }
}

/// Makes the samples of row `y` of pixels.
fn upsample(kernels: Kernels, plane: &mut Plane, edged: &mut [Vec<u8>; 2], y: usize) {
    let Some(upsampling) = plane.upsampling else { return };
    let mut row = std::mem::take(&mut plane.row);
    let width = plane.size.0;
    match upsampling {
        Upsampling::Repeat(1, 1) => row[..width].copy_from_slice(plane.samples(y)),
        Upsampling::Repeat(across, down) => {
            let samples = plane.samples(y / down).iter().flat_map(|sample| std::iter::repeat_n(*sample, across));
            row.iter_mut().zip(samples).for_each(|(into, sample)| *into = sample);
        }
        Upsampling::Width => {
            let [near, _] = edged;
            edge(plane.samples(y), near);
            kernels.upsample_width(near, &mut row[..(2 * width).next_multiple_of(32)]);
        }
        Upsampling::Height => {
            let (near, far, bias) = neighbours(plane, y);
            for ((into, near), far) in row.iter_mut().zip(near).zip(far) {
                *into = ((3 * u16::from(*near) + u16::from(*far) + bias) >> 2) as u8;
            }
        }
        Upsampling::Both => {
            let (near, far, _) = neighbours(plane, y);
            let [edged_near, edged_far] = edged;
            edge(near, edged_near);
            edge(far, edged_far);
            kernels.upsample_both(edged_near, edged_far, &mut row[..(2 * width).next_multiple_of(32)]);
        }
    }
    plane.row = row;
}

/// The row of samples that is nearest to row `y` of pixels, the second nearest one, and the number that is added before
/// rounding down.
fn neighbours(plane: &Plane, y: usize) -> (&[u8], &[u8], u16) {
    let near = y / 2;
    match y.is_multiple_of(2) {
        true => (plane.samples(near), plane.samples(near.saturating_sub(1)), 1),
        false => (plane.samples(near), plane.samples(near + 1), 2),
    }
}

/// Copies a row with its first and last sample twice.
fn edge(samples: &[u8], into: &mut [u8]) {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return };
    into[0] = *first;
    into[1..=samples.len()].copy_from_slice(samples);
    into[samples.len() + 1] = *last;
}

/// The inverse DCT of blocks that no picture has, as libjpeg-turbo's vector code computes it: sums wrap at 16 bits, and
/// the numbers between columns and rows saturate. (libjpeg's plain code, and the code for ARM, give other samples
/// here.)
fn wrapping_dct(block: &Block, quantisation: &Quantisation, into: &mut [u8], stride: usize) {
    let mut rows = [[0i16; 8]; 8];
    for (i, row) in rows.as_flattened_mut().iter_mut().enumerate() {
        *row = block[i].wrapping_mul(quantisation.steps[i]);
    }
    let columns: [[i16; 8]; 8] = match block[8..].iter().all(|value| *value == 0) {
        true => std::array::from_fn(|x| [rows[0][x].wrapping_shl(KEPT); 8]),
        false => std::array::from_fn(|x| wrapping_dimension::<{ BITS - KEPT }>(std::array::from_fn(|y| rows[y][x]))),
    };
    for (y, into) in into.chunks_mut(stride).take(8).enumerate() {
        let samples = wrapping_dimension::<{ BITS + KEPT + 3 }>(std::array::from_fn(|x| columns[x][y]));
        for (into, sample) in into.iter_mut().zip(samples) {
            *into = (sample.clamp(-128, 127) + 128) as u8;
        }
    }
}

fn wrapping_dimension<const SHIFT: u32>(x: [i16; 8]) -> [i16; 8] {
    let product = |a: i16, fa: i16, b: i16, fb: i16| {
        let [a, fa, b, fb] = [a, fa, b, fb].map(i32::from);
        (a * fa).wrapping_add(b * fb)
    };
    let t3 = product(x[2], F_0_541 + F_0_765, x[6], F_0_541);
    let t2 = product(x[2], F_0_541, x[6], F_0_541 - F_1_847);
    let t0 = i32::from(x[0].wrapping_add(x[4])) << BITS;
    let t1 = i32::from(x[0].wrapping_sub(x[4])) << BITS;
    let even = [t0.wrapping_add(t3), t1.wrapping_add(t2), t1.wrapping_sub(t2), t0.wrapping_sub(t3)];

    let (z3, z4) = (x[7].wrapping_add(x[3]), x[5].wrapping_add(x[1]));
    let sum3 = product(z3, F_1_175 - F_1_961, z4, F_1_175);
    let sum4 = product(z3, F_1_175, z4, F_1_175 - F_0_390);
    let odd = [
        product(x[7], -F_0_899, x[1], F_1_501 - F_0_899).wrapping_add(sum4),
        product(x[5], -F_2_562, x[3], F_3_072 - F_2_562).wrapping_add(sum3),
        product(x[5], F_2_053 - F_2_562, x[3], -F_2_562).wrapping_add(sum4),
        product(x[7], F_0_298 - F_0_899, x[1], -F_0_899).wrapping_add(sum3),
    ];
    let round = |sum: i32| {
        let sum = sum.wrapping_add(1 << (SHIFT - 1)) >> SHIFT;
        sum.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
    };
    let mut result = [0; 8];
    for (k, (even, odd)) in even.into_iter().zip(odd).enumerate() {
        result[k] = round(even.wrapping_add(odd));
        result[7 - k] = round(even.wrapping_sub(odd));
    }
    result
}

/// Makes `buffer` at least `len` long.
pub(super) fn room<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    if buffer.len() < len {
        buffer
            .try_reserve_exact(len - buffer.len())
            .map_err(|error| Error::new(ErrorKind::Limit, "no memory for the image's samples").with_source(error))?;
        buffer.resize(len, value);
    }
    Ok(())
}
