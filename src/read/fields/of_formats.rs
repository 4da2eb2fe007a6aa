//! Fields of what single formats hold: pictures, sounds, arrays, tokens. `no_formats` replaces them where these formats
//! are left out.

use std::path::{Path, PathBuf};

use serde::Deserializer;

use crate::decode::audio::is_audio_name;
use crate::decode::image::ImageFormat;
use crate::error::Result;
use crate::read::container::{FieldInfo, FieldKind};

use super::{Array, Codec, Field, Image};

pub(super) use super::{BoxFormat, PointFormat, TargetFormat};
pub(super) use crate::decode::{AudioCrop, CropFit, ImageAugment, ImageColour, JpegDecoder, PixelOrder, ResizeFilter};
pub(super) use crate::read::fixed::{Endian, StoredType};

impl Field {
    /// Whether it is a segmentation map.
    pub(crate) fn is_map(&self) -> bool {
        self.codec.is_map()
    }

    /// Its picture, if it is one, to change its settings.
    pub fn image_mut(&mut self) -> Option<&mut Image> {
        match &mut self.codec {
            Codec::Image(image) => Some(image),
            _ => None,
        }
    }
}

impl Codec {
    /// Whether the tensor of such a field has another length than the value.
    pub(super) fn has_own_length(&self) -> bool {
        matches!(self, Self::Image(_) | Self::Audio(_) | Self::Tokenizer(_) | Self::Targets(_) | Self::Array(_))
    }

    /// Removes everything random.
    pub(super) fn make_plain(&mut self) {
        match self {
            Self::Image(image) => image.make_plain(),
            Self::Audio(audio) => audio.make_plain(),
            _ => {}
        }
    }

    /// The file that it needs.
    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Tokenizer(tokenizer) => Some(&mut tokenizer.file),
            _ => None,
        }
    }

    /// Whether its tensor is a label by default.
    pub(super) fn is_label(&self) -> bool {
        match self {
            Self::Targets(_) => true,
            _ => self.is_map(),
        }
    }

    /// Whether it is a segmentation map.
    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Image(image) if image.options().colour == ImageColour::Index)
    }

    /// The geometry that a picture, a map, boxes or points name.
    fn geometry(&self) -> Option<&str> {
        match self {
            Self::Image(image) => image.options().geometry.as_deref(),
            Self::Targets(targets) => targets.geometry.as_deref(),
            _ => None,
        }
    }
}

/// Why a column of a table can't become this, unless it names files.
pub(in crate::read) fn no_column(codec: &Codec) -> Option<&'static str> {
    match codec {
        Codec::Image(_) => Some("a column holds no image; if it names files, say `file`"),
        Codec::Array(_) => Some("a column holds no array; if it names files, say `file`"),
        _ => None,
    }
}

/// Faults of a codec on its own.
pub(super) fn faults(codec: &Codec) -> Vec<String> {
    match codec {
        Codec::Image(image) => {
            let options = image.options();
            let key = if options.colour == ImageColour::Index { "index_map" } else { "image" };
            said_as(key, "size", options.value_faults())
        }
        Codec::Audio(audio) => said_as("audio", "rate", audio.options().faults()),
        _ => Vec::new(),
    }
}

/// The faults of an option that has another key in fields.
fn said_as(key: &str, option: &str, faults: Vec<String>) -> Vec<String> {
    let said = |fault: String| match fault.strip_prefix(option) {
        Some(rest) if rest.starts_with(": ") => format!("{key}{rest}"),
        _ => fault,
    };
    faults.into_iter().map(said).collect()
}

/// The field that this word alone stands for.
pub(super) fn named(word: &str) -> Option<std::result::Result<Field, String>> {
    match word {
        "image" => Some(Ok(Image::of_any_size().into())),
        "array" => Some(Ok(Array::new().into())),
        _ => None,
    }
}

pub(super) fn some_operations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Vec<ImageAugment>>, D::Error> {
    crate::decode::named_operations(deserializer).map(Some)
}

/// Gives each image of a sample but the first its own geometry, unless it names one; also each sound of several.
/// Connects maps, boxes and points with their pictures.
///
/// # Errors
///
/// [`ErrorKind::Config`](crate::ErrorKind::Config) for a map that can't be transformed like its picture.
pub(crate) fn named_geometries(fields: &[(String, Field)]) -> Result<Vec<(String, Field)>> {
    let mut fields = fields.to_vec();
    let images = images_of(&fields);
    for (name, field) in &fields {
        if let Codec::Image(map) = &field.codec {
            map.check_alone(&images).map_err(|error| error.at_column(name))?;
        }
    }
    // The first image draws the same numbers with and without others, like a map of it in another source, unless
    // something of its record goes with it by its name.
    let is_named = |name: &str| fields.iter().any(|(_, field)| field.codec.geometry() == Some(name));
    let first = usize::from(images.first().is_some_and(|(name, _)| !is_named(name)));
    let own = fields.iter_mut().filter_map(|(name, field)| field.image_mut().map(|image| (name, image)));
    for (name, image) in own.skip(first) {
        image.name_geometry(name);
    }
    if fields.iter().filter(|(_, field)| matches!(field.codec, Codec::Audio(_))).count() > 1 {
        for (name, field) in &mut fields {
            if let Codec::Audio(audio) = &mut field.codec {
                audio.name_geometry(name);
            }
        }
    }
    let images = images_of(&fields);
    for (name, field) in &mut fields {
        if let Codec::Image(map) = &mut field.codec {
            let followed = images.iter().try_for_each(|(_, image)| map.go_with(image).map(drop));
            followed.map_err(|error| error.at_column(&*name))?;
        }
    }
    let images = images_of(&fields);
    for (name, field) in &mut fields {
        let columns = field.columns(name);
        if let Codec::Targets(targets) = &mut field.codec
            && targets.picture.is_none()
        {
            targets.go_with(&mut field.from, columns, &images);
        }
    }
    Ok(fields)
}

/// Connects maps with pictures of other sources, as [`named_geometries`] does with those of their own. Returns whether
/// any field was changed.
///
/// # Errors
///
/// As [`named_geometries`].
pub(crate) fn connect_sources(sources: &mut [&mut Vec<(String, Field)>]) -> Result<bool> {
    let mut has_changed = name_first_geometries(sources);
    for of_map in 0..sources.len() {
        for of_picture in (0..sources.len()).filter(|other| *other != of_map) {
            let Ok([maps, pictures]) = sources.get_disjoint_mut([of_map, of_picture]) else { continue };
            for (name, map) in maps.iter_mut() {
                let Codec::Image(map) = &mut map.codec else { continue };
                for (_, picture) in pictures.iter() {
                    has_changed |= map.go_with(picture).map_err(|error| error.at_column(&*name))?;
                }
            }
        }
    }
    Ok(has_changed)
}

/// If a map goes with the first picture of another source by its name, all sources' first images get that geometry: without
/// one, they draw the same numbers. Returns whether there is such a map.
fn name_first_geometries(sources: &mut [&mut Vec<(String, Field)>]) -> bool {
    let is_named =
        |fields: &[(String, Field)], name: &str| fields.iter().any(|(_, field)| field.codec.geometry() == Some(name));
    let first = |fields: &[(String, Field)]| {
        let (at, (name, field)) =
            fields.iter().enumerate().find(|(_, (_, field))| matches!(field.codec, Codec::Image(_)))?;
        (field.codec.geometry().is_none() && !is_named(fields, name)).then(|| (at, name.clone()))
    };
    let firsts: Vec<_> = sources.iter().map(|fields| first(fields)).collect();
    let goes_by_name = |name: &String| sources.iter().any(|fields| is_named(fields, name));
    let Some(name) = firsts.iter().flatten().map(|(_, name)| name).find(|name| goes_by_name(name)).cloned() else {
        return false;
    };
    for (fields, first) in sources.iter_mut().zip(firsts) {
        if let Some((at, _)) = first
            && let Some(image) = fields[at].1.image_mut()
        {
            image.name_geometry(&name);
        }
    }
    true
}

fn images_of(fields: &[(String, Field)]) -> Vec<(String, Field)> {
    fields.iter().filter(|(_, field)| matches!(field.codec, Codec::Image(_))).cloned().collect()
}

/// What a message proposes to make of a field.
pub(in crate::read) fn example(info: &FieldInfo) -> &'static str {
    let is_image = info.name.rsplit('.').next().is_some_and(|extension| ImageFormat::of_extension(extension).is_some());
    match info.kind {
        FieldKind::Bytes if is_image || info.name.contains("image") => "image = [224, 224]",
        FieldKind::Bytes if is_audio_name(Path::new(&info.name)) || info.name.contains("audio") => "audio = 16000",
        FieldKind::Bytes => "array = []",
        _ => "text = 80",
    }
}
