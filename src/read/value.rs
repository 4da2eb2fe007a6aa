//! The values of fields.

use std::fmt;

use crate::dtype::NumberSlice;
use crate::error::Result;

use super::date_unit::DateUnit;

/// The value of a field.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// There is no value.
    Missing,
    /// True or false.
    Bool(bool),
    /// An integer.
    I64(i64),
    /// An integer.
    U64(u64),
    /// A number.
    F64(f64),
    /// A date or time: a number of these units since 1970. Codecs without times treat it as an integer.
    Time(i64, DateUnit),
    /// A number as it is written, such as `-1.5e3`, so that it is rounded only once, to the type of its tensor.
    Decimal(&'a str),
    /// Text.
    Text(&'a str),
    /// Bytes: a file, or text or a number if the codec reads them so.
    Bytes(&'a [u8]),
    /// A list of numbers of one type.
    Numbers(NumberSlice<'a>),
    /// Several values, or an array of more dimensions, as [`Shaped`](super::Shaped).
    List(&'a dyn List),
}

/// A list of values, which may be lists again.
pub trait List {
    /// Calls `visit` with each value in order. If `visit` fails, stop and return its error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`](crate::ErrorKind::Data) for values that can't be read.
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()>;

    /// The shape, if these are the numbers of an array, however [`each`](Self::each) nests them: see
    /// [`Shaped`](super::Shaped). An array of several dimensions can't be written to a tensor with several other
    /// dimensions, where its numbers would be in another order.
    fn shape(&self) -> Option<&[u64]> {
        None
    }

    /// All numbers of an array, row-major, if they are contiguous in memory.
    fn numbers(&self) -> Option<NumberSlice<'_>> {
        None
    }

    /// Calls `visit` with all values at once, if each is an integer and that is faster than [`each`](Self::each), and
    /// gives what it gave. None if `visit` was not called. After an error, the values are read again by
    /// [`each`](Self::each).
    fn integers(&self, visit: &mut dyn FnMut(&[i64]) -> Result<()>) -> Option<Result<()>> {
        let _ = visit;
        None
    }
}

impl Value<'_> {
    /// A description for messages, with the value itself if it is short.
    pub fn describe(&self) -> String {
        const SHOWN: usize = 40;
        let quoted = |text: &str| match text.char_indices().nth(SHOWN) {
            None => format!("{text:?}"),
            Some((end, _)) => format!("{:?} and so on", &text[..end]),
        };
        match self {
            Self::Missing => "no value".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::I64(value) => value.to_string(),
            Self::U64(value) => value.to_string(),
            Self::F64(value) => value.to_string(),
            Self::Time(value, unit) => format!("{value} {} from 1970", unit.name()),
            Self::Decimal(text) => quoted(text).replace('"', ""),
            Self::Text(text) => quoted(text),
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if bytes.len() <= 4 * SHOWN => quoted(text),
                _ => format!("{} bytes", bytes.len()),
            },
            Self::Numbers(numbers) => format!("a list of {} numbers", numbers.len()),
            Self::List(_) => "a list".to_owned(),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
