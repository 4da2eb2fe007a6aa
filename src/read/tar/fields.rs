//! From fields to what is read of each sample, and to the tensors for it.

use crate::decode::image::ImageFormat;
use crate::decode::{ImageColour, ImageOptions, number_of_text, write_numbers};
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Longer;
use crate::read::fields::{Class, Codec, Field, Image, Numbers as NumberField};
use crate::read::images::image_tensors;
use crate::row::{RowMut, TensorMut};
use crate::schema::{Role, TensorSpec};

use super::class::ClassField;
use super::classes::Classes;
use super::index::Wanted;
use super::member::Member;
use super::value::{Pointer, Value, text};

/// A field that is decoded here, without going through values.
#[derive(Clone, Debug)]
pub(super) struct OwnField {
    name: String,
    role: Role,
    /// `None` for the only member with the extension of an image.
    extension: Option<String>,
    pointer: Option<String>,
    becomes: Becomes,
}

#[derive(Clone, Debug)]
enum Becomes {
    Image(Box<ImageOptions>),
    Class {
        names: Option<Vec<String>>,
        one_hot: bool,
        dtype: Option<DType>,
    },
    Text {
        max_len: usize,
        longer: Longer,
    },
    Number(DType),
    /// Nothing: the member is only read.
    Bytes,
}

/// Fields by the names of their tensors.
type NamedFields = Vec<(String, Field)>;

impl Becomes {
    /// Whether it can also be found inside a JSON member.
    fn takes_json(&self) -> bool {
        matches!(self, Self::Class { .. } | Self::Number(_))
    }
}

/// Splits the fields into those that are decoded here, and the others, which go through values, as do those called
/// `lists`.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a field that archives can't have.
pub(super) fn split(fields: &[(String, Field)], lists: &[String]) -> Result<(Vec<OwnField>, NamedFields)> {
    let (mut own, mut others) = (Vec::<OwnField>::new(), NamedFields::new());
    check_maps(fields)?;
    let mut fields = fields.to_vec();
    // The usual class, unless several fields would be that one.
    let is_unnamed = |field: &Field| field.from.is_empty() && matches!(field.codec, Codec::Class { .. });
    let mut unnamed = fields.iter_mut().map(|(_, field)| field).filter(|field| is_unnamed(field));
    if let (Some(class), None) = (unnamed.next(), unnamed.next()) {
        class.from = vec!["cls".into()];
    }
    for (name, field) in &fields {
        let columns = field.columns(name);
        let at_name = |error: Error| error.at_column(name);
        let becomes = match columns.as_slice() {
            [_] if !field.is_file && !field.is_several() && !is_one_of_several(&fields, name, field) => {
                own_kind(field, &own).map_err(at_name)?
            }
            _ => None,
        };
        let member = match &becomes {
            Some(Becomes::Image(_)) if field.from.is_empty() => None,
            _ => {
                let members = columns.iter().map(Member::of).collect::<Result<Vec<_>>>().map_err(at_name)?;
                members.into_iter().next()
            }
        };
        let has_pointer = member.as_ref().is_some_and(|member| member.pointer.is_some());
        let becomes = becomes.filter(|becomes| !lists.contains(name) && (!has_pointer || becomes.takes_json()));
        let Some(becomes) = becomes else {
            others.push((name.clone(), field.clone()));
            continue;
        };
        let (extension, pointer) = member.map(|Member { extension, pointer }| (extension, pointer)).unzip();
        let pointer = pointer.flatten();
        let role = field.role_or_default();
        own.push(OwnField { name: name.clone(), role, extension, pointer, becomes });
    }
    Ok((own, others))
}

/// Refuses a map of the picture that archives have without a name, with which its size could not be compared.
fn check_maps(fields: &[(String, Field)]) -> Result<()> {
    let images = fields.iter().filter_map(|(name, field)| match &field.codec {
        Codec::Image(image) if image.options().geometry.is_some() => Some((name, field, image.options())),
        _ => None,
    });
    for (name, field, picture) in images.clone() {
        let is_its_map =
            |(_, _, map): &(_, _, &ImageOptions)| map.colour == ImageColour::Index && map.geometry == picture.geometry;
        if field.from.is_empty()
            && picture.colour != ImageColour::Index
            && let Some((map, ..)) = images.clone().find(is_its_map)
        {
            let message = format!(
                "{map:?} is its map: say which member the picture is (`from = \"jpg\"`), so that both are read together"
            );
            return Err(Error::new(ErrorKind::Config, message).at_column(name));
        }
    }
    Ok(())
}

/// Whether other pictures come from the same member, or one of them is the map of the other. They are then read
/// together, through their bytes.
fn is_one_of_several(fields: &[(String, Field)], name: &str, field: &Field) -> bool {
    let Codec::Image(image) = &field.codec else { return false };
    let geometry = image.options().geometry.as_ref().filter(|_| !field.from.is_empty());
    let goes_with = |(other, of): &&(String, Field)| match &of.codec {
        Codec::Image(other_image) => {
            let options = other_image.options();
            let is_one_map = (options.colour == ImageColour::Index) != (image.options().colour == ImageColour::Index);
            let is_same_place = geometry.is_some() && geometry == options.geometry.as_ref();
            of.columns(other) == field.columns(name) || is_same_place && is_one_map
        }
        _ => false,
    };
    fields.iter().filter(goes_with).count() > 1
}

/// What a field becomes if it is decoded here: at most one image and one class.
fn own_kind(field: &Field, own: &[OwnField]) -> Result<Option<Becomes>> {
    let config = |message: String| Err(Error::new(ErrorKind::Config, message));
    Ok(Some(match &field.codec {
        Codec::Image(image) => {
            if let faults @ [_, ..] = image.options().faults().as_slice() {
                return config(faults.join("; "));
            }
            match own.iter().any(|field| matches!(field.becomes, Becomes::Image(_))) {
                true => return Ok(None),
                false => Becomes::Image(Box::new(image.options().clone())),
            }
        }
        Codec::Class { .. } if own.iter().any(|field| matches!(field.becomes, Becomes::Class { .. })) => {
            return Ok(None);
        }
        Codec::Class { names, one_hot, dtype } => {
            Becomes::Class { names: names.clone(), one_hot: *one_hot, dtype: *dtype }
        }
        Codec::Text { max_len: 0, .. } => return config("text: 0; a text has room for one byte at least".to_owned()),
        Codec::Text { max_len, longer } => Becomes::Text { max_len: *max_len, longer: *longer },
        Codec::Numbers(NumberField {
            dtype,
            shape: None,
            max_len: None,
            missing: crate::read::Missing::Error,
            list: false,
            ragged: false,
            ..
        }) if matches!(dtype, DType::F32 | DType::F64 | DType::I64) => Becomes::Number(*dtype),
        _ => return Ok(None),
    }))
}

/// The parts of a sample that are read.
#[derive(Debug, Default)]
pub(super) struct Fields {
    own: Vec<OwnField>,
    pub(super) wanted: Vec<Wanted>,
    pub(super) image: Option<ImageField>,
    pub(super) class: Option<ClassField>,
    pub(super) values: Vec<ValueField>,
    /// For each wanted member, whether it is read with the sample. A member that only holds the class is not.
    pub(super) is_read: Vec<bool>,
}

/// The image of a sample.
#[derive(Debug)]
pub(super) struct ImageField {
    pub(super) member: usize,
    /// The tensor of the image; its mask follows.
    pub(super) tensor: usize,
    pub(super) options: ImageOptions,
}

/// A field that is decoded from a text or JSON member.
#[derive(Debug)]
pub(super) struct ValueField {
    pub(super) member: usize,
    tensor: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text(Longer),
    Number(Option<Pointer>),
}

impl Fields {
    pub(super) fn new(own: Vec<OwnField>) -> Self {
        let mut fields = Self { own, ..Self::default() };
        for field in &fields.own {
            let wanted = field.extension.clone().map_or(Wanted::AnyImage, Wanted::Extension);
            let member = fields.wanted.iter().position(|other| *other == wanted).unwrap_or_else(|| {
                fields.wanted.push(wanted);
                fields.is_read.push(false);
                fields.wanted.len() - 1
            });
            fields.is_read[member] |= !matches!(field.becomes, Becomes::Class { .. });
            let pointer = field.pointer.as_deref().map(Pointer::new);
            match &field.becomes {
                Becomes::Image(options) => {
                    let options = ImageOptions { image_name: field.name.clone(), ..(**options).clone() };
                    fields.image = Some(ImageField { member, tensor: 0, options });
                }
                Becomes::Class { .. } => {
                    fields.class = Some(ClassField { member, pointer, name: field.name.clone(), tensor: 0 });
                }
                Becomes::Text { longer, .. } => {
                    fields.values.push(ValueField { member, tensor: 0, kind: Kind::Text(*longer) });
                }
                Becomes::Number(_) => fields.values.push(ValueField { member, tensor: 0, kind: Kind::Number(pointer) }),
                Becomes::Bytes => {}
            }
        }
        fields
    }

    /// The names of the classes in the order of their indices, if they are listed.
    pub(super) fn listed_classes(&self) -> Option<&[String]> {
        self.own.iter().find_map(|field| match &field.becomes {
            Becomes::Class { names, .. } => names.as_deref(),
            _ => None,
        })
    }

    /// The tensors of a sample, in the order of the fields.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if the classes do not fit their tensor.
    pub(super) fn tensors(&mut self, classes: &Classes) -> Result<Vec<TensorSpec>> {
        let mut tensors = Vec::new();
        let mut values = self.values.iter_mut();
        for OwnField { name, role, becomes, .. } in &self.own {
            let first = tensors.len();
            match becomes {
                Becomes::Image(_) => {
                    if let Some(image) = &mut self.image {
                        image.tensor = first;
                        tensors.extend(image_tensors(&image.options));
                        tensors[first].role = *role;
                    }
                }
                Becomes::Class { one_hot, dtype, .. } => {
                    if let Some(class) = &mut self.class {
                        class.tensor = first;
                    }
                    let tensor = classes.tensor(name, *role, *one_hot, *dtype);
                    tensors.push(tensor.map_err(|error| error.at_column(name))?);
                }
                Becomes::Text { max_len, .. } => {
                    values.next().expect("there is one for each such field").tensor = first;
                    tensors.push(TensorSpec::new(name, *role, DType::U8, &[*max_len]));
                    tensors.push(TensorSpec::new(format!("{name}_len"), *role, DType::I64, &[]));
                }
                Becomes::Number(dtype) => {
                    values.next().expect("there is one for each such field").tensor = first;
                    tensors.push(TensorSpec::new(name, *role, *dtype, &[]));
                }
                Becomes::Bytes => {}
            }
        }
        Ok(tensors)
    }

    /// Whether nothing is decoded here: members are only read.
    pub(super) fn are_bytes(&self) -> bool {
        self.own.iter().all(|field| matches!(field.becomes, Becomes::Bytes))
    }

    /// The numbers that are values in JSON: the names of their fields, their members, and where they are found there.
    pub(super) fn numbers_in_json(&self) -> impl Iterator<Item = (&str, usize, &Pointer)> {
        let values = self.own.iter().filter(|field| matches!(field.becomes, Becomes::Text { .. } | Becomes::Number(_)));
        values.zip(&self.values).filter_map(|(field, value)| match &value.kind {
            Kind::Number(Some(pointer)) => Some((field.name.as_str(), value.member, pointer)),
            _ => None,
        })
    }

    /// The extension of a wanted member; `None` for an image with any extension.
    pub(super) fn extension(&self, member: usize) -> Option<&str> {
        match &self.wanted[member] {
            Wanted::AnyImage => None,
            Wanted::Extension(extension) => Some(extension),
        }
    }
}

/// The default fields of samples with these members: their image as it is, and their class if they have a `cls`.
///
/// # Errors
///
/// [`ErrorKind::Config`] if a sample has no image or several, [`ErrorKind::NotFound`] if there is none.
pub(super) fn usual_fields(extensions: &[String]) -> Result<Vec<(String, Field)>> {
    let is_image =
        |extension: &&String| ImageFormat::of_extension(extension.rsplit('.').next().unwrap_or_default()).is_some();
    let images: Vec<&String> = extensions.iter().filter(is_image).collect();
    let message = match images.as_slice() {
        [_] => {
            let class = extensions.iter().any(|extension| extension == "cls");
            let fields: [(&str, Field); 2] =
                [("image", Image::of_any_size().dtype(DType::U8).into()), ("label", Class.from("cls"))];
            let wanted = if class { 2 } else { 1 };
            return Ok(fields.into_iter().take(wanted).map(|(name, field)| (name.to_owned(), field)).collect());
        }
        [] if extensions.is_empty() => {
            let message = "the archives hold no samples: looked for members called KEY.EXTENSION";
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        [] => format!("the first sample has {extensions:?} and no image; say what is read with `fields`"),
        several => format!("the first sample has {} images, {several:?}; say which one with `fields`", several.len()),
    };
    Err(Error::new(ErrorKind::Config, message))
}

/// Fields that only serve to find and fetch these members.
pub(super) fn any_fields(extensions: &[String]) -> Vec<OwnField> {
    let bytes = |extension: &String| OwnField {
        name: extension.clone(),
        role: Role::Feature,
        extension: Some(extension.clone()),
        pointer: None,
        becomes: Becomes::Bytes,
    };
    extensions.iter().map(bytes).collect()
}

impl ValueField {
    /// Decodes the member's bytes into its tensors.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the tensor's name.
    pub(super) fn write(&self, bytes: &[u8], row: &mut RowMut<'_>) -> Result<()> {
        let mut tensor = row.tensor(self.tensor);
        let name = &tensor.spec().name;
        match &self.kind {
            Kind::Text(longer) => {
                let room = tensor.bytes_mut();
                let text = kept(text(bytes).map_err(|error| error.at_column(name))?, room.len());
                if text.len() < bytes.len() && *longer == Longer::Error {
                    let (len, most) = (bytes.len(), room.len());
                    let message =
                        format!("a text of {len} bytes; at most {most} fit; raise max_len, or set `longer` to \"cut\"");
                    return Err(Error::new(ErrorKind::Data, message).at_column(name));
                }
                let (begin, padding) = room.split_at_mut(text.len());
                begin.copy_from_slice(text.as_bytes());
                padding.fill(0);
                row.tensor(self.tensor + 1).as_mut_slice::<i64>()?[0] = text.len() as i64;
                Ok(())
            }
            Kind::Number(pointer) => {
                let value = Value::of(bytes, pointer.as_ref()).map_err(|error| error.at_column(name))?;
                let written = write_number(&value, &mut tensor);
                written.unwrap_or_else(|| {
                    let message = format!("expected {}, found {value}", tensor.dtype());
                    Err(Error::new(ErrorKind::Data, message).at_column(name))
                })
            }
        }
    }
}

/// As much of a text as fits, in whole characters.
fn kept(text: &str, max_len: usize) -> &str {
    let end = (0..=max_len.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// `None` if the tensor's type has no such number.
fn write_number(value: &Value<'_>, tensor: &mut TensorMut<'_>) -> Option<Result<()>> {
    match (value, tensor.dtype()) {
        (Value::Float(text), DType::F64) => {
            number_of_text(text).map(|number| write_numbers(tensor, 0, NumberSlice::F64(&[number])))
        }
        (Value::Float(text), DType::F32) => {
            let number = number_of_text(text).filter(|number: &f32| number.is_finite());
            number.map(|number| write_numbers(tensor, 0, NumberSlice::F32(&[number])))
        }
        _ => value.to_i64().map(|number| write_numbers(tensor, 0, NumberSlice::I64(&[number]))),
    }
}
