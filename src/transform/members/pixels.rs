//! The memory layout of images: the order of dimensions, and mirroring.

use std::borrow::Cow;

use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scope;
use crate::schema::{Dim, Masked, TensorSpec};
use crate::transform::{Outputs, Row, Tensors, Transform};

use super::dense::expect;

/// Most channels of an image.
pub(crate) const MAX_CHANNELS: usize = 4;

fn fault(spec: &TensorSpec, message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Schema, message).at_column(&spec.name)
}

/// The order of an image's dimensions, and its number of channels. If the order is not given, the dimension that may be
/// channels decides.
///
/// # Errors
///
/// [`ErrorKind::Schema`] if it is not an image, or both orders are possible.
pub(crate) fn pixel_order(spec: &TensorSpec, given: Option<PixelOrder>) -> Result<(PixelOrder, usize)> {
    let [first, _, last] = spec.shape[..] else {
        return Err(fault(spec, format!("an image has three dimensions, not {}", spec.shape.len())));
    };
    let channels = |dim| match dim {
        Dim::Fixed(len @ 1..=MAX_CHANNELS) => Some(len),
        _ => None,
    };
    match (given, channels(first), channels(last)) {
        (None, Some(channels), None) | (Some(PixelOrder::Nchw), Some(channels), _) => Ok((PixelOrder::Nchw, channels)),
        (None, None, Some(channels)) | (Some(PixelOrder::Nhwc), _, Some(channels)) => Ok((PixelOrder::Nhwc, channels)),
        (None, Some(_), Some(_)) => Err(fault(spec, "its channels may be first or last; say in which order it is")),
        _ => {
            let message = format!("of shape {:?}, no dimension is 1 to {MAX_CHANNELS} channels", spec.shape);
            Err(fault(spec, message))
        }
    }
}

/// The shape of an image after changing the order of its dimensions.
pub(crate) fn relaid(shape: &[Dim], from: PixelOrder, to: PixelOrder) -> Vec<Dim> {
    match (from, to, shape) {
        (PixelOrder::Nchw, PixelOrder::Nhwc, [c, h, w]) => vec![*h, *w, *c],
        (PixelOrder::Nhwc, PixelOrder::Nchw, [h, w, c]) => vec![*c, *h, *w],
        _ => shape.to_vec(),
    }
}

/// The mask of such an image in another order.
pub(crate) fn relaid_mask(masked: &Masked, from: PixelOrder, order: PixelOrder) -> Masked {
    match (masked, from, order) {
        (Masked::By { mask, axis }, PixelOrder::Nhwc, PixelOrder::Nchw) => {
            Masked::By { mask: mask.clone(), axis: (axis + 1) % 3 }
        }
        (Masked::By { mask, axis }, PixelOrder::Nchw, PixelOrder::Nhwc) => {
            Masked::By { mask: mask.clone(), axis: (axis + 2) % 3 }
        }
        _ => masked.clone(),
    }
}

/// Another order of dimensions.
pub(super) struct Layout {
    spec: TensorSpec,
    from: PixelOrder,
    channels: usize,
}

impl Layout {
    /// `None` if the images have this order already.
    pub(super) fn new(
        tensor: &str,
        order: PixelOrder,
        from: Option<PixelOrder>,
        tensors: &Tensors,
    ) -> Result<Option<Self>> {
        let spec = tensors.get(tensor)?;
        let (from, channels) = pixel_order(spec, from)?;
        let shape = relaid(&spec.shape, from, order);
        let spec = TensorSpec { shape, affine: None, masked: relaid_mask(&spec.masked, from, order), ..spec.clone() };
        Ok((from != order).then_some(Self { spec, from, channels }))
    }

    fn copy<const N: usize>(&self, from: &[u8], to: &mut [u8]) {
        let ((from, _), (to, _)) = (from.as_chunks::<N>(), to.as_chunks_mut::<N>());
        let pixels = from.len() / self.channels;
        for channel in 0..self.channels {
            for pixel in 0..pixels {
                let (in_plane, in_pixel) = (channel * pixels + pixel, pixel * self.channels + channel);
                match self.from {
                    PixelOrder::Nchw => to[in_pixel] = from[in_plane],
                    PixelOrder::Nhwc => to[in_plane] = from[in_pixel],
                }
            }
        }
    }
}

impl Transform for Layout {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.write(self.spec.clone())
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let (from, mut tensor) = (row.tensor(&self.spec.name)?, out.tensor(0));
        let (from, to) = (from.bytes(), tensor.bytes_mut());
        match self.spec.dtype.bytes() {
            1 => self.copy::<1>(from, to),
            2 => self.copy::<2>(from, to),
            4 => self.copy::<4>(from, to),
            _ => self.copy::<8>(from, to),
        }
        Ok(())
    }
}

/// Exchanges left and right if another tensor says so.
pub(super) struct Flip {
    tensor: String,
    by: String,
    /// Bytes that stay together.
    step: usize,
    /// The dimension of the columns.
    columns: usize,
}

impl Flip {
    pub(super) fn new(tensor: &str, by: &str, order: Option<PixelOrder>, tensors: &Tensors) -> Result<Self> {
        let spec = tensors.get(tensor)?;
        let (order, channels) = pixel_order(spec, order)?;
        if spec.is_variable() {
            return Err(fault(
                spec,
                "varies in size; flipping would move the padding to the left side. Flip images of one size",
            ));
        }
        expect(tensors.get(by)?, &[DType::U8], &[])?;
        let (columns, together) = match order {
            PixelOrder::Nchw => (2, 1),
            PixelOrder::Nhwc => (1, channels),
        };
        let step = together * spec.dtype.bytes();
        Ok(Self { tensor: tensor.to_owned(), by: by.to_owned(), step, columns })
    }
}

impl Transform for Flip {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read(&self.by)?;
        tensors.change(&self.tensor)
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        if row.u8(&self.by)? == [0] {
            return Ok(());
        }
        let mut tensor = out.tensor(0);
        let (step, columns) = (self.step, tensor.shape()[self.columns]);
        for line in tensor.bytes_mut().chunks_exact_mut((columns * step).max(1)) {
            for column in 0..columns / 2 {
                let (left, right) = line.split_at_mut((columns - 1 - column) * step);
                left[column * step..][..step].swap_with_slice(&mut right[..step]);
            }
        }
        Ok(())
    }
}
