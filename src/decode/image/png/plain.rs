//! A decoder for the usual PNG files of data sets: 8 bits per sample, grey or RGB, with or without alpha, not
//! interlaced. Every other file, and every file in doubt, goes to the library in [`super`], which also reports the
//! fault.
//!
//! It is faster than the library because it undoes filters only above and left of the end of the wanted region, with a
//! pixel's samples side by side. The rest of the file is still inflated, and its checksums are compared. Inflating,
//! which takes most of the time, is done by the crate `fdeflate`, as in the library.

use fdeflate::Decompressor;

use super::unfilter::unfilter;
use crate::decode::image::samples::spread;
use crate::decode::image::stored::{Header, Region};

/// How far back deflate refers to earlier output.
const HISTORY: usize = 32 << 10;
/// Minimum number of bytes that are inflated before data older than the history is dropped. Fits into a core's cache.
const ROOM: usize = 96 << 10;

/// Buffers that are kept from image to image.
#[derive(Default)]
pub(super) struct Plain {
    /// Inflated rows, each with its filter before it.
    inflated: Vec<u8>,
    /// The last row without its filter, and the next one.
    above: Vec<u8>,
    row: Vec<u8>,
}

impl Plain {
    /// Decodes `region` into `into` as RGB. None if the file is not for this decoder; the content of `into` is then
    /// undefined.
    pub(super) fn decode(&mut self, bytes: &[u8], header: &Header, region: Region, into: &mut [u8]) -> Option<()> {
        let (channels, chunks) = Chunks::of(bytes, header)?;
        match channels {
            1 => self.rows::<1>(chunks, header, region, into),
            2 => self.rows::<2>(chunks, header, region, into),
            3 => self.rows::<3>(chunks, header, region, into),
            _ => self.rows::<4>(chunks, header, region, into),
        }
    }

    fn rows<const CHANNELS: usize>(
        &mut self,
        mut chunks: Chunks<'_>,
        header: &Header,
        region: Region,
        into: &mut [u8],
    ) -> Option<()> {
        let [left, top, width, height] = [region.x, region.y, region.width, region.height].map(|at| at as usize);
        let stride = 1 + header.width as usize * CHANNELS;
        let wanted = (left + width) * CHANNELS;
        for row in [&mut self.above, &mut self.row] {
            row.clear();
            row.resize(wanted, 0);
        }
        let mut inflate = Inflate::new(&mut self.inflated, stride);
        let (into, _) = into.as_chunks_mut::<3>();
        for y in 0..header.height as usize {
            let (filter, stored) = inflate.row(&mut chunks, stride)?.split_first()?;
            if y >= top + height {
                if *filter > 4 {
                    return None;
                }
                continue;
            }
            if !unfilter::<CHANNELS>(*filter, &stored[..wanted], &self.above, &mut self.row) {
                return None;
            }
            if let Some(y) = y.checked_sub(top) {
                let (pixels, into) = (&self.row[left * CHANNELS..], &mut into[y * width..][..width]);
                match CHANNELS {
                    3 => into.as_flattened_mut().copy_from_slice(pixels),
                    _ => spread(pixels, CHANNELS, into, |[value]| value),
                }
            }
            std::mem::swap(&mut self.above, &mut self.row);
        }
        inflate.ends(&mut chunks)
    }
}

/// The chunks of a file after its header.
struct Chunks<'a> {
    rest: &'a [u8],
    /// Whether there was pixel data, and whether something else followed it.
    begun: bool,
    ended: bool,
}

impl<'a> Chunks<'a> {
    /// The chunks, and how many channels the pixels have.
    fn of(bytes: &'a [u8], header: &Header) -> Option<(usize, Self)> {
        let mut chunks = Self { rest: bytes.get(8..)?, begun: false, ended: false };
        let (kind, ihdr) = chunks.next()?;
        let (width, rest) = ihdr.split_first_chunk::<4>()?;
        let (height, rest) = rest.split_first_chunk::<4>()?;
        // 8 bits, a type of colour, and the only compression and set of filters that there are; not interlaced.
        let &[8, colour, 0, 0, 0] = rest else { return None };
        let size = (u32::from_be_bytes(*width), u32::from_be_bytes(*height));
        let channels = match colour {
            0 => 1,
            2 => 3,
            4 => 2,
            6 => 4,
            _ => return None,
        };
        (kind == *b"IHDR" && size == (header.width, header.height)).then_some((channels, chunks))
    }

    /// Kind and data of the next chunk, if its checksum is right.
    fn next(&mut self) -> Option<([u8; 4], &'a [u8])> {
        let (len, rest) = self.rest.split_first_chunk::<4>()?;
        let (chunk, rest) = rest.split_at_checked((u32::from_be_bytes(*len) as usize).checked_add(4)?)?;
        let (checksum, rest) = rest.split_first_chunk::<4>()?;
        let (kind, data) = chunk.split_first_chunk::<4>()?;
        self.rest = rest;
        (crc32fast::hash(chunk) == u32::from_be_bytes(*checksum)).then_some((*kind, data))
    }

    /// The next pixel data; empty after the last.
    fn pixels(&mut self) -> Option<&'a [u8]> {
        while !self.ended {
            match self.next()? {
                (kind, data) if kind == *b"IDAT" => {
                    self.begun = true;
                    if !data.is_empty() {
                        return Some(data);
                    }
                }
                (kind, _) if kind == *b"IEND" && self.begun => self.ended = true,
                (kind, data) if says_nothing_of_pixels(kind, data) => self.ended = self.begun,
                _ => return None,
            }
        }
        Some(&[])
    }
}

/// Whether a chunk does not affect the values of pixels, and can't be invalid for the library.
fn says_nothing_of_pixels(kind: [u8; 4], data: &[u8]) -> bool {
    match &kind {
        b"tEXt" | b"zTXt" | b"iTXt" | b"iCCP" | b"tIME" | b"eXIf" => true,
        b"pHYs" => data.len() == 9 && data[8] < 2,
        b"gAMA" => data.len() == 4,
        b"cHRM" => data.len() == 32,
        b"sRGB" => matches!(data, [0..4]),
        b"bKGD" => matches!(data.len(), 1 | 2 | 6),
        _ => false,
    }
}

/// Inflates rows into a window.
struct Inflate<'a, 'b> {
    stream: Decompressor,
    window: &'a mut [u8],
    /// Where the next row begins, and the end of what was inflated.
    begin: usize,
    end: usize,
    input: &'b [u8],
}

impl<'a, 'b> Inflate<'a, 'b> {
    fn new(window: &'a mut Vec<u8>, stride: usize) -> Self {
        let size = HISTORY + ROOM.max(2 * stride);
        if window.len() < size {
            window.resize(size, 0);
        }
        // Not all that a wider image took: what is used again and again stays in the core's cache.
        let window = &mut window[..size];
        Self { stream: Decompressor::new(), window, begin: 0, end: 0, input: &[] }
    }

    fn row(&mut self, chunks: &mut Chunks<'b>, stride: usize) -> Option<&[u8]> {
        while self.end - self.begin < stride {
            self.more(chunks)?;
        }
        self.begin += stride;
        Some(&self.window[self.begin - stride..self.begin])
    }

    /// Inflates as much as there is room for, or as the current chunk has. None if there is no more.
    fn more(&mut self, chunks: &mut Chunks<'b>) -> Option<()> {
        if self.stream.is_done() {
            return None;
        }
        if self.end == self.window.len() {
            let from = self.begin.min(self.end - HISTORY);
            self.window.copy_within(from.., 0);
            (self.begin, self.end) = (self.begin - from, self.end - from);
        }
        if self.input.is_empty() {
            self.input = chunks.pixels()?;
        }
        let is_last = self.input.is_empty();
        let (taken, made) = self.stream.read(self.input, self.window, self.end, is_last).ok()?;
        self.input = &self.input[taken..];
        self.end += made;
        (taken > 0 || made > 0 || self.stream.is_done()).then_some(())
    }

    /// Whether the data ends with the last row.
    fn ends(mut self, chunks: &mut Chunks<'b>) -> Option<()> {
        while self.begin == self.end && !self.stream.is_done() {
            self.more(chunks)?;
        }
        let is_end = self.begin == self.end && self.input.is_empty() && chunks.pixels()?.is_empty();
        is_end.then_some(())
    }
}
