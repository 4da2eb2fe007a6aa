use std::fmt;

use crate::error::Result;

use super::convert::Work;

/// The key that opens a [`Device`](super::Device)'s engine. Only this module has one.
#[derive(Debug)]
pub struct Key(());

pub(super) const KEY: Key = Key(());

/// The operations of a device that the upload stage needs. Errors are of kind [`Device`](crate::ErrorKind::Device).
///
/// It is not part of the public [`Device`](super::Device), so that users can't reach a device's memory without its
/// streams:
///
/// ```compile_fail,E0599
/// fn steal<D: ringfeed::device::Device>(device: &D, stream: &D::Stream) {
///     device.allocate(1, stream);
/// }
/// ```
pub trait Engine: Clone + fmt::Debug + Send + Sync + 'static {
    /// A piece of the device's memory.
    type Memory: fmt::Debug + Send + Sync + 'static;
    /// A queue of work that runs in order. Clones are handles to the same one.
    type Stream: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;
    /// A place in a stream's order that other streams, and the host, can wait for.
    type Event: fmt::Debug + Send + Sync + 'static;

    /// Its name for people.
    fn label(&self) -> String;

    /// Type and number of the device, as DLPack counts them.
    fn dlpack_device(&self) -> (i32, i32);

    /// A new stream, which waits for no other one.
    fn new_stream(&self) -> Result<Self::Stream>;

    /// Memory of `bytes` bytes, usable in `stream` from now on, and in other streams after an event of this one.
    fn allocate(&self, bytes: usize, stream: &Self::Stream) -> Result<Self::Memory>;

    /// Frees the memory once all work that `stream` has now is done; does not wait for it.
    fn free(&self, memory: Self::Memory, stream: &Self::Stream);

    /// Takes memory that streams may still use without an event that marks the end of their work. Frees it once all
    /// work of all streams is done, and never if the device is broken. Does not wait.
    fn abandon(&self, memory: Self::Memory);

    /// Address of the first byte, on the device; a multiple of 256.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// A new event, which counts as reached until it is recorded.
    fn event(&self) -> Result<Self::Event>;

    /// Moves the event behind all work that `stream` has now.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Makes further work of `stream` wait for the event, as it is recorded now. This call does not wait.
    fn order_after(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Sleeps until the device has reached the event, as it is recorded now.
    fn block_on(&self, event: &Self::Event) -> Result<()>;

    /// Sleeps until all work of all streams is done. For use after an error.
    fn settle(&self) -> Result<()>;

    /// Lets `stream` copy `from` to the beginning of `to`. Returns before that is done.
    ///
    /// # Safety
    ///
    /// `to` must have at least as many bytes as `from`. Both must stay in place until the copy is done, `from`
    /// unchanged. No work may touch the target unless it is ordered before or after this copy.
    unsafe fn copy_in(&self, from: &[u8], to: &Self::Memory, stream: &Self::Stream) -> Result<()>;

    /// Lets `stream` do a conversion in `memory`. Returns before that is done.
    ///
    /// # Safety
    ///
    /// All bytes that the work reads and writes must be in `memory`, which must stay in place until the work is done.
    /// Work that is not ordered before or after this work must not write what it reads, or touch what it writes.
    unsafe fn convert(&self, work: &Work, memory: &Self::Memory, stream: &Self::Stream) -> Result<()>;

    /// Copies bytes from `offset` on to the host, after all work that `stream` has now, and waits for it.
    fn copy_out(&self, from: &Self::Memory, offset: usize, to: &mut [u8], stream: &Self::Stream) -> Result<()>;
}
