//! Replaces the fields of what single formats hold in a build without them: settings that name one say what it needs.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::read::ColumnRef;
use crate::read::container::FieldInfo;

use super::{Codec, Field};

/// Replaces the settings of such fields: it has no values.
#[derive(Clone, Copy)]
pub(super) enum LeftOut {}

pub(super) use LeftOut as AudioCrop;
pub(super) use LeftOut as BoxFormat;
pub(super) use LeftOut as CropFit;
pub(super) use LeftOut as Endian;
pub(super) use LeftOut as ImageAugment;
pub(super) use LeftOut as ImageColour;
pub(super) use LeftOut as JpegDecoder;
pub(super) use LeftOut as PixelOrder;
pub(super) use LeftOut as PointFormat;
pub(super) use LeftOut as ResizeFilter;
pub(super) use LeftOut as StoredType;
pub(super) use LeftOut as TargetFormat;

const NEEDED: &str = "this setting needs Ringfeed's feature `formats`";

impl<'de> Deserialize<'de> for LeftOut {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom(NEEDED))
    }
}

impl Serialize for LeftOut {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

pub(super) fn some_operations<'de, D: Deserializer<'de>>(_: D) -> Result<Option<Vec<ImageAugment>>, D::Error> {
    Err(serde::de::Error::custom(NEEDED))
}

impl Codec {
    /// No field belongs to a picture here.
    pub(super) fn goes_with_others(&self) -> bool {
        false
    }

    pub(super) fn sides(&self) -> &[ColumnRef] {
        &[]
    }

    pub(super) fn has_own_length(&self) -> bool {
        false
    }

    pub(super) fn make_plain(&mut self) {}

    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        None
    }

    pub(super) fn is_label(&self) -> bool {
        false
    }
}

pub(in crate::read) fn no_column(_: &Codec) -> Option<&'static str> {
    None
}

pub(super) fn faults(_: &Codec) -> Vec<String> {
    Vec::new()
}

/// Why a codec with this name can't be had.
pub(super) fn left_out(codec: &str) -> String {
    format!("{codec:?} needs Ringfeed's feature `formats`")
}

/// Why the field with this word alone isn't available.
pub(super) fn named(word: &str) -> Option<Result<Field, String>> {
    matches!(word, "image" | "array").then(|| Err(left_out(word)))
}

/// No field has a geometry here, because there are no pictures or sounds.
///
/// # Errors
///
/// Never.
pub(crate) fn named_geometries(fields: &[(String, Field)]) -> crate::error::Result<Vec<(String, Field)>> {
    Ok(fields.to_vec())
}

/// As [`named_geometries`].
///
/// # Errors
///
/// Never.
pub(crate) fn connect_sources(_: &mut [&mut Vec<(String, Field)>]) -> crate::error::Result<bool> {
    Ok(false)
}

pub(in crate::read) fn example(_: &FieldInfo) -> &'static str {
    "text = 80"
}
