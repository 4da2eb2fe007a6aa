//! Settings of earlier versions, in which options said how a file's numbers are decoded: translated to a field.

use serde::Deserialize;

use crate::dtype::DType;
use crate::read::fields::{Array, Class, Field, Numbers, instead_of, old_among};
use crate::schema::Role;
use crate::tree::{Fault, Node};

const OLD: [&str; 4] = ["name", "role", "dtype", "classes"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Old {
    name: Option<String>,
    role: Option<Role>,
    dtype: Option<DType>,
    classes: Option<Vec<String>>,
}

/// What to write instead of options that say what numbers become.
///
/// # Errors
///
/// The original error.
pub(in crate::read) fn advice(options: &Node) -> Result<Option<String>, Fault> {
    let Some((key, old)) = old_among(options, &OLD)? else { return Ok(None) };
    let Old { name, role, dtype, classes } = old;
    let is_label = role == Some(Role::Label);
    let mut field: Field = match (classes, dtype) {
        (Some(names), dtype) => dtype.map_or(Class::of(names.clone()), |dtype| Class::of(names).dtype(dtype)).into(),
        (None, Some(dtype)) => Numbers::of(dtype).into(),
        (None, None) => Array::new().into(),
    };
    field.role = role.filter(|role| *role != field.role_or_default());
    let usual = if is_label { "labels" } else { "features" };
    Ok(Some(instead_of(key, &[(name.unwrap_or_else(|| usual.to_owned()), field)])))
}
