use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::random::{RandomKey, mix};

use super::sound::MAX_RATE;

/// Makes the keys of named geometries different from those of operations. It never changes.
const GEOMETRY: u64 = 0x736f_756e_6467_656f;

/// The kind of the only operation. It never changes.
const CROP: u64 = 0x6175;

/// Frames of the longest sound that is taken as a whole: four and a half hours at 16 kHz.
pub(super) const MAX_FRAMES: u64 = 1 << 28;

/// How a sound is decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioOptions {
    /// Frames per second of the tensor: a sound with another rate is resampled. `None` is
    /// the rate of the first file for the sounds of a folder or of paths, and elsewhere that of every sound.
    pub rate: Option<u32>,
    /// Number of frames of the tensor. Without it, sounds keep their lengths, and are padded to the longest of their
    /// batch.
    pub length: Option<usize>,
    /// Which part is taken of a sound that is longer than `length`. Without this setting, such a sound is a bad record.
    pub crop: Option<AudioCrop>,
    /// `None`: the mean of all channels, without a dimension for them. A number: that many channels; a sound with one
    /// channel is repeated, any other sound must have this number.
    pub channels: Option<usize>,
    /// Element type: f32, f16 or bf16, from -1 to 1; or i16, from -32768 to 32767.
    pub dtype: DType,
    /// Sounds of one sample with the same geometry name are cut at the same position. By default, all of them are.
    pub geometry: Option<String>,
}

/// Which part of a longer sound is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AudioCrop {
    /// Anywhere, with equal probability, drawn again in every epoch. Use the centre for evaluation.
    Random,
    /// The middle.
    Centre,
    /// The beginning.
    Start,
}

impl Default for AudioOptions {
    fn default() -> Self {
        Self { rate: None, length: None, crop: None, channels: None, dtype: DType::F32, geometry: None }
    }
}

impl AudioOptions {
    /// The key of everything random for a sample.
    pub(super) fn key(&self, sample: RandomKey) -> RandomKey {
        let key = match &self.geometry {
            None => sample,
            Some(name) => sample.with(name.bytes().fold(GEOMETRY, |hash, byte| mix(hash ^ u64::from(byte)))),
        };
        key.operation(CROP, 0)
    }

    /// Replaces a random crop by one from the middle.
    pub(crate) fn make_plain(&mut self) {
        if self.crop == Some(AudioCrop::Random) {
            self.crop = Some(AudioCrop::Centre);
        }
    }

    /// Everything that is wrong with these options; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(rate) = self.rate.filter(|rate| !(1..=MAX_RATE).contains(rate)) {
            faults.push(format!("rate: {rate} frames per second; give 1 to {MAX_RATE}"));
        }
        if self.length == Some(0) {
            faults.push("length: 0 frames; a sound has at least one".to_owned());
        }
        if self.crop.is_some() && self.length.is_none() {
            faults.push("crop: it needs a length, in frames".to_owned());
        }
        if let Some(channels) = self.channels.filter(|channels| !(1..=256).contains(channels)) {
            faults.push(format!("channels: {channels}; give 1 to 256, or leave it out for the mean of all channels"));
        }
        if !matches!(self.dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::I16) {
            faults.push(format!("dtype: {}; sound is f32, f16, bf16 or i16", self.dtype));
        }
        faults
    }
}
