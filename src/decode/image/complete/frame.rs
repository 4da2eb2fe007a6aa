//! Sizes, sampling, colours and tables, from the segments.

use super::super::damage::{be16, damaged};
use super::arithmetic::Conditioning;
use crate::error::{Error, ErrorKind, Result};

/// A component of the image.
#[derive(Clone, Debug, Default)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Number of blocks side by side, and one above the other, in an MCU of a scan of several components.
    pub(super) per_mcu: (usize, usize),
    quant_slot: u8,
    /// Steps in zigzag order, as they were at the beginning of the component's first scan.
    pub(super) quant: Option<[i16; 64]>,
    /// Samples in a row, and rows.
    pub(super) size: (usize, usize),
    /// Blocks with a sample of the image, side by side and one above the other.
    pub(super) blocks: (usize, usize),
    /// The same in whole MCUs.
    pub(super) padded: (usize, usize),
    /// Slots of its Huffman tables in the present scan.
    pub(super) tables: [usize; 2],
    /// For each coefficient, how many of its lowest bits are still missing; all of them if there was no scan.
    pub(super) missing_bits: Vec<Option<u8>>,
}

/// The meaning of three or four components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    Grey,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
}

/// A table, and its position in the file.
type Placed<'a> = (usize, &'a [u8]);

/// All headers before the data of a scan.
#[derive(Default)]
pub(super) struct Headers<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) is_progressive: bool,
    pub(super) is_arithmetic: bool,
    pub(super) conditioning: Conditioning,
    pub(super) components: Vec<Component>,
    /// The largest factors of sampling.
    pub(super) most: (usize, usize),
    quant: [Option<[i16; 64]>; 4],
    /// By class and slot: its position in the file, its counts of codes by length, then its symbols.
    huffman: [[Option<Placed<'a>>; 4]; 2],
    /// MCUs between two restart markers; 0 without any.
    pub(super) restart: usize,
    is_jfif: bool,
    adobe_transform: Option<u8>,
}

/// Which components and coefficients a scan has.
pub(super) struct ScanHeader {
    /// Indices of the components.
    pub(super) components: Vec<usize>,
    pub(super) first: u8,
    pub(super) last: u8,
    /// The missing bits of its coefficients, before and after it.
    pub(super) high: u8,
    pub(super) low: u8,
}

impl<'a> Headers<'a> {
    /// Takes the segment of `marker`, whose length is at `at`.
    pub(super) fn take(&mut self, marker: u8, segment: &'a [u8], at: usize) -> Result<()> {
        match marker {
            0xc0..=0xc2 | 0xc9 | 0xca => {
                self.is_arithmetic = marker >= 0xc9;
                self.read_frame(segment, at, matches!(marker, 0xc2 | 0xca))
            }
            0xc4 => self.read_huffman(segment, at),
            0xdb => self.read_quant(segment, at),
            0xdd => {
                let interval = be16(segment, 0).filter(|_| segment.len() == 2);
                self.restart = interval.ok_or_else(|| damaged(at, "a restart interval that is not of 2 bytes"))?;
                Ok(())
            }
            0xe0 => {
                self.is_jfif |= segment.len() >= 14 && segment.starts_with(b"JFIF\0");
                Ok(())
            }
            0xee if segment.starts_with(b"Adobe") => {
                self.adobe_transform = segment.get(11).copied().or(self.adobe_transform);
                Ok(())
            }
            0xc3 | 0xcb => Err(damaged(at, "a lossless JPEG; convert it to another format")),
            0xc5..=0xc7 | 0xcd..=0xcf => Err(damaged(at, "a hierarchical JPEG; convert it to another format")),
            0xcc => self.read_conditioning(segment, at),
            // A number of lines, which libjpeg ignores, and notes.
            0xdc | 0xe1..=0xef | 0xfe => Ok(()),
            _ => Err(damaged(at, format!("a marker 0xff{marker:02x}, which no JPEG has here"))),
        }
    }

    fn read_frame(&mut self, segment: &[u8], at: usize, is_progressive: bool) -> Result<()> {
        if self.width != 0 {
            return Err(damaged(at, "a second frame header"));
        }
        let [8, h1, h0, w1, w0, count, components @ ..] = segment else {
            return Err(damaged(at, "a frame header that is not one of 8 bits"));
        };
        self.height = usize::from(u16::from_be_bytes([*h1, *h0]));
        self.width = usize::from(u16::from_be_bytes([*w1, *w0]));
        let (components, rest) = components.as_chunks::<3>();
        if components.len() != usize::from(*count) || !rest.is_empty() {
            return Err(damaged(at, "a frame header that is not as long as its components need"));
        }
        if self.width == 0 || self.height == 0 || !matches!(count, 1 | 3 | 4) {
            return Err(damaged(at, "a frame without pixels or of another count of components than 1, 3 or 4"));
        }
        self.is_progressive = is_progressive;
        self.components = components
            .iter()
            .map(|[id, factors, quant]| Component {
                id: *id,
                per_mcu: (usize::from(factors >> 4), usize::from(factors & 15)),
                quant_slot: *quant,
                missing_bits: vec![None; 64],
                ..Component::default()
            })
            .collect();
        let factors = |component: &Component| component.per_mcu;
        if !self.components.iter().map(factors).all(|(h, v)| (1..=4).contains(&h) && (1..=4).contains(&v)) {
            return Err(damaged(at, "factors of sampling that are not 1 to 4"));
        }
        let most = |most: (usize, usize), (h, v): (usize, usize)| (most.0.max(h), most.1.max(v));
        self.most = self.components.iter().map(factors).fold((1, 1), most);
        for component in &mut self.components {
            let (h, v) = component.per_mcu;
            if !self.most.0.is_multiple_of(h) || !self.most.1.is_multiple_of(v) {
                return Err(damaged(at, "sampling by a factor that is no whole number; convert the file"));
            }
            component.size = ((self.width * h).div_ceil(self.most.0), (self.height * v).div_ceil(self.most.1));
            component.blocks = (component.size.0.div_ceil(8), component.size.1.div_ceil(8));
            component.padded = (component.blocks.0.next_multiple_of(h), component.blocks.1.next_multiple_of(v));
        }
        Ok(())
    }

    fn read_quant(&mut self, mut segment: &[u8], at: usize) -> Result<()> {
        while let [kind, rest @ ..] = segment {
            let bytes = if kind >> 4 == 0 { 64 } else { 128 };
            let table = self.quant.get_mut(usize::from(kind & 15));
            let (Some(table), Some((values, rest))) = (table, rest.split_at_checked(bytes)) else {
                return Err(damaged(at, "a quantisation table that is cut off, or a fifth one"));
            };
            *table = Some(std::array::from_fn(|i| match bytes {
                64 => i16::from(values[i]),
                _ => i16::from_be_bytes([values[2 * i], values[2 * i + 1]]),
            }));
            segment = rest;
        }
        Ok(())
    }

    fn read_huffman(&mut self, mut segment: &'a [u8], at: usize) -> Result<()> {
        let wrong = || damaged(at, "Huffman tables that make no code");
        while let [kind, rest @ ..] = segment {
            let counts = rest.get(..16).ok_or_else(wrong)?;
            let count = counts.iter().map(|count| usize::from(*count)).sum::<usize>();
            let (table, rest) = rest.split_at_checked(16 + count).ok_or_else(wrong)?;
            let slot =
                self.huffman.get_mut(usize::from(kind >> 4)).and_then(|class| class.get_mut(usize::from(kind & 15)));
            *slot.filter(|_| count <= 256).ok_or_else(wrong)? = Some((at, table));
            segment = rest;
        }
        Ok(())
    }

    fn read_conditioning(&mut self, segment: &[u8], at: usize) -> Result<()> {
        let (pairs, rest) = segment.as_chunks::<2>();
        for [slot, value] in pairs {
            let (class, slot) = (slot >> 4, usize::from(slot & 15));
            match class {
                0 if value & 15 <= value >> 4 => self.conditioning.small[slot] = (value & 15, value >> 4),
                1 => self.conditioning.low[slot] = *value,
                _ => return Err(damaged(at, "invalid conditioning of arithmetic codes")),
            }
        }
        match rest {
            [] => Ok(()),
            _ => Err(damaged(at, "conditioning of arithmetic codes that is cut off")),
        }
    }

    /// Takes the header of a scan, whose length is at `at`.
    pub(super) fn scan(&mut self, segment: &[u8], at: usize) -> Result<ScanHeader> {
        if self.width == 0 {
            return Err(damaged(at, "a scan before the frame header"));
        }
        let wrong = || damaged(at, "a scan header that is not as long as its components need");
        let [count, selectors @ .., first, last, bits] = segment else { return Err(wrong()) };
        let (selectors, rest) = selectors.as_chunks::<2>();
        if selectors.len() != usize::from(*count) || !rest.is_empty() || !matches!(count, 1..=4) {
            return Err(wrong());
        }
        let mut components = Vec::with_capacity(selectors.len());
        for [id, tables] in selectors {
            let is_it = |(index, component): &(usize, &Component)| component.id == *id && !components.contains(index);
            let Some((index, _)) = self.components.iter().enumerate().find(is_it) else {
                return Err(damaged(at, "a scan of a component that is not in the frame header, or is listed twice"));
            };
            components.push(index);
            self.components[index].tables = [usize::from(tables >> 4), usize::from(tables & 15)];
        }
        for index in &components {
            let component = &mut self.components[*index];
            if component.quant.is_none() {
                let quant = self.quant.get(usize::from(component.quant_slot)).copied().flatten();
                component.quant = Some(quant.ok_or_else(|| damaged(at, "a scan without its quantisation table"))?);
            }
        }
        Ok(ScanHeader { components, first: *first, last: *last, high: bits >> 4, low: bits & 15 })
    }

    /// Checks that the scan refines earlier ones, as far as libjpeg does: false if its order is unusual.
    ///
    /// # Errors
    ///
    /// If it has coefficients or bits that no progressive file has.
    pub(super) fn progress(&mut self, scan: &ScanHeader, at: usize) -> Result<bool> {
        let band = match scan.first {
            0 => scan.last == 0,
            first => first <= scan.last && scan.last < 64 && scan.components.len() == 1,
        };
        if !band || (scan.high != 0 && scan.low + 1 != scan.high) || scan.low > 13 {
            return Err(damaged(at, "a scan of coefficients or bits that no progressive JPEG has"));
        }
        let mut in_order = true;
        for index in &scan.components {
            let missing = &mut self.components[*index].missing_bits;
            in_order &= scan.first == 0 || missing[0].is_some();
            for bits in &mut missing[usize::from(scan.first)..=usize::from(scan.last)] {
                in_order &= bits.unwrap_or(0) == scan.high;
                *bits = Some(scan.low);
            }
        }
        Ok(in_order)
    }

    /// The Huffman table of a class (0 for mean values) and slot, with its place in the file.
    pub(super) fn huffman(&self, class: usize, slot: usize) -> Option<Placed<'a>> {
        self.huffman[class].get(slot).copied().flatten()
    }

    /// The meaning that libjpeg gives to the components.
    pub(super) fn colours(&self) -> Colours {
        match (self.components.len(), self.adobe_transform) {
            (1, _) => Colours::Grey,
            (3, _) if self.is_jfif => Colours::YCbCr,
            (3, Some(0)) => Colours::Rgb,
            (3, Some(_)) => Colours::YCbCr,
            (3, None) if self.components.iter().map(|component| component.id).eq(*b"RGB") => Colours::Rgb,
            (3, None) => Colours::YCbCr,
            (_, None | Some(0)) => Colours::Cmyk,
            _ => Colours::Ycck,
        }
    }

    /// # Errors
    ///
    /// If the coarse coefficients of a component are incomplete: libjpeg would make some up.
    pub(super) fn check_complete(&self) -> Result<()> {
        let is_complete = |component: &Component| match self.is_progressive {
            true => component.missing_bits[..10].iter().all(|bits| *bits == Some(0)),
            false => component.quant.is_some(),
        };
        if self.components.iter().all(is_complete) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Format,
            "incomplete JPEG: scans are missing, so that only a rough picture would be there",
        ))
    }
}
