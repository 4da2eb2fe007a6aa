use std::path::PathBuf;

use serde::Serialize;

use crate::error::Result;
use crate::read::summary::{FieldSummary, Figure, Tally};
use crate::schema::Extents;

use super::{FixedRecords, StoredType};

/// What `inspect` reports about a file of arrays: IDX, NPY or raw.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ArraySummary {
    /// The file.
    pub path: PathBuf,
    /// Number of records.
    pub records: u64,
    /// Statistics over every element, of the type in the file. A file with one whole number per record is called
    /// `labels` and counts as a label, any other `features`. NaN counts as missing.
    pub field: FieldSummary,
    /// The elements of the first record, row-major; `None` without records, or with more than 2^20 elements each.
    pub first: Option<Vec<Figure>>,
    /// The same for the last record.
    pub last: Option<Vec<Figure>>,
}

/// Number of bytes of a file that are read at a time: a whole number of elements of any type.
const CHUNK_BYTES: usize = 64 << 10;

/// Most elements of a record that is shown in full.
const MAX_SHOWN: usize = 1 << 20;

impl FixedRecords {
    /// Reads the whole file.
    pub(crate) fn summarise(&self) -> Result<ArraySummary> {
        let shape = self.tensors[0].row_shape(&Extents::default()).to_vec();
        let elements = shape.iter().product::<usize>();
        let is_integer = !self.stored.kind.dtype().is_float();
        let is_label = shape.is_empty() && is_integer;
        let (name, role) = if is_label { ("labels", "label") } else { ("features", "feature") };
        let figures = self.tally()?;
        let typed = |figure: Figure| figure.typed(is_integer);
        Ok(ArraySummary {
            path: self.path().to_owned(),
            records: self.count,
            field: FieldSummary {
                name: name.to_owned(),
                role: role.to_owned(),
                dtype: self.stored.kind.as_str().to_owned(),
                shape,
                count: figures.count,
                missing: self.count * elements as u64 - figures.count,
                sum: figures.sum().map(typed),
                min: figures.min().map(typed),
                max: figures.max().map(typed),
                mean: figures.mean(),
            },
            first: self.record(0, elements)?,
            last: self.record(self.count.saturating_sub(1), elements)?,
        })
    }

    fn tally(&self) -> Result<Tally> {
        let is_float = self.stored.kind.dtype().is_float();
        let mut tally = Tally::default();
        // For single bytes, each value is counted first: adding up every byte would take most of the time.
        let mut counts = [0u64; 256];
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut at, end) = (self.start, self.offset(self.count));
        while at < end {
            let len = (end - at).min(CHUNK_BYTES as u64) as usize;
            let chunk = &mut chunk[..len];
            self.input.read_at(at, chunk)?;
            match self.stored.kind {
                StoredType::U8 | StoredType::I8 => chunk.iter().for_each(|byte| counts[usize::from(*byte)] += 1),
                StoredType::I64 => self.stored.each::<i64, 8>(chunk, |value| tally.add_integer(value.into())),
                StoredType::U64 => self.stored.each::<u64, 8>(chunk, |value| tally.add_integer(value.into())),
                _ if is_float => self.stored.visit(chunk, |value| {
                    if !value.is_nan() {
                        tally.add(value);
                    }
                }),
                // Integers of 32 bits at most, which f64 holds.
                _ => self.stored.visit(chunk, |value| tally.add_integer(value as i128)),
            }
            at += len as u64;
        }
        for (byte, count) in (0..=u8::MAX).zip(counts) {
            // A byte holds no element of another type, so this visits nothing for them.
            self.stored.visit(&[byte], |value| tally.add_integers(value as i128, count));
        }
        Ok(tally)
    }

    /// The elements of a record.
    fn record(&self, sample: u64, elements: usize) -> Result<Option<Vec<Figure>>> {
        if sample >= self.count || elements > MAX_SHOWN {
            return Ok(None);
        }
        let mut bytes = vec![0; self.record_bytes];
        self.input.read_at(self.offset(sample), &mut bytes)?;
        let mut values = Vec::with_capacity(elements);
        match self.stored.kind {
            StoredType::I64 => self.stored.each::<i64, 8>(&bytes, |value| values.push(Figure::Whole(value.into()))),
            StoredType::U64 => {
                self.stored.each::<i64, 8>(&bytes, |value| values.push(Figure::Whole((value as u64).into())));
            }
            _ => self.stored.visit(&bytes, |value| values.push(value.into())),
        }
        Ok(Some(values))
    }
}
