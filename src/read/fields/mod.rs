//! Fields: what each tensor of a sample is made of, in one language for every format. `written` is their form in settings.

mod audio;
mod faults;
mod image;
mod names;
mod of_options;
mod old;
mod others;
mod targets;
mod tokenizer;
mod written;

use std::path::PathBuf;

use crate::decode::ImageColour;
use crate::dtype::DType;
use crate::schema::Role;

use super::outside::OutsideCodec;
use super::{ColumnRef, Longer, Missing};

pub use audio::Audio;
pub(crate) use faults::field_faults;
pub use image::Image;
pub use names::{Category, Class, Classes};
pub(crate) use old::instead_of;
pub(crate) use others::{ALL_OTHERS, taken, with_others};
pub use targets::{BoxFormat, Boxes, Keypoints, PointFormat};
pub(crate) use targets::{TargetFormat, Targets};
pub use tokenizer::Tokenizer;
pub(crate) use written::{ByName, by_name};

/// What one tensor is made of: a field of the source (a column, a member, a file), and what becomes of it.
///
/// Made by [`Image`], [`Audio`], [`Class`], [`Category`], [`Numbers`], [`Text`] and [`Tokenizer`]; [`from`](Field::from) names the field where it is
/// not called as the tensor, and [`file`](Field::file) says that it names a file, whose bytes are meant.
///
/// ```
/// use ringfeed::field::{Class, Field, Image, Numbers};
///
/// let photo: Field = Image::rgb(224, 224).from("path").file();
/// let fields: Vec<Field> = toml::from_str::<std::collections::BTreeMap<String, Field>>(r#"
///     photo = { from = "path", file = { image = [224, 224] } }
///     label = "class"
///     price = { numbers = "f64" }
/// "#).expect("the example is valid").into_values().collect();
/// assert_eq!(fields, [Class.into(), photo, Numbers::f64().into()]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub(crate) from: Vec<ColumnRef>,
    /// Whether a list was named, even if of one: its tensor has a dimension for it.
    pub(crate) several: bool,
    /// What `"*"` does not stand for.
    pub(crate) except: Vec<ColumnRef>,
    pub(crate) role: Option<Role>,
    pub(crate) is_file: bool,
    pub(crate) codec: Codec,
}

/// A field, or a list of fields, that numbers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    from: Vec<ColumnRef>,
    several: bool,
}

impl From<&str> for Origin {
    fn from(name: &str) -> Self {
        Self { from: vec![name.into()], several: false }
    }
}

impl From<String> for Origin {
    fn from(name: String) -> Self {
        Self { from: vec![name.into()], several: false }
    }
}

impl From<ColumnRef> for Origin {
    fn from(field: ColumnRef) -> Self {
        Self { from: vec![field], several: false }
    }
}

impl From<usize> for Origin {
    fn from(position: usize) -> Self {
        Self { from: vec![position.into()], several: false }
    }
}

impl<C: Into<ColumnRef>, const N: usize> From<[C; N]> for Origin {
    fn from(fields: [C; N]) -> Self {
        Self { from: fields.into_iter().map(Into::into).collect(), several: true }
    }
}

impl<C: Into<ColumnRef>> From<Vec<C>> for Origin {
    fn from(fields: Vec<C>) -> Self {
        Self { from: fields.into_iter().map(Into::into).collect(), several: true }
    }
}

/// What the values of a field become.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Codec {
    Image(Image),
    Audio(Audio),
    Class {
        names: Option<Vec<String>>,
        one_hot: bool,
        dtype: Option<DType>,
    },
    Category {
        names: Option<Vec<Vec<String>>>,
        missing: Option<i64>,
        dtype: Option<DType>,
    },
    Numbers(Numbers),
    Text {
        max_len: usize,
        longer: Longer,
    },
    Tokenizer(Tokenizer),
    Targets(Targets),
    Array {
        dtype: Option<DType>,
        shape: Option<Vec<usize>>,
    },
    /// No settings say it.
    Outside(OutsideCodec),
}

/// Numbers: of one field `[]`, of several `[fields]`, or another [shape](Numbers::shape) of as many; and lists of numbers, of
/// one shape, [padded](Numbers::max_len) or [one behind another](Numbers::ragged).
///
/// An integer type takes whole numbers that it holds, exactly; a floating point type rounds to the nearest, once, and refuses
/// what is too large for it. True and false are 1 and 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    pub(crate) dtype: DType,
    pub(crate) shape: Option<Vec<usize>>,
    pub(crate) missing: Missing,
    pub(crate) max_len: Option<usize>,
    pub(crate) longer: Longer,
    pub(crate) pad: f64,
    pub(crate) ragged: bool,
}

/// Lists of tokens: `i64 [max_len]` with padding behind them, and a mask, `u8`, called the same with `_mask` behind it. Made
/// into [`Numbers`].
#[derive(Clone, Copy, Debug)]
pub struct Tokens;

/// An array: of a file of arrays each record as it is; elsewhere from the bytes of an NPY file, of the shape and element type of the
/// first record's, which all must have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    dtype: Option<DType>,
    shape: Option<Vec<usize>>,
}

/// UTF-8 text of at most so many bytes: `u8 [max_len]` with zeros behind it, and its length in a tensor called the same with
/// `_len` behind it. Of several fields, `[fields, max_len]` and `[fields]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    max_len: usize,
    longer: Longer,
}

impl Numbers {
    /// Of this element type.
    pub fn of(dtype: DType) -> Self {
        Self {
            dtype,
            shape: None,
            missing: Missing::Error,
            max_len: None,
            longer: Longer::Error,
            pad: 0.0,
            ragged: false,
        }
    }

    /// Of `f32`.
    pub fn f32() -> Self {
        Self::of(DType::F32)
    }

    /// Of `f64`.
    pub fn f64() -> Self {
        Self::of(DType::F64)
    }

    /// Of `i64`: read exactly, never by way of a fraction.
    pub fn i64() -> Self {
        Self::of(DType::I64)
    }

    /// Another shape of as many elements: `[]` for a single number.
    #[must_use]
    pub fn shape(mut self, shape: &[usize]) -> Self {
        self.shape = Some(shape.to_vec());
        self
    }

    /// What becomes of a missing value: by default its record is bad.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Lists of at most so many numbers, padded behind them, with a mask that is 1 where there are any: a tensor of `u8` called
    /// the same with `_mask` behind it. Without it, and without a shape, lists of different lengths are as long as the
    /// longest in their batch.
    #[must_use]
    pub fn max_len(mut self, max_len: usize) -> Self {
        self.max_len = Some(max_len);
        self
    }

    /// A longer list loses its end; by default its record is bad.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.longer = Longer::Cut;
        self
    }

    /// Lists lie one behind another, without padding: a tensor of the numbers of all lists of a batch, and in place of a mask
    /// where each list begins and the last one ends, `i64 [samples + 1]`, called the same with `_offsets` behind it. Of a sparse
    /// matrix in compressed rows (CSR) the offsets are `indptr`.
    #[must_use]
    pub fn ragged(mut self) -> Self {
        self.ragged = true;
        self
    }

    /// What stands behind a padded list. By default 0.
    #[must_use]
    pub fn pad(mut self, value: f64) -> Self {
        self.pad = value;
        self
    }

    /// The field that they come from, whose numbers have no further dimension; or a list of fields, in the order of the
    /// elements: `[fields]`, also of a single one. `"*"` stands for the list of all fields of single numbers that no other tensor
    /// is made of, but for [those that are named](Field::except).
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl Tokens {
    /// Lists of at most so many tokens; a longer one makes its record bad, unless it is [cut](Numbers::cut).
    #[expect(clippy::new_ret_no_self, reason = "tokens are numbers")]
    pub fn new(max_len: usize) -> Numbers {
        Numbers::i64().max_len(max_len)
    }

    /// Lists of any length, from this field: as long as the longest of their batch, or as its bucket's bound.
    pub fn from(field: impl Into<Origin>) -> Field {
        Numbers::i64().from(field)
    }
}

impl Array {
    /// Of the type and shape of the first record's array.
    pub fn new() -> Self {
        Self::default()
    }

    /// Element type in the batch.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Shape of every array.
    #[must_use]
    pub fn shape(mut self, shape: &[usize]) -> Self {
        self.shape = Some(shape.to_vec());
        self
    }

    /// The field that it comes from.
    pub fn from(self, field: impl Into<ColumnRef>) -> Field {
        Field::from(self.into(), field)
    }
}

impl Text {
    /// A longer text makes its record bad.
    pub fn new(max_len: usize) -> Self {
        Self { max_len, longer: Longer::Error }
    }

    /// A longer text loses its end, in whole characters.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.longer = Longer::Cut;
        self
    }

    /// The field that it comes from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl Field {
    fn new(codec: Codec) -> Self {
        Self { from: Vec::new(), several: false, except: Vec::new(), role: None, is_file: false, codec }
    }

    /// What a codec of another room makes of these fields.
    pub(crate) fn outside(codec: OutsideCodec, fields: impl IntoIterator<Item = ColumnRef>) -> Self {
        Self { from: fields.into_iter().collect(), several: true, ..Self::new(Codec::Outside(codec)) }
    }

    /// The field that tells which records are meant by this one, if not all of them.
    pub(crate) fn choice(&self) -> Option<Self> {
        let Codec::Outside(codec) = &self.codec else { return None };
        codec.choice().map(|choice| Self { codec: Codec::Outside(choice), ..self.clone() })
    }

    /// Whether it has a dimension for the fields that it comes from.
    pub(crate) fn is_several(&self) -> bool {
        self.several
    }

    /// Leaves out what is done at random.
    pub(crate) fn make_plain(&mut self) {
        match &mut self.codec {
            Codec::Image(image) => image.make_plain(),
            Codec::Audio(audio) => audio.make_plain(),
            _ => {}
        }
    }

    /// The picture that it becomes, if it is one: to be changed.
    pub fn image_mut(&mut self) -> Option<&mut Image> {
        match &mut self.codec {
            Codec::Image(image) => Some(image),
            _ => None,
        }
    }

    /// The file that it needs, if it does.
    pub(crate) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match &mut self.codec {
            Codec::Tokenizer(tokenizer) => Some(&mut tokenizer.file),
            _ => None,
        }
    }

    /// How many fields it comes from.
    pub(crate) fn source_count(&self) -> usize {
        self.from.len().max(1)
    }

    /// The field that it comes from, where that is not called as the tensor: a column by name or position, a member by its
    /// extension (`"left.jpg"`), a value in a JSON member by its extension and pointer (`"json:/label"`).
    #[must_use]
    pub fn from(mut self, field: impl Into<ColumnRef>) -> Self {
        (self.from, self.several) = (vec![field.into()], false);
        self
    }

    /// The fields that it comes from, in this order.
    pub(crate) fn of_columns(mut self, fields: Vec<ColumnRef>) -> Self {
        (self.from, self.several) = (fields, true);
        self
    }

    /// The fields that `"*"` does not stand for; see [`Numbers::from`].
    #[must_use]
    pub fn except<C: Into<ColumnRef>>(mut self, fields: impl IntoIterator<Item = C>) -> Self {
        self.except = fields.into_iter().map(Into::into).collect();
        self
    }

    /// The field names a file, whose bytes are meant. A relative path starts at the folder of the file that names it.
    #[must_use]
    pub fn file(mut self) -> Self {
        self.is_file = true;
        self
    }

    /// What the tensor is to the trainer. By default a class or a segmentation map is a label, and everything else a feature.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// A feature or label, unless told otherwise.
    pub(crate) fn role_or_default(&self) -> Role {
        let is_label = match &self.codec {
            Codec::Class { .. } | Codec::Targets(_) => true,
            Codec::Image(image) => image.options().colour == ImageColour::Index,
            _ => false,
        };
        self.role.unwrap_or(if is_label { Role::Label } else { Role::Feature })
    }

    /// The columns of tensor `name`: those that are named, or the one that is called as the tensor.
    pub(crate) fn columns(&self, name: &str) -> Vec<ColumnRef> {
        if self.from.is_empty() { vec![name.into()] } else { self.from.clone() }
    }
}

impl From<Numbers> for Field {
    fn from(numbers: Numbers) -> Self {
        Self::new(Codec::Numbers(numbers))
    }
}

impl From<Array> for Field {
    fn from(Array { dtype, shape }: Array) -> Self {
        Self::new(Codec::Array { dtype, shape })
    }
}

impl From<Text> for Field {
    fn from(Text { max_len, longer }: Text) -> Self {
        Self::new(Codec::Text { max_len, longer })
    }
}

/// Images of one sample each get a geometry of their own, unless they name one, and so do sounds.
pub(crate) fn named_geometries(fields: &[(String, Field)]) -> Vec<(String, Field)> {
    let is_image = |(_, field): &&(String, Field)| matches!(field.codec, Codec::Image(_));
    let mut fields = fields.to_vec();
    if fields.iter().filter(is_image).count() > 1 {
        for (name, field) in &mut fields {
            if let Codec::Image(image) = &mut field.codec {
                image.name_geometry(name);
            }
        }
    }
    if fields.iter().filter(|(_, field)| matches!(field.codec, Codec::Audio(_))).count() > 1 {
        for (name, field) in &mut fields {
            if let Codec::Audio(audio) = &mut field.codec {
                audio.name_geometry(name);
            }
        }
    }
    let images: Vec<_> = fields.iter().filter(is_image).cloned().collect();
    for (_, field) in &mut fields {
        if let Codec::Image(map) = &mut field.codec {
            images.iter().for_each(|(_, image)| map.go_with(image));
        }
    }
    for (name, field) in &mut fields {
        let columns = field.columns(name);
        if let Codec::Targets(targets) = &mut field.codec
            && targets.picture.is_none()
        {
            targets.go_with(&mut field.from, columns, &images);
        }
    }
    fields
}
