//! Codecs that another module defines.

use crate::error::Result;
use crate::read::container::FieldInfo;
use crate::read::outside::{Outside, OutsideCodec};
use crate::read::value::Value;
use crate::row::RowMut;

use super::contract::{Context, Decode, Made, Varying};

struct Brought {
    codec: OutsideCodec,
    /// Where the values of a record are kept, if the codec needs all of them at once.
    stage: Option<usize>,
}

pub(super) fn make(codec: &OutsideCodec, infos: &[Option<&FieldInfo>], varying: &mut Varying) -> Result<Made> {
    let codec = codec.for_fields(infos)?.unwrap_or_else(|| codec.clone());
    let (stage, tensors) = (codec.wants_all().then(|| varying.stage()), codec.tensors().to_vec());
    Ok(Made { codec: Box::new(Brought { codec, stage }), tensors })
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
