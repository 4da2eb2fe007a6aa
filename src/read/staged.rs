//! The values of a record, kept until all of them are there.

use std::ops::Range;

use crate::dtype::NumberSlice;
use crate::error::Result;

use super::date_unit::DateUnit;
use super::value::{List, Value};

/// Values by number, in memory that is reused for the next record. A value that was not kept is missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Staged {
    values: Vec<Kept>,
    text: String,
    bytes: Vec<u8>,
    /// A text buffer for callers that join several values.
    spare: String,
}

#[derive(Clone, Debug, Default)]
enum Kept {
    #[default]
    Missing,
    Bool(bool),
    I64(i64),
    U64(u64),
    F64(f64),
    Time(i64, DateUnit),
    Decimal(Range<usize>),
    Text(Range<usize>),
    Bytes(Range<usize>),
    /// Several values. Code that looks at a whole record can't use them.
    Several,
}

/// Replaces several values.
struct Several;

impl List for Several {
    fn each(&self, _: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

impl Staged {
    /// Forgets all values.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.text.clear();
        self.bytes.clear();
    }

    /// Keeps a value as number `nth`.
    pub(crate) fn keep(&mut self, nth: usize, value: &Value<'_>) {
        let kept = match *value {
            Value::Missing => Kept::Missing,
            Value::Bool(flag) => Kept::Bool(flag),
            Value::I64(number) => Kept::I64(number),
            Value::U64(number) => Kept::U64(number),
            Value::F64(number) => Kept::F64(number),
            Value::Time(number, unit) => Kept::Time(number, unit),
            Value::Numbers(NumberSlice::I64([number])) => Kept::I64(*number),
            Value::Numbers(NumberSlice::U64([number])) => Kept::U64(*number),
            Value::Numbers(numbers) if numbers.len() == 1 => Kept::F64(numbers.at(0)),
            Value::Decimal(text) => Kept::Decimal(self.text_of(text)),
            Value::Text(text) => Kept::Text(self.text_of(text)),
            Value::Bytes(bytes) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Kept::Bytes(start..self.bytes.len())
            }
            Value::Numbers(_) | Value::List(_) => Kept::Several,
        };
        if self.values.len() <= nth {
            self.values.resize(nth + 1, Kept::Missing);
        }
        self.values[nth] = kept;
    }

    fn text_of(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// An empty text. Give its memory [back](Self::keep_spare) afterwards.
    pub(crate) fn take_spare(&mut self) -> String {
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        spare
    }

    pub(crate) fn keep_spare(&mut self, spare: String) {
        self.spare = spare;
    }

    /// The value that was kept as number `nth`.
    pub(crate) fn get(&self, nth: usize) -> Value<'_> {
        match self.values.get(nth).unwrap_or(&Kept::Missing) {
            Kept::Missing => Value::Missing,
            Kept::Bool(flag) => Value::Bool(*flag),
            Kept::I64(number) => Value::I64(*number),
            Kept::U64(number) => Value::U64(*number),
            Kept::F64(number) => Value::F64(*number),
            Kept::Time(number, unit) => Value::Time(*number, *unit),
            Kept::Decimal(range) => Value::Decimal(&self.text[range.clone()]),
            Kept::Text(range) => Value::Text(&self.text[range.clone()]),
            Kept::Bytes(range) => Value::Bytes(&self.bytes[range.clone()]),
            Kept::Several => Value::List(&Several),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_given_back() {
        let mut staged = Staged::default();
        for round in 0..2 {
            staged.clear();
            assert_eq!(staged.get(3).describe(), "no value", "round {round}");
            let values = [
                Value::Text("Oslo"),
                Value::Bytes(b"7"),
                Value::Missing,
                Value::Decimal("1.50"),
                Value::Text(""),
                Value::I64(-3),
                Value::U64(u64::MAX),
                Value::F64(0.1),
                Value::Bool(true),
                Value::Time(3, DateUnit::Days),
            ];
            for (nth, value) in values.iter().enumerate().rev() {
                staged.keep(nth, value);
            }
            for (nth, value) in values.iter().enumerate() {
                assert_eq!(staged.get(nth).describe(), value.describe());
            }
            staged.keep(1, &Value::Numbers(NumberSlice::F32(&[0.5])));
            staged.keep(2, &Value::Numbers(NumberSlice::F32(&[0.5, 1.0])));
            assert_eq!([staged.get(1).describe(), staged.get(2).describe()], ["0.5", "a list"]);
            staged.keep(1, &Value::Numbers(NumberSlice::I64(&[i64::MAX])));
            assert_eq!(staged.get(1).describe(), i64::MAX.to_string());
        }
    }
}
