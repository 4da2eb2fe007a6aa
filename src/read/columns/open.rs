//! Opening files of columns, and what several of them must have in common.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Field;

use crate::error::{Error, ErrorKind, Result};
use crate::read::parallel;
use crate::read::paths::is_hidden;
use crate::storage::{Files, Input};

use super::leaves::{Leaf, leaves};

/// The crates that read columns panic at some kinds of damage.
pub(in crate::read) fn foreseen<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        tracing::debug!(panic = Error::from_panic(&*panic).message(), "a decoder of columns panicked");
        Err(Error::new(ErrorKind::Data, "the file is damaged: the data here can't be decoded; create the file again"))
    })
}

/// Opens each file by `open`, and checks that all have the fields of the first. Returns the fields that are read, and
/// those that are not.
pub(in crate::read) fn open_all<T: Send>(
    files: &Files,
    paths: &[PathBuf],
    open: impl Fn(&Files, &Path) -> Result<T> + Sync,
    columns: impl Fn(&T) -> Vec<Field>,
) -> Result<(Vec<T>, Vec<Leaf>, Vec<Leaf>)> {
    let mut opened: Vec<T> = Vec::new();
    let mut first: Option<Vec<Field>> = None;
    let open = |(): &mut (), nth: u64| {
        let path = &paths[nth as usize];
        foreseen(|| open(files, path)).map_err(|error| error.at_path(path))
    };
    parallel::in_order(parallel::thread_count(None), paths.len() as u64, open, |file| {
        let own = columns(&file);
        match &first {
            None => first = Some(own),
            Some(first) if *first == own => {}
            Some(first) => return Err(other_columns(first, &own, &paths[0]).at_path(&paths[opened.len()])),
        }
        opened.push(file);
        Ok(())
    })?;
    let Some(first) = first else { return Err(Error::new(ErrorKind::NotFound, "no file is named")) };
    let (read, refused) = fields_of(&first);
    Ok((opened, read, refused))
}

/// The fields that are read, and those that are not.
pub(in crate::read) fn fields_of(columns: &[Field]) -> (Vec<Leaf>, Vec<Leaf>) {
    leaves(columns).into_iter().partition(|leaf| leaf.refusal.is_none())
}

#[cold]
fn other_columns(first: &[Field], own: &[Field], path: &Path) -> Error {
    let different = first.iter().zip(own).find(|(first, own)| first != own);
    let what = match different {
        Some((first, own)) if first.name() != own.name() => {
            format!("a column is called {:?}, but {:?}", own.name(), first.name())
        }
        Some((first, own)) if first.data_type() != own.data_type() => {
            format!("column {:?} is of type {}, but of {}", own.name(), own.data_type(), first.data_type())
        }
        Some((first, own)) => {
            format!("column {:?} has Arrow's notes {:?}, but {:?}", own.name(), own.metadata(), first.metadata())
        }
        None => format!("there are {} columns, but {}", own.len(), first.len()),
    };
    Error::new(
        ErrorKind::Schema,
        format!("{what} in {}; files that are read as one have the same columns", path.display()),
    )
}

/// Whether a file's name fits a format and is not hidden.
pub(in crate::read) fn is_visible(path: &Path, has_name: impl Fn(&str) -> bool) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    !is_hidden(&name) && has_name(&name)
}

/// A part of a file that is in memory or mapped, without copying it.
pub(in crate::read) fn part_of(input: &Arc<Input>, range: Range<u64>) -> Option<bytes::Bytes> {
    let len = input.slice()?.len();
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(len);
    let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
    Some(bytes::Bytes::from_owner(Part(input.clone(), start..end)))
}

struct Part(Arc<Input>, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.0.slice().and_then(|bytes| bytes.get(self.1.clone())).unwrap_or_default()
    }
}
