//! A decoder for every lossy JPEG file of 8 bits: sequential or progressive, with any codes, scans, sampling and
//! colours. It gives the pixels of libjpeg-turbo bit for bit, also for damaged files that libjpeg loads with a warning:
//! it continues where libjpeg continues, and records the damage. A file that libjpeg refuses is an error. So is a file
//! that is cut off, and one with missing scans that libjpeg would make up for.
//!
//! It decodes the files that the decoder in [`baseline`](super::baseline) passes on, which are few, and the parts of
//! TIFF files. So it decodes whole images. The only exceptions are files of several scans without restart markers, in
//! which it skips what follows the last block that the region needs. It works step by step:
//!
//! 1. [`input`] finds markers, segments and the data between restart markers, and continues if they are out of order.
//! 2. [`frame`] takes the content of the segments: sizes, sampling, tables, and the coefficients of a scan.
//! 3. [`entropy`] decodes the blocks of a scan with the codes in [`huffman`], or [`arithmetic`] does this with codes of
//!    the other kind. Bits that are not a code count as zero. Data that ends early continues with zeros up to the end of
//!    its MCU, and the blocks after it stay unchanged.
//! 4. [`output`] turns coefficients into samples and pixels. The coefficients of the whole image are kept only if there is
//!    more than one scan.

mod arithmetic;
mod entropy;
mod frame;
mod huffman;
mod input;
mod output;

use super::baseline::{Bits, Block, Kernels};
use super::damage::{damaged, truncated};
use super::decoder::held;
use super::stored::Region;
use crate::counters::{Damage, Damages};
use crate::error::{Error, ErrorKind, Result};
use arithmetic::Arithmetic;
use entropy::{Coding, Found, State, Tables};
use frame::{Colours, Headers, ScanHeader};
use huffman::Table;
use input::{Input, Interval, restart};
pub(super) use output::BEHIND;
use output::{Needed, Output, room};

/// Bytes of the coefficients of a block, and of what is known of them.
pub(super) const BLOCK: u64 = (size_of::<Block>() + size_of::<Found>()) as u64;

/// Most scans of a file. Each costs a pass over all coefficients.
const MAX_SCANS: usize = 256;

/// Most blocks of an MCU (ITU-T T.81, B.2.3).
const MAX_BLOCKS: usize = 10;

/// Number of coefficients whose memory is kept from image to image; memory for more is released.
const KEPT_BLOCKS: usize = 1 << 18;

/// One worker's decoder. Its buffers are kept from image to image.
pub(super) struct Decoder {
    blocks: Vec<Block>,
    /// For each block of a progressive image.
    found: Vec<Found>,
    interval: Interval,
    output: Output,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            found: Vec::new(),
            interval: Interval::default(),
            output: Output::new(Kernels::detect()),
        }
    }
}

/// The positions of the blocks of the image's components.
struct Layout {
    /// The first block of each component.
    first: [usize; 4],
    /// The blocks of each component that the region needs.
    needed: Vec<Needed>,
    /// Whether only the blocks of one row of MCUs are kept, because there is one scan.
    is_row: bool,
}

impl Layout {
    /// Computes the positions of blocks, and returns their number.
    fn new(headers: &Headers<'_>, is_row: bool, region: Region) -> (Self, usize) {
        let (mut first, mut count) = ([0; 4], 0);
        for (first, component) in first.iter_mut().zip(&headers.components) {
            *first = count;
            count += component.padded.0 * if is_row { component.per_mcu.1 } else { component.padded.1 };
        }
        let needed = headers.components.iter().map(|component| Needed::of(component, headers.most, region)).collect();
        (Self { first, needed, is_row }, count)
    }
}

/// A block of an MCU.
#[derive(Clone, Copy, Default)]
struct Unit {
    /// Index of the component in the scan, and in the image.
    nth: usize,
    component: usize,
    /// Its column and row in the MCU.
    at: (usize, usize),
}

/// A scan, ready to be decoded.
struct Scan {
    coding: Coding,
    units: Vec<Unit>,
    /// Blocks of each of its components in an MCU, side by side and one above the other.
    per_mcu: [(usize, usize); 4],
    /// MCUs side by side, and one above the other.
    mcus: (usize, usize),
    /// Huffman tables of each of its components, by class.
    tables: Vec<[Option<Table>; 2]>,
    /// The slots of these tables.
    slots: [[usize; 2]; 4],
}

impl Scan {
    fn new(headers: &mut Headers<'_>, header: &ScanHeader, at: usize, damages: &mut Damages) -> Result<Self> {
        let (first, last, low) = (usize::from(header.first), usize::from(header.last), u32::from(header.low));
        let coding = match (headers.is_progressive, first, header.high) {
            (false, ..) => Coding::Sequential,
            (true, 0, 0) => Coding::FirstMeans { low },
            (true, 0, _) => Coding::MoreMeans { low },
            (true, _, 0) => Coding::First { first, last, low },
            (true, ..) => Coding::More { first, last, low },
        };
        if headers.is_progressive {
            if !headers.progress(header, at)? {
                damages.add(Damage::ScanHeader);
            }
        } else if (header.first, header.last, header.high, header.low) != (0, 63, 0, 0) {
            damages.add(Damage::ScanHeader);
        }
        let wanted = match coding {
            _ if headers.is_arithmetic => [false, false],
            Coding::Sequential => [true, true],
            Coding::FirstMeans { .. } => [true, false],
            Coding::MoreMeans { .. } => [false, false],
            Coding::First { .. } | Coding::More { .. } => [false, true],
        };
        let alone = header.components.len() == 1;
        let mut scan = Self {
            coding,
            units: Vec::with_capacity(MAX_BLOCKS),
            per_mcu: [(1, 1); 4],
            mcus: (headers.width.div_ceil(8 * headers.most.0), headers.height.div_ceil(8 * headers.most.1)),
            tables: Vec::with_capacity(header.components.len()),
            slots: [[0; 2]; 4],
        };
        for (nth, index) in header.components.iter().enumerate() {
            let component = &headers.components[*index];
            if alone {
                scan.mcus = component.blocks;
            } else {
                scan.per_mcu[nth] = component.per_mcu;
            }
            let (h, v) = scan.per_mcu[nth];
            for block in 0..h * v {
                scan.units.push(Unit { nth, component: *index, at: (block % h, block / h) });
            }
            scan.slots[nth] = component.tables;
            let mut tables = [None, None];
            for (class, table) in tables.iter_mut().enumerate().filter(|(class, _)| wanted[*class]) {
                *table = Some(table_of(headers, class, component.tables[class], at)?);
            }
            scan.tables.push(tables);
        }
        if scan.units.len() > MAX_BLOCKS && !alone {
            return Err(damaged(
                at,
                format!("{} blocks in an MCU; at most {MAX_BLOCKS} are allowed", scan.units.len()),
            ));
        }
        Ok(scan)
    }
}

impl Scan {
    /// Number of its MCUs up to the last one with a needed block.
    fn needed(&self, layout: &Layout) -> usize {
        let last = |unit: &Unit| {
            let (h, v) = self.per_mcu[unit.nth];
            let Needed { columns, rows } = &layout.needed[unit.component];
            (rows.end - 1) / v * self.mcus.0 + (columns.end - 1) / h + 1
        };
        self.units.iter().map(last).max().unwrap_or_default()
    }
}

fn table_of(headers: &Headers<'_>, class: usize, slot: usize, at: usize) -> Result<Table> {
    let standard = (!headers.is_progressive).then(|| huffman::STANDARD[class].get(slot).map(|spec| (at, *spec)));
    let (at, spec) = headers
        .huffman(class, slot)
        .or(standard.flatten())
        .ok_or_else(|| damaged(at, "a scan without its Huffman table"))?;
    Table::new(spec, class == 0).ok_or_else(|| damaged(at, "Huffman tables that make no code"))
}

/// What the components of an image are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The colours that libjpeg finds in the file, as RGB.
    Found,
    /// YCbCr, whatever the file says, as RGB.
    YCbCr,
    /// No colours: the samples of all components.
    Samples,
}

/// The result of walking through a file.
pub(super) struct Survey {
    /// Whether restart markers are announced.
    pub(super) has_restarts: bool,
    /// Whether the components have different numbers of samples.
    pub(super) is_subsampled: bool,
    pub(super) is_progressive: bool,
    pub(super) is_arithmetic: bool,
}

/// Walks from marker to marker up to the end of the image, for decoders that notice fewer faults than this one. Data
/// after the image (previews, padding) is ignored.
///
/// # Errors
///
/// For a file that is cut off, one with missing scans, and invalid segments.
pub(super) fn survey(bytes: &[u8]) -> Result<Survey> {
    let (mut input, mut headers, mut damages) = (Input::new(bytes), Headers::default(), Damages::default());
    let mut has_restarts = false;
    loop {
        let Some(marker) = input.marker(&mut damages) else {
            return Err(truncated(bytes, "the end-of-image marker; only a part of the picture would be there"));
        };
        let at = input.at;
        match marker {
            0xd9 => break,
            // Restart markers stand inside of a scan, where stuffed zeros and data are passed over, too.
            0x01 | 0xd0..=0xd7 => {}
            0xda => {
                let header = headers.scan(input.segment()?, at)?;
                Scan::new(&mut headers, &header, at, &mut damages)?;
            }
            _ => {
                headers.take(marker, input.segment()?, at)?;
                has_restarts |= headers.restart != 0;
            }
        }
    }
    headers.check_complete()?;
    let is_subsampled = headers.components.iter().any(|component| component.per_mcu != headers.most);
    let Headers { is_progressive, is_arithmetic, .. } = headers;
    Ok(Survey { has_restarts, is_subsampled, is_progressive, is_arithmetic })
}

impl Decoder {
    /// Bytes of memory, beside a few rows and tables.
    pub(super) fn held(&self) -> u64 {
        held(&self.blocks) + held(&self.found) + self.interval.held() + self.output.held()
    }

    /// Decodes the pixels in `region` as 8-bit RGB, row by row without gaps, into `into`.
    ///
    /// # Errors
    ///
    /// For a file that libjpeg refuses, one that is cut off, and one with missing scans.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        size: (u32, u32),
        region: Region,
        into: &mut [u8],
    ) -> Result<Damages> {
        self.decode_as(bytes, size, region, Meaning::Found, into)
    }

    /// The same for components of this meaning. `into` has a byte for each sample of a pixel.
    ///
    /// # Errors
    ///
    /// As there.
    pub(super) fn decode_as(
        &mut self,
        bytes: &[u8],
        size: (u32, u32),
        region: Region,
        meaning: Meaning,
        into: &mut [u8],
    ) -> Result<Damages> {
        match self.pass(bytes, size, region, (meaning, &mut *into), true)? {
            Some(damages) => Ok(damages),
            None => self.pass(bytes, size, region, (meaning, into), false).map(Option::unwrap_or_default),
        }
    }

    /// The same; `None` if restart markers are announced after a scan that was not decoded completely (`ends_early`):
    /// the scans that refine it could not be decoded to the end.
    fn pass(
        &mut self,
        bytes: &[u8],
        (width, height): (u32, u32),
        region: Region,
        (meaning, into): (Meaning, &mut [u8]),
        ends_early: bool,
    ) -> Result<Option<Damages>> {
        let (mut input, mut headers, mut damages) = (Input::new(bytes), Headers::default(), Damages::default());
        let (mut scans, mut has_ended_early) = (0, false);
        let mut layout = None;
        loop {
            let Some(marker) = input.marker(&mut damages) else {
                if layout.as_ref().is_some_and(|layout: &Layout| layout.is_row) {
                    damages.add(Damage::NoEnd);
                    break;
                }
                return Err(truncated(bytes, "the end-of-image marker; only a part of the picture would be there"));
            };
            let at = input.at;
            match marker {
                0xd9 if layout.is_none() => return Err(damaged(at, "the image ends before its first scan")),
                0xd9 => break,
                0x01 | 0xd0..=0xd7 => {}
                0xda => {
                    scans += 1;
                    if scans > MAX_SCANS {
                        let message = format!("a JPEG of more than {MAX_SCANS} scans");
                        return Err(Error::new(ErrorKind::Limit, message).at_byte(at as u64));
                    }
                    let header = headers.scan(input.segment()?, at)?;
                    if (headers.width, headers.height) != (width as usize, height as usize) {
                        return Err(damaged(at, "two headers disagree on the image's size"));
                    }
                    if layout.as_ref().is_some_and(|layout: &Layout| layout.is_row) {
                        return Err(damaged(at, "a second scan after one of all components"));
                    }
                    let scan = Scan::new(&mut headers, &header, at, &mut damages)?;
                    let layout = match layout {
                        Some(ref layout) => layout,
                        None => layout.insert(self.prepare(&headers, &header, region)?),
                    };
                    let ends_early = ends_early && !layout.is_row && headers.restart == 0;
                    has_ended_early |= ends_early;
                    self.scan(&mut input, &headers, layout, (&scan, ends_early), &mut damages)?;
                }
                // Behind the only scan, all pixels are there.
                0xdc | 0xe0..=0xef | 0xfe
                    if input.is_cut_off() && layout.as_ref().is_some_and(|layout| layout.is_row) =>
                {
                    damages.add(Damage::NoEnd);
                    break;
                }
                _ => {
                    let segment = match marker {
                        0xdc | 0xe0..=0xef | 0xfe => input.note(&mut damages)?,
                        _ => input.segment()?,
                    };
                    headers.take(marker, segment, at)?;
                    if has_ended_early && headers.restart != 0 {
                        return Ok(None);
                    }
                }
            }
        }
        headers.check_complete()?;
        if let Some(layout) = layout.filter(|layout| !layout.is_row) {
            for (index, component) in headers.components.iter().enumerate() {
                let Needed { columns, rows } = &layout.needed[index];
                for y in rows.clone() {
                    let row = &self.blocks[layout.first[index] + y * component.padded.0..];
                    self.output.add(index, component, (columns.start, y), &row[columns.clone()]);
                }
            }
        }
        match meaning {
            Meaning::Found => self.output.write(headers.colours(), region, into),
            Meaning::YCbCr => self.output.write(Colours::YCbCr, region, into),
            Meaning::Samples => self.output.write_samples(headers.components.len(), region, into),
        }
        Ok(Some(damages))
    }

    /// Makes room for the image, once its first scan is known.
    fn prepare(&mut self, headers: &Headers<'_>, first: &ScanHeader, region: Region) -> Result<Layout> {
        let is_row = !headers.is_progressive && first.components.len() == headers.components.len();
        let (layout, count) = Layout::new(headers, is_row, region);
        if self.blocks.len() > KEPT_BLOCKS && count <= KEPT_BLOCKS {
            (self.blocks, self.found) = (Vec::new(), Vec::new());
        }
        room(&mut self.blocks, count, [0; 64])?;
        room(&mut self.found, count, 0)?;
        self.blocks[..count].fill([0; 64]);
        self.found[..count].fill(0);
        self.output.prepare(&headers.components, headers.most, headers.width)?;
        Ok(layout)
    }

    /// Decodes the data of a scan, restart interval by restart interval; if it `ends_early`, up to the last block that
    /// is needed.
    fn scan(
        &mut self,
        input: &mut Input<'_>,
        headers: &Headers<'_>,
        layout: &Layout,
        (scan, ends_early): (&Scan, bool),
        damages: &mut Damages,
    ) -> Result<()> {
        let Self { blocks, found, interval, output } = self;
        let tables: Vec<Tables<'_>> = scan
            .tables
            .iter()
            .map(|[means, others]| Tables { means: means.as_ref(), others: others.as_ref() })
            .collect();
        let total = scan.mcus.0 * scan.mcus.1;
        let (mut x, mut y, mut left) = (0, 0, if ends_early { scan.needed(layout) } else { total });
        let ends_early = left < total;
        let (mut state, mut expected, mut is_short) = (State::default(), 0, false);
        let mut arithmetic = headers.is_arithmetic.then(|| Arithmetic::new(headers.conditioning));
        loop {
            interval.read(input);
            let mut bits = Bits::new(interval.data(), 0);
            if let Some(arithmetic) = &mut arithmetic {
                arithmetic.restart(interval.data());
            }
            let count = if headers.restart == 0 { left } else { left.min(headers.restart) };
            for _ in 0..count {
                if !is_short {
                    for unit in &scan.units {
                        let (h, v) = scan.per_mcu[unit.nth];
                        let row = if layout.is_row { unit.at.1 } else { y * v + unit.at.1 };
                        let component = &headers.components[unit.component];
                        let at = layout.first[unit.component] + row * component.padded.0 + x * h + unit.at.0;
                        let (nth, block) = (unit.nth, &mut blocks[at]);
                        match &mut arithmetic {
                            None => {
                                let is_needed = layout.needed[unit.component].has(x * h + unit.at.0, y * v + unit.at.1);
                                let found = (&mut found[at], is_needed);
                                state.decode(scan.coding, &mut bits, tables[nth], nth, block, found);
                            }
                            Some(state) => state.decode(scan.coding, interval.data(), scan.slots[nth], nth, block),
                        }
                    }
                    let is_beyond = match &arithmetic {
                        None => bits.is_beyond(interval.end()),
                        // Zeros behind the data are a part of it, unless the file is cut off.
                        Some(state) => interval.is_last() && state.consumed() > interval.end(),
                    };
                    if is_beyond {
                        if interval.is_last() {
                            return Err(truncated(input.bytes, "the end of its data"));
                        }
                        damages.add(Damage::ShortData);
                        is_short = true;
                    }
                }
                x += 1;
                if x == scan.mcus.0 {
                    x = 0;
                    if layout.is_row {
                        add_row(blocks, headers, layout, scan, y, output);
                    }
                    y += 1;
                }
            }
            left -= count;
            if ends_early {
                break;
            }
            let consumed = arithmetic.as_ref().map_or(bits.consumed(), |state| 8 * state.consumed());
            interval.leave(consumed, left == 0, input, damages)?;
            if left == 0 {
                break;
            }
            if restart(input, expected, damages)? {
                is_short = false;
            }
            expected = (expected + 1) % 8;
            state.restart();
        }
        if state.was_no_code || arithmetic.is_some_and(|state| state.was_no_code) {
            damages.add(Damage::NoCode);
        }
        if state.overflowed && scan.coding != Coding::Sequential {
            return Err(Error::new(ErrorKind::Format, "damaged JPEG: mean values that do not fit 32 bits"));
        }
        Ok(())
    }
}

/// Passes on row `y` of the MCUs of the only scan, and sets its blocks to zero again.
fn add_row(blocks: &mut [Block], headers: &Headers<'_>, layout: &Layout, scan: &Scan, y: usize, output: &mut Output) {
    for (index, component) in headers.components.iter().enumerate() {
        let down = if scan.tables.len() == 1 { 1 } else { component.per_mcu.1 };
        let Needed { columns, rows } = &layout.needed[index];
        for row in (0..down).filter(|row| rows.contains(&(y * down + row))) {
            let from = &blocks[layout.first[index] + row * component.padded.0..];
            output.add(index, component, (columns.start, y * down + row), &from[columns.clone()]);
        }
        blocks[layout.first[index]..][..down * component.padded.0].fill([0; 64]);
    }
}

#[cfg(test)]
mod tests;
