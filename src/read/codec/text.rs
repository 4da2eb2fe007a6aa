//! Text of at most so many bytes, and its length.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::Longer;
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::contract::{Context, Decode, Made, unexpected};
use crate::read::value::Value;

struct TextCodec {
    max_len: usize,
    longer: Longer,
}

/// `u8 [max_len]` with zeros behind the text, and the text's length in bytes; for several fields `[fields, max_len]`
/// and `[fields]`.
pub(super) fn make(name: &str, role: Role, max_len: usize, longer: Longer, fields: usize) -> Result<Made> {
    let shape = if fields == 1 { Vec::new() } else { vec![fields] };
    let tensors = vec![
        TensorSpec::new(name, role, DType::U8, &[&shape[..], &[max_len]].concat()),
        TensorSpec::new(format!("{name}_len"), role, DType::I64, &shape),
    ];
    Ok(Made { codec: Box::new(TextCodec { max_len, longer }), tensors })
}

/// The text of a value.
///
/// # Errors
///
/// [`ErrorKind::Data`] for bytes that are not UTF-8, and for what is no text.
pub(in crate::read) fn text_of<'a>(value: &'a Value<'a>) -> Result<&'a str> {
    match value {
        Value::Text(text) | Value::Decimal(text) => Ok(text),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|error| {
            let (at, found) = (error.valid_up_to(), bytes[error.valid_up_to()]);
            Error::new(ErrorKind::Data, format!("byte {at} of the text is {found:#04x}: not UTF-8"))
        }),
        value => Err(unexpected("text", value)),
    }
}

impl Decode for TextCodec {
    /// A missing text becomes an empty one.
    fn write(&self, nth: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let text = if let Value::Missing = value { "" } else { text_of(&value)? };
        let mut tensor = row.tensor(0);
        let room = &mut tensor.bytes_mut()[nth * self.max_len..][..self.max_len];
        let end = (0..=room.len().min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        if end < text.len() && self.longer == Longer::Error {
            let message = format!(
                "a text of {} bytes; at most {} fit; raise max_len, or set `longer` to \"cut\"",
                text.len(),
                room.len()
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        let (begin, padding) = room.split_at_mut(end);
        begin.copy_from_slice(&text.as_bytes()[..end]);
        padding.fill(0);
        row.tensor(1).as_mut_slice::<i64>()?[nth] = end as i64;
        Ok(())
    }
}
