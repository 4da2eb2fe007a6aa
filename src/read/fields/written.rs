use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dtype::DType;
use crate::read::{ColumnRef, Longer, Missing};
use crate::schema::Role;
use crate::tree::similar;

use super::of_formats::{
    self, AudioCrop, BoxFormat, CropFit, Endian, ImageAugment, ImageColour, JpegDecoder, PixelOrder, PointFormat,
    ResizeFilter, StoredType, TargetFormat, some_operations,
};
use super::{ALL_OTHERS, Category, Class, Codec, Field, Numbers};

/// A field in settings: a table with exactly one of the keys that say what it becomes.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Origin>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) except: Vec<ColumnRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<Box<Written>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index_map: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) audio: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) length: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crop: Option<AudioCrop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) channels: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) category: Option<Vec<Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numbers: Option<DType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokenizer: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) special_tokens: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) array: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stored: Option<StoredType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) endian: Option<Endian>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) boxes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keypoints: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) box_format: Option<BoxFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) point_format: Option<PointFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result_format: Option<TargetFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min_size: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size_from: Option<[ColumnRef; 2]>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_operations")]
    pub(super) augment: Option<Vec<ImageAugment>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) geometry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<DType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fit: Option<CropFit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resize: Option<ResizeFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<PixelOrder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) colour: Option<ImageColour>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jpeg: Option<JpegDecoder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dct_scaling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jpeg_index_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_pixels: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) one_hot: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Instead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_len: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pad: Option<AnyNumber>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) list: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ragged: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) longer: Option<Longer>,
}

/// What stands for a missing value.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or \"nan\"")]
enum Instead {
    Code(i64),
    /// Beyond i64.
    Large(u64),
    Number(AnyNumber),
}

/// A number that may also be `nan`, `inf` or `-inf`, which are words: JSON has no such numbers.
#[derive(Clone, Copy)]
pub(super) struct AnyNumber(pub(super) f64);

impl Serialize for AnyNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            number if number.is_nan() => serializer.serialize_str("nan"),
            f64::INFINITY => serializer.serialize_str("inf"),
            f64::NEG_INFINITY => serializer.serialize_str("-inf"),
            number => serializer.serialize_f64(number),
        }
    }
}

impl<'de> Deserialize<'de> for AnyNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a number, \"nan\", \"inf\" or \"-inf\"")]
        enum Given {
            Number(f64),
            Word(Word),
        }
        #[derive(Deserialize)]
        enum Word {
            #[serde(rename = "nan")]
            Nan,
            #[serde(rename = "inf")]
            Infinity,
            #[serde(rename = "-inf")]
            NegativeInfinity,
        }
        Ok(Self(match Given::deserialize(deserializer)? {
            Given::Number(number) => number,
            Given::Word(Word::Nan) => f64::NAN,
            Given::Word(Word::Infinity) => f64::INFINITY,
            Given::Word(Word::NegativeInfinity) => f64::NEG_INFINITY,
        }))
    }
}

impl Instead {
    fn of(missing: Missing) -> Option<Self> {
        match missing {
            Missing::Error => None,
            Missing::Nan => Some(Self::Number(AnyNumber(f64::NAN))),
            Missing::Value(value) if value.fract() == 0.0 && value.abs() < 9e15 => Some(Self::Code(value as i64)),
            Missing::Value(value) => Some(Self::Number(AnyNumber(value))),
        }
    }

    fn missing(self) -> Result<Missing, String> {
        let whole = |code: i128| match code as f64 {
            number if number as i128 == code => Ok(Missing::Value(number)),
            _ => Err(format!("missing: {code} is not among the numbers of f64; choose another one")),
        };
        match self {
            Self::Code(code) => whole(code.into()),
            Self::Large(code) => whole(code.into()),
            Self::Number(AnyNumber(number)) if number.is_nan() => Ok(Missing::Nan),
            Self::Number(AnyNumber(number)) => Ok(Missing::Value(number)),
        }
    }
}

/// One field, or several.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the name of a field, its position from 0, or a list of them")]
enum Origin {
    One(ColumnRef),
    Several(Vec<ColumnRef>),
}

/// What a field may become, by the names in settings.
const CODECS: &str =
    "image, index_map, audio, class, category, numbers, tokens, text, tokenizer, array, boxes or keypoints";

/// What the name of a field alone may be.
const SHORT: &str = "\"image\", \"class\", \"category\", \"array\", a type of numbers such as \"f32\"";

/// Those names.
const KINDS: [&str; 15] =
    ["image", "class", "category", "array", "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32"];

impl Written {
    fn field(mut self) -> Result<Field, String> {
        if let Some(inner) = self.file.take() {
            if inner.from.is_some() || !inner.except.is_empty() {
                return Err("from and except belong beside file, not in it".to_owned());
            }
            let (from, except, role) = (self.from.take(), std::mem::take(&mut self.except), self.role.take());
            if let Some(key) = self.first_key() {
                return Err(format!("{key} belongs in file: file = {{ .., {key} = .. }}"));
            }
            let mut field = inner.field()?;
            field.is_file = true;
            (field.from, field.several) = fields_of(from);
            (field.except, field.role) = (except, role.or(field.role));
            return Ok(field);
        }
        let wanted = [
            ("image", self.image.is_some()),
            ("index_map", self.index_map.is_some()),
            ("audio", self.audio.is_some()),
            ("class", self.class.is_some()),
            ("category", self.category.is_some()),
            ("numbers", self.numbers.is_some()),
            ("tokens", self.tokens.is_some()),
            ("text", self.text.is_some()),
            ("tokenizer", self.tokenizer.is_some()),
            ("array", self.array.is_some()),
            ("boxes", self.boxes.is_some()),
            ("keypoints", self.keypoints.is_some()),
        ];
        let mut chosen = wanted.iter().filter(|(_, is_wanted)| *is_wanted).map(|(name, _)| *name);
        let (Some(codec), None) = (chosen.next(), chosen.next()) else {
            return Err(format!("a field has exactly one of {CODECS}"));
        };
        self.check_keys(codec)?;
        let (from, several) = fields_of(self.from.take());
        let (except, role) = (std::mem::take(&mut self.except), self.role);
        let codec = match codec {
            "class" => Codec::Class {
                names: self.class.filter(|names| !names.is_empty()),
                one_hot: self.one_hot.unwrap_or(false),
                dtype: self.dtype,
            },
            "category" => Codec::Category {
                names: self.category.filter(|names| !names.is_empty()),
                missing: match self.missing {
                    None => None,
                    Some(Instead::Code(code)) => Some(code),
                    Some(_) => return Err("missing: give a whole number for a missing category, such as -1".to_owned()),
                },
                dtype: self.dtype,
            },
            "text" => Codec::Text { max_len: self.text.unwrap_or_default(), longer: self.longer.unwrap_or_default() },
            "numbers" | "tokens" => Codec::Numbers(Numbers {
                shape: self.shape,
                missing: self.missing.map_or(Ok(Missing::Error), Instead::missing)?,
                max_len: self.tokens.or(self.max_len),
                longer: self.longer.unwrap_or_default(),
                pad: self.pad.map_or(0.0, |AnyNumber(number)| number),
                list: self.list.unwrap_or_default(),
                ragged: self.ragged.unwrap_or_default(),
                ..Numbers::of(self.numbers.unwrap_or(DType::I64))
            }),
            #[cfg(feature = "formats")]
            _ => self.codec_of_formats(codec)?,
            #[cfg(not(feature = "formats"))]
            _ => return Err(of_formats::left_out(codec)),
        };
        Ok(Field { from, several, except, role, is_file: false, is_usual: false, codec })
    }

    /// A key that is given.
    fn first_key(&self) -> Option<String> {
        let written = serde_json::to_value(self).ok()?;
        written.as_object()?.keys().next().cloned()
    }

    /// Checks that every other key belongs to this codec.
    fn check_keys(&self, codec: &str) -> Result<(), String> {
        const IMAGES: &[&str] = &["image", "index_map"];
        const TARGETS: &[&str] = &["boxes", "keypoints"];
        let keys: [(&str, bool, &[&str]); 32] = [
            ("augment", self.augment.is_some(), IMAGES),
            ("geometry", self.geometry.is_some(), &["image", "index_map", "audio", "boxes", "keypoints"]),
            ("length", self.length.is_some(), &["audio"]),
            ("crop", self.crop.is_some(), &["audio"]),
            ("channels", self.channels.is_some(), &["audio"]),
            ("box_format", self.box_format.is_some(), &["boxes"]),
            ("point_format", self.point_format.is_some(), &["keypoints"]),
            ("result_format", self.result_format.is_some(), TARGETS),
            ("min_size", self.min_size.is_some(), &["boxes"]),
            ("size_from", self.size_from.is_some(), TARGETS),
            ("fit", self.fit.is_some(), IMAGES),
            ("resize", self.resize.is_some(), &["image"]),
            ("order", self.order.is_some(), IMAGES),
            ("colour", self.colour.is_some(), IMAGES),
            ("jpeg", self.jpeg.is_some(), IMAGES),
            ("strict", self.strict.is_some(), IMAGES),
            ("dct_scaling", self.dct_scaling.is_some(), IMAGES),
            ("jpeg_index_bytes", self.jpeg_index_bytes.is_some(), IMAGES),
            ("max_pixels", self.max_pixels.is_some(), IMAGES),
            ("dtype", self.dtype.is_some(), &["image", "index_map", "audio", "class", "category", "array"]),
            ("stored", self.stored.is_some(), &["array"]),
            ("endian", self.endian.is_some(), &["array"]),
            ("except", !self.except.is_empty() && !self.is_of_others(), &[]),
            ("shape", self.shape.is_some(), &["numbers"]),
            ("one_hot", self.one_hot.is_some(), &["class"]),
            ("missing", self.missing.is_some(), &["category", "numbers", "tokens"]),
            ("max_len", self.max_len.is_some(), &["numbers", "tokenizer"]),
            ("pad", self.pad.is_some(), &["numbers", "tokens", "tokenizer"]),
            ("list", self.list.is_some(), &["numbers"]),
            ("ragged", self.ragged.is_some(), &["numbers", "tokens", "tokenizer"]),
            ("special_tokens", self.special_tokens.is_some(), &["tokenizer"]),
            ("longer", self.longer.is_some(), &["numbers", "tokens", "text", "tokenizer", "boxes", "keypoints"]),
        ];
        match keys.iter().find(|(_, is_given, of)| *is_given && !of.contains(&codec)) {
            None => Ok(()),
            Some(("except", ..)) => Err(format!("except belongs to from = {ALL_OTHERS:?}")),
            Some((key, _, of)) => Err(format!("{key} does not belong to {codec}, but to {}", of.join(" or "))),
        }
    }

    fn of(field: &Field) -> Self {
        let mut written = Self::default();
        match &field.codec {
            Codec::Class { names, one_hot, dtype } => {
                written.class = Some(names.clone().unwrap_or_default());
                (written.one_hot, written.dtype) = (one_hot.then_some(true), *dtype);
            }
            Codec::Category { names, missing, dtype } => {
                written.category = Some(names.clone().unwrap_or_default());
                (written.missing, written.dtype) = (missing.map(Instead::Code), *dtype);
            }
            Codec::Numbers(Numbers { dtype, shape, missing, max_len, longer, pad, list, ragged }) => {
                (written.numbers, written.shape) = (Some(*dtype), shape.clone());
                (written.missing, written.max_len) = (Instead::of(*missing), *max_len);
                written.longer = Some(*longer).filter(|longer| *longer != Longer::Error);
                written.pad = Some(*pad).filter(|pad| *pad != 0.0).map(AnyNumber);
                (written.list, written.ragged) = (list.then_some(true), ragged.then_some(true));
            }
            Codec::Text { max_len, longer } => {
                (written.text, written.longer) =
                    (Some(*max_len), Some(*longer).filter(|longer| *longer != Longer::Error));
            }
            // Settings never name this codec, only what it is made of.
            Codec::Outside(_) => {}
            #[cfg(feature = "formats")]
            codec => written.set_codec_of_formats(codec),
        }
        if field.is_file {
            written = Self { file: Some(Box::new(written)), ..Self::default() };
        }
        (written.role, written.except) = (field.role, field.except.clone());
        written.from = match field.from.as_slice() {
            [] => None,
            [one] if !field.several => Some(Origin::One(one.clone())),
            several => Some(Origin::Several(several.to_vec())),
        };
        written
    }
}

impl Written {
    fn is_of_others(&self) -> bool {
        matches!(&self.from, Some(Origin::One(ColumnRef::Name(name))) if name == ALL_OTHERS)
    }
}

fn fields_of(from: Option<Origin>) -> (Vec<ColumnRef>, bool) {
    match from {
        None => (Vec::new(), false),
        Some(Origin::One(one)) => (vec![one], false),
        Some(Origin::Several(several)) => (several, true),
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
                write!(f, "{SHORT}, or a table with one of {CODECS}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Field, E> {
                match text {
                    "class" => Ok(Class.into()),
                    "category" => Ok(Category::new().into()),
                    other => match DType::deserialize(serde::de::value::StrDeserializer::<E>::new(other)) {
                        Ok(dtype) => Ok(Numbers::of(dtype).into()),
                        Err(_) => match of_formats::named(other) {
                            Some(Ok(field)) => Ok(field),
                            Some(Err(fault)) => Err(E::custom(fault)),
                            None => match similar(other, &KINDS) {
                                none if none.is_empty() => {
                                    Err(E::invalid_value(serde::de::Unexpected::Str(other), &self))
                                }
                                meant => Err(E::custom(format_args!(
                                    "{other:?} is not allowed; {meant}it is {SHORT}, or a table with one of {CODECS}"
                                ))),
                            },
                        },
                    },
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
