//! The files of a folder as values: their bytes, their names, and their classes by index.

use std::path::PathBuf;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::Reservation;
use crate::read::ColumnRef;
use crate::read::container::{Container, FieldInfo, FieldKind, Visit};
use crate::read::fields::{Codec, Field};
use crate::read::value::Value;
use crate::read::{Fingerprint, Scratch, check_record};
use crate::storage::Needs;

use super::Members;

/// Fields by their names.
pub(in crate::read) type NamedFields = Vec<(String, Field)>;

/// The field of the class.
const LABEL: &str = "label";

/// The files of a folder of `images`, say, with the fields of Hugging Face data sets: `image.bytes`, `image.path` below
/// the folder, and `label`.
pub(in crate::read) struct FileValues {
    files: Members,
    fields: Vec<FieldInfo>,
    most: u64,
    /// Whether the bytes are wanted.
    reads: bool,
    #[expect(dead_code, reason = "held until the container drops")]
    reservation: Reservation,
}

impl FileValues {
    /// Files of at most so many bytes, each an `item`.
    pub(in crate::read) fn new(files: Members, item: &str, most: u64, reservation: Reservation) -> Self {
        let mut fields = vec![
            FieldInfo::new(format!("{item}.bytes"), FieldKind::Bytes),
            FieldInfo::new(format!("{item}.path"), FieldKind::Text),
        ];
        if !files.classes.is_empty() {
            fields.push(FieldInfo::new(LABEL, FieldKind::Numbers(DType::I64)));
        }
        Self { files, fields, most, reads: true, reservation }
    }

    /// The same for these fields alone: files are not read if nobody wants their bytes.
    pub(in crate::read) fn only(self, fields: &[(String, Field)]) -> Self {
        let is_bytes = |from: &ColumnRef| match from {
            ColumnRef::Name(name) => name != LABEL && *name != self.fields[1].name,
            ColumnRef::Position(_) => true,
        };
        let reads = fields.iter().any(|(name, field)| field.columns(name).iter().any(is_bytes));
        Self { reads, ..self }
    }
}

/// The same field, with the name of what it comes from: an `item`, its bytes or its path, or the class.
///
/// # Errors
///
/// [`ErrorKind::Config`] for anything else.
pub(in crate::read) fn of_item((name, field): &(String, Field), item: &str) -> Result<(String, Field)> {
    let mut field = field.clone();
    if field.from.is_empty() {
        field.from = match field.codec {
            Codec::Class { .. } => vec![LABEL.into()],
            Codec::Image(_) | Codec::Audio(_) => vec![item.into()],
            _ => field.columns(name),
        };
    }
    let known = [item, &format!("{item}.bytes"), &format!("{item}.path"), LABEL];
    let is_known = |from: &ColumnRef| matches!(from, ColumnRef::Name(name) if known.contains(&name.as_str()));
    if let Some(other) = field.from.iter().find(|from| !is_known(from)) {
        let message = format!(
            "from: a folder of files has no field {other}; name {item:?}, \"{item}.path\" or \"label\", or leave `from` \
             out for the {item} and its class"
        );
        return Err(Error::new(ErrorKind::Config, message).at_column(name));
    }
    Ok((name.clone(), field))
}

/// The first of these fields that comes from the class.
pub(in crate::read) fn of_class(fields: &[(String, Field)]) -> Option<&str> {
    let is_class = |from: &ColumnRef| matches!(from, ColumnRef::Name(name) if name == LABEL);
    fields.iter().find(|(name, field)| field.columns(name).iter().any(is_class)).map(|(name, _)| name.as_str())
}

/// A worker's buffers.
#[derive(Default)]
struct Worker {
    path: PathBuf,
    /// One for each position in the job.
    files: Vec<Vec<u8>>,
}

impl Container for FileValues {
    fn len(&self) -> u64 {
        self.files.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn classes(&self) -> Option<(&str, &[String])> {
        Some((LABEL, &*self.files.classes)).filter(|(_, classes)| !classes.is_empty())
    }

    fn steps(&self, number: usize) -> Option<Vec<String>> {
        let (outer, inner) = self.fields.get(number)?.name.split_once('.')?;
        Some(vec![outer.to_owned(), inner.to_owned()])
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        if self.reads {
            self.files.need(records, needs);
        }
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let record = records[nth];
        check_record(record, self.len())?;
        let Worker { path, files } = scratch.of();
        if files.len() <= nth {
            files.resize_with(nth + 1, Vec::new);
        }
        if self.reads {
            self.files.write_path(record, path);
            let read = self.files.read(record, path, &mut files[nth], self.most, u64::MAX);
            read.map_err(|error| self.files.located(error, record))?;
        }
        Ok(())
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        if self.reads {
            visit(0, Value::Bytes(&scratch.of::<Worker>().files[nth]))?;
        }
        visit(1, Value::Text(&self.files.relative(record).to_string_lossy()))?;
        match self.files.label(record) {
            Some(label) => visit(2, Value::I64(label.into())),
            None => Ok(()),
        }
    }

    fn place(&self, record: u64) -> Location {
        self.files.place(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        self.files.name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.files.fingerprint()
    }
}
