use std::collections::HashMap;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::read::{Fingerprint, RecordReader, Sample, Scratch, check_record};
use crate::row::RowMut;
use crate::schema::{Extents, Schema, TensorSpec};
use crate::storage::Needs;

use super::CsvSequenceReader;
use super::options::{Align, Unpaired};
use super::source::{SequenceScratch, Source};

/// Sequences whose features and labels come from two readers.
///
/// A sample is as long as the longer of both; masks say where each has data. Labels for a whole sequence have no steps,
/// and are not aligned.
#[derive(Debug)]
pub struct AlignedSequences {
    features: CsvSequenceReader,
    labels: CsvSequenceReader,
    align: Align,
    tensors: Vec<TensorSpec>,
    pairs: Pairs,
}

/// Which sequence of features and which one of labels each sample consists of.
#[derive(Debug)]
enum Pairs {
    /// The sequences of the same numbers; so many.
    ByPosition(u64),
    ByName(Vec<(u64, u64)>),
}

impl Pairs {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a sequence without a partner, unless it may be dropped.
    fn of(features: &Source, labels: &Source, unpaired: Unpaired) -> Result<Self> {
        let whole = [features, labels].map(|source| (0..source.len()).map(|nth| source.stem(nth)).collect::<Vec<_>>());
        let mut names = whole.each_ref().map(|names| names.iter().map(Vec::as_slice).collect::<Vec<_>>());
        if pairs(&names[0], &numbered(&names[1])).is_empty() {
            names = names.map(what_differs);
            // One name alone may be the same by chance, such as that of nothing but what all have in common.
            let [of_features, of_labels] = &names;
            let common = pairs(of_features, &numbered(of_labels)).len();
            if common < 2 && common < of_features.len().max(of_labels.len()) {
                return Self::by_position(features.len(), labels.len(), unpaired);
            }
        }
        let [of_features, of_labels] = names.each_ref().map(|names| numbered(names));
        let common = of_features.keys().find(|name| of_labels.contains_key(*name)).copied().unwrap_or_default();
        if of_features.len() as u64 != features.len() || of_labels.len() as u64 != labels.len() {
            let message = format!(
                "features and labels have names in common, such as {:?}, but several sequences have one name; a file is \
                 named without its endings",
                String::from_utf8_lossy(common)
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        let first_alone = |from: &Source, names: &[&[u8]], others: &HashMap<&[u8], u64>| {
            (0..).zip(names).find(|(_, name)| !others.contains_key(*name)).map(|(nth, _)| from.name(nth))
        };
        let alone = first_alone(features, &names[0], &of_labels).map(|name| (name, "labels"));
        let alone = alone.or_else(|| Some((first_alone(labels, &names[1], &of_features)?, "features")));
        if let Some((name, others)) = alone.filter(|_| unpaired == Unpaired::Error) {
            let message = format!(
                "{name} has no partner of its name among the {others}; to leave such sequences out, say so with \
                 Unpaired::Drop"
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        Ok(Self::ByName(pairs(&names[0], &of_labels)))
    }

    fn by_position(features: u64, labels: u64, unpaired: Unpaired) -> Result<Self> {
        if features != labels && unpaired == Unpaired::Error {
            let message = format!(
                "{features} sequences of features, but {labels} of labels, and no names in common; to leave the surplus \
                 out, say so with Unpaired::Drop"
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        Ok(Self::ByPosition(features.min(labels)))
    }

    fn len(&self) -> u64 {
        match self {
            Self::ByPosition(count) => *count,
            Self::ByName(pairs) => pairs.len() as u64,
        }
    }

    /// The numbers of the features and of the labels; those of a sample that does not exist do not exist, either.
    fn get(&self, sample: u64) -> (u64, u64) {
        match self {
            Self::ByPosition(_) => (sample, sample),
            Self::ByName(pairs) => {
                let pair = usize::try_from(sample).ok().and_then(|at| pairs.get(at));
                pair.copied().unwrap_or((u64::MAX, u64::MAX))
            }
        }
    }
}

/// The number of each name.
fn numbered<'a>(names: &[&'a [u8]]) -> HashMap<&'a [u8], u64> {
    names.iter().copied().zip(0..).collect()
}

/// The number of each name that is also among the labels, and its number there.
fn pairs(names: &[&[u8]], labels: &HashMap<&[u8], u64>) -> Vec<(u64, u64)> {
    (0..).zip(names).filter_map(|(nth, name)| Some((nth, *labels.get(name)?))).collect()
}

/// The names without what all of them begin with, and then without what all of them end with: `p1` and `p10` of `p1_label`
/// and `p10_label`, which stand in another order.
fn what_differs(mut names: Vec<&[u8]>) -> Vec<&[u8]> {
    let Some(first) = names.first().copied() else { return names };
    let alike = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let begin = names.iter().map(|name| alike(first, name)).min().unwrap_or(0);
    names.iter_mut().for_each(|name| *name = &name[begin..]);
    let first = names[0];
    let alike = |a: &[u8], b: &[u8]| a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let end = names.iter().map(|name| alike(first, name)).min().unwrap_or(0);
    names.iter_mut().for_each(|name| *name = &name[..name.len() - end]);
    names
}

#[derive(Default)]
struct AlignedScratch {
    features: SequenceScratch,
    labels: SequenceScratch,
}

impl AlignedSequences {
    pub(super) fn new(
        features: CsvSequenceReader,
        labels: CsvSequenceReader,
        align: Align,
        unpaired: Unpaired,
    ) -> Result<Self> {
        let labels = labels.into_labels()?;
        let pairs = Pairs::of(&features.source, &labels.source, unpaired)?;
        let tensors = [features.tensors(), labels.tensors()].concat();
        Schema::new(tensors.clone())?;
        let this = Self { features, labels, align, tensors, pairs };
        if align == Align::Equal && this.labels_have_steps() {
            for sample in 0..this.len() {
                let (of_features, of_labels) = this.pairs.get(sample);
                let (features, labels) = (this.features.steps(of_features), this.labels.steps(of_labels));
                if features != labels {
                    let message = format!(
                        "{} has {features} steps, {} has {labels}; they must be equally long, or aligned at start or end",
                        this.features.source.name(of_features),
                        this.labels.source.name(of_labels)
                    );
                    return Err(Error::new(ErrorKind::Data, message).at_record(sample));
                }
            }
        }
        Ok(this)
    }

    fn labels_have_steps(&self) -> bool {
        self.labels.tensors().iter().any(TensorSpec::is_variable)
    }

    /// Number of steps of the features, of the labels, and of both together.
    fn steps(&self, sample: u64) -> (u32, u32, u32) {
        let (of_features, of_labels) = self.pairs.get(sample);
        let features = self.features.steps(of_features);
        if !self.labels_have_steps() {
            return (features, features, features);
        }
        let labels = self.labels.steps(of_labels);
        (features, labels, features.max(labels))
    }
}

impl RecordReader for AlignedSequences {
    fn len(&self) -> u64 {
        self.pairs.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::of_length(self.steps(sample).2))
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.features.source.need(samples.iter().map(|sample| self.pairs.get(*sample).0), needs);
        self.labels.source.need(samples.iter().map(|sample| self.pairs.get(*sample).1), needs);
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let AlignedScratch { features, labels } = scratch.of();
        let sample = samples[nth];
        check_record(sample, self.len())?;
        let (of_features, of_labels) = self.pairs.get(sample);
        for (reader, scratch, own) in [(&self.features, features, of_features), (&self.labels, labels, of_labels)] {
            let fetched = reader.source.fetch(own, nth, scratch);
            fetched.map_err(|error| reader.source.at(error, own).at_record(sample))?;
        }
        Ok(())
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let scratches: &mut AlignedScratch = scratch.of();
        let (features, labels, both) = self.steps(sample.id);
        let shift = |steps: u32| if self.align == Align::End { (both - steps) as usize } else { 0 };
        let (of_features, of_labels) = self.pairs.get(sample.id);
        let at = |error: Error| error.at_record(sample.id);
        let first = self.features.tensors().len();
        let mut part = row.part(0, first);
        let features = self.features.decode_at(of_features, nth, &mut scratches.features, &mut part, shift(features));
        features.map_err(at)?;
        let mut part = row.part(first, self.labels.tensors().len());
        self.labels.decode_at(of_labels, nth, &mut scratches.labels, &mut part, shift(labels)).map_err(at)
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..self.features.place(self.pairs.get(sample).0) }
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        if sample < self.len() {
            self.features.name(self.pairs.get(sample).0, name);
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let (features, labels) = (self.features.fingerprint(), self.labels.fingerprint());
        Fingerprint {
            count: Some(self.len()),
            names: features.names ^ labels.names.rotate_left(1),
            sizes: features.sizes ^ labels.sizes.rotate_left(1),
        }
    }
}
