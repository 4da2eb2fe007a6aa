use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Files;

use super::fields::Fields;
use super::format::Format;
use super::options::{ColumnRef, CsvOptions};
use super::text::Text;
use super::value::Missings;

/// Gives the text of one column of each record to `visit`, from front to back.
///
/// # Errors
///
/// As [`CsvReader::open`](crate::csv::CsvReader::open), and those of `visit` with the place.
pub(crate) fn column_of(
    files: &Files,
    path: &Path,
    column: &ColumnRef,
    options: &CsvOptions,
    mut visit: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    options.validate()?;
    let text = Text::open_in(files, path, options.encoding.as_deref())?;
    let format = Format::detect(path, || text.read(), options, &Missings::new(&options.missing_tokens))?;
    let wanted = format.column(column).map_err(|error| error.at_path(path))?;
    let mut scan = format.records(text.read()?, path, options)?;
    let mut buffer = Vec::new();
    let mut record = 0;
    while let Some(span) = scan.next().map_err(|error| error.at_record(record))? {
        let mut fields = Fields::new(scan.bytes(&span), span.quoted, &format.dialect);
        let fault = |message: &'static str| Error::new(ErrorKind::Data, message);
        let found = match (0..wanted).all(|_| fields.skip()) {
            true => fields.next(&mut buffer).ok_or_else(|| fault("the record ends before this column")),
            false => Err(fault("the record ends before this column")),
        };
        found
            .and_then(|field| std::str::from_utf8(field).map_err(|_| fault("is not valid UTF-8; set encoding")))
            .and_then(&mut visit)
            .map_err(|error| {
                error.at_path(path).at_line(span.line).at_record(record).at_column(&format.names[wanted])
            })?;
        record += 1;
    }
    Ok(())
}
