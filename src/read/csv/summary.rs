use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};
use crate::read::FieldSummary;
use crate::read::summary::{Figure, Tally};
use crate::storage::Files;
use crate::tree::no_faults;

use super::fields::Fields;
use super::format::Format;
use super::kind::Kind;
use super::options::CsvOptions;
use super::other_columns;
use super::scan::Scan;
use super::text::Text;
use super::value::{Missings, Value, shown};
use super::wanted::usual_label;

/// What `inspect` reports about a CSV file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CsvSummary {
    /// The file.
    pub path: PathBuf,
    /// Whether the first record is the header.
    pub header: bool,
    /// The reason for this decision.
    pub header_reason: String,
    /// The character that separates fields.
    pub delimiter: char,
    /// Name of the text's encoding.
    pub encoding: String,
    /// Number of records, without the header.
    pub records: u64,
    /// The columns. The type is `i64` if all values are integers that fit, `f32` if all are numbers, otherwise `text`.
    pub fields: Vec<FieldSummary>,
    /// Name and field of each column in the first record; `None` without records. A map in JSON.
    #[serde(serialize_with = "as_map")]
    pub first: Option<Vec<(String, String)>>,
    /// The same for the last record.
    #[serde(serialize_with = "as_map")]
    pub last: Option<Vec<(String, String)>>,
}

impl CsvSummary {
    /// Reads the file at `path` once, in bounded memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with a record of another length or text that is not UTF-8, and those of
    /// [`CsvReader::open`](crate::csv::CsvReader::open).
    pub fn of(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Self> {
        Self::of_files(&Files::local(), &[path.as_ref().to_owned()], options)
    }

    /// The same for some of these files, which are read as one. Everything except statistics and records comes from the first file.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of), and [`ErrorKind::Schema`] for files with other columns than the first one.
    pub(crate) fn of_files(files: &Files, paths: &[PathBuf], options: &CsvOptions) -> Result<Self> {
        no_faults(options.faults())?;
        let missings = Missings::new(&options.missing_tokens);
        let open = |path: &Path| Text::open_in(files, path, options.encoding.as_deref());
        let (mut formats, mut encoding): (Vec<Format>, _) = (Vec::new(), String::new());
        for path in paths {
            let text = open(path)?;
            let format = Format::detect(path, || text.read(), options, &missings)?;
            match formats.first() {
                None => text.encoding().clone_into(&mut encoding),
                Some(first) if first.names == format.names => {}
                Some(first) => return Err(other_columns(&first.names, &format.names, &paths[0]).at_path(path)),
            }
            formats.push(format);
        }
        let Some(format) = formats.first() else { return Err(Error::new(ErrorKind::NotFound, "no file is named")) };
        let mut figures = Figures::new(format, &missings);
        let (mut records, mut first, mut last) = (0, None, None);
        let mut last_raw = Vec::new();
        for (path, own) in paths.iter().zip(&formats) {
            let mut scan = own.records(open(path)?.read()?, path, options)?;
            figures.format = own;
            records += figures.observe_all(&mut scan, path, |raw, quoted| {
                first.get_or_insert_with(|| strings(raw, quoted, own));
                last = Some(own);
                last_raw.clear();
                last_raw.extend_from_slice(raw);
            })?;
        }
        figures.format = format;
        Ok(Self {
            path: paths[0].clone(),
            header: format.header,
            header_reason: format.header_reason.clone(),
            delimiter: format.dialect.delimiter.into(),
            encoding,
            records,
            fields: figures.finish(),
            first,
            last: last.map(|own| strings(&last_raw, true, own)),
        })
    }
}

fn as_map<S: Serializer>(record: &Option<Vec<(String, String)>>, serializer: S) -> Result<S::Ok, S::Error> {
    match record {
        Some(record) => serializer.collect_map(record.iter().map(|(name, field)| (name, field))),
        None => serializer.serialize_none(),
    }
}

fn strings(raw: &[u8], quoted: bool, format: &Format) -> Vec<(String, String)> {
    let mut fields = Fields::new(raw, quoted, &format.dialect);
    let mut buffer = Vec::new();
    let mut text = |name: &String| {
        let field = fields.next(&mut buffer).unwrap_or_default();
        (name.clone(), String::from_utf8_lossy(field).into_owned())
    };
    format.names.iter().map(&mut text).collect()
}

/// Kind and running figures of every column.
pub(crate) struct Figures<'a> {
    format: &'a Format,
    missings: &'a Missings,
    kinds: Vec<Kind>,
    tallies: Vec<Tally>,
    buffer: Vec<u8>,
}

impl<'a> Figures<'a> {
    pub(crate) fn new(format: &'a Format, missings: &'a Missings) -> Self {
        let columns = format.names.len();
        Self {
            format,
            missings,
            kinds: vec![Kind::default(); columns],
            tallies: vec![Tally::default(); columns],
            buffer: Vec::new(),
        }
    }

    /// Observes all records of a file, passes each to `keep` as well, and returns their number.
    pub(crate) fn observe_all<R: Read>(
        &mut self,
        scan: &mut Scan<R>,
        path: &Path,
        mut keep: impl FnMut(&[u8], bool),
    ) -> Result<u64> {
        let mut records = 0;
        while let Some(span) = scan.next().map_err(|error| error.at_record(records))? {
            let raw = scan.bytes(&span);
            self.observe(raw, span.quoted).map_err(|(error, at)| {
                let inside = memchr::memchr_iter(self.format.dialect.terminator, &raw[..at]).count() as u64;
                error.at_path(path).at_record(records).at_line(span.line + inside).at_byte(span.byte + at as u64)
            })?;
            keep(raw, span.quoted);
            records += 1;
        }
        Ok(records)
    }

    /// An error comes with its offset in the record.
    fn observe(&mut self, raw: &[u8], quoted: bool) -> Result<(), (Error, usize)> {
        let mut fields = Fields::new(raw, quoted, &self.format.dialect);
        let found = Fields::new(raw, quoted, &self.format.dialect).count();
        if found != self.kinds.len() {
            let message = format!("expected {} fields, found {found}", self.kinds.len());
            return Err((Error::new(ErrorKind::Data, message), 0));
        }
        for (column, (kind, tally)) in self.kinds.iter_mut().zip(&mut self.tallies).enumerate() {
            let at = fields.at();
            let Some(field) = fields.next(&mut self.buffer) else { break };
            let value = self.missings.value(field);
            match value {
                Value::Missing => {}
                Value::Integer(number) => tally.add_integer(number.into()),
                Value::Float(number) => tally.add(number),
                Value::Text if std::str::from_utf8(field).is_ok() => {}
                Value::Text => {
                    let message = format!("{} is not valid UTF-8; set encoding", shown(field));
                    let error = Error::new(ErrorKind::Data, message).at_column(&self.format.names[column]);
                    return Err((error, at));
                }
            }
            kind.observe(field, value);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<FieldSummary> {
        let roles = roles(self.format, &self.kinds);
        let fields = self.format.names.iter().zip(self.kinds.iter().zip(&self.tallies)).zip(roles);
        fields
            .map(|((name, (kind, tally)), role)| {
                let numbers = kind.is_number().then_some(tally);
                let typed = |figure: Figure| figure.typed(kind.is_integer());
                FieldSummary {
                    name: name.clone(),
                    role: role.to_owned(),
                    dtype: match kind {
                        kind if kind.is_integer() => "i64",
                        kind if kind.is_number() => "f32",
                        _ => "text",
                    }
                    .to_owned(),
                    shape: Vec::new(),
                    count: kind.count,
                    missing: kind.missing,
                    sum: numbers.and_then(Tally::sum).map(typed),
                    min: numbers.and_then(Tally::min).map(typed),
                    max: numbers.and_then(Tally::max).map(typed),
                    mean: numbers.and_then(Tally::mean),
                }
            })
            .collect()
    }
}

/// The role of each column if no fields are given.
fn roles(format: &Format, kinds: &[Kind]) -> Vec<&'static str> {
    let role = |kind: &Kind| if kind.is_number() { "feature" } else { "ignored" };
    let mut roles: Vec<_> = kinds.iter().map(role).collect();
    if let Some(label) = usual_label(format, &HashSet::new()) {
        roles[label] = "label";
    }
    roles
}
