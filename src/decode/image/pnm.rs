//! PBM, PGM and PPM files, binary and in plain text, as Pillow reads them.

use super::decoder::DecodeImage;
use super::map::{self, Map};
use super::stored::{Header, ImageFormat, Orientation, Region, Scale};
use crate::error::{Error, ErrorKind, Result};

/// What precedes the pixels.
struct Preamble {
    /// Whether samples are numbers in text instead of bytes.
    is_plain: bool,
    /// Whether samples are single bits, of which 1 is black.
    is_bits: bool,
    channels: u8,
    width: u32,
    height: u32,
    /// The sample value of white.
    most: u16,
}

#[cold]
fn damaged(byte: usize, what: &str) -> Error {
    Error::new(ErrorKind::Format, format!("damaged pnm: {what}")).at_byte(byte as u64)
}

#[cold]
fn truncated(bytes: &[u8]) -> Error {
    let message = format!("truncated: the file ends after {} bytes, before the last pixel", bytes.len());
    Error::new(ErrorKind::Format, message).at_byte(bytes.len() as u64)
}

/// A position in the text.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Text<'_> {
    /// Skips white space and comments, up to the next number or sign.
    fn pass(&mut self) -> Result<u8> {
        loop {
            match self.bytes.get(self.at) {
                None => return Err(truncated(self.bytes)),
                Some(b' ' | b'\t'..=b'\r') => self.at += 1,
                Some(b'#') => {
                    let rest = &self.bytes[self.at..];
                    self.at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                }
                Some(byte) => return Ok(*byte),
            }
        }
    }

    /// The next number, and the one character behind it.
    fn number(&mut self) -> Result<u32> {
        self.pass()?;
        let start = self.at;
        let mut number = 0u32;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            let next = number.checked_mul(10).and_then(|number| number.checked_add(u32::from(digit - b'0')));
            number = next.ok_or_else(|| damaged(start, "a number beyond 32 bits"))?;
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            _ if self.at == start => Err(damaged(start, "something else where a number is expected")),
            Some(b' ' | b'\t'..=b'\r') => {
                self.at += 1;
                Ok(number)
            }
            None | Some(b'#') => Ok(number),
            Some(_) => Err(damaged(self.at, "something else within a number")),
        }
    }

    /// The next sign of a bitmap; signs need no separator.
    fn bit(&mut self) -> Result<u16> {
        let sign = self.pass()?;
        self.at += 1;
        match sign {
            b'0' | b'1' => Ok(u16::from(b'1' - sign)),
            _ => Err(damaged(self.at - 1, "something else where 0 or 1 is expected")),
        }
    }
}

fn open(bytes: &[u8]) -> Result<(Preamble, Text<'_>)> {
    let kind = bytes[1];
    let mut text = Text { bytes, at: 3 };
    let (width, height) = (text.number()?, text.number()?);
    let is_bits = matches!(kind, b'1' | b'4');
    let most = if is_bits { 1 } else { text.number()? };
    let most = u16::try_from(most).ok().filter(|most| *most > 0);
    let most = most.ok_or_else(|| damaged(text.at, "a largest sample that is not between 1 and 65535"))?;
    let channels = if matches!(kind, b'3' | b'6') { 3 } else { 1 };
    Ok((Preamble { is_plain: kind < b'4', is_bits, channels, width, height, most }, text))
}

pub(super) fn header(bytes: &[u8]) -> Result<Header> {
    let (Preamble { channels, width, height, .. }, _) = open(bytes)?;
    let (format, orientation) = (ImageFormat::Pnm, Orientation::default());
    Ok(Header { format, width, height, channels, orientation, in_scans: false })
}

/// A decoder for them, a row at a time.
#[derive(Default)]
pub(super) struct Pnm {
    row: Vec<u16>,
}

impl Pnm {
    /// Gives the samples of every row to `take`.
    fn rows(&mut self, bytes: &[u8], mut take: impl FnMut(&Preamble, usize, &[u16])) -> Result<()> {
        let (preamble, mut text) = open(bytes)?;
        let Preamble { is_plain, is_bits, channels, width, height, most } = preamble;
        let count = width as usize * usize::from(channels);
        self.row.resize(self.row.len().max(count), 0);
        let row = &mut self.row[..count];
        let sample_bytes = if most > 255 { 2 } else { 1 };
        let row_bytes = if is_bits { count.div_ceil(8) } else { count * sample_bytes };
        for y in 0..height as usize {
            if is_plain {
                for sample in &mut *row {
                    let at = text.at;
                    *sample = if is_bits {
                        text.bit()?
                    } else {
                        let number = u16::try_from(text.number()?).ok().filter(|number| *number <= most);
                        number.ok_or_else(|| damaged(at, "a sample above the largest one"))?
                    };
                }
            } else {
                let stored = bytes.get(text.at..).and_then(|rest| rest.get(..row_bytes));
                let stored = stored.ok_or_else(|| truncated(bytes))?;
                text.at += row_bytes;
                if is_bits {
                    row.iter_mut().enumerate().for_each(|(x, bit)| *bit = u16::from(!stored[x / 8] >> (7 - x % 8) & 1));
                } else {
                    let samples = stored.chunks_exact(sample_bytes);
                    let number = |sample: &[u8]| sample.iter().fold(0, |all, byte| all << 8 | u16::from(*byte));
                    row.iter_mut().zip(samples).for_each(|(into, sample)| *into = number(sample).min(most));
                }
            }
            take(&preamble, y, row);
        }
        Ok(())
    }

    /// Values as in Pillow: 0 and 1 for a bitmap; grey values scaled to 0 to 255, or to 0 to 65535 if they need more
    /// than that.
    pub(super) fn read_map(&mut self, bytes: &[u8], header: &Header, map: &mut Map) -> Result<()> {
        if header.channels != 1 {
            return Err(map::not_a_map(header));
        }
        let width = header.width as usize;
        let values = map.stored_mut(header);
        self.rows(bytes, |preamble, y, row| {
            let full = match preamble.most {
                1 if preamble.is_bits => 1,
                ..=255 => 255,
                _ => u16::MAX,
            };
            values[y * width..]
                .iter_mut()
                .zip(row)
                .for_each(|(into, sample)| *into = brought(*sample, preamble.most, full));
        })
    }
}

/// A sample of 0 to `most`, scaled to 0 to `full` and rounded as in Python.
fn brought(sample: u16, most: u16, full: u16) -> u16 {
    if most == full {
        return sample;
    }
    (f64::from(sample) / f64::from(most) * f64::from(full)).round_ties_even() as u16
}

impl DecodeImage for Pnm {
    fn decode(&mut self, bytes: &[u8], _: &Header, _: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        let (into, _) = into.as_chunks_mut::<3>();
        let [x, y, width, height] = [region.x, region.y, region.width, region.height].map(|n| n as usize);
        self.rows(bytes, |preamble, line, row| {
            let Some(line) = line.checked_sub(y).filter(|line| *line < height) else { return };
            let channels = usize::from(preamble.channels);
            let level = |sample: u16| brought(sample, preamble.most, 255) as u8;
            for (pixel, stored) in into[line * width..][..width].iter_mut().zip(row.chunks_exact(channels).skip(x)) {
                *pixel = match *stored {
                    [red, green, blue] => [level(red), level(green), level(blue)],
                    _ => [level(stored[0]); 3],
                };
            }
        })
    }
}
