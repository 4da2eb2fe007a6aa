//! Settings of earlier versions, which said in options what becomes of a file's numbers: said as the field that it is.

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
/// What was wrong with them in the first place.
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
