//! Opens the files that fields name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::container::{Container, Table};
use crate::read::fields::{Codec, Field};
use crate::read::listed::ListedFiles;
use crate::read::value::Value;
use crate::read::{ColumnRef, RecordReader};
use crate::storage::Files;

use super::FieldReader;
use super::scan::{find, scan};

/// Whether both are views of the pictures in the same files.
pub(super) fn are_views((name, field): (&str, &Field), (other_name, other): (&str, &Field)) -> bool {
    let are_pictures = matches!((&field.codec, &other.codec), (Codec::Image(_), Codec::Image(_)));
    are_pictures && field.columns(name) == other.columns(other_name)
}

/// A reader of the files that these fields of a table name: one field, or [views](are_views) of one picture.
pub(super) fn of_files(
    (container, table): (&mut dyn Container, &Table),
    group: &[(String, Field)],
    files: &Files,
    budget: &MemoryBudget,
) -> Result<Arc<dyn RecordReader>> {
    let (name, field) = &group[0];
    let listed = listed((container, table), name, field, files, budget)?;
    // It reads only what is wanted of a file.
    if let Codec::Audio(audio) = &field.codec {
        return Ok(Arc::new(listed.into_sounds(audio.options(), (name, field.role_or_default()), budget)?));
    }
    let of_bytes = |field: &Field| Field { is_file: false, from: vec![ColumnRef::Position(0)], ..field.clone() };
    let own: Vec<_> = group.iter().map(|(name, field)| (name.clone(), of_bytes(field))).collect();
    Ok(Arc::new(FieldReader::new(listed, &own, budget)?))
}

/// The files that a field names, one per record.
fn listed(
    (container, table): (&mut dyn Container, &Table),
    name: &str,
    field: &Field,
    files: &Files,
    budget: &MemoryBudget,
) -> Result<ListedFiles> {
    let columns = field.columns(name);
    let [column] = columns.as_slice() else {
        return Err(Error::new(ErrorKind::Config, "a single field names the files").at_column(name));
    };
    container.forget();
    let number = find(container, column, name)?;
    let container = &*container;
    let root = if container.is_empty() { None } else { container.place(0).path };
    let root = root.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let mut listed = ListedFiles::new(files, root, budget)?;
    scan(
        container,
        &[number],
        Vec::new,
        |found: &mut Vec<(u64, bool, PathBuf)>, _, record, value| {
            let text = match value {
                Value::Text(text) => text,
                Value::Bytes(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
                _ => "",
            };
            // No file has such a name.
            let text = if text.contains('\0') { "" } else { text };
            // Most files lie in the same folder as the first record's.
            let place = container.place(record).path;
            let folder = place.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
            let is_here = folder == root || text.is_empty();
            found.push((record, is_here, if is_here { text.into() } else { folder.join(text) }));
            Ok(())
        },
        |found| {
            found.into_iter().try_for_each(|(record, is_here, path)| match is_here {
                true => listed.push(record, &path),
                false => listed.push_elsewhere(record, &path),
            })
        },
    )?;
    listed.check(container.len()).map_err(|error| error.at_column(name))?;
    listed.is_listed_by(table, container, name);
    Ok(listed)
}
