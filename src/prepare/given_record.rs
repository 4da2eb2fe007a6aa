//! One record in memory, given in any of the supported ways, written like a record in training.

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::read::{CsvMemory, JsonMemory, Staged, StructMemory, Value, Visit};
use crate::row::RowMut;

use super::prepared::Prepared;

/// Buffers that are kept from one given record to the next.
#[derive(Default)]
pub(super) struct Given {
    values: Values,
    json: JsonMemory,
    structs: StructMemory,
    csv: CsvMemory,
}

#[derive(Default)]
struct Values {
    /// Which fields of the record were given.
    given: Vec<bool>,
    /// The values of a record, if columns are joined or derived.
    staged: Staged,
}

impl Given {
    /// Writes a JSON object into `row`, which has the tensors of `prepared`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column or byte.
    pub(super) fn json(&mut self, prepared: &Prepared, text: &str, row: &mut RowMut<'_>) -> Result<()> {
        let Self { values, json, .. } = self;
        values.write(prepared, row, |visit| prepared.json().read(text, json, visit))
    }

    /// Writes a line of CSV.
    ///
    /// # Errors
    ///
    /// As [`json`](Self::json), and [`ErrorKind::NotFound`] for a column that the header does not have.
    pub(super) fn csv(&mut self, prepared: &Prepared, header: &str, line: &str, row: &mut RowMut<'_>) -> Result<()> {
        let Self { values, csv, .. } = self;
        values.write(prepared, row, |visit| csv.read(header, prepared.field_names(), line, visit))
    }

    /// Writes values with the names of their fields.
    ///
    /// # Errors
    ///
    /// As [`json`](Self::json), and [`ErrorKind::NotFound`] for a name that is not a field.
    pub(super) fn values<'v>(
        &mut self,
        prepared: &Prepared,
        values: impl IntoIterator<Item = (&'v str, Value<'v>)>,
        row: &mut RowMut<'_>,
    ) -> Result<()> {
        self.values.write(prepared, row, |visit| {
            values.into_iter().try_for_each(|(name, value)| match prepared.field_number(name) {
                Some(nth) => visit(nth, value),
                None => Err(no_column(prepared, name)),
            })
        })
    }

    /// Writes a struct or a map, as its JSON.
    ///
    /// # Errors
    ///
    /// As [`json`](Self::json), and [`ErrorKind::Data`] for values that JSON can't hold.
    pub(super) fn structs(&mut self, prepared: &Prepared, record: &impl Serialize, row: &mut RowMut<'_>) -> Result<()> {
        let Self { values, json, structs, .. } = self;
        let text = structs.write(record)?;
        values.write(prepared, row, |visit| prepared.json().read(text, json, visit))
    }
}

impl Values {
    /// Writes the values that `read` gives; all other values are missing.
    fn write(
        &mut self,
        prepared: &Prepared,
        row: &mut RowMut<'_>,
        read: impl FnOnce(&mut Visit<'_>) -> Result<()>,
    ) -> Result<()> {
        let Self { given, staged } = self;
        if !prepared.inputs().is_plain() {
            staged.clear();
            read(&mut |nth, value| {
                staged.keep(nth, &value);
                Ok(())
            })?;
            return prepared.write_record(staged, row);
        }
        given.clear();
        given.resize(prepared.columns().len(), false);
        read(&mut |nth, value| {
            given[nth] = true;
            prepared.write(nth, &value, row)
        })?;
        let absent = given.iter().enumerate().filter(|(_, given)| !**given);
        absent.into_iter().try_for_each(|(nth, _)| prepared.write(nth, &Value::Missing, row))
    }
}

#[cold]
fn no_column(prepared: &Prepared, name: &str) -> Error {
    let near = nearest(name, prepared.field_names());
    let advice = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Error::new(ErrorKind::NotFound, format!("no column {name:?} in the recipe{advice}"))
}
