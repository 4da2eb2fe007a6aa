//! The class of a sample, from one of its members: a name or an index.

use std::borrow::Cow;

use crate::error::{Error, ErrorKind, Result};

use super::value::{Pointer, Value};

/// The class of a sample whose class can't be read.
pub(super) const NO_CLASS: u32 = u32::MAX;

/// A flag in the label of a sample: its class has a name, and the names of all archives are not known yet.
pub(super) const IS_NAME: u32 = 1 << 31;

/// Where the class of a sample is written.
#[derive(Clone, Debug)]
pub(super) struct ClassField {
    /// Which of the wanted members holds it.
    pub(super) member: usize,
    pub(super) pointer: Option<Pointer>,
    /// The name of its tensor.
    pub(super) name: String,
    pub(super) tensor: usize,
}

/// What a member says about a class.
pub(super) enum Said<'a> {
    /// An index below [`IS_NAME`].
    Index(u32),
    Name(Cow<'a, str>),
}

impl ClassField {
    /// The class in a member.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a value that can be neither name nor index.
    pub(super) fn read<'a>(&self, bytes: &'a [u8]) -> Result<Said<'a>> {
        let value = Value::of(bytes, self.pointer.as_ref())?;
        let index = value.to_i64().and_then(|index| u32::try_from(index).ok()).filter(|index| *index < IS_NAME);
        if self.pointer.is_none() {
            // The text as it is written, because a name may begin with zeros.
            let text = super::value::text(bytes)?.trim();
            return Ok(match index.filter(|index| index.to_string() == text) {
                Some(index) => Said::Index(index),
                None => Said::Name(text.into()),
            });
        }
        match (value, index) {
            (Value::Text(name), _) => Ok(Said::Name(name)),
            (_, Some(index)) => Ok(Said::Index(index)),
            (Value::Integer(number), None) => Ok(Said::Name(number.to_string().into())),
            (value, None) => Err(Error::new(
                ErrorKind::Data,
                format!("the class is {value}; expected its name, or its index from 0"),
            )),
        }
    }
}

/// A number that is written as a text.
pub(super) fn number_of(name: &str) -> Option<i64> {
    Value::of(name.as_bytes(), None).ok()?.to_i64()
}
