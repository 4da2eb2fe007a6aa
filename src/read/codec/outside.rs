//! Codecs that another room brings.

use crate::error::Result;
use crate::read::container::Value;
use crate::read::outside::{Outside, OutsideCodec};
use crate::row::RowMut;

use super::contract::{Context, Decode, Made, Varying};

struct Brought {
    codec: OutsideCodec,
    /// Where the values of a record are kept, if it wants all of them at once.
    stage: Option<usize>,
}

pub(super) fn make(codec: &OutsideCodec, varying: &mut Varying) -> Made {
    let stage = codec.wants_all().then(|| varying.stage());
    Made { codec: Box::new(Brought { codec: codec.clone(), stage }), tensors: codec.tensors().to_vec() }
}

impl Decode for Brought {
    fn write(&self, nth: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        match self.stage {
            None => Outside::write(&*self.codec, nth, value, row),
            Some(stage) => {
                context.staged[stage].keep(nth, &value);
                Ok(())
            }
        }
    }

    fn is_unfinished(&self) -> bool {
        self.stage.is_some()
    }

    fn finish(&self, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        match self.stage {
            None => Ok(()),
            Some(stage) => self.codec.write_all(&mut context.staged[stage], row),
        }
    }
}
