//! The manifest of a pack.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::read::{FieldKind, Fingerprint, Meaning};

use super::cells::Column;
use super::journal::PackedShard;

/// The format that a source is packed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PackInto {
    /// Tar archives: each record is a sample, whose members are named after the record's number. Bytes are members of
    /// their own, with the extension of their content. A class index is `cls`, and arrays of numbers (as in NPY,
    /// Parquet or TFRecord files) are `.npy`. All other values are in one `json`, and so are all lists of JSON Lines. A
    /// field has the same form in all samples: arrays that have missing values in the first 1000 records, or are lists
    /// of lists of different lengths, are in `json`, too. Dates, times, timestamps and durations are integers in the
    /// unit of the source, such as days or microseconds: neither the archive nor the manifest names the unit or the
    /// zone.
    Tar,
    /// Parquet files, compressed by Snappy: each field is a column, or lies in a struct if it did so before. Types are
    /// kept, except that seconds become milliseconds, a list of structs or a map becomes a struct of lists, and a
    /// struct all of whose fields are missing is missing itself. Needs the feature `parquet`.
    Parquet,
}

/// The contents of all shards: `_manifest.json` beside them, which readers of folders pass over because of its first letter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Version of this format.
    pub version: u32,
    /// Format of the shards.
    pub format: PackInto,
    /// Where the records come from.
    pub source: PackedSource,
    /// Records in all shards.
    pub records: u64,
    /// Bad records that were left out.
    pub skipped: u64,
    /// Bytes of all shards.
    pub bytes: u64,
    /// Maximum number of bytes per shard, as in the settings.
    #[serde(default)]
    pub shard_bytes: u64,
    /// Whether bad records were left out.
    #[serde(default)]
    pub skip_bad: bool,
    /// The fields of a record, by their names in the shards.
    pub fields: Vec<PackedField>,
    /// The names of the classes, in the order of their indices, if the source knows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The shards, in the order of their records.
    pub shards: Vec<PackedShard>,
}

/// Where packed records come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PackedSource {
    /// Its format.
    pub format: String,
    /// Its path; the first path if there are several.
    pub path: String,
    /// Identifies the source, so that another or a changed one is noticed.
    pub fingerprint: Fingerprint,
    /// Hash of the names, lengths and modification times of its files.
    #[serde(default)]
    pub stamp: String,
    /// The options that differ from the defaults.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) options: Map<String, Json>,
}

/// A field of a packed record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PackedField {
    /// Its name.
    pub name: String,
    /// An element type, `text` or `bytes`.
    pub kind: String,
    /// The shape of its value: `[]` for a single one, 0 for a length that differs from record to record.
    pub shape: Vec<usize>,
}

pub(super) const MANIFEST: &str = "_manifest.json";

impl PackedField {
    pub(super) fn of(column: &Column) -> Self {
        let kind = match column.kind {
            FieldKind::Numbers(_) if column.meaning == Some(Meaning::U64) => DType::U64.as_str(),
            FieldKind::Numbers(_) if column.meaning == Some(Meaning::F16) => DType::F16.as_str(),
            FieldKind::Numbers(dtype) => dtype.as_str(),
            FieldKind::Text => "text",
            _ => "bytes",
        };
        Self { name: column.packed_name(), kind: kind.to_owned(), shape: column.shape.clone() }
    }
}

/// Maximum length of a manifest.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// The manifest in this folder, if the pack in it is finished.
pub(super) fn finished(out: &Path) -> Result<Option<Manifest>> {
    let path = out.join(MANIFEST);
    if !path.exists() {
        return Ok(None);
    }
    let text = files::read_text(&path, "a manifest", MAX_MANIFEST_BYTES)?;
    serde_json::from_str(&text).map(Some).map_err(|error| {
        let message = format!("is not the manifest of a pack ({error}); pack into another folder");
        Error::new(ErrorKind::Config, message).with_source(error).at_path(path)
    })
}
