//! The blocks that a region needs.

use std::ops::Range;

use super::header::{Frame, Sampling};
use super::refusal::{NotOurs, Ours};
use crate::decode::image::stored::Region;

/// The blocks of one component that a region needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    /// Columns and rows of blocks in an MCU.
    pub(super) per_mcu: (usize, usize),
    /// Samples in a row, and rows, of the whole component.
    pub(super) size: (usize, usize),
    pub(super) columns: Range<usize>,
    pub(super) rows: Range<usize>,
    /// Position of its first block of a row of MCUs, among those of all components.
    pub(super) first_block: usize,
}

/// A region in units of blocks and MCUs.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) sampling: Sampling,
    /// MCUs of the whole image, side by side and one above the other.
    pub(super) mcus: (usize, usize),
    /// The MCUs with blocks that are needed.
    pub(super) mcu_columns: Range<usize>,
    pub(super) mcu_rows: Range<usize>,
    spans: [Span; 3],
    /// Needed blocks of a row of MCUs.
    pub(super) blocks: usize,
    /// The region in pixels.
    pub(super) x: Range<usize>,
    pub(super) y: Range<usize>,
}

/// The samples from which `pixels` are made. If there are half as many samples, each pixel takes the two nearest.
fn samples(pixels: &Range<usize>, is_half: bool, size: usize) -> Range<usize> {
    match is_half {
        true => pixels.start.div_ceil(2).saturating_sub(1)..(pixels.end / 2 + 1).min(size),
        false => pixels.clone(),
    }
}

fn blocks(samples: &Range<usize>) -> Range<usize> {
    samples.start / 8..samples.end.div_ceil(8)
}

impl Area {
    /// # Errors
    ///
    /// If the region exceeds the image, or the image is too narrow to interpolate colour.
    pub(super) fn new(frame: &Frame<'_>, region: Region) -> Ours<Self> {
        let range = |from: u32, len: u32, size: usize| {
            let (from, end) = (from as usize, from as usize + len as usize);
            (from < end && end <= size).then_some(from..end).ok_or(NotOurs("a region that leaves the image"))
        };
        let x = range(region.x, region.width, frame.width)?;
        let y = range(region.y, region.height, frame.height)?;
        let sampling = frame.sampling;
        let (h, v) = sampling.luma_blocks();
        let mut area = Self {
            sampling,
            mcus: (frame.width.div_ceil(8 * h), frame.height.div_ceil(8 * v)),
            mcu_columns: Range { start: usize::MAX, end: 0 },
            mcu_rows: Range { start: usize::MAX, end: 0 },
            spans: Default::default(),
            blocks: 0,
            x,
            y,
        };
        for (index, span) in area.spans[..frame.components().len()].iter_mut().enumerate() {
            let (half_width, half_height) = (index > 0 && h == 2, index > 0 && v == 2);
            let size = |pixels: usize, is_half: bool| if is_half { pixels.div_ceil(2) } else { pixels };
            span.per_mcu = if index == 0 { (h, v) } else { (1, 1) };
            span.size = (size(frame.width, half_width), size(frame.height, half_height));
            if half_width && span.size.0 <= 2 {
                return Err(NotOurs("two columns of colour, which libjpeg does not interpolate"));
            }
            span.columns = blocks(&samples(&area.x, half_width, span.size.0));
            span.rows = blocks(&samples(&area.y, half_height, span.size.1));
            span.first_block = area.blocks;
            area.blocks += span.columns.len() * span.per_mcu.1;
            let (h, v) = span.per_mcu;
            let union =
                |a: &Range<usize>, b: &Range<usize>, n: usize| a.start.min(b.start / n)..a.end.max(b.end.div_ceil(n));
            area.mcu_columns = union(&area.mcu_columns, &span.columns, h);
            area.mcu_rows = union(&area.mcu_rows, &span.rows, v);
        }
        Ok(area)
    }

    /// The number of parts into which restart markers divide the image's data, with this many MCUs in each; 0 means one
    /// part for all of them.
    pub(super) fn intervals(&self, restart: usize) -> usize {
        if restart == 0 { 1 } else { (self.mcus.0 * self.mcus.1).div_ceil(restart) }
    }

    /// Whether any block must be skipped to reach those that are needed.
    pub(super) fn has_blocks_outside(&self) -> bool {
        let (across, down) = (self.mcus.0, self.mcu_rows.end);
        self.spans().iter().any(|span| {
            let (h, v) = span.per_mcu;
            span.columns != (0..across * h) || span.rows != (0..down * v)
        })
    }

    /// The components' needed blocks: one, or three.
    pub(super) fn spans(&self) -> &[Span] {
        match self.sampling {
            Sampling::Grey => &self.spans[..1],
            _ => &self.spans,
        }
    }
}
