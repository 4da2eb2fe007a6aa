//! A small table, as a whole in memory.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::Scratch;
use crate::read::container::Container;
use crate::read::value::Value;
use crate::storage::Files;

use super::container::CsvTable;
use super::options::{ColumnRef, CsvOptions};
use super::value::shown;

/// Limits for a table: bytes of its cells, and number of records.
const MAX_BYTES: usize = 64 << 20;
const MAX_RECORDS: u64 = 1 << 20;

/// The texts in some columns of the CSV file at `path`, for each record; `None` for a missing value.
///
/// # Errors
///
/// Those of opening and reading it, [`ErrorKind::NotFound`] for a column that it does not have, [`ErrorKind::Data`] for
/// what is not UTF-8, and [`ErrorKind::Limit`] for a table that is not small.
pub(crate) fn csv_cells(path: &Path, columns: &[&str]) -> Result<Vec<Vec<Option<String>>>> {
    let mut table = CsvTable::open(&Files::local(), path, &CsvOptions::default(), &MemoryBudget::unlimited())?;
    let found = columns.iter().map(|name| table.find(&ColumnRef::Name((*name).to_owned())));
    let numbers: Vec<usize> = found.collect::<Result<_>>()?;
    let too_large = || {
        let message = format!(
            "is not a small table: at most {MAX_RECORDS} records of {MAX_BYTES} bytes together are kept; join it \
             beforehand"
        );
        Error::new(ErrorKind::Limit, message).at_path(path)
    };
    if table.len() > MAX_RECORDS {
        return Err(too_large());
    }
    let (mut all, mut bytes, mut scratch) = (Vec::new(), 0, Scratch::default());
    for record in 0..table.len() {
        let mut cells = vec![None; numbers.len()];
        table.fetch(&[record], 0, &mut scratch)?;
        table.read(record, 0, &mut scratch, &mut |number, value| {
            let Value::Bytes(field) = value else { return Ok(()) };
            let text = std::str::from_utf8(field).map_err(|_| {
                let column = numbers.iter().position(|own| *own == number).map_or("", |at| columns[at]);
                let message =
                    format!("expected text, found {}, which is not UTF-8; save the file in UTF-8", shown(field));
                Error::new(ErrorKind::Data, message).at_column(column)
            })?;
            let text = text.trim_ascii();
            for (cell, own) in cells.iter_mut().zip(&numbers) {
                if *own == number && !text.is_empty() {
                    bytes += text.len();
                    *cell = Some(text.to_owned());
                }
            }
            Ok(())
        })?;
        if bytes > MAX_BYTES {
            return Err(too_large());
        }
        all.push(cells);
    }
    Ok(all)
}
