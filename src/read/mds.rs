//! MosaicML's MDS shards, as its `MDSWriter` writes them, plain or compressed.

use std::cell::RefCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::storage::{Files, Needs, Packing, inflate_error};

use super::container::{Container, FieldInfo, FieldKind, Meaning, Visit, find_field};
use super::format::{Checks, Format, Open, Opened};
use super::hashes::{self, Recorded};
use super::json::{Buffers, Wanted, give, steps};
use super::ndarray::{self, Elements};
use super::sharded::{ShardedOptions, file_in, is_index_of, read_index, root_of};
use super::shards::{Listed, Packed, ShardBytes, Shards};
use super::value::Value;
use super::{ColumnRef, Fingerprint, Scratch, parallel};

/// The format of MDS shards: a folder with an `index.json`.
#[derive(Clone, Copy, Debug)]
pub struct Mds;

impl Format for Mds {
    const NAME: &'static str = "mds";
    type Options = ShardedOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
        head.trim_ascii_start().starts_with(b"{") && has(b"\"shards\"") && has(b"\"column_encodings\"")
    }

    fn title(&self) -> Option<&'static str> {
        Some("folders of MDS shards")
    }

    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool> {
        is_index_of(files, path, |head| self.sniff(head, path))
    }

    fn open(&self, options: &ShardedOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        MdsShards::open(options, at)
    }

    /// Checks all fields, and the hashes of the shards that the index records.
    fn checks(&self, options: &ShardedOptions, at: &Open<'_>) -> Result<Checks> {
        let opened = self.open(options, at)?.into();
        Ok(Checks { refused: damaged(at)?, ..Checks::of_opened(opened, self.has_small_samples())? })
    }
}

/// The shards whose bytes do not match their hashes.
fn damaged(at: &Open<'_>) -> Result<Vec<Error>> {
    let root = root_of(at.path);
    let (index, _): (Index, PathBuf) = read_index(at.files, &root, at.budget)?;
    let mut damaged = Vec::new();
    parallel::in_order(
        parallel::thread_count(None),
        index.shards.len() as u64,
        |(): &mut (), nth| index.shards[nth as usize].damage(&root, at.files, at.budget),
        |found: Vec<Error>| {
            damaged.extend(found);
            Ok(())
        },
    )?;
    Ok(damaged)
}

#[derive(Deserialize)]
struct Index {
    version: u32,
    shards: Vec<Shard>,
}

#[derive(Deserialize)]
struct Shard {
    format: String,
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<u32>>,
    #[serde(default)]
    compression: Option<String>,
    raw_data: Data,
    #[serde(default)]
    zip_data: Option<Data>,
    samples: u64,
}

#[derive(Deserialize)]
struct Data {
    basename: String,
    bytes: u64,
    /// Hashes of the shard's bytes.
    #[serde(default)]
    hashes: Recorded,
}

/// How a column is encoded.
#[derive(Clone, Debug, PartialEq)]
enum Encoding {
    Bytes,
    Text,
    Json,
    /// A number written as text.
    Written(DType),
    Number(Elements),
    /// An array: its type and shape, as far as the index tells them.
    Array(Option<Elements>, Option<Vec<u64>>),
    Refused(String),
}

#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    encoding: Encoding,
    /// Bytes of each value, if all have the same size.
    size: Option<u32>,
}

struct MdsShards {
    shards: Shards,
    columns: Vec<Column>,
    fields: Vec<FieldInfo>,
    /// The columns that were asked for, and the values inside a column of JSON.
    found: Vec<(usize, Option<Wanted>)>,
}

#[derive(Default)]
struct Worker {
    bytes: ShardBytes,
    aligned: RefCell<Vec<u64>>,
    buffers: Buffers,
}

impl Encoding {
    fn of(text: &str) -> Self {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match (name, rest) {
            ("bytes" | "jpeg" | "png", None) => Self::Bytes,
            ("str", None) => Self::Text,
            ("json", None) => Self::Json,
            ("int", None) => Self::Number(Elements::Of(DType::I64)),
            ("str_int", None) => Self::Written(DType::I64),
            ("str_float" | "str_decimal", None) => Self::Written(DType::F64),
            ("ndarray", None) => Self::Array(None, None),
            ("ndarray", Some(rest)) => {
                let (dtype, shape) = rest.split_once(':').map_or((rest, None), |(dtype, shape)| (dtype, Some(shape)));
                let shape = shape
                    .map(|shape| shape.split(',').map(|dim| dim.trim().parse().ok()).collect::<Option<Vec<u64>>>());
                match (Elements::named(dtype), shape) {
                    (Some(elements), None) => Self::Array(Some(elements), None),
                    (Some(elements), Some(Some(shape))) => Self::Array(Some(elements), Some(shape)),
                    _ => Self::Refused(text.to_owned()),
                }
            }
            (name, None) => Elements::named(name).map_or_else(|| Self::Refused(text.to_owned()), Self::Number),
            _ => Self::Refused(text.to_owned()),
        }
    }

    fn info(&self, name: &str) -> FieldInfo {
        let (kind, shape) = match self {
            Self::Bytes => (FieldKind::Bytes, Vec::new()),
            Self::Text | Self::Json => (FieldKind::Text, Vec::new()),
            Self::Written(dtype) => (FieldKind::Numbers(*dtype), Vec::new()),
            Self::Number(elements) => (FieldKind::Numbers(elements.dtype()), Vec::new()),
            Self::Array(elements, shape) => {
                let shape =
                    shape.as_ref().map_or_else(|| vec![0], |shape| shape.iter().map(|dim| *dim as usize).collect());
                // The widest type that a record may have.
                (FieldKind::Numbers(elements.map_or(DType::F64, Elements::dtype)), shape)
            }
            Self::Refused(_) => (FieldKind::Other, Vec::new()),
        };
        FieldInfo::new(name, kind).shape(&shape)
    }
}

impl Shard {
    fn columns(&self) -> Result<Vec<Column>> {
        let (names, encodings, sizes) = (&self.column_names, &self.column_encodings, &self.column_sizes);
        if self.format != "mds" {
            let message = format!("a shard of format {:?}; only \"mds\" is read", self.format);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if names.len() != encodings.len() || names.len() != sizes.len() {
            let message = "a shard has different numbers of column names, encodings and sizes";
            return Err(Error::new(ErrorKind::Format, message));
        }
        let columns = names.iter().zip(encodings).zip(sizes).map(|((name, encoding), size)| Column {
            name: name.clone(),
            encoding: Encoding::of(encoding),
            size: size.filter(|size| *size > 0),
        });
        Ok(columns.collect())
    }

    fn listed(&self, root: &Path, is_local: bool) -> Result<Listed> {
        let raw = file_in(root, &self.raw_data.basename)?;
        let zip = self.zip_data.as_ref().filter(|_| !(is_local && raw.is_file()));
        let Some(zip) = zip else {
            return Ok(Listed {
                path: raw,
                records: self.samples,
                packed: Packed::No,
                bytes: Some(self.raw_data.bytes),
            });
        };
        let compression = self.compression.as_deref().unwrap_or_default();
        let packing = match compression.split(':').next() {
            Some("zstd") => Packing::Zstd,
            Some("gz") => Packing::Gzip,
            Some("bz2") => Packing::Bzip2,
            Some("br") => Packing::Brotli,
            Some("snappy") => Packing::Snappy { most: self.raw_data.bytes },
            _ => {
                let message = format!("compressed by {compression:?}; br, bz2, gz, snappy and zstd are read");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        let bytes = self.raw_data.bytes;
        let packed = Packed::Whole { packing, bytes, most: bytes };
        Ok(Listed { path: file_in(root, &zip.basename)?, records: self.samples, packed, bytes: None })
    }

    /// Faults of the shard's file according to its hashes, and of the data that it unpacks to.
    fn damage(&self, root: &Path, files: &Files, budget: &MemoryBudget) -> Result<Vec<Error>> {
        let Listed { path, packed, .. } = self.listed(root, files.are_local())?;
        let mut readings = Vec::new();
        match (&packed, &self.zip_data) {
            (Packed::Whole { packing, .. }, Some(zip)) => {
                readings.push((&zip.hashes, None));
                readings.push((&self.raw_data.hashes, Some(*packing)));
            }
            _ => readings.push((&self.raw_data.hashes, None)),
        }
        let mut found = Vec::new();
        for (recorded, packing) in readings.into_iter().filter(|(recorded, _)| hashes::is_any_known(recorded)) {
            let most = if packing.is_some() { self.raw_data.bytes.saturating_add(1) } else { u64::MAX };
            let bytes = files.unpacked(&path, packing, budget)?.take(most);
            match hashes::damage(recorded, bytes) {
                Ok(damage) => {
                    found.extend(damage.map(|message| Error::new(ErrorKind::Format, message).at_path(&path)));
                }
                Err(error) => found.push(inflate_error(&path, 0, error)),
            }
        }
        Ok(found)
    }
}

impl MdsShards {
    fn open(options: &ShardedOptions, at: &Open<'_>) -> Result<Self> {
        let root: PathBuf = root_of(at.path);
        let (index, path): (Index, PathBuf) = read_index(at.files, &root, at.budget)?;
        let faults = |error: Error| error.at_path(&path);
        if index.version != 2 {
            let message = format!("version {} of MDS; only version 2 is read", index.version);
            return Err(faults(Error::new(ErrorKind::Unsupported, message)));
        }
        let Some(first) = index.shards.first() else {
            return Err(faults(Error::new(ErrorKind::Format, "the index lists no shard")));
        };
        let columns = first.columns().map_err(faults)?;
        let mut listed = Vec::with_capacity(index.shards.len());
        for shard in &index.shards {
            if shard.columns().map_err(faults)? != columns {
                let message = format!("{} has other columns than the first shard", shard.raw_data.basename);
                return Err(faults(Error::new(ErrorKind::Format, message)));
            }
            listed.push(shard.listed(&root, at.files.are_local()).map_err(faults)?);
        }
        let fields = columns.iter().map(|column| column.encoding.info(&column.name)).collect();
        let shards = Shards::open(at.files, listed, options.cache_bytes, at.budget)?;
        Ok(Self { shards, columns, fields, found: Vec::new() })
    }

    /// Gives one column's value.
    fn give(
        &self,
        column: &Column,
        pointer: Option<&Wanted>,
        bytes: &[u8],
        worker: &Worker,
        visit: &mut dyn FnMut(Value<'_>) -> Result<()>,
    ) -> Result<()> {
        let text = || {
            std::str::from_utf8(bytes).map_err(|error| {
                let at = error.valid_up_to();
                Error::new(ErrorKind::Data, format!("byte {at} of the text is {:#04x}: not UTF-8", bytes[at]))
            })
        };
        match &column.encoding {
            Encoding::Bytes => visit(Value::Bytes(bytes)),
            Encoding::Text => visit(Value::Text(text()?)),
            Encoding::Written(_) => visit(Value::Decimal(text()?)),
            Encoding::Json => match pointer {
                None => visit(Value::Text(text()?)),
                Some(wanted) => {
                    let text = text()?;
                    let found = wanted.find_one(text).map_err(|fault| fault.error(text))?;
                    match found {
                        Some(raw) => give(raw.into(), &worker.buffers, visit),
                        None => visit(Value::Missing),
                    }
                }
            },
            Encoding::Number(elements) => {
                let mut visit = |value: Value<'_>| match value {
                    Value::Numbers(numbers) if numbers.len() == 1 => visit(single(numbers)),
                    Value::List(list) => list.each(visit),
                    value => Err(Error::new(ErrorKind::Data, format!("expected a number, found {}", value.describe()))),
                };
                if bytes.len() != elements.bytes() {
                    return Err(Error::new(ErrorKind::Data, format!("a number of {} bytes", bytes.len())));
                }
                ndarray::give(*elements, None, bytes, &worker.aligned, &mut visit)
            }
            Encoding::Array(elements, shape) => {
                let (elements, own, rest) = array(*elements, shape.as_deref(), bytes)?;
                let shape = shape.as_deref().unwrap_or(&own);
                ndarray::give(elements, Some(shape), rest, &worker.aligned, visit)
            }
            Encoding::Refused(encoding) => Err(refused(&column.name, encoding)),
        }
    }
}

/// The first of these numbers. Integers keep all of their digits, of which f64 has only 53 bits.
fn single(numbers: NumberSlice<'_>) -> Value<'static> {
    match numbers {
        NumberSlice::U64(integers) => Value::U64(integers[0]),
        NumberSlice::I64(integers) => Value::I64(integers[0]),
        _ if numbers.dtype().is_float() => Value::F64(numbers.at(0)),
        // f64 has every integer of 32 bits.
        _ => Value::I64(numbers.at(0) as i64),
    }
}

fn refused(name: &str, encoding: &str) -> Error {
    let message = match encoding {
        "pkl" => "is pickled, and reading a pickle runs its code, so it is never read; write it as json, ndarray or \
                  bytes"
            .to_owned(),
        encoding => {
            format!("is encoded as {encoding:?}, which is not read; write it as jpeg, png, ndarray, json or bytes")
        }
    };
    Error::new(ErrorKind::Unsupported, message).at_column(name)
}

/// The header of an array: its type and shape, as far as they are not known.
fn array<'b>(
    elements: Option<Elements>,
    shape: Option<&[u64]>,
    bytes: &'b [u8],
) -> Result<(Elements, Vec<u64>, &'b [u8])> {
    let cut = || Error::new(ErrorKind::Data, format!("an array of {} bytes ends in its header", bytes.len()));
    let (elements, rest) = match elements {
        Some(elements) => (elements, bytes),
        None => {
            let (code, rest) = bytes.split_first().ok_or_else(cut)?;
            let name = match code {
                8 => "uint8",
                9 => "int8",
                16 => "uint16",
                17 => "int16",
                18 => "float16",
                32 => "uint32",
                33 => "int32",
                34 => "float32",
                64 => "uint64",
                65 => "int64",
                66 => "float64",
                _ => "",
            };
            let elements = Elements::named(name);
            let unknown = || Error::new(ErrorKind::Data, format!("an array of unknown type {code}"));
            (elements.ok_or_else(unknown)?, rest)
        }
    };
    if shape.is_some() {
        return Ok((elements, Vec::new(), rest));
    }
    let (code, rest) = rest.split_first().ok_or_else(cut)?;
    let (dims, width) = (usize::from(code >> 2), 1usize << (code & 3));
    let (dims, rest) = rest.split_at_checked(dims * width).ok_or_else(cut)?;
    let dim = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    };
    Ok((elements, dims.chunks_exact(width).map(dim).collect(), rest))
}

impl Container for MdsShards {
    fn len(&self) -> u64 {
        self.shards.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    /// A column, or a value in a column of JSON: `object:/label`.
    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let in_json = |name: &str| {
            let (column, pointer) = name.split_once(':')?;
            let at = self.columns.iter().position(|other| other.name == column && other.encoding == Encoding::Json)?;
            Some((at, pointer.to_owned()))
        };
        let (at, pointer) = match field {
            ColumnRef::Name(name) => match in_json(name).filter(|_| find_field(&self.fields, field).is_err()) {
                Some((at, pointer)) => (at, Some(pointer)),
                None => (find_field(&self.fields, field)?, None),
            },
            ColumnRef::Position(_) => (find_field(&self.fields, field)?, None),
        };
        if let Column { name, encoding: Encoding::Refused(encoding), .. } = &self.columns[at] {
            return Err(refused(name, encoding));
        }
        let wanted = pointer.map(|pointer| {
            let mut wanted = Wanted::default();
            wanted.add(&steps(&pointer), 0);
            wanted
        });
        self.found.push((at, wanted));
        Ok(self.found.len() - 1)
    }

    fn forget(&mut self) {
        self.found.clear();
    }

    fn meaning(&self, number: usize) -> Option<Meaning> {
        let (column, _) = self.found.get(number)?;
        let is_unsigned = self.columns[*column].encoding == Encoding::Number(Elements::Of(DType::U64));
        is_unsigned.then_some(Meaning::U64)
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.shards.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.shards.fetch(records, nth, &mut scratch.of::<Worker>().bytes).map_err(|error| match error.path() {
            Some(_) => error,
            None => error.at(self.shards.place(records[nth])),
        })
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let worker = &*scratch.of::<Worker>();
        let bytes = self.shards.bytes(nth, &worker.bytes);
        let mut read = || {
            let varying = self.columns.iter().filter(|column| column.size.is_none()).count();
            let cut = || Error::new(ErrorKind::Data, format!("a record of {} bytes ends in a value", bytes.len()));
            let (sizes, mut rest) = bytes.split_at_checked(varying * 4).ok_or_else(cut)?;
            let mut sizes = sizes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
            for (at, column) in self.columns.iter().enumerate() {
                let size = column.size.or_else(|| sizes.next()).unwrap_or(0);
                let (value, behind) = rest.split_at_checked(size as usize).ok_or_else(cut)?;
                rest = behind;
                for (number, (_, pointer)) in self.found.iter().enumerate().filter(|(_, (found, _))| *found == at) {
                    self.give(column, pointer.as_ref(), value, worker, &mut |value| {
                        visit(number, value).map_err(Error::in_value)
                    })
                    .map_err(|error| error.at_column(&column.name))?;
                }
            }
            match rest {
                [] => Ok(()),
                rest => Err(Error::new(ErrorKind::Data, format!("{} bytes after the last value", rest.len()))),
            }
        };
        read().map_err(|error| error.at(self.shards.place(record)))
    }

    fn chunks(&self) -> Vec<u64> {
        self.shards.chunks()
    }

    fn place(&self, record: u64) -> Location {
        self.shards.place(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        self.shards.name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.shards.fingerprint()
    }
}
