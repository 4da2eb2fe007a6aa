//! Tensors of values that a caller gives, made like those of a container's records.

use crate::error::{Error, ErrorKind, Location, Result, nearest};
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::read::codec::needs_names;
use crate::read::container::{Container, FieldInfo, Value, Visit};
use crate::read::fields::Field;
use crate::read::{ColumnRef, RecordReader, Scratch};
use crate::row::RowMut;
use crate::schema::{Extents, Rows, TensorSpec};

use super::FieldReader;
use super::decode::Targets;

/// Fields, and the tensors that are made of their values.
pub(crate) struct GivenFields {
    reader: FieldReader,
    names: Vec<String>,
    is_variable: bool,
}

/// A container without records, whose fields have these names.
struct Named(Vec<String>);

impl Container for Named {
    fn len(&self) -> u64 {
        0
    }

    fn fields(&self) -> &[FieldInfo] {
        &[]
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let found = match field {
            ColumnRef::Name(name) => self.0.iter().position(|own| own == name),
            ColumnRef::Position(_) => None,
        };
        found
            .ok_or_else(|| Error::new(ErrorKind::Config, "values are given by name; name the field that it comes from"))
    }

    fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn read(&self, _: u64, _: usize, _: &mut Scratch, _: &mut Visit<'_>) -> Result<()> {
        Ok(())
    }

    fn place(&self, _: u64) -> Location {
        Location::default()
    }
}

impl GivenFields {
    /// The tensors of these fields, in this order. If a field names a file, the value is the content of the file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a field of which only the records of a source tell what becomes of it, or that draws at random.
    pub(crate) fn new(fields: &[(String, Field)], budget: &MemoryBudget) -> Result<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut fields = fields.to_vec();
        for (name, field) in &mut fields {
            let fault = |message: &'static str| Err(Error::new(ErrorKind::Config, message).at_column(&*name));
            if needs_names(field) {
                return fault("its names are found in the data; list them in the field");
            }
            if field.is_of_others() {
                return fault("\"*\" stands for the fields of a source; name those that it is made of");
            }
            field.is_file = false;
            for column in field.columns(name) {
                if let ColumnRef::Name(column) = column
                    && !names.contains(&column)
                {
                    names.push(column);
                }
            }
        }
        let reader = FieldReader::boxed(Box::new(Named(names.clone())), &fields, budget)?;
        if let Some(part) = reader.parts.iter().find(|part| part.codec.is_random()) {
            let message = "random operations are for training; leave them out where single records are served";
            return Err(Error::new(ErrorKind::Config, message).at_column(&part.name));
        }
        if let Some(ragged) = reader.tensors.iter().find(|spec| spec.rows != Rows::Even) {
            let message = "ragged lists lie one behind another in a batch; a single record has none";
            return Err(Error::new(ErrorKind::Unsupported, message).at_column(&ragged.name));
        }
        let is_variable = reader.tensors.iter().any(TensorSpec::is_variable);
        Ok(Self { reader, names, is_variable })
    }

    pub(crate) fn tensors(&self) -> &[TensorSpec] {
        self.reader.tensors()
    }

    /// What the fields are called.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether lengths differ from record to record.
    pub(crate) fn is_variable(&self) -> bool {
        self.is_variable
    }

    /// The lengths of a record that has these values.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub(crate) fn measure<'v>(&self, values: impl IntoIterator<Item = (&'v str, Value<'v>)>) -> Result<Extents> {
        self.reader.measure_values(|visit| self.each(values, visit))
    }

    /// Writes the tensors of a record with these values. A field that gets no value has none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for what a loader would call a bad record, and [`ErrorKind::NotFound`] for a name that no field has.
    pub(crate) fn decode<'v>(
        &self,
        values: impl IntoIterator<Item = (&'v str, Value<'v>)>,
        scratch: &mut Scratch,
        row: &mut RowMut<'_>,
    ) -> Result<()> {
        let read = |_: &mut Scratch, visit: &mut Visit<'_>| self.each(values, visit);
        self.reader.decode_values(RandomKey::new(0), scratch, row, &Targets::default(), read)
    }

    fn each<'v>(&self, values: impl IntoIterator<Item = (&'v str, Value<'v>)>, visit: &mut Visit<'_>) -> Result<()> {
        values.into_iter().try_for_each(|(name, value)| match self.names.iter().position(|own| own == name) {
            Some(number) => visit(number, value),
            None => Err(self.no_field(name)),
        })
    }

    #[cold]
    fn no_field(&self, name: &str) -> Error {
        let advice = match nearest(name, self.names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("there are {:?}", self.names),
        };
        Error::new(ErrorKind::NotFound, format!("no tensor is made of a field {name:?}; {advice}"))
    }
}
