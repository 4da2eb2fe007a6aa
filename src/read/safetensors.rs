//! Safetensors files: tensors after a header in JSON. [Format](https://github.com/huggingface/safetensors#format).

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::storage::Input;

use super::arrays::{self, ArraySetOptions, Listed};
use super::container::Container;
use super::fixed::{ArrayHeader, Endian, Origin, Stored, StoredType};
use super::format::{Checks, Format, Inspection, Open, Opened, format_has, open_parts};

/// Bytes before the header, which hold its length.
const PREFIX: u64 = 8;

/// Most bytes of a header, by the format's definition.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// More than any tensor has.
const MAX_DIMENSIONS: usize = 64;

/// Memory for each byte of a header: the text, and the names, shapes and places made of it. The shortest entry has some
/// 50 bytes.
const BYTES_OF_BYTE: u64 = 8;

/// The format of safetensors files: each tensor is a field, and its rows (the first dimension) are the records.
#[derive(Clone, Copy, Debug)]
pub struct Safetensors;

impl Format for Safetensors {
    const NAME: &'static str = "safetensors";
    type Options = ArraySetOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        let len = head.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        (2..=MAX_HEADER_BYTES).contains(&len) && matches!(head.get(8..10), Some(b"{\"" | b"{}" | b"{ "))
    }

    fn has_name(&self, name: &str) -> bool {
        name.ends_with(".safetensors")
    }

    fn title(&self) -> Option<&'static str> {
        Some("safetensors files")
    }

    format_has!(small_samples, access);

    fn open(&self, options: &ArraySetOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        with_tensors(options, at, |listed, load| arrays::open(listed, load, options, at))
    }

    /// Every tensor is a field, even one that can't be read.
    fn open_values(&self, options: &ArraySetOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let opened = open_parts(&|at| fields(options, at), paths, &Open { fields: &[], ..*at })?;
        opened.into_values().map_err(|error| error.at_path(at.path))
    }

    fn checks(&self, options: &ArraySetOptions, at: &Open<'_>) -> Result<Checks> {
        Checks::of_opened(fields(options, at)?, self.has_small_samples())
    }

    fn inspect(&self, options: &ArraySetOptions, at: &Open<'_>) -> Result<Inspection> {
        Inspection::of_opened(Self::NAME, fields(options, at)?, at)
    }
}

/// All tensors as fields of one record.
fn fields(options: &ArraySetOptions, at: &Open<'_>) -> Result<Opened> {
    with_tensors(options, at, |listed, load| arrays::open_fields(listed, load, options, at))
}

/// Gives `open` the list of the file's tensors, and how the file is read.
fn with_tensors(
    options: &ArraySetOptions,
    at: &Open<'_>,
    open: impl FnOnce(Vec<Listed>, arrays::Load<'_>) -> Result<Opened>,
) -> Result<Opened> {
    let input = at.files.open(at.path, options.access)?;
    let tensors = tensors(&input, at.budget).map_err(|error| error.at_path(at.path))?;
    drop(input);
    let headers: Vec<Option<ArrayHeader>> = tensors.iter().map(|tensor| tensor.header.as_ref().ok().cloned()).collect();
    open(tensors, &|number| {
        let header = headers[number].clone();
        let header =
            header.ok_or_else(|| Error::new(ErrorKind::Unsupported, "this tensor can't be read").at_path(at.path))?;
        Ok((at.files.open(at.path, options.access)?, header))
    })
}

/// The header's entry of a tensor. Other keys are ignored.
#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Shape,
    /// First byte, and the byte behind the last one, counted from the end of the header.
    data_offsets: [u64; 2],
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dimensions;

        impl<'de> Visitor<'de> for Dimensions {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(dim) = list.next_element()? {
                    if shape.len() == MAX_DIMENSIONS {
                        return Err(A::Error::custom(format!("a shape of more than {MAX_DIMENSIONS} dimensions")));
                    }
                    shape.push(dim);
                }
                Ok(Shape(shape))
            }
        }

        deserializer.deserialize_seq(Dimensions)
    }
}

/// The tensors of the header in their order. A tensor that occurs twice is in it twice.
struct Entries(Vec<(String, Info)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let info = map.next_value();
                    let info =
                        info.map_err(|error| A::Error::custom(format!("tensor {name:?} in the header: {error}")))?;
                    entries.push((name, info));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(All)
    }
}

/// The tensors of a file by name. They fill the file without gaps.
fn tensors(input: &Input, budget: &MemoryBudget) -> Result<Vec<Listed>> {
    let fault = |message: String, byte: u64| Err(Error::new(ErrorKind::Format, message).at_byte(byte));
    let mut prefix = [0; PREFIX as usize];
    if input.len() < PREFIX {
        return fault("the file ends inside the length of its header".to_owned(), input.len());
    }
    input.read_at(0, &mut prefix)?;
    let len = u64::from_le_bytes(prefix);
    if len > MAX_HEADER_BYTES || len > input.len() - PREFIX {
        let message = format!(
            "the header claims {len} bytes in a file of {}: the file is truncated, or not a safetensors file",
            input.len()
        );
        return fault(message, 0);
    }
    // Until the tensors are known.
    let _reservation = budget.reserve(len.saturating_mul(BYTES_OF_BYTE), "the header of a safetensors file")?;
    let mut text = vec![0; len as usize];
    input.read_at(PREFIX, &mut text)?;
    let Entries(mut named) = match serde_json::from_slice(&text) {
        Ok(entries) => entries,
        Err(error) => return fault(format!("the header is not the JSON of a safetensors file: {error}"), PREFIX),
    };
    drop(text);
    let start = PREFIX + len;
    named.sort_by_key(|(_, info)| info.data_offsets);
    let mut end = 0;
    let mut listed = Vec::with_capacity(named.len());
    for (name, info) in named {
        let [from, to] = info.data_offsets;
        if from != end || to < from || to > input.len() - start {
            let message = format!(
                "tensor {name:?} claims bytes {from} to {to} of {}, but the tensors before it end at {end}",
                input.len() - start
            );
            return fault(message, PREFIX);
        }
        end = to;
        let header = match header(&info, start) {
            Err(error) if error.kind() == ErrorKind::Format => {
                return fault(format!("tensor {name:?} in the header: {}", error.message()), PREFIX);
            }
            header => header,
        };
        listed.push(Listed { name, header });
    }
    if end != input.len() - start {
        return fault(format!("{} bytes follow the last tensor", input.len() - start - end), start + end);
    }
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(twice) = listed.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return fault(format!("tensor {:?} is in the header twice", twice[0].name), PREFIX);
    }
    Ok(listed)
}

fn header(info: &Info, start: u64) -> Result<ArrayHeader> {
    let unsupported = |message: String| Err(Error::new(ErrorKind::Unsupported, message));
    let kind = match info.dtype.as_str() {
        "BOOL" | "U8" => StoredType::U8,
        "I8" => StoredType::I8,
        "U16" => StoredType::U16,
        "I16" => StoredType::I16,
        "U32" => StoredType::U32,
        "I32" => StoredType::I32,
        "U64" => StoredType::U64,
        "I64" => StoredType::I64,
        "F16" => StoredType::F16,
        "BF16" => StoredType::Bf16,
        "F32" => StoredType::F32,
        "F64" => StoredType::F64,
        other => return unsupported(format!("holds elements of type {other}, which are not read")),
    };
    let [from, to] = info.data_offsets;
    let Shape(shape) = &info.shape;
    let bytes = shape.iter().try_fold(kind.bytes() as u64, |bytes, dim| bytes.checked_mul(*dim));
    if bytes != Some(to - from) {
        let message = format!("a shape of {shape:?} of {kind}, and {} bytes", to - from);
        return Err(Error::new(ErrorKind::Format, message));
    }
    let [records, shape @ ..] = shape.as_slice() else {
        return unsupported("is a single number, which has no records".to_owned());
    };
    // They fit: as many bytes are there, unless there is nothing.
    let Ok(shape) = shape.iter().map(|dim| usize::try_from(*dim)).collect() else {
        return Err(Error::new(ErrorKind::Format, format!("a shape of {:?}", info.shape.0)));
    };
    let stored = Stored { kind, endian: Endian::Little };
    Ok(ArrayHeader { stored, records: *records, shape, start: start + from, is_fortran: false, origin: Origin::File })
}
