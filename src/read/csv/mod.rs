//! Comma-separated values (RFC 4180 and its many relatives), plain, compressed or in another encoding.
//!
//! Reading order: `options` and `choice` (what the user asks for), `text` (bytes to UTF-8), `dialect`, `scan` and
//! `fields` (text to records to fields), `format` (delimiter and header), `number`, `vectors`, `value`, `kind` and
//! `classes` (the meaning of a field, and of a column), `inference` (what is learnt about the columns), `columns`
//! (which column goes to which tensor), `decode` (a record to numbers). Then follow the sources: [`CsvReader`] here
//! with `open`, `chunks`, `ends`, `rows` and `lines`, [`CsvStream`] in `stream`, and `summary` for `inspect`.

mod cells;
mod choice;
mod chunks;
mod classes;
mod columns;
mod container;
mod decode;
mod dialect;
#[cfg_attr(not(feature = "encodings"), path = "utf_8.rs")]
mod encoding;
mod ends;
mod entry;
mod fields;
mod format;
mod inference;
mod kind;
mod line;
mod lines;
mod number;
pub(in crate::read) mod old;
mod open;
mod options;
mod rows;
mod scan;
mod stream;
mod summary;
mod text;
mod value;
mod vectors;
mod wanted;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::random::hash_texts;
use crate::row::{RowMut, RowsMut};
use crate::schema::TensorSpec;
use crate::storage::{Files, Needs};
use crate::tree::no_faults;
#[cfg(test)]
use crate::watchdog;

use super::fields::Field;
use super::parallel::{in_order, thread_count};
use super::records::RecordBytes;
use super::{Fingerprint, Job, RecordReader, Sample, Scratch, check_record};

pub(crate) use cells::csv_cells;
pub(crate) use choice::Choice;
pub(crate) use columns::Plan;
pub(crate) use decode::Fault;
pub(crate) use dialect::{Blanks, Dialect};
pub use entry::Csv;
pub(crate) use fields::Fields;
pub(crate) use format::{Format, looks_like_table};
pub(crate) use inference::Inference;
pub(super) use line::CsvLine;
pub(super) use number::{Decimal, few_digits, few_digits_value};
use open::open_rows;
pub(crate) use open::{Beginning, foretold_tensors, open_lines};
pub use options::{ColumnRef, CsvOptions, Header, Longer, Missing};
pub(crate) use rows::Rows;
pub use stream::{CsvDecoder, CsvStream};
pub use summary::CsvSummary;
pub(crate) use summary::Figures;
pub(crate) use text::Text;
pub(crate) use value::{
    BeforeHalf, FieldElement, FieldNumber, Missings, holds_integer, is_decimal, unfit_index, with_element,
};

/// Random access to the records of a CSV file.
///
/// Opening reads the file once, to find the beginning of each record (about two bytes of memory per record). It looks
/// at some of the records for the types of the columns, and reads the file once more if the names of classes must be
/// found ([`CsvOptions`] says when). It uses [`CsvOptions::threads`] threads of its own, which have ended when it
/// returns. A compressed file, or one in another encoding than UTF-8, is unpacked at that time, to memory or beyond 1
/// GiB to a temporary file. [`CsvStream`] reads such a file without unpacking it as a whole.
///
/// ```
/// use ringfeed::csv::{CsvOptions, CsvReader};
/// use ringfeed::field::{Class, Numbers};
/// use ringfeed::read::RecordReader;
///
/// # fn main() -> ringfeed::Result<()> {
/// let fields = [("sizes".to_owned(), Numbers::f32().from("*")), ("species".to_owned(), Class.from("virginica"))];
/// let reader = CsvReader::with_fields("fixtures/iris.csv", &fields, &CsvOptions::default())?;
/// assert_eq!(reader.len(), 150);
/// let names: Vec<&str> = reader.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
/// assert_eq!(names, ["sizes", "species"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CsvReader {
    rows: Rows,
    plan: Arc<Plan>,
    header: bool,
    /// Bytes of the file as it is stored, compressed or not.
    stored_bytes: u64,
}

/// What a worker keeps between records.
#[derive(Default)]
struct CsvScratch {
    rows: RecordBytes,
    field: Vec<u8>,
}

impl CsvReader {
    /// Opens the file at `path` and reads it once, with the default tensors; see [`CsvOptions`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest path or column,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) and [`ErrorKind::Schema`](crate::ErrorKind::Schema) if the
    /// fields contradict each other or the file, [`ErrorKind::Format`](crate::ErrorKind::Format) for a file without
    /// records or with a quote that is never closed, [`ErrorKind::Limit`](crate::ErrorKind::Limit) beyond a limit of
    /// the options.
    pub fn open(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Self> {
        Self::with_fields(path, &[], options)
    }

    /// Like [`open`](Self::open), with the tensors of these fields: numbers, classes, categories and text. Other fields
    /// need a [`Loader`](crate::Loader).
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_fields(path: impl AsRef<Path>, fields: &[(String, Field)], options: &CsvOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, fields, options, &MemoryBudget::unlimited())
    }

    /// Like [`with_fields`](Self::with_fields), for one of these files; the row index and an unpacked file count
    /// against `budget`. An index is saved only for local files. Without fields, the tensors are those of
    /// [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// Also [`ErrorKind::Budget`](crate::ErrorKind::Budget).
    pub fn open_in(
        files: &Files,
        path: impl AsRef<Path>,
        fields: &[(String, Field)],
        options: &CsvOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
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
    ) -> Result<Self> {
        let beginning = Beginning::of(files, path, options, budget)?;
        let mut inference = beginning.inference(choice, options)?;
        let Beginning { text, format, .. } = &beginning;
        let rows = open_rows(text, format, options, budget, inference.as_mut())?;
        let plan = Arc::new(beginning.plan(choice, options, inference.as_ref())?);
        Ok(Self { rows, plan, header: format.header, stored_bytes: text.stored_bytes() })
    }

    /// Opens files that are one data set, with the columns of the first file. Types are inferred from all files, and
    /// the names of classes and categories are those of all files.
    ///
    /// # Errors
    ///
    /// As [`open_in`](Self::open_in), and [`ErrorKind::Format`] for a file with other columns than the first.
    pub(super) fn open_all(
        files: &Files,
        paths: &[PathBuf],
        choice: &Choice,
        options: &CsvOptions,
        budget: &MemoryBudget,
    ) -> Result<Vec<Self>> {
        no_faults(options.faults())?;
        let threads = thread_count(options.threads);
        // If there are many files, each has one thread; if there are few, each has several.
        let of_file = CsvOptions { threads: Some((threads / paths.len().max(1)).max(1)), ..options.clone() };
        let mut opened: Vec<(Rows, Beginning, Vec<usize>)> = Vec::with_capacity(paths.len());
        let mut all: Option<Option<Inference>> = None;
        let open = |(): &mut (), nth: u64| {
            let beginning = Beginning::of(files, &paths[nth as usize], options, budget)?;
            let mut inference = beginning.inference(choice, options)?;
            let rows = open_rows(&beginning.text, &beginning.format, &of_file, budget, inference.as_mut())?;
            Ok((rows, beginning, inference))
        };
        in_order(threads, paths.len() as u64, open, |(rows, beginning, inference)| {
            let path = &paths[opened.len()];
            if let Some((_, first, _)) = opened.first()
                && first.format.names != beginning.format.names
            {
                return Err(other_columns(&first.format.names, &beginning.format.names, &paths[0]).at_path(path));
            }
            opened.push((rows, beginning, inference.as_ref().map_or_else(Vec::new, Inference::named)));
            match (&mut all, inference) {
                (None, inference) => all = Some(inference),
                (Some(Some(all)), Some(inference)) => all.add(inference),
                _ => {}
            }
            Ok(())
        })?;
        let mut inference = all.flatten();
        if let Some(inference) = &mut inference {
            for ((rows, beginning, named), path) in opened.iter().zip(paths) {
                let added = inference.add_names(rows, named, &beginning.format, threads);
                added.map_err(|error| error.at_path(path))?;
            }
        }
        let mut plan: Option<(Dialect, Arc<Plan>)> = None;
        let mut readers = Vec::with_capacity(paths.len());
        for (rows, beginning, _) in opened {
            let Beginning { text, format, .. } = &beginning;
            let own = match &plan {
                // Usually all files have the same layout.
                Some((dialect, plan)) if *dialect == format.dialect => plan.clone(),
                _ => Arc::new(beginning.plan(choice, options, inference.as_ref())?),
            };
            plan.get_or_insert_with(|| (format.dialect, own.clone()));
            readers.push(Self { rows, plan: own, header: format.header, stored_bytes: text.stored_bytes() });
        }
        Ok(readers)
    }

    #[inline]
    fn decode_row(&self, id: u64, nth: usize, scratch: &mut CsvScratch, row: &mut RowMut<'_>) -> Result<()> {
        let bytes = scratch.rows.get(nth, self.rows.input.slice());
        let found = self.plan.dialect.record(bytes);
        self.plan
            .decode(&bytes[..found.len], found.quoted, &mut scratch.field, row, |tensor| Some((tensor, 0)))
            .map_err(|Fault { error, at }| self.rows.locate(error, id, self.rows.start(id) + at as u64))
    }

    /// The names of all columns, used or not.
    pub fn columns(&self) -> &[String] {
        &self.plan.names
    }

    /// Whether the first record is the header.
    pub fn has_header(&self) -> bool {
        self.header
    }

    /// The names of each column of a tensor of [categories](crate::field::Category), given or found, as the field takes
    /// them for another file. `None` if there is no such tensor.
    pub fn categories(&self, tensor: &str) -> Option<Vec<Vec<String>>> {
        self.plan.categories(tensor)
    }

    /// The class names of the label in index order, given or found: those of [`Class::of`](crate::field::Class::of) for
    /// another file.
    pub fn classes(&self) -> Option<&Arc<[String]>> {
        self.plan.classes()
    }
}

#[cold]
fn other_columns(first: &[String], own: &[String], path: &Path) -> Error {
    let what = match first.iter().zip(own).find(|(first, own)| first != own) {
        Some((first, own)) => format!("a column is called {own:?}, but {first:?}"),
        None => format!("there are {} columns, but {}", own.len(), first.len()),
    };
    let message = format!("{what} in {}; files that are read as one have the same columns", path.display());
    Error::new(ErrorKind::Schema, message)
}

impl RecordReader for CsvReader {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.plan.tensors
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.rows.need(samples, needs);
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(samples[nth], self.len()).map_err(|error| error.at_path(self.rows.input.path()))?;
        self.rows.fetch(samples, nth, &mut scratch.of::<CsvScratch>().rows)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.decode_row(sample.id, nth, scratch.of(), row)
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        let scratch = scratch.of();
        while let Some(nth) = job.advance() {
            job.report(self.decode_row(job.samples()[nth], nth, scratch, &mut rows.row(nth)));
        }
    }

    fn is_random(&self) -> bool {
        false
    }

    fn place(&self, sample: u64) -> Location {
        Location {
            path: Some(self.rows.input.path().to_owned()),
            record: Some(sample),
            byte: Some(self.rows.start(sample)),
            ..Location::default()
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        // Like the fingerprint of a `CsvStream`, except for the count, which a stream can't know.
        Fingerprint { count: Some(self.len()), names: hash_texts(&self.plan.names), sizes: self.stored_bytes }
    }
}
