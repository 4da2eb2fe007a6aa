//! The logarithm of a sound's mel spectrogram.

use serde::{Deserialize, Serialize};

/// The logarithm of a mel spectrogram, with the values of torchaudio's `MelSpectrogram`: `[mels, frames]` instead of
/// `[samples]`, and a mask of frames instead of the mask of samples.
///
/// Every `hop` samples, `n_fft` samples under a Hann window are Fourier transformed. The magnitudes, raised to `power`,
/// are summed under triangles that are evenly spaced on the mel scale. With `centre`, the centre of frame `t` is sample
/// `t * hop`, and the sound is reflected at both ends; without it, frames lie within the sound. The padding after a
/// shorter sound is zeros. The mask is 1 for as many frames as the sound alone would have. A frame with a sample that is
/// NaN or infinite has no finite number.
///
/// ```
/// use ringfeed::transform::{LogMel, Operation};
///
/// let whisper = LogMel { log: ringfeed::transform::LogBase::Log10, ..LogMel::new("audio", 16_000) };
/// assert_eq!((whisper.n_fft, whisper.hop, whisper.mels), (400, 160, 80));
/// let operation = Operation::LogMel(whisper);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogMel {
    /// The tensor: `f32`, with samples as its last dimension, equally many in every sound.
    pub tensor: String,
    /// The name of the result; by default it replaces the sound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// Samples per second.
    pub rate: u32,
    /// Number of samples of a Fourier transform; even.
    #[serde(default = "n_fft")]
    pub n_fft: usize,
    /// Number of samples from frame to frame.
    #[serde(default = "hop")]
    pub hop: usize,
    /// Number of samples of the window, which is centred in those of the transform; by default the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// Number of mel bands, which are the numbers of a frame.
    #[serde(default = "mels")]
    pub mels: usize,
    /// The lowest frequency in hertz.
    #[serde(default)]
    pub low: f64,
    /// The highest frequency in hertz; by default half of the rate, rounded down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// 1 for magnitudes, 2 for power.
    #[serde(default = "power")]
    pub power: u8,
    /// Whether frames are centred at their positions, or begin there.
    #[serde(default = "yes")]
    pub centre: bool,
    /// Which mel scale.
    #[serde(default)]
    pub scale: MelScale,
    /// Whether each triangle is divided by half of its width in hertz (`norm="slaney"`).
    #[serde(default)]
    pub area_norm: bool,
    /// Which logarithm.
    #[serde(default)]
    pub log: LogBase,
    /// The smallest value before the logarithm, as `f32`; smaller values are raised to it.
    #[serde(default = "floor")]
    pub floor: f64,
}

/// From frequencies to the mel scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MelScale {
    /// `2595 log10(1 + f / 700)`.
    #[default]
    Htk,
    /// Linear up to 1000 Hz and logarithmic above, as in Slaney's Auditory Toolbox.
    Slaney,
}

/// Which logarithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogBase {
    /// The natural one.
    #[default]
    Ln,
    /// To the base of 10.
    Log10,
    /// Decibels: ten times the logarithm to the base of 10 of power, twenty times that of magnitudes.
    Decibels,
}

fn n_fft() -> usize {
    400
}

fn hop() -> usize {
    160
}

fn mels() -> usize {
    80
}

fn power() -> u8 {
    2
}

fn yes() -> bool {
    true
}

fn floor() -> f64 {
    1e-10
}

/// Most samples of a transform, and most numbers of a frame.
const MOST: usize = 1 << 16;

impl LogMel {
    /// 80 mel bands every 160 samples, from 400 samples each.
    pub fn new(tensor: impl Into<String>, rate: u32) -> Self {
        Self {
            tensor: tensor.into(),
            into: None,
            rate,
            n_fft: n_fft(),
            hop: hop(),
            window: None,
            mels: mels(),
            low: 0.0,
            high: None,
            power: power(),
            centre: yes(),
            scale: MelScale::Htk,
            area_norm: false,
            log: LogBase::Ln,
            floor: floor(),
        }
    }

    pub(super) fn high(&self) -> f64 {
        // Half of an odd rate is rounded down, as in torchaudio.
        self.high.unwrap_or(f64::from(self.rate / 2))
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let window = self.window.unwrap_or(self.n_fft);
        let (low, high, floor) = (self.low, self.high(), self.floor as f32);
        let checks = [
            (self.rate > 0, format!("rate: {} samples per second; give 1 or more", self.rate)),
            (
                (2..=MOST).contains(&self.n_fft) && self.n_fft.is_multiple_of(2),
                format!("n_fft: {}; it is an even number, 2 to {MOST}", self.n_fft),
            ),
            (self.hop > 0, "hop: 0 samples; it is at least one".to_owned()),
            ((1..=self.n_fft).contains(&window), format!("window: {window}; it is 1 to n_fft = {}", self.n_fft)),
            ((1..=MOST).contains(&self.mels), format!("mels: {}; there are 1 to {MOST}", self.mels)),
            (
                low >= 0.0 && low < high && high <= f64::from(self.rate),
                format!("low: frequencies from {low} to {high}; low is 0 or more, and below high"),
            ),
            (matches!(self.power, 1 | 2), format!("power: {}; it is 1 or 2", self.power)),
            (floor > 0.0 && floor.is_finite(), format!("floor: {}; it is above 0 as a number of f32", self.floor)),
        ];
        checks.into_iter().filter(|(is_right, _)| !is_right).map(|(_, fault)| fault).collect()
    }
}
