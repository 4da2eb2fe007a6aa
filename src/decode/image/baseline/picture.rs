//! From rows of blocks to rows of pixels.
//!
//! One row of MCUs is in memory at a time, and the last row of samples of the one above. Interpolating 4:2:0 needs the
//! colour above and below, so the last row of pixels of each row of MCUs waits for the next one.

use super::area::{Area, Span};
use super::entropy::Block;
use super::header::{Frame, Sampling};
use super::kernels::Kernels;
use super::portable::Quantisation;
use super::refusal::{NotOurs, Ours};

/// Number of samples before the first one of a row: one is read, and the rest keeps rows aligned.
const BEFORE: usize = 32;
/// Number of samples after the last one of a row, which are written and read in vectors.
const BEHIND: usize = 64;
/// Number of samples that interpolation reads before its first sample, after its last one, and to the end of its
/// vectors.
const READ_BEHIND: usize = 32;

/// The samples of one component: the last row of the MCUs above, followed by those of the current row of MCUs.
#[derive(Default)]
struct Plane {
    samples: Vec<u8>,
    stride: usize,
    /// The column of its first sample, in the whole component.
    left: usize,
    /// Rows of samples in a row of MCUs.
    height: usize,
}

impl Plane {
    fn prepare(&mut self, span: &Span) {
        self.stride = BEFORE + 8 * span.columns.len() + BEHIND;
        self.left = 8 * span.columns.start;
        self.height = 8 * span.per_mcu.1;
        let len = self.stride * (1 + self.height);
        if self.samples.len() < len {
            self.samples.resize(len, 0);
        }
    }

    /// The position of sample `x` of row `y`, while row `mcus` of the MCUs is in memory.
    fn at(&self, x: usize, y: usize, mcus: usize) -> usize {
        (y + 1 - mcus * self.height) * self.stride + BEFORE + x - self.left
    }

    /// Row `y` from sample `x - before` on.
    fn row(&self, x: usize, before: usize, y: usize, mcus: usize) -> &[u8] {
        &self.samples[self.at(x, y, mcus) - before..]
    }

    /// Extends rows that begin or end with the image, by their outermost sample.
    fn continue_edges(&mut self, span: &Span) {
        let end = span.size.0.checked_sub(self.left).filter(|end| *end <= 8 * span.columns.len());
        for row in self.samples.chunks_exact_mut(self.stride).skip(1).take(self.height) {
            if self.left == 0 {
                row[BEFORE - 1] = row[BEFORE];
            }
            if let Some(end) = end {
                row[BEFORE + end] = row[BEFORE + end - 1];
            }
        }
    }

    fn keep_last_row(&mut self) {
        self.samples.copy_within(self.height * self.stride..(self.height + 1) * self.stride, 0);
    }
}

/// Pixels that are being made. Its buffers are kept from image to image.
pub(super) struct Picture {
    kernels: Kernels,
    planes: [Plane; 3],
    quantisation: [Quantisation; 3],
    /// A row of interpolated colour, for each of both components.
    colours: [Vec<u8>; 2],
    /// Bytes per pixel: three, or one for a grey image.
    channels: usize,
}

impl Picture {
    pub(super) fn new(kernels: Kernels) -> Self {
        Self {
            kernels,
            planes: Default::default(),
            quantisation: [Quantisation::new(&[1; 64]); 3],
            colours: Default::default(),
            channels: 3,
        }
    }

    pub(super) fn has_vectors(&self) -> bool {
        self.kernels.has_vectors()
    }

    /// Makes room for a region.
    ///
    /// # Errors
    ///
    /// If a component has no quantisation.
    pub(super) fn prepare(&mut self, frame: &Frame<'_>, area: &Area, channels: usize) -> Ours<()> {
        self.channels = channels;
        for (plane, span) in self.planes.iter_mut().zip(area.spans()) {
            plane.prepare(span);
        }
        for (quantisation, component) in self.quantisation.iter_mut().zip(frame.components()) {
            *quantisation = Quantisation::new(frame.quant(component)?);
        }
        for row in &mut self.colours {
            // From an even pixel on, in vectors, with what converting a whole vector reads beyond.
            let len = area.x.len().next_multiple_of(32) + BEHIND;
            if row.len() < len {
                row.resize(len, 0);
            }
        }
        Ok(())
    }

    /// Takes the needed blocks of row `mcus` of the MCUs, and writes the rows of pixels that they complete.
    ///
    /// # Errors
    ///
    /// If a coefficient is larger than that of any picture.
    pub(super) fn add(
        &mut self,
        area: &Area,
        mcus: usize,
        blocks: &[Block],
        into: &mut [u8],
        stride: usize,
    ) -> Ours<()> {
        let is_interpolated = matches!(area.sampling, Sampling::HalfWidth | Sampling::HalfBoth);
        for ((plane, span), quantisation) in self.planes.iter_mut().zip(area.spans()).zip(&self.quantisation) {
            for row in 0..span.per_mcu.1 {
                let y = mcus * span.per_mcu.1 + row;
                if span.rows.contains(&y) {
                    let width = span.columns.len();
                    let blocks = &blocks[span.first_block + row * width..][..width];
                    let at = plane.at(plane.left, 8 * y, mcus);
                    if !self.kernels.inverse_dct(blocks, quantisation, &mut plane.samples[at..], plane.stride) {
                        return Err(NotOurs("a coefficient that no picture has"));
                    }
                }
            }
            if is_interpolated {
                plane.continue_edges(span);
            }
        }
        let waiting = usize::from(area.sampling == Sampling::HalfBoth);
        let height = self.planes[0].height;
        let from = (mcus * height).saturating_sub(waiting).max(area.y.start);
        let until = match mcus + 1 == area.mcu_rows.end {
            true => area.y.end,
            false => ((mcus + 1) * height - waiting).min(area.y.end),
        };
        for y in from..until {
            let into = &mut into[(y - area.y.start) * stride..][..self.channels * area.x.len()];
            self.write_row(area, y, mcus, into);
        }
        if waiting > 0 {
            for plane in &mut self.planes {
                plane.keep_last_row();
            }
        }
        Ok(())
    }

    fn write_row(&mut self, area: &Area, y: usize, mcus: usize, into: &mut [u8]) {
        let [luma, blue, red] = &self.planes;
        let kernels = self.kernels;
        let x = area.x.start;
        let luma = luma.row(x, 0, y, mcus);
        let width = area.x.len().next_multiple_of(32);
        if area.sampling == Sampling::Grey {
            return match self.channels {
                1 => into.copy_from_slice(&luma[..into.len()]),
                _ => kernels.grey_to_rgb(&luma[..width], into),
            };
        }
        if area.sampling == Sampling::Full {
            let [blue, red] = [blue, red].map(|plane| &plane.row(x, 0, y, mcus)[..width]);
            return kernels.to_rgb(&luma[..width], blue, red, into);
        }
        // From the first sample's even pixel on.
        let half = x / 2;
        let count = (area.x.end.div_ceil(2) - half).next_multiple_of(16);
        for (plane, colours) in [blue, red].into_iter().zip(&mut self.colours) {
            let colours = &mut colours[..2 * count];
            if area.sampling == Sampling::HalfWidth {
                kernels.upsample_width(&plane.row(half, 1, y, mcus)[..count + READ_BEHIND], colours);
            } else {
                let near = y / 2;
                let last = area.spans()[1].size.1 - 1;
                let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(last) };
                let [near, far] = [near, far].map(|y| &plane.row(half, 1, y, mcus)[..count + READ_BEHIND]);
                kernels.upsample_both(near, far, colours);
            }
        }
        let [blue, red] = self.colours.each_ref().map(|colours| &colours[x % 2..][..width]);
        kernels.to_rgb(&luma[..width], blue, red, into);
    }
}
