//! Arrays of NumPy and torch in samples of MDS and LitData: raw numbers, some after a header.

use std::cell::RefCell;

use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};

use super::shaped::Shaped;
use super::value::Value;

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    Of(DType),
    Bool,
}

impl Elements {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Of(dtype) => dtype.bytes(),
            Self::Bool => 1,
        }
    }

    /// The element type of a tensor of them, unless another is asked for.
    pub(super) const fn dtype(self) -> DType {
        match self {
            Self::Of(DType::U64) => DType::I64,
            Self::Of(dtype) => dtype,
            Self::Bool => DType::U8,
        }
    }

    /// By NumPy's name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "uint8" => Self::Of(DType::U8),
            "int8" => Self::Of(DType::I8),
            "uint16" => Self::Of(DType::U16),
            "int16" => Self::Of(DType::I16),
            "uint32" => Self::Of(DType::U32),
            "int32" => Self::Of(DType::I32),
            "int64" => Self::Of(DType::I64),
            "uint64" => Self::Of(DType::U64),
            "float16" => Self::Of(DType::F16),
            "float32" => Self::Of(DType::F32),
            "float64" => Self::Of(DType::F64),
            _ => return None,
        })
    }
}

/// Gives the little-endian numbers in `bytes`, with their shape if they have several dimensions.
///
/// # Errors
///
/// [`ErrorKind::Data`] for bytes that are not as many numbers as `shape` says.
pub(super) fn give(
    elements: Elements,
    shape: Option<&[u64]>,
    bytes: &[u8],
    aligned: &RefCell<Vec<u64>>,
    visit: &mut dyn FnMut(Value<'_>) -> Result<()>,
) -> Result<()> {
    let wanted = shape.map(|shape| shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim)));
    let count = (bytes.len() / elements.bytes()) as u64;
    if !bytes.len().is_multiple_of(elements.bytes()) || wanted.is_some_and(|wanted| wanted != Some(count)) {
        let message = format!("an array of shape {:?} in {} bytes", shape.unwrap_or_default(), bytes.len());
        return Err(Error::new(ErrorKind::Data, message));
    }
    // A single number has no shape of its own, and neither has a row.
    let shape = shape.filter(|shape| shape.len() > 1 && count != 1);
    let mut give = |numbers: NumberSlice<'_>| match shape {
        Some(shape) => visit(Value::List(&Shaped::new(numbers, shape)?)),
        None => visit(Value::Numbers(numbers)),
    };
    match elements {
        Elements::Bool => give(NumberSlice::U8(bytes)),
        Elements::Of(dtype) if cfg!(target_endian = "little") => {
            // Records may lie at any byte, but numbers are read where they are aligned.
            let mut own = aligned.borrow_mut();
            own.resize(bytes.len().div_ceil(8), 0);
            let into = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut own)[..bytes.len()];
            into.copy_from_slice(bytes);
            give(NumberSlice::of(dtype, into))
        }
        Elements::Of(_) => Err(Error::new(ErrorKind::Unsupported, "arrays of this format on a big-endian machine")),
    }
}
