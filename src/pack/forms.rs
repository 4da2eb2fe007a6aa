//! The form of a field in all samples of a tar archive.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::{Container, FieldKind, Scratch};

use super::cells::{Cell, Column, Records};

/// The form in which a field's values are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A member that holds the bytes.
    Member,
    /// A member that is an array.
    Array,
    /// A part of the sample's JSON.
    Json,
}

/// How much is read to decide: this many records, but not more than this many bytes.
const SAMPLE_RECORDS: u64 = 1000;
const SAMPLE_BYTES: u64 = 8 << 20;

/// The values that were seen in a field.
#[derive(Clone, Copy, Default)]
struct Seen {
    array: bool,
    list: bool,
}

/// The form of each field. The field and the first records determine it, so that it is the same in all records.
pub(super) fn forms(container: &dyn Container, columns: &[Column]) -> Vec<Form> {
    let is_ragged = |column: &Column| column.shape.iter().skip(1).any(|dim| *dim == 0);
    let is_open = |column: &Column| matches!(column.kind, FieldKind::Numbers(_)) && !is_ragged(column);
    let seen =
        if columns.iter().any(is_open) { sample(container, columns) } else { vec![Seen::default(); columns.len()] };
    let form = |(column, seen): (&Column, &Seen)| match column.kind {
        FieldKind::Bytes if column.shape.is_empty() => Form::Member,
        FieldKind::Numbers(_) if !is_ragged(column) && seen.array && !seen.list => Form::Array,
        _ => Form::Json,
    };
    columns.iter().zip(&seen).map(form).collect()
}

fn sample(container: &dyn Container, columns: &[Column]) -> Vec<Seen> {
    let mut all = vec![Seen::default(); columns.len()];
    let mut scratch = Scratch::default();
    let records = Records::new(container, columns, false, &[]);
    let mut bytes = 0;
    for record in 0..container.len().min(SAMPLE_RECORDS) {
        // A bad record is reported when it is packed.
        let Ok(cells) = records.read(&[record], 0, &mut scratch) else { continue };
        for (seen, cell) in all.iter_mut().zip(&cells) {
            seen.array |= matches!(cell, Cell::Numbers(..));
            seen.list |= matches!(cell, Cell::List(_));
            bytes += cell.bytes();
        }
        if bytes >= SAMPLE_BYTES {
            break;
        }
    }
    all
}

/// Type and bytes of an array of numbers, and its own shape if it has one.
pub(super) type Array = (DType, Vec<u8>, Option<Box<[u64]>>);

/// The array in a cell.
///
/// # Errors
///
/// [`ErrorKind::Data`] for a value that is not an array.
pub(super) fn array_of(cell: Cell, column: &Column) -> Result<Array> {
    Ok(match (cell, column.kind) {
        (Cell::Numbers(dtype, bytes, shape), _) => (dtype, bytes, shape),
        // A list of one element may come as its value.
        (Cell::I64(number), FieldKind::Numbers(DType::I64)) => (DType::I64, number.to_ne_bytes().to_vec(), None),
        (Cell::F64(number), FieldKind::Numbers(DType::F64)) => (DType::F64, number.to_ne_bytes().to_vec(), None),
        (Cell::F64(number), FieldKind::Numbers(DType::F32)) => {
            (DType::F32, (number as f32).to_ne_bytes().to_vec(), None)
        }
        (cell, _) => {
            let message = format!(
                "expected an array, which the first records hold, found {}: a list with missing values, or lists of \
                 different lengths; pack into Parquet, which has them, or name the other fields",
                cell.describe()
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
    })
}
