//! One line in memory.

use crate::error::Result;
use crate::read::container::Value;

use super::dialect::{Blanks, Dialect};
use super::fields::Fields;
use super::value::Missings;

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

    /// Gives the fields of `line`, with which it ends. With a missing value comes the word that stands for it.
    ///
    /// # Errors
    ///
    /// Those of `visit`.
    pub(in crate::read) fn read(
        &self,
        line: &[u8],
        unquoted: &mut Vec<u8>,
        mut visit: impl FnMut(usize, Value<'_>, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let found = self.dialect.record(line);
        let mut fields = Fields::new(&line[..found.len], found.quoted, &self.dialect);
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
