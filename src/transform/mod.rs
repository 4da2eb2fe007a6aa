//! Transforms of a sample's tensors between decoding and delivery, as one list.
//!
//! A [`Transform`] declares which tensors it reads and writes, and then works on one row at a time, in the worker that
//! decoded it. Tensors that are delivered are in the batch's slot from the beginning; others (such as the sound of a
//! spectrogram) are in the worker's memory. A [`BatchTransform`] works on a whole batch, after all of its rows are
//! settled. [`Transforms`] is the list, and a `Chain` is the list prepared for the tensors of a source.

mod batch;
mod chain;
mod lengths;
mod list;
mod members;
mod row;
mod tensors;

pub use batch::{BatchMut, BatchTransform};
pub(crate) use chain::{Chain, ChainMemory, NOT_DONE};
pub use list::Transforms;
#[cfg(feature = "formats")]
pub use members::augment;
pub(crate) use members::{
    Entries, INDEX_TYPES, MAX_CHANNELS, UNMASKED, expect, expect_type, has_padding, pixel_order, relaid, relaid_mask,
};
pub use members::{
    LogBase, LogMel, MelScale, NumberAugment, Operation, bins, cast, clip, cutmix, dense, flip, layout, log_mel, log1p,
    masking, mixup, noise, normalise, one_hot, pad_to, pad_to_multiple, quantile, remove, scale,
};
pub use row::{Outputs, Row};
pub use tensors::Tensors;

use crate::error::Result;
pub use crate::memory::{Scope, ScopeStats, Scopes};

/// Changes the tensors of one sample.
///
/// It knows nothing of files, threads or batches: the same sample with the same key gives the same bytes, on any thread
/// and in any order. For a function of one tensor, [`Transforms::map`] is shorter.
///
/// ```
/// use ringfeed::tensor::{Role, TensorSpec};
/// use ringfeed::transform::{Outputs, Row, Scope, Tensors, Transform, Transforms};
/// use ringfeed::{DType, Result};
///
/// /// Replaces `point` by its distance from the origin.
/// struct Distance;
///
/// impl Transform for Distance {
///     fn declare(&self, tensors: &mut Tensors) -> Result<()> {
///         tensors.read("point")?;
///         tensors.remove("point")?;
///         tensors.write(TensorSpec::new("distance", Role::Feature, DType::F32, &[]))
///     }
///
///     fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
///         let squares: f32 = row.f32("point")?.iter().map(|x| x * x).sum();
///         out.tensor(0).f32()?[0] = squares.sqrt();
///         Ok(())
///     }
/// }
///
/// let list = Transforms::new().and(Distance);
/// ```
pub trait Transform: Send + Sync {
    /// Declares which tensors it reads, changes, adds and removes. Called when a source is opened.
    ///
    /// # Errors
    ///
    /// If tensors do not exist, or are not as this transform needs them.
    fn declare(&self, tensors: &mut Tensors) -> Result<()>;

    /// Wraps the work on the samples of a job: calls `work` once, which applies this transform and others to each
    /// sample. Use it for preparation that pays only for many samples, such as taking the lock of another language's
    /// interpreter. If `work` is not called, the samples are bad records.
    fn around(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// Whether it draws random numbers, for training alone: [`Loader::serve`](crate::Loader::serve) refuses it. By
    /// default `false`.
    fn is_augmentation(&self) -> bool {
        false
    }

    /// The only tensor that it changes or writes, if there is just one. If that is a label,
    /// [`Loader::serve`](crate::Loader::serve) leaves the transform out. By default `None`.
    fn tensor(&self) -> Option<&str> {
        None
    }

    /// Works on one sample. `out` has the tensors that it changes or writes, in the order in which it declared them. It
    /// must write every byte of a tensor that it writes, padding included, because the memory still holds earlier data.
    /// Arrays of `scope` end with this call.
    ///
    /// # Errors
    ///
    /// Any error makes this sample a bad record. So does a panic.
    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, scope: &Scope<'_>) -> Result<()>;
}
