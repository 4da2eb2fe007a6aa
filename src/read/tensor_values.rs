//! The tensors of readers as values, for code that needs values.

use std::path::PathBuf;
use std::sync::Arc;

use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::layout::Layout;
use crate::random::RandomKey;
use crate::row::RowMut;
use crate::schema::{Extents, Schema, TensorSpec};
use crate::storage::Needs;

use super::container::{Container, FieldInfo, FieldKind, Visit};
use super::value::Value;
use super::{Fingerprint, RecordReader, Sample, Scratch, check_record};

/// Each tensor is a field of numbers.
pub(super) struct TensorValues {
    parts: Vec<Part>,
    fields: Vec<FieldInfo>,
    len: u64,
}

struct Part {
    reader: Arc<dyn RecordReader>,
    /// The layout of one sample.
    layout: Layout,
}

/// What a worker keeps for each part.
#[derive(Default)]
struct Worker(Vec<(Scratch, Vec<u64>)>);

impl TensorValues {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for tensors whose lengths differ from record to record.
    pub(super) fn new(readers: Vec<Arc<dyn RecordReader>>) -> Result<Self> {
        let (mut parts, mut fields) = (Vec::new(), Vec::new());
        for reader in &readers {
            for spec in reader.tensors() {
                fields.push(field_of(spec)?);
            }
            let mut layout = Layout::default();
            layout.compute(&Schema::new(reader.tensors().to_vec())?, 1, Extents::default())?;
            parts.push(Part { reader: reader.clone(), layout });
        }
        let len = readers.iter().map(RecordReader::len).min().unwrap_or(0);
        Ok(Self { parts, fields, len })
    }
}

fn field_of(spec: &TensorSpec) -> Result<FieldInfo> {
    if spec.is_variable() {
        let message = "its length differs from record to record, so it is not supported as a value yet";
        return Err(Error::new(ErrorKind::Unsupported, message).at_column(&spec.name));
    }
    let shape = spec.row_shape(&Extents::default());
    Ok(FieldInfo::new(&spec.name, FieldKind::Numbers(spec.dtype)).shape(&shape))
}

impl Container for TensorValues {
    fn len(&self) -> u64 {
        self.len
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.parts.iter().for_each(|part| part.reader.need(records, needs));
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(records[nth], self.len)?;
        let Worker(workers) = scratch.of();
        workers.resize_with(self.parts.len(), Default::default);
        // All readers, even after an error, because each must see where a job begins.
        let calls = self.parts.iter().zip(workers).map(|(part, (scratch, _))| part.reader.fetch(records, nth, scratch));
        calls.fold(Ok(()), Result::and)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let Worker(workers) = scratch.of();
        let mut number = 0;
        for (Part { reader, layout }, (scratch, memory)) in self.parts.iter().zip(workers) {
            memory.resize(layout.bytes().div_ceil(size_of::<u64>()), 0);
            let sample = Sample { id: record, key: RandomKey::new(0) };
            let mut row = RowMut::new(bytemuck::cast_slice_mut(memory), reader.tensors(), layout, 0);
            reader.decode(sample, nth, scratch, &mut row)?;
            let bytes: &[u8] = bytemuck::cast_slice(memory);
            for tensor in layout.tensors() {
                let values = &bytes[tensor.offset()..][..tensor.row_bytes()];
                visit(number, Value::Numbers(NumberSlice::of(tensor.dtype(), values)))?;
                number += 1;
            }
        }
        Ok(())
    }

    fn place(&self, record: u64) -> Location {
        self.parts.first().map(|part| part.reader.place(record)).unwrap_or_default()
    }

    fn source_file(&self, record: u64) -> Option<PathBuf> {
        self.parts.first()?.reader.source_file(record)
    }

    fn fingerprint(&self) -> Fingerprint {
        let each = self.parts.iter().map(|part| part.reader.fingerprint());
        each.reduce(Fingerprint::and).unwrap_or_default()
    }
}
