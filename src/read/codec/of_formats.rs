//! The codecs of what single formats hold: pictures, sounds, arrays, tokens.

use crate::decode::{ImageColour, ImageOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::read::container::FieldInfo;
use crate::read::fields::{Codec, Field};
use crate::schema::Role;

use super::contract::{Made, Varying};
use super::{array, audio, image, list, number, targets, tokenizer};

/// As [`make`](super::make), for the codecs that are left.
pub(super) fn make(
    name: &str,
    role: Role,
    field: &Field,
    infos: &[Option<&FieldInfo>],
    first: Option<&[u8]>,
    varying: &mut Varying,
) -> Result<Made> {
    let codec = &field.codec;
    if infos.len() != 1 && !matches!(codec, Codec::Targets(_)) {
        return Err(Error::new(ErrorKind::Config, "several fields are named; such a tensor is made of one"));
    }
    match codec {
        Codec::Image(image) => image::make(name, role, image, varying),
        Codec::Tokenizer(tokenizer) => tokenizer::make(name, role, tokenizer, varying),
        Codec::Targets(targets) => targets::make(name, role, targets, infos.len(), varying),
        Codec::Audio(audio) => audio::make(name, role, audio, varying),
        Codec::Array(array) => match array::as_numbers(role, array, infos)? {
            Some(numbers) if numbers.shape.is_some() => list::make(name, role, &numbers, infos, varying),
            Some(numbers) => number::make(name, role, &numbers, field),
            None => array::make(name, role, array, first),
        },
        _ => Err(Error::new(ErrorKind::Config, "this codec is made elsewhere")),
    }
}

/// Whether a codec needs to know the value of the first record.
pub(in crate::read) fn needs_first(field: &Field) -> bool {
    matches!(&field.codec, Codec::Array(array) if array.stored.is_none() && (array.shape.is_none() || array.dtype.is_none()))
}

/// For each codec, by the pictures that they decode: a place for its upright size, which a map, and the picture of its
/// record with the same geometry, have in common.
///
/// # Errors
///
/// [`ErrorKind::Config`] if there are more than there is room for.
pub(in crate::read) fn common_sizes(
    pictures: &[Option<&ImageOptions>],
    varying: &mut Varying,
) -> Result<Vec<Option<usize>>> {
    let mut slots = vec![None; pictures.len()];
    let is_map = |options: &ImageOptions| options.colour == ImageColour::Index;
    for (at, map) in pictures.iter().enumerate() {
        let Some(map) = map.filter(|options| is_map(options) && options.geometry.is_some()) else { continue };
        let is_its_own = |options: &&ImageOptions| !is_map(options) && options.geometry == map.geometry;
        if let Some(picture) = pictures.iter().position(|options| options.as_ref().is_some_and(is_its_own)) {
            slots[picture] = Some(slots[picture].map_or_else(|| varying.slot(), Ok)?);
            slots[at] = slots[picture];
        }
    }
    Ok(slots)
}
