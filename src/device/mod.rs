//! Batches on a device: an upload stage behind any iterator.
//!
//! A host batch is copied by a stream of its own into one of a few recycled device slots, and handed on at once; what
//! the trainer computes with it is ordered after the copy by an event, on the device. The host's slot goes home when its
//! copy has landed. A device slot is written again only after everything that the trainer ran on it, and it is the copy
//! stream that waits for that, never the host.
//!
//! Read `slots.rs` for the life of a device slot, `flight.rs` for who owns a host batch during its copy, `lane.rs` for
//! the upload thread, `iterator.rs` for what the trainer sees. `host.rs` is the device that every machine has.

mod aboard;
mod batch;
mod flight;
mod host;
mod iterator;
mod lane;
mod plan;
mod slots;
mod upload;

use std::fmt;

use crate::error::Result;
use crate::memory::PageSource;

pub use batch::{DeviceDataSet, DeviceTensor, OnStream};
pub use host::{HostDevice, HostEvent, HostMemory, HostStream};
pub use iterator::DeviceDataSetIterator;
pub use plan::DeviceDType;
pub use upload::{Upload, UploadStats, Uploader};

mod sealed {
    pub trait Sealed {}
}

/// Where batches are uploaded to: memory, and streams of work on it.
///
/// There are two: [`HostDevice`] on every machine, and `CudaDevice` with the feature `cuda`. Both keep the same rules, those
/// of CUDA: work of one stream runs in order, work of two streams in any order unless an event stands between them, and a
/// call that gives work to a stream returns before the work is done.
///
/// A trainer needs [`stream`](Self::stream) and [`pages`](Self::pages); the other methods are for the upload stage. The
/// trait can't be implemented outside of this crate.
pub trait Device: sealed::Sealed + Clone + fmt::Debug + Send + Sync + 'static {
    /// A piece of the device's memory.
    type Memory: fmt::Debug + Send + Sync + 'static;
    /// A queue of work that runs in order. Clones are handles to the same one.
    type Stream: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;
    /// A place in a stream's order that other streams, and the host, can wait for.
    type Event: fmt::Debug + Send + Sync + 'static;
    /// Host memory that the device copies from fastest.
    type Pages: PageSource + 'static;

    /// `host`, or `cuda:` and the device's number.
    fn name(&self) -> String;

    /// A new stream, which waits for no other one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device refuses.
    fn stream(&self) -> Result<Self::Stream>;

    /// Host memory for the ring that is uploaded from; see [`WorkspaceBuilder::pages`](crate::WorkspaceBuilder::pages).
    fn pages(&self) -> Self::Pages;

    /// Type and number of the device, as DLPack counts them.
    fn dlpack_device(&self) -> (i32, i32);

    /// Memory of `bytes` bytes, usable in `stream` from now on, and in other streams after an event of this one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if there is not as much.
    fn allocate(&self, bytes: usize, stream: &Self::Stream) -> Result<Self::Memory>;

    /// Frees the memory once all work that `stream` has now is done; does not wait for it.
    fn free(&self, memory: Self::Memory, stream: &Self::Stream);

    /// Address of the first byte, on the device; a multiple of 256.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// A new event, which counts as past until it is recorded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device refuses.
    fn event(&self) -> Result<Self::Event>;

    /// Puts the event behind all work that `stream` has now, instead of where it was.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device is broken.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Lets `stream` go on only after the event, as it is recorded now. Does not wait itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device is broken.
    fn order_after(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Sleeps until the event, as it is recorded now, is past.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device is broken.
    fn block_on(&self, event: &Self::Event) -> Result<()>;

    /// Sleeps until all work of all streams is done. For when something has gone wrong.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device is broken.
    fn settle(&self) -> Result<()>;

    /// Lets `stream` copy `from` to the beginning of `to`. Returns before that is done.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device refuses; nothing is copied then.
    ///
    /// # Safety
    ///
    /// `to` has at least as many bytes as `from`; both stay where they are until the copy is done, `from` unchanged; and no
    /// work that is not ordered before or after this one touches the target.
    unsafe fn copy_in(&self, from: &[u8], to: &Self::Memory, stream: &Self::Stream) -> Result<()>;

    /// Copies bytes from `offset` on to the host, after all work that `stream` has now, and waits for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device is broken, or the memory has fewer bytes.
    fn copy_out(&self, from: &Self::Memory, offset: usize, to: &mut [u8], stream: &Self::Stream) -> Result<()>;
}
