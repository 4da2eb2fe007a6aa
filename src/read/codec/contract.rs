use crate::counters::Damages;
use crate::decode::ImageOptions;
use crate::decode::image::Shared;
use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::read::staged::Staged;
use crate::read::value::Value;
use crate::row::{RowMut, RowsMut};
use crate::schema::{Dim, Extents, MAX_EXTENTS, TensorSpec};

/// What a codec needs beside the values.
pub(in crate::read) struct Context<'a> {
    /// Key of (seed, epoch, sample, draw).
    pub(in crate::read) key: RandomKey,
    /// The budget that decoders use.
    pub(in crate::read) budget: &'a MemoryBudget,
    /// The damage of images that were loaded in spite of it.
    pub(in crate::read) damages: Damages,
    /// Upright width and height of pictures that other tensors belong to; zeros until they are known.
    pub(in crate::read) sizes: [(u32, u32); MAX_SLOTS],
    /// The record's values, for each codec that needs all of them at once.
    pub(in crate::read) staged: Vec<Staged>,
    /// The current picture, if several views are cut from it.
    pub(in crate::read) picture: Option<Shared>,
}

/// Most tensors of a sample that belong to a picture.
const MAX_SLOTS: usize = 16;

/// Writes the values of a field, or of several, into their tensors.
pub(in crate::read) trait Decode: Send + Sync {
    /// Writes the field's value number `nth` into `row`, which has this codec's tensors alone. Called once for each of
    /// its fields; what a record does not have is [`Value::Missing`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] without a place.
    fn write(&self, nth: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()>;

    /// Writes numbers of many records at once, those of field number `nth`. Each pair in `places` is a row of `rows`
    /// and a position among the numbers. `false` if the codec needs values one by one, or if one of them could not be
    /// written: then [`write`](Self::write) tells why.
    fn write_column(
        &self,
        nth: usize,
        numbers: NumberSlice<'_>,
        places: &[(usize, usize)],
        rows: &mut RowsMut<'_>,
    ) -> bool {
        let _ = (nth, numbers, places, rows);
        false
    }

    /// The options of the image that it decodes, if it does: views of one picture share [`Context::picture`].
    fn picture(&self) -> Option<&ImageOptions> {
        None
    }

    /// Refuses an image of another upright size than `size`, unless that is not known: then it becomes the image's.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn check_size(&self, value: Value<'_>, size: &mut (u32, u32)) -> Result<()> {
        let _ = (value, size);
        Ok(())
    }

    /// Whether what it writes depends on the sample's key.
    fn is_random(&self) -> bool {
        false
    }

    /// Whether [`finish`](Self::finish) must be called.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// Finishes the tensors of a record, all of whose fields are written.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn finish(&self, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let _ = (context, row);
        Ok(())
    }

    /// Adds the lengths of a value that vary from record to record.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn measure(&self, value: Value<'_>, extents: &mut Extents) -> Result<()> {
        let _ = (value, extents);
        Ok(())
    }
}

/// Dimensions that vary from record to record, and how many of them are in use.
#[derive(Default)]
pub(in crate::read) struct Varying {
    taken: usize,
    slots: usize,
    stages: usize,
}

impl Varying {
    pub(super) fn take(&mut self, name: &str) -> Result<usize> {
        let index = self.taken;
        if index == MAX_EXTENTS {
            let message = format!("more than {MAX_EXTENTS} lengths that vary; give some a max_len, a shape or a size");
            return Err(Error::new(ErrorKind::Config, message).at_column(name));
        }
        self.taken += 1;
        Ok(index)
    }

    /// Takes a place in [`Context::sizes`].
    pub(super) fn slot(&mut self) -> Result<usize> {
        self.slots += 1;
        if self.slots > MAX_SLOTS {
            let message = format!("more than {MAX_SLOTS} fields of boxes, points or maps in a sample");
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(self.slots - 1)
    }

    /// Takes a number in [`Context::staged`].
    pub(super) fn stage(&mut self) -> usize {
        self.stages += 1;
        self.stages - 1
    }

    /// Number of codecs that need all values of a record at once.
    pub(in crate::read) fn stages(&self) -> usize {
        self.stages
    }

    pub(super) fn dim(&mut self, name: &str) -> Result<Dim> {
        self.take(name).map(Dim::Extent)
    }
}

/// A codec, and the tensors that it writes.
pub(in crate::read) struct Made {
    pub(in crate::read) codec: Box<dyn Decode>,
    pub(in crate::read) tensors: Vec<TensorSpec>,
}

/// The error for a value that a codec can't use.
#[cold]
pub(super) fn unexpected(wanted: impl std::fmt::Display, found: &Value<'_>) -> Error {
    Error::new(ErrorKind::Data, format!("expected {wanted}, found {}", found.describe()))
}
