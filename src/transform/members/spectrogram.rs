//! What a [`LogMel`] computes.

use std::f64::consts::TAU;
use std::sync::Arc;

use num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scope;
use crate::read::STEPS_MASK;
use crate::schema::{Dim, Masked, Role, TensorSpec};
use crate::transform::{Outputs, Row, Tensors, Transform};

use super::log_mel::{LogBase, LogMel, MelScale};
use super::values::one;

/// A spectrogram of sounds that all have the same length.
pub(super) struct Spectrogram {
    options: LogMel,
    spec: TensorSpec,
    /// The mask of samples, and the mask of frames.
    mask: Option<(String, TensorSpec)>,
    /// The mask of the sounds of a sequence, and the number of planes for each of its elements.
    of_sounds: Option<(String, usize)>,
    samples: usize,
    frames: usize,
    window: Vec<f32>,
    transform: Arc<dyn RealToComplex<f32>>,
    filters: Vec<Filter>,
}

/// A triangle of the mel scale: the weights of neighbouring frequencies.
struct Filter {
    first: usize,
    weights: Vec<f32>,
}

impl MelScale {
    fn of_hertz(self, hertz: f64) -> f64 {
        match self {
            Self::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
            Self::Slaney if hertz < 1000.0 => hertz * 3.0 / 200.0,
            Self::Slaney => 15.0 + (hertz / 1000.0).ln() * 27.0 / 6.4f64.ln(),
        }
    }

    fn to_hertz(self, mel: f64) -> f64 {
        match self {
            Self::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
            Self::Slaney if mel < 15.0 => mel * 200.0 / 3.0,
            Self::Slaney => 1000.0 * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp(),
        }
    }
}

fn filters(options: &LogMel) -> Vec<Filter> {
    let count = options.n_fft / 2 + 1;
    let (low, high) = (options.scale.of_hertz(options.low), options.scale.of_hertz(options.high()));
    let steps = (options.mels + 1) as f64;
    let place = |nth: usize| options.scale.to_hertz(low + (high - low) * nth as f64 / steps);
    // Half of an odd rate is rounded down, as in torchaudio.
    let step = f64::from(options.rate / 2) / (count - 1) as f64;
    (0..options.mels)
        .map(|nth| {
            let [from, top, to] = [place(nth), place(nth + 1), place(nth + 2)];
            let norm = if options.area_norm { 2.0 / (to - from) } else { 1.0 };
            let weight = |index: usize| {
                let hertz = index as f64 * step;
                ((hertz - from) / (top - from)).min((to - hertz) / (to - top)).max(0.0) * norm
            };
            let first = (0..count).find(|index| weight(*index) > 0.0).unwrap_or(0);
            let weights = (first..count).map(weight).take_while(|weight| *weight > 0.0).map(|weight| weight as f32);
            Filter { first, weights: weights.collect() }
        })
        .collect()
}

impl Spectrogram {
    pub(super) fn new(options: &LogMel, tensors: &Tensors) -> Result<Self> {
        let sound = tensors.get(&options.tensor)?;
        let fault = |message: String| Err(Error::new(ErrorKind::Schema, message).at_column(&options.tensor));
        if sound.dtype != DType::F32 {
            return fault(format!("holds {}; a spectrogram is made of f32: cast it", sound.dtype));
        }
        let Some(Dim::Fixed(samples)) = sound.shape.last().copied() else {
            return fault("varies in length; give the sound a length, or pad it to one".to_owned());
        };
        let Some(frames) = frames_of(options, samples) else {
            return fault(format!("has {samples} samples, too few for a transform of {}", options.n_fft));
        };
        let name = options.into.as_ref().unwrap_or(&options.tensor);
        let mut shape = sound.shape[..sound.shape.len() - 1].to_vec();
        shape.extend([Dim::Fixed(options.mels), Dim::Fixed(frames)]);
        let masked = sound.mask(tensors.specs());
        let rank = sound.shape.len();
        let of_samples = masked.as_ref().filter(|mask| mask.rank == 1 && mask.axis + 1 == rank);
        let planes = |dims: &[Dim]| dims.iter().map(|dim| if let Dim::Fixed(len) = dim { *len } else { 1 }).product();
        let of_steps = tensors.specs().find(|spec| spec.name == STEPS_MASK && spec.role == Role::Mask);
        let of_steps = of_steps.filter(|mask| rank > 1 && mask.shape == sound.shape[..1]);
        let of_sounds = of_steps.map(|mask| (mask.name.clone(), planes(&sound.shape[1..rank - 1])));
        let is_of_steps = of_steps.is_some_and(|mask| masked.as_ref().is_some_and(|own| own.name == mask.name));
        let of_samples = of_samples.map(|mask| tensors.get(mask.name)).transpose()?;
        let mask = of_samples.map(|mask| {
            let of_frames =
                TensorSpec::with_dims(format!("{name}_mask"), Role::Mask, mask.dtype, vec![Dim::Fixed(frames)]);
            (mask.name.clone(), of_frames)
        });
        let axis = shape.len() - 1;
        let masked = match (&mask, &of_sounds) {
            (Some((_, mask)), _) => Masked::By { mask: mask.name.as_str().into(), axis },
            (None, Some((mask, _))) if is_of_steps => Masked::By { mask: mask.as_str().into(), axis: 0 },
            // No mask of frames corresponds to one of samples of several sounds.
            (None, _) if masked.is_some() || sound.masked == Masked::Unknown => Masked::Unknown,
            (None, _) => Masked::Never,
        };
        let spec = TensorSpec { name: name.clone(), shape, affine: None, masked, ..sound.clone() };
        let len = options.window.unwrap_or(options.n_fft);
        let before = (options.n_fft - len) / 2;
        let hann = |at: usize| (0.5 - 0.5 * (TAU * at as f64 / len as f64).cos()) as f32;
        let mut window = vec![0.0; options.n_fft];
        (0..len).for_each(|at| window[before + at] = hann(at));
        Ok(Self {
            options: options.clone(),
            spec,
            mask,
            of_sounds,
            samples,
            frames,
            window,
            transform: RealFftPlanner::new().plan_fft_forward(options.n_fft),
            filters: filters(options),
        })
    }

    /// Multiplies the samples of a frame by the window.
    fn cut(&self, sound: &[f32], frame: usize, into: &mut [f32]) {
        let start = frame * self.options.hop;
        let reach = if self.options.centre { self.options.n_fft / 2 } else { 0 };
        if start >= reach && start - reach + into.len() <= sound.len() {
            let part = &sound[start - reach..][..into.len()];
            into.iter_mut().zip(part).zip(&self.window).for_each(|((into, x), weight)| *into = x * weight);
            return;
        }
        // The sound is reflected at its ends.
        let last = sound.len() as isize - 1;
        for (at, (into, weight)) in into.iter_mut().zip(&self.window).enumerate() {
            let place = (start + at) as isize - reach as isize;
            let inside = if place > last { 2 * last - place } else { place.abs() };
            *into = sound[inside as usize] * weight;
        }
    }

    fn write(&self, sound: &[f32], scope: &Scope<'_>, out: &mut [f32]) -> Result<()> {
        let bins = self.options.n_fft / 2 + 1;
        let cut = scope.try_zeros::<f32>([self.options.n_fft])?;
        let spectrum = scope.try_zeros::<Complex<f32>>([bins])?;
        let room = scope.try_zeros::<Complex<f32>>([self.transform.get_scratch_len()])?;
        let sizes = scope.try_zeros::<f32>([bins])?;
        let floor = self.options.floor as f32;
        for frame in 0..self.frames {
            self.cut(sound, frame, cut);
            self.transform.process_with_scratch(cut, spectrum, room).map_err(|error| {
                Error::new(ErrorKind::Data, format!("no spectrum: {error}")).at_column(&self.options.tensor)
            })?;
            match self.options.power {
                1 => sizes.iter_mut().zip(&*spectrum).for_each(|(size, x)| *size = x.norm()),
                _ => sizes.iter_mut().zip(&*spectrum).for_each(|(size, x)| *size = x.norm_sqr()),
            }
            for (nth, filter) in self.filters.iter().enumerate() {
                let sizes = &sizes[filter.first..filter.first + filter.weights.len()];
                let sum: f32 = filter.weights.iter().zip(sizes).map(|(weight, size)| weight * size).sum();
                // Unlike `f32::max`, this keeps NaN.
                let sum = if sum < floor { floor } else { sum };
                out[nth * self.frames + frame] = match (self.options.log, self.options.power) {
                    (LogBase::Ln, _) => sum.ln(),
                    (LogBase::Log10, _) => sum.log10(),
                    (LogBase::Decibels, 1) => 20.0 * sum.log10(),
                    (LogBase::Decibels, _) => 10.0 * sum.log10(),
                };
            }
        }
        Ok(())
    }
}

/// Number of frames of a sound with so many samples; `None` if there are too few.
fn frames_of(options: &LogMel, samples: usize) -> Option<usize> {
    match options.centre {
        true => (samples > options.n_fft / 2).then(|| samples / options.hop + 1),
        false => Some(samples.checked_sub(options.n_fft)? / options.hop + 1),
    }
}

impl Transform for Spectrogram {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read(&self.options.tensor)?;
        tensors.write(self.spec.clone())?;
        if let Some((of_samples, of_frames)) = &self.mask {
            tensors.read(of_samples)?;
            tensors.write(of_frames.clone())?;
        }
        if let Some((mask, _)) = &self.of_sounds {
            tensors.read(mask)?;
        }
        Ok(())
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, scope: &Scope<'_>) -> Result<()> {
        let sound = row.f32(&self.options.tensor)?;
        let mut tensor = out.tensor(0);
        let channels = sound.chunks_exact(self.samples);
        let planes = tensor.f32()?.chunks_exact_mut(self.options.mels * self.frames);
        let of_sounds = self.of_sounds.as_ref().map(|(mask, planes)| row.tensor(mask).map(|mask| (mask, *planes)));
        let of_sounds = of_sounds.transpose()?;
        for (nth, (sound, out)) in channels.zip(planes).enumerate() {
            match &of_sounds {
                Some((mask, planes)) if mask.numbers().at(nth / planes) == 0.0 => out.fill(0.0),
                _ => self.write(sound, scope, out)?,
            }
        }
        if let Some((of_samples, _)) = &self.mask {
            let mask = row.tensor(of_samples)?;
            let numbers = mask.numbers();
            let samples = (0..numbers.len()).filter(|index| numbers.at(*index) != 0.0).count();
            let frames = match samples {
                0 => 0,
                samples if self.options.centre => (samples / self.options.hop + 1).min(self.frames),
                samples => frames_of(&self.options, samples).unwrap_or(0),
            };
            let mut mask = out.tensor(1);
            let (bytes, one) = (mask.dtype().bytes(), one(mask.dtype()));
            let (present, absent) = mask.bytes_mut().split_at_mut(frames * bytes);
            present.chunks_exact_mut(bytes).for_each(|present| present.copy_from_slice(&one[..bytes]));
            absent.fill(0);
        }
        Ok(())
    }
}
