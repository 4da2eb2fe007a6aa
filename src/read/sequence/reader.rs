use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::random::{hash_numbers, hash_texts};
use crate::read::csv::{Choice, ColumnRef, Fault, Plan};
use crate::read::fields::Field;
use crate::read::{Fingerprint, RecordReader, Sample, Scratch};
use crate::row::RowMut;
use crate::schema::{Dim, Extents, Role, Schema, TensorSpec};
use crate::storage::{Files, Needs};

use crate::read::SequenceLabel;

use super::options::SequenceOptions;
use super::source::{self, SequenceScratch, Source};

/// Sequences of CSV records. A sample is one sequence of `steps` rows.
///
/// Columns of numbers become `features`, `f32 [steps, columns]`. Batches are padded with zeros to their longest
/// sequence, and `features_mask`, `f32 [steps]`, is 1 where there is data and 0 in the padding. Labels for each step
/// have their own `labels_mask`. Opening reads every file once, to count the steps and to infer everything that the
/// options leave open.
///
/// ```
/// use ringfeed::read::RecordReader;
/// use ringfeed::sequences::{CsvSequenceReader, SequenceOptions};
///
/// # fn main() -> ringfeed::Result<()> {
/// let reader = CsvSequenceReader::open_grouped("fixtures/iris.csv", "virginica", &SequenceOptions::default())?;
/// assert_eq!(reader.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CsvSequenceReader {
    pub(super) source: Source,
    plan: Plan,
    label: SequenceLabel,
    /// The tensors of the plan, followed by the masks.
    tensors: Vec<TensorSpec>,
    masks: usize,
}

impl CsvSequenceReader {
    /// Every CSV file (`.csv`, `.tsv`, `.tab`, also with `.gz`, `.zst` or `.bz2`) in a folder is a sequence, in the byte order
    /// of their names.
    ///
    /// # Errors
    ///
    /// Those of [`open_files`](Self::open_files).
    pub fn open_folder(path: impl AsRef<Path>, options: &SequenceOptions) -> Result<Self> {
        Self::open_folder_in(&Files::local(), path.as_ref(), &[], options)
    }

    /// As [`open_folder`](Self::open_folder), for a folder of these files, with the tensors of these fields: numbers,
    /// classes, categories and text. Without fields, the tensors are those of [`open_folder`](Self::open_folder).
    ///
    /// # Errors
    ///
    /// As [`open_folder`](Self::open_folder).
    pub fn open_folder_in(
        files: &Files,
        path: impl AsRef<Path>,
        fields: &[(String, Field)],
        options: &SequenceOptions,
    ) -> Result<Self> {
        let choice = Choice::of_all(fields).map_err(|error| error.at_path(path.as_ref()))?;
        let paths = source::csv_files(files, path.as_ref())?;
        let (source, plan) = source::open_files(files, &paths, &choice, options, |_, error| Err(error))?;
        Self::new(source, plan, options)
    }

    /// Each of these files is a sequence, in this order. All must have the same columns.
    ///
    /// # Errors
    ///
    /// Those of [`CsvReader::open`](crate::csv::CsvReader::open) for each file, and
    /// [`ErrorKind::Data`] if the header of a file differs from that of the first.
    pub fn open_files(paths: &[PathBuf], options: &SequenceOptions) -> Result<Self> {
        let (files, choice) = (Files::local(), Choice::default());
        let (source, plan) = source::open_files(&files, paths, &choice, options, |_, error| Err(error))?;
        Self::new(source, plan, options)
    }

    /// Like [`open_folder`](Self::open_folder), but returns the indices of files that can't be read, with the reasons.
    pub(crate) fn open_readable(
        files: &Files,
        path: &Path,
        fields: &[(String, Field)],
        options: &SequenceOptions,
    ) -> Result<(Self, BTreeMap<u64, Error>)> {
        let choice = Choice::of_all(fields).map_err(|error| error.at_path(path))?;
        let mut refused = BTreeMap::new();
        let paths = source::csv_files(files, path)?;
        let (source, plan) = source::open_files(files, &paths, &choice, options, |sample, error| {
            refused.insert(sample, error.at_record(sample));
            Ok(())
        })?;
        Ok((Self::new(source, plan, options)?, refused))
    }

    /// Number of sequences in a folder.
    pub(crate) fn count_in_folder(files: &Files, path: &Path) -> Result<u64> {
        Ok(source::csv_files(files, path)?.len() as u64)
    }

    /// The rows of the file at `path` that have the same field in `column` are a sequence, in the file's order. They
    /// need not be adjacent. Sequences are in the order of their first rows. `column` itself is left out unless a field
    /// names it.
    ///
    /// # Errors
    ///
    /// Those of [`CsvReader::open`](crate::csv::CsvReader::open).
    pub fn open_grouped(
        path: impl AsRef<Path>,
        column: impl Into<ColumnRef>,
        options: &SequenceOptions,
    ) -> Result<Self> {
        Self::open_grouped_in(&Files::local(), path, column, &[], options, &MemoryBudget::unlimited())
    }

    /// As [`open_grouped`](Self::open_grouped), for one of these files, with the tensors of these fields, if there are
    /// any; the index and an unpacked file count against `budget`.
    ///
    /// # Errors
    ///
    /// Also [`ErrorKind::Budget`].
    pub fn open_grouped_in(
        files: &Files,
        path: impl AsRef<Path>,
        column: impl Into<ColumnRef>,
        fields: &[(String, Field)],
        options: &SequenceOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let path = path.as_ref();
        let choice = Choice::of_all(fields).map_err(|error| error.at_path(path))?;
        let (source, plan) = source::open_grouped(files, path, &column.into(), &choice, options, budget)?;
        Self::new(source, plan, options)
    }

    fn new(source: Source, plan: Plan, options: &SequenceOptions) -> Result<Self> {
        let mut tensors = plan.tensors.clone();
        for tensor in &mut tensors {
            if tensor.role != Role::Label || options.label == SequenceLabel::EachStep {
                tensor.shape.insert(0, Dim::Extent(0));
            }
        }
        let mut reader = Self { source, plan, label: options.label, tensors, masks: 0 };
        reader.add_masks()?;
        Ok(reader)
    }

    /// Adds a mask for the features, and one for labels of each step.
    fn add_masks(&mut self) -> Result<()> {
        self.tensors.truncate(self.plan.tensors.len());
        for (role, name) in [(Role::Feature, "features_mask"), (Role::Label, "labels_mask")] {
            if self.tensors.iter().any(|tensor| tensor.role == role && tensor.is_variable()) {
                let mask = TensorSpec::with_dims(name, Role::Mask, DType::F32, vec![Dim::Extent(0)]);
                self.tensors.push(mask);
            }
        }
        self.masks = self.tensors.len() - self.plan.tensors.len();
        Schema::new(self.tensors.clone()).map(|_| ())
    }

    /// Turns this reader's features into labels, unless it has labels.
    pub(super) fn into_labels(mut self) -> Result<Self> {
        let has_labels = self.tensors.iter().any(|tensor| tensor.role == Role::Label);
        for tensor in &mut self.tensors {
            if !has_labels && tensor.role == Role::Feature {
                tensor.role = Role::Label;
                if self.label != SequenceLabel::EachStep {
                    tensor.shape.remove(0);
                }
                if tensor.name == "features" {
                    tensor.name = "labels".to_owned();
                }
            }
        }
        self.add_masks()?;
        Ok(self)
    }

    /// The class names of the label, as [`CsvReader::classes`](crate::csv::CsvReader::classes).
    pub fn classes(&self) -> Option<&std::sync::Arc<[String]>> {
        self.plan.classes()
    }

    /// How many steps sequence `sample` has.
    pub(super) fn steps(&self, sample: u64) -> u32 {
        self.source.steps(sample)
    }

    /// Writes a fetched sequence with its first step at step `shift`.
    pub(super) fn decode_at(
        &self,
        sample: u64,
        nth: usize,
        scratch: &mut SequenceScratch,
        row: &mut RowMut<'_>,
        shift: usize,
    ) -> Result<()> {
        let steps = self.steps(sample) as usize;
        let sequence = scratch.sequence(nth);
        if sequence.count != steps {
            let message = format!("has {} steps, but had {steps} when it was opened", sequence.count);
            return Err(self.source.at(Error::new(ErrorKind::Data, message), sample));
        }
        let planned = self.plan.tensors.len();
        if steps == 0 && self.tensors[..planned].iter().any(|tensor| !tensor.is_variable()) {
            let message = "the sequence has no steps to take its label from";
            return Err(self.source.at(Error::new(ErrorKind::Data, message), sample));
        }
        let SequenceScratch { rows, field, label, .. } = scratch;
        let width = |tensor: usize| self.plan.tensors[tensor].row_shape(&Extents::default()).iter().product::<usize>();
        for step in 0..steps {
            let bytes = rows.get(sequence.first + step, None);
            let found = self.plan.dialect.record(bytes);
            let last = step + 1 == steps;
            self.plan
                .decode(&bytes[..found.len], found.quoted, field, row, |tensor| {
                    if self.tensors[tensor].is_variable() {
                        Some((tensor, (shift + step) * width(tensor)))
                    } else {
                        (last || self.label == SequenceLabel::Constant).then_some((tensor, 0))
                    }
                })
                .and_then(|()| match self.label {
                    SequenceLabel::Constant => self.same_label(step, label, row),
                    _ => Ok(()),
                })
                .map_err(|fault| self.source.locate(fault, sample, step, rows, &sequence, &self.plan.dialect))?;
        }
        for (index, spec) in self.tensors.iter().enumerate().filter(|(_, spec)| spec.is_variable()) {
            let mut tensor = row.tensor(index);
            if index >= planned {
                let mask = tensor.as_mut_slice::<f32>()?;
                mask.fill(0.0);
                mask[shift..shift + steps].fill(1.0);
            } else {
                let step_bytes = width(index) * spec.dtype.bytes();
                let bytes = tensor.bytes_mut();
                bytes[..shift * step_bytes].fill(0);
                bytes[(shift + steps) * step_bytes..].fill(0);
            }
        }
        Ok(())
    }

    /// Checks that step `step` wrote the same labels as the step before.
    fn same_label(&self, step: usize, label: &mut Vec<u8>, row: &mut RowMut<'_>) -> Result<(), Fault> {
        let planned = self.tensors[..self.plan.tensors.len()].iter().enumerate();
        let mut at = 0;
        if step == 0 {
            label.clear();
        }
        for (index, spec) in planned.filter(|(_, spec)| !spec.is_variable()) {
            let mut tensor = row.tensor(index);
            let bytes = tensor.bytes_mut();
            if step == 0 {
                label.extend_from_slice(bytes);
            } else if label[at..at + bytes.len()] != *bytes {
                let message =
                    "the label differs from that of the steps before, but must be the same for a whole sequence";
                return Err(Fault { error: Error::new(ErrorKind::Data, message).at_column(&spec.name), at: 0 });
            }
            at += bytes.len();
        }
        Ok(())
    }
}

impl RecordReader for CsvSequenceReader {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::of_length(self.steps(sample)))
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.source.need(samples.iter().copied(), needs);
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.source.fetch(samples[nth], nth, scratch.of()).map_err(|error| self.source.at(error, samples[nth]))
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.decode_at(sample.id, nth, scratch.of(), row, 0)
    }

    fn place(&self, sample: u64) -> Location {
        self.source.place(sample)
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        name.extend_from_slice(self.source.own_name(sample));
    }

    fn fingerprint(&self) -> Fingerprint {
        let found = self.source.fingerprint();
        Fingerprint { names: hash_numbers([found.names, hash_texts(&self.plan.names)]), ..found }
    }
}
