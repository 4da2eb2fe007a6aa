//! From the options to what is read of each sample and where it goes.

use std::sync::Arc;

use crate::decode::image::ImageFormat;
use crate::decode::write_numbers;
use crate::dtype::{DType, Numbers};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Longer;
use crate::read::images::{image_tensors, label_tensor};
use crate::row::{RowMut, TensorMut};
use crate::schema::{Role, TensorSpec};

use super::index::{ClassField, Wanted};
use super::options::{TarField, TarOptions};
use super::value::{Pointer, Value, text};

/// What is read of each sample.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) wanted: Vec<Wanted>,
    /// Which of the wanted members is the image.
    pub(super) image: Option<usize>,
    pub(super) class: Option<ClassField>,
    pub(super) values: Vec<ValueField>,
    /// Of each wanted member whether it is read with the sample: one that only says the class is not.
    pub(super) is_read: Vec<bool>,
    /// Where the tensors of image and class begin.
    image_tensor: usize,
    class_tensor: usize,
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
    /// Those of the options, or if these name none, those that a sample with `extensions` has.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if the sample has no image or several, [`ErrorKind::NotFound`] if there is none.
    pub(super) fn new(options: &TarOptions, extensions: impl FnOnce() -> Result<Vec<String>>) -> Result<Self> {
        let mut fields = Self::default();
        let found;
        let chosen = match options.fields.is_empty() {
            true => {
                found = usual_fields(&extensions()?)?;
                &found
            }
            false => &options.fields,
        };
        for field in chosen {
            let wanted =
                field.extension().map_or(Wanted::AnyImage, |extension| Wanted::Extension(extension.to_owned()));
            let member = fields.wanted.iter().position(|other| *other == wanted).unwrap_or_else(|| {
                fields.wanted.push(wanted);
                fields.is_read.push(false);
                fields.wanted.len() - 1
            });
            fields.is_read[member] |= !matches!(field, TarField::Class { .. });
            let pointer = field.pointer().map(Pointer::new);
            match field {
                TarField::Image { .. } => fields.image = Some(member),
                TarField::Class { by, .. } => fields.class = Some(ClassField { member, pointer, by: *by }),
                TarField::Text { longer, .. } => {
                    fields.values.push(ValueField { member, tensor: 0, kind: Kind::Text(*longer) });
                }
                TarField::Number { .. } => {
                    fields.values.push(ValueField { member, tensor: 0, kind: Kind::Number(pointer) });
                }
            }
        }
        Ok(fields)
    }

    /// The tensors of a sample, in the order of the fields.
    pub(super) fn tensors(&mut self, options: &TarOptions, classes: Option<&Arc<[String]>>) -> Vec<TensorSpec> {
        let mut tensors = Vec::new();
        let mut values = self.values.iter_mut();
        let usual = [TarField::image(), TarField::class()];
        let chosen = if options.fields.is_empty() { &usual[..] } else { &options.fields };
        for field in chosen {
            match field {
                TarField::Image { .. } if self.image.is_some() => {
                    self.image_tensor = tensors.len();
                    tensors.extend(image_tensors(&options.images));
                }
                TarField::Class { .. } if self.class.is_some() => {
                    self.class_tensor = tensors.len();
                    tensors.push(label_tensor(&options.images, classes));
                }
                TarField::Image { .. } | TarField::Class { .. } => {}
                TarField::Text { extension, name, max_len, .. } => {
                    values.next().expect("there is one for each such field").tensor = tensors.len();
                    let name = name.as_ref().unwrap_or(extension);
                    tensors.push(TensorSpec::new(name, Role::Feature, DType::U8, &[*max_len]));
                    tensors.push(TensorSpec::new(format!("{name}_len"), Role::Feature, DType::I64, &[]));
                }
                TarField::Number { extension, name, role, dtype, .. } => {
                    let value = values.next().expect("there is one for each such field");
                    value.tensor = tensors.len();
                    let last = match &value.kind {
                        Kind::Number(Some(pointer)) if !pointer.last().is_empty() => pointer.last(),
                        _ => extension,
                    };
                    tensors.push(TensorSpec::new(name.as_deref().unwrap_or(last), *role, *dtype, &[]));
                }
            }
        }
        tensors
    }

    /// The image's tensor, behind which its mask comes.
    pub(super) fn image_tensor(&self) -> usize {
        self.image_tensor
    }

    pub(super) fn class_tensor(&self) -> usize {
        self.class_tensor
    }

    /// The extension of a wanted member; `None` for any image's.
    pub(super) fn extension(&self, member: usize) -> Option<&str> {
        match &self.wanted[member] {
            Wanted::AnyImage => None,
            Wanted::Extension(extension) => Some(extension),
        }
    }
}

/// An image and a class, where a sample has them.
pub(super) fn usual_fields(extensions: &[String]) -> Result<Vec<TarField>> {
    let is_image =
        |extension: &&String| ImageFormat::of_extension(extension.rsplit('.').next().unwrap_or_default()).is_some();
    let images: Vec<&String> = extensions.iter().filter(is_image).collect();
    let message = match images.as_slice() {
        [_] => {
            let class = extensions.iter().any(|extension| extension == "cls").then(TarField::class);
            return Ok([Some(TarField::image()), class].into_iter().flatten().collect());
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

/// The first member of all, as text: enough to find the samples.
pub(super) fn any_field(extensions: &[String]) -> Vec<TarField> {
    let text = |extension: &String| TarField::Text {
        extension: extension.clone(),
        name: None,
        max_len: 1,
        longer: Longer::Cut,
    };
    extensions.iter().take(1).map(text).collect()
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

/// `None` if the value is no number of the tensor's type.
fn write_number(value: &Value<'_>, tensor: &mut TensorMut<'_>) -> Option<Result<()>> {
    match (value, tensor.dtype()) {
        (Value::Float(text), DType::F64) => {
            text.parse().ok().map(|number| write_numbers(tensor, 0, Numbers::F64(&[number])))
        }
        (Value::Float(text), DType::F32) => {
            let number = text.parse().ok().filter(|number: &f32| number.is_finite());
            number.map(|number| write_numbers(tensor, 0, Numbers::F32(&[number])))
        }
        _ => value.to_i64().map(|number| write_numbers(tensor, 0, Numbers::I64(&[number]))),
    }
}
