//! The properties of a sound that are known before its samples are read, and the position of its bytes.

use crate::error::{Error, ErrorKind, Result};

/// Bytes of a file, at any place.
pub(crate) trait ReadAt {
    fn len(&self) -> u64;

    /// Fills `into` with the bytes from `at` on, which must exist.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()>;
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let bytes = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..into.len()));
        into.copy_from_slice(bytes.ok_or_else(|| cut_off(at))?);
        Ok(())
    }
}

/// The properties of a sound that are known before its samples are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sound {
    /// Frames per second.
    pub(crate) rate: u32,
    pub(crate) channels: usize,
    /// Number of samples per channel.
    pub(crate) frames: u64,
    /// No more than these can be in so many bytes.
    pub(crate) possible: u64,
}

/// Highest rate that a file may have, in frames per second.
pub(super) const MAX_RATE: u32 = 768_000;

impl Sound {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for values that no sound has.
    pub(super) fn checked(self) -> Result<Self> {
        if !(1..=MAX_RATE).contains(&self.rate) {
            return Err(bad(format!("{} frames per second; 1 to {MAX_RATE} are read", self.rate)));
        }
        if self.channels == 0 {
            return Err(bad("no channels".to_owned()));
        }
        Ok(self)
    }
}

#[cold]
pub(super) fn bad(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Data, message.into().into_owned())
}

#[cold]
pub(super) fn cut_off(at: u64) -> Error {
    bad("the file ends before its sound does; it is cut off").at_byte(at)
}
