//! Recognising sound files by their first bytes and by their names.

use std::path::Path;

use crate::error::{Error, ErrorKind};

use super::wav::is_wav;

/// Endings of the names of sound files.
const ENDINGS: [&str; 8] = ["wav", "wave", "flac", "mp3", "ogg", "oga", "rf64", "bw64"];

/// Whether a file has the name of a sound file.
pub(crate) fn is_audio_name(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.iter().any(|other| ending.eq_ignore_ascii_case(other)))
}

/// Whether a file that begins with `head` is a sound file.
pub(crate) fn is_audio(head: &[u8]) -> bool {
    is_wav(head) || head.starts_with(b"fLaC") || head.starts_with(b"OggS\0") || is_mpeg(head)
}

/// A tag, or two frames of MPEG's layer 3 in a row, because the bits of one also occur by chance.
fn is_mpeg(head: &[u8]) -> bool {
    if let [b'I', b'D', b'3', 2..=4, 0..=9, _, a, b, c, d, ..] = head {
        return [a, b, c, d].into_iter().all(|byte| *byte < 0x80);
    }
    let frame = |at: usize| mpeg_frame_len(head.get(at..at + 4)?.try_into().ok()?);
    frame(0).and_then(frame).is_some()
}

/// Bytes of the frame of layer 3 with this header.
fn mpeg_frame_len(header: [u8; 4]) -> Option<usize> {
    const RATES: [[usize; 15]; 2] = [
        [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
        [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ];
    let [0xff, version @ 0xe0..=0xff, rates, _] = header else { return None };
    let (version, layer) = (version >> 3 & 3, version >> 1 & 3);
    if layer != 1 || version == 1 {
        return None;
    }
    let is_first = version == 3;
    let kilobits = *RATES[usize::from(!is_first)].get(usize::from(rates >> 4)).filter(|rate| **rate > 0)?;
    let hertz = [44_100, 48_000, 32_000].get(usize::from(rates >> 2 & 3))? >> (3 - version).min(2);
    let padding = usize::from(rates >> 1 & 1);
    Some(if is_first { 144_000 } else { 72_000 } * kilobits / hertz + padding)
}

#[cold]
pub(super) fn not_read(bytes: &[u8]) -> Error {
    if !is_audio(bytes) {
        let message = match bytes {
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => {
                "this is an MPEG-4 file (AAC or ALAC), which is not read; convert it to FLAC (`ffmpeg -i FILE FILE.flac`)"
            }
            [0xff, second, ..] if second & 0xf6 == 0xf0 => {
                "this is AAC, which is not read; convert it to FLAC (`ffmpeg -i FILE FILE.flac`)"
            }
            _ => "these bytes are not WAV, FLAC, MP3 or Ogg Vorbis sound (if the field names a file, set `file`)",
        };
        return Error::new(ErrorKind::Data, message).at_byte(0);
    }
    Error::new(ErrorKind::Unsupported, "FLAC, MP3 and Ogg Vorbis need a build with the feature `audio`; WAV does not")
}
