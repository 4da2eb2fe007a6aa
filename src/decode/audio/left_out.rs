//! In place of FLAC, MP3 and Ogg Vorbis, in a build without them.

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::row::RowMut;

use super::kind::not_read;
use super::sound::{ReadAt, Sound};
use super::write::Writer;

pub(super) fn sound(bytes: &[u8]) -> Result<Sound> {
    Err(not_read(bytes))
}

pub(super) fn write(bytes: &[u8], _: &Writer, _: RandomKey, _: &mut RowMut<'_>, _: &MemoryBudget) -> Result<()> {
    Err(not_read(bytes))
}

#[derive(Debug)]
pub(crate) enum Packets {}

impl Packets {
    pub(crate) fn read<F: ReadAt + Sync>(_: &F, _: &Writer, _: RandomKey, _: u64) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn write(&self, _: &Writer, _: &mut RowMut<'_>, _: &MemoryBudget) -> Result<()> {
        match *self {}
    }
}

pub(crate) fn flac_sound<F: ReadAt + Sync>(_: &F) -> Result<Option<Sound>> {
    Ok(None)
}
