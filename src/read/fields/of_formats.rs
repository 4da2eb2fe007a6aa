//! Fields of what single formats hold: pictures, sounds, arrays, tokens. `no_formats` replaces them where these formats
//! are left out.

use std::path::{Path, PathBuf};

use serde::Deserializer;

use crate::decode::audio::is_audio_name;
use crate::decode::image::ImageFormat;
use crate::read::ColumnRef;
use crate::read::container::{FieldInfo, FieldKind};

use super::array::Array;
use super::codec::Codec;
use super::field::Field;
use super::image::Image;

pub(crate) use super::geometries::{connect_sources, named_geometries};
pub(super) use super::targets::{BoxFormat, PointFormat, TargetFormat};
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

    /// Whether it may only be wrong by itself because the picture that it belongs to is not there.
    pub(super) fn goes_with_others(&self) -> bool {
        matches!(self, Self::Targets(_)) || self.geometry().is_some()
    }

    /// The fields with width and height of the picture that boxes or points belong to, where they are named.
    pub(super) fn sides(&self) -> &[ColumnRef] {
        match self {
            Self::Targets(targets) => targets.size_from.as_ref().map_or(&[], |sides| sides),
            _ => &[],
        }
    }

    /// The geometry that a picture, a map, boxes or points name.
    pub(super) fn geometry(&self) -> Option<&str> {
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
        Codec::Image(_) => Some("a column holds no image; if it names files, set `file`"),
        Codec::Array(_) => Some("a column holds no array; if it names files, set `file`"),
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
