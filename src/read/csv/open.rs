//! Finding the rows of a file and the kinds of its columns when it is opened: by reading it, or from what an earlier
//! run saved.

use std::path::Path;

use crate::error::{Error, Result};
use crate::memory::MemoryBudget;
use crate::read::parallel::thread_count;
use crate::read::records::RecordIndex;
use crate::read::saved::Kept;
use crate::schema::TensorSpec;
use crate::storage::{Files, Input};
use crate::tree::no_faults;

use super::choice::Choice;
use super::chunks::find_records;
use super::columns::Plan;
use super::dialect::{Blanks, Dialect};
use super::format::Format;
use super::inference::{Inference, Learnt};
use super::options::CsvOptions;
use super::rows::Rows;
use super::text::{InputReader, Text};
use super::value::Missings;

/// What the beginning of a file tells: the layout of its text and its records.
pub(crate) struct Beginning {
    pub(crate) text: Text,
    pub(crate) format: Format,
    pub(crate) missings: Missings,
}

impl Beginning {
    /// Looks at the file at `path`; unpacking it counts against `budget`.
    ///
    /// # Errors
    ///
    /// As [`CsvReader::open`](crate::csv::CsvReader::open), as far as it can be told.
    pub(crate) fn of(files: &Files, path: &Path, options: &CsvOptions, budget: &MemoryBudget) -> Result<Self> {
        no_faults(options.faults())?;
        let text = Text::open_in(files, path, options.encoding.as_deref())?.within(budget);
        let missings = Missings::new(&options.missing_tokens);
        let format = Format::detect(path, || text.read(), options, &missings)?;
        Ok(Self { text, format, missings })
    }

    /// What must be learnt about the columns; `None` if the choice leaves nothing open.
    pub(super) fn inference(&self, choice: &Choice, options: &CsvOptions) -> Result<Option<Inference>> {
        let inference = Plan::begin(&self.format, choice, options, &self.missings);
        inference.map_err(|error| error.at_path(self.text.path()))
    }

    /// What the columns become, given what was learnt about them.
    pub(super) fn plan(&self, choice: &Choice, options: &CsvOptions, learnt: Option<&Inference>) -> Result<Plan> {
        let plan = Plan::new(&self.format, choice, options, &self.missings, learnt);
        plan.map_err(|error| error.at_path(self.text.path()))
    }
}

/// Opens the file for random access, and completes `inference`.
pub(super) fn open_rows(
    text: &Text,
    format: &Format,
    options: &CsvOptions,
    budget: &MemoryBudget,
    inference: Option<&mut Inference>,
) -> Result<Rows> {
    let at_path = |error: Error| error.at_path(text.path());
    // This is read before the file is: whatever is written to the file meanwhile makes the index a stale one.
    let kept = KeptIndex::of(text, format, options)?;
    let input = text.input(options, budget)?;
    let threads = thread_count(options.threads);
    let found = match &kept {
        Some(kept) => kept.load(input.len(), budget).map_err(at_path)?,
        None => None,
    };
    let mut changed = found.is_none();
    let (index, known) = match found {
        Some(found) => found,
        None => {
            let index = find_records(&input, &format.dialect, options.max_record_bytes, format.header, threads, budget);
            (index.map_or_else(|| read_through(&input, text, format, options, budget), Ok)?, None)
        }
    };
    let rows = Rows::new(input, index, format.dialect, options.max_record_bytes, budget);
    let mut learnt = known.clone();
    if let Some(inference) = inference
        && inference.learn(&rows, format, options, threads, known)?
    {
        (changed, learnt) = (true, Some(inference.learnt(options)));
    }
    if let (Some(kept), true) = (kept, changed) {
        kept.save(text, rows.index(), learnt.as_ref())?;
    }
    Ok(rows)
}

/// The lines of a file, without empty ones, as records. Only the `options` that say how a file is read are used.
///
/// # Errors
///
/// As [`CsvReader::open`](crate::csv::CsvReader::open).
pub(crate) fn open_lines(
    files: &Files,
    path: &Path,
    options: &CsvOptions,
    blanks: Blanks,
    budget: &MemoryBudget,
) -> Result<(Rows, u64)> {
    let text = Text::open_in(files, path, options.encoding.as_deref())?.within(budget);
    let format = Format {
        dialect: Dialect {
            delimiter: b'\n',
            quote: b'"',
            has_quotes: false,
            comment: options.comment.and_then(|mark| u8::try_from(mark).ok()),
            blanks,
            terminator: b'\n',
        },
        header: false,
        header_reason: String::new(),
        names: Vec::new(),
        no_names: Vec::new(),
        text: None,
    };
    let rows = open_rows(&text, &format, options, budget, None)?;
    Ok((rows, text.stored_bytes()))
}

/// Reads the rows from front to back, which tells exactly where something is wrong.
fn read_through(
    input: &Input,
    text: &Text,
    format: &Format,
    options: &CsvOptions,
    budget: &MemoryBudget,
) -> Result<RecordIndex> {
    let mut index = RecordIndex::new(budget)?;
    let mut scan = format.records(InputReader::new(input), text.path(), options)?;
    while let Some(span) = scan.next().map_err(|error| error.at_record(index.len() as u64))? {
        index.push(span.byte).map_err(|error| error.at_path(text.path()))?;
    }
    index.finish(input.len());
    Ok(index)
}

/// What an earlier run may have kept about a file.
struct KeptIndex(Kept);

impl KeptIndex {
    /// `None` if the options keep no index.
    fn of(text: &Text, format: &Format, options: &CsvOptions) -> Result<Option<Self>> {
        if !text.is_local() {
            return Ok(None);
        }
        let layout = (format.dialect, format.header, options.max_record_bytes, text.encoding(), &format.names);
        let kept = Kept::of(&options.saved_index, text.path(), "csv rows 3", format!("{layout:?}").as_bytes())?;
        Ok(kept.map(Self))
    }

    /// The index of a text of `end` bytes, and what was learnt of its columns.
    fn load(&self, end: u64, budget: &MemoryBudget) -> Result<Option<(RecordIndex, Option<Learnt>)>> {
        let Some(contents) = self.0.load() else { return Ok(None) };
        let index = RecordIndex::from_bytes(&contents, end, budget)?;
        Ok(index.map(|(index, rest)| (index, serde_json::from_slice(rest).ok())))
    }

    fn save(&self, text: &Text, index: &RecordIndex, learnt: Option<&Learnt>) -> Result<()> {
        let mut contents = index.to_bytes();
        if let Some(learnt) = learnt {
            serde_json::to_writer(&mut contents, learnt).map_err(|error| Error::io(text.path(), error.into()))?;
        }
        self.0.save(&contents)
    }
}

/// The tensors of one of these files, if the choice describes them. Only the beginning of the file is read.
///
/// # Errors
///
/// As [`CsvReader::open`](crate::csv::CsvReader::open), as far as it can be told.
pub(crate) fn foretold_tensors(
    files: &Files,
    path: &Path,
    choice: &Choice,
    options: &CsvOptions,
) -> Result<Option<Vec<TensorSpec>>> {
    let beginning = Beginning::of(files, path, options, &MemoryBudget::unlimited())?;
    if beginning.inference(choice, options)?.is_some() {
        return Ok(None);
    }
    beginning.plan(choice, options, None).map(|plan| Some(plan.tensors))
}
