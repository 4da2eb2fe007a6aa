use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::schema::{Role, TensorSpec};

use super::fields::{Array, Field};
use super::fixed::{
    ArrayHeader, ArraySummary, Endian, FixedRecords, Origin, Stored, StoredType, Wanted, open_only, plain,
    read_fixed_records, wanted,
};
use super::format::{
    ArrayFile, Check, Checks, Details, Fields, Foretold, Format, InspectedRecord, Inspection, Open, Opened, format_has,
};
use super::ignored::IgnoredFiles;
use super::names::is_idx_name;
use super::summary::FieldSummary;
use crate::storage::{Access, EntryKind, Files, Input, Packing, Spool, inflate_error};

/// How an IDX file is read. A field says how its records are decoded: by default they are the tensor `features`,
/// unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IdxOptions {
    /// How the file is read. Compressed files are unpacked into memory, or beyond 1 GiB into a temporary file.
    pub access: Access,
}

/// The format of IDX files (MNIST's format), plain or compressed, and of folders of them.
#[derive(Clone, Copy, Debug)]
pub struct Idx;

impl Format for Idx {
    const NAME: &'static str = "idx";
    type Options = IdxOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        matches!(head, [0, 0, 0x08 | 0x09 | 0x0b..=0x0e, 1..=4, ..])
    }

    fn takes_whole(&self, files: &Files, path: &Path) -> bool {
        files.is_folder(path)
    }

    fn has_name(&self, name: &str) -> bool {
        is_idx_name(Path::new(name))
    }

    fn kind(&self, path: &Path) -> &'static str {
        if path.is_dir() { "idx_folder" } else { Self::NAME }
    }

    fn title(&self) -> Option<&'static str> {
        Some("IDX files (plain, .gz, .zst or .bz2) and folders of them")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        None
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        head.map_or_else(|| is_idx_name(path), |head| self.sniff(head, path))
    }

    format_has!(small_samples, one_array, access);

    fn open(&self, options: &IdxOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        open_only(at, |wanted| IdxReader::open_wanted(at.files, at.path, options, wanted, at.budget))
    }

    fn foretell(&self, options: &IdxOptions, at: &Open<'_>) -> Result<Foretold> {
        let wanted = match at.fields {
            [] => Some(Wanted::default()),
            [(name, field)] => plain(name, field),
            _ => None,
        };
        let Some(wanted) = wanted else { return Foretold::of_opened(self.open(options, at)?.into(), at) };
        let (records, tensor, held_bytes) = IdxReader::foretold(at.files, at.path, &wanted)?;
        Ok(Foretold::numbered(records, vec![tensor], held_bytes))
    }

    fn checks(&self, options: &IdxOptions, at: &Open<'_>) -> Result<Checks> {
        if !at.files.is_folder(at.path) {
            return Checks::of_opened(self.open(options, at)?.into(), true);
        }
        let mut checks = Checks::default();
        for path in IdxFile::paths_in(at.files, at.path)? {
            match IdxReader::open_in(at.files, &path, options, at.budget) {
                Ok(reader) => checks.parts.push(Check::reader(reader, true)),
                Err(error) => checks.refused.push(error),
            }
        }
        Ok(checks)
    }

    fn inspect(&self, options: &IdxOptions, at: &Open<'_>) -> Result<Inspection> {
        if !at.files.is_folder(at.path) {
            let reader = IdxReader::open_in(at.files, at.path, options, at.budget)?;
            return Ok(Inspection::of_array(Self::NAME, reader.summarise()?));
        }
        inspect_folder(at)
    }

    /// In a folder: the file with most records that is not a label file, and the label file with the same number of
    /// records.
    fn sources(&self, files: &Files, path: &Path) -> Result<Vec<(PathBuf, Fields)>> {
        if !files.is_folder(path) {
            return Ok(vec![(path.to_owned(), Vec::new())]);
        }
        let files = IdxFile::in_folder_of(files, path)?;
        // The first one, if several have as many.
        let features = files.iter().filter(|file| !file.is_label()).rev().max_by_key(|file| file.records);
        let Some(features) = features else {
            let message = "a folder of IDX files, all of which hold labels; name one of them";
            return Err(Error::new(ErrorKind::Config, message).at_path(path));
        };
        let mut sources = vec![(features.path.clone(), Vec::new())];
        let mut labels = files.iter().filter(|file| file.is_label() && file.records == features.records);
        match (labels.next(), labels.next()) {
            (None, _) => {}
            (Some(labels), None) => sources.push((labels.path.clone(), Self::label_fields())),
            (Some(_), Some(_)) => {
                let message = format!(
                    "several files of {} labels; name the features and their labels as sources of a configuration",
                    features.records
                );
                return Err(Error::new(ErrorKind::Config, message).at_path(path));
            }
        }
        Ok(sources)
    }
}

impl Idx {
    /// The field of a file of labels.
    pub(crate) fn label_fields() -> Vec<(String, Field)> {
        vec![("labels".to_owned(), Array::new().from("labels").role(Role::Label))]
    }
}

/// A field for each file, named like the file. The records are those of the features; those of label files only if
/// there are no others.
fn inspect_folder(at: &Open<'_>) -> Result<Inspection> {
    let headers = IdxFile::in_folder_of(at.files, at.path)?;
    let only_labels = headers.iter().all(IdxFile::is_label);
    let records = headers.iter().filter(|file| only_labels || !file.is_label()).map(|file| file.records).sum();
    let (mut fields, mut first, mut last, mut files) = (vec![], vec![], vec![], vec![]);
    for header in headers {
        let name = header.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let reader = IdxReader::open_in(at.files, &header.path, &IdxOptions::default(), at.budget)?;
        let summary = reader.summarise()?;
        fields.push(FieldSummary { name: name.clone(), ..summary.field });
        first.push((name.clone(), summary.first));
        last.push((name.clone(), summary.last));
        files.push(ArrayFile { name, records: summary.records });
    }
    let read = IdxFile::paths_in(at.files, at.path)?;
    let ignored = IgnoredFiles::beside(at.files, at.path, |path| read.binary_search(&path.to_owned()).is_ok())?.into();
    Ok(Inspection {
        fields,
        first: Some(InspectedRecord::Numbers(first)),
        last: Some(InspectedRecord::Numbers(last)),
        details: Details::Arrays { files, ignored },
        ..Inspection::new(at.path, "idx_folder", records)
    })
}

/// Records of an IDX file, MNIST's format, plain or compressed: the first dimension counts records, the others are
/// a record's shape.
///
/// Format: two zero bytes, the element type, the number of dimensions (1 to 4), the dimensions as big-endian 32-bit
/// numbers, then the elements, big-endian, row-major (LeCun, Cortes, Burges: "The MNIST database").
#[derive(Debug)]
pub struct IdxReader {
    records: FixedRecords,
}

read_fixed_records!(IdxReader);

/// Deflate can't compress better than this: 258 bytes in two bits.
const DEFLATE_RATIO: u64 = 1032;
const MAX_DIMS: usize = 4;

impl IdxReader {
    /// Opens an IDX file and checks its header against its length, before anything is allocated.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name, [`ErrorKind::Format`] for a wrong or truncated header, missing or
    /// trailing bytes, [`ErrorKind::Schema`] for a type that can't hold the file's.
    pub fn open(path: impl AsRef<Path>, options: &IdxOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, options, &MemoryBudget::unlimited())
    }

    /// As [`IdxReader::open`], with a tensor called `name` as this field says: numbers of one type, the records
    /// unchanged, or classes by their indices.
    ///
    /// # Errors
    ///
    /// As [`IdxReader::open`], and [`ErrorKind::Config`] for any other field.
    pub fn open_as(path: impl AsRef<Path>, name: &str, field: impl Into<Field>, options: &IdxOptions) -> Result<Self> {
        let (path, field) = (path.as_ref(), field.into());
        let wanted = wanted(name, &field).map_err(|error| error.at_path(path))?;
        Self::open_wanted(&Files::local(), path, options, &wanted, &MemoryBudget::unlimited())
    }

    /// As [`IdxReader::open`]; what a compressed file holds counts against `budget`.
    ///
    /// # Errors
    ///
    /// As [`IdxReader::open`], and [`ErrorKind::Budget`].
    pub fn open_within(path: impl AsRef<Path>, options: &IdxOptions, budget: &MemoryBudget) -> Result<Self> {
        Self::open_in(&Files::local(), path, options, budget)
    }

    /// As [`IdxReader::open_within`], for one of these files.
    ///
    /// # Errors
    ///
    /// As [`IdxReader::open_within`].
    pub fn open_in(files: &Files, path: impl AsRef<Path>, options: &IdxOptions, budget: &MemoryBudget) -> Result<Self> {
        Self::open_wanted(files, path.as_ref(), options, &Wanted::default(), budget)
    }

    fn open_wanted(
        files: &Files,
        path: &Path,
        options: &IdxOptions,
        wanted: &Wanted<'_>,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let packing = files.packing(path)?;
        let packed = packing.is_some();
        let (header, file_bytes) = header_of(files, path)?;
        let input = if packed {
            let packed_bytes = files.len(path)?;
            if packing == Some(Packing::Gzip) && file_bytes > packed_bytes.saturating_mul(DEFLATE_RATIO) {
                let message = format!(
                    "the header promises {file_bytes} bytes, more than {packed_bytes} compressed bytes can hold"
                );
                return Err(Error::new(ErrorKind::Format, message).at_path(path).at_byte(0));
            }
            let spool = Spool { budget: budget.clone(), ..Spool::default() };
            let bytes = files.inflated(path, budget)?.take(file_bytes + 1);
            Input::spool(path, bytes, &spool)?
        } else {
            files.open(path, options.access)?
        };
        if input.len() != file_bytes {
            let found = if packed && input.len() > file_bytes { "more".into() } else { input.len().to_string() };
            let message = format!("the header promises {file_bytes} bytes, the file has {found}");
            return Err(Error::new(ErrorKind::Format, message).at_path(path).at_byte(file_bytes.min(input.len())));
        }
        let records = FixedRecords::new(input, &header, wanted).map_err(|error| error.at_path(path))?;
        Ok(Self { records })
    }

    /// What the header of the file at `path` tells: the number of records, their tensor, and how many bytes are held
    /// once the file is open.
    fn foretold(files: &Files, path: &Path, wanted: &Wanted<'_>) -> Result<(u64, TensorSpec, u64)> {
        let (header, file_bytes) = header_of(files, path)?;
        let held = if files.packing(path)?.is_some() { file_bytes } else { 0 };
        let tensor = wanted.tensor(header.stored.kind, &header.shape);
        Ok((header.records, tensor.map_err(|error| error.at_path(path))?, held))
    }

    /// Element type in the file.
    pub fn stored_type(&self) -> StoredType {
        self.records.stored_type()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.records.path()
    }

    /// Reads the whole file for the report of `inspect`.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn summarise(&self) -> Result<ArraySummary> {
        self.records.summarise()
    }
}

/// The header of the file at `path`, and how long the file must be.
fn header_of(files: &Files, path: &Path) -> Result<(ArrayHeader, u64)> {
    header_in(path, files.inflated(path, &MemoryBudget::unlimited())?)
}

fn header_in(path: &Path, mut bytes: impl Read) -> Result<(ArrayHeader, u64)> {
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
    let kind = match magic[2] {
        0x08 => StoredType::U8,
        0x09 => StoredType::I8,
        0x0b => StoredType::I16,
        0x0c => StoredType::I32,
        0x0d => StoredType::F32,
        0x0e => StoredType::F64,
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
    let mut dims = [0u32; MAX_DIMS];
    for (index, dim) in dims[..rank].iter_mut().enumerate() {
        let mut bytes = [0u8; 4];
        exact(&mut bytes, 4 + 4 * index as u64)?;
        *dim = u32::from_be_bytes(bytes);
    }
    let header = ArrayHeader {
        stored: Stored { kind, endian: Endian::Big },
        records: dims[0].into(),
        shape: dims[1..rank].iter().map(|dim| *dim as usize).collect(),
        start: 4 + 4 * rank as u64,
        is_fortran: false,
        origin: Origin::File,
    };
    let (_, file_bytes) = header.sizes().map_err(|error| error.at_path(path).at_byte(4))?;
    Ok((header, file_bytes))
}

/// The header of an IDX file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdxFile {
    /// The file.
    pub path: PathBuf,
    /// Element type.
    pub dtype: DType,
    /// Number of records.
    pub records: u64,
    /// Shape of a record; `[]` for a single number.
    pub shape: Vec<usize>,
}

impl IdxFile {
    /// The IDX files in a folder, by the byte order of their names; only their headers are read. A file counts if it is
    /// called `*-ubyte` or `*.idx` (also with `.gz`, `.zst` or `.bz2`), or begins as one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] without such files, and those of [`IdxReader::open`] for their headers.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Vec<Self>> {
        Self::in_folder_of(&Files::local(), folder.as_ref())
    }

    /// Like [`in_folder`](Self::in_folder), among these files.
    pub(crate) fn in_folder_of(files: &Files, folder: &Path) -> Result<Vec<Self>> {
        let with_header = |path: PathBuf| {
            let (ArrayHeader { stored, records, shape, .. }, _) = header_of(files, &path)?;
            Ok(Self { path, dtype: stored.kind.dtype(), records, shape })
        };
        Self::paths_in(files, folder)?.into_iter().map(with_header).collect()
    }

    /// The paths of those files.
    pub(crate) fn paths_in(files: &Files, folder: &Path) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in files.list(folder)? {
            let path = folder.join(&entry.name);
            let is_array = match is_idx_name(&path) {
                _ if entry.is_hidden() => false,
                true => !entry.is_folder(),
                false => entry.kind == EntryKind::File && header_of(files, &path).is_ok(),
            };
            if is_array {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the folder holds no IDX file").at_path(folder));
        }
        paths.sort();
        Ok(paths)
    }

    /// Whether it holds one whole number per record, as labels do.
    pub fn is_label(&self) -> bool {
        self.shape.is_empty() && !self.dtype.is_float()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::layout::Layout;
    use crate::read::{RecordReader, Sample, Scratch};
    use crate::row::RowMut;
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

    fn decode_all<T: crate::dtype::Element>(reader: &IdxReader) -> Vec<T> {
        let schema = Schema::new(reader.tensors().to_vec()).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 1, Extents::default()).unwrap();
        let mut memory = vec![0u64; layout.bytes().div_ceil(8)];
        let mut scratch = Scratch::default();
        let mut values = Vec::new();
        for id in 0..reader.len() {
            let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut memory), schema.tensors(), &layout, 0);
            reader.fetch(&[id], 0, &mut scratch).unwrap();
            let sample = Sample { id, key: crate::random::RandomKey::new(0) };
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
