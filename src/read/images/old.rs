//! Settings of earlier versions, in which options said how pictures are decoded: translated to fields.

use crate::decode::{ImageColour, ImageOptions, LabelFormat};
use crate::dtype::DType;
use crate::read::fields::{Class, Field, Image, instead_of, old_among};
use crate::tree::{Fault, Node};

const OLD: [&str; 16] = [
    "size",
    "fit",
    "resize",
    "dtype",
    "order",
    "colour",
    "augment",
    "geometry",
    "classes",
    "labels",
    "image_name",
    "label_name",
    "max_pixels",
    "jpeg",
    "strict",
    "dct_scaling",
];

/// What to write instead of options that say how pictures are decoded.
///
/// # Errors
///
/// The original error.
pub(in crate::read) fn advice(options: &Node) -> Result<Option<String>, Fault> {
    let Some((key, old)) = old_among::<ImageOptions>(options, &OLD)? else { return Ok(None) };
    let mut fields: Vec<(String, Field)> = vec![(old.image_name.clone(), Image::with(old.clone()).into())];
    if old.colour != ImageColour::Index && old.labels != LabelFormat::Off {
        fields.push((old.label_name.clone(), class_of(&old)));
    }
    Ok(Some(instead_of(key, &fields)))
}

/// The class that these options describe.
fn class_of(old: &ImageOptions) -> Field {
    let class = old.classes.as_ref().map_or_else(Default::default, Class::of);
    match old.labels {
        LabelFormat::OneHot => class.one_hot().into(),
        LabelFormat::U32 => class.dtype(DType::U32).into(),
        LabelFormat::I64 | LabelFormat::Off => class.into(),
    }
}
