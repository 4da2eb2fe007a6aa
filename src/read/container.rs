//! Containers: records whose fields are values, such as a table, an archive, or lines of JSON.
//!
//! A container turns bytes into [`Value`]s and knows nothing of tensors; a codec turns values into tensors and knows
//! nothing of containers. [`FieldReader`](super::FieldReader) brings them together.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Location, Result, nearest};
use crate::storage::Needs;

use super::csv::ColumnRef;
use super::date_unit::DateUnit;
use super::decoded_bytes::DecodedBytes;
use super::fingerprint::Fingerprint;
use super::scratch::Scratch;
use super::value::Value;

/// Random access to records whose fields are values. Implement this for a new container format.
///
/// Called from several threads at once, in any order, each with its own [`Scratch`]. For each record of a job, `fetch`
/// is called first, then `read`.
pub trait Container: Send + Sync {
    /// Number of records.
    fn len(&self) -> u64;

    /// Whether there are no records.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fields of a record, as far as they are known without reading all records.
    fn fields(&self) -> &[FieldInfo];

    /// Whether records differ in their fields, as in JSON Lines. If several files are read as one, a field that one
    /// file lacks is then a missing value. By default all records have the listed fields.
    fn fields_vary(&self) -> bool {
        false
    }

    /// Whether a list of one value is not the same as the value, as in JSON. In other formats, such as TFRecord, one
    /// value may stand for a list. By default `false`.
    fn tells_lists_from_values(&self) -> bool {
        false
    }

    /// Whether two names mean the same field, as a key and a pointer to it do in JSON. By default only equal names do.
    fn means_same(&self, one: &str, other: &str) -> bool {
        one == other
    }

    /// The field that holds a class index, and the names of the classes, if the container knows them.
    fn classes(&self) -> Option<(&str, &[String])> {
        None
    }

    /// Announces that this field will be read, and returns the number that [`read`](Self::read) uses for it. By default
    /// a field is one of [`fields`](Self::fields), by its name or position, and its number is its position there. A
    /// container may read only fields that were found in this way.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        find_field(self.fields(), field)
    }

    /// The same for a field that becomes text. A word that means a missing value in other fields, such as `NA` in CSV, is
    /// then text, too. By default the same as [`find`](Self::find).
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    fn find_text(&mut self, field: &ColumnRef) -> Result<usize> {
        self.find(field)
    }

    /// Forgets the fields that were [found](Self::find), because other fields will be read.
    fn forget(&mut self) {}

    /// What the values of a [found](Self::find) field mean in addition to their type, if it is known, so that a table
    /// with typed columns can keep it. By default unknown.
    fn meaning(&self, number: usize) -> Option<Meaning> {
        let _ = number;
        None
    }

    /// If a [found](Self::find) field is part of a struct: the name of the struct, of structs within it, and finally of
    /// the field. By default no field is.
    fn steps(&self, number: usize) -> Option<Vec<String>> {
        let _ = number;
        None
    }

    /// Stored fields that are not among [`fields`](Self::fields) and can't be read: their names, and the reasons. By
    /// default none.
    fn left_out(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// If records differ in their fields: calls `visit` with the name of each value of the record that `fetch` read as
    /// the job's `nth`. [`fields`](Self::fields) may list fewer. By default does nothing.
    fn each_name(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut dyn FnMut(&str)) {
        let _ = (record, nth, scratch, visit);
    }

    /// Names the bytes that `records` will be read from, if they can be requested before they are needed; see
    /// [`RecordReader::need`](super::RecordReader::need).
    fn need(&self, records: &[u64], needs: &mut Needs) {
        let _ = (records, needs);
    }

    /// Reads the bytes of record `records[nth]` into `scratch`. Does I/O only. Called like
    /// [`RecordReader::fetch`](super::RecordReader::fetch).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] and the format's limits, with the location.
    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()>;

    /// Calls `visit` with the number and value of each [found](Self::find) field of the record that `fetch` read as the
    /// job's `nth`. It may also give other fields, and need not give a field that the record does not have. If `visit`
    /// fails, stop and return its error unchanged.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the location.
    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()>;

    /// Calls `visit` with the numbers of whole columns, if the container holds these and this is faster than one value
    /// at a time: for some of the found fields, one field after another, and some of the records that `fetch` read for
    /// a job. Everything else is [read](Self::read). By default does nothing.
    fn columns(&self, scratch: &mut Scratch, visit: &mut VisitColumn<'_>) {
        let _ = (scratch, visit);
    }

    /// The first record of each chunk, which is read or decoded as a unit (row groups, files, compressed blocks),
    /// ascending from 0; see [`RecordReader::chunks`](super::RecordReader::chunks). By default there are no chunks.
    fn chunks(&self) -> Vec<u64> {
        Vec::new()
    }

    /// How much memory all decoded records take; see
    /// [`RecordReader::decoded_bytes`](super::RecordReader::decoded_bytes). By default unknown.
    fn decoded_bytes(&self) -> Option<DecodedBytes> {
        None
    }

    /// The location of a record.
    fn place(&self, record: u64) -> Location;

    /// The file that a record comes from: if a table names other files, the table's. By default that of its
    /// [location](Self::place).
    fn source_file(&self, record: u64) -> Option<PathBuf> {
        self.place(record).path
    }

    /// Appends the name of a record to `name`; see [`RecordReader::name`](super::RecordReader::name).
    fn name(&self, record: u64, name: &mut Vec<u8>) {
        name.extend_from_slice(&record.to_le_bytes());
    }

    /// Identifies this source, so that another or a changed one is noticed.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.len()), names: 0, sizes: 0 }
    }
}

/// Receives the fields of a record, by their numbers.
pub type Visit<'a> = dyn FnMut(usize, Value<'_>) -> Result<()> + 'a;

/// Receives numbers of a field, by its number, for some records of a job: for each, its position in the job and the
/// position of its value among the numbers.
pub type VisitColumn<'a> = dyn FnMut(usize, NumberSlice<'_>, &[(usize, usize)]) + 'a;

/// A container that other readers share, from when it is open.
pub(super) type Table = Arc<OnceLock<Arc<dyn Container>>>;

/// What is known of a field before it is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FieldInfo {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: FieldKind,
    /// Shape of one record's value: `[]` for a single value, 0 for a length that differs from record to record.
    pub shape: Vec<usize>,
    /// Whether its lists become a ragged tensor by default, as those of sparse rows should.
    pub ragged: bool,
    /// Whether no value was seen of which the kind could be told.
    pub(crate) is_unseen: bool,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Numbers that fit this element type.
    Numbers(DType),
    /// Text.
    Text,
    /// Bytes, such as those of a file.
    Bytes,
    /// Something that no codec can read as a whole, such as a struct, or that differs from record to record.
    Other,
}

/// What numbers mean in addition to their type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// True or false.
    Bool,
    /// Integers from 0 up to those of 64 bits.
    U64,
    /// Floating point numbers of 16 bits (`f16`).
    F16,
    /// A date, in days or milliseconds since 1970-01-01.
    Date(DateUnit),
    /// A time of day, in these units.
    Time(DateUnit),
    /// A point in time since 1970-01-01 UTC, and the zone to show it in; or local time where no zone is known.
    Timestamp(DateUnit, Option<String>),
    /// A number of these units.
    Duration(DateUnit),
    /// Decimal numbers: the maximum number of digits, and how many of them are after the point.
    Decimal(u8, i8),
}

impl PartialEq for FieldInfo {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.kind, &self.shape, self.ragged) == (&other.name, other.kind, &other.shape, other.ragged)
    }
}

impl FieldInfo {
    /// A field with one value in each record.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Self { name: name.into(), kind, shape: Vec::new(), ragged: false, is_unseen: false }
    }

    /// Sets the shape of one record's value; 0 for a length that differs from record to record.
    #[must_use]
    pub fn shape(mut self, shape: &[usize]) -> Self {
        self.shape = shape.to_vec();
        self
    }

    /// Says whether no value was seen of which the kind could be told.
    pub(crate) fn unseen(mut self, is_unseen: bool) -> Self {
        self.is_unseen = is_unseen;
        self
    }

    /// Its type in messages: an element type, `text`, `bytes` or `other`.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            FieldKind::Numbers(dtype) => dtype.as_str(),
            FieldKind::Text => "text",
            FieldKind::Bytes => "bytes",
            FieldKind::Other => "other",
        }
    }
}

/// Finds every field that holds values, as opposed to what no codec reads whole; gives the number of each, and `None`
/// of those others.
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

/// Names that several of these fields have.
pub(super) fn doubled_names(infos: &[FieldInfo]) -> HashSet<String> {
    let mut seen = HashSet::new();
    infos.iter().filter(|info| !seen.insert(&info.name)).map(|info| info.name.clone()).collect()
}

/// The shape that fits lists of both shapes.
pub(in crate::read) fn common_shape(few: &[usize], many: &[usize]) -> Vec<usize> {
    let each =
        many.iter().enumerate().map(|(at, len)| if few.get(at).is_none_or(|other| other == len) { *len } else { 0 });
    each.collect()
}

/// The position of a field in `fields`.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] with the nearest name, or with all names; [`ErrorKind::Config`] for a name that several fields
/// have, with their positions.
pub fn find_field(fields: &[FieldInfo], field: &ColumnRef) -> Result<usize> {
    let found = match field {
        ColumnRef::Position(position) => Some(*position).filter(|position| *position < fields.len()),
        ColumnRef::Name(name) => {
            let mut named =
                fields.iter().zip(0..).filter(|(field, _)| field.name == *name).map(|(_, position)| position);
            let first = named.next();
            if let (Some(first), Some(second)) = (first, named.next()) {
                let message = format!(
                    "several fields are called {name:?}; name one by its position from 0, such as `from = {first}` or \
                     `from = {second}`"
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
            first
        }
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

/// Reads a single record; an error says which.
///
/// # Errors
///
/// Those of reading, and of `visit`.
pub(crate) fn read_one(
    container: &dyn Container,
    record: u64,
    scratch: &mut Scratch,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let read = container.fetch(&[record], 0, scratch).and_then(|()| container.read(record, 0, scratch, visit));
    read.map_err(|error| error.at(container.place(record)))
}
