//! Choosing samples with the user's own function.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::read::Value;

/// The fields of a record that decide whether it is used; see [`Loader::filter_by`](crate::Loader::filter_by).
pub struct Chosen<'a> {
    names: &'a [String],
    values: &'a dyn Fn(usize) -> Value<'a>,
}

impl fmt::Debug for Chosen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.names.iter().enumerate().map(|(nth, name)| (name, (self.values)(nth).describe()));
        f.debug_map().entries(values).finish()
    }
}

impl<'a> Chosen<'a> {
    /// The field as a number, also if it is text that is a number; for a large integer, the nearest f64. `None` if it
    /// is not a number, or missing.
    ///
    /// # Panics
    ///
    /// If the field is not among those that were named.
    pub fn number(&self, field: &str) -> Option<f64> {
        match self.value(field) {
            Value::Bool(flag) => Some(flag.into()),
            Value::I64(number) => Some(number as f64),
            Value::U64(number) => Some(number as f64),
            Value::F64(number) => Some(number),
            Value::Text(text) => text.trim().parse().ok().filter(|number: &f64| !number.is_nan()),
            _ => None,
        }
    }

    /// The field as an exact integer, also if it is text that is an integer. `None` if it is not an integer, does not
    /// fit, or is missing.
    ///
    /// # Panics
    ///
    /// As [`number`](Self::number).
    pub fn integer(&self, field: &str) -> Option<i64> {
        match self.value(field) {
            Value::Bool(flag) => Some(flag.into()),
            Value::I64(number) => Some(number),
            Value::U64(number) => number.try_into().ok(),
            Value::F64(number) => (number.fract() == 0.0).then_some(number as i128)?.try_into().ok(),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// The field as text; `None` if it is missing, or a number by its type. A number that is written as text, as in CSV and
    /// JSON Lines, is text as it is written.
    ///
    /// # Panics
    ///
    /// As [`number`](Self::number).
    pub fn text(&self, field: &str) -> Option<&'a str> {
        match self.value(field) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The field with its type in the record: missing, true or false, an integer, a floating point number, or text. In
    /// CSV and JSON Lines, whatever is not missing is text.
    ///
    /// # Panics
    ///
    /// As [`number`](Self::number).
    pub fn value(&self, field: &str) -> Value<'a> {
        let nth = self.names.iter().position(|name| name == field);
        (self.values)(nth.unwrap_or_else(|| panic!("{field:?} is none of the fields {:?} to choose by", self.names)))
    }
}

type KeepRecord = dyn Fn(&Chosen<'_>) -> Result<bool> + Send + Sync;

/// A function that decides which samples are used, and the fields that it reads.
#[derive(Clone)]
pub(super) struct Keep {
    pub(super) names: Vec<String>,
    keep: Arc<KeepRecord>,
}

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Keep {
    pub(super) fn new(names: Vec<String>, keep: impl Fn(&Chosen<'_>) -> Result<bool> + Send + Sync + 'static) -> Self {
        Self { names, keep: Arc::new(keep) }
    }

    /// Whether a record with these values is used.
    ///
    /// # Errors
    ///
    /// Those of the function, and [`ErrorKind::Panicked`] if it panics.
    pub(super) fn keeps<'a>(&'a self, values: &'a dyn Fn(usize) -> Value<'a>) -> Result<bool> {
        let chosen = Chosen { names: &self.names, values };
        catch_unwind(AssertUnwindSafe(|| (self.keep)(&chosen))).unwrap_or_else(|cause| {
            let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref().copied());
            Err(Error::new(ErrorKind::Panicked, format!("filter_by: {}", text.unwrap_or("a panic without a text"))))
        })
    }
}
