//! One record in memory, read like the records of a file of its format.

use serde::Serialize;
use serde_json::ser::Formatter;

use crate::error::{Error, ErrorKind, Result, nearest};

use super::container::Visit;
use super::csv::{CsvLine, CsvOptions};
use super::field_reader::GivenFields;
use super::json::{Buffers, Found, Wanted, steps_to};
use super::value::Value;

/// Fields of a JSON value, by key or pointer, or by a path with dots as tables have it: `a.b` is the member `b` of `a`
/// where there is no `a.b`.
#[derive(Debug)]
pub(crate) struct OneJson {
    wanted: Wanted,
    /// The numbers of fields with dots in their names, and the numbers of those paths.
    paths: Vec<(usize, usize)>,
}

/// Buffers that are kept from one JSON value to the next.
#[derive(Debug, Default)]
pub(crate) struct JsonMemory {
    found: Found,
    buffers: Buffers,
}

impl OneJson {
    /// Fields by these names, counted from 0.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let mut wanted = Wanted::default();
        let mut dotted = Vec::new();
        let mut count = 0;
        for (nth, name) in names.enumerate() {
            wanted.add(&steps_to(name), nth);
            if name.contains('.') && !name.starts_with('/') {
                dotted.push((nth, name.split('.').map(str::to_owned).collect::<Vec<_>>()));
            }
            count = nth + 1;
        }
        let paths = (count..).zip(dotted).map(|(path, (nth, steps))| {
            wanted.add(&steps, path);
            (nth, path)
        });
        let paths = paths.collect();
        Self { wanted, paths }
    }

    /// Gives the fields that the value has.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for what is no JSON, and those of `visit`.
    pub(crate) fn read(&self, text: &str, memory: &mut JsonMemory, visit: &mut Visit<'_>) -> Result<()> {
        let JsonMemory { found, buffers } = memory;
        self.wanted.find(text, found).map_err(|fault| fault.error(text).at_byte(fault.at as u64))?;
        for (field, path) in &self.paths {
            found.take_unless_there(*path, *field);
        }
        found.give(text, buffers, visit, |error, _, at| error.at_byte(at as u64))
    }
}

/// Writes an f32 with the digits of its value as f64, as all other ways of reading have it, instead of the fewest that
/// tell it from other f32.
struct Exactly;

impl Formatter for Exactly {
    fn write_f32<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, value: f32) -> std::io::Result<()> {
        self.write_f64(writer, f64::from(value))
    }
}

/// A buffer that is kept from one struct to the next: its JSON form.
#[derive(Debug, Default)]
pub(crate) struct StructMemory(Vec<u8>);

impl StructMemory {
    /// Writes a record as JSON. Numbers of 32 bits keep their value. NaN and infinity, which JSON does not have, become
    /// missing values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for values that JSON can't hold.
    pub(crate) fn write(&mut self, record: &impl Serialize) -> Result<&str> {
        self.0.clear();
        record
            .serialize(&mut serde_json::Serializer::with_formatter(&mut self.0, Exactly))
            .map_err(|error| Error::new(ErrorKind::Data, error.to_string()).with_source(error))?;
        std::str::from_utf8(&self.0).map_err(|error| Error::new(ErrorKind::Data, error.to_string()))
    }
}

/// Receives the fields of a line of CSV, by their numbers: values, and the words if they stand for missing values.
type VisitWords<'a> = dyn FnMut(usize, Value<'_>, Option<&[u8]>) -> Result<()> + 'a;

/// Buffers that are kept from one line of CSV to the next.
#[derive(Debug, Default)]
pub(crate) struct CsvMemory {
    /// The last header, and the fields of its columns.
    known: Option<(String, OneCsv)>,
    unquoted: Vec<u8>,
}

impl CsvMemory {
    /// Gives the fields of a line with these `names`, counted from 0.
    ///
    /// # Errors
    ///
    /// Those of [`OneCsv::new`] and [`OneCsv::read`].
    pub(crate) fn read<'n>(
        &mut self,
        header: &str,
        names: impl Iterator<Item = &'n str>,
        line: &str,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.read_words(header, names, line, &mut |number, value, _| visit(number, value))
    }

    /// The same for [fields](GivenFields), where texts also get the words for missing values.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(crate) fn read_given(
        &mut self,
        header: &str,
        fields: &GivenFields,
        line: &str,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let names = fields.names().iter().map(String::as_str);
        self.read_words(header, names, line, &mut |number, value, word| {
            visit(number, value)?;
            word.map_or(Ok(()), |word| visit(fields.number_of_text(number), Value::Bytes(word)))
        })
    }

    fn read_words<'n>(
        &mut self,
        header: &str,
        names: impl Iterator<Item = &'n str>,
        line: &str,
        visit: &mut VisitWords<'_>,
    ) -> Result<()> {
        let known = match &mut self.known {
            Some((known, columns)) if known == header => columns,
            known => &mut known.insert((header.to_owned(), OneCsv::new(header, names)?)).1,
        };
        known.read(line, &mut self.unquoted, visit)
    }
}

/// Fields of a line of CSV, by the names in a header.
#[derive(Debug)]
struct OneCsv {
    line: CsvLine,
    /// For each column of the line, which field it is.
    fields: Vec<Option<usize>>,
}

impl OneCsv {
    /// Fields by these names, counted from 0.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for one that the header does not have.
    fn new<'n>(header: &str, names: impl Iterator<Item = &'n str>) -> Result<Self> {
        let header = header.trim_start_matches('\u{feff}');
        let mut columns = Vec::new();
        // A word for a missing value may also be a name.
        CsvLine::of_header(header, &[]).read(header.as_bytes(), &mut Vec::new(), |_, value, _| {
            columns.push(match value {
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes.trim_ascii()).into_owned(),
                _ => String::new(),
            });
            Ok(())
        })?;
        let line = CsvLine::of_header(header, &CsvOptions::default().missing_tokens);
        let mut fields = vec![None; columns.len()];
        for (nth, name) in names.enumerate() {
            let Some(column) = columns.iter().position(|column| column == name) else {
                let near = nearest(name, columns.iter().map(String::as_str));
                let advice = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                return Err(Error::new(ErrorKind::NotFound, format!("no column {name:?} in the header{advice}")));
            };
            fields[column] = Some(nth);
        }
        Ok(Self { line, fields })
    }

    /// Gives the fields, with the words for missing values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for another number of fields than in the header, and those of `visit`.
    fn read(&self, line: &str, unquoted: &mut Vec<u8>, visit: &mut VisitWords<'_>) -> Result<()> {
        let mut count = 0;
        self.line.read(line.as_bytes(), unquoted, |column, value, word| {
            count = column + 1;
            match self.fields.get(column) {
                Some(Some(nth)) => visit(*nth, value, word),
                _ => Ok(()),
            }
        })?;
        if count == self.fields.len() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Data, format!("{count} fields; the header has {}", self.fields.len())))
    }
}
