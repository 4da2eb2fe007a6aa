//! TIFF files with a palette, or with grey of few bits, and what the library for other kinds does not see to itself.

use std::borrow::Cow;
use std::io::Cursor;

use tiff::decoder::{Decoder, DecodingResult, Limits};

use super::map::Map;
use super::samples::{print, unpack};
use super::stored::{Header, ImageFormat, Orientation, Region};
use super::tiff_jpeg;
use super::tiff_tags::{
    BLACK_IS_ZERO, CMYK, EXTRA_SAMPLES, FILL_ORDER, JPEG, PALETTE, RGB, Tags, WHITE_IS_ZERO, damaged, unsupported,
};
use crate::error::{Error, ErrorKind, Result};

/// Whether the library leaves out samples of each pixel while it undoes a predictor or puts tiles together, and then
/// gives other values for those that it keeps.
fn loses_its_place(tags: &Tags<'_>) -> bool {
    let colours = match tags.photometric() {
        Some(RGB) => 3,
        Some(CMYK) => 4,
        _ => return false,
    };
    let alpha = u32::from(matches!(tags.number(EXTRA_SAMPLES), None | Some(1 | 2)));
    let is_in_parts = matches!(tags.number(317), Some(2 | 3)) || tags.number(322).is_some();
    !tags.is_planar() && is_in_parts && tags.samples() > colours + alpha
}

/// Whether a fourth sample of RGB, which is no opacity, is decoded as one, and then left out.
fn has_fourth(tags: &Tags<'_>) -> bool {
    tags.photometric() == Some(RGB) && tags.samples() == 4 && loses_its_place(tags)
}

/// The same file with the fourth sample of RGB declared to be an opacity, where the library would lose its place.
pub(super) fn with_fourth_kept(bytes: &[u8]) -> Cow<'_, [u8]> {
    let tags = Tags::read(bytes).filter(has_fourth);
    tags.and_then(|tags| tags.patched(EXTRA_SAMPLES, 2)).map_or(Cow::Borrowed(bytes), Cow::Owned)
}

/// Refuses files on which the library panics, or that it decodes to other pixels.
pub(super) fn check(bytes: &[u8]) -> Result<()> {
    let Some(tags) = Tags::read(bytes) else { return Ok(()) };
    let is_cut = |side, tile| {
        let rest = tags.number(side).zip(tags.number(tile)).and_then(|(side, tile)| side.checked_rem(tile));
        rest.is_some_and(|rest| rest != 0)
    };
    if loses_its_place(&tags) && !has_fourth(&tags) {
        return Err(Error::new(ErrorKind::Format, unsupported(bytes)));
    }
    if tags.is_planar() && (is_cut(256, 322) || is_cut(257, 323)) {
        return Err(Error::new(ErrorKind::Format, unsupported(bytes)));
    }
    Ok(())
}

/// The same file with the highest bits of each byte first. The libraries ignore it if a file (by its tag FillOrder) has
/// the lowest ones first. As in libtiff, all bytes of the parts are reversed before they are decompressed, except JPEG
/// data.
///
/// # Errors
///
/// [`ErrorKind::Format`] for such a file whose parts are not known, and for kinds whose order libtiff does not change.
pub(super) fn highest_bits_first(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    let Some(tags) = Tags::read(bytes) else { return Ok(Cow::Borrowed(bytes)) };
    if tags.number(FILL_ORDER) != Some(2) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut turned = tags.patched(FILL_ORDER, 1).ok_or_else(|| damaged("a tag lies beyond the end of the file"))?;
    match tags.number(259) {
        None | Some(1..=5 | 8 | 32_773 | 32_946) => {}
        Some(6 | JPEG) => return Ok(Cow::Owned(turned)),
        Some(_) => return Err(Error::new(ErrorKind::Format, unsupported(bytes))),
    }
    let mut parts: Vec<(usize, usize)> = tags.parts().collect();
    parts.sort_unstable();
    if parts.is_empty() {
        return Err(damaged("it does not say where its parts are"));
    }
    let mut end = 0;
    for (start, length) in parts {
        let part = turned.get_mut(start..).and_then(|rest| rest.get_mut(..length)).filter(|_| start >= end);
        let part = part.ok_or_else(|| damaged("its parts overlap, or lie beyond the end of the file"))?;
        part.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
        end = start + length;
    }
    Ok(Cow::Owned(turned))
}

/// Whether grey goes from white to black. The library turns it round.
pub(super) fn is_white_zero(bytes: &[u8]) -> bool {
    Tags::read(bytes).is_some_and(|tags| tags.photometric() == Some(WHITE_IS_ZERO))
}

/// Whether colours are multiplied by their opacity ("associated alpha").
pub(super) fn has_premultiplied_colours(bytes: &[u8]) -> bool {
    Tags::read(bytes).is_some_and(|tags| tags.number(EXTRA_SAMPLES) == Some(1))
}

/// The header of a file that is decoded here.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let tags = Tags::read(bytes)?;
    if tags.number(259) == Some(JPEG) {
        return tiff_jpeg::header(&tags);
    }
    if !tags.are_ours() {
        return None;
    }
    let (width, height) = (tags.number(256)?, tags.number(257)?);
    let channels = if tags.photometric() == Some(PALETTE) { 3 } else { 1 };
    let turned = tags.number(274).and_then(|value| u8::try_from(value).ok());
    let orientation = turned.map(Orientation::from_exif).unwrap_or_default();
    Some(Header { format: ImageFormat::Tiff, width, height, channels, orientation, in_scans: false })
}

/// Most bytes that decoding `region` of a file takes, in addition to its pixels. `cut` is what a whole image takes from
/// which a part is cut.
pub(super) fn memory(header: &Header, region: Region, bytes: &[u8], cut: u64) -> u64 {
    let (pixels, len) = (Region::whole(header).pixels(), bytes.len() as u64);
    // At most four samples of 32 bits, twice.
    let Some(tags) = Tags::read(bytes) else { return 32 * pixels + cut };
    if tags.number(259) == Some(JPEG) {
        return tiff_jpeg::memory(&tags, header, region, bytes);
    }
    let (bits, samples) = (u64::from(tags.bits().min(32)), u64::from(tags.samples().min(8)));
    let unpacked = (u64::from(header.width) * bits * samples).div_ceil(8) * u64::from(header.height);
    let copied = if tags.number(FILL_ORDER) == Some(2) || has_fourth(&tags) { len } else { 0 };
    if tags.are_ours() {
        // In the copy, another tag says that it is grey.
        return unpacked + copied + len;
    }
    // The library decodes into memory of its own, from where samples are copied or become colours.
    let converted = match (tags.photometric(), bits, samples) {
        (_, 1, _) => pixels,
        (Some(RGB), 8, 3) | (Some(CMYK), 8, _) => 0,
        (Some(CMYK), _, _) => unpacked / 4 * 3,
        _ => unpacked,
    };
    unpacked + converted + copied + cut
}

/// Gives every row of numbers to `take`, if this file is decoded here. Grey goes from 0 (black) to 255.
fn rows(
    bytes: &[u8],
    header: &Header,
    mut take: impl FnMut(usize, &mut dyn Iterator<Item = u8>),
) -> Option<Result<()>> {
    let tags = Tags::read(bytes).filter(Tags::are_ours)?;
    let (photometric, bits) = (tags.photometric()?, tags.bits() as u8);
    // The library refuses palettes, but reads the same numbers as grey.
    let patched = tags.patched(262, BLACK_IS_ZERO as u8)?;
    let decoded = Decoder::new(Cursor::new(patched)).and_then(|mut decoder| {
        let size = decoder.dimensions()?;
        decoder.read_image().map(|pixels| (size, pixels))
    });
    let row_bytes = (header.width as usize * usize::from(bits)).div_ceil(8);
    Some(match decoded {
        Ok((size, DecodingResult::U8(pixels)))
            if size == (header.width, header.height) && pixels.len() >= row_bytes * header.height as usize =>
        {
            let factor = if photometric == PALETTE { 1 } else { 255 / ((1u16 << bits) - 1) };
            let number = |value: u16| if photometric == WHITE_IS_ZERO { 255 - value * factor } else { value * factor };
            for (y, row) in pixels.chunks_exact(row_bytes).take(header.height as usize).enumerate() {
                take(y, &mut unpack(row, bits).take(header.width as usize).map(|value| number(value) as u8));
            }
            Ok(())
        }
        Ok(_) => Err(damaged("its pixels are not those that its tags promise")),
        Err(error) => Err(not_decoded(bytes, error)),
    })
}

/// Palette indices or grey values, if this file is decoded here.
pub(super) fn read_map(bytes: &[u8], header: &Header, map: &mut Map) -> Option<Result<()>> {
    let width = header.width as usize;
    let values = map.stored_mut(header);
    rows(bytes, header, |y, row| values[y * width..].iter_mut().zip(row).for_each(|(into, value)| *into = value.into()))
}

/// The colours of a palette.
pub(super) fn palette(tags: &Tags<'_>) -> Result<[[u8; 3]; 256]> {
    let mut colours = [[0; 3]; 256];
    // All red values, then all green, then all blue, of 16 bits each.
    let (count, start) = (1usize << tags.bits(), tags.place(320));
    for (index, colour) in colours.iter_mut().enumerate().take(count) {
        for (channel, value) in colour.iter_mut().enumerate() {
            let level = start.and_then(|at| tags.short(at.checked_add(2 * (channel * count + index))?));
            let level = level.ok_or_else(|| damaged("its palette lies beyond the end of the file"))?;
            *value = (level >> 8) as u8;
        }
    }
    Ok(colours)
}

/// Pixels, if this file is decoded here.
pub(super) fn decode(bytes: &[u8], header: &Header, region: Region, into: &mut [u8]) -> Option<Result<()>> {
    let tags = Tags::read(bytes).filter(Tags::are_ours)?;
    let colours = match tags.photometric() {
        Some(PALETTE) => palette(&tags),
        _ => Ok(std::array::from_fn(|grey| [grey as u8; 3])),
    };
    let colours = match colours {
        Ok(colours) => colours,
        Err(error) => return Some(Err(error)),
    };
    let (into, _) = into.as_chunks_mut::<3>();
    let [x, y, width, height] = [region.x, region.y, region.width, region.height].map(|n| n as usize);
    rows(bytes, header, |line, row| {
        let Some(line) = line.checked_sub(y).filter(|line| *line < height) else { return };
        let pixels = into[line * width..][..width].iter_mut().zip(row.skip(x));
        pixels.for_each(|(pixel, index)| *pixel = colours[usize::from(index)]);
    })
}

/// All pixels of a file of 8-bit CMYK, because the library for other colours rounds all of them down.
pub(super) fn decode_inks(bytes: &[u8], into: &mut [u8]) -> Result<()> {
    let (into, _) = into.as_chunks_mut::<3>();
    let mut limits = Limits::default();
    limits.decoding_buffer_size = 4 * into.len();
    limits.intermediate_buffer_size = limits.intermediate_buffer_size.max(16 * into.len());
    let decoded = Decoder::new(Cursor::new(bytes)).and_then(|decoder| decoder.with_limits(limits).read_image());
    match decoded {
        Ok(DecodingResult::U8(inks)) if inks.len() == 4 * into.len() => {
            print(&inks, into);
            Ok(())
        }
        Ok(_) if Tags::read(bytes).is_some_and(|tags| tags.is_planar()) => {
            Err(Error::new(ErrorKind::Format, unsupported(bytes)))
        }
        Ok(_) => Err(damaged("its pixels are not those that its tags promise")),
        Err(error) => Err(not_decoded(bytes, error)),
    }
}

#[cold]
fn not_decoded(bytes: &[u8], error: tiff::TiffError) -> Error {
    let message = match &error {
        tiff::TiffError::UnsupportedError(_) => unsupported(bytes),
        _ => format!("damaged or unsupported tiff: {error}"),
    };
    Error::new(ErrorKind::Format, message).with_source(error)
}
