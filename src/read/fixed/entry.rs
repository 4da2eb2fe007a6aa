//! What formats of fixed records make of fields.

use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::{ALL_OTHERS, Array, Codec, Field, Numbers};
use crate::read::format::{Open, Opened};
use crate::read::{ColumnRef, RecordReader};

use super::Wanted;

/// The tensor that is an unchanged record, except perhaps for its element type; `None` for a field that becomes
/// something else.
pub(in crate::read) fn plain<'a>(name: &'a str, field: &'a Field) -> Option<Wanted<'a>> {
    let (dtype, shape) = match &field.codec {
        Codec::Numbers(Numbers { dtype, shape: None, max_len: None, list: false, ragged: false, .. }) => {
            (Some(*dtype), None)
        }
        Codec::Array(Array { dtype, shape, stored: None }) => (*dtype, shape.as_deref()),
        _ => return None,
    };
    let role = field.role_or_default();
    let wanted = Wanted { name: Some(name), role, dtype, shape, of_class: false };
    (!field.is_file && !field.is_several()).then_some(wanted)
}

/// The same for a reader, which gives only such tensors and also classes that are their own indices.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a field that only a loader supports.
pub(in crate::read) fn wanted<'a>(name: &'a str, field: &'a Field) -> Result<Wanted<'a>> {
    match (&field.codec, plain(name, field)) {
        (_, Some(wanted)) => Ok(wanted),
        (Codec::Class { names: None, one_hot: false, dtype }, _) if !field.is_file && !field.is_several() => {
            let (role, dtype) = (field.role_or_default(), dtype.or(Some(DType::I64)));
            Ok(Wanted { name: Some(name), role, dtype, of_class: true, ..Wanted::default() })
        }
        _ => {
            let message =
                "the reader of such a file gives numbers, arrays or classes by their indices; a Loader makes more";
            Err(Error::new(ErrorKind::Config, message).at_column(name))
        }
    }
}

/// Opens a file whose records have a single field with any name: with its own reader if a tensor is an unchanged
/// record, otherwise as a field of numbers.
///
/// # Errors
///
/// Those of opening.
pub(in crate::read) fn open_only<R: RecordReader + 'static>(
    at: &Open<'_>,
    open: impl FnOnce(&Wanted<'_>) -> Result<R>,
) -> Result<Opened> {
    let fields = match at.fields {
        [] => return Ok(Opened::Readers(vec![Arc::new(open(&Wanted::default())?)])),
        fields => fields,
    };
    if let [(name, field)] = fields
        && let Some(wanted) = plain(name, field)
    {
        return Ok(Opened::Readers(vec![Arc::new(open(&wanted)?)]));
    }
    let named = fields.iter().flat_map(|(name, field)| field.columns(name)).find_map(|column| match column {
        ColumnRef::Name(name) if name != ALL_OTHERS => Some(name),
        _ => None,
    });
    let reader = open(&Wanted { name: named.as_deref(), ..Wanted::default() })?;
    Opened::reader(reader).into_values().map(Opened::Container)
}
