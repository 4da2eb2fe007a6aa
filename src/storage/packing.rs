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
    Bzip2,
    /// Nothing at its beginning tells it.
    #[cfg(feature = "formats")]
    Brotli,
    /// A single block, at whose beginning nothing tells it, of at most so many bytes once decompressed.
    #[cfg(feature = "formats")]
    Snappy {
        most: u64,
    },
}

/// Number of bytes at a file's beginning that tell how it is compressed.
pub(super) const MARK_BYTES: u64 = 10;

impl Packing {
    /// The packing of a file that begins with these bytes; `None` if it is not compressed.
    pub(crate) fn of(begin: &[u8]) -> Option<Self> {
        match begin {
            // With the only method that there is.
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            // A frame, or one that readers skip: parallel writers put their index there.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            // A block, or the end of what holds none. The first four bytes alone may begin a text.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => Some(Self::Bzip2),
            _ => None,
        }
    }

    /// The decompressed bytes. The memory for decompressing counts against `budget` if a file may need much of it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for what was left out of the build.
    pub(crate) fn unpack(self, bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
        match self {
            Self::Gzip => Ok(Box::new(Inflater::new(bytes))),
            Self::Zlib => Ok(Box::new(ZlibInflater::new(bytes))),
            Self::Zstd => unpack_zstd(bytes, budget),
            Self::Bzip2 => unpack_bzip2(bytes, budget),
            #[cfg(feature = "formats")]
            Self::Brotli => unpack_brotli(bytes, budget),
            #[cfg(feature = "formats")]
            Self::Snappy { most } => unpack_snappy(bytes, most, budget),
        }
    }
}

#[cfg(feature = "compression")]
use super::compression::{unpack_brotli, unpack_bzip2, unpack_snappy};
#[cfg(feature = "zstd")]
use super::zstandard::unpack_zstd;

/// What stands in for a decompressor that was left out of the build.
#[cfg(not(all(feature = "compression", feature = "zstd")))]
macro_rules! left_out {
    ($unpack:ident($($most:ty)?), $name:literal, $feature:literal, $advice:literal) => {
        fn $unpack(_: Bytes, $(_: $most,)? _: &MemoryBudget) -> Result<Bytes> {
            let message =
                concat!("a ", $name, "-compressed file; build with the feature `", $feature, "`, or ", $advice);
            Err(crate::error::Error::new(crate::error::ErrorKind::Unsupported, message))
        }
    };
}

#[cfg(not(feature = "zstd"))]
left_out!(unpack_zstd(), "Zstandard", "zstd", "decompress it first (`zstd -d`)");
#[cfg(not(feature = "compression"))]
left_out!(unpack_bzip2(), "bzip2", "compression", "decompress it first (`bunzip2`)");
#[cfg(all(feature = "formats", not(feature = "compression")))]
left_out!(unpack_brotli(), "Brotli", "compression", "decompress it first");
#[cfg(all(feature = "formats", not(feature = "compression")))]
left_out!(unpack_snappy(u64), "Snappy", "compression", "decompress it first");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_not_taken_for_a_compressed_file() {
        for text in ["BZh9,and so on", "BZh91AY", "PK\u{3}\u{4}", "(id,x)\n", ""] {
            assert_eq!(Packing::of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Packing::of(b"BZh11AY&SY"), Some(Packing::Bzip2));
        assert_eq!(Packing::of(b"BZh9\x17\x72\x45\x38\x50\x90"), Some(Packing::Bzip2));
    }
}
