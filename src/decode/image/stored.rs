//! The properties of an image file that are known before it is decoded, and the part of it that is wanted.

use crate::error::{Error, ErrorKind, Result};

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
    /// The format whose magic bytes a file starts with; its name does not matter.
    pub(crate) fn of_content(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            [b'B', b'M', ..] => Some(Self::Bmp),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(Self::Tiff),
            [b'P', b'1'..=b'6', b' ' | b'\t'..=b'\r', b' ' | b'\t'..=b'\r' | b'#' | b'0'..=b'9', ..] => Some(Self::Pnm),
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

/// How a stored image must be turned to stand upright: EXIF's orientation in parts. The upright pixel (x, y) is the
/// stored one at (x, y), after exchanging x and y if `swap`, and then counting from the other side if `flip_x` or
/// `flip_y`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orientation {
    pub(crate) swap: bool,
    pub(crate) flip_x: bool,
    pub(crate) flip_y: bool,
}

impl Orientation {
    /// From the value of EXIF's tag 0x0112; any other value than 1 to 8 means upright.
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
    pub(super) fn mirrored(self) -> Self {
        // If x and y are exchanged, a step along the upright row is one along a stored column.
        if self.swap { Self { flip_y: !self.flip_y, ..self } } else { Self { flip_x: !self.flip_x, ..self } }
    }

    /// Turned upright, then top and bottom exchanged.
    pub(super) fn upside_down(self) -> Self {
        if self.swap { Self { flip_x: !self.flip_x, ..self } } else { Self { flip_y: !self.flip_y, ..self } }
    }

    /// The box of a stored image of `width` x `height` that becomes `upright`, a box of the upright image.
    pub(super) fn stored(self, upright: Region, (width, height): (u32, u32)) -> Region {
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

    /// Width and height, exchanged if turning exchanges them (the same in both directions).
    pub(crate) fn turn(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.swap { (height, width) } else { (width, height) }
    }
}

/// Longest side of an image. Resizing needs memory in proportion to each side, even if there are few pixels.
pub(super) const MAX_SIDE: u32 = 1 << 20;

/// The content of a file's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) format: ImageFormat,
    /// As stored, before turning.
    pub(crate) width: u32,
    /// As stored, before turning.
    pub(crate) height: u32,
    /// Stored channels: 1 for grey, 2 with alpha, 3 for colour (also palettes), 4 with alpha or for CMYK.
    pub(crate) channels: u8,
    pub(crate) orientation: Orientation,
    /// Whether the whole image must be kept until the last pixel is known: a JPEG in several scans.
    pub(crate) in_scans: bool,
}

impl Header {
    /// Width and height after turning.
    pub(crate) fn upright_size(&self) -> (u32, u32) {
        self.orientation.turn((self.width, self.height))
    }

    /// Whether the beginning of a file is enough to know the orientation. WebP and TIFF may store it anywhere.
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
                "{} x {} are {pixels} pixels, more than max_pixels = {max_pixels}; raise it if you trust the file",
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
    pub(super) fn bytes(&self) -> usize {
        self.width as usize * self.height as usize * 3
    }

    /// The smallest box around both.
    pub(super) fn around(self, other: Self) -> Self {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        let right = (self.x + self.width).max(other.x + other.width);
        let bottom = (self.y + self.height).max(other.y + other.height);
        Self { x, y, width: right - x, height: bottom - y }
    }

    /// The box that both have in common. Sides and positions must be less than 2^31.
    pub(super) fn common(self, other: Self) -> Option<Self> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + self.width).min(other.x + other.width);
        let bottom = (self.y + self.height).min(other.y + other.height);
        (right > x && bottom > y).then(|| Self { x, y, width: right - x, height: bottom - y })
    }

    /// The same part of the image at `scale`, with edges rounded to whole pixels.
    pub(super) fn at(&self, scale: Scale, header: &Header) -> Self {
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

    /// With `margin` more pixels on each side, within the image.
    pub(super) fn with_margin(&self, margin: u32, header: &Header) -> Self {
        let (x, y) = (self.x.saturating_sub(margin), self.y.saturating_sub(margin));
        let width = (self.x + self.width).saturating_add(margin).min(header.width) - x;
        let height = (self.y + self.height).saturating_add(margin).min(header.height) - y;
        Self { x, y, width, height }
    }
}

/// How much an image is shrunk while it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale(pub(super) u32);

impl Scale {
    /// Not at all.
    pub(crate) const FULL: Self = Self(8);

    /// The smallest scale at which `from` pixels become at least `to` pixels, in width and height.
    pub(super) fn least(from: (f64, f64), to: (u32, u32)) -> Self {
        let covers = |eighths: u32| {
            let shrunk = |side: f64| side * f64::from(eighths) / 8.0;
            shrunk(from.0) >= f64::from(to.0) && shrunk(from.1) >= f64::from(to.1)
        };
        Self([1, 2, 4].into_iter().find(|eighths| covers(*eighths)).unwrap_or(8))
    }

    /// Eighths of the original size.
    #[cfg_attr(not(feature = "turbojpeg"), expect(dead_code, reason = "asked by the decoder that can shrink"))]
    pub(crate) fn eighths(self) -> u32 {
        self.0
    }

    /// The length of a side of `side` pixels at this scale.
    pub(crate) fn of(self, side: u32) -> u32 {
        (u64::from(side) * u64::from(self.0)).div_ceil(8) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orientation_round_trips_and_unknown_values_are_upright() {
        for value in 1..=8 {
            assert_eq!(Orientation::from_exif(value).to_exif(), value);
        }
        assert!(Orientation::from_exif(0).is_upright() && Orientation::from_exif(9).is_upright());
    }
}
