//! Image files as values: their bytes, their names, and their classes by index.

use crate::dtype::DType;
use crate::error::{Location, Result};
use crate::read::container::{Container, FieldInfo, FieldKind, Visit};
use crate::read::value::Value;
use crate::read::{Fingerprint, RecordReader, Scratch};
use crate::storage::Needs;

use super::{ImageFolder, Worker};

/// The files of a folder, with the fields of Hugging Face data sets: `image.bytes`, `image.path` below the folder, and
/// `label`.
pub(super) struct ImageValues {
    folder: ImageFolder,
    fields: Vec<FieldInfo>,
}

impl ImageValues {
    pub(super) fn new(folder: ImageFolder) -> Self {
        let mut fields =
            vec![FieldInfo::new("image.bytes", FieldKind::Bytes), FieldInfo::new("image.path", FieldKind::Text)];
        if !folder.classes().is_empty() {
            fields.push(FieldInfo::new("label", FieldKind::Numbers(DType::I64)));
        }
        Self { folder, fields }
    }
}

impl Container for ImageValues {
    fn len(&self) -> u64 {
        self.folder.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn classes(&self) -> Option<(&str, &[String])> {
        Some(("label", self.folder.classes())).filter(|(_, classes)| !classes.is_empty())
    }

    fn steps(&self, number: usize) -> Option<Vec<String>> {
        let (outer, inner) = self.fields.get(number)?.name.split_once('.')?;
        Some(vec![outer.to_owned(), inner.to_owned()])
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.folder.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.folder.fetch(records, nth, scratch)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        visit(0, Value::Bytes(&scratch.of::<Worker>().files[nth]))?;
        let mut name = Vec::new();
        self.folder.name(record, &mut name);
        visit(1, Value::Text(&String::from_utf8_lossy(&name)))?;
        match self.folder.label(record) {
            Some(label) => visit(2, Value::I64(label.into())),
            None => Ok(()),
        }
    }

    fn place(&self, record: u64) -> Location {
        self.folder.place(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        self.folder.name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.folder.fingerprint()
    }
}
