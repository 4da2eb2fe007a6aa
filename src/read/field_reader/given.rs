//! Tensors of values that a caller gives, made like those of a container's records.

use crate::error::{Error, ErrorKind, Location, Result, nearest};
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::read::codec::needs_names;
use crate::read::container::{Container, FieldInfo, FieldKind, Visit};
use crate::read::fields::{Codec, Field, Numbers};
use crate::read::value::Value;
use crate::read::{ColumnRef, RecordReader, Scratch};
use crate::row::RowMut;
use crate::schema::{Extents, TensorSpec};

use super::FieldReader;
use super::decode::Targets;

/// Fields, and the tensors that are made of their values.
pub(crate) struct GivenFields {
    reader: FieldReader,
    names: Vec<String>,
    /// For each name: the tensor that takes a single number from it, if nothing says whether it holds lists.
    singles: Vec<Option<String>>,
    is_variable: bool,
}

/// A container without records, whose fields have these names; some of them are described further.
struct Named {
    names: Vec<String>,
    infos: Vec<FieldInfo>,
}

impl Container for Named {
    fn len(&self) -> u64 {
        0
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.infos
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let found = match field {
            ColumnRef::Name(name) => self.names.iter().position(|own| own == name),
            ColumnRef::Position(_) => None,
        };
        found
            .ok_or_else(|| Error::new(ErrorKind::Config, "values are given by name; name the field that it comes from"))
    }

    /// Fields as text have separate numbers, after the others.
    fn find_text(&mut self, field: &ColumnRef) -> Result<usize> {
        self.find(field).map(|number| self.names.len() + number)
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
    /// The tensors of these fields, in this order. If a field names a file, the value is the content of that file. The
    /// tensors `lists` are lists of any length, unless their fields say otherwise.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a field that depends on the records of a source, or that is random.
    pub(crate) fn new(fields: &[(String, Field)], lists: &[&str], budget: &MemoryBudget) -> Result<Self> {
        let (mut names, mut singles): (Vec<String>, Vec<Option<String>>) = (Vec::new(), Vec::new());
        let mut infos = Vec::new();
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
            let open_dtype = match &field.codec {
                Codec::Numbers(Numbers { dtype, shape: None, max_len: None, list: false, ragged: false, .. }) => {
                    Some(*dtype).filter(|_| !field.is_several())
                }
                _ => None,
            };
            let is_list = lists.contains(&name.as_str());
            for column in field.columns(name) {
                let ColumnRef::Name(column) = column else { continue };
                if let (Some(dtype), true) = (open_dtype, is_list) {
                    infos.push(FieldInfo::new(&column, FieldKind::Numbers(dtype)).shape(&[0]));
                }
                let nth = names.iter().position(|own| *own == column).unwrap_or_else(|| {
                    names.push(column);
                    singles.push(None);
                    names.len() - 1
                });
                if open_dtype.is_some() && !is_list {
                    singles[nth].get_or_insert_with(|| name.clone());
                }
            }
        }
        let reader = FieldReader::boxed(Box::new(Named { names: names.clone(), infos }), &fields, budget)?;
        if let Some(part) = reader.parts.iter().find(|part| part.codec.is_random()) {
            let message = "random operations are for training; leave them out where single records are served";
            return Err(Error::new(ErrorKind::Config, message).at_column(&part.name));
        }
        let is_variable = reader.tensors.iter().any(TensorSpec::is_variable);
        Ok(Self { reader, names, singles, is_variable })
    }

    pub(crate) fn tensors(&self) -> &[TensorSpec] {
        self.reader.tensors()
    }

    /// The names of the fields.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether lengths differ from record to record.
    pub(crate) fn is_variable(&self) -> bool {
        self.is_variable
    }

    /// The lengths of a record whose values `read` gives.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub(crate) fn measure(&self, read: impl FnOnce(&mut Visit<'_>) -> Result<()>) -> Result<Extents> {
        self.reader.measure_values(|visit| read(&mut |number, value| self.visit_both(number, value, visit)))
    }

    /// Writes the tensors of a record whose values `read` gives, by the positions of their [names](Self::names); a
    /// field that is not given is missing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for what a loader would treat as a bad record.
    pub(crate) fn decode(
        &self,
        read: impl FnOnce(&mut Visit<'_>) -> Result<()>,
        scratch: &mut Scratch,
        row: &mut RowMut<'_>,
    ) -> Result<()> {
        let read = |_: &mut Scratch, visit: &mut Visit<'_>| {
            read(&mut |number, value| match self.singles.get(number) {
                Some(Some(tensor)) if is_list(&value) => Err(no_list(tensor)),
                _ => self.visit_both(number, value, visit),
            })
        };
        self.reader.decode_values(RandomKey::new(0), scratch, row, &Targets::default(), read)
    }

    /// The number of a name's field as text, for which words for missing values are given again.
    pub(crate) fn number_of_text(&self, number: usize) -> usize {
        self.names.len() + number
    }

    /// Gives the value of a field to both of its uses: as a value and as text.
    fn visit_both(&self, number: usize, value: Value<'_>, visit: &mut Visit<'_>) -> Result<()> {
        visit(number, value)?;
        if number < self.names.len() { visit(self.number_of_text(number), value) } else { Ok(()) }
    }

    /// Gives values by their names to `visit`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a name that no field has, and those of `visit`.
    pub(crate) fn each<'v>(
        &self,
        values: impl IntoIterator<Item = (&'v str, Value<'v>)>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
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

fn is_list(value: &Value<'_>) -> bool {
    match value {
        Value::List(_) => true,
        Value::Numbers(numbers) => numbers.len() != 1,
        _ => false,
    }
}

/// The error for a list where only data could show that there are lists.
#[cold]
fn no_list(tensor: &str) -> Error {
    let message = "a list, but the field does not say that it holds lists, and there is no data to find out from: \
         give it `list`, `ragged`, `max_len` or `shape`";
    Error::new(ErrorKind::Data, message).at_column(tensor)
}
