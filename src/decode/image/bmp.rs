//! BMP files of Windows and OS/2, row by row or run by run.

use super::decoder::DecodeImage;
use super::map::{self, Map};
use super::samples::unpack;
use super::stored::{Header, ImageFormat, Orientation, Region, Scale};
use crate::error::{Error, ErrorKind, Result};

const PLAIN: u32 = 0;
const RUNS_OF_8: u32 = 1;
const RUNS_OF_4: u32 = 2;
const MASKS: u32 = 3;

/// Decodes BMP files; keeps no state between them.
#[derive(Default)]
pub(super) struct Bmp;

/// The content of the headers.
struct Layout {
    width: u32,
    height: u32,
    top_down: bool,
    bits: u16,
    compression: u32,
    /// The position of the palette, its number of entries, and the bytes per entry.
    palette: (usize, usize, usize),
    /// The position of the pixels.
    offset: usize,
    /// The bits of red, green, blue and alpha.
    masks: [u32; 4],
}

#[cold]
fn truncated(what: &str) -> Error {
    Error::new(ErrorKind::Format, format!("truncated: the file ends before its {what} do"))
}

#[cold]
fn damaged(byte: usize, what: &str) -> Error {
    let message =
        format!("damaged bmp: {what}; if other programs show it, convert it, as with `magick IN.bmp OUT.png`");
    Error::new(ErrorKind::Format, message).at_byte(byte as u64)
}

/// The error for a kind of file that is not decoded.
#[cold]
fn unsupported(kind: &str) -> Error {
    let message = format!("a BMP with {kind}; this kind is not supported: convert it, as with `magick IN.bmp OUT.png`");
    Error::new(ErrorKind::Format, message)
}

/// A kind of file in words.
#[cold]
fn kind(size: u32, bits: u16, compression: u32) -> String {
    let header = match size {
        12 => "the first header of OS/2".to_owned(),
        64 => "the second header of OS/2".to_owned(),
        _ => format!("a header of {size} bytes"),
    };
    let compression = match (size, compression) {
        (_, PLAIN) => "not compressed".to_owned(),
        (_, RUNS_OF_8) => "in runs of 8 bits".to_owned(),
        (_, RUNS_OF_4) => "in runs of 4 bits".to_owned(),
        (64, 3) => "compressed as a fax".to_owned(),
        (64, 4) => "in runs of 24 bits".to_owned(),
        (_, MASKS | 6) => "with bit masks for its colours that are not supported".to_owned(),
        (_, 4) => "holding a JPEG".to_owned(),
        (_, 5) => "holding a PNG".to_owned(),
        (_, 11..=13) => "with CMYK colours".to_owned(),
        (_, other) => format!("compressed by method {other}"),
    };
    format!("{header}, of {bits} bits a pixel, {compression}")
}

/// Reads the headers. The number of planes is ignored, as in other programs: no file stores its pixels in planes.
fn layout(bytes: &[u8]) -> Result<Layout> {
    fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
        bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or_else(|| truncated("headers"))
    }
    let le16 = |at| number(bytes, at).map(u16::from_le_bytes);
    let le32 = |at| number(bytes, at).map(u32::from_le_bytes);
    let (offset, size) = (le32(10)? as usize, le32(14)?);
    let is_core = size == 12;
    match size {
        12 | 40 | 52 | 56 | 64 | 108 | 124 => {}
        16 => return Err(unsupported("a short second header of OS/2")),
        _ => return Err(unsupported(&format!("a header of {size} bytes"))),
    }
    let (width, height, bits, compression, used) = match is_core {
        true => (le16(18)?.into(), le16(20)?.into(), le16(24)?, PLAIN, 0),
        false => (le32(18)?, le32(22)?, le16(28)?, le32(30)?, le32(46)?),
    };
    let top_down = !is_core && height > i32::MAX as u32;
    let height = if top_down { height.wrapping_neg() } else { height };
    if width == 0 || height == 0 || width > i32::MAX as u32 {
        return Err(damaged(18, &format!("a width of {} and a height of {height} pixels", width as i32)));
    }
    let masks = match (compression, bits) {
        (PLAIN, 1 | 2 | 4 | 8) | (RUNS_OF_8, 8) | (RUNS_OF_4, 4) => [0; 4],
        (PLAIN, 16) => [0x7c00, 0x3e0, 0x1f, 0],
        (PLAIN, 24 | 32) => [0xff_0000, 0xff00, 0xff, 0],
        (MASKS, 16 | 32) if size != 64 => {
            let alpha = if size >= 56 { le32(66)? } else { 0 };
            match [le32(54)?, le32(58)?, le32(62)?, alpha] {
                [0, 0, 0, 0] if bits == 32 => [0xff_0000, 0xff00, 0xff, 0xff00_0000],
                masks => masks,
            }
        }
        _ => return Err(unsupported(&kind(size, bits, compression))),
    };
    let fits = |mask: &u32| {
        let levels = mask.checked_shr(mask.trailing_zeros()).unwrap_or(0);
        levels != 0 && levels & levels.wrapping_add(1) == 0 && mask.checked_shr(bits.into()).unwrap_or(0) == 0
    };
    if bits > 8 && !masks[..3].iter().all(fits) {
        return Err(unsupported(&kind(size, bits, compression)));
    }
    let headers = 14 + size as usize;
    let masks_behind = if compression == MASKS && size == 40 { 12 } else { 0 };
    let (entries, entry) = match bits {
        // There can't be more indices, whatever the header says.
        ..=8 => (if used == 0 { 1 << bits } else { used as usize }, if is_core { 3 } else { 4 }),
        _ => (0, 0),
    };
    // Some files do not give the size of their palette.
    let behind = (headers + masks_behind).saturating_add(entries.saturating_mul(entry));
    let offset = if offset == 0 || (bits <= 8 && offset == headers) { behind } else { offset };
    let palette = (headers, entries.min(1 << bits.min(8)), entry);
    Ok(Layout { width, height, top_down, bits, compression, palette, offset, masks })
}

/// The header of a file.
pub(super) fn header(bytes: &[u8]) -> Result<Header> {
    let Layout { width, height, masks, .. } = layout(bytes)?;
    let channels = if masks[3] == 0 { 3 } else { 4 };
    Ok(Header {
        format: ImageFormat::Bmp,
        width,
        height,
        channels,
        orientation: Orientation::default(),
        in_scans: false,
    })
}

impl Layout {
    /// The colours of all indices; black for an index that is not in the palette.
    fn colours(&self, bytes: &[u8]) -> Result<[[u8; 3]; 256]> {
        let (start, entries, entry) = self.palette;
        let entries = bytes.get(start..).and_then(|rest| rest.get(..entries * entry));
        let mut colours = [[0; 3]; 256];
        for (colour, stored) in colours.iter_mut().zip(entries.ok_or_else(|| truncated("colours"))?.chunks_exact(entry))
        {
            *colour = [stored[2], stored[1], stored[0]];
        }
        Ok(colours)
    }

    /// The row of the picture that is row `nth` of the file.
    fn place(&self, nth: usize) -> usize {
        if self.top_down { nth } else { self.height as usize - 1 - nth }
    }

    /// Gives every row that is not compressed in runs to `take`, with its position in the picture.
    fn rows(&self, bytes: &[u8], mut take: impl FnMut(usize, &[u8])) -> Result<()> {
        // Rows are padded to a multiple of 4 bytes.
        let stride = (u64::from(self.width) * u64::from(self.bits)).div_ceil(32).checked_mul(4);
        let all =
            stride.and_then(|stride| stride.checked_mul(self.height.into())).and_then(|all| usize::try_from(all).ok());
        let pixels = bytes.get(self.offset..).zip(all).and_then(|(rest, all)| rest.get(..all));
        let pixels = pixels.ok_or_else(|| truncated("pixels"))?;
        for (nth, row) in pixels.chunks_exact(pixels.len() / self.height as usize).enumerate() {
            take(self.place(nth), row);
        }
        Ok(())
    }

    /// Gives every run of two alternating indices to `put`, with its row and columns. Skipped pixels are in no run.
    fn runs(&self, bytes: &[u8], mut put: impl FnMut(usize, std::ops::Range<usize>, [u8; 2])) -> Result<()> {
        let (width, height) = (self.width as usize, self.height as usize);
        let halves = |byte: u8| if self.compression == RUNS_OF_4 { [byte >> 4, byte & 15] } else { [byte; 2] };
        let (mut at, mut x, mut row) = (self.offset, 0, 0);
        while row < height && (row, x) != (height - 1, width) {
            let [first, second] = *bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(|| truncated("pixels"))?;
            at += 2;
            match (first, second) {
                (0, 0) => (x, row) = (0, row + 1),
                (0, 1) => {
                    return Err(damaged(at - 2, &format!("its runs end in row {row} of {height}")));
                }
                (0, 2) => {
                    let [right, up] =
                        *bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(|| truncated("pixels"))?;
                    (at, x, row) = (at + 2, x + usize::from(right), row + usize::from(up));
                }
                (0, count) => {
                    let count = usize::from(count);
                    let used = if self.compression == RUNS_OF_4 { count.div_ceil(2) } else { count };
                    let indices =
                        bytes.get(at..).and_then(|rest| rest.get(..used)).ok_or_else(|| truncated("pixels"))?;
                    if x + count > width {
                        return Err(damaged(at, &format!("{count} pixels at column {x} of {width}")));
                    }
                    if self.compression == RUNS_OF_4 {
                        for (nth, byte) in indices.iter().enumerate() {
                            put(self.place(row), x + 2 * nth..(x + 2 * nth + 2).min(x + count), halves(*byte));
                        }
                    } else {
                        indices
                            .iter()
                            .enumerate()
                            .for_each(|(nth, byte)| put(self.place(row), x + nth..x + nth + 1, [*byte; 2]));
                    }
                    // Padded to a multiple of 2 bytes.
                    (at, x) = (at + used.next_multiple_of(2), x + count);
                }
                (count, byte) => {
                    // Some programs write runs that are longer than the row.
                    let end = (x + usize::from(count)).min(width);
                    put(self.place(row), x..end, halves(byte));
                    x = end;
                }
            }
            if x > width {
                return Err(damaged(at, &format!("a step to column {x} of {width}")));
            }
        }
        Ok(())
    }
}

/// Palette indices.
pub(super) fn read_map(bytes: &[u8], header: &Header, map: &mut Map) -> Result<()> {
    let layout = checked(bytes, header)?;
    if layout.bits > 8 {
        return Err(map::not_a_map(header));
    }
    let width = header.width as usize;
    let values = map.stored_mut(header);
    if layout.compression == PLAIN {
        return layout.rows(bytes, |y, row| {
            let row = unpack(row, layout.bits as u8);
            values[y * width..][..width].iter_mut().zip(row).for_each(|(into, value)| *into = value);
        });
    }
    values.fill(0);
    layout.runs(bytes, |y, columns, indices| {
        let into = &mut values[y * width..][columns];
        into.iter_mut().zip(indices.into_iter().cycle()).for_each(|(into, index)| *into = index.into());
    })
}

/// The layout of a file whose header was read before.
fn checked(bytes: &[u8], header: &Header) -> Result<Layout> {
    let layout = layout(bytes)?;
    if (layout.width, layout.height) != (header.width, header.height) {
        return Err(Error::new(ErrorKind::Format, "two headers disagree on the image's size"));
    }
    Ok(layout)
}

impl DecodeImage for Bmp {
    fn decode(&mut self, bytes: &[u8], header: &Header, _: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        let layout = checked(bytes, header)?;
        let (into, _) = into.as_chunks_mut::<3>();
        let [left, top, width, height] = [region.x, region.y, region.width, region.height].map(|side| side as usize);
        let line = |y: usize| y.checked_sub(top).filter(|y| *y < height).map(|y| y * width..(y + 1) * width);
        if layout.compression == RUNS_OF_8 || layout.compression == RUNS_OF_4 {
            let colours = layout.colours(bytes)?;
            into.fill(colours[0]);
            return layout.runs(bytes, |y, columns, indices| {
                let Some(line) = line(y) else { return };
                let line = &mut into[line];
                let (first, end) = (columns.start.max(left), columns.end.min(left + width));
                for x in first..end.max(first) {
                    line[x - left] = colours[usize::from(indices[(x - columns.start) % 2])];
                }
            });
        }
        if layout.bits <= 8 {
            let colours = layout.colours(bytes)?;
            return layout.rows(bytes, |y, row| {
                let Some(line) = line(y) else { return };
                let indices = unpack(row, layout.bits as u8).skip(left);
                into[line].iter_mut().zip(indices).for_each(|(pixel, index)| *pixel = colours[usize::from(index)]);
            });
        }
        let size = usize::from(layout.bits / 8);
        let is_bgr = layout.masks[..3] == [0xff_0000, 0xff00, 0xff];
        let parts = [0, 1, 2].map(|channel| {
            let mask = layout.masks[channel];
            (mask.trailing_zeros(), u64::from(mask >> mask.trailing_zeros()))
        });
        layout.rows(bytes, |y, row| {
            let Some(line) = line(y) else { return };
            for (pixel, stored) in into[line].iter_mut().zip(row.chunks_exact(size).skip(left)) {
                *pixel = if is_bgr {
                    [stored[2], stored[1], stored[0]]
                } else {
                    let value = stored.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
                    // Rounded down, as Pillow does.
                    parts.map(|(shift, most)| {
                        (u64::from(value >> shift) & most).wrapping_mul(255).checked_div(most).unwrap_or(0) as u8
                    })
                };
            }
        })
    }
}
