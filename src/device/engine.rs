use std::fmt;

use crate::error::Result;

use super::convert::Work;

/// What opens a [`Device`](super::Device)'s engine. Only this module has one.
#[derive(Debug)]
pub struct Key(());

pub(super) const KEY: Key = Key(());

/// What the upload stage asks of a device. Errors are of kind [`Device`](crate::ErrorKind::Device).
///
/// It is no part of the public [`Device`](super::Device), whose users can't reach a device's memory past its streams:
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

    /// What a person calls it.
    fn label(&self) -> String;

    /// Type and number of the device, as DLPack counts them.
    fn dlpack_device(&self) -> (i32, i32);

    /// A new stream, which waits for no other one.
    fn new_stream(&self) -> Result<Self::Stream>;

    /// Memory of `bytes` bytes, usable in `stream` from now on, and in other streams after an event of this one.
    fn allocate(&self, bytes: usize, stream: &Self::Stream) -> Result<Self::Memory>;

    /// Frees the memory once all work that `stream` has now is done; does not wait for it.
    fn free(&self, memory: Self::Memory, stream: &Self::Stream);

    /// Takes memory that streams may still use without an event that tells the end of it: frees it once all work of all
    /// streams is done, and never if the device is broken. Does not wait.
    fn abandon(&self, memory: Self::Memory);

    /// Address of the first byte, on the device; a multiple of 256.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// A new event, which counts as past until it is recorded.
    fn event(&self) -> Result<Self::Event>;

    /// Puts the event behind all work that `stream` has now, instead of where it was.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Lets `stream` go on only after the event, as it is recorded now. Does not wait itself.
    fn order_after(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Sleeps until the event, as it is recorded now, is past.
    fn block_on(&self, event: &Self::Event) -> Result<()>;

    /// Sleeps until all work of all streams is done. For when something has gone wrong.
    fn settle(&self) -> Result<()>;

    /// Lets `stream` copy `from` to the beginning of `to`. Returns before that is done.
    ///
    /// # Safety
    ///
    /// `to` has at least as many bytes as `from`; both stay where they are until the copy is done, `from` unchanged; and no
    /// work that is not ordered before or after this one touches the target.
    unsafe fn copy_in(&self, from: &[u8], to: &Self::Memory, stream: &Self::Stream) -> Result<()>;

    /// Lets `stream` do a conversion in `memory`. Returns before that is done.
    ///
    /// # Safety
    ///
    /// All that the work reads and writes lies in `memory`, which stays where it is until the work is done; and no work that
    /// is not ordered before or after this one writes what it reads, or touches what it writes.
    unsafe fn convert(&self, work: &Work, memory: &Self::Memory, stream: &Self::Stream) -> Result<()>;

    /// Copies bytes from `offset` on to the host, after all work that `stream` has now, and waits for it.
    fn copy_out(&self, from: &Self::Memory, offset: usize, to: &mut [u8], stream: &Self::Stream) -> Result<()>;
}
