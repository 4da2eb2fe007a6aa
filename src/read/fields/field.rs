use std::path::PathBuf;

use crate::read::ColumnRef;
use crate::read::outside::OutsideCodec;
use crate::schema::Role;

use super::codec::Codec;

/// How one tensor is made: from which field of the source (a column, a member, a file), and how that field is decoded.
///
/// Make one from [`Image`], [`Audio`], [`Class`], [`Category`], [`Numbers`], [`Text`], [`Tokenizer`] and the others of
/// this module. [`from`](Field::from) names the field if it has another name than the tensor. [`file`](Field::file)
/// says that the field holds the path of a file, whose content is decoded.
///
/// [`Image`]: crate::field::Image
/// [`Audio`]: crate::field::Audio
/// [`Class`]: crate::field::Class
/// [`Category`]: crate::field::Category
/// [`Numbers`]: crate::field::Numbers
/// [`Text`]: crate::field::Text
/// [`Tokenizer`]: crate::field::Tokenizer
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

/// Fields are equal if they say the same about the data.
impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        let said = |field: &Self| (field.several, field.is_file, field.role);
        said(self) == said(other) && self.from == other.from && self.except == other.except && self.codec == other.codec
    }
}

impl Field {
    pub(super) fn new(codec: Codec) -> Self {
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

    /// Whether it is decoded by a codec of another module.
    pub(crate) fn is_outside(&self) -> bool {
        matches!(self.codec, Codec::Outside(_))
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

    /// Whether it is made of pictures.
    #[cfg(feature = "formats")]
    pub(crate) fn is_picture(&self) -> bool {
        matches!(self.codec, super::Codec::Image(_))
    }

    /// Whether it is made of pictures, which needs the formats.
    #[cfg(not(feature = "formats"))]
    pub(crate) fn is_picture(&self) -> bool {
        false
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

    /// The fields that `"*"` leaves out; see [`Numbers::from`](crate::field::Numbers::from).
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
}
