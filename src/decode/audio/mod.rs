//! Sound: where samples are in a file, which of them a tensor takes, and how they become numbers.

mod cut;
mod kind;
mod options;
#[cfg(feature = "audio")]
mod packed;
#[cfg(not(feature = "audio"))]
#[path = "left_out.rs"]
mod packed;
mod pcm;
mod resample;
mod sound;
mod wav;
mod write;

use std::ops::Range;

use crate::dtype::DType;
use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::row::RowMut;
use crate::schema::{Dim, Masked, Role, TensorSpec};

pub(crate) use cut::Cut;
pub(crate) use kind::{is_audio, is_audio_name};
pub use options::{AudioCrop, AudioOptions};
pub(crate) use packed::{Packets, flac_sound};
pub(crate) use pcm::Encoding;
pub(crate) use sound::{ReadAt, Sound};
pub(crate) use wav::{is_wav, parse as parse_wav};
pub(crate) use write::{Frames, Writer};

/// The tensors of a sound: `[frames]`, or with channels `[channels, frames]`, and a mask that is 1 where there is
/// sound. `frames` is the dimension that varies, if it does.
pub(crate) fn audio_tensors(options: &AudioOptions, name: &str, role: Role, frames: Dim) -> Vec<TensorSpec> {
    let frames = options.length.map_or(frames, Dim::Fixed);
    let shape: Vec<Dim> = options.channels.map(Dim::Fixed).into_iter().chain([frames]).collect();
    let mask = TensorSpec::with_dims(format!("{name}_mask"), Role::Mask, DType::U8, vec![frames]);
    let masked = Masked::By { mask: mask.name.as_str().into(), axis: shape.len() - 1 };
    let sound = TensorSpec { masked, ..TensorSpec::with_dims(name, role, options.dtype, shape) };
    vec![sound, mask]
}

/// What the bytes of a file say about its sound.
///
/// # Errors
///
/// [`ErrorKind::Data`] for bytes that are damaged, [`ErrorKind::Unsupported`] for a format that is not read.
pub(crate) fn describe(bytes: &[u8]) -> Result<Sound> {
    match is_wav(bytes) {
        true => parse_wav(bytes).map(|wav| wav.sound),
        false => packed::sound(bytes),
    }
}

/// Decodes the sound in `bytes`, a whole file, into the row's first two tensors.
///
/// # Errors
///
/// As [`describe`], and [`ErrorKind::Budget`].
pub(crate) fn write_audio(
    bytes: &[u8],
    writer: &Writer,
    key: RandomKey,
    row: &mut RowMut<'_>,
    budget: &MemoryBudget,
) -> Result<()> {
    if is_wav(bytes) {
        let wav = parse_wav(bytes)?;
        let cut = writer.cut(&wav.sound, key)?;
        let range: Range<u64> = wav.bytes_of(&cut.input);
        let frames = Frames { bytes: &bytes[range.start as usize..range.end as usize], encoding: wav.encoding };
        return writer.write(&wav.sound, &frames, &cut, row);
    }
    packed::write(bytes, writer, key, row, budget)
}
