use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::decode::{CropFit, ImageAugment, ImageColour, PixelOrder};
use crate::dtype::DType;
use crate::read::{ColumnRef, Longer};
use crate::schema::Role;

use super::{Category, Class, Codec, Field, Image};

/// A field as settings write it: a table with exactly one of the keys that say what it becomes.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Box<Written>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index_map: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<Vec<Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers: Option<DType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    augment: Option<Vec<ImageAugment>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    geometry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<DType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<CropFit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<PixelOrder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    colour: Option<ImageColour>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    one_hot: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longer: Option<Longer>,
}

/// One field, or several.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the name of a field, its position from 0, or a list of them")]
enum Origin {
    One(ColumnRef),
    Several(Vec<ColumnRef>),
}

/// What a field may become, as settings call it.
const CODECS: &str = "image, index_map, class, category, numbers or text";

impl Written {
    fn field(self) -> Result<Field, String> {
        if let Some(inner) = self.file {
            let mut field = inner.field()?;
            (field.is_file, field.from) = (true, fields_of(self.from));
            field.role = self.role.or(field.role);
            return Ok(field);
        }
        let of_images = [
            self.augment.is_some(),
            self.geometry.is_some(),
            self.dtype.is_some(),
            self.fit.is_some(),
            self.order.is_some(),
            self.colour.is_some(),
        ];
        let is_image = self.image.is_some() || self.index_map.is_some();
        if !is_image && of_images.contains(&true) {
            return Err("augment, geometry, dtype, fit, order and colour belong to image = [height, width]".to_owned());
        }
        let codec = match (self.image.or(self.index_map), self.class, self.category, self.numbers, self.text) {
            (Some((height, width)), None, None, None, None) if self.image.is_none() || self.index_map.is_none() => {
                let is_map = self.index_map.is_some();
                let Image(mut options) =
                    if is_map { Image::index_map(height, width) } else { Image::rgb(height, width) };
                options.augment = self.augment.unwrap_or_default();
                options.geometry = self.geometry;
                options.dtype = self.dtype.unwrap_or(options.dtype);
                options.fit = self.fit.unwrap_or(options.fit);
                options.order = self.order.unwrap_or(options.order);
                options.colour = self.colour.filter(|_| !is_map).unwrap_or(options.colour);
                Codec::Image(Image(options))
            }
            (None, Some(names), None, None, None) => Codec::Class {
                names: Some(names).filter(|names| !names.is_empty()),
                one_hot: self.one_hot.unwrap_or(false),
            },
            (None, None, Some(names), None, None) => {
                Codec::Category { names: Some(names).filter(|names| !names.is_empty()), missing: self.missing }
            }
            (None, None, None, Some(dtype), None) => Codec::Numbers { dtype, shape: self.shape },
            (None, None, None, None, Some(max_len)) => Codec::Text { max_len, longer: self.longer.unwrap_or_default() },
            _ => return Err(format!("says not exactly one of what it becomes: {CODECS}")),
        };
        Ok(Field { from: fields_of(self.from), role: self.role, is_file: false, codec })
    }

    fn of(field: &Field) -> Self {
        let mut written = Self::default();
        match &field.codec {
            Codec::Image(Image(options)) => {
                let is_map = options.colour == ImageColour::Index;
                let base = if is_map { Image::index_map(1, 1) } else { Image::rgb(1, 1) }.0;
                written.image = options.size.filter(|_| !is_map);
                written.index_map = options.size.filter(|_| is_map);
                written.augment = Some(options.augment.clone()).filter(|list| !list.is_empty());
                written.geometry.clone_from(&options.geometry);
                written.dtype = (options.dtype != base.dtype).then_some(options.dtype);
                written.fit = (options.fit != base.fit).then_some(options.fit);
                written.order = (options.order != base.order).then_some(options.order);
                written.colour = (options.colour != base.colour).then_some(options.colour);
            }
            Codec::Class { names, one_hot } => {
                written.class = Some(names.clone().unwrap_or_default());
                written.one_hot = one_hot.then_some(true);
            }
            Codec::Category { names, missing } => {
                (written.category, written.missing) = (Some(names.clone().unwrap_or_default()), *missing);
            }
            Codec::Numbers { dtype, shape } => (written.numbers, written.shape) = (Some(*dtype), shape.clone()),
            Codec::Text { max_len, longer } => {
                (written.text, written.longer) =
                    (Some(*max_len), Some(*longer).filter(|longer| *longer != Longer::Error));
            }
        }
        if field.is_file {
            written = Self { file: Some(Box::new(written)), ..Self::default() };
        }
        written.role = field.role;
        written.from = match field.from.as_slice() {
            [] => None,
            [one] => Some(Origin::One(one.clone())),
            several => Some(Origin::Several(several.to_vec())),
        };
        written
    }
}

fn fields_of(from: Option<Origin>) -> Vec<ColumnRef> {
    match from {
        None => Vec::new(),
        Some(Origin::One(one)) => vec![one],
        Some(Origin::Several(several)) => several,
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"class\", \"category\", or a table with one of {CODECS}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Field, E> {
                match text {
                    "class" => Ok(Class.into()),
                    "category" => Ok(Category::new().into()),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Field, A::Error> {
                let written = Written::deserialize(MapAccessDeserializer::new(map))?;
                written.field().map_err(serde::de::Error::custom)
            }
        }

        deserializer.deserialize_any(Fields)
    }
}

/// Fields by the names of their tensors, in their order.
pub(in crate::loader) mod by_name {
    use super::*;

    pub(in crate::loader) fn serialize<S: Serializer>(
        fields: &[(String, Field)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, field) in fields {
            map.serialize_entry(name, field)?;
        }
        map.end()
    }

    pub(in crate::loader) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, Field)>, D::Error> {
        struct ByName;

        impl<'de> Visitor<'de> for ByName {
            type Value = Vec<(String, Field)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of fields by the names of their tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Self::Value = Vec::new();
                while let Some((name, field)) = map.next_entry::<String, Field>()? {
                    if fields.iter().any(|(other, _)| *other == name) {
                        return Err(serde::de::Error::custom(format!("tensor {name:?} is there twice")));
                    }
                    fields.push((name, field));
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(ByName)
    }
}
