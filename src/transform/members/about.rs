use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::normalise::NormaliserConfig;

use super::values::IsClass;
use super::{Operation, Part};
use crate::transform::Tensors;

/// Finds samples whose class is not valid, before the device works on them.
#[derive(Clone)]
pub(in crate::transform) struct Check {
    tensor: String,
    classes: Option<usize>,
}

impl Check {
    pub(in crate::transform) fn part(&self, tensors: &Tensors) -> Result<Part> {
        Ok(Part::Row(Arc::new(IsClass::new(&self.tensor, self.classes, tensors)?)))
    }
}

impl Operation {
    /// Whether it is only for training.
    pub(crate) fn is_augmentation(&self) -> bool {
        use Operation::{Cutmix, Masking, Mixup, Noise, Scale};
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
            Self::Pad { .. } | Self::LogMel(_) | Self::Mixup { .. } | Self::Cutmix { .. } => None,
        }
    }

    /// Other tensors that it names.
    pub(crate) fn beside(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Flip { by, .. } => (Some(by), None),
            Self::Dense { indices, mask, .. } => (Some(indices), mask.as_ref()),
            _ => (None, None),
        };
        first.into_iter().chain(second).map(String::as_str)
    }

    /// The check that the host must make if a device runs the operation, because a device can't report bad samples.
    pub(in crate::transform) fn check(&self) -> Option<Check> {
        match self {
            Self::OneHot { tensor, classes, .. } => Some(Check { tensor: tensor.clone(), classes: *classes }),
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
            _ => false,
        }
    }
}
