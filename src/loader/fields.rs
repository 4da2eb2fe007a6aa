//! Fields: what each tensor of a sample is made of, in one language for every format.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::decode::{CropFit, ImageAugment, ImageColour, ImageOptions, LabelFormat, PixelOrder};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::{ClassBy, ColumnRef, ColumnTensor, ColumnValues, Longer, TarField};
use crate::schema::Role;

use super::SourceConfig;

/// What one tensor is made of: a field of the source (a column, a member, a file), and what becomes of it.
///
/// Made by [`Image`], [`Class`], [`Category`], [`Numbers`] and [`Text`]; [`from`](Field::from) names the field where it is
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
    from: Vec<ColumnRef>,
    role: Option<Role>,
    is_file: bool,
    codec: Codec,
}

#[derive(Clone, Debug, PartialEq)]
enum Codec {
    Image(Image),
    Class { names: Option<Vec<String>>, one_hot: bool },
    Category { names: Option<Vec<Vec<String>>>, missing: Option<i64> },
    Numbers { dtype: DType, shape: Option<Vec<usize>> },
    Text { max_len: usize, longer: Longer },
}

/// An image as a tensor: pixels of `f32`, 0 to 255 unless a normaliser scales them, `[channels, height, width]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Image(ImageOptions);

/// A class by its name or index, as an `i64` without a dimension. The names are those that are found, sorted, unless they
/// are [listed](Class::of).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class;

/// Codes of one or several columns of names, each with names of its own: `i64 [columns]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Category {
    missing: Option<i64>,
}

/// Numbers of one or several fields: `[fields]`, or another [shape](Numbers::shape) of as many.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    dtype: DType,
    shape: Option<Vec<usize>>,
}

/// UTF-8 text of at most so many bytes: `u8 [max_len]` with zeros behind it, and its length in a tensor called the same with
/// `_len` behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    max_len: usize,
    longer: Longer,
}

impl Image {
    /// Red, green and blue, resized to this many pixels.
    pub fn rgb(height: u32, width: u32) -> Self {
        Self(ImageOptions { size: Some((height, width)), dtype: DType::F32, ..ImageOptions::default() })
    }

    /// One channel of grey, resized to this many pixels.
    pub fn grey(height: u32, width: u32) -> Self {
        let Self(options) = Self::rgb(height, width);
        Self(ImageOptions { colour: ImageColour::Grey, ..options })
    }

    /// A segmentation map: a label of `i64 [height, width]` with the index that the file stores for each pixel. Nearest, never
    /// mixed, and untouched by operations on colour.
    pub fn index_map(height: u32, width: u32) -> Self {
        let Self(options) = Self::rgb(height, width);
        Self(ImageOptions { colour: ImageColour::Index, dtype: DType::I64, ..options })
    }

    /// Everything that images have options for.
    pub fn with(options: ImageOptions) -> Self {
        Self(options)
    }

    /// Random operations, in this order; leave them out for evaluation.
    #[must_use]
    pub fn augment(mut self, operations: impl IntoIterator<Item = ImageAugment>) -> Self {
        self.0.augment = operations.into_iter().collect();
        self
    }

    /// Element type.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.0.dtype = dtype;
        self
    }

    /// What becomes of images of another shape.
    #[must_use]
    pub fn fit(mut self, fit: CropFit) -> Self {
        self.0.fit = fit;
        self
    }

    /// Order of the dimensions.
    #[must_use]
    pub fn order(mut self, order: PixelOrder) -> Self {
        self.0.order = order;
        self
    }

    /// Images of a sample whose geometry has the same name are cut, flipped and turned alike; others each in their own way.
    #[must_use]
    pub fn geometry(mut self, name: impl Into<String>) -> Self {
        self.0.geometry = Some(name.into());
        self
    }

    /// The field that it comes from.
    #[must_use]
    pub fn from(self, field: impl Into<ColumnRef>) -> Field {
        Field::from(self.into(), field)
    }
}

impl Class {
    /// The classes in the order of their indices.
    pub fn of<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Field {
        let names = Some(names.into_iter().map(Into::into).collect());
        Field::new(Codec::Class { names, one_hot: false })
    }

    /// The field that it comes from.
    pub fn from(self, field: impl Into<ColumnRef>) -> Field {
        Field::from(self.into(), field)
    }
}

impl Category {
    /// Names are those that are found, sorted.
    pub fn new() -> Self {
        Self::default()
    }

    /// The code of a missing value, such as -1; without it, a missing value is an error.
    #[must_use]
    pub fn missing(mut self, code: i64) -> Self {
        self.missing = Some(code);
        self
    }
}

impl Numbers {
    /// Of this element type.
    pub fn of(dtype: DType) -> Self {
        Self { dtype, shape: None }
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

    /// The fields that they come from, in the order of the elements.
    pub fn from<C: Into<ColumnRef>>(self, fields: impl IntoIterator<Item = C>) -> Field {
        Field { from: fields.into_iter().map(Into::into).collect(), ..self.into() }
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
}

impl Field {
    fn new(codec: Codec) -> Self {
        Self { from: Vec::new(), role: None, is_file: false, codec }
    }

    /// The field that it comes from, where that is not called as the tensor: a column by name or position, a member by its
    /// extension (`"left.jpg"`), a value in a JSON member by its extension and pointer (`"json:/label"`).
    #[must_use]
    pub fn from(mut self, field: impl Into<ColumnRef>) -> Self {
        self.from = vec![field.into()];
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
    fn role_or_default(&self) -> Role {
        let is_label = match &self.codec {
            Codec::Class { .. } => true,
            Codec::Image(Image(options)) => options.colour == ImageColour::Index,
            _ => false,
        };
        self.role.unwrap_or(if is_label { Role::Label } else { Role::Feature })
    }

    /// The columns of tensor `name`: those that are named, or the one that is called as the tensor.
    fn columns(&self, name: &str) -> Vec<ColumnRef> {
        if self.from.is_empty() { vec![name.into()] } else { self.from.clone() }
    }
}

impl From<Image> for Field {
    fn from(image: Image) -> Self {
        Self::new(Codec::Image(image))
    }
}

impl From<Class> for Field {
    fn from(_: Class) -> Self {
        Self::new(Codec::Class { names: None, one_hot: false })
    }
}

impl From<Category> for Field {
    fn from(category: Category) -> Self {
        Self::new(Codec::Category { names: None, missing: category.missing })
    }
}

impl From<Numbers> for Field {
    fn from(Numbers { dtype, shape }: Numbers) -> Self {
        Self::new(Codec::Numbers { dtype, shape })
    }
}

impl From<Text> for Field {
    fn from(Text { max_len, longer }: Text) -> Self {
        Self::new(Codec::Text { max_len, longer })
    }
}

/// The sources that give these fields of `source`: itself, and another one for each field that it can't give together with
/// the others.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a field that such a source does not have, or that can't become what is asked for.
pub(super) fn compile(source: &SourceConfig, fields: &[(String, Field)]) -> Result<Vec<SourceConfig>> {
    let mut compiled = match source {
        SourceConfig::Images { .. } => of_images(source, fields),
        SourceConfig::Csv { .. } => of_csv(source, fields),
        SourceConfig::Tar { .. } => of_tar(source, fields),
        other => of_numbers(other, fields),
    }
    .map_err(|error| error.at_path(source.path()))?;
    apart(&mut compiled);
    Ok(compiled)
}

/// Images of one sample each get a geometry of their own, unless they name one.
fn apart(sources: &mut [SourceConfig]) {
    let mut images: Vec<&mut ImageOptions> = sources.iter_mut().filter_map(SourceConfig::images_mut).collect();
    if images.len() > 1 {
        for options in &mut images {
            if options.geometry.is_none() {
                options.geometry = Some(options.image_name.clone());
            }
        }
    }
}

fn fault<T>(name: &str, message: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::Config, message.into()).at_column(name))
}

fn image_options(name: &str, image: &Image, base: &ImageOptions) -> ImageOptions {
    ImageOptions {
        image_name: name.to_owned(),
        label_name: base.label_name.clone(),
        labels: LabelFormat::Off,
        classes: None,
        max_pixels: base.max_pixels,
        max_file_bytes: base.max_file_bytes,
        ..image.0.clone()
    }
}

fn of_images(source: &SourceConfig, fields: &[(String, Field)]) -> Result<Vec<SourceConfig>> {
    let SourceConfig::Images { path, saved_index, options } = source else { return Ok(vec![source.clone()]) };
    let mut images = Vec::new();
    let mut class = None;
    for (name, field) in fields {
        match &field.codec {
            Codec::Image(image) => images.push(image_options(name, image, options)),
            Codec::Class { names, one_hot } if class.is_none() => {
                let format = if *one_hot { LabelFormat::OneHot } else { LabelFormat::I64 };
                class = Some((name.clone(), names.clone(), format));
            }
            Codec::Class { .. } => return fault(name, "a folder of images has one class for each image"),
            _ => return fault(name, "a folder of images has two fields: the image, and its class"),
        }
    }
    let Some(first) = images.first_mut() else {
        return fault(&fields[0].0, "no field is an image, of which this is a folder");
    };
    if let Some((name, names, format)) = class {
        (first.label_name, first.classes, first.labels) = (name, names, format);
    }
    let source = |options| SourceConfig::Images { path: path.clone(), saved_index: saved_index.clone(), options };
    Ok(images.into_iter().map(source).collect())
}

fn of_csv(source: &SourceConfig, fields: &[(String, Field)]) -> Result<Vec<SourceConfig>> {
    let SourceConfig::Csv { path, options } = source else { return Ok(vec![source.clone()]) };
    let mut csv = options.clone();
    let mut named = Vec::new();
    for (name, field) in fields {
        let (role, columns) = (field.role_or_default(), field.columns(name));
        let tensor = |values, dtype, shape| ColumnTensor {
            name: name.clone(),
            role,
            columns: columns.clone(),
            dtype,
            shape,
            values,
        };
        csv.tensors.push(match &field.codec {
            Codec::Image(image) => match (field.is_file, columns.as_slice()) {
                (true, [column]) => {
                    let images = image_options(name, image, &ImageOptions::default());
                    named.push(SourceConfig::ImageList {
                        path: path.clone(),
                        column: column.clone(),
                        csv: options.clone(),
                        options: images,
                    });
                    continue;
                }
                (true, _) => return fault(name, "one column names the file of an image"),
                (false, _) => return fault(name, "a column holds no image; if it names files, say `file`"),
            },
            _ if field.is_file => return fault(name, "files that a column names may be images"),
            Codec::Class { names, one_hot } => {
                tensor(ColumnValues::Classes { names: names.clone(), one_hot: *one_hot }, None, None)
            }
            Codec::Category { names, missing } => {
                tensor(ColumnValues::Categories { names: names.clone(), missing: *missing }, None, None)
            }
            Codec::Numbers { dtype, shape } => tensor(ColumnValues::Numbers, Some(*dtype), shape.clone()),
            Codec::Text { max_len, longer } => {
                tensor(ColumnValues::Text { max_len: *max_len, longer: *longer }, None, None)
            }
        });
    }
    let mut sources = Vec::new();
    if !csv.tensors.is_empty() {
        sources.push(SourceConfig::Csv { path: path.clone(), options: csv });
    }
    sources.extend(named);
    Ok(sources)
}

fn of_tar(source: &SourceConfig, fields: &[(String, Field)]) -> Result<Vec<SourceConfig>> {
    let SourceConfig::Tar { path, options } = source else { return Ok(vec![source.clone()]) };
    let mut first = options.clone();
    let mut others = Vec::new();
    first.fields.clear();
    let mut has_image = false;
    for (name, field) in fields {
        if field.is_file {
            return fault(name, "a member holds its bytes itself; leave `file` out");
        }
        let member = Member::of(name, field)?;
        match &field.codec {
            Codec::Image(image) => {
                let extension = (!field.from.is_empty()).then(|| member.extension.clone());
                let images = image_options(name, image, &options.images);
                let image = TarField::Image { extension };
                if std::mem::replace(&mut has_image, true) {
                    let mut other = options.clone();
                    (other.fields, other.images) = (vec![image], images);
                    others.push(SourceConfig::Tar { path: path.clone(), options: other });
                } else {
                    let ImageOptions { label_name, classes, labels, .. } = first.images;
                    first.images = ImageOptions { label_name, classes, labels, ..images };
                    first.fields.push(image);
                }
            }
            Codec::Class { names, one_hot } => {
                let extension = if field.from.is_empty() { "cls".to_owned() } else { member.extension };
                let by = if names.is_some() { ClassBy::Name } else { ClassBy::Index };
                first.fields.push(TarField::Class { extension, pointer: member.pointer, by });
                first.images.label_name.clone_from(name);
                first.images.classes.clone_from(names);
                first.images.labels = if *one_hot { LabelFormat::OneHot } else { LabelFormat::I64 };
            }
            Codec::Text { max_len, longer } if member.pointer.is_none() => first.fields.push(TarField::Text {
                extension: member.extension,
                name: Some(name.clone()),
                max_len: *max_len,
                longer: *longer,
            }),
            Codec::Text { .. } => return fault(name, "the text of a tar archive is a whole member"),
            Codec::Numbers { dtype, shape: None } => first.fields.push(TarField::Number {
                extension: member.extension,
                pointer: member.pointer,
                name: Some(name.clone()),
                role: field.role_or_default(),
                dtype: *dtype,
            }),
            Codec::Numbers { .. } => return fault(name, "a member holds one number, which has no shape"),
            Codec::Category { .. } => return fault(name, "the members of tar archives hold a class, not categories"),
        }
    }
    others.insert(0, SourceConfig::Tar { path: path.clone(), options: first });
    Ok(others)
}

/// A member of a sample, and a place in it if it is JSON: `json:/objects/0/class`.
struct Member {
    extension: String,
    pointer: Option<String>,
}

impl Member {
    fn of(name: &str, field: &Field) -> Result<Self> {
        let text = match field.columns(name).as_slice() {
            [ColumnRef::Name(text)] => text.clone(),
            _ => return fault(name, "a tensor comes from one member, which is named by its extension"),
        };
        Ok(match text.split_once(':') {
            Some((extension, pointer)) => Self { extension: extension.to_owned(), pointer: Some(pointer.to_owned()) },
            None => Self { extension: text, pointer: None },
        })
    }
}

/// Files that hold nothing but numbers.
fn of_numbers(source: &SourceConfig, fields: &[(String, Field)]) -> Result<Vec<SourceConfig>> {
    let mut named = source.clone();
    let [(name, field)] = fields else {
        return fault(&fields[1].0, format!("{} holds one field; add a source for each other", source.format()));
    };
    let Codec::Numbers { dtype, shape: None } = &field.codec else {
        return fault(name, format!("{} holds numbers", source.format()));
    };
    let target = match &mut named {
        SourceConfig::Npy { options, .. } => (&mut options.name, &mut options.dtype, &mut options.role),
        SourceConfig::Raw { options, .. } => (&mut options.name, &mut options.dtype, &mut options.role),
        SourceConfig::Idx { options, .. } => (&mut options.name, &mut options.dtype, &mut options.role),
        _ => return fault(name, format!("{} names its tensors itself, in its options", source.format())),
    };
    *target.0 = Some(name.clone());
    *target.1 = Some(*dtype);
    *target.2 = field.role_or_default();
    Ok(vec![named])
}

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
pub(super) mod by_name {
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
