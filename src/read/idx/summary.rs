use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::FieldSummary;
use crate::read::detect::is_idx_name;
use crate::read::summary::Tally;

use super::{Header, IdxOptions, IdxReader};

/// What `inspect` says of an IDX file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdxSummary {
    /// The file.
    pub path: PathBuf,
    /// Number of records: the first dimension.
    pub records: u64,
    /// The figures over every element. A file of one whole number a record is called `labels` and counts as a label,
    /// any other `features`. NaN counts as missing.
    pub field: FieldSummary,
    /// The elements of the first record, row-major; `None` without records, or with more than 2^20 elements each.
    pub first: Option<Vec<f64>>,
    /// The same of the last record.
    pub last: Option<Vec<f64>>,
}

/// How much of a file is looked at at a time: a whole number of elements of any type.
const CHUNK_BYTES: usize = 64 << 10;

/// Most elements of a record that is given as it is.
const MAX_SHOWN: usize = 1 << 20;

impl IdxSummary {
    /// Reads the file at `path`. A compressed one is first inflated into memory, or beyond 1 GiB into a temporary file.
    ///
    /// # Errors
    ///
    /// Those of [`IdxReader::open`].
    pub fn of(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let reader = IdxReader::open(path, &IdxOptions::default())?;
        let dtype = reader.stored_dtype();
        let shape: Vec<usize> = reader.tensors[0].row_shape(&Default::default()).to_vec();
        let figures = reader.tally()?;
        let elements = shape.iter().product::<usize>();
        let is_label = shape.is_empty() && !dtype.is_float();
        let (name, role) = if is_label { ("labels", "label") } else { ("features", "feature") };
        Ok(Self {
            path: path.to_owned(),
            records: reader.count,
            field: FieldSummary {
                name: name.to_owned(),
                role: role.to_owned(),
                dtype: dtype.as_str().to_owned(),
                shape,
                count: figures.count,
                missing: reader.count * elements as u64 - figures.count,
                sum: figures.sum(),
                min: figures.min(),
                max: figures.max(),
                mean: figures.mean(),
            },
            first: reader.record(0, elements)?,
            last: reader.record(reader.count.saturating_sub(1), elements)?,
        })
    }
}

impl IdxReader {
    fn tally(&self) -> Result<Tally> {
        let records = &self.records;
        let mut tally = Tally::default();
        // Of single bytes each value is counted first: an addition for each of them would take most of the time.
        let mut counts = [0u64; 256];
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut at, end) = (records.start, records.input.len());
        while at < end {
            let len = (end - at).min(CHUNK_BYTES as u64) as usize;
            let chunk = &mut chunk[..len];
            records.input.read_at(at, chunk)?;
            match records.dtype {
                DType::U8 | DType::I8 => chunk.iter().for_each(|byte| counts[usize::from(*byte)] += 1),
                _ => records.visit(chunk, |value| {
                    if !value.is_nan() {
                        tally.add(value);
                    }
                }),
            }
            at += len as u64;
        }
        for (byte, count) in (0..=u8::MAX).zip(counts) {
            // No element of another type fits into one byte, so this visits nothing for them.
            records.visit(&[byte], |value| tally.add_many(value, count));
        }
        Ok(tally)
    }

    /// The elements of a record.
    fn record(&self, sample: u64, elements: usize) -> Result<Option<Vec<f64>>> {
        if sample >= self.count || elements > MAX_SHOWN {
            return Ok(None);
        }
        let mut bytes = vec![0; self.records.record_bytes];
        self.records.input.read_at(self.records.offset(sample), &mut bytes)?;
        let mut values = Vec::with_capacity(elements);
        self.records.visit(&bytes, |value| values.push(value));
        Ok(Some(values))
    }
}

/// What the header of an IDX file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// called `*-ubyte` or `*.idx` (also with `.gz`), or begins as one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] without such files, and those of [`IdxReader::open`] for their headers.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Vec<Self>> {
        let folder = folder.as_ref();
        let mut files = Vec::new();
        for path in Self::paths_in(folder)? {
            let Header { dtype, dims, .. } = Header::of(&path)?;
            let shape = dims[1..].iter().map(|dim| *dim as usize).collect();
            files.push(Self { path, dtype, records: dims[0], shape });
        }
        Ok(files)
    }

    /// The paths of those files.
    pub(crate) fn paths_in(folder: &Path) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))? {
            let path = entry.map_err(|error| Error::io(folder, error))?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if !is_hidden && path.is_file() && (is_idx_name(&path) || IdxReader::recognises(&path)?) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the folder holds no IDX file").at_path(folder));
        }
        paths.sort();
        Ok(paths)
    }

    /// Whether it holds one whole number a record, as labels do.
    pub fn is_label(&self) -> bool {
        self.shape.is_empty() && !self.dtype.is_float()
    }
}
