//! PNG row by row: only the wanted rows of an image are kept. Usual files are decoded by [`plain`], the others by the
//! crate `png`.

mod plain;
mod unfilter;

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Reader, Transformations};

use super::decoder::DecodeImage;
use super::map::{self, Map};
use super::samples::{level, spread, unpack};
use super::stored::{Header, Region, Scale};
use crate::error::{Error, ErrorKind, Result};

/// What the library may hold in addition to two rows: chunks that are not about pixels.
const SIDE_BYTES: usize = 64 << 20;

/// Column and row of the first pixel of each pass of an interlaced image, and the steps to the next ones.
const PASSES: [[usize; 4]; 7] =
    [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2], [0, 1, 1, 2]];

/// A row at a time.
#[derive(Default)]
pub(super) struct Png {
    plain: plain::Plain,
    row: Vec<u8>,
}

/// The positions of a stored row's pixels in the image.
struct Places {
    x: usize,
    y: usize,
    step: usize,
}

#[cold]
fn png_error(error: DecodingError) -> Error {
    let kind = if matches!(error, DecodingError::LimitsExceeded) { ErrorKind::Limit } else { ErrorKind::Format };
    Error::new(kind, format!("damaged or unsupported png: {error}")).with_source(error)
}

fn open<'a>(bytes: &'a [u8], header: &Header, transformations: Transformations) -> Result<Reader<Cursor<&'a [u8]>>> {
    let row = header.width as usize * 8;
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: SIDE_BYTES + 2 * row });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(transformations);
    let reader = decoder.read_info().map_err(png_error)?;
    let info = reader.info();
    let frame = info.frame_control.as_ref().map_or((info.width, info.height), |frame| (frame.width, frame.height));
    if frame != (header.width, header.height) {
        return Err(Error::new(ErrorKind::Format, "two headers disagree on the image's size"));
    }
    Ok(reader)
}

impl Png {
    /// Gives every row of the image to `take`, in the order of the file.
    fn rows(&mut self, reader: &mut Reader<Cursor<&[u8]>>, mut take: impl FnMut(Places, &[u8])) -> Result<()> {
        let info = reader.info();
        let (width, height) = (info.width as usize, info.height as usize);
        let passes = if info.interlaced { &PASSES[..] } else { &[[0, 0, 1, 1]] };
        let bytes = reader.output_line_size(info.width).ok_or_else(|| png_error(DecodingError::LimitsExceeded))?;
        self.row.resize(self.row.len().max(bytes), 0);
        for &[x, y, step, step_y] in passes.iter().filter(|pass| pass[0] < width) {
            for y in (y..height).step_by(step_y) {
                if reader.read_row(&mut self.row).map_err(png_error)?.is_none() {
                    return Err(Error::new(ErrorKind::Format, format!("damaged png: there is no row {y}")));
                }
                take(Places { x, y, step }, &self.row);
            }
        }
        // The data after the last row is read as well, because it may be damaged.
        reader.read_row(&mut self.row).map_err(png_error).map(|_| ())
    }

    /// Palette indices, or grey values as they are stored. Grey of 2 and 4 bits is spread over 0 to 255, as in Pillow.
    pub(super) fn read_map(&mut self, bytes: &[u8], header: &Header, map: &mut Map) -> Result<()> {
        let mut reader = open(bytes, header, Transformations::IDENTITY)?;
        let (colour, depth) = reader.output_color_type();
        let bits = depth as u8;
        let factor = match (colour, depth) {
            (ColorType::Grayscale, BitDepth::Two) => 85,
            (ColorType::Grayscale, BitDepth::Four) => 17,
            (ColorType::Grayscale | ColorType::Indexed, _) => 1,
            _ => return Err(map::not_a_map(header)),
        };
        let width = header.width as usize;
        let values = map.stored_mut(header);
        self.rows(&mut reader, |Places { x, y, step }, row| {
            let places = values[y * width..(y + 1) * width].iter_mut().skip(x).step_by(step);
            places.zip(unpack(row, bits)).for_each(|(into, value)| *into = value * factor);
        })
    }
}

impl DecodeImage for Png {
    fn decode(&mut self, bytes: &[u8], header: &Header, _: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        if self.plain.decode(bytes, header, region, into).is_some() {
            return Ok(());
        }
        self.decode_by_library(bytes, header, region, into)
    }
}

impl Png {
    fn decode_by_library(&mut self, bytes: &[u8], header: &Header, region: Region, into: &mut [u8]) -> Result<()> {
        let mut reader = open(bytes, header, Transformations::EXPAND)?;
        let (colour, depth) = reader.output_color_type();
        let channels = colour.samples();
        let (into, _) = into.as_chunks_mut::<3>();
        let (left, width) = (region.x as usize, region.width as usize);
        let lines = region.y as usize..(region.y + region.height) as usize;
        self.rows(&mut reader, |Places { x, y, step }, row| {
            if !lines.contains(&y) {
                return;
            }
            let line = &mut into[(y - lines.start) * width..][..width];
            // The row's first pixel in the region, and its place there.
            let first = left.saturating_sub(x).div_ceil(step);
            let at = x + first * step - left;
            if at >= width {
                return;
            }
            let stored = &row[first * channels * if depth == BitDepth::Sixteen { 2 } else { 1 }..];
            let write = |line: &mut [[u8; 3]], stored: &[u8]| match depth {
                BitDepth::Sixteen => spread(stored, channels, line, |bytes| level(u16::from_be_bytes(bytes))),
                _ if channels == 3 => {
                    let line = line.as_flattened_mut();
                    line.copy_from_slice(&stored[..line.len()]);
                }
                _ => spread(stored, channels, line, |[value]| value),
            };
            if step == 1 {
                return write(&mut line[at..], stored);
            }
            let pixel = channels * if depth == BitDepth::Sixteen { 2 } else { 1 };
            for (place, stored) in line[at..].iter_mut().step_by(step).zip(stored.chunks_exact(pixel)) {
                write(std::slice::from_mut(place), stored);
            }
        })
    }
}

#[cfg(test)]
mod tests;
