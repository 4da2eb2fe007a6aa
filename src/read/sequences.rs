//! Records of variable number as one sample: all records of a user, of a patient, or of a file.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

use super::RecordReader;

/// Which steps of a sequence have a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SequenceLabel {
    /// Each step: labels are `[steps, ...]` and have a mask.
    #[default]
    EachStep,
    /// The whole sequence: the label of its last step.
    Last,
    /// The whole sequence: all steps must have the same label.
    Constant,
}

/// Sequences of records as samples, as plain data: a sample is all neighbouring records with the same value of a field,
/// or all records of a file, in their order.
///
/// Any field of any format becomes a tensor through any codec, as for single records, and then has the steps as its
/// first dimension: numbers are `[steps, ..]`, pictures `[steps, 3, height, width]`. A batch is as long as its longest
/// sequence, the others are padded with zeros at their end, and `steps_mask` (u8 `[steps]`) says which steps are data. It
/// is the mask of all tensors without one of their own. Use [`bucket`](crate::Loader::bucket) for batches of similar
/// length.
///
/// Splits and folds take whole sequences. All files are read as one, so a sequence may begin in one file and end in the
/// next, unless it ends with its file ([`each_file`](Self::each_file)): that of the table, if a table names other files, and of
/// several sources that of any.
///
/// Opening reads the field of all records. The stored bytes of all steps of a job's samples, such as the files of
/// pictures, are in a worker's memory at the same time; decoded steps are only if they take less than a megabyte.
///
/// ```
/// use ringfeed::Loader;
/// use ringfeed::field::{Class, Numbers};
/// use ringfeed::read::{SequenceLabel, Sequences};
///
/// let path = "fixtures/iris-species.csv"; // three species, 50 flowers each
/// let mut batches = Loader::open(path)?
///     .field("x", Numbers::f32().from(["sepal_length", "sepal_width"]))
///     .field("species", Class)
///     .sequences(Sequences::by("species").label(SequenceLabel::Constant))
///     .batch_size(3)
///     .build()?;
/// let batch = batches.next().expect("there are samples")?;
/// assert_eq!(batch.tensor("x")?.shape(), [3, 50, 2]);
/// assert_eq!(batch.tensor("steps_mask")?.shape(), [3, 50]);
/// assert_eq!(batch.tensor("species")?.as_slice::<i64>()?, [0, 1, 2]);
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequences {
    /// The field whose value identifies the sequence. The records of a sequence follow one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether a sequence ends with its file.
    #[serde(default)]
    pub each_file: bool,
    /// Which steps have the tensors that are labels.
    #[serde(default)]
    pub label: SequenceLabel,
}

impl Sequences {
    /// Sequences of neighbouring records with the same value of this field.
    pub fn by(field: impl Into<String>) -> Self {
        Self { by: Some(field.into()), each_file: false, label: SequenceLabel::EachStep }
    }

    /// Each file is a sequence.
    pub fn of_files() -> Self {
        Self { by: None, each_file: true, label: SequenceLabel::EachStep }
    }

    /// Ends a sequence with its file, even if the next file begins with the same value.
    #[must_use]
    pub fn each_file(self) -> Self {
        Self { each_file: true, ..self }
    }

    /// Sets which steps have a label.
    #[must_use]
    pub fn label(self, label: SequenceLabel) -> Self {
        Self { label, ..self }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        match (&self.by, self.each_file) {
            (None, false) => vec!["by: name the field whose value identifies a sequence, or set each_file".to_owned()],
            _ => Vec::new(),
        }
    }
}

/// The group of each of so many records: its value, and with `each_file` its files, too, as the readers of all sources
/// have them.
///
/// # Errors
///
/// [`ErrorKind::Config`] for records that are in no file.
pub(crate) fn groups_of(
    readers: &[&dyn RecordReader],
    records: u64,
    values: Option<Vec<u64>>,
    each_file: bool,
) -> Result<Option<Vec<u64>>> {
    if !each_file {
        return Ok(values);
    }
    let mut known: HashMap<(u64, u64), u64> = HashMap::new();
    let (mut files, mut paths): (u64, Vec<Option<PathBuf>>) = (0, Vec::new());
    let group = |record: u64| {
        let own: Vec<_> = readers.iter().map(|reader| reader.source_file(record)).collect();
        if own.iter().all(Option::is_none) {
            return Err(Error::new(ErrorKind::Config, "each_file: the records of this source are in no file"));
        }
        if own != paths {
            (files, paths) = (files + 1, own);
        }
        let next = known.len() as u64;
        Ok(*known.entry((files, values.as_ref().map_or(0, |values| values[record as usize]))).or_insert(next))
    };
    (0..records).map(group).collect::<Result<Vec<u64>>>().map(Some)
}

/// The first record of each group. `what` is what a group is called.
///
/// # Errors
///
/// [`ErrorKind::Data`] for a group whose records do not follow one another.
pub(crate) fn starts_of(groups: &[u64], what: &str) -> Result<Vec<u64>> {
    let (mut starts, mut known): (Vec<u64>, HashSet<u64>) = (Vec::new(), HashSet::new());
    for (record, group) in (0..).zip(groups) {
        if record > 0 && groups[record as usize - 1] == *group {
            continue;
        }
        if !known.insert(*group) {
            let message = format!("its {what} ended some records before; sort the records by {what}");
            return Err(Error::new(ErrorKind::Data, message).at_record(record));
        }
        starts.push(record);
    }
    Ok(starts)
}
