//! Fields: what each tensor of a sample is made of, in one language for all formats. `written` is their form in
//! settings.

#[cfg(feature = "formats")]
mod array;
#[cfg(feature = "formats")]
mod audio;
pub(crate) mod by_name;
mod faults;
#[cfg(feature = "formats")]
mod image;
mod names;
#[cfg_attr(not(feature = "formats"), path = "no_formats.rs")]
mod of_formats;
#[cfg(feature = "formats")]
mod of_options;
mod old;
mod others;
#[cfg(feature = "formats")]
mod targets;
#[cfg(feature = "formats")]
mod tokenizer;
mod written;
#[cfg(feature = "formats")]
mod written_of_formats;

use std::path::PathBuf;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Role;

use super::outside::OutsideCodec;
use super::{ColumnRef, Longer, Missing};

#[cfg(feature = "formats")]
pub use array::Array;
#[cfg(feature = "formats")]
pub use audio::Audio;
pub(crate) use by_name::ByName;
pub(crate) use faults::{fault_of, field_faults};
#[cfg(feature = "formats")]
pub use image::Image;
pub use names::{Category, Class, Classes};
pub(crate) use of_formats::{connect_sources, named_geometries};
pub(in crate::read) use of_formats::{example, no_column};
pub(crate) use old::{instead_of, old_among};
pub(crate) use others::{ALL_OTHERS, taken, with_others};
#[cfg(feature = "formats")]
pub use targets::{BoxFormat, Boxes, Keypoints, PointFormat};
#[cfg(feature = "formats")]
pub(crate) use targets::{TargetFormat, Targets};
#[cfg(feature = "formats")]
pub use tokenizer::Tokenizer;

/// How one tensor is made: from which field of the source (a column, a member, a file), and how that field is decoded.
///
/// Make one from [`Image`], [`Audio`], [`Class`], [`Category`], [`Numbers`], [`Text`], [`Tokenizer`] and the others of
/// this module. [`from`](Field::from) names the field if it has another name than the tensor. [`file`](Field::file)
/// says that the field holds the path of a file, whose content is decoded.
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
#[derive(Clone, Debug)]
pub struct Field {
    pub(crate) from: Vec<ColumnRef>,
    /// Whether a list was given, even a list of one: its tensor then has a dimension for it.
    pub(crate) several: bool,
    /// Fields that `"*"` does not include.
    pub(crate) except: Vec<ColumnRef>,
    pub(crate) role: Option<Role>,
    pub(crate) is_file: bool,
    /// Whether this field is a default, so that it is left out if the data does not have it.
    pub(crate) is_usual: bool,
    pub(crate) codec: Codec,
}

impl Field {
    /// The names and positions in the data that its settings name; the name of its tensor if they name none.
    pub(crate) fn names(&self, tensor: &str) -> Vec<ColumnRef> {
        match self.from.as_slice() {
            [] => vec![tensor.into()],
            from => from.iter().chain(&self.except).cloned().collect(),
        }
    }
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
    #[cfg(feature = "formats")]
    Image(Image),
    #[cfg(feature = "formats")]
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
    #[cfg(feature = "formats")]
    Tokenizer(Tokenizer),
    #[cfg(feature = "formats")]
    Targets(Targets),
    #[cfg(feature = "formats")]
    Array(Array),
    /// Settings can't name it.
    Outside(OutsideCodec),
}

/// Numbers. One field gives a tensor of shape `[]`, several fields give `[fields]`, or another [shape](Numbers::shape)
/// with as many elements. Lists of numbers all have the same shape, or are [padded](Numbers::max_len), or [stored one
/// after another](Numbers::ragged).
///
/// An integer type takes whole numbers in its range, exactly; in the columns of CSV only as digits with a sign,
/// elsewhere also as `3.0` or `3e0`. A floating point type rounds once, to the nearest number; a number that is too
/// large for it makes the record bad. True and false are 1 and 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    pub(crate) dtype: DType,
    pub(crate) shape: Option<Vec<usize>>,
    pub(crate) missing: Missing,
    pub(crate) max_len: Option<usize>,
    pub(crate) longer: Longer,
    pub(crate) pad: f64,
    pub(crate) list: bool,
    pub(crate) ragged: bool,
}

/// Lists of tokens: `i64 [max_len]`, padded at the end, with a mask (`u8`, suffix `_mask`). Short for [`Numbers`].
#[derive(Clone, Copy, Debug)]
pub struct Tokens;

/// UTF-8 text of at most `max_len` bytes: `u8 [max_len]`, padded with zeros, and its length in a tensor with the suffix
/// `_len`. Several fields give `[fields, max_len]` and `[fields]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    max_len: usize,
    longer: Longer,
}

impl Numbers {
    /// With this element type.
    pub fn of(dtype: DType) -> Self {
        Self {
            dtype,
            shape: None,
            missing: Missing::Error,
            max_len: None,
            longer: Longer::Error,
            pad: 0.0,
            list: false,
            ragged: false,
        }
    }

    /// With element type `f32`.
    pub fn f32() -> Self {
        Self::of(DType::F32)
    }

    /// With element type `f64`.
    pub fn f64() -> Self {
        Self::of(DType::F64)
    }

    /// With element type `i64`: whole numbers are read exactly.
    pub fn i64() -> Self {
        Self::of(DType::I64)
    }

    /// Another shape with the same number of elements: `[]` for a single number.
    #[must_use]
    pub fn shape(mut self, shape: &[usize]) -> Self {
        self.shape = Some(shape.to_vec());
        self
    }

    /// What to do with a missing value. By default its record is bad.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Lists of at most this many numbers, padded at the end, with a mask that is 1 for the numbers of the list: a `u8`
    /// tensor with the suffix `_mask`. Without `max_len` and without a shape, lists of different lengths are padded to
    /// the longest one of their batch.
    #[must_use]
    pub fn max_len(mut self, max_len: usize) -> Self {
        self.max_len = Some(max_len);
        self
    }

    /// Cuts off the end of a longer list. By default, a longer list makes its record bad.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.longer = Longer::Cut;
        self
    }

    /// Lists of any length, padded to the longest one of their batch, with a mask. Without this setting, the data
    /// decide whether a field holds lists: of one length, of different lengths, or single numbers. If [single records
    /// are served](crate::Loader::serve), there are no data.
    #[must_use]
    pub fn list(mut self) -> Self {
        self.list = true;
        self
    }

    /// Stores lists one after another, without padding: one tensor holds the numbers of all lists of a batch. Instead
    /// of a mask there is a tensor with the suffix `_offsets`, `i64 [samples + 1]`, which says where each list begins
    /// and where the last one ends. For a sparse matrix in compressed rows (CSR), the offsets are `indptr`.
    #[must_use]
    pub fn ragged(mut self) -> Self {
        self.ragged = true;
        self
    }

    /// The number that fills up a padded list. Default: 0.
    #[must_use]
    pub fn pad(mut self, value: f64) -> Self {
        self.pad = value;
        self
    }

    /// The field that the numbers come from, which adds no dimension; or a list of fields, in the order of the
    /// elements, which gives the dimension `[fields]`, even for a list of one. `"*"` means all fields of single numbers
    /// that no other tensor uses, without [those that are named](Field::except), and without the unnamed index of a
    /// frame of pandas (`__index_level_0__`).
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl Tokens {
    /// Lists of at most this many tokens. A longer one makes its record bad, unless it is [cut](Numbers::cut).
    #[expect(clippy::new_ret_no_self, reason = "tokens are numbers")]
    pub fn new(max_len: usize) -> Numbers {
        Numbers::i64().max_len(max_len)
    }

    /// Lists of any length, from this field: padded to the longest of their batch, or to the bound of its bucket.
    pub fn from(field: impl Into<Origin>) -> Field {
        Numbers::i64().list().from(field)
    }
}

impl Text {
    /// A longer text makes its record bad.
    pub fn new(max_len: usize) -> Self {
        Self { max_len, longer: Longer::Error }
    }

    /// Cuts off the end of a longer text, at a whole character.
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

/// Fields are equal if they say the same about the data.
impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        let said = |field: &Self| (field.several, field.is_file, field.role);
        said(self) == said(other) && self.from == other.from && self.except == other.except && self.codec == other.codec
    }
}

impl Field {
    fn new(codec: Codec) -> Self {
        Self {
            from: Vec::new(),
            several: false,
            except: Vec::new(),
            role: None,
            is_file: false,
            is_usual: false,
            codec,
        }
    }

    /// These fields, decoded by a codec of another module.
    pub(crate) fn outside(codec: OutsideCodec, fields: impl IntoIterator<Item = ColumnRef>) -> Self {
        Self { from: fields.into_iter().collect(), several: true, ..Self::new(Codec::Outside(codec)) }
    }

    /// The field that selects the records for this one, if not all are.
    pub(crate) fn choice(&self) -> Option<Self> {
        let Codec::Outside(codec) = &self.codec else { return None };
        codec.choice().map(|choice| Self { codec: Codec::Outside(choice), ..self.clone() })
    }

    /// Whether its tensor's length differs from the value's.
    pub(crate) fn has_own_length(&self) -> bool {
        self.is_file || self.codec.has_own_length()
    }

    /// Whether it has a dimension for the fields that it comes from.
    pub(crate) fn is_several(&self) -> bool {
        self.several
    }

    /// Removes everything random.
    pub(crate) fn make_plain(&mut self) {
        self.codec.make_plain();
    }

    /// The file that it needs, if it needs one.
    pub(crate) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        self.codec.path_mut()
    }

    /// How many fields it comes from.
    pub(crate) fn source_count(&self) -> usize {
        self.from.len().max(1)
    }

    /// The field that it comes from, if that has another name than the tensor: a column by name or position, a member
    /// by its extension (`"left.jpg"`), a value in a JSON member by its extension and pointer (`"json:/label"`).
    #[must_use]
    pub fn from(mut self, field: impl Into<ColumnRef>) -> Self {
        (self.from, self.several) = (vec![field.into()], false);
        self
    }

    /// The same, made of these fields in this order.
    pub(crate) fn of_columns(mut self, fields: Vec<ColumnRef>) -> Self {
        (self.from, self.several) = (fields, true);
        self
    }

    /// The fields that `"*"` leaves out; see [`Numbers::from`].
    #[must_use]
    pub fn except<C: Into<ColumnRef>>(mut self, fields: impl IntoIterator<Item = C>) -> Self {
        self.except = fields.into_iter().map(Into::into).collect();
        self
    }

    /// The field holds the path of a file, whose content is decoded. A relative path starts at the folder of the file
    /// that names it.
    #[must_use]
    pub fn file(mut self) -> Self {
        self.is_file = true;
        self
    }

    /// The role of the tensor. By default a class or a segmentation map is a label, and everything else is a feature.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// A feature or label, unless a role was given.
    pub(crate) fn role_or_default(&self) -> Role {
        let is_label = matches!(self.codec, Codec::Class { .. }) || self.codec.is_label();
        self.role.unwrap_or(if is_label { Role::Label } else { Role::Feature })
    }

    /// The columns of tensor `name`: those that are named, or the one with the tensor's name.
    pub(crate) fn columns(&self, name: &str) -> Vec<ColumnRef> {
        if self.from.is_empty() { vec![name.into()] } else { self.from.clone() }
    }

    /// The same as a default field.
    pub(crate) fn usual(self) -> Self {
        Self { is_usual: true, ..self }
    }

    /// Refuses a field that a folder of files does not have. Its own fields are called `names`.
    pub(crate) fn check_from(&self, names: &[&str]) -> Result<()> {
        let is_known = |from: &ColumnRef| matches!(from, ColumnRef::Name(name) if names.contains(&name.as_str()));
        match self.from.iter().find(|from| !is_known(from)) {
            None => Ok(()),
            Some(other) => {
                let message =
                    format!("from: a folder of files has no field {other}; leave `from` out, or say {:?}", names[0]);
                Err(Error::new(ErrorKind::Config, message))
            }
        }
    }
}

impl From<Numbers> for Field {
    fn from(numbers: Numbers) -> Self {
        Self::new(Codec::Numbers(numbers))
    }
}

impl From<Text> for Field {
    fn from(Text { max_len, longer }: Text) -> Self {
        Self::new(Codec::Text { max_len, longer })
    }
}
