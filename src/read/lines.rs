//! Lines of text, read at random: what line-based formats are made of.

use std::fmt;
use std::path::Path;

use crate::error::{Location, Result};
use crate::memory::MemoryBudget;
use crate::storage::{Access, Files, Needs};

use super::container::{Container, FieldInfo, FieldKind, Value, Visit};
use super::csv::{Rows, open_lines};
use super::format::{Format, Open, Opened, format_has};
use super::records::RecordBytes;
use super::{CsvOptions, Error, ErrorKind, Fingerprint, SavedIndex, Scratch, check_record};

/// How a file of lines is read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineOptions {
    /// How the file's bytes are reached. A compressed or transcoded file is always unpacked first.
    pub access: Access,
    /// The text's encoding, by any of its [names on the web](https://encoding.spec.whatwg.org/#names-and-labels). `None` is
    /// UTF-8.
    pub encoding: Option<String>,
    /// Where the places of the lines are kept for the next run; see [`CsvOptions::saved_index`].
    pub saved_index: SavedIndex,
    /// Longest line, in bytes.
    pub max_record_bytes: usize,
    /// Most bytes that a compressed or transcoded file may unpack to.
    pub max_unpacked_bytes: u64,
    /// Threads that find the lines when a file is opened; `None`: one for each core.
    pub threads: Option<usize>,
}

impl Default for LineOptions {
    fn default() -> Self {
        let CsvOptions { access, encoding, saved_index, max_record_bytes, max_unpacked_bytes, threads, .. } =
            CsvOptions::default();
        Self { access, encoding, saved_index, max_record_bytes, max_unpacked_bytes, threads }
    }
}

/// The format of text by the line: each line is a record with the field `line`. Only settings can say that a file is meant so.
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

/// Changes a line, which is given, into what its record is to be.
type Map = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// The lines of a file, plain or compressed, with the only field `line`. Blank lines are no records. Opening finds all of
/// them with a thread for each core; they take about two bytes of memory each.
pub struct Lines {
    rows: Rows,
    /// Of the file as it is stored, packed or not.
    stored_bytes: u64,
    fields: [FieldInfo; 1],
    map: Option<Map>,
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
    /// Finds the lines of the file at `path`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest path, [`ErrorKind::Limit`] for a line that is too long, and those of reading.
    pub fn index(files: &Files, path: &Path, budget: &MemoryBudget) -> Result<Self> {
        Self::open(files, path, &LineOptions::default(), budget)
    }

    /// As [`index`](Self::index), with options.
    ///
    /// # Errors
    ///
    /// As [`index`](Self::index).
    pub fn open(files: &Files, path: &Path, options: &LineOptions, budget: &MemoryBudget) -> Result<Self> {
        Self::open_commented(files, path, options, None, budget)
    }

    /// The same without the lines of which this mark is the first that is no blank, and without those of blanks alone.
    pub(super) fn open_commented(
        files: &Files,
        path: &Path,
        options: &LineOptions,
        comment: Option<char>,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let LineOptions { access, encoding, saved_index, max_record_bytes, max_unpacked_bytes, threads } =
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
        let (rows, stored_bytes) = open_lines(files, path, &csv, budget)?;
        Ok(Self { rows, stored_bytes, fields: [FieldInfo::new("line", FieldKind::Text)], map: None })
    }

    /// Records that are made of the lines by `map`.
    #[must_use]
    pub fn map(mut self, map: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        self.map = Some(Box::new(map));
        self
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

    /// Where a record begins; the end behind the last one.
    pub(crate) fn start(&self, record: u64) -> u64 {
        self.rows.start(record)
    }

    /// Adds path, record, line and byte to what is wrong at byte `at` of a record.
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
        let mapped = self.map.as_ref().map(|map| map(line));
        let line = mapped.as_deref().unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(text) => visit(0, Value::Text(text)),
            Err(error) => {
                let message = format!("{:#04x}: the line is not UTF-8; set encoding", line[error.valid_up_to()]);
                let error = Error::new(ErrorKind::Data, message).at_column("line");
                Err(self.locate(error, record, 0))
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
