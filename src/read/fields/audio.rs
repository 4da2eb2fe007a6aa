use crate::decode::{AudioCrop, AudioOptions};
use crate::dtype::DType;

use super::of_options::of_options;

/// A sound as a tensor: numbers from -1 to 1, `[frames]`, the mean of its channels unless these are
/// [wanted](Audio::channels). Its mask, `u8`, called the same with `_mask` behind it, is 1 where there is sound and 0 behind it.
///
/// WAV files are read, and with the feature `audio` those in FLAC, MP3 and Ogg Vorbis.
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
    /// Of so many frames a second: a sound of another rate is resampled.
    pub fn new(rate: u32) -> Self {
        Self(AudioOptions { rate: Some(rate), ..AudioOptions::default() })
    }

    pub(super) fn make_plain(&mut self) {
        self.0.make_plain();
    }

    /// So many frames, with zeros behind a shorter sound. A longer one makes its record bad, unless a part of it is
    /// [taken](Self::crop). Without it, sounds are as long as the longest of their batch.
    #[must_use]
    pub fn length(mut self, frames: usize) -> Self {
        self.0.length = Some(frames);
        self
    }

    /// Which part of a longer sound is taken. Of a WAV file, no more than that is read.
    #[must_use]
    pub fn crop(mut self, crop: AudioCrop) -> Self {
        self.0.crop = Some(crop);
        self
    }

    /// So many channels, `[channels, frames]`, in place of their mean: a sound of one is repeated, of others it must have as
    /// many.
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
