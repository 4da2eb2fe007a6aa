//! Transforms: what becomes of a sample's tensors between decoding and delivery, as one list.
//!
//! A [`Transform`] says which tensors it reads and writes, and then works on one row at a time, in the worker that decoded
//! it. What is delivered lies in the batch's slot from the beginning; what is not (the audio of which a spectrogram is made)
//! lies beside it, in the worker's memory. A [`BatchTransform`] works on a whole batch, once all of its rows are settled.
//! [`Transforms`] is the list of them, and a `Chain` that list, made for the tensors of a source.

mod batch;
mod chain;
mod lengths;
mod list;
mod members;
mod row;
mod tensors;

pub use batch::{BatchMut, BatchTransform};
pub(crate) use chain::{Chain, ChainMemory};
pub use list::Transforms;
pub(crate) use members::{INDEX_TYPES, MAX_CHANNELS, expect, expect_type, has_padding, pixel_order, relaid};
pub use members::{
    LogBase, LogMel, MelScale, NumberAugment, Operation, bins, cast, clip, cutmix, dense, flip, layout, log_mel, log1p,
    masking, mixup, noise, normalise, one_hot, pad_to, pad_to_multiple, quantile, remove, scale,
};
pub use row::{Outputs, Row};
pub use tensors::Tensors;

use crate::error::Result;
pub use crate::memory::{Scope, ScopeStats, Scopes};

/// What becomes of the tensors of one sample.
///
/// It knows nothing of files, threads or batches: the same sample under the same key gives the same bytes, whoever calls it
/// and in whatever order. For a function over one tensor, [`Transforms::map`] is shorter.
///
/// ```
/// use ringfeed::transform::{Outputs, Row, Scope, Tensors, Transform, Transforms};
/// use ringfeed::{DType, Result, Role, TensorSpec};
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
    /// Says which tensors it reads, changes, adds and removes. Called when a source is opened.
    ///
    /// # Errors
    ///
    /// Tensors that are not there, or not as it needs them.
    fn declare(&self, tensors: &mut Tensors) -> Result<()>;

    /// Wraps the work on the samples of a job: calls `work` once, which applies this transform and others to each of them. For
    /// what is worth preparing only for many samples, such as a lock of another language's interpreter. Where it is not called,
    /// the samples are bad records.
    fn around(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// Works on one sample. `out` are the tensors that it changes or writes, in the order in which it declared them; of those
    /// that it writes it must write every byte, padding included: they hold whatever lay there before. Arrays of `scope` end
    /// with this call.
    ///
    /// # Errors
    ///
    /// What makes this sample a bad record. A panic does so, too.
    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, scope: &Scope<'_>) -> Result<()>;
}
