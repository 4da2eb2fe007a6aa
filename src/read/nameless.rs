//! Records of a list that name no file, and what is wrong with them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Location};

use super::Scratch;
use super::container::{Container, read_one};

/// For how many records the reason is kept.
const MOST: usize = 1000;

/// Why records name no file, for the first of those.
#[derive(Clone, Default)]
pub(super) struct Nameless(Arc<HashMap<u64, Error>>);

impl Nameless {
    /// Looks at these records of `container`, whose `field` names the files. What can't be read is a reason, too.
    pub(super) fn of(container: &dyn Container, field: &str, records: impl Iterator<Item = u64>) -> Self {
        let mut scratch = Scratch::default();
        let why = |record| match read_one(container, record, &mut scratch, &mut |_, _| Ok(())) {
            Ok(()) => (record, no_name(record).at(container.place(record)).at_column(field)),
            Err(error) => (record, error.at_record(record)),
        };
        Self(Arc::new(records.take(MOST).map(why).collect()))
    }

    /// The error for such a record.
    pub(super) fn error(&self, record: u64) -> Error {
        let known = self.0.get(&record);
        let again = |error: &Error| Error::new(error.kind(), error.message().to_owned()).at(error.location().clone());
        known.map_or_else(|| no_name(record), again)
    }

    /// Where the record is, if it is one of these.
    pub(super) fn place(&self, record: u64) -> Option<Location> {
        Some(self.0.get(&record)?.location().clone())
    }
}

#[cold]
pub(super) fn no_name(record: u64) -> Error {
    Error::new(ErrorKind::Data, "the record names no file").at_record(record)
}
