//! What opening a format takes and gives.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::fields::Field;
use crate::read::tensor_values::TensorValues;
use crate::read::{Container, FieldReader, RecordReader};
use crate::schema::{Schema, TensorSpec};
use crate::storage::Files;

use super::default_fields::default_fields;

/// What is opened, and for which fields.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Open<'a> {
    /// The file, folder or pattern.
    pub path: &'a Path,
    /// The files among which it is.
    pub files: &'a Files,
    /// Memory that the source holds counts against this budget.
    pub budget: &'a MemoryBudget,
    /// The requested tensors; without any, the usual ones of the format. A [`Container`] can ignore them.
    pub fields: &'a [(String, Field)],
    /// Opens files of other formats, for a format that is made of their records.
    pub(in crate::read) others: Option<&'a dyn OpenOthers>,
    /// How many formats it is part of.
    pub(in crate::read) depth: usize,
}

/// So many formats may be made of each other's records.
const MOST_DEPTH: usize = 8;

/// Opens files of any format as records of values.
pub(in crate::read) trait OpenOthers: fmt::Debug + Sync {
    /// Opens files of this format, or of the format detected at the first path.
    fn open_values(&self, format: Option<&str>, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>>;
}

impl<'a> Open<'a> {
    /// Opens a path, without requested tensors.
    pub fn new(path: &'a Path, files: &'a Files, budget: &'a MemoryBudget) -> Self {
        Self { path, files, budget, fields: &[], others: None, depth: 0 }
    }

    /// Sets the requested tensors.
    #[must_use]
    pub fn with_fields(self, fields: &'a [(String, Field)]) -> Self {
        Self { fields, ..self }
    }

    /// Opens files of another format as records of values, for a format that is made of them: of the format with this
    /// name, or of the one that is detected at the first path. A format finds at least the fields that are asked for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a name that no format has; those of detecting and opening;
    /// [`ErrorKind::Unsupported`] outside of a [`SourceConfig`](crate::settings::SourceConfig).
    pub fn open_other(
        &self,
        format: Option<&str>,
        paths: &[PathBuf],
        fields: &[(String, Field)],
    ) -> Result<Box<dyn Container>> {
        let others = self.others.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "needs files of other formats, which cannot be opened here")
        })?;
        let path = paths.first().map_or(self.path, PathBuf::as_path);
        if self.depth >= MOST_DEPTH {
            let message = "its records are those of another file, and so on, without end";
            return Err(Error::new(ErrorKind::Format, message).at_path(path));
        }
        others.open_values(format, paths, &Open { path, fields, depth: self.depth + 1, ..*self })
    }
}

/// The result of opening a format.
#[non_exhaustive]
pub enum Opened {
    /// Fields, from which codecs make tensors.
    Container(Box<dyn Container>),
    /// Tensors that the format makes by itself. If fields are requested, they are made of the numbers of these tensors,
    /// unless these differ in length from record to record, or are random.
    Reader(Arc<dyn RecordReader>),
    /// The tensors of the requested fields, or the format's usual ones: those of each reader one after another.
    Readers(Vec<Arc<dyn RecordReader>>),
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(container) => write!(f, "Container({} records)", container.len()),
            Self::Reader(reader) => write!(f, "Reader({} records)", reader.len()),
            Self::Readers(readers) => write!(f, "Readers({})", readers.len()),
        }
    }
}

impl<C: Container + 'static> From<C> for Opened {
    fn from(container: C) -> Self {
        Self::Container(Box::new(container))
    }
}

impl Opened {
    /// A reader of tensors.
    pub fn reader(reader: impl RecordReader + 'static) -> Self {
        Self::Reader(Arc::new(reader))
    }

    /// The records as values: tensors are numbers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for tensors whose lengths differ from record to record.
    pub(in crate::read) fn into_values(self) -> Result<Box<dyn Container>> {
        match self {
            Self::Container(container) => Ok(container),
            Self::Reader(reader) => Ok(Box::new(TensorValues::new(vec![reader])?)),
            Self::Readers(readers) => Ok(Box::new(TensorValues::new(readers)?)),
        }
    }

    /// Readers of the tensors that `at` asks for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for fields that do not exist, or that can't be decoded as requested; [`ErrorKind::Schema`]
    /// if no fields are asked for and two tensors would have one name.
    pub fn readers(self, at: &Open<'_>) -> Result<Vec<Arc<dyn RecordReader>>> {
        match self {
            Self::Readers(readers) => Ok(readers),
            Self::Reader(reader) if at.fields.is_empty() => Ok(vec![reader]),
            Self::Reader(reader) => {
                // Whoever chooses samples by the tensors reads these.
                let is_choice = at.fields.iter().any(|(_, field)| field.is_outside());
                if is_choice || reader.is_random() || reader.tensors().iter().any(TensorSpec::is_variable) {
                    let message = "the format makes its tensors by itself, and fields are made only of tensors that have one length and \
                                   are not random; leave `fields` out";
                    return Err(Error::new(ErrorKind::Config, message).at_path(at.path));
                }
                let values = TensorValues::new(vec![reader]).map_err(|error| error.at_path(at.path))?;
                FieldReader::with_files(Box::new(values), at.fields, at.files, at.budget)
            }
            Self::Container(container) if at.fields.is_empty() => {
                let fields = default_fields(&*container).map_err(|error| error.at_path(at.path))?;
                let readers = FieldReader::with_files(container, &fields, at.files, at.budget)?;
                // Names may come twice in a file, and where these readers are joined with others, it is not known which
                // file it was.
                let tensors: Vec<_> = readers.iter().flat_map(|reader| reader.tensors()).cloned().collect();
                if !tensors.is_empty() {
                    let schema = Schema::new(tensors);
                    schema.map_err(|error| error.at_path(at.path).and("or name those that you want under `fields`"))?;
                }
                Ok(readers)
            }
            Self::Container(container) => FieldReader::with_files(container, at.fields, at.files, at.budget),
        }
    }
}
