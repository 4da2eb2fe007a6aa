//! The transforms that Ringfeed brings along, as plain data.

mod about;
mod augment;
mod constructors;
mod dense;
mod elements;
mod faults;
mod log_mel;
mod mix;
mod pixels;
mod random;
#[cfg(feature = "audio")]
mod spectrogram;
mod values;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::error::Result;
#[cfg(not(feature = "audio"))]
use crate::error::{Error, ErrorKind};
use crate::normalise::NormaliserConfig;
use crate::schema::{Role, Schema, TensorSpec};

use super::lengths::Length;
use super::{BatchTransform, Tensors, Transform};
pub(super) use about::Check;
pub use augment::NumberAugment;
pub use constructors::{
    bins, cast, clip, cutmix, dense, flip, layout, log_mel, log1p, masking, mixup, noise, normalise, one_hot, pad_to,
    pad_to_multiple, quantile, remove, scale,
};
use dense::Dense;
pub(crate) use dense::{INDEX_TYPES, expect, expect_type};
use elements::{InPlace, Mask};
pub use log_mel::{LogBase, LogMel, MelScale};
use mix::{How, Mix, chosen};
use pixels::{Flip, Layout};
pub(crate) use pixels::{MAX_CHANNELS, pixel_order, relaid};
use random::{Random, Randomly};
use values::{Bins, Cast, Clip, Log1p, Normalise, OneHot, Quantile};

/// One transform as plain data: a member of the list in settings.
///
/// What changes numbers works on tensors of fractions, and leaves the padding of shorter samples as it is: where a tensor
/// varies in length, a mask tells it from data.
///
/// ```
/// use ringfeed::transform::{Operation, clip, log1p};
///
/// #[derive(serde::Deserialize)]
/// struct Settings {
///     transforms: Vec<Operation>,
/// }
/// let settings: Settings = toml::from_str(r#"
///     transforms = [
///         { kind = "log1p", tensor = "income" },
///         { kind = "clip", tensor = "income", low = 0.0, high = 20.0 },
///     ]
/// "#).expect("the example is valid");
/// assert_eq!(settings.transforms, [log1p("income"), clip("income", 0.0, 20.0)]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Operation {
    /// Another element type. Fractions are rounded to the nearest; a number that is too large for the type, or that a type of
    /// whole numbers does not have, makes its sample a bad record.
    Cast {
        /// Which tensor.
        tensor: String,
        /// The new type.
        dtype: DType,
    },
    /// Indices of classes become rows of numbers, 1 at the class's place and 0 elsewhere: one dimension more. What is no class
    /// makes its sample a bad record.
    OneHot {
        /// Which tensor.
        tensor: String,
        /// How many classes there are; by default as many as have names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        classes: Option<usize>,
        /// Element type of the rows.
        #[serde(default = "f32_type")]
        dtype: DType,
    },
    /// `ln(1 + x)`. A number of -1 or less makes its sample a bad record.
    Log1p {
        /// Which tensor.
        tensor: String,
    },
    /// What is below `low` or above `high` becomes that.
    Clip {
        /// Which tensor.
        tensor: String,
        /// The smallest number that stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        low: Option<f64>,
        /// The largest number that stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        high: Option<f64>,
    },
    /// Scale and shift, by any [`Normaliser`](crate::Normaliser): of mean and deviation, of the range, or (robust scaling) of the median and the
    /// distance of the quartiles, as a mean and a deviation. Where nothing before it looks at the tensor, that is done while
    /// decoding, at no cost of its own.
    Normalise {
        /// Which tensor.
        tensor: String,
        /// The parameters, a file that [`Normaliser::save`](crate::Normaliser::save) wrote, `"imagenet"` or `"image_scale"`.
        normaliser: NormaliserConfig,
    },
    /// The share of the training data's values that are below: from 0 to 1, by straight lines between the quantiles.
    Quantile {
        /// Which tensor.
        tensor: String,
        /// The values below which equal shares of the data lie, from the smallest to the largest value: at least two.
        quantiles: Vec<f64>,
    },
    /// The number of the bin: how many edges are equal or smaller. An `i64`.
    Bins {
        /// Which tensor.
        tensor: String,
        /// Where bins begin, in rising order; the first bin lies below all of them.
        edges: Vec<f64>,
    },
    /// Another order of an image's dimensions.
    Layout {
        /// Which tensor.
        tensor: String,
        /// The order that it gets.
        order: PixelOrder,
        /// The order that it has. By default channels are where there are 1 to 4.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<PixelOrder>,
    },
    /// Mirrors those images left to right for which another tensor is not 0.
    Flip {
        /// Which tensor.
        tensor: String,
        /// The tensor that says so: one byte a sample.
        by: String,
        /// The order of the image's dimensions. By default channels are where there are 1 to 4.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<PixelOrder>,
    },
    /// The tensor holds the values of a sparse row, in 32 bits, one for each entry, and becomes the whole row. Entries with a
    /// column that is not there are left out; of two with the same column, one is taken.
    Dense {
        /// Which tensor.
        tensor: String,
        /// The tensor of the entries' columns: `u32`, `i32` or `i64`.
        indices: String,
        /// How many columns a row has.
        columns: usize,
        /// The tensor that tells entries from padding, one byte an entry. By default all of them count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mask: Option<String>,
        /// Element type of the rows: `f32`, `f16` or `bf16`.
        #[serde(default = "f32_type")]
        dtype: DType,
    },
    /// Adds a normally distributed number of mean 0 to every element of a feature. For training alone.
    Noise {
        /// Which tensor.
        tensor: String,
        /// Standard deviation.
        deviation: f64,
        /// How many of the samples.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Replaces elements of a feature, each by itself, with a fixed number. For training alone.
    Masking {
        /// Which tensor.
        tensor: String,
        /// How many of the elements.
        probability: f64,
        /// What stands there instead; 0 is the mean of standardised numbers.
        #[serde(default)]
        value: f64,
    },
    /// Multiplies all elements of a feature by one number, drawn between `low` and `high`. For training alone.
    Scale {
        /// Which tensor.
        tensor: String,
        /// The smallest factor.
        low: f64,
        /// The largest factor.
        high: f64,
        /// How many of the samples.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Pads the length that varies from sample to sample, with zeros: to `length`, or to a multiple of `multiple` numbers. It
    /// holds for all tensors that have this length, such as the mask. A longer sample than `length` is a bad record.
    Pad {
        /// A tensor that has the length.
        tensor: String,
        /// The length of every sample.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<u32>,
        /// What the length of every batch is a multiple of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        multiple: Option<u32>,
    },
    /// The logarithm of a sound's mel spectrogram. Needs the feature `audio`.
    LogMel(LogMel),
    /// Removes a tensor that others are made of.
    Remove {
        /// Which tensor.
        tensor: String,
    },
    /// Replaces each sample by a weighted sum of itself and the one before it in the batch, labels, too (Zhang and others:
    /// "mixup", 2018), as torchvision does. A label that is a class becomes one number for each class. Behind all
    /// transforms of samples.
    Mixup {
        /// Both parameters of the beta distribution that weights are drawn from, one for each batch.
        alpha: f64,
        /// How many of the batches.
        #[serde(default = "always")]
        probability: f64,
        /// Which features; by default all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        features: Vec<String>,
        /// Which labels; by default all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        labels: Vec<String>,
    },
    /// Replaces a box of each image by that of the one before it in the batch, and weights labels by area (Yun and others:
    /// "CutMix", 2019), as torchvision does. A label that is a class becomes one number for each class. Behind all
    /// transforms of samples.
    Cutmix {
        /// Both parameters of the beta distribution that areas are drawn from, one for each batch.
        alpha: f64,
        /// How many of the batches.
        #[serde(default = "always")]
        probability: f64,
        /// Which images; by default all features.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        features: Vec<String>,
        /// Which labels; by default all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        labels: Vec<String>,
    },
}

/// What works on samples or batches.
#[derive(Clone)]
pub(super) enum Part {
    Row(Arc<dyn Transform>),
    Batch(Arc<dyn BatchTransform>),
}

fn f32_type() -> DType {
    DType::F32
}

fn always() -> f64 {
    1.0
}

impl Operation {
    /// What works on `tensors`; `before` are the operations that come before it in the list.
    pub(super) fn parts<'a>(&self, tensors: &Tensors, before: impl Iterator<Item = &'a Self>) -> Result<Vec<Part>> {
        let nth = before.filter(|other| self.is_like(other)).count() as u64;
        let random = |tensor: &str, what| Randomly::new(tensor, nth, what, tensors).map(row);
        Ok(vec![match self {
            Self::Cast { tensor, dtype } => row(Cast::new(tensor, *dtype, tensors)?),
            Self::OneHot { tensor, classes, dtype } => row(OneHot::replacing(tensor, *classes, *dtype, tensors)?),
            Self::Log1p { tensor } => row(InPlace::new(tensor, tensors, Log1p)?),
            Self::Clip { tensor, low, high } => {
                let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
                row(InPlace::new(tensor, tensors, Clip { low, high })?)
            }
            Self::Normalise { tensor, normaliser } => row(Normalise::new(tensor, &normaliser.load()?, tensors)?),
            Self::Quantile { tensor, quantiles } => {
                row(InPlace::new(tensor, tensors, Quantile { quantiles: quantiles.clone() })?)
            }
            Self::Bins { tensor, edges } => row(Bins::replacing(tensor, edges, tensors)?),
            Self::Layout { tensor, order, from } => match Layout::new(tensor, *order, *from, tensors)? {
                Some(layout) => row(layout),
                None => return Ok(Vec::new()),
            },
            Self::Flip { tensor, by, order } => row(Flip::new(tensor, by, *order, tensors)?),
            Self::Dense { tensor, indices, columns, mask, dtype } => {
                row(Dense::new(tensor, indices, mask.as_deref(), *columns, *dtype, tensors)?)
            }
            Self::Noise { tensor, deviation, probability } => {
                random(tensor, Random::Noise { deviation: *deviation, probability: *probability })?
            }
            Self::Masking { tensor, probability, value } => {
                random(tensor, Random::Masking { probability: *probability, value: *value })?
            }
            Self::Scale { tensor, low, high, probability } => {
                random(tensor, Random::Scaling { low: *low, high: *high, probability: *probability })?
            }
            Self::Pad { tensor, length, multiple } => {
                let length = length.map(Length::Exactly).or(multiple.map(Length::MultipleOf));
                row(SetLength { tensor: tensor.clone(), length: length.unwrap_or_default() })
            }
            #[cfg(feature = "audio")]
            Self::LogMel(options) => row(spectrogram::Spectrogram::new(options, tensors)?),
            #[cfg(not(feature = "audio"))]
            Self::LogMel(options) => {
                let message = "spectrograms need a build with the feature `audio`";
                return Err(Error::new(ErrorKind::Unsupported, message).at_column(&options.tensor));
            }
            Self::Remove { tensor } => row(Remove(tensor.clone())),
            Self::Mixup { alpha, probability, features, labels } => {
                return mix(How::Mixup, (*alpha, *probability), features, labels, tensors);
            }
            Self::Cutmix { alpha, probability, features, labels } => {
                return mix(How::Cutmix, (*alpha, *probability), features, labels, tensors);
            }
        }])
    }
}

/// Whether padding of this tensor is told from data by a mask, or its length varies.
pub(crate) fn has_padding(spec: &TensorSpec, schema: &Schema) -> bool {
    spec.is_variable() || Mask::of(spec, &Tensors::of_source(schema.tensors())).is_some()
}

fn row(transform: impl Transform + 'static) -> Part {
    Part::Row(Arc::new(transform))
}

/// One-hot rows of the labels that are classes, and then what mixes them.
fn mix(
    how: How,
    (alpha, probability): (f64, f64),
    features: &[String],
    labels: &[String],
    tensors: &Tensors,
) -> Result<Vec<Part>> {
    let features = chosen(features, Role::Feature, tensors)?;
    let labels = chosen(labels, Role::Label, tensors)?;
    let mut items = Vec::new();
    for label in &labels {
        if !tensors.get(label)?.dtype.is_float() {
            items.push(row(OneHot::replacing(label, None, DType::F32, tensors)?));
        }
    }
    let mix = Mix { how, alpha, probability, features, labels };
    items.push(Part::Batch(Arc::new(mix)));
    Ok(items)
}

/// Pads a length.
struct SetLength {
    tensor: String,
    length: Length,
}

impl Transform for SetLength {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.set_length(&self.tensor, self.length)
    }

    fn apply(&self, _: &super::Row<'_>, _: &mut super::Outputs<'_>, _: &super::Scope<'_>) -> Result<()> {
        Ok(())
    }
}

/// A tensor that is not delivered.
struct Remove(String);

impl Transform for Remove {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.remove(&self.0)
    }

    fn apply(&self, _: &super::Row<'_>, _: &mut super::Outputs<'_>, _: &super::Scope<'_>) -> Result<()> {
        Ok(())
    }
}
