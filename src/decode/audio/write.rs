//! From samples to a tensor: channels, rate, type and padding.

use std::ops::Range;

use crate::decode::write_finite;
use crate::dtype::{DType, NumberSlice};
use crate::error::Result;
use crate::random::RandomKey;
use crate::row::{RowMut, TensorMut};
use crate::sync::{Arc, Mutex};
use crate::tree::no_faults;

use super::cut::{Cut, whole};
use super::options::{AudioCrop, AudioOptions};
use super::pcm::{Channel, Encoding};
use super::resample::{Kernel, MOST_TAPS};
use super::sound::{Sound, bad};

/// Number of frames that are converted at a time, on the stack.
const BLOCK: usize = 1024;

/// Number of the file's frames that are resampled at a time, on the stack.
const INPUTS: usize = 2 * MOST_TAPS;

/// Number of pairs of rates whose weights are kept. The files of a data set have one rate, or a few.
const KERNELS: usize = 8;

/// Frames of a sound as they are stored, beginning with the first wanted one.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) encoding: Encoding,
}

/// Makes tensors of sounds, according to its options.
#[derive(Debug)]
pub(crate) struct Writer {
    options: AudioOptions,
    kernels: Mutex<Vec<(u32, Arc<Kernel>)>>,
}

impl Writer {
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for options that make no sense.
    pub(crate) fn new(options: AudioOptions) -> Result<Self> {
        no_faults(options.faults())?;
        Ok(Self { options, kernels: Mutex::default() })
    }

    /// Whether the part of a sound that is taken depends on its sample's key.
    pub(crate) fn is_random(&self) -> bool {
        self.options.crop == Some(AudioCrop::Random)
    }

    /// The weights for sounds of this rate; `None` if it is the wanted rate.
    fn kernel(&self, rate: u32) -> Result<Option<Arc<Kernel>>> {
        let Some(wanted) = self.options.rate.filter(|wanted| *wanted != rate) else { return Ok(None) };
        let find =
            |kept: &[(u32, Arc<Kernel>)]| kept.iter().find(|(of, _)| *of == rate).map(|(_, kernel)| kernel.clone());
        let found = find(&self.kernels.lock());
        if found.is_some() {
            return Ok(found);
        }
        let made = Arc::new(Kernel::new(rate, wanted)?);
        let mut kept = self.kernels.lock();
        if let Some(found) = find(&kept) {
            return Ok(Some(found));
        }
        let oldest = (kept.len() == KERNELS).then(|| kept.remove(0));
        kept.push((rate, made.clone()));
        drop(kept);
        drop(oldest);
        Ok(Some(made))
    }

    /// The part of a sound that is taken.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a sound that is too long or has other channels.
    pub(crate) fn cut(&self, sound: &Sound, key: RandomKey) -> Result<Cut> {
        if let Some(wanted) = self.options.channels.filter(|wanted| ![1, *wanted].contains(&sound.channels)) {
            let found = sound.channels;
            return Err(bad(format!(
                "{found} channels, where {wanted} are wanted; leave `channels` out for the mean of all"
            )));
        }
        Cut::new(&self.options, sound, self.kernel(sound.rate)?.as_deref(), key)
    }

    /// Number of frames of the tensor, if a sound is taken as a whole.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a sound that is too long.
    pub(crate) fn frames(&self, sound: &Sound) -> Result<u32> {
        let kernel = self.kernel(sound.rate)?;
        let frames = whole(sound, kernel.map_or(sound.frames, |kernel| kernel.frames_of(sound.frames)))?;
        Ok(u32::try_from(frames).unwrap_or(u32::MAX))
    }

    /// Writes the frames of a cut into the row's first tensor, and the mask into its second. `frames` holds them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] if the batch has no room for them.
    pub(crate) fn write(&self, sound: &Sound, frames: &Frames<'_>, cut: &Cut, row: &mut RowMut<'_>) -> Result<()> {
        let kernel = self.kernel(sound.rate)?;
        let count = (cut.output.end - cut.output.start) as usize;
        let mut tensor = row.tensor(0);
        let room = tensor.shape().last().copied().unwrap_or_default();
        if count > room {
            return Err(bad(format!("{count} frames, where the batch has room for {room}; did the file change?")));
        }
        let planes = self.options.channels.unwrap_or(1);
        for plane in 0..planes {
            let channel = match self.options.channels {
                None => Channel::Mean,
                Some(_) => Channel::Nth(plane.min(sound.channels - 1)),
            };
            let mut plane = Plane { tensor: &mut tensor, start: plane * room };
            match &kernel {
                None => frames.write(sound, channel, count, &mut plane)?,
                Some(kernel) => frames.write_resampled(sound, channel, cut, kernel, &mut plane)?,
            }
            plane.pad(count, room)?;
        }
        let mut mask = row.tensor(1);
        let (present, absent) = mask.bytes_mut().split_at_mut(count);
        present.fill(1);
        absent.fill(0);
        Ok(())
    }
}

/// One channel of a tensor.
struct Plane<'a, 'b> {
    tensor: &'a mut TensorMut<'b>,
    start: usize,
}

impl Plane<'_, '_> {
    /// The place for numbers that can be written without conversion.
    fn direct(&mut self, count: usize) -> Option<&mut [f32]> {
        let is_plain = self.tensor.dtype() == DType::F32 && self.tensor.affine().is_none();
        is_plain.then(|| self.tensor.f32().ok()?.get_mut(self.start..self.start + count)).flatten()
    }

    fn put(&mut self, at: usize, numbers: &[f32]) -> Result<()> {
        if self.tensor.dtype() != DType::I16 {
            return write_finite(self.tensor, self.start + at, NumberSlice::F32(numbers));
        }
        let start = self.start + at;
        let out = &mut self.tensor.as_mut_slice::<i16>()?[start..start + numbers.len()];
        // The conversion stops at the largest and smallest number.
        out.iter_mut().zip(numbers).for_each(|(out, x)| *out = (x * 32_768.0).round_ties_even() as i16);
        Ok(())
    }

    /// Writes zeros after `count` numbers; padding is not scaled.
    fn pad(&mut self, count: usize, room: usize) -> Result<()> {
        let bytes = self.tensor.dtype().bytes();
        self.tensor.bytes_mut()[(self.start + count) * bytes..(self.start + room) * bytes].fill(0);
        Ok(())
    }
}

impl Frames<'_> {
    /// The bytes of some frames.
    fn bytes(&self, sound: &Sound, frames: Range<usize>) -> &[u8] {
        let frame = sound.channels * self.encoding.bytes();
        &self.bytes[frames.start * frame..frames.end * frame]
    }

    fn write(&self, sound: &Sound, channel: Channel, count: usize, plane: &mut Plane<'_, '_>) -> Result<()> {
        if let Some(out) = plane.direct(count) {
            self.encoding.read(self.bytes(sound, 0..count), sound.channels, channel, out);
            return Ok(());
        }
        let mut block = [0.0; BLOCK];
        for at in (0..count).step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(count - at)];
            self.encoding.read(self.bytes(sound, at..at + block.len()), sound.channels, channel, block);
            plane.put(at, block)?;
        }
        Ok(())
    }

    fn write_resampled(
        &self,
        sound: &Sound,
        channel: Channel,
        cut: &Cut,
        kernel: &Kernel,
        plane: &mut Plane<'_, '_>,
    ) -> Result<()> {
        let (mut inputs, mut outputs) = ([0.0; INPUTS], [0.0; BLOCK]);
        let step = kernel.outputs_in(INPUTS).clamp(1, BLOCK as u64);
        let mut first = cut.output.start;
        while first < cut.output.end {
            let part = first..cut.output.end.min(first + step);
            let span = kernel.span(&part);
            let present = kernel.inputs(&part, sound.frames);
            let before = ((present.start as i64 - span.start).max(0) as usize).min((span.end - span.start) as usize);
            let count = (present.end - present.start) as usize;
            let inputs = &mut inputs[..(span.end - span.start) as usize];
            inputs[..before].fill(0.0);
            inputs[before + count..].fill(0.0);
            let from = (present.start - cut.input.start) as usize;
            let bytes = self.bytes(sound, from..from + count);
            self.encoding.read(bytes, sound.channels, channel, &mut inputs[before..before + count]);
            let outputs = &mut outputs[..(part.end - part.start) as usize];
            kernel.write(first, inputs, outputs);
            plane.put((first - cut.output.start) as usize, outputs)?;
            first = part.end;
        }
        Ok(())
    }
}
