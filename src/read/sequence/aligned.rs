use crate::error::{Error, ErrorKind, Location, Result};
use crate::read::{Fingerprint, RecordReader, Sample, Scratch};
use crate::row::RowMut;
use crate::schema::{Extents, Schema, TensorSpec};
use crate::storage::Needs;

use super::CsvSequenceReader;
use super::options::{Align, Unpaired};
use super::source::SequenceScratch;

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
    len: u64,
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
        let len = features.len().min(labels.len());
        if features.len() != labels.len() && unpaired == Unpaired::Error {
            let message = format!(
                "{} sequences of features, but {} of labels; to leave the surplus out, say so with Unpaired::Drop",
                features.len(),
                labels.len()
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        let tensors = [features.tensors(), labels.tensors()].concat();
        Schema::new(tensors.clone())?;
        let this = Self { features, labels, align, tensors, len };
        if align == Align::Equal && this.labels_have_steps() {
            for sample in 0..len {
                let (features, labels) = (this.features.steps(sample), this.labels.steps(sample));
                if features != labels {
                    let message = format!(
                        "{} has {features} steps, {} has {labels}; they must be equally long, or aligned at start or end",
                        this.features.source.name(sample),
                        this.labels.source.name(sample)
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
        let features = self.features.steps(sample);
        if !self.labels_have_steps() {
            return (features, features, features);
        }
        let labels = self.labels.steps(sample);
        (features, labels, features.max(labels))
    }
}

impl RecordReader for AlignedSequences {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::of_length(self.steps(sample).2))
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.features.source.need(samples.iter().copied(), needs);
        self.labels.source.need(samples.iter().copied(), needs);
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let AlignedScratch { features, labels } = scratch.of();
        let sample = samples[nth];
        for (reader, scratch) in [(&self.features, features), (&self.labels, labels)] {
            reader.source.fetch(sample, nth, scratch).map_err(|error| reader.source.at(error, sample))?;
        }
        Ok(())
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let scratches: &mut AlignedScratch = scratch.of();
        let (features, labels, both) = self.steps(sample.id);
        let shift = |steps: u32| if self.align == Align::End { (both - steps) as usize } else { 0 };
        let first = self.features.tensors().len();
        let mut part = row.part(0, first);
        self.features.decode_at(sample.id, nth, &mut scratches.features, &mut part, shift(features))?;
        let mut part = row.part(first, self.labels.tensors().len());
        self.labels.decode_at(sample.id, nth, &mut scratches.labels, &mut part, shift(labels))
    }

    fn place(&self, sample: u64) -> Location {
        self.features.place(sample)
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        self.features.name(sample, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        let (features, labels) = (self.features.fingerprint(), self.labels.fingerprint());
        Fingerprint {
            count: Some(self.len),
            names: features.names ^ labels.names.rotate_left(1),
            sizes: features.sizes ^ labels.sizes.rotate_left(1),
        }
    }
}
