//! Settings of earlier versions, which said in options what becomes of each picture: said as the fields that they are.

use serde::Deserialize;

use crate::decode::{ImageColour, ImageOptions, LabelFormat};
use crate::dtype::DType;
use crate::read::fields::{Class, Field, Image, instead_of};
use crate::tree::{Fault, Node};

const OLD: [&str; 15] = [
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
];

/// What to write in place of options that say what becomes of pictures.
///
/// # Errors
///
/// What was wrong with them in the first place.
pub(in crate::read) fn advice(options: &Node) -> Result<Option<String>, Fault> {
    let Node::Table(entries) = options else { return Ok(None) };
    let is_old = |key: &str| OLD.contains(&key) || key == "dct_scaling";
    let Some((key, _)) = entries.iter().find(|(key, _)| is_old(key)) else { return Ok(None) };
    let old =
        ImageOptions::deserialize(&Node::Table(entries.iter().filter(|(key, _)| is_old(key)).cloned().collect()))?;
    let mut fields: Vec<(String, Field)> = vec![(old.image_name.clone(), Image::with(old.clone()).into())];
    if old.colour != ImageColour::Index && old.labels != LabelFormat::Off {
        fields.push((old.label_name.clone(), class_of(&old)));
    }
    Ok(Some(instead_of(key, &fields)))
}

/// The class that these options speak of.
fn class_of(old: &ImageOptions) -> Field {
    let class = old.classes.as_ref().map_or_else(Default::default, Class::of);
    match old.labels {
        LabelFormat::OneHot => class.one_hot().into(),
        LabelFormat::U32 => class.dtype(DType::U32).into(),
        LabelFormat::I64 | LabelFormat::Off => class.into(),
    }
}
