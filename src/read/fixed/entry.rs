//! What formats of fixed records make of fields.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::{Codec, Field, Numbers};
use crate::schema::Role;

/// The name, type and role of the only tensor of such a file, if fields ask for it.
///
/// # Errors
///
/// [`ErrorKind::Config`] for several fields, and for one that is not of numbers.
pub(in crate::read) fn only_field(format: &str, fields: &[(String, Field)]) -> Result<Option<(String, DType, Role)>> {
    let (name, field) = match fields {
        [] => return Ok(None),
        [one] => one,
        [_, (second, _), ..] => {
            let message = format!("{format} holds one field; add a source for each other");
            return Err(Error::new(ErrorKind::Config, message).at_column(second));
        }
    };
    match &field.codec {
        Codec::Numbers(Numbers { dtype, shape: None, max_len: None, ragged: false, .. }) if !field.is_file => {
            Ok(Some((name.clone(), *dtype, field.role_or_default())))
        }
        _ => Err(Error::new(ErrorKind::Config, format!("{format} holds numbers")).at_column(name)),
    }
}

/// Options with the name, type and role that fields ask for.
macro_rules! with_only_field {
    ($options:expr, $at:expr, $format:expr) => {
        match crate::read::fixed::only_field($format, $at.fields).map_err(|error| error.at_path($at.path))? {
            None => $options.clone(),
            Some((name, dtype, role)) => {
                let mut options = $options.clone();
                (options.name, options.dtype, options.role) = (Some(name), Some(dtype), role);
                options
            }
        }
    };
}
pub(in crate::read) use with_only_field;
