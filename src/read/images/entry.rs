//! Images among the formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::decode::image::{ImageFormat, header};
use crate::decode::{ImageOptions, LabelFormat};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::{Class, Codec, Field, Image, faults_of_fields};
use crate::read::folder::{
    ClassLists, FileValues, NamedFields, class_of, has_class_folders, is_by_class, no_classes, of_class, other_classes,
    split, with_classes,
};
use crate::read::format::{
    Check, Checks, Details, Foretold, Format, InspectedRecord, Inspection, NamedCount, Open, Opened, format_has,
    open_parts,
};
use crate::read::many::Many;
use crate::read::names::{is_csv_name, plain_name};
use crate::read::{Container, FieldReader, RecordReader, SavedIndex, named_geometries};
use crate::storage::Files;
use crate::tree::no_faults;

use super::options::FolderOptions;
use super::{IMAGES, ImageFolder, ImageLabels, ImageRecord, is_image_name, summary::summarise_one};

/// The format of folders of images, with one subfolder per class or without classes, and of single images.
#[derive(Clone, Copy, Debug)]
pub struct Images;

/// Splits the fields into images with a class of the usual types, which are decoded here, and the others.
fn split_fields(fields: &[(String, Field)]) -> Result<(NamedFields, NamedFields)> {
    split(fields, "image", |field| match field.codec {
        Codec::Class { one_hot, dtype, .. } => label_format(one_hot, dtype).is_some(),
        _ => false,
    })
}

fn label_format(one_hot: bool, dtype: Option<DType>) -> Option<LabelFormat> {
    match (one_hot, dtype) {
        (true, None | Some(DType::F32)) => Some(LabelFormat::OneHot),
        (false, None | Some(DType::I64)) => Some(LabelFormat::I64),
        (false, Some(DType::U32)) => Some(LabelFormat::U32),
        _ => None,
    }
}

/// The options of each image; the first one also gives the class.
fn of_fields(folder: &FolderOptions, own: &[(String, Field)]) -> Result<Vec<ImageOptions>> {
    let (mut images, mut class) = (Vec::new(), None);
    for (name, field) in own {
        match &field.codec {
            Codec::Image(image) => {
                let options = own_options(name, image, folder);
                no_faults(options.faults()).map_err(|error| error.at_column(name))?;
                images.push(options);
            }
            Codec::Class { names, one_hot, dtype } => class = Some((name, names, label_format(*one_hot, *dtype))),
            _ => {}
        }
    }
    if let (Some(first), Some((name, names, Some(format)))) = (images.first_mut(), class) {
        (first.label_name, first.classes, first.labels) = (name.clone(), names.clone(), format);
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

/// The requested fields, or the default ones, as [`split_fields`].
fn wanted(at: &Open<'_>) -> Result<(NamedFields, NamedFields)> {
    let usual;
    let fields = match at.fields.is_empty() {
        true => {
            usual = usual_fields();
            &usual
        }
        false => at.fields,
    };
    named_geometries(fields).and_then(|fields| split_fields(&fields)).map_err(|error| error.at_path(at.path))
}

/// How to read the images if only the first field counts, or none of them, such as for a listing; and which fields are
/// decoded here.
fn first(options: &FolderOptions, at: &Open<'_>) -> Result<(ImageOptions, NamedFields)> {
    let (own, _) = wanted(at)?;
    let own = if own.is_empty() { usual_fields() } else { own };
    let images = of_fields(options, &own).map_err(|error| error.at_path(at.path))?;
    Ok((images.into_iter().next().unwrap_or_default(), own))
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

/// The readers that together give all fields, and the number of files that were left out.
fn open_all(options: &FolderOptions, at: &Open<'_>, lists: &ClassLists) -> Result<(Vec<Arc<dyn RecordReader>>, u64)> {
    let (own, others) = wanted(at)?;
    let mut views = of_fields(options, &own).map_err(|error| error.at_path(at.path))?.into_iter();
    let mut first = views.next().unwrap_or_else(|| own_options("image", &Image::of_any_size(), options));
    let class = others.iter().find_map(|(name, field)| Some((name, class_of(field)?)));
    if let Some((name, names)) = class.filter(|_| first.labels == LabelFormat::Off) {
        // The name is for errors alone.
        (first.label_name, first.classes) = (name.clone(), names.cloned());
    }
    let folder = open(&first, &options.saved_index, &Open { fields: &own, ..*at })?.with_views(views)?;
    let ignored = folder.ignored();
    let folder = Arc::new(folder);
    let mut readers: Vec<Arc<dyn RecordReader>> = Vec::new();
    if !own.is_empty() {
        readers.push(folder.clone());
    }
    if !others.is_empty() {
        if let Some(name) = of_class(&others).filter(|_| folder.classes().is_empty()) {
            return Err(no_classes(name, at.path, is_folder(at)));
        }
        let others = with_classes(others, folder.classes());
        lists.add(at.path, &others, folder.classes());
        let values = values_of(folder).only(&others);
        readers.extend(FieldReader::with_files(Box::new(values), &others, at.files, at.budget)?);
    }
    Ok((readers, ignored))
}

fn values_of(folder: Arc<ImageFolder>) -> FileValues {
    let most = folder.options().max_file_bytes;
    FileValues::new(folder, "image", most)
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

    fn sniff(&self, head: &[u8], path: &Path) -> bool {
        ImageFormat::of_content(head).is_some_and(|format| match format {
            // Text may begin with BM, or with P1: a column called "BMI" does. So may the name of a tar archive's first member.
            ImageFormat::Bmp => head.contains(&0) && head.get(257..262) != Some(b"ustar"),
            ImageFormat::Pnm => header(head).is_ok() && !is_csv_name(&plain_name(path)),
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
        faults_of_fields(fields, |fields| split_fields(fields).and_then(|(own, _)| of_fields(options, &own)))
    }

    fn usual_fields(&self, _: &FolderOptions, at: &Open<'_>) -> Result<Vec<(String, Field)>> {
        let has_classes = !at.files.are_local() || at.path.is_dir() && has_class_folders(at.path, IMAGES)?;
        Ok(usual_fields().into_iter().take(if has_classes { 2 } else { 1 }).collect())
    }

    format_has!(saved_index, reading_by_name);

    fn open(&self, options: &FolderOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        open_all(options, at, &ClassLists::default()).map(|(readers, _)| Opened::Readers(readers))
    }

    fn open_many(&self, options: &FolderOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        let lists = ClassLists::default();
        let open = |at: &Open<'_>| open_all(options, at, &lists).map(|(readers, _)| Opened::Readers(readers));
        let opened = open_parts(&open, paths, at)?;
        lists.check(paths)?;
        Ok(opened)
    }

    fn foretell(&self, options: &FolderOptions, at: &Open<'_>) -> Result<Foretold> {
        let (readers, ignored) = open_all(options, at, &ClassLists::default())?;
        Ok(Foretold { ignored, ..Foretold::of_opened(Opened::Readers(readers), at)? })
    }

    fn open_values(&self, options: &FolderOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let (images, _) = first(options, &Open { fields: &[], ..*at })?;
        let is_folder = |path: &PathBuf| is_folder(&Open { path, ..*at });
        let open = |paths: &[PathBuf]| match paths {
            [folder] if is_folder(folder) => {
                ImageFolder::detect_in(at.files, folder, &images, &options.saved_index, at.budget)
            }
            paths => Ok(ImageFolder::from_paths_within(paths, ImageLabels::None, &images, at.budget)?.among(at.files)),
        };
        if paths.len() < 2 || !paths.iter().any(is_folder) {
            return Ok(Box::new(values_of(Arc::new(open(paths)?))));
        }
        let folders = paths.iter().map(|path| open(std::slice::from_ref(path))).collect::<Result<Vec<_>>>()?;
        if let Some(at) = folders.iter().position(|folder| folder.classes() != folders[0].classes()) {
            let of = |at: usize| (paths[at].as_path(), folders[at].classes());
            return Err(other_classes(of(at), of(0)));
        }
        let values = folders.into_iter().map(|folder| Box::new(values_of(Arc::new(folder))) as Box<dyn Container>);
        Ok(Box::new(Many::new(values.collect(), paths)?))
    }

    fn checks(&self, options: &FolderOptions, at: &Open<'_>) -> Result<Checks> {
        let (images, own) = first(options, at)?;
        let at = &Open { fields: &own, ..*at };
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
        let (images, _) = first(options, at)?;
        let summary = ImageFolder::detect_in(at.files, at.path, &images, &SavedIndex::Off, at.budget)?.summarise();
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
