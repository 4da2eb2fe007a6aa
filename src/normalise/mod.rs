//! Normalisers: scale and shift that make numbers easy to learn from. They are fitted to training data, saved as JSON,
//! applied while decoding, and reverted on a model's output.

mod config;
mod fit;
mod observed;
mod quantiles;

use std::path::Path;
use std::slice::from_ref;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::schema::{Affine, AffineSteps, Dim, TensorSpec};
use crate::tree::{any, no_faults};

pub use config::NormaliserConfig;
pub use fit::NormaliserFit;
use observed::elements;
pub(crate) use quantiles::share_below;
pub use quantiles::{QuantileFit, Quantiles};

/// Version of the JSON form.
const VERSION: u32 = 1;

/// Most bytes of the JSON form: parameters for more than half a million columns.
const MAX_BYTES: u64 = 64 << 20;

/// An affine transformation of a tensor's values, described by its meaning.
///
/// `axis` is a dimension of one sample, without the batch dimension; each index along it has its own parameters.
/// Without an axis, all values have the same parameters. A tensor of f64 is computed in f64, by the formulas below. For
/// other types, `fma(x, scale, bias)` is computed in f32, so results may lie outside of the range by a rounding error
/// of f32.
///
/// ```
/// use ringfeed::tensor::{Role, TensorSpec};
/// use ringfeed::{DType, Normaliser};
///
/// let image = TensorSpec::new("image", Role::Feature, DType::F32, &[3, 224, 224]);
/// let affine = Normaliser::imagenet().affine(&image)?;
/// assert_eq!(affine.axis, Some(0));
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Normaliser {
    /// `(x - mean) / deviation`. A deviation of 0 (all values are equal) counts as 1, so that they become 0.
    Standardise {
        /// The dimension whose indices have their own parameters.
        axis: Option<usize>,
        /// Mean of the values.
        mean: Vec<f64>,
        /// Standard deviation of the values (of the population: the squares are divided by the count).
        deviation: Vec<f64>,
    },
    /// From `low..high` to `range`. If `low` equals `high`, that value becomes the range's start, and others are
    /// shifted with it (all become the start if a shift in f32 would miss it).
    MinMax {
        /// The dimension whose indices have their own parameters.
        axis: Option<usize>,
        /// Smallest value.
        low: Vec<f64>,
        /// Largest value.
        high: Vec<f64>,
        /// The range that they become.
        range: (f64, f64),
    },
    /// From a byte's 0 to 255 to `range`.
    ImageScale {
        /// The values that 0 and 255 become.
        range: (f64, f64),
    },
    /// `(x / 255 - mean) / deviation` per channel, with the means and deviations of images scaled to 0 to 1.
    Channels {
        /// The channels' dimension; `None` takes the first or last one, or the first one of an image behind another
        /// dimension, if only one of them has as many indices as there are means.
        #[serde(default)]
        axis: Option<usize>,
        /// A mean for each channel.
        mean: Vec<f64>,
        /// A deviation for each channel.
        deviation: Vec<f64>,
    },
    /// `x * scale + bias`, such as millimetres to metres.
    Linear {
        /// The factor; not 0.
        scale: f64,
        /// What is added.
        #[serde(default)]
        bias: f64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved<N> {
    version: u32,
    normaliser: N,
}

impl Normaliser {
    /// From a byte's 0 to 255 to 0 to 1.
    pub fn image_scale() -> Self {
        Self::ImageScale { range: (0.0, 1.0) }
    }

    /// The means and deviations of ImageNet's red, green and blue that torchvision's models were trained with.
    pub fn imagenet() -> Self {
        Self::Channels { axis: None, mean: vec![0.485, 0.456, 0.406], deviation: vec![0.229, 0.224, 0.225] }
    }

    /// The transformation to apply while decoding a tensor of `spec`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the tensor does not hold fractions, is transformed already, or its shape does not fit
    /// the parameters; [`ErrorKind::Config`] for parameters that make no sense.
    pub fn affine(&self, spec: &TensorSpec) -> Result<Affine> {
        let schema_error = |message: String| Error::new(ErrorKind::Schema, message).at_column(&spec.name);
        no_faults(self.faults())?;
        if !spec.dtype.is_float() {
            let message =
                format!("a normaliser needs a floating point tensor, but this one holds {}; make it f32", spec.dtype);
            return Err(schema_error(message));
        }
        if spec.affine.is_some() {
            return Err(schema_error("the tensor is normalised already; a second normaliser can't follow".to_owned()));
        }
        let dims: Vec<Option<usize>> = spec
            .shape
            .iter()
            .map(|dim| match dim {
                Dim::Fixed(len) => Some(*len),
                Dim::Extent(_) => None,
            })
            .collect();
        let axis = self.axis(&dims).map_err(schema_error)?;
        let mut affine = Affine::new(self.steps().collect(), axis);
        if spec.dtype != DType::F64 {
            self.fit_to_f32(&mut affine).map_err(schema_error)?;
        }
        Ok(affine)
    }

    /// Checks that the f32 computation agrees with the steps; otherwise says which values f32 can't hold.
    fn fit_to_f32(&self, affine: &mut Affine) -> Result<(), String> {
        let factors = affine.scale.iter_mut().zip(&mut affine.bias);
        for (index, ((scale, bias), steps)) in factors.zip(&affine.steps).enumerate() {
            if !scale.is_normal() || !bias.is_finite() {
                return Err(format!(
                    "index {index} is divided by {:e} from {:e} on, which is beyond f32; make the tensor f64",
                    steps.unit, steps.shift
                ));
            }
            if let Self::MinMax { low, high, .. } = self
                && low[index] == high[index]
                && low[index] as f32 + *bias != steps.start as f32
            {
                (*scale, *bias) = (0.0, steps.start as f32);
            }
        }
        Ok(())
    }

    /// Reverts the transformation of `values`, of one or several samples of `row_shape` one after another. Computed in
    /// f64.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the shape does not fit the parameters or the number of values.
    pub fn revert(&self, values: &mut [f32], row_shape: &[usize]) -> Result<()> {
        no_faults(self.faults())?;
        let dims: Vec<Option<usize>> = row_shape.iter().copied().map(Some).collect();
        let axis = self.axis(&dims).map_err(|message| Error::new(ErrorKind::Schema, message))?;
        if values.is_empty() {
            return Ok(());
        }
        if !elements(row_shape).is_some_and(|row| values.len().is_multiple_of(row)) {
            let message = format!("{} values are not whole samples of shape {row_shape:?}", values.len());
            return Err(Error::new(ErrorKind::Schema, message));
        }
        let steps: Vec<AffineSteps> = self.steps().collect();
        let run = axis.map_or(values.len(), |axis| row_shape[axis + 1..].iter().product());
        for (index, values) in values.chunks_mut(run.max(1)).enumerate() {
            let steps = steps[index % steps.len()];
            for value in values {
                *value = steps.revert((*value).into()) as f32;
            }
        }
        Ok(())
    }

    /// Writes the normaliser to `path` as JSON, which [`Normaliser::load`] reads back to the bit. The file is written
    /// completely or not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`], [`ErrorKind::Config`] for parameters that make no sense.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        no_faults(self.faults()).map_err(|error| error.at_path(path))?;
        let saved = Saved { version: VERSION, normaliser: self };
        let mut text = serde_json::to_string_pretty(any(&saved))
            .map_err(|error| Error::new(ErrorKind::Config, error.to_string()).with_source(error).at_path(path))?;
        text.push('\n');
        if text.len() as u64 > MAX_BYTES {
            let message = format!("a normaliser of {} bytes as JSON; at most {MAX_BYTES} are read again", text.len());
            return Err(Error::new(ErrorKind::Limit, message).at_path(path));
        }
        files::write_whole(path, &[text.as_bytes()]).map_err(|error| Error::io(path, error))
    }

    /// Reads a file that [`Normaliser::save`] wrote.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name; [`ErrorKind::Format`], with the line, if the file contains
    /// something else; [`ErrorKind::Config`] for parameters that make no sense.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = files::read_text(path, "a normaliser", MAX_BYTES)?;
        let format_error = |error: serde_json::Error| {
            let line = error.line() as u64;
            let message = format!("not a normaliser that ringfeed saved: {error}");
            Error::new(ErrorKind::Format, message).with_source(error).at_path(path).at_line(line)
        };
        let saved: Saved<serde_json::Value> = serde_json::from_str(&text).map_err(format_error)?;
        if saved.version != VERSION {
            let message = format!(
                "version {} of the normaliser's format; this version of ringfeed reads {VERSION}",
                saved.version
            );
            return Err(Error::new(ErrorKind::Format, message).at_path(path));
        }
        let saved: Saved<Self> = serde_json::from_str(&text).map_err(format_error)?;
        no_faults(saved.normaliser.faults()).map_err(|error| error.at_path(path))?;
        Ok(saved.normaliser)
    }

    /// The steps of each index.
    fn steps(&self) -> impl Iterator<Item = AffineSteps> {
        let (first, second): (&[f64], &[f64]) = match self {
            Self::Standardise { mean, deviation, .. } | Self::Channels { mean, deviation, .. } => (mean, deviation),
            Self::MinMax { low, high, .. } => (low, high),
            Self::ImageScale { .. } => (&[0.0], &[255.0]),
            Self::Linear { scale, bias } => (from_ref(scale), from_ref(bias)),
        };
        first.iter().zip(second).map(|(first, second)| match self {
            Self::Standardise { .. } => steps(*first, *second, (0.0, 1.0)),
            Self::Channels { .. } => steps(255.0 * first, 255.0 * second, (0.0, 1.0)),
            Self::MinMax { range, .. } | Self::ImageScale { range } => steps(*first, second - first, *range),
            Self::Linear { .. } => AffineSteps { shift: 0.0, unit: 1.0, factor: *first, start: *second },
        })
    }

    /// The dimension that selects the factors; lengths of varying dimensions are `None`.
    fn axis(&self, dims: &[Option<usize>]) -> Result<Option<usize>, String> {
        let factors = self.steps().count();
        let axis = match self {
            Self::ImageScale { .. } | Self::Linear { .. } => None,
            Self::Standardise { axis, .. } | Self::MinMax { axis, .. } => *axis,
            Self::Channels { axis: Some(axis), .. } => Some(*axis),
            Self::Channels { axis: None, .. } => {
                // The first and last ones of all dimensions, and of an image, which is the last three: before them are, for
                // example, the records of a window.
                let mut places = [0, dims.len().saturating_sub(3), dims.len().saturating_sub(1)].to_vec();
                places.dedup();
                places.retain(|place| dims.get(*place) == Some(&Some(factors)));
                match places.as_slice() {
                    [place] => Some(*place),
                    [_, _, ..] => {
                        let message = format!("the channels of shape {dims:?} may be first or last; give the axis");
                        return Err(message);
                    }
                    [] => {
                        let message = format!(
                            "no dimension of shape {dims:?} has {factors} channels first or last; give the axis"
                        );
                        return Err(message);
                    }
                }
            }
        };
        match axis {
            Some(axis) if dims.get(axis) != Some(&Some(factors)) => {
                Err(format!("axis {axis} of shape {dims:?} does not have the {factors} indices of the normaliser"))
            }
            None if factors != 1 => Err(format!("{factors} parameters without an axis; give the axis")),
            axis => Ok(axis),
        }
    }

    /// Parameters that make no sense.
    pub(crate) fn faults(&self) -> Vec<String> {
        let fault = |message: &str| vec![format!("a normaliser {message}")];
        let (first, second): (&[f64], &[f64]) = match self {
            Self::Standardise { mean, deviation, .. } | Self::Channels { mean, deviation, .. } => {
                if deviation.iter().any(|deviation| *deviation < 0.0) {
                    return fault("with a negative deviation");
                }
                (mean, deviation)
            }
            Self::MinMax { low, high, .. } => {
                if low.iter().zip(high).any(|(low, high)| low > high) {
                    return fault("whose low is above its high");
                }
                (low, high)
            }
            Self::ImageScale { .. } => (&[0.0], &[255.0]),
            Self::Linear { scale, bias } => {
                if *scale == 0.0 {
                    return fault("with a scale of 0");
                }
                (from_ref(scale), from_ref(bias))
            }
        };
        if let Self::MinMax { range: (start, end), .. } | Self::ImageScale { range: (start, end) } = self
            && (!start.is_finite() || !end.is_finite() || start == end)
        {
            return fault("whose range is empty or infinite");
        }
        if first.is_empty() || first.len() != second.len() {
            return fault(&format!("with {} and {} parameters; as many of each are needed", first.len(), second.len()));
        }
        if !first.iter().chain(second).all(|value| value.is_finite()) {
            return fault("with parameters that are not finite numbers");
        }
        if self.steps().any(|steps| [steps.shift, steps.unit, steps.factor].iter().any(|value| !value.is_finite())) {
            return fault("whose parameters differ by more than f64 can hold");
        }
        Vec::new()
    }
}

/// Steps that map `shift` to `start`, and `shift` plus `unit` to `end`; a unit of 0 counts as 1 on both sides.
fn steps(shift: f64, unit: f64, (start, end): (f64, f64)) -> AffineSteps {
    let (unit, factor) = if unit == 0.0 { (1.0, 1.0) } else { (unit, end - start) };
    AffineSteps { shift, unit, factor, start }
}
