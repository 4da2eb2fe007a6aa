//! Sequences among the formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::read::csv::Choice;
use crate::read::fields::{Field, faults_of_fields};
use crate::read::format::{
    Check, Checks, Details, Foretold, Format, InspectedRecord, Inspection, Open, Opened, format_has,
};
use crate::read::names::is_csv_name;
use crate::read::{CsvOptions, IgnoredFiles, Missing, RecordReader, SavedIndex};
use crate::schema::Role;
use crate::storage::{Access, Files};
use crate::tree::under;

use super::{CsvSequenceReader, SequenceOptions, SequenceRecord, SequenceSummary};

/// The format of sequences of CSV records: a folder with one file per sequence, or one file with `group_by`.
#[derive(Clone, Copy, Debug)]
pub struct CsvSequences;

fn open(
    path: &Path,
    fields: &[(String, Field)],
    options: &SequenceOptions,
    at: &Open<'_>,
) -> Result<CsvSequenceReader> {
    check_folder(path, options, at.files)?;
    match &options.group_by {
        None => CsvSequenceReader::open_folder_in(at.files, path, fields, options),
        Some(column) => CsvSequenceReader::open_grouped_in(at.files, path, column.clone(), fields, options, at.budget),
    }
}

/// Without groups, each file of a folder is a sequence.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a single file.
fn check_folder(path: &Path, options: &SequenceOptions, files: &Files) -> Result<()> {
    if options.group_by.is_some() || !(files.are_local() && path.is_file()) {
        return Ok(());
    }
    let message = "this is a single file, but each file of a folder is a sequence; name the folder, or say in the option \
                   `group_by` which column tells the sequences of this file apart";
    Err(Error::new(ErrorKind::Config, message).at_path(path))
}

impl Format for CsvSequences {
    const NAME: &'static str = "csv_sequences";
    type Options = SequenceOptions;

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn title(&self) -> Option<&'static str> {
        Some("folders of CSV files, each a sequence")
    }

    fn takes_whole(&self, _: &Files, _: &Path) -> bool {
        true
    }

    format_has!(reading_by_name);

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        head.is_none() && is_csv_name(&path.file_name().unwrap_or_default().to_string_lossy())
    }

    fn faults(&self, options: &SequenceOptions) -> Vec<String> {
        let csv = &options.csv;
        let unused = [("saved_index", csv.saved_index != SavedIndex::Off), ("threads", csv.threads.is_some())];
        let unused = unused.into_iter().filter(|(_, is_set)| *is_set);
        let faults =
            unused.map(|(name, _)| format!("{name}: sequences are found by reading all of their rows, without it"));
        under("csv", csv.faults().into_iter().chain(faults)).collect()
    }

    fn field_faults(&self, _: &SequenceOptions, fields: &[(String, Field)]) -> Vec<String> {
        faults_of_fields(fields, Choice::of_all)
    }

    fn access<'o>(&self, options: &'o mut SequenceOptions) -> Option<&'o mut Access> {
        Some(&mut options.csv.access)
    }

    fn paths<'o>(&self, options: &'o mut SequenceOptions) -> Vec<&'o mut PathBuf> {
        options.labels.iter_mut().collect()
    }

    fn open(&self, options: &SequenceOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        let reader: Arc<dyn RecordReader> = match &options.labels {
            None => Arc::new(open(at.path, at.fields, options, at)?),
            Some(path) => {
                let is_label = |(_, field): &(String, Field)| field.role_or_default() == Role::Label;
                let (labels, features): (Vec<_>, Vec<_>) = at.fields.iter().cloned().partition(is_label);
                let features = open(at.path, &features, options, at)?;
                let labels = open(path, &labels, options, at)?;
                Arc::new(CsvSequenceReader::aligned(features, labels, options.align, options.unpaired)?)
            }
        };
        Ok(Opened::Readers(vec![reader]))
    }

    fn foretell(&self, options: &SequenceOptions, at: &Open<'_>) -> Result<Foretold> {
        let path = at.path.display();
        if options.group_by.is_some() || options.labels.is_some() {
            return Ok(Foretold::unknown(None, format!("samples and tensors: found only by reading all of {path}")));
        }
        check_folder(at.path, options, at.files)?;
        Ok(Foretold {
            records: Some(CsvSequenceReader::count_in_folder(at.files, at.path)?),
            held_bytes: Some(0),
            ..Foretold::unknown(None, format!("tensors: found only by reading the files in {path}"))
        })
    }

    fn checks(&self, options: &SequenceOptions, at: &Open<'_>) -> Result<Checks> {
        let csv = CsvOptions { missing: Missing::Nan, ..options.csv.clone() };
        let options = SequenceOptions { csv, ..options.clone() };
        if let Some(column) = &options.group_by {
            let reader =
                CsvSequenceReader::open_grouped_in(at.files, at.path, column.clone(), at.fields, &options, at.budget)?;
            return Ok(Check::reader(reader, false).into());
        }
        let (reader, known) = CsvSequenceReader::open_readable(at.files, at.path, at.fields, &options)?;
        Ok(Check { known, ..Check::reader(reader, false) }.into())
    }

    fn inspect(&self, options: &SequenceOptions, at: &Open<'_>) -> Result<Inspection> {
        check_folder(at.path, options, at.files)?;
        let summary = SequenceSummary::of_in(at.files, at.path, options, at.budget)?;
        let inspected = |record: SequenceRecord| {
            Some(InspectedRecord::Sequence { path: record.path.to_string_lossy().into_owned(), steps: record.steps })
        };
        let ignored = IgnoredFiles::beside(at.files, at.path, |path| {
            is_csv_name(&path.file_name().unwrap_or_default().to_string_lossy()) && !at.files.is_folder(path)
        })?;
        Ok(Inspection {
            fields: summary.fields,
            first: inspected(summary.first),
            last: inspected(summary.last),
            details: Details::Table {
                header: summary.header,
                header_reason: summary.header_reason,
                delimiter: summary.delimiter,
                encoding: summary.encoding,
                steps: Some(summary.steps),
                ignored: Some(ignored.into()),
            },
            ..Inspection::new(at.path, Self::NAME, summary.records)
        })
    }
}
