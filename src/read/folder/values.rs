//! The files of a folder as values: their bytes, their names, and their classes by index.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::read::ColumnRef;
use crate::read::container::{Container, FieldInfo, FieldKind, Visit};
use crate::read::fields::{Codec, Field, Numbers};
use crate::read::value::Value;
use crate::read::{Fingerprint, Scratch, check_record};
use crate::storage::Needs;

use super::Members;

/// Fields by their names.
pub(in crate::read) type NamedFields = Vec<(String, Field)>;

/// The index of the class, and its name.
const LABEL: &str = "label";
const CLASS: &str = "class";

/// What has listed the files of a folder.
pub(in crate::read) trait Lists: Send + Sync {
    fn members(&self) -> &Members;
}

/// The files of a folder of `images`, say, with the fields of Hugging Face data sets: `image.bytes`, `image.path` below
/// the folder, and `label`.
pub(in crate::read) struct FileValues {
    listed: Arc<dyn Lists>,
    fields: Vec<FieldInfo>,
    most: u64,
    /// Whether the bytes are wanted.
    reads: bool,
}

impl FileValues {
    /// Files of at most so many bytes, each an `item`.
    pub(in crate::read) fn new(listed: Arc<dyn Lists>, item: &str, most: u64) -> Self {
        let mut fields = vec![
            FieldInfo::new(format!("{item}.bytes"), FieldKind::Bytes),
            FieldInfo::new(format!("{item}.path"), FieldKind::Text),
        ];
        if !listed.members().classes.is_empty() {
            fields.push(FieldInfo::new(LABEL, FieldKind::Numbers(DType::I64)));
        }
        Self { listed, fields, most, reads: true }
    }

    /// The same for these fields alone, which may also take `class`, the name of the class: files are not read if nobody
    /// wants their bytes.
    pub(in crate::read) fn only(mut self, fields: &[(String, Field)]) -> Self {
        if self.fields.len() > 2 {
            self.fields.push(FieldInfo::new(CLASS, FieldKind::Text));
        }
        let bytes = ColumnRef::Name(self.fields[0].name.clone());
        let reads = fields.iter().any(|(name, field)| field.columns(name).contains(&bytes));
        Self { reads, ..self }
    }
}

/// Splits the fields of a folder of an `item` a file into those that its reader decodes itself (the items, and with them
/// one class of which `is_own` holds), and the others, which go through values. All classes get the names that one of
/// them lists.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a field that such a folder does not have, and for classes that list different names.
pub(in crate::read) fn split(
    fields: &[(String, Field)],
    item: &str,
    is_own: impl Fn(&Field) -> bool,
) -> Result<(NamedFields, NamedFields)> {
    let mut fields = fields.iter().map(|field| of_item(field, item)).collect::<Result<NamedFields>>()?;
    let mut listed: Option<Vec<String>> = None;
    for (name, field) in &fields {
        let Some(Some(names)) = class_of(field) else { continue };
        match &listed {
            Some(first) if first != names => {
                let message = "its classes are those of the folder, for which another field lists other names";
                return Err(Error::new(ErrorKind::Config, message).at_column(name));
            }
            _ => listed = Some(names.clone()),
        }
    }
    for (_, field) in fields.iter_mut().filter(|(_, field)| class_of(field).is_some()) {
        if let Codec::Class { names, .. } = &mut field.codec {
            names.clone_from(&listed);
        }
    }
    let is_item = |field: &Field| matches!(field.codec, Codec::Image(_) | Codec::Audio(_));
    let mut has_class = !fields.iter().any(|(_, field)| is_item(field));
    Ok(fields.into_iter().partition(|(_, field)| {
        let is_class = !has_class && class_of(field).is_some() && is_own(field);
        has_class |= is_class;
        is_class || is_item(field)
    }))
}

/// The names that the class of a folder has in a field, if it is one and if they are listed.
pub(in crate::read) fn class_of(field: &Field) -> Option<Option<&Vec<String>>> {
    match &field.codec {
        Codec::Class { names, .. } if field.from == [LABEL.into()] => Some(names.as_ref()),
        _ => None,
    }
}

/// The same field, with the name of what it comes from.
fn of_item((name, field): &(String, Field), item: &str) -> Result<(String, Field)> {
    let fault = |message: String| Err(Error::new(ErrorKind::Config, message).at_column(name));
    let (bytes, path) = (format!("{item}.bytes"), format!("{item}.path"));
    let is_decoded = match field.codec {
        Codec::Image(_) => Some("image"),
        Codec::Audio(_) => Some("audio"),
        _ => None,
    };
    let mut from = field.columns(name);
    if field.from.is_empty() {
        match field.codec {
            Codec::Class { .. } => from = vec![LABEL.into()],
            Codec::Image(_) | Codec::Audio(_) => from = vec![item.into()],
            _ => {}
        }
    }
    // Its classes are those of the folder either way.
    if matches!(field.codec, Codec::Class { .. }) && from == [CLASS.into()] {
        from = vec![LABEL.into()];
    }
    let known = [item, &bytes, &path, LABEL, CLASS];
    let is_one_of = |from: &ColumnRef, names: &[&str]| match from {
        ColumnRef::Name(name) => names.contains(&name.as_str()),
        ColumnRef::Position(_) => false,
    };
    if let Some(other) = from.iter().find(|from| !is_one_of(from, &known)) {
        return fault(format!(
            "from: a folder of files has no field {other}; name {item:?}, {path:?}, \"label\" or \"class\", or leave `from` \
             out for the {item} and its class"
        ));
    }
    let mut field = field.clone();
    if let Some(kind) = is_decoded {
        if kind != item {
            return fault(format!("a folder of {item} files has no field of the kind {kind:?}"));
        }
        if let Some(other) = from.iter().find(|from| !is_one_of(from, &[item, &bytes])) {
            return fault(format!("from: {other} is not decoded as {kind}; leave `from` out, or name {item:?}"));
        }
        if from.len() > 1 {
            return fault(format!("from: a file has one {item}; name {item:?} alone, or leave `from` out"));
        }
        field = field.from(item);
        field.is_file = false;
        return Ok((name.clone(), field));
    }
    if field.is_file {
        return fault(format!("file: the files of this folder are its fields already; name {item:?} in `from`"));
    }
    if from.iter().any(|from| is_one_of(from, &[item])) {
        return fault(format!("from: {item:?} is decoded as {item}; name {bytes:?} for the bytes of the file"));
    }
    field.from = from;
    Ok((name.clone(), field))
}

/// The fields with the names of these classes, by which they are looked up.
pub(in crate::read) fn with_classes(mut fields: NamedFields, classes: &[String]) -> NamedFields {
    // With the names, indices of other folders are never taken for those of this one.
    for (_, field) in fields.iter_mut().filter(|(_, field)| is_label(field)) {
        match &mut field.codec {
            Codec::Numbers(Numbers { dtype, shape: None, max_len: None, list: false, ragged: false, .. })
                if !dtype.is_float() =>
            {
                let codec = Codec::Class { names: Some(classes.to_vec()), one_hot: false, dtype: Some(*dtype) };
                field.role = Some(field.role_or_default());
                (field.from, field.codec) = (vec![CLASS.into()], codec);
            }
            Codec::Category { names: names @ None, .. } => {
                *names = Some(vec![classes.to_vec()]);
                field.from = vec![CLASS.into()];
            }
            _ => {}
        }
    }
    for (_, field) in fields.iter_mut().filter(|(_, field)| class_of(field).is_some()) {
        field.from = vec![CLASS.into()];
        if let Codec::Class { names, .. } = &mut field.codec {
            *names = Some(classes.to_vec());
        }
    }
    fields
}

/// The classes of several folders whose indices become numbers.
#[derive(Default)]
pub(in crate::read) struct ClassLists(Mutex<HashMap<PathBuf, Vec<String>>>);

impl ClassLists {
    /// Adds the classes of a folder, if `fields`, with [names](with_classes), are still made of indices.
    pub(in crate::read) fn add(&self, folder: &Path, fields: &[(String, Field)], classes: &[String]) {
        let is_index = |from: &ColumnRef| matches!(from, ColumnRef::Name(name) if name == LABEL);
        if fields.iter().any(|(_, field)| field.from.iter().any(is_index)) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned(), classes.to_vec());
        }
    }

    /// Checks that an index is the same class in all of these folders.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if not.
    pub(in crate::read) fn check(self, folders: &[PathBuf]) -> Result<()> {
        let lists = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut lists = folders.iter().filter_map(|folder| Some((folder, lists.get(folder)?)));
        let Some((first, classes)) = lists.next() else { return Ok(()) };
        match lists.find(|(_, own)| *own != classes) {
            Some((folder, own)) => Err(other_classes((folder, own), (first, classes))),
            None => Ok(()),
        }
    }
}

/// The error for folders with different classes, where they must have the same.
pub(in crate::read) fn other_classes((folder, own): (&Path, &[String]), (first, classes): (&Path, &[String])) -> Error {
    let message = format!("its classes are {own:?}, but those of {} are {classes:?}", first.display());
    Error::new(ErrorKind::Schema, message).at_path(folder)
}

/// Whether it is made of the index of the class alone.
fn is_label(field: &Field) -> bool {
    matches!(field.from.as_slice(), [ColumnRef::Name(name)] if name == LABEL) && !field.several && !field.is_file
}

/// The first of these fields that comes from the class.
pub(in crate::read) fn of_class(fields: &[(String, Field)]) -> Option<&str> {
    let is_class = |from: &ColumnRef| matches!(from, ColumnRef::Name(name) if name == LABEL || name == CLASS);
    fields.iter().find(|(_, field)| field.from.iter().any(is_class)).map(|(name, _)| name.as_str())
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
        self.listed.members().len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn classes(&self) -> Option<(&str, &[String])> {
        Some((LABEL, &*self.listed.members().classes)).filter(|(_, classes)| !classes.is_empty())
    }

    fn steps(&self, number: usize) -> Option<Vec<String>> {
        let (outer, inner) = self.fields.get(number)?.name.split_once('.')?;
        Some(vec![outer.to_owned(), inner.to_owned()])
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        if self.reads {
            self.listed.members().need(records, self.most, needs);
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
            let members = self.listed.members();
            members.write_path(record, path);
            let read = members.read(record, path, &mut files[nth], self.most, u64::MAX);
            read.map_err(|error| members.located(error, record))?;
        }
        Ok(())
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let members = self.listed.members();
        if self.reads {
            visit(0, Value::Bytes(&scratch.of::<Worker>().files[nth]))?;
        }
        visit(1, Value::Text(&members.relative(record).to_string_lossy()))?;
        let Some(label) = members.label(record) else { return Ok(()) };
        visit(2, Value::I64(label.into()))?;
        if self.fields.len() == 3 {
            return Ok(());
        }
        visit(3, Value::Text(&members.classes[label as usize]))
    }

    fn place(&self, record: u64) -> Location {
        self.listed.members().place(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        self.listed.members().name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.listed.members().fingerprint()
    }
}
