use image::metadata::Orientation as Exif;
use memchr::memchr;

use super::damage::{be16, damaged, truncated};
use super::stored::{Header, ImageFormat, Orientation};
use crate::error::Result;

const DHT: u8 = 0xc4;
const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const APP1: u8 = 0xe1;

/// The next marker from `at` on, and the position after it. Bytes between segments and fill bytes are skipped.
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

/// Whether a marker has neither a length nor a segment after it.
fn stands_alone(marker: u8) -> bool {
    matches!(marker, 0x01 | 0xd0..=SOI)
}

/// The segment whose length is at `at`.
fn jpeg_segment(bytes: &[u8], at: usize) -> Result<&[u8]> {
    let len = be16(bytes, at).ok_or_else(|| truncated(bytes, "the length of a segment"))?;
    if len < 2 {
        return Err(damaged(at, format!("a segment of {len} bytes; its length counts itself, so 2 is the least")));
    }
    bytes.get(at + 2..at + len).ok_or_else(|| truncated(bytes, "the end of a segment"))
}

/// Whether a marker begins a frame: those that are left out are the tables DHT, JPG and DAC (ITU-T T.81, table B.1).
fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf)
}

/// Those segments of a TIFF file's common tables that hold for its parts: of quantisation and Huffman codes. Everything
/// else ends where an image begins. `None` if there is a frame or a scan, or if it is unknown what there is.
pub(super) fn common_tables(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut tables = Vec::new();
    let mut at = 2;
    while memchr(0xff, bytes.get(at..).unwrap_or_default()).is_some() {
        let (marker, segment_at) = jpeg_marker(bytes, at).ok()?;
        if marker == SOS || is_frame(marker) {
            return None;
        }
        at = segment_at;
        if marker == EOI {
            break;
        }
        if !stands_alone(marker) {
            let segment = jpeg_segment(bytes, segment_at).ok()?;
            at += 2 + segment.len();
            if matches!(marker, DHT | DQT) {
                tables.extend([0xff, marker]);
                tables.extend_from_slice(&bytes[segment_at..at]);
            }
        }
    }
    Some(tables)
}

/// Reads the header of a JPEG file, up to its first scan.
pub(super) fn jpeg_header(bytes: &[u8]) -> Result<Header> {
    jpeg_frame(bytes).map(|(header, _)| header)
}

/// The same with the factors of sampling of each component, across and down.
pub(super) fn jpeg_frame(bytes: &[u8]) -> Result<(Header, [(u8, u8); 4])> {
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
        // libjpeg ignores a comment's length if it is too small to be one.
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
            marker if is_frame(marker) => {
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
                let mut factors = [(1, 1); 4];
                let components = segment.get(6..).unwrap_or_default().as_chunks::<3>().0;
                for (factors, [_, both, _]) in factors.iter_mut().zip(components) {
                    *factors = (both >> 4, both & 15);
                }
                frame = Some((width as u32, height as u32, *channels, matches!(marker, 0xc0 | 0xc1), factors));
            }
            SOS => {
                let Some((width, height, channels, is_sequential, factors)) = frame else {
                    return Err(damaged(segment_at, "a scan before the frame header"));
                };
                let orientation = orientation.map(|exif| Orientation::from_exif(exif.to_exif())).unwrap_or_default();
                let in_scans = !is_sequential || segment.first() != Some(&channels);
                let format = ImageFormat::Jpeg;
                return Ok((Header { format, width, height, channels, orientation, in_scans }, factors));
            }
            _ => {}
        }
    }
}
