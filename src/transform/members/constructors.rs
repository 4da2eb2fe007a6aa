#[cfg(feature = "formats")]
use crate::decode::ImageAugment;
use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::normalise::{Normaliser, NormaliserConfig};

use super::{LogMel, Operation};

/// [`Operation::Cast`].
pub fn cast(tensor: impl Into<String>, dtype: DType) -> Operation {
    Operation::Cast { tensor: tensor.into(), dtype }
}

/// [`Operation::OneHot`], with one number per named class, in `f32`.
pub fn one_hot(tensor: impl Into<String>) -> Operation {
    Operation::OneHot { tensor: tensor.into(), classes: None, dtype: DType::F32 }
}

/// [`Operation::Log1p`].
pub fn log1p(tensor: impl Into<String>) -> Operation {
    Operation::Log1p { tensor: tensor.into() }
}

/// [`Operation::LogMel`], of 80 numbers every 160 samples, of 400 samples each.
pub fn log_mel(tensor: impl Into<String>, rate: u32) -> Operation {
    Operation::LogMel(LogMel::new(tensor, rate))
}

/// [`Operation::Clip`], with both bounds.
pub fn clip(tensor: impl Into<String>, low: f64, high: f64) -> Operation {
    Operation::Clip { tensor: tensor.into(), low: Some(low), high: Some(high) }
}

/// [`Operation::Normalise`].
pub fn normalise(tensor: impl Into<String>, normaliser: Normaliser) -> Operation {
    Operation::Normalise { tensor: tensor.into(), normaliser: NormaliserConfig::Inline(normaliser) }
}

/// [`Operation::Quantile`].
pub fn quantile(tensor: impl Into<String>, quantiles: impl Into<Vec<f64>>) -> Operation {
    Operation::Quantile { tensor: tensor.into(), quantiles: quantiles.into() }
}

/// [`Operation::Bins`].
pub fn bins(tensor: impl Into<String>, edges: impl Into<Vec<f64>>) -> Operation {
    Operation::Bins { tensor: tensor.into(), edges: edges.into() }
}

/// [`Operation::Layout`], of images; the channels are the dimension with 1 to 4 elements.
pub fn layout(tensor: impl Into<String>, order: PixelOrder) -> Operation {
    Operation::Layout { tensor: tensor.into(), order, from: None }
}

/// [`Operation::Flip`], of images; the channels are the dimension with 1 to 4 elements.
pub fn flip(tensor: impl Into<String>, by: impl Into<String>) -> Operation {
    Operation::Flip { tensor: tensor.into(), by: by.into(), order: None }
}

/// [`Operation::Augment`], without maps; the channels are the dimension with 1 to 4 elements.
///
/// ```
/// use ringfeed::images::{AugmentRecipe, horizontal_flip, random_crop};
/// use ringfeed::transform::augment;
///
/// assert_eq!(augment("image", AugmentRecipe::Cifar), augment("image", [random_crop(4), horizontal_flip()]));
/// ```
#[cfg(feature = "formats")]
pub fn augment(tensor: impl Into<String>, operations: impl IntoIterator<Item = ImageAugment>) -> Operation {
    let operations = operations.into_iter().collect();
    Operation::Augment { tensor: tensor.into(), operations, maps: Vec::new(), order: None }
}

/// [`Operation::Dense`], of all entries, in `f32`.
///
/// ```
/// use ringfeed::read::MemoryReader;
/// use ringfeed::source::{ReaderSource, Transformed};
/// use ringfeed::tensor::Role;
/// use ringfeed::transform::{Transforms, dense};
/// use ringfeed::{AsyncDataSetIterator, Workspace};
///
/// let values = MemoryReader::new("x", Role::Feature, &[2], vec![0.5f32, 2.0, 1.0, 3.0])?;
/// let columns = MemoryReader::new("columns", Role::Feature, &[2], vec![0i32, 3, 2, 9])?;
/// let source = ReaderSource::new(values).and(columns);
/// let rows = Transformed::new(source, Transforms::new().with(dense("x", "columns", 4)).remove("columns"));
/// let mut batches = AsyncDataSetIterator::new(rows, &Workspace::default())?;
/// let batch = batches.next().expect("there are rows")?;
/// assert_eq!(batch.features()?.as_slice::<f32>()?, [0.5, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub fn dense(tensor: impl Into<String>, indices: impl Into<String>, columns: usize) -> Operation {
    Operation::Dense { tensor: tensor.into(), indices: indices.into(), columns, mask: None, dtype: DType::F32 }
}

/// [`Operation::Noise`], for all samples.
pub fn noise(tensor: impl Into<String>, deviation: f64) -> Operation {
    Operation::Noise { tensor: tensor.into(), deviation, probability: 1.0 }
}

/// [`Operation::Masking`], with zeros.
pub fn masking(tensor: impl Into<String>, probability: f64) -> Operation {
    Operation::Masking { tensor: tensor.into(), probability, value: 0.0 }
}

/// [`Operation::Scale`], for all samples.
pub fn scale(tensor: impl Into<String>, low: f64, high: f64) -> Operation {
    Operation::Scale { tensor: tensor.into(), low, high, probability: 1.0 }
}

/// [`Operation::Pad`] to one length for all samples.
pub fn pad_to(tensor: impl Into<String>, length: u32) -> Operation {
    Operation::Pad { tensor: tensor.into(), length: Some(length), multiple: None }
}

/// [`Operation::Pad`] to the next multiple.
pub fn pad_to_multiple(tensor: impl Into<String>, multiple: u32) -> Operation {
    Operation::Pad { tensor: tensor.into(), length: None, multiple: Some(multiple) }
}

/// [`Operation::Remove`].
pub fn remove(tensor: impl Into<String>) -> Operation {
    Operation::Remove { tensor: tensor.into() }
}

/// [`Operation::Mixup`] of all features and labels.
pub fn mixup(alpha: f64) -> Operation {
    Operation::Mixup { alpha, probability: 1.0, features: Vec::new(), labels: Vec::new() }
}

/// [`Operation::Cutmix`] of all features and labels.
pub fn cutmix(alpha: f64) -> Operation {
    Operation::Cutmix { alpha, probability: 1.0, features: Vec::new(), labels: Vec::new() }
}
