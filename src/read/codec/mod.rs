//! Codecs: from the values of a field to tensors, whatever container they come from. One file a codec.

#[cfg(feature = "formats")]
mod array;
#[cfg(feature = "formats")]
mod audio;
mod contract;
#[cfg(feature = "formats")]
mod image;
mod list;
mod names;
mod number;
#[cfg_attr(not(feature = "formats"), path = "no_formats.rs")]
mod of_formats;
mod outside;
#[cfg(feature = "formats")]
mod targets;
mod text;
#[cfg(feature = "formats")]
mod tokenizer;

#[cfg(all(test, feature = "formats"))]
mod tests;

use crate::error::Result;

use super::container::FieldInfo;
use super::fields::{Codec, Field};

pub(super) use contract::{Context, Decode, Made, Varying};
pub(super) use names::Names;
pub(super) use number::check_missing;
pub(super) use of_formats::{common_sizes, needs_first};
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
    #[cfg_attr(not(feature = "formats"), expect(unused_variables, reason = "looked at for arrays"))] first: Option<
        &[u8],
    >,
    varying: &mut Varying,
) -> Result<Made> {
    let role = field.role_or_default();
    let made = match &field.codec {
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
        Codec::Outside(codec) => outside::make(codec, infos, varying),
        #[cfg(feature = "formats")]
        _ => of_formats::make(name, role, field, infos, first, varying),
    };
    made.map_err(|error| error.at_column(name))
}

/// Whether a codec uses text.
pub(super) fn reads_text(field: &Field) -> bool {
    match &field.codec {
        Codec::Text { .. } => true,
        #[cfg(feature = "formats")]
        Codec::Tokenizer(_) => true,
        _ => false,
    }
}

/// Whether a codec needs to know the names in all records.
pub(super) fn needs_names(field: &Field) -> bool {
    matches!(field.codec, Codec::Class { names: None, .. } | Codec::Category { names: None, .. })
}
