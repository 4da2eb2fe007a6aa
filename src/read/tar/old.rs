//! Settings of earlier versions, which had a separate language of fields for archives: translated to fields.

use serde::Deserialize;

use crate::decode::{ImageOptions, LabelFormat};
use crate::dtype::DType;
use crate::read::fields::{Class, Field, Image, Numbers, Text, instead_of, old_among};
use crate::read::{ColumnRef, Longer};
use crate::schema::Role;
use crate::tree::{Fault, Node};

/// The options of an earlier version.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Old {
    fields: Vec<OldField>,
    images: ImageOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum OldField {
    Image {
        extension: Option<String>,
    },
    Class {
        #[serde(default = "cls")]
        extension: String,
        pointer: Option<String>,
        // Names or indices: the reader finds out which.
        #[serde(default, rename = "by")]
        _by: Option<String>,
    },
    Text {
        extension: String,
        name: Option<String>,
        max_len: usize,
        #[serde(default)]
        longer: Longer,
    },
    Number {
        extension: String,
        pointer: Option<String>,
        name: Option<String>,
        #[serde(default)]
        role: Option<Role>,
        #[serde(default)]
        dtype: Option<DType>,
    },
}

fn cls() -> String {
    "cls".to_owned()
}

/// What to write instead of options that say what members become.
///
/// # Errors
///
/// What was wrong with them in the first place.
pub(in crate::read) fn advice(options: &Node) -> Result<Option<String>, Fault> {
    let Some((key, Old { fields, images })) = old_among(options, &["fields", "images"])? else { return Ok(None) };
    let usual =
        || vec![OldField::Image { extension: None }, OldField::Class { extension: cls(), pointer: None, _by: None }];
    let fields = if fields.is_empty() { usual() } else { fields };
    let fields: Vec<(String, Field)> = fields.into_iter().map(|field| field_of(field, &images)).collect();
    let advice = instead_of(key, &fields);
    let limit = images.max_file_bytes;
    Ok(Some(match limit == ImageOptions::default().max_file_bytes {
        true => advice,
        false => format!("{advice}, options = {{ max_file_bytes = {limit} }}"),
    }))
}

fn member(extension: &str, pointer: Option<&String>) -> ColumnRef {
    ColumnRef::Name(pointer.map_or_else(|| extension.to_owned(), |pointer| format!("{extension}:{pointer}")))
}

fn field_of(field: OldField, images: &ImageOptions) -> (String, Field) {
    match field {
        OldField::Image { extension } => {
            let image = Image::with(images.clone());
            let field = if let Some(extension) = extension { image.from(extension) } else { image.into() };
            (images.image_name.clone(), field)
        }
        OldField::Class { extension, pointer, .. } => {
            let class = images.classes.as_ref().map_or_else(Default::default, Class::of);
            let class = match images.labels {
                LabelFormat::OneHot => class.one_hot(),
                LabelFormat::U32 => class.dtype(DType::U32),
                _ => class,
            };
            (images.label_name.clone(), class.from(member(&extension, pointer.as_ref())))
        }
        OldField::Text { extension, name, max_len, longer } => {
            let text = if longer == Longer::Cut { Text::new(max_len).cut() } else { Text::new(max_len) };
            (name.unwrap_or_else(|| extension.clone()), text.from(extension))
        }
        OldField::Number { extension, pointer, name, role, dtype } => {
            let last =
                pointer.as_deref().and_then(|pointer| pointer.rsplit('/').next()).filter(|last| !last.is_empty());
            let name = name.unwrap_or_else(|| last.unwrap_or(&extension).to_owned());
            let field = Numbers::of(dtype.unwrap_or(DType::F32)).from(member(&extension, pointer.as_ref()));
            (
                name,
                match role {
                    Some(role) => field.role(role),
                    None => field,
                },
            )
        }
    }
}
