//! Image files to pixels to numbers.
//!
//! [`options`] says what is wanted; [`container`] finds format, size and orientation in a file's header and checks that
//! the file is whole; [`jpeg`] (with [`baseline`] and
//! [`complete`], decoders of our own) and [`other`] decode 8-bit RGB pixels behind [`DecodeImage`]; [`resize`] and [`pixels`]
//! bring them to the wanted size and order; [`augment`] names the random operations, which [`boxes`], [`colour`] and
//! [`rotate`] carry out; [`ImageWork`] is the way through all of them.

mod augment;
mod baseline;
mod bmp;
mod boxes;
mod colour;
mod complete;
mod container;
mod gif;
mod jpeg;
mod map;
mod options;
mod other;
mod pixels;
mod png;
mod pnm;
mod resize;
mod rotate;
mod samples;
mod tiff;
#[cfg(feature = "turbojpeg")]
mod turbojpeg;
mod work;

use crate::counters::Damages;
use crate::error::{Error, ErrorKind, Result};

pub use augment::{ImageAugment, Interpolation};
pub(crate) use container::header;
pub use options::{CropFit, ImageColour, ImageOptions, JpegDecoder, LabelFormat, PixelOrder};
pub(crate) use pixels::{Rows, write_rounded};
pub(crate) use work::{ImageWork, write_image};

/// The formats that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ImageFormat {
    Jpeg,
    Png,
    WebP,
    Bmp,
    Gif,
    Tiff,
    Pnm,
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
            _ => pnm::begins(bytes).then_some(Self::Pnm),
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
            () if matches(&["pbm", "pgm", "ppm", "pnm"]) => Some(Self::Pnm),
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
            Self::Pnm => "pnm",
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

    /// Turned upright, then left and right exchanged.
    fn mirrored(self) -> Self {
        // Where x and y are exchanged, a step along the upright row is one along a stored column.
        if self.swap { Self { flip_y: !self.flip_y, ..self } } else { Self { flip_x: !self.flip_x, ..self } }
    }

    /// Turned upright, then top and bottom exchanged.
    fn upside_down(self) -> Self {
        if self.swap { Self { flip_x: !self.flip_x, ..self } } else { Self { flip_y: !self.flip_y, ..self } }
    }

    /// The box of a stored image of `width` x `height` that becomes `upright`, a box of the upright one.
    fn stored(self, upright: Region, (width, height): (u32, u32)) -> Region {
        let Region { x, y, width: box_width, height: box_height } = upright;
        let (x, y) = if self.swap { (y, x) } else { (x, y) };
        let (box_width, box_height) = self.turn((box_width, box_height));
        Region {
            x: if self.flip_x { width - x - box_width } else { x },
            y: if self.flip_y { height - y - box_height } else { y },
            width: box_width,
            height: box_height,
        }
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
    /// Whether all of it has to be kept until its last pixel is known: a JPEG in several scans.
    pub(crate) in_scans: bool,
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

    pub(crate) fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Bytes of its pixels as 8-bit RGB.
    fn bytes(&self) -> usize {
        self.width as usize * self.height as usize * 3
    }

    /// The same part of the image at `scale`, its edges rounded to whole pixels.
    fn at(&self, scale: Scale, header: &Header) -> Self {
        let edges = |start: u32, length: u32, side: u32| {
            let shrunk = scale.of(side);
            let ratio = f64::from(shrunk) / f64::from(side);
            let start = ((f64::from(start) * ratio).round() as u32).min(shrunk - 1);
            (start, ((f64::from(length) * ratio).round() as u32).clamp(1, shrunk - start))
        };
        let (x, width) = edges(self.x, self.width, header.width);
        let (y, height) = edges(self.y, self.height, header.height);
        Self { x, y, width, height }
    }

    /// With `margin` more pixels on each side, as far as the image goes.
    fn with_margin(&self, margin: u32, header: &Header) -> Self {
        let (x, y) = (self.x.saturating_sub(margin), self.y.saturating_sub(margin));
        let width = (self.x + self.width).saturating_add(margin).min(header.width) - x;
        let height = (self.y + self.height).saturating_add(margin).min(header.height) - y;
        Self { x, y, width, height }
    }
}

/// How much smaller an image is made while it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale(u32);

impl Scale {
    /// Not at all.
    pub(crate) const FULL: Self = Self(8);

    /// The smallest that leaves `from` pixels at least `to` pixels, width and height each.
    fn least(from: (f64, f64), to: (u32, u32)) -> Self {
        let covers = |eighths: u32| {
            let shrunk = |side: f64| side * f64::from(eighths) / 8.0;
            shrunk(from.0) >= f64::from(to.0) && shrunk(from.1) >= f64::from(to.1)
        };
        Self([1, 2, 4].into_iter().find(|eighths| covers(*eighths)).unwrap_or(8))
    }

    /// Eighths of the size that are left.
    #[cfg_attr(not(feature = "turbojpeg"), expect(dead_code, reason = "asked by the decoder that can shrink"))]
    pub(crate) fn eighths(self) -> u32 {
        self.0
    }

    /// What is left of `side` pixels.
    pub(crate) fn of(self, side: u32) -> u32 {
        (u64::from(side) * u64::from(self.0)).div_ceil(8) as u32
    }
}

/// A way to decode the pixels of some formats.
pub(crate) trait DecodeImage: Send {
    /// Decodes the pixels in `region` of a grey image as one byte each. False if it can't: whatever the reason, `decode`
    /// will tell.
    fn decode_grey(&mut self, bytes: &[u8], region: Region, into: &mut [u8]) -> bool {
        let _ = (bytes, region, into);
        false
    }

    /// Decodes the pixels in `region`, a box of the image at `scale`, as 8-bit RGB, row by row without gaps, into `into`, which has exactly their bytes
    /// and is reused from image to image. Alpha is dropped, not blended. The file is known to be whole, and its size was
    /// checked.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for whatever the decoder would otherwise patch up or warn about.
    fn decode(&mut self, bytes: &[u8], header: &Header, scale: Scale, region: Region, into: &mut [u8]) -> Result<()>;
}

/// The decoders that a worker keeps.
#[derive(Default)]
pub(crate) struct Decoders {
    auto: jpeg::Auto,
    turbo: jpeg::LibjpegTurbo,
    #[cfg(feature = "turbojpeg")]
    c: turbojpeg::TurboJpeg,
    png: png::Png,
    bmp: bmp::Bmp,
    gif: gif::Gif,
    pnm: pnm::Pnm,
    other: other::ImageCrate,
}

impl Decoders {
    /// What is wrong with the image that was decoded last, or refused for it.
    pub(crate) fn damages(&self) -> Damages {
        self.auto.damages()
    }

    /// The decoder for `format`.
    pub(crate) fn of(&mut self, format: ImageFormat, jpeg: JpegDecoder) -> &mut dyn DecodeImage {
        match (format, jpeg) {
            (ImageFormat::Jpeg, JpegDecoder::Auto) => &mut self.auto,
            (ImageFormat::Jpeg, JpegDecoder::LibjpegTurbo) => &mut self.turbo,
            #[cfg(feature = "turbojpeg")]
            (ImageFormat::Jpeg, JpegDecoder::TurboJpeg) => &mut self.c,
            (ImageFormat::Png, _) => &mut self.png,
            (ImageFormat::Bmp, _) => &mut self.bmp,
            (ImageFormat::Gif, _) => &mut self.gif,
            (ImageFormat::Pnm, _) => &mut self.pnm,
            _ => &mut self.other,
        }
    }

    /// Whether the decoder can shrink while it decodes.
    fn can_scale(format: ImageFormat, jpeg: JpegDecoder) -> bool {
        let is_jpeg = format == ImageFormat::Jpeg && matches!(jpeg, JpegDecoder::Auto | JpegDecoder::TurboJpeg);
        is_jpeg && cfg!(feature = "turbojpeg")
    }

    /// Most bytes that a decoder holds to decode `region`, beside the region's pixels.
    fn memory(header: &Header, region: Region) -> u64 {
        let whole = Region::whole(header).pixels();
        // Some decode the whole image first, and cut the region out of it.
        let cut = if region == Region::whole(header) { 0 } else { 3 };
        match header.format {
            ImageFormat::Jpeg => jpeg::memory(header) + cut * whole,
            // Row by row.
            ImageFormat::Png | ImageFormat::Bmp | ImageFormat::Gif | ImageFormat::Pnm => 0,
            // What the library holds, and what it gives: with alpha, and 16 bits in TIFF.
            ImageFormat::WebP => (11 + cut) * whole,
            ImageFormat::Tiff => (32 + cut) * whole,
        }
    }

    /// Reads the values of a segmentation map as they are stored.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a file that is damaged or no map.
    fn read_map(&mut self, bytes: &[u8], header: &Header, map: &mut map::Map) -> Result<()> {
        match header.format {
            ImageFormat::Png => self.png.read_map(bytes, header, map),
            ImageFormat::Gif => self.gif.read_map(bytes, header, map),
            ImageFormat::Pnm => self.pnm.read_map(bytes, header, map),
            ImageFormat::Bmp => bmp::read_map(bytes, header, map),
            ImageFormat::Tiff => self.other.read_map(bytes, header, map),
            ImageFormat::Jpeg | ImageFormat::WebP => Err(map::not_a_map(header)),
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
    if buffer.len() < len {
        // Given back first, so that both are never held at once, and no longer than asked for.
        *buffer = Vec::new();
        *buffer = vec![0; len];
    }
    &mut buffer[..len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomKey;

    /// Compares decoded regions with those cut from the whole image, box by box.
    fn check_regions(what: &str, bytes: &[u8], jpeg: JpegDecoder) {
        let header = header(bytes).unwrap();
        let mut decoders = Decoders::default();
        let decoder = decoders.of(header.format, jpeg);
        let mut whole = vec![0; Region::whole(&header).bytes()];
        decoder.decode(bytes, &header, Scale::FULL, Region::whole(&header), &mut whole).unwrap();
        let key = RandomKey::new(5);
        for index in 0..24 {
            // Side and place each from 1 pixel up to everything; small boxes too, and those at the edges.
            let draw = |counter: u64, most: u32| (key.with(index).bits(counter) % u64::from(most)) as u32;
            let shrink = [1, 2, 8][index as usize % 3];
            let width = 1 + draw(0, header.width.div_ceil(shrink));
            let height = 1 + draw(1, header.height.div_ceil(shrink));
            let x = draw(2, header.width - width + 1);
            let y = if index % 5 == 0 { header.height - height } else { draw(3, header.height - height + 1) };
            let region = Region { x, y, width, height };
            let mut expected = vec![0; region.bytes()];
            copy_region(&whole, header.width, region, &mut expected);
            let mut cut = vec![0xaa; region.bytes()];
            decoder.decode(bytes, &header, Scale::FULL, region, &mut cut).unwrap();
            let differing = cut.iter().zip(&expected).filter(|(a, b)| a != b).count();
            assert_eq!(differing, 0, "{what} {region:?}: {differing} bytes of {}", cut.len());
        }
    }

    #[test]
    fn a_region_is_cut_from_the_whole_by_every_decoder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/");
        let mut names: Vec<String> = ["images", "photos"]
            .iter()
            .flat_map(|part| std::fs::read_dir(format!("{folder}{part}")).unwrap())
            .map(|entry| entry.unwrap().path().display().to_string())
            .filter(|name| name.ends_with(".jpg"))
            .collect();
        names.sort();
        assert!(names.len() > 10);
        for name in &names {
            let bytes = std::fs::read(name).unwrap();
            for jpeg in [JpegDecoder::Auto, JpegDecoder::LibjpegTurbo] {
                check_regions(name, &bytes, jpeg);
            }
            #[cfg(feature = "turbojpeg")]
            if header(&bytes).unwrap().channels != 4 {
                check_regions(name, &bytes, JpegDecoder::TurboJpeg);
            }
        }
        let mut others = 0;
        for entry in ["images", "maps"].iter().flat_map(|part| std::fs::read_dir(format!("{folder}{part}")).unwrap()) {
            let name = entry.unwrap().path();
            let bytes = std::fs::read(&name).unwrap();
            if ImageFormat::of_content(&bytes).is_some_and(|format| format != ImageFormat::Jpeg) {
                check_regions(&name.display().to_string(), &bytes, JpegDecoder::Auto);
                others += 1;
            }
        }
        assert!(others > 50, "{others}");
    }

    #[test]
    fn a_region_is_cut_from_the_whole_with_every_kind_of_jpeg() {
        use libjpeg_turbo_rs::{Encoder, PixelFormat, Subsampling};

        let (width, height) = (237, 171);
        let key = RandomKey::new(1);
        // Colour that changes from pixel to pixel: its interpolation shows at the edges of a region.
        let pixels: Vec<u8> = (0..width * height * 3)
            .map(|i| (i % (width * 3) / 3 + i / (width * 5)) as u8 ^ key.bits(i as u64) as u8 & 63)
            .collect();
        for subsampling in [
            Subsampling::S444,
            Subsampling::S422,
            Subsampling::S420,
            Subsampling::S440,
            Subsampling::S411,
            Subsampling::S441,
            Subsampling::S410,
        ] {
            for (progressive, restart) in [(false, 0), (true, 0), (false, 2)] {
                let encoder = Encoder::new(&pixels, width, height, PixelFormat::Rgb).quality(90);
                let encoder = encoder.subsampling(subsampling).progressive(progressive).restart_rows(restart);
                let what = format!("{subsampling:?}, progressive: {progressive}, restarts: {restart}");
                let bytes = encoder.encode().unwrap();
                check_regions(&what, &bytes, JpegDecoder::LibjpegTurbo);
                #[cfg(feature = "turbojpeg")]
                check_regions(&what, &bytes, JpegDecoder::TurboJpeg);
            }
        }
    }

    #[cfg(feature = "turbojpeg")]
    #[test]
    fn c_gives_the_same_pixels_and_its_regions_are_cut_from_the_whole_at_every_scale() {
        for name in ["china.jpg", "flower.jpg"] {
            let path = format!("{}/fixtures/photos/{name}", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(path).unwrap();
            let header = header(&bytes).unwrap();
            let mut decoders = Decoders::default();
            let mut decode = |jpeg, scale, region: Region| {
                let mut into = vec![0; region.bytes()];
                decoders.of(header.format, jpeg).decode(&bytes, &header, scale, region, &mut into).unwrap();
                into
            };
            let whole = Region::whole(&header);
            let full = decode(JpegDecoder::TurboJpeg, Scale::FULL, whole);
            assert!(full == decode(JpegDecoder::LibjpegTurbo, Scale::FULL, whole), "{name}");
            for (nth, eighths) in [1, 2, 4].into_iter().enumerate() {
                let scale = Scale(eighths);
                let shrunk = whole.at(scale, &header);
                let all = decode(JpegDecoder::TurboJpeg, scale, shrunk);
                for index in 0..10 {
                    let key = RandomKey::new(nth as u64).with(index);
                    let draw = |counter: u64, most: u32| (key.bits(counter) % u64::from(most)) as u32;
                    let (width, height) = (1 + draw(0, shrunk.width), 1 + draw(1, shrunk.height));
                    let (x, y) = (draw(2, shrunk.width - width + 1), draw(3, shrunk.height - height + 1));
                    let region = Region { x, y, width, height };
                    let mut expected = vec![0; region.bytes()];
                    copy_region(&all, shrunk.width, region, &mut expected);
                    assert!(decode(JpegDecoder::Auto, scale, region) == expected, "{name} {eighths}/8 {region:?}");
                }
            }
        }
    }

    #[test]
    fn damage_outside_of_a_region_is_seen_too() {
        let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/photos/china.jpg")).unwrap();
        let header = header(&bytes).unwrap();
        let refused = |bytes: &[u8], region: Region| {
            let mut into = vec![0; region.bytes()];
            Decoders::default()
                .of(header.format, JpegDecoder::LibjpegTurbo)
                .decode(bytes, &header, Scale::FULL, region, &mut into)
                .is_err()
        };
        let top = Region { x: 0, y: 0, width: 100, height: 100 };
        let bottom = Region { x: 500, y: 300, width: 100, height: 100 };
        for at in [bytes.len() / 4, bytes.len() / 2, bytes.len() / 8 * 7] {
            let mut marker = bytes.clone();
            marker[at..at + 2].copy_from_slice(&[0xff, 0xd9]);
            let mut restart = bytes.clone();
            restart[at..at + 2].copy_from_slice(&[0xff, 0xd3]);
            let gap = [&bytes[..at], &bytes[at + 3000..]].concat();
            for (what, damaged) in [("marker", &marker), ("restart", &restart), ("gap", &gap)] {
                assert!(refused(damaged, Region::whole(&header)), "{what} at {at}");
                assert!(refused(damaged, top) && refused(damaged, bottom), "{what} at {at}, in a region");
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
