//! Codecs that another room brings.

use crate::error::Result;
use crate::read::container::Value;
use crate::read::outside::{Outside, OutsideCodec};
use crate::row::RowMut;

use super::contract::{Context, Decode, Made};

pub(super) fn make(codec: &OutsideCodec) -> Made {
    Made { codec: Box::new(codec.clone()), tensors: codec.tensors().to_vec() }
}

impl Decode for OutsideCodec {
    fn write(&self, nth: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        Outside::write(&**self, nth, value, row)
    }
}
