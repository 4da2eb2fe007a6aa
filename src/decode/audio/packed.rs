//! FLAC, MP3 and Ogg Vorbis, by the `symphonia` crate.

use std::io::Cursor;

use memchr::memmem;
use symphonia::core::checksum::Crc32;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Fault;
use symphonia::core::formats::{FormatOptions, FormatReader, SeekMode, SeekTo, Track};
use symphonia::core::io::{MediaSourceStream, Monitor, ReadOnlySource};
use symphonia::core::packet::Packet;
use symphonia::core::units::Timestamp;
use symphonia::default::codecs::{FlacDecoder, MpaDecoder, VorbisDecoder};
use symphonia::default::formats::{FlacReader, MpaReader, OggReader};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, Tool};
use crate::random::RandomKey;
use crate::row::RowMut;

use super::kind::{is_audio, not_read};
use super::pcm::Encoding;
use super::sound::{Sound, bad};
use super::write::{Frames, Writer};

/// Number of frames that are also decoded before the wanted ones: a frame of MP3 depends on at most 32 earlier ones,
/// and a packet of Vorbis on one.
const RUN_UP: u64 = 40_000;

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    Flac,
    Mpeg,
    Vorbis,
}

/// The error for a fault in a file, `at` frames into its sound.
#[cold]
fn fault(packing: Packing, fault: &Fault, at: u64) -> Error {
    let name = match packing {
        Packing::Flac => "FLAC",
        Packing::Mpeg => "MP3",
        Packing::Vorbis => "Ogg",
    };
    match fault {
        Fault::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            bad(format!("{name}: the file is cut off or damaged, {at} frames into its sound"))
        }
        Fault::Unsupported(_) => Error::new(ErrorKind::Unsupported, format!("{name}: {fault}")),
        _ => bad(format!("{name}: {fault}, {at} frames into its sound")),
    }
}

/// A file that is open.
struct Open<'a> {
    packing: Packing,
    packets: Box<dyn FormatReader + 'a>,
    track: u32,
    parameters: symphonia::core::codecs::audio::AudioCodecParameters,
    sound: Sound,
}

/// The bytes after an ID3 tag.
fn behind_tag(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b'I', b'D', b'3', _, _, flags, a, b, c, d, rest @ ..] => {
            let len = [a, b, c, d].into_iter().fold(0, |len, byte| len << 7 | usize::from(byte & 0x7f));
            let footer = if flags & 0x10 == 0 { 0 } else { 10 };
            rest.get(len + footer..).unwrap_or_default()
        }
        _ => bytes,
    }
}

/// Whether there is a valid page that ends this track. (RFC 3533, section 6.) `left` is the number of bytes of which
/// checksums are computed at most, so that a file of bytes that look like last pages does not take for ever.
fn has_last_page(bytes: &[u8], track: u32, left: &mut usize) -> bool {
    let mut ends = |at: usize| {
        let page = &bytes[at..];
        let (header, body) = page.split_at_checked(27)?;
        let lengths = body.get(..usize::from(header[26]))?;
        let len = 27 + lengths.len() + lengths.iter().map(|len| usize::from(*len)).sum::<usize>();
        let page = page.get(..len)?;
        let is_last = header[5] & 4 != 0;
        if !is_last || header[14..18] != track.to_le_bytes() {
            return None;
        }
        *left = left.checked_sub(len)?;
        // The checksum is that of the page with zeros in its place.
        let mut checksum = Crc32::new(0);
        [&page[..22], &[0; 4], &page[26..]].into_iter().for_each(|part| checksum.process_buf_bytes(part));
        Some(header[22..26] == checksum.crc().to_le_bytes())
    };
    memmem::rfind_iter(bytes, b"OggS").any(|at| ends(at) == Some(true))
}

impl<'a> Open<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        let sound = behind_tag(bytes);
        let packing = match sound {
            [b'f', b'L', b'a', b'C', ..] => Packing::Flac,
            [b'O', b'g', b'g', b'S', ..] => Packing::Vorbis,
            _ if is_audio(bytes) => Packing::Mpeg,
            _ => return Err(not_read(bytes)),
        };
        let mut open = Self::begin(packing, sound)?;
        if packing == Packing::Vorbis && !has_last_page(sound, open.track, &mut sound.len()) {
            return Err(bad(
                "Ogg: the last page of the sound is missing or damaged; the file is cut off or damaged, or its writer never ended it",
            ));
        }
        if open.sound.frames == u64::MAX {
            // Only the packets tell how long it is.
            open.sound.frames = 0;
            while let Some(packet) = open.next()? {
                open.sound.frames = open.sound.frames.saturating_add(frames_in(packing, &packet));
            }
            let sound_of = open.sound;
            open = Self::begin(packing, sound)?;
            open.sound = sound_of;
        }
        Ok(open)
    }

    fn begin(packing: Packing, bytes: &'a [u8]) -> Result<Self> {
        let located = |error: Fault| fault(packing, &error, 0);
        let seekable = || MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
        let options = FormatOptions::default();
        let packets: Box<dyn FormatReader + 'a> = match packing {
            Packing::Flac => Box::new(FlacReader::try_new(seekable(), options).map_err(located)?),
            Packing::Vorbis => Box::new(OggReader::try_new(seekable(), options).map_err(located)?),
            Packing::Mpeg => {
                // In a source that it can read only forwards, the reader does not guess the length.
                let forwards = MediaSourceStream::new(Box::new(ReadOnlySource::new(bytes)), Default::default());
                Box::new(MpaReader::try_new(forwards, options).map_err(located)?)
            }
        };
        let is_sound = |track: &&Track| matches!(track.codec_params, Some(CodecParameters::Audio(_)));
        let Some(track) = packets.tracks().iter().find(is_sound) else {
            return Err(Error::new(ErrorKind::Unsupported, "a file of another kind than FLAC, MP3 and Ogg Vorbis"));
        };
        let Some(CodecParameters::Audio(parameters)) = track.codec_params.clone() else {
            return Err(bad("no sound in the file"));
        };
        let sound = Sound {
            rate: parameters.sample_rate.unwrap_or_default(),
            channels: parameters.channels.as_ref().map_or(0, |channels| channels.count()),
            frames: track.num_frames.filter(|frames| *frames > 0).unwrap_or(u64::MAX),
        };
        if packing == Packing::Vorbis && sound.channels > 2 {
            let message = format!(
                "Ogg Vorbis with {} channels, of which the decoder (symphonia 0.6.1) mixes some up; convert it to FLAC",
                sound.channels
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (track, sound) = (track.id, sound.checked()?);
        Ok(Self { packing, packets, track, parameters, sound })
    }

    /// The next packet of the sound; `None` at its end.
    fn next(&mut self) -> Result<Option<Packet>> {
        loop {
            match self.packets.next_packet() {
                Ok(Some(packet)) if packet.track_id != self.track => {}
                Ok(packet) => return Ok(packet),
                Err(Fault::IoError(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
                // Another sound follows the first.
                Err(Fault::ResetRequired) => return Ok(None),
                Err(error) => return Err(fault(self.packing, &error, 0)),
            }
        }
    }

    fn decoder(&self) -> Result<Box<dyn AudioDecoder>> {
        let options = AudioDecoderOptions::default();
        let made: std::result::Result<Box<dyn AudioDecoder>, Fault> = match self.packing {
            Packing::Flac => FlacDecoder::try_new(&self.parameters, &options).map(|decoder| Box::new(decoder) as _),
            Packing::Mpeg => MpaDecoder::try_new(&self.parameters, &options).map(|decoder| Box::new(decoder) as _),
            Packing::Vorbis => VorbisDecoder::try_new(&self.parameters, &options).map(|decoder| Box::new(decoder) as _),
        };
        made.map_err(|error| fault(self.packing, &error, 0))
    }

    /// Moves close to frame `start`; returns the first frame of the next packet.
    fn go_to(&mut self, start: u64) -> Result<u64> {
        if self.packing != Packing::Flac || start == 0 {
            return Ok(0);
        }
        let to = SeekTo::Timestamp { ts: Timestamp::new(start as i64), track_id: self.track };
        let sought = self.packets.seek(SeekMode::Accurate, to).map_err(|error| fault(self.packing, &error, start))?;
        Ok(u64::try_from(sought.actual_ts.get()).unwrap_or_default())
    }
}

#[cold]
fn missing(from: u64, to: u64) -> Error {
    bad(format!("some of the frames from {from} to {to} are missing; the file is damaged"))
}

/// Number of frames in a packet.
fn frames_in(packing: Packing, packet: &Packet) -> u64 {
    let given = packet.dur.get();
    match packing {
        Packing::Mpeg => given.saturating_sub(packet.trim_start.get() + packet.trim_end.get()),
        Packing::Flac | Packing::Vorbis => given,
    }
}

/// The properties of the sound in a file.
pub(super) fn sound(bytes: &[u8]) -> Result<Sound> {
    Open::new(bytes).map(|open| open.sound)
}

/// Decodes the wanted part of the sound in `bytes`.
pub(super) fn write(
    bytes: &[u8],
    writer: &Writer,
    key: RandomKey,
    row: &mut RowMut<'_>,
    budget: &MemoryBudget,
) -> Result<()> {
    let mut open = Open::new(bytes)?;
    let (sound, packing) = (open.sound, open.packing);
    let cut = writer.cut(&sound, key)?;
    let wanted = cut.input.clone();
    let samples = (wanted.end - wanted.start).saturating_mul(sound.channels as u64);
    // The wanted frames, and a packet.
    let mut memory = budget.lend::<Memory>(4 * samples + (1 << 20), "decoding sound")?;
    let Memory { wanted: out, packet: decoded } = &mut *memory;
    out.clear();
    let mut decoder = open.decoder()?;
    let mut at = open.go_to(wanted.start)?;
    if at > wanted.start {
        return Err(missing(wanted.start, at));
    }
    while at < wanted.end {
        let Some(packet) = open.next()? else {
            let promised = sound.frames;
            let message = format!("{promised} frames are promised, and {at} are found; the file is cut off or damaged");
            return Err(bad(message));
        };
        let count = frames_in(packing, &packet);
        // The reader skips what is damaged.
        let place = packet.pts.get().saturating_add_unsigned(packet.trim_start.get());
        if packing != Packing::Mpeg && place > 0 && place as u64 != at {
            return Err(missing(at, place as u64));
        }
        if packing != Packing::Flac && at + count + RUN_UP <= wanted.start {
            at += count;
            continue;
        }
        let buffer = decoder.decode(&packet).map_err(|error| fault(packing, &error, at))?;
        let (found, channels) = (buffer.frames() as u64, buffer.spec().channels().count());
        if channels != sound.channels || buffer.spec().rate() != sound.rate {
            return Err(bad(format!("the sound has other channels or another rate from frame {at} on")));
        }
        // The first packet of Vorbis gives nothing, and neither do packets before the wanted frames.
        let behind = at + if at + RUN_UP / 2 < wanted.start { count } else { found };
        let part = wanted.start.max(at)..wanted.end.min(behind);
        if !part.is_empty() {
            buffer.copy_to_vec_interleaved::<f32>(decoded);
            let range = (part.start - at) as usize * channels..(part.end - at) as usize * channels;
            out.extend_from_slice(&decoded[range]);
        }
        at = behind;
    }
    if out.len() as u64 != samples {
        return Err(missing(wanted.start, wanted.end));
    }
    let frames = Frames { bytes: bytemuck::cast_slice(out), encoding: Encoding::Native };
    writer.write(&sound, &frames, &cut, row)
}

/// What decoding keeps from sound to sound.
#[derive(Default)]
struct Memory {
    wanted: Vec<f32>,
    packet: Vec<f32>,
}

impl Tool for Memory {
    fn held(&self) -> u64 {
        ((self.wanted.capacity() + self.packet.capacity()) * size_of::<f32>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of one segment of 5 bytes that ends track 7.
    fn last_page() -> Vec<u8> {
        let mut page = b"OggS\0\x04".to_vec();
        page.extend([0; 8]);
        page.extend(7u32.to_le_bytes());
        page.extend([0; 8]);
        page.extend([1, 5]);
        page.extend(b"sound");
        let mut checksum = Crc32::new(0);
        checksum.process_buf_bytes(&page);
        page[22..26].copy_from_slice(&checksum.crc().to_le_bytes());
        page
    }

    #[test]
    fn looking_for_the_last_page_reads_a_file_once() {
        let valid = last_page();
        assert!(has_last_page(&valid, 7, &mut valid.len().clone()));
        assert!(!has_last_page(&valid, 8, &mut valid.len().clone()));
        // Headers that promise 255 segments, which the following headers are.
        let mut fake = valid[..27].to_vec();
        fake[26] = 255;
        let all = fake.repeat(1000);
        let mut left = usize::MAX;
        assert!(!has_last_page(&all, 7, &mut left));
        assert!(usize::MAX - left > 100 * all.len(), "what it would cost");
        assert!(!has_last_page(&all, 7, &mut all.len().clone()));
        // Some of them behind the page, such as in a tag, or other data.
        let behind = [&valid[..], &all[..]].concat();
        assert!(has_last_page(&behind, 7, &mut behind.len().clone()));
    }
}
