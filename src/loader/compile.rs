use crate::decode::{ImageOptions, LabelFormat};
use crate::error::{Error, ErrorKind, Result};
use crate::loader::SourceConfig;
use crate::read::fields::{Codec, Field, Image, Numbers};
use crate::read::{ClassBy, ColumnRef, ColumnTensor, ColumnValues, TarField};

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
        ..image.options().clone()
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
            Codec::Numbers(numbers) => {
                let shape = numbers.shape.clone().or_else(|| (!field.is_several()).then(Vec::new));
                tensor(ColumnValues::Numbers, Some(numbers.dtype), shape)
            }
            Codec::Array { .. } => return fault(name, "a column holds no array"),
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
            Codec::Numbers(Numbers { dtype, shape: None, .. }) => first.fields.push(TarField::Number {
                extension: member.extension,
                pointer: member.pointer,
                name: Some(name.clone()),
                role: field.role_or_default(),
                dtype: *dtype,
            }),
            Codec::Numbers(_) => return fault(name, "a member holds one number, which has no shape"),
            Codec::Array { .. } => return fault(name, "not yet"),
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
    let Codec::Numbers(Numbers { dtype, shape: None, .. }) = &field.codec else {
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
