//! Replaces the decoders in a build without the feature `images`.

use super::options::{ImageOptions, NO_DECODERS};
use super::step::Step;
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

pub(crate) struct Shared(());

impl Shared {
    /// Nothing is shared because nothing is decoded.
    pub(crate) fn new(_: &[u8], _: &[ImageOptions], _: RandomKey, _: &MemoryBudget) -> Option<Self> {
        None
    }

    /// # Errors
    ///
    /// Always.
    pub(crate) fn write(
        &mut self,
        _: &[u8],
        _: &ImageOptions,
        _: RandomKey,
        _: &mut TensorMut<'_>,
    ) -> Result<((usize, usize), Damages)> {
        Err(absent())
    }
}

/// Never called, because nothing has a size here.
pub(crate) fn follow(_: &ImageOptions, _: RandomKey, _: (u32, u32), _: &mut impl FnMut(Step)) {}

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
