//! Codecs that a higher module defines, and that fields can name.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::Result;
use crate::row::RowMut;
use crate::schema::TensorSpec;

use super::container::FieldInfo;
use super::staged::Staged;
use super::value::Value;

/// Writes the values of several fields into its own tensors, with any names.
pub(crate) trait Outside: Send + Sync {
    /// The tensors that it writes.
    fn tensors(&self) -> &[TensorSpec];

    /// Writes the value of field number `nth` into `row`, which has these tensors alone. Called once for each of its
    /// fields; what a record does not have is [`Value::Missing`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`](crate::ErrorKind::Data) with the field.
    fn write(&self, nth: usize, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()>;

    /// Whether it wants all values of a record at once, by [`write_all`](Self::write_all), instead of one by one.
    fn wants_all(&self) -> bool {
        false
    }

    /// Writes the values of all its fields, which are kept by their numbers, into `row`. It may keep more values after
    /// them.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn write_all(&self, values: &mut Staged, row: &mut RowMut<'_>) -> Result<()> {
        let _ = (values, row);
        Ok(())
    }

    /// The same codec for these fields, if it depends on what is known about them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if it can't be used for such a field.
    fn for_fields(&self, infos: &[Option<&FieldInfo>]) -> Result<Option<OutsideCodec>> {
        let _ = infos;
        Ok(None)
    }

    /// Selects records, if not all are wanted: a codec of the same fields with a single tensor, an `f64` that is 0 for
    /// records to leave out.
    fn choice(&self) -> Option<OutsideCodec> {
        None
    }
}

/// Such a codec as part of a field. It is equal only to itself.
#[derive(Clone)]
pub(crate) struct OutsideCodec(Arc<dyn Outside>);

impl OutsideCodec {
    pub(crate) fn new(codec: impl Outside + 'static) -> Self {
        Self(Arc::new(codec))
    }
}

impl Deref for OutsideCodec {
    type Target = dyn Outside;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for OutsideCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutsideCodec").field("tensors", &self.tensors()).finish_non_exhaustive()
    }
}

impl PartialEq for OutsideCodec {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
