use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::csv::{Figures, Missings, Text};
use crate::read::{FieldSummary, RecordReader};
use crate::storage::Files;
use crate::tree::no_faults;

use super::options::SequenceOptions;
use super::reader::CsvSequenceReader;
use super::source::{self, csv_files};

/// What `inspect` reports about a folder of CSV files with one sequence each, or about one file with several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SequenceSummary {
    /// The folder, or the file.
    pub path: PathBuf,
    /// Whether the first record of each file is its header.
    pub header: bool,
    /// The reason for this decision, from the first file.
    pub header_reason: String,
    /// The character that separates fields.
    pub delimiter: char,
    /// Name of the text's encoding.
    pub encoding: String,
    /// Number of sequences.
    pub records: u64,
    /// Steps of all sequences together.
    pub steps: u64,
    /// The columns, over all files. The shape is `[steps]`, 0 if the lengths differ.
    pub fields: Vec<FieldSummary>,
    /// The first sequence.
    pub first: SequenceRecord,
    /// The last one.
    pub last: SequenceRecord,
}

/// A file as a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SequenceRecord {
    /// The file.
    pub path: PathBuf,
    /// Number of its records.
    pub steps: u64,
}

impl SequenceSummary {
    /// Reads every file in the folder at `path` once, in bounded memory.
    ///
    /// # Errors
    ///
    /// Those of [`CsvSummary::of`](crate::inspect::CsvSummary::of) for each file, and
    /// [`ErrorKind::Data`](crate::ErrorKind::Data) if the header of a file differs from that of the first.
    pub fn of(path: impl AsRef<Path>, options: &SequenceOptions) -> Result<Self> {
        Self::of_in(&Files::local(), path.as_ref(), options, &MemoryBudget::unlimited())
    }

    /// Like [`of`](Self::of), for a folder of these files.
    pub(crate) fn of_in(files: &Files, path: &Path, options: &SequenceOptions, budget: &MemoryBudget) -> Result<Self> {
        let csv = &options.csv;
        no_faults(csv.faults())?;
        let paths = match options.group_by {
            Some(_) => vec![path.to_owned()],
            None => csv_files(files, path)?,
        };
        let opened = paths.iter().map(|path| Text::open_in(files, path, csv.encoding.as_deref()));
        let texts = opened.collect::<Result<Vec<_>>>()?;
        let missings = Missings::new(&csv.missing_tokens);
        let (first, format) = source::first_layout(&texts, csv, &missings).map_err(|error| error.at_path(path))?;
        let mut figures = Figures::new(&format, &missings);
        let mut sequences = Vec::with_capacity(texts.len());
        for text in &texts {
            let mut scan = format.records_alike(text.read()?, text.path(), csv)?;
            let steps = figures.observe_all(&mut scan, text.path(), |_, _| {})?;
            sequences.push(SequenceRecord { path: text.path().to_owned(), steps });
        }
        if let Some(column) = &options.group_by {
            // Whatever the other columns hold, this one can be read.
            let names = [("group".to_owned(), crate::read::fields::Text::new(1).cut().from(column.clone()))];
            let groups = CsvSequenceReader::open_grouped_in(files, path, column.clone(), &names, options, budget)?;
            let steps = (0..groups.len()).map(|group| groups.steps(group).into());
            sequences = steps.map(|steps| SequenceRecord { path: path.to_owned(), steps }).collect();
        }
        if sequences.is_empty() {
            let message = "the file has no records, so there are no sequences";
            return Err(Error::new(ErrorKind::NotFound, message).at_path(path));
        }
        let mut fields = figures.finish();
        let ends = (sequences[0].clone(), sequences[sequences.len() - 1].clone());
        let alike = sequences.iter().all(|sequence| sequence.steps == ends.0.steps);
        let length = if alike { ends.0.steps as usize } else { 0 };
        fields.iter_mut().for_each(|field| field.shape = vec![length]);
        Ok(Self {
            path: path.to_owned(),
            header: format.header,
            header_reason: format.header_reason.clone(),
            delimiter: format.dialect.delimiter.into(),
            encoding: first.encoding().to_owned(),
            records: sequences.len() as u64,
            steps: sequences.iter().map(|sequence| sequence.steps).sum(),
            fields,
            first: ends.0,
            last: ends.1,
        })
    }
}
