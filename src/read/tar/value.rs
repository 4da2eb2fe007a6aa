//! One value of a text or JSON member, without keeping the rest of it.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

use crate::decode::{integer_of_decimal, number_of_text};
use crate::error::{Error, ErrorKind, Result};
use crate::read::json::{Wanted, inner_of, steps, unescape};

/// A parsed JSON pointer (RFC 6901).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pointer {
    text: String,
    wanted: Wanted,
}

impl Pointer {
    pub(super) fn new(text: &str) -> Self {
        let steps = steps(text);
        let mut wanted = Wanted::default();
        wanted.add(&steps, 0);
        Self { text: text.to_owned(), wanted }
    }

    /// The JSON that the pointer leads to, if there is any.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for bytes that are not JSON or not UTF-8.
    pub(super) fn find<'a>(&self, bytes: &'a [u8]) -> Result<Option<&'a str>> {
        let json = text(bytes)?;
        self.wanted.find_one(json).map_err(|fault| fault.error(json).at_byte(fault.at as u64))
    }
}

/// A number or text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Also true (1) and false (0) in JSON.
    Integer(i64),
    /// A finite number as it is written, so that it is rounded only once.
    Float(&'a str),
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// The value that `pointer` leads to. Without a pointer, the whole text: a number if it looks like one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for bytes that are not JSON or not UTF-8, if the pointer leads nowhere, and for null, lists
    /// and objects.
    pub(super) fn of(bytes: &'a [u8], pointer: Option<&Pointer>) -> Result<Self> {
        let Some(pointer) = pointer else {
            let text = text(bytes)?.trim();
            return Ok(Self::number(text).unwrap_or(Self::Text(Cow::Borrowed(text))));
        };
        let raw = pointer.find(bytes)?;
        let problem = match raw.map(|raw| (raw, raw.as_bytes())) {
            None | Some(("null", _)) => "there is no value",
            Some(("true", _)) => return Ok(Self::Integer(1)),
            Some(("false", _)) => return Ok(Self::Integer(0)),
            Some((raw, [b'"', ..])) => {
                let inner = inner_of(raw);
                if memchr(b'\\', inner.as_bytes()).is_none() {
                    return Ok(Self::Text(Cow::Borrowed(inner)));
                }
                let mut text = String::new();
                return unescape(inner, &mut text).map(|()| Self::Text(Cow::Owned(text)));
            }
            Some((raw, [b'-' | b'0'..=b'9', ..])) => match Self::number(raw) {
                Some(number) => return Ok(number),
                None => "the number is too large",
            },
            Some((_, [b'[', ..])) => {
                "it is a list, but a single value is expected; for a list of numbers, set `list = true`"
            }
            Some(_) => "it is an object; name a value in it, such as /a/b",
        };
        Err(Error::new(ErrorKind::Data, format!("JSON at {:?}: {problem}", pointer.text)))
    }

    fn number(text: &'a str) -> Option<Self> {
        match (text.parse(), number_of_text::<f64>(text)) {
            (Ok(integer), _) => Some(Self::Integer(integer)),
            // "nan" and "inf" are words here: nobody means to train on them.
            (_, Some(float)) if float.is_finite() => Some(Self::Float(text)),
            _ => None,
        }
    }

    pub(super) fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            // Some writers put 3.0 or 3e0 for 3.
            Self::Float(text) => {
                let whole = text.trim_end_matches('0').strip_suffix('.').and_then(|whole| whole.parse().ok());
                whole.or_else(|| integer_of_decimal(text.as_bytes())?.try_into().ok())
            }
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Float(text) if text.len() <= SHOWN => f.write_str(text),
            Self::Float(text) => write!(f, "{} and so on", &text[..SHOWN]),
            Self::Text(text) if text.chars().nth(SHOWN).is_none() => write!(f, "{text:?}"),
            Self::Text(text) => write!(f, "{:?} and so on", text.chars().take(SHOWN).collect::<String>()),
        }
    }
}

/// A member that is text.
///
/// # Errors
///
/// [`ErrorKind::Data`] if it is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (at, found) = (error.valid_up_to(), bytes[error.valid_up_to()]);
        Error::new(ErrorKind::Data, format!("byte {at} of the text is {found:#04x}: not UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_a_number_if_it_reads_as_one() {
        let value = |text: &'static str| Value::of(text.as_bytes(), None).unwrap();
        assert_eq!(value(" 17\n"), Value::Integer(17));
        assert_eq!(value("-2.5"), Value::Float("-2.5"));
        assert_eq!(value("tabby cat\n"), Value::Text("tabby cat".into()));
        assert_eq!(value("nan"), Value::Text("nan".into()));
        for (text, integer) in [
            ("3.0", Some(3)),
            ("-3.", Some(-3)),
            ("3e2", Some(300)),
            ("-0.5e1", Some(-5)),
            ("-0.0", Some(0)),
            ("3.5", None),
            ("3.00000000000000000001", None),
            ("9007199254740993.0", Some((1 << 53) + 1)),
            ("9223372036854775807.00", Some(i64::MAX)),
            ("-9223372036854775808.0", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("9223372036854775808.0", None),
            ("-9223372036854775809", None),
            ("-9223372036854775807.5", None),
            ("1.23456789012345678e17", Some(123_456_789_012_345_678)),
            ("1e19", None),
            ("1e300", None),
        ] {
            assert_eq!(value(text).to_i64(), integer, "{text}");
        }
        assert!(Value::of(b"a\xff", None).unwrap_err().message().contains("byte 1 of the text is 0xff"));
    }

    #[test]
    fn a_pointer_that_leads_nowhere_or_to_no_value_is_an_error_that_says_so() {
        let error = |json: &str, pointer: &str| Value::of(json.as_bytes(), Some(&Pointer::new(pointer))).unwrap_err();
        assert!(error(r#"{"a": 1}"#, "/b").message().contains("there is no value"));
        assert!(error(r#"{"a": 1}"#, "/a/b").message().contains("there is no value"));
        assert!(error(r#"{"a": [1]}"#, "/a").message().contains("set `list = true`"));
        assert!(error(r#"{"a": {"b": 1}}"#, "/a").message().contains("name a value in it"));
        assert!(error(r#"{"a": null}"#, "/a").message().contains("there is no value"));
        assert!(error(r#"{"a": 1"#, "/a").message().contains("not JSON: expected a comma or }, found the end"));
        assert!(error(r#"{"a": 1} {}"#, "/a").message().contains("not JSON"));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            (-1e300..1e300).prop_map(Into::into),
            "[a-c/~\"é]{0,3}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 30, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::hash_map("[ab/~\"é]{0,2}", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The reference is serde_json's own pointers.
        #[test]
        fn pointers_lead_where_those_of_serde_json_do(json in json(), steps in prop::collection::vec("[ab01/~\"é]{0,2}", 0..4)) {
            let pointer: String = steps.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
            let text = json.to_string();
            let found = Value::of(text.as_bytes(), Some(&Pointer::new(&pointer)));
            match json.pointer(&pointer) {
                Some(serde_json::Value::Number(number)) => match number.as_i64() {
                    Some(integer) => prop_assert_eq!(found.unwrap(), Value::Integer(integer)),
                    None => match found.unwrap() {
                        Value::Float(text) => prop_assert_eq!(text.parse().ok(), number.as_f64()),
                        other => prop_assert!(false, "{other:?}"),
                    },
                },
                Some(serde_json::Value::String(text)) => prop_assert_eq!(found.unwrap(), Value::Text(text.into())),
                Some(serde_json::Value::Bool(flag)) => prop_assert_eq!(found.unwrap(), Value::Integer((*flag).into())),
                Some(serde_json::Value::Array(_)) => {
                    prop_assert!(found.unwrap_err().message().contains("it is a list"));
                }
                Some(serde_json::Value::Object(_)) => {
                    prop_assert!(found.unwrap_err().message().contains("it is an object"));
                }
                None | Some(serde_json::Value::Null) => prop_assert!(found.unwrap_err().message().contains("no value")),
            }
        }
    }
}
