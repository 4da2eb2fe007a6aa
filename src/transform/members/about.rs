use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::normalise::NormaliserConfig;

use super::dense::HasColumns;
use super::values::IsClass;
use super::{Operation, Part};
use crate::transform::Tensors;

/// Finds samples that are not valid, before the device works on them.
#[derive(Clone)]
pub(in crate::transform) enum Check {
    Classes { tensor: String, classes: Option<usize> },
    Columns { tensor: String, indices: String, mask: Option<String> },
}

impl Check {
    /// The check of the samples' tensors, if one is necessary.
    pub(in crate::transform) fn part(&self, tensors: &Tensors) -> Result<Option<Part>> {
        Ok(match self {
            // Those of floating point are refused elsewhere.
            Self::Classes { tensor, .. } if tensors.get(tensor)?.dtype.is_float() => None,
            Self::Classes { tensor, classes } => Some(Part::Row(Arc::new(IsClass::new(tensor, *classes, tensors)?))),
            Self::Columns { tensor, indices, mask } => {
                HasColumns::new(tensor, indices, mask.as_deref(), tensors)?.map(|check| Part::Row(Arc::new(check)))
            }
        })
    }
}

impl Operation {
    /// Whether it is only for training.
    pub(crate) fn is_augmentation(&self) -> bool {
        use Operation::{Cutmix, Masking, Mixup, Noise, Scale};
        #[cfg(feature = "formats")]
        if let Self::Augment { .. } = self {
            return true;
        }
        matches!(self, Noise { .. } | Masking { .. } | Scale { .. } | Mixup { .. } | Cutmix { .. })
    }

    /// The tensor that it changes or removes, if there is only one.
    pub(crate) fn tensor(&self) -> Option<&str> {
        match self {
            Self::Cast { tensor, .. }
            | Self::OneHot { tensor, .. }
            | Self::Log1p { tensor }
            | Self::Clip { tensor, .. }
            | Self::Normalise { tensor, .. }
            | Self::Quantile { tensor, .. }
            | Self::Bins { tensor, .. }
            | Self::Layout { tensor, .. }
            | Self::Flip { tensor, .. }
            | Self::Dense { tensor, .. }
            | Self::Noise { tensor, .. }
            | Self::Masking { tensor, .. }
            | Self::Scale { tensor, .. }
            | Self::Remove { tensor } => Some(tensor),
            #[cfg(feature = "formats")]
            Self::Augment { tensor, .. } => Some(tensor),
            Self::Pad { .. } | Self::LogMel(_) | Self::Mixup { .. } | Self::Cutmix { .. } => None,
        }
    }

    /// Other tensors that it names.
    pub(crate) fn beside(&self) -> impl Iterator<Item = &str> {
        let maps: &[String] = match self {
            #[cfg(feature = "formats")]
            Self::Augment { maps, .. } => maps,
            _ => &[],
        };
        let (first, second) = match self {
            Self::Flip { by, .. } => (Some(by), None),
            Self::Dense { indices, mask, .. } => (Some(indices), mask.as_ref()),
            _ => (None, None),
        };
        first.into_iter().chain(second).chain(maps).map(String::as_str)
    }

    /// The check that the host must make if a device runs the operation, because a device can't report bad samples.
    pub(in crate::transform) fn check(&self) -> Option<Check> {
        match self {
            Self::OneHot { tensor, classes, .. } => Some(Check::Classes { tensor: tensor.clone(), classes: *classes }),
            Self::Dense { tensor, indices, mask, .. } => {
                Some(Check::Columns { tensor: tensor.clone(), indices: indices.clone(), mask: mask.clone() })
            }
            _ => None,
        }
    }

    /// The file with its parameters.
    pub(crate) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Normalise { normaliser: NormaliserConfig::File(path), .. } => Some(path),
            _ => None,
        }
    }

    /// The same.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Normalise { normaliser: NormaliserConfig::File(path), .. } => Some(path),
            _ => None,
        }
    }

    /// Whether `other` is the same random operation on the same tensor, with any parameters.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Noise { tensor, .. }, Self::Noise { tensor: other, .. })
            | (Self::Masking { tensor, .. }, Self::Masking { tensor: other, .. })
            | (Self::Scale { tensor, .. }, Self::Scale { tensor: other, .. }) => tensor == other,
            #[cfg(feature = "formats")]
            (Self::Augment { tensor, .. }, Self::Augment { tensor: other, .. }) => tensor == other,
            _ => false,
        }
    }
}
