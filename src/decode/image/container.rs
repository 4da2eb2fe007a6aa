//! What the containers say: size and orientation before anything is decoded, and whether the file is all there.
//!
//! Decoders stop once they have their last pixel, so that a file without its end (or with a damaged check sum there)
//! passes as whole. Reading the containers to their ends costs a small part of decoding.

use flate2::Crc;
use image::metadata::Orientation as Exif;
use memchr::memchr;

use super::{Header, ImageFormat, Orientation, bmp, other, pnm, tiff};
use crate::error::{Error, ErrorKind, Result};

/// Reads an image's header. `bytes` may be the beginning of a file; it is an error if that does not reach far enough.
///
/// # Errors
///
/// [`ErrorKind::Format`] without a known format or with a header that makes no sense.
pub(crate) fn header(bytes: &[u8]) -> Result<Header> {
    let Some(format) = ImageFormat::of_content(bytes) else {
        let start = &bytes[..bytes.len().min(8)];
        let message = match start {
            [] => "an empty file, not an image".to_owned(),
            _ => format!("not a JPEG, PNG, WebP, BMP, GIF, TIFF or PNM image: it starts with the bytes {start:02x?}"),
        };
        return Err(Error::new(ErrorKind::Format, message));
    };
    match format {
        ImageFormat::Jpeg => jpeg_header(bytes),
        ImageFormat::Bmp => bmp::header(bytes),
        ImageFormat::Pnm => pnm::header(bytes),
        ImageFormat::Tiff => tiff::header(bytes).map_or_else(|| other::header(bytes, format), Ok),
        _ => other::header(bytes, format),
    }
}

/// Checks that the file does not end before its container does.
///
/// # Errors
///
/// [`ErrorKind::Format`] at the byte where something is missing or damaged.
pub(super) fn check_whole(bytes: &[u8], format: ImageFormat) -> Result<()> {
    match format {
        // Its decoders look for themselves, and differ in what they take.
        ImageFormat::Jpeg => Ok(()),
        ImageFormat::Png => check_png(bytes),
        ImageFormat::Gif => check_gif(bytes),
        ImageFormat::WebP => check_webp(bytes),
        // Their pixel data has its full length, or the decoder runs into the file's end.
        ImageFormat::Bmp | ImageFormat::Tiff | ImageFormat::Pnm => Ok(()),
    }
}

#[cold]
pub(super) fn truncated(bytes: &[u8], missing: &str) -> Error {
    let message = format!("truncated: the file ends after {} bytes, before {missing}", bytes.len());
    Error::new(ErrorKind::Format, message).at_byte(bytes.len() as u64)
}

#[cold]
pub(super) fn damaged(byte: usize, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, what.into()).at_byte(byte as u64)
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn be32(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const APP1: u8 = 0xe1;

/// The next marker from `at` on, and the byte behind it. Bytes between segments and fill bytes are passed over.
fn jpeg_marker(bytes: &[u8], mut at: usize) -> Result<(u8, usize)> {
    loop {
        at += memchr(0xff, bytes.get(at..).unwrap_or_default()).ok_or_else(|| truncated(bytes, "the next marker"))?;
        while bytes.get(at) == Some(&0xff) {
            at += 1;
        }
        match bytes.get(at) {
            None => return Err(truncated(bytes, "the next marker")),
            Some(0) => at += 1,
            Some(marker) => return Ok((*marker, at + 1)),
        }
    }
}

/// Whether a marker stands alone, without a length and a segment behind it.
fn stands_alone(marker: u8) -> bool {
    matches!(marker, 0x01 | 0xd0..=SOI)
}

/// The segment whose length stands at `at`.
fn jpeg_segment(bytes: &[u8], at: usize) -> Result<&[u8]> {
    let len = be16(bytes, at).ok_or_else(|| truncated(bytes, "the length of a segment"))?;
    if len < 2 {
        return Err(damaged(at, format!("a segment of {len} bytes; its length counts itself, so 2 is the least")));
    }
    bytes.get(at + 2..at + len).ok_or_else(|| truncated(bytes, "the end of a segment"))
}

fn jpeg_header(bytes: &[u8]) -> Result<Header> {
    let mut orientation = None;
    let mut frame = None;
    let mut at = 2;
    loop {
        let (marker, segment_at) = jpeg_marker(bytes, at)?;
        if stands_alone(marker) {
            at = segment_at;
            continue;
        }
        if marker == EOI {
            return Err(damaged(segment_at, "the image ends before its first scan"));
        }
        // libjpeg passes over the length of a note that is too small to be one.
        if matches!((marker, be16(bytes, segment_at)), (0xdc | 0xe0..=0xef | 0xfe, Some(0 | 1))) {
            at = segment_at + 2;
            continue;
        }
        let segment = jpeg_segment(bytes, segment_at)?;
        at = segment_at + 2 + segment.len();
        match marker {
            APP1 if orientation.is_none() => {
                let exif = segment.strip_prefix(b"Exif\0").and_then(|rest| rest.get(1..));
                orientation = exif.and_then(Exif::from_exif_chunk);
            }
            // Frame headers; the numbers left out are the tables DHT, JPG and DAC (ITU-T T.81, table B.1).
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let (Some(precision), Some(height), Some(width), Some(channels)) =
                    (segment.first(), be16(segment, 1), be16(segment, 3), segment.get(5))
                else {
                    return Err(damaged(segment_at, "a frame header of fewer than 6 bytes"));
                };
                if *precision != 8 {
                    return Err(damaged(segment_at, format!("a JPEG of {precision} bits; only 8 are supported")));
                }
                if !matches!(channels, 1 | 3 | 4) {
                    return Err(damaged(
                        segment_at,
                        format!("a JPEG of {channels} components; there may be 1, 3 or 4"),
                    ));
                }
                frame = Some((width as u32, height as u32, *channels, matches!(marker, 0xc0 | 0xc1)));
            }
            SOS => {
                let Some((width, height, channels, is_sequential)) = frame else {
                    return Err(damaged(segment_at, "a scan before the frame header"));
                };
                let orientation = orientation.map(|exif| Orientation::from_exif(exif.to_exif())).unwrap_or_default();
                let in_scans = !is_sequential || segment.first() != Some(&channels);
                return Ok(Header { format: ImageFormat::Jpeg, width, height, channels, orientation, in_scans });
            }
            _ => {}
        }
    }
}

fn check_png(bytes: &[u8]) -> Result<()> {
    let mut at = 8;
    loop {
        let len = be32(bytes, at).ok_or_else(|| truncated(bytes, "the IEND chunk"))?;
        let chunk = at + 4..at.saturating_add(8).saturating_add(len);
        let (Some(data), Some(stored)) = (bytes.get(chunk.clone()), be32(bytes, chunk.end)) else {
            return Err(truncated(bytes, "the end of a chunk"));
        };
        let kind = &data[..4];
        // Ancillary chunks (first letter small) carry no pixels.
        if kind[0].is_ascii_uppercase() {
            let mut crc = Crc::new();
            crc.update(data);
            if crc.sum() as usize != stored {
                let kind = String::from_utf8_lossy(kind).into_owned();
                return Err(damaged(at, format!("the check sum of a {kind} chunk is wrong: the file is damaged")));
            }
        }
        if kind == b"IEND" {
            return Ok(());
        }
        at = chunk.end + 4;
    }
}

fn check_gif(bytes: &[u8]) -> Result<()> {
    let end = || truncated(bytes, "the trailer");
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let mut at = 13 + table(*bytes.get(10).ok_or_else(end)?);
    loop {
        // Each kind of block: how far to its sub-blocks.
        at += match *bytes.get(at).ok_or_else(end)? {
            0x3b => return Ok(()),
            0x21 => 2,
            0x2c => 11 + table(*bytes.get(at + 9).ok_or_else(end)?),
            block => return Err(damaged(at, format!("no GIF block starts with {block:#04x}"))),
        };
        loop {
            let len = usize::from(*bytes.get(at).ok_or_else(end)?);
            at += 1 + len;
            if len == 0 {
                break;
            }
        }
    }
}

fn check_webp(bytes: &[u8]) -> Result<()> {
    let len = bytes.get(4..8).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
    if bytes.len() < len.saturating_add(8) {
        return Err(truncated(bytes, &format!("the {} bytes that its header promises", len.saturating_add(8))));
    }
    Ok(())
}
