//! The content of file headers: size and orientation before anything is decoded, and whether the file is complete.
//!
//! Decoders stop after their last pixel, so a file without its end (or with a damaged checksum there) would pass as
//! complete. Reading the file's structure to the end costs a small part of decoding.

use flate2::Crc;

use super::damage::{be32, damaged, truncated};
use super::jpeg_header::jpeg_header;
use super::stored::{Header, ImageFormat};
use super::{bmp, other, pnm, tiff};
use crate::error::{Error, ErrorKind, Result};

/// Reads an image's header. `bytes` may be the beginning of a file, but must contain the whole header.
///
/// # Errors
///
/// [`ErrorKind::Format`] for an unknown format or an invalid header.
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
        // Its decoders check this themselves, and differ in what they accept.
        ImageFormat::Jpeg => Ok(()),
        ImageFormat::Png => check_png(bytes),
        ImageFormat::Gif => check_gif(bytes),
        ImageFormat::WebP => check_webp(bytes),
        // Their pixel data must have its full length, otherwise the decoder reaches the file's end.
        ImageFormat::Bmp | ImageFormat::Tiff | ImageFormat::Pnm => Ok(()),
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
        // Ancillary chunks (with a small first letter) contain no pixels.
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
        // For each kind of block, the distance to its sub-blocks.
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
