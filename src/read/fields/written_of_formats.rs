//! Settings of fields of what single formats hold: pictures, sounds, arrays, tokens.

use crate::decode::{AudioOptions, ImageColour};
use crate::dtype::DType;
use crate::read::Longer;
use crate::read::fixed::{Endian, Stored};

use super::written::{AnyNumber, Written};
use super::{Array, Audio, BoxFormat, Codec, Image, PointFormat, TargetFormat, Targets, Tokenizer};

impl Written {
    /// The codec with this name.
    pub(super) fn codec_of_formats(self, codec: &str) -> Result<Codec, String> {
        let codec = match codec {
            "image" | "index_map" => {
                let is_map = codec == "index_map";
                let mut image = if is_map { Image::index_map(1, 1) } else { Image::rgb(1, 1) };
                let options = image.options_mut();
                options.size = match self.image.or(self.index_map).unwrap_or_default()[..] {
                    [] => None,
                    [height, width] => Some((height, width)),
                    _ => return Err(format!("{codec}: give [height, width], or [] if each keeps its own size")),
                };
                options.augment = self.augment.unwrap_or_default();
                options.geometry = self.geometry;
                options.dtype = self.dtype.unwrap_or(options.dtype);
                options.fit = self.fit.unwrap_or(options.fit);
                options.resize = self.resize.unwrap_or(options.resize);
                options.order = self.order.unwrap_or(options.order);
                if is_map && self.colour.is_some_and(|colour| colour != ImageColour::Index) {
                    return Err("colour: an index map has indices, not colours; leave it out".to_owned());
                }
                options.colour = self.colour.unwrap_or(options.colour);
                options.jpeg = self.jpeg.unwrap_or_default();
                options.strict = self.strict.unwrap_or_default();
                options.dct_scaling = self.dct_scaling.unwrap_or_default();
                options.jpeg_index_bytes = self.jpeg_index_bytes.unwrap_or(options.jpeg_index_bytes);
                options.max_pixels = self.max_pixels.unwrap_or(options.max_pixels);
                Codec::Image(image)
            }
            "audio" => Codec::Audio(Audio::with(AudioOptions {
                rate: self.audio.filter(|rate| *rate > 0),
                length: self.length,
                crop: self.crop,
                channels: self.channels,
                dtype: self.dtype.unwrap_or(DType::F32),
                geometry: self.geometry,
            })),
            "tokenizer" => Codec::Tokenizer(Tokenizer {
                max_len: self.max_len,
                longer: self.longer.unwrap_or_default(),
                special_tokens: self.special_tokens.unwrap_or(true),
                pad: match self.pad.map_or(0.0, |AnyNumber(number)| number) {
                    pad if pad.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&pad) => pad as u32,
                    pad => return Err(format!("pad: {pad}; a token is a whole number from 0")),
                },
                ragged: self.ragged.unwrap_or_default(),
                ..Tokenizer::new(self.tokenizer.unwrap_or_default())
            }),
            "boxes" | "keypoints" => {
                let (most, format) = match self.boxes {
                    Some(most) => (most, TargetFormat::Boxes(self.box_format.unwrap_or_default())),
                    None => {
                        let format = TargetFormat::Points(self.point_format.unwrap_or_default());
                        (self.keypoints.unwrap_or_default(), format)
                    }
                };
                if self.result_format.is_some_and(|result| result.width() != format.width()) {
                    return Err(format!("result_format: this is not a format of {codec}"));
                }
                let targets = Targets::new(most, format);
                Codec::Targets(Targets {
                    result_format: self.result_format,
                    geometry: self.geometry,
                    size_from: self.size_from,
                    longer: self.longer.unwrap_or_default(),
                    min_size: self.min_size.unwrap_or(targets.min_size),
                    ..targets
                })
            }
            _ => {
                let stored = self.stored.map(|kind| Stored { kind, endian: self.endian.unwrap_or_default() });
                if stored.is_none() && self.endian.is_some() {
                    return Err("endian belongs to stored, which says what raw bytes are".to_owned());
                }
                let shape = self.array.filter(|shape| stored.is_some() || !shape.is_empty());
                Codec::Array(Array { dtype: self.dtype, shape, stored })
            }
        };
        Ok(codec)
    }

    /// Takes over what such a codec says.
    pub(super) fn set_codec_of_formats(&mut self, codec: &Codec) {
        match codec {
            Codec::Image(image) => {
                let options = image.options();
                let is_map = options.colour == ImageColour::Index;
                let base = if is_map { Image::index_map(1, 1) } else { Image::rgb(1, 1) };
                let base = base.options();
                let size = Some(options.size.map_or(Vec::new(), |(height, width)| vec![height, width]));
                (self.image, self.index_map) = if is_map { (None, size) } else { (size, None) };
                self.augment = Some(options.augment.clone()).filter(|list| !list.is_empty());
                self.geometry.clone_from(&options.geometry);
                self.dtype = (options.dtype != base.dtype).then_some(options.dtype);
                self.fit = (options.fit != base.fit).then_some(options.fit);
                self.resize = (options.resize != base.resize).then_some(options.resize);
                self.order = (options.order != base.order).then_some(options.order);
                self.colour = (options.colour != base.colour).then_some(options.colour);
                self.jpeg = (options.jpeg != base.jpeg).then_some(options.jpeg);
                self.strict = options.strict.then_some(true);
                self.dct_scaling = options.dct_scaling.then_some(true);
                self.jpeg_index_bytes =
                    (options.jpeg_index_bytes != base.jpeg_index_bytes).then_some(options.jpeg_index_bytes);
                self.max_pixels = (options.max_pixels != base.max_pixels).then_some(options.max_pixels);
            }
            Codec::Audio(audio) => {
                let AudioOptions { rate, length, crop, channels, dtype, geometry } = audio.options();
                (self.audio, self.length, self.crop) = (Some(rate.unwrap_or(0)), *length, *crop);
                (self.channels, self.dtype) = (*channels, Some(*dtype).filter(|dtype| *dtype != DType::F32));
                self.geometry.clone_from(geometry);
            }
            Codec::Tokenizer(Tokenizer { file, max_len, longer, special_tokens, pad, ragged }) => {
                self.ragged = ragged.then_some(true);
                (self.tokenizer, self.max_len) = (Some(file.clone()), *max_len);
                self.longer = Some(*longer).filter(|longer| *longer != Longer::Error);
                self.special_tokens = Some(false).filter(|_| !special_tokens);
                self.pad = Some(f64::from(*pad)).filter(|pad| *pad != 0.0).map(AnyNumber);
            }
            Codec::Targets(targets) => {
                let plain = Targets::new(0, targets.format);
                match targets.format {
                    TargetFormat::Boxes(format) => {
                        self.boxes = Some(targets.most);
                        self.box_format = Some(format).filter(|format| *format != BoxFormat::default());
                    }
                    TargetFormat::Points(format) => {
                        self.keypoints = Some(targets.most);
                        self.point_format = Some(format).filter(|format| *format != PointFormat::default());
                    }
                }
                self.result_format = targets.result_format;
                self.geometry.clone_from(&targets.geometry);
                self.size_from.clone_from(&targets.size_from);
                self.longer = Some(targets.longer).filter(|longer| *longer != Longer::Error);
                self.min_size = Some(targets.min_size).filter(|least| *least != plain.min_size);
            }
            Codec::Array(Array { dtype, shape, stored }) => {
                (self.dtype, self.array) = (*dtype, Some(shape.clone().unwrap_or_default()));
                self.stored = stored.map(|stored| stored.kind);
                self.endian = stored.map(|stored| stored.endian).filter(|endian| *endian != Endian::default());
            }
            _ => {}
        }
    }
}
