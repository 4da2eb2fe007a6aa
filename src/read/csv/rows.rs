use std::ops::Deref;

use crate::error::{Error, Result};
use crate::memory::MemoryBudget;
use crate::read::records::{RecordIndex, Records};
use crate::storage::Input;

use super::dialect::Dialect;
use super::format::Format;
use super::lines::Lines;
use super::options::CsvOptions;
use super::scan::Span;
use super::text::{InputReader, Text};

/// The records of one file of text.
#[derive(Debug)]
pub(crate) struct Rows {
    records: Records,
    dialect: Dialect,
    lines: Lines,
}

impl Deref for Rows {
    type Target = Records;

    fn deref(&self) -> &Records {
        &self.records
    }
}

impl Rows {
    /// Reads the file once, shows each record to `observe`, and remembers where it begins.
    pub(crate) fn open(
        text: &Text,
        format: &Format,
        options: &CsvOptions,
        budget: &MemoryBudget,
        mut observe: impl FnMut(&[u8], &Span) -> Result<()>,
    ) -> Result<Self> {
        let input = text.input(options, budget)?;
        let mut index = RecordIndex::new(budget)?;
        let mut scan = format.records(InputReader::new(&input), text.path(), options)?;
        while let Some(span) = scan.next()? {
            observe(scan.bytes(&span), &span)?;
            index.push(span.byte).map_err(|error| error.at_path(text.path()))?;
        }
        index.finish(input.len());
        Ok(Self::new(input, index, format.dialect, options.max_record_bytes, budget))
    }

    pub(crate) fn new(input: Input, index: RecordIndex, dialect: Dialect, limit: usize, budget: &MemoryBudget) -> Self {
        Self { records: Records::new(input, index, limit), dialect, lines: Lines::new(budget) }
    }

    pub(crate) fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Adds path, record, line and byte to an error at `byte`.
    #[cold]
    pub(crate) fn locate(&self, error: Error, record: u64, byte: u64) -> Error {
        let error = error.at_path(self.input.path()).at_record(record).at_byte(byte);
        match self.lines.line_at(&self.input, self.dialect.terminator, byte) {
            Ok(line) => error.at_line(line),
            Err(_) => error,
        }
    }
}
