mod summary;

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::decode::converts;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::fixed::FixedRecords;
use super::input::{Access, Inflater, Input, Spool, inflate_error, open_file};
use super::{Fingerprint, RecordReader, Sample, Scratch};

pub use summary::{IdxFile, IdxSummary};

/// How an IDX file is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IdxOptions {
    /// Name of the tensor; by default `features`, or `labels` for a label.
    pub name: Option<String>,
    /// What the tensor is to the trainer.
    pub role: Role,
    /// Element type in the batch. By default the file's own; for labels of one number each, `i64`.
    pub dtype: Option<DType>,
    /// Names of the classes that a label's numbers stand for.
    pub classes: Option<Vec<String>>,
    /// How the file is reached. Compressed files are inflated into memory, or beyond 1 GiB into a temporary file.
    pub access: Access,
}

impl Default for IdxOptions {
    fn default() -> Self {
        Self { name: None, role: Role::Feature, dtype: None, classes: None, access: Access::Read }
    }
}

impl IdxOptions {
    /// The options of a file of labels.
    pub fn labels() -> Self {
        Self { role: Role::Label, ..Self::default() }
    }
}

/// Records of an IDX file, MNIST's format, plain or gzip-compressed: the first dimension counts records, the others are
/// a record's shape.
///
/// Format: two zero bytes, the element type, the number of dimensions (1 to 4), the dimensions as big-endian 32-bit
/// numbers, then the elements, big-endian, row-major (LeCun, Cortes, Burges: "The MNIST database").
#[derive(Debug)]
pub struct IdxReader {
    records: FixedRecords,
    count: u64,
    tensors: [TensorSpec; 1],
}

/// Deflate can't compress better than this: 258 bytes in two bits.
const DEFLATE_RATIO: u64 = 1032;
const MAX_DIMS: usize = 4;

/// What the header of an IDX file says.
struct Header {
    dtype: DType,
    dims: Vec<u64>,
    /// Length of header and data together.
    file_bytes: u64,
}

impl Header {
    fn len(&self) -> u64 {
        4 + 4 * self.dims.len() as u64
    }
}

impl IdxReader {
    /// Opens an IDX file and checks its header against its length, before anything is allocated.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name, [`ErrorKind::Format`] for a wrong or truncated header, missing or
    /// trailing bytes, [`ErrorKind::Schema`] for a type that can't hold the file's.
    pub fn open(path: impl AsRef<Path>, options: &IdxOptions) -> Result<Self> {
        Self::open_within(path, options, &MemoryBudget::unlimited())
    }

    /// As [`IdxReader::open`]; what a compressed file holds counts against `budget`.
    ///
    /// # Errors
    ///
    /// As [`IdxReader::open`], and [`ErrorKind::Budget`].
    pub fn open_within(path: impl AsRef<Path>, options: &IdxOptions, budget: &MemoryBudget) -> Result<Self> {
        let path = path.as_ref();
        let packed = Inflater::recognises(path)?;
        let (header, input) = if packed {
            let header = Header::read(path, Inflater::open(path)?)?;
            let packed_bytes = open_file(path)?.metadata().map_err(|error| Error::io(path, error))?.len();
            if header.file_bytes > packed_bytes.saturating_mul(DEFLATE_RATIO) {
                let message = format!(
                    "the header promises {} bytes, more than {packed_bytes} compressed bytes can hold",
                    header.file_bytes
                );
                return Err(Error::new(ErrorKind::Format, message).at_path(path).at_byte(0));
            }
            let spool = Spool { budget: budget.clone(), ..Spool::default() };
            let bytes = Inflater::open(path)?.take(header.file_bytes + 1);
            (header, Input::spool(path, bytes, &spool)?)
        } else {
            (Header::read(path, open_file(path)?)?, Input::open(path, options.access)?)
        };
        if input.len() != header.file_bytes {
            let found = if packed && input.len() > header.file_bytes { "more".into() } else { input.len().to_string() };
            let message = format!("the header promises {} bytes, the file has {found}", header.file_bytes);
            return Err(Error::new(ErrorKind::Format, message)
                .at_path(path)
                .at_byte(header.file_bytes.min(input.len())));
        }
        Self::new(input, &header, options).map_err(|error| error.at_path(path))
    }

    fn new(input: Input, header: &Header, options: &IdxOptions) -> Result<Self> {
        let spec = header.tensor(options)?;
        let record_bytes = header.dims[1..].iter().product::<u64>() as usize * header.dtype.bytes();
        let records = FixedRecords { input, start: header.len(), record_bytes, dtype: header.dtype, big_endian: true };
        Ok(Self { records, count: header.dims[0], tensors: [spec] })
    }

    /// What the header of the file at `path` alone tells: the number of records, their tensor, and how many bytes are
    /// held once the file is open.
    pub(crate) fn foretold(path: &Path, options: &IdxOptions) -> Result<(u64, TensorSpec, u64)> {
        let header = Header::of(path)?;
        let held = if Inflater::recognises(path)? { header.file_bytes } else { 0 };
        Ok((header.dims[0], header.tensor(options).map_err(|error| error.at_path(path))?, held))
    }

    /// Whether the file begins like an IDX file (once decompressed).
    pub(crate) fn recognises(path: &Path) -> Result<bool> {
        Ok(Header::of(path).is_ok())
    }

    /// Element type in the file.
    pub fn stored_dtype(&self) -> DType {
        self.records.dtype
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.records.input.path()
    }
}

impl Header {
    /// The tensor of a record.
    fn tensor(&self, options: &IdxOptions) -> Result<TensorSpec> {
        let shape: Vec<usize> = self.dims[1..].iter().map(|dim| *dim as usize).collect();
        let by_role = if options.role == Role::Label { "labels" } else { "features" };
        let name = options.name.clone().unwrap_or_else(|| by_role.to_owned());
        let index_label = options.role == Role::Label && shape.is_empty() && !self.dtype.is_float();
        let dtype = options.dtype.unwrap_or(if index_label { DType::I64 } else { self.dtype });
        if !converts(self.dtype, dtype) {
            let message = format!("the file holds {}, which does not fit {dtype}", self.dtype);
            return Err(Error::new(ErrorKind::Schema, message).at_column(name));
        }
        let mut spec = TensorSpec::new(name, options.role, dtype, &shape);
        spec.classes = options.classes.as_ref().map(|names| names.as_slice().into());
        Ok(spec)
    }

    fn of(path: &Path) -> Result<Self> {
        if Inflater::recognises(path)? {
            Self::read(path, Inflater::open(path)?)
        } else {
            Self::read(path, open_file(path)?)
        }
    }

    fn read(path: &Path, mut bytes: impl Read) -> Result<Self> {
        let format = |message: String, byte| Error::new(ErrorKind::Format, message).at_path(path).at_byte(byte);
        let mut exact = |into: &mut [u8], byte: u64| {
            bytes.read_exact(into).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    Error::new(ErrorKind::Format, "the file ends inside its IDX header").at_path(path).at_byte(byte)
                }
                _ => inflate_error(path, byte, error),
            })
        };
        let mut magic = [0u8; 4];
        exact(&mut magic, 0)?;
        let dtype = match magic[2] {
            0x08 => DType::U8,
            0x09 => DType::I8,
            0x0b => DType::I16,
            0x0c => DType::I32,
            0x0d => DType::F32,
            0x0e => DType::F64,
            other if magic[..2] == [0, 0] => return Err(format(format!("no IDX element type {other:#04x}"), 2)),
            _ => return Err(format("not an IDX file: it must begin with two zero bytes".to_owned(), 0)),
        };
        if magic[..2] != [0, 0] {
            return Err(format("not an IDX file: it must begin with two zero bytes".to_owned(), 0));
        }
        let rank = usize::from(magic[3]);
        if rank == 0 || rank > MAX_DIMS {
            return Err(format(format!("{rank} dimensions; an IDX file has 1 to {MAX_DIMS}"), 3));
        }
        let mut dims = Vec::with_capacity(rank);
        for index in 0..rank {
            let mut dim = [0u8; 4];
            let byte = 4 + 4 * index as u64;
            exact(&mut dim, byte)?;
            let dim = u64::from(u32::from_be_bytes(dim));
            if dim == 0 && index > 0 {
                return Err(format(format!("dimension {index} is 0, so records would be empty"), byte));
            }
            dims.push(dim);
        }
        let header_bytes = 4 + 4 * rank as u64;
        let file_bytes = dims
            .iter()
            .try_fold(dtype.bytes() as u64, |product, dim| product.checked_mul(*dim))
            .and_then(|bytes| bytes.checked_add(header_bytes))
            .filter(|bytes| *bytes < isize::MAX as u64)
            .ok_or_else(|| format(format!("dimensions {dims:?} have more bytes than a file can hold"), 4))?;
        Ok(Self { dtype, dims, file_bytes })
    }
}

impl RecordReader for IdxReader {
    fn len(&self) -> u64 {
        self.count
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.records.fetch(samples, nth, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.records.decode(sample.id, nth, scratch, &mut row.tensor(0))
    }

    fn place(&self, sample: u64) -> Location {
        Location {
            path: Some(self.path().to_owned()),
            record: Some(sample),
            byte: Some(self.records.offset(sample)),
            ..Location::default()
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.count), names: 0, sizes: self.records.input.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::schema::{Extents, Schema};
    use std::io::Write;

    fn write(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn error(bytes: &[u8]) -> Error {
        IdxReader::open(write(bytes).path(), &IdxOptions::default()).unwrap_err()
    }

    fn decode_all<T: crate::Element>(reader: &IdxReader) -> Vec<T> {
        let schema = Schema::new(reader.tensors().to_vec()).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 1, Extents::default()).unwrap();
        let mut memory = vec![0u64; layout.bytes().div_ceil(8)];
        let mut scratch = Scratch::default();
        let mut values = Vec::new();
        for id in 0..reader.len() {
            let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut memory), schema.tensors(), &layout, 0);
            reader.fetch(&[id], 0, &mut scratch).unwrap();
            let sample = Sample { id, key: crate::RandomKey::new(0) };
            reader.decode(sample, 0, &mut scratch, &mut row).unwrap();
            values.extend_from_slice(row.tensor(0).as_mut_slice::<T>().unwrap());
        }
        values
    }

    #[test]
    fn every_element_type_is_read_big_endian() {
        let file = |code: u8, data: &[u8]| write(&[&[0, 0, code, 1, 0, 0, 0, 2][..], data].concat());
        let open = |file: &tempfile::NamedTempFile| IdxReader::open(file.path(), &IdxOptions::default()).unwrap();
        assert_eq!(decode_all::<u8>(&open(&file(0x08, &[1, 255]))), [1, 255]);
        assert_eq!(decode_all::<i8>(&open(&file(0x09, &[1, 255]))), [1, -1]);
        assert_eq!(decode_all::<i16>(&open(&file(0x0b, &[1, 2, 255, 254]))), [258, -2]);
        assert_eq!(decode_all::<i32>(&open(&file(0x0c, &[0, 0, 1, 0, 255, 255, 255, 255]))), [256, -1]);
        let floats = [1.5f32.to_be_bytes(), (-2.25f32).to_be_bytes()].concat();
        assert_eq!(decode_all::<f32>(&open(&file(0x0d, &floats))), [1.5, -2.25]);
        let floats = [1.5f64.to_be_bytes(), 1e300f64.to_be_bytes()].concat();
        assert_eq!(decode_all::<f64>(&open(&file(0x0e, &floats))), [1.5, 1e300]);
    }

    #[test]
    fn headers_are_lies_until_checked() {
        assert!(error(&[]).to_string().contains("ends inside its IDX header"));
        assert!(error(&[0, 0, 8, 1, 0, 0]).to_string().contains("ends inside its IDX header"));
        assert!(error(b"\x89PNG....").to_string().contains("two zero bytes"));
        assert!(error(&[0, 0, 7, 1, 0, 0, 0, 1, 0]).to_string().contains("0x07"));
        assert!(error(&[0, 0, 8, 5, 0, 0, 0, 1]).to_string().contains("5 dimensions"));
        assert!(error(&[0, 0, 8, 1, 0, 0, 0, 2, 7]).to_string().contains("promises 10 bytes, the file has 9"));
        assert!(error(&[0, 0, 8, 1, 0, 0, 0, 1, 7, 7]).to_string().contains("promises 9 bytes, the file has 10"));
        assert!(error(&[0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0]).to_string().contains("dimension 1 is 0"));
        let huge = [&[0, 0, 14, 4][..], &[255; 16]].concat();
        assert!(error(&huge).to_string().contains("more bytes than a file can hold"));
    }

    #[test]
    fn a_compressed_header_that_no_file_could_keep_is_refused_before_inflating() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&[0, 0, 8, 1, 255, 255, 255, 255, 1, 2, 3]).unwrap();
        let error = error(&gzip.finish().unwrap());
        assert!(error.to_string().contains("compressed bytes can hold"), "{error}");
    }

    #[test]
    fn trailing_bytes_of_a_compressed_file_are_an_error() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&[0, 0, 8, 1, 0, 0, 0, 1, 7, 7, 7]).unwrap();
        let error = error(&gzip.finish().unwrap());
        assert!(error.to_string().contains("the file has more"), "{error}");
    }
}
