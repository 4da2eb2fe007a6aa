//! GIF: the first frame.

use gif::{ColorOutput, DecodeOptions, Decoder, DecodingError};

use super::decoder::{DecodeImage, resize_buffer};
use super::map::Map;
use super::stored::{Header, Region, Scale};
use crate::error::{Error, ErrorKind, Result};

/// Rows of an interlaced frame: the first of each pass, and the step to the next one.
const PASSES: [(usize, usize); 4] = [(0, 8), (4, 8), (2, 4), (1, 2)];

/// The `gif` crate, a frame at a time: asked for less, it takes some complete frames for cut off (image-rs/weezl#68).
#[derive(Default)]
pub(super) struct Gif {
    indices: Vec<u8>,
}

/// Most pixels of a first frame that is larger than the screen.
const MOST_BEYOND: usize = 1 << 27;

/// Bytes that decoding takes: an index for each pixel of the first frame. 0 if the file is refused.
pub(super) fn memory(bytes: &[u8]) -> u64 {
    Frame::open(bytes).map_or(0, |frame| (frame.width * frame.height) as u64)
}

#[cold]
fn gif_error(error: DecodingError) -> Error {
    Error::new(ErrorKind::Format, format!("damaged or unsupported gif: {error}")).with_source(error)
}

/// The file from its first frame's data on.
struct Frame<'a> {
    decoder: Decoder<&'a [u8]>,
    /// The frame's box on the screen.
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    interlaced: bool,
    /// The index in the palette that stands for no colour.
    transparent: Option<u8>,
}

impl<'a> Frame<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::Indexed);
        let mut decoder = options.read_info(bytes).map_err(gif_error)?;
        let frame = decoder.next_frame_info().map_err(gif_error)?;
        let frame = frame.ok_or_else(|| Error::new(ErrorKind::Format, "a gif without an image"))?;
        let [left, top, width, height] = [frame.left, frame.top, frame.width, frame.height].map(usize::from);
        let (interlaced, transparent) = (frame.interlaced, frame.transparent);
        let screen = usize::from(decoder.width()) * usize::from(decoder.height());
        if width * height > screen.max(MOST_BEYOND) {
            let message = format!("its first frame has {width} x {height} pixels, much more than the gif as a whole");
            return Err(Error::new(ErrorKind::Format, message));
        }
        Ok(Self { decoder, left, top, width, height, interlaced, transparent })
    }

    /// Gives every row of palette indices to `take`, in the order of the file.
    fn rows(&mut self, indices: &mut Vec<u8>, mut take: impl FnMut(usize, &[u8])) -> Result<()> {
        let len = self.width * self.height;
        if len == 0 {
            return Ok(());
        }
        let indices = resize_buffer(indices, len);
        if !self.decoder.fill_buffer(indices).map_err(gif_error)? {
            return Err(Error::new(ErrorKind::Format, "damaged gif: its data end before the last row"));
        }
        let passes = if self.interlaced { &PASSES[..] } else { &[(0, 1)] };
        let lines = passes.iter().flat_map(|(first, step)| (*first..self.height).step_by(*step));
        lines.zip(indices.chunks_exact(self.width)).for_each(|(y, row)| take(y, row));
        Ok(())
    }
}

impl Gif {
    /// Bytes of memory that are kept.
    pub(super) fn held(&self) -> u64 {
        self.indices.capacity() as u64
    }

    /// Palette indices.
    pub(super) fn read_map(&mut self, bytes: &[u8], header: &Header, map: &mut Map) -> Result<()> {
        let mut frame = Frame::open(bytes)?;
        let (width, height) = (header.width as usize, header.height as usize);
        if (frame.left, frame.top, frame.width, frame.height) != (0, 0, width, height) {
            let message = format!(
                "its first frame ({} x {} pixels) does not cover the {width} x {height} of the gif, and the rest has no \
                 index; save the map as a PNG",
                frame.width, frame.height
            );
            return Err(Error::new(ErrorKind::Format, message));
        }
        let values = map.stored_mut(header);
        frame.rows(&mut self.indices, |y, row| {
            values[y * width..].iter_mut().zip(row).for_each(|(into, index)| *into = u16::from(*index));
        })
    }
}

impl DecodeImage for Gif {
    fn decode(&mut self, bytes: &[u8], _: &Header, _: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        let mut frame = Frame::open(bytes)?;
        let mut palette = [[0; 3]; 256];
        let stored = frame.decoder.palette().map_err(gif_error)?;
        palette.iter_mut().zip(stored.as_chunks::<3>().0).for_each(|(into, colour)| *into = *colour);
        let (into, _) = into.as_chunks_mut::<3>();
        // Outside of the frame, Pillow has the transparent index, or the first.
        into.fill(palette[usize::from(frame.transparent.unwrap_or(0))]);
        let [x, y, width, height] = [region.x, region.y, region.width, region.height].map(|n| n as usize);
        let (left, top) = (frame.left, frame.top);
        frame.rows(&mut self.indices, |line, row| {
            let Some(line) = (top + line).checked_sub(y).filter(|line| *line < height) else { return };
            let row = row.get(x.saturating_sub(left)..).unwrap_or_default();
            let at = left.saturating_sub(x).min(width);
            let pixels = into[line * width + at..(line + 1) * width].iter_mut();
            pixels.zip(row).for_each(|(pixel, index)| *pixel = palette[usize::from(*index)]);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::container::header;
    use super::*;

    /// A frame of 3 x 2 pixels at column 2 and row 1 of a screen of 6 x 5, with a palette of its own (`local`).
    fn file(transparent: Option<u8>, local: bool) -> Vec<u8> {
        let palette = |first: u8| (0..4).flat_map(move |nth| [first + 10 * nth; 3]);
        let mut bytes = b"GIF89a\x06\0\x05\0\x81\x03\0".to_vec();
        bytes.extend(palette(10));
        bytes.extend(transparent.iter().flat_map(|index| [0x21, 0xf9, 4, 1, 0, 0, *index, 0]));
        bytes.extend([0x2c, 2, 0, 1, 0, 3, 0, 2, 0, if local { 0x81 } else { 0 }]);
        bytes.extend(palette(110).filter(|_| local));
        // Codes of 3 bits: before each index, the one that forgets all others; at last, the end.
        let codes = [1, 2, 3, 0, 2, 1].into_iter().flat_map(|index| [4u64, index]).chain([5]);
        let bits = codes.enumerate().fold(0u64, |bits, (nth, code)| bits | code << (3 * nth));
        bytes.extend([2, 5]);
        bytes.extend(&bits.to_le_bytes()[..5]);
        bytes.extend([0, 0x3b]);
        bytes
    }

    /// 7 x 7 pixels of one colour, as Pillow 13.0 writes them: a row at a time, the last ones would be missing.
    const FLAT: &str = "474946383761070007008100000908070000000000000000002c000000000700070000080e0001081c48b0a0c1830813120c\
                        08003b";

    fn flat() -> Vec<u8> {
        let digits = FLAT.as_bytes().as_chunks::<2>().0;
        digits.iter().map(|hex| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn a_frame_larger_than_the_screen_counts_and_is_cut_off() {
        let mut bytes = flat();
        bytes[6] = 5;
        let header = header(&bytes).unwrap();
        assert_eq!((header.width, memory(&bytes)), (5, 49));
        let mut pixels = [0; 105];
        Gif::default().decode(&bytes, &header, Scale::FULL, Region::whole(&header), &mut pixels).unwrap();
        assert_eq!(pixels.as_slice(), [[9, 8, 7]; 35].as_flattened());
        // Much larger: nothing is taken for it.
        let frame = bytes.iter().rposition(|byte| *byte == 0x2c).unwrap();
        bytes[frame + 5..frame + 9].fill(0xff);
        assert_eq!(memory(&bytes), 0);
        let mut gif = Gif::default();
        let error = gif.decode(&bytes, &header, Scale::FULL, Region::whole(&header), &mut pixels).unwrap_err();
        assert!(error.message().contains("65535 x 65535") && gif.held() == 0, "{error}");
    }

    #[test]
    fn a_picture_of_one_colour_is_complete() {
        let bytes = flat();
        let header = header(&bytes).unwrap();
        let mut pixels = [0; 147];
        Gif::default().decode(&bytes, &header, Scale::FULL, Region::whole(&header), &mut pixels).unwrap();
        assert_eq!(pixels.as_slice(), [[9, 8, 7]; 49].as_flattened());
    }

    #[test]
    fn outside_of_the_first_frame_is_what_pillow_has_there() {
        // (transparent index, own palette, what Pillow 13.0 has outside)
        for (transparent, local, outside) in
            [(None, false, 10), (Some(0), false, 10), (Some(2), false, 30), (None, true, 110), (Some(3), true, 140)]
        {
            let bytes = file(transparent, local);
            let header = header(&bytes).unwrap();
            assert_eq!((header.width, header.height), (6, 5));
            let mut pixels = [0; 90];
            Gif::default().decode(&bytes, &header, Scale::FULL, Region::whole(&header), &mut pixels).unwrap();
            let first = if local { 110 } else { 10 };
            let inside = [[1, 2, 3], [0, 2, 1]].map(|row: [u8; 3]| row.map(|index| first + 10 * index));
            let expected: Vec<u8> = (0..30)
                .flat_map(|at: usize| {
                    let (x, y) = (at % 6, at / 6);
                    [if (2..5).contains(&x) && (1..3).contains(&y) { inside[y - 1][x - 2] } else { outside }; 3]
                })
                .collect();
            assert_eq!(pixels.as_slice(), expected, "{transparent:?}, {local}");
        }
    }
}
