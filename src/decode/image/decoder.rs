use super::stored::{Header, Region, Scale};
use crate::counters::Damages;
use crate::error::Result;

/// A way to decode the pixels of some formats.
pub(crate) trait DecodeImage: Send {
    /// Decodes the pixels in `region` of a grey image as one byte each. Returns false if it can't; `decode` then
    /// reports the reason.
    fn decode_grey(&mut self, bytes: &[u8], region: Region, into: &mut [u8]) -> bool {
        let _ = (bytes, region, into);
        false
    }

    /// Decodes the pixels in `region`, a box of the image at `scale`, as 8-bit RGB, row by row without gaps, into
    /// `into`, which has exactly this size and is reused from image to image. Alpha is dropped, not blended. The file
    /// is known to be complete, and its size was checked.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`](crate::ErrorKind::Format) for everything that the decoder would otherwise patch up or warn
    /// about.
    fn decode(&mut self, bytes: &[u8], header: &Header, scale: Scale, region: Region, into: &mut [u8]) -> Result<()>;

    /// The damage of the image that this decoder decoded last, if the image was loaded in spite of it.
    fn damages(&self) -> Damages {
        Damages::default()
    }
}

/// Copies `region` out of the whole image in `from`.
pub(super) fn copy_region(from: &[u8], width: u32, region: Region, into: &mut [u8]) {
    let row = region.width as usize * 3;
    let rows = from.chunks_exact(width as usize * 3).skip(region.y as usize);
    for (into, from) in into.chunks_exact_mut(row).zip(rows) {
        into.copy_from_slice(&from[region.x as usize * 3..][..row]);
    }
}

/// Bytes of memory that a buffer has.
pub(super) fn held<T>(buffer: &Vec<T>) -> u64 {
    (buffer.capacity() * size_of::<T>()) as u64
}

/// Sets the length of `buffer`; its content is not defined.
pub(super) fn resize_buffer<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        // The old memory is freed first, so that there are never two blocks, and the new one is no longer than
        // requested.
        *buffer = Vec::new();
        *buffer = vec![T::default(); len];
    }
    &mut buffer[..len]
}
