//! One line in memory.

use crate::error::{Error, ErrorKind, Result};
use crate::read::value::Value;

use super::dialect::{Blanks, Dialect, Progress};
use super::fields::Fields;
use super::value::{Missings, shown};

/// The fields of single lines, like those of a file whose header is known.
#[derive(Debug)]
pub(in crate::read) struct CsvLine {
    dialect: Dialect,
    missings: Missings,
}

impl CsvLine {
    /// The delimiter is the one that occurs most often in the header: a comma, semicolon, tab or bar.
    pub(in crate::read) fn of_header(header: &str, missing_tokens: &[String]) -> Self {
        let often = |delimiter: &u8| header.bytes().filter(|byte| byte == delimiter).count();
        // `max_by_key` takes the last of several equal ones, so the first choice stands last.
        let delimiter = *b"|\t;,".iter().max_by_key(|delimiter| often(delimiter)).unwrap_or(&b',');
        let dialect = Dialect {
            delimiter,
            quote: b'"',
            has_quotes: true,
            comment: None,
            blanks: Blanks::Content,
            terminator: b'\n',
        };
        Self { dialect, missings: Missings::new(missing_tokens) }
    }

    /// Gives the fields of `line`, which is one record. With a missing value comes the word that stands for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for more than one record, or a quote that is not closed; and those of `visit`.
    pub(in crate::read) fn read(
        &self,
        line: &[u8],
        unquoted: &mut Vec<u8>,
        mut visit: impl FnMut(usize, Value<'_>, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut progress = Progress::default();
        let end = self.dialect.find_end(line, &mut progress);
        if let Some(byte) = self.dialect.left_open(line, &progress).filter(|_| end.is_none()) {
            return Err(Error::new(ErrorKind::Data, "a quote is opened, and not closed").at_byte(byte as u64));
        }
        let end = end.unwrap_or(line.len());
        if let Some(rest) = line.get(end + 1..).filter(|rest| !rest.trim_ascii().is_empty()) {
            let message = format!("more than one record; give each line by itself: {} follows", shown(rest));
            return Err(Error::new(ErrorKind::Data, message).at_byte(end as u64 + 1));
        }
        let mut fields = Fields::new(&line[..self.dialect.content(line, end)], progress.quoted, &self.dialect);
        let mut column = 0;
        while let Some(field) = fields.next(unquoted) {
            let is_missing = self.missings.contains(field.trim_ascii());
            match is_missing {
                true => visit(column, Value::Missing, Some(field))?,
                false => visit(column, Value::Bytes(field), None)?,
            }
            column += 1;
        }
        Ok(())
    }
}
