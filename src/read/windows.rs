//! Windows over series: consecutive records as one sample.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::random::RandomKey;
use crate::schema::{Dim, Masked, Role, TensorSpec};

use super::sequences::{SequenceLabel, starts_of};

/// Most records per window.
const MAX_RECORDS: usize = 1 << 20;

/// Why windows and a filter exclude each other.
pub(crate) const NO_GAPS: &str = "windows: they consist of consecutive records; with a filter there would be gaps";

/// Why sequences and a filter exclude each other.
pub(crate) const NO_GAPS_IN_SEQUENCES: &str =
    "sequences: they consist of consecutive records; with a filter there would be gaps";

/// Windows over series, for forecasting, as plain data: features are consecutive records, labels are the records after
/// them.
///
/// A sample is `length` consecutive records and the `horizon` records after them. Tensors that are features are made of
/// the former, with shape `[length, ..]`, and tensors that are labels of the latter, with shape `[horizon, ..]`. The
/// next window begins `stride` records later. With a `horizon` of 0, labels are made of the same records as the
/// features.
///
/// All records are one series, or several if `series` names a field or a series ends with its file (`each_file`): the
/// records of a series follow one another, and no window contains records of two series. `part` selects a share of each series: use windows of 0 to 0.8 of the records
/// for training and of 0.8 to 1 for testing, and no record is in both. The start of a window follows from its number
/// alone.
///
/// A [recipe](crate::prepare::Recipe::windows) can have windows, too. They are then saved with what was fitted, every
/// loader with the fitted recipe makes them, and a server makes them of records in memory.
///
/// If overlapping windows follow one another, as they do without a shuffle, a worker reads and decodes shared records
/// once for all windows of a job, unless decoding is random. It then keeps the records of one window, or all records of
/// a job if they take less than a megabyte. They count against the memory budget; without room for them, each window
/// reads its own records.
///
/// ```
/// use ringfeed::Loader;
/// use ringfeed::field::Numbers;
/// use ringfeed::read::Windows;
/// use ringfeed::tensor::Role;
///
/// let path = "fixtures/iris-species.csv"; // three series of 50 records
/// let train = Loader::open(path)?
///     .field("before", Numbers::f32().from(["sepal_length", "sepal_width"]))
///     .field("after", Numbers::f32().from("sepal_length").role(Role::Label))
///     .windows(Windows::new(8, 2).series("species").part(0.0, 0.8))
///     .shuffle(42)
///     .batch_size(16)
///     .build()?;
/// assert_eq!(train.batches_per_epoch(), Some(6)); // 3 * (40 - 9) windows
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Number of records of the features.
    pub length: usize,
    /// Number of records after them, of the labels.
    #[serde(default = "one")]
    pub horizon: usize,
    /// Number of records from the start of a window to the start of the next.
    #[serde(default = "one")]
    pub stride: usize,
    /// The field whose value identifies the series; without it there is one series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Whether a series ends with its file.
    #[serde(default, skip_serializing_if = "is_off")]
    pub each_file: bool,
    /// The part of the records of each series to use: from and to, as shares from 0 to 1.
    #[serde(default = "whole")]
    pub part: (f64, f64),
}

fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_off(flag: &bool) -> bool {
    !flag
}

fn whole() -> (f64, f64) {
    (0.0, 1.0)
}

impl Windows {
    /// Windows of `length` records and the `horizon` records after them, one starting at each record.
    pub fn new(length: usize, horizon: usize) -> Self {
        Self { length, horizon, stride: 1, series: None, each_file: false, part: whole() }
    }

    /// Sets the number of records from the start of a window to the start of the next.
    #[must_use]
    pub fn stride(self, records: usize) -> Self {
        Self { stride: records, ..self }
    }

    /// Keeps windows within series, which the values of this field identify.
    #[must_use]
    pub fn series(self, field: impl Into<String>) -> Self {
        Self { series: Some(field.into()), ..self }
    }

    /// Keeps windows within files: a series ends with its file.
    #[must_use]
    pub fn each_file(self) -> Self {
        Self { each_file: true, ..self }
    }

    /// Uses only a part of each series: from this share of its records to that one, 0 to 1.
    #[must_use]
    pub fn part(self, from: f64, to: f64) -> Self {
        Self { part: (from, to), ..self }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let (mut faults, (from, to)) = (Vec::new(), self.part);
        for (key, number) in [("length", self.length), ("stride", self.stride)] {
            if number == 0 {
                faults.push(format!("{key}: 0; give 1 or more"));
            }
        }
        if self.length.saturating_add(self.horizon) > MAX_RECORDS {
            faults.push(format!("length: with the horizon, a window has {MAX_RECORDS} records at most"));
        }
        if from < 0.0 || to > 1.0 {
            faults.push(format!("part: two numbers from 0 to 1, such as [0.0, 0.8], are a part; found [{from}, {to}]"));
        } else if !(0.0 <= from && from < to && to <= 1.0) {
            faults.push(format!("part: nothing lies between {from} and {to}; the start must be smaller than the end"));
        }
        faults
    }

    /// Whether its windows have the same content as those of `other`. `stride` and `part` only select windows.
    fn are_like(&self, other: &Self) -> bool {
        (self.length, self.horizon, &self.series, self.each_file)
            == (other.length, other.horizon, &other.series, other.each_file)
    }

    /// The fault if a loader has these windows, and its fitted recipe was made for `fitted`.
    pub(crate) fn fault_with(&self, fitted: &Self) -> Option<String> {
        (!self.are_like(fitted)).then(|| {
            format!(
                "windows: {self} in the loader, but {fitted} in its recipe; leave them out of the loader, or change \
                 only stride and part there"
            )
        })
    }

    /// The same without windows: each record once, by itself.
    pub(crate) fn of_single_records(&self) -> Self {
        Self { length: 1, horizon: 0, stride: 1, ..self.clone() }
    }

    /// The positions of windows among so many records. `groups` gives the series of each record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a series whose records are not adjacent, or if no series is as long as a window.
    pub(crate) fn placed(&self, records: u64, groups: Option<&[u64]>) -> Result<Placed> {
        let starts = groups.map_or(Ok(Vec::new()), |groups| starts_of(groups, "series"))?;
        let ends = starts.into_iter().skip(1).chain([records]);
        let (span, stride) = ((self.length + self.horizon) as u64, self.stride as u64);
        let (mut runs, mut count) = (Vec::new(), 0);
        let mut start = 0;
        for end in ends {
            let len = (end - start) as f64;
            let from = start + (len * self.part.0).round() as u64;
            let to = start + (len * self.part.1).round() as u64;
            if let Some(room) = to.saturating_sub(from).checked_sub(span) {
                runs.push((count, from));
                count += room / stride + 1;
            }
            start = end;
        }
        if count == 0 {
            let message = format!("no series has the {span} records of a window in its part");
            return Err(Error::new(ErrorKind::Data, message));
        }
        Ok(Placed { of: SampleOf::Windows(self.clone()), runs, count })
    }
}

impl fmt::Display for Windows {
    /// As in settings: `{ length = 48, horizon = 12, stride = 1, part = [0, 0.8] }`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length, horizon, stride, series, each_file, part: (from, to) } = self;
        write!(f, "{{ length = {length}, horizon = {horizon}, stride = {stride}")?;
        if let Some(series) = series {
            write!(f, ", series = {series:?}")?;
        }
        if *each_file {
            write!(f, ", each_file = true")?;
        }
        write!(f, ", part = [{from}, {to}] }}")
    }
}

/// The mask of the steps of sequences.
pub(crate) const STEPS_MASK: &str = "steps_mask";

/// A tensor of one record, as part of a sample of as many records as `dim` says.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a tensor whose length differs from record to record.
pub(crate) fn windowed_spec(spec: &TensorSpec, dim: Option<Dim>) -> Result<TensorSpec> {
    if spec.is_variable() {
        let message = "its length differs from record to record, and windows and sequences need one; give it a max_len, a \
                       shape or a size";
        return Err(Error::new(ErrorKind::Config, message).at_column(&spec.name));
    }
    let mut windowed = spec.clone();
    // The mask has the records first, too; behind another dimension, it no longer corresponds to neighbouring ones.
    if matches!(windowed.masked, Masked::By { axis: 1.., .. }) {
        windowed.masked = Masked::Unknown;
    }
    windowed.shape.splice(0..0, dim);
    // Applied to each record.
    windowed.affine = None;
    Ok(windowed)
}

/// Windows or sequences with their positions.
pub(crate) struct Placed {
    of: SampleOf,
    /// The first window of each series that has windows, and the record where it begins; or each sequence.
    runs: Vec<(u64, u64)>,
    count: u64,
}

/// What a sample is.
enum SampleOf {
    Windows(Windows),
    /// Sequences, the last of which ends before this record.
    Sequences(SequenceLabel, u64),
}

/// Which records of a sample a tensor is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordsOf {
    /// These of a window.
    Some(Range<usize>),
    /// All of a sequence.
    All,
    /// The last one of a sequence.
    Last,
    /// The last one of a sequence, in which all are the same.
    Constant,
}

impl RecordsOf {
    /// The records, of a sample with so many.
    pub(crate) fn range(&self, records: usize) -> Range<usize> {
        match self {
            Self::Some(range) => range.clone(),
            Self::All => 0..records,
            Self::Last | Self::Constant => records.saturating_sub(1)..records,
        }
    }

    /// The dimension of the records.
    fn dim(&self) -> Option<Dim> {
        match self {
            Self::Some(range) => Some(Dim::Fixed(range.len())),
            Self::All => Some(Dim::Extent(0)),
            Self::Last | Self::Constant => None,
        }
    }
}

impl Placed {
    /// Sequences of these groups of records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a sequence whose records are not adjacent, and for one of too many.
    pub(crate) fn of_sequences(label: SequenceLabel, groups: &[u64]) -> Result<Self> {
        let (starts, records) = (starts_of(groups, "sequence")?, groups.len() as u64);
        let ends = starts.iter().skip(1).copied().chain([records]);
        if let Some((start, _)) = starts.iter().zip(ends).find(|(start, end)| end - *start > u64::from(u32::MAX)) {
            return Err(Error::new(ErrorKind::Data, "a sequence of 2^32 records or more").at_record(*start));
        }
        let runs: Vec<(u64, u64)> = (0..).zip(starts).collect();
        let count = runs.len() as u64;
        Ok(Self { of: SampleOf::Sequences(label, records), runs, count })
    }

    /// Number of samples.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The records of a sample.
    pub(crate) fn records(&self, sample: u64) -> Range<u64> {
        match &self.of {
            SampleOf::Windows(windows) => {
                let run = self.runs.partition_point(|(first, _)| *first <= sample).saturating_sub(1);
                let (first, record) = self.runs[run];
                let start = record + (sample - first) * windows.stride as u64;
                start..start + (windows.length + windows.horizon) as u64
            }
            SampleOf::Sequences(_, end) => {
                let at = sample as usize;
                self.runs[at].1..self.runs.get(at + 1).map_or(*end, |(_, start)| *start)
            }
        }
    }

    /// The records that a tensor is made of. A mask is made of the same records as its tensor.
    pub(crate) fn of(&self, spec: &TensorSpec, tensors: &[TensorSpec]) -> RecordsOf {
        let masked = spec.name.strip_suffix("_mask").filter(|_| spec.role == Role::Mask);
        let masked = masked.and_then(|name| tensors.iter().find(|spec| spec.name == name));
        match (&self.of, masked.unwrap_or(spec).role) {
            (SampleOf::Windows(windows), Role::Label) if windows.horizon > 0 => {
                RecordsOf::Some(windows.length..windows.length + windows.horizon)
            }
            (SampleOf::Windows(windows), _) => RecordsOf::Some(0..windows.length),
            (SampleOf::Sequences(SequenceLabel::Last, _), Role::Label) => RecordsOf::Last,
            (SampleOf::Sequences(SequenceLabel::Constant, _), Role::Label) => RecordsOf::Constant,
            (SampleOf::Sequences(..), _) => RecordsOf::All,
        }
    }

    /// Whether a sample whose records have these tensors needs a mask of its steps.
    pub(crate) fn needs_mask(&self, of_records: &[TensorSpec]) -> bool {
        of_records.iter().any(|spec| self.of(spec, of_records) == RecordsOf::All)
    }

    /// The tensors of a sample whose records have these, and what they are made of. With `masked`, the mask of the steps is
    /// the last tensor.
    ///
    /// # Errors
    ///
    /// As [`windowed_spec`].
    pub(crate) fn tensors(&self, of_records: &[TensorSpec], masked: bool) -> Result<(Vec<TensorSpec>, Vec<RecordsOf>)> {
        let parts: Vec<_> = of_records.iter().map(|spec| self.of(spec, of_records)).collect();
        let tensors = of_records.iter().zip(&parts).map(|(spec, part)| windowed_spec(spec, part.dim()));
        let mut tensors = tensors.collect::<Result<Vec<_>>>()?;
        let mask: Arc<str> = STEPS_MASK.into();
        for (at, part) in parts.iter().enumerate() {
            if *part == RecordsOf::All && of_records[at].mask(of_records.iter()).is_none() {
                tensors[at].masked = Masked::By { mask: mask.clone(), axis: 0 };
            }
        }
        if masked {
            tensors.push(TensorSpec::with_dims(STEPS_MASK, Role::Mask, DType::U8, vec![Dim::Extent(0)]));
        }
        Ok((tensors, parts))
    }

    /// Whether samples are sequences, which keep [chunks](Self::chunks) together.
    pub(crate) fn are_sequences(&self) -> bool {
        matches!(self.of, SampleOf::Sequences(..))
    }

    /// The first sample of each chunk of records.
    pub(crate) fn chunks(&self, of_records: &[u64]) -> Vec<u64> {
        let first = |record: &u64| self.runs.partition_point(|(_, start)| start < record) as u64;
        let mut chunks: Vec<u64> = match self.of {
            SampleOf::Sequences(..) => of_records.iter().map(first).filter(|sample| *sample < self.count).collect(),
            SampleOf::Windows(_) => Vec::new(),
        };
        chunks.dedup();
        chunks
    }

    /// Adds what distinguishes these samples from others of the same records to a key.
    pub(crate) fn fingerprint(&self, key: RandomKey) -> RandomKey {
        let add_runs =
            |key: RandomKey| self.runs.iter().fold(key, |key, (sample, record)| key.with(*sample).with(*record));
        match &self.of {
            SampleOf::Windows(Windows { length, horizon, stride, part: (from, to), series, each_file }) => {
                let key = key.with(*length as u64).with(*horizon as u64);
                let key = key.with(*stride as u64).with(from.to_bits()).with(to.to_bits());
                // Without a series, all windows follow from the numbers above.
                if series.is_some() || *each_file { add_runs(key) } else { key }
            }
            SampleOf::Sequences(label, end) => {
                let label = match label {
                    SequenceLabel::EachStep => 0,
                    SequenceLabel::Last => 1,
                    SequenceLabel::Constant => 2,
                };
                add_runs(key.with(u64::MAX).with(label).with(*end))
            }
        }
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            SampleOf::Windows(windows) => f.debug_tuple("Placed").field(windows).finish(),
            SampleOf::Sequences(label, _) => f.debug_tuple("Placed").field(label).field(&self.count).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By trying every record.
    fn naive(windows: &Windows, groups: &[u64]) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        let mut start = 0;
        while start < groups.len() {
            let end = (start..groups.len()).find(|at| groups[*at] != groups[start]).unwrap_or(groups.len());
            let share = |share: f64| start + ((end - start) as f64 * share).round() as usize;
            let mut at = share(windows.part.0);
            while at + windows.length + windows.horizon <= share(windows.part.1) {
                all.push(at as u64..(at + windows.length + windows.horizon) as u64);
                at += windows.stride;
            }
            start = end;
        }
        all
    }

    #[test]
    fn every_window_is_where_a_naive_loop_finds_it() {
        let groups: Vec<u64> = [7, 0, 3, 1, 12, 2].iter().zip(1u64..).flat_map(|(len, of)| vec![of; *len]).collect();
        for length in 1..5 {
            for horizon in 0..3 {
                for stride in 1..4 {
                    for part in [(0.0, 1.0), (0.0, 0.5), (0.5, 1.0), (0.3, 0.9)] {
                        let windows = Windows { part, ..Windows::new(length, horizon).stride(stride) };
                        for groups in [groups.clone(), vec![1; 20]] {
                            let expected = naive(&windows, &groups);
                            match windows.placed(groups.len() as u64, Some(&groups)) {
                                Ok(placed) => {
                                    let found: Vec<_> =
                                        (0..placed.count).map(|window| placed.records(window)).collect();
                                    assert_eq!(found, expected, "{windows:?}");
                                }
                                Err(_) => assert!(expected.is_empty(), "{windows:?}"),
                            }
                        }
                    }
                }
            }
        }
        let placed = Windows::new(3, 1).placed(10, None).unwrap();
        assert_eq!((placed.count, placed.records(6)), (7, 6..10));
    }

    #[test]
    fn chunks_of_sequences_begin_where_a_sequence_begins() {
        let placed = Placed::of_sequences(SequenceLabel::EachStep, &[1, 1, 2, 2, 2, 3, 4, 4]).unwrap();
        assert_eq!(placed.count(), 4);
        assert_eq!(placed.chunks(&[0, 2, 3, 4, 7]), [0, 1, 2]);
        assert_eq!(placed.chunks(&[0, 6]), [0, 3]);
        assert_eq!((0..4).map(|at| placed.records(at)).collect::<Vec<_>>(), [0..2, 2..5, 5..6, 6..8]);
    }

    #[test]
    fn a_series_in_pieces_is_refused_and_so_are_windows_that_are_none() {
        let error = Windows::new(1, 1).placed(5, Some(&[1, 1, 2, 2, 1])).err().unwrap();
        assert_eq!(error.location().record, Some(4), "{error}");
        assert!(Windows::new(3, 3).placed(5, None).is_err() && Windows::new(1, 0).placed(0, None).is_err());
        for (windows, part) in [
            (Windows::new(0, 1), "1 or more"),
            (Windows::new(1, 1).stride(0), "1 or more"),
            (Windows::new(usize::MAX, usize::MAX), "at most"),
            (Windows::new(1, 1).part(0.5, 0.5), "nothing lies between"),
            (Windows::new(1, 1).part(f64::NAN, 1.0), "nothing lies between"),
            (Windows::new(1, 1).part(0.0, 1.5), "two numbers from 0 to 1"),
        ] {
            assert!(windows.faults()[0].contains(part), "{windows:?}");
        }
    }
}
