//! Image files to pixels to numbers.
//!
//! [`options`] says what is wanted; [`container`] finds format, size and orientation in a file's header and checks that
//! the file is whole; [`jpeg`] and [`other`] decode 8-bit RGB pixels behind [`DecodeImage`]; [`resize`] and [`pixels`]
//! bring them to the wanted size and order; [`ImageWork`] is the way through all of them.

mod container;
mod jpeg;
mod options;
mod other;
mod pixels;
mod resize;
mod work;

use crate::error::{Error, ErrorKind, Result};

pub(crate) use container::header;
pub use options::{CropFit, ImageColour, ImageOptions, JpegDecoder, LabelFormat, PixelOrder};
pub(crate) use work::ImageWork;

/// The formats that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ImageFormat {
    Jpeg,
    Png,
    WebP,
    Bmp,
    Gif,
    Tiff,
}

impl ImageFormat {
    /// The format whose magic bytes a file starts with; its name plays no part.
    pub(crate) fn of_content(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            [b'B', b'M', ..] => Some(Self::Bmp),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(Self::Tiff),
            _ => None,
        }
    }

    /// The format that a file's extension stands for, in any case.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        let matches = |names: &[&str]| names.iter().any(|name| extension.eq_ignore_ascii_case(name));
        match () {
            () if matches(&["jpg", "jpeg"]) => Some(Self::Jpeg),
            () if matches(&["png"]) => Some(Self::Png),
            () if matches(&["webp"]) => Some(Self::WebP),
            () if matches(&["bmp"]) => Some(Self::Bmp),
            () if matches(&["gif"]) => Some(Self::Gif),
            () if matches(&["tif", "tiff"]) => Some(Self::Tiff),
            () => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::WebP => "webp",
            Self::Bmp => "bmp",
            Self::Gif => "gif",
            Self::Tiff => "tiff",
        }
    }
}

/// How a stored image must be turned to stand upright: EXIF's orientation, taken apart. The upright pixel (x, y) is the
/// stored one at (x, y), with x and y exchanged if `swap`, then counted from the other side where `flip_x`, `flip_y`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orientation {
    pub(crate) swap: bool,
    pub(crate) flip_x: bool,
    pub(crate) flip_y: bool,
}

impl Orientation {
    /// From the value of EXIF's tag 0x0112; what is not 1 to 8 means upright.
    pub(crate) fn from_exif(value: u8) -> Self {
        Self {
            swap: matches!(value, 5..=8),
            flip_x: matches!(value, 2 | 3 | 7 | 8),
            flip_y: matches!(value, 3 | 4 | 6 | 7),
        }
    }

    /// The value of EXIF's tag, 1 to 8.
    pub(crate) fn to_exif(self) -> u8 {
        (1..=8).find(|value| Self::from_exif(*value) == self).unwrap_or(1)
    }

    pub(crate) fn is_upright(self) -> bool {
        self == Self::default()
    }

    /// Width and height exchanged where turning exchanges them (both ways round).
    pub(crate) fn turn(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.swap { (height, width) } else { (width, height) }
    }
}

/// Longest side of an image. Resizing needs memory in proportion to each side, however few pixels there are.
const MAX_SIDE: u32 = 1 << 20;

/// What a file's header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) format: ImageFormat,
    /// As stored, before turning.
    pub(crate) width: u32,
    /// As stored, before turning.
    pub(crate) height: u32,
    /// Channels as stored: grey 1, with alpha 2, colour (palettes too) 3, with alpha or CMYK 4.
    pub(crate) channels: u8,
    pub(crate) orientation: Orientation,
}

impl Header {
    /// Width and height after turning.
    pub(crate) fn upright_size(&self) -> (u32, u32) {
        self.orientation.turn((self.width, self.height))
    }

    /// Whether the beginning of a file is enough to know the orientation: WebP and TIFF may hold it anywhere.
    pub(crate) fn orientation_is_known(&self) -> bool {
        !matches!(self.format, ImageFormat::WebP | ImageFormat::Tiff)
    }

    /// # Errors
    ///
    /// [`ErrorKind::Limit`] with more pixels than allowed, [`ErrorKind::Format`] without any.
    pub(crate) fn check(&self, max_pixels: u64) -> Result<()> {
        let pixels = u64::from(self.width) * u64::from(self.height);
        if pixels == 0 {
            return Err(Error::new(ErrorKind::Format, format!("{} x {} pixels: no image", self.width, self.height)));
        }
        if pixels > max_pixels {
            let message = format!(
                "{} x {} are {pixels} pixels, more than max_pixels = {max_pixels}; raise it if the file is to be trusted",
                self.width, self.height
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        if self.width.max(self.height) > MAX_SIDE {
            let message = format!("{} x {} pixels; a side may have {MAX_SIDE}", self.width, self.height);
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }
}

/// A box of an image as stored, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Region {
    pub(crate) fn whole(header: &Header) -> Self {
        Self { x: 0, y: 0, width: header.width, height: header.height }
    }

    /// Bytes of its pixels as 8-bit RGB.
    fn bytes(&self) -> usize {
        self.width as usize * self.height as usize * 3
    }
}

/// A way to decode the pixels of some formats.
pub(crate) trait DecodeImage: Send {
    /// Decodes the pixels in `region` as 8-bit RGB, row by row without gaps, into `into`, which has exactly their bytes
    /// and is reused from image to image. Alpha is dropped, not blended. The file is known to be whole, and its size was
    /// checked.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for whatever the decoder would otherwise patch up or warn about.
    fn decode(&mut self, bytes: &[u8], header: &Header, region: Region, into: &mut [u8]) -> Result<()>;
}

/// The decoders that a worker keeps.
#[derive(Default)]
pub(crate) struct Decoders {
    turbo: jpeg::LibjpegTurbo,
    zune: jpeg::Zune,
    other: other::ImageCrate,
}

impl Decoders {
    /// The decoder for `format`.
    pub(crate) fn of(&mut self, format: ImageFormat, jpeg: JpegDecoder) -> &mut dyn DecodeImage {
        match (format, jpeg) {
            (ImageFormat::Jpeg, JpegDecoder::LibjpegTurbo) => &mut self.turbo,
            (ImageFormat::Jpeg, JpegDecoder::Zune) => &mut self.zune,
            _ => &mut self.other,
        }
    }
}

/// Copies `region` out of the whole image in `from`.
fn copy_region(from: &[u8], width: u32, region: Region, into: &mut [u8]) {
    let row = region.width as usize * 3;
    let rows = from.chunks_exact(width as usize * 3).skip(region.y as usize);
    for (into, from) in into.chunks_exact_mut(row).zip(rows) {
        into.copy_from_slice(&from[region.x as usize * 3..][..row]);
    }
}

/// Makes `buffer` `len` long without promising anything about what it holds.
fn resize_buffer(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    // Only what lies beyond the longest use so far is written here.
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_cut_from_the_whole_by_every_decoder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/");
        for (name, jpeg) in [
            ("photos/china.jpg", JpegDecoder::LibjpegTurbo),
            ("photos/china.jpg", JpegDecoder::Zune),
            ("images/progressive.jpg", JpegDecoder::LibjpegTurbo),
            ("images/cmyk.jpg", JpegDecoder::LibjpegTurbo),
            ("images/ycck.jpg", JpegDecoder::LibjpegTurbo),
            ("images/grey.jpg", JpegDecoder::LibjpegTurbo),
            ("photos/chelsea.png", JpegDecoder::LibjpegTurbo),
        ] {
            let bytes = std::fs::read(format!("{folder}{name}")).unwrap();
            let header = header(&bytes).unwrap();
            let mut decoders = Decoders::default();
            let decoder = decoders.of(header.format, jpeg);
            let mut whole = vec![0; Region::whole(&header).bytes()];
            decoder.decode(&bytes, &header, Region::whole(&header), &mut whole).unwrap();
            let (width, height) = (header.width, header.height);
            for region in [
                Region { x: 0, y: 0, width: 5, height: 7 },
                Region { x: width / 3, y: height / 3, width: width / 2, height: height / 2 },
                Region { x: width - 3, y: height - 2, width: 3, height: 2 },
            ] {
                let mut expected = vec![0; region.bytes()];
                copy_region(&whole, width, region, &mut expected);
                let mut cut = vec![0xaa; region.bytes()];
                decoder.decode(&bytes, &header, region, &mut cut).unwrap();
                // libjpeg interpolates colour without the neighbours that it left out, at the edges of a region.
                let differing = cut.iter().zip(&expected).filter(|(a, b)| a.abs_diff(**b) > 24).count();
                assert!(differing * 50 <= cut.len(), "{name} {region:?}: {differing} of {}", cut.len());
                if header.format != ImageFormat::Jpeg {
                    assert_eq!(cut, expected);
                }
            }
        }
    }

    #[test]
    fn orientation_round_trips_and_unknown_values_are_upright() {
        for value in 1..=8 {
            assert_eq!(Orientation::from_exif(value).to_exif(), value);
        }
        assert!(Orientation::from_exif(0).is_upright() && Orientation::from_exif(9).is_upright());
    }
}
