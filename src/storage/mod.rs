//! The location of bytes, and the only way to read them.
//!
//! Readers are given [`Files`], never a file. Local files are read in the worker's own thread, without a hand-off.
//! Bytes of your own [`Storage`] (an object store, a server) are requested as soon as the plan says that they will be
//! needed: many requests at a time, within a limit in bytes.

mod ahead;
#[cfg(feature = "formats")]
mod chunks;
#[cfg(feature = "compression")]
mod compression;
mod file;
mod files;
mod folder;
mod gather;
mod gzip;
mod handles;
mod in_memory;
mod input;
mod limit;
mod packing;
mod window;
#[cfg(feature = "zstd")]
mod zstandard;

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

pub(crate) use crate::files::open as open_file;
pub(crate) use ahead::Requested;
pub use ahead::{AheadStats, Needs};
#[cfg(feature = "formats")]
pub use chunks::ChunkStats;
#[cfg(feature = "formats")]
pub(crate) use chunks::{Chunk, Chunks};
pub(crate) use file::{LocalFile, check_bytes, read_file};
pub use files::Files;
pub(crate) use folder::{EntryKind, Listed, entries, metadata};
pub(crate) use gather::Gathered;
pub(crate) use gzip::{Bytes, inflate_error};
pub use in_memory::InMemory;
#[cfg(test)]
pub(crate) use input::MAPPED;
pub(crate) use input::NO_PROMISE;
pub use input::{Access, Input, Mapping};
pub(crate) use input::{Spool, prefetch};
pub use limit::{FetchLimit, ReadLimit};
pub(crate) use limit::{Limited, OwnedRead};
pub(crate) use packing::Packing;

/// A place that holds files and has a high latency, such as an object store or a server. For files in memory there is
/// [`InMemory`].
///
/// Several threads call it at the same time: the workers, and one thread for each request that may be in progress.
///
/// ```
/// use std::ops::Range;
/// use std::path::Path;
/// use ringfeed::Result;
/// use ringfeed::storage::Storage;
///
/// /// Files whose names say how long they are.
/// struct Zeros;
///
/// impl Storage for Zeros {
///     fn file_len(&self, path: &Path) -> Result<u64> {
///         Ok(path.as_os_str().len() as u64)
///     }
///
///     fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
///         let len = self.file_len(path)?;
///         into.clear();
///         into.resize((range.end.min(len).saturating_sub(range.start)) as usize, 0);
///         Ok(len)
///     }
/// }
/// ```
pub trait Storage: Send + Sync {
    /// Length in bytes of the file at `path`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::Io`].
    fn file_len(&self, path: &Path) -> Result<u64>;

    /// Replaces the content of `into` with the bytes in `range` of the file, as far as the file goes, reusing its
    /// memory. Returns the length of the whole file, which shows whether the file was replaced. The range may end far
    /// beyond the end of the file, and the file may be empty: for a whole file, it is `0..u64::MAX`, or one byte more than
    /// a file may have.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::Io`]: they make the samples in these bytes bad records.
    fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64>;

    /// The contents of a folder, in any order. By default nothing can be listed: files are then named one by one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::Io`].
    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        let message = "this storage lists no folders; name the files, or give a pattern such as {000..146}";
        Err(Error::new(ErrorKind::Unsupported, message).at_path(folder))
    }

    /// Number of requests that should be in progress at the same time: 1 to 1024.
    fn requests_in_flight(&self) -> usize {
        64
    }
}

/// An entry of a folder of a [`Storage`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Entry {
    /// A file of this name.
    File(OsString),
    /// A folder of this name.
    Folder(OsString),
}

/// The error for a file that was replaced since it was opened.
#[cold]
fn replaced(path: &Path) -> Error {
    let message =
        "it was written to, or another file has taken its place, since it was opened; do not change it during a run";
    Error::new(ErrorKind::Io, message).at_path(path)
}

/// The error for a file that has become shorter since it was opened.
#[cold]
fn shorter_than_before(path: &Path, byte: u64) -> Error {
    let message = "the file ends here, but was longer when it was opened; do not change it during a run";
    Error::new(ErrorKind::Io, message).at_path(path).at_byte(byte)
}
