//! The members of samples as fields, for all codecs for which [`TarReader`] has no faster way.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::read::container::{Container, FieldInfo, FieldKind, Visit};
use crate::read::json::give;
use crate::read::value::Value;
use crate::read::{ColumnRef, Fingerprint, RecordReader, Scratch};
use crate::storage::{Files, Needs};

use super::fields::any_fields;
use super::member::Member;
use super::value::Pointer;
use super::{TarOptions, TarReader, Worker};

/// Samples whose members are bytes, or values in JSON.
pub(super) struct TarMembers {
    reader: TarReader,
    /// The members, followed by the lists that were found in JSON.
    fields: Vec<FieldInfo>,
    /// The number of the member among those that are read, and a pointer into it.
    found: Vec<(usize, Option<Pointer>)>,
    extensions: Vec<String>,
    /// For each extension, whether a field is the member itself. Otherwise a sample may lack the member, like any value
    /// inside it.
    are_whole: Vec<bool>,
}

impl TarMembers {
    /// Archives in which `wanted` is found.
    pub(super) fn open(
        files: &Files,
        root: &Path,
        paths: Vec<PathBuf>,
        options: &TarOptions,
        wanted: &[ColumnRef],
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let (mut extensions, mut are_whole): (Vec<String>, Vec<bool>) = Default::default();
        for field in wanted {
            let Member { extension, pointer } = Member::of(field)?;
            let member = extensions.iter().position(|own| *own == extension).unwrap_or_else(|| {
                extensions.push(extension);
                are_whole.push(false);
                are_whole.len() - 1
            });
            are_whole[member] |= pointer.is_none();
        }
        let reader = TarReader::open_all(files, root, paths, any_fields(&extensions), options, budget)?;
        let fields = extensions.iter().map(|extension| FieldInfo::new(extension, FieldKind::Bytes)).collect();
        Ok(Self { reader, fields, found: Vec::new(), extensions, are_whole })
    }
}

impl Container for TarMembers {
    fn len(&self) -> u64 {
        self.reader.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let Member { extension, pointer } = Member::of(field)?;
        let Some(member) = self.extensions.iter().position(|own| *own == extension) else {
            return Err(Error::new(ErrorKind::NotFound, format!("no member {extension:?} is read")));
        };
        let pointer = pointer.as_deref().map(Pointer::new);
        if let (Some(pointer), ColumnRef::Name(name)) = (&pointer, field)
            && !self.fields.iter().any(|field| field.name == *name)
        {
            self.fields.extend(self.reader.lists(member, pointer)?.map(|lists| lists.info(name)));
        }
        self.found.push((member, pointer));
        Ok(self.found.len() - 1)
    }

    fn forget(&mut self) {
        self.found.clear();
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.reader.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let members = scratch.of::<Worker>().members_of(nth, self.extensions.len());
        for (member, buffer) in members.iter_mut().enumerate() {
            if self.are_whole[member] || !self.reader.lacks(records[nth], member) {
                self.reader.read_member(records[nth], member, buffer)?;
            }
        }
        Ok(())
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let wanted = self.extensions.len();
        let Worker { members, buffers, .. } = scratch.of();
        let members = &members[nth * wanted..(nth + 1) * wanted];
        for (number, (member, pointer)) in self.found.iter().enumerate() {
            let given = match pointer {
                None => visit(number, Value::Bytes(&members[*member])),
                Some(_) if self.reader.lacks(record, *member) => visit(number, Value::Missing),
                Some(pointer) => pointer.find(&members[*member]).and_then(|raw| match raw {
                    Some(raw) => give(raw.into(), buffers, &mut |value| visit(number, value)),
                    None => visit(number, Value::Missing),
                }),
            };
            given.map_err(|error| self.reader.located(error, record, *member))?;
        }
        Ok(())
    }

    fn chunks(&self) -> Vec<u64> {
        self.reader.chunks()
    }

    fn place(&self, record: u64) -> Location {
        self.reader.place(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        self.reader.name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.reader.fingerprint()
    }
}
