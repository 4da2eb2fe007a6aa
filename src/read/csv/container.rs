//! The columns of a table as fields, for all codecs for which [`CsvReader`](super::CsvReader) has no faster way.

use std::path::Path;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::random::hash_texts;
use crate::read::container::{Container, FieldInfo, FieldKind, Visit};
use crate::read::value::Value;
use crate::read::{Fingerprint, Scratch, check_record};
use crate::storage::{Files, Needs};

use super::fields::Fields;
use super::format::Format;
use super::open::{Beginning, open_rows};
use super::options::{ColumnRef, CsvOptions};
use super::rows::Rows;
use super::value::Missings;
use crate::read::records::RecordBytes;

/// Records whose fields are texts, or missing.
pub(super) struct CsvTable {
    rows: Rows,
    format: Format,
    missings: Missings,
    fields: Vec<FieldInfo>,
    /// Which columns were requested.
    found: Vec<bool>,
    /// Which of them were requested as text: their numbers follow that of the last column.
    texts: Vec<bool>,
    stored_bytes: u64,
}

#[derive(Default)]
struct Worker {
    rows: RecordBytes,
    field: Vec<u8>,
}

impl CsvTable {
    pub(super) fn open(files: &Files, path: &Path, options: &CsvOptions, budget: &MemoryBudget) -> Result<Self> {
        let Beginning { text, format, missings } = Beginning::of(files, path, options, budget)?;
        let rows = open_rows(&text, &format, options, budget, None)?;
        let fields: Vec<FieldInfo> = format.names.iter().map(|name| FieldInfo::new(name, FieldKind::Text)).collect();
        let [found, texts] = [(); 2].map(|()| vec![false; fields.len()]);
        Ok(Self { rows, format, missings, fields, found, texts, stored_bytes: text.stored_bytes() })
    }
}

impl Container for CsvTable {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let column = self.format.column(field)?;
        self.found[column] = true;
        Ok(column)
    }

    fn find_text(&mut self, field: &ColumnRef) -> Result<usize> {
        let column = self.format.column(field)?;
        self.texts[column] = true;
        Ok(self.texts.len() + column)
    }

    fn forget(&mut self) {
        self.found.fill(false);
        self.texts.fill(false);
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.rows.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(records[nth], self.len()).map_err(|error| error.at_path(self.rows.input.path()))?;
        self.rows.fetch(records, nth, &mut scratch.of::<Worker>().rows)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let Worker { rows, field: buffer } = scratch.of();
        let bytes = rows.get(nth, self.rows.input.slice());
        let found = self.rows.dialect().record(bytes);
        let mut fields = Fields::new(&bytes[..found.len], found.quoted, self.rows.dialect());
        let mut read = || {
            for (column, (is_found, is_text)) in self.found.iter().zip(&self.texts).enumerate() {
                let is_wanted = *is_found || *is_text;
                let field = if is_wanted { fields.next(buffer) } else { fields.skip().then_some(&b""[..]) };
                let Some(field) = field else {
                    let message = format!("{column} fields; the first record has {}", self.found.len());
                    return Err(Error::new(ErrorKind::Data, message));
                };
                if *is_text {
                    visit(self.texts.len() + column, Value::Bytes(field))?;
                }
                if *is_found {
                    let is_missing = self.missings.contains(field.trim_ascii());
                    visit(column, if is_missing { Value::Missing } else { Value::Bytes(field) })?;
                }
            }
            if fields.skip() {
                let message = format!("more than {} fields, which the first record has", self.found.len());
                return Err(Error::new(ErrorKind::Data, message));
            }
            Ok(())
        };
        read().map_err(|error| self.rows.locate(error, record, self.rows.start(record)))
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
        Fingerprint { count: Some(self.len()), names: hash_texts(&self.format.names), sizes: self.stored_bytes }
    }
}
