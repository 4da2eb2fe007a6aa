//! Images among the formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::decode::image::{ImageFormat, header};
use crate::decode::{ImageOptions, LabelFormat};
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::{Codec, Field, Image};
use crate::read::folder::is_by_class;
use crate::read::format::{Check, Checks, Details, Entry, Format, Inspection, NamedCount, Open, Opened, format_has};
use crate::read::{Container, RecordReader, SavedIndex, named_geometries};
use crate::storage::Files;
use crate::tree::{Node, Told};

use super::values::ImageValues;
use super::{IMAGES, ImageFolder, ImageLabels, ImageRecord, is_image_name, summarise_image};

/// The format of folders of images: with one subfolder a class, or without classes; and of single images.
#[derive(Clone, Copy, Debug)]
pub struct Images;

/// How images are read: in settings, `saved_index` stands beside the options of each image.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FolderOptions {
    /// Where the listing of the folder is kept for the next run.
    #[serde(skip_serializing_if = "is_off")]
    pub saved_index: SavedIndex,
    /// How each image is read.
    #[serde(flatten)]
    pub images: ImageOptions,
}

fn is_off(saved: &SavedIndex) -> bool {
    *saved == SavedIndex::Off
}

impl<'de> Deserialize<'de> for FolderOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut node = Node::deserialize(deserializer)?;
        let saved_index = match &mut node {
            Node::Table(entries) => {
                entries.iter().position(|(key, _)| key == "saved_index").map(|at| entries.remove(at).1)
            }
            _ => None,
        };
        let told = |fault: crate::tree::Fault| D::Error::custom(Told(&fault));
        let saved_index = saved_index.map(|saved| SavedIndex::deserialize(&saved)).transpose().map_err(told)?;
        let images = ImageOptions::deserialize(&node).map_err(told)?;
        Ok(Self { saved_index: saved_index.unwrap_or_default(), images })
    }
}

impl From<ImageOptions> for FolderOptions {
    fn from(images: ImageOptions) -> Self {
        Self { saved_index: SavedIndex::Off, images }
    }
}

/// The options of each field that is an image, one at least; the first gives the class, too.
fn of_fields(base: &ImageOptions, fields: &[(String, Field)]) -> Result<Vec<ImageOptions>> {
    let fault = |name: &str, message: &'static str| Err(Error::new(ErrorKind::Config, message).at_column(name));
    let (mut images, mut class) = (Vec::new(), None);
    for (name, field) in fields {
        match &field.codec {
            Codec::Image(image) => images.push(own_options(name, image, base)),
            Codec::Class { names, one_hot } if class.is_none() => {
                let format = if *one_hot { LabelFormat::OneHot } else { LabelFormat::I64 };
                class = Some((name.clone(), names.clone(), format));
            }
            Codec::Class { .. } => return fault(name, "a folder of images has one class for each image"),
            _ => return fault(name, "a folder of images has two fields: the image, and its class"),
        }
    }
    let Some(first) = images.first_mut() else {
        return fault(fields.first().map_or("", |(name, _)| name), "no field is an image, of which this is a folder");
    };
    if let Some((name, names, format)) = class {
        (first.label_name, first.classes, first.labels) = (name, names, format);
    }
    Ok(images)
}

/// The options of an image that is tensor `name`.
pub(crate) fn own_options(name: &str, image: &Image, base: &ImageOptions) -> ImageOptions {
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

/// Of a storage the name tells: why it can't be listed is worth more than that it is no folder.
fn is_folder(at: &Open<'_>) -> bool {
    if at.files.are_local() { at.path.is_dir() } else { !is_image_name(at.path) }
}

fn open(options: &ImageOptions, saved: &SavedIndex, at: &Open<'_>) -> Result<ImageFolder> {
    match is_folder(at) {
        true => ImageFolder::detect_in(at.files, at.path, options, saved, at.budget),
        false => Ok(ImageFolder::from_paths([at.path], ImageLabels::None, options)?.among(at.files)),
    }
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
        Some("images (JPEG, PNG, WebP, BMP, GIF, TIFF) and folders of them")
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

    fn faults(&self, options: &FolderOptions) -> Vec<String> {
        options.images.faults()
    }

    fn field_faults(&self, options: &FolderOptions, fields: &[(String, Field)]) -> Result<()> {
        of_fields(&options.images, fields).map(|_| ())
    }

    fn make_plain(&self, options: &mut FolderOptions) {
        options.images.augment.clear();
    }

    format_has!(saved_index);

    fn open(&self, options: &FolderOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        if at.fields.is_empty() {
            return open(&options.images, &options.saved_index, at).map(Opened::reader);
        }
        let own = of_fields(&options.images, &named_geometries(at.fields)).map_err(|error| error.at_path(at.path))?;
        let mut own = own.into_iter();
        let first = own.next().unwrap_or_default();
        let views = open(&first, &options.saved_index, at)?.with_views(own)?;
        Ok(Opened::Readers(vec![Arc::new(views) as Arc<dyn RecordReader>]))
    }

    fn open_values(&self, options: &FolderOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let folder = match paths {
            [folder] if is_folder(&Open { path: folder, ..*at }) => {
                ImageFolder::detect_in(at.files, folder, &options.images, &options.saved_index, at.budget)?
            }
            paths => ImageFolder::from_paths(paths, ImageLabels::None, &options.images)?.among(at.files),
        };
        Ok(Box::new(ImageValues::new(folder)))
    }

    fn checks(&self, options: &FolderOptions, at: &Open<'_>) -> Result<Checks> {
        if !is_folder(at) {
            let image = ImageFolder::from_paths([at.path], ImageLabels::None, &options.images)?.among(at.files);
            return Ok(Check::reader(image, false).into());
        }
        if !at.files.are_local() {
            let images = ImageFolder::detect_in(at.files, at.path, &options.images, &SavedIndex::Off, at.budget)?;
            return Ok(Check::reader(images, false).into());
        }
        let (images, refused) = ImageFolder::detect_readable(at.path, &options.images)?;
        Ok(Checks { refused, ..Check::reader(images, false).into() })
    }

    fn inspect(&self, options: &FolderOptions, at: &Open<'_>) -> Result<Inspection> {
        if !is_folder(at) {
            let summary = summarise_image(at.path)?;
            let entry = || Some(Entry::Image { path: text_of(at.path), label: None });
            return Ok(Inspection {
                fields: vec![summary.field],
                first: entry(),
                last: entry(),
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
            ImageFolder::detect_in(at.files, at.path, &options.images, &SavedIndex::Off, at.budget)?.summarise();
        let entry = |record: ImageRecord| Some(Entry::Image { path: text_of(&record.path), label: record.label });
        let first = summary.ignored_files.iter().map(|path| text_of(path)).collect();
        Ok(Inspection {
            fields: summary.fields,
            first: entry(summary.first),
            last: entry(summary.last),
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
