//! Texts by which samples are chosen. A missing value is an empty text, as the container defines it: in CSV also by
//! `missing_tokens`, which a tensor of text does not know.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::{Outside, OutsideCodec, Value};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

/// Longest text that is compared, in bytes.
const MAX_TEXT: usize = 1024;

/// Writes a field's text as u8 `[MAX_TEXT]`, its length, and whether it is text in the record, too, not a number that is
/// written as text.
pub(super) fn codec(name: &str) -> OutsideCodec {
    let text = TensorSpec::new(name, Role::Feature, DType::U8, &[MAX_TEXT]);
    let beside = |what| TensorSpec::new(format!("{name}_{what}"), Role::Feature, DType::I64, &[]);
    OutsideCodec::new(Compared([text, beside("len"), beside("is_text")]))
}

/// The text that [`codec`] wrote, and whether it can only be text.
pub(super) fn read(row: &mut RowMut<'_>) -> Result<(String, bool)> {
    let len = usize::try_from(row.tensor(1).as_mut_slice::<i64>()?[0]).unwrap_or_default();
    let is_text = row.tensor(2).as_mut_slice::<i64>()?[0] != 0;
    Ok((String::from_utf8_lossy(&row.tensor(0).bytes_mut()[..len]).into_owned(), is_text))
}

struct Compared([TensorSpec; 3]);

impl Outside for Compared {
    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn write(&self, _: usize, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let text = text_of(&value)?.as_bytes();
        let mut written = row.tensor(0);
        let Some(room) = written.bytes_mut().get_mut(..text.len()) else {
            let message = format!("a text of {} bytes; samples are chosen by texts of at most {MAX_TEXT}", text.len());
            return Err(Error::new(ErrorKind::Data, message));
        };
        room.copy_from_slice(text);
        row.tensor(1).as_mut_slice::<i64>()?[0] = text.len() as i64;
        row.tensor(2).as_mut_slice::<i64>()?[0] = matches!(value, Value::Text(_)).into();
        Ok(())
    }
}

/// The integer without blanks and without `.0`, which some writers add if another value of the column is missing. Any
/// other text as it is: `007`, and `1.10`, may be names.
pub(super) fn without_zeros(text: &str) -> &str {
    let number = text.trim();
    let (whole, zeros) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_integer = digits == "0" || digits.starts_with(|first: char| matches!(first, '1'..='9'));
    match is_integer && digits.bytes().all(|byte| byte.is_ascii_digit()) && zeros.bytes().all(|byte| byte == b'0') {
        true => whole,
        false => text,
    }
}

/// # Errors
///
/// [`ErrorKind::Data`] for a value that is not a text.
pub(super) fn text_of<'a>(value: &Value<'a>) -> Result<&'a str> {
    let text = match value {
        Value::Missing => "",
        Value::Text(text) | Value::Decimal(text) => text,
        Value::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|error| {
            let (at, found) = (error.valid_up_to(), bytes[error.valid_up_to()]);
            Error::new(ErrorKind::Data, format!("byte {at} of the text is {found:#04x}: not UTF-8; set encoding"))
        })?,
        value => return Err(Error::new(ErrorKind::Data, format!("expected text, found {}", value.describe()))),
    };
    // A recipe also treats blanks as missing.
    Ok(if text.trim().is_empty() { "" } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_one_value_with_and_without_zeros_behind_it() {
        for (text, key) in [("7", "7"), (" 7 ", "7"), ("7.0", "7"), ("-70.00", "-70"), ("0.0", "0"), ("12.", "12")] {
            assert_eq!(without_zeros(text), key, "{text}");
        }
        for other in ["", "007", "7.10", "1.1", "+7", "7e0", ".0", "-", "7,0", "7.0x", " x "] {
            assert_eq!(without_zeros(other), other);
        }
        assert_eq!(without_zeros(&format!("{}.0", "9".repeat(40))), "9".repeat(40));
    }
}
