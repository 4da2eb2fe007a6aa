//! LitData's chunks, as its `optimize` writes them, plain or compressed.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value as Json;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::storage::{Files, Needs, Packing};

use super::container::{Container, FieldInfo, FieldKind, Visit, find_field};
use super::format::{Format, Open, Opened};
use super::ndarray::{self, Elements};
use super::sharded::{ShardedOptions, file_in, is_index_of, read_index, root_of};
use super::shards::{Listed, MAX_CHUNK_BYTES, Packed, ShardBytes, Shards};
use super::value::Value;
use super::{ColumnRef, Fingerprint, Scratch};

/// The format of LitData's chunks: a folder with an `index.json`.
#[derive(Clone, Copy, Debug)]
pub struct LitData;

impl Format for LitData {
    const NAME: &'static str = "litdata";
    type Options = ShardedOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
        head.trim_ascii_start().starts_with(b"{")
            && has(b"\"chunks\"")
            && has(b"\"chunk_bytes\"")
            && has(b"\"filename\"")
    }

    fn title(&self) -> Option<&'static str> {
        Some("folders of LitData chunks")
    }

    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool> {
        is_index_of(files, path, |head| self.sniff(head, path))
    }

    fn open(&self, options: &ShardedOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        LitDataChunks::open(options, at)
    }
}

#[derive(Deserialize)]
struct Index {
    chunks: Vec<Chunk>,
    config: Config,
}

#[derive(Deserialize)]
struct Chunk {
    filename: String,
    chunk_size: u64,
    #[serde(default)]
    chunk_bytes: u64,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    compression: Option<String>,
    #[serde(default)]
    compression_level: Option<String>,
    data_format: Vec<String>,
    #[serde(default)]
    data_spec: Option<String>,
    #[serde(default)]
    encryption: Option<IgnoredAny>,
    #[serde(default)]
    item_loader: Option<String>,
}

/// How a value of a record is stored.
#[derive(Clone, Debug, PartialEq)]
enum Stored {
    Integer,
    Float,
    Bool,
    Text,
    Bytes,
    /// Arrays of NumPy and tensors of torch, with type and shape before them.
    Numpy,
    Tensor,
    /// The same with one dimension and this type.
    Row(Elements),
    Refused(String),
}

struct LitDataChunks {
    chunks: Shards,
    stored: Vec<Stored>,
    fields: Vec<FieldInfo>,
    found: Vec<bool>,
}

#[derive(Default)]
struct Worker {
    bytes: ShardBytes,
    aligned: RefCell<Vec<u64>>,
}

/// NumPy's element types, by their numbers.
fn numpy(code: u32) -> Option<Elements> {
    const NAMES: [&str; 11] =
        ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"];
    match code {
        13 => Some(Elements::Bool),
        code => NAMES.get(code as usize).and_then(|name| Elements::named(name)),
    }
}

/// The element types of torch, by their numbers.
fn torch(code: u32) -> Option<Elements> {
    Some(match code {
        0 | 1 => Elements::Of(DType::F32),
        2 | 3 => Elements::Of(DType::F64),
        8 | 9 => Elements::Of(DType::F16),
        10 => Elements::Of(DType::Bf16),
        11 => Elements::Of(DType::U8),
        12 => Elements::Of(DType::I8),
        13 | 14 => Elements::Of(DType::I16),
        15 | 16 => Elements::Of(DType::I32),
        17 | 18 => Elements::Of(DType::I64),
        19 => Elements::Bool,
        20 => Elements::Of(DType::U16),
        _ => return None,
    })
}

impl Stored {
    fn of(format: &str) -> Self {
        let (name, code) = format.split_once(':').map_or((format, None), |(name, code)| (name, code.parse().ok()));
        match (name, code) {
            ("int", _) => Self::Integer,
            ("float", _) => Self::Float,
            ("bool", _) => Self::Bool,
            ("str" | "text", _) => Self::Text,
            ("bytes" | "file" | "jpeg" | "image" | "video" | "audio" | "tifffile" | "nifti" | "mesh" | "pdf", _) => {
                Self::Bytes
            }
            ("numpy", _) => Self::Numpy,
            ("tensor", _) => Self::Tensor,
            ("no_header_numpy", Some(code)) => numpy(code).map_or_else(|| Self::Refused(format.to_owned()), Self::Row),
            ("no_header_tensor", Some(code)) => torch(code).map_or_else(|| Self::Refused(format.to_owned()), Self::Row),
            _ => Self::Refused(format.to_owned()),
        }
    }

    fn info(&self, name: &str) -> FieldInfo {
        let (kind, shape): (_, &[usize]) = match self {
            Self::Integer => (FieldKind::Numbers(DType::I64), &[]),
            Self::Float => (FieldKind::Numbers(DType::F64), &[]),
            Self::Bool => (FieldKind::Numbers(DType::U8), &[]),
            Self::Text => (FieldKind::Text, &[]),
            Self::Bytes => (FieldKind::Bytes, &[]),
            // The widest type that a record may have.
            Self::Numpy | Self::Tensor => (FieldKind::Numbers(DType::F64), &[0]),
            Self::Row(elements) => (FieldKind::Numbers(elements.dtype()), &[0]),
            Self::Refused(_) => (FieldKind::Other, &[]),
        };
        FieldInfo::new(name, kind).shape(shape)
    }

    /// Gives a value.
    fn give(
        &self,
        bytes: &[u8],
        aligned: &RefCell<Vec<u64>>,
        visit: &mut dyn FnMut(Value<'_>) -> Result<()>,
    ) -> Result<()> {
        let of_length = || Error::new(ErrorKind::Data, format!("a value of {} bytes", bytes.len()));
        match self {
            Self::Integer => visit(Value::I64(i64::from_le_bytes(bytes.try_into().map_err(|_| of_length())?))),
            Self::Float => visit(Value::F64(f64::from_le_bytes(bytes.try_into().map_err(|_| of_length())?))),
            Self::Bool => match bytes {
                [flag] => visit(Value::Bool(*flag != 0)),
                _ => Err(of_length()),
            },
            Self::Text => match std::str::from_utf8(bytes) {
                Ok(text) => visit(Value::Text(text)),
                Err(error) => {
                    let at = error.valid_up_to();
                    Err(Error::new(ErrorKind::Data, format!("byte {at} of the text is {:#04x}: not UTF-8", bytes[at])))
                }
            },
            Self::Bytes => visit(Value::Bytes(bytes)),
            Self::Numpy => array(bytes, u32::from_le_bytes, numpy, aligned, visit),
            Self::Tensor => array(bytes, u32::from_be_bytes, torch, aligned, visit),
            Self::Row(elements) => ndarray::give(*elements, None, bytes, aligned, visit),
            Self::Refused(format) => Err(refused(format)),
        }
    }
}

fn refused(format: &str) -> Error {
    let message = match format {
        "pickle" => "is pickled, and reading a pickle runs its code, so it is never read; return numbers, text, bytes \
                     or arrays from `optimize`"
            .to_owned(),
        format => {
            format!("is stored as {format:?}, which is not read; return numbers, text, bytes or arrays from `optimize`")
        }
    };
    Error::new(ErrorKind::Unsupported, message)
}

/// An array that follows its type, its number of dimensions and the dimensions.
fn array(
    bytes: &[u8],
    number: fn([u8; 4]) -> u32,
    type_of: fn(u32) -> Option<Elements>,
    aligned: &RefCell<Vec<u64>>,
    visit: &mut dyn FnMut(Value<'_>) -> Result<()>,
) -> Result<()> {
    let cut = || Error::new(ErrorKind::Data, format!("an array of {} bytes ends in its header", bytes.len()));
    let numbers = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|bytes| number(*bytes)).collect::<Vec<u32>>();
    let (head, rest) = bytes.split_at_checked(8).ok_or_else(cut)?;
    let head = numbers(head);
    let (code, rank) = (head[0], head[1] as usize);
    let (shape, rest) = rank.checked_mul(4).and_then(|len| rest.split_at_checked(len)).ok_or_else(cut)?;
    let shape: Vec<u64> = numbers(shape).into_iter().map(u64::from).collect();
    let unknown = || Error::new(ErrorKind::Data, format!("an array of type {code}, which no tensor has"));
    ndarray::give(type_of(code).ok_or_else(unknown)?, Some(&shape), rest, aligned, visit)
}

/// The names of a record's values, from the tree in which they were stored: keys of dictionaries and positions in
/// lists, joined by points.
fn names(spec: &str, count: usize) -> Vec<String> {
    fn walk(node: &Json, path: &str, names: &mut Vec<String>) {
        let children = node.get("children_spec").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        if node.get("type").is_none_or(Json::is_null) {
            names.push(if path.is_empty() { "value".to_owned() } else { path.to_owned() });
            return;
        }
        let context =
            node.get("context").and_then(Json::as_str).and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
        for (nth, child) in children.iter().enumerate() {
            let name = context.as_ref().and_then(|keys| keys.get(nth).cloned()).unwrap_or_else(|| nth.to_string());
            let path = if path.is_empty() { name } else { format!("{path}.{name}") };
            walk(child, &path, names);
        }
    }
    let mut found = Vec::new();
    if let Ok(spec) = serde_json::from_str::<Json>(spec) {
        walk(spec.get(1).unwrap_or(&spec), "", &mut found);
    }
    if found.len() == count { found } else { (0..count).map(|nth| nth.to_string()).collect() }
}

impl LitDataChunks {
    fn open(options: &ShardedOptions, at: &Open<'_>) -> Result<Self> {
        let root: PathBuf = root_of(at.path);
        let (Index { chunks, config }, path): (Index, PathBuf) = read_index(at.files, &root, at.budget)?;
        let unsupported = |message: String| Err(Error::new(ErrorKind::Unsupported, message).at_path(&path));
        if config.encryption.is_some() {
            return unsupported("the chunks are encrypted; write them without encryption".to_owned());
        }
        if let Some(loader) = config.item_loader.filter(|loader| loader != "PyTreeLoader") {
            return unsupported(format!("chunks for {loader}; only those of PyTreeLoader, the default, are read"));
        }
        let level = config.compression_level.as_deref().unwrap_or("chunk");
        let packed = |bytes: u64| match (
            config.compression.as_deref().map(|text| text.split(':').next().unwrap_or_default()),
            level,
        ) {
            (None, _) => Ok(Packed::No),
            // The size does not include what follows the records.
            (Some("zstd"), "chunk") => Ok(Packed::Whole {
                packing: Packing::Zstd,
                bytes,
                most: bytes.saturating_mul(4).saturating_add(1 << 20).min(MAX_CHUNK_BYTES),
            }),
            (Some("zstd"), "batch") => Ok(Packed::Frames),
            (Some("zstd"), "sample") => Ok(Packed::Records),
            (Some(other), level) => {
                let message = format!("compressed by {other:?} ({level}); only zstd by chunk, batch or sample is read");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        };
        let listed = chunks.iter().map(|chunk| {
            let path = file_in(&root, &chunk.filename)?;
            Ok(Listed { path, records: chunk.chunk_size, packed: packed(chunk.chunk_bytes)?, bytes: None })
        });
        let listed = listed.collect::<Result<Vec<_>>>().map_err(|error| error.at_path(&path))?;
        let stored: Vec<Stored> = config.data_format.iter().map(|format| Stored::of(format)).collect();
        let names = names(config.data_spec.as_deref().unwrap_or_default(), stored.len());
        let fields = stored.iter().zip(&names).map(|(stored, name)| stored.info(name)).collect();
        let chunks = Shards::open(at.files, listed, options.cache_bytes, at.budget)?;
        let found = vec![false; stored.len()];
        Ok(Self { chunks, stored, fields, found })
    }
}

impl Container for LitDataChunks {
    fn len(&self) -> u64 {
        self.chunks.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let number = find_field(&self.fields, field)?;
        if let Stored::Refused(format) = &self.stored[number] {
            return Err(refused(format).at_column(&self.fields[number].name));
        }
        self.found[number] = true;
        Ok(number)
    }

    fn forget(&mut self) {
        self.found.fill(false);
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.chunks.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.chunks.fetch(records, nth, &mut scratch.of::<Worker>().bytes).map_err(|error| match error.path() {
            Some(_) => error,
            None => error.at(self.chunks.place(records[nth])),
        })
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let worker = &*scratch.of::<Worker>();
        let bytes = self.chunks.bytes(nth, &worker.bytes);
        let mut read = || {
            let cut = || Error::new(ErrorKind::Data, format!("a record of {} bytes ends in a value", bytes.len()));
            let (sizes, mut rest) = bytes.split_at_checked(self.stored.len() * 4).ok_or_else(cut)?;
            let sizes = sizes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
            for (number, (stored, size)) in self.stored.iter().zip(sizes).enumerate() {
                let (value, behind) = rest.split_at_checked(size as usize).ok_or_else(cut)?;
                rest = behind;
                if self.found[number] {
                    stored
                        .give(value, &worker.aligned, &mut |value| visit(number, value).map_err(Error::in_value))
                        .map_err(|error| error.at_column(&self.fields[number].name))?;
                }
            }
            match rest {
                [] => Ok(()),
                rest => Err(Error::new(ErrorKind::Data, format!("{} bytes after the last value", rest.len()))),
            }
        };
        read().map_err(|error| error.at(self.chunks.place(record)))
    }

    fn chunks(&self) -> Vec<u64> {
        self.chunks.chunks()
    }

    fn place(&self, record: u64) -> Location {
        self.chunks.place(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        self.chunks.name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.chunks.fingerprint()
    }
}
