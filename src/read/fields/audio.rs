use crate::decode::{AudioCrop, AudioOptions};
use crate::dtype::DType;

use super::of_options::of_options;

/// A sound as a tensor `f32 [frames]`: numbers from -1 to 1, the mean of all channels unless you ask for
/// [channels](Audio::channels). Its mask (`u8 [frames]`, suffix `_mask`) is 1 where there is sound and 0 in the padding
/// after it.
///
/// WAV files are read, and with the feature `audio` also FLAC, MP3 and Ogg Vorbis.
///
/// ```
/// use ringfeed::audio::AudioCrop;
/// use ringfeed::field::{Audio, Field};
///
/// // A second of each file, anywhere in it, at 16 kHz.
/// let speech: Field = Audio::new(16_000).length(16_000).crop(AudioCrop::Random).from("path").file();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Audio(AudioOptions);

impl Audio {
    /// With this many frames per second: a sound of another rate is resampled.
    pub fn new(rate: u32) -> Self {
        Self(AudioOptions { rate: Some(rate), ..AudioOptions::default() })
    }

    pub(super) fn make_plain(&mut self) {
        self.0.make_plain();
    }

    /// This many frames, with zeros after a shorter sound. A longer sound makes its record bad, unless a
    /// [part](Self::crop) of it is taken. Without a length, sounds are padded to the longest of their batch.
    #[must_use]
    pub fn length(mut self, frames: usize) -> Self {
        self.0.length = Some(frames);
        self
    }

    /// Which part of a longer sound is taken. Of a WAV file, only this part is read.
    #[must_use]
    pub fn crop(mut self, crop: AudioCrop) -> Self {
        self.0.crop = Some(crop);
        self
    }

    /// This many channels, `[channels, frames]`, instead of their mean: a sound with one channel is repeated, any other
    /// sound must have this number of channels.
    #[must_use]
    pub fn channels(mut self, channels: usize) -> Self {
        self.0.channels = Some(channels);
        self
    }

    /// Element type: f32, f16, bf16; or i16, from -32768 to 32767.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.0.dtype = dtype;
        self
    }
}

of_options!(
    Audio,
    AudioOptions,
    "sounds",
    "Sounds of a sample whose geometry has the same name are cut at the same place; others each at their own."
);
