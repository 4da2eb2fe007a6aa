//! One value out of a text or JSON member, without keeping the rest of it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, ErrorKind, Result};

/// A way into JSON, taken apart: RFC 6901.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pointer {
    text: String,
    steps: Vec<String>,
}

impl Pointer {
    pub(super) fn new(text: &str) -> Self {
        let steps = text.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        Self { text: text.to_owned(), steps }
    }

    /// The name of what it leads to; empty if that is the whole.
    pub(super) fn last(&self) -> &str {
        self.steps.last().map_or("", String::as_str)
    }
}

/// A number or text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Integer(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// The value that `pointer` leads to, or without one the whole of a text: a number if it reads as one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for what is no JSON or UTF-8, where the pointer leads nowhere, and for a value that is neither
    /// number nor text.
    pub(super) fn of(bytes: &'a [u8], pointer: Option<&Pointer>) -> Result<Self> {
        let Some(pointer) = pointer else {
            let text = text(bytes)?.trim();
            return Ok(match (text.parse(), text.parse::<f64>()) {
                (Ok(integer), _) => Self::Integer(integer),
                // "nan" and "inf" are words here: nobody means to train on them.
                (_, Ok(float)) if float.is_finite() => Self::Float(float),
                _ => Self::Text(Cow::Borrowed(text)),
            });
        };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let found = Follow(&pointer.steps).deserialize(&mut json).and_then(|found| json.end().map(|()| found));
        let found =
            found.map_err(|error| Error::new(ErrorKind::Data, format!("no JSON: {error}")).with_source(error))?;
        let problem = match found {
            Found::Value(value) => return Ok(value),
            Found::Nothing => "there is nothing there",
            Found::Other => "it is neither a number nor text",
        };
        Err(Error::new(ErrorKind::Data, format!("JSON at {:?}: {problem}", pointer.text)))
    }

    pub(super) fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Float(float) => Some(*float),
            Self::Text(_) => None,
        }
    }

    pub(super) fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            // 3.0 is how some writers put 3; 2^63 itself no longer fits.
            Self::Float(float) if float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0 => {
                Some(*float as i64)
            }
            Self::Float(_) | Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Float(float) => write!(f, "{float:?}"),
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
        Error::new(ErrorKind::Data, format!("byte {at} of the text is {found:#04x}: no UTF-8"))
    })
}

enum Found<'a> {
    Value(Value<'a>),
    Nothing,
    Other,
}

/// Follows these steps, and reads over everything beside them.
struct Follow<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Follow<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Follow<'_> {
    /// What a value is, where the steps end or lead into it.
    fn here(&self, value: Found<'de>) -> Found<'de> {
        if self.0.is_empty() { value } else { Found::Nothing }
    }
}

impl<'de> Visitor<'de> for Follow<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(self.here(Found::Other))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.here(Found::Other))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.here(Found::Value(Value::Integer(value))))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        let value = i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer);
        Ok(self.here(Found::Value(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(self.here(Found::Value(Value::Float(value))))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(self.here(Found::Value(Value::Text(Cow::Borrowed(value)))))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.here(Found::Value(Value::Text(Cow::Owned(value.to_owned())))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = self.here(Found::Other);
        while let Some(is_next) = map.next_key_seed(Is(self.0.first()))? {
            match self.0 {
                // Of a key that occurs twice the last one counts, as in most readers of JSON.
                [_, rest @ ..] if is_next => found = map.next_value_seed(Follow(rest))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = self.here(Found::Other);
        let is_index =
            |step: &&String| step.bytes().all(|byte| byte.is_ascii_digit()) && (*step == "0" || !step.starts_with('0'));
        let wanted = self.0.first().filter(is_index).and_then(|step| step.parse::<usize>().ok());
        for at in 0.. {
            let element = match self.0 {
                [_, rest @ ..] if wanted == Some(at) => {
                    list.next_element_seed(Follow(rest))?.map(|element| found = element)
                }
                _ => list.next_element::<IgnoredAny>()?.map(|_| ()),
            };
            if element.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// Whether a key is this one, without a copy of it.
struct Is<'p>(Option<&'p String>);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(self.0.is_some_and(|wanted| wanted == key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_a_number_if_it_reads_as_one() {
        let value = |text: &'static str| Value::of(text.as_bytes(), None).unwrap();
        assert_eq!(value(" 17\n"), Value::Integer(17));
        assert_eq!(value("-2.5"), Value::Float(-2.5));
        assert_eq!(value("tabby cat\n"), Value::Text("tabby cat".into()));
        assert_eq!(value("nan"), Value::Text("nan".into()));
        assert_eq!(Value::Float(3.0).to_i64(), Some(3));
        assert_eq!(Value::Float(3.5).to_i64(), None);
        assert_eq!(Value::Float(9_223_372_036_854_775_808.0).to_i64(), None);
        assert!(Value::of(b"a\xff", None).unwrap_err().message().contains("byte 1 of the text is 0xff"));
    }

    #[test]
    fn a_pointer_that_leads_nowhere_or_to_no_value_is_an_error_that_says_so() {
        let error = |json: &str, pointer: &str| Value::of(json.as_bytes(), Some(&Pointer::new(pointer))).unwrap_err();
        assert!(error(r#"{"a": 1}"#, "/b").message().contains("nothing there"));
        assert!(error(r#"{"a": 1}"#, "/a/b").message().contains("nothing there"));
        assert!(error(r#"{"a": [1]}"#, "/a").message().contains("neither"));
        assert!(error(r#"{"a": null}"#, "/a").message().contains("neither"));
        assert!(error(r#"{"a": 1"#, "/a").message().contains("no JSON: EOF"));
        assert!(error(r#"{"a": 1} {}"#, "/a").message().contains("no JSON"));
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
        /// serde_json's own pointers are the judge.
        #[test]
        fn pointers_lead_where_those_of_serde_json_do(json in json(), steps in prop::collection::vec("[ab01/~\"é]{0,2}", 0..4)) {
            let pointer: String = steps.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
            let text = json.to_string();
            let found = Value::of(text.as_bytes(), Some(&Pointer::new(&pointer)));
            match json.pointer(&pointer) {
                Some(serde_json::Value::Number(number)) => match number.as_i64() {
                    Some(integer) => prop_assert_eq!(found.unwrap(), Value::Integer(integer)),
                    None => prop_assert_eq!(found.unwrap().to_f64(), number.as_f64()),
                },
                Some(serde_json::Value::String(text)) => prop_assert_eq!(found.unwrap(), Value::Text(text.into())),
                Some(_) => prop_assert!(found.unwrap_err().message().contains("neither")),
                None => prop_assert!(found.unwrap_err().message().contains("nothing")),
            }
        }
    }
}
