//! The tags of TIFF files, with offsets of 32 or 64 bits, and what they say in words.

use crate::error::{Error, ErrorKind};

pub(super) const WHITE_IS_ZERO: u32 = 0;
pub(super) const BLACK_IS_ZERO: u32 = 1;
pub(super) const RGB: u32 = 2;
pub(super) const PALETTE: u32 = 3;
pub(super) const CMYK: u32 = 5;
pub(super) const YCBCR: u32 = 6;

pub(super) const FILL_ORDER: u32 = 266;
/// What samples mean that are no colours: 1 and 2 are opacity.
pub(super) const EXTRA_SAMPLES: u32 = 338;

/// The compression that puts a JPEG into each strip or tile.
pub(super) const JPEG: u32 = 7;

/// Those tags of the first page that are numbers.
pub(super) struct Tags<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
    /// Whether offsets have 64 bits.
    is_wide: bool,
    /// Where the entries begin, and their number.
    entries: (usize, usize),
}

impl<'a> Tags<'a> {
    /// `None` for a file that is cut off, or not a TIFF.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (is_big_endian, is_wide) = match bytes.first_chunk()? {
            b"II*\0" => (false, false),
            b"MM\0*" => (true, false),
            b"II+\0" => (false, true),
            b"MM\0+" => (true, true),
            _ => return None,
        };
        let mut tags = Self { bytes, is_big_endian, is_wide, entries: (0, 0) };
        if is_wide && (tags.number_at(4, 2)?, tags.number_at(6, 2)?) != (8, 0) {
            return None;
        }
        let at = tags.offset(if is_wide { 8 } else { 4 })?;
        let size = if is_wide { 8 } else { 2 };
        tags.entries = (at.checked_add(size)?, usize::try_from(tags.number_at(at, size)?).ok()?);
        Some(tags)
    }

    /// A number of `size` bytes: 2, 4 or 8.
    fn number_at(&self, at: usize, size: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(size)?)?.iter();
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.is_big_endian { bytes.fold(0, join) } else { bytes.rev().fold(0, join) })
    }

    pub(super) fn short(&self, at: usize) -> Option<u32> {
        self.number_at(at, 2).map(|value| value as u32)
    }

    /// Bytes of an offset, or of the values that stand in a tag itself.
    fn word(&self) -> usize {
        if self.is_wide { 8 } else { 4 }
    }

    fn offset(&self, at: usize) -> Option<usize> {
        usize::try_from(self.number_at(at, self.word())?).ok()
    }

    /// The position of a tag's entry.
    fn entry(&self, tag: u32) -> Option<usize> {
        let (first, count) = self.entries;
        let size = 4 + 2 * self.word();
        // An entry that lies behind the end of the file ends the search.
        let mut entries = (0..count).map_while(|nth| {
            let at = first.checked_add(size.checked_mul(nth)?)?;
            Some((at, self.short(at)?))
        });
        entries.find(|(_, found)| *found == tag).map(|(at, _)| at)
    }

    /// The position of a tag's values, the bytes of each, and their number.
    fn values(&self, tag: u32) -> Option<(usize, usize, usize)> {
        let entry = self.entry(tag)?;
        let size = match self.short(entry + 2)? {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            5 | 10 | 12 | 16..=18 => 8,
            _ => 4,
        };
        let count = self.offset(entry + 4)?;
        let at = entry + 4 + self.word();
        let is_inside = count.checked_mul(size)? <= self.word();
        Some((if is_inside { at } else { self.offset(at)? }, size, count))
    }

    /// The position of a tag's values.
    pub(super) fn place(&self, tag: u32) -> Option<usize> {
        self.values(tag).map(|(at, ..)| at)
    }

    /// The first value of a tag.
    pub(super) fn number(&self, tag: u32) -> Option<u32> {
        let (at, size, _) = self.values(tag)?;
        u32::try_from(self.number_at(at, size)?).ok()
    }

    /// All values of a tag.
    fn numbers(&self, tag: u32) -> impl Iterator<Item = usize> {
        let (at, size, count) = self.values(tag).unwrap_or_default();
        (0..count).map_while(move |nth| {
            let value = self.number_at(at.checked_add(size.checked_mul(nth)?)?, size)?;
            usize::try_from(value).ok()
        })
    }

    /// The bytes that a tag holds.
    pub(super) fn bytes(&self, tag: u32) -> Option<&'a [u8]> {
        let (at, size, count) = self.values(tag)?;
        self.bytes.get(at..)?.get(..size.checked_mul(count)?)
    }

    /// The first byte and the length of each strip or tile.
    pub(super) fn parts(&self) -> impl Iterator<Item = (usize, usize)> {
        let (starts, lengths) = if self.entry(324).is_some() { (324, 325) } else { (273, 279) };
        self.numbers(starts).zip(self.numbers(lengths))
    }

    /// A copy of the file with another first value of a tag.
    pub(super) fn patched(&self, tag: u32, number: u8) -> Option<Vec<u8>> {
        let (at, size, _) = self.values(tag)?;
        let mut patched = self.bytes.to_vec();
        let value = patched.get_mut(at..at.checked_add(size)?)?;
        value.fill(0);
        let lowest = if self.is_big_endian { value.len() - 1 } else { 0 };
        value[lowest] = number;
        Some(patched)
    }

    pub(super) fn photometric(&self) -> Option<u32> {
        self.number(262)
    }

    pub(super) fn bits(&self) -> u32 {
        self.number(258).unwrap_or(1)
    }

    pub(super) fn samples(&self) -> u32 {
        self.number(277).unwrap_or(1)
    }

    /// Whether each sample has a plane of its own.
    pub(super) fn is_planar(&self) -> bool {
        self.number(284) == Some(2) && self.samples() > 1
    }

    /// Whether pixels are single numbers of up to 8 bits that the library does not convert to colours.
    pub(super) fn are_ours(&self) -> bool {
        let is_integer = matches!(self.number(339), None | Some(1));
        let kind = matches!(
            (self.photometric(), self.bits()),
            (Some(PALETTE), 1 | 2 | 4 | 8) | (Some(WHITE_IS_ZERO | BLACK_IS_ZERO), 2 | 4)
        );
        kind && is_integer && self.samples() == 1 && self.number(259) != Some(JPEG)
    }

    /// What kind of file this is, in words.
    pub(super) fn describe(&self) -> String {
        let photometric = match self.photometric() {
            None => "colours of an unknown kind",
            Some(WHITE_IS_ZERO | BLACK_IS_ZERO) => "grey",
            Some(RGB) => "RGB",
            Some(PALETTE) => "a palette",
            Some(4) => "a transparency mask",
            Some(CMYK) => "CMYK",
            Some(YCBCR) => "YCbCr",
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
        let planes = if self.is_planar() { ", each in a plane of its own" } else { "" };
        let compression = match self.number(259) {
            None | Some(1) => "not compressed".to_owned(),
            Some(2..=4) => "compressed as a fax".to_owned(),
            Some(5) => "compressed by LZW".to_owned(),
            Some(6 | JPEG) => "compressed by JPEG".to_owned(),
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
pub(super) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Format, format!("damaged tiff: {what}"))
}

/// The kind of a file that no decoder takes, and how to convert it.
pub(super) fn unsupported(bytes: &[u8]) -> String {
    let kind = Tags::read(bytes)
        .map_or_else(|| "a TIFF that is damaged, or of a rare kind".to_owned(), |tags| tags.describe());
    format!("{kind}; this kind is not supported: convert it, as with `magick IN.tif -colorspace sRGB -depth 8 OUT.png`")
}
