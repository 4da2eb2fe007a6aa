//! `"*"`: all fields of single numbers that no other tensor is made of.

use std::collections::HashMap;

use crate::error::{Error, ErrorKind, Result};
use crate::read::ColumnRef;
use crate::read::container::{Container, FieldInfo, FieldKind, find_field};

use super::{Codec, Field, Numbers};

/// The name that stands for all other fields of numbers.
pub(crate) const ALL_OTHERS: &str = "*";

impl Field {
    /// Whether it is made of all fields of numbers that no other tensor uses.
    pub(crate) fn is_of_others(&self) -> bool {
        matches!(self.from.as_slice(), [ColumnRef::Name(name)] if name == ALL_OTHERS)
    }

    /// Checks that `"*"` can become this.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if it can't.
    pub(crate) fn check_others(&self) -> Result<()> {
        match &self.codec {
            Codec::Numbers(Numbers { max_len: None, list: false, ragged: false, .. }) if !self.is_file => Ok(()),
            _ => {
                let message =
                    format!("{ALL_OTHERS:?} stands for fields of numbers; name the fields that this is made of");
                Err(Error::new(ErrorKind::Config, message))
            }
        }
    }
}

/// Whether a column is an index of pandas without a name, which numbers the rows of the frame that was written.
fn is_pandas_index(name: &str) -> bool {
    let level = name.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    level.is_some_and(|level| !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The fields that `fields` name, without `"*"`.
pub(crate) fn taken(fields: &[(String, Field)]) -> Vec<ColumnRef> {
    let named = fields.iter().filter(|(_, field)| !field.is_of_others());
    named.flat_map(|(name, field)| field.columns(name).into_iter().chain(field.codec.sides().to_vec())).collect()
}

/// The same fields, with `"*"` replaced by what it stands for in a container: fields that hold single numbers.
///
/// # Errors
///
/// As [`with_others_of`]; [`ErrorKind::NotFound`] for a field in `except` that the container does not have.
pub(crate) fn with_others(container: &mut dyn Container, fields: &[(String, Field)]) -> Result<Vec<(String, Field)>> {
    for (name, field) in fields.iter().filter(|(_, field)| field.is_of_others()) {
        let mut has_looked = false;
        for column in &field.except {
            let is_known = match column {
                ColumnRef::Position(_) => false,
                ColumnRef::Name(name) => {
                    let is_it = |known: &str| container.means_same(known, name);
                    container.fields().iter().any(|info| is_it(&info.name))
                        || container.left_out().iter().any(|(known, _)| is_it(known))
                }
            };
            if !is_known {
                has_looked = true;
                container.find(column).map_err(|error| error.at_column(name))?;
            }
        }
        if has_looked {
            container.forget();
        }
    }
    with_others_of(fields, container.fields(), |one, other| container.means_same(one, other))
}

/// The same for an array with these fields.
///
/// # Errors
///
/// As [`with_others_of`]; [`ErrorKind::NotFound`] for a field in `except` that is not there.
pub(crate) fn with_others_in(infos: &[FieldInfo], fields: &[(String, Field)]) -> Result<Vec<(String, Field)>> {
    for (name, field) in fields.iter().filter(|(_, field)| field.is_of_others()) {
        for column in &field.except {
            find_field(infos, column).map_err(|error| error.at_column(name))?;
        }
    }
    with_others_of(fields, infos, |one, other| one == other)
}

/// # Errors
///
/// [`ErrorKind::Config`] if nothing is left for it, or the codec takes no numbers.
fn with_others_of(
    fields: &[(String, Field)],
    infos: &[FieldInfo],
    means_same: impl Fn(&str, &str) -> bool,
) -> Result<Vec<(String, Field)>> {
    let taken = taken(fields);
    let mut first: HashMap<&str, usize> = HashMap::new();
    infos.iter().enumerate().for_each(|(at, info)| _ = first.entry(info.name.as_str()).or_insert(at));
    let mut fields = fields.to_vec();
    for (name, field) in fields.iter_mut().filter(|(_, field)| field.is_of_others()) {
        field.check_others().map_err(|error| error.at_column(&*name))?;
        let is_free = |at: usize, info: &FieldInfo| {
            let is_it = |other: &ColumnRef| match other {
                ColumnRef::Position(position) => *position == at,
                ColumnRef::Name(name) => means_same(name, &info.name),
            };
            !taken.iter().chain(&field.except).any(is_it)
        };
        let numbers = infos.iter().enumerate().filter(|(at, info)| {
            matches!(info.kind, FieldKind::Numbers(_))
                && info.shape.is_empty()
                && is_free(*at, info)
                && !is_pandas_index(&info.name)
        });
        // Of several fields with one name, the name means the first.
        let from: Vec<ColumnRef> = numbers
            .map(|(at, info)| match first[info.name.as_str()] == at {
                true => info.name.as_str().into(),
                false => ColumnRef::Position(at),
            })
            .collect();
        if from.is_empty() {
            let message = format!(
                "no field is left for {ALL_OTHERS:?}: there is no field of single numbers that no other \
                     tensor uses"
            );
            return Err(Error::new(ErrorKind::Config, message).at_column(&*name));
        }
        (field.from, field.several, field.except) = (from, true, Vec::new());
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn the_index_of_a_frame_of_pandas_is_no_feature() {
        let names = ["x", "__index_level_0__", "__index_level__", "__index_level_x__"];
        let infos = names.map(|name| FieldInfo::new(name, FieldKind::Numbers(DType::I64)));
        let found = |fields: &[(String, Field)]| with_others_in(&infos, fields).unwrap()[0].1.from.clone();
        let others = ("x".to_owned(), Numbers::f32().from(ALL_OTHERS));
        assert_eq!(found(&[others]), ["x", "__index_level__", "__index_level_x__"].map(ColumnRef::from));
        let twice = ["a", "b", "a"].map(|name| FieldInfo::new(name, FieldKind::Numbers(DType::I64)));
        let all = with_others_in(&twice, &[("x".to_owned(), Numbers::f32().from(ALL_OTHERS))]).unwrap();
        assert_eq!(all[0].1.from, ["a".into(), "b".into(), ColumnRef::Position(2)]);
        let named = ("row".to_owned(), Numbers::i64().from("__index_level_0__"));
        assert_eq!(found(&[named]), ["__index_level_0__"].map(ColumnRef::from));
    }
}
