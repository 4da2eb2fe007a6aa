//! Recognises how a whole file is compressed by its first bytes, regardless of its name.

use crate::error::Result;
use crate::memory::MemoryBudget;

use super::gzip::{Bytes, Inflater, ZlibInflater};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    /// A text may begin with the same two bytes, so they do not prove it.
    Zlib,
    Zstd,
}

impl Packing {
    /// The packing of a file that begins with these bytes; `None` if it is not compressed.
    pub(crate) fn of(begin: &[u8]) -> Option<Self> {
        match begin {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // A frame, or one that readers skip: parallel writers put their index there.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The decompressed bytes. The memory for decompressing counts against `budget` if a file may need much of it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for Zstandard, if it was left out of the build.
    pub(crate) fn unpack(self, bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
        match self {
            Self::Gzip => Ok(Box::new(Inflater::new(bytes))),
            Self::Zlib => Ok(Box::new(ZlibInflater::new(bytes))),
            Self::Zstd => unpack_zstd(bytes, budget),
        }
    }
}

#[cfg(not(feature = "zstd"))]
fn unpack_zstd(_: Bytes, _: &MemoryBudget) -> Result<Bytes> {
    let message = "a Zstandard-compressed file; build with the feature `zstd`, or decompress it first (`zstd -d`)";
    Err(crate::error::Error::new(crate::error::ErrorKind::Unsupported, message))
}

#[cfg(feature = "zstd")]
use super::zstandard::unpack_zstd;
