use std::ops::Range;

use crate::error::Result;
use crate::random::RandomKey;

use super::options::{AudioCrop, AudioOptions, MAX_FRAMES};
use super::resample::Kernel;
use super::sound::{Sound, bad};

/// The part of a sound that a tensor takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Frames of the tensor, at its rate, counted from the beginning of the whole sound.
    pub(crate) output: Range<u64>,
    /// Frames of the file that they are made of.
    pub(crate) input: Range<u64>,
}

impl Cut {
    pub(super) fn new(options: &AudioOptions, sound: &Sound, kernel: Option<&Kernel>, key: RandomKey) -> Result<Self> {
        let frames = kernel.map_or(sound.frames, |kernel| kernel.frames_of(sound.frames));
        let output = match options.length.map(|length| length as u64) {
            None => 0..whole(sound, frames)?,
            Some(length) if frames <= length => 0..frames,
            Some(length) => {
                let free = frames - length;
                let start = match options.crop {
                    Some(AudioCrop::Random) => options.key(key).below(0, free + 1),
                    Some(AudioCrop::Centre) => free / 2,
                    Some(AudioCrop::Start) => 0,
                    None => {
                        return Err(bad(format!(
                            "a sound of {frames} frames; at most {length} fit; raise length, or say which part is taken: \
                             `crop` is \"random\", \"centre\" or \"start\""
                        )));
                    }
                };
                start..start + length
            }
        };
        let input = kernel.map_or_else(|| output.clone(), |kernel| kernel.inputs(&output, sound.frames));
        Ok(Self { output, input })
    }
}

/// # Errors
///
/// [`ErrorKind::Data`](crate::ErrorKind::Data) for a sound that is too long to be taken as a whole, or longer than its
/// bytes can be.
pub(super) fn whole(sound: &Sound, frames: u64) -> Result<u64> {
    if frames <= MAX_FRAMES {
        let Sound { frames: promised, possible, .. } = sound;
        if promised > possible {
            return Err(bad(format!(
                "{promised} frames are promised, but at most {possible} can be in a file of this size; the file is cut off or \
                 damaged"
            )));
        }
        return Ok(frames);
    }
    Err(bad(format!(
        "a sound of {frames} frames; as a whole at most {MAX_FRAMES} are read; take a part of it with `length` and \
         `crop`"
    )))
}
