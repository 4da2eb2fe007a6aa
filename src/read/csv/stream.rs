use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::random::hash_texts;
use crate::read::fields::Field;
use crate::read::{Fingerprint, Record, RecordDecoder, RecordStream, Sample, Scratch};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};
use crate::storage::Files;

use super::choice::Choice;
use super::columns::Plan;
use super::decode::Fault;
use super::fields::Fields;
use super::format::Format;
use super::open::Beginning;
use super::options::CsvOptions;
use super::scan::Scan;
use super::text::Text;

/// The records of a CSV file from beginning to end: plain, compressed or in another encoding, never unpacked as a
/// whole.
///
/// A record shares the memory of the window that it was read through; once all records of a window have been dropped,
/// the window is reused.
///
/// ```
/// use ringfeed::csv::{CsvOptions, CsvStream};
/// use ringfeed::read::{Record, RecordDecoder, RecordStream};
///
/// # fn main() -> ringfeed::Result<()> {
/// let (mut stream, decoder) = CsvStream::open("fixtures/iris.csv", &CsvOptions::default())?;
/// let mut record = Record::default();
/// assert!(stream.read(&mut record)?);
/// assert_eq!(&record.parts[0][..], b"5.1,3.5,1.4,0.2,0");
/// assert_eq!(decoder.tensors()[0].name, "features");
/// # Ok(())
/// # }
/// ```
pub struct CsvStream {
    text: Text,
    header: bool,
    names: u64,
    scan: Scan<Box<dyn Read + Send>>,
    index: u64,
}

impl fmt::Debug for CsvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvStream")
            .field("path", &self.text.path())
            .field("records_read", &self.index)
            .finish_non_exhaustive()
    }
}

/// The decoding half of a [`CsvStream`].
#[derive(Debug)]
pub struct CsvDecoder {
    path: PathBuf,
    plan: Plan,
}

impl CsvStream {
    /// Whether the file at `path` must be decompressed before it can be read at random.
    pub(crate) fn suits(files: &Files, path: &Path, options: &CsvOptions) -> Result<bool> {
        Ok(Text::open_in(files, path, options.encoding.as_deref())?.is_packed())
    }

    /// Opens the file at `path`, with its default tensors. If types or names must be inferred (see [`CsvOptions`]), the
    /// file is read once.
    ///
    /// # Errors
    ///
    /// Those of [`CsvReader::open`](crate::csv::CsvReader::open).
    pub fn open(path: impl AsRef<Path>, options: &CsvOptions) -> Result<(Self, CsvDecoder)> {
        Self::with_fields(path, &[], options)
    }

    /// As [`open`](Self::open), with the tensors of these fields.
    ///
    /// # Errors
    ///
    /// Those of [`CsvReader::with_fields`](crate::csv::CsvReader::with_fields).
    pub fn with_fields(
        path: impl AsRef<Path>,
        fields: &[(String, Field)],
        options: &CsvOptions,
    ) -> Result<(Self, CsvDecoder)> {
        Self::open_in(&Files::local(), path, fields, options, &MemoryBudget::unlimited())
    }

    /// As [`with_fields`](Self::with_fields), for a file of `files`; records that are read ahead count against
    /// `budget`.
    ///
    /// # Errors
    ///
    /// Also [`ErrorKind::Budget`](crate::ErrorKind::Budget), while reading.
    pub fn open_in(
        files: &Files,
        path: impl AsRef<Path>,
        fields: &[(String, Field)],
        options: &CsvOptions,
        budget: &MemoryBudget,
    ) -> Result<(Self, CsvDecoder)> {
        let path = path.as_ref();
        let choice = Choice::of_all(fields).map_err(|error| error.at_path(path))?;
        Self::of_choice(files, path, &choice, options, budget)
    }

    pub(super) fn of_choice(
        files: &Files,
        path: &Path,
        choice: &Choice,
        options: &CsvOptions,
        budget: &MemoryBudget,
    ) -> Result<(Self, CsvDecoder)> {
        let beginning = Beginning::of(files, path, options, budget)?;
        let mut inference = beginning.inference(choice, options)?;
        let Beginning { text, format, .. } = &beginning;
        if let Some(inference) = &mut inference {
            let mut scan = format.records(text.read()?, path, options)?;
            let mut record = 0;
            while let Some(span) = scan.next().map_err(|error| error.at_record(record))? {
                inference.observe(scan.bytes(&span), span.quoted, &format.dialect);
                record += 1;
            }
        }
        let plan = beginning.plan(choice, options, inference.as_ref())?;
        let mut scan = format.records(text.read()?, path, options)?;
        scan.count_against(budget.reserve(0, "records that are read ahead")?);
        let (header, names) = (format.header, hash_texts(&format.names));
        Ok((Self { text: beginning.text, header, names, scan, index: 0 }, CsvDecoder { path: path.to_owned(), plan }))
    }
}

/// Decodes each record only to its number of fields, without a schema. Bad records are those with another length than
/// the first, and those that are not UTF-8.
#[derive(Debug)]
pub(crate) struct CsvChecker {
    path: PathBuf,
    format: Format,
    tensors: [TensorSpec; 1],
}

impl CsvStream {
    /// The records and their checker. Only the beginning has been read.
    pub(crate) fn open_unchecked(files: &Files, path: &Path, options: &CsvOptions) -> Result<(Self, CsvChecker)> {
        let Beginning { text, format, .. } = Beginning::of(files, path, options, &MemoryBudget::unlimited())?;
        let scan = format.records(text.read()?, path, options)?;
        let stream = Self { text, header: format.header, names: hash_texts(&format.names), scan, index: 0 };
        let tensors = [TensorSpec::new("fields", Role::Feature, DType::U32, &[])];
        Ok((stream, CsvChecker { path: path.to_owned(), format, tensors }))
    }
}

impl RecordDecoder for CsvChecker {
    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, _: Sample, record: &Record, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let raw = record.parts.first().map_or(&[][..], |part| part);
        let dialect = &self.format.dialect;
        let bad = |message: String, at: usize| {
            let inside = memchr::memchr_iter(dialect.terminator, &raw[..at]).count() as u64;
            Err(Error::new(ErrorKind::Data, message).at_line(record.line + inside).at_byte(record.byte + at as u64))
        };
        let fields = Fields::new(raw, memchr::memchr(dialect.quote, raw).is_some(), dialect).count();
        let expected = self.format.names.len();
        if fields != expected {
            return bad(format!("expected {expected} fields, found {fields}"), 0);
        }
        if let Err(error) = std::str::from_utf8(raw) {
            return bad("not valid UTF-8; set encoding if the file has another one".to_owned(), error.valid_up_to());
        }
        row.tensor(0).as_mut_slice::<u32>()?.fill(fields as u32);
        Ok(())
    }

    fn place(&self, record: &Record) -> Location {
        place(&self.path, record)
    }
}

fn place(path: &Path, record: &Record) -> Location {
    Location {
        path: Some(path.to_owned()),
        record: Some(record.index),
        line: Some(record.line),
        byte: Some(record.byte),
        ..Location::default()
    }
}

impl RecordStream for CsvStream {
    fn read(&mut self, record: &mut Record) -> Result<bool> {
        record.parts.clear();
        let Some(span) = self.scan.next().map_err(|error| error.at_record(self.index))? else { return Ok(false) };
        record.index = self.index;
        record.line = span.line;
        record.byte = span.byte;
        record.parts.push(self.scan.take(span));
        self.index += 1;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<()> {
        self.scan.restart(self.text.read()?);
        self.index = 0;
        if self.header {
            self.scan.next()?;
        }
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: None, names: self.names, sizes: self.text.stored_bytes() }
    }
}

impl CsvDecoder {
    /// The names of all columns, used or not.
    pub fn columns(&self) -> &[String] {
        &self.plan.names
    }

    /// As [`CsvReader::classes`](crate::csv::CsvReader::classes).
    pub fn classes(&self) -> Option<&Arc<[String]>> {
        self.plan.classes()
    }
}

impl RecordDecoder for CsvDecoder {
    fn tensors(&self) -> &[TensorSpec] {
        &self.plan.tensors
    }

    fn decode(&self, _: Sample, record: &Record, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let raw = record.parts.first().map_or(&[][..], |part| part);
        let quoted = memchr::memchr(self.plan.dialect.quote, raw).is_some();
        let buffer = scratch.of::<Vec<u8>>();
        self.plan.decode(raw, quoted, buffer, row, |tensor| Some((tensor, 0))).map_err(|Fault { error, at }| {
            let inside = memchr::memchr_iter(self.plan.dialect.terminator, &raw[..at]).count() as u64;
            let error = error.at_path(&self.path).at_record(record.index);
            error.at_line(record.line + inside).at_byte(record.byte + at as u64)
        })
    }

    fn place(&self, record: &Record) -> Location {
        place(&self.path, record)
    }
}
