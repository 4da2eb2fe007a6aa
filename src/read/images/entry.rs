//! Images among the formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::decode::image::{ImageFormat, header};
use crate::decode::{ImageOptions, LabelFormat};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::{Class, Codec, Field, Image, fault_of};
use crate::read::folder::{has_class_folders, is_by_class, no_classes};
use crate::read::format::{
    Check, Checks, Details, Foretold, Format, InspectedRecord, Inspection, NamedCount, Open, Opened, format_has,
};
use crate::read::{Container, RecordReader, SavedIndex, named_geometries};
use crate::storage::Files;

use super::options::FolderOptions;
use super::values::ImageValues;
use super::{IMAGES, ImageFolder, ImageLabels, ImageRecord, is_image_name, summary::summarise_one};

/// The format of folders of images, with one subfolder per class or without classes, and of single images.
#[derive(Clone, Copy, Debug)]
pub struct Images;

/// The options of each field that is an image, at least one; the first one also gives the class.
fn of_fields(folder: &FolderOptions, fields: &[(String, Field)]) -> Result<Vec<ImageOptions>> {
    let fault = |name: &str, message: &'static str| Err(Error::new(ErrorKind::Config, message).at_column(name));
    let (mut images, mut class) = (Vec::new(), None);
    for (name, field) in fields {
        match &field.codec {
            Codec::Image(image) => {
                field.check_from(&["image", "image.bytes"]).map_err(|error| error.at_column(name))?;
                let options = own_options(name, image, folder);
                if let faults @ [_, ..] = options.faults().as_slice() {
                    return Err(Error::new(ErrorKind::Config, faults.join("; ")).at_column(name));
                }
                images.push(options);
            }
            Codec::Class { names, one_hot, dtype } if class.is_none() => {
                field.check_from(&["label"]).map_err(|error| error.at_column(name))?;
                let format = match (one_hot, dtype) {
                    (true, None | Some(DType::F32)) => LabelFormat::OneHot,
                    (false, None | Some(DType::I64)) => LabelFormat::I64,
                    (false, Some(DType::U32)) => LabelFormat::U32,
                    _ => {
                        return fault(
                            name,
                            "classes of images are i64 or u32, or one-hot f32; the transform cast converts them",
                        );
                    }
                };
                class = Some((name.clone(), names.clone(), format));
            }
            Codec::Class { .. } => return fault(name, "a folder of images has one class for each image"),
            _ => return fault(name, "a folder of images has two fields: the image, and its class"),
        }
    }
    let Some(first) = images.first_mut() else {
        return fault(
            fields.first().map_or("", |(name, _)| name),
            "no field is an image, but this is a folder of \
                                                                   images",
        );
    };
    if let Some((name, names, format)) = class {
        (first.label_name, first.classes, first.labels) = (name, names, format);
    }
    Ok(images)
}

/// The options of an image that is tensor `name`.
fn own_options(name: &str, image: &Image, folder: &FolderOptions) -> ImageOptions {
    let (image_name, max_file_bytes) = (name.to_owned(), folder.max_file_bytes);
    ImageOptions { image_name, labels: LabelFormat::Off, classes: None, max_file_bytes, ..image.options().clone() }
}

/// The default fields of pictures: unchanged, of any size, and their class, if they have one.
pub(crate) fn usual_fields() -> Vec<(String, Field)> {
    let image = Image::of_any_size().dtype(DType::U8);
    vec![("image".to_owned(), image.into()), ("label".to_owned(), Into::<Field>::into(Class).usual())]
}

/// How to read the pictures that `at` requests: all of them, and the first one with the class.
fn wanted(options: &FolderOptions, at: &Open<'_>) -> Result<Vec<ImageOptions>> {
    let usual;
    let fields = match at.fields.is_empty() {
        true => {
            usual = usual_fields();
            &usual
        }
        false => at.fields,
    };
    named_geometries(fields).and_then(|fields| of_fields(options, &fields)).map_err(|error| error.at_path(at.path))
}

/// How to read them if it does not matter, such as for a listing.
fn first(options: &FolderOptions, at: &Open<'_>) -> Result<ImageOptions> {
    Ok(wanted(options, at)?.swap_remove(0))
}

/// In a storage, the name decides: the reason why it can't be listed is a better error than that it is not a folder.
fn is_folder(at: &Open<'_>) -> bool {
    if at.files.are_local() { at.path.is_dir() } else { !is_image_name(at.path) }
}

fn open(options: &ImageOptions, saved: &SavedIndex, at: &Open<'_>) -> Result<ImageFolder> {
    let images = match is_folder(at) {
        true => ImageFolder::detect_in(at.files, at.path, options, saved, at.budget)?,
        false => ImageFolder::from_paths_within([at.path], ImageLabels::None, options, at.budget)?.among(at.files),
    };
    check_class(&images, at)?;
    Ok(images)
}

/// The images of all fields.
fn open_views(options: &FolderOptions, at: &Open<'_>) -> Result<ImageFolder> {
    let mut own = wanted(options, at)?.into_iter();
    let first = own.next().unwrap_or_default();
    open(&first, &options.saved_index, at)?.with_views(own)
}

/// Refuses a class that is requested by name if the images do not have it.
fn check_class(images: &ImageFolder, at: &Open<'_>) -> Result<()> {
    let asked = at.fields.iter().find(|(_, field)| matches!(field.codec, Codec::Class { .. }) && !field.is_usual);
    let Some((name, _)) = asked.filter(|_| images.label_place.is_none()) else { return Ok(()) };
    if images.classes().is_empty() {
        return Err(no_classes(name, at.path, is_folder(at)));
    }
    let message = "the classes of maps are those of the images that they belong to; ask for the class there";
    Err(Error::new(ErrorKind::Config, message).at_column(name).at_path(at.path))
}

impl Format for Images {
    const NAME: &'static str = "images";
    type Options = FolderOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        ImageFormat::of_content(head).is_some_and(|format| match format {
            // Text may begin with BM, or with P1: a column called "BMI" does.
            ImageFormat::Bmp => head.contains(&0),
            ImageFormat::Pnm => header(head).is_ok(),
            _ => true,
        })
    }

    fn has_name(&self, name: &str) -> bool {
        is_image_name(Path::new(name))
    }

    fn kind(&self, path: &Path) -> &'static str {
        if path.is_dir() { "image_folder" } else { "image" }
    }

    fn title(&self) -> Option<&'static str> {
        Some("images (JPEG, PNG, WebP, BMP, GIF, TIFF, PNM) and folders of them")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed image; decompress it first")
    }

    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool> {
        is_by_class(files, path, IMAGES)
    }

    fn takes_whole(&self, _: &Files, _: &Path) -> bool {
        true
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        head.is_none() && is_image_name(path)
    }

    fn field_faults(&self, options: &FolderOptions, fields: &[(String, Field)]) -> Vec<String> {
        fault_of(of_fields(options, fields))
    }

    fn usual_fields(&self, _: &FolderOptions, at: &Open<'_>) -> Result<Vec<(String, Field)>> {
        let has_classes = !at.files.are_local() || at.path.is_dir() && has_class_folders(at.path, IMAGES)?;
        Ok(usual_fields().into_iter().take(if has_classes { 2 } else { 1 }).collect())
    }

    format_has!(saved_index);

    fn open(&self, options: &FolderOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        Ok(Opened::Readers(vec![Arc::new(open_views(options, at)?) as Arc<dyn RecordReader>]))
    }

    fn foretell(&self, options: &FolderOptions, at: &Open<'_>) -> Result<Foretold> {
        let views = open_views(options, at)?;
        let ignored = views.ignored();
        Ok(Foretold { ignored, ..Foretold::of_reader(Arc::new(views), at.budget.used()) })
    }

    fn open_values(&self, options: &FolderOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let images = first(options, &Open { fields: &[], ..*at })?;
        let folder = match paths {
            [folder] if is_folder(&Open { path: folder, ..*at }) => {
                ImageFolder::detect_in(at.files, folder, &images, &options.saved_index, at.budget)?
            }
            paths => ImageFolder::from_paths_within(paths, ImageLabels::None, &images, at.budget)?.among(at.files),
        };
        Ok(Box::new(ImageValues::new(folder)))
    }

    fn checks(&self, options: &FolderOptions, at: &Open<'_>) -> Result<Checks> {
        let images = first(options, at)?;
        if !is_folder(at) {
            let image =
                ImageFolder::from_paths_within([at.path], ImageLabels::None, &images, at.budget)?.among(at.files);
            check_class(&image, at)?;
            return Ok(Check::reader(image, false).into());
        }
        if !at.files.are_local() {
            let images = ImageFolder::detect_in(at.files, at.path, &images, &SavedIndex::Off, at.budget)?;
            check_class(&images, at)?;
            return Ok(Check::reader(images, false).into());
        }
        let (images, refused) = ImageFolder::detect_readable(at.path, &images, at.budget)?;
        check_class(&images, at)?;
        Ok(Checks { refused, ..Check::reader(images, false).into() })
    }

    fn inspect(&self, options: &FolderOptions, at: &Open<'_>) -> Result<Inspection> {
        if !is_folder(at) {
            let summary = summarise_one(at.files, at.path)?;
            let inspected = || Some(InspectedRecord::Image { path: text_of(at.path), label: None });
            return Ok(Inspection {
                fields: vec![summary.field],
                first: inspected(),
                last: inspected(),
                details: Details::Image {
                    width: summary.width,
                    height: summary.height,
                    channels: summary.channels,
                    channel_means: summary.channel_means,
                    orientation: summary.orientation,
                },
                ..Inspection::new(at.path, summary.format, 1)
            });
        }
        let summary =
            ImageFolder::detect_in(at.files, at.path, &first(options, at)?, &SavedIndex::Off, at.budget)?.summarise();
        let inspected =
            |record: ImageRecord| Some(InspectedRecord::Image { path: text_of(&record.path), label: record.label });
        let first = summary.ignored_files.iter().map(|path| text_of(path)).collect();
        Ok(Inspection {
            fields: summary.fields,
            first: inspected(summary.first),
            last: inspected(summary.last),
            details: Details::Files {
                classes: summary.classes,
                formats: summary.formats,
                ignored: NamedCount { count: summary.ignored, first },
            },
            ..Inspection::new(at.path, self.kind(at.path), summary.records)
        })
    }
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
