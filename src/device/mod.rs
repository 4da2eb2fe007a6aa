//! Batches on a device: an upload stage after any iterator.
//!
//! A separate stream copies a host batch into one of a few recycled device slots, and the batch is delivered at once.
//! An event on the device orders the trainer's work after the copy. The host's slot is free again when its copy is
//! done. A device slot is written again only after all work that the trainer ran on it. The copy stream waits for that;
//! the host never does.
//!
//! Read `slot.rs` for the life of a device slot, `exchange.rs` for what the threads pass to each other, `flight.rs` for
//! the owner of a host batch during its copy, `lane.rs` for the upload thread, and `iterator.rs` for the trainer's
//! interface. `engine.rs` lists what a device must be able to do, and `host.rs` is the device that every machine has.

mod aboard;
mod batch;
mod convert;
#[cfg(feature = "cuda")]
mod cuda;
mod dlpack;
mod engine;
mod exchange;
mod flight;
mod host;
mod iterator;
mod lane;
mod measure;
#[cfg(all(test, ringfeed_loom))]
mod models;
mod name;
#[cfg(any(all(test, not(ringfeed_loom)), feature = "cuda"))]
#[cfg_attr(not(feature = "cuda"), expect(unreachable_pub, reason = "tested everywhere, exported with CUDA"))]
mod pages;
mod place;
mod plan;
mod queue;
mod slot;
mod stats;
mod upload;

use std::fmt;

use crate::error::Result;
use crate::memory::PageSource;

use engine::{Engine, KEY, Key};

pub use batch::{DeviceDataSet, DeviceTensor, OnStream};
pub use convert::Conversion;
pub(crate) use convert::split;
#[cfg(feature = "cuda")]
pub use cuda::{CudaDevice, CudaStream, HostPages};
pub use dlpack::DlpackTensor;
pub use host::{HostDevice, HostStream};
pub use iterator::DeviceDataSetIterator;
pub use measure::{convert_rate, copy_rate};
pub use name::DeviceName;
#[cfg(feature = "cuda")]
pub use pages::LockedPages;
pub(crate) use plan::uploaded;
pub use stats::UploadStats;
pub use upload::{Upload, Uploader};

/// A device that batches are uploaded to: memory, and streams of work on it.
///
/// There are two: [`HostDevice`] on every machine, and `CudaDevice` with the feature `cuda`. Both follow the rules of
/// CUDA: work of one stream runs in order, and work of two streams in any order unless an event orders them. A call
/// that gives work to a stream returns before the work is done.
///
/// The trait can't be implemented outside of this crate.
pub trait Device: Clone + fmt::Debug + Send + Sync + 'static {
    /// A queue of work that runs in order. Clones are handles to the same stream.
    type Stream: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;
    /// Host memory that the device copies from fastest.
    type Pages: PageSource + 'static;
    #[doc(hidden)]
    type Engine: Engine<Stream = Self::Stream>;

    #[doc(hidden)]
    fn engine(&self, key: Key) -> &Self::Engine;

    /// `host`, or `cuda:` and the device's number.
    fn name(&self) -> String {
        self.engine(KEY).label()
    }

    /// A new stream, which does not wait for other streams.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device refuses.
    fn stream(&self) -> Result<Self::Stream> {
        self.engine(KEY).new_stream()
    }

    /// Host memory for the ring whose batches are uploaded; see
    /// [`WorkspaceBuilder::pages`](crate::workspace::WorkspaceBuilder::pages).
    fn pages(&self) -> Self::Pages;
}
