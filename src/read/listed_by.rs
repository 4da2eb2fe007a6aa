//! A table whose records name files, and what is wrong with records that name none.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Location};

use super::Scratch;
use super::container::{Container, Table, read_one};

/// For how many records the reason is kept.
const MOST: usize = 1000;

/// The table that names files, if one does.
#[derive(Clone, Default)]
pub(super) struct ListedBy {
    table: Table,
    /// Why records name no file, for the first of those.
    nameless: Arc<HashMap<u64, Error>>,
}

impl ListedBy {
    /// Looks at these records of `container`, whose `field` names the files, and which will be the `table`. What can't
    /// be read is a reason, too.
    pub(super) fn of(
        table: &Table,
        container: &dyn Container,
        field: &str,
        records: impl Iterator<Item = u64>,
    ) -> Self {
        let mut scratch = Scratch::default();
        let why = |record| match read_one(container, record, &mut scratch, &mut |_, _| Ok(())) {
            Ok(()) => (record, no_name(record).at(container.place(record)).at_column(field)),
            Err(error) => (record, error.at_record(record)),
        };
        Self { table: table.clone(), nameless: Arc::new(records.take(MOST).map(why).collect()) }
    }

    /// The table, whose records are named independently of the fields that are read.
    pub(super) fn table(&self) -> Option<&dyn Container> {
        self.table.get().map(|table| &**table)
    }

    /// The error for a record that names no file.
    pub(super) fn error(&self, record: u64) -> Error {
        let known = self.nameless.get(&record);
        let again = |error: &Error| Error::new(error.kind(), error.message().to_owned()).at(error.location().clone());
        known.map_or_else(|| no_name(record), again)
    }

    /// Where the record is, if it names no file.
    pub(super) fn place(&self, record: u64) -> Option<Location> {
        Some(self.nameless.get(&record)?.location().clone())
    }
}

#[cold]
pub(super) fn no_name(record: u64) -> Error {
    Error::new(ErrorKind::Data, "the record names no file").at_record(record)
}
