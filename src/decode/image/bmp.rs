//! The palette indices of BMP files, which the `image` crate gives for 8 bits only.

use super::Header;
use super::map::{self, Map};
use super::samples::unpack;
use crate::error::{Error, ErrorKind, Result};

/// What the headers say of the pixels.
struct Layout {
    /// Where they begin.
    offset: usize,
    bits: u16,
    compression: u32,
    top_down: bool,
}

fn layout(bytes: &[u8]) -> Option<Layout> {
    let le16 = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let le32 = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let offset = le32(10)? as usize;
    Some(match le32(14)? {
        // The first header of OS/2 has sides of 16 bits, and neither a sign nor a compression.
        12 => Layout { offset, bits: le16(24)?, compression: 0, top_down: false },
        _ => Layout { offset, bits: le16(28)?, compression: le32(30)?, top_down: le32(22)? > i32::MAX as u32 },
    })
}

/// Palette indices.
pub(super) fn read_map(bytes: &[u8], header: &Header, map: &mut Map) -> Result<()> {
    let truncated = || Error::new(ErrorKind::Format, "truncated: the file ends before its pixels do");
    let Layout { offset, bits, compression, top_down } = layout(bytes).ok_or_else(truncated)?;
    if !matches!(bits, 1 | 2 | 4 | 8) {
        return Err(map::not_a_map(header));
    }
    if compression != 0 {
        return Err(Error::new(ErrorKind::Format, "a run-length encoded bmp; save the map as a PNG"));
    }
    let (width, height) = (header.width as usize, header.height as usize);
    // Rows are padded to whole numbers of 4 bytes.
    let stride = (width * usize::from(bits)).div_ceil(32) * 4;
    let rows = bytes.get(offset..).and_then(|pixels| pixels.get(..stride * height)).ok_or_else(truncated)?;
    let values = map.stored_mut(header);
    for (y, row) in rows.chunks_exact(stride).enumerate() {
        let y = if top_down { y } else { height - 1 - y };
        values[y * width..][..width].iter_mut().zip(unpack(row, bits as u8)).for_each(|(into, value)| *into = value);
    }
    Ok(())
}
