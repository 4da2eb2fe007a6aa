//! Fields of what single formats hold: pictures, sounds, arrays, tokens. `no_formats` replaces them where these formats are left out.

use std::path::{Path, PathBuf};

use serde::Deserializer;

use crate::decode::AudioOptions;
use crate::decode::audio::is_audio_name;
use crate::decode::image::ImageFormat;
use crate::dtype::DType;
use crate::read::Longer;
use crate::read::container::{FieldInfo, FieldKind};
use crate::read::fixed::Stored;

use super::written::Written;
use super::{Array, Audio, Codec, Field, Image, Targets, Tokenizer};

pub(super) use super::{BoxFormat, PointFormat, TargetFormat};
pub(super) use crate::decode::{AudioCrop, CropFit, ImageAugment, ImageColour, JpegDecoder, PixelOrder, ResizeFilter};
pub(super) use crate::read::fixed::{Endian, StoredType};

impl Field {
    /// Its picture, if it is one, to change its settings.
    pub fn image_mut(&mut self) -> Option<&mut Image> {
        match &mut self.codec {
            Codec::Image(image) => Some(image),
            _ => None,
        }
    }
}

/// Whether the tensor of such a field has another length than the value.
pub(super) fn has_own_length(codec: &Codec) -> bool {
    matches!(codec, Codec::Image(_) | Codec::Audio(_) | Codec::Tokenizer(_) | Codec::Targets(_) | Codec::Array(_))
}

/// Removes everything random.
pub(super) fn make_plain(codec: &mut Codec) {
    match codec {
        Codec::Image(image) => image.make_plain(),
        Codec::Audio(audio) => audio.make_plain(),
        _ => {}
    }
}

/// The file that a codec needs.
pub(super) fn path_mut(codec: &mut Codec) -> Option<&mut PathBuf> {
    match codec {
        Codec::Tokenizer(tokenizer) => Some(&mut tokenizer.file),
        _ => None,
    }
}

/// Whether its tensor is a label by default.
pub(super) fn is_label(codec: &Codec) -> bool {
    match codec {
        Codec::Targets(_) => true,
        Codec::Image(image) => image.options().colour == ImageColour::Index,
        _ => false,
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

/// What is wrong with a codec by itself.
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

/// Faults of an option that fields call by another key.
fn said_as(key: &str, option: &str, faults: Vec<String>) -> Vec<String> {
    let said = |fault: String| match fault.strip_prefix(option) {
        Some(rest) if rest.starts_with(": ") => format!("{key}{rest}"),
        _ => fault,
    };
    faults.into_iter().map(said).collect()
}

/// The field that this word alone stands for.
pub(super) fn named(word: &str) -> Option<Result<Field, String>> {
    match word {
        "image" => Some(Ok(Image::of_any_size().into())),
        "array" => Some(Ok(Array::new().into())),
        _ => None,
    }
}

pub(super) fn some_operations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<ImageAugment>>, D::Error> {
    crate::decode::named_operations(deserializer).map(Some)
}

/// The codec with this name in settings.
pub(super) fn read(written: Written, codec: &str) -> Result<Codec, String> {
    let codec = match codec {
        "image" | "index_map" => {
            let is_map = codec == "index_map";
            let mut image = if is_map { Image::index_map(1, 1) } else { Image::rgb(1, 1) };
            let options = image.options_mut();
            options.size = match written.image.or(written.index_map).unwrap_or_default()[..] {
                [] => None,
                [height, width] => Some((height, width)),
                _ => return Err(format!("{codec}: give [height, width], or [] if each keeps its own size")),
            };
            options.augment = written.augment.unwrap_or_default();
            options.geometry = written.geometry;
            options.dtype = written.dtype.unwrap_or(options.dtype);
            options.fit = written.fit.unwrap_or(options.fit);
            options.resize = written.resize.unwrap_or(options.resize);
            options.order = written.order.unwrap_or(options.order);
            options.colour = written.colour.filter(|_| !is_map).unwrap_or(options.colour);
            options.jpeg = written.jpeg.unwrap_or_default();
            options.strict = written.strict.unwrap_or_default();
            options.dct_scaling = written.dct_scaling.unwrap_or_default();
            options.max_pixels = written.max_pixels.unwrap_or(options.max_pixels);
            Codec::Image(image)
        }
        "audio" => Codec::Audio(Audio::with(AudioOptions {
            rate: written.audio.filter(|rate| *rate > 0),
            length: written.length,
            crop: written.crop,
            channels: written.channels,
            dtype: written.dtype.unwrap_or(DType::F32),
            geometry: written.geometry,
        })),
        "tokenizer" => Codec::Tokenizer(Tokenizer {
            max_len: written.max_len,
            longer: written.longer.unwrap_or_default(),
            special_tokens: written.special_tokens.unwrap_or(true),
            pad: match written.pad.unwrap_or_default() {
                pad if pad.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&pad) => pad as u32,
                pad => return Err(format!("pad: {pad}; a token is a whole number from 0")),
            },
            ragged: written.ragged.unwrap_or_default(),
            ..Tokenizer::new(written.tokenizer.unwrap_or_default())
        }),
        "boxes" | "keypoints" => {
            let (most, format) = match written.boxes {
                Some(most) => (most, TargetFormat::Boxes(written.box_format.unwrap_or_default())),
                None => {
                    let format = TargetFormat::Points(written.point_format.unwrap_or_default());
                    (written.keypoints.unwrap_or_default(), format)
                }
            };
            if written.result_format.is_some_and(|result| result.width() != format.width()) {
                return Err(format!("result_format: this is not a format of {codec}"));
            }
            let targets = Targets::new(most, format);
            Codec::Targets(Targets {
                result_format: written.result_format,
                geometry: written.geometry,
                size_from: written.size_from,
                longer: written.longer.unwrap_or_default(),
                min_size: written.min_size.unwrap_or(targets.min_size),
                ..targets
            })
        }
        _ => {
            let stored = written.stored.map(|kind| Stored { kind, endian: written.endian.unwrap_or_default() });
            if stored.is_none() && written.endian.is_some() {
                return Err("endian belongs to stored, which says what raw bytes are".to_owned());
            }
            let shape = written.array.filter(|shape| stored.is_some() || !shape.is_empty());
            Codec::Array(Array { dtype: written.dtype, shape, stored })
        }
    };
    Ok(codec)
}

/// Writes what settings say of a codec.
pub(super) fn write(codec: &Codec, written: &mut Written) {
    match codec {
        Codec::Image(image) => {
            let options = image.options();
            let is_map = options.colour == ImageColour::Index;
            let base = if is_map { Image::index_map(1, 1) } else { Image::rgb(1, 1) };
            let base = base.options();
            let size = Some(options.size.map_or(Vec::new(), |(height, width)| vec![height, width]));
            (written.image, written.index_map) = if is_map { (None, size) } else { (size, None) };
            written.augment = Some(options.augment.clone()).filter(|list| !list.is_empty());
            written.geometry.clone_from(&options.geometry);
            written.dtype = (options.dtype != base.dtype).then_some(options.dtype);
            written.fit = (options.fit != base.fit).then_some(options.fit);
            written.resize = (options.resize != base.resize).then_some(options.resize);
            written.order = (options.order != base.order).then_some(options.order);
            written.colour = (options.colour != base.colour).then_some(options.colour);
            written.jpeg = (options.jpeg != base.jpeg).then_some(options.jpeg);
            written.strict = options.strict.then_some(true);
            written.dct_scaling = options.dct_scaling.then_some(true);
            written.max_pixels = (options.max_pixels != base.max_pixels).then_some(options.max_pixels);
        }
        Codec::Audio(audio) => {
            let AudioOptions { rate, length, crop, channels, dtype, geometry } = audio.options();
            (written.audio, written.length, written.crop) = (Some(rate.unwrap_or(0)), *length, *crop);
            (written.channels, written.dtype) = (*channels, Some(*dtype).filter(|dtype| *dtype != DType::F32));
            written.geometry.clone_from(geometry);
        }
        Codec::Tokenizer(Tokenizer { file, max_len, longer, special_tokens, pad, ragged }) => {
            written.ragged = ragged.then_some(true);
            (written.tokenizer, written.max_len) = (Some(file.clone()), *max_len);
            written.longer = Some(*longer).filter(|longer| *longer != Longer::Error);
            written.special_tokens = Some(false).filter(|_| !special_tokens);
            written.pad = Some(f64::from(*pad)).filter(|pad| *pad != 0.0);
        }
        Codec::Targets(targets) => {
            let plain = Targets::new(0, targets.format);
            match targets.format {
                TargetFormat::Boxes(format) => {
                    written.boxes = Some(targets.most);
                    written.box_format = Some(format).filter(|format| *format != BoxFormat::default());
                }
                TargetFormat::Points(format) => {
                    written.keypoints = Some(targets.most);
                    written.point_format = Some(format).filter(|format| *format != PointFormat::default());
                }
            }
            written.result_format = targets.result_format;
            written.geometry.clone_from(&targets.geometry);
            written.size_from.clone_from(&targets.size_from);
            written.longer = Some(targets.longer).filter(|longer| *longer != Longer::Error);
            written.min_size = Some(targets.min_size).filter(|least| *least != plain.min_size);
        }
        Codec::Array(Array { dtype, shape, stored }) => {
            (written.dtype, written.array) = (*dtype, Some(shape.clone().unwrap_or_default()));
            written.stored = stored.map(|stored| stored.kind);
            written.endian = stored.map(|stored| stored.endian).filter(|endian| *endian != Endian::default());
        }
        _ => {}
    }
}

/// Gives each image of a sample its own geometry, unless it names one; also each sound.
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
