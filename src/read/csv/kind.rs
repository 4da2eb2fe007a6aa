//! The kind of a column, from all its fields.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::classes::TextHash;
use super::value::{Value, whole};

/// Most distinct texts that are collected as the classes of one column.
const MAX_CLASSES: usize = 1 << 16;

/// Most bytes of these texts together.
const MAX_CLASS_BYTES: usize = 16 << 20;

/// The types of values that were seen in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen(u8);

impl Seen {
    const INTEGERS: u8 = 1;
    const FRACTIONS: u8 = 2;
    const TEXTS: u8 = 4;

    pub(super) fn observe(&mut self, value: Value) {
        self.0 |= match value {
            Value::Missing => 0,
            Value::Integer(_) => Self::INTEGERS,
            Value::Float(_) => Self::FRACTIONS,
            Value::Text => Self::TEXTS,
        };
    }

    /// Adds everything that `other` observed.
    pub(super) fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn is_number(self) -> bool {
        self.0 & Self::TEXTS == 0
    }

    pub(super) fn is_integer(self) -> bool {
        self.0 == Self::INTEGERS
    }
}

/// What is known of a column from all of its values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kind {
    pub(crate) count: u64,
    pub(crate) missing: u64,
    pub(crate) fractions: bool,
    pub(crate) texts: bool,
    /// Whether there are numbers that are no integers, however they are written: 2.5, but not 2.0.
    parts: bool,
    /// Smallest and largest integer, 2.0 among them.
    pub(crate) range: Option<(i64, i64)>,
    /// The distinct fields; `None` if there are too many.
    distinct: Option<HashSet<Box<[u8]>, TextHash>>,
    distinct_bytes: usize,
}

impl Kind {
    /// A column; `wanted` says whether its distinct texts may be needed as classes.
    pub(crate) fn with_classes(wanted: bool) -> Self {
        Self { distinct: wanted.then(HashSet::default), ..Self::default() }
    }

    pub(crate) fn observe(&mut self, field: &[u8], value: Value) {
        match value {
            Value::Missing => {
                self.missing += 1;
                return;
            }
            Value::Integer(number) => self.extend(number),
            Value::Float(_) => {
                self.fractions = true;
                match whole(field.trim_ascii()).filter(|_| !self.parts) {
                    Some(number) => self.extend(number),
                    None => self.parts = true,
                }
            }
            Value::Text => self.texts = true,
        }
        self.count += 1;
        self.collect(field, Into::into);
    }

    fn extend(&mut self, number: i64) {
        let (low, high) = self.range.unwrap_or((number, number));
        self.range = Some((low.min(number), high.max(number)));
    }

    /// Whether this field was observed before, so that observing it again changes only the count.
    pub(super) fn knows(&self, field: &[u8]) -> bool {
        self.distinct.as_ref().is_some_and(|distinct| distinct.contains(field))
    }

    /// Adds a text to the distinct ones, unless there are too many.
    fn collect<T: AsRef<[u8]>>(&mut self, text: T, keep: impl FnOnce(T) -> Box<[u8]>) {
        if let Some(distinct) = &mut self.distinct {
            if !distinct.contains(text.as_ref()) {
                self.distinct_bytes += text.as_ref().len();
                distinct.insert(keep(text));
            }
            if distinct.len() > MAX_CLASSES || self.distinct_bytes > MAX_CLASS_BYTES {
                self.distinct = None;
            }
        }
    }

    /// Adds everything that `other` observed.
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.missing += other.missing;
        self.fractions |= other.fractions;
        self.texts |= other.texts;
        self.parts |= other.parts;
        let both = [self.range, other.range].into_iter().flatten();
        self.range = both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        match other.distinct {
            Some(distinct) => distinct.into_iter().for_each(|text| self.collect(text, |text| text)),
            None => self.distinct = None,
        }
    }

    /// Whether the distinct texts are wanted, and there are not too many.
    pub(crate) fn collects(&self) -> bool {
        self.distinct.is_some()
    }

    pub(crate) fn is_number(&self) -> bool {
        !self.texts
    }

    pub(crate) fn is_integer(&self) -> bool {
        !self.texts && !self.fractions && self.range.is_some()
    }

    /// Whether all are integers, some perhaps written as 2.0.
    pub(super) fn is_whole(&self) -> bool {
        !self.texts && !self.parts && self.range.is_some()
    }

    /// The distinct texts, in no order; `None` if there were too many to collect.
    pub(crate) fn classes(&self) -> Option<impl Iterator<Item = &[u8]>> {
        self.distinct.as_ref().map(|distinct| distinct.iter().map(|text| &**text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learnt_in_parts_is_what_is_learnt_at_once() {
        let fields: Vec<String> =
            (0..1000).map(|i| ["7", "-2.5", "x", "", "12", "3.0"][i % 6].repeat(i / 6 % 3)).collect();
        let observe = |fields: &[String]| {
            let mut kind = Kind::with_classes(true);
            for field in fields {
                let value = match field.parse::<i64>() {
                    Ok(number) => Value::Integer(number),
                    Err(_) if field.is_empty() => Value::Missing,
                    Err(_) if field.parse::<f64>().is_ok() => Value::Float(field.parse().unwrap()),
                    Err(_) => Value::Text,
                };
                kind.observe(field.as_bytes(), value);
            }
            kind
        };
        // Which integers are noted beside numbers that are none depends on their order, and nobody asks for them.
        let told = |kind: Kind| Kind { range: kind.range.filter(|_| !kind.parts), ..kind };
        let whole: Vec<String> = fields.iter().filter(|field| !field.contains(['x', '-'])).cloned().collect();
        for (fields, cut) in [(&fields, 0), (&fields, 1), (&fields, 500), (&fields, 1000), (&whole, 200)] {
            let mut kind = observe(&fields[..cut]);
            kind.merge(observe(&fields[cut..]));
            assert_eq!(told(kind), told(observe(fields)));
        }
        let many: Vec<String> = (0..MAX_CLASSES + 1).map(|i| format!("t{i}")).collect();
        let mut kind = observe(&many[..MAX_CLASSES]);
        assert!(kind.collects());
        kind.merge(observe(&many[MAX_CLASSES..]));
        assert!(!kind.collects() && !observe(&many).collects());
    }
}
