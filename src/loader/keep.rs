//! Which samples are taken, by a function of the user's own.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Known;

/// The fields of a record by which it is chosen: see [`Loader::filter_by`](crate::Loader::filter_by).
pub struct Chosen<'a> {
    names: &'a [String],
    values: &'a dyn Fn(usize) -> Known<'a>,
}

impl fmt::Debug for Chosen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.names.iter().enumerate().map(|(nth, name)| (name, (self.values)(nth)));
        f.debug_map().entries(values).finish()
    }
}

impl<'a> Chosen<'a> {
    /// The number that a field is, or that its text says, of a large integer the nearest one; `None` if it is none or missing.
    ///
    /// # Panics
    ///
    /// If the field is not among those that were named.
    pub fn number(&self, field: &str) -> Option<f64> {
        match self.value(field) {
            Known::Missing => None,
            Known::Integer(number) => Some(number as f64),
            Known::Number(number) => Some(number),
            Known::Text(text) => text.trim().parse().ok().filter(|number: &f64| !number.is_nan()),
        }
    }

    /// The integer that a field is, or that its text says, exactly; `None` if it is none, does not fit or is missing.
    ///
    /// # Panics
    ///
    /// As [`number`](Self::number).
    pub fn integer(&self, field: &str) -> Option<i64> {
        match self.value(field) {
            Known::Missing => None,
            Known::Integer(number) => number.try_into().ok(),
            Known::Number(number) => (number.fract() == 0.0).then_some(number as i128)?.try_into().ok(),
            Known::Text(text) => text.trim().parse().ok(),
        }
    }

    /// The text that a field is; `None` if it is a number or missing.
    ///
    /// # Panics
    ///
    /// As [`number`](Self::number).
    pub fn text(&self, field: &str) -> Option<&'a str> {
        match self.value(field) {
            Known::Text(text) => Some(text),
            _ => None,
        }
    }

    fn value(&self, field: &str) -> Known<'a> {
        let nth = self.names.iter().position(|name| name == field);
        (self.values)(nth.unwrap_or_else(|| panic!("{field:?} is none of the fields {:?} to choose by", self.names)))
    }
}

type KeepRecord = dyn Fn(&Chosen<'_>) -> bool + Send + Sync;

/// A function that says which samples are taken, and the fields that it looks at.
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
    pub(super) fn new(names: Vec<String>, keep: impl Fn(&Chosen<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { names, keep: Arc::new(keep) }
    }

    /// Whether a record with these values is taken.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Panicked`] where the function panics.
    pub(super) fn keeps<'a>(&'a self, values: &'a dyn Fn(usize) -> Known<'a>) -> Result<bool> {
        let chosen = Chosen { names: &self.names, values };
        catch_unwind(AssertUnwindSafe(|| (self.keep)(&chosen))).map_err(|cause| {
            let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref().copied());
            Error::new(ErrorKind::Panicked, format!("filter_by: {}", text.unwrap_or("a panic without a text")))
        })
    }
}
