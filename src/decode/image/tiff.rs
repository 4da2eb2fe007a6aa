//! TIFF files with a palette, or with grey of few bits, and messages for the kinds that are not decoded.

use std::borrow::Cow;
use std::io::Cursor;

use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;

use super::complete;
use super::jpeg_header::{has_picture, jpeg_header};
use super::map::Map;
use super::samples::{inked, unpack};
use super::stored::{Header, ImageFormat, Orientation, Region};
use crate::error::{Error, ErrorKind, Result};

const WHITE_IS_ZERO: u32 = 0;
const BLACK_IS_ZERO: u32 = 1;
const PALETTE: u32 = 3;

const FILL_ORDER: u32 = 266;

/// Room for the JPEG data of files whose tiles are much larger than the picture.
const ROOM: u64 = 1 << 24;

/// Those tags of the first page that are numbers.
struct Tags<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
    /// Where the entries begin, and their number.
    entries: (usize, usize),
}

impl<'a> Tags<'a> {
    /// `None` for a file that is cut off, or not a TIFF with 32-bit offsets.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let is_big_endian = match bytes.first_chunk()? {
            b"II*\0" => false,
            b"MM\0*" => true,
            _ => return None,
        };
        let mut tags = Self { bytes, is_big_endian, entries: (0, 0) };
        let at = tags.long(4)? as usize;
        tags.entries = (at + 2, tags.short(at)? as usize);
        Some(tags)
    }

    fn short(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }.into())
    }

    fn long(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// The position of a tag's entry.
    fn entry(&self, tag: u32) -> Option<usize> {
        let (first, count) = self.entries;
        let mut entries = (0..count).map(|nth| first + 12 * nth);
        entries.find(|at| self.short(*at) == Some(tag))
    }

    /// The position of a tag's values, and whether they have 16 bits.
    fn place(&self, tag: u32) -> Option<(usize, bool)> {
        let entry = self.entry(tag)?;
        let is_short = self.short(entry + 2)? == 3;
        let bytes = u64::from(self.long(entry + 4)?) * if is_short { 2 } else { 4 };
        let at = if bytes <= 4 { entry + 8 } else { self.long(entry + 8)? as usize };
        Some((at, is_short))
    }

    /// The first value of a tag.
    fn number(&self, tag: u32) -> Option<u32> {
        let (at, is_short) = self.place(tag)?;
        if is_short { self.short(at) } else { self.long(at) }
    }

    /// All values of a tag.
    fn numbers(&self, tag: u32) -> impl Iterator<Item = usize> {
        let count = self.entry(tag).and_then(|entry| self.long(entry + 4)).unwrap_or(0) as usize;
        let place = self.place(tag);
        (0..count).map_while(move |nth| {
            let (at, is_short) = place?;
            let value =
                if is_short { self.short(at.checked_add(2 * nth)?) } else { self.long(at.checked_add(4 * nth)?) };
            value.map(|value| value as usize)
        })
    }

    /// The bytes that a tag holds.
    fn bytes(&self, tag: u32) -> Option<&'a [u8]> {
        let entry = self.entry(tag)?;
        self.bytes.get(self.long(entry + 8)? as usize..)?.get(..self.long(entry + 4)? as usize)
    }

    /// The first byte and the length of each strip or tile.
    fn parts(&self) -> impl Iterator<Item = (usize, usize)> {
        let (starts, lengths) = if self.entry(324).is_some() { (324, 325) } else { (273, 279) };
        self.numbers(starts).zip(self.numbers(lengths))
    }

    /// A copy of the file with another first value of a tag.
    fn patched(&self, tag: u32, number: u8) -> Option<Vec<u8>> {
        let (at, is_short) = self.place(tag)?;
        let mut patched = self.bytes.to_vec();
        let value = patched.get_mut(at..at.checked_add(if is_short { 2 } else { 4 })?)?;
        value.fill(0);
        let lowest = if self.is_big_endian { value.len() - 1 } else { 0 };
        value[lowest] = number;
        Some(patched)
    }

    fn photometric(&self) -> Option<u32> {
        self.number(262)
    }

    fn bits(&self) -> u32 {
        self.number(258).unwrap_or(1)
    }

    fn samples(&self) -> u32 {
        self.number(277).unwrap_or(1)
    }

    /// Whether pixels are single numbers of up to 8 bits that the library does not convert to colours.
    fn are_ours(&self) -> bool {
        let is_integer = matches!(self.number(339), None | Some(1));
        let kind = matches!(
            (self.photometric(), self.bits()),
            (Some(PALETTE), 1 | 2 | 4 | 8) | (Some(WHITE_IS_ZERO | BLACK_IS_ZERO), 2 | 4)
        );
        kind && is_integer && self.samples() == 1
    }

    /// What kind of file this is, in words.
    fn describe(&self) -> String {
        let photometric = match self.photometric() {
            None => "colours of an unknown kind",
            Some(WHITE_IS_ZERO | BLACK_IS_ZERO) => "grey",
            Some(2) => "RGB",
            Some(PALETTE) => "a palette",
            Some(4) => "a transparency mask",
            Some(5) => "CMYK",
            Some(6) => "YCbCr",
            Some(8..=10) => "L*a*b* colours",
            Some(32_803 | 34_892) => "raw data of a camera",
            Some(_) => "colours of a rare kind",
        };
        let format = match self.number(339) {
            Some(2) => "signed ",
            Some(3) => "floating-point ",
            Some(5 | 6) => "complex ",
            _ => "",
        };
        let planes =
            if self.number(284) == Some(2) && self.samples() > 1 { ", each in a plane of its own" } else { "" };
        let compression = match self.number(259) {
            None | Some(1) => "not compressed".to_owned(),
            Some(2..=4) => "compressed as a fax".to_owned(),
            Some(5) => "compressed by LZW".to_owned(),
            Some(6 | 7) => "compressed by JPEG".to_owned(),
            Some(8 | 32_946) => "compressed by deflate".to_owned(),
            Some(32_773) => "compressed by PackBits".to_owned(),
            Some(34_712) => "compressed by JPEG 2000".to_owned(),
            Some(50_000) => "compressed by Zstandard".to_owned(),
            Some(50_001) => "compressed by WebP".to_owned(),
            Some(other) => format!("compressed by method {other}"),
        };
        let (samples, bits) = (self.samples(), self.bits());
        let order = if self.number(FILL_ORDER) == Some(2) { ", the lowest bits first" } else { "" };
        format!(
            "a TIFF of {photometric}: {samples} {format}samples of {bits} bits a pixel{planes}, {compression}{order}"
        )
    }
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Format, format!("damaged tiff: {what}"))
}

/// The kind of a file that no decoder takes, and how to convert it.
pub(super) fn unsupported(bytes: &[u8]) -> String {
    let kind = Tags::read(bytes)
        .map_or_else(|| "a TIFF that is damaged, or of a rare kind".to_owned(), |tags| tags.describe());
    format!("{kind}; this kind is not supported: convert it, as with `magick IN.tif -colorspace sRGB -depth 8 OUT.png`")
}

/// Refuses files on which the library panics, and JPEG data whose faults it ignores, or that it reads in another way
/// than libtiff.
pub(super) fn check(bytes: &[u8], header: &Header) -> Result<()> {
    let Some(tags) = Tags::read(bytes) else { return Ok(()) };
    let is_cut = |side, tile| {
        let rest = tags.number(side).zip(tags.number(tile)).and_then(|(side, tile)| side.checked_rem(tile));
        rest.is_some_and(|rest| rest != 0)
    };
    if tags.number(284) == Some(2) && tags.samples() > 1 && (is_cut(256, 322) || is_cut(257, 323)) {
        return Err(Error::new(ErrorKind::Format, unsupported(bytes)));
    }
    if tags.number(259) != Some(7) {
        return Ok(());
    }
    const START: &[u8] = &[0xff, 0xd8];
    const END: &[u8] = &[0xff, 0xd9];
    let tables = tags.bytes(347).map_or(START, |tables| tables.strip_suffix(END).unwrap_or(tables));
    if has_picture(tables) {
        return Err(damaged("its JPEG tables hold a picture"));
    }
    let mut left = bytes.len();
    // Each part costs its own pixels, and reading the tables again.
    let picture = Region::whole(header).pixels();
    let mut pixels_left = picture.saturating_mul(4).saturating_add(ROOM);
    let mut tables_left = (bytes.len() as u64).saturating_mul(16).saturating_add(ROOM);
    let mut decoder = complete::Decoder::default();
    for (nth, (start, length)) in tags.parts().enumerate() {
        left = left.checked_sub(length).ok_or_else(|| damaged("its parts overlap, or are longer than the file"))?;
        let part = bytes.get(start..).and_then(|rest| rest.get(..length));
        let part = part.ok_or_else(|| damaged("a part of it lies beyond the end of the file"))?;
        let spent = tables_left.checked_sub(tables.len() as u64);
        tables_left = spent.ok_or_else(|| damaged("its JPEG tables are too long for so many parts"))?;
        let whole = [tables, part.strip_prefix(START).unwrap_or(part)].concat();
        let faulty = |error: Error| damaged(&format!("JPEG data of part {nth}: {}", error.message()));
        let found = complete::survey(&whole).map_err(faulty)?;
        let part = jpeg_header(&whole).map_err(faulty)?;
        let pixels = Region::whole(&part).pixels();
        let spent = pixels_left.checked_sub(pixels).filter(|_| pixels <= picture.max(1 << 20));
        pixels_left = spent.ok_or_else(|| damaged("JPEG data of more pixels than the picture has"))?;
        // The last pixel depends on everything before it.
        let last = Region { x: part.width.saturating_sub(1), y: part.height.saturating_sub(1), width: 1, height: 1 };
        let damages = decoder.decode(&whole, (part.width, part.height), last, &mut [0; 3]).map_err(faulty)?;
        if let Some(damage) = damages.iter().next() {
            return Err(damaged(&format!("JPEG data of part {nth}: {}", damage.as_str())));
        }
        if found.is_subsampled {
            return Err(Error::new(ErrorKind::Format, unsupported(bytes)));
        }
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
    let Some(tags) = Tags::read(bytes) else {
        return if is_long_and_lowest_first(bytes) {
            let message =
                "a TIFF with 64-bit offsets that has the lowest bits first; this kind is not supported: convert it";
            Err(Error::new(ErrorKind::Format, message))
        } else {
            Ok(Cow::Borrowed(bytes))
        };
    };
    if tags.number(FILL_ORDER) != Some(2) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut turned = tags.patched(FILL_ORDER, 1).ok_or_else(|| damaged("a tag lies beyond the end of the file"))?;
    match tags.number(259) {
        None | Some(1..=5 | 8 | 32_773 | 32_946) => {}
        Some(6 | 7) => return Ok(Cow::Owned(turned)),
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

/// Whether a file with 64-bit offsets has the lowest bits first.
fn is_long_and_lowest_first(bytes: &[u8]) -> bool {
    let is_long = matches!(bytes, [b'I', b'I', 43, 0, ..] | [b'M', b'M', 0, 43, ..]);
    is_long && first_value(bytes, Tag::FillOrder) == Some(2)
}

/// The first value of a tag, for offsets of 32 or 64 bits.
fn first_value(bytes: &[u8], tag: Tag) -> Option<u16> {
    Decoder::new(Cursor::new(bytes)).ok()?.find_tag_unsigned_vec::<u16>(tag).ok()??.first().copied()
}

/// Whether grey goes from white to black. The library turns it round.
pub(super) fn is_white_zero(bytes: &[u8]) -> bool {
    first_value(bytes, Tag::PhotometricInterpretation) == Some(WHITE_IS_ZERO as u16)
}

/// Whether colours are multiplied by their opacity ("associated alpha").
pub(super) fn has_premultiplied_colours(bytes: &[u8]) -> bool {
    first_value(bytes, Tag::ExtraSamples) == Some(1)
}

/// The header of a file that is decoded here.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let tags = Tags::read(bytes).filter(Tags::are_ours)?;
    let (width, height) = (tags.number(256)?, tags.number(257)?);
    let channels = if tags.photometric() == Some(PALETTE) { 3 } else { 1 };
    let turned = tags.number(274).and_then(|value| u8::try_from(value).ok());
    let orientation = turned.map(Orientation::from_exif).unwrap_or_default();
    Some(Header { format: ImageFormat::Tiff, width, height, channels, orientation, in_scans: false })
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

/// Pixels, if this file is decoded here.
pub(super) fn decode(bytes: &[u8], header: &Header, region: Region, into: &mut [u8]) -> Option<Result<()>> {
    let tags = Tags::read(bytes).filter(Tags::are_ours)?;
    let mut colours: [[u8; 3]; 256] = std::array::from_fn(|grey| [grey as u8; 3]);
    if tags.photometric() == Some(PALETTE) {
        // All red values, then all green, then all blue, of 16 bits each.
        let (at, count) = (tags.place(320)?.0, 1usize << tags.bits());
        for (index, colour) in colours.iter_mut().enumerate().take(count) {
            for (channel, value) in colour.iter_mut().enumerate() {
                let Some(level) = tags.short(at + 2 * (channel * count + index)) else {
                    return Some(Err(damaged("its palette lies beyond the end of the file")));
                };
                *value = (level >> 8) as u8;
            }
        }
    }
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
            for (pixel, inks) in into.iter_mut().zip(inks.as_chunks().0) {
                let [cyan, magenta, yellow, black] = inks.map(|ink: u8| 255 - ink);
                *pixel = [cyan, magenta, yellow].map(|ink| inked(ink, black));
            }
            Ok(())
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

#[cfg(test)]
mod tests {
    use libjpeg_turbo_rs::{Encoder, PixelFormat};

    use super::*;

    /// A TIFF of JPEG data with these tables, in these parts.
    fn file(side: u32, tables: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut data = tables.to_vec();
        let mut starts = Vec::new();
        for part in parts {
            starts.push(8 + data.len() as u32);
            data.extend(*part);
        }
        let numbers = |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
        let (starts_at, count) = (8 + data.len() as u32, parts.len() as u32);
        // A single number stands in the tag itself.
        let place = |numbers: &[u32], at: u32| if let [number] = numbers { *number } else { at };
        let lengths: Vec<u32> = parts.iter().map(|part| part.len() as u32).collect();
        data.extend(numbers(&starts));
        data.extend(numbers(&lengths));
        let tags = [
            (256, 4, 1, side),
            (257, 4, 1, side),
            (258, 3, 1, 8),
            (259, 3, 1, 7),
            (262, 3, 1, 1),
            (273, 4, count, place(&starts, starts_at)),
            (277, 3, 1, 1),
            (279, 4, count, place(&lengths, starts_at + 4 * count)),
            (347, 7, tables.len() as u32, 8),
        ];
        let start = 8 + data.len() as u32;
        let mut file = [b"II*\0".as_slice(), &start.to_le_bytes(), &data, &(tags.len() as u16).to_le_bytes()].concat();
        for (tag, kind, count, value) in tags {
            file.extend([tag as u16, kind].into_iter().flat_map(u16::to_le_bytes));
            file.extend(numbers(&[count, value]));
        }
        file.extend([0; 4]);
        file
    }

    fn grey(side: usize) -> Vec<u8> {
        Encoder::new(&vec![99; side * side], side, side, PixelFormat::Grayscale).quality(50).encode().unwrap()
    }

    fn checked(side: u32, tables: &[u8], parts: &[&[u8]]) -> Result<()> {
        let format = ImageFormat::Tiff;
        let header = Header {
            format,
            width: side,
            height: side,
            channels: 1,
            orientation: Orientation::default(),
            in_scans: false,
        };
        check(&file(side, tables, parts), &header)
    }

    const NO_TABLES: [u8; 4] = [0xff, 0xd8, 0xff, 0xd9];

    #[test]
    fn parts_hold_the_picture_and_not_much_more() {
        let (small, large) = (grey(64), grey(1024));
        checked(64, &NO_TABLES, &[&small]).unwrap();
        checked(2048, &NO_TABLES, &[&*large; 4]).unwrap();
        checked(64, &NO_TABLES, &[&*large; 16]).unwrap();
        let error = checked(64, &NO_TABLES, &[&*large; 17]).unwrap_err();
        assert!(error.message().contains("more pixels than the picture has"), "{error}");
        let error = checked(1024, &NO_TABLES, &[&grey(1032)]).unwrap_err();
        assert!(error.message().contains("more pixels than the picture has"), "{error}");
    }

    #[test]
    fn tables_hold_no_picture() {
        let whole = grey(64);
        for len in [whole.len(), whole.len() - 2, whole.len() - 9] {
            let error = checked(64, &whole[..len], &[&whole]).unwrap_err();
            assert!(error.message().contains("its JPEG tables hold a picture"), "{error}");
        }
        let scan = whole.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        checked(64, &whole[..scan], &[&whole]).unwrap();
    }

    #[test]
    fn tables_are_not_read_again_and_again() {
        let comment = [&[0xff, 0xfe, 0xff, 0xff][..], &[0; 0xfffd]].concat();
        let tables = [&[0xff, 0xd8][..], &comment.repeat(40)].concat();
        let small = grey(8);
        let error = checked(64, &tables, &vec![&*small; 40]).unwrap_err();
        assert!(error.message().contains("too long for so many parts"), "{error}");
        checked(64, &tables, &[&*small; 10]).unwrap();
    }
}
