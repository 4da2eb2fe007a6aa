//! Containers: records whose fields are values, such as a table, an archive, or lines of JSON.
//!
//! A container turns bytes into [`Value`]s and knows nothing of tensors; a codec turns values into tensors and knows nothing
//! of containers. [`FieldReader`](super::FieldReader) brings them together.

use std::collections::HashSet;

use crate::dtype::{DType, Numbers};
use crate::error::{Error, ErrorKind, Location, Result, nearest};
use crate::storage::Needs;

use super::date_unit::DateUnit;
use super::{ColumnRef, Fingerprint, Scratch};

/// Records, read at random, whose fields are values. A new container format is an implementation of this.
///
/// Called from several threads at once, in any order, each with a [`Scratch`] of its own. For each record of a job `fetch`
/// is called first, then `read`.
pub trait Container: Send + Sync {
    /// Number of records.
    fn len(&self) -> u64;

    /// Whether there are no records.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fields of a record, as far as they are known without reading all of them.
    fn fields(&self) -> &[FieldInfo];

    /// Whether records differ in their fields, as in JSON Lines: what one file does not have is then a missing value where
    /// several are read as one. By default all records have those that are listed.
    fn fields_vary(&self) -> bool {
        false
    }

    /// The field that is a class by its index, and the names of the classes, where the container knows them by itself.
    fn classes(&self) -> Option<(&str, &[String])> {
        None
    }

    /// Says that this field will be read, and gives the number by which [`read`](Self::read) calls it. By default a field is one
    /// of [`fields`](Self::fields), by its name or position, and its number is its position there. A container may read only
    /// what was asked for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        find_field(self.fields(), field)
    }

    /// Forgets what was [found](Self::find): other fields will be read.
    fn forget(&mut self) {}

    /// What the values of a field that was [found](Self::find) mean beside their type, where that is known: what a table of typed
    /// columns should keep. By default nothing is known.
    fn meaning(&self, number: usize) -> Option<Meaning> {
        let _ = number;
        None
    }

    /// Where a field that was [found](Self::find) lies in a struct: the name of that, of those in it, and at last its own. By
    /// default no field does.
    fn steps(&self, number: usize) -> Option<Vec<String>> {
        let _ = number;
        None
    }

    /// What is stored beside [`fields`](Self::fields) and can't be read: names, and why. By default nothing.
    fn left_out(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Gives the names of the values that the record has which `fetch` read as the job's `nth`, where records differ in their
    /// fields: [`fields`](Self::fields) may list fewer. By default nothing.
    fn each_name(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut dyn FnMut(&str)) {
        let _ = (record, nth, scratch, visit);
    }

    /// Says which bytes `records` will be read from, where they can be asked for before they are needed; see
    /// [`RecordReader::need`](super::RecordReader::need).
    fn need(&self, records: &[u64], needs: &mut Needs) {
        let _ = (records, needs);
    }

    /// Reads the bytes of record `records[nth]` into `scratch`: input and output only. Called as
    /// [`RecordReader::fetch`](super::RecordReader::fetch).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] and the format's limits, with the place.
    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()>;

    /// Gives to `visit` each field of the record that `fetch` read as the job's `nth`, by its number: those that were
    /// [found](Self::find), others as it likes. A field that a record does not have need not be given. Errors of `visit` end
    /// it and are handed on as they are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the place.
    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()>;

    /// Gives to `visit` the numbers of whole columns, where the container holds these and that is faster than a value at a time:
    /// for some of the fields that were found, one field after another, and some of the records that `fetch` read for a job. What
    /// is not given here is [read](Self::read). By default nothing.
    fn columns(&self, scratch: &mut Scratch, visit: &mut VisitColumn<'_>) {
        let _ = (scratch, visit);
    }

    /// The first records of what is read or decoded together (row groups, files, compressed blocks), ascending from 0; see
    /// [`RecordReader::chunks`](super::RecordReader::chunks). By default nothing is.
    fn chunks(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Where a record lies.
    fn place(&self, record: u64) -> Location;

    /// Writes the name of a record behind what `name` holds; see [`RecordReader::name`](super::RecordReader::name).
    fn name(&self, record: u64, name: &mut Vec<u8>) {
        name.extend_from_slice(&record.to_le_bytes());
    }

    /// What tells this source from another or a changed one.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.len()), names: 0, sizes: 0 }
    }
}

/// Takes the fields of a record by their numbers.
pub type Visit<'a> = dyn FnMut(usize, Value<'_>) -> Result<()> + 'a;

/// Takes numbers of a field, by its number, for some records of a job: each by its place in the job and that of its value among
/// the numbers.
pub type VisitColumn<'a> = dyn FnMut(usize, Numbers<'_>, &[(usize, usize)]) + 'a;

/// What is known of a field before it is read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldInfo {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: FieldKind,
    /// Shape of one record's value: `[]` for a single one, 0 for a length that differs from record to record.
    pub shape: Vec<usize>,
    /// Whether its lists lie one behind another where nobody says what becomes of them, as those of sparse rows should.
    pub ragged: bool,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Numbers, for which this element type is enough.
    Numbers(DType),
    /// Text.
    Text,
    /// Bytes, such as those of a file.
    Bytes,
    /// Something that no codec reads whole, such as a struct, or that differs from record to record.
    Other,
}

/// What numbers mean beside their type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// True or false.
    Bool,
    /// Integers from 0 up to those of 64 bits.
    U64,
    /// A date, in days or milliseconds since 1970-01-01.
    Date(DateUnit),
    /// A time of a day, in these units.
    Time(DateUnit),
    /// A point in time since 1970-01-01 UTC, and the zone to show it in; or local time where no zone is known.
    Timestamp(DateUnit, Option<String>),
    /// So many of these units.
    Duration(DateUnit),
    /// Numbers of at most so many digits, and how many of those are behind the point.
    Decimal(u8, i8),
}

impl FieldInfo {
    /// A field with one value in each record.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Self { name: name.into(), kind, shape: Vec::new(), ragged: false }
    }

    /// The same with values of this shape in each record; 0 for a length that differs.
    #[must_use]
    pub fn shape(mut self, shape: &[usize]) -> Self {
        self.shape = shape.to_vec();
        self
    }

    /// Its type as messages call it: an element type, `text`, `bytes` or `other`.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            FieldKind::Numbers(dtype) => dtype.as_str(),
            FieldKind::Text => "text",
            FieldKind::Bytes => "bytes",
            FieldKind::Other => "other",
        }
    }
}

/// Finds every field that holds values, as opposed to what no codec reads whole; gives the number of each, and `None` of those
/// others.
///
/// # Errors
///
/// Those of [`Container::find`].
pub(super) fn find_all(container: &mut dyn Container) -> Result<Vec<Option<usize>>> {
    let infos = container.fields();
    let doubled = doubled_names(infos);
    let column = |(position, info): (usize, &FieldInfo)| match info.kind {
        FieldKind::Other => None,
        _ if doubled.contains(&info.name) => Some(ColumnRef::Position(position)),
        _ => Some(ColumnRef::Name(info.name.clone())),
    };
    let columns: Vec<Option<ColumnRef>> = infos.iter().enumerate().map(column).collect();
    columns.iter().map(|column| column.as_ref().map(|column| container.find(column)).transpose()).collect()
}

/// The names that several of these fields have.
pub(super) fn doubled_names(infos: &[FieldInfo]) -> HashSet<String> {
    let mut seen = HashSet::new();
    infos.iter().filter(|info| !seen.insert(&info.name)).map(|info| info.name.clone()).collect()
}

/// The position of a field in `fields`.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] with the nearest name, or with the names that there are.
pub fn find_field(fields: &[FieldInfo], field: &ColumnRef) -> Result<usize> {
    let found = match field {
        ColumnRef::Position(position) => Some(*position).filter(|position| *position < fields.len()),
        ColumnRef::Name(name) => fields.iter().position(|field| field.name == *name),
    };
    found.ok_or_else(|| {
        const SHOWN: usize = 20;
        let names = || fields.iter().map(|field| field.name.as_str());
        let near = match field {
            ColumnRef::Name(name) => nearest(name, names()),
            ColumnRef::Position(_) => None,
        };
        let advice = match near {
            Some(near) => format!("did you mean {near:?}?"),
            None => {
                let shown: Vec<&str> = names().take(SHOWN).collect();
                format!("there are {}: {shown:?}{}", fields.len(), if fields.len() > SHOWN { ", ..." } else { "" })
            }
        };
        Error::new(ErrorKind::NotFound, format!("no field {field}; {advice}"))
    })
}

/// The value of a field.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// There is none.
    Missing,
    /// True or false.
    Bool(bool),
    /// An integer.
    I64(i64),
    /// An integer.
    U64(u64),
    /// A number.
    F64(f64),
    /// A date or time: so many of these units from 1970 on. To what knows no times, it is an integer.
    Time(i64, DateUnit),
    /// A number as it is written, such as `-1.5e3`: it is rounded only once, to the type of its tensor.
    Decimal(&'a str),
    /// Text.
    Text(&'a str),
    /// Bytes: a file, or what is written there and means text or a number by its codec.
    Bytes(&'a [u8]),
    /// Numbers of one type, in one row.
    Numbers(Numbers<'a>),
    /// Several values; also an array of more dimensions, as [`Shaped`](super::Shaped).
    List(&'a dyn List),
}

/// Several values, perhaps lists again.
pub trait List {
    /// Gives each value in its order. Errors of `visit` end it and are handed on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for what can't be read.
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()>;

    /// The shape, where these are the numbers of an array, whatever lists [`each`](Self::each) gives them in: see
    /// [`Shaped`](super::Shaped). An array of several dimensions becomes no tensor of several others: its numbers would be taken in
    /// another order than they were meant in.
    fn shape(&self) -> Option<&[u64]> {
        None
    }

    /// All numbers of an array, row-major, where they lie together.
    fn numbers(&self) -> Option<Numbers<'_>> {
        None
    }
}

impl Value<'_> {
    /// What it is, as messages call it, with the value itself where that is short.
    pub fn describe(&self) -> String {
        const SHOWN: usize = 40;
        let quoted = |text: &str| match text.char_indices().nth(SHOWN) {
            None => format!("{text:?}"),
            Some((end, _)) => format!("{:?} and so on", &text[..end]),
        };
        match self {
            Self::Missing => "no value".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::I64(value) => value.to_string(),
            Self::U64(value) => value.to_string(),
            Self::F64(value) => value.to_string(),
            Self::Time(value, unit) => format!("{value} {} from 1970", unit.name()),
            Self::Decimal(text) => quoted(text).replace('"', ""),
            Self::Text(text) => quoted(text),
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if bytes.len() <= 4 * SHOWN => quoted(text),
                _ => format!("{} bytes", bytes.len()),
            },
            Self::Numbers(numbers) => format!("a list of {} numbers", numbers.len()),
            Self::List(_) => "a list".to_owned(),
        }
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}
