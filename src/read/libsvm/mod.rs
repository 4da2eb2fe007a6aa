//! Sparse rows as text, as LIBSVM and SVMlight write them.

mod parse;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::storage::{Access, Files, Needs};

use super::container::{Container, FieldInfo, FieldKind, Visit, find_field};
use super::csv::Blanks;
use super::format::{Format, Open, Opened, format_has};
use super::lines::{LineBytes, LineOptions, Lines};
use super::names::plain_name;
use super::paths::is_hidden;
use super::value::{List, Value};
use super::{ColumnRef, Fingerprint, SavedIndex, Scratch};

use parse::{Parsed, is_sparse, parse, uncommented};

/// How sparse rows of text are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LibsvmOptions {
    /// Number of features of a dense row: gives the field `features`, `[features]`, instead of `indices` and `values`.
    /// It must be set, because a file need not contain every feature.
    pub features: Option<usize>,
    /// Whether the file counts features from 0, and not from 1 as the format says. Otherwise index 0 is an error. It
    /// can't be detected, because a file that counts from 0 need not contain the first feature.
    pub zero_based: bool,
    /// Whether a row has a list of labels, separated by commas. Otherwise it has one label.
    pub multilabel: bool,
    /// How the file is read. A compressed file is always unpacked first.
    pub access: Access,
    /// The text's encoding, as for [`LineOptions`](super::lines::LineOptions). Default: UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Where the positions of the lines are saved for the next run.
    pub saved_index: SavedIndex,
    /// Maximum length of a line in bytes.
    pub max_record_bytes: usize,
    /// Maximum number of bytes that a compressed file may unpack to.
    pub max_unpacked_bytes: u64,
}

impl Default for LibsvmOptions {
    fn default() -> Self {
        let LineOptions { access, saved_index, max_record_bytes, max_unpacked_bytes, .. } = LineOptions::default();
        Self {
            features: None,
            zero_based: false,
            multilabel: false,
            access,
            encoding: None,
            saved_index,
            max_record_bytes,
            max_unpacked_bytes,
        }
    }
}

/// The format of sparse rows as text, recognised by its lines: a label, and pairs of an index and a value.
#[derive(Clone, Copy, Debug)]
pub struct Libsvm;

/// Number of lines that are looked at to recognise a text.
const LINES: usize = 100;

impl Format for Libsvm {
    const NAME: &'static str = "libsvm";
    type Options = LibsvmOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').take(LINES + 1).collect();
        // The last line may be cut off.
        lines.truncate(lines.len().saturating_sub(1).max(1));
        lines.retain(|line| !uncommented(line).trim_ascii().is_empty());
        let sparse = lines.iter().filter(|line| is_sparse(line)).count();
        sparse > 0 && 2 * sparse >= lines.len()
    }

    fn has_name(&self, name: &str) -> bool {
        [".svm", ".svmlight", ".libsvm"].iter().any(|ending| name.ends_with(ending))
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        let name = plain_name(path);
        head.is_none() && !is_hidden(&name) && Format::has_name(self, &name)
    }

    fn title(&self) -> Option<&'static str> {
        Some("libsvm (svmlight) files")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        None
    }

    format_has!(small_samples, access, saved_index);

    fn faults(&self, options: &LibsvmOptions) -> Vec<String> {
        let is_empty = options.features == Some(0);
        is_empty.then(|| "features: a row of 0 features".to_owned()).into_iter().collect()
    }

    fn open(&self, options: &LibsvmOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        SparseLines::open(at.files, at.path, options, at.budget)
    }
}

/// The kinds of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Label,
    Query,
    Features,
    Indices,
    Values,
}

impl Part {
    const ALL: [Self; 5] = [Self::Label, Self::Query, Self::Features, Self::Indices, Self::Values];

    fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Query => "qid",
            Self::Features => "features",
            Self::Indices => "indices",
            Self::Values => "values",
        }
    }
}

/// The rows of a libsvm (svmlight) file, plain or compressed: `LABEL [qid:ID] INDEX:VALUE ... [# COMMENT]` on each
/// line.
///
/// Fields: `label`, or with [`multilabel`](LibsvmOptions::multilabel) a list of labels; `qid`, if lines have one;
/// `indices` and `values` of the features of a line, as lists; with [`features`](LibsvmOptions::features) the dense row
/// `features` instead. If no fields are named, the lists are [ragged](crate::field::Numbers::ragged): `indices`,
/// `values` and `values_offsets` of a batch are a sparse matrix in compressed rows (CSR). If they are named as plain
/// numbers, they are padded, with masks. Indices are counted from 0, whatever the file counts from. Numbers are rounded
/// once, to the type of their tensor; `nan` and `inf` are not numbers. Indices must increase. Lines of blanks are
/// skipped.
///
/// ```
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::read::{Container, LibsvmOptions, SparseLines};
/// use ringfeed::storage::Files;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("a1a");
/// std::fs::write(&path, "-1 3:1 11:1\n+1 5:0.5\n")?;
/// let options = LibsvmOptions { features: Some(123), ..LibsvmOptions::default() };
/// let rows = SparseLines::open(&Files::local(), &path, &options, &MemoryBudget::unlimited())?;
/// assert_eq!((rows.len(), &*rows.fields()[1].shape), (2, &[123][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SparseLines {
    lines: Lines,
    /// The fields that are listed, followed by others that were asked for.
    fields: Vec<FieldInfo>,
    parts: Vec<Part>,
    listed: usize,
    dense: Option<usize>,
    multilabel: bool,
    /// The file's number of the first feature.
    base: i64,
}

/// What a worker keeps between records.
#[derive(Default)]
struct Worker {
    lines: LineBytes,
    parsed: Parsed,
}

/// Number of records that are looked at to see whether lines have queries.
const SAMPLE_RECORDS: u64 = 1000;

impl SparseLines {
    /// Finds the lines of the file at `path`, and reads the first ones.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest path, [`ErrorKind::Limit`] for a line that is too long, and those of
    /// reading.
    pub fn open(files: &Files, path: &Path, options: &LibsvmOptions, budget: &MemoryBudget) -> Result<Self> {
        let lines = LineOptions {
            access: options.access,
            encoding: options.encoding.clone(),
            saved_index: options.saved_index.clone(),
            max_record_bytes: options.max_record_bytes,
            max_unpacked_bytes: options.max_unpacked_bytes,
            ..LineOptions::default()
        };
        let lines = Lines::open_those(files, path, &lines, (Blanks::Nothing, Some('#')), budget)?;
        let mut rows = Self {
            lines,
            fields: Vec::new(),
            parts: Vec::new(),
            listed: 0,
            dense: options.features,
            multilabel: options.multilabel,
            base: i64::from(!options.zero_based),
        };
        let has_queries = rows.has_queries()?;
        for part in Part::ALL {
            let is_listed = match part {
                Part::Label => true,
                Part::Query => has_queries,
                Part::Features => options.features.is_some(),
                Part::Indices | Part::Values => options.features.is_none(),
            };
            if is_listed {
                rows.add(part);
            }
        }
        rows.listed = rows.fields.len();
        Ok(rows)
    }

    /// Whether one of the first lines has a query.
    fn has_queries(&self) -> Result<bool> {
        let ids: Vec<u64> = (0..self.lines.len().min(SAMPLE_RECORDS)).collect();
        let Worker { mut lines, mut parsed } = Worker::default();
        for nth in 0..ids.len() {
            self.lines.fetch_lines(&ids, nth, &mut lines)?;
            let line = std::str::from_utf8(uncommented(self.lines.line(nth, &lines))).unwrap_or_default();
            // What is wrong with a line is reported when it is read.
            if parse(line, self.multilabel, &mut parsed).is_ok() && parsed.query.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn add(&mut self, part: Part) {
        let (dtype, shape) = match part {
            Part::Label if self.multilabel => (DType::F64, vec![0]),
            Part::Label => (DType::F64, Vec::new()),
            Part::Query => (DType::I64, Vec::new()),
            Part::Features => (DType::F64, vec![self.dense.unwrap_or(0)]),
            Part::Indices => (DType::I64, vec![0]),
            Part::Values => (DType::F64, vec![0]),
        };
        let ragged = matches!(part, Part::Indices | Part::Values);
        let info = FieldInfo::new(part.name(), FieldKind::Numbers(dtype)).shape(&shape);
        self.fields.push(FieldInfo { ragged, ..info });
        self.parts.push(part);
    }

    fn visit_all(&self, line: &str, parsed: &Parsed, visit: &mut Visit<'_>) -> Result<(), (Error, usize)> {
        let Parsed { labels, query, indices, values } = parsed;
        for (number, part) in self.parts.iter().enumerate() {
            let given = match part {
                Part::Label if self.multilabel => visit(number, Value::List(&Decimals { line, ranges: labels })),
                Part::Label => {
                    labels.first().map_or(Ok(()), |label| visit(number, Value::Decimal(&line[label.clone()])))
                }
                Part::Query => query.map_or(Ok(()), |query| visit(number, Value::I64(query))),
                Part::Features => {
                    let row = Dense { line, indices, values, shape: [self.dense.unwrap_or(0) as u64] };
                    visit(number, Value::List(&row))
                }
                Part::Indices => visit(number, Value::Numbers(NumberSlice::I64(indices))),
                Part::Values => visit(number, Value::List(&Decimals { line, ranges: values })),
            };
            given.map_err(|error| (error.at_column(part.name()), 0))?;
        }
        Ok(())
    }

    /// Changes the indices of a line so that they begin with 0.
    fn rebase(&self, parsed: &mut Parsed) -> Result<(), (Error, usize)> {
        let wrong = |message: String, nth: usize, values: &[std::ops::Range<usize>]| {
            Err((Error::new(ErrorKind::Data, message), values[nth].start))
        };
        if parsed.indices.first().is_some_and(|first| *first < self.base) {
            let message =
                "index 0, where features are counted from 1; if the file counts from 0, set zero_based".to_owned();
            return wrong(message, 0, &parsed.values);
        }
        parsed.indices.iter_mut().for_each(|index| *index -= self.base);
        if let (Some(features), Some(last)) = (self.dense, parsed.indices.last())
            && usize::try_from(*last).is_ok_and(|last| last >= features)
        {
            let message = format!("index {}, where a row has {features} features", last + self.base);
            return wrong(message, parsed.indices.len() - 1, &parsed.values);
        }
        Ok(())
    }
}

impl Container for SparseLines {
    fn len(&self) -> u64 {
        self.lines.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        if let ColumnRef::Name(name) = field {
            let known = Part::ALL.into_iter().filter(|part| *part != Part::Features || self.dense.is_some());
            if let Some(part) = known.into_iter().find(|part| part.name() == name) {
                if !self.parts.contains(&part) {
                    self.add(part);
                }
            } else if name == Part::Features.name() {
                let message = "say how many features a row has: options = { features = ... }";
                return Err(Error::new(ErrorKind::Config, message).at_column(name));
            }
        }
        find_field(&self.fields, field)
    }

    fn forget(&mut self) {
        self.fields.truncate(self.listed);
        self.parts.truncate(self.listed);
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.lines.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.lines.fetch_lines(records, nth, &mut scratch.of::<Worker>().lines)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let Worker { lines, parsed } = scratch.of();
        let line = uncommented(self.lines.line(nth, lines));
        let line = std::str::from_utf8(line).map_err(|error| {
            let at = error.valid_up_to();
            let error = Error::new(ErrorKind::Data, format!("{:#04x}: the line is not UTF-8", line[at]));
            self.lines.locate(error, record, at as u64)
        })?;
        let read = parse(line, self.multilabel, parsed)
            .map_err(|fault| (Error::new(ErrorKind::Data, fault.message), fault.at))
            .and_then(|()| self.rebase(parsed))
            .and_then(|()| self.visit_all(line, parsed, visit));
        read.map_err(|(error, at)| self.lines.locate(error, record, at as u64))
    }

    fn place(&self, record: u64) -> Location {
        self.lines.place(record)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.lines.fingerprint()
    }
}

/// Numbers as they are written.
struct Decimals<'a> {
    line: &'a str,
    ranges: &'a [std::ops::Range<usize>],
}

impl List for Decimals<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        self.ranges.iter().try_for_each(|range| visit(Value::Decimal(&self.line[range.clone()])))
    }
}

/// A row with all of its features.
struct Dense<'a> {
    line: &'a str,
    indices: &'a [i64],
    values: &'a [std::ops::Range<usize>],
    /// How many features it has.
    shape: [u64; 1],
}

/// Number of zeros that are given at a time.
const ZEROS: [u8; 1024] = [0; 1024];

impl List for Dense<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        let zeros = |mut count: usize, visit: &mut dyn FnMut(Value<'_>) -> Result<()>| {
            while count > 0 {
                let some = count.min(ZEROS.len());
                visit(Value::Numbers(NumberSlice::U8(&ZEROS[..some])))?;
                count -= some;
            }
            Ok::<(), Error>(())
        };
        let mut at = 0;
        for (index, value) in self.indices.iter().zip(self.values) {
            let index = *index as usize;
            zeros(index - at, visit)?;
            visit(Value::Decimal(&self.line[value.clone()]))?;
            at = index + 1;
        }
        zeros(self.shape[0] as usize - at, visit)
    }

    fn shape(&self) -> Option<&[u64]> {
        Some(&self.shape)
    }
}
