//! FLAC, MP3 and Ogg Vorbis, by the `symphonia` crate.

use std::borrow::Borrow;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memmem;
use symphonia::core::checksum::Crc32;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_FLAC, CODEC_ID_OPUS, CODEC_ID_VORBIS};
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Fault;
use symphonia::core::formats::{FormatOptions, FormatReader, SeekMode, SeekTo, Track};
use symphonia::core::io::{MediaSource, MediaSourceStream, Monitor, ReadOnlySource};
use symphonia::core::packet::Packet;
use symphonia::core::units::Timestamp;
use symphonia::default::codecs::{FlacDecoder, MpaDecoder, VorbisDecoder};
use symphonia::default::formats::{FlacReader, MpaReader, OggReader};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, Tool};
use crate::random::RandomKey;
use crate::row::RowMut;

use super::cut::Cut;
use super::kind::{is_audio, not_read};
use super::pcm::Encoding;
use super::sound::{ReadAt, Sound, bad};
use super::write::{Frames, Writer};

/// Number of frames that are also decoded before the wanted ones: a frame of MP3 depends on at most 32 earlier ones,
/// and a packet of Vorbis on one.
const RUN_UP: u64 = 40_000;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Flac,
    Mpeg,
    Vorbis,
}

impl Packing {
    /// The most frames that can be in so many bytes.
    fn most_frames(self, bytes: u64) -> u64 {
        let per_byte = match self {
            // A frame of FLAC has at least 10 bytes, and at most 65,536 samples per channel.
            Self::Flac => 6554,
            // Layer 3 has at least 8 kilobits per second at 24,000 samples per second, or 32 at 48,000.
            Self::Mpeg => 24,
            // A packet has at least a byte and its length, and gives at most 8192 samples per channel.
            Self::Vorbis => 4096,
        };
        bytes.saturating_mul(per_byte)
    }
}

/// The error for a fault in a file, `at` frames into its sound.
#[cold]
fn fault(packing: Packing, fault: Fault, at: u64) -> Error {
    let name = match packing {
        Packing::Flac => "FLAC",
        Packing::Mpeg => "MP3",
        Packing::Vorbis => "Ogg",
    };
    let fault = match fault {
        Fault::IoError(error) => match error.downcast::<Error>() {
            Ok(error) => return error,
            Err(error) => Fault::IoError(error),
        },
        other => other,
    };
    match &fault {
        Fault::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
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
    parameters: AudioCodecParameters,
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
        // In a source that it can read only forwards, the reader of MP3 does not guess the length.
        let source: Box<dyn MediaSource + 'a> = match packing {
            Packing::Flac | Packing::Vorbis => Box::new(Cursor::new(bytes)),
            Packing::Mpeg => Box::new(ReadOnlySource::new(bytes)),
        };
        Self::of(packing, source, bytes.len() as u64)
    }

    /// `len` is the number of bytes.
    fn of(packing: Packing, source: Box<dyn MediaSource + 'a>, len: u64) -> Result<Self> {
        let located = |error: Fault| fault(packing, error, 0);
        let stream = MediaSourceStream::new(source, Default::default());
        let options = FormatOptions::default();
        let packets: Box<dyn FormatReader + 'a> = match packing {
            Packing::Flac => Box::new(FlacReader::try_new(stream, options).map_err(located)?),
            Packing::Vorbis => Box::new(OggReader::try_new(stream, options).map_err(located)?),
            Packing::Mpeg => Box::new(MpaReader::try_new(stream, options).map_err(located)?),
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
            possible: packing.most_frames(len),
        };
        if packing == Packing::Vorbis && parameters.codec != CODEC_ID_VORBIS {
            let codec = match parameters.codec {
                CODEC_ID_OPUS => "Opus",
                CODEC_ID_FLAC => "FLAC",
                _ => "another codec than Vorbis",
            };
            let message =
                format!("Ogg with {codec}, which is not read; convert it to FLAC (`ffmpeg -i FILE FILE.flac`)");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
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
                Err(error) => return Err(fault(self.packing, error, 0)),
            }
        }
    }

    /// Moves close to frame `start`; returns the first frame of the next packet.
    fn go_to(&mut self, start: u64) -> Result<u64> {
        if self.packing != Packing::Flac || start == 0 {
            return Ok(0);
        }
        let to = SeekTo::Timestamp { ts: Timestamp::new(start as i64), track_id: self.track };
        let sought = self.packets.seek(SeekMode::Accurate, to).map_err(|error| fault(self.packing, error, start))?;
        Ok(u64::try_from(sought.actual_ts.get()).unwrap_or_default())
    }
}

fn decoder(packing: Packing, parameters: &AudioCodecParameters) -> Result<Box<dyn AudioDecoder>> {
    let options = AudioDecoderOptions::default();
    let made: std::result::Result<Box<dyn AudioDecoder>, Fault> = match packing {
        Packing::Flac => FlacDecoder::try_new(parameters, &options).map(|decoder| Box::new(decoder) as _),
        Packing::Mpeg => MpaDecoder::try_new(parameters, &options).map(|decoder| Box::new(decoder) as _),
        Packing::Vorbis => VorbisDecoder::try_new(parameters, &options).map(|decoder| Box::new(decoder) as _),
    };
    made.map_err(|error| fault(packing, error, 0))
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
    let cut = writer.cut(&open.sound, key)?;
    let from = open.go_to(cut.input.start)?;
    let of = Compressed { packing: open.packing, sound: open.sound, cut, parameters: open.parameters.clone(), from };
    of.decode(|| open.next(), writer, row, budget)
}

/// The part of a sound that is wanted, compressed.
#[derive(Debug)]
struct Compressed {
    packing: Packing,
    sound: Sound,
    cut: Cut,
    parameters: AudioCodecParameters,
    /// The first frame of the first packet.
    from: u64,
}

impl Compressed {
    /// Decodes the packets that `next` gives.
    fn decode<P: Borrow<Packet>>(
        &self,
        mut next: impl FnMut() -> Result<Option<P>>,
        writer: &Writer,
        row: &mut RowMut<'_>,
        budget: &MemoryBudget,
    ) -> Result<()> {
        let Self { packing, sound, cut, parameters, from } = self;
        let (packing, wanted) = (*packing, cut.input.clone());
        let samples = (wanted.end - wanted.start).saturating_mul(sound.channels as u64);
        // The wanted frames, and a packet.
        let mut memory = budget.lend::<Memory>(4 * samples + (1 << 20), "decoding sound")?;
        let Memory { wanted: out, packet: decoded } = &mut *memory;
        out.clear();
        let mut decoder = decoder(packing, parameters)?;
        let mut at = *from;
        if at > wanted.start {
            return Err(missing(wanted.start, at));
        }
        while at < wanted.end {
            let Some(packet) = next()? else {
                let promised = sound.frames;
                let message =
                    format!("{promised} frames are promised, and {at} are found; the file is cut off or damaged");
                return Err(bad(message));
            };
            let packet = packet.borrow();
            let count = frames_in(packing, packet);
            // The reader skips what is damaged.
            let place = packet.pts.get().saturating_add_unsigned(packet.trim_start.get());
            // A page of Ogg may have no place.
            let is_placed = packing == Packing::Flac || packing == Packing::Vorbis && place > 0;
            if is_placed && place as u64 != at {
                return Err(missing(at, place as u64));
            }
            if packing != Packing::Flac && at + count + RUN_UP <= wanted.start {
                at += count;
                continue;
            }
            let buffer = decoder.decode(packet).map_err(|error| fault(packing, error, at))?;
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
        writer.write(sound, &frames, cut, row)
    }
}

/// The packets of a FLAC file that hold the wanted part of its sound.
#[derive(Debug)]
pub(crate) struct Packets {
    of: Compressed,
    packets: Vec<Packet>,
}

impl Packets {
    /// Reads them, and little else of the file. `None` for a file of another kind, for one that does not say how long it
    /// is, and for one with 64 MiB or more before its sound.
    ///
    /// # Errors
    ///
    /// As for decoding the whole file, and those of reading; [`ErrorKind::Limit`] for more than `most` bytes.
    pub(crate) fn read<F: ReadAt + Sync>(file: &F, writer: &Writer, key: RandomKey, most: u64) -> Result<Option<Self>> {
        let left = AtomicU64::new(MOST_BEFORE_SOUND);
        let Some(mut open) = open_flac(file, &left)? else { return Ok(None) };
        left.store(most, Ordering::Relaxed);
        let cut = writer.cut(&open.sound, key)?;
        let from = open.go_to(cut.input.start)?;
        let (mut at, mut packets) = (from, Vec::new());
        while at < cut.input.end
            && let Some(packet) = open.next()?
        {
            at = at.saturating_add(frames_in(Packing::Flac, &packet));
            packets.push(packet);
        }
        let Open { packing, sound, parameters, .. } = open;
        Ok(Some(Self { of: Compressed { packing, sound, cut, parameters, from }, packets }))
    }

    /// Decodes them.
    ///
    /// # Errors
    ///
    /// As for decoding the whole file.
    pub(crate) fn write(&self, writer: &Writer, row: &mut RowMut<'_>, budget: &MemoryBudget) -> Result<()> {
        let mut packets = self.packets.iter();
        self.of.decode(|| Ok(packets.next()), writer, row, budget)
    }
}

/// The properties of the sound in a FLAC file, of which little is read. `None` as for [`Packets::read`].
pub(crate) fn flac_sound<F: ReadAt + Sync>(file: &F) -> Result<Option<Sound>> {
    let left = AtomicU64::new(MOST_BEFORE_SOUND);
    Ok(open_flac(file, &left)?.map(|open| open.sound))
}

/// A FLAC file that says how long it is.
fn open_flac<'a, F: ReadAt + Sync>(file: &'a F, left: &'a AtomicU64) -> Result<Option<Open<'a>>> {
    let mut begin = [0; 4];
    if file.len() < begin.len() as u64 {
        return Ok(None);
    }
    file.read_at(0, &mut begin)?;
    if begin != *b"fLaC" {
        return Ok(None);
    }
    let open = match Open::of(Packing::Flac, Box::new(Reading { file, at: 0, left }), file.len()) {
        // Too much lies before the sound for reading only a part.
        Err(_) if left.load(Ordering::Relaxed) == 0 => return Ok(None),
        open => open?,
    };
    Ok(Some(open).filter(|open| open.sound.frames < u64::MAX))
}

/// Most bytes that are read before the sound itself: descriptions and pictures.
const MOST_BEFORE_SOUND: u64 = 1 << 26;

/// A file from `at` on, of which so many more bytes may be read.
struct Reading<'a, F> {
    file: &'a F,
    at: u64,
    left: &'a AtomicU64,
}

impl<F: ReadAt> Read for Reading<'_, F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.file.len().saturating_sub(self.at).min(into.len() as u64) as usize;
        let left = self.left.load(Ordering::Relaxed).checked_sub(len as u64).ok_or_else(|| {
            let message = "FLAC: too many bytes before or in the wanted part of the sound; take a shorter part, or the file is damaged";
            self.left.store(0, Ordering::Relaxed);
            io::Error::other(Error::new(ErrorKind::Limit, message))
        })?;
        self.left.store(left, Ordering::Relaxed);
        self.file.read_at(self.at, &mut into[..len]).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl<F: ReadAt> Seek for Reading<'_, F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.file.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl<F: ReadAt + Sync> MediaSource for Reading<'_, F> {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.file.len())
    }
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
