//! What the containers say: size and orientation before anything is decoded, and whether the file is all there.
//!
//! Decoders stop once they have their last pixel, so that a file without its end (or with a damaged check sum there)
//! passes as whole. Reading the containers to their ends costs a small part of decoding.

use flate2::Crc;
use image::metadata::Orientation as Exif;
use memchr::memchr;

use super::{Header, ImageFormat, Orientation, other};
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
            _ => format!("not a JPEG, PNG, WebP, BMP, GIF or TIFF image: it starts with the bytes {start:02x?}"),
        };
        return Err(Error::new(ErrorKind::Format, message));
    };
    match format {
        ImageFormat::Jpeg => jpeg_header(bytes),
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
        ImageFormat::Jpeg => check_jpeg(bytes),
        ImageFormat::Png => check_png(bytes),
        ImageFormat::Gif => check_gif(bytes),
        ImageFormat::WebP => check_webp(bytes),
        // Their pixel data has its full length, or the decoder runs into the file's end.
        ImageFormat::Bmp | ImageFormat::Tiff => Ok(()),
    }
}

#[cold]
fn truncated(bytes: &[u8], missing: &str) -> Error {
    let message = format!("truncated: the file ends after {} bytes, before {missing}", bytes.len());
    Error::new(ErrorKind::Format, message).at_byte(bytes.len() as u64)
}

#[cold]
fn damaged(byte: usize, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, what.into()).at_byte(byte as u64)
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn be32(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

const DHT: u8 = 0xc4;
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
                frame = Some((width as u32, height as u32, *channels));
            }
            SOS => {
                let Some((width, height, channels)) = frame else {
                    return Err(damaged(segment_at, "a scan before the frame header"));
                };
                let orientation = orientation.map(|exif| Orientation::from_exif(exif.to_exif())).unwrap_or_default();
                return Ok(Header { format: ImageFormat::Jpeg, width, height, channels, orientation });
            }
            _ => {}
        }
    }
}

/// Walks segments and scans up to the end-of-image marker; what stands behind it (previews, padding) is no business of
/// this image.
fn check_jpeg(bytes: &[u8]) -> Result<()> {
    jpeg_data(bytes).map(|_| ())
}

/// What walking through a JPEG file finds.
pub(super) struct JpegData {
    /// Whether restart markers are announced.
    pub(super) has_restarts: bool,
}

/// Walks from marker to marker up to the end of the image.
pub(super) fn jpeg_data(bytes: &[u8]) -> Result<JpegData> {
    let (mut is_progressive, mut has_restarts) = (false, false);
    let mut at = 2;
    loop {
        let (marker, segment_at) = jpeg_marker(bytes, at)
            .map_err(|_| truncated(bytes, "the end-of-image marker; only a part of the picture would be there"))?;
        if marker == EOI {
            return Ok(JpegData { has_restarts });
        }
        // Restart markers stand inside of a scan, where stuffed zeros and data are passed over too.
        if stands_alone(marker) {
            at = segment_at;
            continue;
        }
        let segment = jpeg_segment(bytes, segment_at)?;
        match marker {
            0xc2 | 0xca => is_progressive = true,
            0xdd => has_restarts = true,
            DHT if !are_huffman_tables(segment) => {
                return Err(damaged(segment_at, "Huffman tables that make no code"));
            }
            // A count of components, two bytes for each, and three more.
            SOS if segment.len() != 4 + 2 * usize::from(segment.first().copied().unwrap_or(0)) => {
                return Err(damaged(segment_at, "a scan header that is not as long as its components need"));
            }
            SOS if is_progressive && !is_progressive_scan(segment) => {
                return Err(damaged(segment_at, "a scan of coefficients or bits that no progressive JPEG has"));
            }
            _ => {}
        }
        at = segment_at + 2 + segment.len();
    }
}

/// Whether the tables of a DHT segment are codes (ITU-T T.81, B.2.4.2 and annex C). libjpeg refuses others; decoders that
/// do not give some picture.
fn are_huffman_tables(mut segment: &[u8]) -> bool {
    while let [kind, rest @ ..] = segment {
        let Some((counts, rest)) = rest.split_first_chunk::<16>() else { return false };
        let total = counts.iter().map(|count| usize::from(*count)).sum();
        let Some((symbols, rest)) = rest.split_at_checked(total) else { return false };
        // The codes of each length follow those of the length before, and none has ones alone.
        let mut code = 0u32;
        let fit = counts.iter().zip(1..).all(|(count, bits)| {
            code = 2 * code + u32::from(*count);
            *count == 0 || code < 1 << bits
        });
        let (class, slot) = (kind >> 4, kind & 15);
        let is_dc = class == 0;
        if class > 1 || slot > 3 || total > 256 || !fit || is_dc && symbols.iter().any(|bits| *bits > 15) {
            return false;
        }
        segment = rest;
    }
    true
}

/// Whether a progressive scan has coefficients and bits as ITU-T T.81, G.1.1.1.1 wants them.
fn is_progressive_scan(segment: &[u8]) -> bool {
    let [components, .., first, last, bits] = segment else { return false };
    let (high, low) = (bits >> 4, bits & 15);
    let band = if *first == 0 { *last == 0 } else { first <= last && *last < 64 && *components == 1 };
    band && (high == 0 || low + 1 == high) && low <= 13
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
