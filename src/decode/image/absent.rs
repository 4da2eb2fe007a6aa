//! Stands in for the decoders in a build without the feature `images`.

use super::options::{ImageOptions, NO_DECODERS};
use super::stored::Header;
use crate::counters::Damages;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::row::TensorMut;

#[cold]
fn absent() -> Error {
    Error::new(ErrorKind::Unsupported, NO_DECODERS)
}

/// # Errors
///
/// Always.
pub(crate) fn header(_: &[u8]) -> Result<Header> {
    Err(absent())
}

/// # Errors
///
/// Always.
pub(crate) fn write_image(
    _: &[u8],
    _: &ImageOptions,
    _: RandomKey,
    _: &mut TensorMut<'_>,
    _: &MemoryBudget,
) -> Result<((usize, usize), Damages)> {
    Err(absent())
}

#[derive(Default)]
pub(crate) struct ImageWork(());

impl ImageWork {
    /// # Errors
    ///
    /// Always.
    pub(crate) fn decode(&mut self, _: &[u8], _: &ImageOptions) -> Result<(Header, &[u8])> {
        Err(absent())
    }
}
