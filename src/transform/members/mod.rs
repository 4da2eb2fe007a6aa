//! The built-in transforms, as plain data.

mod about;
mod augment;
mod constructors;
mod dense;
mod elements;
mod faults;
#[cfg(feature = "images")]
mod images;
mod listed;
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
#[cfg(feature = "formats")]
use crate::decode::{ImageAugment, named_operations};
use crate::dtype::DType;
use crate::error::Result;
#[cfg(not(all(feature = "audio", feature = "images")))]
use crate::error::{Error, ErrorKind};
use crate::normalise::NormaliserConfig;
use crate::schema::{Masked, Role, Schema, TensorSpec};

use super::lengths::Length;
use super::{BatchTransform, Tensors, Transform};
pub(super) use about::Check;
pub use augment::NumberAugment;
#[cfg(feature = "formats")]
pub use constructors::augment;
pub use constructors::{
    bins, cast, clip, cutmix, dense, flip, layout, log_mel, log1p, masking, mixup, noise, normalise, one_hot, pad_to,
    pad_to_multiple, quantile, remove, scale,
};
use dense::Dense;
pub(crate) use dense::{Entries, INDEX_TYPES, UNMASKED, expect, expect_type};
use elements::{InPlace, Mask};
pub use log_mel::{LogBase, LogMel, MelScale};
use mix::{How, Mix, chosen};
use pixels::{Flip, Layout};
pub(crate) use pixels::{MAX_CHANNELS, pixel_order, relaid, relaid_mask};
use random::{Random, Randomly};
use values::{Bins, Cast, Clip, Log1p, Normalise, OneHot, Quantile};

/// One transform as plain data: a member of the list in settings.
///
/// Transforms that change numbers work on floating point tensors, and leave the padding of shorter samples unchanged:
/// if a tensor varies in length, its mask says what is padding.
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
    /// Converts to another element type, rounding to the nearest floating point number. A number that is too large for
    /// the type, or that an integer type does not have, makes its sample a bad record, and so does a float beyond 2^53
    /// that would become an integer, because it may have been rounded.
    Cast {
        /// The name of the tensor.
        tensor: String,
        /// The new type.
        dtype: DType,
    },
    /// Turns class indices into rows of numbers, 1 at the index of the class and 0 elsewhere: adds one dimension. A
    /// number that is not a class makes its sample a bad record.
    OneHot {
        /// The name of the tensor.
        tensor: String,
        /// Number of classes; by default the number of class names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        classes: Option<usize>,
        /// Element type of the rows.
        #[serde(default = "f32_type")]
        dtype: DType,
    },
    /// `ln(1 + x)`. A number of -1 or less makes its sample a bad record.
    Log1p {
        /// The name of the tensor.
        tensor: String,
    },
    /// Values below `low` become `low`, values above `high` become `high`.
    Clip {
        /// The name of the tensor.
        tensor: String,
        /// The lower limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        low: Option<f64>,
        /// The upper limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        high: Option<f64>,
    },
    /// Scales and shifts, by any [`Normaliser`](crate::Normaliser): by mean and deviation, by range, or (robust
    /// scaling) with median and interquartile range as mean and deviation. If no earlier transform reads the tensor,
    /// this happens while decoding, at no extra cost.
    Normalise {
        /// The name of the tensor.
        tensor: String,
        /// The parameters, a file that [`Normaliser::save`](crate::Normaliser::save) wrote, `"imagenet"` or
        /// `"image_scale"`.
        normaliser: NormaliserConfig,
    },
    /// The share of the training data's values that are smaller, from 0 to 1, interpolated linearly between the
    /// quantiles.
    Quantile {
        /// The name of the tensor.
        tensor: String,
        /// The quantiles, evenly spaced from the smallest to the largest value of the data: at least two. A
        /// [`QuantileFit`](crate::normalise::QuantileFit) finds them, and a column of a
        /// [`Recipe`](crate::prepare::Recipe) finds its own.
        #[serde(deserialize_with = "listed::quantiles")]
        quantiles: Vec<f64>,
    },
    /// The index of the bin, which is the number of edges that are equal or smaller, as `i64`.
    Bins {
        /// The name of the tensor.
        tensor: String,
        /// The lower edges of the bins, ascending; the first bin is below all of them. A
        /// [`QuantileFit`](crate::normalise::QuantileFit) finds some, and a column of a
        /// [`Recipe`](crate::prepare::Recipe) finds its own.
        #[serde(deserialize_with = "listed::edges")]
        edges: Vec<f64>,
    },
    /// Changes the order of an image's dimensions.
    Layout {
        /// The name of the tensor.
        tensor: String,
        /// The new order.
        order: PixelOrder,
        /// The current order. By default the channels are the dimension with 1 to 4 elements.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<PixelOrder>,
    },
    /// Mirrors the images left to right for which another tensor is not 0.
    Flip {
        /// The name of the tensor.
        tensor: String,
        /// The tensor that marks the images to mirror: one byte per sample.
        by: String,
        /// The order of the image's dimensions. By default the channels are the dimension with 1 to 4 elements.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<PixelOrder>,
    },
    /// Random operations on images whose pixels are a tensor, such as those of a NumPy or Parquet file: `u8`, of one
    /// channel or three, all of one size, which they keep. For training only. The operations of an image *file* belong
    /// to its field ([`ImageOptions::augment`](crate::images::ImageOptions::augment)): there, only the part that a crop
    /// needs is decoded. What an operation does with pixels is the same in both places. Its random numbers differ: here
    /// they also depend on the tensor's name. Crops are resized by
    /// [`ResizeFilter::Bilinear`](crate::images::ResizeFilter::Bilinear). Each worker has buffers for an
    /// image, as scopes outside of the memory budget: up to 19 bytes per pixel, 15 more with `aug_mix`, and 24 more with
    /// maps. It keeps them unless they have more than 256 MiB.
    #[cfg(feature = "formats")]
    Augment {
        /// The name of the tensor.
        tensor: String,
        /// The operations, in this order; in settings a list, or the name of an
        /// [`AugmentRecipe`](crate::images::AugmentRecipe).
        #[serde(deserialize_with = "named_operations")]
        operations: Vec<ImageAugment>,
        /// Segmentation maps of the image: tensors of integers with its height and width. They get the same crops,
        /// flips and rotations, by the nearest pixel. Where these show something outside of the image, a map has the
        /// class 0; with `scale_jitter`, the first number of its `fill`; with the edge of `random_crop` mirrored or
        /// repeated, the same classes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        maps: Vec<String>,
        /// The order of the image's dimensions. By default the channels are the dimension with 1 to 4 elements; an
        /// image of two dimensions is grey.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<PixelOrder>,
    },
    /// Turns the values of a sparse row, of 32 bits, one per entry, into the dense row. Entries with a column that does
    /// not exist are left out; of several entries with the same column, the last one is used, or any of them if a GPU does
    /// it.
    Dense {
        /// The name of the tensor.
        tensor: String,
        /// The tensor of the entries' columns: `u32`, `i32` or `i64`.
        indices: String,
        /// Number of columns of a row.
        columns: usize,
        /// The tensor that is 0 for padding, one byte per entry. By default all entries count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mask: Option<String>,
        /// Element type of the rows: `f32`, `f16` or `bf16`.
        #[serde(default = "f32_type")]
        dtype: DType,
    },
    /// Adds a normally distributed number with mean 0 to every element of a feature. For training only.
    Noise {
        /// The name of the tensor.
        tensor: String,
        /// Standard deviation.
        deviation: f64,
        /// The probability that a sample is changed, from 0 to 1.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Replaces single elements of a feature at random with a fixed number. For training only.
    Masking {
        /// The name of the tensor.
        tensor: String,
        /// The probability that an element is replaced, from 0 to 1.
        probability: f64,
        /// The number that replaces them; 0 is the mean of standardised numbers.
        #[serde(default)]
        value: f64,
    },
    /// Multiplies all elements of a feature by one number, drawn between `low` and `high`. For training only.
    Scale {
        /// The name of the tensor.
        tensor: String,
        /// The smallest factor.
        low: f64,
        /// The largest factor.
        high: f64,
        /// The probability that a sample is changed, from 0 to 1.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Pads the length that varies from sample to sample with zeros: to `length`, or to a multiple of `multiple`. This
    /// applies to all tensors with this length, such as the mask. A sample longer than `length` is a bad record. Of a
    /// tensor with several such lengths, such as pictures of their own size, each becomes a multiple.
    Pad {
        /// A tensor with this length.
        tensor: String,
        /// The length of every sample.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<u32>,
        /// The number of which the length of every batch is a multiple.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        multiple: Option<u32>,
    },
    /// The logarithm of a sound's mel spectrogram. Needs the feature `audio`.
    LogMel(LogMel),
    /// Removes a tensor from which others are made.
    Remove {
        /// The name of the tensor.
        tensor: String,
    },
    /// Replaces each sample by a weighted sum of itself and the previous one in the batch, including labels (Zhang and
    /// others: "mixup", 2018), as torchvision does. A label that is a class becomes one number per class. Runs after
    /// all transforms of samples. A tensor with a mask is an error, because data would be written into padding.
    Mixup {
        /// Both parameters of the beta distribution that weights are drawn from, one for each batch.
        alpha: f64,
        /// The probability that a batch is changed, from 0 to 1.
        #[serde(default = "always")]
        probability: f64,
        /// The features to mix; by default all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        features: Vec<String>,
        /// The labels to mix; by default all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        labels: Vec<String>,
    },
    /// Replaces a box of each image by that of the previous one in the batch, and weights labels by area (Yun and
    /// others: "CutMix", 2019), as torchvision does. A label that is a class becomes one number per class. Several
    /// images of a sample are cut at the same place; with labels, they must have one size. Runs after all transforms of
    /// samples. A tensor with a mask is an error, because data would be written into padding.
    Cutmix {
        /// Both parameters of the beta distribution that areas are drawn from, one for each batch.
        alpha: f64,
        /// The probability that a batch is changed, from 0 to 1.
        #[serde(default = "always")]
        probability: f64,
        /// The images to mix; by default all features.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        features: Vec<String>,
        /// The labels to mix; by default all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        labels: Vec<String>,
    },
}

/// A transform of samples or of batches.
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
    /// The parts for `tensors`; `before` are the operations before it in the list.
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
            #[cfg(feature = "images")]
            Self::Augment { tensor, operations, maps, order } => {
                row(images::Augment::new(tensor, nth, operations, *order, maps, tensors)?)
            }
            #[cfg(all(feature = "formats", not(feature = "images")))]
            Self::Augment { tensor, .. } => {
                let message = "operations on images need a build with the feature `images`";
                return Err(Error::new(ErrorKind::Unsupported, message).at_column(tensor));
            }
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

/// Whether a mask distinguishes padding of this tensor from data, or its length varies.
pub(crate) fn has_padding(spec: &TensorSpec, schema: &Schema) -> bool {
    spec.is_variable()
        || spec.masked == Masked::Unknown
        || Mask::of(spec, &Tensors::of_source(schema.tensors())).is_some()
}

fn row(transform: impl Transform + 'static) -> Part {
    Part::Row(Arc::new(transform))
}

/// Turns labels that are classes into one-hot rows, and then mixes.
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

/// Removes a tensor before delivery.
struct Remove(String);

impl Transform for Remove {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.remove(&self.0)
    }

    fn apply(&self, _: &super::Row<'_>, _: &mut super::Outputs<'_>, _: &super::Scope<'_>) -> Result<()> {
        Ok(())
    }
}
