//! One record in memory, prepared as in training.

use std::fmt;
use std::io::Read;

use serde::Serialize;

use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::read::Value;
use crate::row::RowMut;
use crate::view::TensorView;

use super::given_record::Given;
use super::prepared::Prepared;

/// Most bytes of the body of a request.
const MOST_BODY: u64 = 1 << 20;

/// One prepared record: its features and codes, in memory that is reused for the next record. For several records as a
/// window, there is a [`PreparedWindow`](super::PreparedWindow).
pub struct PreparedRow {
    prepared: Prepared,
    /// The memory of the layout, aligned to 8 bytes.
    memory: Vec<u64>,
    given: Given,
    /// The bytes of a request so far.
    body: String,
}

impl fmt::Debug for PreparedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedRow").field("tensors", &self.prepared.tensors()).finish_non_exhaustive()
    }
}

impl PreparedRow {
    /// The tensor of this name, without the batch dimension.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let at = self.prepared.index_of(name)?;
        let (spec, layout) = (&self.prepared.tensors()[at], &self.prepared.layout().tensors()[at]);
        let bytes: &[u8] = bytemuck::cast_slice(&self.memory);
        let bytes = &bytes[layout.offset()..layout.offset() + layout.row_bytes()];
        Ok(TensorView::of_row(spec, *layout.row_shape(), bytes))
    }

    /// The elements of a tensor of type `f32`: `features`, unless the recipe sets another type.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Schema`] for one of another type.
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        self.slice(name)
    }

    /// The elements of a tensor of type `i64`: `categories`.
    ///
    /// # Errors
    ///
    /// As [`f32`](Self::f32).
    pub fn i64(&self, name: &str) -> Result<&[i64]> {
        self.slice(name)
    }

    fn slice<T: Element>(&self, name: &str) -> Result<&[T]> {
        self.tensor(name)?.as_slice()
    }
}

impl Prepared {
    /// A row for the results, filled with zeros. Each thread that serves needs its own.
    pub fn row(&self) -> PreparedRow {
        let memory = vec![0; self.layout().bytes().div_ceil(8)];
        PreparedRow { prepared: self.clone(), memory, given: Given::default(), body: String::new() }
    }

    /// Prepares a record that is a JSON object. Columns are found as in JSON Lines, by their keys or pointers, and as in
    /// tables, where `a.b` is the member `b` of `a`; absent
    /// ones are missing values, and other keys are ignored. Allocates nothing after the first records.
    ///
    /// ```
    /// # use ringfeed::prepare::{Mean, Recipe, RecipeFit, number};
    /// # use ringfeed::read::Value;
    /// # let mut fit = RecipeFit::new(&Recipe::new().column("age", number().impute(Mean).mask()))?;
    /// # fit.observe(&[Value::I64(40)])?;
    /// # let prepared = fit.finish()?;
    /// let mut row = prepared.row();
    /// prepared.apply_json(r#"{"age": null}"#, &mut row)?;
    /// assert_eq!(row.f32("features")?, [40.0, 1.0]);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column or byte, for a record that would be bad in training. After an error the
    /// contents of the row are undefined.
    pub fn apply_json(&self, text: &str, row: &mut PreparedRow) -> Result<()> {
        self.write_into(row, |given, row| given.json(self, text, row))
    }

    /// Prepares a record that is the body of a request: a JSON object of at most 1 MiB, as for
    /// [`apply_json`](Self::apply_json).
    ///
    /// # Errors
    ///
    /// As [`apply_json`](Self::apply_json), those of reading, and [`ErrorKind::Limit`] for a longer body.
    pub fn apply_reader(&self, body: impl Read, row: &mut PreparedRow) -> Result<()> {
        let mut text = std::mem::take(&mut row.body);
        text.clear();
        let read = body.take(MOST_BODY + 1).read_to_string(&mut text).map_err(Error::from);
        let applied = read.and_then(|_| match text.len() as u64 > MOST_BODY {
            true => Err(Error::new(ErrorKind::Limit, format!("a record of more than {MOST_BODY} bytes"))),
            false => self.apply_json(&text, row),
        });
        row.body = text;
        applied
    }

    /// Prepares a record that is a line of CSV with these columns in `header`, both separated by commas, semicolons,
    /// tabs or bars. Missing values are recognised as in files by default. The header is parsed once per row, as long
    /// as it stays the same.
    ///
    /// # Errors
    ///
    /// As [`apply_json`](Self::apply_json), and [`ErrorKind::NotFound`] for a column that the header does not have.
    pub fn apply_csv(&self, header: &str, line: &str, row: &mut PreparedRow) -> Result<()> {
        self.write_into(row, |given, row| given.csv(self, header, line, row))
    }

    /// Prepares a record from values with the names of their columns. All other columns are missing.
    ///
    /// # Errors
    ///
    /// As [`apply_json`](Self::apply_json), and [`ErrorKind::NotFound`] for a name that is not a column.
    pub fn apply<'v>(
        &self,
        values: impl IntoIterator<Item = (&'v str, Value<'v>)>,
        row: &mut PreparedRow,
    ) -> Result<()> {
        self.write_into(row, |given, row| given.values(self, values, row))
    }

    /// Prepares a record that is a struct or a map: anything that is an object in JSON. It is converted to JSON first.
    ///
    /// # Errors
    ///
    /// As [`apply_json`](Self::apply_json), and [`ErrorKind::Data`] for values that JSON can't hold.
    pub fn apply_struct(&self, record: &impl Serialize, row: &mut PreparedRow) -> Result<()> {
        self.write_into(row, |given, row| given.structs(self, record, row))
    }

    fn write_into(
        &self,
        row: &mut PreparedRow,
        write: impl FnOnce(&mut Given, &mut RowMut<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check(row)?;
        let PreparedRow { memory, given, .. } = row;
        write(given, &mut RowMut::new(bytemuck::cast_slice_mut(memory), self.tensors(), self.layout(), 0))
    }

    fn check(&self, row: &mut PreparedRow) -> Result<()> {
        if row.prepared.is(self) {
            return Ok(());
        }
        if row.prepared == *self {
            // So that it is not compared again for the next record.
            row.prepared = self.clone();
            return Ok(());
        }
        Err(Error::new(ErrorKind::Schema, "the row is one of another recipe; take it from `row`"))
    }
}
