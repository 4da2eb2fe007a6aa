//! The headers before the entropy-coded data: sizes, sampling, and the positions of the tables (ITU-T T.81, annex B).

use super::refusal::{NotOurs, Ours};

/// The sampling of the colour components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    /// One component.
    Grey,
    /// 4:4:4: a sample of each component for each pixel.
    Full,
    /// 4:2:2: half as many columns of colour.
    HalfWidth,
    /// 4:2:0: half as many columns and rows of colour.
    HalfBoth,
}

/// More bytes than any block takes in a scan: 64 codes of 16 bits, each followed by up to 11 more, a zero after each byte,
/// and a restart marker.
const MAX_BLOCK_BYTES: usize = 512;

impl Sampling {
    /// Columns and rows of luma blocks in a minimum coded unit (MCU). Colour has one block there.
    pub(super) fn luma_blocks(self) -> (usize, usize) {
        match self {
            Self::Grey | Self::Full => (1, 1),
            Self::HalfWidth => (2, 1),
            Self::HalfBoth => (2, 2),
        }
    }
}

/// Which tables a component uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Component {
    id: u8,
    sampling: u8,
    pub(super) quant: usize,
    pub(super) dc: usize,
    pub(super) ac: usize,
}

/// A file's header, as far as decoding needs it.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) sampling: Sampling,
    components: [Component; 3],
    /// Steps of quantisation in zigzag order, 1 to 255 each.
    quant: [Option<[u8; 64]>; 4],
    /// As in the file: counts of codes by length, then symbols.
    dc: [Option<&'a [u8]>; 4],
    ac: [Option<&'a [u8]>; 4],
    /// MCUs between two restart markers; 0 without any.
    pub(super) restart: usize,
    /// What follows the scan's header, as far as it can belong to the scan.
    pub(super) scan: &'a [u8],
}

fn be16(bytes: &[u8]) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(*bytes.first_chunk()?)))
}

impl<'a> Frame<'a> {
    /// Reads all segments up to the first scan.
    pub(super) fn read(bytes: &'a [u8]) -> Ours<Self> {
        let mut frame = Frame {
            width: 0,
            height: 0,
            sampling: Sampling::Grey,
            components: [Component::default(); 3],
            quant: [None; 4],
            dc: [None; 4],
            ac: [None; 4],
            restart: 0,
            scan: &[],
        };
        let mut colours = Colours::default();
        let mut rest = bytes.strip_prefix(&[0xff, 0xd8]).ok_or(NotOurs("no JPEG"))?;
        loop {
            let [0xff, marker, body @ ..] = rest else { return Err(NotOurs("no marker where one should be")) };
            let len = be16(body).filter(|len| *len >= 2).ok_or(NotOurs("a segment without its length"))?;
            let (segment, behind) = body.split_at_checked(len).ok_or(NotOurs("a segment that is cut off"))?;
            let segment = &segment[2..];
            rest = behind;
            match marker {
                0xc0 => frame.read_frame(segment)?,
                0xc4 => frame.read_huffman(segment)?,
                0xdb => frame.read_quant(segment)?,
                0xdd => {
                    let interval = be16(segment).filter(|_| segment.len() == 2);
                    frame.restart = interval.ok_or(NotOurs("a restart interval of another length"))?;
                }
                0xda => {
                    frame.read_scan(segment, colours)?;
                    frame.scan = &rest[..rest.len().min(frame.most_in_scan())];
                    return Ok(frame);
                }
                0xe0 => colours.is_jfif |= segment.len() >= 14 && segment.starts_with(b"JFIF\0"),
                0xee if segment.starts_with(b"Adobe") => {
                    // The transform is the last of 12 bytes; 1 stands for YCbCr.
                    colours.adobe_transform = Some(*segment.get(11).ok_or(NotOurs("a short Adobe segment"))?);
                }
                0xe1..=0xef | 0xfe => {}
                _ => return Err(NotOurs("a marker of another kind of JPEG")),
            }
        }
    }

    /// Number of bytes that a scan does not exceed.
    fn most_in_scan(&self) -> usize {
        let (across, down) = self.sampling.luma_blocks();
        let mcus = self.width.div_ceil(8 * across) * self.height.div_ceil(8 * down);
        let colours = if self.sampling == Sampling::Grey { 0 } else { 2 };
        mcus.saturating_mul((across * down + colours) * MAX_BLOCK_BYTES)
    }

    fn read_frame(&mut self, segment: &[u8]) -> Ours<()> {
        if self.width != 0 {
            return Err(NotOurs("a second frame"));
        }
        let [8, h1, h0, w1, w0, count, components @ ..] = segment else {
            return Err(NotOurs("a frame that is not of 8 bits"));
        };
        self.height = usize::from(u16::from_be_bytes([*h1, *h0]));
        self.width = usize::from(u16::from_be_bytes([*w1, *w0]));
        let (components, rest) = components.as_chunks::<3>();
        if components.len() != usize::from(*count) || !rest.is_empty() || self.width == 0 || self.height == 0 {
            return Err(NotOurs("a frame of another length, or without pixels"));
        }
        for (into, [id, sampling, quant]) in self.components.iter_mut().zip(components) {
            *into = Component { id: *id, sampling: *sampling, quant: usize::from(*quant), dc: 0, ac: 0 };
        }
        let samplings = self.components.map(|component| component.sampling);
        self.sampling = match (count, samplings) {
            // With one component alone, its factors mean nothing (A.2.2).
            (1, [0x11 | 0x21 | 0x12 | 0x22, ..]) => Sampling::Grey,
            (3, [0x11, 0x11, 0x11]) => Sampling::Full,
            (3, [0x21, 0x11, 0x11]) => Sampling::HalfWidth,
            (3, [0x22, 0x11, 0x11]) => Sampling::HalfBoth,
            _ => return Err(NotOurs("other components or sampling")),
        };
        Ok(())
    }

    fn read_quant(&mut self, mut segment: &[u8]) -> Ours<()> {
        while let [slot, rest @ ..] = segment {
            // The upper half is 1 for values of 16 bits, which baseline files do not have.
            let table = self.quant.get_mut(usize::from(*slot)).ok_or(NotOurs("quantisation of 16 bits"))?;
            let (values, rest) = rest.split_first_chunk::<64>().ok_or(NotOurs("quantisation that is cut off"))?;
            if values.contains(&0) {
                return Err(NotOurs("quantisation by zero"));
            }
            *table = Some(*values);
            segment = rest;
        }
        Ok(())
    }

    fn read_huffman(&mut self, mut segment: &'a [u8]) -> Ours<()> {
        while let [kind, rest @ ..] = segment {
            let counts = rest.get(..16).ok_or(NotOurs("a Huffman table that is cut off"))?;
            let len = 16 + counts.iter().map(|count| usize::from(*count)).sum::<usize>();
            if len > 16 + 256 {
                return Err(NotOurs("a Huffman table of more symbols than there are"));
            }
            let (table, rest) = rest.split_at_checked(len).ok_or(NotOurs("a Huffman table that is cut off"))?;
            let tables = match kind >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return Err(NotOurs("a Huffman table of another class")),
            };
            *tables.get_mut(usize::from(kind & 15)).ok_or(NotOurs("a fifth Huffman table"))? = Some(table);
            segment = rest;
        }
        Ok(())
    }

    fn read_scan(&mut self, segment: &[u8], colours: Colours) -> Ours<()> {
        let count = self.components().len();
        let selectors = match segment {
            // All coefficients with all of their bits.
            [n, selectors @ .., 0, 63, 0] if self.width != 0 && usize::from(*n) == count => selectors,
            _ => return Err(NotOurs("a scan of less than everything")),
        };
        let (selectors, rest) = selectors.as_chunks::<2>();
        if selectors.len() != count || !rest.is_empty() {
            return Err(NotOurs("a scan header of another length"));
        }
        for (component, [id, tables]) in self.components.iter_mut().zip(selectors) {
            if component.id != *id {
                return Err(NotOurs("components in another order"));
            }
            (component.dc, component.ac) = (usize::from(tables >> 4), usize::from(tables & 15));
        }
        if count == 3 && !colours.are_ycbcr(self.components.map(|component| component.id)) {
            return Err(NotOurs("colours that may not be YCbCr"));
        }
        Ok(())
    }

    pub(super) fn components(&self) -> &[Component] {
        match self.sampling {
            Sampling::Grey => &self.components[..1],
            _ => &self.components,
        }
    }

    pub(super) fn quant(&self, component: &Component) -> Ours<&[u8; 64]> {
        self.quant.get(component.quant).and_then(Option::as_ref).ok_or(NotOurs("no quantisation table"))
    }

    pub(super) fn dc_table(&self, slot: usize) -> Ours<&'a [u8]> {
        self.dc.get(slot).copied().flatten().ok_or(NotOurs("no Huffman table"))
    }

    pub(super) fn ac_table(&self, slot: usize) -> Ours<&'a [u8]> {
        self.ac.get(slot).copied().flatten().ok_or(NotOurs("no Huffman table"))
    }
}

/// The parts of the header that define the meaning of the three components.
#[derive(Clone, Copy, Default)]
struct Colours {
    is_jfif: bool,
    adobe_transform: Option<u8>,
}

impl Colours {
    /// Only if every reader agrees: decoders treat all other cases differently.
    fn are_ycbcr(self, ids: [u8; 3]) -> bool {
        match self.adobe_transform {
            Some(transform) => transform == 1,
            None => self.is_jfif || ids == [1, 2, 3],
        }
    }
}
