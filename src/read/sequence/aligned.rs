use std::collections::{HashMap, HashSet};

use crate::error::{Error, ErrorKind, Location, Result};
use crate::read::{Fingerprint, RecordReader, Sample, Scratch, check_record};
use crate::row::RowMut;
use crate::schema::{Extents, Schema, TensorSpec};
use crate::storage::Needs;

use super::options::{Align, Unpaired};
use super::reader::CsvSequenceReader;
use super::source::{SequenceScratch, Source, natural};

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
struct Pairs(Vec<(u64, u64)>);

impl Pairs {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a sequence without a partner, unless it may be dropped, and for sequences of which neither
    /// names nor positions tell the partners.
    fn of(features: &Source, labels: &Source, unpaired: Unpaired) -> Result<Self> {
        let whole = [features, labels].map(|source| (0..source.len()).map(|nth| source.stem(nth)).collect::<Vec<_>>());
        let whole = whole.each_ref().map(|names| names.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut names = keys(&whole);
        if pairs(&names[0], &numbered(&names[1])).is_empty() {
            names = keys(&whole.map(what_differs));
            let common = pairs(&names[0], &numbered(&names[1]));
            // One name alone may be the same by chance, such as that of nothing but what all have in common.
            if common.len() < 2 && common.len() < names[0].len().max(names[1].len()) {
                return Self::by_position(features, labels, common.first());
            }
        }
        let [of_features, of_labels] = names.each_ref().map(|names| numbered(names));
        if of_features.len() as u64 != features.len() || of_labels.len() as u64 != labels.len() {
            let common = of_features.iter().find(|(name, _)| of_labels.contains_key(*name)).map(|(_, nth)| *nth);
            let message = format!(
                "features and labels have names in common, such as that of {}, but several sequences have one name; a \
                 file is named without its endings",
                common.map(|nth| features.name(nth)).unwrap_or_default()
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        let first_alone = |from: &Source, names: &[Vec<u8>], others: &HashMap<&[u8], u64>| {
            (0..).zip(names).find(|(_, name)| !others.contains_key(&***name)).map(|(nth, _)| from.name(nth))
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
        Ok(Self(pairs(&names[0], &of_labels)))
    }

    /// The first sequence of both, the second, and so on, unless `common`, the only ones whose names have something in
    /// common, would then be apart.
    fn by_position(features: &Source, labels: &Source, common: Option<&(u64, u64)>) -> Result<Self> {
        const ADVICE: &str =
            "give the features and the labels of a sequence the same name, such as 01.csv in both folders";
        if features.len() != labels.len() {
            let such_as = |source: &Source| match source.len() {
                0 => String::new(),
                _ => format!(" (such as {})", source.name(0)),
            };
            let message = format!(
                "{} sequences of features{}, but {} of labels{}, and no names in common that tell which of them belong \
                 together; {ADVICE}",
                features.len(),
                such_as(features),
                labels.len(),
                such_as(labels)
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        let mut pairs: Vec<_> = features.in_order().into_iter().zip(labels.in_order()).collect();
        if let Some((of_features, of_labels)) = common
            && let Some((_, other)) = pairs.iter().find(|(nth, other)| nth == of_features && other != of_labels)
        {
            let message = format!(
                "by its position, {} would belong to {}, by its name to {}; {ADVICE}",
                features.name(*of_features),
                labels.name(*other),
                labels.name(*of_labels)
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        pairs.sort_unstable();
        Ok(Self(pairs))
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The numbers of the features and of the labels; those of a sample that does not exist do not exist, either.
    fn get(&self, sample: u64) -> (u64, u64) {
        let pair = usize::try_from(sample).ok().and_then(|at| self.0.get(at));
        pair.copied().unwrap_or((u64::MAX, u64::MAX))
    }
}

/// What is compared of the names of features and labels: with the values of numbers, unless names of one side would then
/// be alike, as `1` and `01` are.
fn keys(names: &[Vec<&[u8]>; 2]) -> [Vec<Vec<u8>>; 2] {
    let values = names.each_ref().map(|names| names.iter().map(|name| natural(name)).collect::<Vec<_>>());
    let alike = names.iter().zip(&values).any(|(names, values)| {
        names.iter().collect::<HashSet<_>>().len() > values.iter().collect::<HashSet<_>>().len()
    });
    if alike { names.each_ref().map(|names| names.iter().map(|name| name.to_vec()).collect()) } else { values }
}

/// The number of each name.
fn numbered(names: &[Vec<u8>]) -> HashMap<&[u8], u64> {
    names.iter().map(Vec::as_slice).zip(0..).collect()
}

/// The number of each name that is also among the labels, and its number there.
fn pairs(names: &[Vec<u8>], labels: &HashMap<&[u8], u64>) -> Vec<(u64, u64)> {
    (0..).zip(names).filter_map(|(nth, name)| Some((nth, *labels.get(&**name)?))).collect()
}

/// The names without what all of them begin with, and then without what all of them end with: `p1` and `p10` of `p1_label`
/// and `p10_label`, which stand in another order. Numbers stay whole.
fn what_differs(mut names: Vec<&[u8]>) -> Vec<&[u8]> {
    let Some(first) = names.first().copied() else { return names };
    let digits = |bytes: &mut dyn Iterator<Item = &u8>| bytes.take_while(|byte| byte.is_ascii_digit()).count();
    let alike = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let mut begin = names.iter().map(|name| alike(first, name)).min().unwrap_or(0);
    if names.iter().any(|name| name.get(begin).is_some_and(u8::is_ascii_digit)) {
        begin -= digits(&mut first[..begin].iter().rev());
    }
    names.iter_mut().for_each(|name| *name = &name[begin..]);
    let first = names[0];
    let alike = |a: &[u8], b: &[u8]| a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let mut end = names.iter().map(|name| alike(first, name)).min().unwrap_or(0);
    if names.iter().any(|name| name[..name.len() - end].last().is_some_and(u8::is_ascii_digit)) {
        end -= digits(&mut first[first.len() - end..].iter());
    }
    names.iter_mut().for_each(|name| *name = &name[..name.len() - end]);
    names
}

#[derive(Default)]
struct AlignedScratch {
    features: SequenceScratch,
    labels: SequenceScratch,
}

impl CsvSequenceReader {
    /// Features from one reader, labels from another. The sequences of one name belong together: of files without their
    /// endings (`a.csv` and `a.tsv.gz`), or of groups. Numbers in names are compared by their values, so `01` is `1`. If no
    /// name is in both, names are compared without what all of one side begin and end with (`subj01` and `label_1`). If not
    /// even two of these are in both, the first sequence of one belongs to the first sequence of the other, and so on:
    /// groups in the order in which they appear, files in the order of their names. That is an error if their numbers
    /// differ, or if the only name in both would get another partner.
    ///
    /// If `labels` has no label columns, its feature columns are the labels.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] if a sequence has no partner and `unpaired` does not allow it, if neither names nor positions
    /// tell what belongs together, or, with [`Align::Equal`], if the lengths of a pair differ (the error names both); [`ErrorKind::Schema`] if both have a
    /// tensor of the same name.
    pub fn aligned(features: Self, labels: Self, align: Align, unpaired: Unpaired) -> Result<AlignedSequences> {
        AlignedSequences::new(features, labels, align, unpaired)
    }
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
