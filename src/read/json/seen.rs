//! What all values of a field that were read have in common.

use crate::dtype::DType;
use crate::error::Result;
use crate::read::container::{FieldInfo, FieldKind, Meaning, common_shape};

use super::value::{each_element, each_member, unescape};

/// Kind and shape of the values that were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::read) struct Seen {
    kind: Kind,
    /// 0 for a length that differs; `None` if only null was seen.
    shape: Option<Vec<usize>>,
    /// Whether the innermost lists are empty or of nulls alone, which may stand for lists as well as for numbers.
    is_open: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Kind {
    #[default]
    Nothing,
    Bool,
    /// Not negative, and of 63 bits.
    Natural,
    Integer,
    /// Not negative, and some of 64 bits.
    Unsigned,
    Number,
    Text,
    Object,
    Mixed,
}

impl Kind {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, kind) | (kind, Self::Nothing) => kind,
            (one, other) if one == other => one,
            (Self::Text | Self::Object | Self::Mixed, _) | (_, Self::Text | Self::Object | Self::Mixed) => Self::Mixed,
            (Self::Natural, Self::Unsigned) | (Self::Unsigned, Self::Natural) => Self::Unsigned,
            (Self::Number | Self::Unsigned, _) | (_, Self::Number | Self::Unsigned) => Self::Number,
            _ => Self::Integer,
        }
    }
}

impl Seen {
    /// Kind and shape of `raw`.
    pub(in crate::read) fn of(raw: &str) -> Self {
        let kind = match raw.as_bytes() {
            b"null" => return Self::default(),
            [b'[', ..] => {
                let (mut elements, mut len) = (Self::default(), 0);
                // It is JSON, or it would not have come this far.
                let _ = each_element(raw, &mut |element| {
                    elements = elements.and(&Self::of(element));
                    len += 1;
                    Ok(())
                });
                let is_open = elements.is_open || elements.shape.is_none();
                let mut shape = vec![len];
                shape.extend(elements.shape.unwrap_or_default());
                return Self { kind: elements.kind, shape: Some(shape), is_open };
            }
            [b'"', ..] => Kind::Text,
            [b'{', ..] => Kind::Object,
            [b't' | b'f', ..] => Kind::Bool,
            [b'-', ..] if raw.parse::<i64>().is_ok() => Kind::Integer,
            _ if raw.parse::<i64>().is_ok() => Kind::Natural,
            _ if raw.parse::<u64>().is_ok() => Kind::Unsigned,
            _ => Kind::Number,
        };
        Self { kind, shape: Some(Vec::new()), is_open: false }
    }

    /// Kind and shape of both together.
    #[must_use]
    pub(in crate::read) fn and(&self, other: &Self) -> Self {
        let kind = self.kind.and(other.kind);
        let (short, long) = if self.shape.as_ref().map(Vec::len) < other.shape.as_ref().map(Vec::len) {
            (self, other)
        } else {
            (other, self)
        };
        match (&short.shape, &long.shape) {
            (Some(few), Some(many)) if few.len() == many.len() => {
                Self { kind, shape: Some(common_shape(few, many)), is_open: short.is_open && long.is_open }
            }
            (Some(few), Some(many)) if short.is_open => {
                Self { kind, shape: Some(common_shape(few, many)), is_open: long.is_open }
            }
            (Some(_), Some(_)) => Self { kind, shape: Some(vec![0]), is_open: false },
            (_, shape) => Self { kind, shape: shape.clone(), is_open: long.is_open },
        }
    }

    /// Whether there are lists among the values.
    pub(in crate::read) fn is_list(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| !shape.is_empty())
    }

    /// Whether the values are objects, which are not values of fields.
    pub(in crate::read) fn is_object(&self) -> bool {
        self.kind == Kind::Object && self.shape.as_ref().is_some_and(Vec::is_empty)
    }

    /// What the values are beyond the type of the field.
    pub(in crate::read) fn meaning(&self) -> Option<Meaning> {
        match self.kind {
            Kind::Bool => Some(Meaning::Bool),
            Kind::Unsigned => Some(Meaning::U64),
            _ => None,
        }
    }

    pub(in crate::read) fn info(&self, name: &str) -> FieldInfo {
        let kind = match self.kind {
            Kind::Bool => FieldKind::Numbers(DType::U8),
            Kind::Natural | Kind::Integer => FieldKind::Numbers(DType::I64),
            Kind::Unsigned | Kind::Number => FieldKind::Numbers(DType::F64),
            Kind::Text => FieldKind::Text,
            Kind::Nothing | Kind::Object | Kind::Mixed => FieldKind::Other,
        };
        let info = FieldInfo::new(name, kind).shape(self.shape.as_deref().unwrap_or_default());
        info.unseen(self.kind == Kind::Nothing)
    }
}

/// Gives each value in `raw` that is not an object, with its name: the key for a member of the whole object, otherwise
/// the pointer. The whole text has the empty pointer as its name.
pub(in crate::read) fn each_leaf(raw: &str, visit: &mut dyn FnMut(&str, &str) -> Result<()>) -> Result<()> {
    if !raw.starts_with('{') {
        return visit("", raw);
    }
    leaves(raw, "", visit)
}

fn leaves(raw: &str, above: &str, visit: &mut dyn FnMut(&str, &str) -> Result<()>) -> Result<()> {
    let mut key = String::new();
    each_member(raw, &mut |written, value| {
        if unescape(written, &mut key).is_err() {
            return Ok(());
        }
        let pointer = format!("{above}/{}", key.replace('~', "~0").replace('/', "~1"));
        if value.starts_with('{') {
            return leaves(value, &pointer, visit);
        }
        // A key that looks like a pointer can only be reached by a pointer.
        let is_key = above.is_empty() && !key.is_empty() && !key.starts_with('/');
        visit(if is_key { &key } else { &pointer }, value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(values: &[&str]) -> (FieldKind, Vec<usize>) {
        let seen = values.iter().fold(Seen::default(), |seen, value| seen.and(&Seen::of(value)));
        let info = seen.info("x");
        (info.kind, info.shape)
    }

    #[test]
    fn values_have_a_kind_and_a_shape_in_common() {
        const INTEGERS: FieldKind = FieldKind::Numbers(DType::I64);
        const NUMBERS: FieldKind = FieldKind::Numbers(DType::F64);
        assert_eq!(info(&["1", "null", "-7"]), (INTEGERS, vec![]));
        assert_eq!(info(&["true", "false"]), (FieldKind::Numbers(DType::U8), vec![]));
        assert_eq!(info(&["true", "2"]), (INTEGERS, vec![]));
        assert_eq!(info(&["1", "2.5"]), (NUMBERS, vec![]));
        assert_eq!(info(&["9223372036854775808"]), (NUMBERS, vec![]));
        let meaning =
            |values: &[&str]| values.iter().fold(Seen::default(), |seen, value| seen.and(&Seen::of(value))).meaning();
        assert_eq!(meaning(&["9223372036854775808", "0", "null"]), Some(Meaning::U64));
        for other in ["-1", "0.5", "true", "18446744073709551616", "\"a\""] {
            assert_eq!(meaning(&["9223372036854775808", other]), None, "{other}");
            assert_eq!(meaning(&[other, "1", "9223372036854775808"]), None, "{other}");
        }
        assert_eq!(info(&["1e3"]), (NUMBERS, vec![]));
        assert_eq!(info(&["\"a\"", "null"]), (FieldKind::Text, vec![]));
        assert_eq!(info(&["\"a\"", "1"]), (FieldKind::Other, vec![]));
        assert_eq!(info(&["null"]), (FieldKind::Other, vec![]));
        assert_eq!(info(&["[1, 2]", "[3, 4]", "null"]), (INTEGERS, vec![2]));
        assert_eq!(info(&["[1, 2]", "[3]"]), (INTEGERS, vec![0]));
        assert_eq!(info(&["[[1, 2], [3, 4.5]]", "[[1, 2], [3, 4]]"]), (NUMBERS, vec![2, 2]));
        assert_eq!(info(&["[[1], [3, 4]]", "[[1, 2], [3, 4]]"]), (INTEGERS, vec![2, 0]));
        assert_eq!(info(&["[]", "[[1, 2]]"]), (INTEGERS, vec![0, 2]));
        assert_eq!(info(&["[]"]), (FieldKind::Other, vec![0]));
        for nulls in ["[null]", "[null, null]"] {
            assert_eq!(info(&["[[1, 2], [3, 4]]", nulls]).1.len(), 2, "lists are missing");
            assert_eq!(info(&[nulls, "[[[1], [2]]]"]).1.len(), 3);
            assert_eq!(info(&["[1.5]", nulls]).1.len(), 1, "numbers are missing");
        }
        assert_eq!(info(&["[1, 2]", "[3]", "[[4]]"]), (INTEGERS, vec![0]));
        assert_eq!(info(&["[[], [null]]", "[[[1]]]"]), (INTEGERS, vec![0, 0, 1]));
        assert_eq!(info(&["1", "[1]"]), (INTEGERS, vec![0]));
        assert_eq!(info(&["[\"a\", \"b\"]"]), (FieldKind::Text, vec![2]));
    }

    #[test]
    fn leaves_are_called_by_key_or_pointer() {
        let mut found = Vec::new();
        let raw = r#"{"a": 1, "b": {"c": [2], "d/e": {}, "f": {"g~": 3}}, "/h": 4, "": 5, "\u00e9": 6}"#;
        each_leaf(raw, &mut |name, value| {
            found.push(format!("{name}={value}"));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, ["a=1", "/b/c=[2]", "/b/f/g~0=3", "/~1h=4", "/=5", "é=6"]);
    }
}
