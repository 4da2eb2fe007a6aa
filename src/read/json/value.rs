//! From the text of a JSON value to a [`Value`].

use std::cell::{Cell, RefCell};

use memchr::memchr;

use crate::error::{Error, ErrorKind, Result};
use crate::read::value::{List, Value};

use super::scan::{Cursor, MOST_INTEGERS};

/// The text of a value, without blanks around it.
#[derive(Clone, Copy)]
pub(in crate::read) struct Raw<'a> {
    pub(super) text: &'a str,
    /// The elements of a list of integers, if they were read already.
    pub(super) integers: &'a [i64],
}

impl<'a> From<&'a str> for Raw<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, integers: &[] }
    }
}

/// Buffers for values that are not written as they are given.
#[derive(Debug, Default)]
pub(in crate::read) struct Buffers {
    /// A text that is written with escapes.
    unescaped: RefCell<String>,
    integers: RefCell<Vec<i64>>,
    /// Whether the integers of a list were requested and given.
    gave_integers: Cell<bool>,
}

impl Buffers {
    /// Whether the integers of a list were requested and given since the last call.
    pub(super) fn gave_integers(&self) -> bool {
        self.gave_integers.take()
    }
}

/// Gives the value that `raw`, which must be JSON, stands for.
///
/// # Errors
///
/// [`ErrorKind::Data`] for an object, and for what no text can hold; and those of `visit`.
pub(in crate::read) fn give(
    raw: Raw<'_>,
    buffers: &Buffers,
    visit: &mut dyn FnMut(Value<'_>) -> Result<()>,
) -> Result<()> {
    match raw.text.as_bytes() {
        [b'"', ..] => {
            let inner = inner_of(raw.text);
            if memchr(b'\\', inner.as_bytes()).is_none() {
                return visit(Value::Text(inner));
            }
            // The buffer is taken while a text in a list is looked at. Whoever reads another text meanwhile uses memory
            // of its own.
            let mut own = String::new();
            let mut shared = buffers.unescaped.try_borrow_mut();
            let text = shared.as_deref_mut().unwrap_or(&mut own);
            unescape(inner, text)?;
            visit(Value::Text(text))
        }
        // Python reads it as the integer 0, which has no sign.
        b"-0" => visit(Value::Decimal("0")),
        [b'-' | b'0'..=b'9', ..] => visit(Value::Decimal(raw.text)),
        b"true" => visit(Value::Bool(true)),
        b"false" => visit(Value::Bool(false)),
        b"null" => visit(Value::Missing),
        [b'[', ..] => visit(Value::List(&Elements { raw, buffers })),
        _ => {
            let message = "expected a value, found an object; name a value in it by a pointer, such as \"/a/b\"";
            Err(Error::new(ErrorKind::Data, message))
        }
    }
}

/// What is between the quotes of a text.
pub(in crate::read) fn inner_of(raw: &str) -> &str {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()
}

/// The elements of an array.
struct Elements<'a> {
    raw: Raw<'a>,
    buffers: &'a Buffers,
}

impl List for Elements<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        each_element(self.raw.text, &mut |element| give(element.into(), self.buffers, visit))
    }

    fn integers(&self, visit: &mut dyn FnMut(&[i64]) -> Result<()>) -> Option<Result<()>> {
        if !self.raw.integers.is_empty() {
            self.buffers.gave_integers.set(true);
            return Some(visit(self.raw.integers));
        }
        if self.raw.text.len() > MOST_AT_ONCE {
            return None;
        }
        // Whoever looks at another list meanwhile sees its values one by one.
        let mut integers = self.buffers.integers.try_borrow_mut().ok()?;
        integers.clear();
        let are_all = Cursor::new(self.raw.text).integers(0, &mut integers);
        self.buffers.gave_integers.set(are_all);
        are_all.then(|| visit(&integers))
    }
}

/// Longest text of an array that is read at once.
const MOST_AT_ONCE: usize = 2 * MOST_INTEGERS;

/// Gives the text of each element of an array.
pub(super) fn each_element(raw: &str, visit: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let mut cursor = Cursor::new(raw);
    let wrong = |fault: super::Fault| fault.error(raw);
    let mut more = cursor.enter(0, b']').map_err(wrong)?;
    while more {
        cursor.next();
        let start = cursor.at;
        cursor.skip(1).map_err(wrong)?;
        visit(&raw[start..cursor.at])?;
        more = cursor.more(b']').map_err(wrong)?;
    }
    Ok(())
}

/// Gives the key of each member of an object, as it is written, and the text of its value.
pub(super) fn each_member(raw: &str, visit: &mut dyn FnMut(&str, &str) -> Result<()>) -> Result<()> {
    let mut cursor = Cursor::new(raw);
    let wrong = |fault: super::Fault| fault.error(raw);
    let mut more = cursor.enter(0, b'}').map_err(wrong)?;
    while more {
        let (key, _) = cursor.key().map_err(wrong)?;
        cursor.next();
        let start = cursor.at;
        cursor.skip(1).map_err(wrong)?;
        visit(&raw[key], &raw[start..cursor.at])?;
        more = cursor.more(b'}').map_err(wrong)?;
    }
    Ok(())
}

/// Replaces `into` by the text whose JSON form between the quotes is `inner`.
///
/// # Errors
///
/// [`ErrorKind::Data`] for half of a surrogate pair, which is no character.
pub(in crate::read) fn unescape(inner: &str, into: &mut String) -> Result<()> {
    into.clear();
    let mut rest = inner;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        into.push_str(&rest[..at]);
        let escape = &rest.as_bytes()[at + 1..];
        let (character, len) = match escape.first() {
            Some(b'n') => ('\n', 2),
            Some(b't') => ('\t', 2),
            Some(b'r') => ('\r', 2),
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(b'u') => {
                let first = code_unit(escape).unwrap_or_default();
                let second = escape.get(5..).and_then(|next| next.strip_prefix(b"\\")).and_then(code_unit);
                let mut both = char::decode_utf16([first].into_iter().chain(second));
                match both.next() {
                    Some(Ok(character)) => (character, 6 * character.len_utf16()),
                    _ => {
                        let message = format!("\\u{first:04x} is half of a surrogate pair: no text can hold it");
                        return Err(Error::new(ErrorKind::Data, message));
                    }
                }
            }
            Some(byte) => (char::from(*byte), 2),
            None => ('\\', 1),
        };
        into.push(character);
        rest = rest.get(at + len..).unwrap_or_default();
    }
    into.push_str(rest);
    Ok(())
}

/// The number after `\u`.
fn code_unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(b"u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_of_a_surrogate_pair_is_no_text() {
        let mut text = String::new();
        unescape(r"\ud83d\ude00 \u00e9\/\n", &mut text).unwrap();
        assert_eq!(text, "\u{1f600} é/\n");
        for half in [r"\ud83d", r"\ud83dx", r"\ud83d\n", r"\ud83d\u0041", r"\ude00\ud83d"] {
            let error = unescape(half, &mut text).unwrap_err();
            assert!(error.message().contains("half of a surrogate pair"), "{half}: {error}");
        }
    }

    proptest! {
        /// serde_json writes and reads: the judge.
        #[test]
        fn texts_are_what_serde_json_reads(text in "(\\PC|[\\x00-\\x1f\"\\\\/]|\u{1f600}){0,12}", ascii in any::<bool>()) {
            let escaped = |text: &str| -> String {
                let units = text.encode_utf16();
                format!("\"{}\"", units.map(|unit| format!("\\u{unit:04X}")).collect::<String>())
            };
            let raw = if ascii { escaped(&text) } else { serde_json::to_string(&text).unwrap() };
            prop_assert_eq!(&serde_json::from_str::<String>(&raw).unwrap(), &text);
            let mut seen = None;
            give(raw.as_str().into(), &Buffers::default(), &mut |value| {
                if let Value::Text(text) = value {
                    seen = Some(text.to_owned());
                }
                Ok(())
            }).unwrap();
            prop_assert_eq!(seen, Some(text));
        }
    }
}
