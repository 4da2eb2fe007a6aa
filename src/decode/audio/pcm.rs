//! Samples as they are stored, as numbers from -1 to 1.

use crate::decode::fused::convert;

/// How a sample is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    U8,
    I16,
    I24,
    I32,
    F32,
    F64,
    ALaw,
    MuLaw,
    /// In memory, not in a file.
    #[cfg(feature = "audio")]
    Native,
}

/// Which channel of each frame is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Mean,
    Nth(usize),
}

impl Encoding {
    /// Bytes of a sample.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::ALaw | Self::MuLaw => 1,
            Self::I16 => 2,
            Self::I24 => 3,
            Self::I32 | Self::F32 => 4,
            #[cfg(feature = "audio")]
            Self::Native => 4,
            Self::F64 => 8,
        }
    }

    /// Writes one number per frame; `bytes` has `channels` samples for each.
    ///
    /// # Panics
    ///
    /// If there are more or fewer frames than numbers.
    pub(super) fn read(self, bytes: &[u8], channels: usize, channel: Channel, out: &mut [f32]) {
        const WHOLE: f32 = 1.0 / 2_147_483_648.0;
        match self {
            Self::U8 => each(bytes, channels, channel, out, |[b]: [u8; 1]| f32::from(i16::from(b) - 128) / 128.0),
            Self::I16 => each(bytes, channels, channel, out, |b| f32::from(i16::from_le_bytes(b)) / 32_768.0),
            Self::I24 => each(bytes, channels, channel, out, |[a, b, c]: [u8; 3]| {
                i32::from_le_bytes([0, a, b, c]) as f32 * WHOLE
            }),
            Self::I32 => each(bytes, channels, channel, out, |b| i32::from_le_bytes(b) as f32 * WHOLE),
            Self::F32 => each(bytes, channels, channel, out, f32::from_le_bytes),
            Self::F64 => each(bytes, channels, channel, out, |b| f64::from_le_bytes(b) as f32),
            Self::ALaw => each(bytes, channels, channel, out, |[b]: [u8; 1]| f32::from(a_law(b)) / 32_768.0),
            Self::MuLaw => each(bytes, channels, channel, out, |[b]: [u8; 1]| f32::from(mu_law(b)) / 32_768.0),
            #[cfg(feature = "audio")]
            Self::Native => each(bytes, channels, channel, out, f32::from_ne_bytes),
        }
    }
}

fn each<const N: usize>(bytes: &[u8], channels: usize, channel: Channel, out: &mut [f32], to: impl Fn([u8; N]) -> f32) {
    let samples = bytes.as_chunks::<N>().0;
    if channels == 1 {
        return convert(out, samples, to);
    }
    assert_eq!(samples.len(), channels * out.len(), "as many frames as numbers");
    let frames = samples.chunks_exact(channels).zip(out);
    match channel {
        Channel::Nth(nth) => frames.for_each(|(frame, out)| *out = to(frame[nth])),
        Channel::Mean => {
            let count = channels as f32;
            frames.for_each(|(frame, out)| *out = frame.iter().map(|sample| to(*sample)).sum::<f32>() / count);
        }
    }
}

/// A sample in A-law of ITU-T's G.711.
const fn a_law(stored: u8) -> i16 {
    let bits = stored ^ 0x55;
    let step = ((bits & 0x0f) as i16) << 4;
    let size = match bits >> 4 & 7 {
        0 => step + 8,
        segment => (step + 0x108) << (segment - 1),
    };
    if bits & 0x80 == 0 { -size } else { size }
}

/// The same, mu-law.
const fn mu_law(stored: u8) -> i16 {
    let bits = !stored;
    let size = ((((bits & 0x0f) as i16) << 3) + 0x84) << (bits >> 4 & 7);
    if bits & 0x80 == 0 { size - 0x84 } else { 0x84 - size }
}
