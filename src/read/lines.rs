//! Random access to lines of text, for all line-based formats.

use std::fmt;
use std::path::Path;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::storage::{Access, Files, Needs};

use super::container::{Container, FieldInfo, FieldKind, Visit};
use super::csv::{Blanks, Rows, open_lines};
use super::format::{Format, Open, Opened, format_has};
use super::records::RecordBytes;
use super::value::Value;
use super::{CsvOptions, Fingerprint, SavedIndex, Scratch, check_record};

/// How a file of lines is read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineOptions {
    /// How the file is read. A compressed file, or one in another encoding, is always unpacked first.
    pub access: Access,
    /// The text's encoding, by any of its [names on the web](https://encoding.spec.whatwg.org/#names-and-labels).
    /// `None` is UTF-8.
    pub encoding: Option<String>,
    /// Where the positions of the lines are saved for the next run; see [`CsvOptions::saved_index`].
    pub saved_index: SavedIndex,
    /// Maximum length of a line in bytes.
    pub max_record_bytes: usize,
    /// Maximum number of bytes that a file may unpack to, if it is compressed or in another encoding.
    pub max_unpacked_bytes: u64,
    /// Number of threads that find the lines when a file is opened; `None`: one for each core.
    pub threads: Option<usize>,
    /// For lines of text: what an empty line is. Keep empty lines where the lines of several files belong together, such
    /// as sentences and their translations.
    pub blank_lines: BlankLines,
}

/// What an empty line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlankLines {
    /// No record.
    #[default]
    Skip,
    /// A record like others.
    Keep,
}

impl Default for LineOptions {
    fn default() -> Self {
        let CsvOptions { access, encoding, saved_index, max_record_bytes, max_unpacked_bytes, threads, .. } =
            CsvOptions::default();
        let blank_lines = BlankLines::Skip;
        Self { access, encoding, saved_index, max_record_bytes, max_unpacked_bytes, threads, blank_lines }
    }
}

/// The format of lines of text: each line is a record with the field `line`. It is never detected: name it in settings.
#[derive(Clone, Copy, Debug)]
pub struct TextLines;

impl Format for TextLines {
    const NAME: &'static str = "text";
    type Options = LineOptions;

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn title(&self) -> Option<&'static str> {
        None
    }

    format_has!(small_samples, access, saved_index);

    fn open(&self, options: &LineOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        Lines::open(at.files, at.path, options, at.budget)
    }
}

/// Makes a record's content from its line.
type Change = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// The lines of a file, plain or compressed, with one field, `line`. Empty lines are not records, unless
/// [`LineOptions::blank_lines`] keeps them. Opening finds all lines, with one thread per core; each takes about two bytes
/// of memory.
pub struct Lines {
    rows: Rows,
    /// Bytes of the file as it is stored, compressed or not.
    stored_bytes: u64,
    fields: [FieldInfo; 1],
    change: Option<Change>,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("stored_bytes", &self.stored_bytes).finish_non_exhaustive()
    }
}

/// The lines that a worker has read.
#[derive(Default)]
pub(crate) struct LineBytes(RecordBytes);

impl Lines {
    /// Finds the lines of the file that a format opens. `change` turns a line into the record's bytes.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn index(at: &Open<'_>, change: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Result<Self> {
        let lines = Self::open(at.files, at.path, &LineOptions::default(), at.budget)?;
        Ok(Self { change: Some(Box::new(change)), ..lines })
    }

    /// Finds the lines of the file at `path`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest path, [`ErrorKind::Limit`] for a line that is too long, and those of
    /// reading.
    pub fn open(files: &Files, path: &Path, options: &LineOptions, budget: &MemoryBudget) -> Result<Self> {
        let blanks = match options.blank_lines {
            BlankLines::Skip => Blanks::Content,
            BlankLines::Keep => Blanks::Record,
        };
        Self::open_those(files, path, options, (blanks, None), budget)
    }

    /// The same for lines with this meaning of blanks, without the lines that begin with this comment mark.
    pub(super) fn open_those(
        files: &Files,
        path: &Path,
        options: &LineOptions,
        (blanks, comment): (Blanks, Option<char>),
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let LineOptions { access, encoding, saved_index, max_record_bytes, max_unpacked_bytes, threads, .. } =
            options.clone();
        let csv = CsvOptions {
            access,
            encoding,
            saved_index,
            max_record_bytes,
            max_unpacked_bytes,
            threads,
            comment,
            ..CsvOptions::default()
        };
        let (rows, stored_bytes) = open_lines(files, path, &csv, blanks, budget)?;
        Ok(Self { rows, stored_bytes, fields: [FieldInfo::new("line", FieldKind::Text)], change: None })
    }

    /// Reads the lines of a job; see [`Container::fetch`].
    pub(crate) fn fetch_lines(&self, records: &[u64], nth: usize, LineBytes(rows): &mut LineBytes) -> Result<()> {
        check_record(records[nth], self.rows.len()).map_err(|error| error.at_path(self.rows.input.path()))?;
        self.rows.fetch(records, nth, rows)
    }

    /// The line that [`fetch_lines`](Self::fetch_lines) read as the job's `nth`, without its end.
    pub(crate) fn line<'a>(&'a self, nth: usize, LineBytes(rows): &'a LineBytes) -> &'a [u8] {
        let bytes = rows.get(nth, self.rows.input.slice());
        &bytes[..self.rows.dialect().record(bytes).len]
    }

    /// Where a record begins; for the number behind the last record, where the file ends.
    pub(crate) fn start(&self, record: u64) -> u64 {
        self.rows.start(record)
    }

    /// Adds path, record, line and byte to an error at byte `at` of a record.
    #[cold]
    pub(crate) fn locate(&self, error: Error, record: u64, at: u64) -> Error {
        self.rows.locate(error, record, self.rows.start(record).saturating_add(at))
    }
}

impl Container for Lines {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.rows.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.fetch_lines(records, nth, scratch.of())
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let line = self.line(nth, scratch.of());
        let changed = self.change.as_ref().map(|change| change(line));
        let line = changed.as_deref().unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(text) => visit(0, Value::Text(text)),
            Err(error) => {
                let error_at = error.valid_up_to() as u64;
                let message = format!("{:#04x}: the line is not UTF-8; set encoding", line[error.valid_up_to()]);
                let error = Error::new(ErrorKind::Data, message).at_column("line");
                // What was changed has no bytes in the file.
                let at = if changed.is_some() { 0 } else { error_at };
                Err(self.locate(error, record, at))
            }
        }
        .map_err(|error| self.locate(error, record, 0))
    }

    fn place(&self, record: u64) -> Location {
        Location {
            path: Some(self.rows.input.path().to_owned()),
            record: Some(record),
            byte: Some(self.rows.start(record)),
            ..Location::default()
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.len()), names: 0, sizes: self.stored_bytes }
    }
}
