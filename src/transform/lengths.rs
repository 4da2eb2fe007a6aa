use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Extents, MAX_EXTENTS};

/// How a length that varies from sample to sample changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Length {
    #[default]
    AsItIs,
    MultipleOf(u32),
    Exactly(u32),
}

/// The least number that is a multiple of both.
pub(super) fn common_multiple(one: u32, other: u32) -> Option<u32> {
    let (mut a, mut b) = (one, other);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    one.checked_div(a)?.checked_mul(other)
}

/// How all lengths of a sample change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lengths(pub(crate) [Length; MAX_EXTENTS]);

impl Lengths {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a sample that is too long.
    pub(crate) fn apply(&self, extents: Extents) -> Result<Extents> {
        let mut padded = extents;
        for (length, rule) in padded.0.iter_mut().zip(&self.0) {
            *length = match *rule {
                Length::AsItIs => *length,
                Length::Exactly(exactly) if *length <= exactly => exactly,
                Length::Exactly(exactly) => {
                    let message = format!("has length {length}, but must be padded to {exactly}");
                    return Err(Error::new(ErrorKind::Data, message));
                }
                Length::MultipleOf(multiple) => length.checked_next_multiple_of(multiple).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Limit,
                        format!("has length {length}, which has no next multiple of {multiple}"),
                    )
                })?,
            };
        }
        Ok(padded)
    }
}
