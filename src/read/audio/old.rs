//! Settings of earlier versions, in which options said how each sound is decoded: translated to fields.

use serde::Deserialize;

use crate::decode::{AudioCrop, AudioOptions};
use crate::dtype::DType;
use crate::read::fields::{Audio, Class, Field, instead_of, old_among};
use crate::tree::{Fault, Node};

const OLD: [&str; 6] = ["rate", "length", "crop", "channels", "dtype", "classes"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Old {
    rate: Option<u32>,
    length: Option<usize>,
    crop: Option<AudioCrop>,
    channels: Option<usize>,
    dtype: Option<DType>,
    classes: Option<Vec<String>>,
}

/// What to write instead of options that say how sounds are decoded.
///
/// # Errors
///
/// The original error.
pub(in crate::read) fn advice(options: &Node) -> Result<Option<String>, Fault> {
    let Some((key, old)) = old_among(options, &OLD)? else { return Ok(None) };
    let Old { rate, length, crop, channels, dtype, classes } = old;
    let audio =
        AudioOptions { rate, length, crop, channels, dtype: dtype.unwrap_or(DType::F32), ..AudioOptions::default() };
    let label: Field = classes.map_or_else(Default::default, Class::of).into();
    let fields = [("audio".to_owned(), Audio::with(audio).into()), ("label".to_owned(), label)];
    Ok(Some(instead_of(key, &fields)))
}
