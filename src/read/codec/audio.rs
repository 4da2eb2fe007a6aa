//! Sound, from the bytes of an audio file.

use crate::decode::audio::{Writer, audio_tensors, describe, write_audio};
use crate::error::Result;
use crate::read::fields::Audio;
use crate::row::RowMut;
use crate::schema::{Dim, Extents, Role};

use super::contract::{Context, Decode, Made, Varying, unexpected};
use crate::read::value::Value;

struct AudioCodec {
    writer: Writer,
    /// The extent of its length, unless the length is fixed.
    extent: Option<usize>,
}

pub(super) fn make(name: &str, role: Role, audio: &Audio, varying: &mut Varying) -> Result<Made> {
    let options = audio.options();
    let extent = if options.length.is_none() { Some(varying.take(name)?) } else { None };
    let tensors = audio_tensors(options, name, role, Dim::Extent(extent.unwrap_or_default()));
    Ok(Made { codec: Box::new(AudioCodec { writer: Writer::new(options.clone())?, extent }), tensors })
}

fn file_of<'a>(value: &Value<'a>) -> Result<&'a [u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        value => Err(unexpected("the bytes of a sound file (if it names a file, set `file`)", value)),
    }
}

impl Decode for AudioCodec {
    fn write(&self, _: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        write_audio(file_of(&value)?, &self.writer, context.key, row, context.budget)
    }

    fn is_random(&self) -> bool {
        self.writer.is_random()
    }

    fn measure(&self, value: Value<'_>, extents: &mut Extents) -> Result<()> {
        if let Some(extent) = self.extent {
            extents.0[extent] = self.writer.frames(&describe(file_of(&value)?)?)?;
        }
        Ok(())
    }
}
