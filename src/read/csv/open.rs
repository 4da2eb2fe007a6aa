//! Finding the rows of a file and the kinds of its columns when it is opened: by reading it, or from what an earlier run
//! kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::memory::MemoryBudget;
use crate::random::{hash_numbers, hash_texts};
use crate::read::parallel::thread_count;
use crate::read::saved::{self, Guard};
use crate::schema::TensorSpec;
use crate::storage::Input;

use super::chunks::find_records;
use super::columns::{Inference, Plan, needs_inference};
use super::format::Format;
use super::index::RowIndex;
use super::kind::Kind;
use super::options::CsvOptions;
use super::rows::Rows;
use super::text::{InputReader, Text};
use super::value::Missings;

/// Opens the file for reading at random; `inference` is brought to know all of it.
pub(super) fn open_rows(
    text: &Text,
    format: &Format,
    options: &CsvOptions,
    budget: &MemoryBudget,
    inference: Option<&mut Inference>,
) -> Result<Rows> {
    let at_path = |error: Error| error.at_path(text.path());
    // Looked at before the file is read: what is written to it meanwhile makes the index a stale one.
    let kept = KeptIndex::of(text, format, options)?;
    let input = text.input(options, budget)?;
    let threads = thread_count(options.threads);
    let found = match &kept {
        Some(kept) => kept.load(input.len(), budget).map_err(at_path)?,
        None => None,
    };
    let mut changed = found.is_none();
    let (index, kinds) = match found {
        Some((index, kinds)) => (index, kinds),
        None => {
            let index = find_records(&input, &format.dialect, options.max_record_bytes, format.header, threads, budget);
            (index.map_or_else(|| read_through(&input, text, format, options, budget), Ok)?, None)
        }
    };
    let rows = Rows::new(input, index, format.dialect, options.max_record_bytes);
    let mut learnt = kinds.clone();
    if let Some(inference) = inference {
        let key = inference.key(options);
        match kinds.filter(|kinds| kinds.fit(inference, key)) {
            Some(kinds) => inference.kinds = kinds.kinds,
            None => {
                rows.observe(inference, threads)?;
                changed = true;
                learnt = Some(Kinds { key, kinds: inference.kinds.clone() });
            }
        }
    }
    if let (Some(kept), true) = (kept, changed) {
        kept.save(rows.index(), learnt.as_ref())?;
    }
    Ok(rows)
}

/// The rows from front to back: where something is wrong with one, it is told exactly.
fn read_through(
    input: &Input,
    text: &Text,
    format: &Format,
    options: &CsvOptions,
    budget: &MemoryBudget,
) -> Result<RowIndex> {
    let mut index = RowIndex::new(budget)?;
    let mut scan = format.records(InputReader::new(input), text.path(), options)?;
    while let Some(span) = scan.next().map_err(|error| error.at_record(index.len() as u64))? {
        index.push(span.byte).map_err(|error| error.at_path(text.path()))?;
    }
    index.finish(input.len());
    Ok(index)
}

/// A file that was written less than this before it is read may be written again without another modification time:
/// file systems count these in steps of milliseconds.
const UNSETTLED: Duration = Duration::from_secs(1);

/// What an earlier run may have kept about a file.
pub(super) struct KeptIndex {
    path: PathBuf,
    guard: Guard,
    /// Whether the file's modification time tells it from what may be written to it from now on.
    settled: bool,
}

/// The kinds of all columns, under the options that they depend on.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kinds {
    pub(super) key: u64,
    pub(super) kinds: Vec<Kind>,
}

impl KeptIndex {
    /// `None` if the options keep none.
    pub(super) fn of(text: &Text, format: &Format, options: &CsvOptions) -> Result<Option<Self>> {
        let saved = options.saved_index.path(text.path()).filter(|_| text.is_local());
        let Some(path) = saved else { return Ok(None) };
        let metadata = fs::metadata(text.path()).map_err(|error| Error::io(text.path(), error))?;
        let layout = (format.dialect, format.header, options.max_record_bytes, text.encoding(), &format.names);
        let guard = Guard::new("csv rows 1").and_metadata(&metadata).and(format!("{layout:?}").as_bytes());
        let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
        Ok(Some(Self { path, guard, settled: age.is_some_and(|age| age >= UNSETTLED) }))
    }

    /// The index of a text of `end` bytes, and the kinds that were kept with it.
    pub(super) fn load(&self, end: u64, budget: &MemoryBudget) -> Result<Option<(RowIndex, Option<Kinds>)>> {
        let Some(contents) = saved::load(&self.path, self.guard) else { return Ok(None) };
        let index = RowIndex::from_bytes(&contents, end, budget)?;
        Ok(index.map(|(index, rest)| (index, serde_json::from_slice(rest).ok())))
    }

    fn save(&self, index: &RowIndex, kinds: Option<&Kinds>) -> Result<()> {
        if !self.settled {
            tracing::debug!(path = %self.path.display(), "the file has just been written; its index is saved next time");
            return Ok(());
        }
        let mut contents = index.to_bytes();
        if let Some(kinds) = kinds {
            serde_json::to_writer(&mut contents, kinds).map_err(|error| Error::io(&self.path, error.into()))?;
        }
        saved::save(&self.path, self.guard, &contents)
    }
}

impl Kinds {
    fn fit(&self, inference: &Inference, key: u64) -> bool {
        self.key == key && self.kinds.len() == inference.kinds.len()
    }
}

impl Inference {
    /// What the kinds depend on beside the file.
    pub(super) fn key(&self, options: &CsvOptions) -> u64 {
        let collected = self.kinds.iter().map(|kind| kind.collects().into());
        hash_numbers(std::iter::once(hash_texts(&options.missing_tokens)).chain(collected))
    }
}

/// What can be told of a file without reading it through.
pub(crate) struct Foretold {
    /// The number of records, and the bytes of memory that their index takes: if an earlier run kept that.
    pub(crate) records: Option<(u64, u64)>,
    /// If the options describe them, or an earlier run kept what they depend on.
    pub(crate) tensors: Option<Vec<TensorSpec>>,
}

impl Foretold {
    /// From the beginning of the file at `path`, its options, and its saved index.
    ///
    /// # Errors
    ///
    /// As [`CsvReader::open`](crate::CsvReader::open), as far as it can be told.
    pub(crate) fn of(path: &Path, options: &CsvOptions) -> Result<Self> {
        let at_path = |error: Error| error.at_path(path);
        options.validate()?;
        let text = Text::open(path, options.encoding.as_deref())?;
        let missings = Missings::new(&options.missing_tokens);
        let format = Format::detect(path, || text.read(), options, &missings)?;
        // How long a packed file is, unpacked, is not known.
        let kept = KeptIndex::of(&text, &format, options)?.filter(|_| !text.is_packed());
        let kept = kept.map(|kept| kept.load(text.stored_bytes(), &MemoryBudget::unlimited())).transpose()?.flatten();
        let (records, kinds) = match kept {
            Some((index, kinds)) => (Some((index.len() as u64, index.held_bytes())), kinds),
            None => (None, None),
        };
        let mut inference = None;
        if needs_inference(&format, options).map_err(at_path)? {
            let mut open = Inference::new(&format, options, &missings).map_err(at_path)?;
            let key = open.key(options);
            let Some(kinds) = kinds.filter(|kinds| kinds.fit(&open, key)) else {
                return Ok(Self { records, tensors: None });
            };
            open.kinds = kinds.kinds;
            inference = Some(open);
        }
        let plan = Plan::new(&format, options, &missings, inference.as_ref()).map_err(at_path)?;
        Ok(Self { records, tensors: Some(plan.tensors) })
    }
}
