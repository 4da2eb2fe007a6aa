use std::io::Cursor;

use image::metadata::Orientation as Exif;
use image::{ColorType, ExtendedColorType, ImageDecoder, ImageError, ImageReader, Limits};

use super::decoder::{DecodeImage, copy_region, held, resize_buffer};
use super::map::{self, Map};
use super::samples::{level, print, spread};
use super::stored::{Header, ImageFormat, Orientation, Region, Scale};
use super::tiff;
use super::tiff_jpeg::{self, Colours};
use super::tiff_tags::{Tags, damaged, unsupported};
use crate::error::{Error, ErrorKind, Result};

/// What a decoder may allocate in addition to its pixels: colour profiles, palettes, tables.
const SIDE_BYTES: u64 = 64 << 20;

/// WebP and TIFF (the first page), by the `image` crate, which decodes only whole images.
#[derive(Default)]
pub(super) struct ImageCrate {
    /// The decoded pixels, if they are not 8-bit RGB.
    stored: Vec<u8>,
    whole: Vec<u8>,
    jpeg: tiff_jpeg::Parts,
}

impl ImageCrate {
    /// Bytes of memory.
    pub(super) fn held(&self) -> u64 {
        held(&self.stored) + held(&self.whole) + self.jpeg.held()
    }
}

fn open(bytes: &[u8], format: ImageFormat, max_alloc: u64) -> Result<impl ImageDecoder> {
    let known = match format {
        ImageFormat::Png => image::ImageFormat::Png,
        ImageFormat::WebP => image::ImageFormat::WebP,
        ImageFormat::Gif => image::ImageFormat::Gif,
        ImageFormat::Tiff => image::ImageFormat::Tiff,
        ImageFormat::Jpeg | ImageFormat::Bmp | ImageFormat::Pnm => {
            return Err(Error::new(
                ErrorKind::Format,
                format!("a {}, which has a decoder of its own", format.as_str()),
            ));
        }
    };
    let mut limits = Limits::default();
    limits.max_alloc = Some(max_alloc);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), known);
    reader.limits(limits);
    reader.into_decoder().map_err(|error| image_error(bytes, format, error))
}

#[cold]
fn image_error(bytes: &[u8], format: ImageFormat, error: ImageError) -> Error {
    let format = format.as_str();
    let (kind, message) = match error {
        ImageError::Unsupported(_) if format == "tiff" => (ErrorKind::Format, unsupported(bytes)),
        ImageError::Limits(_) => (ErrorKind::Limit, format!("a {format} image that is too large: {error}")),
        _ => (ErrorKind::Format, format!("damaged or unsupported {format}: {error}")),
    };
    Error::new(kind, message).with_source(error)
}

/// Reads the header alone.
pub(super) fn header(bytes: &[u8], format: ImageFormat) -> Result<Header> {
    let mut decoder = open(bytes, format, SIDE_BYTES)?;
    let (width, height) = decoder.dimensions();
    let channels = match (format, decoder.original_color_type(), decoder.color_type()) {
        // It has a palette of colours; for transparency, the decoder adds alpha.
        (ImageFormat::Gif, ..) => 3,
        (_, ExtendedColorType::Cmyk8 | ExtendedColorType::Cmyk16, _) => 4,
        (.., colour) => colour.channel_count(),
    };
    // The pixels can be used even if an EXIF block is damaged or unusual.
    let exif = marked_orientation(&mut decoder).or_else(|| decoder.orientation().ok());
    let orientation = exif.map(|exif| Orientation::from_exif(exif.to_exif())).unwrap_or_default();
    Ok(Header { format, width, height, channels, orientation, in_scans: false })
}

/// Most bytes that decoding a whole WebP takes, in addition to its pixels.
pub(super) fn webp_memory(header: &Header, bytes: &[u8]) -> u64 {
    // The first chunk that says how pixels are stored, in an animation that of all frames.
    let mut at = 12;
    let kind = loop {
        let Some((name, len)) = bytes
            .get(at..)
            .and_then(|rest| rest.split_first_chunk::<4>())
            .and_then(|(name, rest)| Some((name, u32::from_le_bytes(*rest.first_chunk()?))))
        else {
            break None;
        };
        if matches!(name, b"VP8 " | b"VP8L" | b"ALPH" | b"ANIM" | b"ANMF") {
            break Some(name);
        }
        at = at.saturating_add(8).saturating_add((len as usize).saturating_add(1) & !1);
    };
    // Macroblocks have 16 x 16 pixels.
    let side = |side: u32| u64::from(side.next_multiple_of(16));
    let pixels = side(header.width) * side(header.height);
    match kind {
        // Two planes of a quarter, and one of the whole size.
        Some(b"VP8 ") if header.channels == 3 => pixels * 5 / 2,
        // Pixels with alpha, from which the others are taken; a block of them may have a colour of its own.
        Some(b"VP8L") => 5 * pixels,
        _ => 11 * pixels,
    }
}

/// The orientation in an EXIF block that begins with JPEG's mark. Pillow writes such blocks into WebP files, and the
/// `image` crate can't read them.
fn marked_orientation(decoder: &mut impl ImageDecoder) -> Option<Exif> {
    Exif::from_exif_chunk(decoder.exif_metadata().ok()??.strip_prefix(b"Exif\0\0")?)
}

impl ImageCrate {
    /// Grey values as Pillow has them: those of 1 bit are 0 and 1, and those of 16 bits are as stored, even if 0 is
    /// white.
    pub(super) fn read_map(&mut self, bytes: &[u8], header: &Header, map: &mut Map) -> Result<()> {
        if let Some(colours) = tiff_jpeg::colours(bytes)? {
            let inverted = match colours {
                Colours::Grey { is_white_zero: true } => 255,
                Colours::Grey { is_white_zero: false } | Colours::Palette => 0,
                _ => return Err(map::not_a_map(header)),
            };
            let values = map.stored_mut(header);
            let stored = resize_buffer(&mut self.stored, values.len());
            self.jpeg.decode(bytes, header, colours, Region::whole(header), stored)?;
            values.iter_mut().zip(stored).for_each(|(into, value)| *into = u16::from(*value ^ inverted));
            return Ok(());
        }
        let bytes = &*tiff::highest_bits_first(bytes)?;
        if let Some(read) = tiff::read_map(bytes, header, map) {
            return read;
        }
        tiff::check(bytes)?;
        let decoder = open(bytes, header.format, u64::MAX)?;
        let kind = decoder.original_color_type();
        let sample = match (kind, decoder.color_type()) {
            (ExtendedColorType::L1 | ExtendedColorType::L8, ColorType::L8) => 1,
            (ExtendedColorType::L16, ColorType::L16) => 2,
            _ => return Err(map::not_a_map(header)),
        };
        let inverted = if sample == 2 && tiff::is_white_zero(bytes) { u16::MAX } else { 0 };
        let values = map.stored_mut(header);
        let stored = resize_buffer(&mut self.stored, sample * values.len());
        decoder.read_image(stored).map_err(|error| image_error(bytes, header.format, error))?;
        for (into, value) in values.iter_mut().zip(stored.chunks_exact(sample)) {
            *into = match *value {
                [low, high] => u16::from_ne_bytes([low, high]) ^ inverted,
                [bit] if kind == ExtendedColorType::L1 => u16::from(bit != 0),
                _ => value[0].into(),
            };
        }
        Ok(())
    }
}

impl ImageCrate {
    fn decode_jpeg(
        &mut self,
        bytes: &[u8],
        header: &Header,
        colours: Colours,
        region: Region,
        into: &mut [u8],
    ) -> Result<()> {
        if matches!(colours, Colours::Rgb | Colours::YCbCr) {
            return self.jpeg.decode(bytes, header, colours, region, into);
        }
        let stored = resize_buffer(&mut self.stored, colours.samples() * region.pixels() as usize);
        self.jpeg.decode(bytes, header, colours, region, stored)?;
        let (rgb, _) = into.as_chunks_mut::<3>();
        match colours {
            Colours::Grey { is_white_zero: true } => spread(stored, 1, rgb, |[value]| 255 - value),
            Colours::Palette => {
                let tags = Tags::read(bytes).ok_or_else(|| damaged("its tags are cut off"))?;
                let palette = tiff::palette(&tags)?;
                rgb.iter_mut().zip(stored).for_each(|(pixel, index)| *pixel = palette[usize::from(*index)]);
            }
            Colours::Cmyk => print(stored, rgb),
            Colours::Rgba { is_premultiplied } => {
                if is_premultiplied {
                    divide_by_alpha(stored, ColorType::Rgba8);
                }
                spread(stored, 4, rgb, |[value]| value);
            }
            _ => spread(stored, colours.samples(), rgb, |[value]| value),
        }
        Ok(())
    }
}

impl DecodeImage for ImageCrate {
    fn decode(&mut self, bytes: &[u8], header: &Header, _: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        if header.format == ImageFormat::Tiff
            && let Some(colours) = tiff_jpeg::colours(bytes)?
        {
            return self.decode_jpeg(bytes, header, colours, region, into);
        }
        let bytes = &*tiff::highest_bits_first(bytes)?;
        if header.format == ImageFormat::Tiff
            && let Some(decoded) = tiff::decode(bytes, header, region, into)
        {
            return decoded;
        }
        tiff::check(bytes)?;
        if region != Region::whole(header) {
            let mut whole = std::mem::take(&mut self.whole);
            let pixels = resize_buffer(&mut whole, Region::whole(header).bytes());
            let result = self.decode(bytes, header, Scale::FULL, Region::whole(header), pixels);
            copy_region(pixels, header.width, region, into);
            self.whole = whole;
            return result;
        }
        // Decoders write into the given buffer or first into their own; the widest pixel has 16 bytes.
        let pixels = u64::from(header.width) * u64::from(header.height);
        let bytes = &*tiff::with_fourth_kept(bytes);
        let decoder = open(bytes, header.format, pixels.saturating_mul(32).saturating_add(SIDE_BYTES))?;
        let colour = decoder.color_type();
        if decoder.dimensions() != (header.width, header.height) {
            return Err(Error::new(ErrorKind::Format, "two headers disagree on the image's size"));
        }
        if decoder.original_color_type() == ExtendedColorType::Cmyk8 {
            return tiff::decode_inks(bytes, into);
        }
        let error = |error| image_error(bytes, header.format, error);
        if colour == ColorType::Rgb8 {
            decoder.read_image(into).map_err(error)?;
        } else {
            let len = usize::try_from(decoder.total_bytes()).map_err(|_| {
                Error::new(ErrorKind::Limit, format!("{} bytes of pixels do not fit memory", decoder.total_bytes()))
            })?;
            let stored = resize_buffer(&mut self.stored, len);
            decoder.read_image(stored).map_err(error)?;
            if header.format == ImageFormat::Tiff && tiff::has_premultiplied_colours(bytes) {
                divide_by_alpha(stored, colour);
            }
            to_rgb(stored, colour, into)?;
        }
        Ok(())
    }
}

/// Turns colours that were multiplied by their opacity into what they were, rounded down as in Pillow.
fn divide_by_alpha(stored: &mut [u8], colour: ColorType) {
    match colour {
        ColorType::Rgba8 => divide(stored, 255.0, |[x]| x.into(), |whole| [whole as u8]),
        ColorType::Rgba16 => {
            let get = |bytes| u16::from_ne_bytes(bytes).into();
            divide(stored, 65535.0, get, |whole| (whole as u16).to_ne_bytes());
        }
        ColorType::Rgba32F => {
            let get = |bytes| f32::from_ne_bytes(bytes).into();
            divide(stored, 1.0, get, |whole| (whole as f32).to_ne_bytes());
        }
        _ => {}
    }
}

/// Divides all values of a pixel by its last one, which is `most` where nothing changes. Where it is 0, they become 0.
fn divide<const N: usize>(stored: &mut [u8], most: f64, get: impl Fn([u8; N]) -> f64, put: impl Fn(f64) -> [u8; N]) {
    let (values, _) = stored.as_chunks_mut::<N>();
    for [colours @ .., alpha] in values.as_chunks_mut::<4>().0 {
        let alpha = get(*alpha);
        for value in colours {
            *value = put(if alpha > 0.0 { get(*value) * most / alpha } else { 0.0 });
        }
    }
}

/// Converts pixels of any type to 8-bit RGB; floating point numbers go from 0 to 1.
fn to_rgb(stored: &[u8], colour: ColorType, rgb: &mut [u8]) -> Result<()> {
    let channels = usize::from(colour.channel_count());
    let (rgb, _) = rgb.as_chunks_mut::<3>();
    match colour {
        ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8 => spread(stored, channels, rgb, |[x]| x),
        ColorType::L16 | ColorType::La16 | ColorType::Rgb16 | ColorType::Rgba16 => {
            spread(stored, channels, rgb, |bytes| level(u16::from_ne_bytes(bytes)));
        }
        ColorType::Rgb32F | ColorType::Rgba32F => {
            spread(stored, channels, rgb, |bytes| (f32::from_ne_bytes(bytes).clamp(0.0, 1.0) * 255.0).round() as u8);
        }
        colour => return Err(Error::new(ErrorKind::Format, format!("pixels of type {colour:?} are not supported"))),
    }
    Ok(())
}
