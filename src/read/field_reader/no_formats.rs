//! Replaces fields that name files in a build without the formats of such files.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::RecordReader;
use crate::read::container::{Container, Table};
use crate::read::fields::Field;
use crate::storage::Files;

pub(super) fn are_views(_: (&str, &Field), _: (&str, &Field)) -> bool {
    false
}

/// # Errors
///
/// Always.
pub(super) fn of_files(
    _: (&mut dyn Container, &Table),
    group: &[(String, Field)],
    _: &Files,
    _: &MemoryBudget,
) -> Result<Arc<dyn RecordReader>> {
    let error = Error::new(ErrorKind::Unsupported, "`file` needs Ringfeed's feature `formats`");
    Err(match group.first() {
        Some((name, _)) => error.at_column(name),
        None => error,
    })
}
