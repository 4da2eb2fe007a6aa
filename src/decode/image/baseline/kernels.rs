//! Chooses the code that turns coefficients into pixels: the portable code, or the code for this processor.

use super::entropy::Block;
use super::portable::{self, Quantisation};

#[cfg(target_arch = "x86_64")]
use super::avx2;

/// The pixel stage, with the fastest code for this processor. All versions give the same bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    /// True only if the processor reports it.
    #[cfg(target_arch = "x86_64")]
    has_avx2: bool,
}

/// Calls a function of `avx2` if the processor has it, otherwise the one of `portable`.
macro_rules! dispatch {
    ($self:ident, $name:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        if $self.has_avx2 {
            // SAFETY: the only condition is that the processor has AVX2, which `detect` asked of it.
            return unsafe { avx2::$name($($argument),*) };
        }
        portable::$name($($argument),*)
    }};
}

impl Kernels {
    pub(crate) fn detect() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            has_avx2: is_x86_feature_detected!("avx2"),
        }
    }

    /// Whether this is other than the portable code.
    pub(crate) fn has_vectors(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.has_avx2;
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The code for every processor, even if this one has faster code.
    #[cfg(test)]
    pub(crate) fn portable() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            has_avx2: false,
        }
    }

    /// See [`portable::inverse_dct`].
    pub(crate) fn inverse_dct(self, blocks: &[Block], quant: &Quantisation, into: &mut [u8], stride: usize) -> bool {
        dispatch!(self, inverse_dct(blocks, quant, into, stride))
    }

    /// See [`portable::upsample_width`].
    pub(crate) fn upsample_width(self, from: &[u8], into: &mut [u8]) {
        dispatch!(self, upsample_width(from, into))
    }

    /// See [`portable::upsample_both`].
    pub(crate) fn upsample_both(self, near: &[u8], far: &[u8], into: &mut [u8]) {
        dispatch!(self, upsample_both(near, far, into))
    }

    /// See [`portable::to_rgb`]; the samples must be allocated for a multiple of 32 pixels.
    pub(crate) fn to_rgb(self, luma: &[u8], blue: &[u8], red: &[u8], into: &mut [u8]) {
        dispatch!(self, to_rgb(luma, blue, red, into))
    }

    /// See [`portable::grey_to_rgb`].
    pub(crate) fn grey_to_rgb(self, luma: &[u8], into: &mut [u8]) {
        portable::grey_to_rgb(luma, into)
    }
}
