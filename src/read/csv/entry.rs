//! CSV among the formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::read::fields::{Field, faults_of_fields};
use crate::read::foreign::has_utf_16_mark;
use crate::read::format::{
    Check, Checks, Details, Foretold, Format, InspectedRecord, Inspection, Open, Opened, Streamed, format_has,
    open_parts,
};
use crate::read::names::{HEAD_BYTES, is_csv_name};
use crate::read::{Concat, Container, Missing, RecordDecoder, RecordReader, named_geometries};

use super::container::CsvTable;
use super::{Choice, CsvOptions, CsvReader, CsvStream, CsvSummary, foretold_tensors, looks_like_table};

/// The format of CSV and TSV files, plain or compressed.
#[derive(Clone, Copy, Debug)]
pub struct Csv;

/// The columns as values.
fn values(options: &CsvOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Opened> {
    open_parts(&|at| CsvTable::open(at.files, at.path, options, at.budget).map(Opened::from), paths, at)
}

impl Format for Csv {
    const NAME: &'static str = "csv";
    type Options = CsvOptions;

    fn sniff(&self, head: &[u8], path: &Path) -> bool {
        has_utf_16_mark(head) || looks_like_table(path, head, (head.len() as u64) < HEAD_BYTES)
    }

    fn has_name(&self, name: &str) -> bool {
        is_csv_name(name)
    }

    fn title(&self) -> Option<&'static str> {
        Some("CSV and TSV files (plain, .gz, .zst or .bz2)")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        None
    }

    fn infers_types(&self) -> bool {
        true
    }

    format_has!(small_samples, access, saved_index, one_of_many);

    fn faults(&self, options: &CsvOptions) -> Vec<String> {
        options.faults()
    }

    fn field_faults(&self, _: &CsvOptions, fields: &[(String, Field)]) -> Vec<String> {
        faults_of_fields(fields, Choice::split)
    }

    fn open_many(&self, options: &CsvOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        let open = |choice: &Choice| -> Result<Arc<dyn RecordReader>> {
            if let [path] = paths {
                return Ok(Arc::new(CsvReader::of_choice(at.files, path, choice, options, at.budget)?));
            }
            let readers = CsvReader::open_all(at.files, paths, choice, options, at.budget)?;
            let readers = readers.into_iter().map(|reader| Arc::new(reader) as Arc<dyn RecordReader>).collect();
            Ok(Arc::new(Concat::of_files(readers, paths)?))
        };
        if at.fields.is_empty() {
            return Ok(Opened::Reader(open(&Choice::default())?));
        }
        let fields = named_geometries(at.fields).map_err(|error| error.at_path(at.path))?;
        let (own, others) = Choice::split(&fields).map_err(|error| error.at_path(at.path))?;
        let mut readers: Vec<Arc<dyn RecordReader>> = Vec::new();
        if others.len() < fields.len() {
            readers.push(open(&own)?);
        }
        if !others.is_empty() {
            let at = Open { fields: &others, ..*at };
            readers.extend(values(options, paths, &at)?.readers(&at)?);
        }
        Ok(Opened::Readers(readers))
    }

    fn open_values(&self, options: &CsvOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        values(options, paths, at)?.into_values()
    }

    fn stream(&self, options: &CsvOptions, at: &Open<'_>, always: bool) -> Result<Option<Streamed>> {
        let (own, others) = Choice::split(at.fields).map_err(|error| error.at_path(at.path))?;
        if !others.is_empty() || !(always || CsvStream::suits(at.files, at.path, options)?) {
            return Ok(None);
        }
        let (stream, decoder) = CsvStream::of_choice(at.files, at.path, &own, options, at.budget)?;
        Ok(Some(Streamed { stream: Box::new(stream), decoder: Box::new(decoder) as Box<dyn RecordDecoder> }))
    }

    fn foretell(&self, options: &CsvOptions, at: &Open<'_>) -> Result<Foretold> {
        let (own, others) = Choice::split(at.fields).map_err(|error| error.at_path(at.path))?;
        if !others.is_empty() || !CsvStream::suits(at.files, at.path, options)? {
            return Foretold::of_opened(self.open(options, at)?.into(), at);
        }
        let tensors = foretold_tensors(at.files, at.path, &own, options)?;
        let what = if tensors.is_some() { "samples" } else { "samples and tensors" };
        Ok(Foretold::unknown(tensors, format!("{what}: found only by unpacking all of {}", at.path.display())))
    }

    /// Without a schema, no field is bad by itself: text in a column of numbers makes it a column of text.
    fn checks(&self, options: &CsvOptions, at: &Open<'_>) -> Result<Checks> {
        let options = CsvOptions { missing: Missing::Nan, ..options.clone() };
        let (stream, checker) = CsvStream::open_unchecked(at.files, at.path, &options)?;
        Ok(Check::stream(Streamed { stream: Box::new(stream), decoder: Box::new(checker) }).into())
    }

    fn inspect(&self, options: &CsvOptions, at: &Open<'_>) -> Result<Inspection> {
        self.inspect_many(options, &[at.path.to_owned()], at)
    }

    fn inspect_many(&self, options: &CsvOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Inspection> {
        let CsvSummary { header, header_reason, delimiter, encoding, records, fields, first, last, .. } =
            CsvSummary::of_files(at.files, paths, options)?;
        Ok(Inspection {
            fields,
            first: first.map(InspectedRecord::Columns),
            last: last.map(InspectedRecord::Columns),
            details: Details::Table { header, header_reason, delimiter, encoding, steps: None, ignored: None },
            ..Inspection::new(at.path, Self::NAME, records)
        })
    }
}
