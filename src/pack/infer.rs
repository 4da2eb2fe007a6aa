//! Infers the types of the columns of a CSV file from all of their values.

use crate::dtype::DType;
use crate::error::Result;
use crate::read::parallel::in_order;
use crate::read::{Container, FieldKind, Scratch, Value};

use super::cells::{Column, Records, float_of, integer_of, is_held, is_plain};

/// Turns columns of text into integers or numbers, if all their texts are, and none would become another number. All
/// others stay text.
pub(super) fn infer(container: &dyn Container, columns: &mut [Column], text: &[String], threads: usize) -> Result<()> {
    const AT_ONCE: u64 = 1024;
    let total = container.len();
    // For each column: whether all values are integers, whether all are numbers, and whether there are any.
    let count = columns.len();
    let mut kinds = vec![(true, true, false); count];
    let records = Records::new(container, columns, false, &[]);
    in_order(
        threads,
        total.div_ceil(AT_ONCE),
        |scratch: &mut Scratch, job| {
            let mut kinds = vec![(true, true, false); count];
            let job: Vec<u64> = (job * AT_ONCE..total.min((job + 1) * AT_ONCE)).collect();
            for nth in 0..job.len() {
                // A bad record is reported when it is packed.
                let _ = container.fetch(&job, nth, scratch).and_then(|()| {
                    container.read(job[nth], nth, scratch, &mut |number, value| {
                        let Value::Bytes(bytes) = value else { return Ok(()) };
                        let text = std::str::from_utf8(bytes).unwrap_or_default();
                        if let Some(kind) = records.place_of(number).and_then(|place| kinds.get_mut(place)) {
                            let is_integer = integer_of(text).map(|integer| i64::try_from(integer).is_ok());
                            let is_float =
                                is_integer != Some(false) && float_of(text).is_some_and(|x| is_held(text, x));
                            let is_plain = is_plain(text);
                            kind.0 &= is_plain && is_integer == Some(true) && text.trim() != "-0";
                            kind.1 &= is_plain && is_float;
                            kind.2 = true;
                        }
                        Ok(())
                    })
                });
            }
            Ok(kinds)
        },
        |found| {
            for (kind, found) in kinds.iter_mut().zip(found) {
                *kind = (kind.0 & found.0, kind.1 & found.1, kind.2 | found.2);
            }
            Ok(())
        },
    )?;
    for (column, kind) in columns.iter_mut().zip(kinds) {
        column.kind = match kind {
            _ if text.contains(&column.name) => FieldKind::Text,
            (true, _, true) => FieldKind::Numbers(DType::I64),
            (_, true, true) => FieldKind::Numbers(DType::F64),
            _ => FieldKind::Text,
        };
    }
    Ok(())
}

/// Finds the columns again, text as it is written: what stands for a missing number, such as `NA`, is text there.
pub(super) fn find_texts(container: &mut dyn Container, columns: &mut [Column]) -> Result<()> {
    container.forget();
    columns.iter_mut().try_for_each(|column| {
        let found = match column.kind {
            FieldKind::Text => container.find_text(&column.field),
            _ => container.find(&column.field),
        };
        column.number = found.map_err(|error| error.at_column(&column.name))?;
        Ok(())
    })
}
