//! The values by which samples are chosen: of fields, read for this alone, or of the tensors of any source.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Known;
use crate::memory::MemoryBudget;
use crate::random::hash_bytes;
use crate::read::fields::Field;
use crate::read::{ColumnRef, FieldReader, RecordReader, Value};

use super::Loader;
use super::each::{each, or_number, single_numbers};
use super::length;
use super::number::{self, Number};
use super::own::Own;
use super::text;

/// The values of a field, one per record.
pub(super) enum Values {
    Numbers(Vec<Number>),
    /// Texts by number; an empty one means missing.
    Texts {
        codes: Vec<u32>,
        texts: Vec<String>,
        /// What texts that stand for one value have in common, if they are not equal themselves.
        keys: Option<Vec<String>>,
    },
}

impl Values {
    pub(super) fn at(&self, sample: u64) -> Known<'_> {
        match self {
            Self::Numbers(numbers) => numbers[sample as usize].known(),
            Self::Texts { codes, texts, .. } => match texts[codes[sample as usize] as usize].as_str() {
                "" => Known::Missing,
                text => Known::Text(text),
            },
        }
    }

    /// The value with its type in the record.
    pub(super) fn value(&self, sample: u64) -> Value<'_> {
        match (self, self.at(sample)) {
            (Self::Numbers(numbers), _) => numbers[sample as usize].value(),
            (_, Known::Text(text)) => Value::Text(text),
            _ => Value::Missing,
        }
    }

    /// A number for each value. Equal values have the same number, whatever the other values are; an integer is equal to
    /// itself with `.0`, but text in JSON, and any other text, only to the same text.
    pub(super) fn groups(&self) -> Vec<u64> {
        match self {
            Self::Numbers(numbers) => numbers.iter().map(|number| number.group()).collect(),
            Self::Texts { codes, texts, keys } => {
                let keys = keys.as_ref().unwrap_or(texts);
                let groups: Vec<u64> = keys.iter().map(|key| hash_bytes(key.as_bytes())).collect();
                codes.iter().map(|code| groups[*code as usize]).collect()
            }
        }
    }

    /// The values, numbered in their order from 0.
    pub(super) fn classes(&self) -> Vec<u32> {
        fn ranks<T: Ord + Copy + std::hash::Hash>(all: impl Iterator<Item = T>) -> HashMap<T, u32> {
            all.collect::<BTreeSet<T>>().into_iter().zip(0..).collect()
        }
        match self {
            Self::Numbers(numbers) => {
                let ranks = ranks(numbers.iter().map(|number| number.rank()));
                numbers.iter().map(|number| ranks[&number.rank()]).collect()
            }
            Self::Texts { codes, texts, keys } => {
                let keys = keys.as_ref().unwrap_or(texts);
                let ranks = ranks(keys.iter().map(String::as_str));
                codes.iter().map(|code| ranks[keys[*code as usize].as_str()]).collect()
            }
        }
    }
}

/// The readers of all sources side by side: their n-th records are sample n, which has the name of the first one's.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) readers: &'a [Arc<dyn RecordReader>],
    /// The number of the source of each. A source may have several readers, such as one for each file of a folder of IDX
    /// files.
    pub(super) sources: &'a [usize],
    /// Where the memory of further readers counts.
    pub(super) budget: &'a MemoryBudget,
}

impl Loader {
    /// The number of the reader that gives the tensor of this name; if none does, it is a field of the first source.
    pub(super) fn holder_of(&self, sides: Sides<'_>, name: &str) -> usize {
        let gives = |reader: &Arc<dyn RecordReader>| reader.tensors().iter().any(|spec| spec.name == name);
        let is_other = self.named.is_empty() && self.field_of(0, name).is_none();
        sides.readers.iter().position(gives).filter(|_| is_other).unwrap_or(0)
    }

    /// Whether a tensor can't be read by its field, because it is in a further file of its source.
    fn is_beside(&self, sides: Sides<'_>, holder: usize, name: &str) -> bool {
        let source = sides.sources[holder];
        sides.sources.iter().position(|other| *other == source) != Some(holder) && self.field_of(source, name).is_none()
    }

    /// The values of the field from which the tensor of this name is made, or of a field of the first source; without
    /// further information as text, if possible.
    pub(super) fn values(&self, sides: Sides<'_>, name: &str, is_text: Option<bool>) -> Result<Values> {
        let holder = self.holder_of(sides, name);
        let (reader, source) = (&sides.readers[holder], sides.sources[holder]);
        if let Some(values) = known_labels(reader, name, is_text) {
            return Ok(values);
        }
        if self.is_beside(sides, holder, name) {
            let no_number = || Error::new(ErrorKind::Config, "it is not a single number");
            return tensor_values(reader, name, is_text).unwrap_or_else(|| Err(no_value(name, &no_number())));
        }
        self.check_known(source, reader, name)?;
        let column = self.column_of(source, name)?;
        let by = |codec| {
            let field = (name.to_owned(), Field::outside(codec, [column.clone()]));
            self.read_values(source, &[field], None, sides.budget)
        };
        let (text, numbers) = (|| by(text::codec(name)), || by(number::codec(name)));
        let read = match is_text {
            Some(true) => text(),
            Some(false) => numbers(),
            // If the values are not text, they may be numbers.
            None => text().or_else(|of_text| match of_text.kind() {
                // Of two errors, the one at the later record has the right type.
                ErrorKind::Data => numbers().map_err(|of_number| {
                    let place = |error: &Error| (error.path().map(Path::to_owned), error.location().record);
                    if place(&of_text) > place(&of_number) { of_text } else { of_number }
                }),
                _ => Err(of_text),
            }),
        };
        match read {
            // An array has no fields that could be read separately, and a sequence has no field with a single value.
            Err(error) if error.kind() == ErrorKind::Config => {
                tensor_values(reader, name, is_text).unwrap_or_else(|| Err(no_value(name, &error)))
            }
            read => read,
        }
    }

    /// The lengths of a field of the source, or of the tensor of this name.
    pub(super) fn lengths(&self, sides: Sides<'_>, name: &str) -> Result<Values> {
        let holder = self.holder_of(sides, name);
        let (reader, source) = (&sides.readers[holder], sides.sources[holder]);
        let measured = || length::measured(reader, name).map(|numbers| numbers.map(Values::Numbers));
        if self.is_beside(sides, holder, name) {
            let no_list = || Error::new(ErrorKind::Config, "it is no list");
            return measured().unwrap_or_else(|| Err(no_length(name, &no_list())));
        }
        self.check_known(source, reader, name)?;
        if self.field_of(source, name).is_some_and(|(_, field)| field.has_own_length()) {
            return measured().unwrap_or_else(|| {
                let message = "its length is the same in every record, or none; leave out its max_len, or name the field that it \
                               is made of";
                Err(Error::new(ErrorKind::Config, message).at_column(format!("len({name})")))
            });
        }
        let field = Field::outside(length::codec(name), [self.column_of(source, name)?]);
        match self.read_values(source, &[(name.to_owned(), field)], None, sides.budget) {
            // Data without fields may be measured.
            Err(error) if matches!(error.kind(), ErrorKind::Config | ErrorKind::NotFound) => {
                measured().unwrap_or_else(|| match error.kind() {
                    ErrorKind::Config => Err(no_length(name, &error)),
                    _ => Err(error),
                })
            }
            read => read,
        }
    }

    fn field_of(&self, source: usize, name: &str) -> Option<&(String, Field)> {
        let read = self.config.sources.get(source).map_or(&self.config.fields, |source| &source.fields);
        let fields = if self.named.is_empty() { read } else { &self.named };
        fields.iter().find(|(own, _)| own == name)
    }

    /// Whether the first source may have a field of this name.
    pub(super) fn reads_by_name(&self, name: &str) -> bool {
        self.field_of(0, name).is_some() || !self.is_array(0)
    }

    /// Whether a source is an array, which would take any name for its own.
    fn is_array(&self, source: usize) -> bool {
        self.config.sources.get(source).is_some_and(|source| source.has_one_array())
    }

    /// Refuses a name that an array without names would take for its own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`].
    fn check_known(&self, source: usize, reader: &Arc<dyn RecordReader>, name: &str) -> Result<()> {
        let names: Vec<&str> = reader.tensors().iter().map(|spec| spec.name.as_str()).collect();
        if !self.is_array(source) || names.contains(&name) || self.field_of(source, name).is_some() {
            return Ok(());
        }
        let message = format!("no tensor {name:?} to choose samples by; there are {names:?}");
        Err(Error::new(ErrorKind::NotFound, message).at_column(name))
    }

    /// The field of the source with this name, or from which the tensor of this name is made.
    fn column_of(&self, source: usize, name: &str) -> Result<ColumnRef> {
        match self.field_of(source, name).map(|(own, field)| field.columns(own)).as_deref() {
            None => Ok(name.into()),
            Some([one]) => Ok(one.clone()),
            Some(_) => {
                let message = "the tensor is made of several fields; name one of them";
                Err(Error::new(ErrorKind::Config, message).at_column(name))
            }
        }
    }

    /// Reads a single field of every record, on a thread per core. `bad` stands for the value of a bad record; without
    /// it, a bad record is an error.
    pub(super) fn read_values(
        &self,
        source: usize,
        fields: &[(String, Field)],
        bad: Option<f64>,
        budget: &MemoryBudget,
    ) -> Result<Values> {
        let readers = match (&self.own, self.config.sources.get(source)) {
            (Some(Own::Container(open)), _) => FieldReader::with_files(open(budget)?, fields, &self.files, budget)?,
            (_, Some(_)) => {
                // All sources of a mix have the field.
                let read = if self.config.mix.is_empty() { source..source + 1 } else { 0..self.config.mix.len() };
                let mut sources = self.config.sources.get(read).unwrap_or(&self.config.sources).to_vec();
                sources.iter_mut().for_each(|source| source.fields = fields.to_vec());
                self.open_all(&sources, budget)?.all
            }
            _ => Vec::new(),
        };
        let [reader] = readers.as_slice() else {
            let message = "the source has no such field to choose samples by";
            return Err(Error::new(ErrorKind::Config, message).at_column(&fields[0].0));
        };
        if let Some(spec) = reader.tensors().iter().find(|spec| spec.is_variable()) {
            let message = "it has several values in a record; samples are chosen by a single one";
            return Err(Error::new(ErrorKind::Config, message).at_column(&spec.name));
        }
        if reader.tensors().first().is_none_or(|spec| spec.dtype != DType::U8) {
            let mut numbers = Vec::new();
            each(reader, |row| or_number(row, bad), |number| numbers.push(number))?;
            return Ok(Values::Numbers(numbers));
        }
        let (mut codes, mut texts, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        let mut keys = Vec::new();
        each(
            reader,
            |row| text::read(row?),
            |value| {
                let code = *known.entry(value).or_insert_with_key(|(text, is_text)| {
                    let key = if *is_text { text } else { text::without_zeros(text) };
                    keys.push(key.to_owned());
                    texts.push(text.clone());
                    texts.len() as u32 - 1
                });
                codes.push(code);
            },
        )?;
        Ok(Values::Texts { codes, texts, keys: Some(keys) })
    }
}

/// The error for choosing samples by something that has no single value per record.
#[cold]
fn no_value(name: &str, error: &Error) -> Error {
    let message = format!("a record has no single value {name:?} to choose samples by: {}", error.message());
    Error::new(ErrorKind::Config, message).at(error.location().clone())
}

/// The error for choosing samples by the length of something that has no length, or a fixed one.
#[cold]
fn no_length(name: &str, error: &Error) -> Error {
    let message = format!("{name:?} has no length that differs from record to record: {}", error.message());
    Error::new(ErrorKind::Config, message).at(error.location().clone())
}

/// The values of the tensor of this name, if it has a single number or the name of a class per record.
fn tensor_values(reader: &impl RecordReader, name: &str, is_text: Option<bool>) -> Option<Result<Values>> {
    let classes = reader.tensors().iter().find(|spec| spec.name == name)?.classes.clone();
    let classes = classes.filter(|_| is_text != Some(false));
    let numbers = single_numbers(reader, name)?;
    if classes.is_none() && is_text == Some(true) {
        return None;
    }
    Some(numbers.and_then(|numbers| {
        let Some(classes) = classes else { return Ok(Values::Numbers(numbers)) };
        let code = |number: &Number| match number.known() {
            Known::Number(class) => {
                Some(class as u32).filter(|code| f64::from(*code) == class && (*code as usize) < classes.len())
            }
            Known::Missing => Some(classes.len() as u32),
            _ => None,
        };
        let codes: Vec<Option<u32>> = numbers.iter().map(code).collect();
        match codes.iter().position(Option::is_none) {
            None => {
                let codes: Vec<u32> = codes.into_iter().flatten().collect();
                let is_any_missing = codes.contains(&(classes.len() as u32));
                let texts = classes.iter().cloned().chain(is_any_missing.then(String::new)).collect();
                Ok(Values::Texts { codes, texts, keys: None })
            }
            Some(record) if is_text == Some(true) => {
                let message = format!("the label is none of the {} classes, and has no name", classes.len());
                let record = record as u64;
                Err(Error::new(ErrorKind::Data, message).at_column(name).at(reader.place(record)).at_record(record))
            }
            Some(_) => Ok(Values::Numbers(numbers)),
        }
    }))
}

/// The classes of records, if they are known without reading and the tensor of this name holds them.
fn known_labels(reader: &impl RecordReader, name: &str, is_text: Option<bool>) -> Option<Values> {
    let spec = reader.tensors().get(reader.label_tensor()?).filter(|spec| spec.name == name)?;
    let labels: Vec<u32> = (0..reader.len()).map(|sample| reader.label(sample)).collect::<Option<_>>()?;
    if reader.is_empty() {
        return None;
    }
    match (&spec.classes, is_text) {
        (Some(names), None | Some(true)) if labels.iter().all(|label| (*label as usize) < names.len()) => {
            Some(Values::Texts { codes: labels, texts: names.to_vec(), keys: None })
        }
        (_, Some(true)) => None,
        _ => Some(Values::Numbers(labels.into_iter().map(Number::of_class).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::MemoryReader;
    use crate::schema::Role;

    #[test]
    fn what_is_no_class_has_the_name_of_none() {
        let of = |labels: Vec<f64>, is_text| {
            let reader = MemoryReader::new("label", Role::Label, &[], labels).unwrap().classes(["cat", "dog"]);
            tensor_values(&reader, "label", is_text).unwrap()
        };
        let at = |values: &Values, sample| match values.at(sample) {
            Known::Text(name) => name.to_owned(),
            Known::Number(number) => number.to_string(),
            _ => "missing".to_owned(),
        };
        let named = of(vec![1.0, 0.0, f64::NAN], None).unwrap();
        assert_eq!([at(&named, 0), at(&named, 1), at(&named, 2)], ["dog", "cat", "missing"]);
        for wrong in [-1.0, 0.5, 2.0] {
            let numbers = of(vec![1.0, wrong], None).unwrap();
            assert_eq!([at(&numbers, 0), at(&numbers, 1)], ["1".to_owned(), wrong.to_string()]);
            let error = of(vec![1.0, wrong], Some(true)).err().unwrap();
            assert!(error.kind() == ErrorKind::Data && error.location().record == Some(1), "{error}");
        }
    }
}
