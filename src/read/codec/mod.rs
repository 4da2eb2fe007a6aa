//! Codecs: from the values of a field to tensors, whatever container they come from. One file a codec.

mod array;
mod audio;
mod contract;
mod image;
mod list;
mod names;
mod number;
mod outside;
mod targets;
mod text;
mod tokenizer;

#[cfg(test)]
mod tests;

use crate::error::{Error, ErrorKind, Result};

use super::container::FieldInfo;
use super::fields::{Codec, Field};

pub(super) use contract::{Context, Decode, Made, Varying};
pub(super) use names::Names;
pub(super) use text::text_of;

/// The codec of a field. `infos` is what is known of its fields in the container. `names` are the names found in all
/// records, if it needs them (see [`needs_names`]). `first` is the value in the first record, for codecs that look at
/// it.
///
/// # Errors
///
/// [`ErrorKind::Config`] where the container's field can't become this.
pub(super) fn make(
    name: &str,
    field: &Field,
    infos: &[Option<&FieldInfo>],
    names: Vec<Names>,
    first: Option<&[u8]>,
    varying: &mut Varying,
) -> Result<Made> {
    let role = field.role_or_default();
    let made = match &field.codec {
        Codec::Image(image) => image::make(name, role, image, varying),
        Codec::Numbers(numbers) => match list::of_lists(numbers, field.is_several(), infos) {
            true => list::make(name, role, numbers, infos, varying),
            false => number::make(name, role, numbers, field),
        },
        Codec::Class { names: listed, one_hot, dtype } => {
            let wanted = names::Wanted { fields: infos.len(), dtype: *dtype, missing: None };
            names::classes(name, role, listed.as_deref(), names, *one_hot, wanted)
        }
        Codec::Category { names: listed, missing, dtype } => {
            let wanted = names::Wanted { fields: infos.len(), dtype: *dtype, missing: *missing };
            names::categories(name, role, listed.as_deref(), names, wanted)
        }
        Codec::Text { max_len, longer } => text::make(name, role, *max_len, *longer, infos.len()),
        Codec::Tokenizer(tokenizer) => tokenizer::make(name, role, tokenizer, varying),
        Codec::Targets(targets) => targets::make(name, role, targets, infos.len(), varying),
        Codec::Audio(audio) => audio::make(name, role, audio, varying),
        Codec::Array(array) => array::make(name, role, array, infos, first),
        Codec::Outside(codec) => outside::make(codec, infos, varying),
    };
    let single = matches!(field.codec, Codec::Image(_) | Codec::Audio(_) | Codec::Tokenizer(_) | Codec::Array(_));
    if single && infos.len() != 1 {
        return Err(
            Error::new(ErrorKind::Config, "several fields are named; such a tensor is made of one").at_column(name)
        );
    }
    made.map_err(|error| error.at_column(name))
}

/// Whether a codec needs to know the names in all records.
pub(super) fn needs_names(field: &Field) -> bool {
    matches!(field.codec, Codec::Class { names: None, .. } | Codec::Category { names: None, .. })
}

/// Whether a codec needs to know the value of the first record.
pub(super) fn needs_first(field: &Field) -> bool {
    matches!(&field.codec, Codec::Array(array) if array.stored.is_none() && (array.shape.is_none() || array.dtype.is_none()))
}
