//! WAV files: PCM, floating point, A-law and mu-law, also with extensible headers and in RF64 files.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

use super::pcm::Encoding;
use super::sound::{ReadAt, Sound, bad, cut_off};

/// Where and how the samples of a WAV file are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wav {
    pub(crate) sound: Sound,
    pub(crate) encoding: Encoding,
    /// The first byte of the samples.
    start: u64,
}

/// Number of bytes in which most headers fit.
const HEAD: usize = 1024;

/// Nobody writes files with more chunks before the samples.
const MOST_CHUNKS: usize = 4096;

/// How many bytes of a format chunk are read at most.
const FORMAT_BYTES: usize = 40;

/// The last bytes of an extensible format's identifier. The two bytes before them tell the formats apart.
const EXTENSIBLE: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];

/// Whether a file that begins with `head` is a WAV file.
pub(crate) fn is_wav(head: &[u8]) -> bool {
    matches!(head, [b'R', b'I', b'F', b'F', ..] | [b'R', b'F', b'6', b'4', ..] | [b'B', b'W', b'6', b'4', ..])
        && head.get(8..12) == Some(b"WAVE")
}

impl Wav {
    /// The bytes of these frames.
    pub(crate) fn bytes_of(&self, frames: &Range<u64>) -> Range<u64> {
        let frame = (self.sound.channels * self.encoding.bytes()) as u64;
        self.start + frames.start * frame..self.start + frames.end * frame
    }
}

/// The first bytes of a file, and access to the rest.
struct Head<'a, R: ?Sized> {
    file: &'a R,
    bytes: [u8; HEAD],
    len: usize,
}

impl<'a, R: ReadAt + ?Sized> Head<'a, R> {
    fn read(file: &'a R) -> Result<Self> {
        let mut head = Self { file, bytes: [0; HEAD], len: file.len().min(HEAD as u64) as usize };
        file.read_at(0, &mut head.bytes[..head.len])?;
        Ok(head)
    }

    fn get<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.copy(at, &mut bytes)?;
        Ok(bytes)
    }

    fn copy(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let held = usize::try_from(at).ok().and_then(|at| self.bytes[..self.len].get(at..)?.get(..into.len()));
        match held {
            Some(held) => into.copy_from_slice(held),
            None if self.file.len().saturating_sub(at) < into.len() as u64 => return Err(cut_off(self.file.len())),
            None => self.file.read_at(at, into)?,
        }
        Ok(())
    }

    fn u32(&self, at: u64) -> Result<u32> {
        self.get(at).map(u32::from_le_bytes)
    }
}

/// Finds the samples.
///
/// # Errors
///
/// [`ErrorKind::Data`] with the byte for a file that is cut off or not a WAV file; [`ErrorKind::Unsupported`] for
/// samples that are stored in another way.
pub(crate) fn parse<R: ReadAt + ?Sized>(file: &R) -> Result<Wav> {
    let head = Head::read(file)?;
    if !is_wav(&head.bytes[..head.len]) {
        return Err(bad("not a WAV file: it does not begin with RIFF and WAVE").at_byte(0));
    }
    let is_long = !head.bytes.starts_with(b"RIFF");
    let (mut format, mut long_size) = (None, None);
    let mut at = 12;
    for _ in 0..MOST_CHUNKS {
        let name: [u8; 4] = head.get(at).map_err(|_| no_samples(file.len()))?;
        let size = u64::from(head.u32(at + 4)?);
        let start = at + 8;
        match &name {
            b"fmt " => format = Some(Format::read(&head, start, size).map_err(|error| error.at_byte(start))?),
            b"ds64" if is_long && size >= 16 => long_size = Some(u64::from_le_bytes(head.get(start + 8)?)),
            b"data" => {
                let Some(Format { encoding, channels, rate }) = format else {
                    return Err(bad("the samples come before the fmt chunk that describes them").at_byte(at));
                };
                let size = match long_size.filter(|_| size == u64::from(u32::MAX)) {
                    Some(size) => size,
                    None => size,
                };
                let bytes = data_bytes(&head, start, size)?;
                let frames = bytes / (channels * encoding.bytes()) as u64;
                let sound =
                    Sound { rate, channels, frames, possible: frames }.checked().map_err(|error| error.at_byte(at))?;
                return Ok(Wav { sound, encoding, start });
            }
            _ => {}
        }
        // Chunks begin at even places.
        at = start.saturating_add(size).saturating_add(size & 1);
    }
    Err(bad(format!("no samples within the first {MOST_CHUNKS} chunks")).at_byte(at))
}

/// Number of bytes of samples from `start` on, if the header says `size`. A program that writes to a pipe does not know
/// the size and writes 0 or about the largest number: then the samples end with the file. A file that really has this
/// size is recognised because it does not exceed the size of the whole in its header.
fn data_bytes<R: ReadAt + ?Sized>(head: &Head<'_, R>, start: u64, size: u64) -> Result<u64> {
    let rest = head.file.len() - start;
    // Sizes written by a program that could not go back: 0, or about the largest number of 31 or 32 bits.
    let stands_for_unknown =
        |size: u64| matches!(size, 0x7fff_0000..=0x8000_0000 | 0xffff_0000..=0xffff_ffff | u64::MAX);
    let whole = u64::from(head.u32(4)?);
    let was_left = whole.saturating_add(8) <= start || stands_for_unknown(whole);
    let goes_on = head.bytes.starts_with(b"RIFF") && head.file.len() > whole.saturating_add(9);
    match size {
        0 if was_left => Ok(rest),
        size if stands_for_unknown(size) && goes_on => Ok(rest),
        size if size <= rest => Ok(size),
        size if stands_for_unknown(size) => Ok(rest),
        size => {
            let message =
                format!("the header says {size} bytes of samples, but only {rest} follow; the file is cut off");
            Err(bad(message).at_byte(head.file.len()))
        }
    }
}

#[cold]
fn no_samples(len: u64) -> Error {
    bad("the file ends before any samples; it is cut off").at_byte(len)
}

/// The content of the format chunk.
struct Format {
    encoding: Encoding,
    channels: usize,
    rate: u32,
}

impl Format {
    fn read<R: ReadAt + ?Sized>(head: &Head<'_, R>, at: u64, size: u64) -> Result<Self> {
        if size < 16 {
            return Err(bad(format!("a format of {size} bytes; it has 16 or more")));
        }
        let mut bytes = [0; FORMAT_BYTES];
        let len = size.min(FORMAT_BYTES as u64) as usize;
        head.copy(at, &mut bytes[..len])?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (mut tag, channels, align, bits) = (u16_at(0), usize::from(u16_at(2)), usize::from(u16_at(12)), u16_at(14));
        let rate = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if tag == 0xfffe {
            if len < FORMAT_BYTES || bytes[26..] != EXTENSIBLE {
                let message = "an extensible format of an unknown kind; write it as PCM or floating point";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            tag = u16_at(24);
        }
        // Samples of 12 or 20 bits are stored in the upper bits of 16 or 24.
        let width = align.checked_div(channels).unwrap_or_default();
        let encoding = match (tag, width) {
            (1, 1) => Encoding::U8,
            (1, 2) => Encoding::I16,
            (1, 3) => Encoding::I24,
            (1, 4) => Encoding::I32,
            (3, 4) => Encoding::F32,
            (3, 8) => Encoding::F64,
            (6, 1) => Encoding::ALaw,
            (7, 1) => Encoding::MuLaw,
            (1 | 3 | 6 | 7, _) => {
                return Err(bad(format!("{bits} bits per sample in frames of {align} bytes and {channels} channels")));
            }
            (tag, _) => {
                let name = match tag {
                    2 | 0x11 => " (ADPCM)",
                    0x31 => " (GSM)",
                    0x55 => " (MP3)",
                    _ => "",
                };
                let message = format!("samples of format {tag:#06x}{name}; write them as PCM or floating point");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        if align != channels * width || usize::from(bits).div_ceil(8) != width {
            return Err(bad(format!("{bits} bits per sample in frames of {align} bytes and {channels} channels")));
        }
        Ok(Self { encoding, channels, rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of zeros behind its first bytes.
    struct Sparse(Vec<u8>, u64);

    impl ReadAt for Sparse {
        fn len(&self) -> u64 {
            self.1
        }

        fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
            into.fill(0);
            let held = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
            into.iter_mut().zip(held).for_each(|(into, byte)| *into = *byte);
            Ok(())
        }
    }

    /// Bytes of samples in a file of `len` bytes behind a header of 44, for these sizes in it.
    fn bytes(whole: u32, data: u32, len: u64) -> Result<u64> {
        let format = [1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x40, 0x1f, 0, 0, 1, 0, 8, 0];
        let (riff, data) = (whole.to_le_bytes(), data.to_le_bytes());
        let head = [b"RIFF", &riff[..], b"WAVEfmt \x10\0\0\0", &format, b"data", &data].concat();
        parse(&Sparse(head, 44 + len)).map(|wav| wav.sound.frames)
    }

    #[test]
    fn more_samples_than_a_size_that_stands_for_an_unknown_one_are_read() {
        let long = 3 << 30;
        for (whole, data) in [
            (0x7fff_f024, 0x7fff_f000),
            (0x8000_0024, 0x8000_0000),
            (0x7fff_ffff, 0x7fff_ffdb),
            (0, 0x7fff_ffff),
            (0x23, 0xffff_ffff),
        ] {
            assert_eq!(bytes(whole, data, long).unwrap(), long, "{whole:#x} {data:#x}");
            assert_eq!(bytes(whole, data, 1000).unwrap(), 1000, "{whole:#x} {data:#x}");
        }
        // Files of just these sizes, with another chunk behind the samples.
        for data in [0x7fff_f000, 0x8000_0000, 0xffff_0000u32] {
            let rest = 100;
            assert_eq!(bytes(data + 36 + rest, data, u64::from(data + rest)).unwrap(), u64::from(data), "{data:#x}");
        }
        assert_eq!(bytes(0xffff_ffff, 1 << 20, long).unwrap(), 1 << 20);
    }
}
