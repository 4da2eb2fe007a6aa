//! Random operations on images whose pixels are tensors.

use crate::decode::{ImageAugment, PixelOrder, Redraw};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scope;
use crate::schema::{Dim, Masked, TensorSpec};
use crate::transform::{Outputs, Row, Tensors, Transform};

use super::elements::Mask;
use super::pixels::pixel_order;
use super::random::{AUGMENT, Draws};

/// Changes the images of a tensor, and moves their segmentation maps in the same way.
pub(super) struct Augment {
    tensor: String,
    maps: Vec<String>,
    draws: Draws,
    redraw: Redraw,
}

fn fault(spec: &TensorSpec, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Schema, message.into()).at_column(&spec.name)
}

impl Augment {
    pub(super) fn new(
        tensor: &str,
        nth: u64,
        operations: &[ImageAugment],
        order: Option<PixelOrder>,
        maps: &[String],
        tensors: &Tensors,
    ) -> Result<Self> {
        let spec = tensors.get(tensor)?;
        if spec.dtype != DType::U8 {
            let message = "operations change pixels of u8. Place them before casts and normalisers, or in the field of \
                           an image file";
            return Err(fault(spec, format!("holds {}; {message}", spec.dtype)));
        }
        let sides = |dims: &[Dim]| match *dims {
            [Dim::Fixed(height), Dim::Fixed(width)] => Some((height, width)),
            _ => None,
        };
        let (order, channels, size) = match &spec.shape[..] {
            [_, _] if order.is_some() => return Err(fault(spec, "has no channels; leave out their `order`")),
            grey @ [_, _] => (PixelOrder::Nchw, 1, sides(grey)),
            shape => match pixel_order(spec, order)? {
                (PixelOrder::Nchw, channels) => (PixelOrder::Nchw, channels, sides(&shape[1..])),
                (PixelOrder::Nhwc, channels) => (PixelOrder::Nhwc, channels, sides(&shape[..2])),
            },
        };
        let size = size.ok_or_else(|| fault(spec, "varies in size; operations change images of one size"))?;
        for spec in std::iter::once(Ok(spec)).chain(maps.iter().map(|map| tensors.get(map))) {
            let spec = spec?;
            let marked = Mask::of(spec, tensors).map(|mask| format!("{:?} marks its padding", mask.name()));
            let unknown = (spec.masked == Masked::Unknown).then(|| "may be padded".to_owned());
            if let Some(padded) = marked.or(unknown) {
                return Err(fault(
                    spec,
                    format!("{padded}, which would move into the image; change images of one size"),
                ));
            }
        }
        let fills = operations.iter().filter_map(|operation| match operation {
            ImageAugment::ScaleJitter { fill, .. } => Some(fill[0]),
            _ => None,
        });
        let fill = fills.max().unwrap_or(0);
        for map in maps {
            let spec = tensors.get(map)?;
            let pixels: Vec<&Dim> = spec.shape.iter().filter(|dim| **dim != Dim::Fixed(1)).collect();
            if spec.dtype.int_range().is_none() {
                return Err(fault(spec, format!("holds {}; a segmentation map has integers: cast it", spec.dtype)));
            }
            if spec.dtype.int_range().is_some_and(|(_, most)| i128::from(fill) > most) {
                return Err(fault(spec, format!("holds {}, which has no class {fill} (`fill`)", spec.dtype)));
            }
            let wanted = [size.0, size.1].map(Dim::Fixed);
            if !pixels.iter().copied().eq(wanted.iter().filter(|dim| **dim != Dim::Fixed(1))) {
                let message =
                    format!("has the shape {:?}; a segmentation map of {tensor:?} has {wanted:?}", spec.shape);
                return Err(fault(spec, message));
            }
        }
        let redraw = Redraw::new(operations, size, channels, order).map_err(|error| error.at_column(tensor))?;
        Ok(Self { tensor: tensor.to_owned(), maps: maps.to_vec(), draws: Draws::new(AUGMENT, nth, tensor), redraw })
    }
}

impl Transform for Augment {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.change(&self.tensor)?;
        self.maps.iter().try_for_each(|map| tensors.change(map))
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, scope: &Scope<'_>) -> Result<()> {
        let (key, budget) = (self.draws.key(row), scope.budget());
        self.redraw.image(key, &mut out.tensor(0), budget)?;
        (1..=self.maps.len()).try_for_each(|nth| self.redraw.map(key, &mut out.tensor(nth), budget))
    }
}
