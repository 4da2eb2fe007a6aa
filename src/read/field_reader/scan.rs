//! Searches all records, or the first ones, when a reader is made.

use crate::error::{Error, ErrorKind, Result};
use crate::read::codec::{Names, needs_first, needs_names, reads_text};
use crate::read::container::{Container, FieldInfo, FieldKind, read_one};
use crate::read::fields::{Codec, Field};
use crate::read::value::Value;
use crate::read::{ColumnRef, Scratch, parallel};

/// Number of records that a thread takes at a time while names are collected.
const RECORDS_AT_ONCE: u64 = 128;

pub(super) fn find(container: &mut dyn Container, column: &ColumnRef, name: &str) -> Result<usize> {
    container.find(column).map_err(|error| no_field(container, error, name))
}

/// The same for the codec of `field`.
pub(super) fn find_for(field: &Field, container: &mut dyn Container, column: &ColumnRef, name: &str) -> Result<usize> {
    if !reads_text(field) {
        return find(container, column, name);
    }
    container.find_text(column).map_err(|error| no_field(container, error, name))
}

#[cold]
fn no_field(container: &dyn Container, error: Error, name: &str) -> Error {
    let error = error.at_column(name);
    match (container.is_empty(), error.path()) {
        (false, None) => match container.place(0).path {
            Some(path) => error.at_path(path),
            None => error,
        },
        _ => error,
    }
}

/// Gives the values of these fields in every record to `visit`, by their positions in `numbers`. Several threads each
/// have their own `T`; `merge` gets these in the order of the records. In a bad record all fields count as missing; it
/// is reported when it is read for its tensors.
///
/// # Errors
///
/// Those of `visit` and `merge`, and of reading where no record is at fault.
pub(super) fn scan<T: Send>(
    container: &dyn Container,
    numbers: &[usize],
    new: impl Fn() -> T + Sync,
    visit: impl Fn(&mut T, usize, u64, Value<'_>) -> Result<()> + Sync,
    merge: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let records = container.len();
    parallel::in_order(
        parallel::thread_count(None),
        records.div_ceil(RECORDS_AT_ONCE),
        |scratch: &mut Scratch, job| {
            let mut found = new();
            let ids: Vec<u64> = (job * RECORDS_AT_ONCE..records.min((job + 1) * RECORDS_AT_ONCE)).collect();
            let mut given = vec![false; numbers.len()];
            for (place, record) in ids.iter().enumerate() {
                given.fill(false);
                let mut stopped = None;
                let read = container.fetch(&ids, place, scratch).and_then(|()| {
                    container.read(*record, place, scratch, &mut |number, value| {
                        for nth in (0..numbers.len()).filter(|nth| numbers[*nth] == number) {
                            given[nth] = true;
                            if let Err(error) = visit(&mut found, nth, *record, value) {
                                stopped.get_or_insert(error);
                            }
                        }
                        Ok(())
                    })
                });
                match (stopped, read) {
                    (Some(error), _) => return Err(error),
                    (None, Err(error))
                        if !matches!(error.kind(), ErrorKind::Data | ErrorKind::Limit | ErrorKind::Unsupported) =>
                    {
                        return Err(error.at(container.place(*record)));
                    }
                    _ => {}
                }
                let absent = (0..numbers.len()).filter(|nth| !given[*nth]);
                absent.into_iter().try_for_each(|nth| visit(&mut found, nth, *record, Value::Missing))?;
            }
            Ok(found)
        },
        merge,
    )
}

/// The names of all fields that need them, one after another.
pub(super) fn names_in(container: &mut dyn Container, fields: &[(String, Field)]) -> Result<Vec<Names>> {
    let mut numbers = Vec::new();
    let mut kinds = Vec::new();
    for (name, field) in fields.iter().filter(|(_, field)| needs_names(field)) {
        for column in field.columns(name) {
            numbers.push(find(container, &column, name)?);
            kinds.push((name, matches!(field.codec, Codec::Category { .. })));
        }
    }
    let new = || kinds.iter().map(|(_, of_category)| Names::new(*of_category)).collect::<Vec<_>>();
    let mut all = new();
    if !numbers.is_empty() {
        let container = &*container;
        scan(
            container,
            &numbers,
            new,
            |found, nth, record, value| found[nth].add(record, value),
            |found| {
                let mut both = all.iter_mut().zip(found).zip(&kinds);
                both.try_for_each(|((all, found), (name, _))| all.merge(found).map_err(|error| error.at_column(*name)))
            },
        )?;
    }
    let mut named = all.iter().zip(&kinds);
    named.try_for_each(|(names, (name, _))| {
        names.check(|record| container.place(record)).map_err(|error| error.at_column(*name))
    })?;
    Ok(all)
}

/// What the container says of a field.
pub(super) fn info_of<'a>(infos: &'a [FieldInfo], column: &ColumnRef) -> Option<&'a FieldInfo> {
    match column {
        ColumnRef::Position(position) => infos.get(*position),
        ColumnRef::Name(name) => infos.iter().find(|info| info.name == *name),
    }
}

/// The bytes of the first record's fields, for the codecs that look at them.
pub(super) fn first_values(container: &mut dyn Container, fields: &[(String, Field)]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut firsts = vec![None; fields.len()];
    for ((name, field), first) in fields.iter().zip(&mut firsts).filter(|((_, field), _)| needs_first(field)) {
        if container.is_empty() {
            continue;
        }
        let column = &field.columns(name)[0];
        let number = find(container, column, name)?;
        // Of numbers, the container says what they are.
        if info_of(container.fields(), column).is_some_and(|info| matches!(info.kind, FieldKind::Numbers(_))) {
            continue;
        }
        read_one(&*container, 0, &mut Scratch::default(), &mut |found, value| {
            if let (true, Value::Bytes(bytes)) = (found == number, value) {
                *first = Some(bytes.to_vec());
            }
            Ok(())
        })?;
    }
    Ok(firsts)
}
