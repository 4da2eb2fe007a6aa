//! How whole files are compressed: told by how they begin, whatever they are called.

use crate::error::Result;

use super::gzip::{Bytes, Inflater};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// What begins so; `None` if it is not compressed.
    pub(crate) fn of(begin: &[u8]) -> Option<Self> {
        match begin {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // A frame, or one that readers skip: writers in parallel put their index there.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The decompressed bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for Zstandard, if it was left out of the build.
    pub(crate) fn unpack(self, bytes: Bytes) -> Result<Bytes> {
        match self {
            Self::Gzip => Ok(Box::new(Inflater::new(bytes))),
            Self::Zstd => unpack_zstd(bytes),
        }
    }
}

#[cfg(not(feature = "zstd"))]
fn unpack_zstd(_: Bytes) -> Result<Bytes> {
    let message = "a Zstandard-compressed file; build with the feature `zstd`, or decompress it first (`zstd -d`)";
    Err(crate::error::Error::new(crate::error::ErrorKind::Unsupported, message))
}

#[cfg(feature = "zstd")]
use zstandard::unpack_zstd;

#[cfg(feature = "zstd")]
mod zstandard {
    use std::io::{BufRead, BufReader, Error, ErrorKind, Read};

    use super::{Bytes, Result};

    /// The largest window, as a power of two: what `zstd` itself allows unless told otherwise. So much memory a file may take
    /// while it is decompressed.
    const MAX_WINDOW_LOG: u32 = 27;

    pub(super) fn unpack_zstd(bytes: Bytes) -> Result<Bytes> {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(BufReader::with_capacity(256 << 10, bytes))?;
        decoder.window_log_max(MAX_WINDOW_LOG)?;
        Ok(Box::new(Zstd(decoder)))
    }

    /// The decompressed bytes of all frames.
    struct Zstd<R: BufRead>(zstd::stream::read::Decoder<'static, R>);

    impl<R: BufRead> Read for Zstd<R> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(into).map_err(|error| match error.kind() {
                // What the decoder says of the data; what reading says has another kind, or is an error of ours.
                ErrorKind::Other if !error.get_ref().is_some_and(|inner| inner.is::<crate::error::Error>()) => {
                    Error::new(ErrorKind::InvalidData, error)
                }
                _ => error,
            })
        }
    }
}
