//! Codecs: from the values of a field to tensors, whatever container they come from. One file a codec.

mod array;
mod image;
mod list;
mod names;
mod number;
mod text;

#[cfg(test)]
mod tests;

use crate::counters::Damages;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::row::RowMut;
use crate::schema::{Dim, Extents, MAX_EXTENTS, TensorSpec};

use super::container::{FieldInfo, Value};
use super::fields::{Codec, Field};

pub(super) use names::Names;

/// What a codec needs beside the values.
pub(super) struct Context<'a> {
    /// Key of (seed, epoch, sample).
    pub(super) key: RandomKey,
    /// What decoders draw on.
    pub(super) budget: &'a MemoryBudget,
    /// What was wrong with images that were loaded all the same.
    pub(super) damages: Damages,
}

/// Writes the values of a field, or of several, into their tensors.
pub(super) trait Decode: Send + Sync {
    /// Writes the field's value number `nth` into `row`, which has this codec's tensors alone. Called once for each of its
    /// fields; what a record does not have is [`Value::Missing`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] without a place.
    fn write(&self, nth: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()>;

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

/// Dimensions that vary from record to record, as far as they are taken.
#[derive(Default)]
pub(super) struct Varying(usize);

impl Varying {
    fn take(&mut self, name: &str) -> Result<usize> {
        let index = self.0;
        if index == MAX_EXTENTS {
            let message = format!("more than {MAX_EXTENTS} lengths that vary; give some a max_len, a shape or a size");
            return Err(Error::new(ErrorKind::Config, message).at_column(name));
        }
        self.0 += 1;
        Ok(index)
    }

    fn dim(&mut self, name: &str) -> Result<Dim> {
        self.take(name).map(Dim::Extent)
    }
}

/// A codec, and the tensors that it writes.
pub(super) struct Made {
    pub(super) codec: Box<dyn Decode>,
    pub(super) tensors: Vec<TensorSpec>,
}

/// The codec of a field. `infos` is what is known of the container's fields that it comes from; `names` are those that were
/// found in all records, if it needs any (see [`needs_names`]); `first` is the value in the first record, for codecs that
/// look at it.
///
/// # Errors
///
/// [`ErrorKind::Config`] where the container's field can't become this.
pub(super) fn make(
    name: &str,
    field: &Field,
    infos: &[Option<&FieldInfo>],
    names: Vec<Names>,
    first: Option<&[u8]>,
    varying: &mut Varying,
) -> Result<Made> {
    let role = field.role_or_default();
    let made = match &field.codec {
        Codec::Image(image) => image::make(name, image, varying),
        Codec::Numbers(numbers) => match list::of_lists(numbers, field.is_several(), infos) {
            true => list::make(name, role, numbers, infos, varying),
            false => number::make(name, role, numbers, field),
        },
        Codec::Class { names: listed, one_hot } => names::classes(name, role, listed.as_deref(), names, *one_hot),
        Codec::Category { names: listed, missing } => {
            names::categories(name, role, listed.as_deref(), names, *missing, infos.len())
        }
        Codec::Text { max_len, longer } => text::make(name, role, *max_len, *longer),
        Codec::Array { dtype, shape } => array::make(name, role, *dtype, shape.as_deref(), first),
    };
    let single =
        matches!(field.codec, Codec::Image(_) | Codec::Class { .. } | Codec::Text { .. } | Codec::Array { .. });
    if single && infos.len() != 1 {
        return Err(Error::new(ErrorKind::Config, "it comes from a single field").at_column(name));
    }
    made.map_err(|error| error.at_column(name))
}

/// Whether the names in all records must be known before a codec can be made.
pub(super) fn needs_names(field: &Field) -> bool {
    matches!(field.codec, Codec::Class { names: None, .. } | Codec::Category { names: None, .. })
}

/// Whether the value of the first record must be known.
pub(super) fn needs_first(field: &Field) -> bool {
    matches!(field.codec, Codec::Array { dtype: _, shape: None } | Codec::Array { dtype: None, .. })
}

/// What a codec says of a value that it can't take.
#[cold]
fn unexpected(wanted: impl std::fmt::Display, found: &Value<'_>) -> Error {
    Error::new(ErrorKind::Data, format!("expected {wanted}, found {}", found.describe()))
}
