//! TIFF files whose strips or tiles are JPEG data each. The pixels are those of libtiff with libjpeg-turbo, bit for
//! bit. The photometric interpretation alone decides whether colours are converted, whatever markers say. Of the common
//! tables, the parts use only those of quantisation and of Huffman codes. Damage is an error.

use super::complete::{self, Meaning};
use super::decoder::{held, resize_buffer};
use super::jpeg;
use super::jpeg_header::{common_tables, jpeg_header};
use super::stored::{Header, ImageFormat, Orientation, Region};
use super::tiff_tags::{BLACK_IS_ZERO, CMYK, JPEG, PALETTE, RGB, Tags, WHITE_IS_ZERO, YCBCR, damaged, unsupported};
use crate::error::{Error, ErrorKind, Result};

const START: &[u8] = &[0xff, 0xd8];

/// The longest side of JPEG data.
const LONGEST: u32 = 65_535;

/// Room for files whose tiles are much larger than the picture.
const ROOM: u64 = 1 << 24;

/// What the samples of a file mean, as far as they are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    Grey { is_white_zero: bool },
    Palette,
    Rgb,
    Rgba { is_premultiplied: bool },
    Cmyk,
    YCbCr,
}

impl Colours {
    fn of(tags: &Tags<'_>) -> Option<Self> {
        if tags.bits() != 8 || !matches!(tags.number(339), None | Some(1)) {
            return None;
        }
        match (tags.photometric()?, tags.samples()) {
            (WHITE_IS_ZERO, 1) => Some(Self::Grey { is_white_zero: true }),
            (BLACK_IS_ZERO, 1) => Some(Self::Grey { is_white_zero: false }),
            (PALETTE, 1) => Some(Self::Palette),
            (RGB, 3) => Some(Self::Rgb),
            (RGB, 4) => Some(Self::Rgba { is_premultiplied: tags.number(338) == Some(1) }),
            (CMYK, 4) => Some(Self::Cmyk),
            (YCBCR, 3) if !tags.is_planar() => Some(Self::YCbCr),
            _ => None,
        }
    }

    /// Bytes of a decoded pixel.
    pub(super) fn samples(self) -> usize {
        match self {
            Self::Grey { .. } | Self::Palette => 1,
            Self::Rgb | Self::YCbCr => 3,
            Self::Rgba { .. } | Self::Cmyk => 4,
        }
    }
}

/// Whether a file has JPEG data in its parts, and what its samples mean.
///
/// # Errors
///
/// [`ErrorKind::Format`] for such a file of a kind that is not decoded.
pub(super) fn colours(bytes: &[u8]) -> Result<Option<Colours>> {
    let Some(tags) = Tags::read(bytes).filter(|tags| tags.number(259) == Some(JPEG)) else { return Ok(None) };
    match Colours::of(&tags) {
        None => Err(Error::new(ErrorKind::Format, unsupported(bytes))),
        colours => Ok(colours),
    }
}

/// The header of a file that is decoded here.
pub(super) fn header(tags: &Tags<'_>) -> Option<Header> {
    let colours = Colours::of(tags).filter(|_| tags.number(259) == Some(JPEG))?;
    let turned = tags.number(274).and_then(|value| u8::try_from(value).ok());
    Some(Header {
        format: ImageFormat::Tiff,
        width: tags.number(256)?,
        height: tags.number(257)?,
        channels: if colours == Colours::Palette { 3 } else { colours.samples() as u8 },
        orientation: turned.map(Orientation::from_exif).unwrap_or_default(),
        in_scans: false,
    })
}

/// Most bytes that decoding `region` of a file takes, in addition to its pixels; 0 if the file is refused before any
/// are taken.
pub(super) fn memory(tags: &Tags<'_>, header: &Header, region: Region, bytes: &[u8]) -> u64 {
    let (Some(colours), Ok(grid)) = (Colours::of(tags), Grid::of(tags, header)) else { return 0 };
    let tables = tags.bytes(347).map_or(0, |tables| tables.len() as u64);
    let components = if grid.planes > 1 { 1 } else { colours.samples() } as u64;
    let (mut most, mut left) = (0, bytes.len());
    for (nth, (start, length)) in (0..grid.per_plane * grid.planes).zip(tags.parts()) {
        // As in decoding, parts may not overlap: otherwise each could be all of the file.
        let Some(rest) = left.checked_sub(length) else { break };
        left = rest;
        let place = grid.place(nth).1;
        let Some(wanted) = place.common(region) else { continue };
        let Some(part) = bytes.get(start..).and_then(|rest| rest.get(..length)) else { break };
        if checked_size(part, place, components as usize, grid.highest(place)).is_err() {
            break;
        }
        // Behind the tables, the data are a copy. Samples stand alone, if they are not yet in their places.
        let joined = if tables > 0 { length as u64 + tables } else { 0 };
        let is_block = grid.planes == 1 && wanted.width == region.width;
        let samples = if is_block { 0 } else { components * wanted.pixels() };
        most = most.max(jpeg::own_memory(part) + joined + samples);
    }
    // Colours of other numbers of samples than three are made of all of them.
    most + if colours.samples() == 3 { 0 } else { colours.samples() as u64 * region.pixels() }
}

/// How a picture is cut into parts.
struct Grid {
    height: u32,
    /// Most pixels of a part.
    most: u64,
    /// Width and height of a part; a strip's height is that of all but the last one.
    part: (u32, u32),
    is_tiled: bool,
    /// Parts side by side, and in a plane.
    across: u64,
    per_plane: u64,
    planes: u64,
}

impl Grid {
    fn of(tags: &Tags<'_>, header: &Header) -> Result<Self> {
        let Header { width, height, .. } = *header;
        let is_tiled = tags.number(322).is_some();
        let part = if is_tiled {
            tags.number(322).zip(tags.number(323)).filter(|(width, height)| (*width).max(*height) <= LONGEST)
        } else {
            Some((width, tags.number(278).unwrap_or(height).min(height)))
        };
        let part = part.filter(|(width, height)| *width > 0 && *height > 0);
        let part = part.ok_or_else(|| damaged("its parts have a size that JPEG data can't have"))?;
        let across = u64::from(width.div_ceil(part.0));
        let per_plane = across * u64::from(height.div_ceil(part.1));
        let (picture, pixels) = (Region::whole(header).pixels(), u64::from(part.0) * u64::from(part.1));
        let most = picture.max(1 << 20);
        if pixels > most || pixels.saturating_mul(per_plane) > picture.saturating_mul(4) + ROOM {
            return Err(damaged("its tiles are much larger than the picture"));
        }
        let planes = if tags.is_planar() { tags.samples().into() } else { 1 };
        Ok(Self { height, most, part, is_tiled, across, per_plane, planes })
    }

    /// The plane of a part, and its box in the picture. Tiles may reach beyond the edges.
    fn place(&self, nth: u64) -> (usize, Region) {
        let (plane, at) = (nth / self.per_plane, nth % self.per_plane);
        let (x, y) = ((at % self.across) as u32 * self.part.0, (at / self.across) as u32 * self.part.1);
        let height = if self.is_tiled { self.part.1 } else { self.part.1.min(self.height - y) };
        (plane as usize, Region { x, y, width: self.part.0, height })
    }

    /// Most rows of the JPEG data of a part at this place: the last strip may be as high as it likes.
    fn highest(&self, place: Region) -> u32 {
        let is_last_strip = !self.is_tiled && place.y + place.height == self.height;
        if is_last_strip { (self.most / u64::from(place.width)) as u32 } else { place.height }
    }
}

/// A worker's decoder of such files. Its buffers are kept from file to file.
#[derive(Default)]
pub(super) struct Parts {
    decoder: complete::Decoder,
    /// The data of a part behind the common tables.
    joined: Vec<u8>,
    /// The samples of a part.
    samples: Vec<u8>,
}

impl Parts {
    /// Bytes of memory.
    pub(super) fn held(&self) -> u64 {
        self.decoder.held() + held(&self.joined) + held(&self.samples)
    }

    /// Decodes the samples in `region`, row by row without gaps, into `into`; YCbCr becomes RGB. Only those parts are
    /// decoded that the region needs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for damage, and for kinds that libtiff refuses.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        header: &Header,
        colours: Colours,
        region: Region,
        into: &mut [u8],
    ) -> Result<()> {
        let tags = Tags::read(bytes).ok_or_else(|| damaged("its tags are cut off"))?;
        let grid = Grid::of(&tags, header)?;
        let tables = tags.bytes(347).map_or(Some(Vec::new()), common_tables);
        let tables = tables.ok_or_else(|| damaged("its JPEG tables hold a picture, or something else"))?;
        // Each part costs reading the tables again.
        let mut tables_left = (bytes.len() as u64).saturating_mul(16).saturating_add(ROOM);
        let mut left = bytes.len();
        let count = grid.per_plane * grid.planes;
        let mut parts = tags.parts();
        for nth in 0..count {
            let part = parts.next();
            let (start, length) = part.ok_or_else(|| damaged(&format!("it has {nth} parts, but needs {count}")))?;
            left = left.checked_sub(length).ok_or_else(|| damaged("its parts overlap, or are longer than the file"))?;
            let part = bytes.get(start..).and_then(|rest| rest.get(..length));
            let part = part.ok_or_else(|| damaged("a part of it lies beyond the end of the file"))?;
            let spent = tables_left.checked_sub(tables.len() as u64);
            tables_left = spent.ok_or_else(|| damaged("its JPEG tables are too long for so many parts"))?;
            let (plane, place) = grid.place(nth);
            let Some(wanted) = place.common(region) else { continue };
            let faulty = |error: Error| damaged(&format!("JPEG data of part {nth}: {}", error.message()));
            let mut joined = std::mem::take(&mut self.joined);
            let data = join(&tables, part, &mut joined).map_err(faulty)?;
            let components = if grid.planes > 1 { 1 } else { colours.samples() };
            let size = checked_size(data, place, components, grid.highest(place)).map_err(faulty)?;
            if colours != Colours::YCbCr && components > 1 && complete::survey(data).map_err(faulty)?.is_subsampled {
                return Err(Error::new(ErrorKind::Format, unsupported(bytes)));
            }
            let local = Region { x: wanted.x - place.x, y: wanted.y - place.y, ..wanted };
            let meaning = if colours == Colours::YCbCr { Meaning::YCbCr } else { Meaning::Samples };
            let (pixel, from) = (colours.samples(), (wanted.y - region.y) as usize * region.width as usize);
            let is_block = components == pixel && wanted.width == region.width;
            let damages = if is_block {
                let block = &mut into[pixel * from..][..pixel * wanted.pixels() as usize];
                self.decoder.decode_as(data, size, local, meaning, block).map_err(faulty)?
            } else {
                let samples = resize_buffer(&mut self.samples, components * wanted.pixels() as usize);
                let damages = self.decoder.decode_as(data, size, local, meaning, samples).map_err(faulty)?;
                let into = &mut into[pixel * (from + (wanted.x - region.x) as usize)..];
                let row = components * wanted.width as usize;
                for (into, row) in into.chunks_mut(pixel * region.width as usize).zip(samples.chunks_exact(row)) {
                    match components == pixel {
                        true => into[..row.len()].copy_from_slice(row),
                        false => {
                            let places = into.iter_mut().skip(plane).step_by(pixel);
                            places.zip(row).for_each(|(into, sample)| *into = *sample);
                        }
                    }
                }
                damages
            };
            if let Some(damage) = damages.iter().next() {
                return Err(damaged(&format!("JPEG data of part {nth}: {}", damage.as_str())));
            }
            self.joined = joined;
        }
        Ok(())
    }
}

/// The data of a part with the common tables.
fn join<'a>(tables: &[u8], part: &'a [u8], joined: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let Some(data) = part.strip_prefix(START) else {
        return Err(Error::new(ErrorKind::Format, "it does not begin with the marker that JPEG data begin with"));
    };
    if tables.is_empty() {
        return Ok(part);
    }
    joined.clear();
    joined.reserve_exact(START.len() + tables.len() + data.len());
    [START, tables, data].iter().for_each(|bytes| joined.extend_from_slice(bytes));
    Ok(joined)
}

/// Width and height in the header of a part's JPEG data.
///
/// # Errors
///
/// [`ErrorKind::Format`] if they are not those of the part, which may have up to `highest` rows: the last strip has often
/// as many as the others.
fn checked_size(data: &[u8], place: Region, components: usize, highest: u32) -> Result<(u32, u32)> {
    let Header { width, height, channels, .. } = jpeg_header(data)?;
    let is_high = (place.height..=highest.max(place.height)).contains(&height);
    if width != place.width || !is_high || usize::from(channels) != components {
        let message = format!(
            "{width} x {height} pixels of {channels} samples, not {} x {} of {components}",
            place.width, place.height
        );
        return Err(Error::new(ErrorKind::Format, message));
    }
    Ok((width, height))
}

#[cfg(test)]
mod tests {
    use libjpeg_turbo_rs::{Encoder, PixelFormat};

    use super::*;

    /// A grey TIFF of JPEG data with these tables, in these parts: strips of so many rows, or tiles of this size.
    fn file(side: u32, tables: &[u8], parts: &[&[u8]], rows: u32, tile: Option<(u32, u32)>) -> Vec<u8> {
        let mut data = tables.to_vec();
        let mut starts = Vec::new();
        for part in parts {
            starts.push(8 + data.len() as u32);
            data.extend(*part);
        }
        let numbers = |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
        let (starts_at, count) = (8 + data.len() as u32, parts.len() as u32);
        // A single number stands in the tag itself.
        let place = |numbers: &[u32], at: u32| if let [number] = numbers { *number } else { at };
        let lengths: Vec<u32> = parts.iter().map(|part| part.len() as u32).collect();
        data.extend(numbers(&starts));
        data.extend(numbers(&lengths));
        let places = (place(&starts, starts_at), place(&lengths, starts_at + 4 * count));
        let mut tags = vec![
            (256, 4, 1, side),
            (257, 4, 1, side),
            (258, 3, 1, 8),
            (259, 3, 1, 7),
            (262, 3, 1, 1),
            (277, 3, 1, 1),
            (347, 7, tables.len() as u32, 8),
        ];
        match tile {
            None => tags.extend([(273, 4, count, places.0), (278, 4, 1, rows), (279, 4, count, places.1)]),
            Some((width, height)) => tags.extend([
                (322, 4, 1, width),
                (323, 4, 1, height),
                (324, 4, count, places.0),
                (325, 4, count, places.1),
            ]),
        }
        let start = 8 + data.len() as u32;
        let mut file = [b"II*\0".as_slice(), &start.to_le_bytes(), &data, &(tags.len() as u16).to_le_bytes()].concat();
        for (tag, kind, count, value) in tags {
            file.extend([tag as u16, kind].into_iter().flat_map(u16::to_le_bytes));
            file.extend(numbers(&[count, value]));
        }
        file.extend([0; 4]);
        file
    }

    fn grey(width: usize, height: usize) -> Vec<u8> {
        Encoder::new(&vec![128; width * height], width, height, PixelFormat::Grayscale).quality(50).encode().unwrap()
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>> {
        let header = super::super::container::header(bytes)?;
        let (region, colours) = (Region::whole(&header), colours(bytes)?.unwrap());
        let mut samples = vec![7; region.pixels() as usize];
        Parts::default().decode(bytes, &header, colours, region, &mut samples)?;
        Ok(samples)
    }

    fn strips(side: u32, tables: &[u8], parts: &[&[u8]], rows: u32) -> Result<Vec<u8>> {
        decoded(&file(side, tables, parts, rows, None))
    }

    const NO_TABLES: [u8; 4] = [0xff, 0xd8, 0xff, 0xd9];

    #[test]
    fn parts_have_their_size_and_only_the_last_strip_may_be_higher() {
        let (part, last) = (grey(64, 32), grey(64, 8));
        assert!(strips(64, &NO_TABLES, &[&part, &part], 32).unwrap() == [128; 64 * 64]);
        for (parts, rows) in [(vec![&part, &last], 40), (vec![&last, &part], 8), (vec![&part, &last], 32)] {
            let parts: Vec<&[u8]> = parts.into_iter().map(Vec::as_slice).collect();
            let error = strips(64, &NO_TABLES, &parts, rows).unwrap_err();
            assert!(error.message().contains("pixels of 1 samples, not 64 x"), "{error}");
        }
        let high = grey(64, 64);
        // The last strip has at most as many pixels as the picture, or 2^20.
        let highest = grey(64, 1 << 14);
        assert!(strips(64, &NO_TABLES, &[&highest], 64).unwrap() == [128; 64 * 64]);
        let error = strips(64, &NO_TABLES, &[&grey(64, (1 << 14) + 8)], 64).unwrap_err();
        assert!(error.message().contains("64 x 16392 pixels"), "{error}");
        assert!(strips(48, &NO_TABLES, &[&grey(48, 32), &grey(48, 32)], 32).unwrap() == [128; 48 * 48]);
        let error = strips(64, &NO_TABLES, &[&part], 32).unwrap_err();
        assert!(error.message().contains("it has 1 parts, but needs 2"), "{error}");
        let error = decoded(&file(64, &NO_TABLES, &[&high, &part], 0, Some((64, 32)))).unwrap_err();
        assert!(error.message().contains("64 x 64 pixels of 1 samples, not 64 x 32 of 1"), "{error}");
    }

    #[test]
    fn tiles_are_not_much_larger_than_the_picture() {
        let part = grey(1024, 1024);
        let tiled = |side: u32, tile: (u32, u32)| decoded(&file(side, &NO_TABLES, &[&part], 0, Some(tile)));
        assert!(tiled(20, (1024, 1024)).unwrap() == [128; 400]);
        let error = tiled(20, (1024, 1040)).unwrap_err();
        assert!(error.message().contains("its tiles are much larger than the picture"), "{error}");
        for tile in [(0, 16), (16, 0), (65_536, 16), (16, u32::MAX)] {
            let error = tiled(20, tile).unwrap_err();
            assert!(error.message().contains("its parts have a size that JPEG data can't have"), "{error}");
        }
    }

    #[test]
    fn common_tables_hold_no_picture_and_nothing_that_only_an_image_may_say() {
        let whole = grey(64, 64);
        for len in [whole.len(), whole.len() - 2, whole.len() - 9] {
            let error = strips(64, &whole[..len], &[&whole], 64).unwrap_err();
            assert!(error.message().contains("its JPEG tables hold a picture"), "{error}");
        }
        let frame = whole.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        assert!(strips(64, &whole[..frame], &[&whole], 64).unwrap() == [128; 64 * 64]);
        // Restart markers are announced, but there are none.
        let announced = [&NO_TABLES[..2], &[0xff, 0xdd, 0, 4, 0, 1], &NO_TABLES[2..]].concat();
        assert!(strips(64, &announced, &[&whole], 64).unwrap() == [128; 64 * 64]);
    }

    #[test]
    fn common_tables_are_not_read_again_and_again() {
        // A hundred Huffman tables of the same slot.
        let table = [&[0xff, 0xc4, 0, 20, 0, 1][..], &[0; 16]].concat();
        let tables = [&NO_TABLES[..2], &table.repeat(1 << 17), &NO_TABLES[2..]].concat();
        let small = grey(8, 8);
        let parts = vec![&*small; 4096];
        let error = decoded(&file(512, &tables, &parts, 0, Some((8, 8)))).unwrap_err();
        assert!(error.message().contains("too long for so many parts"), "{error}");
        decoded(&file(16, &tables, &parts[..4], 0, Some((8, 8)))).unwrap();
    }

    fn counted(bytes: &[u8]) -> u64 {
        let header = super::super::container::header(bytes).unwrap();
        memory(&Tags::read(bytes).unwrap(), &header, Region::whole(&header), bytes)
    }

    #[test]
    fn what_is_counted_is_known_at_once_and_trusts_no_size_of_a_part() {
        // All parts are the same long one, with a comment in every four bytes.
        let small = grey(8, 8);
        let long = [&small[..2], &[0xff, 0xfe, 0, 2].repeat(1 << 17), &small[2..]].concat();
        let parts: Vec<&[u8]> = std::iter::once(&*long).chain(std::iter::repeat_n(&*small, 4095)).collect();
        let mut bytes = file(512, &NO_TABLES, &parts, 0, Some((8, 8)));
        let places = 8 + NO_TABLES.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        let (starts, rest) = bytes[places..].split_at_mut(4 * parts.len());
        starts.chunks_mut(4).for_each(|start| start.copy_from_slice(&(8 + NO_TABLES.len() as u32).to_le_bytes()));
        rest[..4 * parts.len()].chunks_mut(4).for_each(|len| len.copy_from_slice(&(long.len() as u32).to_le_bytes()));
        assert!(counted(&bytes) < 4 << 20);
        assert!(decoded(&bytes).is_err());
        // 65535 x 65535 pixels in a part of 64 x 64.
        let mut part = grey(64, 64);
        let size = part.windows(4).position(|four| four == [0, 64, 0, 64]).unwrap();
        part[size..size + 4].fill(0xff);
        assert!(counted(&file(64, &NO_TABLES, &[&part], 64, None)) <= 64 * 64);
        assert!(strips(64, &NO_TABLES, &[&part], 64).unwrap_err().message().contains("65535 x 65535"));
    }

    #[test]
    fn parts_do_not_overlap() {
        let part = grey(64, 32);
        let mut bytes = file(64, &NO_TABLES, &[&part, &part], 32, None);
        let lengths = bytes.windows(4).rposition(|four| four == (part.len() as u32).to_le_bytes()).unwrap();
        let all = bytes.len() as u32;
        bytes[lengths..lengths + 4].copy_from_slice(&all.to_le_bytes());
        let error = decoded(&bytes).unwrap_err();
        assert!(error.message().contains("its parts overlap"), "{error}");
    }
}
